-- command_guardrail: a guardrail of rules over the words of a command.
--
--   guardrail = mooncage.policy "command_guardrail" {
--     allow = { "ls *", "cat *", "git status", "git diff *", "python3 *.py" },
--     ask = { "git push *" },
--     deny = { "rm *", "git push --force *" },
--   }
--
-- A rule is the words of a command: in one text, or as a list where a word holds blanks. In a word
-- "*" stands for any characters; a last word that is "*" alone for any further words, or none. Deny
-- goes before ask, ask before allow, and `default` ("deny") is for what no rule says. "rm" in deny
-- and ask means /bin/rm too; in allow a program is meant as it is written.
--
-- Shell text that is not one simple command of plain words is denied, unless `shell` holds it to
-- the letter. Programs that run others (env, nice, timeout, sh -c …) are judged by what they run,
-- and denied where that cannot be told. Variables that change what a program is (PATH, LD_PRELOAD
-- …) are denied unless `env` names them.
--
-- This keeps an agent from what you do not want done. It is no wall: a program that is allowed may
-- do more than its name says. The sandbox is the wall.

local KEYS = { allow = true, ask = true, deny = true, shell = true, env = true, default = true }
local DEFAULTS = { allow = true, ask = true, deny = true }

local function fail(text, ...) error("command_guardrail: " .. text:format(...), 0) end

-- ---- rules -------------------------------------------------------------------------------------

---A word of a rule as the literal pieces between its stars.
local function pieces_of(word)
  local pieces, at = {}, 1
  while true do
    local star = word:find("*", at, true)
    pieces[#pieces + 1] = word:sub(at, (star or 0) - 1)
    if not star then return pieces end
    at = star + 1
  end
end

---The first piece begins the word, the last ends it, the others follow each other: no way back.
local function word_fits(pieces, word)
  if #pieces == 1 then return word == pieces[1] end
  local first, last = pieces[1], pieces[#pieces]
  if #word < #first + #last or word:sub(1, #first) ~= first then return false end
  if last ~= "" and word:sub(-#last) ~= last then return false end
  local at, stop = #first + 1, #word - #last
  for i = 2, #pieces - 1 do
    local from, to = word:find(pieces[i], at, true)
    if not from or to > stop then return false end
    at = to + 1
  end
  return true
end

local function read_rule(rule, list, i)
  local words = {}
  if type(rule) == "string" then
    for word in rule:gmatch "%S+" do words[#words + 1] = word end
  elseif type(rule) == "table" then
    for k, word in ipairs(rule) do words[k] = word end
  else
    fail("%s[%d] must be a text or a list of words, not a %s", list, i, type(rule))
  end
  if #words == 0 then fail("%s[%d] has no words", list, i) end
  local parsed = { words = {}, text = ("%s %q"):format(list, type(rule) == "string" and rule
    or table.concat(words, " ")) }
  for k, word in ipairs(words) do
    if type(word) ~= "string" then fail("%s[%d] holds a %s", list, i, type(word)) end
    if k == #words and k > 1 and word == "*" then
      parsed.open = true
    else
      parsed.words[k] = pieces_of(word)
    end
  end
  return parsed
end

local function read_rules(options, list)
  local rules = options[list] or {}
  if type(rules) ~= "table" then fail("%s must be a list of rules, not a %s", list, type(rules)) end
  local parsed = {}
  for i, rule in ipairs(rules) do parsed[i] = read_rule(rule, list, i) end
  for key in pairs(rules) do
    if not parsed[key] then fail("%s must be a list: what is '%s'?", list, tostring(key)) end
  end
  return parsed
end

local function base_name(word) return word:match "([^/]*)$" end

---The rule that the words fit, if any. `loose`: a program is known by its last name too.
local function find(rules, words, loose)
  for _, rule in ipairs(rules) do
    local fits = #words == #rule.words or rule.open and #words > #rule.words
    for k = 1, fits and #rule.words or 0 do
      local pieces = rule.words[k]
      local fit = word_fits(pieces, words[k])
      if not fit and k == 1 and loose then fit = word_fits(pieces, base_name(words[1])) end
      if not fit then
        fits = false
        break
      end
    end
    if fits then return rule.text end
  end
end

-- ---- programs that run others ------------------------------------------------------------------

local SHELLS = { sh = true, bash = true, dash = true, ash = true, ksh = true, zsh = true }

-- Name -> how many words of its own come before the command. Options of theirs are not understood.
local WRAPPERS = {
  env = 0, nice = 0, nohup = 0, setsid = 0, time = 0, command = 0, exec = 0, builtin = 0,
  stdbuf = 0, ionice = 0, xargs = 0, sudo = 0, doas = 0, busybox = 0, toybox = 0, watch = 0,
  chroot = 1, timeout = 1, taskset = 1, chrt = 1, setarch = 1, flock = 1, unshare = 0, nsenter = 0,
  strace = 0, ltrace = 0, script = 0, runuser = 0, su = 0, setpriv = 0, prlimit = 0, catchsegv = 0,
}

-- Words that have the shell run text it was not shown.
local OPAQUE = { eval = true, source = true, ["."] = true, trap = true, alias = true }

local function rest(words, from)
  local list = {}
  for i = from, #words do list[#list + 1] = words[i] end
  return list
end

---What a wrapper runs: its words; or nil and why that cannot be told. false: it runs nothing else.
local function inner_of(words)
  local name = base_name(words[1])
  if OPAQUE[words[1]] then return nil, ("what %s runs cannot be told"):format(words[1]) end
  if name:match "^ld%-linux" or name:match "^ld%-musl" then
    return nil, "a loader runs whatever it is given"
  end
  if SHELLS[name] then
    if not words[2] then return nil, ("%s runs what it reads"):format(name) end
    if words[2] ~= "-c" and words[2]:sub(1, 1) == "-" then
      return nil, ("only %s -c TEXT is understood"):format(name)
    end
    if words[2] ~= "-c" then return false end
    if #words ~= 3 then return nil, ("only %s -c TEXT is understood"):format(name) end
    return mooncage.words(words[3])
  end
  local own = WRAPPERS[name]
  if not own then return false end
  local from = 2 + own
  if name == "env" and words[2] and words[2]:find("=", 2, true) then
    return nil, "env sets variables"
  end
  if not words[from] then return false end
  for i = 2, from do
    if words[i]:sub(1, 1) == "-" then
      return nil, ("options of %s are not understood"):format(name)
    end
  end
  return rest(words, from)
end

-- Variables that change which program runs, or what it is.
local function is_dangerous(name)
  return name == "PATH" or name == "IFS" or name == "ENV" or name == "BASH_ENV" or name == "PS4"
    or name == "PROMPT_COMMAND" or name == "SHELLOPTS" or name == "BASHOPTS" or name == "CDPATH"
    or name:sub(1, 3) == "LD_" or name:sub(1, 4) == "GIT_" or name:sub(1, 6) == "PYTHON"
    or name:sub(1, 4) == "PERL" or name:sub(1, 5) == "NODE_" or name:sub(1, 4) == "RUBY"
    or not name:match "^[%a_][%w_]*$"
end

-- ---- the decision ------------------------------------------------------------------------------

local function set_of(list, name)
  local set = {}
  if type(list) ~= "table" then fail("%s must be a list of texts, not a %s", name, type(list)) end
  for i, text in ipairs(list) do
    if type(text) ~= "string" then fail("%s[%d] must be a text, not a %s", name, i, type(text)) end
    set[text] = true
  end
  return set
end

---search_files' own command: grep with these options reads, whatever the pattern and the path are.
local function is_search(command, words)
  return command.tool == "search_files" and #words == 6 and words[1] == "grep"
    and (words[2] == "-rnIZE" or words[2] == "-rnIZF") and words[3] == "-e" and words[5] == "--"
end

return function(options)
  for key in pairs(options) do
    if not KEYS[key] then
      fail("unknown option '%s': it takes allow, ask, deny, shell, env and default", tostring(key))
    end
  end
  local default = options.default or "deny"
  if not DEFAULTS[default] then
    fail("default must be allow, ask or deny, not %s", tostring(default))
  end
  local allow, ask, deny = read_rules(options, "allow"), read_rules(options, "ask"),
    read_rules(options, "deny")
  local texts, variables = set_of(options.shell or {}, "shell"), set_of(options.env or {}, "env")

  local function judge(command, words, depth)
    if depth > 8 then return false, "programs that run programs, nested too deeply", "wrapper" end
    local name = words[1]
    if name:find "[^\33-\126]" then
      return false, "the program's name holds more than plain characters", "name"
    end
    local rule = find(deny, words, true)
    if rule then return false, "a rule denies it", rule end
    local inner, why = inner_of(words)
    local asked = find(ask, words, true)
    local allowed = find(allow, words, false)
    if inner then
      local said, reason, by = judge(command, inner, depth + 1)
      if said == false and (by ~= "default" or not allowed) then return said, reason, by end
      if said == "ask" and not asked then return said, reason, by end
      if said == true and not asked then return said, reason, by end
    elseif inner == nil and not allowed then
      return false, why, "wrapper"
    end
    if asked then return "ask", "a rule asks", asked end
    if allowed then return true, nil, allowed end
    if is_search(command, words) then return true, nil, "search_files" end
    if default == "allow" then return true, nil, "default" end
    if default == "ask" then return "ask", "no rule is about it", "default" end
    return false, "no rule allows it", "default"
  end

  return function(command)
    for _, name in ipairs(command.env_names or {}) do
      if is_dangerous(name) and not variables[name] then
        return false, ("the variable %s is set"):format(name), "env"
      end
    end
    local words = command.words or command.argv
    if command.shell then
      if texts[command.shell] then return true, nil, "shell" end
      local why
      words, why = mooncage.words(command.shell)
      if not words then
        return false, ("the shell text is not one simple command: %s"):format(why), "shell"
      end
    end
    if type(words) ~= "table" or type(words[1]) ~= "string" then
      return false, "there is no command", "shell"
    end
    return judge(command, words, 1)
  end
end
