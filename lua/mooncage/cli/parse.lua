-- parse.lua: reads the command line by the table. It is written here rather than fed to
-- lua-argparse: loading that costs 1.9 ms of the 18 that a whole `mooncage run -- true` may take,
-- and the words of scripts and commands have to come through untouched.
local nearest = require("mooncage.core").nearest
local spec = require "mooncage.cli.table"
local values = require "mooncage.cli.values"

---@class mooncage.cli.Line
---@field command string?  name of the command
---@field flags table      flag name -> value, true, count, or list
---@field words string[]   before "--"
---@field rest string[]?   after "--"; nil when there was none

local function wrong(message, fix, command)
  return nil, { code = "invalid", message = message, fix = fix, command = command }
end

local function help_hint(command)
  return ("see mooncage %s--help"):format(command and command.name .. " " or "")
end

local function find_flag(flags, key, field)
  for _, flag in ipairs(flags) do
    if flag[field] == key then return flag end
  end
end

---Is this word one of our flags? Then it is not meant as the value of the flag before it.
local function looks_like_flag(flags, word)
  local long = word:match "^%-%-([^=]*)"
  if long then return long == "" or find_flag(flags, long, "name") ~= nil end
  local short = word:match "^%-(%a)$"
  return short ~= nil and find_flag(flags, short, "short") ~= nil
end

local function unknown_flag(flags, word, command)
  local names = {}
  for _, flag in ipairs(flags) do names[#names + 1] = flag.name end
  local plain = word:gsub("^%-+", ""):gsub("=.*", "")
  if not command then
    for _, each in ipairs(spec.commands) do
      if find_flag(spec.flags_of(each), plain, "name") then
        return wrong(("--%s belongs to a command"):format(plain),
          ("put it after the command: mooncage %s --%s"):format(each.name, plain))
      end
    end
  end
  local near = nearest(plain, names)
  local place = command and (" for " .. command.name) or ""
  local fix = near and ("did you mean --%s?"):format(near) or help_hint(command)
  return wrong(("unknown flag %s%s"):format(word:gsub("=.*", ""), place), fix, command)
end

local function in_list(list, item)
  for _, each in ipairs(list) do
    if each == item then return true end
  end
  return false
end

---Puts a flag's value where it belongs. A `hidden` choice is one the engine itself refuses, with
---its reason ("open" for the network).
local function store(line, flag, text, command)
  local shown = "--" .. flag.name
  local value, why = values[flag.type](text)
  if value == nil then
    local said = flag.type == "environment" and text:gsub("=.*", "=...")
      or flag.type == "secret" and "..." or text
    if said ~= "" then said = " " .. said end
    return wrong(("%s%s: %s"):format(shown, said, why), help_hint(command), command)
  end
  local listed = not flag.choices or in_list(flag.choices, value)
  if not listed and not (flag.hidden and in_list(flag.hidden, value)) then
    local near = nearest(value, flag.choices)
    return wrong(("%s %s: must be one of %s"):format(shown, text, table.concat(flag.choices, ", ")),
      near and ("did you mean %s?"):format(near) or help_hint(command), command)
  end
  if flag.many then
    local list = line.flags[flag.name] or {}
    list[#list + 1] = value
    line.flags[flag.name] = list
  else
    line.flags[flag.name] = value
  end
  return true
end

local function set_switch(line, flag)
  line.flags[flag.name] = flag.counted and (line.flags[flag.name] or 0) + 1 or true
end

---A long flag at words[i]; returns the index of the next word.
local function read_long(line, flags, argv, i, command)
  local word = argv[i]
  local name, given = word:match "^%-%-([^=]+)=(.*)$"
  name = name or word:sub(3)
  local flag = find_flag(flags, name, "name")
  if not flag then return unknown_flag(flags, word, command) end
  if not flag.value then
    if given then
      return wrong(("--%s takes no value"):format(name), help_hint(command), command)
    end
    set_switch(line, flag)
    return i + 1
  end
  if not given then
    i, given = i + 1, argv[i + 1]
    if not given or looks_like_flag(flags, given) then
      return wrong(("--%s needs a value"):format(name),
        ("write --%s %s"):format(name, flag.value), command)
    end
  end
  local ok, err = store(line, flag, given, command)
  if not ok then return nil, err end
  return i + 1
end

---Short flags at words[i]: -q, -qv, -e CODE, -eCODE.
local function read_short(line, flags, argv, i, command)
  local word = argv[i]
  for at = 2, #word do
    local flag = find_flag(flags, word:sub(at, at), "short")
    if not flag then return unknown_flag(flags, "-" .. word:sub(at, at), command) end
    if flag.value then
      local given = word:sub(at + 1)
      if given == "" then i, given = i + 1, argv[i + 1] end
      if not given then
        return wrong(("-%s needs a value"):format(flag.short),
          ("write -%s %s"):format(flag.short, flag.value), command)
      end
      local ok, err = store(line, flag, given, command)
      if not ok then return nil, err end
      return i + 1
    end
    set_switch(line, flag)
  end
  return i + 1
end

local function find_command(word)
  local command = spec.by_name[word]
  if command then return command end
  local names = {}
  for _, each in ipairs(spec.commands) do names[#names + 1] = each.name end
  local near = nearest(word, names)
  return wrong(("unknown command %s"):format(word),
    near and ("did you mean mooncage %s?"):format(near) or "see mooncage --help")
end

local function one(line, command, what)
  if #line.words == 0 then
    return wrong(("%s needs %s"):format(command.name, what), "usage: " .. command.usage[1], command)
  end
  return true
end

local function no_more(line, command, count)
  if #line.words > count then
    local fix = "usage: " .. command.usage[1]
    local message = ("%s: unexpected word %s"):format(command.name, line.words[count + 1])
    return wrong(message, fix, command)
  end
  return true
end

local function no_rest(line, command)
  if line.rest then
    return wrong(("%s takes no command after --"):format(command.name),
      "usage: " .. command.usage[1], command)
  end
  return true
end

local function need_command(line, command)
  if not line.rest or #line.rest == 0 then
    return wrong(("%s needs a command after --"):format(command.name),
      "usage: " .. command.usage[1], command)
  end
  return true
end

---What the words after the flags have to be, by a command's `takes`.
local takes = {}

function takes.script_or_command(line, command)
  if line.flags.eval then return true end
  if #line.words > 0 then return true end
  return need_command(line, command)
end

function takes.nothing(line, command)
  local ok, err = no_more(line, command, 0)
  if not ok then return nil, err end
  return no_rest(line, command)
end

function takes.session_or_none_then_command(line, command)
  if line.rest and #line.rest == 0 then return need_command(line, command) end
  return no_more(line, command, 1)
end

function takes.session(line, command)
  local ok, err = one(line, command, "the id of a session")
  if ok then ok, err = no_more(line, command, 1) end
  if not ok then return nil, err end
  return no_rest(line, command)
end

function takes.session_then_command(line, command)
  local ok, err = one(line, command, "the id of a session")
  if ok then ok, err = no_more(line, command, 1) end
  if not ok then return nil, err end
  return need_command(line, command)
end

function takes.two_places(line, command)
  if #line.words < 2 then
    return wrong("cp needs two places", "usage: " .. table.concat(command.usage, ", or "), command)
  end
  local ok, err = no_more(line, command, 2)
  if not ok then return nil, err end
  return no_rest(line, command)
end

function takes.sessions(line, command)
  if not line.flags.all then
    local ok, err = one(line, command, "the id of a session, or --all")
    if not ok then return nil, err end
  end
  return no_rest(line, command)
end

function takes.shell_name(line, command)
  local list = table.concat(spec.shells, ", ")
  local ok, err = one(line, command, "a shell: " .. list)
  if ok then ok, err = no_more(line, command, 1) end
  if not ok then return nil, err end
  if not in_list(spec.shells, line.words[1]) then
    return wrong(("completion: no completion for %s"):format(line.words[1]), "there is " .. list,
      command)
  end
  return no_rest(line, command)
end

---A flag that the action would not look at.
local function misplaced(line, command, action)
  for _, flag in ipairs(spec.flags_of(command)) do
    if flag.actions and line.flags[flag.name] and not in_list(flag.actions, action.name) then
      return wrong(("%s %s takes no --%s"):format(command.name, action.name, flag.name),
        ("leave it out; it is for %s"):format(table.concat(flag.actions, ", ")), command)
    end
  end
  return true
end

---A command of several actions: "policy check FILE".
function takes.action(line, command)
  local names, action = {}, nil
  for i, each in ipairs(command.actions) do
    names[i] = each.name
    if each.name == line.words[1] then action = each end
  end
  local usage = "usage: " .. table.concat(command.usage, ", or ")
  if not line.words[1] then
    return wrong(("%s needs one of %s"):format(command.name, table.concat(names, ", ")), usage,
      command)
  end
  local whole = ("%s %s"):format(command.name, line.words[1])
  if not action then
    local near = nearest(line.words[1], names)
    return wrong(("%s: there is no such thing"):format(whole),
      near and ("did you mean mooncage %s %s?"):format(command.name, near) or usage, command)
  end
  local fits, unfit = misplaced(line, command, action)
  if not fits then return nil, unfit end
  local count = #line.words - 1
  if count < action.least then return wrong(whole .. " needs more words", usage, command) end
  if count > action.most then
    return wrong(("%s: unexpected word %s"):format(whole, line.words[action.most + 2]), usage,
      command)
  end
  if not action.command then return no_rest(line, command) end
  if not line.rest or #line.rest == 0 then
    return wrong(whole .. " needs a command after --", usage, command)
  end
  return true
end

local function slice(argv, from)
  local list = {}
  for i = from, #argv do list[#list + 1] = argv[i] end
  return list
end

---The words of a command: flags, plain words, and after "--" what belongs to the command inside.
local function read_words(line, argv, i, command)
  local flags = spec.flags_of(command)
  while i <= #argv do
    local word = argv[i]
    local err
    if word == "--" then
      line.rest = slice(argv, i + 1)
      break
    elseif word:sub(1, 2) == "--" then
      i, err = read_long(line, flags, argv, i, command)
    elseif word:sub(1, 1) == "-" and word ~= "-" then
      i, err = read_short(line, flags, argv, i, command)
    else
      line.words[#line.words + 1] = word
      i = i + 1
      if command.takes == "script_or_command" then
        -- The rest is the script's own, flags included; with -e all of it is.
        for _, each in ipairs(slice(argv, i)) do line.words[#line.words + 1] = each end
        break
      end
    end
    if err then return nil, err end
  end
  if line.flags.help then return line end
  local ok, err = takes[command.takes](line, command)
  if not ok then return nil, err end
  return line
end

---@param argv string[]
---@return mooncage.cli.Line?, table? err with code, message, fix and the command it belongs to
local function parse(argv)
  local line = { flags = {}, words = {} }
  local i = 1
  while i <= #argv do
    local word = argv[i]
    local err
    if word:sub(1, 2) == "--" and word ~= "--" then
      i, err = read_long(line, spec.global, argv, i, nil)
    elseif word:sub(1, 1) == "-" and #word > 1 and word ~= "--" then
      i, err = read_short(line, spec.global, argv, i, nil)
    else
      break
    end
    if err then return nil, err, line end
  end
  if line.flags.help and not argv[i] or line.flags.version then return line end
  if argv[i] == "help" then -- mooncage help run
    line.flags.help = true
    if not argv[i + 1] then return line end
    i = i + 1
  end
  if not argv[i] then
    local _, none = wrong("no command given", "see mooncage --help")
    return nil, none, line
  end
  local command, err = find_command(argv[i])
  if not command then return nil, err, line end
  line.command = command.name
  if line.flags.help then return line end
  local read, failure = read_words(line, argv, i + 1, command)
  return read, failure, line
end

return parse
