-- ask.lua: the guardrail's "ask", put to whoever sits at the terminal. What is shown may come from
-- a model: nothing in it acts on the terminal, and it stays on its line.
local plain = require "mooncage.plain"
local terminal = require("mooncage.core").terminal

local ask = {}

-- Set while the terminal is in raw mode: how to leave it for a question, and to go back.
ask.around = nil

local ERR = 2

---Where an answer can be read: our input, or, when that is something else, the terminal that our
---messages go to.
local function source()
  if not terminal.isatty(ERR) then return nil end
  return terminal.isatty(0) and 0 or ERR
end

---One line, quoted where a shell would need it.
local function quoted(command)
  if command.shell then return "sh -c " .. ("'%s'"):format(command.shell:gsub("'", "'\\''")) end
  local words = {}
  for i, word in ipairs(command.argv) do
    words[i] = word:match "^[%w_@%%+=:,./-]+$" and word or ("'%s'"):format(word:gsub("'", "'\\''"))
  end
  return table.concat(words, " ")
end

---What was answered: the line, or nil at the end of input.
local function read_line(fd)
  local stream = terminal.stream(fd, "r")
  if not stream then return nil end
  local text = ""
  while not text:find "[\r\n]" do
    local bytes = stream:read()
    if not bytes then break end
    text = text .. bytes
  end
  stream:close()
  return text ~= "" and text:match "^[^\r\n]*" or nil
end

---Asks about a command; on_ask of the configuration. Only "y" and "yes" are a yes.
local function question(command, _, reason)
  local fd = source()
  local around = ask.around
  if around then around.leave() end
  io.stderr:write("mooncage: may this run?\n  ", plain(quoted(command), true), "\n")
  if command.cwd then io.stderr:write("  in ", plain(command.cwd, true), "\n") end
  if reason then io.stderr:write("  ", plain(reason, true), "\n") end
  io.stderr:write "[y/N] "
  io.stderr:flush()
  local answer = read_line(fd)
  if not answer then io.stderr:write "\n" end
  if around then around.enter() end
  answer = (answer or ""):lower():match "^%s*(.-)%s*$"
  if answer == "y" or answer == "yes" then return true end
  return false, "the answer at the terminal was no"
end

---The function that asks, or nil where nobody can be asked.
---@param flags table
function ask.at_terminal(flags)
  if flags["no-input"] or not source() then return nil end
  return question
end

return ask
