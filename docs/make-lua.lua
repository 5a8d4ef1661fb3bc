-- make-lua.lua: writes docs/lua.md, the reference of the module, from lua/mooncage/types.lua, the
-- one place where functions and fields are described.
--   luajit docs/make-lua.lua > docs/lua.md
local directory = arg and arg[0] and arg[0]:match "^(.*)/[^/]*$" or "docs"
local types = directory .. "/../lua/mooncage/types.lua"

local OWNERS = {
  mooncage = "mooncage.", Task = "task:", Session = "session:", Process = "process:",
}

---A type as prose shows it: no "mooncage." before names that are explained on the page, and no bars
---that a table would take for columns.
local function plain(text)
  return (text:gsub("mooncage%.(%u%w*)", "%1"):gsub("|", "\\|"))
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
  return text:sub(1, at - 1), text:sub(at + 1)
end

local page, notes, intro = {}, {}, {}
local function add(text) page[#page + 1] = text end

local function begin_class(name)
  add(("\n## %s\n"):format(name))
  if #notes > 0 then add(table.concat(notes, " ") .. "\n") end
  notes = {}
end

local fields = false -- inside a table of fields
local parameters, returns = {}, {}

local function add_field(line)
  local name, rest = line:match "^(%S+) (.*)$"
  local kind, text = cut_type(rest)
  if not fields then add "| field | type | |\n|---|---|---|" end
  fields = true
  add(("| `%s` | `%s` | %s |"):format(name, plain(kind), plain(text)))
end

local function add_function(owner, name, arguments)
  add(("\n### %s%s(%s)\n"):format(OWNERS[owner], name, arguments))
  if #notes > 0 then add(table.concat(notes, " ") .. "\n") end
  for _, parameter in ipairs(parameters) do
    local word, rest = parameter:match "^(%S+) (.*)$"
    local kind, text = cut_type(rest)
    if text ~= "" then text = ", " .. text end
    add(("- `%s`: `%s`%s"):format(word, (plain(kind):gsub("\\|", "|")), text))
  end
  for _, value in ipairs(returns) do
    add(("- returns `%s`"):format((plain(value):gsub("\\|", "|"))))
  end
  notes, parameters, returns = {}, {}, {}
end

local function read(line)
  local tag, rest = line:match "^%-%-%-@(%w+) ?(.*)$"
  if tag ~= "field" and fields then fields = false end
  if tag == "class" then
    local name = rest:match "^mooncage%.?(%w*)"
    if name ~= "" then begin_class(name) end
  elseif tag == "field" then
    add_field(rest)
  elseif tag == "param" then
    parameters[#parameters + 1] = rest
  elseif tag == "return" then
    returns[#returns + 1] = rest
  elseif tag == "alias" and rest:match "^mooncage.Code " then
    local codes = {}
    for code in rest:gmatch '"([%w_]+)"' do codes[#codes + 1] = ("`%s`"):format(code) end
    add(("\nError codes: %s."):format(table.concat(codes, ", ")))
  elseif tag == "alias" then
    local name, meaning = rest:match "^mooncage%.(%S+) (.*)$"
    meaning = plain(meaning):gsub("\\|", "|")
    add(("\n## %s\n\n%s\n\n`%s`"):format(name, table.concat(notes, " "), meaning))
    notes = {}
  elseif line:match "^%-%-%-[^@]" then
    notes[#notes + 1] = line:match "^%-%-%-(.*)$"
  elseif line:match "^function " then
    add_function(line:match "^function (%w+)[.:]([%w_]+)%((.-)%) end")
  elseif line == "" then
    notes, parameters, returns = {}, {}, {}
  end
end

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

io.write [[
# The Lua module

Made by `luajit docs/make-lua.lua` from lua/mooncage/types.lua, which editors with LuaLS read too.

```lua
local mooncage = require "mooncage"
```

]]
local text = table.concat(intro, "\n"):gsub("^types.lua:[^\n]*\n", "")
io.write(text:gsub("^\n", ""), "\n", table.concat(page, "\n"), "\n")
