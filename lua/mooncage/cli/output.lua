-- output.lua: what Mooncage itself says. Errors and warnings go to stderr; with --json the one
-- document goes to stdout, and nothing else does. A command's own output never passes here.
local core = require "mooncage.core"
local plain = require "mooncage.plain"
local thrown = require "mooncage.thrown"

local output = {}

local state = { json = false, quiet = false, verbose = 0, color = false, color_out = false,
  terminal_out = false, lost = nil }

local EPIPE = 32 -- Linux, every architecture we build for

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

---For stderr.
function output.paint(color, text) return painted(state.color, color, text) end

---For stdout: a part of what output.say writes, which paints it when it is clean.
---@return { color: string, text: string }
function output.colored(color, text) return { color = color, text = text } end

---Writes to stdout and sees to it that it got there: a full disk or a closed pipe must not pass
---for success.
---@return boolean
function output.write(text)
  local ok, why, number = io.stdout:write(text)
  if ok then ok, why, number = io.stdout:flush() end
  if ok then return true end
  state.lost = state.lost or { why = why, piped = number == EPIPE }
  return false
end

---Says that output was lost, where nobody has chosen that by closing a pipe.
---@return boolean was_it
---A line for people, of a form like string.format's; what others wrote is in the parts, which are
---shown as one line and cannot act on a terminal, also not on one behind a pipe.
---@param form string
---@param ... string|number|{ color: string, text: string }
---@return boolean
function output.say(form, ...)
  local parts = { ... }
  for i, part in ipairs(parts) do
    if type(part) == "table" then
      parts[i] = painted(state.color_out, part.color, plain(part.text, true))
    elseif type(part) == "string" then
      parts[i] = plain(part, true)
    end
  end
  return output.write(form:format(unpack(parts)))
end

---As write, for text that others wrote and programs read, as a diff: a terminal shows it and does
---not obey it; in a pipe or a file it is what it is.
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

---Says that output was lost, unless by whoever closed a pipe; on stderr, whatever --json says.
---@return boolean was_it
function output.tell_lost()
  local lost = state.lost
  if lost and not lost.piped then
    to_stderr(("mooncage: %s cannot write to standard output: %s\n  %s %s\n"):format(
      output.paint("red", "error:"), plain(lost.why), output.paint("bold", "fix:"),
      "let it go where there is room and it may be written"))
  end
  return lost ~= nil
end

return output
