-- quickstart.lua: what a sandbox allows and what it refuses, side by side, on this machine.
-- Run it: mooncage run examples/quickstart.lua
-- Exits 1 when something allowed did not work, or something forbidden did.
local mooncage = require "mooncage"

local surprises = 0

-- Field 1 of /proc/self/stat, outside.
local own_pid = assert(io.open "/proc/self/stat"):read "*n"

local function first_line(text)
  return (text:match "[^\n]+" or ""):sub(1, 60)
end

local function row(ok, what, outcome)
  if not ok then surprises = surprises + 1 end
  print(("  %s %-44s %s"):format(ok and "ok " or "BAD", what, outcome))
end

---What became of a command, in a few words.
local function outcome(result)
  if result.timed_out then return ("killed after %.1f s"):format(result.duration) end
  if result.oom_killed then return "killed: out of memory" end
  if result.signal then return "killed by " .. result.signal end
  local said = first_line(result.stdout .. result.stderr)
  if said ~= "" then return said end
  return result.ok and "it worked" or "nothing there"
end

local function allowed(session, what, command, options)
  local result = assert(session:exec(command, options))
  row(result.ok, what, outcome(result))
end

local function refused(session, what, command, options)
  local result = assert(session:exec(command, options))
  row(not result.ok, what, outcome(result))
end

print "Allowed: an ordinary place to work"
mooncage.with({}, function(session)
  allowed(session, "a pipe: echo hi | tr a-z A-Z", "echo hi | tr a-z A-Z")
  allowed(session, "a program of the host: awk, 6 * 7", { "awk", "BEGIN { print 6 * 7 }" })
  allowed(session, "write a file, and read it", "date +%Y > year && cat year")
  allowed(session, "standard input", "wc -c | tr -d ' '", { stdin = ("x"):rep(100000) })
  assert(session:write("note.txt", "left by the host\n"))
  allowed(session, "a file that the host put there", { "cat", "note.txt" })
end)

print "\nForbidden: each of these was tried just now"
mooncage.with({}, function(session)
  refused(session, "read /etc/shadow", { "cat", "/etc/shadow" })
  refused(session, "list your home directory",
    { "sh", "-c", 'ls -A "$1" | grep .', "sh", os.getenv "HOME" or "/root" })
  refused(session, "connect to the network", { "bash", "-c", "exec 3<>/dev/tcp/192.0.2.1/80" })
  refused(session, "write to /usr/bin", "echo evil > /usr/bin/evil")
  refused(session, "mount a file system", { "mount", "-t", "tmpfs", "none", "/mnt" })
  refused(session, "become root of a new user namespace", { "unshare", "-U", "-r", "id" })
  refused(session, "see the process that started all this", "ls /proc | grep -x " .. own_pid)
  refused(session, "run for ever, also in the background", "(setsid sleep 99 &) ; sleep 99",
    { timeout = 0.5 })
end)

print "\nLimits: written by you, so enforced or refused"

---Tries something in a sandbox with a limit; `held` judges the result.
local function limited(what, limits, command, held)
  local session, err = mooncage.open { limits = limits }
  if not session then
    if err.code ~= "unenforceable" then error(err) end
    print(("  --  %-44s not on this machine: %s"):format(what, err.message))
    if err.fix then print("      fix: " .. err.fix) end
    return
  end
  local result, failure = session:exec(command, { timeout = 20 })
  if result then
    row(held(result), what, outcome(result))
  else
    row(false, what, tostring(failure))
  end
  assert(session:close())
end

limited("64 MB of memory: take all there is", { memory_mb = 64 }, { "tail", "/dev/zero" },
  function(result) return result.oom_killed end)
limited("32 processes: start 200", { pid_limit = 32 },
  "i=0; while [ $i -lt 200 ]; do sleep 5 & i=$((i+1)); done",
  function(result) return not result.ok end)
limited("16 MB of disk: write 100 MB", { disk_mb = 16 },
  "head -c 100000000 /dev/zero > big",
  function(result) return not result.ok and result.stderr:find "No space left" end)

mooncage.with({}, function(session)
  print(("\nIn force here (backend %s):"):format(session.backend))
  local names = {}
  for name in pairs(session.enforcement) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    print(("  %-16s %s"):format(name, tostring(session.enforcement[name])))
  end
end)

if surprises > 0 then
  print(("\n%d of these did not turn out as they should."):format(surprises))
  os.exit(1)
end
print "\nAll as it should be."
