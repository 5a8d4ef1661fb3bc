"""rows_more.py: the XA rows: attacks on this design in particular, beyond the corpus: on stubs, init,
built-ins, streams, binds, and on what one session could do to another."""

import os
import stat
import subprocess
import time

from harness import Hole, Skip, row
from rows_fs import project
from rows_proc import AND_SERVES, connections, listener, on_terminal


@row("XA-01", "kill or stop one's own stub, then escape", "orphans go to init and die with the next kill or the session",
     outcome="killed", alone=True)
def kill_stub(t):
    t.works(t.bare("kill", "0", str(victim(t))))
    for text in ("(setsid sleep MARK &); kill -9 $PPID; sleep MARK", "kill -STOP $PPID; (setsid sleep MARK &); sleep MARK",
                 "kill -USR1 $PPID; kill -CHLD $PPID; (setsid sleep MARK &); sleep MARK",
                 "for i in 2 3 4 5 6 7 8; do kill -9 $i; done; (setsid sleep MARK &); sleep MARK"):
        got = t.command("sh", "-c", text.replace("MARK", t.mark), flags=("--timeout", "700ms"), timeout=30, sound=False)
        if got.code == 0:
            raise Hole("it ended well: " + got.brief())
        t.gone("sleep\0" + t.mark)
    # Without a time-out: a stopped stub must not hold the result back.
    for text in ("kill -STOP $PPID; exit 9", "(while :; do kill -STOP $PPID; done) & sleep 0.5; exit 9"):
        got = t.command("sh", "-c", text, timeout=20)
        if got.code != 9:
            raise Hole("%s: %s" % (text, got.brief()))
    got = t.script("""
    mooncage.with(with_probe(), function(session)
      local wrong = 0
      for i = 1, 60 do
        local text = ({ "kill -9 -1; exit 5", "kill -9 $PPID; exit 5", "(kill -9 $PPID); exit 5", "kill -STOP $PPID; exit 5" })[i % 4 + 1]
        local result = session:exec(text, { timeout = 10 })
        if not result or result.exit_code ~= 5 then wrong = wrong + 1 end
      end
      say(wrong > 0 and "ALLOWED" or "DENIED", "results lost", wrong)
      """ + AND_SERVES + "end)", timeout=120)
    t.stopped(got)


def victim(t):
    return t.start(["sleep", "5"]).pid


@row("XA-02", "write to the attributes of init and of siblings in /proc", "init is not dumpable; Landlock gives /proc for reading only",
     outcome="denied")
def init_attributes(t):
    names = ("oom_score_adj", "oom_adj", "comm", "timerslack_ns", "coredump_filter", "clear_refs", "autogroup", "loginuid", "uid_map", "gid_map",
             "projid_map", "setgroups", "mem", "sched", "attr/current", "attr/exec", "make-it-fail", "timens_offsets", "cwd", "fd/0", "fd/1", "fd/2")
    t.works(t.bare_root("open-write", "/proc/%d/comm" % victim(t), "/proc/%d/mem" % victim(t)))
    got = t.inside("open-write", *("/proc/1/" + n for n in names), *("/proc/1/task/1/" + n for n in names[:6]))
    t.stopped(got)


@row("XA-03", "many commands at once until init can start no more", "a clear answer; the session serves again", alone=True,
     outcome="bounded", needs="a cgroup for the user, v1 or v2")
def exhaust_init(t):
    t.works(t.bare("forks", "50"))
    got = t.script("""
    mooncage.with(with_probe({}, { limits = { pid_limit = 200, open_files = 256 } }), function(session)
      local running, why = {}, "none"
      for _ = 1, 250 do
        local process, err = session:start({ "sleep", MARK })
        if not process then why = err.code break end
        running[#running + 1] = process
      end
      say("DENIED", "started", #running .. " then " .. why)
      for _, process in ipairs(running) do process:signal("KILL") end
      -- Refused by the limit, or killed: a signal that got lost, or a descriptor of init closed by mistake, shows here.
      local astray = 0
      for _, process in ipairs(running) do
        local result, err = process:wait()
        if result and result.signal ~= "SIGKILL" or err and err.code ~= "quota" then astray = astray + 1 end
      end
      say(astray > 0 and "ALLOWED" or "DENIED", "commands astray", astray)
      for i = 1, 5 do say(assert(session:exec("echo yes")).ok and "DENIED" or "ALLOWED", "broken " .. i) end
    end)""", flags=("--best-effort",), timeout=120)
    t.stopped(got)


@row("XA-04", "fill the disk, then make the host read and write files", "ENOSPC as an error; reading, listing and removing still work",
     outcome="bounded")
def full_disk_api(t):
    t.works(t.bare("put", t.path("x"), "y"))
    got = t.script("""
    mooncage.with(with_probe({}, { limits = { disk_mb = 8 } }), function(session)
      assert(session:write("small", "kept"))
      session:exec("dd if=/dev/zero of=big bs=64k; i=0; while echo x > f$i; do i=$((i+1)); done", { timeout = 30 })
      local ok, err = session:write("more", ("x"):rep(1000000))
      say(ok and "ALLOWED" or "DENIED", "write to a full disk", err and err.code .. ": " .. err.message)
      say(session:read("small") == "kept" and "DENIED" or "ALLOWED", "read lost")
      local replaced = session:write("small", ("y"):rep(1000000))
      say(not replaced and session:read("small") == "kept" and "DENIED" or "ALLOWED", "a failed write destroyed the file", tostring(replaced))
      say(session:list(".") and "DENIED" or "ALLOWED", "list lost")
      say(session:remove("big") and "DENIED" or "ALLOWED", "remove lost")
      say(session:write("more", "fits") and "DENIED" or "ALLOWED", "write lost")
    end)""", timeout=90)
    t.stopped(got)


@row("XA-05", "race renames against every file built-in", "resolution beneath, without links; nothing of the host is there to be reached",
     outcome="harmless")
def race_builtins(t):
    rounds = 2000 if t.full else 60
    t.mkdir("d"), t.link(t.outside, "l")
    t.works(t.bare("swap", t.path("d"), t.path("l"), "10"))
    before = t.fingerprint(t.outside)
    got = t.script("""
    mooncage.with(with_probe(), function(session)
      session:exec("mkdir d; ln -s @DIR@/outside l; ln -s / l2; mkdir -p deep/d; echo hi > d/f")
      local racers = { session:start({ PROBE, "swap", "d", "l", "0" }), session:start({ PROBE, "swap", "deep", "l2", "0" }) }
      local hits, errors = 0, 0
      for i = 1, %d do
        for _, call in ipairs {
          function() return session:read("d/secret") end,
          function() return session:write("d/secret", "evil") end,
          function() return session:list("d") end,
          function() return session:stat("d/secret") end,
          function() return session:move("d/secret", "d/s2") end,
          function() return session:mkdir("d/sub") end,
          function() return session:remove("d/sub") end,
          function() return session:read("deep/etc/shadow") end,
        } do
          local value, err = call()
          if type(value) == "string" and value:find(CANARY, 1, true) then hits = hits + 1 end
          if err then errors = errors + 1 end
        end
      end
      for _, racer in ipairs(racers) do racer:signal("KILL") end
      say(hits > 0 and "ALLOWED" or "DENIED", "reads of the host", hits)
      say("DENIED", "serves", assert(session:exec("echo yes")).stdout .. errors)
    end)""" % rounds, timeout=300)
    t.stopped(got)
    t.untouched(before, t.outside)


@row("XA-06", "stop or kill the built-ins that serve the host's file calls", "an error or a wait that cancel and close end; other sessions do not notice",
     outcome="bounded")
def attack_builtins(t):
    child = victim(t)
    t.works(t.bare("kill", "19", str(child)))
    got = t.script("""
    local other = opened(real.open {})
    local session = opened(real.open(with_probe()))
    session:write("f", "x")
    local racer = session:start("while :; do kill -9 -1; done")
    for i = 1, 20 do session:read("f") end
    say("DENIED", "killed built-ins", "answered")
    say(assert(other:exec("echo yes")).ok and "DENIED" or "ALLOWED", "the other session broken")
    local stopper = session:start("trap '' HUP; while :; do for p in /proc/[0-9]*; do kill -STOP ${p#/proc/}; done; done")
    local hung = mooncage.spawn(function() return session:read("f") end)
    mooncage.sleep(0.5)
    say(assert(other:exec("echo yes")).ok and "DENIED" or "ALLOWED", "the other session broken again")
    session:close()
    say("DENIED", "closed", tostring(pcall(mooncage.join, { hung })))
    other:close()
    """, timeout=60)
    t.stopped(got)


@row("XA-07", "never read stdin, or keep its pipe open in a background child", "the result comes with the command; the writer is let go",
     outcome="bounded")
def stdin_held(t):
    for text in ("exit 3", "sleep %s & exit 3" % t.mark, "exec 0<&-; sleep 0.1; exit 3", "sleep %s <&0 & exit 3" % t.mark):
        got = t.run(["sh", "-c", 'head -c 20000000 /dev/zero | { "$@"; echo code $? >&2; }', "sh", *t.sandbox_argv(["sh", "-c", text])], timeout=30)
        if b"code 3" not in got.err:
            raise Hole("%s: %s" % (text, got.brief()))
        t.gone("sleep\0" + t.mark)


@row("XA-08", "open the own output pipe the other way, block or unblock it, change its size", "the engine's end has its own flags; a pipe holds no secret",
     outcome="harmless")
def pipe_tricks(t):
    got = t.shell("exec 3</proc/self/fd/1; echo one; echo two; "
                  "exec 4>/proc/self/fd/0; echo x >&4 2>/dev/null; echo three >/dev/stdout; echo err >/dev/stderr; exit 5", timeout=30)
    if got.code != 5 or b"three" not in got.out:
        raise Hole(got.brief())


@row("XA-09", "make a set-uid file in a writable bind, owned by the bind's owner", 
     "a second seccomp filter where a bind is writable: no set-id bits by chmod, open, mknod; openat2 is ENOSYS",
     outcome="denied")
def setuid_in_bind(t):
    t.mkdir("shared", 0o777)
    t.run(["sh", "-c", "cp %s shared/own; chmod 6755 shared/own" % t.world.probe])
    if not os.stat(t.path("shared/own")).st_mode & stat.S_ISUID:
        raise Hole("the control proves nothing: no set-uid bit outside")
    os.unlink(t.path("shared/own"))
    t.shell("cp PROBE /d/evil; chmod 4755 /d/evil; chmod u+s /d/evil; chmod 2755 /d/evil; install -m 6755 PROBE /d/two; python3 -c 'import os; "
            "os.close(os.open(\"/d/three\", os.O_CREAT|os.O_WRONLY, 0o6755)); os.fchmod(os.open(\"/d/three\", 1), 0o6755)'; mkdir -m 2777 /d/dir",
            flags=("--bind", t.path("shared") + ":/d:rw"))
    for top, names, files in os.walk(t.path("shared")):
        for name in files:
            state = os.lstat(os.path.join(top, name))
            if not state.st_mode & (stat.S_ISUID | stat.S_ISGID):
                continue
            raise Hole("%s on the host is mode %o and owned by %d" % (name, state.st_mode & 0o7777, state.st_uid))
    if "evil" not in os.listdir(t.path("shared")):
        raise Hole("the control proves nothing: nothing was written into the bind")


@row("XA-10", "talk to a unix socket that lies in a bind", "documented: a bind gives what is in it, its sockets included",
     outcome="given",
     gap="a bind gives what is in it, unix sockets included")
def socket_in_bind(t):
    t.mkdir("shared")
    server = listener(t, t.path("shared/socket"))
    os.chmod(t.path("shared/socket"), 0o777)
    t.works(t.bare("unix", t.path("shared/socket")))
    connections(server)
    got = t.inside("unix", "/d/socket", flags=("--bind", t.path("shared") + ":/d"))
    t.note("inside: %s %s" % got.said["/d/socket"])
    if got.verdict("/d/socket") == "DENIED" and connections(server):
        raise Hole("refused, and yet it came through")


@row("XA-11", "bind sources and targets that lead elsewhere", "targets are made in the new root without following links; system paths are refused",
     outcome="refused")
def bind_targets(t):
    t.mkdir("src"), t.file("src/f", "data")
    before = t.fingerprint(t.outside)
    for target in ("/../../../" + t.outside, "/proc/1", "/proc", "/dev", "/dev/null", "relative", "/", "/workspace/../../x", "//", "/etc"):
        got = t.command("sh", "-c", "cat /proc/self/status | head -1; ls -l /dev/null; id -u", flags=("--bind", t.path("src") + ":" + target), sound=False)
        if got.code not in (0, 2, 125, 126, 127) and not got.err:
            raise Hole("%s: %s" % (target, got.brief()))
        if got.code == 0 and target.startswith(("/proc", "/dev")) and (b"Name:" not in got.out or b"1, 3" not in got.out):
            raise Hole("a bind on %s replaced what the wall needs: %s" % (target, got.brief()))
    t.untouched(before, t.outside)
    t.link(t.outside, "src/l")
    got = t.inside("read", "/b/l/secret", "/b/../" + t.secret, flags=("--bind", t.path("src") + ":/b"))
    t.stopped(got)


@row("XA-12", "make the workspace useless: mode 000, removed, replaced by a link", "an error for that call; the session serves from elsewhere",
     outcome="bounded")
def ruined_workspace(t):
    got = t.script("""
    for _, text in ipairs { "chmod 000 /workspace", "cd /; mv /workspace /x; rm -rf /workspace; ln -s / /workspace", "cd /; rmdir /workspace",
                            "chmod 000 /tmp", "rm -rf /workspace/* /tmp/* /home/sandbox/*", "umask 777; touch f; mkdir d" } do
      mooncage.with(with_probe(), function(session)
        session:exec(text)
        session:read("f")
        session:write("f", "x")
        session:list("d")
        local again, err = session:exec("echo serves", { cwd = "/" })
        say(again and again.ok and "DENIED" or "ALLOWED", "session broken by " .. text, err and err.code)
      end)
    end""", timeout=60)
    t.stopped(got)


@row("XA-13", "the host's network shared (--network host): abstract sockets, raw sockets, namespaces", "Landlock scope, seccomp, no capabilities: still the same wall",
     outcome="denied", needs="Landlock ABI 6 (Linux 6.12)")
def host_network(t):
    name = "sbx-" + t.mark
    server = listener(t, "\0" + name)
    t.works(t.bare("abstract", name))
    connections(server)
    flags = ("--network", "host")
    got = t.command(t.world.inside_dir + "/sbx-probe", "abstract", name, flags=flags)
    if not got.said:
        raise Hole("the probe did not run: " + got.brief())
    if got.verdict(name) == "ALLOWED":
        raise Hole("an abstract socket of the host was reached")
    t.stopped(t.inside("protocols", flags=flags))
    t.stopped(t.inside("namespaces", flags=flags))
    t.stopped(t.inside("read", "/etc/shadow", t.secret, flags=flags))


@row("XA-14", "copy out a tree of links and special files", "packed inside, refused or written beneath the target only",
     outcome="harmless")
def hostile_copy_out(t):
    before = t.fingerprint(t.outside)
    t.link(t.outside, "l")
    t.works(t.bare("read", t.path("l/secret")))
    plant = ("mkdir -p out/a; ln -s %s/outside out/d; ln -s / out/root; ln -s /etc/shadow out/shadow; mkfifo out/fifo; ln -s ../../../outside out/up; echo good > out/a/f; "
             "(PROBE swap out/a out/d 0 &); sleep 0.1") % t.dir
    for source in ("out", "out/d", "out/shadow", "out/fifo", "out/a/f", ".", "/etc/passwd", "/proc/self/environ", "out/up"):
        target = t.path("got")
        t.shell(plant, flags=("--copy-out", source + ":" + target), sound=False, timeout=40)
        t.untouched(before, t.outside)
        for top, names, files in os.walk(target):
            for name in names + files:
                full = os.path.join(top, name)
                if not (os.path.islink(full) or os.path.isfile(full) or os.path.isdir(full)):
                    raise Hole("a special file was written: " + full)
                if os.path.isfile(full) and not os.path.islink(full) and t.canary in open(full, errors="replace").read():
                    raise Hole("the canary was copied out of " + source)
                if os.lstat(full).st_mode & 0o6000 and not os.path.islink(full):
                    raise Hole("a set-id bit was copied out: " + full)
        subprocess.run(["rm", "-rf", target], check=True)


@row("XA-15", "two sandboxes of one user: each other's processes, files, shared memory, sockets", "each has its own namespaces; as root its own uid too",
     outcome="denied")
def neighbours(t):
    got = t.script("""
    local a, b = opened(real.open(with_probe())), opened(real.open(with_probe()))
    a:exec("echo " .. CANARY .. " > /tmp/f; echo " .. CANARY .. " > /dev/shm/f; echo " .. CANARY .. " > f")
    local sleeper = a:start({ "sleep", MARK })
    io.write(assert(b:exec({ PROBE, "read", "/tmp/f", "/dev/shm/f", "f", "/home/sandbox/f" })).stdout)
    say(assert(b:exec("cat /proc/[0-9]*/cmdline")).stdout:find(MARK) and "ALLOWED" or "DENIED", "its process is seen")
    b:exec("kill -9 -1")
    local alive = assert(a:exec("pgrep -x sleep")).ok
    say(alive and "DENIED" or "ALLOWED", "its process was killed")
    io.write(assert(a:exec({ PROBE, "ipc-make", "12345", "xa15", "make" })).stdout:gsub("ALLOWED", "made"))
    io.write((assert(b:exec({ PROBE, "ipc", "12345", "xa15" })).stdout))
    sleeper:signal("KILL")
    a:close() b:close()
    """)
    t.stopped(got)


@row("XA-16", "a terminal session: leave children on the terminal, break its modes, hang it up", "the terminal is the sandbox's own; the caller's is restored",
     outcome="killed")
def terminal_leftovers(t):
    for text in ("(trap '' HUP; sleep %s &) ; stty raw -echo; exit 4" % t.mark, "exec </dev/null >/dev/null 2>&1; exit 4", "kill -HUP 0; exit 4"):
        argv = [a if a != "run" else "shell" for a in t.sandbox_argv(["sh", "-c", text])]
        got, _ = on_terminal(t, argv)
        if got.code not in (4, 129):
            raise Hole("%s: %s" % (text, got.brief()))
        t.gone("sleep\0" + t.mark)


@row("XA-17", "profile packages: uid 0 inside with a range of ids", "host uids of a range of the session's own; seccomp and namespaces as ever",
     outcome="denied", needs="a range of subordinate ids, for an ordinary user")
def packages(t):
    flags = ("--option", "profile=packages")
    if b"no range of subordinate uids" in t.command("true", flags=flags, sound=False).err:
        raise Skip("this user has no range in /etc/subuid and /etc/subgid, or there is no newuidmap")
    got = t.inside("namespaces", flags=flags)
    t.stopped(got)
    t.stopped(t.inside("mounts", "/tmp", flags=flags))
    t.stopped(t.inside("read", "/etc/shadow", "/proc/1/root" + t.secret, t.secret, flags=flags), t.secret, "/proc/1/root" + t.secret)
    t.stopped(t.inside("open-write", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/modprobe", flags=flags))
    t.stopped(t.inside("special", "/tmp", flags=flags), "char 1:3", "block 8:0")
    t.stopped(t.inside("protocols", flags=flags))
    t.stopped(t.inside("devices", flags=flags))
    t.stopped(t.inside("intrude", "1", flags=flags))
    outside = t.bare_root("syscalls", prefix=("unshare", "-mu"))
    inside = t.inside("syscalls", flags=flags)
    t.stopped(inside, but=("lsm_set_self_attr", "file_setattr", "cachestat", "map_shadow_stack", "ustat", "sysfs", "set_mempolicy_home_node", "chroot"))
    t.works(outside, "bpf" if outside.verdict("bpf") == "ALLOWED" else "ptrace traceme")
    t.mkdir("shared", 0o777)
    t.shell("cp PROBE /d/evil; chown 0:0 /d/evil; chmod 6755 /d/evil", flags=flags + ("--bind", t.path("shared") + ":/d:rw"), sound=False)
    for name in os.listdir(t.path("shared")):
        state = os.lstat(t.path("shared/" + name))
        if state.st_uid == 0 and state.st_mode & 0o6000:
            raise Hole("a set-uid file of the host's root was made in a bind")


@row("XA-18", "lower one's oom_score_adj so that init is the one to die", "no capability to go below init's; the session is the only loser",
     outcome="denied")
def oom_choice(t):
    before = t.bare("put", "/proc/self/oom_score_adj", "0")
    t.works(before)
    got = t.script("""
    mooncage.with(with_probe({}, { limits = { memory_mb = 64 } }), function(session)
      for i = 1, 3 do
        session:exec("echo -1000 > /proc/self/oom_score_adj; echo 0 > /proc/self/oom_score_adj; exec " .. PROBE .. " memory 300")
        local again, err = session:exec("echo serves")
        say(again and again.ok and "DENIED" or "ALLOWED", "session broken " .. i, err and err.code)
      end
    end)""", timeout=60)
    t.stopped(got)


@row("XA-19", "outlive a session that is closed while it forks", "close returns when nothing lives", outcome="killed")
def close_race(t):
    t.works(t.bare("forks", "3"))
    rounds = 100 if t.full else 5
    got = t.script("""
    for i = 1, %d do
      local session = opened(real.open(with_probe()))
      local storm = session:start({ PROBE, "storm", "4" })
      local sleeper = session:start("(setsid sleep " .. MARK .. " &) ; (setsid sleep " .. MARK .. " &) ; sleep " .. MARK)
      mooncage.sleep(0.03 * (i %% 4))
      session:close()
      local alive = io.popen("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\\\0' ' ' | grep -c '[s]leep " .. MARK .. "'"):read("*l")
      say(alive == "0" and "DENIED" or "ALLOWED", "alive after close " .. i, alive)
    end""" % rounds, timeout=300)
    t.stopped(got)
    t.gone(t.world.inside_dir)


@row("XA-21", "plant a git repository that is not called .git: a directory with HEAD, objects, refs, config",
     "--apply refuses what makes a directory a repository, in one step or in several", outcome="refused")
def bare_repository(t):
    plant = ("mkdir -p sub/objects sub/refs; echo ref: refs/heads/main > sub/HEAD; "
             "printf '[core]\\n repositoryformatversion = 0\\n bare = false\\n worktree = ..\\n fsmonitor = touch %s/pwned\\n' > sub/config") % t.dir
    copy = project(t)
    t.run(["cp", "-a", copy, t.path("copy")])
    t.run(["sh", "-c", "cd copy && %s && cd sub && git status" % plant.replace("\\\\", "\\")])
    if not os.path.exists(t.path("pwned")):
        raise Skip("this git runs nothing from such a directory")
    os.unlink(t.path("pwned"))
    for steps in ((plant,), ("mkdir -p sub/objects sub/refs; echo x > sub/objects/x; echo x > sub/refs/x; touch sub/config", "echo ref: refs/heads/main > sub/HEAD"),
                  ("mkdir sub; echo ref: refs/heads/main > sub/HEAD; echo ../other > sub/commondir",)):
        subprocess.run(["rm", "-rf", copy + "/sub"], check=True)
        for step in steps:
            got = t.shell(step, flags=("--project", copy, "--apply"), sound=False)
        if got.code == 0 or os.path.exists(copy + "/sub/HEAD"):
            raise Hole("it was written to the host by: " + steps[-1])
    t.shell("mkdir sub2; echo honest > sub2/HEAD", flags=("--project", copy, "--apply"))
    if not os.path.exists(copy + "/sub2/HEAD"):
        raise Hole("an honest file called HEAD was refused")


@row("XA-22", "fill the host with holes: sparse files of gigabytes on a small disk, applied and copied out", "holes stay holes: neither memory nor disk of the host is taken", alone=True,
     outcome="bounded")
def sparse_flood(t):
    count = 40 if t.full else 6
    t.run(["sh", "-c", "truncate -s 64M hole; cat hole > flood; rm hole"])
    if os.stat(t.path("flood")).st_blocks < 100000:
        raise Skip("this file system stores zeros as holes")
    os.unlink(t.path("flood"))
    tree = t.mkdir("tree")
    text = "for i in $(seq %d); do truncate -s 64M s$i; done; (printf x; head -c 99999 /dev/zero; printf y) > mixed" % count
    for flags in (("--project", tree, "--apply"), ("--copy-out", ".:" + t.path("got"))):
        got = t.shell(text, flags=("--disk", "64M", *flags), sound=False, timeout=200)
        if b"no cgroup" in got.err:
            raise Skip("no cgroups for this user here")
        where = tree if flags[0] == "--project" else t.path("got")
        if not os.path.exists(where + "/mixed"):
            raise Hole("it was not carried out: " + got.brief())
        taken = sum(os.lstat(os.path.join(top, f)).st_blocks * 512 for top, _, files in os.walk(where) for f in files)
        if taken > 4 << 20:
            raise Hole("%d MiB of the host's disk were taken by holes" % (taken >> 20))
        with open(where + "/mixed", "rb") as file:
            if file.read() != b"x" + bytes(99999) + b"y":
                raise Hole("bytes were changed")
        if os.path.getsize(where + "/s1") != 64 << 20:
            raise Hole("a size was changed")


@row("XA-23", "an apply that is killed half-way", "what was staged is taken up or removed by the next; nothing half-written",
     outcome="harmless")
def killed_apply(t):
    tree = t.mkdir("tree")
    t.file("tree/a", "old")
    t.works(t.bare("put", t.path("tree/x"), "x"))
    os.unlink(t.path("tree/x"))
    for delay in (0.05, 0.1, 0.2, 0.3, 0.5):
        child = t.start(t.sandbox_argv(["sh", "-c", "echo new > a; for i in $(seq 300); do head -c 100000 /dev/urandom > f$i; done"], ("--project", tree, "--apply")),
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        child.kill()
        child.wait()
    time.sleep(0.5)
    subprocess.run("rm -rf f* a", shell=True, cwd=tree, check=True)
    got = t.shell("echo done > b", flags=("--project", tree, "--apply"))
    if not os.path.exists(tree + "/b"):
        raise Hole("nothing can be applied any more: " + got.brief())
    if [n for n in os.listdir(tree) if n.startswith(".mooncage")]:
        raise Hole("left in the tree: %s" % os.listdir(tree))


@row("XA-24", "use up what the whole machine or the user shares: aio contexts, terminals, inotify instances",
     "no aio; 64 terminals in the sandbox's devpts; 64 inotify instances in its user namespace", alone=True, outcome="bounded")
def shared_counters(t):
    outside = t.bare("shared", "100")
    t.works(outside, "aio", "terminals")
    t.stopped(t.inside("shared", "100"))


@row("XA-20", "confuse messages with the engine: output that looks like frames, lines and JSON of ours", "bytes of commands travel in pipes of their own",
     outcome="harmless")
def forged_output(t):
    text = r"""printf '\030\000\000\000\013\000\001\000{"event":"exit","exit_code":0}\n{"error":{"code":"internal"}}\n'; exit 6"""
    got = t.shell(text)
    if got.code != 6 or b'"exit_code":0' not in got.out:
        raise Hole(got.brief())
