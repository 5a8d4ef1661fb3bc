"""rows_tar.py: the TR rows: archives that escape, overwrite, fill or lie.

They are written here byte by byte. The control is `naive`, a reader that believes them."""

import bz2
import gzip
import io
import lzma
import os
import shutil
import subprocess
import zipfile

from harness import Hole, row

FILE, HARD, LINK, CHAR, BLOCK, DIR, FIFO = b"0", b"1", b"2", b"3", b"4", b"5", b"6"
END = bytes(1024)


# ---- writing --------------------------------------------------------------------------------


def header(name, kind=FILE, size=0, link=b"", mode=0o644, uid=0, prefix=b"", field=None, owner=b"", broken=False):
    """One block. `field`: the bytes of the size, where a number would not do."""
    size_field = field if field is not None else b"%011o\0" % size
    block = bytearray(name[:100].ljust(100, b"\0") + b"%07o\0%07o\0%07o\0" % (mode, uid, uid) + size_field.ljust(12, b"\0") +
                      b"%011o\0" % 1000000000 + b" " * 8 + kind + link[:100].ljust(100, b"\0") + b"ustar\00000" +
                      owner.ljust(32, b"\0") * 2 + b"%07o\0%07o\0" % (1, 3) + prefix.ljust(155, b"\0") + bytes(12))
    total = sum(block) + (1 if broken else 0)
    block[148:156] = b"%06o\0 " % total
    return bytes(block)


def entry(name, data=b"", kind=FILE, **more):
    return header(name, kind, len(data), **more) + data + bytes(-len(data) % 512)


def link(name, target, kind=LINK):
    return header(name, kind, link=target)


def directory(name, mode=0o755):
    return header(name, DIR, mode=mode)


def pax(kind=b"x", **records):
    body = b""
    for key, value in records.items():
        tail = b" %s=%s\n" % (key.replace("__", ".").encode(), value)
        length = len(tail) + 1
        while len(b"%d" % length) + len(tail) != length:
            length += 1
        body += b"%d%s" % (length, tail)
    return entry(b"pax", body, kind=kind)


def long_name(name):
    return entry(b"././@LongLink", name + b"\0", kind=b"L")


def naive(archive, place):
    """Reads what a writer of archives would write, and does what it says."""
    at, name = 0, None
    while at + 512 <= len(archive) and archive[at:at + 512] != bytes(512):
        block, at = archive[at:at + 512], at + 512
        size = int(block[124:135], 8)
        data, at = archive[at:at + size], at + size + -size % 512
        kind, target = block[156:157], block[157:257].rstrip(b"\0")
        if kind == b"L":
            name = data.rstrip(b"\0")
            continue
        if kind == b"x":
            name = data.partition(b"path=")[2].rstrip(b"\n") or None
            continue
        prefix = block[345:500].rstrip(b"\0")
        path = os.path.join(place.encode(), name or (prefix + b"/" if prefix else b"") + block[:100].rstrip(b"\0"))
        name = None
        if kind in (FILE, DIR):
            os.makedirs(path if kind == DIR else os.path.dirname(path), exist_ok=True)
        if kind == FILE or (kind == HARD and data):
            if kind == HARD and not os.path.lexists(path):
                os.link(os.path.join(place.encode(), target), path)
            with open(path, "wb") as file:
                file.write(data)
            os.chmod(path, int(block[100:107], 8))
        elif kind == DIR:
            os.chmod(path, int(block[100:107], 8))
        elif kind == LINK:
            os.symlink(target, path)
        elif kind == HARD:
            os.link(os.path.join(place.encode(), target), path)


# ---- trying ---------------------------------------------------------------------------------


def control(t, *archives):
    """Each of them changes something outside of where it is unpacked, if it is believed."""
    for archive in archives:
        place = t.mkdir("control/in")
        outside = t.path("control")
        for name in ("victim", "x"):
            t.file("control/" + name, "good")
        t.mkdir("control/out", 0o750)
        t.file("control/out/victim", "good")
        before = t.fingerprint(outside)
        try:
            naive(archive, place)
        except OSError as error:
            raise Hole("the control failed: %s" % error) from None
        changed = [one for one in t.fingerprint(outside) if one not in before and not one[0].startswith(place)]
        if not changed:
            raise Hole("the control proves nothing: believed, it changes nothing outside")
        shutil.rmtree(outside)


# Three ways in for each archive; the workspace must look as before, and the error say which entry, why,
# and what to do.
ATTACK = """
    local function looks(session)
      return assert(session:exec("find . -printf '%%y %%m %%n %%s %%p %%l\\\\n' | sort; cat victim kept/victim")).stdout
    end
    local function reader(path)
      local file = io.open(path, "rb")
      return function() return file:read(7000) end
    end
    local function judge(what, code, named, ok, err)
      if ok then return say("ALLOWED", what, "restored") end
      if err.code ~= code then return say("ALLOWED", what, "another code: " .. tostring(err)) end
      if not err.message:find(named, 1, true) then return say("ALLOWED", what, "not named: " .. err.message) end
      if not err.fix then return say("ALLOWED", what, "no fix: " .. err.message) end
      if err.message:find "%%c" then return say("ALLOWED", what, "a control byte in the message") end
      say("DENIED", what, err.message)
    end
    local function attack(session, what, path, code, named)
      local before = looks(session)
      judge(what .. ", a path", code, named, session:restore_workspace(path))
      judge(what .. ", a function", code, named, session:restore_workspace(reader(path)))
      say(looks(session) == before and "DENIED" or "ALLOWED", what .. ", what is there then", looks(session))
      local manifest = { base = DIR, archives = { { from = path:sub(#DIR + 2), to = "." } } }
      judge(what .. ", a manifest", code, named, real.open { backend = mooncage.jail {}, manifest = manifest, limits = LIMITS })
    end
    LIMITS = { disk_mb = 64 }
    mooncage.with({ limits = LIMITS }, function(session)
      assert(session:exec("mkdir kept out; echo good > victim; echo good > kept/victim; ln -s ../outside out/link"))
      %s
    end)
"""


def refused(t, cases, code="archive_unsafe"):
    """`cases`: what -> (archive, what the message holds). None of them leaves a trace."""
    before, lines = t.fingerprint(t.outside), []
    for number, (what, (archive, named)) in enumerate(cases.items()):
        t.file("%d.tar" % number, archive)
        lines.append('attack(session, "%s", DIR .. "/%d.tar", "%s", [[%s]])' % (what, number, code, named))
    got = t.script(ATTACK % "\n      ".join(lines), timeout=120)
    if len(got.said) != 4 * len(cases):
        raise Hole("only %d of %d were tried: %s" % (len(got.said), 4 * len(cases), got.brief()))
    t.stopped(got)
    t.untouched(before, t.outside)


def restored(t, archive, text, flags=(), **options):
    """It is unpacked; then `text` looks."""
    before = t.fingerprint(t.outside)
    t.file("in.tar", archive)
    got = t.script("""
    mooncage.with({ limits = { disk_mb = 64 } }, function(session)
      assert(session:restore_workspace(DIR .. "/in.tar"))
      %s
    end)""" % text, flags=flags, **options)
    t.stopped(got)
    t.untouched(before, t.outside)


@row("TR-01", "names that climb out: ../x, a/../../x, ./../x, .., by every field that gives a name",
     "no part of a name is ..; unpacked beside, moved when all of it is judged", outcome="refused")
def climbing(t):
    first = entry(b"first", b"x")
    control(t, entry(b"../x", b"evil"), entry(b"../a/../x", b"evil"), long_name(b"../x") + entry(b"y", b"evil"),
            pax(path=b"../x") + entry(b"y", b"evil"), entry(b"x", b"evil", prefix=b".."))
    cases = {name: (first + entry(name.encode(), b"evil") + END, name) for name in ("../x", "a/../../x", "./../x", "..", "a/..")}
    cases["a prefix"] = (first + entry(b"x", b"evil", prefix=b"a/../..") + END, "a/../../x")
    cases["a long name"] = (first + long_name(b"../x") + entry(b"y", b"evil") + END, "../x")
    cases["pax"] = (first + pax(path=b"../x") + entry(b"y", b"evil") + END, "../x")
    refused(t, cases)


@row("TR-02", "absolute names: /tmp/x, //tmp/x, .//tmp/x", "no name begins at the root; C:\\x is a name like any other",
     outcome="refused")
def absolute(t):
    target = t.path("control/out/victim").encode()
    control(t, entry(target, b"evil"), entry(b"/" + target, b"evil"))
    refused(t, {name: (entry(b"first") + entry(name.encode(), b"evil") + END, name) for name in ("/tmp/x", "//tmp/x", ".//tmp/x", "/")})
    restored(t, entry(b"C:\\x", b"1") + END, r"""say(session:read "C:\\x" == "1" and "DENIED" or "ALLOWED", "C:")""")


@row("TR-03", "a symlink, then a file through it", "no link is followed (openat2, or part by part)", outcome="refused")
def through_link(t):
    evil = link(b"l", b"../out") + entry(b"l/victim", b"evil")
    control(t, evil)
    refused(t, {"a file": (evil + END, "l/victim"),
                "deeper": (link(b"l", b"..") + entry(b"l/out/victim", b"evil") + END, "l/out/victim"),
                "a link that stays inside": (directory(b"d") + link(b"l", b"d") + entry(b"l/f", b"x") + END, "l/f"),
                "a link through it": (link(b"l", b"../out") + link(b"l/x", b"y") + END, "l/x"),
                "a hard link through it": (entry(b"f") + link(b"l", b"../out") + link(b"l/x", b"f", HARD) + END, "l/x")})


@row("TR-04", "hard links to what is outside, by .. and absolute names, with data and without",
     "a hard link leads to a file that came before it in the archive, and has no data", outcome="refused")
def hard_link(t):
    data = b"evil".ljust(512, b"\0")
    with_data = header(b"h", HARD, 4, link=b"../out/victim") + data
    control(t, with_data, link(b"h", b"../out/victim", HARD) + entry(b"h", b"evil"))
    refused(t, {"climbing": (link(b"h", b"../out/victim", HARD) + END, "h in the archive"),
                "with data": (with_data + END, "h in the archive"),
                "absolute": (link(b"h", t.secret.encode(), HARD) + END, "h in the archive"),
                "to what is there already": (link(b"h", b"victim", HARD) + END, "h in the archive"),
                "inside, with data": (entry(b"f", b"x") + header(b"h", HARD, 4, link=b"f") + data + END, "h in the archive"),
                "pax": (pax(linkpath=b"../out/victim") + link(b"h", b"f", HARD) + END, "h in the archive")})


@row("TR-05", "a symlink out, a hard link to it, a file over that", "no hard link to a link", outcome="refused")
def hard_link_to_link(t):
    evil = link(b"l", b"../out/victim") + link(b"h", b"l", HARD) + entry(b"h", b"evil")
    control(t, evil)
    refused(t, {"a file over it": (evil + END, "h in the archive"),
                "alone": (link(b"l", b"../out/victim") + link(b"h", b"l", HARD) + END, "h in the archive")})


@row("TR-06", "a symlink, then a directory of that name: its mode set through the link", "a name comes again only as the same kind of file",
     outcome="refused")
def mode_through_link(t):
    evil = link(b"d", b"../out") + directory(b"d", 0o777)
    control(t, evil)
    refused(t, {"a directory": (evil + END, "d in the archive"),
                "below it": (link(b"d", b"..") + directory(b"d/out", 0o777) + END, "d/out")})


@row("TR-07", "a chain of links whose real path is longer than PATH_MAX", "each part is opened by itself, no path is resolved to text",
     outcome="refused")
def long_chain(t):
    step, parts, name = b"d" * 200, b"", b""
    for letter in b"abcdefgh":
        name = (name + b"/" if name else b"") + step
        parts += long_name(name) + directory(b"d") + link(bytes([letter]), name)
    up = name + b"/l"
    refused(t, {"up by it": (parts + entry(b"././@LongLink", b"../" * 16 + b"out\0", kind=b"K") + long_name(up) + link(b"l", b"x") +
                             long_name(up + b"/victim") + entry(b"x", b"evil") + END, "ddd"),
                "by the letters": (parts + entry(b"a/b/c/d/e/f/g/h/victim", b"evil") + END, "a/b/c")})


@row("TR-08", "a symlink to the host's file that is kept, and read through the file API", "a link is restored, and leads nowhere but inside",
     outcome="harmless")
def kept_link(t):
    control(t, link(b"l", b"../out/victim") + entry(b"l", b"evil"))
    restored(t, link(b"abs", t.secret.encode()) + link(b"up", b"../outside/secret") + link(b"shadow", b"/etc/shadow") + END, """
      try_read("absolute", session, "abs")
      try_read("climbing", session, "up")
      try_read("/etc/shadow", session, "shadow")
      try("download", session.download, session, "abs", DIR .. "/tmp/stolen")
      say(session:exec "readlink abs".stdout == "@DIR@/outside/secret\\n" and "DENIED" or "ALLOWED", "the link itself")""")


@row("TR-09", "set-id and sticky bits, devices, fifos, sockets, whiteouts", "mode & 0777; only files, directories and links are made",
     outcome="refused")
def special(t):
    naive(entry(b"s", b"x", mode=0o6755), t.mkdir("believed"))
    if not os.stat(t.path("believed/s")).st_mode & 0o6000:
        raise Hole("the control proves nothing: no bits outside")
    refused(t, {what: (entry(b"first") + header(b"odd", kind) + END, "odd in the archive") for what, kind in
                (("character device", CHAR), ("block device", BLOCK), ("fifo", FIFO), ("socket", b"s"), ("unknown", b"Z"),
                 ("a multi-volume part", b"M"), ("an old GNU directory", b"D"))})
    restored(t, entry(b"s", b"x", mode=0o6755) + directory(b"d", 0o7777) + entry(b"d/.wh.x") + END, """
      local modes = assert(session:exec "stat -c %a s d").stdout
      say(modes == "755\\n777\\n" and "DENIED" or "ALLOWED", "bits", modes)""")


@row("TR-10", "owners, names of users, attributes (capabilities, overlay), lists of access, flags",
     "read by nobody: what is unpacked is the user's own, as if written by hand", outcome="harmless")
def owners(t):
    extra = pax(SCHILY__xattr__security__capability=bytes([1, 0, 0, 2]) + bytes(16), SCHILY__xattr__user__x=b"1",
                SCHILY__xattr__trusted__overlay__opaque=b"y", SCHILY__acl__access=b"user::rwx,user:daemon:rwx", SCHILY__fflags=b"immutable",
                uid=b"4294967295", gid=b"0", uname=b"root", LIBARCHIVE__xattr__user__y=b"MQ")
    restored(t, extra + entry(b"f", b"x", uid=0o7777777, owner=b"root") + entry(b"r", b"x", uid=0, owner=b"root") + END, """
      assert(session:exec "touch mine")
      local owned = assert(session:exec "stat -c %u:%g mine f r | uniq | wc -l").stdout
      say(owned == "1\\n" and "DENIED" or "ALLOWED", "owner", owned)
      local attributes = assert(session:exec "python3 -c 'import os; print(os.listxattr(\\"f\\"))'")
      say(attributes.stdout:gsub("%s", "") == "[]" and "DENIED" or "ALLOWED", "attributes", attributes.stdout .. attributes.stderr)
      say(session:exec "echo more >> f && rm f".ok and "DENIED" or "ALLOWED", "flags")""")


@row("TR-11", "archives that grow: gzip, bzip2, xz, zip given as tar; compressed ones by a manifest: a bomb, climbing names, links",
     "plain tar only; what a manifest names is made plain tar inside, and judged; no more than the disk holds", outcome="refused", alone=True)
def bombs(t):
    plain = entry(b"f", bytes(1 << 20)) + END
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("f", bytes(1 << 20))
    packed = {"gzip": gzip.compress(plain), "bzip2": bz2.compress(plain), "xz": lzma.compress(plain), "zip": zipped.getvalue()}
    refused(t, {name: (data, "is %s, not plain tar" % name) for name, data in packed.items()})
    bomb = t.path("bomb.tar.gz")
    with gzip.open(bomb, "wb", 1) as file:
        file.write(header(b"f", size=512 << 20))
        for _ in range(512):
            file.write(bytes(1 << 20))
        file.write(END)
    t.own(bomb)
    free = os.statvfs(t.dir)
    t.file("climb.tar.gz", gzip.compress(entry(b"../x", b"evil") + END))
    t.file("link.tar.xz", lzma.compress(link(b"l", b"../out") + entry(b"l/x", b"evil") + END))
    t.file("two.tar.gz", gzip.compress(entry(b"f", b"x") + END) + gzip.compress(entry(b"../x", b"evil") + END))
    got = t.script("""
    for name, code in pairs { bomb = "quota", climb = "archive_unsafe", link = "archive_unsafe", two = "archive_unsafe" } do
      local from = name .. (name == "link" and ".tar.xz" or ".tar.gz")
      local manifest = { base = DIR, archives = { { from = from, to = "." } } }
      local session, err = real.open { backend = mooncage.jail {}, manifest = manifest, limits = { disk_mb = 32 } }
      say((session or err.code ~= code) and "ALLOWED" or "DENIED", name, err)
    end""", timeout=120)
    t.stopped(got)
    if os.statvfs(t.dir).f_bavail * free.f_frsize < free.f_bavail * free.f_frsize - (64 << 20):
        raise Hole("the host's disk was filled")


@row("TR-12", "1 TiB in a few KiB: sparse files of GNU and pax, a size that is only said",
     "no sparse formats; what all files hold together is no more than the disk", outcome="refused")
def sparse(t):
    new = pax(GNU__sparse__major=b"1", GNU__sparse__minor=b"0", GNU__sparse__name=b"f", GNU__sparse__realsize=b"1099511627776")
    refused(t, {"old GNU": (header(b"f", b"S", field=b"00000001000\0") + bytes(1024) + END, "f in the archive is a sparse file"),
                "pax": (new + entry(b"f", b"1\n0\n512\n".ljust(512, b"\0")) + END, "is a sparse file"),
                "pax for all": (pax(b"g", GNU__sparse__major=b"1") + entry(b"f", b"x") + END, "is a sparse file")})
    tera = header(b"f", field=b"\x80" + (1 << 40).to_bytes(11, "big"))
    refused(t, {"a size": (tera + END, "f in the archive"),
                "the sum": (b"".join(entry(b"f%d" % n, bytes(1 << 20)) for n in range(65)) + END, "larger than the whole disk")}, "quota")


@row("TR-13", "ten million entries, 10,000 levels, a name of 1 MiB, sizes of 8 GiB and more, negative and broken ones",
     "caps on entries, depth, names and their sum; numbers are checked before they are used", outcome="refused", alone=True)
def caps(t):
    deep = b"d/" * 10000
    sizes = {"negative": b"\xff" * 12, "minus": b"-0000000001\0", "2^63": b"\x80\0\0\0" + (1 << 63).to_bytes(8, "big"),
             "2^88": b"\x80" + b"\xff" * 11, "letters": b"12x\0", "2^64 in octal": b"\x80\0\0\1" + bytes(8)}
    cases = {what: (entry(b"first") + header(b"f", field=field) + END, "f in the archive has a") for what, field in sizes.items()}
    cases["10,000 levels"] = (long_name(deep) + directory(b"d") + END, "d/d/d")
    cases["1,100 levels"] = (long_name(b"d/" * 1100) + directory(b"d") + END, "more than 1,024 directories deep")
    cases["a name of 1 MiB"] = (pax(path=b"n" * (1 << 20)) + entry(b"f", b"x") + END, "header of more than 1 MiB")
    cases["a name of 900 KiB"] = (pax(path=b"n/" * (450 << 10)) + entry(b"f", b"x") + END, "n/n/n")
    cases["a part of 256 bytes"] = (pax(path=b"n" * 256) + entry(b"f", b"x") + END, "a name that is too long")
    cases["pax size too large"] = (pax(size=b"9" * 19) + entry(b"f", b"x") + END, "a number out of range")
    cases["a pax record that is longer than it"] = (entry(b"pax", b"99 path=f\n", kind=b"x") + entry(b"f", b"x") + END, "bad pax header")
    refused(t, cases)
    refused(t, {"8 GiB in octal": (header(b"f", field=b"100000000000") + END, "f in the archive")}, "quota")
    block = directory(b"again").hex()
    got = t.script("""
    local block = ("%s"):gsub("..", function(two) return string.char(tonumber(two, 16)) end):rep(512)
    local function sized(number) -- the name differs, so the checksum does
      local name, sum = ("%%08d"):format(number), 0
      local head = name .. ("\\0"):rep(92) .. "0000644\\0" .. ("0000000\\0"):rep(2) .. ("00000000000\\0"):rep(2)
      local tail = "0" .. ("\\0"):rep(355)
      for byte in (head .. "        " .. tail):gmatch "." do sum = sum + byte:byte() end
      return head .. ("%%06o\\0 "):format(sum) .. tail
    end
    mooncage.with({ limits = { disk_mb = 16 } }, function(session)
      local given = 0
      local ok, err = session:restore_workspace(function() given = given + 512 return block end)
      say(not ok and err.code == "archive_unsafe" and err.message:find "2,000,000" and "DENIED" or "ALLOWED", "one name", err)
      say(given < 2100000 and "DENIED" or "ALLOWED", "entries taken", given)
      given = 0
      ok, err = session:restore_workspace(function()
        local some = {}
        for i = 1, 100 do given = given + 1 some[i] = sized(given) end
        return given < 10000000 and table.concat(some) or nil
      end)
      say(not ok and err.code == "quota" and "DENIED" or "ALLOWED", "a name for each", err)
      say(session:exec "find . | wc -l".stdout == "1\\n" and "DENIED" or "ALLOWED", "what is there then")
    end)""" % block, timeout=300)
    t.stopped(got)


@row("TR-14", "pax headers that rename, relink and resize what was judged; twice, and for all entries",
     "a name is judged after the last header that gives it; two that differ in one entry are refused", outcome="refused")
def overrides(t):
    control(t, pax(path=b"../x") + entry(b"good", b"evil"))
    hidden = entry(b"../x", b"evil")
    refused(t, {"path": (pax(path=b"../../x") + entry(b"good", b"evil") + END, "../../x"),
                "absolute path": (pax(path=b"/etc/x") + entry(b"good", b"evil") + END, "/etc/x"),
                "linkpath": (pax(linkpath=b"/etc/passwd") + link(b"h", b"good", HARD) + END, "h in the archive"),
                "size hides an entry": (pax(size=b"0") + header(b"f", size=len(hidden)) + hidden + END, "../x"),
                "size on a directory": (pax(size=b"%d" % len(hidden)) + directory(b"d") + hidden + END, "d in the archive"),
                "size on a link": (header(b"l", LINK, size=len(hidden), link=b"x") + hidden + END, "l in the archive"),
                "path twice": (pax(path=b"good") + pax(path=b"../x") + entry(b"f", b"evil") + END, "two names"),
                "path twice in one": (entry(b"pax", b"11 path=ab\n11 path=cd\n", kind=b"x") + entry(b"f", b"evil") + END, "two names"),
                "two kinds of long name": (long_name(b"a") + pax(path=b"b") + entry(b"f", b"evil") + END, "two names"),
                "path for all": (pax(b"g", path=b"../x") + entry(b"f", b"evil") + END, "gives all entries one name"),
                "linkpath for all": (pax(b"g", linkpath=b"../x") + link(b"l", b"x") + END, "gives all entries one name"),
                "size for all": (pax(b"g", size=b"0") + entry(b"f", b"evil") + END, "gives all entries one name"),
                "a NUL": (pax(path=b"good\0/../../x") + entry(b"f", b"evil") + END, "NUL"),
                "an empty path": (pax(path=b"") + entry(b"f", b"evil") + END, "has no name"),
                "no entry after it": (pax(path=b"good") + END, "ends in the middle")})
    restored(t, pax(b"g", comment=b"of git") + entry(b"f", b"x") + END, 'say(session:read "f" == "x" and "DENIED" or "ALLOWED", "a comment")')


@row("TR-15", "damaged, cut and joined archives; zip, 7z, cpio, mtree, rar, random bytes given as tar",
     "checksum of each header, a mark of the end, zeros alone behind it", outcome="refused")
def damaged(t):
    whole = entry(b"a", b"1" * 700) + entry(b"b", b"2")
    cpio = subprocess.run(["cpio", "-oc", "--quiet"], input=b"", stdout=subprocess.PIPE, check=False).stdout if shutil.which("cpio") else b""
    refused(t, {"cut in a header": (whole[:600 + 1024], "ends in the middle"), "cut in data": (whole[:900], "a in the archive ends in the middle"),
                "cut between entries": (whole, "ends in the middle"), "empty": (b"", "is empty"),
                "a wrong checksum": (entry(b"a") + header(b"b", broken=True) + END, "is no tar archive, or it is damaged"),
                "one byte": (whole[:512] + whole[:20] + b"!" + whole[21:] + END, "the archive"),
                "a second archive": (whole + END + entry(b"../x", b"evil") + END, "goes on after its end"),
                "a second one after a block": (whole + bytes(512) + entry(b"c", b"x") + END, "goes on after its end"),
                "joined gzip": (gzip.compress(whole) + gzip.compress(END), "is gzip"),
                "zip": (b"PK\3\4" + bytes(600), "is zip"), "7z": (b"7z\xbc\xaf\x27\x1c" + bytes(600), "is 7z"),
                "rar": (b"Rar!\x1a\7\0" + bytes(600), "is rar"), "cpio": ((cpio or b"070701" + b"0" * 104).ljust(600, b"\0"), "is cpio"),
                "mtree": (b"#mtree\n./f type=file\n".ljust(1024, b"\n"), "is no tar archive"),
                "random": (os.urandom(4096), "tar"), "text": (b"hello\n" * 200, "is no tar archive")})


@row("TR-16", "one name twice: a file, then a directory; a directory, then a link", "a name comes again only as the same kind of file",
     outcome="refused")
def twice(t):
    control(t, link(b"d", b"../out") + directory(b"d", 0o777))
    kinds = {"file": entry(b"n", b"x"), "directory": directory(b"n"), "link": link(b"n", b"x"), "parent": entry(b"n/m", b"x"),
             "hard": entry(b"other") + link(b"n", b"other", HARD)}
    pairs = {one + ", then " + other: (kinds[one] + kinds[other] + END, "n in the archive" if other != "parent" else "n/m")
             for one in kinds for other in kinds
             if one != other and {one, other} not in ({"directory", "parent"}, {"file", "hard"})}
    refused(t, pairs)
    restored(t, entry(b"n", b"1") + entry(b"n", b"2") + entry(b"N", b"3") + directory(b"d") + directory(b"d") + END, """
      say(session:read "n" == "2" and session:read "N" == "3" and "DENIED" or "ALLOWED", "the last of two files")""")


@row("TR-17", "names with newlines, escapes, broken UTF-8, and names that are options",
     "kept byte by byte; escaped in messages; no program is given them", outcome="harmless")
def odd_names(t):
    names = [b"a\nb", b"\x1b[31mred", b"\xff\xfe", b"-rf", b"--checkpoint-action=exec=touch pwned", b"--checkpoint=1", b"*", b"$(touch pwned)",
             b" ", b"\t", b"\r", "é".encode(), b"\xe2\x80\xae", b"..."]
    text = ", ".join('"%s"' % "".join("\\%03d" % byte for byte in name) for name in names)
    restored(t, b"".join(entry(name, b"x") for name in names) + END, """
      local there, count = {}, 0
      for _, one in ipairs(assert(session:list ".")) do there[one.name] = true count = count + 1 end
      for _, name in ipairs { %s } do say(there[name] and session:read(name) == "x" and "DENIED" or "ALLOWED", ("%%q"):format(name):gsub("%%c", "?")) end
      say(count == %d and "DENIED" or "ALLOWED", "nothing else", count)
      assert(session:persist_workspace(DIR .. "/tmp/out.tar"))
      assert(session:exec "find . -mindepth 1 -delete")
      assert(session:restore_workspace(DIR .. "/tmp/out.tar"))
      say(#assert(session:list ".") == count and "DENIED" or "ALLOWED", "again")""" % (text, len(names)))
    refused(t, {"in a message": (entry(b"\x1b[31m\nred\xff") + entry(b"\x1b[31m\nred\xff/x", b"evil") + END, "lies beneath what is no directory")})
