-- decide_spec.lua: functions that answer the engine: bounded, their errors contained, and never the
-- end of what asked.
local core = require "mooncage.core"
local mooncage = require "mooncage"
local support = require "support"

local function subprocess() return { backend = mooncage.subprocess() } end

local function decided(fn, ...)
  local ok, value = pcall(core.decide, "selector", fn, ...)
  return ok and value or nil, not ok and value or nil
end

describe("a function that decides", function()
  it("is given its arguments and gives its values", function()
    local function fn(a, b) return a + b, nil, "x" end
    assert.same({ 3, nil, "x" }, { core.decide("selector", fn, 1, 2) })
  end)

  it("that throws is named, with its message", function()
    local _, err = decided(function() error "no such word" end)
    assert.equal("invalid", err.code)
    assert.matches("^selector: .*decide_spec.lua:%d+: no such word$", err.message)
    assert.is_string(err.fix)
  end)

  it("that throws an error keeps its code", function()
    local _, err = decided(function() error(core.error("quota", "enough for today", "wait")) end)
    assert.equal("quota", err.code)
    assert.equal("selector: enough for today", err.message)
    assert.equal("wait", err.fix)
  end)

  it("that throws something else is contained, and its metamethods are not called", function()
    local evil = setmetatable({}, {
      __tostring = function() error "called" end, __index = function() error "called" end,
    })
    local _, err = decided(function() error(evil) end)
    assert.matches("^selector: it threw a value", err.message)
    _, err = decided(function() error(("A"):rep(1e7)) end)
    assert.is_true(#err.message < 5000)
    _, err = decided(function() error(nil) end)
    assert.matches("^selector: it threw a value", err.message)
  end)

  it("that yields is refused", function()
    local _, err = decided(function() coroutine.yield(1) end)
    assert.equal("invalid", err.code)
    assert.equal("selector yielded, which it must not", err.message)
  end)

  it("cannot wait", function()
    local _, err = decided(function() mooncage.sleep(0.01) end)
    assert.matches("cannot wait inside selector", err.message)
  end)

  it("that loops for ever is ended, compiled or not", function()
    local function spin(n) while n ~= 0 do n = n + 1 end end
    spin(-1e6) -- hot: the compiler has seen it
    for _, fn in ipairs {
      function() while true do end end,
      function() while true do pcall(function() while true do end end) end end,
      function() return xpcall(function() error "x" end, function() while true do end end) end,
      function() coroutine.wrap(function() while true do end end)() end,
      function() while true do table.concat { "a", "b" } end end,
    } do
      local _, err = decided(fn)
      assert.equal("timeout", err.code)
      assert.equal("selector used more than 1 s of processor time", err.message)
    end
  end)

  it("leaves a debug hook and the compiler as they were", function()
    local on = jit.status()
    local function hook() end
    debug.sethook(hook, "", 1000000)
    core.decide("selector", function() end)
    local now = debug.gethook()
    debug.sethook()
    assert.equal(hook, now)
    assert.equal(on, (jit.status()))
  end)
end)

describe("a hook", function()
  support.leaves_nothing()

  it("is told when a session has started and stopped", function()
    local heard = {}
    local session = assert(mooncage.open {
      backend = mooncage.subprocess(), tenant = "acme", run_id = "r1", labels = { a = "b" },
      context = { ticket = 7, nested = heard }, agent = { name = "robot" },
      hooks = {
        on_sandbox_start = function(context, agent, s)
          heard[#heard + 1] = { "start", context, agent, s }
          heard.state = s:info().state
        end,
        on_sandbox_stop = function(context, agent, s, usage)
          heard[#heard + 1] = { "stop", context, agent, s, usage }
        end,
      },
    })
    assert.equal("running", heard.state)
    assert(session:exec "true")
    assert(session:close())
    assert.equal(2, #heard)
    for i, name in ipairs { "start", "stop" } do
      assert.equal(name, heard[i][1])
      assert.equal(7, heard[i][2].ticket)
      assert.equal(heard, heard[i][2].nested)
      assert.equal("acme", heard[i][2].tenant)
      assert.equal("r1", heard[i][2].run_id)
      assert.equal("b", heard[i][2].labels.a)
      assert.equal("robot", heard[i][3].name)
      assert.equal(session, heard[i][4])
    end
    assert.equal(1, heard[2][5].exec_count)
    heard[1], heard[2] = nil, nil
  end)

  it("may wait, and use the session", function()
    local said
    local config = subprocess()
    config.hooks = {
      on_sandbox_start = function(_, _, session)
        mooncage.sleep(0.01)
        said = assert(session:exec "echo here").stdout
      end,
    }
    assert(mooncage.with(config, function() return true end))
    assert.equal("here\n", said)
  end)

  it("that throws is logged, and changes nothing", function()
    local lines = {}
    local config = subprocess()
    config.on_log = function(level, text) lines[#lines + 1] = level .. ": " .. text end
    config.hooks = { on_sandbox_start = function() error "out of paper" end }
    assert(mooncage.with(config, function() return true end))
    mooncage.sleep(0.01)
    core.on_log(nil)
    local found = table.concat(lines, "\n")
    assert.matches("error: session %w+: hook on_sandbox_start: .*out of paper", found)
  end)

  it("that never returns is left behind", function()
    local lines, ended = {}, nil
    local config = subprocess()
    config.hook_timeout_s = 0.05
    config.on_log = function(_, text) lines[#lines + 1] = text end
    config.hooks = {
      on_sandbox_start = function()
        local _, err = mooncage.sleep(1000)
        ended = err.code
      end,
    }
    assert(mooncage.with(config, function() return true end))
    mooncage.sleep(0.01)
    core.on_log(nil)
    assert.equal("canceled", ended)
    assert.matches("did not return within 0.05 s", table.concat(lines, "\n"), 1, true)
  end)

  it("may close the session that it is told of", function()
    local config, closed = subprocess(), 0
    local function close(_, _, session)
      assert(session:close())
      closed = closed + 1
    end
    config.hooks = { on_sandbox_start = close, on_sandbox_stop = close }
    local session = assert(mooncage.open(config))
    local _, err = session:exec "true"
    assert.equal("unavailable", err.code)
    assert(session:close())
    mooncage.sleep(0.01)
    assert.equal(2, closed)
  end)

  it("keeps no session alive that is closed", function()
    local alive = setmetatable({}, { __mode = "k" })
    do
      local config = subprocess()
      local session
      config.hooks = { on_sandbox_stop = function() return session end }
      session = assert(mooncage.open(config))
      alive[session] = true
      assert(session:close())
    end
    mooncage.sleep(0.01)
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(alive))
  end)

  it("must be one that there is, and a function", function()
    local function try(hooks)
      local config = subprocess()
      config.hooks = hooks
      return select(2, pcall(function()
        local session = mooncage.open(config)
        return session
      end))
    end
    assert.matches("decide_spec.lua:%d+: mooncage: open: hooks: there is no hook "
      .. "'on_sandbox_strat' %(did you mean 'on_sandbox_start'%?%)",
      try { on_sandbox_strat = print })
    assert.matches("open: hooks.on_sandbox_start must be a function, not a string",
      try { on_sandbox_start = "x" })
    assert.matches("open: hooks must be a table of functions, not a function", try(print))
  end)
end)
