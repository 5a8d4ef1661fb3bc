-- Everything at once: tasks that use sessions at random and are canceled at random, the collector
-- run on the way. Each operation ends, with a value or an error; nothing is left. The seed is
-- printed with a failure and can be given as $SPEC_SEED.
local mooncage = require "mooncage"
local support = require "support"

local seed = tonumber(os.getenv "SPEC_SEED") or os.time() % 100000
local random = math.random

local OPERATIONS = {
  function(s) return s:exec "true" end,
  function(s) return s:exec("cat", { stdin = ("x"):rep(random(1, 200000)) }) end,
  function(s) return s:exec("sleep 60", { timeout = 0.001 + random() * 0.05 }) end,
  function(s) return s:exec({ "seq", random(1, 50000) }, { on_stdout = collectgarbage }) end,
  function(s)
    return s:exec("echo x", { on_stdout = function() if random(2) == 1 then error "no" end end })
  end,
  function(s)
    local n = random(0, 5)
    return s:exec("cat", { stdin = function()
      mooncage.sleep(random() * 0.01)
      n = n - 1
      return n >= 0 and ("y"):rep(1000) or nil
    end })
  end,
  function(s)
    local process, err = s:start "cat"
    if not process then return nil, err end
    for _ = 1, random(0, 3) do
      local ok, problem = process:write(("z"):rep(random(1, 100000)))
      if not ok then return nil, problem end
      if random(2) == 1 then process:read() end
    end
    if random(3) == 1 then process:signal "KILL" end
    if random(3) == 1 then process:cancel() end
    process:close_stdin()
    return process:wait()
  end,
  function(s) return s:start "sleep 60" end, -- and forgotten
  function(s) return s:write("f" .. random(3), ("f"):rep(random(0, 100000))) end,
  function(s) return s:read("f" .. random(3)) end,
  function(s) return s:list() end,
  function(s) return s:remove("f" .. random(3)) end,
  function(s) return s:processes() end,
  function(s) return s:stats() end,
  function(s) return s:exec("stty size", { pty = { cols = random(200), rows = random(100) } }) end,
  function(s) return s:persist_workspace(function() return random(4) > 1 end) end,
  function() return mooncage.sleep(random() * 0.02) end,
  function(s) if random(10) == 1 then return s:close() end return true end,
}

---One user of a session; counts what it did. Stops when it is canceled.
local function user(session, counts)
  for _ = 1, 8 do
    local value, err = OPERATIONS[random(#OPERATIONS)](session)
    if value == nil and err ~= nil then
      assert(type(err.code) == "string" and type(err.message) == "string", tostring(err))
      assert(err.code ~= "internal", err.message)
      if err.code == "canceled" then counts.canceled = counts.canceled + 1 end
    end
    counts.done = counts.done + 1
    if random(3) == 1 then collectgarbage() end
  end
end

local function storm(sandbox)
  local counts = { done = 0, canceled = 0 }
  local tasks = {}
  for i = 1, 4 do
    tasks[i] = mooncage.spawn(function()
      local session, err = mooncage.open { backend = sandbox.backend() }
      if not session then return nil, err end
      local users = {}
      for j = 1, 4 do
        users[j] = mooncage.spawn(function() user(session, counts) end)
      end
      mooncage.sleep(random() * 0.2)
      for _, task in ipairs(users) do
        if random(2) == 1 then task:cancel() end
      end
      for _, task in ipairs(users) do
        local _, problem = task:wait()
        assert(not problem or problem.code == "canceled", tostring(problem))
      end
      assert(session:close())
    end)
  end
  mooncage.sleep(random() * 0.3)
  if random(2) == 1 then tasks[random(4)]:cancel() end
  for _, task in ipairs(tasks) do
    local _, err = task:wait()
    assert.is_true(not err or err.code == "canceled", ("seed %d: %s"):format(seed, tostring(err)))
  end
  assert.is_true(counts.done > 0)
end

for _, sandbox in ipairs(support.sandboxes()) do
  describe("a storm on " .. sandbox.name, function()
    support.leaves_nothing()

    it("ends, with nothing left", function()
      math.randomseed(seed)
      for _ = 1, 3 do storm(sandbox) end
    end)
  end)
end
