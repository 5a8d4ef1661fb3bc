-- Files of a session, as seen from inside; workspaces as tar.
local mooncage = require "mooncage"
local support = require "support"

local function files(sandbox)
  local session, directory

  support.leaves_nothing(function()
    session = assert(mooncage.open { backend = sandbox.backend() })
    directory = support.temporary()
  end, function()
    assert(session:close())
    support.host("chmod -R u+rwx " .. directory .. "; rm -rf " .. directory)
  end)

  local function fails(code, ok, err)
    assert.is_nil(ok)
    assert.equal(code, err.code)
    return err
  end

  it("write and read are byte-exact", function()
    local data = ("\0\1\200\255\n"):rep(60000)
    assert.is_true(session:write("deep.bin", data))
    assert.is_true(session:read "deep.bin" == data)
    assert.equal("300000\n", (session:exec "wc -c < deep.bin".stdout:gsub(" ", "")))
    assert.is_true(session:write("empty", ""))
    assert.equal("", session:read "empty")
  end)

  it("write replaces, and sets the mode", function()
    assert(session:write("f", "one", "600"))
    assert(session:write("f", "two", 493))
    assert.equal("two", session:read "f")
    assert.equal(493, session:stat("f").mode)
    assert.equal("755 two", assert(session:exec 'printf "%s %s" $(stat -c %a f) $(cat f)').stdout)
    assert.has_error(function() session:write("f", "x", "rw") end)
    assert.has_error(function() session:write("f", 1) end)
    assert.has_error(function() session:write("f", nil) end)
  end)

  it("read is bounded where it is asked to be", function()
    assert(session:write("f", ("x"):rep(1000)))
    local data, err = session:read("f", { max_bytes = 999 })
    assert.is_nil(data)
    assert.is_string(err.code)
    assert.equal(1000, #session:read("f", { max_bytes = 1000 }))
  end)

  it("read says what is missing, and what is no file", function()
    local err = fails("not_found", session:read "nothing")
    assert.truthy(tostring(err):find("nothing", 1, true))
    assert(session:mkdir "d")
    fails("invalid", session:read "d")
    assert(session:exec "mkfifo p")
    fails("invalid", session:read "p")
  end)

  it("paths may not leave by .., or hold NUL", function()
    fails("invalid", session:read "../../etc/passwd")
    fails("invalid", session:write("../x", "y"))
    assert.error_matches(function() session:read "a\0b" end, "NUL")
    assert.error_matches(function() session:read(nil) end, "must be a string")
  end)

  it("list tells names, types, sizes, modes and links", function()
    assert(session:mkdir "d/sub")
    assert(session:write("d/file", "12345", "640"))
    assert(session:exec "ln -s file d/link; mkfifo d/pipe")
    local found = {}
    for _, entry in ipairs(assert(session:list "d")) do found[entry.name] = entry end
    assert.equal("directory", found.sub.type)
    assert.equal("file", found.file.type)
    assert.equal(5, found.file.size)
    assert.equal(416, found.file.mode)
    assert.equal("symlink", found.link.type)
    assert.equal("file", found.link.target)
    assert.equal("fifo", found.pipe.type)
    assert.is_true(math.abs(found.file.mtime - os.time()) < 60)
    fails("not_found", session:list "nothing")
  end)

  it("list has names as they are", function()
    assert(session:exec [[mkdir odd; cd odd
      touch "a b" ./-n "$(printf 'x\ny')" "$(printf 'q\377')"]])
    local names = {}
    for _, entry in ipairs(assert(session:list "odd")) do names[#names + 1] = entry.name end
    table.sort(names)
    assert.same({ "-n", "a b", "q\255", "x\ny" }, names)
    assert.is_true(session:remove "odd/x\ny")
    assert.is_true(session:remove "odd/-n")
    assert.equal(2, #session:list "odd")
  end)

  it("list of a thousand files is whole", function()
    assert(session:exec
      "mkdir many; cd many; i=0; while [ $i -lt 1000 ]; do : > f$i; i=$((i+1)); done")
    assert.equal(1000, #assert(session:list "many"))
  end)

  it("stat tells one, and does not follow a link", function()
    assert(session:exec "echo hi > f; ln -s f l")
    assert.equal("file", session:stat("f").type)
    assert.equal(3, session:stat("f").size)
    assert.equal("symlink", session:stat("l").type)
    fails("not_found", session:stat "nothing")
  end)

  it("mkdir makes parents, and does not mind one that is there", function()
    assert.is_true(session:mkdir("a/b/c", "700"))
    assert.is_true(session:mkdir "a/b/c")
    assert.equal("directory", session:stat("a/b").type)
    assert.equal(448, session:stat("a/b/c").mode)
    assert(session:write("f", ""))
    local ok = session:mkdir "f/d"
    assert.is_nil(ok)
  end)

  it("remove takes whole trees, and follows no link", function()
    assert(session:exec "mkdir -p t/u keep; echo x > t/u/f; echo y > keep/f; ln -s ../keep t/link")
    assert.is_true(session:remove "t")
    fails("not_found", session:stat "t")
    assert.equal("y\n", session:read "keep/f")
    fails("not_found", session:remove "t")
  end)

  it("move renames", function()
    assert(session:write("a", "x"))
    assert.is_true(session:move("a", "b"))
    assert.equal("x", session:read "b")
    fails("not_found", session:move("a", "c"))
  end)

  it("upload and download carry files and trees", function()
    support.host(([[cd %s; mkdir -p tree/sub; printf 'a\0b' > tree/f; echo hi > tree/sub/g;
      chmod 755 tree/sub/g]]):format(directory))
    assert.is_true(session:upload(directory .. "/tree", "up"))
    assert.equal("a\0b", session:read "up/f")
    assert.equal(493, session:stat("up/sub/g").mode)
    assert.is_true(session:download("up", directory .. "/back"))
    assert.equal("", support.host(("cd %s; diff -r tree back 2>&1"):format(directory)))
    assert.is_true(session:write("one", { from = directory .. "/tree/f" }))
    assert.is_true(session:download("one", directory .. "/one"))
    assert.equal("a\0b", support.read_file(directory .. "/one"))
  end)

  it("upload follows no link of the host", function()
    support.host(("cd %s; mkdir t; echo secret > outside; ln -s ../outside t/link"):format(
      directory))
    local ok, err = session:upload(directory .. "/t", "up")
    assert.is_nil(ok)
    assert.is_string(err.code)
    fails("not_found", session:upload(directory .. "/missing", "up"))
  end)

  it("download writes nothing outside, whatever the sandbox holds", function()
    assert(session:exec "mkdir t; ln -s /etc/passwd t/link; echo x > t/f")
    session:download("t", directory .. "/t")
    assert.falsy((support.read_file(directory .. "/t/link") or ""):find("root:", 1, true))
    fails("not_found", session:download("missing", directory .. "/m"))
    assert.is_nil(support.read_file(directory .. "/m"))
  end)

  it("a workspace goes to a tar file and comes back in another session", function()
    assert(session:exec "mkdir -p p/q; echo one > p/q/f; chmod 750 p/q/f; ln -s q/f p/l")
    assert.is_true(session:persist_workspace(directory .. "/w.tar"))
    local names = support.host(("tar tf %s/w.tar"):format(directory))
    assert.truthy(names:find("p/q/f", 1, true))
    local other = assert(mooncage.open { backend = sandbox.backend() })
    assert.is_true(other:restore_workspace(directory .. "/w.tar"))
    assert.equal("one\n", other:read "p/q/f")
    assert.equal(488, other:stat("p/q/f").mode)
    assert.equal("q/f", other:stat("p/l").target)
    other:close()
  end)

  it("a workspace goes through functions", function()
    assert(session:write("f", ("x"):rep(300000)))
    local chunks = {}
    assert.is_true(session:persist_workspace(function(chunk) chunks[#chunks + 1] = chunk end))
    assert.is_true(#table.concat(chunks) > 300000)
    local other = assert(mooncage.open { backend = sandbox.backend() })
    local i = 0
    assert.is_true(other:restore_workspace(function()
      i = i + 1
      return chunks[i]
    end))
    assert.equal(300000, #other:read "f")
    other:close()
  end)

  it("a workspace function that throws, or a path that is missing, is an error", function()
    assert(session:write("f", "x"))
    local err = fails("canceled", session:persist_workspace(function() error "full" end))
    assert.truthy(err.message:match "full")
    fails("not_found", session:restore_workspace(directory .. "/missing.tar"))
    fails("not_found", session:persist_workspace(directory .. "/missing/w.tar"))
    assert.has_error(function() session:persist_workspace(1) end)
  end)

  it("a hostile tar is refused", function()
    support.host(([[cd %s; echo x > evil
      tar --absolute-names -cf evil.tar --transform 's,^,../,' evil]]):format(directory))
    local ok, err = session:restore_workspace(directory .. "/evil.tar")
    assert.is_nil(ok)
    assert.is_string(err.code)
    support.write_file(directory .. "/garbage.tar", ("garbage"):rep(1000))
    assert.is_nil((session:restore_workspace(directory .. "/garbage.tar")))
  end)
end

for _, sandbox in ipairs(support.sandboxes()) do
  describe("files, " .. sandbox.name .. ":", function() files(sandbox) end)
end
