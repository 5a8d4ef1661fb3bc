-- Policies of strangers: in a process of their own, in a jail, and what they do there stays theirs.
-- The LU rows of the corpus, for such policies; corpus_spec.lua has them for those of the operator.
local mooncage = require "mooncage"
local support = require "support"

local directory
local made = 0

---The policy of a text.
local function policy(text, options)
  made = made + 1
  local path = ("%s/p%d.lua"):format(directory, made)
  support.write_file(path, text)
  return mooncage.policy(path, { untrusted = true })(options)
end

---A guardrail whose decision is this text, of `command` and `context`.
local function guardrail(text, options)
  return policy("return function(options) return function(command, context) " .. text
    .. " end end", options)
end

local function guarded(decide, more)
  local config = { guardrail = decide, audit = false }
  for key, value in pairs(more or {}) do config[key] = value end
  return assert(mooncage.open(config))
end

---What the guardrail says when `true` is to run: true, or the error.
local function judged(decide)
  local session = guarded(decide)
  local result, err = session:exec { "true" }
  session:close()
  return result ~= nil and result.exit_code == 0 or err
end

---The text denies, because of this; and a policy that is in order still decides afterwards.
local function denied(text, why)
  local err = judged(guardrail(text))
  assert.is_table(err)
  assert.equal("command_denied", err.code)
  if why then assert.matches(why, err.message, 1, true) end
end

describe("a policy of a stranger", function()
  support.leaves_nothing(
    function() directory = support.temporary() end,
    function() support.host("rm -r " .. directory) end)

  it("is a guardrail as others are", function()
    local decide = guardrail([[
      if command.argv[1] == "echo" then return true end
      if command.argv[1] == "ask" then return "ask", "who knows" end
      if command.argv[1] == "warn" then return { warn = "careful" } end
      return false, "only " .. options.only, "rule 1"]], { only = "echo" })
    local session = guarded(decide)
    assert.equal("a\n", assert(session:exec { "echo", "a" }).stdout)
    local none, err = session:exec { "ls" }
    assert.is_nil(none)
    assert.equal("command_denied", err.code)
    assert.matches("only echo", err.message, 1, true)
    assert.matches("rule 1", err.message, 1, true)
    none, err = session:exec { "ask" }
    assert.is_nil(none)
    assert.matches("nobody can be asked", err.message)
    assert.equal(127, assert(session:exec { "warn" }).exit_code)
    session:close()
  end)

  it("is told what others are, bytes and all", function()
    local session = guarded(guardrail [[
      return command.argv[2] == "\255\0x" or command.argv[2] == "\255" and command.tool == "shell"
        and command.has_stdin == false and context.labels.team == "a"
        and context.mine.list[2] == "y" and context.spend.session.minutes >= 0]],
      { labels = { team = "a" }, context = { mine = { list = { "x", "y" } } } })
    assert(session:exec { "true", "\255" })
    session:close()
  end)

  it("is a selector as others are", function()
    local chosen = {}
    for _, name in ipairs { "a", "b" } do
      local select = policy([[return function(options) return function(candidates, wanted, context)
          for _, each in ipairs(mooncage.rank(candidates, wanted)) do
            if each.name == options.name and each:satisfies(wanted) then return each, "as asked" end
          end
        end end]], { name = name })
      local candidate = assert(mooncage.select {
        candidates = { mooncage.jail { name = "a" }, mooncage.jail { name = "b" } },
        selector = select, requirements = { min_isolation = "namespace" },
      })
      chosen[#chosen + 1] = candidate.name
    end
    assert.same({ "a", "b" }, chosen)
  end)

  it("says who its tenants are, and each has a process of its own", function() -- LU-16
    local tenants = policy [[
      local seen = 0
      return function(options) return function(tenant, config, context)
        seen = seen + 1
        if tenant == "nobody" then return nil, "not here" end
        return { limits = { pid_limit = 30 + seen }, labels = { name = tenant } }
      end end]]
    local function open(tenant)
      return mooncage.open { tenants = tenants, tenant = tenant, audit = false,
        enforcement = "best_effort" }
    end
    local a, b = assert(open "a"), assert(open "b")
    assert.same({ name = "a" }, a.labels)
    assert.same({ name = "b" }, b.labels)
    local none, err = open "nobody"
    assert.is_nil(none)
    assert.equal("no_candidate", err.code)
    assert.matches("not here", err.message)
    a:close()
    b:close()
  end)

  it("may only narrow", function()
    denied("return { rewrite = { 'ls' } }", "may not")
    for key, value in pairs {
      audit = "false", environment = "{ A = 'b' }", credentials = "{ jail = { rootfs = '/' } }",
      candidates = "{ { id = 'subprocess' } }",
    } do
      local none, err = mooncage.open {
        tenants = policy(("return function() return function() return { %s = %s } end end")
          :format(key, value)), audit = false, tenant = "a",
      }
      assert.is_nil(none, key)
      assert.equal("invalid", err.code)
      assert.matches("untrusted policy cannot", err.message)
    end
  end)

  it("is never a hook, nor what else is the operator's code", function()
    local decide = guardrail "return true"
    for _, config in ipairs {
      { hooks = { on_sandbox_start = decide } }, { guardrail = decide, on_ask = decide },
      { audit = mooncage.audit.callback(decide) },
    } do
      local ok, err = pcall(mooncage.open, config)
      assert.is_false(ok)
      assert.matches("untrusted policy cannot be one", err)
    end
    local ok, err = pcall(decide, {})
    assert.is_false(ok)
    assert.equal("unsupported", err.code)
    err = judged(mooncage.policy "budget" { usd = 1, unpriced = "allow", next = decide })
    assert.equal("command_denied", err.code)
    assert.matches("asked by the engine", err.message)
  end)

  it("prints to the log, a little", function()
    local lines = {}
    local session = guarded(guardrail "for i = 1, 1e4 do print('\27[2J', i, nil) end return true",
      { on_log = function(level, text) lines[#lines + 1] = level .. " " .. text end })
    assert(session:exec { "true" })
    session:close()
    local all = table.concat(lines, "\n")
    assert.matches("info policy .*says: .*2J", all)
    assert.is_nil(all:find("\27", 1, true))
    assert.is_true(#all < 20000)
  end)

  it("that is abandoned is ended with its command", function()
    local session = guarded(guardrail "return true")
    local task = mooncage.spawn(function() return session:exec { "sleep", "60" } end)
    mooncage.sleep(0.05)
    task:cancel()
    session:close()
  end)

  it("decides for many at once, in turn", function()
    local session = guarded(guardrail "return command.argv[2] ~= '13'")
    local tasks = {}
    for i = 1, 20 do
      tasks[i] = mooncage.spawn(function()
        return session:exec { "echo", tostring(i) } ~= nil
      end)
    end
    for i, ran in ipairs(assert(mooncage.join(tasks))) do assert.equal(i ~= 13, ran, i) end
    session:close()
  end)

  it("has a new process after it was ended", function()
    local session = guarded(guardrail [[
      if command.argv[1] == "loop" then while true do end end
      return true]])
    for _ = 1, 2 do
      assert.matches("100 ms", select(2, session:exec { "loop" }).message, 1, true)
      assert(session:exec { "true" })
    end
    session:close()
  end)
end)

describe("a hostile policy in its process", function()
  support.leaves_nothing(
    function() directory = support.temporary() end,
    function() support.host("rm -r " .. directory) end)

  it("LU-01: cannot be, or make, bytecode", function()
    for _, text in ipairs { string.dump(function() end), "\27LJ\2" } do
      local ok, err = pcall(policy, text) -- bytes that JSON cannot say are refused at once
      err = ok and judged(err) or err
      assert.matches("ytecode", err.message)
    end
    for _, name in ipairs { "load", "loadstring", "dofile", "loadfile" } do
      denied(("return pcall(%s, 'return 1')"):format(name), "there is no " .. name)
    end
    denied("return string.dump(function() end)")
  end)

  it("LU-02, LU-10, LU-15: finds no library and no way out of its environment", function()
    for _, name in ipairs {
      "io", "os", "package", "debug", "jit", "getfenv", "setfenv", "newproxy", "module",
      "collectgarbage", "coroutine", "gcinfo",
    } do
      denied(("return %s ~= nil"):format(name), "there is no " .. name)
    end
    denied "return ffi ~= nil"
    for _, name in ipairs { "ffi", "jit.util", "table.new", "mooncage.core", "stranger.runner" } do
      denied(("require %q return true"):format(name), "cannot require")
    end
    denied "return getmetatable('').__index"
    denied "return rawget(_G, 'decision') or rawget(_G, 'core')"
    denied "return mooncage.open or mooncage.policy or mooncage.secret"
  end)

  it("LU-03: loops", function() denied("while true do end", "100 ms") end)

  it("LU-04: loops, and catches what ends it", function()
    denied("while true do pcall(function() while true do end end) end", "100 ms")
  end)

  it("LU-05: loops where errors are handled", function()
    denied("xpcall(error, function() while true do end end) return true", "100 ms")
    denied("local f f = function() xpcall(error, f) end while true do f() end", "100 ms")
    denied "error(setmetatable({}, { __tostring = function() while true do end end }))"
    denied "return setmetatable({}, { __gc = function() while true do end end })"
  end)

  it("LU-06: recurses, and nests", function()
    denied("local function f() return 1 + f() end return f()", "stack overflow")
    denied("local f f = function() return pcall(f) end while true do f() end", "100 ms")
  end)

  it("LU-07: keeps busy where no hook sees it", function()
    denied("return ((('a'):rep(40)):find((('a-'):rep(12)) .. 'b'))", "100 ms")
    denied "local t = {} for i = 1, 200 do t[i] = i end table.sort(t, function() return true end)"
    denied "return #('x'):rep(2 ^ 31 - 1) > 0"
    denied "return #('x'):rep(2 ^ 30) > 0"
    denied "return #string.format('%99999.99f', 1) > 0"
    denied "return select('#', unpack({}, 1, 1e7)) > 0"
    denied "return ('x'):rep(1e5):gsub('x', ('y'):rep(1e5)) ~= nil"
    denied("local t = {} for i = 1, 1e5 do t[i] = ('x'):rep(1000) end return #table.concat(t) > 0")
  end)

  it("LU-08: eats memory", function()
    denied "local t = {} while true do t[#t + 1] = ('x'):rep(1e6) .. #t end"
    denied "local t = {} while true do pcall(function() t[#t + 1] = ('x'):rep(1e6) .. #t end) end"
    denied "local t = {} while true do t = { t } end"
    denied "local s = 'x' while true do s = s .. s end"
  end)

  it("LU-09: poisons what all strings share", function()
    denied "getmetatable('').__index.rep = nil return true"
    local session = guarded(guardrail [[
      string.rep, string.sub, table.concat, pcall, type = nil, nil, nil, nil, nil
      return command.argv[1] == "true"]])
    assert(session:exec { "true" }) -- the copies were its own
    assert.is_nil((session:exec { "ls" }))
    session:close()
    assert.equal("aa", ("a"):rep(2))
  end)

  it("LU-11: writes into what it is given, and answers with metamethods", function()
    local session = guarded(guardrail [[
      command.argv[1], command.argv[2] = "touch", "/workspace/evil"
      return true]])
    assert.equal("hi\n", assert(session:exec { "echo", "hi" }).stdout)
    session:close()
    denied "return setmetatable({}, { __eq = function() return true end })"
    denied "return setmetatable({}, { __index = { allow = true, warn = 'x' } })"
  end)

  it("LU-12: answers what is no answer", function()
    for _, text in ipairs {
      "nil", "'allow '", "1", "{ allow = 'false' }", "{ allow = true }", "('x'):rep(1e6)",
      "function() end", "{ warn = 1 }", "{ warn = 'a', rewrite = {} }", "0 / 0", "'true'",
    } do denied("return " .. text) end
    denied "error()"
  end)

  it("LU-13: throws what is hard to show", function()
    denied "error(('A'):rep(1e7))"
    denied "error(setmetatable({}, { __tostring = function() return 1 end }))"
    local err = judged(guardrail "error('\\27[31m\\nforged\\r')")
    assert.is_nil(err.message:find "%c")
    assert.matches("\\x1b[31m", err.message, 1, true)
    assert.is_true(#judged(guardrail "error(('A'):rep(1e5))").message < 5000)
  end)

  it("LU-14: is hard to parse", function()
    for _, text in ipairs {
      "return " .. ("("):rep(200000), "local a " .. ("local a "):rep(30000),
      "return " .. ("{"):rep(250000), ("goto a "):rep(30000), "return 0x1p99999",
      "return " .. ("-"):rep(250000) .. "1", "return '" .. ("a"):rep(250000),
    } do
      local err = judged(policy(text))
      assert.equal("command_denied", err.code)
    end
    local ok, err = pcall(policy, ("-"):rep(300 * 1024))
    assert.is_false(ok)
    assert.matches("256 KiB", err.message)
  end)

  it("LU-17: has no hook to take away", function()
    denied("debug.sethook() while true do end", "there is no debug")
    denied("pcall(error) while true do pcall(string.rep, 'x', -1) end", "100 ms")
  end)

  it("LU-18: runs out of memory and stack where nothing catches it", function()
    denied "local t = {} setmetatable(t, { __index = t }) return t.x.y"
    denied "local function f(...) return f(1, ...) end return f()"
    denied "return ('x'):rep(1e4):gsub('.', function() return f() end)"
    denied("local s = {} for i = 1, 240 do s[i] = 'x' end return select(-1, unpack(s, 1, 1e6))")
  end)

  it("LU-19: cannot forge a line of the log", function()
    local log = directory .. "/audit.jsonl"
    local session = guarded(guardrail [[
      return false, "no\n{\"op\":\"exec\",\"phase\":\"finish\"}\0\27[0m", "a\nb"]],
      { audit = mooncage.audit.jsonl { path = log } })
    assert.is_nil((session:exec { "true" }))
    session:close()
    local text = support.read_file(log)
    assert.is_nil(text:gsub("\n", ""):find "%c")
    local denials = 0
    for line in text:gmatch "[^\n]+" do
      local event = assert(require("mooncage.core").decode(line))
      if event.decision and event.decision.by == "guardrail" then denials = denials + 1 end
    end
    assert.equal(1, denials)
  end)
end)
