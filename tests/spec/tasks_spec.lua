-- Tasks: spawn, join, cancel, sleep, and where waiting is possible.
local mooncage = require "mooncage"
local support = require "support"

describe("a task", function()
  support.leaves_nothing()

  it("runs beside others: sleeps overlap", function()
    local order = {}
    local function sleeper(seconds, name)
      return mooncage.spawn(function()
        mooncage.sleep(seconds)
        order[#order + 1] = name
      end)
    end
    assert(mooncage.join { sleeper(0.06, "c"), sleeper(0.02, "a"), sleeper(0.04, "b") })
    assert.same({ "a", "b", "c" }, order)
  end)

  it("does not run before the one that spawned it waits", function()
    local ran = false
    local task = mooncage.spawn(function() ran = true end)
    assert.is_false(ran)
    assert.equal("ready", task:status())
    task:wait()
    assert.is_true(ran)
    assert.equal("done", task:status())
  end)

  it("gets the arguments of spawn, and wait gives all it returns", function()
    local task = mooncage.spawn(function(a, b) return a + b, "and", nil, a end, 2, 3)
    assert.same({ n = 4, 5, "and", nil, 2 }, { n = select("#", task:wait()), task:wait() })
  end)

  it("sleeps no less than it was asked to", function()
    local before = mooncage.now()
    assert.is_true(mooncage.sleep(0.03))
    assert.is_true(mooncage.now() - before >= 0.03)
  end)

  it("can wait inside pcall, a metamethod and an iterator", function()
    assert.is_true(pcall(function() assert(mooncage.sleep(0)) end))
    local slow = setmetatable({}, { __index = function(_, key) mooncage.sleep(0) return key end })
    assert.equal("x", slow.x)
    local function count(_, last)
      mooncage.sleep(0)
      return last < 3 and last + 1 or nil
    end
    for i in count, nil, 0 do
      assert.is_true(i <= 3)
    end
  end)

  it("lets others run at a bare coroutine.yield", function()
    local order = {}
    local task = mooncage.spawn(function()
      order[#order + 1] = 1
      coroutine.yield()
      order[#order + 1] = 3
    end)
    local other = mooncage.spawn(function() order[#order + 1] = 2 end)
    assert(mooncage.join { task, other })
    assert.same({ 1, 2, 3 }, order)
  end)

  it("is ten thousand without trouble", function()
    local tasks = {}
    for i = 1, 10000 do
      tasks[i] = mooncage.spawn(function()
        assert(mooncage.sleep(0.01))
        return i
      end)
    end
    local results = assert(mooncage.join(tasks))
    assert.equal(10000, #results)
    assert.equal(5000, results[5000])
  end)

  it("past the cap of waits gets `quota`, and the others are not hurt", function()
    local tasks, quota, rest = {}, 0, 0
    for i = 1, 17000 do
      tasks[i] = mooncage.spawn(function()
        local _, err = mooncage.sleep(60)
        if err.code == "quota" then
          quota = quota + 1
          assert.is_string(err.fix)
        elseif err.code == "canceled" then
          rest = rest + 1
        end
      end)
    end
    while quota == 0 do coroutine.yield() end
    for _, task in ipairs(tasks) do task:cancel() end
    for _, task in ipairs(tasks) do task:wait() end
    assert.equal(17000, quota + rest)
    assert.is_true(rest >= 15000)
  end)

  it("survives a collection while it waits and nobody holds it", function()
    local ended = false
    mooncage.spawn(function()
      mooncage.sleep(0.02)
      ended = true
    end)
    collectgarbage()
    collectgarbage()
    mooncage.sleep(0.05)
    assert.is_true(ended)
  end)
end)

describe("join", function()
  support.leaves_nothing()

  it("gives results in the order of the tasks", function()
    local function after(seconds, value)
      return mooncage.spawn(function()
        mooncage.sleep(seconds)
        return value
      end)
    end
    assert.same({ "slow", "fast" }, mooncage.join { after(0.03, "slow"), after(0, "fast") })
  end)

  it("gives an empty list for none", function()
    assert.same({}, mooncage.join {})
  end)

  it("takes tasks that are over already", function()
    local task = mooncage.spawn(function() return 1 end)
    mooncage.sleep(0.01)
    assert.same({ 1 }, mooncage.join { task })
    assert.same({ 1 }, mooncage.join { task })
  end)

  it("cancels the rest at the first error, waits for them, and returns it", function()
    local cleaned = false
    local rest = mooncage.spawn(function()
      local ok, err = mooncage.sleep(60)
      cleaned = not ok and err.code
      return nil, err
    end)
    local bad = mooncage.spawn(function()
      mooncage.sleep(0.01)
      return nil, { code = "conflict" }
    end)
    local results, err = mooncage.join { rest, bad }
    assert.is_nil(results)
    assert.equal("conflict", err.code)
    assert.equal("canceled", cleaned)
  end)

  it("returns what a task threw, with where it was thrown", function()
    local results, err = mooncage.join { mooncage.spawn(function() error "boom" end) }
    assert.is_nil(results)
    assert.equal("internal", err.code)
    assert.truthy(err.message:match "tasks_spec.lua:%d+: boom")
    assert.truthy(err.traceback:match "tasks_spec.lua")
  end)

  it("keeps an error table that a task threw", function()
    local thrown = { code = "mine" }
    local _, err = mooncage.join { mooncage.spawn(function() error(thrown) end) }
    assert.equal(thrown, err)
  end)

  it("may be called by two tasks for the same one", function()
    local shared = mooncage.spawn(function() mooncage.sleep(0.01) return "once" end)
    local function joiner()
      return mooncage.spawn(function() return mooncage.join { shared } end)
    end
    local results = assert(mooncage.join { joiner(), joiner() })
    assert.same({ { "once" }, { "once" } }, results)
  end)

  it("refuses what is no task, and itself", function()
    assert.error_matches(function() mooncage.join { 1 } end, "item 1 is a number, not a task")
    local task
    task = mooncage.spawn(function() return pcall(mooncage.join, { task }) end)
    local _, ok, message = pcall(task.wait, task)
    assert.is_false(ok)
    assert.truthy(message:match "cannot wait for itself")
  end)
end)

describe("cancel", function()
  support.leaves_nothing()

  it("ends the wait it is in, and each later one, with `canceled`", function()
    local codes = {}
    local task = mooncage.spawn(function()
      for i = 1, 3 do
        local ok, err = mooncage.sleep(60)
        codes[i] = not ok and err.code
      end
      return "unwound"
    end)
    mooncage.sleep(0.01)
    task:cancel()
    assert.equal("unwound", task:wait())
    assert.same({ "canceled", "canceled", "canceled" }, codes)
  end)

  it("keeps a task from ever running that has not begun", function()
    local ran = false
    local task = mooncage.spawn(function() ran = true end)
    task:cancel()
    local ok, err = task:wait()
    assert.is_nil(ok)
    assert.equal("canceled", err.code)
    assert.is_false(ran)
  end)

  it("of one that joins cancels those it waits for", function()
    local inner
    local outer = mooncage.spawn(function()
      inner = mooncage.spawn(function() return mooncage.sleep(60) end)
      return mooncage.join { inner }
    end)
    mooncage.sleep(0.01)
    outer:cancel()
    local _, err = outer:wait()
    assert.equal("canceled", err.code)
    assert.equal("done", inner:status())
  end)

  it("does nothing to a task that is over", function()
    local task = mooncage.spawn(function() return 1 end)
    task:wait()
    task:cancel()
    assert.equal(1, task:wait())
  end)

  it("does not starve others when the canceled one keeps trying", function()
    local stop, other = false, 0
    local task = mooncage.spawn(function()
      while not stop do mooncage.sleep(1) end
    end)
    mooncage.sleep(0)
    task:cancel()
    for _ = 1, 5 do
      assert.is_true(mooncage.sleep(0.001))
      other = other + 1
    end
    stop = true
    task:wait()
    assert.equal(5, other)
  end)
end)

describe("waiting where it is impossible", function()
  support.leaves_nothing()

  it("is refused inside sort, with a clear message and nothing armed", function()
    local ok, message = pcall(table.sort, { 3, 1, 2 }, function(a, b)
      mooncage.sleep(60)
      return a < b
    end)
    assert.is_false(ok)
    assert.truthy(message:match "cannot wait inside sort, gsub, require")
    assert.truthy(message:match "tasks_spec.lua:%d+:")
  end)

  it("is refused inside gsub and require", function()
    assert.error_matches(function() ("x"):gsub(".", function() mooncage.sleep(1) end) end,
      "cannot wait inside")
    package.preload["spec.waits"] = function() mooncage.sleep(1) end
    assert.error_matches(function() require "spec.waits" end, "cannot wait inside")
    package.preload["spec.waits"] = nil
  end)

  it("is refused inside a plain coroutine of a task", function()
    local ok, message = coroutine.resume(coroutine.create(function() mooncage.sleep(1) end))
    assert.is_false(ok)
    assert.truthy(message:match "plain coroutine; use mooncage.spawn")
  end)

  it("is refused by run, in a task", function()
    assert.error_matches(function() mooncage.run(function() end) end, "this is a task already")
  end)
end)

describe("wrong arguments", function()
  it("are the programmer's error, with the line that is to blame", function()
    for _, call in ipairs {
      function() mooncage.sleep(-1) end,
      function() mooncage.sleep "soon" end,
      function() mooncage.sleep(0 / 0) end,
      function() mooncage.spawn(1) end,
      function() mooncage.join(1) end,
      function() mooncage.with({}, nil) end,
      function() mooncage.open "jail" end,
      function() mooncage.open { on_log = 1 } end,
      function() mooncage.secret(nil) end,
    } do
      local ok, message = pcall(call)
      assert.is_false(ok)
      assert.truthy(message:match "^[^:]*tasks_spec.lua:%d+: ", message)
    end
  end)
end)
