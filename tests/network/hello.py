"""hello.py: the second ClientHello of a connection whose rule has `sni`, before servers of OpenSSL."""

import json
import subprocess

import world
from cases import CURL, SLOW, at_once, case

SECOND_HELLO = r"""
import socket, ssl, sys
name = sys.argv[1].encode()  # of the second ClientHello; as long as the first one's
context = ssl.create_default_context(cafile="/tmp/cert.pem")
into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = context.wrap_bio(into, out, server_hostname="good.test")
s = socket.create_connection(("good.test", int(sys.argv[2])), timeout=20)
sent = 0
while True:
    try:
        tls.do_handshake()
        break
    except ssl.SSLWantReadError:
        pass
    data = out.read()
    if data:
        sent += 1
        s.sendall(data.replace(b"good.test", name) if sent > 1 else data)
    more = s.recv(65536)
    if not more:
        sys.exit("the end")
    if sent > 1:
        print("answered", file=sys.stderr)
    into.write(more)
s.sendall(out.read())
tls.write(b"GET / HTTP/1.0\r\n\r\n")
s.sendall(out.read())
text = b""
while True:
    more = s.recv(65536)
    into.write(more) if more else into.write_eof()
    try:
        text += tls.read(65536)
    except ssl.SSLError:
        pass
    if b"HTTP/1.0 200" in text or not more:
        break
print(b"HTTP/1.0 200" in text, "rounds", sent)
"""


def serve_tls(t, port, *options):
    """openssl, as it is. Until it listens."""
    server = subprocess.Popen(["openssl", "s_server", "-accept", "%s:%d" % (world.ADDRESS, port), "-cert", t.net.cert, "-key",
                               t.net.key, "-www", *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    while "ACCEPT" not in (line := server.stdout.readline()):
        assert line, "openssl s_server ended"
    return server


@case
def the_name_in_the_second_client_hello(t):
    config = t.file("c.lua", """return { network = { allow = {
      { host = "good.test", port = { 8444, 8445, 8446 }, sni = true } } } }""")
    flags = ("--config", config)
    servers = [serve_tls(t, 8444, "-groups", "P-384"), serve_tls(t, 8445), serve_tls(t, 8446, "-tls1_2")]
    try:
        def client(name, port):
            return t.run(flags, "python3", "-c", SECOND_HELLO, name, str(port))
        for port, rounds in ((8444, 2), (8445, 1), (8446, 2)):  # asked twice, once, and TLS 1.2, whose second is no hello
            got = client("good.test", port)
            assert (got.code, got.out) == (0, "True rounds %d\n" % rounds), got
            got = t.run(flags, *CURL, "-o", "/dev/null", "-w", "%{http_code}", "https://good.test:%d/" % port)
            assert (got.code, got.out) == (0, "200"), got
        def asked_of(name):
            return t.run(("--allow", "good.test:8444"), "python3", "-c", SECOND_HELLO, name, "8444")
        # Where `sni` is not asked for the server goes by that name; only our client, who hashed the other, goes no further.
        assert "answered" in asked_of("evil.test").err
        other = client("evil.test", 8444)
        at_once(other)
        assert "answered" not in other.err, other
        lines = [json.loads(line) for line in open(t.log)]
        ends = [line for line in lines if line["op"] == "net" and line["phase"] == "finish" and line.get("error")]
        assert len(ends) == 1 and "second ClientHello names evil.test, not good.test" in json.dumps(ends[0]), ends
    finally:
        for server in servers:
            server.kill()
            server.wait()


TRICKLE = r"""
import socket, time
s = socket.create_connection(("slow.test", 8443), timeout=60)
began = time.monotonic()
s.settimeout(1)
try:
    s.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    for _ in range(40):
        try:
            s.recv(1)
            break
        except TimeoutError:
            s.sendall(b"x")
except OSError:
    pass
print(time.monotonic() - began)
"""


@case
def who_greets_or_answers_by_the_byte_has_no_more_time(t):
    """Each byte comes within a second: it is all of them that may take 10 s, and a proxy's answer 15."""
    t.net.names.set("slow.test", world.ADDRESS)
    hello = t.file("hello.lua", 'return { network = { allow = { { host = "slow.test", port = 8443, sni = true } } } }')
    proxied = t.start(("run", "--best-effort", "--audit", t.log + ".proxied", "--allow", "slow.test:8443", "--", "python3", "-c",
                       TRICKLE), https_proxy="http://" + world.ADDRESS + ":3128")
    got = t.run(("--config", hello), "python3", "-c", TRICKLE)
    out, err = proxied.communicate(timeout=100)
    assert got.code == 0 and 5 < float(got.out) < 10 + 10 * SLOW, got
    assert "the greeting of TLS takes longer than 10 s" in json.dumps(t.events()), t.events()
    assert 10 < float(out) < 15 + 10 * SLOW, (out, err)
    with open(t.log + ".proxied") as file:
        assert "does not answer within 15 s" in file.read()
