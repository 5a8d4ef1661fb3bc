-- What packing makes of a workspace, unpacking takes; and what it says where it cannot.
local mooncage = require "mooncage"
local support = require "support"

describe("archives", function()
  local directory, sessions

  support.leaves_nothing(function()
    directory, sessions = support.temporary(), {}
  end, function()
    for _, session in ipairs(sessions) do assert(session:close()) end
    support.host("chmod -R u+rwx " .. directory .. "; rm -rf " .. directory)
  end)

  local function open(options)
    options = options or {}
    local session = assert(mooncage.open {
      backend = mooncage.jail { binds = options.binds }, limits = { disk_mb = options.disk_mb },
    })
    sessions[#sessions + 1] = session
    return session
  end

  local function run(session, text)
    local result = assert(session:exec(text))
    assert.equal("", result.stderr)
    assert.is_true(result.ok)
    return result.stdout
  end

  -- Kinds, modes, sizes, whole seconds, targets, who shares an inode, and every byte.
  local looks = [[
    find . -name . -o -type s -o -printf '%y %m %s %T@ %n %P -> %l\0' |
      sed -z 's/\.[0-9]* / /;s/^d \([0-9]*\) [0-9]* /d \1 /' | sort -z | cksum
    find . -type f -print0 | sort -z | xargs -0 cksum | cksum
    find . -type f -links +1 -print0 | sort -z | xargs -0 -n 1 stat -c %i |
      awk '!($1 in n) { n[$1] = NR } { print n[$1] }']]

  -- A tree of everything that a command can leave behind, other with each seed.
  local maker = [[
import os, random, socket, sys
random.seed(int(sys.argv[1]))
odd = [b"a\nb", b"\xff\xfe", b"-rf", b" ", b"\x1b[31m", b"n" * 255, b"*",
       b"...", b"C:\\x", "\u00e9".encode(), b"=", b"1 path=x"]
places, files = [b"."], []
for step in range(150):
    place = random.choice(places)
    path = place + b"/" + (random.choice(odd) if random.random() < 0.4 else b"%d" % step)
    if os.path.lexists(path) or len(path) > 3000:
        continue
    kind = random.choice("ddfffflhs")
    if kind == "d":
        os.mkdir(path)
        places += [path] * (4 if random.random() < 0.2 else 1)
    elif kind == "f":
        with open(path, "wb") as file:
            file.write(os.urandom(random.choice([0, 1, 511, 512, 513, 5000, 70000])))
            if random.random() < 0.3:
                file.truncate(random.choice([1 << 20, 3 << 20]))
        os.utime(path, (0, random.choice([0, 1, 1234567890, 8589934592, -5])))
        os.chmod(path, random.choice([0o400, 0o444, 0o600, 0o644, 0o755, 0o777]))
        files.append(path)
    elif kind == "l":
        targets = [b"..", b"/etc/passwd", b"nowhere", b"x" * 4000, path, b".", b"../../../out"]
        os.symlink(random.choice(targets), path)
    elif kind == "h" and files:
        os.link(random.choice(files), path)
    elif kind == "s" and len(path) < 90:
        socket.socket(socket.AF_UNIX).bind(path)
for path in places:
    if path != b"." and random.random() < 0.3:
        os.chmod(path, 0o555)
for step in range(3):
    if files:
        os.utime(os.path.dirname(random.choice(files)), (0, 1000000000))
]]

  for seed = 1, 6 do
    it("hold whatever a workspace holds: tree " .. seed, function()
      local one, other = open(), open()
      assert(one:write("maker.py", maker))
      run(one, "python3 maker.py " .. seed .. " && rm maker.py")
      assert(one:persist_workspace(directory .. "/w.tar"))
      assert(other:restore_workspace(directory .. "/w.tar"))
      assert.equal(run(one, looks), run(other, looks))
      run(other, "chmod -R u+w .")
      assert(other:restore_workspace(directory .. "/w.tar")) -- over itself
      assert.equal(run(one, looks), run(other, looks))
    end)
  end

  it("are packed to what can be unpacked, or not at all", function()
    local session = open { disk_mb = 32 }
    for _, try in ipairs {
      { "mkdir d; echo x > d/f; chmod 0 d/f", "unauthorized", "d/f", "chmod 700 d/f" },
      { "mkdir d/e; chmod 0 d/e", "unauthorized", "d/e", "rmdir d/e" },
      { "truncate -s 15M hole1 hole2 hole3", "quota", "has holes", "rm hole?" },
      { "python3 -c 'import os\nfor i in range(1100): os.mkdir(\"e\"); os.chdir(\"e\")'",
        "invalid", "deep", "rm -rf e" },
    } do
      run(session, try[1])
      local ok, err = session:persist_workspace(directory .. "/w.tar")
      assert.is_nil(ok)
      assert.equal(try[2], err.code)
      assert.matches(try[3], err.message, 1, true)
      assert.is_string(err.fix)
      assert.is_nil(support.read_file(directory .. "/w.tar"))
      run(session, try[4])
    end
    assert(session:persist_workspace(directory .. "/w.tar"))
  end)

  it("are unpacked over what is there", function()
    local session = open()
    run(session, [[mkdir -p d/e same was; echo new > d/e/f; echo new > link; echo x > was/x
      ln d/e/f hard]])
    assert(session:persist_workspace(directory .. "/w.tar"))
    run(session, [[rm -rf link was hard; echo old > d/e/f; echo kept > d/kept; ln -s x link
      echo file > was; echo other > hard; chmod 700 d]])
    assert(session:restore_workspace(directory .. "/w.tar"))
    assert.equal("new\nkept\nnew\nx\nnew\n755\n",
      run(session, [[cat d/e/f d/kept link was/x hard; stat -c %a d
        test ! -L link && test d/e/f -ef hard]]))
    run(session, "rm link; mkdir link; echo old > d/e/f")
    local ok, err = session:restore_workspace(directory .. "/w.tar")
    assert.is_nil(ok)
    assert.equal("conflict", err.code)
    assert.matches("link is a directory here", err.message, 1, true)
    assert.is_string(err.fix)
    assert.equal("old\n", run(session, "cat d/e/f; test -d link"))
  end)

  it("are unpacked into what is mounted in the workspace, too", function()
    support.host(("cd %s; mkdir -p b/d; echo old > b/d/f; echo old > b/g; chmod -R a+rwX .")
      :format(directory))
    local session = open { binds = { directory .. "/b:/workspace/b:rw" } }
    run(session, "mkdir b/n; echo new > b/n/f; ln -s x b/l; truncate -s 1M b/hole; chmod 600 b/n/f")
    assert(session:persist_workspace(directory .. "/w.tar"))
    run(session, "rm -r b/n b/l b/hole; echo newer > b/g; ln -s /etc/passwd b/l; echo file > b/n")
    assert(session:restore_workspace(directory .. "/w.tar"))
    assert.equal("old\nold\nnew\nx\n1048576\n600\n",
      run(session, "cat b/d/f b/g b/n/f; readlink b/l; stat -c %s b/hole; stat -c %a b/n/f"))
    local bound = open { binds = { directory .. "/b:/workspace/b" } }
    local ok, err = bound:restore_workspace(directory .. "/w.tar")
    assert.is_nil(ok)
    assert.equal("unauthorized", err.code)
    assert.equal("b\n", run(bound, "ls -A"))
  end)

  it("that do not fit leave the room that they took", function()
    local one, other = open { disk_mb = 64 }, open { disk_mb = 16 }
    run(one, "head -c 12000000 /dev/urandom > a; head -c 12000000 /dev/urandom > b")
    assert(one:persist_workspace(directory .. "/w.tar"))
    run(other, "echo kept > a")
    local ok, err = other:restore_workspace(directory .. "/w.tar")
    assert.is_nil(ok)
    assert.equal("quota", err.code)
    assert.equal("a\nkept\n", run(other, "ls -A; cat a; head -c 12000000 /dev/zero > room"))
  end)

  it("that a function stops giving, or a wait that is given up, leave nothing", function()
    local session = open()
    run(session, "head -c 300000 /dev/urandom > f")
    local chunks = {}
    assert(session:persist_workspace(function(chunk) chunks[#chunks + 1] = chunk end))
    local before = run(session, "ls -A; cksum f")
    local given = 0
    local ok, err = session:restore_workspace(function()
      given = given + 1
      if given == 3 then error "enough" end
      return chunks[1]:sub(1, 60000 * (given == 1 and 1 or 0))
    end)
    assert.is_nil(ok)
    assert.equal("canceled", err.code)
    assert.equal(before, run(session, "ls -A; cksum f"))
  end)

  it("of many names leave nothing either, however long it takes to remove them", function()
    local session = open()
    run(session, [[cat > many.py <<'END'
import sys, tarfile
out = tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.USTAR_FORMAT)
for i in range(50000): out.addfile(tarfile.TarInfo(f"d{i % 100}/{i}"))
END
python3 many.py > many.tar]])
    local given, sent = assert(session:read "many.tar"), 0
    run(session, "rm many.tar")
    local ok, err = session:restore_workspace(function()
      local piece = given:sub(sent + 1, sent + 1048576)
      sent = sent + #piece
      if sent > 25e6 then error "enough" end
      return piece
    end)
    assert.is_nil(ok)
    assert.equal("canceled", err.code)
    assert.equal("many.py\n", run(session, "ls -A"))
  end)
end)
