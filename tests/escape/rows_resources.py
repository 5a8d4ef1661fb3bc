"""rows_resources.py: the RS rows of the table: processes, memory, descriptors, disk, output, time.

Limits that are written need cgroups; the runner hands the ordinary user some when it is root. Where
there are none the command says `unenforceable`, and the row is skipped with that reason."""

import json
import os
import time

from harness import Hole, Skip, row
from rows_proc import wait_for


def limited(t, *attempt, flags, **options):
    """The probe under written limits."""
    got = t.command(t.world.inside_dir + "/sbx-probe", *attempt, flags=flags, sound=False, **options)
    enforced(got)
    return got


def enforced(got):
    if got.code == 125 and (b"unenforceable" in got.err or b"no cgroup here" in got.err):
        raise Skip("no cgroups for this user here: " + got.err.decode("utf-8", "replace").strip()[:120])
    if got.code == 125:
        raise Hole("the sandbox did not start: " + got.brief())


def outcome(t, command, *flags, **options):
    """What `--json run` says of a command."""
    argv = t.sandbox_argv(command, flags)
    got = t.run([argv[0], "--json", *argv[1:]], **options)
    try:
        result = json.loads(got.out)
    except ValueError:
        raise Hole("no JSON: " + got.brief()) from None
    if "error" in result:
        if result["error"].get("code") == "unenforceable":
            raise Skip("no cgroups for this user here")
        raise Hole("the sandbox did not start: %s" % result["error"])
    return result.get("result", result), got


@row("RS-01", "fork bomb", "pids limit; the whole tree dies at the time-out", alone=True,
     outcome="bounded", needs="a cgroup for the user, v1 or v2")
def fork_bomb(t):
    t.works(t.bare("forks", "200"))
    got = limited(t, "forks", "200", flags=("--pids", "32"))
    t.stopped(got)
    if not 8 <= got.number("forks") <= 40:
        raise Hole("the limit was 32: " + got.detail("forks"))
    for text in ("b() { b | b & }; b; sleep 5", "while :; do sh -c 'while :; do : & done' & done"):
        began = time.monotonic()
        got = t.command("sh", "-c", text, flags=("--pids", "32", "--timeout", "1s"), sound=False, timeout=30)
        enforced(got)
        t.note("%.1f s" % (time.monotonic() - began))
        t.gone(t.world.init)
    got = t.script("""
    mooncage.with(with_probe({}, { limits = { pid_limit = 24 } }), function(session)
      -- A shell that cannot fork any more ends, and leaves the others to themselves: this one need not.
      local bomb, why = session:exec("sh -c 'b() { b | b & }; b' & exec sleep 5", { timeout = 1 })
      say(bomb and bomb.timed_out and "DENIED" or "ALLOWED", "end without a time-out", why and why.code)
      local result, err = session:exec("echo serves", { timeout = 5 })
      say(result and result.stdout == "serves\\n" and "DENIED" or "ALLOWED", "session broken", err and err.code or result.stderr)
    end)""", timeout=60)
    t.stopped(got)


@row("RS-02", "thread bomb", "pids limit counts threads", alone=True,
     outcome="bounded", needs="a cgroup for the user, v1 or v2")
def thread_bomb(t):
    t.works(t.bare("threads", "200"))
    t.stopped(limited(t, "threads", "200", flags=("--pids", "32")))


@row("RS-03", "memory bomb: heap, /dev/shm, /tmp, pipe buffers", "memory limit of the cgroup; the session lives on and says oom_killed", alone=True,
     outcome="bounded", needs="a cgroup for the user, v1 or v2")
def memory_bomb(t):
    t.works(t.bare("memory", "300"))
    result, got = outcome(t, [t.world.inside_dir + "/sbx-probe", "memory", "300"], "--memory", "64M")
    if not result.get("oom_killed") or result.get("signal") != "SIGKILL":
        raise Hole("oom_killed is not told: %s" % {k: result.get(k) for k in ("oom_killed", "signal", "exit_code")})
    for place in ("/dev/shm/f", "/tmp/f", "/workspace/f"):
        got = limited(t, "fill", place, "300", flags=("--memory", "64M"))
        if got.said:
            t.stopped(got)
    got = t.script("""
    mooncage.with(with_probe({}, { limits = { memory_mb = 64 } }), function(session)
      for i = 1, 5 do
        local result = assert(session:exec({ PROBE, "memory", "300" }))
        say(result.oom_killed and "DENIED" or "ALLOWED", "not told " .. i, result.exit_code)
        local again = assert(session:exec("echo serves"))
        say(again.ok and not again.oom_killed and "DENIED" or "ALLOWED", "session broken " .. i, tostring(again.oom_killed))
      end
      local many = session:exec("for i in 1 2 3 4 5 6 7 8; do " .. PROBE .. " memory 300 & done; wait")
      say(many and "DENIED" or "ALLOWED", "eight at once", many and tostring(many.oom_killed))
      say("DENIED", "serves", assert(session:exec("echo yes")).stdout)
    end)""", timeout=120)
    t.stopped(got)


@row("RS-04", "kernel memory: sockets, epoll, inotify, full pipes, unnamed files", "open-files limit, memory limit, the sized disk", alone=True,
     outcome="bounded", needs="a cgroup for the user, v1 or v2")
def kernel_objects(t):
    t.works(t.run(["sh", "-c", "ulimit -n 4096; exec %s objects 1200" % t.world.probe]), "sockets", "epolls")
    got = limited(t, "objects", "1200", flags=("--memory", "128M"))
    t.stopped(got)


@row("RS-05", "use up descriptors", "open-files limit; init and engine have their own", outcome="bounded")
def descriptors(t):
    t.works(t.run(["sh", "-c", "ulimit -n $(ulimit -Hn); exec %s descriptors 1500" % t.world.probe]))
    t.stopped(t.inside("descriptors", "1500"))
    t.stopped(t.inside("descriptors", "100000"))
    got = t.script("""
    mooncage.with(with_probe(), function(session)
      local hogs = {}
      for i = 1, 20 do hogs[i] = assert(session:start(PROBE .. " descriptors 5000; sleep 30")) end
      for i = 1, 10 do say(assert(session:exec("echo yes")).ok and "DENIED" or "ALLOWED", "broken " .. i, i) end
      for i = 1, 20 do hogs[i]:signal("KILL") end
    end)""")
    t.stopped(got)


@row("RS-06", "fill the disk: bytes, inodes, sparse files, fallocate", "one sized tmpfs: ENOSPC, no kill", alone=True,
     outcome="bounded", needs="a cgroup for the user, v1 or v2")
def fill_disk(t):
    t.works(t.bare("fill", t.path("f"), "40"))
    os.unlink(t.path("f"))
    for place in ("/workspace/f", "/tmp/f", "/var/tmp/f", "/dev/shm/f", "/run/f", "/home/sandbox/f"):
        got = limited(t, "fill", place, "40", flags=("--disk", "16M"))
        t.stopped(got)
        if got.said and got.detail(place).split()[0] not in ("ENOSPC", "ENOENT", "EACCES", "EROFS", "EFBIG"):
            raise Hole("%s: not ENOSPC: %s" % (place, got.detail(place)))
    got = t.command("sh", "-c", "for d in /workspace /tmp /var/tmp /dev/shm /run /home/sandbox; do %s/sbx-probe fill $d/f 40; done" % t.world.inside_dir,
                    flags=("--disk", "16M"), sound=False)
    enforced(got)
    total = sum(int(detail.split()[-1]) for _, detail in got.said.values() if "after" in detail)
    if total > 17:
        raise Hole("%d MiB were written under a limit of 16" % total)
    got = limited(t, "inodes", "/workspace", "300000", flags=("--disk", "16M"))
    t.stopped(got)
    got = limited(t, "allocate", "/workspace/f", "100", flags=("--disk", "16M"))
    t.stopped(got, "fallocate")
    got = t.command("dd", "if=/dev/zero", "of=f", "bs=1M", "count=40", flags=("--disk", "16M"), sound=False)
    enforced(got)
    if b"space left" not in got.err or got.code != 1:
        raise Hole("no word of a full disk: " + got.brief())


@row("RS-07", "a file that grows after it was removed", "the sized tmpfs counts it; freed with the process", alone=True,
     outcome="bounded", needs="a cgroup for the user, v1 or v2")
def unlinked_growth(t):
    t.works(t.bare("fill-unlinked", t.path("f"), "40"))
    got = limited(t, "fill-unlinked", "/workspace/f", "40", flags=("--disk", "16M"))
    t.stopped(got)
    got = t.command("sh", "-c", "for i in 1 2 3 4; do %s/sbx-probe fill-unlinked f 10; done" % t.world.inside_dir, flags=("--disk", "16M"), sound=False)
    t.works(got)


@row("RS-08", "flood of output: endless lines, no newline, NULs, on both streams", "bounded capture that counts all; memory stays flat", alone=True,
     outcome="bounded")
def output_flood(t):
    size = 2048 if t.full else 200
    if len(t.run(["sh", "-c", "%s output 1 %d none | wc -c" % (t.world.probe, size)]).out) == 0:
        raise Hole("the control proves nothing")
    got = t.script("""
    mooncage.with(with_probe(), function(session)
      for _, how in ipairs { "newlines", "none", "nul" } do
        for fd = 1, 2 do
          local result = assert(session:exec({ PROBE, "output", tostring(fd), "%d", how }))
          local name = fd == 1 and "stdout" or "stderr"
          say(#result[name] <= 1200000 and "DENIED" or "ALLOWED", "kept " .. how .. fd, #result[name])
          say(result[name .. "_bytes"] == %d * 1048576 and "DENIED" or "ALLOWED", "miscounted " .. how .. fd, result[name .. "_bytes"])
          say(result[name .. "_truncated"] and "DENIED" or "ALLOWED", "not said " .. how .. fd)
        end
      end
      local endless = assert(session:exec("yes", { timeout = 0.5 }))
      say(endless.timed_out and "DENIED" or "ALLOWED", "endless", endless.stdout_bytes)
    end)""" % (size, size), timeout=300)
    t.stopped(got)
    if got.maxrss_kb > 200 << 10:
        raise Hole("the engine grew to %d MiB" % (got.maxrss_kb >> 10))
    got = t.run(["sh", "-c", '"$@" | head -c 1000 | wc -c', "sh", *t.sandbox_argv(["yes"])], timeout=30)
    if got.out.strip() != b"1000":
        raise Hole("a closed pipe did not end it: " + got.brief())


@row("RS-09", "use more processors than given", "cpu limit of the cgroup", alone=True,
     outcome="bounded", needs="a cgroup for the user, v1 or v2")
def spin(t):
    seconds = "4" if t.full else "2"

    def share(lines):
        cpu, wall = [int(w) for w in lines.detail("cpu").split() if w.isdigit()]
        return cpu / wall
    outside = t.bare("spin", "2", seconds)
    if share(outside) < 0.45:
        raise Skip("the machine is too busy to tell: two processes got %.2f processors outside" % share(outside))
    inside = limited(t, "spin", "2", seconds, flags=("--cpus", "0.2"))
    if share(inside) > 0.35:
        raise Hole("%.2f processors were used under a limit of 0.2" % share(inside))
    t.note("%.2f outside, %.2f inside" % (share(outside), share(inside)))


@row("RS-10", "sleep or stop past the time-out", "deadline on the monotonic clock; SIGKILL to the tree", outcome="killed")
def past_deadline(t):
    if t.run(["timeout", "-s", "TERM", "0.3", "sh", "-c", "trap '' TERM; sleep 1; echo late"]).out != b"late\n":
        raise Hole("the control proves nothing")
    for text in ("sleep " + t.mark, "trap '' TERM; kill -STOP $$; sleep " + t.mark, "exec 0<&- 1>&- 2>&-; sleep " + t.mark):
        got = t.command("sh", "-c", text, flags=("--timeout", "300ms"), timeout=30)
        if got.code != 124:
            raise Hole("a time-out ends with 124, not " + got.brief())
        t.gone(t.mark)


@row("RS-11", "lift the limit on file size", "hard limits; the sized disk bounds what is written anyway", outcome="denied")
def file_size(t):
    t.works(t.bare("file-size", t.path("f"), "20"), t.path("f"))
    got = limited(t, "file-size", "/workspace/f", "20", flags=("--disk", "8M"))
    t.stopped(got, "/workspace/f")


@row("RS-12", "thousands of runs that time out at once", "nothing is left: processes, cgroups, mounts, directories", alone=True,
     outcome="killed")
def many_timeouts(t):
    rounds = 10000 if t.full else 40

    def mounts():
        with open("/proc/self/mountinfo") as file:
            return sum(1 for line in file if t.world.token in line)
    before = (mounts(), sorted(os.listdir(t.tmp)))
    t.works(t.bare("forks", "2"))
    for _ in range(8):
        t.command("sleep", t.mark, flags=("--timeout", "1ms"))
    got = t.script("""
    local function open_fds() local n = 0 for _ in io.popen("ls /proc/$PPID/fd"):lines() do n = n + 1 end return n end
    mooncage.with({}, function(session) session:exec("true") end)
    local before = open_fds()
    for i = 1, %d do
      mooncage.with({}, function(session) session:exec("sleep " .. MARK, { timeout = 0.001 }) end)
    end
    say(open_fds() > before + 2 and "ALLOWED" or "DENIED", "descriptors grew", before .. " " .. open_fds())
    """ % rounds, timeout=3600)
    t.stopped(got)
    t.gone(t.mark)
    if (mounts(), sorted(os.listdir(t.tmp))) != before:
        raise Hole("mounts or temporary files are left")


@row("RS-13", "arguments and environment of megabytes", "refused before anything starts, with a clear error",
     outcome="refused")
def huge_arguments(t):
    if t.run(["sh", "-c", "true \"$(head -c 200000 /dev/zero | tr '\\0' x)\""]).code != 0:
        raise Hole("the control proves nothing: a builtin takes any size")
    got = t.script("""
    mooncage.with({}, function(session)
      for name, command in pairs {
        ["128 KiB argument"] = { "true", ("x"):rep(131072 + 10) },
        ["3 MiB argument"] = { "true", ("x"):rep(3 * 1048576) },
        ["200,000 arguments"] = (function() local t = { "true" } for i = 2, 200000 do t[i] = "xxxxxxxxxx" end return t end)(),
      } do
        local ok, result, err = pcall(session.exec, session, command)
        if ok and result then say(result.exit_code == 0 and "ALLOWED" or "DENIED", name, result.exit_code)
        else say("DENIED", name, ok and err.code .. ": " .. err.message or result) end
      end
      local ok, result, err = pcall(session.exec, session, "true", { env = { BIG = ("x"):rep(5 * 1048576) } })
      say(ok and result and result.ok and "ALLOWED" or "DENIED", "5 MiB variable", ok and (err and err.code or result.exit_code) or result)
      say("DENIED", "serves", assert(session:exec("echo yes")).stdout)
    end)""")
    t.stopped(got)


@row("RS-14", "floods of queued signals and of file events", "RLIMIT_SIGPENDING; init has no handlers; nobody watches the workspace", alone=True,
     outcome="bounded", needs="a cgroup for the user, v1 or v2")
def floods(t):
    child = t.start(["sleep", t.mark])
    wait_for(t, 1)
    t.works(t.bare("signal-flood", str(child.pid), "1"))
    got = t.script("""
    mooncage.with(with_probe(), function(session)
      local storm = session:start({ PROBE, "touch-storm", "/workspace", "100000" })
      for i = 1, 5 do
        session:exec({ PROBE, "signal-flood", "1", "20000" })
        say(assert(session:exec("echo yes")).ok and "DENIED" or "ALLOWED", "broken " .. i, i)
      end
      storm:signal("KILL")
    end)""", timeout=120)
    t.stopped(got)
