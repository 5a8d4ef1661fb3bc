-- Policies: loading them, what they see, and that their mistakes stay theirs.
local loader = require "mooncage.policy"
local mooncage = require "mooncage"
local support = require "support"

local directory

local function file(text, name)
  local path = ("%s/%s"):format(directory, name or "p.lua")
  support.write_file(path, text)
  return path
end

---The error of loading a text as a policy and giving it options.
local function refused(text, options)
  local path = file(text)
  local ok, err = pcall(function() return mooncage.policy(path)(options) end)
  assert.is_false(ok)
  assert.is_table(err, tostring(err))
  return err
end

---What a text returns as a policy's decision.
local function decides(text, ...)
  local path = file("return function() return function(...) " .. text .. " end end")
  return mooncage.policy(path)()(...)
end

describe("a policy", function()
  support.leaves_nothing(
    function() directory = support.temporary() end,
    function() support.host("rm -r " .. directory) end)

  it("is found by its name among the built-in ones", function()
    local route = mooncage.policy "tenant_routing" { tenants = { a = { labels = { x = "1" } } } }
    assert.same({ labels = { x = "1" } }, route("a"))
    local none, why = route "b"
    assert.is_nil(none)
    assert.matches("not known", why)
    assert.equal("tenant_routing", loader.origin(route).name)
  end)

  it("is found by its path", function()
    local path = file "return function(o) return function(x) return x + o.more end end"
    assert.equal(3, mooncage.policy(path) { more = 2 }(1))
  end)

  it("that is not there names the nearest", function()
    local ok, err = pcall(mooncage.policy, "tenant_routin")
    assert.is_false(ok)
    assert.equal("not_found", err.code)
    assert.matches("tenant_routing", err.fix)
    ok, err = pcall(mooncage.policy, "./no/such.lua")
    assert.is_false(ok)
    assert.equal("not_found", err.code)
    assert.matches("no/such.lua", err.message)
  end)

  it("LU-01: must not be bytecode", function()
    local chunk = string.dump(function() return function() return function() end end end)
    assert.equal("invalid", refused(chunk).code)
    assert.matches("bytecode", refused(chunk).message)
    assert.matches("bytecode", refused("\27LJ\2").message)
    local err = refused "return load(string.dump(function() end))"
    assert.matches("p.lua:1:", err.message, 1, true)
    assert.matches("no load here", err.message)
    assert.is_nil(decides "return string.dump")
  end)

  it("LU-02, LU-10, LU-15: sees nothing of the world", function()
    for _, name in ipairs {
      "io", "os", "package", "debug", "jit", "ffi", "load", "loadstring", "loadfile", "dofile",
      "getfenv", "setfenv", "newproxy", "collectgarbage", "coroutine", "print", "module",
    } do
      local path = file(("return function() return function() return %s end end"):format(name))
      local ok, value = pcall(mooncage.policy(path)())
      assert.is_true(not ok or value == nil, name)
    end
    for _, name in ipairs { "ffi", "jit.util", "table.new", "mooncage.core", "os", "socket" } do
      local err = refused(("local x = require %q"):format(name))
      assert.matches("cannot require", err.message)
    end
    assert.is_true(decides "return require 'mooncage' == mooncage")
    assert.is_nil(decides "return mooncage.open or mooncage.secret or mooncage.policy")
    assert.is_nil(decides "return math.random")
  end)

  it("LU-09, LU-16: cannot change what others use", function()
    assert.is_false(pcall(decides, "getmetatable('').__index.rep = nil"))
    decides "string.rep = nil; table.concat = nil; math.floor = nil; mooncage.rank = nil; x = 1"
    assert.equal("aa", ("a"):rep(2))
    assert.is_function(string.rep)
    assert.is_function(table.concat)
    assert.is_nil(rawget(_G, "x"))
    assert.is_true(decides "return x == nil and string.rep ~= nil and mooncage.rank ~= nil")
  end)

  it("gets a copy of its options", function()
    local options = { list = { 1 } }
    local decide = mooncage.policy(file
      "return function(o) o.list[1] = 2; return function() return o.list[1] end end")(options)
    assert.equal(2, decide())
    assert.equal(1, options.list[1])
  end)

  it("that loops while it is loaded is ended", function() -- LU-03, LU-04
    for _, text in ipairs {
      "while true do end",
      "return function() while true do end end",
      "while true do pcall(function() while true do end end) end",
      "xpcall(error, function() while true do end end)",
    } do
      assert.matches("more than 1 s of processor time", refused(text).message)
    end
  end)

  it("that throws, or returns rubbish, is refused with its file", function()
    assert.matches("p.lua:2: nope", refused("\nerror 'nope'").message)
    assert.matches("p.lua:1:", refused("return = 1").message)
    assert.matches("returns nil, not a function", refused("").message)
    assert.matches("returns table, not a function", refused("return {}").message)
    assert.matches("gives nil, not a function", refused("return function() end").message)
    assert.matches("neither a text nor an error", refused("error({})").message)
    assert.matches("options must be a table", refused("return function() end", 5).message)
    local circle = {}
    circle[1] = circle
    assert.matches("circle", refused("return function() end", circle).message)
  end)

  it("has a size limit", function() -- LU-14
    assert.matches("256 KiB", refused(("-"):rep(300 * 1024)).message)
    assert.equal("invalid", refused("return " .. ("("):rep(100000)).code)
  end)

  it("takes no option but untrusted", function()
    local ok, err = pcall(mooncage.policy, "budget", { untrustd = true })
    assert.is_false(ok)
    assert.matches("untrusted", err.fix)
  end)
end)
