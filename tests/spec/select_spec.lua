-- Selection: who is chosen, why not the others, who comes next when one cannot be made, and what a
-- selector may and may not do. Hosted backends are stood in for by backends.c.
local core = require "mooncage.core"
local mooncage = require "mooncage"
local support = require "support"

support.stand_ins()
core.log_level "error" -- subprocess warns whenever it is named

---One candidate of each, and of two vendors one whose network is off.
local function everybody()
  return {
    mooncage.subprocess {},
    mooncage.jail { tags = { "here" } },
    mooncage.docker {},
    mooncage.docker { name = "runsc", runtime = "runsc" },
    mooncage.kubernetes { cost = { usd_per_minute = 0.0009 }, memory_mb = 16384, cpu_count = 8 },
    mooncage.e2b { region = "eu-west-1" },
    mooncage.e2b { name = "e2b-off", network = "off" },
    mooncage.modal { region = "us-east-1" },
    mooncage.modal { name = "modal-off", network = "off" },
    mooncage.cloudflare {},
    mooncage.runloop { memory_mb = 4096, cpu_count = 2 },
    mooncage.daytona { region = "eu" },
    mooncage.vercel { region = "us-east-1" },
    mooncage.blaxel { region = "eu", memory_mb = 8192 },
  }
end

local ALLOW = { default = "allow" }

-- requirements, more of the configuration, who is chosen by each setting of `unpriced`: last (the
-- default), first, reject; false: nobody. One name is for all three.
local CASES = {
  -- the network is denied unless somebody says otherwise, so vendors that cannot deny are out
  { {}, {}, { "modal-off", "subprocess", "modal-off" } },
  { { min_isolation = "none" }, {}, { "modal-off", "subprocess", "modal-off" } },
  { { min_isolation = "namespace" }, {}, { "modal-off", "jail", "modal-off" } },
  { { min_isolation = "container" }, {}, { "modal-off", "docker", "modal-off" } },
  { { min_isolation = "gvisor" }, {}, { "modal-off", "runsc", "modal-off" } },
  { { min_isolation = "vm" }, {}, "e2b-off" },
  -- triage: no network, on this machine
  { { network = false, backends = { "jail", "subprocess", "e2b" } }, {},
    { "e2b-off", "jail", "e2b-off" } },
  { { network = false, not_backends = { "e2b", "modal", "kubernetes" } }, {},
    { "jail", "jail", false } },
  { { network = false }, {}, { "modal-off", "jail", "modal-off" } },
  { { network = false, min_isolation = "container" }, {}, { "modal-off", "docker", "modal-off" } },
  { { network = false, min_isolation = "vm" }, {}, "e2b-off" },
  { { network = false, persistent = true }, {}, false },
  { { network = false }, { network = "none" }, { "modal-off", "jail", "modal-off" } },
  { { network = false, max_usd_per_minute = 0.0001 }, {}, false },
  { { network = false, capabilities = { "project" } }, {}, { "jail", "jail", false } },
  { { network = false, capabilities = { "snapshot" } }, {}, "modal-off" },
  -- heavy work: the network, and a workspace that stays
  { { network = true, persistent = true }, {}, "daytona" },
  { { network = true, persistent = true, min_isolation = "vm" }, {}, "runloop" },
  { { network = true, persistent = true, min_isolation = "vm", memory_mb = 6000 }, {}, "blaxel" },
  { { network = true, persistent = true, min_isolation = "vm", region = "us-east-1" }, {},
    "vercel" },
  { { network = true, persistent = true, max_usd_per_minute = 0.001 }, {}, false },
  { { network = true, persistent = true, not_backends = { "daytona" } }, {}, "runloop" },
  { { network = true, persistent = true, backends = { "vercel", "blaxel" } }, {}, "blaxel" },
  { { network = true }, {}, { "modal", "subprocess", "modal" } },
  { { network = true, min_isolation = "namespace" }, {}, { "modal", "jail", "modal" } },
  { { network = true, min_isolation = "vm" }, {}, "cloudflare" },
  { { network = true, capabilities = { "gpu" } }, {}, "modal" },
  { { network = true, capabilities = { "gpu", "snapshot", "expose_port" } }, {}, "modal" },
  { { network = true, capabilities = { "gpu", "binds" } }, {}, false },
  { { network = true, capabilities = { "image" } }, {}, { "kubernetes", "docker", "kubernetes" } },
  { { network = true, region = "eu-west-1" }, {}, "e2b" },
  { { network = true, region = "eu" }, {}, "daytona" },
  { { network = true, region = "EU" }, {}, false },
  { { network = true, memory_mb = 5000, cpu_count = 4, min_isolation = "container" }, {},
    { "modal", "docker", "modal" } },
  { { network = true, memory_mb = 20000, backends = { "kubernetes", "runloop" } }, {}, false },
  { { network = true, cpu_count = 4, backends = { "kubernetes", "runloop" } }, {}, "kubernetes" },
  { { network = true, max_usd_per_minute = 0.001, min_isolation = "container" }, {}, "modal" },
  { { network = true, max_usd_per_minute = 0.001, capabilities = { "image" } }, {}, "kubernetes" },
  { { network = true, max_usd_per_minute = 0, backends = { "docker" } }, {}, false },
  -- the configuration opens the network; it is not required
  { {}, { network = ALLOW }, { "modal", "jail", "modal" } },
  { { persistent = true }, { network = ALLOW }, "daytona" },
  { { persistent = true }, {}, false },
  { { persistent = false, network = true }, {}, { "modal", "subprocess", "modal" } },
  { { min_isolation = "vm" }, { network = "open" }, "cloudflare" },
  { { network = false }, { network = ALLOW }, false },
  -- the host's network is there on this machine only
  { { network = true }, { network = "host" }, { "subprocess", "subprocess", false } },
  { { network = true, min_isolation = "namespace" }, { network = "host" },
    { "jail", "jail", false } },
  { {}, { network = "host" }, { "subprocess", "subprocess", false } },
  -- rules are kept on this machine only
  { { network = true }, { network = { allow = { "example.org:443" } } },
    { "jail", "jail", false } },
  -- what was written and nobody there can keep
  { { pty = true, backends = { "subprocess" } }, { limits = { memory_mb = 64 } }, false },
  { { backends = { "subprocess", "jail" } }, { limits = { exec_s = 5 } },
    { "subprocess", "subprocess", false } },
  { { backends = { "subprocess", "jail" }, memory_mb = 100 }, { limits = { memory_mb = 64 } },
    false },
}

local SETTINGS = { "last", "first", "reject" }

local function selected(requirements, more, unpriced)
  local config = { candidates = everybody(), requirements = requirements }
  for key, value in pairs(more) do config[key] = value end
  if unpriced then config.selector = mooncage.policy "cheapest_first" { unpriced = unpriced } end
  return mooncage.select(config)
end

describe("who is chosen", function()
  support.leaves_nothing()

  for number, case in ipairs(CASES) do
    local requirements, more, expected = case[1], case[2], case[3]
    local said = core.encode(requirements) .. " with " .. core.encode(more)
    it(("%d: %s"):format(number, said), function()
      for i, unpriced in ipairs(SETTINGS) do
        local winner = expected
        if type(expected) == "table" then winner = expected[i] end
        local candidate, err, explanation = selected(requirements, more, unpriced)
        local name = candidate and (candidate.name or candidate.id) or false
        assert.equal(winner, name, unpriced)
        explanation = explanation or err
        assert.equal(14, #explanation)
        for _, entry in ipairs(explanation) do
          assert.is_true(#entry.reason > 0, entry.name)
        end
        if not candidate then assert.equal("no_candidate", err.code) end
      end
    end)
  end

  it("is the same without a selector as with cheapest_first", function()
    for _, case in ipairs(CASES) do
      local requirements, more = case[1], case[2]
      local plain, explained = selected(requirements, more)
      local policy, said = selected(requirements, more, "last")
      assert.same(policy, plain)
      if plain then assert.same(said.order, explained.order) end
    end
  end)

  it("keeps the given order where the price is the same", function()
    local same = { usd_per_minute = 0.5 }
    local config = { candidates = {} }
    for i = 1, 20 do
      config.candidates[i] = mooncage.jail { name = "j" .. i, cost = same }
    end
    local _, explanation = assert(mooncage.select(config))
    for i = 1, 20 do assert.equal(i, explanation.order[i]) end
  end)

  it("takes what is free before what costs, and both before the unpriced", function()
    local config = { candidates = {
      mooncage.jail { name = "unpriced" },
      mooncage.jail { name = "costs", cost = { usd_per_minute = 1e-9 } },
      mooncage.jail { name = "free", cost = { usd_per_minute = 0 } },
    } }
    local candidate, explanation = assert(mooncage.select(config))
    assert.equal("free", candidate.name)
    assert.same({ 3, 2, 1 }, explanation.order)
  end)
end)

describe("an explanation", function()
  support.leaves_nothing()

  it("has the facts of each candidate, and why", function()
    local _, explanation = assert(selected({ network = true, persistent = true }, {}))
    local by_name = {}
    for _, entry in ipairs(explanation) do by_name[entry.name] = entry end
    local daytona, jail = by_name.daytona, by_name.jail
    assert.is_true(daytona.fits)
    assert.equal("fits; 0.0011 USD a minute", daytona.reason)
    assert.equal("hosted", daytona.family)
    assert.equal("container", daytona.isolation)
    assert.equal(0.0011, daytona.cost.usd_per_minute)
    assert.is_true(daytona.persistent)
    assert.is_true(daytona.capabilities.network)
    assert.is_nil(daytona.capabilities.network_denied)
    assert.equal("eu", daytona.region)
    assert.is_false(jail.fits)
    assert.equal("its workspace ends with the session", jail.reason)
    assert.is_true(jail.capabilities.network)
    assert.same({}, jail.cost)
    assert.same({}, daytona.tags)
    assert.same({ "here" }, jail.tags)
    assert.equal("unknown", by_name.vercel.health)
    local _, _, elsewhere = selected({ min_isolation = "vm" }, { network = "host" })
    assert.equal("network: e2b-off is elsewhere, and cannot share this host's network",
      elsewhere[7].reason)
    assert.truthy(tostring(explanation):find("jail: its workspace ends with the session", 1, true))
  end)

  it("says what a vendor that cannot deny needs", function()
    local candidate, err = mooncage.open { backend = mooncage.cloudflare {} }
    assert.is_nil(candidate)
    assert.equal("unenforceable", err.code)
    assert.truthy(err.message:find("cloudflare cannot keep its commands from the network", 1, true))
    assert.truthy(err.fix:find('network = { default = "allow" }', 1, true))
  end)

  it("is of the price that the session has, and says whose that is", function()
    for source, backend in pairs {
      backend = mooncage.modal { network = "off" },
      candidate = mooncage.modal { network = "off", cost = { usd_per_minute = 0.25 } },
    } do
      local session = assert(mooncage.open { backend = backend })
      local usage = session:usage()
      session:close()
      assert.equal(source == "backend" and 0.00035 or 0.25, usage.rate_used)
      assert.equal(source, usage.cost_source)
    end
  end)

  it("gives a candidate that can be opened", function()
    local candidate = assert(mooncage.select { candidates = { "subprocess", "jail" },
      requirements = { min_isolation = "namespace" } })
    local session = assert(mooncage.open { backend = candidate })
    assert.equal("jail", session.backend)
    session:close()
  end)
end)

describe("what is no table, or no list", function()
  local function refused(says, fn, ...)
    local arguments = { ... }
    local ok, err = pcall(function() fn(unpack(arguments)) end)
    assert.is_false(ok)
    assert.matches("^[^ ]*select_spec.lua:%d+: mooncage: ", err)
    assert.matches("mooncage: " .. says, err, 1, true)
  end

  it("is told of the call that was made", function()
    for _, wrong in ipairs { 1, "{}", true } do
      local called = ", not a " .. type(wrong)
      refused("rank: requirements must be a table" .. called, mooncage.rank, {}, wrong)
      refused("rank: candidates must be a list" .. called, mooncage.rank, wrong)
      refused("select: the config must be a table" .. called, mooncage.select, wrong)
      refused("open: the config must be a table" .. called, mooncage.open, wrong)
      refused("with: the config must be a table" .. called, mooncage.with, wrong, print)
      refused("resume: the config must be a table" .. called, mooncage.resume, "", wrong)
    end
    refused("resume: the state must be a string, not a number", mooncage.resume, 1)
    refused("rank: candidates must be a list: 1..n", mooncage.rank, { a = {} })
    refused("rank: candidates must be a list: 1..n", mooncage.rank, { {}, x = {} })
  end)

  it("satisfies nothing", function()
    local session, err = mooncage.open { selector = function(candidates)
      return candidates[1]:satisfies(1)
    end }
    assert.is_nil(session)
    assert.matches("satisfies: requirements must be a table, not a number", err.message, 1, true)
  end)
end)

describe("failover", function()
  support.leaves_nothing()

  local function broken(name, code)
    return mooncage.vercel { name = name, network = "off", fail = code,
      cost = { usd_per_minute = 0.001 } }
  end

  it("tries the next in order, and says so", function()
    local session = assert(mooncage.open { candidates = {
      broken("one", "unavailable"), broken("two", "quota"), mooncage.jail { name = "three" },
    } })
    assert.equal("three", session.name)
    assert.equal("jail", session.backend)
    assert.truthy(table.concat(session.warnings, "\n")
      :find("two could not be opened (the vendor says quota): three is tried instead", 1, true))
    assert.equal("hi\n", assert(session:exec "echo hi").stdout)
    session:close()
  end)

  it("does not when it is not wanted", function()
    local session, err = mooncage.open { failover = false, candidates = {
      broken("one", "unavailable"), mooncage.jail { name = "three" },
    } }
    assert.is_nil(session)
    assert.equal("unavailable", err.code)
    assert.truthy(err.message:find("one: the vendor says unavailable; three: fits", 1, true))
  end)

  it("ends with the last one's code, what each said, and the last as cause", function()
    local session, err = mooncage.open { candidates = {
      broken("one", "unavailable"), mooncage.subprocess { name = "two" }, broken("three", "quota"),
    }, requirements = { min_isolation = "namespace" } }
    assert.is_nil(session)
    assert.equal("quota", err.code)
    assert.truthy(err.message:find("one: the vendor says unavailable; two: isolation is none, "
      .. "namespace is required; three: the vendor says quota", 1, true))
    assert.equal("the vendor says quota", err.cause.message)
    assert.equal("vercel", err.cause.backend)
  end)

  it("never goes to weaker isolation than was asked for", function()
    local session, err = mooncage.open { candidates = {
      broken("one", "unavailable"), mooncage.subprocess {}, mooncage.jail {},
    }, requirements = { min_isolation = "vm" } }
    assert.is_nil(session)
    assert.equal("unavailable", err.code)
  end)

  it("leaves a wrong configuration as it is", function()
    local session, err = mooncage.open { candidates = {
      broken("one", "invalid"), mooncage.jail {},
    } }
    assert.is_nil(session)
    assert.equal("invalid", err.code)
    assert.equal("the vendor says invalid", err.message)
  end)

  it("is no way round a manifest that cannot be put in place", function()
    local session, err = mooncage.open { candidates = { mooncage.jail {}, mooncage.jail {} },
      manifest = { base = "/nonexistent", copies = { { from = "a", to = "b" } } } }
    assert.is_nil(session)
    assert.falsy(err.message:find("no candidate", 1, true))
  end)

  it("does not go on when the open was canceled", function()
    local session, err = mooncage.open { candidates = {
      broken("one", "canceled"), mooncage.jail {},
    } }
    assert.is_nil(session)
    assert.equal("canceled", err.code)
  end)

  it("is what health and latency come from", function()
    local config = { candidates = {
      mooncage.vercel { name = "sick", network = "off", fail = "unavailable",
        cost = { usd_per_minute = 0 } },
      mooncage.jail { name = "well" },
    } }
    assert(mooncage.open(config)):close()
    local candidate, explanation = assert(mooncage.select(config))
    assert.equal("sick", candidate.name)
    assert.equal("failing", explanation[1].health)
    assert.is_nil(explanation[1].latency_s)
    assert.equal("ok", explanation[2].health)
    assert.is_true(explanation[2].latency_s > 0)
    config.selector = mooncage.policy "failover" {}
    assert.equal("well", assert(mooncage.select(config)).name)
  end)

  it("goes past one that is full", function()
    local config = { candidates = {
      mooncage.jail { name = "small", max_sessions = 1, cost = { usd_per_minute = 0 } },
      mooncage.jail { name = "large" },
    } }
    local first, second = assert(mooncage.open(config)), assert(mooncage.open(config))
    assert.equal("small", first.name)
    assert.equal("large", second.name)
    local _, explanation = assert(mooncage.select(config))
    assert.equal("it has its 1 sessions already", explanation[1].reason)
    first:close()
    second:close()
  end)

  it("keeps two that are opened at once within max_sessions", function()
    local config = { candidates = {
      mooncage.jail { name = "only one", max_sessions = 1, cost = { usd_per_minute = 0 } },
      mooncage.jail { name = "the others" },
    } }
    local sessions = assert(mooncage.join {
      mooncage.spawn(mooncage.open, config), mooncage.spawn(mooncage.open, config),
      mooncage.spawn(mooncage.open, config),
    })
    local names = {}
    for i, session in ipairs(sessions) do
      names[i] = session.name
      session:close()
    end
    table.sort(names)
    assert.same({ "only one", "the others", "the others" }, names)
  end)
end)

describe("a selector", function()
  support.leaves_nothing()

  local function with(selector, more)
    local config = { candidates = { mooncage.jail { name = "a" }, mooncage.jail { name = "b" },
      mooncage.subprocess { name = "weak" } }, selector = selector }
    for key, value in pairs(more or {}) do config[key] = value end
    return config
  end

  it("chooses one", function()
    local config = with(function(candidates) return candidates[2], "because" end)
    local session = assert(mooncage.open(config))
    assert.equal("b", session.name)
    session:close()
    local _, explanation = assert(mooncage.select(config))
    assert.equal("because", explanation.why)
  end)

  it("gives an order, which is that of failover", function()
    local config = with(function(candidates)
      return { candidates[4], candidates[2], candidates[1] }
    end)
    config.candidates[4] = mooncage.vercel { name = "broken", network = "off",
      fail = "unavailable" }
    local session = assert(mooncage.open(config))
    assert.equal("b", session.name)
    session:close()
  end)

  it("is told requirements and context", function()
    local seen
    assert(mooncage.select(with(function(candidates, requirements, context)
      seen = { requirements, context }
      return candidates[1]
    end, { requirements = { pty = true }, labels = { team = "red" }, run_id = "r1",
      context = { depth = 3 } })))
    assert.same({ pty = true }, seen[1])
    assert.equal("red", seen[2].labels.team)
    assert.equal("r1", seen[2].run_id)
    assert.equal(3, seen[2].depth)
  end)

  it("may ask whether a candidate satisfies", function()
    local said = {}
    assert(mooncage.select(with(function(candidates, requirements)
      for i, candidate in ipairs(candidates) do
        said[i] = { candidate:satisfies(requirements) }
      end
      return candidates[1]
    end, { requirements = { min_isolation = "namespace" } })))
    assert.same({ true, "fits; unpriced" }, said[1])
    assert.same({ false, "isolation is none, namespace is required" }, said[3])
  end)

  it("cannot change a candidate", function()
    local said
    assert(mooncage.select(with(function(candidates)
      said = { pcall(function() candidates[3].isolation = "vm" end) }
      return candidates[1]
    end)))
    assert.is_false(said[1])
    assert.truthy(said[2]:find("a candidate is read-only: 'isolation' cannot be set", 1, true))
  end)

  it("cannot choose what was not asked for, whatever it does to the facts", function() -- TN-10
    local _, err = mooncage.select(with(function(candidates)
      rawset(candidates[3], "isolation", "vm")
      candidates[3].capabilities.everything = true
      return candidates[3]
    end, { requirements = { min_isolation = "namespace" } }))
    assert.equal("no_candidate", err.code)
    assert.truthy(err.message:find("the selector chose weak, which cannot be used: isolation is "
      .. "none, namespace is required", 1, true))
  end)

  it("does not see what cannot keep what was written", function()
    local names = {}
    assert(mooncage.select(with(function(candidates)
      for i, candidate in ipairs(candidates) do names[i] = candidate.name end
      return candidates[1]
    end, { network = "none" })))
    assert.same({ "a", "b" }, names)
  end)

  it("may choose nobody, and says why", function()
    for reason, selector in pairs {
      ["it is Sunday"] = function() return nil, "it is Sunday" end,
      ["it gave no reason"] = function() return {} end,
      ["a reason of type boolean"] = function() return nil, true end,
      ["\\x1b[31mred \\x9b\\xff"] = function() return nil, "\27[31mred \155\255" end,
      ["a\\x00b"] = function() return nil, "a\0b" end,
      [("A"):rep(1024)] = function() return nil, ("A"):rep(1e6) end,
    } do
      local session, err = mooncage.open(with(selector))
      assert.is_nil(session)
      assert.equal("no_candidate", err.code)
      assert.equal("the selector chose none: " .. reason, err.message)
    end
  end)

  it("cannot forge a line with what it throws", function() -- LU-13
    local _, err = mooncage.open(with(function()
      error("x\n\27[2Jforged " .. ("A"):rep(1e6), 0)
    end))
    assert.equal("invalid", err.code)
    assert.is_nil(err.message:find "%c")
    assert.is_true(#err.message < 5000)
  end)

  it("is asked about a single backend too", function()
    local _, err = mooncage.open { selector = function() return nil, "not today" end }
    assert.equal("the selector chose none: not today", err.message)
  end)

  local BAD = {
    ["throws"] = { function() error "boom" end, "boom", "invalid" },
    ["throws an error of its own"] = {
      function() error({ code = "quota", message = "spent", fix = "wait" }) end, "spent", "quota" },
    ["throws nil"] = { function() error() end, "threw", "invalid" },
    ["returns text"] = { function() return "jail" end, "a string, not a candidate", "invalid" },
    ["returns true"] = { function() return true end, "a boolean, not a candidate", "invalid" },
    ["returns a number"] = { function() return 1 end, "a number, not a candidate", "invalid" },
    ["returns a made-up candidate"] = {
      function() return { name = "a", backend = "jail" } end, "not one of its candidates",
      "invalid" },
    ["returns a list of names"] = {
      function() return { "a", "b" } end, "item 1 is not one of its candidates", "invalid" },
    ["returns a list with a stranger in it"] = {
      function(candidates) return { candidates[1], {} } end, "item 2 is not one", "invalid" },
    ["returns a list that never ends"] = {
      function(candidates)
        return setmetatable({}, { __index = function() return candidates[1] end })
      end, "chose none", "no_candidate" },
    ["returns facts whose __eq lies"] = {
      function() return setmetatable({}, { __eq = function() return true end }) end,
      "chose none", "no_candidate" },
    ["yields"] = { function() coroutine.yield() end, "yielded", "invalid" },
    ["waits"] = { function() mooncage.sleep(0.01) end, "cannot wait", "invalid" },
    ["opens a sandbox"] = { function() return mooncage.open() end, "cannot wait", "invalid" },
    ["loops for ever"] = { function() while true do end end, "processor time", "timeout" },
    ["loops for ever in pcall"] = {
      function() while true do pcall(function() while true do end end) end end,
      "processor time", "timeout" },
    ["calls itself for ever"] = {
      function(candidates) local function f() return 1 + f() end return candidates[f()] end,
      "stack overflow", "invalid" },
  }

  for what, case in pairs(BAD) do
    it(("that %s is contained"):format(what), function()
      local session, err = mooncage.open(with(case[1]))
      assert.is_nil(session)
      assert.equal(case[3], err.code)
      assert.truthy(err.message:find(case[2], 1, true), err.message)
      local fine = assert(mooncage.open(with(function(candidates) return candidates[1] end)))
      assert.equal("a", fine.name)
      fine:close()
    end)
  end

  it("is a function, a policy or a known word", function()
    assert.has_error(function() mooncage.open(with(5)) end)
    local _, err = mooncage.open(with "cheapest")
    assert.equal("invalid", err.code)
    local config = with "in_order"
    config.candidates[2].cost = { usd_per_minute = 0 }
    assert.equal("a", assert(mooncage.select(config)).name)
    config.selector = "cheapest_first"
    assert.equal("b", assert(mooncage.select(config)).name)
  end)

  it("may be a policy", function()
    local config = with(mooncage.policy "prefer_local" {})
    table.insert(config.candidates, 1, mooncage.modal { network = "off" })
    assert.equal("a", assert(mooncage.select(config)).name)
  end)
end)

describe("what was decided", function()
  support.leaves_nothing()

  local path = support.temporary() .. "/audit.jsonl"

  ---The select events of what `config` did, oldest first.
  local function events(config)
    os.remove(path)
    config.audit = mooncage.audit.jsonl { path = path }
    local session, err = mooncage.open(config)
    if session then session:close() end
    local found = {}
    for line in assert(support.read_file(path)):gmatch "[^\n]+" do
      local event = core.decode(line)
      if event.op == "select" then found[#found + 1] = event end
    end
    return found, err
  end

  setup(function() events {} end) -- the log stays open, for the next

  it("is in the audit log, with the reason for each", function()
    local found = events { candidates = { mooncage.subprocess { name = "weak" },
      mooncage.jail { name = "good" } }, requirements = { min_isolation = "namespace" } }
    assert.equal(1, #found)
    assert.equal("good", found[1].detail.chosen)
    assert.equal("isolation is none, namespace is required", found[1].detail.candidates[1].reason)
    assert.equal("cheapest_first", found[1].decision.by)
  end)

  it("is there too when nobody was chosen", function() -- AU-10
    local several = { mooncage.subprocess { name = "weak" }, mooncage.jail { name = "good" } }
    for code, config in pairs {
      no_candidate = { candidates = several, requirements = { min_isolation = "vm" } },
      unenforceable = { backend = mooncage.subprocess {}, limits = { memory_mb = 64 } },
      quota = { candidates = several,
        selector = function() error { code = "quota", message = "x" } end },
    } do
      local found, err = events(config)
      assert.equal(code, err.code)
      assert.equal(1, #found)
      assert.equal(code, found[1].error.code)
      assert.is_nil(found[1].detail.chosen)
    end
  end)

  it("names the selector and its reason", function()
    local found = events { selector = function(candidates) return candidates[1], "because" end }
    assert.equal("selector", found[1].decision.by)
    assert.equal("because", found[1].decision.reason)
  end)

  it("is nothing where there was nothing to decide", function()
    assert.same({}, (events {}))
  end)
end)

describe("candidates", function()
  support.leaves_nothing()

  local WRONG = {
    { { backend = "jail", candidates = { "jail" } }, "candidates: `backend` is given as well" },
    { { candidates = "jail" }, "candidates: expected a list" },
    { { candidates = { 5 } }, "candidates[1]: expected a table" },
    { { candidates = { "jail", "jial" } }, "candidates[2]: there is no backend \"jial\"" },
    { { candidates = { "jail", { id = "jail", costs = 1 } } }, "candidates[2].costs: unknown key" },
    { { candidates = { { id = "jail", cost = { usd = 1 } } } }, "candidates[1].cost.usd: unknown" },
    { { candidates = { { id = "jail", cost = { usd_per_minute = -1 } } } },
      "candidates[1].cost.usd_per_minute: -1 is not between" },
    { { candidates = { { id = "jail", cost = { usd_per_minute = "1" } } } },
      "candidates[1].cost.usd_per_minute: expected a number" },
    { { candidates = { { id = "jail", tags = "a" } } }, "candidates[1].tags: expected a list" },
    { { candidates = { { id = "jail", tags = { 1 } } } }, "candidates[1].tags[1]: expected a str" },
    { { candidates = { { id = "jail", max_sessions = 0.5 } } }, "candidates[1].max_sessions" },
    { { candidates = { { id = "jail", options = { rootfss = "/" } }, "jail" } },
      "candidates[1].options.rootfss: unknown key" },
    { { failover = "yes" }, "failover: expected true or false" },
    { { requirements = { backends = { "jial" } } }, "requirements.backends[1]: there is no" },
    { { requirements = { not_backends = { "subproces" } } }, "requirements.not_backends[1]" },
    { { requirements = { netwrok = true } }, "requirements.netwrok: unknown key" },
  }
  for _, case in ipairs(WRONG) do
    it("are refused: " .. case[2], function()
      local session, err = mooncage.open(case[1])
      assert.is_nil(session)
      assert.equal("invalid", err.code)
      assert.truthy(err.message:find(case[2], 1, true), err.message)
    end)
  end

  it("may not be none", function()
    local session, err = mooncage.open { candidates = {} }
    assert.is_nil(session)
    assert.equal("no_candidate", err.code)
  end)

  it("take cost, tags, max_sessions, pool and name beside their options", function()
    local candidate = mooncage.jail { name = "n", cost = { usd_per_minute = 1 }, tags = { "t" },
      max_sessions = 2, pool = { size = 0 }, profile = "strict" }
    assert.same({ profile = "strict" }, candidate.options)
    assert.same({ "t" }, candidate.tags)
    assert.has_error(function() mooncage.jail { cost = 1 } end)
    assert.has_error(function() mooncage.jail { costs = {} } end)
  end)
end)
