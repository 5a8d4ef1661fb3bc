"""rows_secrets.py: the SE rows: where the value of a secret must never be found, and who reads what
holds it."""

import base64
import glob
import json
import os
import signal
import subprocess
import time
import urllib.parse

from harness import HERE, Hole, Skip, row
from rows_audit import executed, flags, logged, must


SECRET = """
local key = real.secret(os.getenv "MCG_CANARY")
local config = with_probe({}, { environment = { TOKEN = key }, run_id = "r" })
"""


def spellings(secret):
    raw = secret.encode()
    return [raw, raw.hex().encode(), base64.b64encode(raw).rstrip(b"="), urllib.parse.quote(secret, safe="").encode()]


def search(t, secret, where, texts):
    for name, text in texts:
        for spelling in spellings(secret):
            if spelling in text:
                raise Hole("the secret is in %s: %s" % (where, name))


@row("SE-01", "look for the engine's own variables: env, environ and memory of every process inside",
     "the environment inside is an allowlist; the engine's processes are not seen", outcome="absent")
def engine_environment(t):
    key = "canary-key-" + t.canary
    text = "env; cat /proc/[0-9]*/environ /proc/1/mem; for m in /proc/[0-9]*/mem; do strings $m; done; set"
    outside = t.run(["sh", "-c", text], env={"VENDOR_API_KEY": key})
    must(key.encode() in outside.out, "the control proves nothing: it is not in the environment outside")
    for carry in ((), ("--env", "LANG=C")):
        got = t.shell(text, flags=carry, env={"VENDOR_API_KEY": key, "AWS_SECRET_ACCESS_KEY": key, "GITHUB_TOKEN": key})
        t.absent(key, got)


@row("SE-02", "look for secrets in the list of processes", "they travel on sockets and in memory, never on a command line",
     outcome="absent")
def on_command_lines(t):
    secret = "canary/" + t.canary
    path = t.file("secret.lua", ("local real = require 'mooncage'\n" + SECRET.replace("with_probe({}, ", "(") + """
    real.with(config, function(s) print(s:exec("echo up; sleep 1").stdout) end)"""))
    child = t.start([t.world.mooncage, "run", *flags(t), path], env={"MCG_CANARY": secret}, stdout=subprocess.PIPE)
    time.sleep(0.4)
    lines = []
    for name in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(name, "rb") as file:
                lines.append((name, file.read()))
        except OSError:
            pass
    child.wait()
    search(t, secret, "a command line", lines)


@row("SE-04", "look for a secret in all that is written", "known values are struck out of every event, in the spellings of docs/audit.md",
     outcome="harmless")
def written_anywhere(t):
    secret = "canary/" + t.canary
    path = t.file("secret.lua", "local real = require 'mooncage'\n" + SECRET.replace("with_probe({}, ", "(") + """
    real.with(config, function(s)
      local plain = os.getenv "MCG_CANARY"
      local hex = plain:gsub(".", function(c) return ("%02x"):format(c:byte()) end)
      s:exec { "true", plain, hex, "x=" .. plain .. "&y" }
      s:exec("true " .. plain)
      s:exec({ "true" }, { cwd = "/" .. plain, stdin = plain, env = { A = plain } })
      s:write(plain, plain)
      s:read(hex)
      s:exec({ "true" }, { tool = plain })
      local _, err = s:read(plain .. "/nothing")
    end)""")
    got = t.run([t.world.mooncage, "-v", "-v", "run", *flags(t), path], env={"MCG_CANARY": secret})
    must(got.code == 0, got.brief())
    must(len(logged(t)) > 12, "too little was written")
    texts = [("stderr", got.err)]
    for top, _, names in os.walk(t.tmp):
        for name in names:
            with open(os.path.join(top, name), "rb") as file:
                texts.append((name, file.read()))
    with open(t.path("audit.jsonl"), "rb") as file:
        texts.append(("the log", file.read()))
    search(t, secret, "what was written", texts)


@row("SE-06", "a secret given as a flag's value", "@env: and @file: only; what is shown of options is redacted",
     outcome="refused")
def in_flags(t):
    secret = "canary-" + t.canary
    got = t.run([t.world.mooncage, "audit", "verify", "--hmac-key", secret], timeout=20)
    must(got.code == 2, "a key on the command line is taken")
    search(t, secret, "the error", [("stderr", got.err), ("stdout", got.out)])
    got = t.command("true", flags=(*flags(t), "--option", "working_directory=@env:MCG_CANARY"), sound=False,
                    env={"MCG_CANARY": "/" + secret})
    with open(t.path("audit.jsonl"), "rb") as file:
        search(t, secret, "the log", [("audit.jsonl", file.read())])


def holder(t, program):
    """A process that holds a secret in its environment and in memory, with no limit on core files."""
    text = {"luajit": "local s = os.getenv 'MCG_CANARY' .. '!' print 'up' io.stdout:flush() os.execute 'sleep 30'",
            "mooncage": "local m = require 'mooncage' local s = m.secret(os.getenv 'MCG_CANARY') print 'up' io.stdout:flush() m.sleep(30)"}
    argv = {"luajit": ["luajit", "-e"], "mooncage": [t.world.mooncage, "run", "-e"]}[program] + [text[program]]
    t.mkdir("dump", 0o777)
    child = t.start(["sh", "-c", 'ulimit -c unlimited; exec "$@"', "sh", *argv], env={"MCG_CANARY": t.canary},
                    stdout=subprocess.PIPE, cwd=t.path("dump"))
    must(child.stdout.readline() == b"up\n", "%s does not run" % program)
    return child


def dumped(t, child):
    """Ends it as a crash would; the core files that are there then."""
    child.send_signal(signal.SIGABRT)
    child.wait(10)
    return os.listdir(t.path("dump"))


@row("SE-03", "dump core of the engine; read its memory and environment as another process of the same user",
     "the command's process is not dumpable: no core, and its /proc files are root's", outcome="absent",
     gap="root can trace the engine, as any program; a host that loads the library decides itself whether it may be dumped")
def engine_memory(t):
    reads = ("sh", "-c", "for f in environ maps mem; do head -c 1 /proc/$0/$f >/dev/null 2>&1 || [ $f = mem ] && : < /proc/$0/$f && echo $f; done")
    plain, engine = holder(t, "luajit"), holder(t, "mooncage")
    must(t.run([*reads, str(plain.pid)]).out.split() == [b"environ", b"maps", b"mem"], "the control: another process cannot look")
    if t.uid != 0:
        must(t.run([*reads, str(engine.pid)]).out == b"", "another process of the user looks into the engine")
    must(dumped(t, engine) == [], "the engine dumped core")
    with open("/proc/sys/kernel/core_pattern") as file:
        must(file.read().startswith("|") or dumped(t, plain), "the control: no core was dumped")


@row("SE-05", "print the secret that one was given: at once, in two writes, encoded", "output is not in the log; to the caller it goes as it is",
     outcome="given", gap="what a command prints of a secret it was given reaches its caller; a rule with terminate_tls gives it a placeholder instead")
def printed(t):
    secret = "canary-" + t.canary
    path = t.file("secret.lua", "local real = require 'mooncage'\n" + SECRET.replace("with_probe({}, ", "(") + """
    real.with(config, function(s)
      local r = s:exec [[printf %s "$TOKEN"; printf "%.9s" "$TOKEN"; sleep 0.1; printf "%s" "${TOKEN#?????????}"; printf %s "$TOKEN" | base64]]
      io.write(r.stdout)
    end)""")
    got = t.run([t.world.mooncage, "run", *flags(t), path], env={"MCG_CANARY": secret})
    must(got.out.startswith((secret * 2).encode()), "the control: the command has no secret: " + got.brief())
    must(len(executed(logged(t), "finish")) == 1, "it is not in the log")
    with open(t.path("audit.jsonl"), "rb") as file:
        search(t, secret, "the log", [("audit.jsonl", file.read())])
    search(t, secret, "what was said beside it", [("stderr", got.err)])


@row("SE-07", "a configuration that others can write, that is a link, or another's; a secret's file with a newline, CRLF, BOM",
     "refused unless it is an ordinary file that only you or root write; one newline at the end of a secret is not part of it", outcome="refused",
     gap="a secret's file that others can read is taken as it is: give it mode 0600")
def loose_files(t):
    config = t.file("c.lua", "return { environment = { A = 'given' } }", 0o600)
    same = lambda path: t.shell("echo $A", flags=("--config", path), sound=False)  # noqa: E731
    must(same(config).out == b"given\n", "the control: an ordinary file is not read")
    for mode in (0o622, 0o666, 0o602):
        os.chmod(config, mode)
        got = same(config)
        must(got.code == 2 and b"given" not in got.out, "mode %o: %s" % (mode, got.brief()))
    os.chmod(config, 0o600)
    os.mkfifo(t.path("fifo.lua"))
    t.own(t.path("fifo.lua"))
    got = same(t.path("fifo.lua"))
    must(got.code == 2, "a fifo: " + got.brief())
    if t.world.is_root:
        os.chown(config, 4711, 4711)
        os.chmod(config, 0o644)
        got = same(config)
        must(got.code == 2 and b"given" not in got.out, "another's file: " + got.brief())
    for body, value in (("k1", "k1"), ("k2\n", "k2"), ("k3\r\n", "k3"), ("k4\n\n", "k4\n"), ("\ufeffk5", "\ufeffk5")):
        path = t.file("key", body, 0o600)
        got = t.run([t.world.mooncage, "run", "-e", """
        local m = require "mooncage"
        m.with({ environment = { K = assert(m.secret_file(%s)) } }, function(s) io.write(s:exec [[printf %%s "$K"]].stdout) end)"""
                     % json.dumps(path)])
        must(got.out == value.encode(), "%r became %r: %s" % (body, got.out, got.brief()))


@row("SE-09", "have the gateway send a secret elsewhere, or read it back: other hosts, no TLS, redirects, smuggled requests, TRACE, echo, error pages",
     "it is set on verified TLS to the host of its rule alone, and struck out of what comes back", outcome="absent",
     gap="an answer that is compressed, encrypted or in pieces of several responses is not looked through")
def set_on_the_way_out(t):
    suite = os.path.join(os.path.dirname(HERE), "secrets", "run")
    got = t.run([suite, "--as", t.identity, "without_us", "comes_back", "only_that_host", "redirect", "gets_nothing",
                 "does_not_hold_it", "nothing_that_was_written"], timeout=120,
                env={"MOONCAGE_BUILD": t.world.build})
    last = got.out.decode("utf-8", "replace").strip().splitlines()[-1:]
    if last and last[0].startswith("0 passed, 0 failed"):
        raise Skip(got.brief())
    must(got.code == 0 and last and ", 0 failed, 0 skipped" in last[0], got.brief())


@row("SE-10", "keys with format directives and quotes, an empty key, a key with control bytes", "a key is bytes, never a format; an empty one is refused",
     outcome="refused")
def odd_keys(t):
    for key in ("%s%n%x", 'a"b\\', "a\nb", "\x1b[2J", "x" * 5000):
        path = t.file("log.lua", """return { audit = mooncage.audit.jsonl { path = %s, hmac_key = secret "MCG_CANARY" } }"""
                      % json.dumps(t.path("keyed.jsonl")), 0o600)
        got = t.command("true", flags=("--config", path), env={"MCG_CANARY": key})
        must(got.code == 0, "%r: %s" % (key, got.brief()))
        verify = [t.world.mooncage, "audit", "verify", "--hmac-key", "@env:MCG_CANARY", t.path("keyed.jsonl")]
        must(t.run(verify, env={"MCG_CANARY": key}).code == 0, "it does not verify with %r" % key)
        got = t.run(verify, env={"MCG_CANARY": key + "x"})
        must(got.code == 1, "it verifies with another key than %r" % key)
        search(t, key + "x", "an error", [("stderr", got.err), ("stdout", got.out)])
        os.unlink(t.path("keyed.jsonl"))
        for name in glob.glob(t.path("state") + "/mooncage/anchors/*"):
            os.unlink(name)
    got = t.command("true", flags=("--config", path), env={"MCG_CANARY": ""}, sound=False)
    must(got.code != 0, "an empty key is taken: " + got.brief())
