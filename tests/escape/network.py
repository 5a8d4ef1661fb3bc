"""network.py: a small internet for one row: a network namespace with addresses of its own, names that
resolve to what the row says, and servers that write down whatever reaches them.

`Internet(t)` moves this process, and so everything that the row starts, into the namespace: the machine
that the sandbox runs on is then one whose own addresses are the whole internet. It has the right to do so
as root, and as an ordinary user in a user namespace of its own."""

import ctypes
import json
import os
import subprocess
import sys
import time

from harness import HERE, Hole, Skip

PUBLIC, OTHER, PUBLIC6 = "11.0.0.1", "11.0.0.2", "2a11::1"
DNS = "11.0.0.53"
# What no rule gives unless it names it: private ranges, metadata, the loopback of the host.
PRIVATE = ("10.9.8.7", "172.16.5.4", "192.168.7.6", "100.64.3.2", "169.254.169.254", "100.100.100.200", "168.63.129.16",
           "198.51.100.7", "192.0.0.8")
PRIVATE6 = ("fd00:ec2::254", "fd12::7", "2002:7f00:1::", "64:ff9b::7f00:1")
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
CAPABILITY_VERSION_3, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 0x20080522, 47, 2
CAP_NET_BIND_SERVICE, CAP_NET_ADMIN, CAP_SYS_ADMIN = 10, 12, 21

ZONE = {
    "api.allowed.test": {"A": [[PUBLIC]], "AAAA": [[PUBLIC6]]},
    "other.allowed.test": {"A": [[PUBLIC]]},
    "four.allowed.test": {"A": [[OTHER]]},
    "a.pkg.test": {"A": [[PUBLIC]]},
    "deep.a.pkg.test": {"A": [[PUBLIC]]},
    "pkg.test": {"A": [[PUBLIC]]},
    "evil.test": {"A": [[OTHER]]},
}
ALLOW = ("api.allowed.test:443", "*.pkg.test:443")


def unshare(flags):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) < 0:
        raise OSError(ctypes.get_errno(), "unshare")


def keep_rights():
    """For a child before exec: what it may do in the user namespace stays with the program, though it is not root there."""
    if os.getuid() == 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable: their low halves, then their high ones
    if libc.capget(header, sets) < 0:
        raise OSError(ctypes.get_errno(), "capget")
    sets[2], sets[5] = sets[1], sets[4]
    if libc.capset(header, sets) < 0:
        raise OSError(ctypes.get_errno(), "capset")
    for right in (CAP_NET_BIND_SERVICE, CAP_NET_ADMIN, CAP_SYS_ADMIN):
        if libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, right, 0, 0) < 0:
            raise OSError(ctypes.get_errno(), "prctl")


def run(*argv):
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=keep_rights)


class Internet:
    def __init__(self, t, zone=None):
        self.t, self.zone = t, dict(ZONE, **(zone or {}))
        self.dir = t.mkdir("net", 0o755)
        self.enter()
        self.publish()
        self.certificate()
        self.log_path = self.dir + "/log"
        with open(self.log_path, "w"):
            pass
        self.servers = subprocess.Popen([sys.executable, os.path.join(HERE, "servers.py"), self.dir], stdout=subprocess.PIPE,
                                        stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=keep_rights)
        t.cleanups.append(self.close)
        if self.servers.stdout.readline() != b"ready\n":
            raise Hole("the servers of the test do not start")

    def enter(self):
        uid, gid = os.getuid(), os.getgid()
        try:
            unshare(CLONE_NEWNS | CLONE_NEWNET | (0 if uid == 0 else CLONE_NEWUSER))
            if uid != 0:
                for name, text in (("setgroups", "deny"), ("uid_map", "%d %d 1" % (uid, uid)), ("gid_map", "%d %d 1" % (gid, gid))):
                    with open("/proc/self/" + name, "w") as file:
                        file.write(text)
            run("mount", "--make-rprivate", "/")
            run("ip", "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            raise Skip("no network namespace of its own here: %s" % error) from None
        for address in (PUBLIC, OTHER, DNS, *PRIVATE):
            run("ip", "address", "add", address + "/32", "dev", "lo")
        for address in (PUBLIC6, *PRIVATE6):
            run("ip", "-6", "address", "add", address + "/128", "dev", "lo", "nodad")
        for place, text in (("/etc/resolv.conf", "nameserver %s\nsearch allowed.test\n" % DNS),
                            ("/etc/hosts", "127.0.0.1 localhost\n%s in-hosts.test\n" % OTHER)):
            self.t.file("net-" + os.path.basename(place), text)
            run("mount", "--bind", self.t.path("net-" + os.path.basename(place)), place)

    def publish(self, **names):
        """Names and their answers from now on; a_b is a.b."""
        self.zone.update({name.replace("_", "."): value for name, value in names.items()})
        with open(self.dir + "/zone.new", "w") as file:
            json.dump(self.zone, file)
        os.rename(self.dir + "/zone.new", self.dir + "/zone.json")

    def certificate(self):
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
            "/CN=*.allowed.test", "-addext", "subjectAltName=DNS:*.allowed.test", "-keyout", self.dir + "/key.pem", "-out",
            self.dir + "/cert.pem")
        with open(self.dir + "/tls.pem", "w") as both:
            for name in ("key", "cert"):
                with open("%s/%s.pem" % (self.dir, name)) as file:
                    both.write(file.read())

    def seen(self):
        """What has reached the servers since the last time, as lines."""
        with open(self.log_path) as file:
            lines = file.read().splitlines()
        self.read, fresh = len(lines), lines[getattr(self, "read", 0):]
        return fresh

    def reached(self):
        return [line for line in self.seen() if not line.startswith("dns ")]

    def asked(self, lines):
        return [line.split()[1] for line in lines if line.startswith("dns ")]

    def nothing_but(self, *allowed):
        """Nothing but these ("tcp 11.0.0.1 443") has reached a server."""
        time.sleep(0.05)
        bad = [line for line in self.reached() if line not in allowed]
        if bad:
            raise Hole("it reached %s" % "; ".join(bad[:5]))

    def close(self):
        self.servers.kill()
        self.servers.wait()
        self.servers.stdout.close()
