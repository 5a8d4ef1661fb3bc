-- stream.lua: talk to a command while it runs: write to its input, read its output as it comes.
-- Run it: mooncage run examples/stream.lua
local mooncage = require "mooncage"

mooncage.with({}, function(session)
  local process = assert(session:start { "sh", "-c", "while read x; do echo $((x * x)); done" })
  for i = 1, 5 do
    assert(process:write(i .. "\n"))
    print(i, "squared is", (assert(process:read()):gsub("%s+$", "")))
  end
  process:close_stdin()
  print("exit status", assert(process:wait()).exit_code)
end)
