"""rows_specs.py: the CP and LU rows, which are cases of tests/spec: those whose name holds the row's id.

The specs of CP show themselves that each way round works where nobody judges. What a policy in Lua
could do without bounds is shown here, by plain LuaJIT."""

import os
import re

from harness import HERE, ROWS, Hole, Row, Skip, row

SPECS = os.path.join(os.path.dirname(HERE), "spec")

ADVICE = "a judge of words is not the wall: what it lets through is as confined as any command"
RENAMED = "a program that was copied or linked to another name inside is judged by that name: files are not looked at"
GAPS = {"CP-01": ADVICE, "CP-08": RENAMED}
COMMANDS = (
    ("CP-01", "chain commands: ; && || | & ( ) { } !", "each simple command of the parse tree is judged"),
    ("CP-02", "hide one command behind sixty", "no number of commands makes a yes"),
    ("CP-03", "newlines, comments, continued lines", "the lexer is that of a POSIX shell"),
    ("CP-04", "substitutions: $( ), backticks, defaults, arithmetic", "what runs inside of a word is judged, or the text is denied"),
    ("CP-05", "quoting, IFS, globs and variables in place of the program's name", "the name must be a literal once quotes are removed"),
    ("CP-06", "decode and run: eval, source, here-documents and pipes into a shell", "programs that run their input are denied"),
    ("CP-07", "wrappers: env, nice, timeout, xargs, sh -c, ...", "the inner command is judged; unknown options of a wrapper are denied"),
    ("CP-08", "other names of a program: paths, ld.so, PATH", "the last part of the path counts; variables that change what runs are denied"),
    ("CP-09", "find -exec, -execdir, -ok, -delete", "options of a program that run others are judged"),
    ("CP-10", "tar's --checkpoint-action and its abbreviations", "options of a program that run others are judged"),
    ("CP-11", "awk, sed: small languages that run commands", "an interpreter is one, whatever its name"),
    ("CP-12", "git -c alias, core.pager, hooks; variables of git", "options and variables of a program that run others are denied"),
    ("CP-13", "make, ssh -o, rsync -e, vim, python -c, tee, dd of=", "options of a program that run others are judged"),
    ("CP-14", "functions, traps, exported functions, variables", "definitions and such variables are denied"),
    ("CP-15", "the network through the shell: /dev/tcp, curl options", "the network namespace; options are judged"),
    ("CP-16", "other spaces, invisible letters, NUL, bytes that are no text", "not ASCII outside of quotes: denied, NUL: refused"),
    ("CP-17", "rules that match a part; patterns that backtrack", "rules are anchored to whole words, and take time in proportion"),
    ("CP-18", "a value that is taken for an option", "rules see options as options; `--` ends them"),
    ("CP-19", "have one thing judged and another run", "what is judged, logged and run is one list of words"),
    ("CP-20", "arguments of a model that switch the sandbox off", "unknown arguments of a tool are an error"),
)

LOOP = "while true do end"
# What the policy tries, what stops it, and the same in plain LuaJIT: it ends well or (None) never ends.
POLICIES = (
    ("LU-01", "bytecode", "chunks are text", "assert(loadstring(string.dump(function() return 1 end)))()", True),
    ("LU-02", "reach ffi, jit, package, require, loadlib", "a policy sees an environment that is made for it", "local f = require 'ffi' f.cdef 'int getpid(void);' assert(f.C.getpid() > 1)", True),
    ("LU-03", "an endless loop, also compiled", "a budget; for strangers the process is killed", LOOP, None),
    ("LU-04", "catch what ends it: pcall around everything", "the limit is raised again; for strangers the process is killed",
     "for i = 1, 9 do pcall(function() error 'limit' end) end " + LOOP, None),
    ("LU-05", "loop where errors are handled: xpcall, __gc, __tostring", "the same budget; the answer is no", "xpcall(error, function() while true do end end)", None),
    ("LU-06", "loop in coroutines, nest them", "the limit holds for all coroutines", "coroutine.wrap(function() while true do end end)()", None),
    ("LU-07", "long calls into C: patterns, string.rep, sort", "for strangers: a process with limits of memory and time",
     "assert(#('x'):rep(2 ^ 28) == 2 ^ 28)", True),
    ("LU-08", "use up memory", "for strangers: a process with a limit of 64 MiB", "local t = {} for i = 1, 300 do t[i] = ('x'):rep(1e6) .. i end", True),
    ("LU-09", "change string's metatable for all", "each policy has libraries of its own; the metatable is locked",
     "getmetatable('').__index.rep = function() return 'evil' end assert(('x'):rep(3) == 'evil')", True),
    ("LU-10", "climb out by getfenv, setfenv, debug", "these are not there", "assert(getfenv(0) == _G and debug.getregistry())", True),
    ("LU-11", "write into what it is given, answer with metamethods", "it has copies; answers are read raw and copied",
     "local r = {argv={'ls'}} (function(q) q.argv[1] = 'rm' end)(r) assert(r.argv[1] == 'rm')", True),
    ("LU-12", "answer what is no answer", "all that is not a plain yes is a no", "if 'allow ' and {} and 1 then else error() end", True),
    ("LU-13", "throw what is hard to show", "cut, escaped; only text is read", "assert(#select(2, pcall(error, ('A'):rep(1e7), 0)) == 1e7)", True),
    ("LU-14", "sources that break a parser", "a limit on size; an error of the parser is a no", "assert(loadstring('return {' .. ('1,'):rep(3e6) .. '}'))", True),
    ("LU-15", "print, io, os, dofile", "these are not there; for strangers there is no file and no network either", "assert(io.open('/etc/passwd') and os.getenv 'PATH')", True),
    ("LU-16", "leave state for another's policy", "an environment, and for strangers a process, of its own", "x = 1 assert(loadstring 'return x'() == 1)", True),
    ("LU-17", "remove the hook that stops it", "it is set from C; debug is not there", "debug.sethook() assert(debug.gethook() == nil)", True),
    ("LU-18", "run the stack or the memory out", "an error, or the end of the policy's process: a no", "local function f() return 1 + f() end f()", None),
    ("LU-19", "forge lines of the log with what it says", "the log is canonical JSON", "assert(('%s'):format('\\n{\"op\":\"exec\"}'):find '\\n')", True),
)


def names_in(text):
    """The ids that names of cases begin with: "CP-01", "LU-02, LU-10: sees nothing"."""
    return {id for names in re.findall(r"[\"']((?:(?:CP|LU)-\d\d(?:, )?)+)", text) for id in names.split(", ")}


def spec_files():
    """Spec files, with the ids that their cases have."""
    found = {}
    for name in sorted(os.listdir(SPECS)):
        if name.endswith("_spec.lua"):
            with open(os.path.join(SPECS, name)) as file:
                found[os.path.join(SPECS, name)] = names_in(file.read())
    return found


FILES = spec_files()
THERE = set().union(*FILES.values())


def cases(t, prefix):
    """Runs the cases of all rows with this prefix, once for this identity: (what came of it, its name)."""
    key = (prefix, t.identity)
    if key not in t.world.cache:
        report = t.file("cases", "")
        files = [path for path, ids in FILES.items() if any(i.startswith(prefix) for i in ids)]
        got = t.run([os.path.join(SPECS, "run"), "--jit", "on", *files, "--filter=%s%%-%%d" % prefix], timeout=280,
                    env={"SPEC_CASES": report, "MOONCAGE_BUILD": t.world.build, "MOONCAGE": t.world.mooncage,
                         "MOONCAGE_INIT": t.world.build + "/mooncage-init"})
        with open(report) as file:
            t.world.cache[key] = [line.rstrip("\n").split("\t", 1) for line in file], got
    return t.world.cache[key]


def spec_row(id, title, mechanism, control, **more):
    def run(t):
        if t.world.sandbox != "mooncage":
            raise Skip(t.world.sandbox + " has no policies")
        control(t)
        every, got = cases(t, id[:2])
        found = [(what, name) for what, name in every if re.search(r"\b%s\b" % id, name)]
        if not found:
            raise Hole("no case of tests/spec has this id in its name: " + got.brief())
        bad = [name for what, name in found if what not in ("success", "pending")]
        if bad:
            raise Hole("%s: %s" % ("; ".join(bad[:3]), got.brief()))
        if not any(what == "success" for what, _ in found):
            raise Skip("the specs skip it here: " + found[0][1])
        t.note("%d cases" % len(found))
    ROWS.append(Row(id, title, mechanism, run, batch=id[:2], **more))


def in_plain_luajit(text, ends):
    def control(t):
        program = t.file("control.lua", text)
        got = t.run(["timeout", "-s", "KILL", "1" if ends is None else "30", "luajit", program], timeout=60)
        if (got.code == 0) != bool(ends):
            raise Hole("the control proves nothing: " + got.brief())
    return control


for _id, _title, _mechanism in COMMANDS:
    if _id in THERE:
        spec_row(_id, _title, _mechanism, lambda t: None, outcome="refused", gap=GAPS.get(_id))
for _id, _title, _mechanism, _text, _ends in POLICIES:
    if _id in THERE:
        spec_row(_id, _title, _mechanism, in_plain_luajit(_text, _ends), outcome="refused")


@row("LU-20", "a policy's file that is a link, a pipe, another's, or half written", "an ordinary file of a trusted owner, read once without following links; an error is a no",
     outcome="refused")
def swapped_file(t):
    whole = "return function() return function() return true end end"
    good = t.file("good.lua", whole, 0o644)
    t.link(good, "link.lua")
    os.mkfifo(t.path("pipe.lua"))
    t.own(t.path("pipe.lua"))
    t.file("half.lua", whole[:30])
    t.file("open.lua", whole, 0o666)
    t.link("/dev/zero", "zero.lua")
    if t.run(["luajit", t.path("link.lua")]).code or t.run(["luajit", t.path("open.lua")]).code:
        raise Hole("the control proves nothing: plain LuaJIT does not follow the link")
    check = lambda name: t.run([t.world.mooncage, "policy", "check", t.path(name)], timeout=20)  # noqa: E731
    if check("good.lua").code:
        raise Hole("an ordinary file is refused: " + check("good.lua").brief())
    if t.world.is_root:
        os.chown(t.file("others.lua", whole), 4711, 4711)
    for name in ("link.lua", "pipe.lua", "half.lua", "open.lua", "zero.lua", *(["others.lua"] if t.world.is_root else [])):
        if check(name).code != 2:
            raise Hole("%s is loaded: %s" % (name, check(name).brief()))
        text = "return { guardrail = mooncage.policy(%r) {} }" % t.path(name)
        got = t.command("true", flags=("--config", t.file("with-%s" % name, text, 0o600)), sound=False, timeout=20)
        if got.code == 0:
            raise Hole("a command runs under %s: %s" % (name, got.brief()))


@row("XA-39", "a value that begins with - where a program, a path or an address is expected", "what follows -- is the command; a call takes a list, and values of flags and calls are values",
     outcome="harmless")
def taken_for_options(t):
    naive = t.run(["sh", "-c", 'echo secret > plain; cat "$1"', "sh", "--version"])
    if b"secret" in naive.out or not naive.out:
        raise Hole("the control proves nothing: the value is not taken for an option")
    for value in ("--network=host", "--backend=subprocess", "--bind=/:/h", "-v", "--"):
        got = t.command(value, "true", sound=False) if value != "--" else t.command("--", "true", sound=False)
        if got.code not in (126, 127):
            raise Hole("%s in the place of a program: %s" % (value, got.brief()))
    got = t.script("""
    mooncage.with(with_probe(), function(session)
      for _, name in ipairs { "--reference=x", "-rf", "--", "-", "@file", "--files0-from=x" } do
        assert(session:write(name, "mine"))
        say(session:read(name) == "mine" and "DENIED" or "ALLOWED", "read " .. name)
        local listed = false
        for _, entry in ipairs(assert(session:list("."))) do listed = listed or entry.name == name end
        say(listed and "DENIED" or "ALLOWED", "list " .. name)
        assert(session:remove(name))
        say(session:read(name) == nil and "DENIED" or "ALLOWED", "remove " .. name)
      end
      local _, err = session:exec { "--network=host" }
      say("DENIED", "exec", err and err.code)
    end)
    """)
    t.stopped(got)
