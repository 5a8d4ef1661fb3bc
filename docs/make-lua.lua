-- make-lua.lua: writes the reference of the module from lua/mooncage/types.lua, the one place where
-- functions and fields are described: docs/lua.md, or with "man" the page mooncage(3).
--   luajit docs/make-lua.lua > docs/lua.md
--   luajit docs/make-lua.lua man > docs/mooncage.3
local directory = arg and arg[0] and arg[0]:match "^(.*)/[^/]*$" or "docs"
local types = directory .. "/../lua/mooncage/types.lua"

local OWNERS = {
  mooncage = "mooncage.", Task = "task:", Session = "session:", Process = "process:",
  audit = "mooncage.audit.",
}

---A type as prose shows it: no "mooncage." before names that are explained on the page.
local function plain(text)
  return (text:gsub("mooncage%.(%u%w*)", "%1"))
end

---Cuts "name type the rest" where the type ends: brackets and "fun(…): …" hold blanks.
local function cut_type(text)
  local depth, at = 0, 1
  while at <= #text do
    local char = text:sub(at, at)
    if char:match "[%(%{%[<]" then depth = depth + 1 end
    if char:match "[%)%}%]>]" then depth = depth - 1 end
    if char == " " and depth == 0 and text:sub(at - 1, at - 1) ~= ":" then break end
    at = at + 1
  end
  return plain(text:sub(1, at - 1)), plain(text:sub(at + 1))
end

-- ---- reading -----------------------------------------------------------------------------------

---What the types say, in order: { kind = "class", name, notes }, { "alias", name, notes, type },
---{ "field", name, type, text },
---{ "function", name, notes, parameters = { { name, type, text } }, returns }, { "codes", list }.
local items, intro = {}, {}
local notes, parameters, returns = {}, {}, {}

local function add(kind, item)
  item.kind = kind
  items[#items + 1] = item
end

local function take_notes()
  local text = table.concat(notes, " ")
  notes = {}
  return text
end

local function add_function(owner, name, arguments)
  local item = { name = (OWNERS[owner] or "") .. name, arguments = arguments, parameters = {},
    returns = returns, notes = take_notes() }
  for i, parameter in ipairs(parameters) do
    local word, rest = parameter:match "^(%S+) (.*)$"
    local kind, text = cut_type(rest)
    item.parameters[i] = { name = word, type = kind, text = text }
  end
  for i, value in ipairs(returns) do returns[i] = plain(value) end
  add("function", item)
  parameters, returns = {}, {}
end

local function read(line)
  local tag, rest = line:match "^%-%-%-@(%w+) ?(.*)$"
  if tag == "class" then
    local name = rest:match "^mooncage%.?(%w*)"
    if name ~= "" then add("class", { name = name, notes = take_notes() }) end
  elseif tag == "field" then
    local name, after = rest:match "^(%S+) (.*)$"
    local kind, text = cut_type(after)
    add("field", { name = name, type = kind, text = text })
  elseif tag == "param" then
    parameters[#parameters + 1] = rest
  elseif tag == "return" then
    returns[#returns + 1] = rest
  elseif tag == "alias" then
    local name, kind = rest:match "^mooncage%.(%w+) (.*)$"
    local list = {}
    for code in kind:gmatch '"([%w_]+)"' do list[#list + 1] = code end
    if name == "Code" then
      add("codes", { list = list })
    else
      add("alias", { name = name, type = plain(kind), notes = take_notes() })
    end
  elseif line:match "^%-%-%-[^@]" then
    notes[#notes + 1] = line:match "^%-%-%-(.*)$"
  elseif line:match "^function " then
    local owner, name, arguments = line:match "^function (%w-)[.:]?([%w_]+)%((.-)%) end"
    add_function(owner, name, arguments)
  elseif line == "" then
    notes, parameters, returns = {}, {}, {}
  end
end

local function read_all()
  local started = false
  for line in io.lines(types) do
    if not started and line:match "^%-%- " then
      intro[#intro + 1] = line:match "^%-%- (.*)$"
    elseif not started and line == "--" then
      intro[#intro + 1] = ""
    elseif line ~= "---@meta mooncage" then
      started = true
      read(line)
    end
  end
end

---What the first comment says, after what the file is for: paragraphs.
local function paragraphs()
  local list = {}
  for paragraph in (table.concat(intro, "\n"):gsub("^types.lua:[^\n]*\n", "") .. "\n\n")
    :gmatch "(.-)\n\n+" do
    if paragraph ~= "" then list[#list + 1] = paragraph:gsub("^\n", "") end
  end
  return list
end

-- ---- docs/lua.md -------------------------------------------------------------------------------

local markdown = {}

local function bars(text) return (text:gsub("|", "\\|")) end

markdown["class"] = function(out, item)
  out(("\n## %s\n"):format(item.name))
  if item.notes ~= "" then out(item.notes .. "\n") end
end

markdown["field"] = function(out, item, before)
  if before ~= "field" then out "| field | type | |\n|---|---|---|" end
  out(("| `%s` | `%s` | %s |"):format(item.name, bars(item.type), bars(item.text)))
end

markdown["function"] = function(out, item)
  out(("\n### %s(%s)\n"):format(item.name, item.arguments))
  if item.notes ~= "" then out(item.notes .. "\n") end
  for _, parameter in ipairs(item.parameters) do
    local text = parameter.text ~= "" and ", " .. bars(parameter.text) or ""
    out(("- `%s`: `%s`%s"):format(parameter.name, parameter.type, text))
  end
  for _, value in ipairs(item.returns) do out(("- returns `%s`"):format(value)) end
end

markdown["codes"] = function(out, item)
  out(("\nError codes: `%s`."):format(table.concat(item.list, "`, `")))
end

markdown["alias"] = function(out, item)
  markdown["class"](out, item)
  out(("`%s`"):format(item.type))
end

local function write_markdown()
  local page = {}
  local function out(text) page[#page + 1] = text end
  local before
  for _, item in ipairs(items) do
    markdown[item.kind](out, item, before)
    before = item.kind
  end
  io.write [[
# The Lua module

Made by `luajit docs/make-lua.lua` from lua/mooncage/types.lua, which editors with LuaLS read too.

```lua
local mooncage = require "mooncage"
```

]]
  io.write(table.concat(paragraphs(), "\n\n"), "\n", table.concat(page, "\n"), "\n")
end

-- ---- mooncage(3) -------------------------------------------------------------------------------

---Text for a roff line: no backslash of its own, no control character at its start.
local function roff(text)
  text = text:gsub("\\", "\\e"):gsub("^([.'])", "\\&%1"):gsub("%-", "\\-"):gsub("…", "...")
  return (text:gsub("(%w)%(%)", "%1\\&()")) -- no link to a page of that name
end

---In quotes, so that no word is taken for a macro.
local function word(text)
  return '"' .. roff(text):gsub('"', '""'):gsub("[.,:;?!)]$", "%0\\&") .. '"'
end

---Lines of at most 78 characters.
local function wrapped(out, text)
  local line = ""
  for each in text:gmatch "%S+" do
    if line ~= "" and #line + #each > 70 then
      out(roff(line))
      line = ""
    end
    line = line == "" and each or line .. " " .. each
  end
  if line ~= "" then out(roff(line)) end
end

---A sentence starts a line, as mdoc wants it.
local function prose(out, text)
  local rest = text:gsub("%s+", " ") .. " "
  while rest ~= "" do
    local sentence, after = rest:match "^(.-[.?!:]) +(.*)$"
    if not sentence then sentence, after = rest, "" end
    wrapped(out, sentence)
    rest = after
  end
end

local page = {}

page["class"] = function(out, item)
  out(".Ss " .. word(item.name))
  if item.notes ~= "" then prose(out, item.notes) end
end

local function entry(out, item)
  out((".It %s No : %s"):format(word(item.name), word(item.type)))
  if item.text ~= "" then prose(out, item.text) end
end

page["field"] = function(out, item, before, after)
  if before ~= "field" then out ".Bl -tag -width Ds" end
  entry(out, item)
  if after ~= "field" then out ".El" end
end

page["function"] = function(out, item)
  out ".Pp"
  out(".Sy " .. word(("%s(%s)"):format(item.name, item.arguments)))
  if item.notes ~= "" then
    out ".Pp"
    prose(out, item.notes)
  end
  if #item.parameters + #item.returns == 0 then return end
  out ".Bl -tag -width Ds -compact"
  for _, parameter in ipairs(item.parameters) do entry(out, parameter) end
  for _, value in ipairs(item.returns) do out(".It returns " .. word(value)) end
  out ".El"
end

page["codes"] = function(out, item)
  out ".Pp"
  out "Error codes:"
  wrapped(out, table.concat(item.list, ", ") .. ".")
end

page["alias"] = function(out, item)
  page["class"](out, item)
  out ".Pp"
  wrapped(out, item.type)
end

local function write_man()
  local lines = {}
  local function out(text)
    if text == ".Pp" and lines[#lines]:match "^%.S" then return end
    lines[#lines + 1] = text
  end
  for _, line in ipairs {
    '.\\" Made by "luajit docs/make-lua.lua man" from lua/mooncage/types.lua.',
    ".Dd November 29, 2026", ".Dt MOONCAGE 3", ".Os",
    ".Sh NAME", ".Nm mooncage", ".Nd the Lua module that runs commands in sandboxes",
    ".Sh SYNOPSIS", ".Dl local mooncage = require \\(dqmooncage\\(dq", ".Sh DESCRIPTION",
  } do out(line) end
  for i, paragraph in ipairs(paragraphs()) do
    if i > 1 then out ".Pp" end
    prose(out, paragraph)
  end
  for i, item in ipairs(items) do
    local before, after = items[i - 1], items[i + 1]
    page[item.kind](out, item, before and before.kind, after and after.kind)
  end
  out ".Sh SEE ALSO"
  out ".Nm mooncage Ns (1)"
  io.write(table.concat(lines, "\n"), "\n")
end

read_all()
if arg and arg[1] == "man" then write_man() else write_markdown() end
