-- What the module says about the machine, and what it cleans up after others.
local mooncage = require "mooncage"
local support = require "support"

describe("doctor", function()
  -- From its first listener on libuv keeps a descriptor in reserve.
  setup(function() mooncage.doctor() end)
  support.leaves_nothing()

  it("tries each mechanism and says how to mend what is amiss", function()
    local report = assert(mooncage.doctor())
    assert.is_true(#report.checks > 5)
    for _, check in ipairs(report.checks) do
      assert.is_string(check.name)
      assert.is_boolean(check.ok)
      assert.is_string(check.detail)
      if not check.ok then assert.is_string(check.fix, check.name) end
    end
    assert.is_table(report.backends)
  end)

  it("is canceled like everything else", function()
    local task = mooncage.spawn(mooncage.doctor)
    mooncage.sleep(0)
    task:cancel()
    local report, err = task:wait()
    assert.is_true(report ~= nil or err.code == "canceled")
  end)
end)

describe("reap", function()
  support.leaves_nothing()

  it("touches nothing of an engine that lives", function()
    local session = assert(mooncage.open())
    local report = assert(mooncage.reap { dry_run = true })
    assert.is_table(report.removed)
    assert(mooncage.reap())
    assert.is_true(assert(session:exec "true").ok)
    session:close()
  end)

  it("refuses options it does not have", function()
    assert.has_error(function() mooncage.reap { dryrun = true } end)
  end)
end)
