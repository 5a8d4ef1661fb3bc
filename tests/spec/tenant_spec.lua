-- Tenants: what a session of one is opened with, and what happens when the function that says so
-- does not do what it should.
local mooncage = require "mooncage"
local support = require "support"

---Opens for a tenant and gives the session's facts, or nil and the error; closes it.
local function opened(tenants, more)
  local config = { tenant = "acme", tenants = tenants }
  for key, value in pairs(more or {}) do config[key] = value end
  local session, err = mooncage.open(config)
  if not session then return nil, err end
  local info = session:info()
  session:close()
  return info
end

local function refused(tenants, more)
  local info, err = opened(tenants, more)
  assert.is_nil(info)
  assert.is_nil(err.backend) -- nobody had chosen one
  return err
end

describe("tenants", function()
  support.leaves_nothing()

  it("are asked with the id, the config and the context", function()
    local seen
    local info = assert(opened(function(...)
      seen = { n = select("#", ...), ... }
      return { limits = { exec_s = 20 }, labels = { plan = "small" } }
    end, { limits = { exec_s = 100 }, labels = { team = "x" }, context = { ticket = 7 },
      environment = { T = mooncage.secret "s3cret" } }))
    assert.equal("acme", info.tenant)
    assert.equal(20, info.limits.exec_s)
    assert.same({ team = "x", plan = "small" }, info.labels)
    assert.equal(3, seen.n)
    assert.equal("acme", seen[1])
    assert.equal(100, seen[2].limits.exec_s)
    assert.equal("[redacted]", tostring(seen[2].environment.T))
    assert.is_nil(seen[2].tenants)
    assert.equal("acme", seen[3].tenant)
    assert.equal(7, seen[3].ticket)
    -- printf acme | sha256sum
    assert.equal("822b33ad87c148a0a20a5ba7cd5ebcaa", seen[3].tenant_key)
  end)

  it("are asked for a session of none, too", function()
    local asked
    local session = mooncage.open { tenants = function(id) asked = { id } return {} end }
    assert(session):close()
    assert.same({}, asked)
    local none, err = mooncage.open { tenants = function(id) return id and {} or nil end }
    assert.is_nil(none)
    assert.equal("no_candidate", err.code)
  end)

  it("cannot loosen", function() -- TN-10
    for _, overrides in ipairs {
      { limits = { exec_s = 101 } }, { limits = { memory_mb = 1025 } }, { network = "host" },
      { enforcement = "best_effort" }, { audit = false },
      { candidates = { mooncage.subprocess {} } },
    } do
      local err = refused(function() return overrides end, { limits = { exec_s = 100 } })
      assert.equal("invalid", err.code)
      assert.matches('tenant "acme": ', err.message, 1, true)
      assert.matches("tighten", err.fix)
    end
  end)

  it("set options of candidates as far as these let them", function()
    local key = mooncage.secret "of-acme-only"
    local session = assert(mooncage.open { tenant = "acme", backend = mooncage.jail {
      profile = "packages", binds = { "/etc:/workspace/etc", "/usr:/workspace/usr" } },
      tenants = function() return { credentials = { jail = {
        environment = { KEY = key }, profile = "strict", binds = { "/usr:/workspace/usr" },
      } } } end })
    assert.equal("of-acme-only etc usr\n", session:exec(
      "echo $KEY $(test -d etc/ssl || echo etc) $(test -d usr/bin && echo usr)").stdout)
    session:close()
    for says, overrides in pairs {
      ["credentials.jail.binds: a tenant cannot set it"] =
        { credentials = { jail = { binds = { "/etc:/workspace/etc" } } } },
      ["candidates[1].options.rootfs: a tenant cannot set it"] =
        { candidates = { mooncage.jail { rootfs = "/" } } },
      ['"debug" is looser than "default"'] = { credentials = { jail = { profile = "debug" } } },
    } do
      local err = refused(function() return overrides end)
      assert.equal("invalid", err.code)
      assert.matches(says, err.message, 1, true)
      assert.matches("%w", err.fix)
    end
  end)

  it("pay what the configuration says for candidates of their own", function()
    local config = { backend = mooncage.jail { cost = { usd_per_minute = 1 } } }
    local own
    local function tenants() return { candidates = { own }, quota = { usd = 1000 } } end
    own = mooncage.jail { name = "mine" }
    local session = assert(mooncage.open { tenant = "acme", tenants = tenants,
      backend = config.backend })
    assert.equal("mine", session.name)
    assert.equal(1, session:usage().rate_used)
    session:close()
    own = mooncage.jail { cost = { usd_per_minute = 0 } }
    local err = refused(tenants, config)
    assert.equal("invalid", err.code)
    assert.matches("candidates[1].cost: a tenant cannot set it", err.message, 1, true)
    assert.matches("%w", err.fix)
    own = mooncage.jail {}
    config.requirements = { max_usd_per_minute = 0.5 }
    assert.matches("it costs 1 USD a minute", refused(tenants, config).message, 1, true)
  end)

  it("share max_sessions of the configuration's candidate", function()
    local backend, candidates = mooncage.jail { max_sessions = 2 }, { "jail" }
    local open = {}
    local function one(name, max_sessions)
      if name then candidates = { mooncage.jail { name = name, max_sessions = max_sessions } } end
      local session, err = mooncage.open { tenant = "acme", backend = backend,
        tenants = function() return { candidates = candidates } end }
      open[#open + 1] = session
      return session and session.name, err
    end
    assert.equal("jail", one()) -- the one that is being opened does not count
    assert.equal("mine", one "mine")
    for _, name in ipairs { "mine", "yours", "jail" } do
      local none, err = one(name)
      assert.is_nil(none)
      assert.equal("quota", err.code)
      assert.matches("has its 2 sessions already", err.message, 1, true)
    end
    table.remove(open):close()
    assert.equal("few", one("few", 1)) -- of its own name
    table.remove(open, 1):close()
    assert.matches("has its 1 sessions already", select(2, one("few", 1)).message, 1, true)
    assert.equal("more", one("more", 2))
    for _, session in ipairs(open) do session:close() end
    assert.equal("invalid", select(2, one("most", 3)).code)
  end)

  it("that are denied are told why", function()
    local err = refused(function() return nil, "no more of you" end)
    assert.equal("no_candidate", err.code)
    assert.matches('tenant "acme" is denied: no more of you', err.message, 1, true)
    assert.matches("is denied$", refused(function() end).message)
    err = refused(function() return nil, "bell \7 and \27[31m" end)
    assert.is_nil(err.message:find "%c")
  end)

  it("of a function that does not do what it should get nothing", function() -- LU-03 to 13
    local functions = {
      ["boom"] = function() error "boom" end,
      ["neither a text nor an error"] = function() error {} end,
      ["returned a number"] = function() return 7 end,
      ["returned a boolean"] = function() return true end,
      ["returned a string"] = function() return "allow" end,
      ["unknown key"] = function() return { allow = true } end,
      ["expected a table, found a string"] = function() return { limits = "false" } end,
      ["names and list items"] = function() return { {}, limits = {} } end,
      ["NaN and infinity"] = function() return { limits = { memory_mb = 0 / 0 } } end,
      ["a function cannot be given"] = function() return { limits = print } end,
      ["processor time"] = function() while true do end end,
      ["more than 1 s"] = function()
        while true do pcall(function() while true do end end) end
      end,
      ["yielded"] = function() coroutine.yield() end,
      ["cannot wait"] = function() mooncage.sleep(0.01) end,
      ["throws, too"] = function()
        error(setmetatable({ message = "throws, too" }, { __tostring = error }))
      end,
    }
    for says, fn in pairs(functions) do
      local err = refused(fn)
      assert.matches(says, err.message, 1, true)
      assert.is_true(err.code == "invalid" or err.code == "timeout", says)
      assert.matches("%w", err.fix)
    end
    assert.is_true(#refused(function() error(("A"):rep(1e7)) end).message < 5000)
  end)

  it("cannot change the config they are shown", function() -- LU-11
    local info = assert(opened(function(_, config)
      config.limits.exec_s = 4000
      config.network = "host"
      return {}
    end, { limits = { exec_s = 100 } }))
    assert.equal(100, info.limits.exec_s)
    assert.equal("own, loopback only", info.enforcement.network)
  end)

  it("keep their network to what they were opened with", function()
    local session = assert(mooncage.open {
      tenant = "acme", audit = false, network = { allow = { "*.example.org:443" } },
      tenants = function() return { network = { allow = { "api.example.org:443" } } } end,
    })
    local function refuses(network)
      local done, err = session:set_network(network)
      assert.is_nil(done)
      assert.equal("invalid", err.code)
      return err.message
    end
    assert.matches("rule 1 allows nothing", refuses { allow = { "www.example.org:443" } }, 1, true)
    assert.matches("rule 2 allows nothing",
      refuses { allow = { "api.example.org:443", "api.example.org:22" } }, 1, true)
    assert.matches("looser", refuses "open", 1, true)
    assert.is_true(session:set_network "none")
    assert.is_true(session:set_network { allow = { "*.example.org:443" } })
    session:close()
    session = assert(mooncage.open { -- what the tenant's own rules would allow is not enough
      tenant = "acme", audit = false, network = { allow = { "192.0.2.3:80" } },
      tenants = function() return { network = { allow = { "192.0.2.0/24:80" } } } end,
    })
    assert.matches("rule 1 allows nothing", refuses { allow = { "192.0.2.2:80" } }, 1, true)
    assert.is_true(session:set_network { allow = { "192.0.2.3:80" } })
    session:close()
  end)

  it("are not fooled by metatables", function()
    local info = assert(opened(function()
      return setmetatable({}, { __index = function() return { memory_mb = 1 } end })
    end))
    assert.is_true(info.limits.memory_mb > 1)
  end)

  it("have ids of letters, digits, - and _", function() -- TN-07
    for _, id in ipairs {
      "", "../b", "a/b", ".", "..", "a.b", "a\0", "a b", "a\nb", "\27[31m", "\208\176cme", -- а
      "\239\189\129cme", "ac\226\128\139me", "\255\254", ("a"):rep(65), ("a"):rep(2 ^ 20),
    } do
      local session, err = mooncage.open { tenant = id }
      assert.is_nil(session)
      assert.equal("invalid", err.code)
      assert.is_true(#err.message < 200)
      assert.is_nil(err.message:find "%c")
    end
    assert.equal("Acme_1-x", assert(opened(nil, { tenant = "Acme_1-x" })).tenant)
  end)

  it("have runs whose ids are text of some length", function()
    for _, id in ipairs { "", "a\nb", ("a"):rep(257) } do
      local session, err = mooncage.open { run_id = id }
      assert.is_nil(session)
      assert.matches("run_id", err.message)
    end
  end)

  it("are who they are, whatever the context says, with the labels they were given", function()
    local seen
    local session = assert(mooncage.open {
      tenant = "acme", labels = { a = "1" }, context = { tenant = "other", ticket = 7 },
      tenants = function() return { labels = { plan = "small" } } end,
      guardrail = function(_, context) seen = context return true end,
    })
    assert(session:exec "true")
    session:close()
    assert.equal("acme", seen.tenant)
    assert.equal(7, seen.ticket)
    assert.same({ a = "1", plan = "small" }, seen.labels)
  end)

  it("of a config that is wrong are an error of the caller", function()
    local ok, err = pcall(function() mooncage.open { tenants = {} } end)
    assert.is_false(ok)
    assert.matches("tenant_spec.lua:%d+: mooncage: open: tenants must be a function", err)
  end)

  it("can be a policy", function()
    local tenants = mooncage.policy "tenant_routing" {
      tenants = { acme = { limits = { wall_s = 32 } } },
    }
    assert.equal(32, assert(opened(tenants)).limits.wall_s)
    assert.matches("not known", refused(tenants, { tenant = "other" }).message)
  end)
end)

describe("a dry run for a tenant", function()
  support.leaves_nothing()

  local function config(tenant)
    return {
      candidates = { mooncage.jail { name = "big" }, mooncage.jail { name = "small" } },
      tenant = tenant,
      tenants = function(id)
        if id == "acme" then return { candidates = { "small" } } end
        if id == "own" then return { candidates = { mooncage.jail { name = "mine" } } } end
        return nil, "go away"
      end,
    }
  end

  it("chooses from the tenant's candidates", function()
    assert.equal("small", assert(mooncage.select(config "acme")).name)
    assert.equal("mine", assert(mooncage.select(config "own")).name)
  end)

  it("is denied like an open", function()
    local candidate, err = mooncage.select(config "other")
    assert.is_nil(candidate)
    assert.equal("no_candidate", err.code)
    assert.matches("go away", err.message)
  end)
end)
