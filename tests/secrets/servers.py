"""servers.py: certificates of an authority of the test's own, and servers of HTTPS that remember what they
were sent."""
import http.server
import os
import ssl
import subprocess
import threading

ADDRESS = "11.0.0.1"


class Authority:
    """Certificates, by the openssl command."""

    def __init__(self, directory):
        self.directory = directory
        self.file = self.path("ca.pem")
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-keyout", self.path("ca.key"), "-out", self.file, "-days", "2",
                     "-subj", "/CN=A public authority")

    def path(self, name):
        return os.path.join(self.directory, name)

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE)

    def sign(self, label, name, expired=False, by_itself=False):
        """A file with key and certificate for the name."""
        key, request, out = (self.path(label + end) for end in (".key", ".csr", ".pem"))
        extensions = self.path(label + ".ext")
        with open(extensions, "w") as file:
            file.write(f"subjectAltName=DNS:{name}\n")
        make = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                "-subj", "/CN=" + name]
        if by_itself:
            self.openssl("req", "-x509", *make, "-out", out, "-days", "2",
                         "-addext", f"subjectAltName=DNS:{name}")
        else:
            self.openssl("req", *make, "-out", request)
            # `openssl x509 -days` takes no past; `ca` does, with dates.
            days = ["-days", "2"] if not expired else ["-days", "-1"]
            self.openssl("x509", "-req", "-in", request, "-CA", self.file, "-CAkey",
                         self.path("ca.key"), "-CAcreateserial", "-out", out, *days,
                         "-extfile", extensions)
        with open(out, "a") as file, open(key) as text:
            file.write(text.read())
        return out


class Server:
    """HTTPS on an address and port; `seen` are the heads of the requests that came."""

    def __init__(self, port, certificate, most=None):
        outer = self
        self.seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def answer(self, status, body, **headers):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def serve(self):
                outer.seen.append((self.command, self.path, dict(self.headers)))
                length = int(self.headers.get("Content-Length", 0))
                sent = self.rfile.read(length)
                if self.headers.get("Transfer-Encoding"):
                    while size := int(self.rfile.readline(), 16):
                        sent += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                secret = self.headers.get("Authorization", "none")
                if self.path == "/echo":
                    self.answer(200, str(self.headers).encode() + sent, X_Echo=secret)
                elif self.path == "/error":
                    self.answer(500, b"<h1>bad token: " + secret.encode() + b"</h1>")
                elif self.path == "/redirect":
                    self.answer(302, b"", Location=outer.elsewhere)
                elif self.path == "/pieces":
                    self.send_response(200)
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    for at in range(0, len(secret), 3):
                        piece = secret[at:at + 3].encode()
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                        self.wfile.flush()
                    self.wfile.write(b"0\r\n\r\n")
                elif self.path.startswith("/big/"):
                    self.answer(200, b"x" * int(self.path[5:]))
                else:
                    self.answer(200, b"hello\n")

            do_GET = do_POST = do_PUT = do_HEAD = serve

        self.elsewhere = ""
        self.server = http.server.ThreadingHTTPServer((ADDRESS, port), Handler)
        self.server.handle_error = lambda *arguments: None  # handshakes that fail are what is tested
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        if most:
            context.minimum_version = context.maximum_version = most
            context.set_ciphers("ALL:@SECLEVEL=0")
        # Handshakes belong to the connection's own thread.
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True,
                                                 do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
