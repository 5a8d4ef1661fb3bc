-- completion.lua: completion scripts for bash, zsh and fish, from the table.
local help = require "mooncage.cli.help"
local output = require "mooncage.cli.output"
local spec = require "mooncage.cli.table"

local completion = {}

---'text' for a POSIX shell and zsh.
local function quote(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

local function flag_words(list)
  local words = {}
  for _, flag in ipairs(list) do
    words[#words + 1] = "--" .. flag.name
    if flag.short then words[#words + 1] = "-" .. flag.short end
  end
  return table.concat(words, " ")
end

local function command_names()
  local names = {}
  for _, command in ipairs(spec.commands) do names[#names + 1] = command.name end
  return names
end

---Every flag with a value once, whichever commands have it.
local function valued_flags()
  local seen, list = {}, {}
  for _, command in ipairs(spec.commands) do
    for _, flag in ipairs(spec.flags_of(command)) do
      if flag.value and not seen[flag.name] then
        seen[flag.name] = true
        list[#list + 1] = flag
      end
    end
  end
  return list
end

---The actions of a command, as words.
local function action_names(command)
  local names = {}
  for _, action in ipairs(command.actions) do names[#names + 1] = action.name end
  return table.concat(names, " ")
end

---Commands whose words are ids of sessions.
local SESSIONS = {
  exec = true, shell = true, stop = true, cp = true, diff = true, apply = true,
}

local function bash_values(out)
  for _, flag in ipairs(valued_flags()) do
    local names = "--" .. flag.name .. (flag.short and "|-" .. flag.short or "")
    local action
    if flag.choices then
      action = ('COMPREPLY=($(compgen -W "%s" -- "$cur"))'):format(table.concat(flag.choices, " "))
    elseif flag.complete == "file" then
      action = 'COMPREPLY=($(compgen -f -- "$cur"))'
    elseif flag.complete == "directory" then
      action = 'COMPREPLY=($(compgen -d -- "$cur"))'
    else
      action = "COMPREPLY=()"
    end
    out[#out + 1] = ("    %s) %s; return ;;"):format(names, action)
  end
end

local function bash_words(command)
  if command.takes == "shell_name" then
    return ('words="%s"'):format(table.concat(spec.shells, " "))
  elseif command.takes == "action" then
    return ('words="%s"; files=1'):format(action_names(command))
  elseif command.name == "run" then
    return "files=1"
  elseif command.name == "cp" then
    return "files=1; words=$(mooncage ps -q 2>/dev/null)"
  elseif SESSIONS[command.name] then
    return "words=$(mooncage ps -q 2>/dev/null)"
  end
  return ":"
end

function completion.bash()
  local out = {
    "# bash completion for mooncage, made from its table of commands and flags.",
    "_mooncage() {",
    "  local cur=${COMP_WORDS[COMP_CWORD]} prev= command= words= files= i",
    "  ((COMP_CWORD > 0)) && prev=${COMP_WORDS[COMP_CWORD - 1]}",
    "  for ((i = 1; i < COMP_CWORD; i++)); do",
    '    case ${COMP_WORDS[i]} in',
    "    --) COMPREPLY=($(compgen -c -- \"$cur\") $(compgen -f -- \"$cur\")); return ;;",
    ("    %s) [[ -n $command ]] || command=${COMP_WORDS[i]} ;;"):format(
      table.concat(command_names(), "|")),
    "    esac",
    "  done",
    "  case $prev in",
  }
  bash_values(out)
  out[#out + 1] = "  esac"
  out[#out + 1] = "  case $command in"
  for _, command in ipairs(spec.commands) do
    out[#out + 1] = ('  %s) %s; flags="%s" ;;'):format(command.name, bash_words(command),
      flag_words(spec.flags_of(command)))
  end
  out[#out + 1] = ('  *) words="%s help"; flags="%s" ;;'):format(
    table.concat(command_names(), " "), flag_words(spec.global))
  for _, line in ipairs {
    "  esac",
    "  if [[ $cur == -* ]]; then",
    '    COMPREPLY=($(compgen -W "$flags" -- "$cur"))',
    "  else",
    '    COMPREPLY=($(compgen -W "$words" -- "$cur"))',
    "    [[ -n $files ]] && COMPREPLY+=($(compgen -f -- \"$cur\"))",
    "  fi",
    "}",
    "complete -o filenames -F _mooncage mooncage",
  } do out[#out + 1] = line end
  out[3] = out[3] .. " flags="
  return table.concat(out, "\n") .. "\n"
end

---Inside a zsh _arguments spec, these have a meaning of their own.
local function zsh_text(text)
  return (text:gsub("[%[%]:\\]", "\\%0"))
end

local function zsh_flag(flag)
  local action = ""
  if flag.choices then
    action = ("(%s)"):format(table.concat(flag.choices, " "))
  elseif flag.complete == "file" then
    action = "_files"
  elseif flag.complete == "directory" then
    action = "_files -/"
  end
  local value = flag.value and (":%s:%s"):format(zsh_text(flag.value:lower()), action) or ""
  local many = (flag.many or flag.counted) and "*" or ""
  local lines = { quote(("%s--%s[%s]%s"):format(many, flag.name, zsh_text(flag.help), value)) }
  if flag.short then
    lines[2] = quote(("%s-%s[%s]%s"):format(many, flag.short, zsh_text(flag.help), value))
  end
  return lines
end

local function zsh_words(command)
  if command.takes == "shell_name" then
    return ("'1:shell:(%s)'"):format(table.concat(spec.shells, " "))
  elseif command.takes == "action" then
    return ("'1:action:(%s)' '*:file:_mooncage_files'"):format(action_names(command))
  elseif command.name == "run" then
    return "'*:word:_mooncage_files'"
  elseif command.name == "cp" then
    return "'*:place:_files'"
  elseif SESSIONS[command.name] then
    return "'*:session:_mooncage_sessions'"
  end
end

function completion.zsh()
  local out = {
    "#compdef mooncage",
    "# zsh completion for mooncage, made from its table of commands and flags.",
    "# After --, the words of a command of its own.",
    "_mooncage_command() {",
    "  local -i at=${words[(i)--]}",
    "  (( at < CURRENT )) || return 1",
    "  shift $at words; (( CURRENT -= at ))",
    "  _normal",
    "}",
    "_mooncage_files() { _mooncage_command || _files; }",
    "_mooncage_sessions() {",
    "  _mooncage_command && return",
    "  local -a ids; ids=(${(f)\"$(mooncage ps -q 2>/dev/null)\"})",
    "  compadd -a ids",
    "}",
    "_mooncage() {",
    "  local context state state_descr line",
    "  typeset -A opt_args",
    "  local -a commands; commands=(",
  }
  for _, command in ipairs(spec.commands) do
    out[#out + 1] = "    " .. quote(command.name .. ":" .. zsh_text(command.summary))
  end
  out[#out + 1] = "  )"
  out[#out + 1] = "  _arguments -C \\"
  for _, flag in ipairs(spec.global) do
    for _, line in ipairs(zsh_flag(flag)) do out[#out + 1] = "    " .. line .. " \\" end
  end
  out[#out + 1] = "    '1:command:->command' '*::argument:->argument'"
  out[#out + 1] = "  case $state in"
  out[#out + 1] = "  command) _describe command commands ;;"
  out[#out + 1] = "  argument)"
  out[#out + 1] = "    case $line[1] in"
  for _, command in ipairs(spec.commands) do
    out[#out + 1] = ("    %s) _arguments \\"):format(command.name)
    for _, flag in ipairs(spec.flags_of(command)) do
      for _, line in ipairs(zsh_flag(flag)) do out[#out + 1] = "        " .. line .. " \\" end
    end
    out[#out + 1] = "        " .. (zsh_words(command) or "") .. " ;;"
  end
  for _, line in ipairs {
    "    esac ;;", "  esac", "}",
    'if [[ $funcstack[1] == _mooncage ]]; then _mooncage "$@"; else compdef _mooncage mooncage; fi',
  } do out[#out + 1] = line end
  return table.concat(out, "\n") .. "\n"
end

---Single quotes of fish know \\ and \'.
local function fish_quote(text)
  return "'" .. text:gsub("[\\']", "\\%0") .. "'"
end

local function fish_flag(condition, flag)
  local parts = { "complete -c mooncage", "-n " .. fish_quote(condition), "-l " .. flag.name }
  if flag.short then parts[#parts + 1] = "-s " .. flag.short end
  if flag.choices then
    parts[#parts + 1] = "-x -a " .. fish_quote(table.concat(flag.choices, " "))
  elseif flag.complete == "file" then
    parts[#parts + 1] = "-r -F"
  elseif flag.complete == "directory" then
    parts[#parts + 1] = "-x -a '(__fish_complete_directories)'"
  elseif flag.value then
    parts[#parts + 1] = "-x"
  end
  parts[#parts + 1] = "-d " .. fish_quote(flag.help)
  return table.concat(parts, " ")
end

local function fish_words(command, condition)
  if command.takes == "shell_name" then
    return ("complete -c mooncage -n %s -f -a %s"):format(fish_quote(condition),
      fish_quote(table.concat(spec.shells, " ")))
  elseif command.takes == "action" then
    return ("complete -c mooncage -n %s -F -a %s"):format(fish_quote(condition),
      fish_quote(action_names(command)))
  elseif command.name == "run" or command.name == "cp" then
    return ("complete -c mooncage -n %s -F"):format(fish_quote(condition))
  elseif SESSIONS[command.name] then
    return ("complete -c mooncage -n %s -f -a '(mooncage ps -q 2>/dev/null)'"):format(
      fish_quote(condition))
  end
end

function completion.fish()
  local names = table.concat(command_names(), " ")
  local none = "not __fish_seen_subcommand_from " .. names
  local out = {
    "# fish completion for mooncage, made from its table of commands and flags.",
    "complete -c mooncage -f",
  }
  for _, flag in ipairs(spec.global) do out[#out + 1] = fish_flag("true", flag) end
  for _, command in ipairs(spec.commands) do
    out[#out + 1] = ("complete -c mooncage -n %s -a %s -d %s"):format(fish_quote(none),
      command.name, fish_quote(command.summary))
    local condition = "__fish_seen_subcommand_from " .. command.name
    for _, flag in ipairs(help.own_flags(command)) do out[#out + 1] = fish_flag(condition, flag) end
    local words = fish_words(command, condition)
    if words then out[#out + 1] = words end
  end
  return table.concat(out, "\n") .. "\n"
end

---@param line mooncage.cli.Line
---@return integer
function completion.main(line)
  local shell = line.words[1]
  local text = completion[shell]()
  local ok
  if output.is_json() then
    ok = output.document { shell = shell, script = text }
  else
    ok = output.write(text)
  end
  return ok and 0 or 125
end

return completion
