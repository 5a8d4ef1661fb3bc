-- The project view: a copy-on-write workspace of a host directory, its changes, and writing them
-- back.
local mooncage = require "mooncage"
local support = require "support"

local function project(sandbox)
  local directory

  support.leaves_nothing(function()
    directory = support.temporary()
    support.host("cd " .. directory ..
      " && mkdir sub && echo one > a && echo two > sub/b && sleep 0.02")
  end, function()
    support.host("rm -rf " .. directory)
  end)

  local function tree()
    return support.host("cd " .. directory .. " && find . -printf '%P %m %l\\n' | sort && cat a")
  end

  ---A session on the project in which the command has run.
  local function changed(command)
    local session = assert(mooncage.open { backend = sandbox.backend(), project = directory })
    local result = assert(session:exec(command))
    assert.equal("", result.stderr)
    return session
  end

  it("shows the tree, and leaves it alone", function()
    local before = tree()
    local session = changed "cat a sub/b; echo x >> a; rm -r sub; mkdir sub; mv a c; echo n > n"
    assert.equal("x\n", session:exec("tail -n 1 c").stdout)
    session:close()
    assert.equal(before, tree())
  end)

  it("lists what changed, and how", function()
    local session = changed "echo x >> a; rm sub/b; mkdir d; echo n > d/new; chmod 600 d/new"
    local report = assert(session:diff())
    local seen = {}
    for _, change in ipairs(report.changes) do seen[#seen + 1] = change.op .. " " .. change.path end
    assert.same({ "M a", "A d", "A d/new", "D sub/b" }, seen)
    assert.truthy(report.diff:find("--- a/a\n+++ b/a\n@@ -1 +1,2 @@\n one\n+x\n", 1, true))
    assert.truthy(report.diff:find("--- /dev/null\n+++ b/d/new", 1, true))
    session:close()
  end)

  it("writes back, and ends the session", function()
    local session = changed [[echo x >> a; rm -r sub; mkdir d; echo n > d/new; ln -s a l
      chmod 755 a]]
    local report = assert(session:apply())
    assert.equal(6, #report.applied)
    assert.equal(" 755 \na 755 \nd 755 \nd/new 644 \nl 777 a\none\nx\n",
      (tree():gsub("^ %d+", " 755")))
    local result, err = session:exec "true"
    assert.is_nil(result)
    assert.equal("unavailable", err.code)
    session:close()
  end)

  local function refused(code, word, command, on_host)
    local session = changed(command)
    if on_host then support.host("cd " .. directory .. " && " .. on_host) end
    local before = tree()
    local report, err = session:apply()
    session:close()
    assert.is_nil(report)
    assert.equal(code, err.code)
    assert.truthy(tostring(err):find(word, 1, true), tostring(err))
    assert.is_string(err.fix)
    assert.equal(before, tree())
  end

  it("a file that changed on the host meanwhile is a conflict, and nothing is written", function()
    refused("conflict", "a:", "echo x >> a; echo n > n", "echo host >> a")
    refused("conflict", "n:", "echo x >> a; echo n > n", "echo host > n")
    refused("conflict", "sub", "rm -r sub", "echo more > sub/more")
  end)

  it("what is not harmless outside is refused", function()
    refused("archive_unsafe", "set-user-id", "cp /bin/true s; chmod 4755 s; echo x >> a")
    refused("archive_unsafe", "leaves the project", "ln -s /etc/passwd l; echo x >> a")
    refused("archive_unsafe", "leaves the project", "ln -s ../x l")
    refused("archive_unsafe", "fifo", "mkfifo p")
    refused("archive_unsafe", ".git", "mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit")
  end)

  it("a background process cannot go on changing what is written", function()
    local session = changed [[(while :; do echo y > busy; done) >/dev/null 2>&1 &
      sleep 0.1; echo x >> a]]
    local report, err = session:apply()
    session:close()
    if report then
      assert.equal("one\nx\n", support.read_file(directory .. "/a"))
    else -- caught in the middle of a write
      assert.truthy(tostring(err):find "busy")
    end
  end)
end

describe("project, jail", function()
  project(support.sandboxes()[1])
end)
describe("project, jail, framed", function()
  project(support.sandboxes()[2])
end)

describe("project", function()
  support.leaves_nothing()

  it("is refused where there is no view", function()
    local session, err = mooncage.open { backend = mooncage.subprocess(), project = "/tmp" }
    assert.is_nil(session)
    assert.equal("unsupported", err.code)
    session, err = mooncage.open { project = "/no/such" }
    assert.is_nil(session)
    assert.equal("not_found", err.code)
    session = assert(mooncage.open {})
    local report
    report, err = session:diff()
    assert.is_nil(report)
    assert.equal("unsupported", err.code)
    session:close()
  end)
end)
