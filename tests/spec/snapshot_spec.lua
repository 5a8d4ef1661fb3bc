-- Snapshots: a workspace that is kept in a store and comes back; who sees which; what a damaged
-- store does. How a store stays whole when its writers die is tests/unit/test_store.c.
local mooncage = require "mooncage"
local support = require "support"

describe("the snapshots of", function()
  local directory, store

  support.leaves_nothing(function()
    directory = support.temporary()
    store = mooncage.store.file { dir = directory .. "/store" }
  end, function()
    support.host(("chmod -R u+w %s; rm -rf %s"):format(directory, directory))
  end)

  ---A session with the store, which is closed afterwards.
  local function with(config, fn)
    config.snapshot_store = config.snapshot_store or store
    local session = assert(mooncage.open(config))
    local ok, err = pcall(fn, session)
    local closed, why = session:close()
    if not ok then error(err, 0) end
    assert(closed, why)
  end

  local function tree(session)
    return session:exec [[find . -mindepth 1 | LC_ALL=C sort | while read -r n; do
      printf '%s %s' "$n" "$(stat -c '%A %Y' "$n")"
      [ -L "$n" ] && readlink "$n" || { [ -f "$n" ] && cat "$n"; echo; }; done]].stdout
  end

  for _, each in ipairs(support.sandboxes()) do
    describe(each.name, function()
      it("bring the workspace back as it was, times and modes too", function()
        with({ backend = each.backend() }, function(session)
          session:exec [[mkdir -p d/e; echo one > a; echo two > d/e/f; chmod 700 d/e; chmod 640 a
            ln -s a link; printf 'x\n' > "$(printf 'new\nline')"; touch -d @1234567890 a d/e/f d]]
          local before = tree(session)
          local saved = assert(session:snapshot "one")
          assert.equal("one", saved.snapshot_id)
          assert.equal(1, saved.version)
          assert.equal(4, saved.file_count)
          assert(session:exec "rm -rf a d link; echo more > more; mkdir a")
          assert.not_equal(before, tree(session))
          local restored = assert(session:restore "one")
          assert.same(saved, restored)
          local after = tree(session)
          assert.equal((before:gsub("(%./link %S+) %d+", "%1")), (after:gsub("(%./link %S+) %d+",
            "%1")))
        end)
      end)

      it("end what runs before the workspace is emptied", function()
        with({ backend = each.backend() }, function(session)
          assert(session:snapshot "empty")
          assert(session:exec("while :; do echo x >> grows; done", { detach = true }))
          local running = assert(session:start "while :; do echo y >> too; done")
          assert(session:exec "until [ -s grows ] && [ -s too ]; do sleep 0.01; done")
          assert(session:restore "empty")
          local result, err = running:wait()
          assert.is_nil(result)
          assert.equal("canceled", err.code)
          assert.same({}, assert(session:list ".")) -- nothing writes there any more
          mooncage.sleep(0.05)
          assert.same({}, assert(session:list "."))
        end)
      end)
    end)
  end

  describe("the store", function()
    it("count versions, name their parent, and list by the beginning of an id", function()
      with({ labels = { who = "me" } }, function(session)
        for _, id in ipairs { "tenant-1", "tenant-10", "other" } do assert(session:snapshot(id)) end
        local again = assert(session:snapshot "other")
        assert.equal(2, again.version)
        assert.equal("other@1", again.parent)
        assert.same({ who = "me" }, again.labels)
        assert.equal("tar", again.format)
      end)
      local function ids(prefix)
        local list = {}
        for _, one in ipairs(assert(store:list(prefix))) do list[#list + 1] = one.snapshot_id end
        return list
      end
      assert.same({ "other", "tenant-1", "tenant-10" }, ids())
      assert.same({ "tenant-1", "tenant-10" }, ids "tenant-")
      assert.same({ "tenant-10" }, ids "tenant-10")
      assert.same({}, ids "../")
      assert.is_true(store:exists "other")
      assert.is_true(store:delete "other")
      assert.is_false(store:exists "other")
      assert.equal("not_found", select(2, store:delete "other").code)
      assert.equal("not_found", select(2, store:show "other").code)
    end)

    it("takes and gives bytes without a session", function()
      local data = ("x"):rep(3000000)
      local saved = assert(store:save { id = "raw", data = data, labels = { a = "b" } })
      assert.equal(#data, saved.size_bytes)
      assert.is_nil(saved.file_count)
      assert.same({ a = "b" }, saved.labels)
      local loaded, metadata = store:load "raw"
      assert.is_true(loaded == data)
      assert.same(saved, metadata)
      assert(store:load("raw", directory .. "/out"))
      assert.is_true(support.read_file(directory .. "/out") == data)
      assert(store:save { id = "again", data = { from = directory .. "/out" } })
      assert.equal(saved.sha256, store:show("again").sha256)
      local left = 3
      assert(store:save { id = "made", data = function()
        left = left - 1
        return left >= 0 and "abc" or nil
      end })
      assert.equal("abcabcabc", (store:load "made"))
      local none, err = store:save { id = "raw", data = function() error "no more" end }
      assert.is_nil(none)
      assert.equal("canceled", err.code)
      assert.is_true(store:load "raw" == data) -- what was there stays
    end)

    it("refuses ids that mean something elsewhere", function() -- TR-18
      local ids = { "../../etc/cron.d/x", "a/b", "", ".", "..", ("x"):rep(300), "x\n", "%2e%2e",
        "a\0b", "-x", ".x", "a b", "\195\164", ("x"):rep(129) }
      with({}, function(session)
        for _, id in ipairs(ids) do
          for _, call in ipairs {
            function() return session:snapshot(id) end,
            function() return session:restore(id) end,
            function() return store:show(id) end,
            function() return store:delete(id) end,
            function() return store:exists(id) end,
            function() return store:load(id) end,
            function() return store:save { id = id, data = "x" } end,
          } do
            local result, err = call()
            assert.is_nil(result)
            assert.equal("invalid", err.code)
          end
        end
        assert(session:snapshot(("x"):rep(128)))
      end)
      local _, err = mooncage.open { snapshot = { id = "../x" } }
      assert.equal("invalid", err.code)
      assert.matches("snapshot.id", err.message, 1, true)
    end)

    it("is for its user alone", function()
      with({}, function(session) assert(session:snapshot "one") end)
      assert.equal("700\n", support.host("stat -c %a " .. directory .. "/store"))
      assert.equal("600\n600\n", support.host(
        "cd " .. directory .. "/store/common && stat -c %a one.json data/one.*"))
      support.host("chmod 777 " .. directory .. "/store")
      local _, err = store:list()
      assert.equal("unauthorized", err.code)
      support.host("chmod 700 " .. directory .. "/store")
    end)

    it("lies where the sandbox cannot write", function()
      local session, err = mooncage.open {
        backend = mooncage.jail { binds = { directory .. ":/shown:rw" } }, snapshot_store = store,
      }
      assert.is_nil(session)
      assert.equal("invalid", err.code)
      assert.matches("snapshot_store", err.message, 1, true)
    end)

    it("of a later version is refused", function()
      for _, kind in ipairs { "s3", "gcs" } do
        local ok, err = pcall(mooncage.store[kind], { bucket = "b" })
        assert.is_false(ok)
        assert.equal("unsupported", err.code)
        local session, why = mooncage.open { snapshot_store = { type = kind } }
        assert.is_nil(session)
        assert.equal("unsupported", why.code)
      end
    end)
  end)

  describe("a store that was changed", function() -- TR-19
    local function place(name)
      return (support.host("ls -d " .. directory .. "/store/common/" .. name):gsub("\n", ""))
    end

    ---Restoring must fail with `protocol` before anything of the workspace is touched.
    local function refused(session, pattern)
      assert(session:write("mine", "still here"))
      local result, err = session:restore "one"
      assert.is_nil(result)
      assert.equal("protocol", err.code)
      assert.matches(pattern, err.message)
      assert.equal("still here", session:read "mine")
    end

    local function changed(name, change, pattern)
      with({}, function(session)
        assert(session:write("file", "content"))
        assert(session:snapshot "one")
        local path = place(name)
        support.write_file(path, change(support.read_file(path)))
        refused(session, pattern)
      end)
    end

    it("is found by one byte of its data", function()
      changed("data/one.*", function(text) return (text:gsub("content", "c0ntent")) end, "SHA%-256")
    end)
    it("is found by data that was cut", function()
      changed("data/one.*", function(text) return text:sub(1, -513) end, "size")
    end)
    it("is found by data that has grown", function()
      changed("data/one.*", function(text) return text .. "x" end, "size")
    end)
    it("is found by another manifest_hash", function()
      changed("one.json", function(text)
        return (text:gsub('"manifest_hash":null', '"manifest_hash":"' .. ("0"):rep(64) .. '"'))
      end, "metadata was changed")
    end)
    it("is found by half of its metadata", function()
      changed("one.json", function(text) return text:sub(1, #text / 2) end, "metadata is not whole")
    end)
    it("is found by metadata that names a file elsewhere", function()
      changed("one.json", function(text)
        return (text:gsub('"data":"[^"]*"', '"data":"../../../../etc/passwd"'))
      end, "metadata was changed")
    end)

    it("lists what is damaged as such", function()
      with({}, function(session) assert(session:snapshot "one") end)
      support.write_file(place "one.json", "{}")
      local list = assert(store:list())
      assert.equal("one", list[1].snapshot_id)
      assert.matches("metadata", list[1].damaged)
      assert(store:delete "one")
      assert.equal("", support.host("ls " .. directory .. "/store/common/data"))
    end)

    it("is found by another id's metadata under a name", function()
      with({}, function(session)
        assert(session:write("file", "of one"))
        assert(session:snapshot "one")
        assert(session:snapshot "two")
        support.host(("cd %s/store/common && cp two.json one.json"):format(directory))
        refused(session, "another snapshot's")
      end)
    end)

    it("with a key cannot be written by who has not got it", function()
      local keyed = mooncage.store.file {
        dir = directory .. "/store", hmac_key = mooncage.secret "a long enough key",
      }
      with({ snapshot_store = keyed }, function(session)
        assert(session:snapshot "one")
        assert(session:restore "one")
        local _, err = store:show "one"
        assert.equal("protocol", err.code)
        assert(store:save { id = "one", data = "from elsewhere" })
        refused(session, "without a key")
      end)
    end)
  end)
end)
