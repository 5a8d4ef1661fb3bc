-- pipeline_spec.lua: the six steps of a command: allowed tools, guardrail, log, hook, sandbox, hook
-- and log; and that nothing gets round them.
local core = require "mooncage.core"
local mooncage = require "mooncage"
local support = require "support"

local directory = support.temporary()
local seen_before = 0 -- bytes of the log that are of other cases

---A session on the subprocess backend; keys of `more` over it. The log is a file of this spec's.
local function open(more)
  local config = {
    backend = mooncage.subprocess(), audit = { type = "jsonl", path = directory .. "/a.jsonl" },
  }
  for key, value in pairs(more) do config[key] = value end
  return assert(mooncage.open(config))
end

---What stands in the log: a list of events of some kind, with `phase` when it is given.
local function logged(op, phase)
  local found = {}
  local text = support.read_file(directory .. "/a.jsonl") or ""
  for line in text:sub(seen_before + 1):gmatch "[^\n]+" do
    local event = assert(mooncage.json.decode(line))
    if event.op == op and (not phase or event.phase == phase) then found[#found + 1] = event end
  end
  return found
end

---The log is open from now on, as long as the engine is.
local function warm() open({}):close() end

local function begin()
  os.remove(directory .. "/ran")
  seen_before = #support.read_file(directory .. "/a.jsonl")
end

describe("allowed tools", function()
  before_each(warm)
  support.leaves_nothing(begin)

  it("nil allows all, a list what is on it", function()
    local session = open {}
    assert.equal("hi\n", assert(session:exec "echo hi").stdout)
    session:close()
    session = open { allowed_tools = { "shell" } }
    assert.equal("hi\n", assert(session:exec "echo hi").stdout)
    session:close()
  end)

  it("refuses what is not on it, and runs nothing", function()
    local session = open { allowed_tools = { "read_file" } }
    local asked = false
    local result, err = session:exec("touch " .. directory .. "/ran")
    assert.is_nil(result)
    assert.equal("tool_not_allowed", err.code)
    assert.matches('the tool "shell" is not allowed here', err.message)
    local process = assert(session:start({ "touch", directory .. "/ran" }))
    assert.equal("tool_not_allowed", select(2, process:wait()).code)
    assert.equal("tool_not_allowed",
      select(2, session:exec("touch " .. directory .. "/ran", { detach = true })).code)
    assert.equal("tool_not_allowed",
      select(2, session:exec("touch " .. directory .. "/ran", { pty = true })).code)
    session:close()
    assert.is_nil(support.read_file(directory .. "/ran"))
    assert.is_false(asked)
    local events = logged "tool"
    assert.equal(4, #events)
    assert.equal("allowed_tools", events[1].decision.by)
    assert.equal("tool_not_allowed", events[1].error.code)
    assert.equal("point", events[1].phase)
    assert.equal(0, #logged "exec")
  end)

  it("an empty list allows nothing", function()
    local session = open { allowed_tools = {} }
    assert.equal("tool_not_allowed", select(2, session:exec "true").code)
    session:close()
  end)

  it("counts a command as the tool that is said", function()
    local session = open { allowed_tools = { "lint" }, tools = { lint = function() end } }
    assert.equal("x\n", assert(session:exec("echo x", { tool = "lint" })).stdout)
    assert.equal("tool_not_allowed", select(2, session:exec("echo x", { tool = "shell" })).code)
    session:close()
    assert.equal("lint", logged("exec", "start")[1].tool)
  end)

  it("names are checked when the session opens", function()
    local _, err = mooncage.open {
      backend = mooncage.subprocess(), allowed_tools = { "raed_file" },
    }
    assert.equal("invalid", err.code)
    assert.matches('allowed_tools%[1%]: there is no tool "raed_file"', err.message)
    assert.matches("read_file", err.fix)
  end)
end)

describe("a guardrail", function()
  before_each(warm)
  support.leaves_nothing(begin)

  it("warns where it says so, and not of a yes with a reason", function()
    local said = {}
    local session = open {
      on_log = function(level, message)
        if level == "warning" then said[#said + 1] = message end
      end,
      guardrail = function(command)
        if command.argv[1] == "true" then return { warn = "nearly spent" } end
        return command.argv[1] == "echo", "only echo"
      end,
    }
    assert.is_true(assert(session:exec { "echo", "hi" }).ok)
    assert.is_true(assert(session:exec { "true" }).ok)
    assert.equal("command_denied", select(2, session:exec { "false" }).code)
    session:close()
    local warned = table.concat(said, "\n")
    assert.matches("nearly spent", warned)
    assert.is_nil(warned:find("only echo", 1, true))
  end)

  it("is told what is to run, and its no is final", function()
    local seen
    local session = open {
      tenant = "acme",
      guardrail = function(command, context)
        seen = { command, context }
        return false, "not today", "r7"
      end,
    }
    local result, err = session:exec({ "touch", directory .. "/ran" },
      { cwd = "sub", env = { TOKEN = "secret" }, stdin = "x" })
    assert.is_nil(result)
    assert.equal("command_denied", err.code)
    assert.matches("the guardrail denied the command %(rule r7%): not today", err.message)
    assert.matches("change the guardrail %(.*pipeline_spec.lua:%d+%); .*policy explain", err.fix)
    assert.same({ "touch", directory .. "/ran" }, seen[1].argv)
    assert.same({ "touch", directory .. "/ran" }, seen[1].words)
    assert.is_nil(seen[1].shell)
    assert.equal("sub", seen[1].cwd)
    assert.same({ "TOKEN" }, seen[1].env_names)
    assert.is_true(seen[1].has_stdin)
    assert.equal("shell", seen[1].tool)
    assert.equal("acme", seen[2].tenant)
    session:close()
    assert.is_nil(support.read_file(directory .. "/ran"))
    local event = logged("guardrail")[1]
    assert.same({ by = "guardrail", rule = "r7", reason = "not today" }, event.decision)
    assert.equal("command_denied", event.error.code)
    assert.equal(0, #logged "exec")
  end)

  it("sees shell text, and its words when it is one simple command", function()
    local seen = {}
    local session = open {
      guardrail = function(command)
        seen[#seen + 1] = command
        return true
      end,
    }
    assert(session:exec "echo 'a b'")
    assert(session:exec "true; true")
    session:close()
    assert.equal("echo 'a b'", seen[1].shell)
    assert.same({ "echo", "a b" }, seen[1].words)
    assert.equal("true; true", seen[2].shell)
    assert.is_nil(seen[2].words)
  end)

  it("what it changes in its argument changes nothing", function()
    local heard = {}
    local function change(_, _, command)
      assert.same({ "echo", "this" }, command.argv)
      assert.same(command.argv, command.words)
      assert.same(mooncage.commands(command.argv), command.commands)
      command.argv[2], command.words[1], command.commands[1].words[2] = "other", "cat", "third"
      heard[#heard + 1] = command
    end
    local session = open {
      guardrail = function(command)
        change(nil, nil, command)
        return true
      end,
      hooks = { on_sandbox_exec_start = change, on_sandbox_exec_end = change },
    }
    assert.equal("this\n", assert(session:exec { "echo", "this" }).stdout)
    session:close()
    assert.equal(3, #heard)
  end)

  it("may have something else run", function()
    local session = open { guardrail = function() return { rewrite = { "echo", "instead" } } end }
    assert.equal("instead\n", assert(session:exec "rm -rf /").stdout)
    session:close()
    local event = logged("exec", "start")[1]
    assert.same({ "echo", "instead" }, event.argv)
    assert.equal("rm -rf /", event.detail.asked.shell) -- what was asked for is in the log, too
  end)

  it("is given bytes as they were", function()
    local seen
    local session = open { guardrail = function(command) seen = command return true end }
    assert.equal("\255", assert(session:exec { "printf", "%s", "\255" }).stdout)
    assert.same({ "printf", "%s", "\255" }, seen.argv)
    assert.same(seen.argv, seen.words)
    assert.same(seen.argv, seen.commands[1].words)
    assert.equal("\255", assert(session:exec "printf %s '\255'").stdout)
    assert.equal("printf %s '\255'", seen.shell)
    session:close()
    assert.same({ "a", "\255b" }, mooncage.words "a '\255b'")
    assert.same({ "a", "\255b" }, mooncage.commands("a '\255b'")[1].words)
    assert.error_matches(function() mooncage.commands { "a", cmd = "b" } end, "1..n without holes")
    assert.error_matches(function() mooncage.commands { "a", nil, "b" } end, "1..n without holes")
  end)

  it("decides in a thread as good as new, whatever the one before left", function()
    local globals = {}
    local session = open {
      guardrail = function()
        globals[#globals + 1] = getfenv(0)
        setfenv(0, {})
        return true
      end,
    }
    for _ = 1, 3 do assert(session:exec "true") end
    session:close()
    assert.equal(_G, globals[1])
    assert.equal(_G, globals[2])
    assert.equal(_G, globals[3])
  end)

  it("everything that is no plain yes is a no", function()
    local answer
    local session = open { guardrail = function() return answer() end }
    local cases = {
      [function() end] = "a value of type nil",
      [function() return 1 end] = "a value of type number",
      [function() return "allow " end] = '"allow "',
      [function() return { allow = true } end] = "a value of type table",
      [function() return setmetatable({}, { __eq = function() return true end }) end] = "table",
      [function() return { rewrite = {} } end] = "rewrite is no list of arguments",
      [function() return { rewrite = { "" } } end] = "rewrite is no list of arguments",
      [function() return { rewrite = { "a\0b" } } end] = "rewrite is no list of arguments",
      [function() return { rewrite = { 1 } } end] = "rewrite is no list of arguments",
      [function() return { rewrite = { "a", nil, "b" } } end] = "rewrite is no list of arguments",
      [function() return { rewrite = { "echo", n = 1 } } end] = "rewrite is no list of arguments",
      [function() return { rewrite = { "echo" }, warn = "x" } end] = "a value of type table",
      [function() return { rewrite = { "echo" }, env = {} } end] = "a value of type table",
      [function() error "broken" end] = "the guardrail failed: .*broken",
      [function() error(setmetatable({}, { __tostring = error })) end] = "neither a text",
      [function() coroutine.yield() end] = "yielded",
      [function() mooncage.sleep(1) end] = "cannot wait inside guardrail; it decides at once",
      [function() return "ask", "sure?" end] = "nobody can be asked",
    }
    for fn, wanted in pairs(cases) do
      answer = fn
      local result, err = session:exec("touch " .. directory .. "/ran")
      assert.is_nil(result)
      assert.equal("command_denied", err.code)
      assert.matches(wanted, err.message)
      assert.matches("%w", err.fix)
      if wanted:find "type nil" then
        assert.matches("pipeline_spec.lua:%d+%) return true", err.fix)
      end
    end
    session:close()
    assert.is_nil(support.read_file(directory .. "/ran"))
  end)

  it("of a policy is named by that, when it denies", function()
    local session = open { guardrail = mooncage.policy "command_guardrail" { allow = { "echo" } } }
    local _, err = session:exec { "true" }
    session:close()
    assert.matches('%(policy "command_guardrail"%)', err.fix)
  end)

  it("that loops for ever denies, and the engine goes on", function()
    local session = open { guardrail = function() while true do end end }
    local _, err = session:exec "true"
    assert.equal("command_denied", err.code)
    assert.matches("used more than 1 s", err.message)
    session:close()
  end)

  it("with on_ask, somebody answers, in his own time", function()
    local asked = {}
    local session = open {
      guardrail = function(command) return "ask", "is this " .. command.words[1] .. "?" end,
      on_ask = function(command, context, reason)
        mooncage.sleep(0.01)
        asked[#asked + 1] = { command.words[2], context.tenant, reason }
        if command.words[2] == "yes" then return true end
        return false, "I said no"
      end,
    }
    assert.equal("yes\n", assert(session:exec { "echo", "yes" }).stdout)
    local _, err = session:exec { "echo", "no" }
    assert.equal("command_denied", err.code)
    assert.matches("I said no", err.message)
    assert.matches("say yes .*pipeline_spec.lua:%d+%) allow it", err.fix)
    assert.same({ "yes", nil, "is this echo?" }, asked[1])
    session:close()
    assert.equal("ask", logged("exec", "start")[1].decision.by)
  end)

  it("an answer that throws is a no", function()
    local session = open {
      guardrail = function() return "ask" end, on_ask = function() error "gone" end,
    }
    local _, err = session:exec "true"
    assert.equal("command_denied", err.code)
    assert.matches("gone", err.message)
    session:close()
  end)

  it("who is canceled meanwhile runs nothing", function()
    local session = open {
      guardrail = function() return "ask" end, on_ask = function() mooncage.sleep(1000) end,
    }
    local process = assert(session:start { "touch", directory .. "/ran" })
    mooncage.sleep(0.02)
    process:cancel()
    assert.equal("canceled", select(2, process:wait()).code)
    local other = assert(session:start { "touch", directory .. "/ran" })
    mooncage.sleep(0.02)
    session:close()
    assert.equal("canceled", select(2, other:wait()).code)
    assert.is_nil(support.read_file(directory .. "/ran"))
  end)

  it("must be a function", function()
    assert.error_matches(function() mooncage.open { guardrail = true } end,
      "open: guardrail must be a function, not a boolean")
  end)
end)

describe("exec hooks", function()
  before_each(warm)
  support.leaves_nothing(begin)

  ---Hooks that note what they hear; `more` are functions to call in them.
  local function noting(heard, more)
    more = more or {}
    return {
      on_sandbox_exec_start = function(context, agent, command, exec)
        heard[#heard + 1] = { "start", exec.id, command, context, agent, exec }
        if more.start then more.start(exec) end
      end,
      on_sandbox_exec_end = function(context, agent, command, result, exec)
        heard[#heard + 1] = { "end", exec.id, command, result, exec, context, agent }
        if more.stop then more.stop(exec) end
      end,
    }
  end

  ---Each start has one end, after it, with the same id.
  local function paired(heard)
    local open_ids, count = {}, 0
    for _, event in ipairs(heard) do
      if event[1] == "start" then
        assert.is_nil(open_ids[event[2]])
        open_ids[event[2]] = true
        count = count + 1
      else
        assert.is_true(open_ids[event[2]])
        open_ids[event[2]] = false
      end
    end
    for _, still in pairs(open_ids) do assert.is_false(still) end
    return count
  end

  it("are told who, what and how it ended", function()
    local heard = {}
    local session = open { hooks = noting(heard), agent = "robot", context = { ticket = 1 } }
    assert(session:exec({ "sh", "-c", "echo out; echo err >&2; exit 3" }))
    session:close()
    assert.equal(1, paired(heard))
    local start, stop = heard[1], heard[2]
    assert.same({ "sh", "-c", "echo out; echo err >&2; exit 3" }, start[3].argv)
    assert.equal(1, start[4].ticket)
    assert.equal("robot", start[5])
    assert.equal(session, start[6].session)
    assert.equal(3, stop[4].exit_code)
    assert.is_false(stop[4].ok)
    assert.equal("out\n", stop[4].stdout)
    assert.equal("err\n", stop[4].stderr)
    assert.equal(start[2], logged("exec", "start")[1].id)
    assert.equal(start[2], logged("exec", "finish")[1].id)
    assert.equal(3, logged("exec", "finish")[1].exit_code)
  end)

  it("are given bytes as they were", function()
    local heard = {}
    local session = open { hooks = noting(heard) }
    local all = {}
    for byte = 0, 255 do all[#all + 1] = string.char(byte) end
    local text = table.concat(all)
    for cut = 0, 3 do
      assert(session:exec("cat", { stdin = text:sub(1, 256 - cut) }))
      assert.equal(text:sub(1, 256 - cut), heard[#heard][4].stdout)
    end
    session:close()
  end)

  it("each runs in a task as good as new, whatever the one before left", function()
    local globals, tasks = {}, {}
    local function hook()
      globals[#globals + 1] = getfenv(0)
      if #globals > 2 then tasks[#tasks + 1] = core.current() end
      setfenv(0, {})
      if #globals == 5 then error "thrown" end
    end
    local session = open { hooks = { on_sandbox_exec_start = hook, on_sandbox_exec_end = hook } }
    for _ = 1, 3 do assert(session:exec "true") end
    session:close()
    for i = 1, 6 do assert.equal(_G, globals[i]) end
    local seen = {}
    for _, task in ipairs(tasks) do
      assert.is_nil(seen[task])
      seen[task] = true
      assert.equal("done", task:status())
    end
    assert.equal(4, #tasks)
    assert.equal(1, #logged "hook_error")
  end)

  it("one end for each start: time-out, signal, cancel, missing program, close", function()
    local heard = {}
    local session = open { hooks = noting(heard) }
    assert.is_true(assert(session:exec("sleep 100", { timeout = 0.02 })).timed_out)
    assert.is_true(heard[#heard][4].timed_out)
    assert.equal("SIGKILL", assert(session:exec "kill -9 $$").signal)
    local process = assert(session:start "sleep 100")
    mooncage.sleep(0.02)
    process:cancel()
    assert.equal("canceled", select(2, process:wait()).code)
    assert.is_nil(heard[#heard][4])
    assert.equal("canceled", heard[#heard][5].error.code)
    assert.equal(127, assert(session:exec { "/no/such/program" }).exit_code)
    assert(session:exec("sleep 100", { detach = true }))
    local last = assert(session:start "sleep 100")
    mooncage.sleep(0.02)
    session:close()
    assert.equal("canceled", select(2, last:wait()).code)
    assert.equal(6, paired(heard))
    assert.equal(6, #logged("exec", "start"))
    assert.equal(6, #logged("exec", "finish"))
  end)

  it("a cwd that is not there ends it, too", function()
    local heard = {}
    local session = open { hooks = noting(heard) }
    local _, err = session:exec("true", { cwd = "/no/such/place" })
    assert.equal("not_found", err.code)
    session:close()
    assert.equal(1, paired(heard))
    assert.equal("not_found", heard[2][5].error.code)
  end)

  it("may wait, and the command waits for them", function()
    local heard, started = {}, nil
    local session = open { hooks = noting(heard, {
      start = function() mooncage.sleep(0.02) started = support.read_file(directory .. "/ran") end,
      stop = function() mooncage.sleep(0.02) heard.waited = true end,
    }) }
    assert(session:exec("echo x > " .. directory .. "/ran"))
    assert.is_nil(started)
    assert.is_true(heard.waited)
    session:close()
  end)

  it("cannot change the run, whatever they throw", function()
    local heard, lines = {}, {}
    local session = open {
      on_log = function(level, text) lines[#lines + 1] = level .. " " .. text end,
      hooks = noting(heard, {
        start = function() error "start broke" end, stop = function() error "end broke" end,
      }),
    }
    assert.equal("fine\n", assert(session:exec "echo fine").stdout)
    session:close()
    mooncage.sleep(0.01)
    core.on_log(nil)
    local text = table.concat(lines, "\n")
    assert.matches("error session %w+: hook on_sandbox_exec_start: .*start broke", text)
    assert.matches("error session %w+: hook on_sandbox_exec_end: .*end broke", text)
    local errors = logged "hook_error"
    assert.equal(2, #errors)
    assert.matches("start broke", errors[1].error.message)
  end)

  it("commands started inside one fire none, also by tasks of it", function()
    local heard = {}
    local session = open { hooks = noting(heard, { start = function(exec)
      assert(exec.session:exec "true")
      mooncage.join { mooncage.spawn(function() return exec.session:exec "true" end) }
    end }) }
    assert(session:exec "true")
    session:close()
    assert.equal(1, paired(heard))
    assert.equal(3, #logged("exec", "start")) -- the log has them all
  end)

  it("close() inside the start hook cancels the command first", function()
    local heard, closed = {}, nil
    local session = open { hooks = noting(heard, { start = function(exec)
      closed = exec.session:close()
    end }) }
    local result, err = session:exec("touch " .. directory .. "/ran")
    assert.is_nil(result)
    assert.equal("canceled", err.code)
    mooncage.sleep(0.02)
    assert.is_true(closed)
    assert.is_nil(support.read_file(directory .. "/ran"))
    assert.equal(1, paired(heard))
  end)

  it("close() inside the end hook returns, too", function()
    local heard, closed = {}, nil
    local session = open { hooks = noting(heard, { stop = function(exec)
      closed = exec.session:close()
    end }) }
    assert.is_true(assert(session:exec "true").ok)
    assert(session:close())
    mooncage.sleep(0.02)
    assert.is_true(closed)
    assert.equal(1, paired(heard))
  end)

  it("one that never returns is left behind", function()
    local heard = {}
    local session = open { hook_timeout_s = 0.05, hooks = noting(heard, {
      start = function() mooncage.sleep(1000) end,
    }) }
    assert.is_true(assert(session:exec "true").ok)
    session:close()
    assert.equal(1, paired(heard))
    assert.matches("did not return within", logged("hook_error")[1].error.message)
  end)

  it("do not fire for a terminal, which is in the log", function()
    local heard = {}
    local session = open { hooks = noting(heard) }
    assert(session:exec("true", { pty = true }))
    session:close()
    assert.same({}, heard)
    assert.equal(1, #logged("pty", "start"))
    assert.equal(1, #logged("pty", "finish"))
  end)

  it("a process can be written to, signalled and closed before it runs", function()
    local heard = {}
    local session = open { hooks = noting(heard, { start = function() mooncage.sleep(0.02) end }) }
    local process = assert(session:start "cat")
    assert(process:write "one ")
    assert(process:write "two")
    process:close_stdin()
    assert.equal("one two", assert(process:wait()).stdout)
    process = assert(session:start "sleep 100")
    assert(process:signal "TERM")
    assert.equal("SIGTERM", assert(process:wait()).signal)
    local source = { "a", "b" }
    local function next_part() return table.remove(source, 1) end
    assert.equal("ab", assert(session:exec("cat", { stdin = next_part })).stdout)
    session:close()
    assert.equal(3, paired(heard))
  end)

  it("what waits when the command is never run completes, too", function()
    local session = open { guardrail = function() return false, "no" end }
    local process = assert(session:start "cat")
    local ok, err = process:write "never read"
    assert.is_nil(ok)
    assert.equal("unavailable", err.code)
    assert.equal("command_denied", select(2, process:wait()).code)
    session:close()
  end)
end)

describe("the log", function()
  it("that cannot be written keeps the command from running", function()
    local place = support.temporary()
    local mounted = support.host(("mount -t tmpfs -o size=64k none %s && echo yes"):format(place))
    if mounted ~= "yes\n" then
      support.host("rmdir " .. place)
      pending "needs the right to mount a small file system"
      return
    end
    local session = open { audit = { type = "jsonl", path = place .. "/a.jsonl" } }
    assert.is_true(assert(session:exec "true").ok)
    support.host(("cat /dev/zero > %s/fill 2> /dev/null"):format(place))
    local denied
    for _ = 1, 100 do -- until the page that was begun is full
      local _, err = session:exec { "touch", directory .. "/ran" }
      if err then
        denied = err
        break
      end
    end
    os.remove(directory .. "/ran")
    assert.equal("audit_failed", denied.code)
    assert.equal("audit_failed", select(2, session:exec { "touch", directory .. "/ran" }).code)
    assert.is_nil(support.read_file(directory .. "/ran"))
    session:close()
    support.host(("umount -l %s; rmdir %s"):format(place, place))
  end)
end)

describe("tools", function()
  before_each(warm)
  support.leaves_nothing(begin)

  it("are functions of the config, given the arguments and the session", function()
    local session = open { tools = {
      shout = function(args, s) return (assert(s:exec { "echo", args.text }).stdout:upper()) end,
    } }
    assert.equal("HI\n", session:call_tool("shout", { text = "hi" }))
    session:close()
    assert.equal("shout", logged("tool", "start")[1].tool)
    assert.equal(1, #logged("tool", "finish"))
    assert.equal("shout", logged("exec", "start")[1].tool)
  end)

  it("their commands count as theirs, in tasks they spawn too, while they run", function()
    local session = open { allowed_tools = { "both" }, tools = { both = function(_, s)
      return mooncage.join { mooncage.spawn(function() return s:exec "echo a" end) }
    end } }
    assert.equal("a\n", assert(session:call_tool "both")[1].stdout)
    assert.equal("tool_not_allowed", select(2, session:exec "echo b").code)
    session:close()
  end)

  it("that is not allowed does not run", function()
    local ran = false
    local session = open { allowed_tools = { "shell" }, tools = { x = function() ran = true end } }
    assert.equal("tool_not_allowed", select(2, session:call_tool "x").code)
    assert.equal("tool_not_allowed", select(2, session:call_tool("read_file", { path = "a" })).code)
    assert.is_false(ran)
    session:close()
    assert.equal("allowed_tools", logged("tool", "point")[1].decision.by)
  end)

  it("with sandbox = false runs outside, is given no session, and the log says so", function()
    local session = open { tools = { host = { sandbox = false, run = function(...)
      return { select("#", ...), (...).n }
    end } } }
    assert.same({ 1, 5 }, session:call_tool("host", { n = 5 }))
    session:close()
    assert.is_false(logged("tool", "start")[1].detail.sandbox)
  end)

  it("arguments cannot ask for less of a sandbox", function()
    local session = open {}
    local _, err = session:call_tool("shell", { command = "true", sandbox = false })
    assert.equal("invalid", err.code)
    _, err = session:call_tool("shell", { command = "true", tool = "x", backend = "subprocess" })
    assert.equal("invalid", err.code)
    session:close()
  end)

  it("that throws is an error, with its name", function()
    local session = open { tools = {
      bad = function() error "cannot" end,
      worse = function() error(setmetatable({}, { __index = error })) end,
      own = function() return nil, core.error("quota", "enough") end,
    } }
    local _, err = session:call_tool "bad"
    assert.matches("^tool bad: .*cannot", err.message)
    _, err = session:call_tool "worse"
    assert.matches("^tool worse: it threw a value of type table", err.message)
    _, err = session:call_tool "own"
    assert.equal("quota", err.code)
    session:close()
    for _, event in ipairs(logged("tool", "finish")) do assert.is_table(event.error) end
  end)

  it("unknown ones are told, with the nearest", function()
    local session = open {}
    local _, err = session:call_tool "raed_file"
    assert.equal("not_found", err.code)
    assert.matches("read_file", err.fix)
    session:close()
  end)

  it("built in: files", function()
    local session = open {}
    assert.is_true(session:call_tool("write_file", { path = "a.txt", content = "one\ntwo\none\n" }))
    assert.equal("one\ntwo\none\n", session:call_tool("read_file", { path = "a.txt" }))
    assert.same({ replaced = 1 }, session:call_tool("edit_file",
      { path = "a.txt", old = "two", new = "%1" }))
    local _, err = session:call_tool("edit_file", { path = "a.txt", old = "one", new = "1" })
    assert.equal("conflict", err.code)
    _, err = session:call_tool("edit_file", { path = "a.txt", old = "three", new = "3" })
    assert.equal("not_found", err.code)
    _, err = session:call_tool("edit_file", { path = "a.txt", old = "", new = "3" })
    assert.equal("invalid", err.code)
    assert.same({ replaced = 2 }, session:call_tool("edit_file",
      { path = "a.txt", old = "one", new = "1", all = true }))
    assert.equal("1\n%1\n1\n", session:read "a.txt")
    assert.equal("a.txt", session:call_tool("list_files")[1].name)
    _, err = session:call_tool("read_file", { path = "../../etc/passwd" })
    assert.equal("invalid", err.code)
    _, err = session:call_tool("read_file", { path = "no.txt" })
    assert.equal("not_found", err.code)
    session:close()
  end)

  it("built in: edit_file keeps the mode", function()
    local session = open {}
    assert(session:write("run.sh", "#!/bin/sh\necho a\n", "755"))
    assert(session:call_tool("edit_file", { path = "run.sh", old = "echo a", new = "echo b" }))
    assert.equal("b\n", assert(session:exec "./run.sh").stdout)
    session:close()
  end)

  it("built in: search_files", function()
    local session = open {}
    assert(session:write("x.lua", "local a = 1\nreturn a + b\n"))
    assert(session:write("odd: 1:name.lua", "a + b"))
    local found = assert(session:call_tool("search_files", { pattern = "a + b", fixed = true }))
    assert.equal(2, #found.matches)
    table.sort(found.matches, function(a, b) return a.path > b.path end)
    assert.same({ path = "./x.lua", line = 2, text = "return a + b" }, found.matches[1])
    assert.equal("./odd: 1:name.lua", found.matches[2].path)
    assert.equal(0, #assert(session:call_tool("search_files", { pattern = "-zzz" })).matches)
    local _, err = session:call_tool("search_files", { pattern = "(" })
    assert.equal("invalid", err.code)
    session:close()
  end)

  it("of a config are checked when it opens", function()
    local function try(tools)
      local config = { backend = mooncage.subprocess(), tools = tools }
      return select(2, pcall(function() mooncage.open(config) end))
    end
    assert.matches("pipeline_spec.lua:%d+: mooncage: open: tools must be a table", try(7))
    assert.matches("tools.x must be a function", try { x = 1 })
    assert.matches("unknown key 'sandbx'", try { x = { run = print, sandbx = false } })
    assert.matches("is no name for a tool", try { ["a b"] = print })
    assert.matches("sandbox must be true or false", try { x = { run = print, sandbox = 0 } })
  end)
end)

describe("a command in a jail", function()
  before_each(warm)
  support.leaves_nothing(begin)

  it("takes the same way", function()
    local heard = {}
    local session = open {
      backend = mooncage.jail(),
      guardrail = function(c) return c.words ~= nil, "one at a time" end,
      hooks = { on_sandbox_exec_end = function(_, _, _, result) heard[#heard + 1] = result end },
    }
    assert.equal("hi\n", assert(session:exec "echo hi").stdout)
    assert.equal("command_denied", select(2, session:exec "echo a; echo b").code)
    session:close()
    assert.equal(1, #heard)
  end)
end)

describe("afterwards", function()
  it("the log goes", function() support.host("rm -rf " .. directory) end)
end)
