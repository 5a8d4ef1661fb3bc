-- What is written to a path of the host: a snapshot's data, a workspace, a file of the sandbox.
-- What lies there and is no file stays what it is.
local mooncage = require "mooncage"
local support = require "support"

describe("what is written to a path of the host", function()
  local directory, store

  support.leaves_nothing(function()
    directory = support.temporary()
    store = mooncage.store.file { dir = directory .. "/store" }
  end, function()
    support.host("rm -rf " .. directory)
  end)

  it("goes into a fifo, and to where a link leads", function()
    local function at(name) return directory .. "/" .. name end
    support.host(("cd %s; mkfifo fifo; echo old > real; ln -s real link; ln -s none lost"):format(
      directory))
    assert(store:save { id = "raw", data = "abc" })
    mooncage.with({}, function(session)
      assert(session:write("f", "from f"))
      assert(session:write("long", ("x"):rep(1e6)))
      for written, write in pairs {
        abc = function(to) return store:load("raw", to) end,
        ["from f"] = function(to) return session:download("f", to) end,
        ["./\0"] = function(to) return session:persist_workspace(to) end,
      } do
        support.host(("cd %s; (cat fifo > got; mv got new) > /dev/null 2>&1 &"):format(directory))
        assert(write(at "fifo"))
        local got
        for _ = 1, 500 do
          got = support.read_file(at "new")
          if got then break end
          mooncage.sleep(0.01)
        end
        assert.equal(written, got:sub(1, #written))
        assert(write(at "link"))
        assert.equal(written, support.read_file(at "real"):sub(1, #written))
        local none, err = write(at "lost")
        assert.is_nil(none)
        assert.equal("not_found", err.code)
        assert.matches("no link to nowhere", err.fix)
        assert.equal("none\nfifo\nreal\n", support.host(
          ("cd %s; rm new; readlink lost; find . -type p -printf '%%f\n'; readlink link"):format(
            directory)))
      end
      support.host(("cd %s; (head -c 1 fifo) > /dev/null 2>&1 &"):format(directory))
      local none, err = session:download("long", at "fifo")
      assert.is_nil(none) -- and no signal has ended this process
      assert.matches("Broken pipe", err.message)
      return true
    end)
  end)
end)
