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

    it("lists as damaged what no save has written", function()
      with({ labels = { a = "b" } }, function(session)
        for from, to in pairs {
          ['"created_at":[^,]*'] = '"created_at":"x"', ['"labels":%b{}'] = '"labels":5',
          ['"file_count":%d+'] = '"file_count":-1', ['"parent":[^,]*'] = '"parent":7',
          ['"version":%d+'] = '"version":9223372036854775807',
        } do
          assert(session:snapshot "one")
          local text = support.read_file(place "one.json"):gsub('"seal":"[^"]*",', "")
          text = text:gsub(from, to)
          support.write_file(directory .. "/text", text)
          local sum = support.host("sha256sum < " .. directory .. "/text"):match "%x+"
          text = text:gsub("^{", '{"seal":"sha256:' .. sum .. '",')
          support.write_file(place "one.json", text)
          assert.matches("metadata is not whole", store:list()[1].damaged)
        end
      end)
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
        local another = mooncage.store.file { dir = directory .. "/store", hmac_key = "k-another" }
        for _, each in ipairs { store, another } do -- who has it could no longer restore it
          _, err = each:save { id = "one", data = "from elsewhere" }
          assert.equal("unauthorized", err.code)
        end
        assert(session:restore "one")
        assert(store:delete "one")
        assert(store:save { id = "one", data = "from elsewhere" })
        refused(session, "without a key")
        assert(session:snapshot "one")
      end)
    end)
  end)

  describe("a configuration", function()
    ---Opens, runs `fn`, closes, as mooncage.with does.
    local function once(snapshot, fn, more)
      local config = { snapshot_store = store, snapshot = snapshot }
      for key, value in pairs(more or {}) do config[key] = value end
      return mooncage.with(config, fn)
    end

    local function version(id)
      local metadata = store:show(id or "work")
      return metadata and metadata.version or 0
    end

    it("begin with what there is, and leave what there is then", function()
      assert(once({ id = "work" }, function(session)
        assert.same({}, session:list ".")
        return session:write("count", "1")
      end))
      assert(once({ id = "work" }, function(session)
        assert.equal("1", session:read "count")
        return session:write("count", "2")
      end))
      local metadata = assert(store:show "work")
      assert.equal(2, metadata.version)
      assert.equal("work@1", metadata.parent)
      assert(once({ id = "work", restore = "never", save = "never" }, function(session)
        assert.same({}, session:list ".")
        return true
      end))
      assert.equal(2, version())
    end)

    it("save only after success, always, or never", function()
      local function fails() error "it went wrong" end
      local function refuses() return nil, "it went wrong" end
      assert.is_false(pcall(once, { id = "work" }, fails))
      assert.equal(0, version())
      assert.is_nil((once({ id = "work" }, refuses)))
      assert.equal(0, version())
      assert.is_false(pcall(once, { id = "work", save = "always" }, fails))
      assert.equal(1, version())
      once({ id = "work" }, function() return nil end) -- says nothing of a failure
      assert.equal(2, version())
      once({ id = "work", save = "never" }, function() return true end)
      assert.equal(2, version())
    end)

    it("save a session that is opened and closed, unless it is said to have failed", function()
      local config = { snapshot_store = store, snapshot = { id = "work" } }
      local session = assert(mooncage.open(config))
      assert(session:close())
      assert.equal(1, version())
      session = assert(mooncage.open(config))
      session:unsuccessful()
      assert(session:close())
      assert.equal(1, version())
    end)

    it("do not save what its limit has ended, unless always", function()
      for _, save in ipairs { "on_success", "always" } do
        once({ id = "work", save = save }, function(session)
          session:exec "echo kept > file; sleep 100"
          return true
        end, { limits = { wall_s = 0.3 } })
        assert.equal(save == "always" and 1 or 0, version())
      end
    end)

    it("end what runs before it is saved", function()
      once({ id = "work" }, function(session)
        assert(session:exec("while :; do echo x >> grows; done", { detach = true }))
        assert(session:exec "until [ -s grows ]; do sleep 0.01; done")
        return true
      end)
      assert.equal(1, version())
    end)

    it("require what is to be there", function()
      local _, err = once({ id = "work", restore = "required" }, function() return true end)
      assert.equal("not_found", err.code)
      assert.equal(0, version())
    end)

    it("judge a snapshot by its manifest", function()
      local function with_file(text)
        return { manifest = { files = { given = text }, environment = { A = "b" } } }
      end
      assert(once({ id = "work" }, function(session) return session:remove "given" end,
        with_file "1"))
      assert(once({ id = "work" }, function(session) -- the same manifest: not put there again
        assert.same({}, session:list ".")
        return true
      end, with_file "1"))
      local result, err = once({ id = "work" }, function() return true end, with_file "2")
      assert.is_nil(result)
      assert.equal("snapshot_mismatch", err.code)
      local warnings
      assert(once({ id = "work", on_mismatch = "warn", save = "never" }, function(session)
        warnings = table.concat(session:info().warnings, " ")
        return true
      end, with_file "2"))
      assert.matches("another manifest", warnings)
      assert(once({ id = "work", on_mismatch = "ignore", save = "never" }, function(session)
        assert.same({}, session:info().warnings)
        return true
      end, with_file "2"))
    end)

    it("keep nothing that is ephemeral or left out", function() -- SE-08
      local secret = "a-secret-of-the-host-4711"
      local manifest = {
        files = {
          [".netrc"] = { content = secret, ephemeral = true },
          ["a*b"] = { content = secret, ephemeral = true }, ["aXb"] = "kept",
          ["d//./e"] = { content = secret, ephemeral = true },
        },
        environment = { TOKEN = mooncage.secret(secret) },
      }
      local exclude = { ".env", "./build//", "**/*.o", "deep//./*/x" }
      assert(once({ id = "work", exclude = exclude }, function(session)
        session:exec [[mkdir -p .aws build/sub deep/1/x deep/1/y sub
          for f in .env sub/.env build/sub/f a.o sub/b.o deep/1/x/f; do echo 1 > $f; done]]
        return true
      end, { manifest = manifest, labels = { note = secret, [secret] = "" } }))
      local data, metadata = assert(store:load "work")
      assert.is_nil(data:find(secret, 1, true))
      assert.is_nil(mooncage.json.encode(metadata):find(secret, 1, true))
      assert.same({ note = "***", ["***"] = "" }, metadata.labels)
      mooncage.secret "\169-and-more-of-it" -- the rest of the label is no text
      metadata = assert(store:save { id = "own", data = "x",
        labels = { [secret] = secret, cut = "\195\169-and-more-of-it" } })
      assert.same({ ["***"] = "***", cut = "***" }, metadata.labels)
      assert(once({ id = "work", save = "never" }, function(session)
        assert.equal(secret, session:read ".netrc") -- put there again
        assert.equal(secret, session:read "a*b")
        assert.equal(".aws .netrc a*b aXb d d/e deep deep/1 deep/1/y sub sub/.env ",
          session:exec("find -mindepth 1 -printf '%P\\n' | LC_ALL=C sort | tr '\\n' ' '").stdout)
        return true
      end, { manifest = manifest }))
    end)

    it("keep what is bound out of it, and in place", function()
      local bound = directory .. "/bound"
      support.host(("mkdir %s; echo host > %s/file"):format(bound, bound))
      local more = { backend = mooncage.jail { binds = { bound .. ":/workspace/in/bound:rw" } } }
      local session = assert(mooncage.open { backend = mooncage.jail {} })
      local home = session:info().working_directory
      assert(session:close())
      more.backend = mooncage.jail { binds = { bound .. ":" .. home .. "/in/bound:rw" } }
      assert(once({ id = "work" }, function(s)
        assert.equal("host\n", s:read "in/bound/file")
        assert(s:write("in/own", "x"))
        return s:write("own", "x")
      end, more))
      assert.is_nil((store:load "work"):find("host\n", 1, true))
      assert(once({ id = "work", save = "never" }, function(s)
        assert.equal("host\n", s:read "in/bound/file")
        assert(s:remove "own")
        assert(s:restore "work")
        assert.equal("x", s:read "own")
        assert.equal("x", s:read "in/own")
        assert.equal("host\n", s:read "in/bound/file")
        return true
      end, more))
      assert.equal("host\n", support.read_file(bound .. "/file"))
    end)

    it("never empty a directory of the host", function()
      local mine = directory .. "/mine"
      support.host(("mkdir %s; echo host > %s/file"):format(mine, mine))
      for _, more in ipairs {
        { backend = mooncage.subprocess { working_directory = mine } },
        { backend = mooncage.jail { binds = { mine .. ":/m:rw" }, working_directory = "/m" } },
        { backend = mooncage.jail { binds = { mine .. ":/m:rw" }, working_directory = "//m/." } },
        { backend = mooncage.jail { binds = { mine .. ":/./m/:rw" }, working_directory = "/m" } },
        { project = mine },
      } do
        more.snapshot_store = store
        with(more, function(session)
          assert(session:snapshot "work")
          local result, err = session:restore "work"
          assert.is_nil(result)
          assert.equal("snapshot_unsupported", err.code)
          assert.is_string(err.fix)
        end)
        assert.equal("host\n", support.read_file(mine .. "/file"))
      end
    end)

    it("leave the workspace as it is where the disk has no room for both", function()
      local limits = { disk_mb = 24 }
      local session, err = mooncage.open { limits = limits, snapshot_store = store }
      if not session then return pending(err.message) end -- no cgroups for this user
      assert.is_true(session:exec("head -c 10000000 /dev/urandom > file").ok)
      assert(session:snapshot "work")
      assert.is_true(session:exec("cat file > more; echo mine > mine").ok)
      local result
      result, err = session:restore "work"
      assert.is_nil(result)
      assert.equal("quota", err.code)
      assert.equal("mine\n", session:read "mine")
      assert.equal("3\n", session:exec("ls -A | wc -l").stdout)
      assert(session:remove "more")
      assert(session:restore "work")
      assert.equal("file\n", session:exec("ls -A").stdout)
      assert(session:close())
    end)

    it("hold to a size", function()
      local result, err = once({ id = "work", max_mb = 1 }, function(session)
        assert.is_true(session:exec("truncate -s 100G hole || truncate -s 100M hole").ok)
        return true
      end)
      assert.is_nil(result)
      assert.equal("quota", err.code)
      assert.equal(0, version())
      assert.equal("", support.host("ls " .. directory .. "/store/common/data"))
    end)

    it("are restored one after the other", function()
      with({}, function(session)
        for _, id in ipairs { "one", "two" } do
          assert(session:write("file", id))
          assert(session:snapshot(id))
        end
        local tasks = {}
        for i = 1, 6 do
          local id = i % 2 == 0 and "one" or "two"
          tasks[i] = mooncage.spawn(function() return session:restore(id) end)
        end
        for _, task in ipairs(tasks) do assert(task:wait()) end
        local list = assert(session:list ".")
        assert.equal(1, #list)
        local text = session:read "file"
        assert.is_true(text == "one" or text == "two", text)
      end)
    end)

    it("are judged like every other key", function()
      for text, snapshot in pairs {
        ["snapshot.ids: unknown key"] = { ids = "x" },
        ["snapshot.restore: "] = { id = "x", restore = "if_exist" },
        ["snapshot.save: "] = { id = "x", save = true },
        ["snapshot.exclude[1]: "] = { exclude = { "/etc" } },
        ["snapshot: "] = { save = "always" },
        ["snapshot.max_mb: "] = { max_mb = 0 },
      } do
        local session, err = mooncage.open { snapshot = snapshot }
        assert.is_nil(session)
        assert.equal("invalid", err.code)
        assert.matches(text, err.message, 1, true)
      end
      local _, err = mooncage.open { snapshot = { id = "x", restore = "if_exist" } }
      assert.matches("if_exists", err.fix, 1, true)
      _, err = mooncage.open { snapshot_store = { type = "file", directory = "x" } }
      assert.matches("snapshot_store.directory: unknown key", err.message, 1, true)
    end)
  end)

  describe("tenants", function()
    local function as(tenant, fn, overrides)
      local config = { snapshot_store = store, tenant = tenant }
      if overrides then config.tenants = function() return overrides end end
      return mooncage.with(config, fn)
    end

    it("are apart, also where one's name begins another's", function() -- TN-03, TN-04, TR-19
      for _, tenant in ipairs { "tenant-1", "tenant-10" } do
        assert(as(tenant, function(session)
          assert(session:write("whose", tenant))
          local saved = assert(session:snapshot("id-of-" .. tenant))
          assert.equal(tenant, saved.tenant)
          return session:snapshot "same"
        end))
      end
      as("tenant-1", function(session)
        local result, err = session:restore "id-of-tenant-10"
        assert.is_nil(result)
        assert.equal("not_found", err.code)
        assert(session:restore "same")
        assert.equal("tenant-1", session:read "whose")
        return true
      end)
      assert.same({}, store:list()) -- nobody's part
      local own = store:of { tenant = "tenant-1" }
      local ids = {}
      for _, one in ipairs(own:list "") do ids[#ids + 1] = one.snapshot_id end
      assert.same({ "id-of-tenant-1", "same" }, ids)
      assert.equal("not_found", select(2, own:load "id-of-tenant-10").code)
      assert.equal("not_found", select(2, own:delete "id-of-tenant-10").code)
      assert.equal("", support.host("ls " .. directory .. "/store | grep tenant-1$"))
    end)

    it("are not to be swapped on the disk", function()
      for _, tenant in ipairs { "a", "b" } do
        assert(as(tenant, function(session) return session:snapshot "same" end))
      end
      support.host(([[cd %s/store && set -- tenant-* && mv "$1" x && mv "$2" "$1" && mv x "$2"]])
        :format(directory))
      as("a", function(session)
        local result, err = session:restore "same"
        assert.is_nil(result)
        assert.equal("protocol", err.code)
        return true
      end)
    end)

    it("have what a session leaves in its own part only", function()
      with({}, function(session)
        for _, part in ipairs { { tenant = "t" }, { store_prefix = "p" } } do
          local of = store:of(part)
          local ok, err = pcall(of.save, of, { id = "one", session = session })
          assert.is_false(ok)
          assert.equal("invalid", err.code)
        end
      end)
    end)

    it("share a part that is named for them", function()
      local shared = { store_prefix = "team" }
      assert(as("a", function(session)
        assert(session:write("whose", "a's"))
        return session:snapshot "same"
      end, shared))
      assert(as("b", function(session)
        assert(session:restore "same")
        assert.equal("a's", session:read "whose")
        return true
      end, shared))
      as("b", function(session)
        assert.equal("not_found", select(2, session:restore "same").code)
        return true
      end)
      assert.equal(1, #store:of { store_prefix = "team" }:list())
      local session, err = mooncage.open {
        tenant = "a", tenants = function() return { store_prefix = "../x" } end,
      }
      assert.is_nil(session)
      assert.equal("invalid", err.code)
    end)
  end)

  describe("hooks", function()
    it("hear of each once, after it is kept and before the sandbox goes", function()
      local heard = {}
      local hooks = {
        on_sandbox_snapshot = function(context, agent, session, metadata)
          assert(store:exists(metadata.snapshot_id))
          heard[#heard + 1] = ("%s %s %s@%d"):format(context.run_id, agent, metadata.snapshot_id,
            metadata.version)
          if metadata.snapshot_id == "one" then -- which is told of nothing again
            assert.equal("x", session:read "file")
            assert(session:snapshot "inner")
          end
          if metadata.snapshot_id == "two" then error "a hook that throws" end
        end,
        on_sandbox_stop = function(_, _, _, usage)
          heard[#heard + 1] = "stop " .. tostring(usage.snapshot_bytes > 0)
        end,
      }
      assert(mooncage.with({ snapshot_store = store, hooks = hooks, run_id = "r", agent = "me",
        snapshot = { id = "end" } }, function(session)
        assert(session:write("file", "x"))
        assert(session:snapshot "one")
        assert(session:snapshot "two")
        local usage = session:usage()
        assert.equal(store:show("one").size_bytes + store:show("two").size_bytes
          + store:show("inner").size_bytes, usage.snapshot_bytes)
        return true
      end))
      assert.same({ "r me one@1", "r me two@1", "r me end@1", "stop true" }, heard)
    end)
  end)

  describe("the audit log", function()
    it("has both ends of each, with bytes or the error", function()
      local events = {}
      local audit = mooncage.audit.callback(function(event)
        if event.op == "snapshot" or event.op == "restore" then events[#events + 1] = event end
      end)
      with({ audit = audit, tenant = "t" }, function(session)
        local saved = assert(session:snapshot "one")
        assert(session:restore "one")
        assert.is_nil((session:restore "none"))
        local said = {}
        for i, event in ipairs(events) do
          said[i] = ("%s %s %s %s"):format(event.op, event.phase, event.bytes == saved.size_bytes,
            event.error and event.error.code)
          assert.equal("t", event.tenant)
          assert.equal(i > 4 and "none" or "one", event.detail.snapshot_id)
        end
        assert.same({ "snapshot start false nil", "snapshot finish true nil",
          "restore start false nil", "restore finish true nil",
          "restore start false nil", "restore finish false not_found" }, said)
        assert.equal(saved.sha256, events[2].detail.sha256)
      end)
    end)
  end)

  describe("a fork", function()
    it("begins as a copy and goes its own way", function()
      local started = 0
      local config = {
        tenant = "t", run_id = "r", labels = { a = "b" }, snapshot = { id = "work" },
        manifest = { files = { temporary = { content = "t", ephemeral = true } } },
        hooks = { on_sandbox_start = function() started = started + 1 end },
        guardrail = function(command) return command.words[1] ~= "rm", "no" end,
        tools = { mine = function(_, session) return session.id end },
        tenants = function() return { quota = { sessions = 2 } } end,
      }
      with(config, function(session)
        assert(session:mkdir "d")
        assert(session:write("d/f", "one"))
        assert(session:exec { "ln", "-s", "d/f", "l" })
        local fork = assert(session:fork())
        assert.equal(2, started)
        assert.not_equal(session.id, fork.id)
        assert.equal("t", fork.tenant)
        assert.same({ a = "b" }, fork.labels)
        assert.equal("one", fork:read "l")
        assert.equal("t", fork:read "temporary")
        assert(fork:write("d/f", "two"))
        assert.equal("one", session:read "d/f")
        assert.equal("command_denied", select(2, fork:exec "rm -rf d").code)
        assert.equal(fork.id, fork:call_tool "mine")
        local none, err = session:fork() -- its tenant has two
        assert.is_nil(none)
        assert.equal("quota", err.code)
        assert(fork:close())
        assert.is_nil((store:of({ tenant = "t" }):show "work"))
      end)
      assert.is_true(store:of({ tenant = "t" }):exists "work")
    end)

    it("is refused where the workspace is the host's", function()
      support.host(("mkdir %s/mine"):format(directory))
      with({ backend = mooncage.subprocess { working_directory = directory .. "/mine" } },
        function(session)
          local fork, err = session:fork()
          assert.is_nil(fork)
          assert.equal("snapshot_unsupported", err.code)
        end)
    end)

    for _, each in ipairs(support.sandboxes()) do
      it("works on " .. each.name, function()
        with({ backend = each.backend() }, function(session)
          assert(session:write("f", ("x"):rep(3000000)))
          local fork = assert(session:fork())
          assert.equal(3000000, #fork:read "f")
          assert(fork:close())
        end)
      end)
    end
  end)

  describe("a session that is kept", function()
    it("are taken and brought back by who took it up", function()
      with({ tenant = "t" }, function(session)
        support.host("mkdir -m 700 " .. directory .. "/keep")
        assert(session:_keep(directory .. "/keep/s"))
        local other = assert(mooncage.resume(session:state()))
        assert(session:write("file", "x"))
        local saved = assert(other:snapshot "one")
        local running = assert(session:start "sleep 100")
        assert(session:remove "file")
        assert(other:restore "one")
        assert.equal("x", session:read "file")
        assert.equal("SIGKILL", assert(running:wait()).signal) -- of another client, and ended too
        assert(other:close())
        assert.equal(saved.size_bytes, session:usage().snapshot_bytes)
        other = assert(mooncage.resume(session:state()))
        assert.equal("one@1", assert(other:snapshot "two").parent)
        assert.equal("unsupported", select(2, other:fork()).code)
        assert(other:close())
        assert.equal("two@1", assert(session:snapshot "one").parent)
      end)
      assert.is_true(store:of({ tenant = "t" }):exists "one")
    end)
  end)

  it("a moving tree never hold anything of the host", function() -- TR-20
    with({}, function(session)
      assert(session:exec([[mkdir d; i=0; while :; do
        echo text > d/f; rm -f d/f; ln -s /etc/hostname d/f; rm -f d/f
        head -c 100000 /dev/zero > d/g; : > d/g; mv d e 2>/dev/null; mv e d 2>/dev/null
        i=$((i+1)); done]], { detach = true }))
      local saved = 0
      for _ = 1, 20 do
        local metadata, err = session:snapshot "moving"
        if metadata then
          saved = saved + 1
          support.host(("cd %s && rm -rf out && mkdir out"):format(directory))
          assert(store:load("moving", directory .. "/out.tar"))
          local said = support.host(([[cd %s && tar -C out -xf out.tar 2>&1 &&
            find out -type f -name f -exec cat {} +]]):format(directory))
          assert.is_true(said == "" or said == "text\n", said)
        else
          assert.not_equal("internal", err.code)
        end
      end
      assert.is_true(saved > 0)
    end)
  end)
end)
