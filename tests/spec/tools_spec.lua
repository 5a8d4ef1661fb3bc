-- Tools that are built in, and what a model gives them: whatever it is, it is told, never thrown.
local mooncage = require "mooncage"
local support = require "support"

describe("tools that are built in", function()
  support.leaves_nothing()

  it("arguments that do not fit are told", function()
    local session = assert(mooncage.open { audit = false })
    for args, wanted in pairs {
      [{ pth = "x" }] = "unknown argument 'pth' %(did you mean 'path'%?%)",
      [{ path = 7 }] = "path must be a string, not a number",
      [{}] = "path must be a string, not a nil",
    } do
      local _, err = session:call_tool("read_file", args)
      assert.equal("invalid", err.code)
      assert.matches(wanted, err.message)
    end
    for _, case in ipairs {
      { "shell", { command = {} }, "the command is an empty list" },
      { "shell", { command = { "echo", {} } }, "argument 1 must be a string" },
      { "shell", { command = { "echo", nil, "x" } }, "the command must be a list: 1..n without" },
      { "shell", { command = { "echo", cmd = "x" } }, "the command must be a list: 1..n without" },
      { "shell", { command = "a\0b" }, "command contains a NUL byte" },
      { "shell", { command = { "a\0b" } }, "argument 0 contains a NUL byte" },
      { "shell", { command = "true", timeout = -1 }, "timeout must be from" },
      { "shell", { command = "true", timeout = 0 / 0 }, "timeout must be from" },
      { "shell", { command = "true", env = { 1, 2 } }, "env must be { NAME = \"value\" }" },
      { "shell", { command = "true", env = { A = {} } }, "env.A must be a string" },
      { "shell", { command = "true", cwd = "a\0b" }, "cwd contains a NUL byte" },
      { "read_file", { path = "a\0b" }, "path contains a NUL byte" },
      { "read_file", { path = "a", max_bytes = -1 }, "max_bytes must be from" },
      { "write_file", { path = "a", content = "\0", mode = "zz" }, "mode must be octal" },
      { "edit_file", { path = "a\0", old = "\0", new = "" }, "path contains a NUL byte" },
      { "list_files", { path = "\0" }, "path contains a NUL byte" },
      { "search_files", { pattern = "a\0b" }, "pattern contains a NUL byte" },
    } do
      local result, err = session:call_tool(case[1], case[2])
      assert.is_nil(result)
      assert.equal("invalid", err.code, case[3])
      assert.equal("tool " .. case[1] .. ": " .. case[3],
        err.message:sub(1, #("tool " .. case[1] .. ": " .. case[3])))
      assert.is_string(err.fix)
    end
    assert.equal("invalid", select(2, session:call_tool("read_file", "x")).code)
    assert.error_matches(function() session:call_tool(7) end, "the name must be a string")
    session:close()
  end)
end)
