-- A session that is kept: other engines of the same user take it up, use it and let go of it.
local mooncage = require "mooncage"
local support = require "support"

describe("a kept session", function()
  local session, directory

  support.leaves_nothing(function()
    session = assert(mooncage.open { labels = { kept = "yes" } })
    directory = support.temporary()
    support.host("chmod 700 " .. directory)
    assert(session:_keep(directory .. "/s.sock"))
  end, function()
    assert(session:close())
    support.host("rm -rf " .. directory)
  end)

  ---Runs Lua text in another process, with the state in `state`; our own loop keeps turning.
  local function elsewhere(text)
    support.write_file(directory .. "/state", assert(session:state()))
    support.write_file(directory .. "/other.lua", ([[
      local mooncage = require "mooncage"
      local state = io.open("%s/state"):read "*a"
      %s
    ]]):format(directory, text))
    support.host(([[cd %s; rm -f status
      (%s other.lua > out 2>&1; echo $? > code; mv code status) > /dev/null 2>&1 &]]):format(
      directory, support.lua))
    for _ = 1, 1000 do
      mooncage.sleep(0.01)
      if support.read_file(directory .. "/status") then
        return support.read_file(directory .. "/out")
      end
    end
    error "the other process did not end"
  end

  it("has a state without secrets, as text", function()
    local state = assert(session:state())
    assert.is_string(state)
    assert.is_table(mooncage.json.decode(state))
  end)

  it("is used by another process, which sees the same workspace", function()
    assert(session:write("note", "from the first\n"))
    assert.equal("from the first\njail\tyes\ntrue\n", elsewhere [[
      local session = assert(mooncage.resume(state))
      io.write(session:exec "cat note".stdout)
      print(session.backend, session.labels.kept)
      assert(session:write("answer", "from the second\n"))
      print(session:close())
    ]])
    assert.equal("from the second\n", session:read "answer")
  end)

  it("stays when one that took it up lets go, or dies", function()
    elsewhere "assert(assert(mooncage.resume(state)):close())"
    assert.is_true(assert(session:exec "true").ok)
    elsewhere [[
      local session = assert(mooncage.resume(state))
      assert(session:start { "sleep", "78" })
      assert(session:exec({ "sleep", "77" }, { detach = true }))
      os.exit(0)
    ]]
    local left
    for _ = 1, 200 do
      mooncage.sleep(0.02)
      left = {}
      for _, process in ipairs(assert(session:processes())) do
        left[#left + 1] = process.command:match "sleep.(%d+)"
      end
      table.sort(left)
      if #left == 1 then break end
    end
    assert.same({ "77" }, left)
    assert.is_true(assert(session:exec "true").ok)
  end)

  it("is ended by a stop from elsewhere", function()
    assert.equal("true\n", elsewhere "print(assert(mooncage.resume(state)):stop())")
    local result, err = session:exec "true"
    assert.is_nil(result)
    assert.is_string(err.code)
  end)

  it("that is gone cannot be taken up", function()
    local state = assert(session:state())
    assert(session:close())
    local again, err = mooncage.resume(state)
    assert.is_nil(again)
    assert.truthy(err.code == "not_found" or err.code == "unavailable", err.code)
  end)

  it("is not taken up from garbage", function()
    for _, text in ipairs { "", "{}", "nonsense", '{"v":1}' } do
      local again, err = mooncage.resume(text)
      assert.is_nil(again)
      assert.is_string(err.code)
    end
    assert.has_error(function() mooncage.resume(nil) end)
    assert.has_error(function() mooncage.resume {} end)
  end)
end)
