-- Limits as a user meets them: what runs into one ends with a clear result, and the session lives
-- on. Where a limit cannot be enforced (an ordinary user without cgroups) writing it is refused;
-- that is the case then, and the rest is skipped with the reason.
local mooncage = require "mooncage"
local support = require "support"

---Opens with written limits, or skips the case with what stands in the way.
local function open(limits, more)
  local config = { limits = limits }
  for key, value in pairs(more or {}) do config[key] = value end
  local session, err = mooncage.open(config)
  if session then return session end
  assert.equal("unenforceable", err.code, tostring(err))
  assert.is_string(err.fix)
  pending("not enforceable here: " .. err.message)
end

describe("a limit", function()
  support.leaves_nothing()

  it("of memory kills the command that is past it, says so, and the session lives on", function()
    local session = open { memory_mb = 64 }
    local result = assert(session:exec({ "python3", "-c", "x = bytearray(10**9); print(len(x))" }))
    assert.is_true(result.oom_killed)
    assert.is_false(result.ok)
    assert.equal("alive\n", assert(session:exec "echo alive").stdout)
    session:close()
  end)

  it("of processes holds a fork bomb", function()
    local session = open { pid_limit = 32 }
    local result = assert(session:exec("b() { b | b & }; b; sleep 0.5", { timeout = 5 }))
    assert.is_not_nil(result)
    local processes
    for _ = 1, 100 do -- nothing is left for the one that looks, perhaps
      processes = session:processes()
      if processes then break end
      mooncage.sleep(0.05)
    end
    assert.is_true(not processes or #processes <= 32)
    assert.is_true(session:close())
  end)

  it("of processes is a clear refusal of a command too many", function()
    local session = open { pid_limit = 16 }
    local running, refused = {}, nil
    for _ = 1, 30 do
      local process, err = session:start "echo up; exec sleep 76"
      local up = process and process:read()
      if not up then -- it is known only when it has been tried
        if process then _, err = process:wait() end
        refused = err
        break
      end
      running[#running + 1] = process
    end
    for _, process in ipairs(running) do process:cancel() end
    for _, process in ipairs(running) do process:wait() end
    assert.is_true(#running < 30)
    assert.equal("quota", refused.code)
    assert.is_string(refused.fix)
    assert.is_true(assert(session:exec "true").ok)
    session:close()
  end)

  it("of the disk is `no space left`, not a kill", function()
    local session = open { disk_mb = 16 }
    local result = assert(session:exec "head -c 64000000 /dev/zero > big; echo status $?")
    assert.truthy(result.stderr:match "[Nn]o space left")
    assert.equal("status 1\n", result.stdout)
    assert(session:exec "rm big")
    assert.is_true(session:write("small", "fits"))
    session:close()
  end)

  it("of the disk refuses a file that is too large, and keeps the old one", function()
    local session = open { disk_mb = 16 }
    assert(session:write("f", "old"))
    local ok, err = session:write("f", ("x"):rep(32 * 2 ^ 20))
    assert.is_nil(ok)
    assert.equal("quota", err.code)
    assert.equal("old", session:read "f")
    session:close()
  end)

  it("of open files is the command's own", function()
    local session = open { open_files = 64 }
    assert.equal("64\n", assert(session:exec "ulimit -n").stdout)
    session:close()
  end)

  it("of processors slows, and does not stop", function()
    local session = open { cpu_count = 0.2 }
    local result = assert(session:exec [[
      end=$(( $(date +%s%N) + 600000000 )); while [ $(date +%s%N) -lt $end ]; do :; done]])
    assert.is_true(result.ok)
    assert.is_true(result.cpu_s < 0.6 * result.duration,
      ("used %.2f s of a processor in %.2f s"):format(result.cpu_s, result.duration))
    session:close()
  end)

  it("of output ends a flood, and counts it", function()
    local session = open { output_mb = 1 }
    local result, err = session:exec("yes", { timeout = 30 })
    if result then
      assert.is_false(result.ok)
      assert.is_true(result.stdout_bytes <= 16 * 2 ^ 20)
    else
      assert.equal("quota", err.code)
      assert.is_string(err.fix)
    end
    assert.is_true(assert(session:exec "true").ok)
    session:close()
  end)

  it("that was not written stands among the facts when it is not enforced", function()
    local session = assert(mooncage.open())
    assert.is_string(session.enforcement.memory)
    assert.is_string(session.enforcement.pids)
    session:close()
  end)

  it("is relaxed by best_effort, and that is told", function()
    local config = { limits = { memory_mb = 64 }, enforcement = "best_effort" }
    local session = assert(mooncage.open(config))
    assert.is_string(session.enforcement.memory)
    assert.is_true(assert(session:exec "true").ok)
    session:close()
  end)

  it("out of any range is refused, with the key", function()
    for _, limits in ipairs {
      { memory_mb = -1 }, { memory_mb = 0 }, { pid_limit = 1.5 }, { cpu_count = 0 },
      { disk_mb = 1e12 }, { exec_s = -1 }, { wall_s = 0 }, { open_files = 1 },
    } do
      local key = next(limits)
      local session, err = mooncage.open { limits = limits }
      if session then session:close() end
      assert.is_nil(session, key)
      assert.equal("invalid", err.code, key)
      assert.truthy(err.message:find(key, 1, true))
    end
  end)
end)

describe("the network", function()
  support.leaves_nothing()

  it("is none: only a loopback of its own", function()
    local session = assert(mooncage.open())
    local result = assert(session:exec "cat /proc/net/dev")
    local devices = {}
    for name in result.stdout:gmatch "%s*([%w]+):" do devices[#devices + 1] = name end
    assert.same({ "lo" }, devices)
    session:close()
  end)

  it("open or with rules is refused where nothing can keep rules", function()
    for _, network in ipairs { "open", { default = "allow" }, { allow = { "example.org:443" } } } do
      local session, err = mooncage.open { network = network, backend = "subprocess" }
      if session then session:close() end
      assert.is_nil(session)
      assert.equal("unenforceable", err.code)
      assert.is_string(err.fix)
    end
  end)
end)
