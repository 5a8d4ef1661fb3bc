"""hello.py: the second ClientHello of a connection whose rule has `sni`, before servers of OpenSSL."""

import json
import subprocess

import world
from cases import CURL, at_once, case

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
        other = client("evil.test", 8444)
        at_once(other)
        lines = [json.loads(line) for line in open(t.log)]
        ends = [line for line in lines if line["op"] == "net" and line["phase"] == "finish" and line.get("error")]
        assert len(ends) == 1 and "second ClientHello names evil.test, not good.test" in json.dumps(ends[0]), ends
    finally:
        for server in servers:
            server.kill()
            server.wait()
