-- Scripts as `mooncage run` runs them: the main chunk is a task; how they end, with what status.
local mooncage = require "mooncage"
local support = require "support"

local command = os.getenv "MOONCAGE"

---Runs a script text; `during(pid)` may do something to it meanwhile.
---@return integer status, string output both streams
local function script(text, during)
  local directory = support.temporary()
  support.write_file(directory .. "/script.lua", text)
  local line = ([[cd %s; '%s' run script.lua one 'two words' > out 2>&1 & pid=$!
    echo $pid > pid; %s wait $pid; echo $? > status]]):format(directory, command, during or "")
  support.host(line)
  local output = support.read_file(directory .. "/out")
  local status = tonumber(support.read_file(directory .. "/status"))
  support.host("rm -r " .. directory)
  return status, output
end

---Shell text: waits until the script has printed "up", then sends a signal.
local function send(name)
  return ("while ! grep -qs up out; do sleep 0.02; done; sleep 0.05; kill -%s $pid;"):format(name)
end

describe("a script", function()
  it("ends with 0, and has its arguments", function()
    local status, output = script [[
      print(..., select("#", ...), arg[1], arg[2], arg[0])
    ]]
    assert.equal(0, status, output)
    assert.equal("one\t2\tone\ttwo words\tscript.lua\n", output)
  end)

  it("waits for the tasks it has spawned", function()
    local status, output = script [[
      local mooncage = require "mooncage"
      mooncage.spawn(function()
        mooncage.sleep(0.05)
        mooncage.spawn(function() mooncage.sleep(0.05) print "inner" end)
      end)
      print "outer"
    ]]
    assert.equal(0, status)
    assert.equal("outer\ninner\n", output)
  end)

  it("that throws ends with 1 and shows where", function()
    local status, output = script [[
      local function inner() error "boom" end
      inner()
    ]]
    assert.equal(1, status)
    assert.truthy(output:find("script.lua:1: boom", 1, true))
    assert.truthy(output:find("stack traceback", 1, true))
  end)

  it("that throws an error of ours shows how to mend it", function()
    local status, output = script [[
      local mooncage = require "mooncage"
      assert(mooncage.open { backend = mooncage.subprocess(), limits = { memory_mb = 64 } })
    ]]
    assert.equal(1, status)
    assert.truthy(output:find("fix: ", 1, true))
  end)

  it("that throws cancels its tasks and closes its sessions", function()
    local status, output = script [[
      local mooncage = require "mooncage"
      mooncage.spawn(function()
        local session = assert(mooncage.open())
        print(session:exec "sleep 84" == nil)
        session:close()
        print "closed"
      end)
      mooncage.sleep(0.3)
      error "over"
    ]]
    assert.equal(1, status)
    assert.truthy(output:find("true\nclosed\n", 1, true), output)
  end)

  it("whose task throws unasked ends with 1 and shows it", function()
    local status, output = script [[
      require("mooncage").spawn(function() error "nobody asked" end)
    ]]
    assert.equal(1, status)
    assert.truthy(output:find("nobody asked", 1, true))
  end)

  it("ends with the status of os.exit, also inside a task and a pcall", function()
    assert.equal(3, (script "os.exit(3)"))
    assert.equal(0, (script "os.exit()"))
    assert.equal(0, (script "os.exit(true)"))
    assert.equal(1, (script "os.exit(false)"))
    assert.equal(4, (script "pcall(os.exit, 4) error 'not reached'"))
    assert.equal(5, (script [[
      local mooncage = require "mooncage"
      mooncage.spawn(function() os.exit(5) end)
      mooncage.sleep(60)
    ]]))
    assert.equal(6, (script "table.sort({ 1, 2, 3 }, function() os.exit(6) end)"))
  end)

  it("that exits leaves no process of an open session", function()
    local status = script [[
      local session = assert(require("mooncage").open())
      assert(session:exec "setsid sleep 83 & :")
      os.exit(7)
    ]]
    assert.equal(7, status)
    assert.equal("", support.host "pgrep -f '^sleep 83$'")
  end)

  it("is interrupted: its waits end with canceled, it may clean up, its status is 130", function()
    local status, output = script([[
      local mooncage = require "mooncage"
      local session = assert(mooncage.open())
      io.stdout:setvbuf "no"
      print "up"
      local result, err = session:exec "sleep 82"
      print(result, err.code)
      print(session:close())
    ]], send "INT")
    assert.equal(130, status)
    assert.equal("up\nnil\tcanceled\ntrue\n", output)
    assert.equal("", support.host "pgrep -f '^sleep 82$'")
  end)

  it("is terminated with 143", function()
    local status = script([[
      io.stdout:setvbuf "no"
      print "up"
      require("mooncage").sleep(60)
    ]], send "TERM")
    assert.equal(143, status)
  end)

  it("that goes on after a signal is ended by the next, and its sessions closed", function()
    local status = script([[
      local mooncage = require "mooncage"
      local session = assert(mooncage.open())
      session:start "sleep 83"
      io.stdout:setvbuf "no"
      print "up"
      while true do pcall(mooncage.sleep, 0.1) end
    ]], send "TERM" .. " sleep 0.3; kill -TERM $pid;")
    assert.equal(143, status)
    assert.equal("", support.host "pgrep -f '^sleep 83$'")
  end)

  it("does not wait for a hook that was left behind and goes on all the same", function()
    local status, output = script [[
      local mooncage = require "mooncage"
      local hooks = {
        on_sandbox_exec_end = function() while true do pcall(mooncage.sleep, 0.1) end end,
      }
      mooncage.with({ hooks = hooks, hook_timeout_s = 0.1 }, function(session)
        print(session:exec("true").ok)
      end)
    ]]
    assert.equal(0, status)
    assert.truthy(output:find("true\n", 1, true), output)
  end)

  it("that never comes back to the loop can be interrupted all the same", function()
    local loops = { "while true do end", "local t = {} while true do t.x = tostring(t) end" }
    for _, loop in ipairs(loops) do
      local status, output = script(([[
        io.stdout:setvbuf "no"
        print "up"
        %s
      ]]):format(loop), send "INT")
      assert.equal(130, status, output)
    end
  end)

  it("that waits where it must not is told so", function()
    local status, output = script [[
      table.sort({ 1, 2 }, function(a, b) require("mooncage").sleep(1) return a < b end)
    ]]
    assert.equal(1, status)
    assert.truthy(output:find("cannot wait inside sort", 1, true))
  end)

  it("can load C modules of Lua", function()
    local status, output = script 'print(type(require("lfs").currentdir()))'
    assert.equal(0, status)
    assert.equal("string\n", output)
  end)

  describe("with a session left open", function()
    local opens = [[
      local mooncage = require "mooncage"
      io.stdout:setvbuf "no"
      local function say(...) print("-", ...) end
      local hooks = {
        on_sandbox_exec_start = function() say "start" end,
        on_sandbox_exec_end = function(_, _, _, result, exec)
          mooncage.sleep(0.01)
          say("end", result, exec.error.code)
        end,
        on_sandbox_stop = function(_, _, session) say("stop", session.backend) end,
      }
    ]]
    -- No other process of the machine sleeps so long.
    local nap = ("80.%d"):format(tonumber(tostring({}):match "0x(%x+)", 16))
    local runs = ([[
      session = assert(mooncage.open { hooks = hooks })
      session:start "echo > begun; exec sleep %s"
      while not session:read "begun" do mooncage.sleep(0.01) end
      print "up"
    ]]):format(nap)

    local function nobody_sleeps()
      assert.equal("", support.host(("pgrep -fx 'sleep %s'"):format(nap)))
    end

    local function heard(output)
      local lines = {}
      for line in output:gmatch "%-\t([^\n]*)" do lines[#lines + 1] = line end
      return lines
    end

    for how, status in pairs {
      [""] = 0, ["session = nil"] = 0, ["error 'x'"] = 1, ["os.exit(3)"] = 3,
      ["mooncage.spawn(os.exit, 4) mooncage.sleep(60) say 'not reached'"] = 4,
      ["table.sort({ 1, 2, 3 }, function() os.exit(5) end)"] = 5,
      ["mooncage.sleep(60) -- TERM"] = 143, ["mooncage.sleep(60) -- INT"] = 130,
    } do
      it("hooks hear how it ends: " .. how, function()
        local signal = how:match "%-%- (%w+)"
        local ended, output = script(opens .. runs .. how, signal and send(signal))
        assert.equal(status, ended, output)
        assert.same({ "start", "end\tnil\tcanceled", "stop\tjail" }, heard(output))
        nobody_sleeps()
      end)
    end

    it("is left by a hook's os.exit, too", function()
      local ended, output = script(opens .. [[
        hooks.on_sandbox_exec_end = function() say "end" os.exit(9) end
      ]] .. runs)
      assert.equal(9, ended, output)
      assert.same({ "start", "end" }, heard(output))
      nobody_sleeps()
    end)

    it("hooks that never return hold it up for seconds only", function()
      local waits = opens .. runs .. [[
        hooks.on_sandbox_stop = function() while true do pcall(mooncage.sleep, 1) end end
      ]]
      local loops = opens .. runs .. [[
        hooks.on_sandbox_stop = function() io.stderr:write "loops\n" while true do end end
      ]]
      local ended, output = script(waits)
      assert.equal(0, ended, output)
      assert.truthy(output:find("on_sandbox_stop: Lua is being left", 1, true), output)
      ended, output = script(loops)
      assert.equal(125, ended, output)
      assert.truthy(output:find("loops\n.*a hook did not return"), output)
      nobody_sleeps()
    end)
  end)

  it("with a session left open closes it at its end", function()
    local status = script [[
      local session = assert(require("mooncage").open())
      assert(session:exec "setsid sleep 81 & :")
    ]]
    assert.equal(0, status)
    mooncage.sleep(0.1)
    assert.equal("", support.host "pgrep -f '^sleep 81$'")
  end)
end)

describe("the module in a plain interpreter", function()
  local function plain(text)
    local directory = support.temporary()
    support.write_file(directory .. "/plain.lua", text)
    local output = support.host(("%s %s/plain.lua 2>&1; echo \"status $?\""):format(support.lua,
      directory))
    support.host("rm -r " .. directory)
    return output
  end

  it("turns the loop itself when it waits outside any task", function()
    assert.equal("hi\nside by side\nstatus 0\n", plain [[
      local mooncage = require "mooncage"
      local session = assert(mooncage.open())
      io.write(session:exec "echo hi".stdout)
      local task = mooncage.spawn(function()
        return assert(session:exec("echo side by side")).stdout
      end)
      io.write(task:wait())
      assert(session:close())
    ]])
  end)

  it("waits in a plain coroutine too, where there is no task", function()
    assert.equal("done\nstatus 0\n", plain [[
      local mooncage = require "mooncage"
      print(coroutine.wrap(function() mooncage.sleep(0.01) return "done" end)())
    ]])
  end)

  it("runs a function as a task with mooncage.run, and throws on what it throws", function()
    assert.equal("1\t2\nfalse\tmine\nstatus 0\n", plain [[
      local mooncage = require "mooncage"
      print(mooncage.run(function(a) mooncage.sleep(0) return a, 2 end, 1))
      local ok, err = pcall(mooncage.run, function() error({ code = "mine" }) end)
      print(ok, err.code)
    ]])
  end)

  it("closes its sessions when the state is closed", function()
    assert.equal("status 0\n", plain [[
      local session = assert(require("mooncage").open())
      assert(session:exec "setsid sleep 79 & :")
      leaked = session
    ]])
    mooncage.sleep(0.1)
    assert.equal("", support.host "pgrep -f '^sleep 79$'")
  end)

  it("sets no global, and does nothing when it is required", function()
    assert.equal("0\nstatus 0\n", plain [[
      local before = {}
      for name in pairs(_G) do before[name] = true end
      require "mooncage"
      local new = 0
      for name in pairs(_G) do if not before[name] then new = new + 1 end end
      print(new)
    ]])
  end)

  it("says what init it misses", function()
    local output = support.host(([[export MOONCAGE_INIT=/no/such/init; %s -e '
      local session, err = require("mooncage").open()
      print(session, err.code, err)' 2>&1]]):format(support.lua))
    assert.truthy(output:find("/no/such/init", 1, true), output)
  end)
end)
