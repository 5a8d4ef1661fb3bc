-- ten_lines.lua: commands in several sandboxes side by side: mooncage run examples/ten_lines.lua
local mooncage = require "mooncage"
local tasks = {}
for i, text in ipairs { "echo one", "sleep 0.2; echo two", "exit 3", "cat /etc/shadow" } do
  tasks[i] = mooncage.spawn(function()
    return mooncage.with({}, function(session) return session:exec(text, { timeout = 5 }) end)
  end)
end
for _, result in ipairs(assert(mooncage.join(tasks))) do
  io.write(result.exit_code or result.signal, "\t", result.stdout, result.stderr, "\n")
end
