-- Manifests: what is in a workspace when it is handed out, and what is refused.
local mooncage = require "mooncage"
local support = require "support"

local function manifests(sandbox)
  local base

  support.leaves_nothing(function()
    base = support.temporary()
    support.host("cd " .. base .. [[ && mkdir -p src/deep && echo one > src/a &&
      echo two > src/deep/b && chmod 750 src/a && ln -s /etc/passwd outward &&
      tar cf x.tar src && tar czf x.tar.gz src && echo no > x.rar]])
  end, function()
    support.host("rm -rf " .. base)
  end)

  local function furnished(manifest)
    manifest.base = manifest.base or base
    return mooncage.open { backend = sandbox.backend(), manifest = manifest }
  end

  ---What a command says in a sandbox with that manifest.
  local function says(manifest, command)
    local session = assert(furnished(manifest))
    local result = assert(session:exec(command))
    assert(session:close())
    assert.equal("", result.stderr)
    return result.stdout
  end

  local function refused(code, word, manifest)
    local session, err = furnished(manifest)
    if session then session:close() end
    assert.is_nil(session)
    assert.equal(code, err.code)
    assert.truthy(tostring(err):find(word, 1, true), tostring(err))
    return err
  end

  it("files are byte-exact, have modes, and make their directories", function()
    local bytes = "\0\255\n\200"
    assert.equal(bytes, says({ files = { ["x/y/bytes"] = bytes } }, "cat x/y/bytes"))
    assert.equal("640 text", says({ files = { f = { content = "text", mode = "640" } } },
      'printf "%s %s" $(stat -c %a f) $(cat f)'))
    assert.equal("0\n", says({ files = { empty = "" } }, "wc -c < empty"))
  end)

  it("directories have modes and may be nested", function()
    assert.equal("755\n700\n", says({ directories = { "a/b", { path = "c", mode = "700" } } },
      "stat -c %a a/b c"))
  end)

  it("copies take files and trees of the host, modes too", function()
    assert.equal("one\ntwo\n750\n", says({ copies = { { from = "src", to = "tree" } } },
      "cat tree/a tree/deep/b; stat -c %a tree/a"))
    assert.equal("one\n", says({ copies = { { from = "src/a", to = "d/e/f" } } }, "cat d/e/f"))
  end)

  it("copies refuse links, and whatever is not beneath the base", function()
    refused("invalid", "outward", { copies = { { from = "outward", to = "x" } } })
    support.host("ln -s a " .. base .. "/src/link")
    refused("invalid", "link", { copies = { { from = "src", to = "x" } } })
    refused("invalid", "..", { copies = { { from = "../etc", to = "x" } } })
    refused("not_found", "nothing", { copies = { { from = "nothing", to = "x" } } })
    refused("invalid", "/nowhere", { base = "/nowhere", copies = {} })
  end)

  it("archives are unpacked, compressed ones too", function()
    assert.equal("two\n", says({ archives = { { from = "x.tar", to = "t" } } }, "cat t/src/deep/b"))
    local compressed = { archives = { { from = "x.tar.gz", to = "t" } } }
    assert.equal("two\n", says(compressed, "cat t/src/deep/b"))
    refused("invalid", "x.rar", { archives = { { from = "x.rar", to = "t" } } })
    assert.equal("src\n", says({ archives = { { from = "x.tar.gz", to = "t" } } }, "ls -A t"))
    support.host(("cd %s && printf x | gzip > no.tar.gz && head -c 60 x.tar.gz > cut.tar.gz && "
      .. "cat x.tar.gz x.tar.gz > two.tar.gz && gzip -c x.tar > plain.tar"):format(base))
    refused("archive_unsafe", "no tar archive", { archives = { { from = "no.tar.gz", to = "t" } } })
    refused("archive_unsafe", "cut.tar.gz", { archives = { { from = "cut.tar.gz", to = "t" } } })
    refused("archive_unsafe", "after its end", { archives = { { from = "two.tar.gz", to = "t" } } })
    refused("archive_unsafe", "is gzip", { archives = { { from = "plain.tar", to = "t" } } })
  end)

  it("what is written out has the last word", function()
    assert.equal("mine\n", says({
      copies = { { from = "src", to = "." } }, files = { a = "mine\n" },
    }, "cat a"))
  end)

  it("the environment is there, secrets too, and no secret is shown", function()
    local session = assert(furnished {
      environment = { PLAIN = "p", TOKEN = { secret = mooncage.secret "s3cr3t" } },
    })
    assert.equal("p s3cr3t\n", session:exec("echo $PLAIN $TOKEN").stdout)
    assert.equal("over\n", session:exec("echo $PLAIN", { env = { PLAIN = "over" } }).stdout)
    assert.is_nil(mooncage.json.encode(session.enforcement):find "s3cr3t")
    session:close()
  end)

  it("unknown keys, wrong types and paths that leave are refused by name", function()
    local err = refused("invalid", "manifest.fiels", { fiels = {} })
    assert.truthy(err.fix:find("files", 1, true))
    refused("invalid", "manifest.files.a", { files = { a = 3 } })
    refused("invalid", "../x", { files = { ["../x"] = "" } })
    refused("invalid", "/x", { files = { ["/x"] = "" } })
    refused("invalid", "manifest.directories[2]", { directories = { "a", { path = 1 } } })
    refused("invalid", "mode", { files = { f = { content = "", mode = "999" } } })
    refused("invalid", "ssh", { git = { { url = "ssh://host/x", to = "x" } } })
    local reference = { url = "git://host/x", to = "x", ref = "--upload-pack=x" }
    refused("invalid", "ref", { git = { reference } })
  end)

  it("a failed manifest leaves no sandbox", function()
    refused("not_found", "nothing", { copies = { { from = "nothing", to = "x" } } })
  end)
end

for _, sandbox in ipairs(support.sandboxes()) do
  describe("manifest, " .. sandbox.name, function() manifests(sandbox) end)
end

describe("manifest hash", function()
  support.leaves_nothing()

  local function hash(manifest)
    local session = assert(mooncage.open { manifest = manifest })
    local text = session.manifest_hash
    session:close()
    assert.truthy(text:match "^%x+$" and #text == 64)
    return text
  end

  it("names what is in the workspace", function()
    local one = hash { files = { a = "1", b = "2" } }
    assert.equal(one, hash { files = { b = "2", a = "1" } })
    assert.not_equal(one, hash { files = { a = "1", b = "3" } })
  end)

  it("does not depend on the values of secrets", function()
    local one = hash { environment = { T = { secret = "the-first" } } }
    assert.equal(one, hash { environment = { T = { secret = "the-second" } } })
    assert.not_equal(one, hash { environment = { U = { secret = "the-first" } } })
  end)
end)

describe("manifest git", function()
  local base, port, daemon

  local function free_port()
    return (support.host [[python3 -c 'import socket; s = socket.socket()
s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])']]:gsub("%s", ""))
  end

  setup(function()
    base, port = support.temporary(), free_port()
    support.host("cd " .. base .. [[ && git init -q -b main repo && cd repo &&
      git config user.email t@example.com && git config user.name t && echo first > f &&
      git add f && git commit -qm first && git tag v1 && echo second > f && git commit -qam second
      cat > .git/hooks/post-checkout <<'END'
#!/bin/sh
touch /tmp/mooncage-hook-ran
END
      chmod +x .git/hooks/post-checkout]])
    support.host(("git daemon --reuseaddr --export-all --base-path=%s --listen=127.0.0.1 " ..
      "--port=%s --detach --pid-file=%s/pid >/dev/null 2>&1"):format(base, port, base))
    for _ = 1, 100 do
      daemon = (support.read_file(base .. "/pid") or ""):match "%d+"
      if daemon then break end
      mooncage.sleep(0.05)
    end
  end)

  teardown(function()
    if daemon then support.host("kill " .. daemon) end
    support.host("rm -rf " .. base)
  end)

  local function checkout(entry)
    entry.url = ("git://127.0.0.1:%s/repo"):format(port)
    entry.to = "src"
    local session, err = mooncage.open { manifest = { git = { entry } } }
    if not session then return nil, err end
    local text = session:exec("cat src/f; git -C src status --short").stdout
    session:close()
    return text
  end

  it("checks out the default branch, a ref, and a shallow one", function()
    assert.is_string(daemon)
    assert.equal("second\n", assert(checkout {}))
    assert.equal("first\n", assert(checkout { ref = "v1" }))
    assert.equal("first\n", assert(checkout { ref = "v1", depth = 1 }))
  end)

  it("says what is not there", function()
    local text, err = checkout { ref = "no-such-ref" }
    assert.is_nil(text)
    assert.equal("unavailable", err.code)
    assert.truthy(tostring(err):find("no-such-ref", 1, true), tostring(err))
  end)
end)
