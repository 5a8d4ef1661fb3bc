-- man.lua: the man page mooncage(1) in mdoc, and docs/commands.md, from the table.
local help = require "mooncage.cli.help"
local spec = require "mooncage.cli.table"

local man = {}

---Text for a roff line: no backslash of its own, no control character at the start of a line.
local function roff(text)
  text = text:gsub("\\", "\\e"):gsub("^([.'])", "\\&%1"):gsub("%-", "\\-")
  return text
end

---Words of a macro line: each in quotes, so that none is taken for a macro.
local function word(text)
  return '"' .. roff(text):gsub('"', '""') .. '"'
end

local function add(out, ...)
  for i = 1, select("#", ...) do out[#out + 1] = (select(i, ...)) end
end

---A sentence starts a line, as mdoc wants it; a long one goes on in the next.
local function prose(out, text)
  for sentence in (text .. " "):gmatch "(.-[.?!:]) +" do
    text = text:sub(#sentence + 2)
    for _, line in ipairs(help.wrap(sentence, 70)) do add(out, roff(line)) end
  end
  if text ~= "" then
    for _, line in ipairs(help.wrap(text, 70)) do add(out, roff(line)) end
  end
end

local function flag_list(out, list)
  add(out, ".Bl -tag -width Ds")
  for _, flag in ipairs(list) do
    local line = ".It"
    if flag.short then
      line = line .. " Fl " .. flag.short
      if flag.value then line = line .. " Ar " .. word(flag.value) end
      line = line .. " ,"
    end
    line = line .. " Fl " .. word("-" .. flag.name)
    if flag.value then line = line .. " Ar " .. word(flag.value) end
    add(out, line)
    prose(out, help.flag_text(flag))
  end
  add(out, ".El")
end

local function command_section(out, command)
  add(out, ".Ss " .. word(command.name))
  for i, usage in ipairs(command.usage) do
    if i > 1 then add(out, ".Pp") end
    add(out, ".Dl " .. roff(usage))
  end
  for _, paragraph in ipairs(command.description) do
    add(out, ".Pp")
    prose(out, paragraph)
  end
  local own = help.own_flags(command)
  if command.name == "shell" or command.name == "create" then
    -- The sandbox flags stand with run; only what differs is told again.
    local fresh, run = {}, {}
    for _, flag in ipairs(help.own_flags(spec.by_name.run)) do run[flag.name] = true end
    for _, flag in ipairs(own) do
      if not run[flag.name] then fresh[#fresh + 1] = flag end
    end
    local shared = {}
    for _, flag in ipairs(own) do
      if run[flag.name] then shared[#shared + 1] = ".Fl " .. word("-" .. flag.name) end
    end
    add(out, ".Pp", "As with", ".Cm run :")
    for i, line in ipairs(shared) do add(out, line .. (i < #shared and " ," or " .")) end
    own = fresh
  end
  if #own > 0 then
    add(out, ".Pp", "Flags:")
    flag_list(out, own)
  end
end

local function tag_list(out, macro, rows)
  add(out, ".Bl -tag -width Ds")
  for _, row in ipairs(rows) do
    add(out, (".It %s%s"):format(macro, word(row[1])))
    prose(out, row[2])
  end
  add(out, ".El")
end

local function examples_section(out)
  add(out, ".Sh EXAMPLES")
  for _, command in ipairs(spec.commands) do
    for _, example in ipairs(command.examples) do
      add(out, ".Bd -literal -offset indent")
      if example[2] ~= "" then add(out, roff("# " .. example[2])) end
      add(out, roff(example[1]), ".Ed")
    end
  end
end

---@return string mdoc source
function man.page()
  local out = {
    '.\\" Made by "mooncage __document man" from the table of commands and flags.',
    ".Dd November 29, 2026", ".Dt MOONCAGE 1", ".Os",
    ".Sh NAME", ".Nm mooncage", ".Nd run an agent's commands inside sandboxes",
    ".Sh SYNOPSIS", ".Nm", ".Op Ar global flags", ".Ar command", ".Op Ar ...",
    ".Sh DESCRIPTION", ".Nm", "runs commands that are not trusted inside sandboxes.",
    "It needs no daemon and no account.", "The global flags are:",
  }
  flag_list(out, spec.global)
  add(out, ".Sh COMMANDS")
  for _, command in ipairs(spec.commands) do command_section(out, command) end
  add(out, ".Sh ENVIRONMENT")
  tag_list(out, "Ev ", spec.environment)
  add(out, ".Sh FILES")
  tag_list(out, "Pa ", spec.files)
  add(out, ".Sh EXIT STATUS")
  tag_list(out, "", spec.statuses)
  add(out, "With", ".Fl " .. word "-json", "the document says which it was.")
  examples_section(out)
  add(out, ".Sh SEE ALSO", ".Xr bwrap 1 ,", ".Xr seccomp 2 ,", ".Xr namespaces 7")
  return table.concat(out, "\n") .. "\n"
end

local function cell(text)
  return (text:gsub("|", "\\|"):gsub("<", "&lt;"))
end

local function markdown_flags(out, list)
  add(out, "", "| flag | |", "|---|---|")
  for _, flag in ipairs(list) do
    local names = "`--" .. flag.name .. (flag.value and " " .. flag.value or "") .. "`"
    if flag.short then names = ("`-%s`, "):format(flag.short) .. names end
    add(out, ("| %s | %s |"):format(cell(names), cell(help.flag_text(flag))))
  end
end

---@return string docs/commands.md
function man.markdown()
  local out = {
    "# The command", "",
    "Made by `mooncage __document markdown` from the table of commands and flags "
      .. "(lua/mooncage/cli/table.lua).", "",
    "## Global flags",
  }
  markdown_flags(out, spec.global)
  for _, command in ipairs(spec.commands) do
    add(out, "", ("## mooncage %s"):format(command.name), "", command.summary .. ".", "", "```")
    for _, usage in ipairs(command.usage) do add(out, usage) end
    add(out, "```")
    for _, paragraph in ipairs(command.description) do add(out, "", paragraph) end
    local own = help.own_flags(command)
    if #own > 0 then markdown_flags(out, own) end
    for _, example in ipairs(command.examples) do
      add(out, "", "```sh")
      if example[2] ~= "" then add(out, "# " .. example[2]) end
      add(out, example[1], "```")
    end
  end
  add(out, "", "## Exit status", "", "| status | |", "|---|---|")
  for _, row in ipairs(spec.statuses) do add(out, ("| %s | %s |"):format(row[1], cell(row[2]))) end
  add(out, "", "## Environment", "", "| variable | |", "|---|---|")
  for _, row in ipairs(spec.environment) do
    add(out, ("| `%s` | %s |"):format(row[1], cell(row[2])))
  end
  return table.concat(out, "\n") .. "\n"
end

return man
