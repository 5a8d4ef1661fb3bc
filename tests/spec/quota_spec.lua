-- Quotas of tenants: sessions at once, dollars and minutes, over all engines of this user.
local mooncage = require "mooncage"
local support = require "support"

local number = 0
local state = (os.getenv "XDG_STATE_HOME" or os.getenv "HOME" .. "/.local/state") .. "/mooncage"

---A tenant that nobody had before.
local function fresh()
  number = number + 1
  return ("quota-%d-%d"):format(os.time(), number)
end

local function config(tenant, quota, cost)
  return {
    backend = mooncage.jail { cost = cost and { usd_per_minute = cost } },
    tenant = tenant,
    tenants = function() return { quota = quota } end,
  }
end

local function ledger(tenant)
  local key = support.host(("printf %%s '%s' | sha256sum"):format(tenant)):sub(1, 32)
  return state .. "/tenants/" .. key
end

local function spent(tenant)
  return support.read_file(ledger(tenant) .. "/spent") or ""
end

local function refused(...)
  local session, err = mooncage.open(config(...))
  if session then session:close() end
  assert.is_nil(session)
  return err
end

describe("a quota", function()
  support.leaves_nothing()

  it("is how many sessions a tenant has at once", function()
    local tenant = fresh()
    local first = assert(mooncage.open(config(tenant, { sessions = 2 })))
    local second = assert(mooncage.open(config(tenant, { sessions = 2 })))
    local err = refused(tenant, { sessions = 2 })
    assert.equal("quota", err.code)
    assert.matches("has its 2 sessions already", err.message)
    assert(mooncage.open(config(fresh(), { sessions = 2 }))):close() -- another's is another
    first:close()
    local third = assert(mooncage.open(config(tenant, { sessions = 2 })))
    second:close()
    third:close()
  end)

  it("is minutes, and ends what runs when they are over", function()
    local tenant = fresh()
    local session = assert(mooncage.open(config(tenant, { minutes = 0.005 })))
    local result, err = session:exec "sleep 60"
    assert.is_nil(result)
    assert.equal("quota", err.code)
    assert.matches("minutes", err.message)
    session:close()
    err = refused(tenant, { minutes = 0.005 })
    assert.equal("quota", err.code)
    assert.matches("has used", err.message)
    assert(mooncage.open(config(tenant, { minutes = 5 }))):close() -- it was raised
  end)

  it("is dollars, at the rate of the candidate", function()
    local tenant = fresh()
    local session = assert(mooncage.open(config(tenant, { usd = 3, per = "day" }, 600)))
    local result, err = session:exec "sleep 60"
    assert.is_nil(result)
    assert.matches("has spent %$3%.%d+ of its %$3%.00 today", err.message)
    session:close()
    assert.equal("quota", refused(tenant, { usd = 3, per = "month" }, 600).code)
  end)

  it("in dollars needs a price", function()
    local err = refused(fresh(), { usd = 3 })
    assert.equal("unenforceable", err.code)
    assert.matches("usd_per_minute", err.fix)
  end)

  it("is kept by all engines together, also by one that was killed", function()
    local tenant = fresh()
    local mooncage_command = os.getenv "MOONCAGE"
    local path = support.temporary()
    support.write_file(path .. "/c.lua",
      "return { tenants = function() return { quota = { sessions = 1, minutes = 60 } } end }")
    local function run(command)
      return support.host(("'%s' --config %s/c.lua run --tenant %s -- %s 2>&1; echo $?"):format(
        mooncage_command, path, tenant, command))
    end
    local pid = support.host(([['%s' --config %s/c.lua run --tenant %s --
        sleep 100 >/dev/null 2>&1 & echo $!]]):gsub("\n", " "):format(
      mooncage_command, path, tenant)):match "%d+"
    for _ = 1, 400 do -- until it runs, and before anybody else asks for the one session
      if support.host(("grep -ls since '%s'/*"):format(ledger(tenant))) ~= "" then break end
      mooncage.sleep(0.05)
    end
    local held = run "true"
    assert.matches("1 session already", held)
    assert.matches("125", held)
    support.host("kill -9 " .. pid)
    for _ = 1, 200 do
      held = run "true"
      if held == "0\n" then break end
      mooncage.sleep(0.05)
    end
    assert.equal("0\n", held)
    support.host("rm -r " .. path)
  end)

  it("that is used up stands in the audit log", function()
    local path = support.temporary()
    local given = config(fresh(), { minutes = 0.005 })
    given.audit = mooncage.audit.jsonl { path = path .. "/log.jsonl" }
    local session = assert(mooncage.open(given))
    session:exec "sleep 60"
    session:close()
    local log = support.read_file(path .. "/log.jsonl")
    assert.matches('"limit":"quota"', log, 1, true)
    assert.matches('"code":"quota"', log, 1, true)
    support.host("rm -r " .. path)
  end)

  it("is noted by day, and no id is part of a path", function()
    local tenant = fresh()
    local session = assert(mooncage.open(config(tenant, { minutes = 5 }, 1)))
    session:close()
    local noted = mooncage.json.decode(spent(tenant))
    local today = noted[os.date "!%Y-%m-%d"]
    assert.is_true(today.minutes > 0 and today.minutes < 1)
    assert.is_true(math.abs(today.usd - today.minutes) < 1e-9)
    assert.equal("", support.host(("find '%s' -name '*%s*'"):format(state, tenant)))
    assert.equal("700", support.host(("stat -c %%a '%s'"):format(ledger(tenant))):match "%d+")
  end)

  it("of months that are over counts for ever, and not for this one", function()
    local tenant = fresh()
    assert(mooncage.open(config(tenant, { minutes = 5 }))):close()
    support.write_file(ledger(tenant) .. "/spent",
      '{"2020-01-30":{"usd":0,"minutes":3},"2020-01-31":{"usd":0,"minutes":3}}')
    assert(mooncage.open(config(tenant, { minutes = 5, per = "month" }))):close()
    assert.equal(6, mooncage.json.decode(spent(tenant))["2020-01"].minutes)
    assert.equal("quota", refused(tenant, { minutes = 5 }).code)
  end)

  it("that cannot be read or kept is an error", function()
    local tenant = fresh()
    assert(mooncage.open(config(tenant, { minutes = 5 }))):close()
    support.write_file(ledger(tenant) .. "/spent", "not a ledger")
    local err = refused(tenant, { minutes = 5 })
    assert.equal("unavailable", err.code)
    assert.matches("quota", err.message)
  end)

  it("must be one", function()
    for _, quota in ipairs {
      { sessions = 0 }, { sessions = "1" }, { usd = -1 }, { minutes = 1, per = "week" },
      { sesions = 1 }, 5,
    } do
      assert.equal("invalid", refused(fresh(), quota).code)
    end
  end)
end)
