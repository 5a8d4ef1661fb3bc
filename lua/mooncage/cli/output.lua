-- output.lua: what Mooncage itself says. Errors and warnings go to stderr; with --json the one
-- document goes to stdout, and nothing else does. A command's own output never passes here.
local core = require "mooncage.core"
local plain = require "mooncage.plain"
local thrown = require "mooncage.thrown"

local output = {}

local state = { json = false, quiet = false, verbose = 0, color = false, color_out = false,
  terminal_out = false }

local COLORS = { red = "31", yellow = "33", green = "32", bold = "1", dim = "2" }

---@param flags table    of the command line
---@param is_terminal fun(fd: integer): boolean
function output.configure(flags, is_terminal)
  state.json = flags.json or false
  state.quiet = flags.quiet or false
  state.verbose = flags.verbose or 0
  local when = flags.color or "auto"
  local no_color = os.getenv "NO_COLOR"
  local unwanted = (no_color and no_color ~= "") or os.getenv "TERM" == "dumb"
  local function wanted(fd)
    if when ~= "auto" then return when == "always" end
    return not unwanted and is_terminal(fd)
  end
  state.color, state.color_out = wanted(2), wanted(1)
  state.terminal_out = is_terminal(1)
end

function output.is_json() return state.json end
function output.is_quiet() return state.quiet end

local function painted(on, color, text)
  return on and ("\27[%sm%s\27[0m"):format(COLORS[color], text) or text
end

---For stderr, and for stdout.
function output.paint(color, text) return painted(state.color, color, text) end
function output.paint_out(color, text) return painted(state.color_out, color, text) end

---Writes to stdout and sees to it that it got there: a full disk or a closed pipe must not pass
---for success.
---@return boolean
function output.write(text)
  return (io.stdout:write(text) and io.stdout:flush()) and true or false
end

---As write, for text that others wrote: a terminal shows it and does not obey it; in a pipe or a
---file it is what it is.
function output.show(text)
  return output.write(state.terminal_out and plain(text) or text)
end

---One JSON document, on a line of its own.
function output.document(value)
  return output.write(core.encode(value) .. "\n")
end

local function to_stderr(text)
  io.stderr:write(text)
end

function output.warn(message)
  if state.quiet then return end
  message = plain(core.struck(message))
  to_stderr(("mooncage: %s %s\n"):format(output.paint("yellow", "warning:"), message))
end

function output.note(message)
  if state.quiet then return end
  to_stderr(("mooncage: %s\n"):format(plain(core.struck(message))))
end

---Which of the engine's log lines are shown on stderr.
function output.log_level()
  if state.verbose > 0 then return state.verbose > 1 and "debug" or "info" end
  return state.quiet and "error" or "warning"
end

---@param err mooncage.Error or anything else that was thrown
---@param extra table? more members beside "error" in the JSON document
function output.error(err, extra)
  err = thrown(err)
  err.traceback = nil
  if state.json then
    local document = { error = err }
    for key, value in pairs(extra or {}) do document[key] = value end
    output.document(document)
    return
  end
  local message = err.message
  if err.backend then message = err.backend .. ": " .. message end
  to_stderr(("mooncage: %s %s\n"):format(output.paint("red", "error:"), plain(message)))
  local cause = err.cause
  while cause do
    to_stderr(("  because: %s\n"):format(plain(cause.message)))
    cause = cause.cause
  end
  if err.fix then to_stderr(("  %s %s\n"):format(output.paint("bold", "fix:"), plain(err.fix))) end
end

return output
