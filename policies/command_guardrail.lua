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
-- Shell text is read as the shell reads it, and every simple command in it is judged, wherever it
-- stands; so is what programs like env, xargs, sudo, find -exec or sh -c are told to run. What
-- cannot be told (a program's name that is put in at run time, code for an interpreter, grammar
-- that shells do not agree on) is denied, or what `unknown` says; `shell` holds texts that are fine
-- to the letter.
-- `write` and `read` name files for redirections. Variables that change what a program is (PATH,
-- LD_PRELOAD ...) are denied unless `env` names them.
--
-- This keeps an agent from what you do not want done. It is advice, and no wall: a program that is
-- allowed may do more than its name says. The sandbox is the wall.

local KEYS = {
  allow = true, ask = true, deny = true, shell = true, env = true, default = true, unknown = true,
  write = true, read = true,
}
local VERDICTS = { allow = true, ask = true, deny = true }

local function fail(text, ...) error("command_guardrail: " .. text:format(...), 0) end

---Nothing but 1, 2 ... without a hole: what stands behind one would be passed over.
local function check_list(list, name, of)
  for key in pairs(list) do
    local place = type(key) == "number" and key >= 1 and key % 1 == 0
    if not place or key > 1 and list[key - 1] == nil then
      fail("%s must be a list of %s without holes: what is '%s'?", name, of, tostring(key))
    end
  end
end

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
    check_list(rule, ("%s[%d]"):format(list, i), "words")
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
  check_list(rules, list, "rules")
  local parsed = {}
  for i, rule in ipairs(rules) do parsed[i] = read_rule(rule, list, i) end
  return parsed
end

local function base_name(word) return word:match "([^/]*)$" end

---Can a word that begins so fit?
local function prefix_fits(pieces, prefix)
  local first = pieces[1]
  local n = math.min(#first, #prefix)
  return first:sub(1, n) == prefix:sub(1, n) and (#pieces > 1 or #prefix <= #first)
end

---Does one word of a command fit one of a rule? true, false, or "may": that is known at run time.
local function fits_word(pieces, word, put_in)
  if not put_in then return word_fits(pieces, word) end
  if #pieces == 2 and pieces[1] == "" and pieces[2] == "" and not put_in.many then return true end
  return prefix_fits(pieces, put_in.prefix) and "may"
end

---Does a path lead up by ".."?
local function leads_up(path) return ("/" .. path .. "/"):find("/../", 1, true) ~= nil end

---Does a command fit a rule? true, false or "may". `loose`: a program is known by its last name,
---too; else a "*" in its name does not lead up.
local function fits(rule, command, loose)
  local words, put_in, may = command.words, command.places, false
  if not loose and #rule.words[1] > 1 and words[1] and leads_up(words[1]) then return false end
  for k = 1, #rule.words do
    local word = words[k]
    if word == nil then return false end
    local said = fits_word(rule.words[k], word, put_in[k])
    if not said and k == 1 and loose and not put_in[1] then
      said = word_fits(rule.words[1], base_name(word))
    end
    if not said then return false end
    may = may or said == "may"
    if put_in[k] and put_in[k].many then return "may" end
  end
  for k = #rule.words + 1, #words do
    if put_in[k] and put_in[k].many and not rule.open then return "may" end
  end
  if not rule.open and #words ~= #rule.words then return false end
  return may and "may" or true
end

---Does a rule name what makes this a command that cannot be told, and not only let it pass?
local function names(rule, untold)
  local pieces = untold.word and rule.words[untold.word]
  return pieces and (#pieces == 1 or #pieces[1] >= untold.upto)
end

---Does a rule name all that cannot be told of a command? Code for an interpreter is meant, too, by
---a rule that lets that run with any words; code that it reads, by one that has no open end.
local function means(rule, command)
  if not command.unclear then return true end
  local any = rule.open and #rule.words == 1 and table.concat(rule.words[1]) ~= ""
  for _, untold in ipairs(command.untold or {}) do
    local code = untold.code and (any or not untold.word and not rule.open)
    if not code and not names(rule, untold) then return false end
  end
  return command.untold ~= nil
end

---The first rule that a command surely fits (before others one that means it), and the first that
---it may fit.
local function find(rules, command, loose)
  local sure, perhaps
  for _, rule in ipairs(rules) do
    local said = fits(rule, command, loose)
    if said == true and means(rule, command) then return rule end
    if said == true then sure = sure or rule end
    if said == "may" then perhaps = perhaps or rule end
  end
  return sure, not sure and perhaps or nil
end

-- ---- files and variables -----------------------------------------------------------------------

local function read_patterns(options, name, always)
  local list = options[name]
  if list ~= nil and type(list) ~= "table" then
    fail("%s must be a list of file names, not a %s", name, type(list))
  end
  check_list(list or {}, name, "file names")
  local patterns = {}
  for i, text in ipairs(list or {}) do
    if type(text) ~= "string" or text == "" then fail("%s[%d] must be a file's name", name, i) end
    patterns[i] = pieces_of(text)
  end
  for _, text in ipairs(always) do patterns[#patterns + 1] = { text } end
  if list == nil and (options.default == "allow") then patterns[#patterns + 1] = { "", "" } end
  return patterns
end

---A pattern never leads up by "..", nor to the network by bash's /dev/tcp.
local function file_fits(patterns, path)
  local up = leads_up(path)
  local network = path:match "^/+dev/+tcp/" or path:match "^/+dev/+udp/"
  for _, pieces in ipairs(patterns) do
    local literal = #pieces == 1
    if (literal or not up) and (not network or pieces[1]:sub(1, 5) == "/dev/")
      and word_fits(pieces, path) then return true end
  end
  return false
end

local function names_in(text)
  local of = {}
  for name in text:gmatch "%S+" do of[name] = true end
  return of
end

-- Variables that change which program runs, or what it is: names, and their beginnings and ends.
-- They name programs and options, files of such, code that is loaded, and where programs are found.
local DANGEROUS = names_in [[
  PATH IFS ENV PS0 PS1 PS2 PS4 SHELLOPTS BASHOPTS CDPATH GLOBIGNORE FPATH ZDOTDIR FCEDIT
  GCONV_PATH LOCPATH NLSPATH HOSTALIASES RES_OPTIONS GLIBC_TUNABLES GETCONF_DIR MALLOC_TRACE
  VISUAL SHELL BROWSER TAR_OPTIONS TAPE ZIPOPT CVS_RSH CVS_SERVER SVN_SSH HGRCPATH HGMERGE MAILRC
  INPUTRC POSIXLY_CORRECT VIMINIT EXINIT GVIMINIT VIM VIMRUNTIME MYVIMRC EMACSLOADPATH SCREENRC
  MANOPT MANROFFOPT MANPATH TROFF TEXMFCNF shell_escape shell_escape_commands openout_any
  WGETRC SYSTEM_WGETRC CURL_HOME SSLKEYLOGFILE SSH_ASKPASS_REQUIRE SSH_SK_HELPER SSH_SK_PROVIDER
  SSH_PKCS11_HELPER KRB5_CONFIG SASL_PATH APT_CONFIG RIPGREP_CONFIG_PATH ACKRC ACK_OPTIONS
  MAKEFLAGS GNUMAKEFLAGS MAKEFILES COMPILER_PATH GCC_EXEC_PREFIX COLLECT_LTO_WRAPPER REALGCC
  DEPENDENCIES_OUTPUT SUNPRO_DEPENDENCIES CONFIG_SITE CONFIG_SHELL PKG_CONFIG
  JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS CLASSPATH MAVEN_OPTS MAVEN_ARGS GRADLE_OPTS
  ANT_OPTS ANT_ARGS GOFLAGS GOENV GOROOT GOTOOLDIR GOTOOLCHAIN
  RUSTC RUSTDOC RUSTFLAGS RUSTDOCFLAGS RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTUP_TOOLCHAIN
  PHPRC PHP_INI_SCAN_DIR GEM_HOME GEM_PATH IRBRC RAKEOPT TCLLIBPATH TCL_LIBRARY IPYTHONDIR
  GTK_MODULES GTK_PATH GIO_EXTRA_MODULES GIO_MODULE_DIR GDK_PIXBUF_MODULE_FILE GST_PLUGIN_PATH
  QT_PLUGIN_PATH QML2_IMPORT_PATH GS_OPTIONS GS_LIB]]
local BEGINNINGS = { "LD_", "GIT_", "PYTHON", "PERL", "NODE_", "RUBY", "BASH_", "LUA_", "DYLD_",
  "LESS", "npm_config_", "NPM_CONFIG_", "YARN_", "PIP_", "CARGO_", "RSYNC_", "GROFF_", "OPENSSL_",
  "PYTEST_", "HARNESS_", "BUNDLE_", "CCACHE_", "DISTCC_", "CMAKE_", "VALGRIND_", "MAGICK_", "FZF_",
  "GUILE_", "JULIA_", "R_", "ERL_", "PSQL" }
local ENDS = { "PAGER", "EDITOR", "ASKPASS", "PROMPT_COMMAND" }
-- Only where a text sets them: the operator may give a command a home, and a compiler, of its own.
local IN_TEXT = names_in [[
  HOME XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_HOME XDG_DATA_DIRS JAVA_HOME GRADLE_USER_HOME
  KUBECONFIG AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE DOCKER_CONFIG CLOUDSDK_CONFIG
  AR AS CC CO CPP CXX F77 FC GET LD LEX LINT MAKE MAKEINFO RM TEX TEXI2DVI WEAVE YACC CFLAGS
  CPPFLAGS CXXFLAGS FFLAGS LDFLAGS LDLIBS ARFLAGS ASFLAGS LFLAGS YFLAGS TARGET_ARCH LOADLIBES
  GREP EGREP FGREP DIFF CMP AWK SED M4 ZIP ZSTD ZCAT]]

local function is_dangerous(name)
  if DANGEROUS[name] or not name:match "^[%a_][%w_]*$" then return true end
  for _, beginning in ipairs(BEGINNINGS) do
    if name:sub(1, #beginning) == beginning then return true end
  end
  for _, last in ipairs(ENDS) do
    if name:sub(-#last) == last then return true end
  end
  return false
end

-- ---- the decision ------------------------------------------------------------------------------

local function set_of(list, name)
  local set = {}
  if type(list) ~= "table" then fail("%s must be a list of texts, not a %s", name, type(list)) end
  check_list(list, name, "texts")
  for i, text in ipairs(list) do
    if type(text) ~= "string" then fail("%s[%d] must be a text, not a %s", name, i, type(text)) end
    set[text] = true
  end
  return set
end

---search_files' own command: grep with these options reads, whatever the pattern and the path are.
local function is_search(facts, words)
  return facts.tool == "search_files" and #words == 6 and words[1] == "grep"
    and (words[2] == "-rnIZE" or words[2] == "-rnIZF") and words[3] == "-e" and words[5] == "--"
end

-- In a text for the shell these run nothing and write nothing; what they set is looked at.
local HARMLESS = names_in
  ": true false test [ break continue return exit shift read wait export readonly local"

---A command as it is shown: not too long.
local function shown(words)
  local text = table.concat(words, " ")
  return #text > 60 and text:sub(1, 57) .. "..." or text
end

---Where in the text a command stands, for a reason; nothing where there is but one.
local function where(commands, command)
  if #commands == 1 then return "" end
  local parts, outer = {}, commands[command.inside]
  parts[1] = command.words[1] and ("%q at byte %d"):format(shown(command.words), command.at)
    or ("at byte %d"):format(command.at)
  while outer do
    parts[#parts + 1] = ("run by %q"):format(outer.words[1])
    outer = commands[outer.inside]
  end
  return (" (%s)"):format(table.concat(parts, ", "))
end

local function read_options(options)
  for key in pairs(options) do
    if not KEYS[key] then
      fail("unknown option '%s': it takes allow, ask, deny, shell, env, default, unknown, write "
        .. "and read", tostring(key))
    end
  end
  for _, key in ipairs { "default", "unknown" } do
    if options[key] ~= nil and not VERDICTS[options[key]] then
      fail("%s must be allow, ask or deny, not %s", key, tostring(options[key]))
    end
  end
  return {
    allow = read_rules(options, "allow"), ask = read_rules(options, "ask"),
    deny = read_rules(options, "deny"), default = options.default or "deny",
    unknown = options.unknown or "deny", texts = set_of(options.shell or {}, "shell"),
    variables = set_of(options.env or {}, "env"),
    write = read_patterns(options, "write", { "/dev/null", "/dev/stdout", "/dev/stderr" }),
    read = read_patterns(options, "read", { "/dev/null", "/dev/stdin" }),
  }
end

---What is not understood: false or "ask" and why; nil where it is let pass.
local function unknown(rules, why)
  if rules.unknown == "allow" then return nil end
  return rules.unknown == "ask" and "ask", why, "unknown"
end

local function judge_variables(rules, command)
  for _, name in ipairs(command.assigns or {}) do
    local own = name == "IFS" and command.words[1] == "read" -- for that command alone
    if (is_dangerous(name) or IN_TEXT[name]) and not own and not rules.variables[name] then
      return false, ("the variable %s is set"):format(name), "env"
    end
  end
end

local function judge_files(rules, command)
  for _, redirect in ipairs(command.redirects or {}) do
    local op, to = redirect.op, redirect.to
    local copies = op:sub(-1) == "&" and to:match "^%d*%-?$"
    if op:sub(1, 2) ~= "<<" and not copies then
      local list = (op == "<" or op == "<&") and "read" or "write"
      if redirect.why then
        local said, why, by = unknown(rules, ("it would %s a file whose name is put in at run time")
          :format(list))
        if said ~= nil then return said, why, by end
      elseif not file_fits(rules[list], to) then
        return false, ("no rule lets it %s %q"):format(list, to), list
      end
    end
  end
end

---What rules say of the program and its words.
local function judge_words(rules, facts, command)
  local words = command.words
  local name = not command.places[1] and words[1] or nil
  if name and name:find "[^\33-\126]" or name == "" then
    return false, "the program's name holds more than plain characters", "name"
  end
  local denied, may_be_denied = find(rules.deny, command, true)
  if denied then return false, "a rule denies it", denied.text end
  local asked, may_be_asked = find(rules.ask, command, true)
  local allowed = find(rules.allow, command, false)
  local rule = asked or allowed
  if command.unclear and not (rule and means(rule, command)) then
    local said, why, by = unknown(rules, command.unclear)
    if said ~= nil then return said, why, by end
  end
  if may_be_denied or may_be_asked and not asked then
    local said, why, by = unknown(rules, ("what is put in at run time may make it fit %s")
      :format((may_be_denied or may_be_asked).text))
    if said ~= nil then return said, why, by end
  end
  if asked then return "ask", "a rule asks", asked.text end
  if allowed then return true, nil, allowed.text end
  if is_search(facts, words) then return true, nil, "search_files" end
  if command.only_runs or facts.shell and HARMLESS[name] then return nil end
  if rules.default == "allow" then return true, nil, "default" end
  if rules.default == "ask" then return "ask", "no rule is about it", "default" end
  return false, "no rule allows it", "default"
end

---true, false or "ask" with why and by what; nil: it has no say.
local function judge(rules, facts, command)
  local asks
  for _, part in ipairs { judge_variables, judge_files } do
    local said, why, by = part(rules, command)
    if said == false then return said, why, by end
    if said then asks = asks or { said, why, by } end
  end
  local said, why, by
  if #command.words > 0 then
    said, why, by = judge_words(rules, facts, command)
  elseif command.unclear then
    said, why, by = unknown(rules, command.unclear)
  end
  if said ~= false and asks then return unpack(asks, 1, 3) end
  return said, why, by
end

---The places of what is put in at run time, by the number of the word.
local function with_places(command)
  command.places = {}
  for _, each in ipairs(command.put_in or {}) do command.places[each.word] = each end
  return command
end

-- Of several reasons the one that says most is told.
local LESS = { default = 0, unknown = 1 }

local function judge_all(rules, facts, commands)
  local no, asks, allows
  for _, command in ipairs(commands) do
    local said, why, by = judge(rules, facts, with_places(command))
    if said == false and (not no or (LESS[by] or 2) > (LESS[no[3]] or 2)) then
      no = { false, why .. where(commands, command), by }
    end
    if said == "ask" then asks = asks or { "ask", why .. where(commands, command), by } end
    if said then allows = allows or by end
  end
  if no or asks then return unpack(no or asks, 1, 3) end
  return true, nil, allows or "nothing runs"
end

return function(options)
  local rules = read_options(options)
  return function(facts)
    for _, name in ipairs(facts.env_names or {}) do
      if is_dangerous(name) and not rules.variables[name] then
        return false, ("the variable %s is set"):format(name), "env"
      end
    end
    if facts.shell and rules.texts[facts.shell] then return true, nil, "shell" end
    local commands, why = facts.commands, facts.unclear
    if not commands and not why then
      local what = facts.shell or facts.argv or facts.words
      if what and #what > 0 then commands, why = mooncage.commands(what) end
    end
    if why then
      local said, reason, by = unknown(rules, ("the shell text is not understood: %s"):format(why))
      if said == nil then return true, nil, "unknown" end
      return said, reason, by
    end
    if not commands or #commands == 0 then return false, "there is no command", "shell" end
    return judge_all(rules, facts, commands)
  end
end
