"""rows_kernel.py: the KS rows of the table: system calls, socket families, the other ABIs, and what
happens where a mechanism is missing."""

import contextlib
import os
import socket

from harness import Hole, Skip, row

# Reachable inside on purpose, or absent from every kernel that is supported.
HARMLESS = ("process_mrelease", "lsm_set_self_attr", "file_setattr", "cachestat", "map_shadow_stack", "ustat", "sysfs", "set_mempolicy_home_node")
GROUPS = {
    "KS-01": ("io_uring: its three calls", ("io_uring_setup", "io_uring_enter", "io_uring_register")),
    "KS-03": ("the new mount API, statmount, listmount", (
        "fsopen", "fsconfig", "fsmount", "fspick", "open_tree", "open_tree clone", "move_mount", "mount_setattr", "open_tree_attr",
        "statmount", "listmount")),
}


def calls(t, *names):
    outside = t.bare_root("syscalls", *names, prefix=("unshare", "-mu"))
    for flags in ((), ("--option", "profile=strict"), ("--option", "profile=debug")):
        inside = t.inside("syscalls", *names, flags=flags)
        but = HARMLESS + (("ptrace", "ptrace traceme", "process_vm_readv", "process_vm_writev", "kcmp") if "profile=debug" in flags else ())
        t.filtered(outside, inside, but=but)
        if not flags:
            killed = [n for n, (verdict, _) in inside.said.items() if verdict == "KILLED"]
            if killed:
                raise Hole("programs that try %s are killed, not refused" % ", ".join(killed))
        if len(names or inside.said) != len(inside.said):
            raise Hole("some calls were not tried")


@row("KS-01", GROUPS["KS-01"][0], "seccomp", outcome="denied")
def io_uring(t):
    calls(t, *GROUPS["KS-01"][1])


@row("KS-02", "every call of Docker's deny list and more: bpf, perf, kexec, modules, reboot, swap, quota, time ...", "seccomp allowlist",
     outcome="denied")
def dangerous(t):
    calls(t)


@row("KS-03", GROUPS["KS-03"][0], "seccomp", outcome="denied")
def mount_api(t):
    calls(t, *GROUPS["KS-03"][1])


@row("KS-04", "make device nodes; open by handle", "no capabilities, nodev on every mount, seccomp", outcome="denied")
def device_nodes(t):
    t.works(t.bare_root("mknod", t.path("node")))
    t.works(t.bare_root("special", t.mkdir("s")), "char 1:3", "block 8:0")
    for place in ("/tmp/n", "/dev/n", "/dev/shm/n", "n", "/n"):
        t.stopped(t.inside("mknod", place))
    t.stopped(t.inside("special", "/tmp"), "char 1:3", "block 8:0")
    calls(t, "name_to_handle_at", "open_by_handle_at")


@row("KS-05", "int 0x80: the 32-bit door", "the filter looks at the architecture first, and kills",
     outcome="killed", needs="x86-64")
def int80(t):
    outside = t.bare("abi")
    if outside.said["int 0x80 getppid"][0] == "KILLED":
        raise Skip("this kernel has no 32-bit calls")
    t.works(outside, "int 0x80 getppid")
    inside = t.inside("abi")
    t.stopped(inside)
    for name in inside.said:
        if name.startswith("int") and inside.verdict(name) != "KILLED":
            raise Hole("%s was not killed: %s" % (name, inside.detail(name)))


@row("KS-06", "x32 system call numbers", "the filter kills numbers from 0x40000000 on", outcome="killed", needs="x86-64")
def x32(t):
    outside = t.bare("abi")
    inside = t.inside("abi")
    for name in ("x32 getpid", "x32 unshare"):
        if outside.verdict(name) == "KILLED":
            raise Hole("the control proves nothing: %s is killed outside" % name)
        if inside.verdict(name) != "KILLED":
            raise Hole("%s was not killed: %s" % (name, inside.detail(name)))


@row("KS-07", "sockets of all 47 families", "seccomp: unix, inet, inet6 and routing netlink only", outcome="denied")
def families(t):
    outside = t.bare_root("families")
    t.works(outside, "family 1", "family 2", "family 17", "family 16")
    inside = t.inside("families")
    t.stopped(inside, but=("family 1", "family 2", "family 10", "family 16"))
    t.works(inside, "family 1", "family 2")
    for name, (verdict, detail) in inside.said.items():
        if verdict == "DENIED" and outside.verdict(name) == "ALLOWED" and detail not in ("EPERM", "ENOSYS", "EAFNOSUPPORT", "EACCES"):
            raise Hole("%s got past the filter: %s" % (name, detail))
    pairs = t.inside("socketpairs")
    t.works(pairs, "unix")
    t.stopped(pairs, "tipc", "inet")
    if pairs.detail("inet") not in ("EPERM", "EAFNOSUPPORT", "ENOSYS"):
        raise Hole("socketpair of another family reached the kernel: " + pairs.detail("inet"))


@row("KS-08", "MPTCP, SCTP, UDP-Lite, DCCP, raw sockets, other netlink, high bits in arguments", "seccomp: type and protocol of socket",
     outcome="denied")
def protocols(t):
    outside = t.bare_root("protocols")
    t.works(outside, "raw icmp", "packet", "netlink audit")
    inside = t.inside("protocols")
    t.stopped(inside)
    reached = [n for n, (_, detail) in inside.said.items() if detail not in ("EPERM", "ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EACCES", "EINVAL")]
    if reached:
        raise Hole("reached the kernel: " + ", ".join(reached))


@row("KS-09", "send bytes to the host's loopback: connect, TCP Fast Open, UDP", "network namespace with nothing but its own lo",
     outcome="absent")
def fast_open(t):
    tcp, udp = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    tcp.bind(("127.0.0.1", 0))
    tcp.listen(16)
    udp.bind(tcp.getsockname())
    tcp.setblocking(False), udp.setblocking(False)
    t.cleanups.extend([tcp.close, udp.close])
    port = str(tcp.getsockname()[1])

    def seen():
        count = 0
        with contextlib.suppress(BlockingIOError):
            while tcp.accept():
                count += 1
        with contextlib.suppress(BlockingIOError):
            while udp.recv(16):
                count += 1
        return count
    t.works(t.bare("reach", port), "connect", "fast open", "datagram")
    if seen() < 3:
        raise Hole("the control proves nothing: not all of it arrived")
    got = t.inside("reach", port)
    t.stopped(got, "connect", "fast open")
    if seen():
        raise Hole("bytes reached the host's loopback")
    got = t.shell("cat /proc/net/dev /proc/net/route; python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 2)'")
    if b"eth" in got.out or b"ens" in got.out:
        raise Hole("the host's interfaces are seen")
    if got.code == 0:
        raise Hole("an address outside was reached")


@row("KS-10", "personality, LDT, I/O ports", "seccomp", outcome="denied", needs="x86-64")
def old_calls(t):
    calls(t, "personality", "modify_ldt", "iopl", "ioperm")


@row("KS-11", "set the time, the host name, the domain name", "seccomp, no capabilities, uts namespace", outcome="denied")
def time_and_name(t):
    name = os.uname().nodename
    outside = t.bare_root("time", prefix=("unshare", "-u"))
    t.works(outside, "sethostname", "setdomainname", "adjtimex")
    t.filtered(outside, t.inside("time"))
    t.shell("date -s 2001-01-01; hostname evil; echo evil > /proc/sys/kernel/hostname")
    if os.uname().nodename != name:
        raise Hole("the host's name was changed")
    if t.shell("hostname || uname -n").out.strip() == name.encode():
        raise Hole("the host's name is seen inside")


@row("KS-12", "device nodes: fuse, kvm, mem, tun, vhost, loop, disks, consoles", "fresh /dev with five nodes",
     outcome="absent")
def devices(t):
    outside = t.bare_root("devices")
    if not outside.unproven and len(outside.allowed()) < 5:
        raise Hole("the control proves nothing: hardly a node can be opened outside")
    t.stopped(t.inside("devices"))
    got = t.shell("find /dev -type c -o -type b | sort")
    expected = {b"/dev/" + n for n in (b"full", b"null", b"random", b"tty", b"urandom", b"zero", b"ptmx", b"pts/ptmx")}
    extra = set(got.out.split()) - expected
    if extra:
        raise Hole("more nodes than needed: %s" % sorted(extra))


@row("KS-13", "mount a cgroup file system, write cgroup.procs or release_agent", "cgroupfs is not mounted; seccomp; cgroup namespace",
     outcome="denied")
def cgroups(t):
    t.mkdir("m")
    outside = t.bare_root("cgroup", t.path("m"), prefix=("unshare", "-m"))
    if not outside.unproven and not outside.allowed():
        raise Hole("the control proves nothing: " + outside.brief())
    t.stopped(t.inside("cgroup", "/tmp"))
    with open("/proc/self/cgroup") as file:
        lines = file.read()
    got = t.shell("cat /proc/self/cgroup")
    for line in got.out.decode().splitlines():
        # With a cgroup namespace every path is seen from its own root.
        path = line.split(":", 2)[2]
        if "mcg-" in path or "sbx-escape" in path:
            raise Hole("the host's cgroup path is seen: %s (host: %s)" % (line, lines.splitlines()[0]))


@row("KS-14", "system call numbers that no kernel has yet; high bits in arguments", "unknown numbers are ENOSYS; the filter is compiled at build time and its load is checked",
     outcome="denied")
def unknown_calls(t):
    t.bare("unknown")
    got = t.inside("unknown")
    for name, (verdict, detail) in got.said.items():
        if (verdict, detail) not in (("DENIED", "ENOSYS"), ("KILLED", "SIGSYS")):
            raise Hole("%s: %s %s" % (name, verdict, detail))
    # A filter that cannot be loaded must keep the sandbox from starting: see KS-15.


FATAL = {
    "user namespaces (as Ubuntu 24.04 forbids them)": ("EPERM:newuser",),
    "user namespaces (ENOSPC: none left)": ("ENOSPC:newuser",),
    "seccomp": ("EINVAL:seccomp",),
    "pivot_root": ("EPERM:pivot_root",),
    "capset": ("EPERM:capset",),
}
LESSER = ("ENOSYS:openat2", "ENOSYS:clone3", "ENOSYS:close_range", "ENOSYS:memfd_create",
          "ENOSYS:landlock_create_ruleset,landlock_add_rule,landlock_restrict_self",
          "ENOSYS:mount_setattr", "ENOSYS:mount_setattr,open_tree,move_mount,fsopen", "ENOSYS:pidfd_open", "ENOSYS:pidfd_send_signal",
          "ENOSYS:openat2,clone3,close_range,faccessat2")


def shimmed(t, rules, *command, flags=()):
    return t.run([t.world.shim, *rules, "--", *t.sandbox_argv(command, flags)], timeout=30)


@row("KS-15", "a kernel that lacks a mechanism: user namespaces, seccomp, Landlock, openat2, clone3, close_range ...",
     "what the wall needs: refused, `unenforceable` with its fix; the rest: a lesser way that holds, said in `enforcement`",
     outcome="refused")
def missing(t):
    plain = t.run([t.world.shim, "ENOSYS:openat2", "--", "true"])
    if plain.code != 0:
        raise Skip("the shim does not work here: " + plain.brief())
    probe = t.world.inside_dir + "/sbx-probe"
    for what, rules in FATAL.items():
        got = shimmed(t, rules, probe, "ids")
        if got.code == 0 or got.said:
            if not got.said:
                raise Hole("without %s: exit 0" % what)
            t.stopped(got)  # it found another way: then all must hold
            t.stopped(shimmed(t, rules, probe, "namespaces"))
            t.note("without %s it stands all the same" % what.split(" (")[0])
            continue
        if got.code != 125 or b"error:" not in got.err or "namespaces" in what and b"fix:" not in got.err:
            raise Hole("without %s: no clear refusal: %s" % (what, got.brief()))
    fds = {"pass_fds": [os.open(t.outside, os.O_RDONLY)]}
    t.cleanups.append(lambda: os.close(fds["pass_fds"][0]))
    stood, refused = [], []
    for rules in LESSER:
        argv = [t.world.shim, rules, "--", *t.sandbox_argv(["sh", "-c", "for a in ids fds namespaces 'mounts /tmp'; do %s $a; done" % probe])]
        got = t.run(argv, timeout=30, **fds)
        if got.code == 125:
            if not got.err.strip():
                raise Hole("with %s: refused without a word" % rules)
            refused.append(rules.split(":")[1])
            continue
        if not got.said:
            raise Hole("with %s: %s" % (rules, got.brief()))
        stood.append(rules.split(":")[1])
        try:
            t.stopped(got)
        except Hole as hole:
            raise Hole("with %s: %s" % (rules, hole)) from None
    if "landlock_create_ruleset,landlock_add_rule,landlock_restrict_self" in stood:
        argv = t.sandbox_argv(["true"])
        got = t.run([t.world.shim, LESSER[4], "--", argv[0], "--json", *argv[1:]])
        if b"landlock" not in got.out or b"absent" not in got.out and b"none" not in got.out:
            raise Hole("enforcement does not say that Landlock is absent: " + got.brief())
    t.note("stands without: %s" % "; ".join(stood))
    if refused:
        t.note("refused without: %s" % "; ".join(refused))


@row("KS-15b", "no user namespaces left for this user (user.max_user_namespaces = 0)", "refused: `unenforceable` with its fix",
     outcome="refused")
def no_namespaces_left(t):
    """The real thing, in a user namespace of the test's own, whose limit is its own too."""
    text = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"'
    outer = ["unshare", "-Ur", "sh", "-c", text, "sh"]
    control = t.run(outer + ["unshare", "-U", "true"])
    if control.code == 0:
        raise Hole("the control proves nothing: a namespace could be made")
    got = t.run(outer + t.sandbox_argv(["true"]), timeout=30)
    if got.code != 125 or b"fix:" not in got.err:
        raise Hole("no clear refusal: " + got.brief())
