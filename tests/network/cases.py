"""cases.py: what a program in a sandbox reaches, and what it does not; each case once as root and once as an
ordinary user. What is expected stands in the issue, in docs/network.md, or is what the program does when
it runs outside."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import world

ALL = []
SLOW = int(os.environ.get("MOONCAGE_TEST_SLOW", "1"))  # how much more patience: under emulation


def case(function):
    ALL.append(function)
    return function


class Skip(Exception):
    pass


class Ran:
    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def __repr__(self):
        return "exit %s in %.1f s\n%s\n%s" % (self.code, self.seconds, self.out[-1500:], self.err[-1500:])


class Trial:
    """One case as one identity: a directory, a log, and how programs are started."""

    def __init__(self, net, identity):
        self.net, self.identity = net, identity
        self.work = tempfile.mkdtemp(dir=net.place)
        os.chmod(self.work, 0o755)
        if identity.uid:
            os.chown(self.work, identity.uid, identity.uid)
        self.log = os.path.join(self.work, "audit.jsonl")

    def end(self):
        shutil.rmtree(self.work, ignore_errors=True)

    def environment(self):
        return {"PATH": os.environ["PATH"], "HOME": self.work, "XDG_RUNTIME_DIR": self.work, "XDG_STATE_HOME": self.work,
                "TMPDIR": self.work, "LANG": "C.UTF-8",
                "MOONCAGE_INIT": os.path.join(self.net.place, "mooncage-init")}

    def start(self, words, **more):
        return subprocess.Popen([*self.identity.prefix, os.path.join(self.net.place, "mooncage"), *words], text=True,
                                cwd=self.work, env={**self.environment(), **more}, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    def mooncage(self, *words, timeout=60, **more):
        began = time.monotonic()
        process = self.start(words, **more)
        try:
            out, err = process.communicate(timeout=timeout * SLOW)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return Ran("none: killed after %d s" % (timeout * SLOW), out, err, time.monotonic() - began)
        return Ran(process.returncode, out, err, time.monotonic() - began)

    def run(self, flags, *command, **more):
        return self.mooncage("run", "--audit", self.log, "--best-effort", "--bind", self.net.cert + ":/tmp/cert.pem", *flags, "--",
                             *command, **more)

    def script(self, text, **more):
        path = os.path.join(self.work, "script.lua")
        with open(path, "w") as file:
            file.write(text.replace("LOG", json.dumps(self.log)))
        ran = self.mooncage("run", path, **more)
        assert ran.code == 0, ran
        return ran

    def file(self, name, text):
        path = os.path.join(self.work, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def events(self, phase=None):
        with open(self.log) as file:
            lines = [json.loads(line) for line in file]
        return [e for e in lines if e["op"] == "net" and phase in (None, e["phase"])]

    def denied(self, why=None, **detail):
        """Is there a refusal of that in the log?"""
        for event in self.events("point"):
            about = event.get("detail", {})
            if event.get("error") and all(about.get(k) == v for k, v in detail.items()):
                if why is None or why in event["decision"].get("reason", ""):
                    return True
        raise AssertionError("no refusal of %s (%s) in the log: %s" % (
            detail, why, [(e["phase"], e.get("detail"), e.get("decision")) for e in self.events()]))


CURL = ("curl", "-sS", "--cacert", "/tmp/cert.pem", "--max-time", str(20 * SLOW))
GOOD = ("--allow", "good.test:8443")


def at_once(ran):
    assert ran.code not in (0, "none"), ran
    assert ran.seconds < 15 * SLOW, ran  # what is refused is not waited for: 20 s would be curl's own end


# ---- what is allowed ---------------------------------------------------------------------------


@case
def curl_reaches_what_is_allowed_over_tls(t):
    ran = t.run(GOOD, *CURL, "https://good.test:8443/hello")
    assert (ran.code, ran.out) == (0, "hello from good\n"), ran
    start, finish = t.events("start"), t.events("finish")
    assert len(start) == len(finish) == 1, t.events()
    detail = start[0]["detail"]
    assert (detail["name"], detail["port"], detail["protocol"]) == ("good.test", 8443, "tcp"), detail
    assert start[0]["decision"]["rule"] == "good.test:8443", start
    assert finish[0]["detail"]["address"] in (world.ADDRESS, world.SIX), finish
    assert finish[0]["bytes"] > 500 and finish[0]["duration"] > 0, finish


@case
def each_family_alone_is_enough(t):
    for name, address in (("four.test", world.ADDRESS), ("six.test", world.SIX)):
        ran = t.run(("--allow", name + ":8080"), *CURL, "http://%s:8080/hello" % name)
        assert (ran.code, ran.out) == (0, "hello from good\n"), ran
        assert t.events("finish")[-1]["detail"]["address"] == address, t.events()


@case
def rules_of_addresses_and_suffixes(t):
    t.net.names.set("a.b.good.test", world.ADDRESS)
    for rule, url in (("11.0.0.1:8080", "http://11.0.0.1:8080/hello"), ("11.0.0.0/30:8080", "http://11.0.0.1:8080/hello"),
                      ("[2a01::1]:8080", "http://[2a01::1]:8080/hello"), ("*.good.test:8080", "http://a.b.good.test:8080/hello"),
                      ("good.test:8000-8100", "http://good.test:8080/hello"), ("*:8080", "http://good.test:8080/hello")):
        ran = t.run(("--allow", rule), *CURL, url)
        assert (ran.code, ran.out) == (0, "hello from good\n"), (rule, ran)


@case
def git_clones_over_https(t):
    outside, bare = os.path.join(t.work, "tree"), os.path.join(t.net.www, "repo.git")
    shutil.rmtree(bare, ignore_errors=True)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main", "-c", "safe.directory=*"]
    for words in (["init", "-q", outside], ["-C", outside, "commit", "-q", "--allow-empty", "-m", "one"],
                  ["clone", "-q", "--bare", outside, bare], ["-C", bare, "update-server-info"]):
        subprocess.run([*git, *words], check=True, env={**os.environ, "HOME": t.work})
    ran = t.run((*GOOD, "--env", "GIT_SSL_CAINFO=/tmp/cert.pem"), "sh", "-c",
                "git clone -q https://good.test:8443/repo.git && git -C repo log --format=%s")
    assert (ran.code, ran.out.strip()) == (0, "one"), ran


@case
def pip_installs_from_a_local_index(t):
    if subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], capture_output=True).returncode:
        raise Skip("there is no pip of the system")
    import zipfile
    index = os.path.join(t.net.www, "simple", "tiny")
    os.makedirs(index, exist_ok=True)
    with zipfile.ZipFile(os.path.join(index, "tiny-1.0-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("tiny.py", "print('tiny is here')\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "tiny.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\n"
                       "tiny-1.0.dist-info/RECORD,,\n")
    ran = t.run(GOOD, "sh", "-c", "/usr/bin/python3 -m pip install -q --disable-pip-version-check --no-cache-dir --target lib "
                "--index-url https://good.test:8443/simple --cert /tmp/cert.pem tiny && PYTHONPATH=lib python3 -m tiny",
                timeout=120)
    assert ran.code == 0 and "tiny is here" in ran.out, ran


# ---- what is not -------------------------------------------------------------------------------


@case
def another_name_on_the_same_address(t):
    at_once(t.run(GOOD, *CURL, "https://other.test:8443/hello"))
    t.denied("no rule names it", name="other.test", protocol="dns")


@case
def another_name_by_the_address_of_the_first(t):
    ran = t.run(GOOD, "sh", "-c", "curl -sS --max-time 20 --cacert /tmp/cert.pem --resolve other.test:8443:11.0.0.1 "
                "https://other.test:8443/hello")
    at_once(ran)
    t.denied(address="11.0.0.1", port=8443, protocol="tcp")


@case
def another_port(t):
    at_once(t.run(GOOD, *CURL, "http://good.test:8080/hello"))
    t.denied("not on 8080", name="good.test", port=8080, protocol="tcp")


@case
def the_bare_address(t):
    for host, address in (("11.0.0.1", "11.0.0.1"), ("[2a01::1]", "2a01::1"), ("184549377", "11.0.0.1")):
        at_once(t.run(GOOD, *CURL, "-k", "https://%s:8443/hello" % host))
        t.denied(address=address, port=8443, protocol="tcp")


UDP = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(10)
s.connect((sys.argv[1], 7007))
s.send(b"over udp")
try: s.recv(10)
except ConnectionRefusedError: sys.exit(7)
"""


@case
def over_udp(t):
    ran = t.run(("--allow", "good.test:7007", "--allow", "11.0.0.1:7007"), "python3", "-c", UDP, "11.0.0.1")
    assert ran.code == 7, ran
    t.denied("UDP", address="11.0.0.1", port=7007, protocol="udp")
    try:
        raise AssertionError("it arrived: %r" % (t.net.udp.recv(100),))
    except TimeoutError:
        pass


@case
def a_name_whose_answer_changes_to_loopback(t):
    script = """
local mooncage = require "mooncage"
local session = assert(mooncage.open { audit = { type = "jsonl", path = LOG },
  network = { allow = { "good.test:8080" } } })
local first = assert(session:exec "curl -sS http://good.test:8080/hello")
print(first.exit_code, first.stdout)
io.stdout:flush()
io.open("%s/first", "w"):close()
while not io.open("%s/changed") do mooncage.sleep(0.05) end
mooncage.sleep(1.2)
local second = assert(session:exec "curl -sS --max-time 20 http://good.test:8080/hello")
print(second.exit_code, second.stdout)
session:close()
""" % (t.work, t.work)
    path = t.file("script.lua", script.replace("LOG", json.dumps(t.log)))
    process = t.start(["run", path])
    until = time.monotonic() + 30
    while not os.path.exists(os.path.join(t.work, "first")) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    t.net.names.set("good.test", "127.0.0.1")
    t.file("changed", "")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, (out, err)
    assert out.startswith("0\thello from good") and out.count("hello from good") == 1, (out, err)
    t.denied("loopback", name="good.test", address="127.0.0.1", port=8080)


@case
def an_answer_with_one_bad_address(t):
    for bad in ("10.9.9.9", "127.0.0.1", "169.254.169.254", "::1", "fd12::1", "64:ff9b::7f00:1", "::ffff:127.0.0.1"):
        t.net.names.set("mixed.test", world.ADDRESS, bad)
        at_once(t.run(("--allow", "mixed.test:8080"), *CURL, "http://mixed.test:8080/hello"))
        t.denied(name="mixed.test", port=8080, protocol="tcp")


@case
def a_cname_to_what_is_private(t):
    t.net.names.set("inside.test", world.PRIVATE)
    t.net.names.set("alias.test", cname="inside.test")
    at_once(t.run(("--allow", "alias.test:8080"), *CURL, "http://alias.test:8080/hello"))
    t.denied("private", name="alias.test", address=world.PRIVATE)
    ran = t.run(("--allow", "alias.test:8080", "--allow", world.PRIVATE + ":8080"), *CURL, "http://alias.test:8080/hello")
    assert ran.out == "hello from good\n", ran


@case
def a_name_that_is_denied_in_spite_of_its_suffix(t):
    t.net.names.set("a.good.test", world.ADDRESS)
    flags = ("--allow", "*.good.test:8080", "--deny", "a.good.test")
    at_once(t.run(flags, *CURL, "http://a.good.test:8080/hello"))
    t.denied(name="a.good.test")


@case
def a_name_that_does_not_exist_is_not_found(t):
    ran = t.run(("--allow", "*.nowhere.test:443"), "getent", "hosts", "x.nowhere.test")
    assert ran.code == 2, ran  # getent's own status for "not found"


@case
def open_reaches_all_but_special_addresses(t):
    for url in ("http://good.test:8080/hello", "http://11.0.0.1:8080/hello", "http://[2a01::1]:8080/hello"):
        ran = t.run(("--network", "open"), *CURL, url)
        if "redirect" in ran.err and "unenforceable" in ran.err:
            raise Skip("this kernel redirects nothing: " + ran.err.strip())
        assert (ran.code, ran.out) == (0, "hello from good\n"), ran
    at_once(t.run(("--network", "open"), *CURL, "http://%s:8080/hello" % world.PRIVATE))
    t.denied("private", address=world.PRIVATE, port=8080)
    t.net.names.set("inside.test", world.PRIVATE)
    at_once(t.run(("--network", "open"), *CURL, "http://inside.test:8080/hello"))
    t.denied("private", name="inside.test", address=world.PRIVATE)
    at_once(t.run(("--network", "open", "--deny", "good.test"), *CURL, "http://good.test:8080/hello"))
    t.denied(name="good.test")


@case
def the_name_in_the_client_hello(t):
    config = t.file("c.lua", 'return { network = { allow = { { host = "good.test", port = 8443, sni = true } } } }')
    flags = ("--config", config)
    ran = t.run(flags, *CURL, "https://good.test:8443/hello")
    assert (ran.code, ran.out) == (0, "hello from good\n"), ran
    ran = t.run(flags, "sh", "-c", "curl -sS --max-time 20 -k --connect-to other.test:8443:good.test:8443 https://other.test:8443/")
    at_once(ran)
    t.denied("names other.test", name="good.test", port=8443)
    at_once(t.run(flags, "sh", "-c", "curl -sS --max-time 20 http://good.test:8443/"))
    t.denied("no TLS", name="good.test")


# ---- names, by every library -------------------------------------------------------------------

LOOKUP_C = r"""
#include <netdb.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
  int families[] = {AF_UNSPEC, AF_INET, AF_INET6}, bad = 0;
  int flags[] = {0, AI_ADDRCONFIG, AI_CANONNAME, AI_V4MAPPED, AI_ALL | AI_V4MAPPED, AI_PASSIVE, AI_NUMERICSERV};
  for (int f = 0; f < 3; f++)
    for (int i = 0; i < 7; i++)
      for (int type = 0; type < 3; type++) {
        struct addrinfo hints = {.ai_family = families[f], .ai_flags = flags[i], .ai_socktype = type}, *list = NULL;
        int rc = getaddrinfo("good.test", "8443", &hints, &list);
        if (rc) printf("family %d flags %d type %d: %s\n", families[f], flags[i], type, gai_strerror(rc)), bad++;
        else freeaddrinfo(list);
        rc = getaddrinfo("other.test", "8443", &hints, &list);
        if (!rc) printf("other.test is found\n"), bad++;
      }
  printf("%d bad\n", bad);
  return bad != 0;
}
"""


@case
def getaddrinfo_with_every_flag_in_glibc_and_musl(t):
    source = t.file("lookup.c", LOOKUP_C)
    tried = 0
    for compiler in (["cc"], ["musl-gcc", "-static"]):
        if not shutil.which(compiler[0]):
            continue
        program = os.path.join(t.work, "lookup-" + compiler[0])
        subprocess.run([*compiler, "-o", program, source], check=True)
        ran = t.run((*GOOD, "--bind", program + ":/tmp/lookup"), "/tmp/lookup")
        assert (ran.code, ran.out) == (0, "0 bad\n"), (compiler, ran)
        tried += 1
    if not tried:
        raise Skip("there is no compiler")


@case
def node_and_its_own_resolver(t):
    if not os.path.exists("/usr/bin/node"):
        raise Skip("there is no node")
    ran = t.run((*GOOD, "--env", "NODE_EXTRA_CA_CERTS=/tmp/cert.pem"), "node", "-e", """
const dns = require('dns');
dns.resolve4('good.test', (error, list) => {
  if (error) { console.log(error.message); process.exit(1); }
  require('https').get('https://good.test:8443/hello', r => r.on('data', d => process.stdout.write(d)));
});""", timeout=90)
    assert (ran.code, ran.out) == (0, "hello from good\n"), ran


@case
def go_and_its_own_resolver(t):
    if not os.path.exists("/usr/local/go/bin/go") and not shutil.which("go"):
        raise Skip("there is no go")
    source = t.file("get.go", """package main
import ("io"; "net"; "os")
func main() {
  wire, err := net.Dial("tcp", "good.test:7007")
  if err != nil { os.Stdout.WriteString(err.Error()); return }
  wire.Write([]byte("hello"))
  wire.(*net.TCPConn).CloseWrite()
  text, _ := io.ReadAll(wire)
  os.Stdout.Write(text)
}
""")
    program = os.path.join(t.work, "get")
    built = subprocess.run([shutil.which("go") or "/usr/local/go/bin/go", "build", "-tags", "netgo", "-o", program, source],
                           capture_output=True, text=True, cwd=t.work,
                           env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"})
    if built.returncode:
        raise Skip("go cannot build here: " + built.stderr[-200:])
    ran = t.run(("--allow", "good.test:7007", "--bind", program + ":/tmp/get"), "/tmp/get", timeout=90)
    assert (ran.code, ran.out) == (0, "hello|5"), ran


@case
def java_and_its_own_stack(t):
    if not os.path.exists("/usr/bin/java") or not shutil.which("javac"):
        raise Skip("there is no java")
    t.file("Get.java", """
public class Get { public static void main(String[] a) throws Exception {
  try (var in = new java.net.URL("http://good.test:8080/hello").openStream()) { in.transferTo(System.out); } } }
""")
    subprocess.run(["javac", "-d", t.work, os.path.join(t.work, "Get.java")], check=True)
    ran = t.run(("--allow", "good.test:8080", "--bind", t.work + ":/tmp/classes"), "java", "-Xshare:auto", "-Xmx64m", "-cp",
                "/tmp/classes", "Get", timeout=120)
    assert (ran.code, ran.out) == (0, "hello from good\n"), ran


@case
def names_over_tcp_and_of_other_types(t):
    if not shutil.which("dig"):
        raise Skip("there is no dig")
    ran = t.run(GOOD, "sh", "-c", "dig +tcp +short good.test A; dig +short good.test HTTPS; dig +noall +comments good.test MX")
    assert ran.code == 0 and "198.18.0." in ran.out and "NOERROR" in ran.out, ran


# ---- bytes -------------------------------------------------------------------------------------

HALF = """
import socket
s = socket.create_connection(("good.test", 7007), 20)
s.sendall(b"x" * 300000)
s.shutdown(socket.SHUT_WR)
got = b""
while True:
    more = s.recv(65536)
    if not more: break
    got += more
print(len(got), got[-7:].decode())
"""


@case
def a_half_close_is_passed_on(t):
    ran = t.run(("--allow", "good.test:7007"), "python3", "-c", HALF)
    assert ran.out == "300007 |300000\n", ran
    finish = t.events("finish")[0]
    assert (finish["detail"]["bytes_out"], finish["detail"]["bytes_in"]) == (300000, 300007), finish
    assert finish["detail"]["ended"] == "finished", finish


FLOOD = """
import socket, sys, time
s = socket.create_connection(("good.test", 7008), 20)
s.sendall(b"%d\\n" % int(sys.argv[1]))
time.sleep(float(sys.argv[2]))
total = 0
while True:
    more = s.recv(1 << 20)
    if not more: break
    total += len(more)
print(total)
"""


@case
def a_slow_reader_gets_all_of_it(t):
    ran = t.run(("--allow", "good.test:7008"), "python3", "-c", FLOOD, str(64 << 20), "1")
    assert ran.out == "%d\n" % (64 << 20), ran


@case
def a_reset_is_passed_on(t):
    ran = t.run(("--allow", "good.test:7009"), "python3", "-c", """
import socket
s = socket.create_connection(("good.test", 7009), 20)
s.sendall(b"x")
try: print(s.recv(1))
except ConnectionResetError: print("reset")
""")
    assert ran.out == "reset\n", ran
    assert t.events("finish")[0]["detail"]["ended"] == "reset", t.events()


@case
def nobody_at_the_other_end(t):
    ran = t.run(("--allow", "good.test:7999"), "python3", "-c", """
import socket
try: print(socket.create_connection(("good.test", 7999), 20).recv(1))
except ConnectionResetError: print("reset")
""")
    assert ran.out == "reset\n", ran
    assert "refused" in t.events("finish")[0]["error"]["message"], t.events()


@case
def a_server_that_does_not_answer(t):
    """While the dial is under way the session is closed: nothing waits for it."""
    config = t.file("c.lua", 'return { network = { allow = { "four.test:7011" } }, limits = { exec_s = 3 } }')
    ran = t.run(("--config", config), "python3", "-c", """
import socket
s = socket.create_connection(("four.test", 7011), 20)
print(s.recv(1))
""")
    assert ran.code == 124 and ran.seconds < 14, ran
    assert t.events("finish")[0]["error"]["code"] == "canceled", t.events()


@case
def a_name_server_that_does_not_answer(t):
    t.net.names.silent.add("good.test")
    ran = t.run(GOOD, "sh", "-c", "getent hosts good.test")
    assert ran.code == 2 and ran.seconds < 40, ran
    t.denied(name="good.test", protocol="dns")


# ---- limits ------------------------------------------------------------------------------------

MANY = """
import socket
held, refused = [], 0
for i in range(6):
    try:
        s = socket.create_connection(("four.test", 7010), 20)
        if s.recv(6) == b"hello\\n": held.append(s)
    except ConnectionResetError: refused += 1
print(len(held), refused)
"""


@case
def no_more_connections_than_that(t):
    config = t.file("c.lua", 'return { network = { allow = { "four.test:7010" }, connections = 4 } }')
    ran = t.run(("--config", config), "python3", "-c", MANY)
    assert ran.out == "4 2\n", ran
    t.denied("4 connections", name="four.test", port=7010)


@case
def a_rate_a_total_and_an_idle_time(t):
    config = t.file("c.lua", 'return { network = { allow = { "good.test:7008" }, bytes_per_s = 1000000 } }')
    ran = t.run(("--config", config), "python3", "-c", FLOOD, "2000000", "0")
    assert ran.out == "2000000\n" and ran.seconds > 1.8, ran
    config = t.file("c.lua", 'return { network = { allow = { "good.test:7008" }, bytes_total = 100000 } }')
    ran = t.run(("--config", config), "python3", "-c", FLOOD, "2000000", "0")
    assert "ConnectionResetError" in ran.err, ran
    assert t.events("finish")[-1]["detail"]["ended"] == "spent", t.events()
    config = t.file("c.lua", 'return { network = { allow = { "good.test:7010" }, idle_s = 0.3 } }')
    ran = t.run(("--config", config), "python3", "-c", """
import socket
s = socket.create_connection(("good.test", 7010), 20)
print(s.recv(6))
try: print(s.recv(6))
except ConnectionResetError: print("reset")
""")
    assert ran.out.endswith("reset\n"), ran
    assert t.events("finish")[-1]["detail"]["ended"] == "idle", t.events()


# ---- through a proxy ---------------------------------------------------------------------------


@case
def through_the_proxy_of_the_host(t):
    """Names are the proxy's to know: the host cannot look them up."""
    t.net.names.answers.clear()
    proxy = {"https_proxy": "http://me:p%40ss@" + world.ADDRESS + ":3128", "no_proxy": "direct.test,10.0.0.0/8"}
    ran = t.run(GOOD, *CURL, "https://good.test:8443/hello", **proxy)
    assert (ran.code, ran.out) == (0, "hello from good\n"), ran
    (line, headers), = world.Connect.asked
    assert line == ["CONNECT", "good.test:8443", "HTTP/1.1"] and "host: good.test:8443" in headers, world.Connect.asked
    assert "proxy-authorization: basic bwu6cebzcw==" in headers, headers  # base64 of me:p@ss, in lower case
    start = t.events("start")[0]
    assert start["detail"] == {"name": "good.test", "port": 8443, "protocol": "tcp", "proxy": world.ADDRESS + ":3128"}, start
    assert t.events("finish")[0]["detail"]["ended"] == "finished", t.events()
    with open(t.log) as file:
        assert "p@ss" not in file.read()
    at_once(t.run(GOOD, *CURL, "https://good.test:9999/", **proxy))  # the rules hold, proxy or not
    assert len(world.Connect.asked) == 1, world.Connect.asked
    at_once(t.run(("--allow", "other.test:8443"), *CURL, "https://other.test:8443/", **proxy))
    assert "403 Not from here" in t.events("finish")[-1]["error"]["message"], t.events()


@case
def which_connections_go_without_the_proxy(t):
    t.net.names.set("direct.test", world.ADDRESS)
    proxy = {"https_proxy": "http://" + world.ADDRESS + ":3128", "no_proxy": "direct.test,11.0.0.0/30"}
    for url, rule in (("http://direct.test:8080/hello", "direct.test:8080"), ("http://11.0.0.1:8080/hello", "11.0.0.1:8080")):
        ran = t.run(("--allow", rule), *CURL, url, **proxy)
        assert (ran.code, ran.out) == (0, "hello from good\n"), ran
    config = t.file("c.lua", 'return { network = { allow = { "good.test:8080" }, proxy = false } }')
    ran = t.run(("--config", config), *CURL, "http://good.test:8080/hello", **proxy)
    assert (ran.code, ran.out) == (0, "hello from good\n"), ran
    assert world.Connect.asked == [], world.Connect.asked
    config = t.file("c.lua", 'return { network = { allow = { "good.test:8080" }, proxy = "http://%s:3128" } }' % world.ADDRESS)
    ran = t.run(("--config", config), *CURL, "http://good.test:8080/hello")
    assert (ran.code, ran.out) == (0, "hello from good\n") and len(world.Connect.asked) == 1, ran


@case
def a_proxy_that_is_none(t):
    for url, says in (("socks5://x:1", "only proxies of http://"), ("http://x:99999", "its port"), ("http://x:1/path", "a path")):
        config = t.file("c.lua", 'return { network = { allow = { "good.test:8080" }, proxy = "%s" } }' % url)
        ran = t.run(("--config", config), "true")
        assert ran.code == 2 and says in ran.err, ran
    ran = t.run(GOOD, "true", https_proxy="socks5://user:hidden@x:1")
    assert ran.code == 2 and "https_proxy" in ran.err and "hidden" not in ran.err, ran
    config = t.file("c.lua", 'return { network = { allow = { "good.test:8080" }, proxy = "http://%s:7999" } }' % world.ADDRESS)
    at_once(t.run(("--config", config), *CURL, "http://good.test:8080/hello"))
    assert "the proxy 11.0.0.1:7999" in t.events("finish")[-1]["error"]["message"], t.events()


# ---- while it runs -----------------------------------------------------------------------------


@case
def the_policy_changes_while_it_runs(t):
    ran = t.script("""
local mooncage = require "mooncage"
local session = assert(mooncage.open { audit = { type = "jsonl", path = LOG },
  network = { allow = { "good.test:7010" } } })
local script = [[
import socket
s = socket.create_connection(("good.test", 7010), 20)
print(s.recv(6).decode(), end="", flush=True)
try: print(s.recv(6))
except ConnectionResetError: print("reset")
]]
local process = assert(session:start { "python3", "-c", script })
assert(process:read() == "hello\\n")
assert(session:set_network { allow = { "good.test:8080", "good.test:7010" } })
local result = assert(session:exec "curl -sS http://good.test:8080/hello")
print(result.stdout)
assert(session:set_network { allow = { "good.test:8080" } })
print(process:read())
assert(process:wait())
assert(session:set_network "none")
print(session:exec("curl -sS --max-time 20 http://good.test:8080/hello").exit_code ~= 0)
local none, err = session:set_network "host"
print(none, err.code)
local log = assert(session:network_log())
local last = log[#log]
print(#log > 2, last.allowed, last.name)
local usage = session:usage()
print(usage.net_in_bytes > 0, usage.net_out_bytes > 0)
session:close()
print(#assert(session:network_log()) == #log)
""")
    assert ran.out.startswith("hello from good\n"), ran
    assert "reset" in ran.out and "nil\tinvalid" in ran.out, ran
    assert "true\tfalse\tgood.test" in ran.out and "true\ttrue" in ran.out and ran.out.endswith("true\n"), ran


@case
def another_policy_may_want_the_name_in_tls(t):
    """What was let through without one ends, and who is still asked for one is told of in the log."""
    ran = t.script("""
local mooncage = require "mooncage"
local session = assert(mooncage.open { audit = { type = "jsonl", path = LOG },
  network = { allow = { "good.test:7010" } } })
local script = [[
import socket
s = socket.create_connection(("good.test", 7010), 20)
if %d: print(s.recv(6).decode(), end="", flush=True)
else: print("silent", flush=True)
try: print(s.recv(6))
except ConnectionResetError: print("reset")
]]
local sni = { allow = { { host = "good.test", port = 7010, sni = true } } }
for step, network in ipairs { sni, "none" } do
  local process = assert(session:start { "python3", "-c", script:format(2 - step) })
  assert(process:read())
  assert(session:exec "sleep 0.3")
  assert(session:set_network(network))
  print(process:read())
  assert(process:wait())
end
session:close()
""")
    assert ran.out == "reset\n\nreset\n\n", ran
    assert t.events("finish")[0]["error"]["code"] == "canceled", t.events()
    t.denied("allows it no longer", name="good.test", port=7010)


@case
def a_session_that_stays_keeps_its_gateway(t):
    made = t.mooncage("create", "--ttl", "60s", "--best-effort", "--allow", "good.test:8080")
    assert made.code == 0, made
    try:
        got = t.mooncage("exec", made.out.strip(), "--", "curl", "-sS", "http://good.test:8080/hello")
        assert (got.code, got.out) == (0, "hello from good\n"), got
        at_once(t.mooncage("exec", made.out.strip(), "--", "curl", "-sS", "http://good.test:8443/"))
    finally:
        t.mooncage("stop", made.out.strip())


@case
def parked_sandboxes_have_theirs(t):
    ran = t.script("""
local mooncage = require "mooncage"
local config = { audit = false, pool = { size = 1 }, network = { allow = { "good.test:8080" } } }
for i = 1, 3 do
  local session = assert(mooncage.open(config))
  print(session:exec("curl -sS http://good.test:8080/hello").stdout)
  session:close()
  mooncage.sleep(0.3)
end
""")
    assert ran.out == "hello from good\n\n" * 3, ran


@case
def nothing_is_left_of_it(t):
    ran = t.script("""
local mooncage = require "mooncage"
local function descriptors()
  local count, list = 0, io.popen "ls /proc/$PPID/fd"
  for _ in list:lines() do count = count + 1 end
  list:close()
  return count
end
local function once()
  local session = assert(mooncage.open { audit = false, network = { allow = { "good.test:7010", "good.test:8080" } } })
  assert(session:start { "python3", "-c", [[
import socket, time
s = socket.create_connection(("good.test", 7010), 20)
time.sleep(60)
]] })
  assert(session:exec "curl -sS http://good.test:8080/hello")
  session:close()
end
once()
local before = descriptors()
for _ = 1, 5 do once() end
mooncage.sleep(0.2)
print(before == descriptors(), before, descriptors())
""", timeout=90)
    assert ran.out.startswith("true"), ran


@case
def an_engine_that_is_killed_leaves_nothing(t):
    mark = "%d" % (2000000 + os.getpid())
    process = t.start(["run", "--best-effort", "--allow", "good.test:7010", "--", "python3", "-c",
                       "import socket,time; s=socket.create_connection(('good.test',7010)); print(s.recv(6),flush=True); "
                       "time.sleep(%s)" % mark])
    try:
        assert "hello" in process.stdout.readline(), process
        if not t.identity.prefix:
            os.kill(process.pid, signal.SIGKILL)
        else:
            subprocess.run(["pkill", "-KILL", "-s", str(process.pid)])  # our own session: setpriv or unshare stand before it
        until = time.monotonic() + 15
        while time.monotonic() < until and subprocess.run(["pgrep", "-f", mark], capture_output=True).stdout:
            time.sleep(0.1)
        left = subprocess.run(["pgrep", "-af", mark], capture_output=True, text=True).stdout
        assert not left, left
    finally:
        process.kill()
        process.communicate()


@case
def programs_inside_still_listen_on_loopback(t):
    ran = t.run(("--allow", "good.test:8443", "--allow", "11.0.0.1:8080"), "python3", "-c", """
import socket, threading
for port in (8443, 3000):
    l = socket.create_server(("127.0.0.1", port))
    c = socket.create_connection(("127.0.0.1", port), 5)
    s, _ = l.accept()
    s.sendall(b"ok")
    print(c.recv(2).decode())
""")
    assert ran.out == "ok\nok\n", ran
