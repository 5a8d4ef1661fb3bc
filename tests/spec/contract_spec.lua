-- The contract of a command, the same on every backend: the same cases over the jail on both
-- carriers and over subprocess. A backend to come is added to support.sandboxes().
local mooncage = require "mooncage"
local support = require "support"

---Resident memory of this process in MiB.
local function resident()
  return tonumber(support.read_file("/proc/self/statm"):match "^%d+ (%d+)") * 4096 / 2 ^ 20
end

---Waits for `condition`, at most ten seconds.
local function eventually(condition, what)
  for _ = 1, 500 do
    if condition() then return end
    mooncage.sleep(0.02)
  end
  error(what .. " did not come about", 2)
end

local function contract(sandbox)
  local session

  support.leaves_nothing(function()
    session = assert(mooncage.open { backend = sandbox.backend() })
  end, function()
    assert(session:close())
  end)

  ---How many processes whose command line has this word live in the sandbox.
  local function count_processes(word)
    local count = 0
    for _, process in ipairs(assert(session:processes())) do
      if process.command:find(word, 1, true) then count = count + 1 end
    end
    return count
  end

  describe("streams", function()
    it("are kept apart and byte-exact", function()
      local result = assert(session:exec [[printf 'a\000b\377\n'; printf 'e\200' >&2]])
      assert.equal("a\0b\255\n", result.stdout)
      assert.equal("e\128", result.stderr)
      assert.equal(5, result.stdout_bytes)
      assert.equal(2, result.stderr_bytes)
      assert.is_false(result.stdout_truncated)
      assert.is_false(result.stderr_truncated)
    end)

    it("are empty, not nil, when nothing is written", function()
      local result = assert(session:exec "true")
      assert.equal("", result.stdout)
      assert.equal("", result.stderr)
      assert.equal(0, result.stdout_bytes)
    end)

    it("hold at most max_output bytes, head and tail, with true counts", function()
      local result = assert(session:exec("seq 1 100000", { max_output = 1000 }))
      assert.equal(588895, result.stdout_bytes) -- 9*2 + 90*3 + 900*4 + 9000*5 + 90000*6 + 7
      assert.is_true(result.stdout_truncated)
      assert.is_true(#result.stdout <= 1100, "kept " .. #result.stdout)
      assert.equal("1\n2\n3\n", result.stdout:sub(1, 6))
      assert.equal("\n100000\n", result.stdout:sub(-8))
    end)

    it("are counted and not kept with max_output = 0", function()
      local result = assert(session:exec("seq 1 100", { max_output = 0 }))
      assert.equal("", result.stdout)
      assert.equal(292, result.stdout_bytes)
    end)

    it("of 100 MB cost bounded memory", function()
      collectgarbage()
      local before = resident()
      local result = assert(session:exec "head -c 100000000 /dev/zero")
      assert.equal(100000000, result.stdout_bytes)
      assert.is_true(result.stdout_truncated)
      assert.is_true(#result.stdout <= 2 ^ 20 + 1000)
      assert.is_true(resident() - before < 32, ("%d MiB more"):format(resident() - before))
    end)

    it("come through the callbacks in order, whole", function()
      local out, err = {}, {}
      local result = assert(session:exec("seq 1 20000; echo done >&2", {
        on_stdout = function(chunk) out[#out + 1] = chunk end,
        on_stderr = function(chunk) err[#err + 1] = chunk end,
      }))
      local lines = {}
      for i = 1, 20000 do lines[i] = i .. "\n" end
      assert.is_true(table.concat(out) == table.concat(lines))
      assert.equal("done\n", table.concat(err))
      assert.equal(108894, result.stdout_bytes)
    end)

    it("reach the callbacks while the command runs", function()
      local seen
      local task = mooncage.spawn(function()
        return session:exec("echo first; read line; echo $line", {
          stdin = function()
            while not seen do mooncage.sleep(0.005) end
            local line = seen
            seen = "again"
            return line ~= "again" and "answer\n" or nil
          end,
          on_stdout = function(chunk) seen = seen or chunk end,
        })
      end)
      local result = assert(task:wait())
      assert.equal("first\nanswer\n", result.stdout)
    end)

    it("can be opened again as /dev/stdout and /dev/stderr", function()
      local result = assert(session:exec "echo out > /dev/stdout; echo err > /dev/stderr")
      assert.equal("out\n", result.stdout)
      assert.equal("err\n", result.stderr)
      assert.equal(0, result.exit_code)
    end)

    it("do not hang the result when a background child holds them", function()
      local before = mooncage.now()
      local result = assert(session:exec "sleep 60 & echo here")
      assert.equal("here\n", result.stdout)
      assert.equal(0, result.exit_code)
      assert.is_true(mooncage.now() - before < 30)
    end)
  end)

  describe("the end", function()
    it("is an exit code", function()
      for _, code in ipairs { 0, 1, 7, 255 } do
        local result = assert(session:exec("exit " .. code))
        assert.equal(code, result.exit_code)
        assert.equal(code == 0, result.ok)
        assert.is_nil(result.signal)
      end
    end)

    it("is a signal, without an exit code", function()
      for _, name in ipairs { "TERM", "KILL", "SEGV" } do
        local result = assert(session:exec("kill -" .. name .. " $$"))
        assert.is_nil(result.exit_code)
        assert.equal("SIG" .. name, result.signal)
        assert.is_false(result.ok)
      end
    end)

    it("of a missing program is 127 and not_found", function()
      local result = assert(session:exec { "no-such-program" })
      assert.equal(127, result.exit_code)
      assert.is_true(result.not_found)
      assert.is_false(result.ok)
      assert.equal("No such file or directory", result.start_error)
      result = assert(session:exec { "/no/such/program" })
      assert.equal(127, result.exit_code)
      assert.is_true(result.not_found)
    end)

    it("of a program that cannot be executed is 126", function()
      assert(session:write("plain", "text\n", "644"))
      local result = assert(session:exec { "./plain" })
      assert.equal(126, result.exit_code)
      assert.is_false(result.not_found)
      assert.equal("Permission denied", result.start_error)
    end)

    it("of a command the shell does not find is the shell's own 127", function()
      local result = assert(session:exec "no-such-program")
      assert.equal(127, result.exit_code)
      assert.truthy(result.stderr:match "not found")
    end)

    it("tells what was used", function()
      local result = assert(session:exec
        "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.05")
      assert.is_true(result.duration >= 0.05)
      assert.is_true(result.cpu_s > 0)
      assert.is_true(result.max_rss_mb > 0.1)
    end)
  end)

  describe("stdin", function()
    it("is at its end unless something is given", function()
      assert.equal("", assert(session:exec "cat").stdout)
    end)

    it("is a string, byte-exact", function()
      local data = ("\0\1\254\255\n"):rep(50000)
      local result = assert(session:exec("cat", { stdin = data }))
      assert.is_true(result.stdout == data)
    end)

    it("is a function that returns chunks, and may wait", function()
      local n = 0
      local result = assert(session:exec("cat", {
        stdin = function()
          mooncage.sleep(0.001)
          n = n + 1
          return n <= 3 and ("chunk %d\n"):format(n) or nil
        end,
      }))
      assert.equal("chunk 1\nchunk 2\nchunk 3\n", result.stdout)
    end)

    it("may be left unread", function()
      local result = assert(session:exec("exit 3", { stdin = ("x"):rep(2 ^ 20) }))
      assert.equal(3, result.exit_code)
    end)

    it("is closed alone: output still comes after it", function()
      local process = assert(session:start "cat; echo after")
      assert.is_true(process:write "one\n")
      assert.equal("one\n", process:read())
      process:close_stdin()
      assert.equal("after\n", process:read())
      assert.is_nil(process:read())
      assert.is_true(process:wait().ok)
    end)

    it("refuses more once the command has ended", function()
      local process = assert(session:start "exit 0")
      process:wait()
      local ok, err = process:write "late"
      assert.is_nil(ok)
      assert.equal("unavailable", err.code)
    end)

    it("holds a fast writer to the pace of a slow reader", function()
      local process = assert(session:start "sleep 0.3; wc -c")
      local written = 0
      local writer = mooncage.spawn(function()
        for _ = 1, 64 do
          assert(process:write(("x"):rep(65536)))
          written = written + 65536
        end
        process:close_stdin()
      end)
      mooncage.sleep(0.1)
      assert.is_true(written < 3 * 2 ^ 20, ("%d bytes were taken"):format(written))
      assert(mooncage.join { writer })
      assert.equal("4194304\n", (process:wait().stdout:gsub(" ", "")))
    end)
  end)

  describe("where and as what it runs", function()
    it("is the session's directory unless cwd says otherwise", function()
      local home = assert(session:exec "pwd").stdout:gsub("\n", "")
      assert.equal(session.working_directory, home)
      assert(session:mkdir "deep/er")
      assert.equal(home .. "/deep/er\n", assert(session:exec("pwd", { cwd = "deep/er" })).stdout)
      assert.equal("/\n", assert(session:exec("pwd", { cwd = "/" })).stdout)
    end)

    it("is not a directory that is missing", function()
      local result, err = session:exec("pwd", { cwd = "no/such/place" })
      assert.is_nil(result)
      assert.equal("not_found", err.code)
      assert.truthy(tostring(err):find("no/such/place", 1, true))
    end)

    it("has the variables of env, and none of ours", function()
      local result = assert(session:exec("env", { env = { GREETING = "hi there", N = 3 } }))
      assert.truthy(("\n" .. result.stdout):find("\nGREETING=hi there\n", 1, true))
      assert.truthy(("\n" .. result.stdout):find("\nN=3\n", 1, true))
      assert.falsy(result.stdout:find("MOONCAGE_INIT", 1, true))
      assert.falsy(result.stdout:find("LUA_PATH", 1, true))
    end)

    it("takes arguments as they are: newlines, blanks, quotes, bytes", function()
      local result = assert(session:exec { "printf", "<%s>", "a\nb", " ", "'\"$x`", "\255", "" })
      assert.equal("<a\nb>< ><'\"$x`><\255><>", result.stdout)
    end)

    it("is the session's user; another is taken or refused, never ignored", function()
      local own = assert(session:exec "id -u").stdout:gsub("\n", "")
      assert.equal(own .. "\n", assert(session:exec("id -u", { user = own })).stdout)
      local result, err = session:exec("id -u", { user = "54321" })
      if result then
        assert.equal("54321\n", result.stdout)
      else
        assert.equal("unsupported", err.code)
        assert.is_string(err.fix)
      end
      result, err = session:exec("id -u", { user = "no-such-user" })
      assert.is_nil(result)
      assert.equal("not_found", err.code)
    end)

    it("is refused where an argument has a NUL byte, or nothing is asked for", function()
      assert.error_matches(function() session:exec { "echo", "a\0b" } end, "NUL")
      assert.error_matches(function() session:exec "echo a\0b" end, "NUL")
      assert.error_matches(function() session:exec {} end, "empty")
      local words = { "echo", "hidden", "x" }
      words[2] = nil
      for _, argv in ipairs { words, { "echo", cmd = "x" }, { cmd = "x" }, { "echo", [1.5] = "x" },
        { "echo", [true] = "x" }, { [2] = "echo" } } do
        for _, method in ipairs { "exec", "start" } do
          assert.error_matches(function() session[method](session, argv) end,
            method .. ": the command must be a list: 1..n without holes")
        end
      end
      assert.error_matches(function() session:exec(nil) end, "must be a string")
    end)

    it("runs beside other commands of the session", function()
      local tasks = {}
      for i = 1, 8 do
        tasks[i] = mooncage.spawn(function()
          return assert(session:exec(("sleep 0.05; echo %d"):format(i))).stdout
        end)
      end
      assert.same({ "1\n", "2\n", "3\n", "4\n", "5\n", "6\n", "7\n", "8\n" }, mooncage.join(tasks))
    end)
  end)

  describe("a time-out", function()
    it("is a result, and the whole tree of the command is gone at once", function()
      local result = assert(session:exec("(setsid sleep 97 &) ; sleep 98 & sleep 99",
        { timeout = 0.2 }))
      assert.is_true(result.timed_out)
      assert.equal("SIGKILL", result.signal)
      assert.is_nil(result.exit_code)
      assert.is_true(result.duration >= 0.2)
      assert.equal(0, count_processes "sleep 9")
    end)

    it("touches nothing of another command", function()
      local other = assert(session:start "echo up; sleep 96")
      assert.equal("up\n", other:read())
      assert.is_true(assert(session:exec("sleep 95", { timeout = 0.1 })).timed_out)
      assert.equal(0, count_processes "sleep 95")
      assert.is_true(count_processes "sleep 96" >= 1)
      other:cancel()
      local result, err = other:wait()
      assert.is_nil(result)
      assert.equal("canceled", err.code)
      assert.equal(0, count_processes "sleep 96")
    end)

    it("keeps what was written until then", function()
      local result = assert(session:exec("echo before; sleep 94", { timeout = 2 }))
      assert.equal("before\n", result.stdout)
    end)

    it("does not come for a command that is quick enough", function()
      local result = assert(session:exec("true", { timeout = 60 }))
      assert.is_false(result.timed_out)
      assert.is_true(result.ok)
    end)
  end)

  describe("cancel", function()
    it("of the task that is in exec kills the command's tree", function()
      local task = mooncage.spawn(function() return session:exec "sleep 93 & sleep 93" end)
      eventually(function() return count_processes "sleep 93" >= 2 end, "the command")
      task:cancel()
      local result, err = task:wait()
      assert.is_nil(result)
      assert.equal("canceled", err.code)
      assert.equal(0, count_processes "sleep 93")
    end)

    it("may come at any moment", function()
      for _, seconds in ipairs { 0, 0, 0.0005, 0.001, 0.002, 0.005 } do
        local task = mooncage.spawn(function() return session:exec "echo x; exec sleep 92" end)
        if seconds > 0 then mooncage.sleep(seconds) else mooncage.sleep(0) end
        task:cancel()
        local result, err = task:wait()
        assert.is_nil(result)
        assert.equal("canceled", err.code)
      end
      eventually(function() return count_processes "sleep 92" == 0 end, "the end of all")
    end)

    it("of the session's end too: close ends what runs", function()
      local task = mooncage.spawn(function() return session:exec "sleep 91" end)
      mooncage.sleep(0.02)
      assert(session:close())
      local result, err = task:wait()
      assert.is_nil(result)
      assert.equal("canceled", err.code)
    end)

    it("by a callback that throws: its error is the cause", function()
      local result, err = session:exec("echo x; sleep 90", {
        on_stdout = function() error({ code = "conflict", message = "no more" }, 0) end,
      })
      assert.is_nil(result)
      assert.equal("canceled", err.code)
      assert.truthy(err.message:match "on_stdout raised: no more")
      assert.equal("conflict", err.cause.code)
      assert.equal(0, count_processes "sleep 90")
    end)

    it("by a stdin function that throws", function()
      local result, err = session:exec("cat", { stdin = function() error "broken" end })
      assert.is_nil(result)
      assert.equal("canceled", err.code)
      assert.truthy(err.message:match "stdin raised: .*broken")
    end)
  end)

  describe("a signal", function()
    it("reaches the command, by any of its names", function()
      for _, name in ipairs { "TERM", "SIGTERM", "15" } do
        local process = assert(session:start
          "trap 'echo got; exit 5' TERM; echo up; while :; do sleep 0.01; done")
        assert.equal("up\n", process:read())
        assert.is_true(process:signal(name))
        assert.equal("got\n", process:read())
        assert.equal(5, process:wait().exit_code)
      end
    end)

    it("that there is not is refused", function()
      local process = assert(session:start "cat")
      local ok, err = process:signal "SIGNOPE"
      assert.is_nil(ok)
      assert.equal("invalid", err.code)
      process:close_stdin()
      assert.is_true(process:wait().ok)
    end)

    it("to a command that has ended is refused", function()
      local process = assert(session:start "true")
      process:wait()
      local ok, err = process:signal "TERM"
      assert.is_nil(ok)
      assert.equal("unavailable", err.code)
    end)
  end)

  describe("a PTY", function()
    it("is a terminal of the size that was asked for, and both streams are one", function()
      local result = assert(session:exec("tty >/dev/null && stty size; echo err >&2", {
        pty = { cols = 100, rows = 40 },
      }))
      assert.equal("40 100\r\nerr\r\n", result.stdout)
      assert.equal("", result.stderr)
    end)

    it("is 80 by 24 by default", function()
      assert.equal("24 80\r\n", assert(session:exec("stty size", { pty = true })).stdout)
    end)

    -- A terminal may hand a line over in pieces.
    local function line(process)
      local text = ""
      while text:sub(-1) ~= "\n" do text = text .. assert(process:read()) end
      return text
    end

    it("tells of a new size", function()
      local process = assert(session:start(
        "trap 'stty size' WINCH; echo up; while :; do sleep 0.01; done", { pty = true }))
      assert.equal("up\r\n", line(process))
      assert.is_true(process:resize(132, 50))
      assert.equal("50 132\r\n", line(process))
      process:cancel()
      process:wait()
    end)

    it("turns Ctrl-C into SIGINT, and Ctrl-D into the end of input", function()
      local process = assert(session:start("echo up; cat; echo over", { pty = true }))
      assert.equal("up\r\n", line(process))
      assert(process:write "\4")
      assert.equal("over\r\n", line(process))
      assert.is_true(process:wait().ok)
      process = assert(session:start("echo up; exec sleep 89", { pty = true }))
      assert.equal("up\r\n", line(process))
      process:write "\3" -- which may end it before the write is known to be taken
      assert.equal("SIGINT", process:wait().signal)
    end)

    it("ends with its command, though a child deaf to the hang-up holds the terminal", function()
      local result = assert(session:exec(
        "trap '' HUP; (sleep 87 &); i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i + 1)); done",
        { pty = true, timeout = 20 }))
      assert.is_true(result.ok, result.signal)
      assert.truthy(result.stdout:find "^line 0\r\n")
      assert.truthy(result.stdout:find "line 499\r\n$")
    end)
  end)

  describe("a detached command", function()
    it("lives on after exec has returned, and ends with the session", function()
      local result = assert(session:exec("sleep 88; echo never", { detach = true }))
      assert.is_true(result.detached)
      assert.is_nil(result.exit_code)
      assert.is_true(result.pid > 0)
      eventually(function() return count_processes "sleep 88" >= 1 end, "the command")
    end)
  end)

  describe("a started command", function()
    it("gives its output to read, a stream at a time", function()
      local process = assert(session:start "echo out; echo err >&2")
      assert.equal("out\n", process:read())
      assert.equal("err\n", process:read "stderr")
      assert.is_nil(process:read "stderr")
      assert.is_nil(process:read())
      assert.is_true(process:wait().ok)
    end)

    it("is slowed when nobody reads, and loses nothing", function()
      local process = assert(session:start "head -c 3000000 /dev/zero; echo end")
      local chunk = process:read()
      mooncage.sleep(0.1)
      local total, last = #chunk, chunk
      for more in function() return process:read() end do
        total, last = total + #more, more
      end
      assert.equal(3000004, total)
      assert.equal("end\n", last:sub(-4))
      assert.is_true(process:wait().ok)
    end)

    it("ends though nobody reads, once it is waited for", function()
      local process = assert(session:start "head -c 3000000 /dev/zero")
      local result = process:wait()
      assert.is_true(result.ok)
      assert.equal(3000000, result.stdout_bytes)
    end)

    it("gives its result to each that waits", function()
      local process = assert(session:start "sleep 0.02; exit 4")
      local function waiter()
        return mooncage.spawn(function() return process:wait().exit_code end)
      end
      assert.same({ 4, 4 }, mooncage.join { waiter(), waiter() })
      assert.equal(4, process:wait().exit_code)
    end)
  end)

  describe("an option", function()
    it("that there is not raises, and names the nearest", function()
      local ok, message = pcall(function() session:exec("true", { cdw = "/" }) end)
      assert.is_false(ok)
      assert.truthy(message:match
        "contract_spec.lua:%d+: mooncage: exec: unknown option 'cdw' %(did you mean 'cwd'%?%)")
    end)

    it("of a wrong type raises", function()
      for _, options in ipairs {
        { cwd = 1 }, { env = "A=b" }, { env = { 1 } }, { env = { A = {} } }, { timeout = "1s" },
        { timeout = -1 }, { timeout = 0 / 0 }, { pty = 1 }, { pty = { cols = 0 } }, { stdin = 1 },
        { on_stdout = 1 }, { detach = 1 }, { max_output = "1M" }, { user = 0 },
        { env = { ["A=B"] = "x" } }, { cwd = "a\0b" },
      } do
        assert.has_error(function() session:exec("true", options) end)
      end
      assert.has_error(function() session:exec("true", "options") end)
    end)
  end)

  describe("a callback", function()
    it("cannot wait", function()
      local result, err = session:exec("echo x", { on_stdout = function() mooncage.sleep(1) end })
      assert.is_nil(result)
      assert.truthy(err.message:match "cannot wait inside on_stdout")
    end)
  end)
end

for _, sandbox in ipairs(support.sandboxes()) do
  describe(sandbox.name .. ":", function() contract(sandbox) end)
end
