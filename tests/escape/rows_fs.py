"""rows_fs.py: the FS rows of the table: paths, links, descriptors, mounts, races, odd files."""

import os
import subprocess

from harness import Hole, Skip, row


@row("FS-01", "read files of the host by absolute path and by climbing out of the workspace",
     "mount namespace: own root, synthetic /etc", outcome="absent")
def climb(t):
    up = "../" * 12
    t.works(t.bare("read", t.secret, "../outside/secret", cwd=t.outside))
    t.works(t.bare_root("read", "/etc/shadow"))
    got = t.inside("read", "/etc/shadow", up + "etc/shadow", t.secret, up + t.secret, "/root/.bashrc", "/proc/self/cwd/" + up + "etc/shadow")
    t.stopped(got)
    t.absent(t.canary, got)
    got = t.inside("list", "/root", "/home", "/boot", "/srv", "/mnt", "/opt", "/var/log", "/sys", t.dir)
    t.stopped(got, but=[n for n, (_, detail) in got.said.items() if detail == "0 entries: " or detail == "1 entries: sandbox"])


@row("FS-02", "API paths that leave the workspace, or hold a NUL", "checked before anything is sent; then resolved inside",
     outcome="refused")
def api_paths(t):
    t.works(t.bare("read", t.outside + "/../outside/secret"))
    before = t.fingerprint(t.outside)
    got = t.script("""
    mooncage.with({}, function(session)
      for _, path in ipairs { "../../out/x", "a/../../x", "../workspace-evil/x", "..", "a/../../../@DIR@/outside/secret" } do
        try("write " .. path, session.write, session, path, "evil")
        try("read " .. path, session.read, session, path)
        try("list " .. path, session.list, session, path)
        try("remove " .. path, session.remove, session, path)
        try("move to " .. path, session.move, session, "a", path)
        try("mkdir " .. path, session.mkdir, session, path .. "/d")
      end
      try("read NUL", session.read, session, "a\\0b")
      try("write NUL", session.write, session, "a\\0/../../x", "evil")
      try("read empty", session.read, session, "")
      try_read("read @DIR@/outside/secret", session, "@DIR@/outside/secret")
      try_read("read /etc/shadow", session, "/etc/shadow")
      try("write /etc/passwd", session.write, session, "/etc/passwd", "evil")
      try("write /usr/bin/x", session.write, session, "/usr/bin/x", "evil")
    end)""")
    t.stopped(got)
    t.untouched(before, t.outside)


@row("FS-03", "a symlink planted inside, read through the file API", "file calls run inside the sandbox, confined like a command",
     outcome="harmless")
def api_link(t):
    t.link(t.outside, "hostlink")
    t.works(t.bare("read", t.path("hostlink/secret")))
    before = t.fingerprint(t.outside)
    got = t.script("""
    mooncage.with({}, function(session)
      assert(session:exec("ln -s @DIR@/outside hostlink; ln -s /etc/shadow shadow; ln -s /proc/self/root rootlink; ln -s /proc/1/root initlink"))
      try_read("hostlink/secret", session, "hostlink/secret")
      try_read("shadow", session, "shadow")
      try_read("rootlink@DIR@/outside/secret", session, "rootlink@DIR@/outside/secret")
      try_read("initlink@DIR@/outside/secret", session, "initlink@DIR@/outside/secret")
      try("write hostlink/secret", session.write, session, "hostlink/secret", "evil")
      try("list hostlink", session.list, session, "hostlink")
      try("download through it", session.download, session, "hostlink/secret", DIR .. "/tmp/stolen")
      try("remove through it", session.remove, session, "hostlink/secret")
    end)""")
    t.stopped(got, but=("remove through it",))
    t.untouched(before, t.outside)


@row("FS-04", "a directory swapped for a symlink while the host reads through it", "file calls run inside the sandbox",
     outcome="harmless")
def api_race(t):
    rounds = 10000 if t.full else 300
    t.mkdir("d"), t.file("d/secret", "harmless"), t.link(t.outside, "l")
    racer = t.start([t.world.probe, "swap", t.path("d"), t.path("l"), "0"], stdout=subprocess.DEVNULL)
    t.works(t.bare("race-read", t.path("d/secret"), t.canary, "2000"))
    racer.kill()
    got = t.script("""
    mooncage.with(with_probe(), function(session)
      session:exec("mkdir d; echo harmless > d/secret; ln -s @DIR@/outside l")
      local racer = session:start({ PROBE, "swap", "d", "l", "0" })
      local hits, answers = 0, 0
      for _ = 1, %d do
        local data = session:read("d/secret")
        if data then answers = answers + 1 end
        if data and data:find(CANARY, 1, true) then hits = hits + 1 end
      end
      racer:signal("KILL")
      say(hits > 0 and "ALLOWED" or "DENIED", "reads of the host", hits .. " of " .. answers)
      say("DENIED", "answers", answers)
    end)""" % rounds, timeout=600)
    t.stopped(got)
    if got.number("answers") == 0:
        raise Hole("no read got an answer: the race was not run")


@row("FS-05", "write into a read-only bind: directly, by hard link, by every way to change a file",
     "read-only bind, recursively (mount_setattr)", outcome="denied")
def readonly_bind(t):
    t.mkdir("ro"), t.file("ro/file", "good", 0o666), t.mkdir("work", 0o777)
    os.chmod(t.path("ro"), 0o777)
    t.mkdir("copy", 0o777), t.file("copy/file", "good", 0o666)
    t.works(t.bare("link", t.path("copy/file"), t.path("copy/x")))
    t.works(t.bare("change", t.path("copy/file")), "append", "truncate", "chmod", "utimes", "rename")
    before = t.fingerprint(t.path("ro"))
    flags = ("--bind", t.path("ro") + ":/ro")
    t.works(t.inside("read", "/ro/file", flags=flags))
    t.stopped(t.inside("link", "/ro/file", "x", flags=flags), "link", "write to the original")
    t.stopped(t.inside("change", "/ro/file", flags=flags))
    t.stopped(t.inside("put", "/ro/new", "evil", flags=flags))
    t.untouched(before, t.path("ro"))
    program = t.world.inside_dir + "/sbx-probe"
    t.stopped(t.inside("put", program, "evil"))
    t.stopped(t.inside("put", "/usr/bin/true", "evil"))


@row("FS-06", "write into a submount below a read-only bind", "read-only recursively (mount_setattr AT_RECURSIVE), or not there",
     outcome="absent", needs="root, for its control")
def readonly_submount(t):
    if not t.world.is_root:
        raise Skip("needs root to mount below the tree")
    t.mkdir("ro/sub")
    mount = "mount -t tmpfs -o mode=777 x %s/ro/sub; touch %s/ro/sub/f; chmod 666 %s/ro/sub/f; " % (t.dir, t.dir, t.dir)
    demote = "setpriv --reuid=%d --regid=%d --clear-groups -- " % (t.uid, t.gid) if t.uid else ""
    def there(command):
        return t.run(["unshare", "-m", "sh", "-c", mount + "exec " + demote + '"$@"', "sh", *command], as_root=True)
    t.works(there([t.world.probe, "put", t.path("ro/sub/f"), "evil"]))
    for tried in ("put /ro/sub/f evil", "put /ro/sub/new evil", "change /ro/sub/f"):
        got = there(t.sandbox_argv([t.world.inside_dir + "/sbx-probe", *tried.split()], ("--bind", t.path("ro") + ":/ro")))
        if not got.said:
            raise Hole("the probe did not run: " + got.brief())
        t.stopped(got)


@row("FS-07", "the host's root through /proc/PID/root and /proc/PID/cwd", "pid namespace, own /proc; init is not dumpable",
     outcome="absent")
def proc_root(t):
    t.works(t.bare("read", "/proc/self/root" + t.secret))
    t.works(t.bare_root("read", "/proc/%d/root/etc/shadow" % os.getpid()))
    got = t.inside("read", *("/proc/%s/root%s" % (pid, path) for pid in ("self", "1", "2", "thread-self", "self/task/1")
                             for path in ("/etc/shadow", t.secret)), "/proc/1/cwd/etc/shadow", "/proc/1/environ")
    t.stopped(got)
    t.stopped(t.inside("list", "/proc/1/root", "/proc/1/cwd/", "/proc/1/fd", "/proc/1/map_files", "/proc/1/task/1/fd"))


def inherited(t):
    """Descriptors as a careless host leaves them open: a directory at 9, a file at 10, both again high up."""
    fds = []
    directory, file = os.open(t.outside, os.O_RDONLY), os.open(t.secret, os.O_RDWR)
    for number, source in ((9, directory), (10, file), (251, directory), (1000, file)):
        os.dup2(source, number, inheritable=True)
        fds.append(number)
    os.close(directory), os.close(file)
    t.cleanups.append(lambda: [os.close(fd) for fd in fds])
    return {"pass_fds": fds}


@row("FS-08", "descriptors that the caller had open", "close_range before the program starts; everything is O_CLOEXEC",
     outcome="absent")
def leaked_fds(t):
    fds = inherited(t)
    t.works(t.bare("fds", **fds), "fd 9", "fd 10", "fd 251", "fd 9/secret", "descriptors")
    got = t.inside("fds", **fds)
    t.stopped(got)
    t.stopped(t.inside("read", *("/proc/self/fd/%d/secret" % n for n in range(3, 32)), **fds))


@row("FS-09", "a working directory of /proc/self/fd/N, or one that was removed", "the directory is entered inside, after pivot_root, and looked at again",
     outcome="refused")
def leaked_cwd(t):
    fds = inherited(t)
    t.works(t.bare("cwd", "/proc/self/fd/9", **fds), "secret")
    for number in (3, 4, 5, 6, 7, 9, 251):
        got = t.command(t.world.inside_dir + "/sbx-probe", "cwd", flags=("--workdir", "/proc/self/fd/%d" % number), sound=False, **fds)
        t.stopped(got, *(["secret"] if "secret" in got.said else []))
        t.absent(t.canary, got)
    got = t.script("""
    mooncage.with(with_probe(), function(session)
      session:exec("mkdir gone; ln -s /proc/self/fd/9 link; ln -s /proc/1/cwd initcwd")
      for _, cwd in ipairs { "/proc/self/fd/9", "link", "/workspace/link", "initcwd", "/proc/1/root", "../../..", "@DIR@/outside" } do
        local result = session:exec({ PROBE, "read", "secret", "outside/secret", "../outside/secret" }, { cwd = cwd })
        say(result and result.stdout:find(CANARY, 1, true) and "ALLOWED" or "DENIED", "cwd " .. cwd, result and result.exit_code)
      end
      local racer = session:start({ "sh", "-c", "while :; do mkdir -p gone; rmdir gone; done" })
      for _ = 1, 100 do
        local result = session:exec("pwd; cat /proc/self/cwd/../../etc/shadow", { cwd = "gone" })
        if result and result.stdout:find("unreachable", 1, true) then say("ALLOWED", "removed cwd", result.stdout) end
      end
      racer:signal("KILL")
      say("DENIED", "removed cwd", "never unreachable")
    end)""", **fds)
    t.stopped(got)


@row("FS-10", "overwrite the program that started the sandbox, through /proc/PID/exe", "own /proc, init not dumpable, programs bound read-only",
     outcome="absent")
def overwrite_exe(t):
    import shutil
    shutil.copy(t.world.probe, t.path("victim"))
    t.own(t.path("victim"))
    t.works(t.bare("overwrite", t.path("victim")))
    programs = [p for p in (t.world.mooncage, t.world.init, t.world.probe) if p and os.path.exists(p)]
    before = [t.fingerprint(p) for p in programs]
    t.stopped(t.inside("overwrite", "/proc/1/exe"))
    got = t.inside("overwrite", "/proc/self/exe")
    t.stopped(got, "/proc/self/exe write", "/proc/self/exe reopen")
    t.shell("printf '#!/proc/self/exe\\n' > s; chmod +x s; ./s; PROBE overwrite /proc/$PPID/exe; exec 3</proc/self/exe; echo x > /proc/self/fd/3")
    if before != [t.fingerprint(p) for p in programs]:
        raise Hole("a program of ours was changed")


@row("FS-11", "umount, bind, remount, pivot_root, chroot out", "no capabilities, seccomp; the old root is detached",
     outcome="denied")
def mounts(t):
    t.mkdir("m")
    outside = t.bare_root("mounts", t.path("m"), prefix=("unshare", "-m")) if t.world.is_root else \
        t.run(["unshare", "-Urm", t.world.probe, "mounts", t.path("m")])
    t.works(outside, "bind", "tmpfs", "chroot")
    t.filtered(outside, t.inside("mounts", "/tmp"))


WRITABLE_PROC = ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/modprobe",
                 "/proc/sys/kernel/hostname", "/proc/sys/fs/binfmt_misc/register", "/proc/irq/default_smp_affinity",
                 "/proc/sys/net/ipv4/ip_forward", "/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/ns_last_pid",
                 "/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/randomize_va_space")


@row("FS-12", "write to /proc/sys, sysrq-trigger and security attributes", "read-only and masked /proc, no capabilities",
     outcome="denied")
def proc_write(t):
    outside = t.bare_root("open-write", *WRITABLE_PROC)
    t.works(outside, "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/hostname")
    before = [read(p) for p in WRITABLE_PROC[3:5] + WRITABLE_PROC[:1]]
    # sysrq-trigger and the like may be there as an empty read-only file or as /dev/null.
    got = t.inside("open-write", *WRITABLE_PROC)
    t.stopped(got, but=("/proc/sysrq-trigger",))
    if got.verdict("/proc/sysrq-trigger") == "ALLOWED":
        masked = t.shell("stat -c %t:%T /proc/sysrq-trigger")
        if masked.out.strip() != b"1:3":
            raise Hole("/proc/sysrq-trigger can be opened for writing and is no /dev/null")
    t.shell("for a in exec fscreate current sockcreate keycreate; do echo x > /proc/self/attr/$a; echo x > /proc/1/attr/$a; done; echo x > /proc/1/setgroups; echo x > /proc/self/uid_map")
    if before != [read(p) for p in WRITABLE_PROC[3:5] + WRITABLE_PROC[:1]]:
        raise Hole("a value of the host's /proc/sys was changed")


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None


def rootfs(t, **links):
    """A small root file system: busybox, and whatever the row plants in it."""
    if not os.path.exists("/bin/busybox"):
        raise Skip("no static busybox here")
    base = t.mkdir("rootfs")
    for name in ("bin", "etc", "tmp", "usr", "workspace", "dev", "proc", "sys", "run", "var", "home"):
        if name not in links:
            t.mkdir("rootfs/" + name)
    import shutil
    shutil.copy("/bin/busybox", base + "/bin/busybox")
    os.symlink("busybox", base + "/bin/sh")
    for name, target in links.items():
        t.link(target, "rootfs/" + name.replace("__", "/"))
    return base


def refused(got):
    return got.code == 125 or got.code == 2 and b"error:" in got.err


def in_rootfs(t, text):
    """Runs in the planted root; a refused start is a fine answer, and told apart by its exit code."""
    got = t.command("/bin/busybox", "sh", "-c", text, flags=("--option", "rootfs=" + t.path("rootfs")), sound=False)
    if refused(got):
        if b"unknown" in got.err or b"unsupported" in got.err:
            raise Hole("rootfs is not supported: " + got.brief())
        t.note("refused to start: " + got.err.decode("utf-8", "replace").strip().splitlines()[0][:80])
    return got


@row("FS-13", "a root file system whose /dev/null is a symlink to a file of the host", "nodes are the host's own, checked by descriptor, on a fresh /dev",
     outcome="absent")
def planted_null(t):
    victim = t.file("outside/victim", "good", 0o666)
    rootfs(t)
    for name in ("null", "zero", "random", "full", "urandom", "tty", "shm", "pts", "ptmx"):
        t.link(victim, "rootfs/dev/" + name)
    naive = t.run(["sh", "-c", "echo evil > " + t.path("rootfs/dev/null")])
    if naive.code != 0 or read(victim) != "evil\n":
        raise Hole("the control proves nothing: the planted link does not lead out")
    t.file("outside/victim", "good", 0o666)
    before = t.fingerprint(t.outside)
    got = in_rootfs(t, "echo evil > /dev/null; echo evil > /dev/zero; stat -c %F:%t:%T /dev/null; cat /proc/sysrq-trigger /proc/kcore /proc/keys")
    t.untouched(before, t.outside)
    if not refused(got) and b"character special file:1:3" not in got.out:
        raise Hole("/dev/null inside is not 1:3: " + got.brief())


@row("FS-14", "a root file system whose /dev/pts/0 or /dev/console is a symlink out, with a terminal", "fresh /dev and devpts, the terminal is set by descriptor",
     outcome="absent")
def planted_console(t):
    victim = t.file("outside/victim", "good", 0o666)
    rootfs(t)
    t.mkdir("rootfs/dev/pts")
    for name in ("pts/0", "pts/ptmx", "console", "tty"):
        t.link(victim, "rootfs/dev/" + name)
    if t.run(["sh", "-c", "echo evil > " + t.path("rootfs/dev/console")]).code != 0 or read(victim) != "evil\n":
        raise Hole("the control proves nothing: the planted link does not lead out")
    t.file("outside/victim", "good", 0o666)
    before = t.fingerprint(t.outside)
    got = t.script("""
    local session, err = mooncage.open { backend = mooncage.jail { rootfs = "@DIR@/rootfs" } }
    if not session then say("DENIED", "open", err.code .. ": " .. err.message) return end
    local result = session:exec({ "/bin/busybox", "sh", "-c", "tty; echo evil > /dev/console; echo evil > /dev/tty" }, { pty = true })
    say("DENIED", "tty", result and result.stdout or "none")
    session:close()""")
    t.stopped(got)
    t.untouched(before, t.outside)


@row("FS-15", "a root file system whose /proc, /sys or mount points are symlinks", "mount points are resolved in the new root without links; else the start is refused",
     outcome="refused")
def planted_proc(t):
    t.works(t.bare("put", t.path("outside/x"), "x"))
    os.unlink(t.path("outside/x"))
    before = t.fingerprint(t.outside)
    for name, target in (("proc", t.outside), ("proc", "/tmp"), ("sys", t.outside), ("tmp", t.outside), ("workspace", t.outside),
                         ("etc", t.outside), ("run", "../../outside"), ("usr", t.outside)):
        subprocess.run(["rm", "-rf", t.path("rootfs")], check=True)
        rootfs(t, **{name: target})
        got = in_rootfs(t, "echo evil > /%s/evil; cat /%s/secret /proc/self/status | head -3; ls -ld /proc/self" % (name, name))
        t.absent(t.canary, got)
        t.untouched(before, t.outside)
        if os.path.exists("/tmp/evil"):
            raise Hole("a file was made in the host's /tmp")
        if not refused(got) and name == "proc" and b"/proc/self" not in got.out:
            raise Hole("/proc inside is no procfs: " + got.brief())


@row("FS-16", "a root file system whose /dev is an absolute symlink to a directory of the host", "fresh /dev in the new root, by descriptor",
     outcome="absent")
def planted_dev(t):
    victim = t.mkdir("outside/dev", 0o777)
    t.file("outside/dev/null", "good", 0o666)
    rootfs(t, dev=victim)
    t.works(t.bare("put", t.path("rootfs/dev/new"), "x"))
    os.unlink(t.path("outside/dev/new"))
    before = t.fingerprint(t.outside)
    in_rootfs(t, "echo evil > /dev/null; echo evil > /dev/new; ls /dev")
    t.untouched(before, t.outside)


@row("FS-17", "/sys: firmware, debugfs, hardware identity", "/sys is not mounted", outcome="absent")
def sys_absent(t):
    t.works(t.bare("list", "/sys", "/sys/kernel", "/sys/class"))
    t.stopped(t.inside("list", "/sys", "/sys/kernel/debug", "/sys/kernel/security", "/sys/class", "/sys/firmware/efi/efivars", "/sys/fs/cgroup"))
    t.stopped(t.inside("read", "/sys/class/dmi/id/product_uuid", "/sys/kernel/notes", "/sys/power/state"))


@row("FS-18", "kernel addresses, keys, timers and mount paths in /proc", "masked /proc (empty files), strict: subset=pid",
     outcome="absent")
def proc_info(t):
    names = ["/proc/" + n for n in ("kallsyms", "kcore", "keys", "timer_list", "config.gz", "sched_debug", "latency_stats", "interrupts", "kmsg", "kpagecount", "vmallocinfo", "slabinfo", "iomem", "ioports", "key-users", "modules")]
    t.works(t.bare_root("read", "/proc/kallsyms", "/proc/interrupts", "/proc/timer_list"))
    for flags in ((), ("--option", "profile=strict")):
        got = t.inside("read", *names, flags=flags)
        t.stopped(got, but=[n for n, (_, detail) in got.said.items() if detail.startswith("0 bytes")] + (
            ["/proc/modules", "/proc/key-users", "/proc/ioports", "/proc/iomem", "/proc/config.gz"] if not flags else []))
        for name in ("/proc/iomem", "/proc/ioports"):
            if got.verdict(name) == "ALLOWED" and any(c in "123456789abcdef" for c in got.detail(name).split(":", 1)[1].split(" ")[0].split("-")[-1]):
                raise Hole("%s shows addresses: %s" % (name, got.detail(name)))
    got = t.shell("cat /proc/self/mountinfo /proc/self/mounts")
    t.absent("upperdir", got, "/proc/self/mountinfo")
    t.absent("lowerdir", got, "/proc/self/mountinfo")
    for line in got.out.decode().splitlines():
        root = line.split()[3]
        if root.startswith("/") and line.split()[0].isdigit() and t.world.inside_dir not in line and \
                root.split("/")[1] not in ("", "usr", "bin", "lib", "sbin", "lib32", "lib64", "libx32", "r", "d", "e", "x", "k", "etc", "null", "zero",
                                           "full", "random", "urandom", "tty", "bus", "fs", "irq", "sys"):
            raise Hole("mountinfo shows a path of the host: " + line)


@row("FS-19", "a set-uid program: brought in, written by the API, on the host's /usr, in a bind", "nosuid on every mount, no_new_privs, one uid is mapped",
     outcome="denied")
def setuid(t):
    if t.world.is_root:
        import shutil
        shutil.copy(t.world.probe, t.path("suid"))
        os.chown(t.path("suid"), 0, 0)
        os.chmod(t.path("suid"), 0o4755)
        t.works(t.run([t.path("suid"), "ids"], env={"HOME": "/"}) if t.uid else
                t.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", t.path("suid"), "ids"]), "euid")
        t.stopped(t.run(t.sandbox_argv(["/b/suid", "ids"], ("--bind", t.dir + ":/b"))))
    else:
        t.note("its control needs root: a set-uid file of another user")
    got = t.script("""
    mooncage.with(with_probe(), function(session)
      local file = assert(io.open(BIN .. "/sbx-probe", "rb"))
      try("set-uid mode by the API", session.write, session, "suid", file:read("*a"), tonumber("4755", 8))
      session:exec({ "cp", PROBE, "own" })
      session:exec("chmod 6755 own")
      io.write(session:exec({ "./own", "ids", "own" }).stdout)
    end)""")
    t.stopped(got)
    for program in ("su -c id", "mount", "passwd --help", "newgrp root"):
        got = t.shell(program + " </dev/null; id -u")
        if got.out.strip().endswith(b"\n0") or got.out.strip() == b"0":
            raise Hole(program + " gave root")


@row("FS-20", "run a dropped program: directly, by sh, by ld.so, from a memfd", "allowed on purpose: noexec is no boundary; each way is as confined as a command",
     outcome="harmless",
     gap="noexec is no boundary: whoever may write a file may run it, as confined as any command")
def dropped(t):
    t.works(t.bare("drop", t.dir), "direct", "sh", "memfd")
    got = t.inside("drop", "/workspace")
    t.stopped(got, *(n for n in got.said if " " in n))
    ran = [n for n in ("direct", "sh", "ld.so", "memfd") if got.verdict(n) == "ALLOWED"]
    t.note("ran: " + ", ".join(ran))
    if "direct" in ran and "direct Seccomp" not in got.said:
        raise Hole("the dropped program said nothing of itself")


def project(t, **files):
    """A small git tree of the row's user."""
    if subprocess.run(["sh", "-c", "command -v git"], stdout=subprocess.DEVNULL).returncode:
        raise Skip("no git here")
    t.mkdir("tree")
    t.run(["git", "-C", t.path("tree"), "init", "-q"])
    t.file("tree/README.md", "hello\n")
    for name, text in files.items():
        t.file("tree/" + name, text)
    return t.path("tree")


EVIL = "mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; printf '[core]\\n fsmonitor=touch %s/pwned\\n' >> .git/config"


@row("FS-21", "plant git hooks and configuration in the user's tree", "--project is a copy-on-write view; --apply refuses everything below .git",
     outcome="refused",
     gap="other files that tools of the host run (Makefile, .vscode) are applied when you apply them: read the diff")
def plant_hooks(t):
    tree = project(t)
    evil = EVIL % t.dir
    t.run(["cp", "-a", tree, t.path("copy")])
    t.run(["sh", "-c", "cd copy && %s && git status" % evil])
    if not os.path.exists(t.path("pwned")):
        raise Hole("the control proves nothing: the planted configuration runs nothing")
    os.unlink(t.path("pwned"))
    before = t.fingerprint(tree)
    for flags in ((), ("--diff",), ("--apply",)):
        got = t.shell(evil + "; echo x > .git/new", flags=("--project", tree, *flags), sound=False)
        t.untouched(before, tree)
        if os.path.exists(t.path("pwned")):
            raise Hole("the host ran a program that the sandbox had planted")
        if got.code == 125 and flags != ("--apply",):
            raise Hole("the sandbox did not start: " + got.brief())
    t.shell("echo more >> README.md", flags=("--project", tree, "--apply"))
    if read(tree + "/README.md") != "hello\nmore\n":
        raise Hole("an honest change was not applied")


@row("FS-22", "plant .git where there is none yet", "--apply refuses everything below .git, present or not", outcome="refused")
def plant_new_git(t):
    t.mkdir("tree/sub"), t.file("tree/a", "a")
    t.works(t.bare("put", t.path("tree/.x"), "x"))
    os.unlink(t.path("tree/.x"))
    before = t.fingerprint(t.path("tree/a"))
    for where in (".", "sub", "new"):
        t.shell("mkdir -p %s; cd %s; mkdir .git; %s" % (where, where, EVIL % t.dir), flags=("--project", t.path("tree"), "--apply"), sound=False)
        found = [top for top, _, _ in os.walk(t.path("tree")) if "/.git" in top]
        if found:
            raise Hole("it was written to the host: %s" % found[0])
    t.shell("echo honest > honest", flags=("--project", t.path("tree"), "--apply"))
    if read(t.path("tree/honest")) != "honest\n":
        raise Hole("the control proves nothing: nothing at all is applied")
    for name in (".GIT", ".git ", ".Git"):
        t.shell("mkdir '%s' && echo evil > '%s/config'" % (name, name), flags=("--project", t.path("tree"), "--apply"), sound=False)
    t.untouched(before, t.path("tree/a"))


@row("FS-23", "rename .git away and put another in its place", "--apply refuses everything below .git, renames included",
     outcome="refused")
def swap_git(t):
    tree = project(t)
    t.works(t.bare("read", tree + "/.git/HEAD"))
    before = t.fingerprint(tree + "/.git")
    for text in ("mv .git g2; mkdir .git; echo evil > .git/config", "rm -rf .git; ln -s %s .git" % t.outside,
                 "rm -rf .git; echo 'gitdir: /tmp/evil' > .git", "mkdir x; mv .git x/"):
        t.shell(text, flags=("--project", tree, "--apply"), sound=False)
        if os.path.islink(tree + "/.git") or not os.path.isdir(tree + "/.git"):
            raise Hole(".git was replaced on the host by: " + text)
        t.untouched(before, tree + "/.git")
    t.shell("echo honest > honest", flags=("--project", tree, "--apply"))
    if read(tree + "/honest") != "honest\n":
        raise Hole("the control proves nothing: nothing at all is applied")


@row("FS-24", "names with control characters and invalid UTF-8, a tree thousands deep, listed and removed by the host",
     "walks by descriptor without recursion on paths; output escaped; no shell", outcome="bounded")
def odd_names(t):
    depth = "4096" if t.full else "1500"
    t.mkdir("deep"), t.mkdir("names")
    t.works(t.bare("deep", t.path("deep"), depth))
    t.works(t.bare("names", t.path("names")))
    if t.run(["sh", "-c", "cat deep/%s/x" % "/".join(["d"] * 2100)]).code == 0:
        raise Hole("the control proves nothing: such a path can be named at once")
    t.run(["rm", "-rf", t.path("deep")])
    got = t.script("""
    mooncage.with(with_probe(), function(session)
      session:exec("mkdir deep names")
      say("DENIED", "made", session:exec({ PROBE, "deep", "deep", "%s" }).stdout)
      session:exec({ PROBE, "names", "names" })
      local names = assert(session:list("names"))
      say(#names == 13 and "DENIED" or "ALLOWED", "names listed", #names)
      for i, entry in ipairs(names) do
        local removed, err = session:remove("names/" .. entry.name)
        if not removed then say("ALLOWED", "remove " .. i, err.code .. " " .. entry.name) end
      end
      say(#session:list("names") == 0 and "DENIED" or "ALLOWED", "names left", #session:list("names"))
      local packed = 0
      local ok, err = session:persist_workspace(function(part) packed = packed + #part return true end)
      say("DENIED", "packed", packed .. " " .. tostring(ok or err.code))
      local removed, why = session:remove("deep")
      say(removed and "DENIED" or "ALLOWED", "deep tree stays", why and why.code)
      say("DENIED", "still serves", assert(session:exec("echo yes")).stdout)
    end)""" % depth)
    t.stopped(got)
    if b"\x1b[2J" in got.err:
        raise Hole("a raw escape sequence reached the terminal")


@row("FS-25", "links swapped in while the sandbox's files are removed", "removal by descriptor, never following; the jail's disk dies with its namespace",
     outcome="harmless")
def teardown(t):
    t.mkdir("copy/w"), t.link(t.outside, "copy/w/d")
    t.run(["sh", "-c", "find -L copy -type f -delete"])
    if os.path.exists(t.secret):
        raise Hole("the control proves nothing: a removal that follows links does not reach the file")
    t.file("outside/secret", t.canary)
    before = t.fingerprint(t.outside)
    plant = "mkdir -p d sub/e; ln -s %s/outside l; ln -s %s/outside sub/l; (PROBE swap d l 0 &) ; (PROBE swap sub/e sub/l 0 &) ; sleep 0.2" % (t.dir, t.dir)
    t.shell(plant)
    t.untouched(before, t.outside)
    t.script("""
    for _, backend in ipairs { mooncage.jail {}, mooncage.subprocess {} } do
      local ok, err = pcall(mooncage.with, { backend = backend, enforcement = "best_effort" }, function(session)
        session:exec("mkdir -p d sub; ln -s @DIR@/outside l; ln -s @DIR@/outside sub/l; ln -s .. up")
        local racer = session:start({ BIN .. "/sbx-probe", "swap", "d", "l", "0" })
        session:remove("sub")
        mooncage.sleep(0.1)
      end)
      say("DENIED", "closed", tostring(ok) .. tostring(err))
    end""")
    t.untouched(before, t.outside)


@row("FS-26", "a fifo, socket or device where the host will read", "opened non-blocking, refused unless it is a regular file",
     outcome="harmless")
def special_files(t):
    t.mkdir("p")
    t.works(t.bare("special", t.path("p")), "fifo", "socket")
    if t.run(["timeout", "0.5", "cat", t.path("p/fifo")]).code != 124:
        raise Hole("the control proves nothing: reading the fifo did not hang")
    got = t.script("""
    mooncage.with(with_probe(), function(session)
      session:exec({ PROBE, "special", "." })
      session:exec("ln -s fifo out.json; mkdir dir; ln -s /dev/zero zero; ln -s /proc/self/mem mem; ln -s /proc/kmsg kmsg")
      for _, name in ipairs { "fifo", "out.json", "socket", "dir", "zero", "/dev/zero", "/dev/full" } do
        try(name, session.read, session, name)
        try("download " .. name, session.download, session, name, DIR .. "/tmp/x")
      end
      try_read("mem", session, "mem")
      try("write fifo", session.write, session, "dir", "x")
      say("DENIED", "still serves", assert(session:exec("echo yes")).stdout)
    end)""", timeout=60)
    t.stopped(got, but=("download dir",))


@row("FS-27", "a file that grows for ever, a sparse file of 1 TiB, read by the host", "the reader has a cap; memory stays flat",
     outcome="bounded")
def endless_file(t):
    t.run(["truncate", "-s", "1T", t.path("sparse")])
    if os.path.getsize(t.path("sparse")) != 1 << 40:
        raise Skip("this file system makes no sparse file of 1 TiB")
    os.unlink(t.path("sparse"))
    got = t.script("""
    mooncage.with({ limits = { disk_mb = 64 } }, function(session)
      session:exec("truncate -s 1T sparse; truncate -s 3G three")
      local grower = session:start("yes > growing")
      mooncage.sleep(0.1)
      for _, name in ipairs { "sparse", "three", "growing" } do
        local data, err = session:read(name)
        say(data and #data > 200000000 and "ALLOWED" or "DENIED", name, data and #data or err.code)
      end
      grower:signal("KILL")
      say("DENIED", "still serves", assert(session:exec("echo yes")).stdout)
    end)""", timeout=120)
    t.stopped(got)
    if got.maxrss_kb > 700 << 10:
        raise Hole("the engine grew to %d MiB" % (got.maxrss_kb >> 10))


@row("FS-28", "truncate and read back the host's file behind stdout, through /proc/self/fd", "the standard streams are pipes made by init",
     outcome="absent")
def stdio_reopen(t):
    def with_log(run):
        log = t.file("outside/log", "earlier line\n")
        with open(log, "ab") as out, open(log, "rb") as source:
            got = run(stdout_file=out, stdin_file=source)
        return got, read(log)
    _, kept = with_log(lambda **o: t.bare("stdio", **o))
    if "truncate 1\tALLOWED" not in kept or "earlier line" in kept:
        raise Hole("the control proves nothing: the log was not truncated: " + kept)
    _, kept = with_log(lambda **o: t.run(t.sandbox_argv([t.world.inside_dir + "/sbx-probe", "stdio"]), **o))
    if not kept.startswith("earlier line\n"):
        raise Hole("the host's log was truncated")
    if "truncate 1\tDENIED" not in kept or "\tALLOWED" in kept:
        raise Hole("a standard stream is a file of the host: " + kept)
