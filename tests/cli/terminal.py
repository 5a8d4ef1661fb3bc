# terminal.py: plays the user of `mooncage shell` on a pseudo terminal; argv[1] says which case.
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time


def set_size(fd, rows, cols):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


class Terminal:
    """A child on a pseudo terminal of 33 x 101; what it printed is in self.seen."""

    def __init__(self, *argv):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            time.sleep(0.2)  # the parent sets the size first
            os.execvp(argv[0], argv)
        set_size(self.fd, 33, 101)
        self.before = termios.tcgetattr(self.fd)

    def send(self, text):
        os.write(self.fd, text.encode())

    def expect(self, text, seconds=20):
        end = time.monotonic() + seconds
        while text.encode() not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            if not ready:
                sys.exit("expected %r, saw %r" % (text, self.seen[-600:]))
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            if not data:
                sys.exit("expected %r before the end, saw %r" % (text, self.seen[-600:]))
            self.seen += data
        self.seen = self.seen.split(text.encode(), 1)[1]

    def status(self):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            ready, _, _ = select.select([self.fd], [], [], 0.05)
            if ready:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        sys.exit("it did not end; saw %r" % self.seen[-600:])

    def restored(self):
        """Only true while the terminal still exists: ask before closing it."""
        now = termios.tcgetattr(self.fd)
        return now[:4] == self.before[:4]


def wanted(what, got, expected):
    if got != expected:
        sys.exit("%s: %r, not %r" % (what, got, expected))


def hello():
    t = Terminal("mooncage", "shell")
    t.send("echo he''llo; tty\n")
    t.expect("hello")
    t.expect("/dev/pts/")
    t.send("exit 0\n")
    wanted("status", t.status(), 0)


def size():
    t = Terminal("mooncage", "shell", "--", "sh", "-c", "stty size; echo e''nd")
    t.expect("33 101")
    wanted("status", t.status(), 0)


def resize():
    t = Terminal("mooncage", "shell", "--", "bash", "--norc", "-c",
                 "trap 'stty size' WINCH; trap 'exit 6' INT; echo r''eady; while :; do sleep 0.1; done")
    t.expect("ready")
    set_size(t.fd, 44, 120)
    t.expect("44 120")
    t.send("\x03")
    wanted("status", t.status(), 6)


def interrupt():
    t = Terminal("mooncage", "shell", "--", "sh", "-c",
                 "trap 'echo tr''apped; exit 5' INT; echo r''eady; while :; do sleep 0.1; done")
    t.expect("ready")
    t.send("\x03")
    t.expect("trapped")
    wanted("status", t.status(), 5)


def uncaught():
    t = Terminal("mooncage", "shell", "--", "sh", "-c", "echo r''eady; exec sleep 600")
    t.expect("ready")
    t.send("\x03")
    wanted("status", t.status(), 130)


def status():
    t = Terminal("mooncage", "shell", "--", "sh", "-c", "exit 42")
    wanted("status", t.status(), 42)


def joined():
    made = subprocess.run(["mooncage", "create"], stdout=subprocess.PIPE, check=True)
    session = made.stdout.decode().strip()
    t = Terminal("mooncage", "shell", session, "--", "sh", "-c", "stty size; echo l''eft > file; exit 4")
    t.expect("33 101")
    got = t.status()
    kept = subprocess.run(["mooncage", "exec", session, "--", "cat", "file"], stdout=subprocess.PIPE)
    subprocess.run(["mooncage", "stop", session], stdout=subprocess.DEVNULL)
    wanted("status", got, 4)
    wanted("what it left", kept.stdout, b"left\n")


def restored():
    t = Terminal("sh", "-c", "mooncage shell -- sh -c 'echo in''side; exit 3'; echo s''tatus $?; read x")
    t.expect("inside")
    t.expect("status 3")
    if not t.restored():
        sys.exit("the terminal was left in raw mode")
    t.send("x\n")
    t.status()


def killed():
    t = Terminal("sh", "-c",
                 "mooncage shell -- sh -c 'echo in''side; sleep 600'; echo s''tatus $?; read x")
    t.expect("inside")
    raw = not t.restored()
    with open("/proc/%d/task/%d/children" % (t.pid, t.pid)) as file:
        os.kill(int(file.read().split()[0]), signal.SIGTERM)
    t.expect("status 143")
    if not raw:
        sys.exit("control: it was never in raw mode")
    if not t.restored():
        sys.exit("the terminal was left in raw mode")
    t.send("x\n")
    t.status()


def guarded(*argv):
    return Terminal("mooncage", argv[0], "--config", os.environ["GUARD"], *argv[1:])


def asked():
    t = guarded("run", "--", "touch", "an answer")
    t.expect("may this run?")
    t.expect("touch 'an answer'")
    t.expect("a rule asks")
    t.expect("[y/N]")
    t.send("y\n")
    wanted("status", t.status(), 0)


def refused():
    for answer in ("n\n", "\n", "yess\n", "\x04"):
        t = guarded("run", "--", "touch", "x")
        t.expect("[y/N]")
        t.send(answer)
        t.expect("the answer at the terminal was no")
        wanted("status", t.status(), 126)


def hidden():
    """What would act on the terminal, or go on to a line of its own, is shown as what it is."""
    t = guarded("run", "--", "touch", "x\x1b[2J\nmooncage: allowed\n\u202ex\u2066")
    t.expect("\\x1b[2J\\nmooncage: allowed\\n\\xe2\\x80\\xaex\\xe2\\x81\\xa6")
    t.expect("[y/N]")
    t.send("n\n")
    wanted("status", t.status(), 126)


def piped():
    """The answer comes from the terminal, the command's input from the pipe."""
    t = Terminal("sh", "-c",
                 "echo data | mooncage run --config $GUARD -- env --frob touch x; echo s''tatus $?")
    t.expect("status 126")
    t = Terminal("sh", "-c", "echo data | mooncage run --config $GUARD -- touch x; echo s''tatus $?")
    t.expect("[y/N]")
    t.send("y\n")
    t.expect("status 0")
    t.status()


def no_input():
    t = Terminal("mooncage", "--no-input", "run", "--config", os.environ["GUARD"], "--", "touch", "x")
    t.expect("nobody can be asked")
    wanted("status", t.status(), 126)


def ask_interrupt():
    t = guarded("run", "--", "touch", "x")
    t.expect("[y/N]")
    t.send("\x03")
    wanted("status", t.status(), 130)


def ask_shell():
    t = guarded("shell", "--", "touch", "x")
    t.expect("[y/N]")
    t.send("y\n")
    wanted("status", t.status(), 0)


globals()[sys.argv[1]]()
