-- Binds: host paths seen live in a jail, read-only unless rw is said.
local mooncage = require "mooncage"
local support = require "support"

describe("binds", function()
  local directory

  support.leaves_nothing(function()
    directory = support.temporary()
    support.write_file(directory .. "/file", "from the host\n")
    support.host("chmod 755 " .. directory)
  end, function()
    support.host("umount " .. directory .. "/late 2>/dev/null; rm -rf " .. directory)
  end)

  local function bound(binds, command)
    local session = assert(mooncage.open { backend = mooncage.jail { binds = binds } })
    local result = assert(session:exec(command))
    session:close()
    return result
  end

  it("show a directory live, and read-only", function()
    local session = assert(mooncage.open {
      backend = mooncage.jail { binds = { directory .. ":/mnt" } },
    })
    assert.equal("from the host\n", session:exec("cat /mnt/file").stdout)
    support.write_file(directory .. "/file", "changed\n")
    assert.equal("changed\n", session:exec("cat /mnt/file").stdout)
    assert.is_false(session:exec("echo x > /mnt/file").ok)
    session:close()
    assert.equal("changed\n", support.read_file(directory .. "/file"))
  end)

  it("have places anywhere, made where they are missing", function()
    for _, place in ipairs { "/mnt", "/data/deep", "/workspace/in", "/tmp/there" } do
      local result = bound({ directory .. ":" .. place }, "cat " .. place .. "/file")
      assert.equal("from the host\n", result.stdout, place)
    end
  end)

  it("see what the host mounts while the engine lives", function()
    if support.host("id -u"):match "%d+" ~= "0" then
      pending "only root can mount"
      return
    end
    for _ = 1, 3 do assert(bound({}, "true").ok) end
    support.host(("mkdir %s/late && mount -t tmpfs tmpfs %s/late && echo late > %s/late/file")
      :format(directory, directory, directory))
    assert.equal("late\n", bound({ directory .. "/late:/mnt" }, "cat /mnt/file").stdout)
  end)

  it("refuse what is missing, relative, or the sandbox's own", function()
    local function refused(code, bind)
      local session, err = mooncage.open { backend = mooncage.jail { binds = { bind } } }
      if session then session:close() end
      assert.is_nil(session, bind)
      assert.equal(code, err.code, tostring(err))
    end
    refused("not_found", "/no/such:/mnt")
    refused("invalid", "relative:/mnt")
    refused("invalid", directory .. ":mnt")
    refused("invalid", directory .. ":/a/../../b")
    refused("invalid", directory .. ":/mnt:rwx")
    refused("invalid", directory .. ":/proc/1")
    refused("invalid", directory .. ":/dev")
  end)
end)
