-- shell.lua: `mooncage shell`: an interactive terminal in a sandbox. Our own terminal is in raw
-- mode meanwhile, so that every key, Ctrl-C too, goes to the one inside; it is put back whatever
-- happens.
local ask = require "mooncage.cli.ask"
local exit = require "mooncage.cli.exit"
local interrupt = require "mooncage.cli.interrupt"
local keepers = require "mooncage.cli.keepers"
local run = require "mooncage.cli.run"
local sandbox = require "mooncage.cli.sandbox"
local spec = require "mooncage.cli.table"
local terminal = require("mooncage.core").terminal

local shell = {}

-- What runs where no command is given: the best shell that is there.
local DEFAULT = {
  "sh", "-c", "if command -v bash >/dev/null; then exec bash -i; else exec sh -i; fi",
}

---Flags that make a sandbox have no meaning in one that is there.
local function check(line)
  if not (terminal.isatty(0) and terminal.isatty(1)) then
    return nil, {
      code = "invalid",
      message = "shell needs a terminal as its input and output",
      fix = "to run a command without one: mooncage run -- CMD",
    }
  end
  if not line.words[1] then return true end
  for _, group in ipairs(spec.by_name.shell.flags) do
    for _, flag in ipairs(group) do
      if line.flags[flag.name] ~= nil and flag.name ~= "tool" then
        return nil, {
          code = "invalid",
          message = ("--%s is for a fresh sandbox, not for session %s"):format(flag.name,
            line.words[1]),
          fix = "leave it out, or leave the id out",
        }
      end
    end
  end
  return true
end

---Runs the command on a terminal of its own, joined to ours.
local function on_terminal(session, argv, tool)
  local cols, rows = terminal.size(1)
  local raw, err = terminal.raw(0)
  if not raw then return nil, err end
  ask.around = {
    leave = function() raw:restore() end,
    enter = function() raw = terminal.raw(0) or raw end,
  }
  terminal.on_signal("WINCH", function() interrupt.resize(terminal.size(1)) end)
  local result, failure = interrupt.during(session, argv, {
    pty = { cols = cols or 80, rows = rows or 24 },
    stdin_fd = 0, stdout_fd = 1, max_output = 0, tool = tool,
    env = { TERM = os.getenv "TERM" or "xterm" },
  })
  terminal.on_signal("WINCH", nil)
  ask.around = nil
  raw:restore()
  return result, failure
end

local function fresh(line)
  local session, err = sandbox.open(line.flags)
  if not session then return nil, err end
  local result, problem = run.steps(session, line.flags, function()
    return on_terminal(session, line.rest or DEFAULT, line.flags.tool)
  end)
  local closed, close_error = sandbox.close(session, result)
  if not result then return nil, problem end
  if not closed then return nil, close_error end
  return result
end

local function in_session(line)
  local config, unread = sandbox.standing(line.flags)
  if not config then return nil, unread end
  local session, err = keepers.open(line.words[1], config)
  if not session then return nil, err end
  local result, problem = on_terminal(session, line.rest or DEFAULT, line.flags.tool)
  session:close()
  return result, problem
end

function shell.main(line)
  local ok, wrong = check(line)
  if not ok then return run.finish(nil, wrong) end
  interrupt.watch()
  local result, err = (line.words[1] and in_session or fresh)(line)
  if result then run.tell(result, line.rest or DEFAULT) end
  return run.finish(result and exit.of_result(result), err)
end

return shell
