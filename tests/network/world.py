"""world.py: a small internet in a network namespace of the test's own: addresses, a name server whose
answers a case may change, and servers of TCP, HTTP and TLS. Nothing leaves it.

Addresses of 11.0.0.0/8 stand for ordinary places: they lie on the namespace's loopback."""

import http.server
import os
import socket
import socketserver
import ssl
import struct
import subprocess
import threading
import time

ADDRESS, OTHER, SIX = "11.0.0.1", "11.0.0.2", "2a01::1"
NAME_SERVER, PRIVATE = "11.0.0.53", "10.9.9.9"
TYPES = {"A": 1, "CNAME": 5, "AAAA": 28}


def set_up(place):
    """In a fresh network and mount namespace, with rights over both."""
    for words in (["link", "set", "lo", "up"], ["addr", "add", ADDRESS + "/32", "dev", "lo"],
                  ["addr", "add", OTHER + "/32", "dev", "lo"], ["addr", "add", NAME_SERVER + "/32", "dev", "lo"],
                  ["addr", "add", PRIVATE + "/32", "dev", "lo"],
                  ["-6", "addr", "add", SIX + "/128", "dev", "lo", "nodad"]):
        subprocess.run(["ip", *words], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    resolv = os.path.join(place, "resolv.conf")
    with open(resolv, "w") as file:
        file.write("nameserver %s\noptions timeout:1 attempts:1\n" % NAME_SERVER)
    os.chmod(resolv, 0o644)
    subprocess.run(["mount", "--bind", resolv, "/etc/resolv.conf"], check=True)


# ---- names ------------------------------------------------------------------------------------


def encode_name(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label) + b"\0"


class Names:
    """answers: name -> list of (type, value); a name that is not there does not exist. `silent` names
    are never answered. `asked` counts."""

    def __init__(self, address=NAME_SERVER):
        self.answers, self.silent, self.asked, self.lock = {}, set(), [], threading.Lock()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, 53))
        threading.Thread(target=self.serve, daemon=True).start()

    def set(self, name, *addresses, cname=None):
        rows = [("CNAME", cname)] if cname else []
        for address in addresses:
            rows.append(("AAAA" if ":" in address else "A", address))
        with self.lock:
            self.answers[name] = rows

    def rows(self, name):
        with self.lock:
            rows = list(self.answers.get(name, []))
        out = []
        for kind, value in rows:
            out.append((name, kind, value))
            if kind == "CNAME":
                out.extend(self.rows(value))
        return out

    def serve(self):
        while True:
            query, peer = self.socket.recvfrom(4096)
            labels, at = [], 12
            while query[at]:
                labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
                at += 1 + query[at]
            name, kind = ".".join(labels), struct.unpack("!H", query[at + 1:at + 3])[0]
            with self.lock:
                self.asked.append((name, kind))
                there = name in self.answers
            if name in self.silent:
                continue
            rows = [r for r in self.rows(name) if r[1] == "CNAME" or TYPES[r[1]] == kind]
            out = query[:2] + struct.pack("!HHHHH", 0x8180 | (0 if there else 3), 1, len(rows), 0, 0) + query[12:at + 5]
            for owner, row, value in rows:
                data = encode_name(value) if row == "CNAME" else socket.inet_pton(
                    socket.AF_INET6 if row == "AAAA" else socket.AF_INET, value)
                out += encode_name(owner) + struct.pack("!HHIH", TYPES[row], 1, 0, len(data)) + data
            self.socket.sendto(out, peer)


# ---- servers ----------------------------------------------------------------------------------


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 1024

    def __init__(self, address, port, handler):
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.accepted = 0
        super().__init__((address, port), handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def get_request(self):
        self.accepted += 1
        return super().get_request()

    def handle_error(self, request, client_address):
        pass


class Web(http.server.SimpleHTTPRequestHandler):
    protocol_version, directory_served = "HTTP/1.1", "/nonexistent"

    def __init__(self, *args):
        super().__init__(*args, directory=self.directory_served)

    def log_message(self, *args):
        pass


def certificate(directory, *names):
    """A self-signed certificate of these names: its file and its key's."""
    cert, key = os.path.join(directory, "cert.pem"), os.path.join(directory, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "30", "-subj", "/CN=" + names[0], "-addext",
                    "subjectAltName=" + ",".join("DNS:" + name for name in names), "-keyout", key, "-out", cert],
                   check=True, stderr=subprocess.DEVNULL)
    os.chmod(key, 0o600)
    os.chmod(cert, 0o644)
    return cert, key


def web(address, port, directory, cert=None, key=None):
    handler = type("Files", (Web,), {"directory_served": directory})
    server = Server(address, port, handler)
    if cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server


class Echo(socketserver.BaseRequestHandler):
    """Says everything again, and how much it was once it has ended."""

    def handle(self):
        total = 0
        while True:
            data = self.request.recv(65536)
            if not data:
                break
            total += len(data)
            self.request.sendall(data)
        self.request.sendall(b"|%d" % total)


class Flood(socketserver.BaseRequestHandler):
    """Sends as many bytes as the first line says, as fast as it can."""

    def handle(self):
        left = int(self.request.makefile("rb").readline())
        block = bytes(65536)
        while left:
            left -= self.request.send(block[:min(left, len(block))])


class Reset(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.recv(1)
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.request.close()


class Hold(socketserver.BaseRequestHandler):
    """Says hello and then nothing, until the other side ends."""

    def handle(self):
        self.request.sendall(b"hello\n")
        while self.request.recv(4096):
            pass


class Connect(socketserver.StreamRequestHandler):
    """A proxy that speaks CONNECT: to good.test, whatever the name servers say; all else it forbids."""

    asked = []

    def trickle(self):
        """An answer that does not end; for longer than anybody should wait."""
        try:
            self.wfile.write(b"HTTP/1.1 200 Fine\r\nX: ")
            for _ in range(50):
                time.sleep(1)
                self.wfile.write(b"x")
        except OSError:
            pass  # nobody waits any more

    def handle(self):
        line, headers = self.rfile.readline().decode().split(), []
        while (header := self.rfile.readline().strip()):
            headers.append(header.decode().lower())
        Connect.asked.append((line, headers))
        if line[1].startswith("slow.test:"):
            self.trickle()
            return
        host, port = line[1].rsplit(":", 1)
        if line[0] != "CONNECT" or host not in ("good.test", "11.0.0.1"):
            self.wfile.write(b"HTTP/1.1 403 Not from here\r\nContent-Length: 0\r\n\r\n")
            return
        far = socket.create_connection((ADDRESS, int(port)))
        self.wfile.write(b"HTTP/1.1 200 Fine\r\nVia: test\r\n\r\n")
        near = self.request

        def copy(source, target):
            try:
                while (data := source.recv(65536)):
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # one of the two has gone
        other = threading.Thread(target=copy, args=(far, near), daemon=True)
        other.start()
        copy(near, far)
        other.join()


class World:
    """The whole of it. Ports: 8443 TLS, 8080 HTTP, 7007 echo, 7008 flood, 7009 reset, 7010 hold, 7011 a
    listener that answers nobody, 3128 a proxy."""

    def __init__(self, place):
        self.place = place
        set_up(place)
        self.www = os.path.join(place, "www")
        os.mkdir(self.www)
        with open(os.path.join(self.www, "hello"), "w") as file:
            file.write("hello from good\n")
        self.cert, self.key = certificate(place, "good.test", "other.test")
        self.names = Names()
        for address in (ADDRESS, SIX):
            web(address, 8443, self.www, self.cert, self.key)
            web(address, 8080, self.www)
        for address in ("127.0.0.1", PRIVATE):
            web(address, 8080, self.www)
        for port, handler in ((7007, Echo), (7008, Flood), (7009, Reset), (7010, Hold), (3128, Connect)):
            Server(ADDRESS, port, handler)
        self.full = socket.socket()
        self.full.bind((ADDRESS, 7011))
        self.full.listen(0)
        self.fillers = [socket.socket() for _ in range(8)]
        for filler in self.fillers:
            filler.setblocking(False)
            filler.connect_ex((ADDRESS, 7011))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((ADDRESS, 7007))
        self.udp.settimeout(0.2)

    def reset(self):
        """The names as every case finds them."""
        self.names.answers.clear()
        self.names.silent.clear()
        Connect.asked.clear()
        self.names.set("good.test", ADDRESS, SIX)
        self.names.set("four.test", ADDRESS)
        self.names.set("six.test", SIX)
        self.names.set("other.test", ADDRESS, SIX)
