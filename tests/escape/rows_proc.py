"""rows_proc.py: the PR rows of the table: processes, signals, privileges, IPC, terminals."""

import contextlib
import os
import pty
import select
import signal
import socket
import subprocess
import termios
import time

from harness import SLOW, Hole, Lines, Skip, identity, pids_with, row


def victim(t):
    """A process of the same user outside."""
    child = t.start(["sleep", t.mark])
    time.sleep(0.05)
    return child


@row("PR-01", "see and kill processes of the host", "pid namespace, own /proc", outcome="absent")
def kill_host(t):
    one, two = victim(t), victim(t)
    t.works(t.bare("kill", "9", str(one.pid)), str(one.pid))
    got = t.inside("kill", "9", str(two.pid), str(os.getpid()), "4000000")
    t.stopped(got)
    got = t.inside("ps")
    if got.number("processes") > 4:
        raise Hole("%d processes are seen inside" % got.number("processes"))
    t.shell("kill -9 -1")
    t.absent(t.mark, t.shell("cat /proc/[0-9]*/cmdline"))
    if two.poll() is not None:
        raise Hole("a process of the host was killed")


@row("PR-02", "ptrace, process_vm_*, pidfd_getfd, /proc/PID/mem on init, the engine and siblings", "seccomp; init is not dumpable; pid namespace",
     outcome="denied")
def intrude(t):
    outside = t.bare_root("intrude", str(victim(t).pid)) if t.world.is_root else t.bare("intrude", str(victim(t).pid))
    t.works(outside, "ptrace attach", "process_vm_readv", "mem", "environ", "fd")
    engine = t.start(t.sandbox_argv(["sleep", t.mark]))
    inside = t.inside("intrude", "1")
    t.stopped(inside)
    t.filtered(outside, inside, but=[n for n in inside.said if " " not in n and not n.startswith("process_vm")])
    t.stopped(t.inside("intrude", str(engine.pid)))
    got = t.shell("sleep 5 & PROBE intrude $!; kill $!")
    t.stopped(got, *(n for n in got.said if n.startswith("p")))
    got = t.inside("intrude", "1", flags=("--option", "profile=debug"))
    t.stopped(got)


@row("PR-03", "escape a time-out by setsid and double fork", "the tree is killed under its stub; then the pid namespace",
     outcome="killed")
def outrun_timeout(t):
    text = "(setsid sh -c 'sleep %s & sleep %s' &) ; sleep %s" % (t.mark, t.mark, t.mark)
    child = t.start(["sh", "-c", text])
    wait_for(t, 3)
    child.kill()
    child.wait()
    if not pids_with(t.mark):
        raise Hole("the control proves nothing: nothing outlived the plain kill")
    t.slay()
    got = t.command("sh", "-c", text, flags=("--timeout", "%dms" % (500 * SLOW)))
    t.gone(t.mark)
    if got.code != 124:
        raise Hole("a time-out ends with 124, not " + got.brief())


def children_of(pid):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                with open("/proc/%s/stat" % entry) as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == pid:
                        found.append(int(entry))
    return found


@row("PR-04", "outlive the engine: SIGKILL to the engine, to its spawner, to both", "the spawner watches the engine's pidfd; jails die with the spawner",
     outcome="killed")
def outlive(t):
    tree = "trap '' TERM HUP INT; (setsid sleep %s &) ; sleep %s & wait" % (t.mark, t.mark)
    child = t.start(["sh", "-c", tree])
    wait_for(t, 2)
    child.kill()
    if not pids_with("sleep\0" + t.mark):
        raise Hole("the control proves nothing: the tree died with its parent")
    t.slay()
    for which in ("engine", "spawner", "both", "spawner first"):
        engine = t.start(t.sandbox_argv(["sh", "-c", tree]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(t, 2)
        helpers = children_of(engine.pid)
        names = {identity(pid) for pid in helpers}
        if which == "engine":
            engine.kill()
        elif which == "spawner":
            for pid in helpers:
                os.kill(pid, signal.SIGKILL)
        else:
            for pid in (helpers + [engine.pid] if which == "spawner first" else [engine.pid] + helpers):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        t.gone(t.mark)
        engine.wait(5)
        t.world.spawners.update(names)
        if which in ("engine", "spawner"):
            deadline = time.monotonic() + 2
            while (left := t.world.leftovers(names)) and time.monotonic() < deadline:
                time.sleep(0.05)
            if left:
                raise Hole("%s killed: left behind: %s" % (which, ", ".join(left[:3])))
    got = t.run([t.world.mooncage or "true", "reap"])
    if t.world.leftovers():
        raise Hole("left behind after mooncage reap: %s: %s" % (", ".join(t.world.leftovers()[:3]), got.brief()))


def wait_for(t, count, seconds=10.0):
    deadline = time.monotonic() + seconds
    while len(pids_with("sleep\0" + t.mark)) < count:
        if time.monotonic() > deadline:
            raise Hole("the tree of the test did not start")
        time.sleep(0.02)


@row("PR-05", "resist a kill: SIGSTOP to oneself, ignored signals, a fork storm", "SIGKILL through the stub, then freeze or kill(-1), then the namespace", alone=True,
     outcome="killed")
def resist(t):
    child = t.start(["sh", "-c", "trap '' TERM INT HUP; sleep %s & wait; sleep %s" % (t.mark, t.mark)])
    wait_for(t, 1)
    child.terminate()
    time.sleep(0.2)
    if child.poll() is not None:
        raise Hole("the control proves nothing: SIGTERM ended it")
    t.slay()
    for text in ("trap '' TERM INT HUP QUIT; kill -STOP $$; sleep %s" % t.mark,
                 "PROBE storm 8", "(PROBE storm 4 &) ; (PROBE storm 4 &) ; exec PROBE storm 2",
                 "sh -c 'kill -STOP $PPID; sleep %s'" % t.mark):
        got = t.shell(text, flags=("--timeout", "700ms"), timeout=30)
        if got.code != 124:
            raise Hole("a time-out ends with 124, not " + got.brief())
        t.gone(t.world.token + "/sbx-probe")
        t.gone(t.mark)


@row("PR-06", "leave thousands of zombies behind", "init reaps what is orphaned", alone=True, outcome="bounded")
def zombies(t):
    count = 5000 if t.full else 200
    child = t.start([t.world.probe, "zombies", str(count), "5"], stdout=subprocess.PIPE)
    child.stdout.readline()
    if len(children_of(child.pid)) < count:
        raise Hole("the control proves nothing: no zombies were left")
    child.kill()
    got = t.script("""
    mooncage.with(with_probe({}, { limits = { pid_limit = %d } }), function(session)
      local made = assert(session:exec({ PROBE, "zombies", "%d", "0" }))
      io.write(made.stdout)
      local left
      for _ = 1, 100 do
        left = #assert(session:processes())
        if left <= 2 then break end
        mooncage.sleep(0.02)
      end
      say(left > 3 and "ALLOWED" or "DENIED", "left", left)
    end)""" % (count + 50, count), flags=("--best-effort",))
    if got.number("zombies") != count:
        raise Hole("not made inside: " + got.brief())
    t.stopped(got, "left")


@row("PR-07", "a background child that holds stdout open", "the result comes when the main process ends", outcome="bounded")
def held_stdout(t):
    text = "sleep %s & echo done" % t.mark
    if t.run(["sh", "-c", "timeout 1 sh -c '{ %s; } | cat'" % text]).code != 124:
        raise Hole("the control proves nothing: the pipe ended")
    got = t.shell(text, timeout=30)
    if got.code != 0 or got.out != b"done\n":
        raise Hole(got.brief())
    t.gone(t.mark)


@row("PR-08", "a pid used again after its process ended, then signalled", "commands are named by channel, processes held by pidfd", alone=True,
     outcome="harmless")
def pid_reuse(t):
    with open("/proc/sys/kernel/pid_max") as file:
        pids = int(file.read())
    if not t.full or pids > 70000:
        cycle = 300
    else:
        cycle = pids + 100
    child = victim(t)
    number = child.pid
    os.kill(number, signal.SIGKILL)
    child.wait()
    with contextlib.suppress(ProcessLookupError):
        os.kill(number, 0)
        raise Hole("the control proves nothing: the pid was taken at once")
    got = t.script("""
    mooncage.with(with_probe(), function(session)
      local first = assert(session:start({ "true" }))
      local pid = first.pid
      first:wait()
      local other = assert(session:start({ "sleep", MARK }))
      assert(session:exec("i=0; while [ $i -lt %d ]; do /bin/true; i=$((i+1)); done"))
      local ok, done, err = pcall(first.signal, first, "KILL")
      say("DENIED", "signal to an ended command", tostring(pid) .. " " .. tostring(ok and (done or err and err.code)))
      local left = assert(session:exec("pgrep -x sleep | wc -l")).stdout
      say(left:find("1") and "DENIED" or "ALLOWED", "another command hit", left)
      other:signal("KILL")
    end)""" % cycle, timeout=300)
    t.stopped(got)


@row("PR-09", "new namespaces: unshare, clone and clone3 of all eight kinds, then a mount", "seccomp: flags of clone and unshare; clone3 is ENOSYS",
     outcome="denied")
def namespaces(t):
    outside = t.bare("namespaces")
    t.works(outside, "unshare user", "clone user", "clone3 user", "unshare, then mount")
    if t.world.is_root:
        outside = t.bare_root("namespaces")
    # An allow-all filter or high bits must not help either; without privilege only "user" tells.
    inside = t.inside("namespaces")
    t.filtered(outside, inside, but=() if t.world.is_root else [n for n in inside.said if "user" not in n])
    t.stopped(inside)
    for profile in ("strict", "debug"):
        t.stopped(t.inside("namespaces", flags=("--option", "profile=" + profile)))


@row("PR-10", "setns into the namespaces of init", "no capabilities, seccomp, init is not dumpable", outcome="denied")
def enter_namespaces(t):
    names = ("mnt", "pid", "net", "ipc", "uts", "cgroup", "user")
    t.works(t.bare_root("setns", *("/proc/%d/ns/%s" % (os.getpid(), n) for n in names[:6])))
    paths = ["/proc/1/ns/" + n for n in names]
    t.stopped(t.inside("setns", *paths, *(p.replace("/1/", "/self/") for p in paths)))


@row("PR-11", "capabilities, set-id programs", "every capability set is empty, no_new_privs is 1", outcome="denied")
def no_capabilities(t):
    outside = t.bare_root("ids")
    t.works(outside, "euid", "CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")
    for flags in ((), ("--option", "profile=strict"), ("--option", "profile=debug")):
        t.stopped(t.inside("ids", flags=flags))


@row("PR-12", "undo what was taken: securebits, ambient and bounding sets, no_new_privs, setuid, an allow-all filter",
     "no capabilities, locked securebits; filters only add up", outcome="denied")
def relax(t):
    outside = t.bare_root("relax", prefix=("unshare", "-m"))
    t.works(outside, "securebits", "bounding drop", "setuid 0", "setgroups", "unshare after allow-all")
    t.stopped(t.inside("relax"))


@row("PR-13", "variables that make helpers load or run things: LD_PRELOAD, BASH_ENV, GLIBC_TUNABLES, secrets",
     "the environment inside is an allowlist; init is static and starts with a clean one", outcome="absent")
def poisoned_environment(t):
    script = t.file("evil.sh", "touch %s/pwned\n" % t.dir)
    poison = {"BASH_ENV": script, "ENV": script, "GLIBC_TUNABLES": "glibc.malloc.check=1", "SBX_SECRET": t.canary, "LUA_INIT": "x=1",
              "AWS_SECRET_ACCESS_KEY": t.canary, "SSH_AUTH_SOCK": t.dir + "/" + t.canary, "LD_LIBRARY_PATH": t.dir}
    if t.canary.encode() not in t.run(["env"], env=poison).out:
        raise Hole("the control proves nothing: the variable is not inherited")
    got = t.shell("env; cat /proc/[0-9]*/environ", env=poison)
    for name in (t.canary, "BASH_ENV", "GLIBC_TUNABLES", "LD_LIBRARY_PATH"):
        t.absent(name, got, "the environment inside")
    engine = t.start(t.sandbox_argv(["sleep", t.mark]), env=poison)
    wait_for(t, 1)
    if t.world.is_root:
        for pid in descendants(engine.pid):
            with contextlib.suppress(OSError):
                with open("/proc/%d/environ" % pid, "rb") as file:
                    if t.canary.encode() in file.read():
                        raise Hole("a helper of the engine has the secret in its environment")
    engine.kill()
    if os.path.exists(t.path("pwned")):
        raise Hole("a helper ran BASH_ENV")
    got = t.shell("id -u; cat /proc/1/environ", flags=("--env", "LD_PRELOAD=/workspace/evil.so", "--env", "GLIBC_TUNABLES=x=y"))
    t.absent("evil.so:", got)


def descendants(pid):
    todo, found = [pid], []
    while todo:
        for child in children_of(todo.pop()):
            found.append(child)
            todo.append(child)
    return found


def listener(t, address):
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen(16)
    server.setblocking(False)
    t.cleanups.append(server.close)
    return server


def connections(server):
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            count += 1
    return count


@row("PR-14", "connect to an abstract socket of the host", "network namespace; Landlock scope", outcome="absent")
def abstract_socket(t):
    name = "sbx-" + t.mark
    server = listener(t, "\0" + name)
    t.works(t.bare("abstract", name))
    if connections(server) != 1:
        raise Hole("the control proves nothing: the listener saw nobody")
    got = t.inside("abstract", name, "/tmp/.X11-unix/X0", "/tmp/dbus-x")
    t.stopped(got)
    if connections(server):
        raise Hole("a connection reached the host's socket")


@row("PR-15", "connect to pathname sockets of the host: docker, dbus, ssh agent, systemd", "mount namespace: the paths are not there; variables are stripped",
     outcome="absent")
def pathname_socket(t):
    server = listener(t, t.path("outside/socket"))
    os.chmod(t.path("outside/socket"), 0o777)
    t.works(t.bare("unix", t.path("outside/socket")))
    connections(server)
    got = t.inside("unix", t.path("outside/socket"), "/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock",
                   "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/journal/stdout", "/dev/log", "/run/nscd/socket",
                   "/run/user/%d/bus" % t.uid, "/tmp/.X11-unix/X0", env={"SSH_AUTH_SOCK": t.path("outside/socket"), "DBUS_SESSION_BUS_ADDRESS": "x"})
    t.stopped(got)
    if connections(server):
        raise Hole("a connection reached the host's socket")
    got = t.shell("env", env={"SSH_AUTH_SOCK": t.canary, "DBUS_SESSION_BUS_ADDRESS": t.canary, "DOCKER_HOST": t.canary})
    t.absent(t.canary, got)


@row("PR-17", "System V IPC, POSIX queues and /dev/shm of the host", "ipc namespace, own /dev/shm", outcome="absent")
def host_ipc(t):
    key, name = str(int(t.mark) % 2000000000), "sbx-" + t.mark
    t.bare("ipc-make", key, name, "make")
    t.file("../../../dev/shm/" + name, t.canary)
    try:
        t.works(t.bare("ipc", key, name))
        t.stopped(t.inside("ipc", key, name))
        got = t.shell("ls /dev/shm; cat /dev/shm/%s" % name)
        t.absent(t.canary, got)
    finally:
        t.bare("ipc-make", key, name, "remove")
        os.unlink("/dev/shm/" + name)


@row("PR-18", "the kernel's key rings", "seccomp: keyctl, add_key, request_key", outcome="denied")
def keyring(t):
    outside = t.bare("keyring")
    t.works(outside, "join session", "add_key", "search", "request_key")
    t.filtered(outside, t.inside("keyring"))


def on_terminal(t, argv, feed=b"", seconds=20):
    """Runs with a terminal of its own as the caller's, and says what came out and what was pushed in."""
    parent, child_end = pty.openpty()
    mode = termios.tcgetattr(child_end)
    mode[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(child_end, termios.TCSANOW, mode)
    os.fchown(child_end, t.uid, t.gid) if t.world.is_root else None
    become = t.become()

    def grab():
        os.setsid()
        import fcntl
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        become()
    child = subprocess.Popen(argv, stdin=child_end, stdout=child_end, stderr=child_end, env=t.environment({"TERM": "xterm"}), cwd=t.dir, preexec_fn=grab)
    os.write(parent, feed) if feed else None
    seen, deadline = b"", time.monotonic() + seconds
    while time.monotonic() < deadline:
        if select.select([parent], [], [], 0.05)[0]:
            with contextlib.suppress(OSError):
                seen += os.read(parent, 65536)
        elif child.poll() is not None:
            break
    if child.poll() is None:
        child.kill()
        child.wait()
        raise Hole("on a terminal it did not end: %r" % seen[-200:])
    import fcntl
    pending = bytearray(4)
    fcntl.ioctl(child_end, termios.FIONREAD, pending)
    pushed = int.from_bytes(pending, "little")
    os.close(parent), os.close(child_end)
    return Lines(child.returncode, seen.replace(b"\r\n", b"\n"), b""), pushed


@row("PR-19", "push input into the caller's terminal (TIOCSTI)", "pipes or a terminal of its own, setsid, seccomp on the request",
     outcome="denied")
def push_input(t):
    with open("/proc/sys/dev/tty/legacy_tiocsti") as file:
        legacy = file.read().strip() == "1"
    outside, pushed = on_terminal(t, [t.world.probe, "tty", "x"])
    if legacy or t.uid == 0:
        t.works(outside, "TIOCSTI")
        if pushed < 1:
            raise Hole("the control proves nothing: nothing was pushed")
    else:
        raise Skip("this kernel has TIOCSTI off for all")
    inside, pushed = on_terminal(t, t.sandbox_argv([t.world.inside_dir + "/sbx-probe", "tty", "x"]))
    t.stopped(inside, "TIOCSTI", "TIOCSTI on /dev/tty")
    if pushed:
        raise Hole("%d bytes were pushed into the caller's terminal" % pushed)


@row("PR-20", "the same with garbage in the upper half of the request", "the filter compares the low 32 bits, as the kernel does",
     outcome="denied")
def push_high_bits(t):
    outside, _ = on_terminal(t, [t.world.probe, "tty", "x"])
    t.works(outside, "TIOCSTI high bits", "TIOCSETD high bits")
    argv = t.sandbox_argv([t.world.inside_dir + "/sbx-probe", "tty", "x"])
    for mode in ("run", "shell"):
        inside, pushed = on_terminal(t, [a if a != "run" else mode for a in argv])
        if not inside.said:
            raise Hole("the probe did not run: " + inside.brief())
        t.stopped(inside, *(n for n in inside.said if "high bits" in n))
        if pushed:
            raise Hole("%d bytes were pushed into the caller's terminal" % pushed)


@row("PR-21", "line disciplines, console paste, TIOCCONS on the sandbox's own terminal", "seccomp on the request; own devpts instance",
     outcome="denied")
def terminal_requests(t):
    outside, _ = on_terminal(t, [t.world.probe, "tty", "x"])
    t.works(outside, "TIOCSETD")
    argv = [a if a != "run" else "shell" for a in t.sandbox_argv([t.world.inside_dir + "/sbx-probe", "tty", "x"])]
    inside, _ = on_terminal(t, argv)
    if not inside.said:
        raise Hole("the probe did not run: " + inside.brief())
    t.stopped(inside)
    for name in ("TIOCSTI", "TIOCSETD", "TIOCLINUX", "TIOCCONS"):
        if inside.detail(name) not in ("EPERM", "ENOTTY"):
            raise Hole("%s got past the filter: %s" % (name, inside.detail(name)))
    argv = [a if a != "run" else "shell" for a in t.sandbox_argv(["sh", "-c", "tty; ls /dev/pts"])]
    inside, _ = on_terminal(t, argv)
    if b"/dev/pts/" not in inside.out:
        raise Hole("no terminal inside: " + inside.brief())
    t.note("pts: " + " ".join(inside.out.decode("utf-8", "replace").split())[:60])


@row("PR-22", "escape sequences in names and messages shown to the operator", "messages and JSON are escaped; raw bytes only in the raw stream",
     outcome="harmless")
def escapes(t):
    evil = "\x1b]0;x\x07\x1b[6n\x1b]52;c;ZXZpbA==\x07"
    if b"\x1b]52" not in t.run(["printf", evil]).out:
        raise Hole("the control proves nothing")
    for argv in ([evil], ["sh", "-c", "exec '%s'" % "nothing"], ["/workspace/" + evil]):
        got = t.command(*argv, sound=False)
        if b"\x1b" in got.err or b"\x07" in got.err:
            raise Hole("a raw escape sequence on stderr: " + repr(got.err[:100]))
    for flags in (("--workdir", "/" + evil), ("--option", evil + "=1"), ("--bind", evil + ":/x"), ("--memory", evil), ("--" + evil,)):
        got = t.command("true", flags=flags, sound=False)
        if b"\x1b" in got.err + got.out:
            raise Hole("a raw escape sequence in the message about %s" % flags[0])
    argv = t.sandbox_argv(["printf", evil])
    got = t.run([argv[0], "--json", *argv[1:]])
    if b"\x1b" in got.out or b"52;c" not in got.out:
        raise Hole("JSON is not escaped: " + repr(got.out[:200]))


@row("PR-23", "raise priorities and limits: nice, real time, ioprio, mlock, setrlimit", "no capabilities, hard limits, seccomp",
     outcome="denied")
def priorities(t):
    outside = t.bare_root("priority")
    t.works(outside, "nice -20", "SCHED_FIFO", "ioprio realtime", "mlock 64 MiB")
    t.stopped(t.inside("priority"))
    outside = t.bare_root("limits")
    t.works(outside, "raise core", "raise fsize")
    got = t.inside("limits")
    t.stopped(got, "raise core", "raise nofile", "raise memlock", "raise nice", "raise rtprio", "raise msgqueue", "raise sigpending", "raise stack")
    for name, most in (("nofile", 4096), ("nice", 0), ("rtprio", 0), ("core", 1)):
        if got.number(name) > most:
            raise Hole("limit %s is %s" % (name, got.detail(name)))


@row("PR-24", "dump core with a secret in memory", "RLIMIT_CORE is 1 byte and stays so: no file, and the kernel starts no pipe handler of the host",
     outcome="absent")
def core_dump(t):
    with open("/proc/sys/kernel/core_pattern") as file:
        piped = file.read().startswith("|")
    t.mkdir("dump", 0o777)
    t.run(["sh", "-c", "ulimit -c unlimited; cd dump; sh -c 'kill -SEGV $$'"])
    if not piped and not os.listdir(t.path("dump")):
        raise Hole("the control proves nothing: no core was dumped")
    for name in os.listdir(t.path("dump")):
        os.unlink(t.path("dump/" + name))
    got = t.shell("ulimit -c; ulimit -c unlimited; cd /d; sh -c 'kill -SEGV $$'; cd /workspace; sh -c 'kill -SEGV $$'; cd /tmp; sh -c 'kill -QUIT $$'; ls /d /workspace /tmp | grep core",
                  flags=("--bind", t.path("dump") + ":/d:rw"))
    if os.listdir(t.path("dump")) or b"core" in got.out:
        raise Hole("a core was dumped")
    # core(5): 0 does not keep the kernel from running a pipe handler, as the host's root; 1 does.
    t.works(t.bare("limits"), "lower core")
    t.stopped(t.inside("limits"), "lower core")
    limit = t.inside("limits").number("core")
    if limit != 1:
        raise Hole("RLIMIT_CORE is %d: with a piped core_pattern the host's root handler would run; 1 prevents it" % limit)


AND_SERVES = """
      local again = assert(session:exec("echo serves"))
      say(again.stdout == "serves\\n" and "DENIED" or "ALLOWED", "session broken", again.stdout)
"""


@row("PR-25", "prlimit on init: no processor time, three descriptors", "seccomp: prlimit64 for pid 0 only", outcome="denied")
def strangle_init(t):
    child = victim(t)
    t.works(t.bare("strangle", str(child.pid)))
    for extra in ("{}", "{ profile = 'debug' }", "{ profile = 'strict' }"):
        got = t.script("""
    mooncage.with(with_probe(%s), function(session)
      io.write(assert(session:exec({ PROBE, "strangle", "1" })).stdout)
      for _ = 1, 20 do session:exec("true") end
      %s
    end)""" % (extra, AND_SERVES))
        t.stopped(got)


@row("PR-26", "scheduling, affinity, priority, pages, oom_score_adj of init", "seccomp: pid 0 only; init is not dumpable",
     outcome="denied")
def tamper_init(t):
    outside = t.bare("tamper", str(victim(t).pid))
    t.works(outside, "prlimit cpu", "sched_setaffinity", "setpriority", "ioprio_set", "sched_setscheduler", "prlimit high bits")
    got = t.script("""
    mooncage.with(with_probe(), function(session)
      io.write(assert(session:exec({ PROBE, "tamper", "1" })).stdout)
      local sibling = session:start({ "sleep", MARK })
      local pid = assert(session:exec("pgrep -x sleep")).stdout:match("%d+")
      local result = assert(session:exec({ PROBE, "tamper", pid or "2" }))
      for name in result.stdout:gmatch("([^\\n]-)\\tALLOWED") do
        if name:find("sched") or name:find("prlimit") then say("ALLOWED", "sibling " .. name, pid) end
      end
      sibling:signal("KILL")
      """ + AND_SERVES + "end)")
    t.stopped(got)


@row("PR-27", "forged SIGCHLD, floods of signals, kill(-1) at init and siblings", "init has no handlers and trusts pidfds only; one session is one trust domain",
     outcome="harmless")
def forged_signals(t):
    child = victim(t)
    t.works(t.bare("signal-flood", str(child.pid), "2"))
    got = t.script("""
    mooncage.with(with_probe(), function(session)
      for _, pid in ipairs { "1", "2", "3", "4", "-1" } do
        local result, err = session:exec({ PROBE, "signal-flood", pid, "5000" }, { timeout = 20 })
        say("DENIED", "flood of " .. pid, result and result.stdout or err.code)
      end
      for _, text in ipairs { "kill -9 -1", "kill -STOP -1; kill -9 $$", "kill -9 1", "kill -STOP 1", "kill -TERM 1; kill -HUP 1; kill -SEGV 1; kill -CHLD 1",
                              "kill -CHLD $PPID; kill -USR1 $PPID; kill -STOP $PPID", "kill -9 $PPID" } do
        local result, err = session:exec(text, { timeout = 5 })
        say("DENIED", text, result and tostring(result.exit_code or result.signal) or err.code)
        local again, why = session:exec("echo serves", { timeout = 5 })
        if not again or again.stdout ~= "serves\\n" then
          say("ALLOWED", "session broken by " .. text, again and tostring(again.timed_out) or why.code)
        end
      end
    end)""", timeout=120)
    t.stopped(got)


@row("PR-28", "of two commands one times out and has escaped children: its tree dies, the other's does not", "one subreaper stub for each command",
     outcome="killed")
def two_commands(t):
    t.run(["sh", "-c", "(setsid sleep %s &) ; sleep 0.1" % t.mark])
    if not pids_with(t.mark):
        raise Hole("the control proves nothing: setsid and double fork did not escape")
    t.slay()
    got = t.script("""
    mooncage.with(with_probe(), function(session)
      local b = session:start("(setsid sh -c 'sleep 71' &) ; sleep 72")
      mooncage.sleep(0.1)
      local a = assert(session:exec("(setsid sh -c '(setsid sleep 81 &) ; sleep 82' &) ; sleep 83", { timeout = 0.3 }))
      say(a.timed_out and "DENIED" or "ALLOWED", "no time-out", a.exit_code)
      local function alive(what) return assert(session:exec("pgrep -f '^sleep " .. what .. "' | wc -l")).stdout:match("%d+") end
      say(alive("8[123]") == "0" and "DENIED" or "ALLOWED", "of A lives on", alive("8[123]"))
      say(alive("7[12]") == "2" and "DENIED" or "ALLOWED", "of B was killed", alive("7[12]"))
      b:signal("KILL")
    end)""")
    t.stopped(got)
