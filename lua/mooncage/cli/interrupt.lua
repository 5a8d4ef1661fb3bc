-- interrupt.lua: signals to `mooncage` itself while a command runs in a sandbox. The first is
-- handed on to it; the second kills it. Before it runs, the first ends everything.
local exit = require "mooncage.cli.exit"
local core = require "mooncage.core"
local terminal = core.terminal

local interrupt = {}

local NAMES = { "INT", "TERM", "HUP", "QUIT" }

-- What runs now, and which signal made us kill it.
local state = { process = nil, asked = false, killed_by = nil }

local function on_signal(name)
  if not state.process then core.exit(128 + exit.signal_number(name)) end -- closes what is open
  if not state.asked and not state.process:_waits() and state.process:signal(name) then
    state.asked = true
    return
  end
  state.killed_by = name
  state.process:cancel()
end

---From now on signals are ours to judge.
function interrupt.watch()
  for _, name in ipairs(NAMES) do
    terminal.on_signal(name, function() on_signal(name) end)
  end
end

---Starts a command and waits for it.
---@return mooncage.Result? result, table? err
function interrupt.during(session, argv, options)
  local process, err = session:_attach(argv, options)
  if not process then return nil, err end
  state.process, state.asked = process, false
  local result, failure = process:wait()
  state.process = nil
  -- A reader that left is the end of a pipeline; a full disk is a failure of ours.
  if result and process._lost and process._lost ~= "EPIPE" then
    return nil, {
      code = "unavailable",
      message = "cannot write the command's output: " .. process._lost,
      fix = "its output went to a place that does not take it; see where stdout and stderr lead",
    }
  end
  return result, failure
end

---The window of our terminal has another size.
function interrupt.resize(cols, rows)
  if state.process and cols then state.process:resize(cols, rows) end
end

---Did a signal to us kill the command? Then its exit status says so, and nothing else needs saying.
---@return integer?
function interrupt.status()
  return state.killed_by and 128 + exit.signal_number(state.killed_by)
end

return interrupt
