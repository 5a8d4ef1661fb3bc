-- Profile packages: a range of uids, and the manifest's users in it. Where the machine gives this
-- user no range that is the error, with its fix, and the rest is skipped with the reason.
local mooncage = require "mooncage"
local support = require "support"

---Opens with profile packages, or skips the case with what stands in the way.
local function open(users, options, more)
  local all = { profile = "packages" }
  for key, value in pairs(options or {}) do all[key] = value end
  local config = { backend = mooncage.jail(all), manifest = users and { users = users } }
  for key, value in pairs(more or {}) do config[key] = value end
  local session, err = mooncage.open(config)
  if session then return session end
  if err.code ~= "unenforceable" then return nil, err end
  assert.truthy(err.fix:find("uidmap", 1, true), err.fix)
  pending("no range of uids here: " .. err.message)
end

local function says(session, command, user)
  local result = assert(session:exec(command, { user = user }))
  assert.equal("", result.stderr)
  return result.stdout
end

local function ranges(options)
  support.leaves_nothing()

  it("has a range of uids, root of which owns nothing outside", function()
    local session = open(nil, options)
    assert.equal("0:0\n", says(session, "echo $(id -u):$(id -g)"))
    assert.equal("65536\n", says(session, "awk '{ n += $3 } END { print n }' /proc/self/uid_map"))
    assert.equal("33 44\n", says(session, "touch f && chown 33:44 f && stat -c '%u %g' f"))
    assert.equal("33:33\n", says(session, "echo $(id -u):$(id -g)", "33"))
    assert.equal("7:8\n", says(session, "echo $(id -u):$(id -g)", "7:8"))
    session:close()
  end)

  it("has the manifest's users, each with a home that is its own", function()
    local session = open({
      { name = "bob" },
      { name = "carol", uid = 2000, gid = 50, home = "/srv/people/carol" },
      { name = "dave", home = "/tmp/dave" },
    }, options)
    local who = "id -un; id -u; id -g; echo $HOME $USER; cd; pwd; touch x; stat -c '%a %u %g %U' ."
    assert.equal("bob\n1000\n1000\n/home/bob bob\n/home/bob\n700 1000 1000 bob\n",
      says(session, who, "bob"))
    assert.equal(
      "carol\n2000\n50\n/srv/people/carol carol\n/srv/people/carol\n700 2000 50 carol\n",
      says(session, who, "carol"))
    assert.equal("dave\n1001\n1001\n/tmp/dave dave\n/tmp/dave\n700 1001 1001 dave\n",
      says(session, who, "dave"))
    assert.is_false(assert(session:exec("ls /home/bob", { user = "carol" })).ok)
    assert.equal("/x\n", assert(session:exec("echo $HOME",
      { user = "bob", env = { HOME = "/x" } })).stdout)
    assert.equal("", assert(session:read "/home/bob/x"))
    session:close()
  end)

  it("gives the working directory to the user whose home it is", function()
    local session = open({ { name = "bob", home = "/workspace" } }, options, { user = "bob" })
    assert.equal("/workspace\nbob bob\n", says(session, "pwd; touch f; stat -c '%U %G' f"))
    session:close()
  end)

  it("gives what is put into a user's directory to that user", function()
    local base = support.temporary()
    support.host(("cd %s && mkdir -p in/sub && echo a >in/sub/f && tar cf p.tar in "
      .. "&& tar czf z.tgz in"):format(base))
    local session = open(nil, options, { user = "bob", manifest = {
      users = { { name = "bob", home = "/workspace" } },
      base = base,
      files = { ["made/text"] = "x", ["run"] = { content = "x", mode = "755" } },
      directories = { { path = "empty" } },
      copies = { { from = "in", to = "copied" } },
      archives = { { from = "p.tar", to = "plain" }, { from = "z.tgz", to = "zipped" } },
    } })
    assert(session:mkdir "later/empty")
    assert(session:write("later/text", "x"))
    assert(session:upload(base .. "/in", "up"))
    assert.equal("", says(session, "find . ! -user bob -o ! -group bob"))
    assert.equal("", says(session, "echo y >>made/text && echo y >>plain/in/sub/f && "
      .. "touch up/sub/g zipped/in/new copied/sub/new empty/new later/empty/new"))
    assert.equal("755\n", says(session, "stat -c %a run"))
    assert(session:write("/tmp/of-root", "x"))
    assert.equal("0:0\n", says(session, "stat -c %u:%g /tmp/of-root"))
    session:close()
    support.host("rm -rf " .. base)
  end)

  it("adds to the users of a rootfs, and takes none of them over", function()
    local root = support.temporary()
    support.host(("cd %s && chmod 755 . && mkdir -p bin usr etc home/old && cp /bin/busybox bin && "
      .. "for p in sh id stat cat; do ln -s busybox bin/$p; done"):format(root))
    support.write_file(root .. "/etc/passwd",
      "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/:/bin/sh")
    support.write_file(root .. "/etc/group", "root:x:0:\nalice:x:1000:\nstaff:x:50:\n")
    local mine = { rootfs = root }
    for key, value in pairs(options) do mine[key] = value end
    local session = open({ { name = "bob" }, { name = "eve", gid = 50 } }, mine)
    assert.equal("1001 1001 700\n", says(session, "echo $(id -u) $(id -g) $(stat -c %a ~)", "bob"))
    assert.equal("eve staff\n", says(session, "echo $(id -un) $(id -gn)", "eve"))
    assert.equal("alice\n", says(session, "id -un", "alice"))
    session:close()
    for part, user in pairs {
      ["alice: a user of that name"] = { name = "alice" },
      ["bob: a user of that uid"] = { name = "bob", uid = 1000 },
      ["staff: a group of that name"] = { name = "staff" },
    } do
      local none, err = open({ user }, mine)
      assert.is_nil(none)
      assert.equal("conflict", err.code)
      assert.truthy(err.message:find(part, 1, true), err.message)
    end
    support.host("rm -rf " .. root)
  end)

  it("refuses a home that would be the host's, or is there already", function()
    local refusals = { ["/usr/bob"] = "invalid", ["/etc/bob"] = "invalid", ["/opt"] = "conflict" }
    for home, code in pairs(refusals) do
      local session, err = open({ { name = "bob", home = home } }, options)
      assert.is_nil(session)
      assert.equal(code, err.code, tostring(err))
      assert.truthy(err.message:find("bob", 1, true))
    end
  end)
end

describe("profile packages", function() ranges {} end)
describe("profile packages, framed", function() ranges { carrier = "framed" } end)

describe("manifest users", function()
  support.leaves_nothing()

  local function refused(code, part, users, backend)
    local session, err = mooncage.open {
      backend = backend or mooncage.jail { profile = "packages" }, manifest = { users = users },
    }
    assert.is_nil(session)
    assert.equal(code, err.code, tostring(err))
    assert.truthy(tostring(err):find(part, 1, true), tostring(err))
    return err
  end

  it("are unsupported where there is one uid", function()
    local strict = mooncage.jail { profile = "strict" }
    local others = { mooncage.jail {}, strict, mooncage.subprocess {} }
    for _, backend in ipairs(others) do
      local err = refused("unsupported", "manifest.users", { { name = "bob" } }, backend)
      assert.truthy(err.fix:find('profile = "packages"', 1, true))
    end
  end)

  it("are judged before anything is made", function()
    for _, name in ipairs { "a:b", "a\nb", "a/b", "", "9", "-x", "a b", ("x"):rep(33), "ä" } do
      refused("invalid", "manifest.users[1].name", { { name = name } })
    end
    refused("invalid", "manifest.users[1].name", { { name = "a\0b" } })
    refused("invalid", "manifest.users[1].name", { { uid = 5 } })
    for _, name in ipairs { "root", "sandbox", "nobody" } do
      refused("invalid", "every sandbox has a user " .. name, { { name = name } })
    end
    refused("invalid", "manifest.users[1].uid", { { name = "a", uid = 0 } })
    refused("invalid", "manifest.users[1].gid", { { name = "a", gid = 0 } })
    for _, uid in ipairs { -1, 65534, 65536, 1.5, 2 ^ 32, "5" } do
      refused("invalid", "manifest.users[1].uid", { { name = "a", uid = uid } })
    end
    refused("invalid", "manifest.users[2].name", { { name = "a" }, { name = "a" } })
    local one, same = { name = "a", uid = 7 }, { name = "b", uid = 7 }
    refused("invalid", "manifest.users[2].uid", { one, same })
    same = { name = "b", home = "/home/a" }
    refused("invalid", "manifest.users[2].home", { one, same })
    for _, home in ipairs { "x", "/", "/a/../b", "/a//b", "/a/", "/./a", "/a:b", "/a\nb", "/proc/x",
      "/dev", "/sys/x", "/mooncage", "/" .. ("x"):rep(255) } do
      refused("invalid", "manifest.users[1].home", { { name = "a", home = home } })
    end
    local err = refused("invalid", "manifest.users[1].hom", { { name = "a", hom = "/x" } })
    assert.truthy(err.fix:find("home", 1, true))
    local many = {}
    for i = 1, 65 do many[i] = { name = "u" .. i } end
    refused("invalid", "64", many)
  end)

  it("are part of the manifest's hash", function()
    local function hash(users)
      local session = open(users)
      local text = session.manifest_hash
      session:close()
      return text
    end
    local one = hash { { name = "bob", uid = 1500 } }
    assert.equal(one, hash { { uid = 1500, name = "bob" } })
    assert.not_equal(one, hash { { name = "bob", uid = 1501 } })
    assert.not_equal(one, hash { { name = "bob" } })
  end)
end)
