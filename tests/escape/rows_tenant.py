"""rows_tenant.py: the TN rows: what one tenant, or one user, may not do to another."""

import json
import os

from harness import Skip, row
from rows_audit import flags, logged, must

OTHER = 4711  # a second ordinary user of the machine


def two(t, text, config="{}"):
    """A script with sessions `a` and `b`, of a tenant each."""
    return t.script("""
    local function of(tenant)
      local config = with_probe({}, %s)
      config.tenant = tenant
      return opened(real.open(config))
    end
    local a, b = of "a", of "b"
    %s
    a:close() b:close()
    """ % (config, text), timeout=60)


@row("TN-01", "read and write another's workspace, /tmp, /dev/shm and sockets by paths that can be guessed",
     "each has its own mount and ipc namespaces; nothing of a session lies in a directory that others can enter", outcome="absent")
def guessed_paths(t):
    t.works(t.bare("read", t.secret))
    t.stopped(two(t, """
    a:exec("for d in . /tmp /dev/shm /home/sandbox /var/tmp /run; do echo " .. CANARY .. " > $d/f; done")
    io.write(assert(b:exec({ PROBE, "read", "/workspace/f", "/tmp/f", "/dev/shm/f", "/home/sandbox/f", "/var/tmp/f",
      "/run/f", "@DIR@/outside/secret" })).stdout)
    assert(b:exec("for d in . /tmp /dev/shm; do echo evil > $d/f; done"))
    say(assert(a:exec("cat f /tmp/f /dev/shm/f")).stdout:find "evil" and "ALLOWED" or "DENIED", "written")
    """))
    t.command("true", flags=flags(t))
    for top, _, names in [step for place in ("state", "tmp") for step in os.walk(t.path(place))]:
        mode = os.stat(top).st_mode
        must(names == [] or not mode & 0o022, "others can write %s" % top)
        for name in names:
            must(not os.lstat(os.path.join(top, name)).st_mode & 0o077, "others can use %s/%s" % (top, name))


@row("TN-02", "signal, hold and trace another's processes, by their pids inside and outside", "pid namespaces; as root a uid for each; seccomp",
     outcome="absent", gap="for an ordinary user all sandboxes have that user's uid: there the walls are namespaces, seccomp and Landlock")
def other_processes(t):
    child = t.start(["sleep", t.mark])
    t.works(t.bare("kill", "0", str(child.pid)))
    got = two(t, """
    local sleeper = a:start({ "sleep", MARK })
    local pipe = io.popen("pgrep -xf 'sleep " .. MARK .. "'")
    for pid in pipe:read "*a":gmatch "%d+" do
      io.write(assert(b:exec({ PROBE, "kill", "9", pid })).stdout)
      io.write(assert(b:exec({ PROBE, "intrude", pid })).stdout)
      local uids = {}
      for _, s in ipairs { a, b } do
        local id = assert(s:exec("cat /proc/self/uid_map")).stdout:match "%d+%s+(%d+)"
        say(uids[id] and "ALLOWED" or "DENIED", "one uid for both", id)
        uids[id] = true
      end
    end
    b:exec("kill -9 -1")
    say(assert(a:exec("pgrep -x sleep")).ok and "DENIED" or "ALLOWED", "killed")
    sleeper:signal "KILL"
    """)
    t.stopped(got, but=() if t.uid == 0 else ("one uid for both",))
    must("one uid for both" in got.said, "the process was not found outside: " + got.brief())


@row("TN-03", "use another user's session by its id: run, read, list, stop, also through that user's own directories",
     "its socket lies in a directory of mode 0700, and asks who calls; the answer is that there is none", outcome="absent", identities=("user",))
def other_session(t):
    if not t.world.is_root:
        raise Skip("needs root, to be two users")
    run = t.mkdir("run", 0o700)
    made = t.run([t.world.mooncage, "create"], env={"XDG_RUNTIME_DIR": run})
    name = made.out.decode().split()[0] if made.code == 0 else ""
    must(name, "no session: " + made.brief())
    mine = {"XDG_RUNTIME_DIR": run}
    must(t.run([t.world.mooncage, "exec", name, "--", "echo", "here"], env=mine).out == b"here\n", "the control: its own user cannot")
    other = ["setpriv", "--reuid", str(OTHER), "--regid", str(OTHER), "--clear-groups", t.world.mooncage]
    theirs = t.mkdir("theirs", 0o700)
    os.chown(theirs, OTHER, OTHER)
    for place in (theirs, run):
        env = {"XDG_RUNTIME_DIR": place, "XDG_STATE_HOME": theirs, "HOME": theirs, "TMPDIR": "/tmp"}
        for words in (("exec", name, "--", "echo", "here"), ("cp", name + ":/etc/passwd", theirs), ("stop", name), ("diff", name)):
            got = t.run([*other, *words], as_root=True, env=env)
            must(got.code not in (0, 1) and b"here" not in got.out, "%s: %s" % (words[0], got.brief()))
            must(run == place or t.path("run").encode() not in got.err, "%s tells where it is" % words[0])
        got = t.run([*other, "ps"], as_root=True, env=env)
        must(name.encode() not in got.out, "ps shows it: " + got.brief())
    must(t.run([t.world.mooncage, "exec", name, "--", "echo", "here"], env=mine).out == b"here\n", "it is gone")
    t.run([t.world.mooncage, "stop", name], env=mine)


@row("TN-04", "be taken for a tenant whose id begins alike: tenant-1 and tenant-10", "ids are compared whole; paths, of snapshots too, have a hash of them",
     outcome="refused")
def alike(t):
    must("tenant-10".startswith("tenant-1"), "the control: a prefix would match")
    for tenant in ("tenant-1", "tenant-10"):
        t.command("echo", tenant, flags=(*flags(t), "--tenant", tenant))
    got = t.run([t.world.mooncage, "audit", "show", "--json", "--tenant", "tenant-1", t.path("audit.jsonl")])
    must({json.loads(line)["tenant"] for line in got.out.splitlines()} == {"tenant-1"}, got.brief())
    for bad in ("tenant-", "tenant", "tenant-1*", "tenant%"):
        got = t.run([t.world.mooncage, "audit", "show", "--json", "--tenant", bad, t.path("audit.jsonl")])
        must(not got.out.strip(), "%s shows others' lines" % bad)
    got = t.script("""
    local function open(tenant) return real.open { tenant = tenant, tenants = function() return { quota = { sessions = 1 } } end } end
    local one = opened(open "tenant-1")
    local two, why = open "tenant-1"
    say(two and "ALLOWED" or "DENIED", "a second", why and why.code)
    local ten, err = open "tenant-10"
    say(ten and "DENIED" or "ALLOWED", "counted with another", err and err.code)
    one:close() ten:close()
    """)
    t.stopped(got)
    t.stopped(t.script("""
    local store = real.store.file { dir = DIR .. "/store" }
    for _, tenant in ipairs { "tenant-1", "tenant-10" } do
      mooncage.with({ tenant = tenant, snapshot_store = store }, function(s) s:snapshot("of-" .. tenant) end)
    end
    local own = store:of { tenant = "tenant-1" }
    for _, prefix in ipairs { "", "of-", "of-tenant-1", "../", "tenant-" } do
      for _, one in ipairs(own:list(prefix)) do
        if one.snapshot_id ~= "of-tenant-1" then say("ALLOWED", "list " .. prefix, one.snapshot_id) end
      end
    end
    try("load", own.load, own, "of-tenant-10")
    try("delete", own.delete, own, "of-tenant-10")
    mooncage.with({ tenant = "tenant-1", snapshot_store = store }, function(s) try("restore", s.restore, s, "of-tenant-10") end)
    say(#store:of({ tenant = "tenant-10" }):list() == 1 and "DENIED" or "ALLOWED", "the control: it is there")
    """))


@row("TN-05", "use up what is shared: processes, descriptors, disk, output; then another runs", "limits and quotas for each session and tenant",
     outcome="bounded", needs="a cgroup for the user, v1 or v2", alone=True)
def noisy(t):
    t.works(t.bare("forks", "60"))
    t.stopped(two(t, """
    local bombs = {
      a:start "b() { b | b & }; b; sleep 5", a:start "cat /dev/zero > f", a:start "yes",
      a:start({ PROBE, "descriptors", "100000" }), a:start({ PROBE, "memory", "200" }),
    }
    for i = 1, 20 do
      local r, err = b:exec({ "echo", "mine" }, { timeout = 10 })
      if not (r and r.stdout == "mine\\n") then say("ALLOWED", "starved " .. i, err and err.code or r.stderr) end
    end
    say(assert(b:write("f", ("x"):rep(1e6))) and "DENIED" or "ALLOWED", "no disk left")
    for _, bomb in ipairs(bombs) do bomb:signal "KILL" end
    """, "{ limits = { pid_limit = 40, memory_mb = 96, disk_mb = 16 } }"))


@row("TN-06", "leave things behind in a sandbox that is used again: files, start-up scripts, processes, a changed PATH", "a sandbox is never used again; a pool makes them ahead, empty",
     outcome="absent")
def left_behind(t):
    t.works(t.bare("put", t.path("tmp/left"), "x"))
    t.works(t.bare("read", t.path("tmp/left")))
    got = t.script("""
    for i = 1, 3 do
      local config = with_probe({}, { pool = { size = 2 }, tenant = i == 1 and "a" or "b" })
      mooncage.with(config, function(session)
        local seen = assert(session:exec("cat /tmp/left ~/.profile ~/.bashrc /workspace/left /dev/shm/left; pgrep sleep; ls /usr/local/bin/ls"))
        say(seen.stdout ~= "" and "ALLOWED" or "DENIED", "left for " .. i, seen.stdout)
        session:exec("for f in /tmp/left ~/.profile ~/.bashrc left /dev/shm/left; do echo evil > $f; done; (setsid sleep " .. MARK .. " &) ; cp /bin/ls /usr/local/bin/ls")
      end)
      real.sleep(0.1)
    end
    """)
    t.stopped(got)


@row("TN-07", "ids that are paths, empty, enormous, look alike, or hold NUL and control bytes", "1 to 64 of letters, digits, - and _; in paths only a hash of it",
     outcome="refused")
def odd_ids(t):
    os.makedirs(t.path("plain"), exist_ok=True)
    with open(t.path("plain/../forged"), "w") as file:  # what a path of an id does
        file.write("x")
    must(os.path.exists(t.path("forged")), "the control: an id in a path does not leave the directory")
    for odd in ("../b", "a/b", "", ".", "..", "a b", "a\n", "\x1b[31m", "\u0430cme", "\uff41cme", "a\u200bb", "x" * 65, "x" * 100000):
        got = t.command("true", flags=("--tenant", odd), sound=False)
        must(got.code == 2 and b"tenant" in got.err and len(got.err) < 500, "%r: %s" % (odd[:20], got.brief()))
        must(not any(c < 32 and c != 10 for c in got.err), "%r comes through to the terminal" % odd[:20])
    got = t.run([os.fsencode(a) for a in t.sandbox_argv(["true"], ("--tenant",))][:-2] + [b"\xff\xfe", b"--", b"true"])
    must(got.code == 2, "bytes that are no text: " + got.brief())
    for same in ("Acme", "acme"):
        t.command("true", flags=(*flags(t), "--tenant", same))
    must({e["tenant"] for e in logged(t) if "tenant" in e} == {"Acme", "acme"}, "two tenants became one")


@row("TN-08", "see another's request, log or names: in the tenants function, in the log, in errors", "each is asked with its own; logs can be one a tenant; messages name only what the caller named",
     outcome="harmless")
def others_words(t):
    got = t.script("""
    local function tenants(id)
      return { audit = real.audit.jsonl { path = "@DIR@/" .. id .. ".jsonl" }, labels = { of = id },
        environment = { WHO = "canary-of-" .. id } }
    end
    for _, id in ipairs { "a", "b" } do
      local config = with_probe({}, { tenants = tenants, tenant = id, context = { note = "canary-of-" .. id } })
      mooncage.with(config, function(session)
        local r = assert(session:exec "env; cat /proc/self/mountinfo")
        local other = id == "a" and "b" or "a"
        say(r.stdout:find("canary-of-" .. other, 1, true) and "ALLOWED" or "DENIED", "environment of " .. id)
        local _, err = session:read("nothing-of-" .. id)
        say(tostring(err):find("of-" .. other, 1, true) and "ALLOWED" or "DENIED", "error of " .. id, err)
      end)
    end
    """)
    t.stopped(got)
    for mine, theirs in (("a", "b"), ("b", "a")):
        with open(t.path(mine + ".jsonl")) as file:
            text = file.read()
        must("nothing-of-" + mine in text, "the control: its own events are not there")
        must("of-" + theirs not in text and '"tenant":"%s"' % theirs not in text, "%s's events are in the log of %s" % (theirs, mine))


@row("TN-09", "change programs that all sandboxes share: write, map shared, by hard link and by descriptor", "read-only binds, recursively; nosuid and nodev",
     outcome="denied", gap="one kernel and one page cache: a hole in the kernel crosses sandboxes; for tenants who attack each other use a virtual machine")
def shared_files(t):
    own = t.file("own", "x" * 8192)
    t.works(t.bare("change", own), "append", "chmod", "rename")
    for shared in ("/usr/bin/env", "/bin/sh", "/lib64/ld-linux-x86-64.so.2", t.world.inside_dir + "/sbx-probe"):
        t.stopped(t.inside("change", shared))


@row("TN-10", "have a weaker backend chosen: as the cheapest, as the only one that works, by a selector, by a tenant",
     "min_isolation is judged in C before and after the selector; failover never goes below it", outcome="refused")
def weaker(t):
    got = t.script("""
    local function chosen(more)
      local config = { candidates = { bad = mooncage.jail { rootfs = "/nonexistent" }, weak = mooncage.subprocess {} } }
      for key, value in pairs(more) do config[key] = value end
      local session, err = real.open(config)
      local name = session and session:exec("echo $$") and session:info().backend
      if session then session:close() end
      return name, err
    end
    say("ALLOWED", "control", (chosen {}))
    for what, more in pairs {
      asked = {}, cheapest = { selector = "cheapest_first" }, order = { selector = "in_order" },
      selected = { selector = function(candidates) return "weak" end },
      forged = { selector = function(candidates) for _, c in ipairs(candidates) do c.isolation = "vm" end return candidates[1] and candidates[1].name or "weak" end },
    } do
      more.requirements = { min_isolation = "namespace" }
      local name, err = chosen(more)
      say(name and "ALLOWED" or "DENIED", what, name or err.code)
    end
    local session, err = real.open { tenant = "a", tenants = function() return { candidates = { mooncage.subprocess {} } } end }
    say(session and "ALLOWED" or "DENIED", "by a tenant", err and err.code)
    """)
    t.works(got, "control")
    t.stopped(got, but=("control",))
