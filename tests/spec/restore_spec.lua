-- Restoring a snapshot puts all of it in the place of all that was there, or nothing; what the host
-- shows in the workspace it leaves alone.
local mooncage = require "mooncage"
local support = require "support"

describe("a snapshot", function()
  local directory, store

  support.leaves_nothing(function()
    directory = support.temporary()
    store = mooncage.store.file { dir = directory .. "/store" }
    support.host(("cd %s && mkdir host && echo kept > host/f && chmod -R a+rwX ."):format(
      directory))
  end, function()
    support.host(("chmod -R u+w %s; rm -rf %s"):format(directory, directory))
  end)

  ---The session of a workspace with some content, and the options of its jail.
  local function open(options)
    local session = assert(mooncage.open { backend = mooncage.jail(options or {}),
      snapshot_store = store })
    assert(session:exec "mkdir -p old/e; echo old > old/f; echo old > old/e/f")
    return session
  end

  local function save(script)
    local session = assert(mooncage.open { snapshot_store = store })
    assert(session:exec(script))
    assert(session:snapshot "new")
    session:close()
  end

  local function listed(session)
    return session:exec("find . -mindepth 1 | LC_ALL=C sort | tr '\n' ' '").stdout
  end

  local OLD = "./old ./old/e ./old/e/f ./old/f "

  it("takes the place of what keeps its owner out", function()
    save "mkdir -p d; echo new > d/f"
    local session = open()
    session:exec "chmod 0 old/e old; mkdir x; chmod 0111 x"
    assert(session:restore "new")
    assert.equal("./d ./d/f ", listed(session))
    session:close()
  end)

  it("that has what is mounted there leaves all as it was", function()
    save "mkdir data; echo new > data/f; echo top > top"
    for _, mode in ipairs { "", ":rw" } do
      local session = open { binds = { directory .. "/host:/workspace/data" .. mode } }
      session:exec "mkdir sealed; chmod 0500 sealed"
      local ok, err = session:restore "new"
      assert.is_nil(ok)
      assert.equal("conflict", err.code)
      assert.matches("the archive has data, where something is mounted; nothing was unpacked",
        err.message, 1, true)
      assert.is_string(err.fix)
      assert.equal("./data ./data/f " .. OLD .. "./sealed ", listed(session))
      assert.equal("500\nkept\nold\n", session:exec "stat -c %a sealed; cat data/f old/e/f".stdout)
      session:close()
    end
  end)

  it("leaves all where something cannot be moved", function()
    save "echo new > new"
    local session = assert(mooncage.open { backend = mooncage.subprocess(),
      snapshot_store = store })
    if not session:exec("for n in $(seq 40); do echo $n > f$n; done; chattr +i f20").ok then
      session:close()
      return pending "needs the right to make a file immutable"
    end
    local before = listed(session)
    local ok, err = session:restore "new"
    local after = listed(session)
    session:exec "chattr -i f20"
    session:close()
    assert.is_nil(ok)
    assert.equal("unauthorized", err.code)
    assert.matches("nothing was changed", err.message, 1, true)
    assert.equal(before, after)
  end)

  it("that a mount lies in comes beside it", function()
    save "mkdir -p a/b a/c; echo new > a/c/f; chmod 711 a/b"
    local session = open { binds = { directory .. "/host:/workspace/a/b/m:rw" } }
    session:exec "echo old > a/b/f; echo old > a/f; mkdir a/c; echo old > a/c/old"
    local before = session:exec "stat -c %a a/b/m".stdout
    assert(session:restore "new")
    assert.equal("./a ./a/b ./a/b/m ./a/b/m/f ./a/c ./a/c/f ", listed(session))
    assert.equal(before .. "711\nkept\n", session:exec "stat -c %a a/b/m a/b; cat a/b/m/f".stdout)
    session:close()
  end)

  it("does not come into a directory of the host, whatever it is called", function()
    save "echo new > new"
    for _, name in ipairs { "/b/", "//b", "/./b", "/b/in", "/proc/self/root/b" } do
      support.host(("mkdir -p %s/host/in"):format(directory))
      local session, err = mooncage.open { snapshot_store = store, backend = mooncage.jail {
        binds = { directory .. "/host:/b:rw" }, working_directory = name } }
      if session then
        local ok
        ok, err = session:restore "new"
        assert.is_nil(ok, name)
        session:close()
      end
      assert.is_true(err.code == "snapshot_unsupported" or err.code == "unsupported"
        or err.code == "invalid", err.code)
      assert.equal("kept\n", support.read_file(directory .. "/host/f"), name)
    end
  end)

  it("has no file of the host in it, whatever the workspace is called", function()
    for _, name in ipairs { "/workspace", "/./workspace", "//workspace", "/workspace/" } do
      local session, err = mooncage.open { snapshot_store = store, backend = mooncage.jail {
        binds = { directory .. "/host:/workspace/in" }, working_directory = name } }
      if session then
        assert(session:exec "mkdir -p /workspace; echo own > own")
        assert(session:snapshot "own")
        session:close()
        local archive = assert(store:load "own")
        assert.is_truthy(archive:find("own", 1, true))
        assert.is_nil(archive:find("kept", 1, true), name)
      else
        assert.equal("invalid", err.code)
      end
    end
  end)

  it("that cannot be unpacked to its end leaves what was there", function()
    local session = open()
    assert(session:snapshot "whole")
    local archive = assert(store:load "whole")
    session:exec "mv old kept"
    for _ = 1, 20 do -- all of it is there, but for the word that it is all
      local given = false
      local ok, err = session:restore_workspace(function()
        if given then error "enough" end
        given = true
        return archive
      end)
      assert.is_nil(ok)
      assert.equal("canceled", err.code)
      assert.equal((OLD:gsub("old", "kept")), listed(session))
    end
    session:close()
  end)

  it("with names that an unpacking itself uses is refused", function()
    local session = open()
    session:exec [[python3 -c 'import tarfile
out = tarfile.open("a.tar", "w")
out.addfile(tarfile.TarInfo("./.mooncage-unpack-9/x"))'
      mkdir .mooncage-aside-1; echo x > .mooncage-aside-1/f]]
    session:download("a.tar", directory .. "/a.tar")
    local ok, err = session:restore_workspace(directory .. "/a.tar")
    assert.is_nil(ok)
    assert.equal("archive_unsafe", err.code)
    session:close()
  end)

  it("that is saved while one is restored is the one or the other", function()
    save "for i in $(seq 2000); do echo $i > new$i; done"
    local session = open()
    local count = { [2] = true, [2000] = true }
    for turn = 1, 6 do
      session:exec "rm -rf *; mkdir -p old/e; echo old > old/f; echo old > old/e/f"
      local restoring = mooncage.spawn(function() return session:restore "new" end)
      mooncage.sleep(0.01 * turn)
      local saved = session:snapshot "between"
      mooncage.join { restoring }
      if saved then assert.is_true(count[saved.file_count], tostring(saved.file_count)) end
    end
    session:close()
  end)
end)
