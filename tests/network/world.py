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

ADDRESS, OTHER, SIX = "11.0.0.1", "11.0.0.2", "2a01::1"
NAME_SERVER = "11.0.0.53"
TYPES = {"A": 1, "CNAME": 5, "AAAA": 28}


def set_up():
    """Called in a fresh network and mount namespace, with rights over both."""
    for words in (["link", "set", "lo", "up"], ["addr", "add", ADDRESS + "/32", "dev", "lo"],
                  ["addr", "add", OTHER + "/32", "dev", "lo"], ["addr", "add", NAME_SERVER + "/32", "dev", "lo"],
                  ["-6", "addr", "add", SIX + "/128", "dev", "lo", "nodad"]):
        subprocess.run(["ip", *words], check=True, stdout=subprocess.DEVNULL)


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
