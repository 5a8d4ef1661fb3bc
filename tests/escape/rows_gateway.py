"""rows_gateway.py: XA rows against the gateway: what a program in the sandbox can do to it, to its names
and listeners, and through it to others; and what happens while its rules are changed."""

import ctypes
import fcntl
import os
import socket
import stat
import subprocess
import time

from harness import row
from network import ALLOW, OTHER, PUBLIC, PUBLIC6, Internet
from rows_audit import flags, must
from rows_network import GOOD, HERE, HERE6, outward, policy, python, rules, told


def session_with(t, allow, text, flags=(), more="", **options):
    """A Lua script with one session `s` that has these rules."""
    return t.script("""
    local s = opened(real.open(with_probe({}, { network = { allow = { %s } } %s })))
    local function probe(...) return assert(s:exec({ PROBE, ... }, { timeout = 60 })).stdout end
    %s
    s:close()
    """ % (", ".join('"%s"' % rule for rule in allow), more, text), flags=flags, timeout=90, **options)


@row("XA-25", "take the gateway's ports, or a name's before it is asked for: SO_REUSEPORT, other addresses, UDP", "no listener shares its port; who takes one beforehand fools himself alone",
     outcome="denied")
def steal(t):
    net = Internet(t)
    t.works(t.bare("steal", "127.0.0.9:9876"))
    wide = rules("api.allowed.test:443", "11.0.0.0/24:443")
    got = t.shell("PROBE tcp %s; PROBE steal 0.0.0.0:443 127.0.0.1:53 198.18.0.2:443 11.0.0.1:443 0.0.0.0:53 | grep -v '^udp .*443'; PROBE tcp %s" % (GOOD, GOOD),
                  flags=(*flags(t), *wide))
    t.works(got, GOOD)
    t.stopped(got, *(n for n in got.said if n.startswith(("tcp", "udp"))))
    got = python(t, """
held = []
for n in range(2, 40):
    for family, address in ((socket.AF_INET, '198.18.0.%d' % n), (socket.AF_INET6, 'fd00::%x' % n)):
        s = socket.socket(family)
        try: s.bind((address, 443)); s.listen(5); held.append(s)
        except OSError: pass
for name in ('api.allowed.test', 'a.pkg.test'):
    try: print(name, socket.create_connection((name, 443), 5).recv(50))
    except OSError as error: print(name, 'refused', len(held))
""")
    must(got.code == 0 and b"refused" in got.out, "nothing could be taken beforehand: " + got.brief())
    net.nothing_but(HERE, HERE6)


@row("XA-26", "ask for thousands of names, so that the engine has a listener for each and no descriptors for others", "a name costs descriptors of the session's own share; at its end the answer is SERVFAIL, and others go on",
     outcome="bounded", alone=True)
def many_names(t):
    Internet(t, {"*.pkg.test": {"A": [[PUBLIC]], "AAAA": [[PUBLIC6]]}})
    path = t.file("flood.py", """
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5)
codes = {}
for n in range(1500):
    for kind in (1, 28):
        labels = [b'n%d' % n, b'pkg', b'test']
        q = struct.pack('>HHHHHH', n, 0x100, 1, 0, 0, 0) + b''.join(bytes([len(l)]) + l for l in labels) + b'\\0' + struct.pack('>HH', kind, 1)
        s.sendto(q, ('127.0.0.1', 53))
        try: code = s.recv(4096)[3] & 15
        except OSError: code = -1
        codes[code] = codes.get(code, 0) + 1
    if codes.get(2, 0) > 20: break
print(codes)
""")
    os.chmod(path, 0o644)
    got = session_with(t, ("*.pkg.test:443,80,8080", "api.allowed.test:443"), """
    assert(s:write("flood.py", assert(io.open("@DIR@/flood.py")):read "*a"))
    local flood = assert(s:exec({ "/usr/bin/python3", "flood.py" }, { timeout = 60 }))
    io.stderr:write(flood.stdout, flood.stderr)
    local other, err = real.open(with_probe({}, { network = { allow = { "api.allowed.test:443" } } }))
    say(other and "DENIED" or "ALLOWED", "no other opens", err and err.message)
    if other then
      local there = other:exec({ PROBE, "tcp", "api.allowed.test:443" })
      say(there and there.stdout:find "ALLOWED" and "DENIED" or "ALLOWED", "no other connects", there and there.stdout)
      say(other:write("f", "x") and other:read "f" == "x" and "DENIED" or "ALLOWED", "no other writes")
      other:close()
    end
    say(s:exec("echo x") and "DENIED" or "ALLOWED", "it is stuck itself")
    """, flags=flags(t), prefix=("sh", "-c", 'ulimit -n 1024; exec "$@"', "sh"))
    t.stopped(got)


@row("XA-27", "questions that are none: noise, huge packets, names that point at themselves, connections that never ask", "a strict reader; 64 questions at once; a slow one is dropped",
     outcome="bounded")
def noise(t):
    Internet(t)
    got = session_with(t, ALLOW, """
    for seed = 1, 4 do probe("dns-junk", "2000", tostring(seed)) end
    io.write(probe("resolve", "api.allowed.test"))
    io.write((probe("dns-hold", "200", "a.pkg.test"):gsub("a.pkg.test", "while they hold")))
    io.write((probe("tcp", "%s"):gsub("^%%S+", "connect")))
    """ % GOOD, flags=flags(t))
    t.works(got, "api.allowed.test", "connect")


@row("XA-28", "begin thousands of connections and reset them: before they are taken, judged, dialled", "each is a fiber that ends; nothing is left in the engine", outcome="bounded",
     alone=True)
def hasty(t):
    Internet(t)
    got = session_with(t, ALLOW, """
    local own = "%s"
    probe("tcp", own)
    for i = 1, 5 do probe("hasty", own, "1000") end
    local reached
    for i = 1, 100 do
      reached = probe("tcp", own)
      if reached:find "ALLOWED" then break end
      real.sleep(0.05)
    end
    io.write((reached:gsub("^%%S+", "connect")))
    """ % GOOD, flags=flags(t))
    t.works(got, "connect")


@row("XA-29", "go on using what was allowed: connections, names and listeners, while rules are changed", "new rules hold at once: what they do not allow is cut, refused, and not answered",
     outcome="denied")
def changed_rules(t):
    net = Internet(t)
    got = session_with(t, (GOOD, "other.allowed.test:443"), """
    local long = s:start({ "/usr/bin/python3", "-c", [[
import socket, time
c = socket.create_connection(('api.allowed.test', 443), 5); c.recv(100)
print('up', flush=True)
try:
    while c.recv(100): pass
    print('closed')
except OSError: print('cut')
]] })
    local said = long:read()
    local address = probe("resolve", "api.allowed.test"):match "198%.18%.%d+%.%d+"
    assert(s:set_network { allow = { "four.allowed.test:443" } })
    local rest = said
    for bytes in function() return long:read() end do rest = rest .. bytes end
    long:wait()
    say(rest:find "cut" and "DENIED" or "ALLOWED", "an open connection", rest)
    io.write((probe("tcp", address .. ":443", "api.allowed.test:443", "other.allowed.test:443")))
    local fresh = probe("resolve", "four.allowed.test"):match "198%.18%.%d+%.%d+"
    say(fresh == address and "ALLOWED" or "DENIED", "an address used again", fresh)
    say(probe("tcp", "four.allowed.test:443"):find "ALLOWED" and "DENIED" or "ALLOWED", "the new rule does not hold")
    """, flags=flags(t))
    t.stopped(got)
    must(told(t, what="set_network"), "the change is not in the log")
    net.nothing_but(HERE, HERE6, "tcp %s 443" % OTHER)


@row("XA-30", "race connections and questions against rules that change all the time", "each connection is judged by the rules of its moment; the engine goes on", outcome="harmless",
     alone=True)
def racing_rules(t):
    net = Internet(t)
    got = session_with(t, (GOOD,), """
    local busy = s:start("while :; do @PROBE@ tcp api.allowed.test:443 other.allowed.test:443; done >/dev/null & " ..
      "while :; do @PROBE@ hasty api.allowed.test:443 50; done >/dev/null & sleep 60")
    for i = 1, 150 do
      local allow = i % 3 == 0 and {} or i % 3 == 1 and { "other.allowed.test:443" } or { "api.allowed.test:443", "*.pkg.test:443" }
      assert(s:set_network { allow = allow })
      real.sleep(0.01)
    end
    busy:signal "KILL"
    busy:wait()
    assert(s:set_network { allow = { "api.allowed.test:443" } })
    local reached
    for i = 1, 100 do
      reached = probe("tcp", "api.allowed.test:443")
      if reached:find "ALLOWED" then break end
      real.sleep(0.05)
    end
    io.write((reached:gsub("^%S+", "connect")))
    """, flags=flags(t))
    t.works(got, "connect")
    net.nothing_but(HERE, HERE6)


@row("XA-31", "the same destinations by other calls: fast open, MPTCP, IPv4 in IPv6, a foreign source address", "it is where they arrive that is judged", outcome="denied")
def otherwise(t):
    net = Internet(t)
    t.works(t.bare("otherwise", OTHER + ":443"), "fast open", "mapped")
    net.seen()
    for target in (OTHER + ":443", PUBLIC + ":80", "169.254.169.254:80"):
        t.stopped(outward(t, "otherwise", target))
    net.nothing_but()
    got = outward(t, "otherwise", PUBLIC + ":443", network=rules("11.0.0.1/32:443"))
    t.works(got, "fast open", "mapped")
    t.stopped(got, "mptcp")
    net.nothing_but(HERE)


@row("XA-32", "reach what a deny rule names, by another name for it, its address, a wider rule", "deny wins, by name and by every address a name has", outcome="denied")
def denied_wins(t):
    net = Internet(t, {"alias.pkg.test": {"CNAME": "api.allowed.test"}, "two.pkg.test": {"A": [[PUBLIC, OTHER]]}})
    strict = policy(t, "{ default = 'allow', deny = { '11.0.0.2', '*.evil.test:443', 'evil.test:443', '2a11::/16', 'a.pkg.test:443' } }")
    tries = (OTHER + ":443", "evil.test:443", "a.pkg.test:443", "two.pkg.test:443", "[%s]:443" % PUBLIC6, "four.allowed.test:80")
    t.works(t.bare("tcp", *tries))
    net.seen()
    got = outward(t, "tcp", "deep.a.pkg.test:443", *tries, network=strict)
    t.works(got, "deep.a.pkg.test:443")
    t.stopped(got, *tries)
    net.nothing_but(HERE)


@row("XA-33", "hold the session open: connections that never end, a server that never answers, a name server that is silent", "closing cuts everything; the end does not wait for strangers",
     outcome="killed")
def held_open(t):
    net = Internet(t)
    began = time.monotonic()
    got = session_with(t, (*ALLOW, "*.silent.test:443"), """
    s:start({ PROBE, "crowd", "%s", "60" })
    s:start({ "sh", "-c", "while :; do " .. PROBE .. " resolve x$RANDOM.silent.test; done" })
    real.sleep(0.5)
    say("DENIED", "ran")
    """ % GOOD, flags=flags(t))
    t.stopped(got)
    must(time.monotonic() - began < 60, "it waited for them")
    net.close()
    t.cleanups.clear()
    got = outward(t, "tcp", GOOD, timeout=60)
    t.stopped(got)


@row("XA-34", "rules of addresses that hold a special range, or the sandbox's own", "special ranges need a rule within them; loopback and synthetic addresses are the sandbox's own", outcome="denied")
def wide_networks(t):
    net = Internet(t)
    tries = ["10.9.8.7:80", "127.0.0.1:80", "192.168.7.6:80", "169.254.169.254:80", "[fd12::7]:80", "198.18.0.1:80", "198.18.7.7:80", "[fd00::1]:80"]
    t.works(t.bare("tcp", *tries[:5]))
    net.seen()
    got = outward(t, "tcp", PUBLIC + ":80", *tries, network=rules("0.0.0.0/0:80", "::/0:80"))
    t.works(got, PUBLIC + ":80")
    t.stopped(got, *tries)
    net.nothing_but("tcp %s 80" % PUBLIC)
    got = outward(t, "tcp", "10.9.8.7:80", "127.0.0.1:80", network=rules("10.0.0.0/8:80", "127.0.0.0/8:80"))
    t.works(got, "10.9.8.7:80")
    t.stopped(got, "127.0.0.1:80")


@row("XA-35", "every port redirected: talk to the listener itself, forge where one meant to go, lose the loopback", "the kernel says where a connection was meant to go; loopback is not redirected; what was not redirected is reset",
     outcome="denied")
def everything_redirected(t):
    net = Internet(t)
    wide = ("--network", "open")
    t.works(t.inside("own-server", "127.0.0.1:8081", flags=wide))
    t.works(t.inside("own-server", "[::1]:8081", flags=wide))
    scan = """
import os
def listening():
    found = set()
    for name in ('tcp', 'tcp6'):
        for line in open('/proc/net/' + name).read().splitlines()[1:]:
            words = line.split()
            if words[3] == '0A': found.add(int(words[1].rsplit(':', 1)[1], 16))
    return found
ports = listening()
print('ports', sorted(ports))
for port in ports - {53}:
    for host in ('127.0.0.1', '198.18.0.1', '198.18.0.2', '::1', 'fd00::1', '10.9.8.7', '169.254.169.254'):
        try:
            s = socket.create_connection((host, port), 3)
            s.settimeout(3)
            s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
            if s.recv(100): print('REACHED', host, port)
        except OSError: pass
"""
    got = python(t, scan, network=wide)
    must(b"ports" in got.out and b"REACHED" not in got.out, "a listener answered: " + got.brief())
    net.nothing_but()
    got = outward(t, "tcp", PUBLIC + ":22", "10.9.8.7:22", "127.0.0.1:22", "198.18.7.7:22", network=rules("0.0.0.0/0:1-65535"))
    t.works(got, PUBLIC + ":22")
    t.stopped(got, "10.9.8.7:22", "127.0.0.1:22", "198.18.7.7:22")
    net.nothing_but("tcp %s 22" % PUBLIC)


def copies_of(pid, wanted):
    """Copies of those descriptors of a process, as one who made and sent them may keep: the same open files."""
    libc, found = ctypes.CDLL(None, use_errno=True), []
    process = os.pidfd_open(pid)
    for name in os.listdir("/proc/%d/fd" % pid):
        fd = libc.syscall(438, process, int(name), 0)  # pidfd_getfd
        if fd >= 0 and wanted(int(name), fd):
            found.append(fd)
        elif fd >= 0:
            os.close(fd)
    os.close(process)
    return found


def listens(_, fd):
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return False
    with socket.socket(fileno=os.dup(fd)) as copy:
        return copy.family in (socket.AF_INET, socket.AF_INET6) and bool(copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def made_to_wait(t, child, wanted, least):
    """Clears O_NONBLOCK of all these, has the command go on, and gives its output."""
    must(child.stdout.readline() == b"up\n", "the command does not run")
    copies = copies_of(child.pid, wanted)
    must(len(copies) >= least, "the control: only %d descriptors were found" % len(copies))
    for copy in copies:
        fcntl.fcntl(copy, fcntl.F_SETFL, 0)
    must(not any(fcntl.fcntl(copy, fcntl.F_GETFL) & os.O_NONBLOCK for copy in copies), "the control: they do not wait")
    try:
        return child.communicate(b"go\n", timeout=30)[0]
    except subprocess.TimeoutExpired:
        return b"the engine hangs"
    finally:
        for copy in copies:
            os.close(copy)


@row("XA-36", "an init that was taken over makes the gateway's sockets wait, to hold the engine and all its sessions", "what is shared is set anew before each use; all else says MSG_DONTWAIT",
     outcome="harmless", identities=("root",), needs="root, who plays the part of that init")
def waiting_sockets(t):
    Internet(t)
    text = "%s/sbx-probe resolve api.allowed.test >/dev/null; echo up; read x; %s/sbx-probe tcp %s; %s/sbx-probe tcp %s"
    inside = t.world.inside_dir
    child = t.start(t.sandbox_argv(["sh", "-c", text % (inside, inside, GOOD, inside, GOOD)], rules(*ALLOW)),
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out = made_to_wait(t, child, listens, 3)
    must(out.count(b"ALLOWED") == 2, out.decode("utf-8", "replace"))


@row("XA-37", "the same with the pipes of a command, while another command of the engine runs",
     "each read and write of them says RWF_NOWAIT; where the kernel has none, what is shared is set anew before each", outcome="harmless",
     identities=("root",), needs="root, who plays the part of that init")
def waiting_pipes(t):
    path = t.file("two.lua", """local m = require "mooncage"
    m.with({ audit = false }, function(s)
      local p = s:start [[echo up; read x; echo some; sleep 100]]
      print(p:read "stdout":sub(1, -2)) io.stdout:flush()
      io.read()
      p:write "go\\n"
      print(p:read "stdout":sub(1, -2))
      print(s:exec("echo beside").stdout) -- nobody answers while the engine waits for the pipe
      p:signal "KILL"
    end)""")
    child = t.start([t.world.mooncage, "run", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out = made_to_wait(t, child, lambda number, fd: number > 2 and stat.S_ISFIFO(os.fstat(fd).st_mode), 2)
    must(b"beside" in out, out.decode("utf-8", "replace"))
