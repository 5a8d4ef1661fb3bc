-- hooks.lua: functions that are told what happens: a journal of every command, with who asked for
-- it and how it ended, kept by hooks. Run it: mooncage run examples/hooks.lua
local mooncage = require "mooncage"

local journal = {}

local config = {
  agent = "reviewer", -- these two go to every hook as they are
  context = { ticket = 4711 },
  hooks = {
    on_sandbox_start = function(context, agent, session)
      journal[#journal + 1] = ("%s, ticket %d: a %s"):format(agent, context.ticket, session.backend)
    end,
    on_sandbox_exec_start = function(_, _, command, exec)
      -- A hook may use the sandbox: commands of hooks fire no hooks.
      local before = assert(exec.session:exec "ls | wc -l").stdout
      journal[#journal + 1] = ("  %s, with %d files there"):format(
        table.concat(command.words or { command.shell }, " "), tonumber(before))
    end,
    on_sandbox_exec_end = function(_, _, _, result, exec)
      mooncage.sleep(0.01) -- it may wait, for a database, say
      journal[#journal + 1] = result
        and ("    ended with %s"):format(result.exit_code or result.signal)
        or ("    did not run: %s"):format(exec.error.code)
    end,
    on_sandbox_stop = function(_, _, _, usage)
      journal[#journal + 1] = ("%d commands"):format(usage.exec_count)
    end,
  },
}

assert(mooncage.with(config, function(session)
  assert(session:exec { "touch", "one", "two" })
  assert(session:exec "exit 3")
  assert(session:exec("sleep 60", { timeout = 0.05 }))
  return true
end))

print(table.concat(journal, "\n"))
