-- Calls for snapshots that come at a bad time, or name a bad store: while the session closes, or is
-- restored. Each is all of it, or an error; what came too late finds no sandbox, and says so.
local mooncage = require "mooncage"
local support = require "support"

describe("a snapshot", function()
  local directory, store

  support.leaves_nothing(function()
    directory = support.temporary()
    store = mooncage.store.file { dir = directory .. "/store" }
  end, function()
    support.host("rm -rf " .. directory)
  end)

  ---A new session, with a number of files.
  local function filled(count, config)
    config.snapshot_store = store
    local session = assert(mooncage.open(config))
    if count > 0 then assert(session:exec(("touch $(seq %d)"):format(count)).ok) end
    return session
  end

  ---The call came too late, or in time.
  local function told(task)
    local result, err = task:wait()
    local codes = { canceled = true, unavailable = true, timeout = true }
    assert.is_true(result ~= nil or codes[err.code] or false, err and err.message)
    return err
  end

  it("of a session that is closed meanwhile says so", function()
    local session = filled(0, {})
    assert(session:exec "head -c 12000000 /dev/zero > big")
    assert(session:snapshot "big")
    assert(session:close())
    for _, call in ipairs { "restore", "snapshot", "fork" } do
      for _, seconds in ipairs { 0, 0.001, 0.004, 0.02, 0.06 } do
        session = filled(0, {})
        local tasks = {}
        for i = 1, 2 do
          tasks[i] = mooncage.spawn(function() return session[call](session, "big") end)
        end
        mooncage.sleep(seconds)
        assert(session:close())
        for _, task in ipairs(tasks) do
          local copy = not told(task) and task:wait()
          if call == "fork" and copy then assert(copy:close()) end
        end
      end
    end
    session = filled(0, { limits = { wall_s = 0.3 } })
    local restored, err
    repeat restored, err = session:restore "big" until not restored
    assert.matches("wall limit", err.message, 1, true)
    assert(session:close())
  end)

  it("that a session leaves waits for the end of a restore", function()
    local other = filled(400, {})
    assert(other:snapshot "other")
    assert(other:close())
    for _, seconds in ipairs { 0.01, 0.02, 0.03, 0.04, 0.06 } do
      local session = filled(300, { snapshot = { id = "mine", restore = "never" } })
      local task = mooncage.spawn(function() return session:restore "other" end)
      mooncage.sleep(seconds)
      assert(session:close())
      local err, count = told(task), store:show("mine").file_count
      assert.is_true(count == 400 or (err and count == 300), count) -- it may have been done already
    end
  end)

  it("is taken before or after a restore", function()
    local session = filled(400, {})
    assert(session:snapshot "all")
    local tasks = {}
    for i = 1, 12 do
      tasks[i] = mooncage.spawn(function()
        if i % 3 == 0 then return session:restore "all" end
        mooncage.sleep(i / 400)
        if i % 3 == 1 then return session:snapshot("part" .. i) end
        local copy = assert(session:fork())
        local seen = copy:exec("ls | wc -l").stdout
        assert(copy:close())
        return { file_count = tonumber(seen) }
      end)
    end
    for _, task in ipairs(tasks) do assert.equal(400, assert(task:wait()).file_count) end
    local done = 0
    local loop = mooncage.spawn(function()
      for _ = 1, 5 do done = done + (session:restore "all" and 1) end
      return true
    end)
    mooncage.sleep(0.005)
    assert(session:snapshot "between") -- before all of them
    assert.is_true(done < 5)
    assert(loop:wait())
    assert(session:close())
  end)

  it("is kept where the sandbox cannot write, also by a single call", function()
    local mine = directory .. "/mine"
    support.host("mkdir " .. mine)
    local within = mooncage.store.file { dir = mine .. "/store" }
    assert(within:save { id = "one", data = "x" })
    for _, more in ipairs {
      { backend = mooncage.jail { binds = { mine .. ":/m:rw" } } },
      { backend = mooncage.jail { binds = { mine .. "/store/common:/m:rw" } } },
      { backend = mooncage.subprocess { working_directory = mine } },
      { project = mine },
    } do
      local session = filled(0, more)
      for _, call in ipairs { "snapshot", "restore" } do
        local _, err = session[call](session, "one", { store = within })
        assert.matches("^store: the sandbox may change", err.message)
      end
      assert(session:close())
      more.snapshot_store = within
      local _, err = mooncage.open(more)
      assert.equal("invalid", err.code)
    end
  end)
end)
