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

-- Shell text: every simple command in it is judged.
case("one simple command is its words", "ls -l 'a b'", true)
case("quoting hides nothing", "r\"m\" x", false, "a rule denies it")
case("nor do backslashes", "r\\m x", false, "a rule denies it")
case("no text at all", "", false, "there is no command")
case("nothing but a comment", "# ls", false, "there is no command")
case("a text that is allowed to the letter", "make && make test", true)
case("and to no other", "make && make test ", false, "no rule allows it (\"make test\" at byte 9)")
for _, text in ipairs {
  "ls; ls", "ls && cat x || pwd", "ls | cat", "ls & cat x", "(ls)", "{ ls; }", "! ls", "ls\nls",
  "# c\nls", "l\\\ns", "ls # c", "ls \"$(cat x)\"", "ls `cat x`", "ls ${x:-$(pwd)}", "ls $x",
  "ls *.c", "ls ~", "ls $((1 + 2))", "ls 2>&1", "ls >/dev/null 2>&1", "ls &>/dev/null",
  "cat <<E\nx $(pwd)\nE", "cat <<'E'\n$(rm x)\nE", "x=1; y=$(pwd); ls \"$x\"", "A=1 ls",
  "if ls; then cat x; elif [ -f x ]; then :; else pwd; fi", "while true; do ls; done",
  "for i in 1 2; do cat \"./$i\"; done", "case $x in a | b) ls ;; *) cat x ;; esac",
  "ls | while IFS= read -r line; do echo \"two words\"; done", "cat <(ls)", "ls | xargs cat",
  "[ -f x ] && [ \"$a\" = b ]", "export A=1; ls",
} do
  case(("all of it is allowed: %s"):format((text:gsub("%c", "?"):sub(1, 40))), text, true)
end
for _, text in ipairs {
  -- CP-01, 02, 03
  "ls; rm x", "ls && rm x", "ls || rm x", "ls | rm", "ls & rm x", "(rm x)", "{ rm x; }", "! rm x",
  "ls\nrm x", "# c\nrm x", "r\\\nm x", ("true &&"):rep(60) .. " rm x", "ls;rm x;ls", "ls|rm|ls",
  "ls &\nrm x", "( (ls) && { ls; rm x; } )", "! ! rm x", "ls && ! rm x",
  -- CP-04
  "ls $(rm x)", "ls `rm x`", "ls \"`rm x`\"", "ls \"$(ls \"$(rm x)\")\"", "ls <(rm x)",
  "ls ${x:-$(rm x)}", "ls \"${x:=`rm x`}\"", "ls ${x%$(rm x)}", "ls $((1 + $(rm x)))", "x=$(rm x)",
  "ls > $(rm x)", "cat <<E\n$(rm x)\nE", "cat <<E\n`rm x`\nE", "cat <<-E\n\t${a:-$(rm x)}\n\tE",
  "case $(rm x) in a) ls;; esac", "case a in $(rm x)) ls;; esac", "for i in $(rm x); do ls; done",
  -- the rest of the grammar
  "if true; then rm x; fi", "if rm x; then ls; fi", "if ls; then ls; else rm x; fi",
  "if ls; then ls; elif rm x; then ls; fi", "while rm x; do ls; done", "until ls; do rm x; done",
  "for i in a; do rm x; done", "for i; do rm x; done", "case a in a) rm x;; esac",
  "case a in (a|b) ls;; *) rm x; esac", "{ ls; } && rm x", "{ ls\n} | rm x", "(ls) & rm x",
  "rm x > /dev/null", ">/dev/null rm x", "2>/dev/null rm x", "A=1 rm x", "A=1 B=\"2\" rm x",
  "f() { rm x; }; f", "f() rm x", "ls 'a' \"b\"; rm x", "ls 'a;b'; rm x", "ls \\; ; rm x",
  -- CP-06, 07, 14 by what is run
  "eval 'rm x'", "eval rm x", "trap 'rm x' EXIT", "command rm x", "exec rm x", "time rm x",
  "ls | xargs rm", "echo x | xargs -I{} rm {}", "find . -exec rm {} +", "env -i rm x",
} do
  case(("the command in it is denied: %s"):format((text:gsub("%c", "?"):sub(1, 40))), text, false,
    "a rule denies it")
end

-- What is not understood, or put in at run time, is denied.
for _, each in ipairs {
  { "$x", "which program it is" }, { "\"$x\" y", "which program it is" },
  { "a=r;b=m;$a$b x", "which program it is" }, { "echo${IFS}x", "which program it is" },
  { "$(echo rm) x", "which program it is" }, { "/bin/r? x", "which program it is" },
  { "{rm,x}", "which program it is" }, { "$'\\x72m' x", "not in all shells" },
  { "$'rm' x", "which program it is" }, { "\194\160rm x", "which program it is" },
  { "r\226\128\141m x", "which program it is" }, { "~/ls", "which program it is" },
  { "ls\rrm x", "control character" }, { "ls $((a[$(rm x)]))", "read alike" },
  { "ls $((a))", "arithmetic with variables" }, { "ls $[1]", "not in all shells" },
  { "ls ${x[1]}", "not all shells" }, { "ls ${!x}", "not all shells" },
  { "ls ${x/a/b}", "not all shells" }, { "ls ${x@P}", "not all shells" },
  { "[[ -f x ]]", "only some shells" }, { "((1))", "not in all shells" }, { "((ls); rm x)",
  "not in all shells" },
  { "ls ${", "not all shells" },
  { "function f { rm x; }", "only some shells" }, { "coproc rm x", "only some shells" },
  { "select i in a; do ls; done", "only some shells" }, { "time { rm x; }", "a reserved word" },
  { "time ! rm x", "before a construct" }, { "a[1]=x ls", "not in all shells" },
  { "a+=x ls", "not in all shells" }, { "a=(rm x)", "a ( where" }, { "ls &> x rm",
  "shells differ" },
  { "ls {fd}>x", "not in all shells" }, { "ls 12>x", "shells differ" }, { "ls 'x", "not closed" },
  { "ls \"x", "not closed" }, { "ls `x", "not closed" }, { "ls $(x", "not closed" },
  { "ls ${x:-", "not closed" }, { "cat <<E\nx", "not closed" }, { "ls )", "opens nothing" },
  { "ls (", "a ( where" }, { "if ls", "missing" }, { "{ ls", "not closed" }, { "ls x\\",
  "backslash" },
  { "ls && ", "missing" }, { "ls > ", "no target" }, { "; ls", "missing" }, { "ls ;; ls", ";;" },
  { "test -v 'x[$(rm x)]'", "subscript" }, { "printf -v 'x[$(rm x)]' y", "is set" },
  { "[ $x ]", "quote it" }, { "let 'a[$(rm x)]'", "cannot be told" },
  { "f() { ls; }; ls", "defines a function" }, { "alias ls=rm", "cannot be told" },
  { "mapfile -C 'rm x' a", "not told" }, { "exec 3<>/dev/tcp/127.0.0.1/1", "write" },
  { "cat <<E $(\nls)\nx\nE", "here-document waits" }, { "cat <<E\nx\\\nE\nE",
  "quote its delimiter" },
} do
  case(("not understood: %s"):format((each[1]:gsub("%c", "?"):sub(1, 40))), each[1], false, each[2])
end

-- CP-05, 08: assignments, by whatever sets them.
for _, text in ipairs {
  "PATH=. ls", "PATH=.; ls", "export PATH=.", "export \"PATH=$x\"", "readonly PATH=.",
  "read PATH", "for PATH in .; do ls; done", ": ${PATH:=.}", "printf -v PATH .", "getopts x PATH",
  "MAKEFILES=m make", "env GNUMAKEFLAGS=x make", "WGETRC=w ls", "CURL_HOME=. ls", "CC=x make",
  "COMPILER_PATH=. ls", "MANOPT=-Px ls", "RSYNC_CONNECT_PROG=x ls", "GCC_EXEC_PREFIX=. ls",
  "ZIPOPT=-TTx ls", "HARNESS_PERL=x ls", "AWS_PAGER=x ls", "KUBE_EDITOR=x ls", "PS0='$(x)' ls",
  "LD_PRELOAD=x ls", "env LD_PRELOAD=x ls", "env -i PATH=. ls", "BASH_ENV=x ls", "HOME=. ls",
  "GIT_SSH_COMMAND=x ls", "IFS=x; ls", "env 'BASH_FUNC_ls%%=() { rm x; }' bash -c ls", "unset PATH",
  "local PATH=.", "env \"LD_PRELOAD=$x\" ls",
} do
  case(("it sets a variable: %s"):format(text), text, false, "is set")
end
case("which variable is not known", "export \"$x\"", false, "which variable")

-- Redirections.
case("no file is written", "ls > out", false, "no rule lets it write \"out\"")
case("nor read", "cat < in", false, "no rule lets it read \"in\"")
case("whatever the form", "ls >| x", false, "write")
case("of a group, too", "{ ls; } > x", false, "write")
case("nor by a name that is not known", "ls > \"$x\"", false, "put in at run time")

-- CP-07: programs that run others, as a list of arguments too.
case("env is judged by what it runs", { "env", "rm", "x" }, false, "a rule denies it")
case("also when a rule allows the wrapper", { "timeout", "5", "rm", "x" }, false,
  "a rule denies it")
case("and allows what is allowed", { "env", "ls" }, true)
case("nested", { "env", "nice", "nohup", "rm", "x" }, false, "a rule denies it")
case("and said where", { "env", "nice", "rm", "x" }, false, "run by \"nice\", run by \"env\"")
case("options are read", { "nice", "-n", "5", "ls" }, true)
case("glued", { "nice", "-n5", "rm", "x" }, false, "a rule denies it")
case("unknown ones are not guessed", { "nice", "--frob", "ls" }, false, "not known")
case("env sets nothing", { "env", "PATH=/tmp", "ls" }, false, "PATH is set")
case("env -S", { "env", "-S", "rm x" }, false, "a rule denies it")
case("env -S with options of env", { "env", "-S", "-i rm x" }, false, "a rule denies it")
case("env -S, glued", { "env", "-Srm x" }, false, "a rule denies it")
case("env --split-s", { "env", "--split-s=rm x" }, false, "a rule denies it")
case("env -S with escapes", { "env", "-S", "r\\_m" }, false, "cannot be told")
case("alone it is a program like any", { "env" }, true)
case("sh -c is judged by its text", { "sh", "-c", "ls -l" }, true)
case("whatever its name", { "/usr/bin/bash", "-c", "rm x" }, false, "a rule denies it")
case("and all of its text", { "sh", "-c", "ls; rm x" }, false, "a rule denies it")
case("with other options", { "sh", "-ec", "rm x" }, false, "a rule denies it")
case("with options that have arguments", { "bash", "-o", "errexit", "-c", "rm x" }, false,
  "a rule denies it")
case("with arguments", { "sh", "-c", "ls", "x" }, true)
case("that it may run", { "sh", "-c", "\"$@\"", "x", "rm" }, false, "which program")
case("in another", { "sh", "-c", "sh -c 'rm x'" }, false, "a rule denies it")
case("whose text is not understood", { "sh", "-c", "ls (" }, false, "a ( where")
case("a shell script is allowed as such", { "sh", "run.sh" }, true)
case("a shell that reads its input is not", { "sh" }, false, "runs what it reads")
case("nor one that is told to", { "sh", "-s", "x" }, false, "runs what it reads")
case("nor from a device", { "sh", "/dev/stdin" }, false, "runs what it reads")
case("xargs", { "xargs", "rm" }, false, "a rule denies it")
case("xargs with options", { "xargs", "-0", "-n1", "-P", "4", "rm" }, false, "a rule denies it")
case("xargs of a shell", { "xargs", "sh", "-c" }, false, "put in at run time")
case("sudo runs what is denied", { "sudo", "-u", "root", "rm", "x" }, false)
case("and is no mere wrapper", { "sudo", "ls" }, false, "no rule allows it")
case("busybox", { "busybox", "rm", "x" }, false, "a rule denies it")
case("a loader", { "/lib64/ld-linux-x86-64.so.2", "/bin/rm" }, false, "a rule denies it")
case("a loader that loads more", { "/lib64/ld-linux-x86-64.so.2", "--preload", "x", "/bin/ls" },
  false, "not told")
for _, text in ipairs {
  "nice -5 rm x", "nohup rm x", "setsid -w rm x", "stdbuf -o0 rm x", "ionice -c 3 rm x",
  "chrt -i 0 rm x", "taskset 1 rm x", "timeout -s KILL 5 rm x", "timeout --sig=KILL 5 rm x",
  "setarch x86_64 rm x", "prlimit --nofile=5 rm x", "flock x rm x", "flock x -c 'rm x'",
  "watch rm x", "watch -x rm x", "watch -n 1 'ls; rm x'", "script -c 'rm x' f", "script -qc 'rm x'",
  "su -c 'rm x'", "su x -c 'rm x'", "unshare -r rm x", "command -p rm x", "builtin command rm x",
  "strace -f rm x", "busybox sh -c 'rm x'", "find . -exec sh -c 'rm x' \\;", "find . -ok rm {} \\;",
  "find . -execdir rm {} \\; -name x", "env -u A -C / rm x", "env -- rm x", "env A=1 rm x",
  "tar cf x --checkpoint-action=exec='rm x' .", "tar --checkpoint-act=exec='rm x' -cf x .",
  "tar -I 'rm x' -cf x .", "tar -cI'rm x' -f x .", "tar --use-compress='rm x' -cf x .",
  "tar xf x --to-command 'rm x'", "split --filter='rm x' f", "sort --compress-p='rm' f",
  "choom -n 0 -- rm x", "x86_64 rm x", "i386 rm x", "uname26 rm x", "aoss rm x",
  "install -s --strip-program=rm a b",
  "rsync -e 'rm x' a b:", "rsync -ae'rm x' a b:", "nc -e rm x", "man -P 'rm x' ls",
} do
  case(("run by another: %s"):format(text), text, false, "a rule denies it")
end

-- CP-06, 09 to 13: what they run cannot be told.
for _, text in ipairs {
  "echo x | sh", "echo x | base64 -d | bash", "sh <<E\nls\nE", "bash <<< ls", "python3 -c 'x'",
  "python3 -Bc 'x'", "python3 -", "python3", "python3.11 -c x", "perl -e x", "perl -ne x",
  "perl -Mx x", "ruby -e x", "node -e x", "php -r x", "lua -e x", ". ./f", "source /dev/stdin",
  "eval \"$x\"", "sh -c \"$x\"", "bash <(ls)", "find . -delete", "find . -fprintf f x",
  "find . $x", "awk 'BEGIN { system(\"x\") }'", "awk '{ print | \"sh\" }' f",
  "awk '{ print > \"f\" }'", "awk -f - x", "awk \"$x\"", "sed 's/x/X/e' f", "sed 's|a|b|we f' f",
  "sed 'w f' f", "sed -n '1e x' f", "sed -n '/a/,/b/{p;w f\n}' f", "sed -f f",
  "sed -e p -e 'e x' f", "sed ':a e x' f", "sed ':a\te x' f", "sed 'b a e x\n:a' f",
  "sed '{t a}w f' f",
  "git -c alias.x='!x' x", "git -c core.pager=x log", "git -c core.fsmonitor=x status",
  "git --exec-path=. status", "git fetch --upload-pack=x", "git clone --upl=x y", "git x-y",
  "git clone ext::'sh -c x'", "git -C d x", "git config core.pager x", "git bisect run x",
  "git rebase -x x", "git submodule foreach x", "git \"$x\"", "make -f -", "make --ev='x'",
  "make SHELL=x", "ssh -o ProxyCommand=x h", "ssh -oProxyCommand=x h", "ssh -F f h",
  "vim -c ':!x'", "ed f", "gdb -ex x", "zip -TT x", "less +x", "dd if=a of=b", "curl -K f",
  "curl -so f x", "wget --post-f=f x", "wget -O f x", "nsenter -t 1", "run-parts d",
  "parallel x", "tar cIf x y", "tar $x", "tar *", "env -S \"$x\"",
  "cd /dev; sh stdin", "cd /dev; python3 ./stdin", "cd /dev/fd; sh 3", "sh /dev/std?n",
  "sh /d*/stdin", "sh ../dev/std?n", "sh ./std?n",
  "gcc -wrapper x,y -c a.c", "g++-12 -fplugin=x a.c", "cc @f", "clang -Xclang x a.c",
  "awk -f /proc/self/fd/3 f", "make -f ./stdin",
  "python3 -m timeit x", "python3 -mtimeit x", "python3 -m code", "wait -n -p 'a[$(x)]'",
  "compgen -W '$(x)'", "cmake -E env x", "cmake -E time x",
  "ccache x", "sg root -c x", "newgrp", "coresched new -- x", "tini -- x", "debconf x",
  "env -u $x", "env --unset $x", "echo x | xargs env -u", "nice -n $x", "timeout -k $x",
  "stdbuf -o $x", "ionice -c 2 -n $x", "choom -n $x", "flock -w $x", "bash -o $x 'ls'",
  "tar -c -f $x", "make -C $x", "ssh -p $x", "sort -k $x", "git -C $x", "python3 -W $x",
  "dd if=$x", "dd o\"$x\"", "tar c\"$x\"", "make SHELL=\"$x\"", "make a\"$x\"",
  "git clone \"ext::$x\"", "git bisect r\"$x\" y",
  "xargs -I{} -n2 env", "xargs -I{} -L1 env", "xargs -i -n2 env", "xargs --replace --max-l=1 env",
  "xargs -n2 -I{} env", "xargs --process-slot-var=PATH ls",
  "perl -le x", "perl -lpe x", "perl -lane x", "perl -0e x", "perl -0777e x", "perl -00ne x",
  "perl -l0e x", "perl -l012e x", "perl -de x", "perl -dte x", "perl -d x", "perl '-C0 -e' x",
  "perl5.36-x86_64-linux-gnu -e x", "ruby -0e x", "ruby -W0e x", "ruby -T1e x", "ruby -Ke x",
  "ruby -K -e x", "php -f /dev/stdin x", "zsh +x -c x", "ksh + -c x", "node inspect x",
  "python3 -m cProfile -m timeit x", "python3 -m profile -o f -m timeit x", "python3 -m bpython",
  "python3 -m runpy timeit x", "python3 -m trace -t --module timeit x", "python3 -m _pyrepl",
  "python3 -m asyncio.__main__", "python3 -m cProfile /dev/stdin", "python3 -m imaplib -s x",
  "python3 -m doctest /dev/stdin", "python3 -m pickle -", "python3 -m \"$x\"",
  "git config core.fsmonitor x list", "git config core.sshCommand x get",
  "git config core.fsmonitor x --get", "git config --file --list alias.x y",
  "git archive -o f HEAD", "git archive -vof HEAD", "git bundle create f HEAD",
  "git checkout-index --prefix=f -a", "git checkout-index --pre=f -a", "git index-pack -o f x",
  "git format-patch -o d", "git format-patch --output-directory=d",
  "git read-tree --index-output=f",
  "make SHELL:=x", "make SHELL::=x", "make SHELL?=x", "make SHELL+=x", "make 'SHELL =x'",
  "make ' SHELL=x'", "make '\tSHELL\t:= x'", "make -- SHELL=x", "make MAKEFLAGS+=x",
  "make 'x!=y'", "make 'x != y'", "make 'a$(b)=c'", "make 'CFLAGS=;x'", "make 'CC=x ;'",
  "ssh -o '\"ProxyCommand\" x' h", "ssh -o '=ProxyCommand x' h", "ssh -p 1 h -oProxyCommand=x",
  "ssh -oSmartcardDevice=x h", "sftp h", "sftp -b f h", "sftp -S x h", "scp -oProxyCommand=x a h:",
  "gcc --prefix=d/ -c a.c", "gcc --prefix d/ -c a.c", "x86_64-linux-gnu-gcc-12 -wrapper x a.c",
  "c99 -wrapper x a.c", "gcc -Wl,-plugin,x a.c", "clang --config f a.c", "busybox openvt x",
  "editor f", "vim.tiny f", "npx x", "make 'COMPILE.c=x'", "make 'LINK.o=x' y", "make 'a=b #'",
  "pip --python ./x list", "python3 -m pip --python=./x list", "ssh-add -s ./x.so",
  "apt-get -o X::Pre-Invoke::=x update", "ssh-keygen -D ./x.so", "ar --plugin ./x.so t f",
  "npm --script-shell=x run a", "cpio -o -F h:f --rsh-command=x",
  "time -o f x", "script f", "su", "flock x -c \"$x\"", "busybox --install d",
} do
  cases[#cases + 1] = { name = ("it cannot be told: %s"):format((text:gsub("%c", "?"))),
    options = { default = "allow", write = { "*" }, read = { "*" } }, command = text,
    expect = false }
end

for _, text in ipairs {
  "sh -c - 'rm x'", "sh -c + 'rm x'", "bash -ec + - 'rm x'", "sftp -D 'rm x' h",
  "scp -D 'rm x' a h:",
  "busybox cttyhack rm x", "prove -e 'rm x' t", "prove --exe 'rm x' t", "make CC='rm x'",
  "xargs -I{} -n1 rm {}", "dpkg --pre-invoke='rm x' -i p", "sdiff --diff-p='rm x' a b",
  "pip config edit --editor 'rm x'", "python3 -m pip config edit --editor='rm x'",
  "npm exec -c 'rm x'",
} do
  case(("run by another: %s"):format(text), text, false, "a rule denies it")
end

for _, text in ipairs { "gosu", "xargs -I" } do
  case(("nothing is run, and no rule allows it: %s"):format(text), text, false)
end

-- Names and variables.
case("a name beyond ASCII", { "\239\189\133cho" }, false, "plain characters")
case("a name with a blank", { "ls " }, false, "plain characters")
case("an empty name", { "" }, false)
for _, name in ipairs { "PATH", "LD_PRELOAD", "BASH_ENV", "ENV", "IFS", "GIT_SSH_COMMAND",
  "PROMPT_COMMAND", "BASH_FUNC_ls%%", "MAKEFILES", "WGETRC", "CURL_HOME", "RSYNC_CONNECT_PROG",
  "COMPILER_PATH" } do
  case(("the variable %s"):format(name),
    { argv = { "ls" }, words = { "ls" }, env_names = { name } }, false, "is set")
end
case("others are no matter", { argv = { "ls" }, words = { "ls" }, env_names = { "TOKEN" } }, true)
case("nor one that is allowed", { argv = { "ls" }, words = { "ls" },
  env_names = { "PYTHONPATH" } }, true)

for _, name in ipairs { "HOME", "CC", "JAVA_HOME", "KUBECONFIG" } do
  case(("%s is the operator's"):format(name),
    { argv = { "ls" }, words = { "ls" }, env_names = { name } }, true)
end

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
made("a file may be written", { allow = { "ls" }, write = { "out/*" } }, "ls > out/x", true)
made("but no way up", { allow = { "ls" }, write = { "out/*" } }, "ls > out/../x", false, "write")
made("a file may be read", { allow = { "ls" }, read = { "*" } }, "ls < x", true)
made("unknown = ask", { allow = { "ls" }, unknown = "ask" }, "ls; $x", "ask", "which program")
made("it does not soften a denial", { deny = { "ls" }, unknown = "ask" }, "ls; $x", false, "denies")
made("of a text that is not understood", { unknown = "ask" }, "ls (", "ask", "at byte 5")
made("unknown = allow", { default = "allow", unknown = "allow" }, "[[ x ]]", true)
made("an interpreter that is allowed as such", { allow = { "python3 *" } }, "python3 -c x", true)
made("is not by default", { default = "allow" }, "python3 -c x", false, "not understood")
made("a script is a program like any", { default = "allow" }, "python3 x.py", true)
for _, text in ipairs { "python3 -m pytest x", "cmake -DEXTRA=1 -S . -B b", "wait", "wait -n",
  "wait 1", "gcc -O2 -w -o a a.c", "g++ -c ./*.cc", "install -m 755 a b", "sh ./run.sh",
  "sh - run.sh", "git config --get x", "git config -l", "git config --global --list",
  "git config list", "git config --file f --get x", "git config -f f -l", "git config get x",
  "git archive --prefix=d/ HEAD", "git bundle verify f", "make -j4 V=1 PREFIX=/usr all",
  "make CC=clang CFLAGS='-O2 -g'", "make -- all", "ssh -p 1 h ls -oProxyCommand", "perl -l x.pl",
  "perl -0777 x.pl", "perl -w -l012 x.pl", "ruby -W:no-deprecated x.rb", "ruby -W0 x.rb",
  "python3 -m cProfile x.py", "python3 -m cProfile -o f -m pytest x", "python3 -m trace -t x.py",
  "python3 -m pip list", "pip install -r x.txt", "python3 -m pip install -e .", "apt-get update",
  "ar rcs l.a o.o", "npm run test", "ssh-keygen -t ed25519 -f k", "dpkg -l",
  "python3 -m doctest x.txt", "xargs -I{} -n1 echo {}", "env -u \"$x\" ls",
  "nice -n \"$x\" ls", "gcc -Wl,-rpath,x a.c", "scp a h:", "prove -l t",
  "python3 ./\"$x\"", "sed ':a;N;$!ba;s/x/y/' f",
  "sed -n ':a\n/x/{p;b a\n}' f" } do
  made(("%s is as plain"):format((text:gsub("%c", "?"))), { default = "allow" }, text, true)
end
-- A rule names all that cannot be told.
for _, each in ipairs {
  { "git -c core.pager=* *", { "git", "-c", "core.pager=cat", "-c", "alias.x=!x", "x" } },
  { "git -c core.pager=* *", { "git", "-c", "core.pager=cat", "log", "--output=f" } },
  { "curl -o build/* *", { "curl", "-o", "build/x", "-K", "f" } },
  { "curl -o out *", { "curl", "-o", "out", "u", "-o", "f" } },
  { "curl -s* *", { "curl", "-sKf", "u" } },
  { "dd of=out *", { "dd", "of=out", "if=f", "of=g" } },
  { "wget -O out *", { "wget", "-O", "out", "--use-askpass=./x", "u" } },
  { "make SHELL=/bin/bash *", { "make", "SHELL=/bin/bash", "-f", "mk", "SHELL=./x" } },
  { "find . -delete *", { "find", ".", "-delete", "-fprint", "f" } },
  { "gcc -B* *", { "gcc", "-B.", "-wrapper", "x" } },
  { "gdb -batch *", { "gdb", "-batch", "-ex", "x" } },
  { "nice --frob *", { "nice", "--frob", "x" } },
  { "su a *", { "su", "a", "b" } },
  { "node --max-old-space-size=* *", { "node", "--max-old-space-size=9", "-e", "x" } },
  { "node --frob *", { "node", "--frob", "-e", "x" } },
  -- 1 for code the word that brings it
  { "python3 *.py", { "python3", "-cx#.py" } }, { "perl *.pl", { "perl", "-ex#.pl" } },
  { "node *.js", { "node", "--eval=x//.js" } }, { "luajit *.lua", { "luajit", "-ex--.lua" } },
  { "sed -n *p *", { "sed", "-n", "1e x\np", "f" } },
  { "perl -e 1 *", { "perl", "-e", "1", "-ex" } },
  { "python3 d/*", { "python3", "d/../dev/stdin" } }, { "bash -x *", { "bash", "-x" } },
  { "make *x", { "make", "SHELL=x" } }, { "make S* *", { "make", "SHELL=x", "a" } },
} do
  made(("%s does not name %s"):format(each[1], (table.concat(each[2], " "):gsub("%c", "?"))),
    { allow = { each[1] } }, each[2], false)
end
for _, each in ipairs {
  { "git -c core.pager=* -c alias.x=* x",
    { "git", "-c", "core.pager=cat", "-c", "alias.x=!x", "x" } },
  { "curl -o build/* *", { "curl", "-o", "build/x", "u" } },
  { "curl -sK* *", { "curl", "-sKf", "u" } }, { "dd of=* if=*", { "dd", "of=a", "if=b" } },
  { "make SHELL=* *", { "make", "SHELL=/bin/bash", "all" } },
  { "python3 -c *", { "python3", "-c", "x", "-c" } }, { "python3 -c*", { "python3", "-cx" } },
  { "python3 *", { "python3", "-c", "x" } }, { "python3 *", { "python3" } },
  { "perl -e * *", { "perl", "-e", "x", "y" } }, { "bash", { "bash" } },
  { "python3 -m timeit *", { "python3", "-m", "timeit", "x" } },
  { "sed -n w f", { "sed", "-n", "w", "f" } }, { "sh -c *", "sh -c \"$x\"" },
  { "gdb -batch f", { "gdb", "-batch", "f" } }, { "vim *", { "vim", "-c", "x", "y" } },
  { "git archive -o *", { "git", "archive", "-o", "f" } },
} do
  local text = type(each[2]) == "table" and table.concat(each[2], " ") or each[2]
  made(("%s names %s"):format(each[1], text), { allow = { each[1] } }, each[2], true)
end
made("another rule may name it", { allow = { "git *", "git -c core.pager=* *" } },
  { "git", "-c", "core.pager=x", "log" }, true)
made("not half each", { allow = { "git -c core.pager=* *", "git * * -c *" } },
  { "git", "-c", "core.pager=x", "-c", "alias.x=y", "x" }, false, "setting")
made("a * in a program's name leads not up", { allow = { "./p/* *" } }, { "./p/../../bin/x" },
  false,
  "no rule allows it")
made("but down", { allow = { "./p/* *" } }, { "./p/a/x", "../y" }, true)
made("a rule may lead up by itself", { allow = { "../p/x *" } }, { "../p/x" }, true)
made("deny knows all ways", { default = "allow", deny = { "./p/* *" } }, { "./p/../x" }, false)
made("an option needs a rule that names it", { allow = { "git *" } }, "git -c core.pager=x log",
  false, "setting")
made("like this", { allow = { "git -c core.pager=* log" } }, "git -c core.pager=x log", true)
made("a rule for the outer allows not the inner", { allow = { "find *" } }, "find . -exec x \\;",
  false, "no rule allows it")
made("both do", { allow = { "find *", "x *" } }, "find . -exec x {} \\;", true)
made("a word that may be an option", { allow = { "tar *" } }, "tar cf x *", false, "put ./ before")
made("and one that may not", { allow = { "tar *" } }, "tar cf x ./*", true)
made("a rule that it may fit", { default = "allow", deny = { "cp * /etc" } }, "cp a \"$x\"", false,
  "may make it fit")
made("and one that it cannot", { default = "allow", deny = { "cp * /etc" } }, "cp a ./\"$x\"", true)
made("any word but one that is not known", { allow = { "ls *.c" } }, "ls \"$x.c\"", false)
made("several words are not one", { allow = { "ls a*" } }, "ls a*", false)
made("an unknown that there is not", { unknown = "maybe" }, { "ls" }, "error", "unknown must be")
made("files that are no list", { write = "x" }, { "ls" }, "error", "must be a list of file names")
made("a misspelt option", { alow = {} }, { "ls" }, "error", "unknown option 'alow'")
made("a default that there is not", { default = "maybe" }, { "ls" }, "error", "default must be")
made("a rule of nothing", { allow = { "" } }, { "ls" }, "error", "has no words")
made("a rule that is no text", { allow = { 7 } }, { "ls" }, "error", "must be a text or a list")
made("a hole in a rule", { deny = { { "rm", nil, "*" } } }, { "ls" }, "error")
made("a hole in rules", { deny = { "rm", nil, "cp" } }, { "ls" }, "error")
made("a hole in files", { write = { "a", nil, "b" } }, { "ls" }, "error")
made("a hole in texts", { shell = { "a", nil, "b" } }, { "ls" }, "error")
made("a hole in variables", { env = { nil, "A" } }, { "ls" }, "error")
made("a rule with names", { deny = { { "rm", all = "*" } } }, { "ls" }, "error")
made("rules that are no list", { allow = { ls = true } }, { "ls" }, "error", "must be a list")

return cases
