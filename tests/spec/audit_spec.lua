-- The audit log from Lua: what each thing leaves in it, and that nothing happens without.
local mooncage = require "mooncage"
local support = require "support"

local directory, path

local function events(of)
  local list = {}
  for line in (support.read_file(of or path) or ""):gmatch "[^\n]+" do
    list[#list + 1] = assert(mooncage.json.decode(line))
  end
  return list
end

---"op phase" of each, but for opening and closing.
local function said(list)
  local words = {}
  for _, event in ipairs(list) do
    if event.op ~= "open" and event.op ~= "close" then
      words[#words + 1] = event.op .. " " .. event.phase
    end
  end
  return words
end

local function jsonl(options)
  local all = { path = path }
  for key, value in pairs(options or {}) do all[key] = value end
  return mooncage.audit.jsonl(all)
end

describe("the audit log", function()
  support.leaves_nothing(function()
    directory = support.temporary()
    path = directory .. "/audit.jsonl"
  end, function()
    support.host("chmod -R u+w " .. directory .. "; rm -rf " .. directory)
  end)

  for _, each in ipairs(support.sandboxes()) do
    it("tells of opening and closing, on " .. each.name, function()
      local session = assert(mooncage.open {
        backend = each.backend(), audit = jsonl(), run_id = "r1", tenant = "t1",
      })
      assert(session:close())
      local list = events()
      assert.same({ "open", "open", "close" }, { list[1].op, list[2].op, list[3].op })
      assert.same({ "start", "finish", "point" }, { list[1].phase, list[2].phase, list[3].phase })
      assert.equal(list[1].id, list[2].id)
      for _, event in ipairs(list) do
        assert.equal(session.id, event.session)
        assert.equal("r1", event.run_id)
        assert.equal("t1", event.tenant)
        assert.equal(session.backend, event.backend)
      end
      assert.same(session.enforcement, list[2].enforcement)
      assert.same(session:usage(), list[3].usage)
    end)
  end

  it("tells of an open that failed", function()
    local session, err = mooncage.open { audit = jsonl(), manifest = { base = directory,
      copies = { { from = "nothing", to = "x" } } } }
    assert.is_nil(session)
    local list = events()
    assert.equal("finish", list[2].phase)
    assert.equal(err.code, list[2].error.code)
    assert.equal(2, #list)
  end)

  it("tells of each file call, with its path and size", function()
    local session = assert(mooncage.open { audit = jsonl() })
    assert(session:write("a", "12345"))
    assert.equal("12345", session:read "a")
    assert(session:mkdir "d")
    assert(session:move("a", "d/b"))
    assert(session:list ".")
    assert(session:stat "d")
    assert(session:remove "d")
    assert.is_nil(session:read "nothing")
    session:close()
    local list = events()
    local words = {}
    for _, event in ipairs(list) do
      if event.phase == "start" and event.op ~= "open" then
        local call = event.detail and " " .. event.detail.call or ""
        words[#words + 1] = event.op .. " " .. event.path .. call
      end
    end
    assert.same({ "write a", "read a", "write d mkdir", "write a move", "read . list",
      "read d stat", "write d remove", "read nothing" }, words)
    assert.equal(5, list[3].bytes)
    assert.equal(5, list[6].bytes)
    assert.equal("d/b", list[9].detail.to)
    assert.equal("not_found", list[#list - 1].error.code)
  end)

  it("tells of copies, and of the workspace as a stream", function()
    support.write_file(directory .. "/in", "x")
    local session = assert(mooncage.open { audit = jsonl() })
    assert(session:upload(directory .. "/in", "up"))
    assert(session:download("up", directory .. "/out"))
    assert(session:persist_workspace(directory .. "/tar"))
    assert(session:restore_workspace(directory .. "/tar"))
    session:close()
    local calls = {}
    for _, event in ipairs(events()) do
      if event.phase == "start" and event.detail then calls[#calls + 1] = event.detail.call end
    end
    assert.same({ "upload", "download", "persist_workspace", "restore_workspace" }, calls)
  end)

  it("tells which limit ended a session", function()
    local session = assert(mooncage.open { audit = jsonl(), limits = { wall_s = 0.1 } })
    mooncage.sleep(0.3)
    session:close()
    local list = events()
    local limit, close = list[3], list[4]
    assert.same({ "limit", "point", "timeout" }, { limit.op, limit.phase, limit.error.code })
    assert.equal("wall_s", limit.detail.limit)
    assert.equal("timeout", close.error.code)
  end)

  it("tells of a hook that throws", function()
    local session = assert(mooncage.open {
      audit = jsonl(), hooks = { on_sandbox_start = function() error "no" end },
    })
    session:close()
    local hook = events()[3]
    assert.same({ "hook_error", "on_sandbox_start" }, { hook.op, hook.detail.hook })
  end)

  it("says nothing of sandboxes that are only parked", function()
    support.write_file(directory .. "/pool.lua", ([[
      local mooncage = require "mooncage"
      local config = { audit = mooncage.audit.jsonl { path = "%s" }, pool = { size = 2 } }
      for _ = 1, 2 do
        local session = assert(mooncage.open(config))
        print(session.id)
        mooncage.sleep(0.3)
        session:close()
      end]]):format(path))
    local ids, opened = {}, {}
    for id in support.host(support.lua .. " " .. directory .. "/pool.lua"):gmatch "%S+" do
      ids[id] = true
    end
    for _, event in ipairs(events()) do opened[event.session] = true end
    assert.same(ids, opened)
    assert.equal(6, #events())
  end)

  it("goes to all sinks, and to each once", function()
    local heard = {}
    local other = directory .. "/other.jsonl"
    local session = assert(mooncage.open { audit = {
      jsonl(), jsonl(), mooncage.audit.jsonl { path = other, durable = true },
      mooncage.audit.callback(function(event, line)
        assert.same(event, mooncage.json.decode(line))
        heard[#heard + 1] = event.op .. " " .. event.phase
      end),
    } })
    assert(session:write("a", "x"))
    session:close()
    local expected = { "open start", "open finish", "write start", "write finish", "close point" }
    assert.same(expected, heard)
    for _, file in ipairs { path, other } do
      local words = {}
      for i, event in ipairs(events(file)) do words[i] = event.op .. " " .. event.phase end
      assert.same(expected, words)
    end
  end)

  it("does not do what one sink cannot have, and says so in the other", function()
    local gone = directory .. "/gone"
    support.host("mkdir " .. gone)
    local session = assert(mooncage.open { audit = {
      jsonl(), mooncage.audit.jsonl { path = gone .. "/a.jsonl" },
    } })
    support.host("rm -r " .. gone)
    local ok, err = session:write("a", "x")
    assert.is_nil(ok)
    assert.equal("audit_failed", err.code)
    assert.is_truthy(err.fix:match "%-%-audit")
    local list = events()
    assert.same({ "write", "finish", "audit_failed" },
      { list[4].op, list[4].phase, list[4].error.code })
    support.host("mkdir " .. gone)
    assert.equal("not_found", select(2, session:read "a").code) -- it was never written
    session:close()
    assert.is_true(#events(gone .. "/a.jsonl") > 0)
  end)

  it("keeps what has happened until it can be written", function()
    local gone = directory .. "/gone"
    support.host("mkdir " .. gone)
    local file = gone .. "/a.jsonl"
    local session = assert(mooncage.open { audit = {
      mooncage.audit.callback(function(event)
        if event.op == "write" and event.phase == "start" then support.host("rm -r " .. gone) end
      end),
      mooncage.audit.jsonl { path = file },
    } })
    assert(session:write("a", "x"))
    support.host("mkdir " .. gone)
    session:close()
    assert.same({ "recovered point", "write finish" }, said(events(file)))
  end)

  it("has a file of its own where it is asked for, and one with others", function()
    local dir = directory .. "/logs"
    for _, own in ipairs { true, true, false } do
      local session = assert(mooncage.open {
        audit = mooncage.audit.jsonl { dir = dir, own = own },
      })
      session:close()
    end
    local names = {}
    for name in support.host("ls " .. dir):gmatch "%S+" do
      name = name:gsub("^%d+%-%d%d%d%d%-%d%d", ""):gsub("%-%w%w%w%w%w%w%w%w%f[.]", "-ID")
      names[#names + 1] = name
    end
    table.sort(names)
    assert.same({ "-ID.jsonl", ".jsonl" }, names)
  end)

  it("waits for a function, and for no longer than a hook", function()
    local session, err = mooncage.open {
      audit = mooncage.audit.callback(function() mooncage.sleep(60) end), hook_timeout_s = 0.05,
    }
    assert.is_nil(session)
    assert.equal("audit_failed", err.code)
  end)

  it("takes a thousand at once, durable, each before it is done", function()
    local session = assert(mooncage.open { audit = jsonl { durable = true } })
    local tasks = {}
    for i = 1, 1000 do
      tasks[i] = mooncage.spawn(function() return assert(session:stat ".") end)
    end
    assert(mooncage.join(tasks))
    session:close()
    local started, ended = {}, 0
    for _, event in ipairs(events()) do
      if event.op == "read" and event.phase == "start" then started[event.id] = true end
      if event.op == "read" and event.phase == "finish" then
        assert.is_true(started[event.id])
        ended = ended + 1
      end
    end
    assert.equal(1000, ended)
  end)

  it("is not the only place without secrets: errors and log lines have none", function()
    local secret = "hunter2/hunter2" -- also as base64, which nobody else would write
    local kept, lines = mooncage.secret(secret), {}
    local session = assert(mooncage.open {
      audit = false, environment = { TOKEN = kept },
      on_log = function(_, text) lines[#lines + 1] = text end,
      guardrail = function(command)
        if command.argv[1] == "warn" then return { warn = "beware of " .. secret } end
        return command.argv[1] == "cat", "not with " .. secret
      end,
    })
    local errors = {}
    for _, command in ipairs { { secret }, { "warn" }, { "cat", secret } } do
      local _, err = session:exec(command, { cwd = command[1] == "cat" and "/" .. secret or nil })
      if err then errors[#errors + 1] = err.message end
    end
    errors[#errors + 1] = select(2, session:read(secret)).message
    for _, refused in ipairs { -- at once: nothing runs
      function() return session:read("../" .. secret) end,
      function() return session:move("a", "../" .. secret) end,
      function() return session:upload("/dev/null", "../" .. secret) end,
      function() return session:download("../" .. secret, "/dev/null") end,
    } do
      errors[#errors + 1] = select(2, refused()).message
    end
    local _, misuse = pcall(session.exec, session, { "true" }, { env = { ["A=" .. secret] = "" } })
    errors[#errors + 1] = misuse
    session:close()
    assert.equal(8, #errors)
    local all = table.concat(errors, "\n") .. table.concat(lines, "\n")
    assert.is_nil(all:find("hunter2", 1, true))
    assert.matches("not with ***", errors[1], 1, true)
    assert.matches("beware of ***", all, 1, true)
  end)

  it("knows secrets of many lines, cut ones and those of odd bytes in errors, too", function()
    for _, secret in ipairs {
      "--BEGIN KEY--\nMIIEhunter2hunter2\nhunter2/hunter2\n--END KEY--", "a\thunter2\27[2J",
      "HUNTER2-Hunter2-hunter2", ("L"):rep(4000) .. "hunter2\nhunter2" .. ("x"):rep(500),
    } do
      local kept, all = mooncage.secret(secret), {}
      local session = assert(mooncage.open {
        audit = jsonl(), environment = { TOKEN = kept },
        on_log = function(_, text) all[#all + 1] = text end,
      })
      for _, try in ipairs {
        function() return session:read(secret) end,
        function() return session:write(("d"):rep(180) .. "/" .. secret, "") end,
        function() return session:read("../" .. secret) end,
        function() return session:exec({ "true" }, { cwd = "/" .. secret }) end,
        function() return session:exec({ "true" }, { [secret] = 1 }) end,
        function() return session:set_network { allow = { secret } } end,
        function() return session:set_network { allow = { secret .. ".test:0" } } end,
        function() return session:call_tool(secret, {}) end,
        function() return session:call_tool("read_file", { [secret] = "" }) end,
        function() return mooncage.open { [secret] = 1 } end,
        function() return mooncage.open { candidates = { secret } } end,
        function() return mooncage.open { requirements = { region = secret } } end,
        function() return mooncage.policy("./" .. secret) end,
        function() return mooncage.resume(secret) end,
      } do
        local ok, none, err = pcall(try)
        err = ok and err or none
        assert.is_truthy(ok and none == nil or err)
        all[#all + 1] = tostring(err) .. (type(err) == "table" and err.fix or "")
      end
      session:close()
      local told = table.concat(all, "\n") .. support.read_file(path)
      assert.is_nil(told:lower():find("hunter2", 1, true))
      assert.is_nil(told:find(("L"):rep(20), 1, true))
      assert.matches("***", told, 1, true)
    end
  end)

  it("has no secret in it, however it got there", function()
    local secret = mooncage.secret "very/secret"
    local session = assert(mooncage.open {
      audit = jsonl(), environment = { TOKEN = secret },
      manifest = { environment = { OTHER = { secret = "another-one" } } },
    })
    session:write("very/secret", "very/secret")
    session:read "another-one"
    session:exec { "echo", "very/secret", "another-one" }
    session:close()
    local text = support.read_file(path)
    assert.is_nil(text:find("very/secret", 1, true))
    assert.is_nil(text:find("another-one", 1, true))
    assert.is_truthy(text:find("***", 1, true))
  end)

  it("refuses options it does not know, where they are written", function()
    assert.error_matches(function() mooncage.audit.jsonl { pth = "x" } end, "did you mean 'path'")
    assert.error_matches(function() mooncage.audit.jsonl { path = 1 } end, "must be a string")
    assert.error_matches(function() mooncage.audit.callback() end, "expected a function")
    assert.error_matches(function() mooncage.audit.stderr { x = 1 } end, "unknown option")
    for text, audit in pairs {
      ["leave one of the two out"] = mooncage.audit.jsonl { path = "/a", dir = "/b" },
      ["audit = false"] = {},
    } do
      local session, err = mooncage.open { audit = audit }
      assert.is_nil(session)
      assert.equal("invalid", err.code)
      assert.is_truthy(err.fix:find(text, 1, true))
    end
  end)

  it("uses what a price says in usage", function()
    local session = assert(mooncage.open {
      backend = mooncage.jail { cost = { usd_per_minute = 6 } }, audit = jsonl(),
    })
    session:close()
    local usage = session:usage()
    assert.equal(6, usage.rate_used)
    assert.equal("candidate", usage.cost_source)
    assert.is_true(math.abs(usage.estimated_usd - usage.wall_clock_s / 10) < 1e-9)
    local list = events()
    assert.same(usage, list[#list].usage)
  end)
end)
