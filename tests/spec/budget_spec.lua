-- What sessions cost, as a guardrail is told, and the policy that ends it.
local mooncage = require "mooncage"
local support = require "support"

local number = 0

---An id that nobody had before.
local function fresh(kind)
  number = number + 1
  return ("%s-%d-%d"):format(kind, os.time(), number)
end

---Opens, runs one command that lasts, and closes; gives the context of its guardrail's last call.
local function told(config)
  local seen
  config.guardrail = function(_, context)
    seen = context.spend
    return true
  end
  mooncage.with(config, function(session)
    assert(session:exec "sleep 0.05")
    assert(session:exec "true")
  end)
  return seen
end

local function priced(usd, more)
  local config = { backend = mooncage.jail { cost = { usd_per_minute = usd } } }
  for key, value in pairs(more or {}) do config[key] = value end
  return config
end

describe("a guardrail is told", function()
  support.leaves_nothing()

  it("what its session costs", function()
    local spend = told(priced(60))
    assert.is_true(spend.session.minutes > 0.05 / 60 and spend.session.minutes < 0.5)
    assert.is_true(math.abs(spend.session.usd - spend.session.minutes * 60) < 1e-9)
    assert.is_false(spend.session.unpriced)
    assert.is_nil(spend.run)
    assert.is_nil(spend.tenant)
  end)

  it("that a session has no price", function()
    local spend = told {}
    assert.is_true(spend.session.unpriced)
    assert.equal(0, spend.session.usd)
  end)

  it("what its run and its tenant cost, with what is over", function()
    local run, tenant = fresh "run", fresh "tenant"
    local first = told(priced(60, { run_id = run, tenant = tenant }))
    assert.is_true(math.abs(first.run.minutes - first.session.minutes) < 1e-3)
    local second = told(priced(60, { run_id = run, tenant = tenant }))
    assert.is_true(second.run.minutes > second.session.minutes + 0.05 / 60)
    assert.is_true(second.tenant.usd > second.session.usd + 0.05)
    local other = told(priced(60, { run_id = fresh "run", tenant = tenant }))
    assert.is_true(math.abs(other.run.minutes - other.session.minutes) < 1e-3)
    assert.is_true(other.tenant.minutes > second.tenant.minutes)
    local mixed = told { run_id = run }
    assert.is_true(mixed.run.unpriced and mixed.run.usd > 0)
  end)

  it("what runs beside it", function()
    local run = fresh "run"
    local beside = assert(mooncage.open(priced(60, { run_id = run })))
    mooncage.sleep(0.1)
    local spend = told(priced(60, { run_id = run }))
    assert.is_true(spend.run.minutes > spend.session.minutes + 0.1 / 60)
    beside:close()
  end)

  it("what a tenant with a quota has spent everywhere", function()
    local tenant = fresh "tenant"
    local function config()
      return priced(60, { tenant = tenant, tenants = function()
        return { quota = { usd = 100 } }
      end })
    end
    assert(mooncage.open(config())):close()
    local key = support.host(("printf %%s %s | sha256sum"):format(tenant)):sub(1, 32)
    support.write_file(("%s/mooncage/tenants/%s/spent"):format(os.getenv "XDG_STATE_HOME", key),
      ('{"%s":{"usd":7,"minutes":3}}'):format(os.date "!%Y-%m-%d"))
    local spend = told(config())
    assert.is_true(spend.tenant.usd > 7 and spend.tenant.usd < 8)
  end)
end)

describe("the policy budget", function()
  support.leaves_nothing()

  it("warns, and then denies", function()
    local run, said = fresh "run", {}
    local config = priced(60, { run_id = run,
      guardrail = mooncage.policy "budget" { per = "run", usd = 1.5, warn_at = 0.1 },
      on_log = function(level, message)
        if level == "warning" then said[#said + 1] = message end
      end })
    local err
    for _ = 1, 60 do
      local result
      result, err = mooncage.with(config, function(session) return session:exec "sleep 0.1" end)
      if not result then break end
    end
    assert.equal("command_denied", err.code)
    assert.matches("this run has spent %$%d%.%d+ of %$1%.50", err.message)
    assert.matches("this run has spent", table.concat(said, "\n"))
  end)

  it("denies where nobody knows the price", function()
    mooncage.with({ guardrail = mooncage.policy "budget" { usd = 1 } }, function(session)
      local result, err = session:exec "true"
      assert.is_nil(result)
      assert.equal("command_denied", err.code)
      assert.matches("unpriced = \"allow\"", err.message)
    end)
  end)
end)
