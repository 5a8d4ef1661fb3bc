"""rows_snapshot.py: TR-18 to TR-21, SE-08 and FS-19r: snapshots in a store that somebody else has been at,
workspaces that move while they are saved, what must not be in one, and writers that are killed."""

import os
import random
import shutil
import signal
import stat
import subprocess
import tarfile
import time

from harness import Hole, row

ALL = """
local store = real.store.file { dir = DIR .. "/store" }
local function keep(config, fn)
  config.snapshot_store = store
  mooncage.with(config, fn)
end
"""


def must(truth, text):
    if not truth:
        raise Hole(text)


@row("TR-18", "name a snapshot so that it lies elsewhere: \"../../etc/x\", \"a/b\", \"\", 300 letters, %2e%2e, NUL",
     "ids are letters, digits, '.', '_' and '-', and begin with a letter or digit; all else is refused before anything is opened",
     outcome="refused")
def ids(t):
    must(os.path.normpath(t.dir + "/store/common/../../outside/x") == t.outside + "/x", "the control: such a name stays")
    t.stopped(t.script(ALL + """
    keep({}, function(s)
      for i, id in ipairs { "../../outside/x", "a/b", "", ".", "..", ("x"):rep(300), "x\\n", "%2e%2e", "a\\0b", "-x" } do
        try("snapshot " .. i, s.snapshot, s, id)
        try("restore " .. i, s.restore, s, id)
        try("save " .. i, store.save, store, { id = id, data = "x" })
        try("load " .. i, store.load, store, id)
        try("delete " .. i, store.delete, store, id)
        try("show " .. i, store.show, store, id)
        try("prefix " .. i, function() return store:of({ store_prefix = id }):list() end)
      end
    end)
    """))
    must(os.listdir(t.outside) == ["secret"], "something was written outside")


@row("TR-19", "change a stored snapshot: a byte of the data, its metadata or manifest_hash; swap two tenants' ones",
     "size and SHA-256 of all of it, and a seal over the metadata with id and part, are checked before a byte is unpacked",
     outcome="refused",
     gap="an older snapshot that is put back as a whole, data and metadata, is one that was saved: the audit log has the "
         "version and hash of each save. Who can write the store can seal what he likes, unless the store has an hmac_key")
def tampered(t):
    t.script(ALL + """
    for _, tenant in ipairs { "a", "b" } do
      keep({ tenant = tenant }, function(s)
        s:write("file", "content of " .. tenant)
        s:snapshot "one"
      end)
    end
    say("DENIED", "nothing yet")
    """)
    top = t.path("store")
    parts = sorted(os.path.join(top, name) for name in os.listdir(top))
    must(len(parts) == 2, "no two parts: %s" % parts)
    sound = t.mkdir("sound")
    data = [os.path.join(p, "data", name) for p in parts for name in os.listdir(p + "/data")]
    with tarfile.open(data[0]) as archive:  # the control: a reader that checks nothing takes what there is
        must(archive.extractfile("file").read().startswith(b"content of "), "the control: it is not there")

    def edit(path, old, new):
        with open(path, "rb") as file:
            text = file.read()
        must(old in text, "nothing to change in " + path)
        with open(path, "wb") as file:
            file.write(text.replace(old, new))

    def swap():
        os.rename(parts[0], top + "/x")
        os.rename(parts[1], parts[0])
        os.rename(top + "/x", parts[1])

    changes = {
        "a byte": lambda: [edit(path, b"content", b"c0ntent") for path in data],
        "manifest_hash": lambda: [edit(p + "/one.json", b'"manifest_hash":null', b'"manifest_hash":"x"') for p in parts],
        "the size": lambda: [edit(p + "/one.json", b'"size_bytes":', b'"size_bytes":1') for p in parts],
        "the name of the data": lambda: [edit(p + "/one.json", b'"data":"one.', b'"data":"../../../outside/one.') for p in parts],
        "the tenant": swap,
    }
    for name, change in changes.items():
        shutil.rmtree(sound)
        shutil.copytree(top, sound)
        for place in [sound] + [os.path.join(d, n) for d, ds, fs in os.walk(sound) for n in ds + fs]:
            t.own(place)
        change()
        t.stopped(t.script(ALL + """
        for _, tenant in ipairs { "a", "b" } do
          keep({ tenant = tenant }, function(s)
            s:write("mine", "mine")
            try("@CHANGE@ " .. tenant, s.restore, s, "one")
            if s:read "mine" ~= "mine" then say("ALLOWED", "it was emptied") end
          end)
        end
        """.replace("@CHANGE@", name)))
        shutil.rmtree(top)
        shutil.copytree(sound, top)
        for place in [top] + [os.path.join(d, n) for d, ds, fs in os.walk(top) for n in ds + fs]:
            t.own(place)


@row("TR-20", "save while the tree moves: a file becomes a link to the host's between look and open, shrinks, grows",
     "packed inside, by descriptors that follow no link, and as many bytes as were said", outcome="harmless")
def moving(t):
    naive = t.file("naive", "x")
    os.stat(naive)
    os.unlink(naive)
    os.symlink(t.secret, naive)
    with open(naive) as file:
        must(t.canary in file.read(), "the control: an open after a look follows no link")
    got = t.script(ALL + """
    keep({}, function(s)
      s:exec([[mkdir d; while :; do echo text > d/f; rm -f d/f; ln -s @DIR@/outside/secret d/f; rm -f d/f
        ln -s /etc/passwd d/f; head -c 200000 /dev/zero > d/g; rm -f d/f; : > d/g; mv d e; mv e d; done]], { detach = true })
      local saved = 0
      for i = 1, 25 do
        local metadata = s:snapshot("n" .. i)
        if metadata then saved = saved + 1 end
      end
      say(saved > 0 and "DENIED" or "ALLOWED", "saved", saved)
    end)
    """)
    t.stopped(got)
    top = t.path("store/common/data")
    for name in os.listdir(top):
        with open(os.path.join(top, name), "rb") as file:
            text = file.read()
        must(t.canary.encode() not in text and b"root:x:" not in text, "%s holds something of the host" % name)
        with tarfile.open(os.path.join(top, name)) as archive:
            must(all(not m.name.startswith("/") and ".." not in m.name for m in archive), "%s has odd names" % name)


@row("TR-21", "kill the one who saves, at any moment; save one id from several processes",
     "data of its own name, synced, then metadata by rename; whoever comes next sweeps", outcome="harmless")
def killed(t):
    path = t.path("plain")
    with open(path, "wb") as file:  # the control: what is written in place is cut
        file.write(bytes(1000))
    with open(path, "wb") as file:
        file.write(bytes(10))
    must(os.path.getsize(path) == 10, "the control: it is whole")
    first = t.script(ALL + """
    keep({}, function(s) s:exec "head -c 3000000 /dev/zero | tr '\\\\0' Q > file"; s:snapshot "one" end)
    say("DENIED", "saved")
    """)
    t.stopped(first)
    with open(os.path.join(os.path.dirname(__file__), "prelude.lua")) as file:
        prelude = file.read()
    text = prelude + ALL + """
    keep({}, function(s)
      s:exec "head -c 3000000 /dev/zero | tr '\\\\0' Z > file"
      while true do s:snapshot "one" end
    end)
    """
    for name, value in (("@DIR@", t.dir), ("@CARRIER@", t.world.carrier)):
        text = text.replace(name, value)
    script = t.file("saver.lua", text)
    dice = random.Random(4)
    for _ in range(8):
        children = [t.start([t.world.mooncage, "run", script], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL) for _ in range(2)]
        time.sleep(0.3 + dice.random() / 4)
        for child in children:
            child.send_signal(signal.SIGKILL)
            child.wait()
        t.stopped(t.script(ALL + """
        local list = store:list()
        say(#list == 1 and not list[1].damaged and "DENIED" or "ALLOWED", "listed", #list)
        local data = store:load "one"
        local _, old = (data or ""):gsub("Q", "")
        local _, new = (data or ""):gsub("Z", "")
        say(math.max(old, new) == 3000000 and "DENIED" or "ALLOWED", "whole", old .. " " .. new)
        """))
    t.stopped(t.script(ALL + """
    keep({}, function(s) say(s:snapshot "one" and "DENIED" or "ALLOWED", "saved again") end)
    say(#store:gc({ dry_run = true }).removed == 0 and "DENIED" or "ALLOWED", "left over")
    """))
    must(len(os.listdir(t.path("store/common/data"))) == 1, "something is left over")


@row("SE-08", "find secrets in a snapshot: of the configuration, of ephemeral files, of those that are left out",
     "variables are no files; what is ephemeral or in `exclude` is not packed; labels have known values struck out",
     outcome="absent", gap="what a command writes into the workspace is in the snapshot, unless `exclude` names it")
def secrets_kept(t):
    got = t.script(ALL + """
    local secret = real.secret(CANARY)
    keep({ labels = { note = CANARY }, environment = { TOKEN = secret }, snapshot = { exclude = { ".env", ".aws", "**/.netrc" } },
      manifest = { environment = { OTHER = { secret = CANARY } }, files = { key = { content = CANARY, ephemeral = true } } } },
      function(s)
        local seen = s:exec("echo $TOKEN; cat key").stdout
        say(seen == CANARY .. "\\n" .. CANARY and "DENIED" or "ALLOWED", "the control: they are inside", #seen)
        s:exec "mkdir .aws sub; for f in .env .aws/credentials .netrc sub/.netrc; do echo $TOKEN > $f; done; echo x > kept"
        s:snapshot "one"
      end)
    local data = store:load "one"
    say(data:find("kept", 1, true) and "DENIED" or "ALLOWED", "what is kept")
    """)
    t.stopped(got)
    for top, _, names in os.walk(t.path("store")):
        for name in names:
            with open(os.path.join(top, name), "rb") as file:
                must(t.canary.encode() not in file.read(), "it is in " + name)


@row("FS-19r", "bring set-uid and set-gid bits, owners and devices back by a snapshot", "modes are masked with 0777 when unpacked; owners are "
     "not taken from an archive; workspaces are nosuid", outcome="denied")
def bits(t):
    plain = t.mkdir("plain")
    own = t.file("plain/program", "x")
    os.chmod(own, 0o6755)
    must(os.stat(own).st_mode & stat.S_ISUID, "the control: it has no such bit")
    subprocess.run(["tar", "-C", plain, "-cf", t.path("a.tar"), "."], check=True)
    copy = t.mkdir("copy")
    subprocess.run(["tar", "-C", copy, "-xpf", t.path("a.tar")], check=True)
    must(os.stat(copy + "/program").st_mode & stat.S_ISUID, "the control: tar takes it away")
    t.stopped(t.script(ALL + """
    keep({}, function(s)
      s:exec "cp /bin/sleep program; chmod 6755 program; mkdir d; chmod 3777 d"
      s:snapshot "one"
      s:restore "one"
      store:save { id = "made", data = { from = DIR .. "/a.tar" } }
      local said = s:exec("stat -c '%a %u' program d; id -u").stdout
      say(said:match "^755 (%d+)\\n777 %1\\n%1\\n$" and "DENIED" or "ALLOWED", "of its own", said)
      s:restore("made", { on_mismatch = "ignore" })
      said = s:exec("stat -c '%a %u' program; id -u").stdout
      say(said:match "^755 (%d+)\\n%1\\n$" and "DENIED" or "ALLOWED", "of an archive", said)
    end)
    """))
