-- Sessions: opening, closing, facts and figures, and what is wrong with a configuration.
local core = require "mooncage.core"
local mooncage = require "mooncage"
local support = require "support"

local function opened(config)
  local session, err = mooncage.open(config)
  if session then session:close() end
  return session, err
end

describe("open", function()
  support.leaves_nothing()

  it("opens a jail when nothing is said", function()
    local session = assert(mooncage.open())
    assert.equal("jail", session.backend)
    assert.equal("hi\n", assert(session:exec "echo hi").stdout)
    assert.is_true(session:close())
  end)

  it("refuses an unknown key, with the nearest", function()
    local session, err = opened { limitz = {} }
    assert.is_nil(session)
    assert.equal("invalid", err.code)
    assert.truthy(tostring(err):find("limitz", 1, true))
    assert.truthy((err.message .. (err.fix or "")):find("limits", 1, true))
  end)

  it("refuses a wrong type, with the path to it", function()
    local _, err = opened { limits = { memory_mb = "lots" } }
    assert.equal("invalid", err.code)
    assert.truthy(err.message:find("limits.memory_mb", 1, true))
  end)

  it("refuses a backend that there is not", function()
    local _, err = opened { backend = { id = "jial" } }
    assert.equal("invalid", err.code)
    assert.truthy((err.message .. (err.fix or "")):find("jail", 1, true))
  end)

  it("refuses a working directory or rootfs that is missing", function()
    local _, err = opened { backend = mooncage.jail { rootfs = "/no/such/rootfs" } }
    assert.is_not_nil(err)
    assert.truthy(tostring(err):find("/no/such/rootfs", 1, true))
  end)

  it("raises for what is no data", function()
    assert.error_matches(function() mooncage.open { limits = { memory_mb = print } } end,
      "config.limits.memory_mb: a function cannot be given here")
    assert.error_matches(function() mooncage.open { labels = { a = 0 / 0 } } end, "NaN")
    local ring = {}
    ring.labels = ring
    assert.error_matches(function() mooncage.open(ring) end, "contains itself")
    assert.error_matches(function() mooncage.open { labels = { 1, a = 2 } } end, "both names")
  end)

  it("takes empty lists and tables", function()
    local session = assert(mooncage.open { labels = {}, limits = {},
      backend = mooncage.jail { binds = {} } })
    session:close()
  end)

  it("refuses a written limit that the backend cannot keep", function()
    local _, err = opened { backend = mooncage.subprocess(), limits = { memory_mb = 64 } }
    assert.equal("unenforceable", err.code)
    assert.is_string(err.fix)
  end)

  it("refuses an isolation that the backend does not have", function()
    local _, err = opened { backend = mooncage.subprocess(),
      requirements = { min_isolation = "namespace" } }
    assert.truthy(err.code == "no_candidate" or err.code == "unenforceable", err.code)
  end)

  it("is canceled with its task, and leaves nothing", function()
    for _ = 1, 3 do
      local task = mooncage.spawn(function() return mooncage.open() end)
      mooncage.sleep(0)
      task:cancel()
      local session, err = task:wait()
      if session then session:close() end
      assert.equal("canceled", err and err.code)
    end
  end)
end)

describe("a candidate", function()
  it("is plain data with the backend's options", function()
    assert.same({ id = "jail", options = { profile = "strict" }, name = "hard" },
      mooncage.jail { profile = "strict", name = "hard" })
  end)

  it("refuses an unknown option, with the nearest, and a wrong type", function()
    local ok, message = pcall(function()
      local candidate = mooncage.jail { profil = "strict" }
      return candidate -- no tail call: the line is to be blamed
    end)
    assert.is_false(ok)
    assert.truthy(message:match "session_spec.lua:%d+: .*'profil' %(did you mean 'profile'%?%)")
    assert.error_matches(function() mooncage.jail { profile = 3 } end,
      "must be a string, not a number")
    assert.error_matches(function() mooncage.jail "strict" end, "must be a table")
  end)

  it("of a backend that there is not is nil", function()
    assert.is_nil(mooncage.no_such_backend)
  end)

  it("of subprocess warns", function()
    local lines = {}
    core.on_log(function(level, message) lines[#lines + 1] = level .. ": " .. message end)
    mooncage.subprocess()
    mooncage.sleep(0.01)
    core.on_log(nil)
    assert.truthy(lines[1]:match "^warning: subprocess isolates nothing")
  end)
end)

describe("a session", function()
  support.leaves_nothing()

  it("has its facts as fields", function()
    local session = assert(mooncage.open { labels = { job = "17" }, tenant = "acme" })
    assert.is_true(#session.id >= 20)
    assert.equal("jail", session.backend)
    assert.same({ job = "17" }, session.labels)
    assert.equal("acme", session.tenant)
    assert.is_true(math.abs(session.created_at - os.time()) < 60)
    assert.is_table(session.enforcement)
    assert.is_not_nil(next(session.enforcement))
    assert.is_nil(session.no_such_field)
    assert.truthy(tostring(session):find(session.id, 1, true))
    session:close()
  end)

  it("tells what subprocess does not do", function()
    local session = assert(mooncage.open { backend = mooncage.subprocess() })
    assert.truthy(session.warnings[1]:match "isolates nothing")
    session:close()
  end)

  it("closes more than once, and answers no command afterwards", function()
    local session = assert(mooncage.open())
    assert.is_true(session:close())
    assert.is_true(session:close())
    local result, err = session:exec "true"
    assert.is_nil(result)
    assert.is_string(err.code)
    assert.equal("closed", session:info().state)
  end)

  it("is closed by two tasks at once", function()
    local session = assert(mooncage.open())
    local function closer() return mooncage.spawn(function() return session:close() end) end
    assert.same({ true, true }, mooncage.join { closer(), closer() })
  end)

  it("is closed by a canceled task", function()
    local done
    local task = mooncage.spawn(function()
      local session = assert(mooncage.open())
      mooncage.sleep(60)
      done = session:close()
    end)
    mooncage.sleep(0.2)
    task:cancel()
    task:wait()
    assert.is_true(done)
  end)

  it("leaves no process of its own behind when it closes", function()
    local session = assert(mooncage.open())
    assert(session:exec "setsid sleep 87 & setsid sleep 87 &")
    session:close()
    assert.equal("", support.host "pgrep -f '^sleep 87$'")
  end)

  it("counts what was used", function()
    local session = assert(mooncage.open())
    assert(session:exec "true")
    assert(session:exec "sleep 0.02")
    local usage = session:usage()
    assert.equal(2, usage.exec_count)
    assert.is_true(usage.exec_s >= 0.02)
    assert.is_true(usage.wall_clock_s >= usage.exec_s * 0.5)
    session:close()
  end)

  it("tells live figures and its processes", function()
    local session = assert(mooncage.open())
    local process = assert(session:start { "sleep", "86" })
    mooncage.sleep(0.05)
    local stats = assert(session:stats())
    assert.is_table(stats)
    local found
    for _, each in ipairs(assert(session:processes())) do
      if each.command:find("sleep", 1, true) then found = each end
    end
    assert.is_number(found.pid)
    assert.is_number(found.ppid)
    process:cancel()
    process:wait()
    session:close()
  end)

  it("without a keeper has no state to resume from", function()
    local session = assert(mooncage.open())
    local state, err = session:state()
    assert.is_nil(state)
    assert.equal("unsupported", err.code)
    session:close()
  end)

  it("that is collected unclosed is said, and taken down", function()
    local lines = {}
    core.on_log(function(level, message) lines[#lines + 1] = level .. ": " .. message end)
    do
      local session = assert(mooncage.open())
      assert(session:exec "sleep 85 &")
    end
    for _ = 1, 200 do
      collectgarbage()
      mooncage.sleep(0.01)
      if lines[1] and support.host "pgrep -f '^sleep 85$'" == "" then break end
    end
    core.on_log(nil)
    assert.truthy(table.concat(lines, "\n"):match "close")
    assert.equal("", support.host "pgrep -f '^sleep 85$'")
  end)

  it("is one of many side by side", function()
    local tasks = {}
    for i = 1, 20 do
      tasks[i] = mooncage.spawn(function()
        return mooncage.with({}, function(session)
          return assert(session:exec("echo " .. i)).stdout
        end)
      end)
    end
    local results = assert(mooncage.join(tasks))
    for i = 1, 20 do assert.equal(i .. "\n", results[i]) end
  end)

  it("that gets no descriptors any more is refused with `quota`", function()
    local output = support.host(([[ulimit -n 48; %s -e '
      local mooncage = require "mooncage"
      local sessions = {}
      while #sessions < 100 do
        local session, err = mooncage.open()
        if not session then
          print(err.code, type(err.fix))
          break
        end
        sessions[#sessions + 1] = session
      end
      for _, session in ipairs(sessions) do
        assert(session:exec("true") or true)
        assert(session:close())
      end
      print "closed"' 2>&1]]):format(support.lua))
    assert.equal("quota\tstring\nclosed\n", output)
  end)

  it("has a wall limit", function()
    local session = assert(mooncage.open { limits = { wall_s = 0.2 } })
    local result, err = session:exec "sleep 60"
    assert.is_nil(result)
    assert.equal("timeout", err.code)
    session:close()
  end)

  it("has a limit for each command", function()
    local session = assert(mooncage.open { limits = { exec_s = 0.2 } })
    assert.is_true(assert(session:exec "sleep 60").timed_out)
    assert.is_true(assert(session:exec "true").ok)
    session:close()
  end)

  it("gives its environment to commands, secrets too, and shows none", function()
    local session = assert(mooncage.open {
      environment = { PLAIN = "p", TOKEN = mooncage.secret "s3cret" },
    })
    assert.equal("p s3cret\n", assert(session:exec "echo $PLAIN $TOKEN").stdout)
    local result = assert(session:exec("echo $PLAIN", { env = { PLAIN = "other" } }))
    assert.equal("other\n", result.stdout)
    assert.falsy(mooncage.json.encode(session:info()):find("s3cret", 1, true))
    session:close()
  end)
end)

describe("with", function()
  support.leaves_nothing()

  it("closes and returns what the function returns", function()
    local kept
    local a, b = mooncage.with({}, function(session)
      kept = session
      return session:exec("echo x").stdout, 2
    end)
    assert.equal("x\n", a)
    assert.equal(2, b)
    assert.equal("closed", kept:info().state)
  end)

  it("blames the caller's line for what cannot be said of a config", function()
    local bad = { labels = { a = 0 / 0 } }
    for _, call in pairs {
      function() mooncage.open(bad) end, function() mooncage.with(bad, print) end,
      function() mooncage.select(bad) end, function() return (mooncage.open(bad)) end,
    } do
      local ok, thrown = pcall(call)
      assert.is_false(ok)
      assert.matches("^%S*session_spec.lua:%d+: mooncage: config.labels.a: NaN", thrown)
    end
  end)

  it("may ask for live costs where there is nobody to ask", function()
    assert(mooncage.with({ capture_live_cost = true, audit = false }, function(session)
      return session:usage().reported_usd == nil
    end))
  end)

  it("closes and throws on what the function throws", function()
    local kept
    local thrown = { code = "mine" }
    local ok, err = pcall(mooncage.with, {}, function(session)
      kept = session
      error(thrown)
    end)
    assert.is_false(ok)
    assert.equal(thrown, err)
    assert.equal("closed", kept:info().state)
  end)

  it("does not call the function when nothing could be opened", function()
    local called = false
    local value, err = mooncage.with({ nonsense = 1 }, function() called = true end)
    assert.is_nil(value)
    assert.equal("invalid", err.code)
    assert.is_false(called)
  end)
end)

describe("a secret", function()
  it("is never shown", function()
    local secret = mooncage.secret "s3cret"
    assert.equal("[redacted]", tostring(secret))
    assert.equal('{"key":"[redacted]"}', mooncage.json.encode { key = secret })
    assert.has_error(function() return "a" .. secret end)
  end)

  it("comes from a file, without the newline at its end", function()
    local directory = support.temporary()
    support.write_file(directory .. "/token", "s3cret\n")
    local secret = assert(mooncage.secret_file(directory .. "/token"))
    local session = assert(mooncage.open { environment = { TOKEN = secret } })
    assert.equal("<s3cret>", assert(session:exec 'printf "<%s>" "$TOKEN"').stdout)
    session:close()
    local nothing, err = mooncage.secret_file(directory .. "/missing")
    assert.is_nil(nothing)
    assert.equal("not_found", err.code)
    support.host("rm -r " .. directory)
  end)
end)
