-- Tests of command_guardrail: mooncage policy test policies/command_guardrail.lua
local cases = {
  kind = "guardrail",
  options = {
    allow = {
      "ls *", "cat *", "git status", "git diff *", "python3 *.py", { "echo", "two words" }, "pwd",
      "env", "make", "sh run.sh", "/opt/tool *", "timeout *",
    },
    ask = { "git push *", "pip install *" },
    deny = { "rm *", "git push --force *", "curl *" },
    shell = { "make && make test" },
    env = { "PYTHONPATH" },
  },
}

local function case(name, command, expect, reason)
  cases[#cases + 1] = { name = name, command = command, expect = expect, reason = reason }
end

-- Rules and words.
case("a rule allows", { "ls", "-l", "/tmp" }, true)
case("a last * is any number of words, none too", { "ls" }, true)
case("without it the count counts", { "git", "status", "--short" }, false, "no rule allows it")
case("a word is compared whole", { "lsof" }, false)
case("and not only its beginning", { "ls;rm" }, false)
case("a * inside a word", { "python3", "main.py" }, true)
case("is anchored at both ends", { "python3", "main.py.sh" }, false)
case("and stays in its word", { "python3", "-c", "x.py" }, false)
case("a rule as a list holds blanks", { "echo", "two words" }, true)
case("and they are no two words", { "echo", "two", "words" }, false)
case("what no rule says is denied", { "make", "install" }, false, "no rule allows it")
case("deny goes before all", { "rm", "x" }, false, "a rule denies it")
case("deny knows a program by its last name", { "/bin/rm", "x" }, false, "a rule denies it")
case("and on any way there", { "/bin/../bin/rm", "x" }, false, "a rule denies it")
case("allow does not", { "/tmp/ls" }, false, "no rule allows it")
case("but as it is written", { "/opt/tool", "go" }, true)
case("ask goes before allow", { "git", "push", "origin" }, "ask", "a rule asks")
case("deny before ask", { "git", "push", "--force" }, false, "a rule denies it")
case("a rule is no pattern of Lua", { "c.t" }, false)

-- Shell text.
case("one simple command is its words", "ls -l 'a b'", true)
case("quoting hides nothing", "r\"m\" x", false, "a rule denies it")
case("nor do backslashes", "r\\m x", false, "a rule denies it")
for _, text in ipairs {
  "ls; rm x", "ls && rm x", "ls || rm x", "ls | rm", "ls & rm x", "(rm x)", "{ rm x; }", "! rm x",
  "ls\nrm x", "# c\nrm x", "ec\\\nho x", "ls $(rm x)", "ls `rm x`", "ls <(rm x)",
  "ls ${x:-$(rm x)}",
  "ls $((a[$(rm x)]))", "echo${IFS}x", "{rm,x}", "$'\\x72m' x", "/bin/r? x", "a=r;b=m;$a$b x",
  "PATH=. ls", "LD_PRELOAD=x ls", "rm() { ls; }; rm", "ls > /etc/passwd", "ls 2>&1",
  "cat <<E\nx\nE",
  "echo x | base64 -d | sh", "bash <<< x", "if true; then rm x; fi", "coproc rm x",
  "\194\160rm x", "r\226\128\141m x", "ls\rrm x", ("true &&"):rep(60) .. " rm x",
} do
  case(("no simple command: %s"):format((text:gsub("%c", "?"):sub(1, 40))), text, false,
    "not one simple command")
end
case("unless it is allowed to the letter", "make && make test", true)
case("and to no other", "make && make test ", false, "not one simple command")
case("no text at all", "", false)

-- Programs that run others.
case("env is judged by what it runs", { "env", "rm", "x" }, false, "a rule denies it")
case("also when a rule allows the wrapper", { "timeout", "5", "rm", "x" }, false,
  "a rule denies it")
case("and allows what is allowed", { "env", "ls" }, true)
case("nested", { "env", "nice", "nohup", "rm", "x" }, false, "a rule denies it")
case("options of a wrapper are not guessed", { "nice", "-n", "5", "ls" }, false,
  "options of nice are not understood")
case("env sets nothing", { "env", "PATH=/tmp", "ls" }, false, "env sets variables")
case("env -S", { "env", "-S", "rm x" }, false, "options of env")
case("alone it is a program like any", { "env" }, true)
case("sh -c is judged by its text", { "sh", "-c", "ls -l" }, true)
case("whatever its name", { "/usr/bin/bash", "-c", "rm x" }, false, "a rule denies it")
case("and its text must be simple", { "sh", "-c", "ls; rm x" }, false, "more than one simple")
case("other words of sh are not guessed", { "sh", "-ec", "rm x" }, false)
case("sh -c with arguments", { "sh", "-c", "ls", "x" }, false, "only sh -c TEXT")
case("a shell script is allowed as such", { "sh", "run.sh" }, true)
case("a shell that reads its input is not", { "sh" }, false)
case("xargs", { "xargs", "rm" }, false, "a rule denies it")
case("sudo", { "sudo", "rm", "x" }, false, "a rule denies it")
case("busybox", { "busybox", "rm", "x" }, false, "a rule denies it")
case("a loader", { "/lib64/ld-linux-x86-64.so.2", "/bin/ls" }, false, "a loader")
case("eval", "eval 'rm x'", false, "cannot be told")
case(".", ". ./x", false, "cannot be told")
case("trap", "trap 'rm x' EXIT", false, "cannot be told")
case("a wrapper asks for what it runs", { "env", "git", "push" }, "ask")

-- Names and variables.
case("a name beyond ASCII", { "\239\189\133cho" }, false, "plain characters")
case("a name with a blank", { "ls " }, false, "plain characters")
case("an empty name", { "" }, false)
for _, name in ipairs { "PATH", "LD_PRELOAD", "BASH_ENV", "ENV", "IFS", "GIT_SSH_COMMAND",
  "PROMPT_COMMAND", "BASH_FUNC_ls%%" } do
  case(("the variable %s"):format(name),
    { argv = { "ls" }, words = { "ls" }, env_names = { name } }, false, "is set")
end
case("others are no matter", { argv = { "ls" }, words = { "ls" }, env_names = { "TOKEN" } }, true)
case("nor one that is allowed", { argv = { "ls" }, words = { "ls" },
  env_names = { "PYTHONPATH" } }, true)

-- search_files runs grep, and this form of it only reads.
local function search(tool, ...)
  return { argv = { ... }, words = { ... }, tool = tool }
end
case("search_files", search("search_files", "grep", "-rnIZE", "-e", "x", "--", "."), true)
case("no other grep", search("search_files", "grep", "-f", "x", "y", "--", "."), false)
case("and of no other tool", search("shell", "grep", "-rnIZE", "-e", "x", "--", "."), false)

-- Options.
local function made(name, options, command, expect, reason)
  cases[#cases + 1] = { name = name, options = options, command = command, expect = expect,
    reason = reason }
end
made("default allow", { allow = {}, default = "allow" }, { "anything" }, true)
made("default allow, and deny", { default = "allow", deny = { "rm *" } }, { "rm", "x" }, false)
made("default ask", { default = "ask" }, { "anything" }, "ask", "no rule is about it")
made("a misspelt option", { alow = {} }, { "ls" }, "error", "unknown option 'alow'")
made("a default that there is not", { default = "maybe" }, { "ls" }, "error", "default must be")
made("a rule of nothing", { allow = { "" } }, { "ls" }, "error", "has no words")
made("a rule that is no text", { allow = { 7 } }, { "ls" }, "error", "must be a text or a list")
made("rules that are no list", { allow = { ls = true } }, { "ls" }, "error", "must be a list")

return cases
