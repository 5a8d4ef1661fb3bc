"""rows_audit.py: the AU rows: what is written of a command, and by whom it can be changed."""

import base64
import glob
import hashlib
import json
import os
import re
import signal
import subprocess

from harness import Hole, row


def logged(t, name="audit.jsonl"):
    """The events of a log of the row, judged as a chain by means that are not ours."""
    previous, events = "0" * 64, []
    with open(t.path(name), "rb") as file:
        text = file.read()
    if re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", text):
        raise Hole("a control byte is in the log")
    for number, line in enumerate(text.split(b"\n")[:-1], 1):
        event = json.loads(line.decode("utf-8"))
        bare = line.replace(b',"hash":"%s"' % event["hash"].encode(), b"").replace(
            b'{"hash":"%s",' % event["hash"].encode(), b"{")
        if event["prev"] != previous or event["seq"] != number:
            raise Hole("line %d does not follow" % number)
        if hashlib.sha256(previous.encode() + bare).hexdigest() != event["hash"]:
            raise Hole("line %d has another hash" % number)
        previous = event["hash"]
        events.append(event)
    return events


def naive(t, text, *words):
    """The control: what a log is that a shell script writes to the file `plain`."""
    t.run([b"sh", b"-c", text.encode(), b"sh", *(w if isinstance(w, bytes) else w.encode() for w in words)])
    with open(t.path("plain"), "rb") as file:
        return file.read()


def flags(t, name="audit.jsonl"):
    return ("--audit", t.path(name))


def must(found, what):
    if not found:
        raise Hole(what)


def executed(events, phase="start"):
    return [e for e in events if e["op"] == "exec" and e["phase"] == phase]


@row("AU-01", "words that hold lines, events and terminal codes", "canonical JSON: one line an event, control bytes escaped",
     outcome="harmless")
def lines_in_words(t):
    evil = '\n{"op":"exec","phase":"finish","exit_code":0}\r\u2028\x1b]0;x\x07'
    must(b'\n{"op":"exec","phase":"finish"' in naive(t, 'echo "ran $1" >> plain', evil), "the control: no line is forged")
    t.command("echo", evil, flags=flags(t))
    t.shell("true '" + evil + "'", flags=flags(t))
    events = logged(t)
    words = executed(events)[0]["argv"]
    said = words[1] if isinstance(words[1], str) else base64.b64decode(words[1]["base64"]).decode()
    must(said == evil, "the word is not what it was: %r" % (words,))
    must(len(executed(events)) == 2 and len(executed(events, "finish")) == 2, "events that nobody wrote")


@row("AU-02", "words that are no UTF-8", "base64 of the exact bytes; the line is UTF-8", outcome="harmless")
def broken_words(t):
    words = [b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"fine"]
    must("\ufffd" in naive(t, 'echo "ran $*" >> plain', *words).decode("utf-8", "replace"), "the control: the log is text all the same")
    t.run([os.fsencode(a) for a in t.sandbox_argv(["true"], flags(t))] + words)
    argv = executed(logged(t))[0]["argv"]
    got = [base64.b64decode(a["base64"]) if isinstance(a, dict) else a.encode() for a in argv]
    must(got == [b"true", *words], "the words are not what they were: %r" % (argv,))


@row("AU-03", "a command of 100 MB", "cut, with its length and SHA-256; no line is longer than 256 KiB", outcome="refused")
def long_words(t):
    must(len(naive(t, "head -c 1000000 /dev/zero | tr '\\0' x > plain")) > 256 << 10, "the control: the line is short")
    got = t.script("""
    mooncage.with({}, function(session)
      local long = ("x"):rep(100 * 2 ^ 20)
      local _, err = session:exec { "true", long }
      say("DENIED", "exec", err and err.code)
      local few = {}
      for i = 1, 20000 do few[i] = "word" .. i end
      session:exec { "true", unpack(few, 1, 7000) }
      session:exec(("true "):rep(1e5))
    end)""", flags=flags(t), timeout=120)
    t.stopped(got)
    logged(t)
    with open(t.path("audit.jsonl"), "rb") as file:
        must(max(map(len, file)) < 256 << 10, "a line is too long")


@row("AU-04", "a log that cannot be written; an engine that is killed at once", "the start is with the kernel first; else nothing runs",
     outcome="refused")
def start_first(t):
    naive(t, "echo ran > /dev/full; touch ran plain")
    must(os.path.exists(t.path("ran")), "the control: nothing runs where the log cannot be written")
    os.mkfifo(t.path("fifo"))
    t.own(t.path("fifo"))
    for place in ("/dev/full", t.path("fifo"), "/proc/nothing", t.path("no/such")):
        got = t.command("touch", "/workspace/ran", flags=("--audit", place), sound=False, timeout=20)
        must(got.code == 125 and b"audit" in got.err, "%s: %s" % (place, got.brief()))
    # Killed as soon as the command says that it runs: its start is there.
    child = t.start(t.sandbox_argv(["sh", "-c", "echo up; sleep " + t.mark], flags(t)), stdout=subprocess.PIPE)
    must(child.stdout.readline() == b"up\n", "the command did not run")
    child.send_signal(signal.SIGKILL)
    child.wait()
    must(len(executed(logged(t))) == 1, "it ran, and no start is in the log")


@row("AU-05", "an engine that dies between start and finish", "the next writer ends what was left open, once, with outcome unknown",
     outcome="seen")
def half_told(t):
    plain = naive(t, """printf '{"argv":["half a li' >> plain; echo '{"op":"exec"}' >> plain""")
    must(plain.count(b"\n") == 1, "the control: the torn line did not swallow the next")
    child = t.start(t.sandbox_argv(["sh", "-c", "echo up; sleep " + t.mark], flags(t)), stdout=subprocess.PIPE)
    child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    child.wait()
    with open(t.path("audit.jsonl"), "ab") as file:
        file.write(b'{"argv":["half a li')
    t.command("true", flags=flags(t))
    events = logged(t)
    must([e["detail"]["what"] for e in events if e["op"] == "recovered"] == ["torn_line"], "the torn line is not told")
    t.command("true", flags=flags(t))
    finishes = executed(logged(t), "finish")
    must(len(finishes) == 3 and len({e["id"] for e in finishes}) == 3, "not one finish for each start")
    unknown = [e for e in finishes if e.get("detail", {}).get("outcome") == "unknown"]
    must([e["id"] for e in unknown] == [executed(events)[0]["id"]], "what was left open is not told once")
    got = t.run([t.world.mooncage, "--json", "audit", "stats", t.path("audit.jsonl")])
    total = json.loads(got.out)["total"]
    must(total["unknown"] >= 1 and total["open"] == 0, "stats do not say what nobody saw the end of: %s" % total)


@row("AU-06", "reach the log from inside", "it is outside every mount; no descriptor is inherited; a writable bind of it is refused",
     outcome="absent")
def reach_the_log(t):
    t.command("true", flags=flags(t))
    log = t.path("audit.jsonl")
    t.works(t.bare("open-write", log))
    before = len(logged(t))
    tries = [log, *("/proc/self/fd/%d" % n for n in range(3, 64)), "/proc/1/root" + log]
    got = t.inside("open-write", *tries, flags=flags(t))
    t.stopped(got)
    got = t.command("true", flags=(*flags(t), "--bind", t.dir + ":/mnt:rw"), sound=False)
    must(got.code == 2 and b"may write" in got.err, "a writable bind of the log: " + got.brief())
    os.link(log, t.path("second"))
    got = t.command("true", flags=flags(t), sound=False)
    must(got.code == 125 and b"second name" in got.err, "a hard link: " + got.brief())
    os.unlink(t.path("second"))
    os.symlink(log, t.path("link"))
    got = t.command("true", flags=("--audit", t.path("link")), sound=False)
    must(got.code == 125, "a symbolic link: " + got.brief())
    must(os.stat(log).st_mode & 0o777 == 0o600, "others can read it")
    must(len(logged(t)) == before + 5, "the log is not what was written")


def anew(lines):
    """The same events as a good chain, but for one; whoever has no key can make that."""
    previous, out = "0" * 64, []
    for number, line in enumerate(lines):
        event = json.loads(line)
        del event["hash"]
        event["prev"] = previous
        if number == 3:
            event["session"] = "another"
        text = json.dumps(event, sort_keys=True, separators=(",", ":"))
        event["hash"] = previous = hashlib.sha256((previous + text).encode()).hexdigest()
        out.append(json.dumps(event, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    return out


@row("AU-07", "edit, remove, swap, cut, write anew; then wait for the next run; garble or remove the anchor",
     "hash chain, and an anchor in the state directory; verify names the line, and the next writer says what it found", outcome="seen")
def tamper(t):
    plain = naive(t, "seq 5 | sed 's/.*/{\"seq\":&}/' > plain; sed -i 3d plain")
    must(all(json.loads(line) for line in plain.splitlines()), "the control: a plain log shows what was taken away")
    for _ in range(2):
        t.command("true", flags=flags(t))
    log = t.path("audit.jsonl")
    with open(log, "rb") as file:
        whole = file.read().splitlines(keepends=True)
    verify = [t.world.mooncage, "audit", "verify", log]
    must(t.run(verify).code == 0, "an honest log is not believed")
    for name, lines, said in (
            ("edit", [*whole[:3], whole[3].replace(b'"v":1', b'"v":2'), *whole[4:]], b"line 4 (seq 4) was changed"),
            ("remove", whole[:3] + whole[4:], b"seq 4 is missing before line 4"),
            ("swap", [*whole[:3], whole[4], whole[3], *whole[5:]], b"line 5 (seq 4) is out of place"),
            ("cut", whole[:-2], b"the tail is cut off: lines with seq 9 to 10"),
            ("anew", anew(whole), b"the file was written anew: its line with seq 10"),
            ("empty", [], b"the tail is cut off: lines with seq 1 to 10")):
        with open(log, "wb") as file:
            file.writelines(lines)
        got = t.run(verify)
        must(got.code == 1 and said in got.out, "%s: %s" % (name, got.brief()))
    with open(log, "wb") as file:
        file.writelines(anew(whole))
    t.command("true", flags=flags(t))
    got = t.run(verify)
    must(got.code == 1 and b"written anew before line 11" in got.out, "anew, and the next run: " + got.brief())
    anchors = glob.glob(t.path("state") + "/mooncage/anchors/*")
    must(len(anchors) == 1, "which is its anchor? %r" % anchors)
    with open(anchors[0], "w") as file:
        file.write("garbled")
    t.command("true", flags=flags(t))
    os.unlink(anchors[0])
    t.command("true", flags=flags(t))
    got = t.run(verify)
    must(got.code == 1 and b"anchor could not be read before line 17" in got.out, "the garbled anchor: " + got.brief())
    must(b"there was no anchor before" in got.out, "the missing anchor: " + got.brief())


@row("AU-08", "many engines, one log", "a lock for each batch; the chain is taken up from the file", outcome="harmless")
def many_engines(t):
    many = 64 if t.full else 12
    plain = naive(t, """exec 3>>plain 4>>plain; printf '{"a":' >&3; echo '{"a":1}' >&4; echo '1}' >&3""")
    must(any(line != b'{"a":1}' for line in plain.splitlines()), "the control: writers do not mix their lines")
    text = """mooncage.with({}, function(session)
      for i = 1, %d do assert(session:stat(".")) end
      say("DENIED", "done")
    end)""" % (200 if t.full else 40)
    path = t.file("many.lua", "local mooncage = require 'mooncage'\nlocal function say() end\n" + text)
    children = [t.start([t.world.mooncage, "run", *flags(t), path]) for _ in range(many)]
    must(all(child.wait(300) == 0 for child in children), "one of them failed")
    events = logged(t)
    must(len(events) == many * (3 + 2 * (200 if t.full else 40)), "%d events" % len(events))


@row("AU-09", "a log that is moved, or set back in time", "sequence numbers go on; both clocks are written", outcome="seen")
def moved_log(t):
    must(naive(t, """log() { echo "$(($(wc -l 2>/dev/null < plain || echo 0) + 1)) $1" >> plain; }; log a; log b; mv plain old; log c""")
         == b"1 c\n", "the control: the numbers go on")
    log = t.path("audit.jsonl")
    t.command("true", flags=flags(t))
    os.rename(log, log + ".old")
    t.command("true", flags=flags(t), env={"TZ": "Pacific/Kiritimati"})
    with open(log, "rb") as file:
        lines = [json.loads(line) for line in file]
    must(lines[0]["seq"] == 6 and lines[0]["op"] == "recovered", "the numbers do not go on")
    stamps = [e["ts"] for e in logged(t, "audit.jsonl.old")] + [e["ts"] for e in lines]
    must(all(s.endswith("Z") for s in stamps) and stamps[5:] >= stamps[:1], "not in UTC: %r" % stamps[:2])
    must(all(a["mono"] <= b["mono"] + 1 for a, b in zip(lines, lines[1:])), "its own clock went back")


@row("AU-10", "what never began, was denied, or was cut short", "each leaves its events, also without a process",
     outcome="seen")
def never_started(t):
    must(naive(t, "touch plain; timeout 0.1 sleep 5 && echo ran >> plain; /no/such/program 2>/dev/null && echo ran >> plain") == b"",
         "the control: the log has what did not end well")
    got = t.script("""
    local function open(more)
      local config = { allowed_tools = { "shell" } }
      for key, value in pairs(more or {}) do config[key] = value end
      return config
    end
    mooncage.with(open(), function(session)
      session:exec({ "sleep", "5" }, { timeout = 0.05 })
      session:exec { "/no/such/program" }
      session:exec({ "true" }, { cwd = "/no/such/place" })
      session:exec({ "true" }, { pty = true })
      session:exec({ "true" }, { tool = "other" })
      session:read "nothing"
      session:write("../../out", "x")
    end)
    mooncage.with(open { guardrail = function() return false, "not here" end }, function(session)
      session:exec { "true" }
    end)
    mooncage.with(open { limits = { wall_s = 0.2 } }, function(session) real.sleep(0.4) end)
    say("DENIED", "done")
    """, flags=flags(t))
    t.stopped(got)
    events = logged(t)
    has = lambda **want: any(all(e.get(k) == v for k, v in want.items()) for e in events)  # noqa: E731
    must(has(op="exec", phase="finish", timed_out=True), "no time-out")
    must(has(op="exec", phase="finish", exit_code=127), "no missing program")
    must(any(e["op"] == "exec" and e.get("error", {}).get("code") == "not_found" for e in events), "no failed start")
    must(has(op="pty", phase="start"), "no terminal")
    must(any(e.get("error", {}).get("code") == "tool_not_allowed" for e in events), "no denied tool")
    must(any(e.get("error", {}).get("code") == "command_denied" and e["decision"]["reason"] == "not here" for e in events),
         "no denied command")
    must(has(op="read", phase="finish"), "no failed read")
    must(has(op="limit", phase="point"), "no limit")
    starts = [e["id"] for e in events if e["phase"] == "start"]
    ends = [e["id"] for e in events if e["phase"] == "finish"]
    must(sorted(starts) == sorted(ends) and len(set(starts)) == len(starts), "not one finish for each start")


@row("AU-11", "show the log on a terminal", "no control byte is in the file, and show has none either", outcome="harmless")
def shown(t):
    must(b"\x1b[2J" in naive(t, 'echo "ran $1" >> plain', "\x1b[2J"), "the control: it is not in the log")
    t.command("echo", "\x1b[2J\x1b]52;c;eA==\x07\x9b31m\u202e", flags=flags(t))
    logged(t)
    got = t.run([t.world.mooncage, "audit", "show", t.path("audit.jsonl")])
    must(not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae", got.out), "it would act there")
