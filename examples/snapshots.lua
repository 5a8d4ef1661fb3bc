-- snapshots.lua: a workspace that outlives its sandbox. Three attempts at a task begin where the
-- last one that succeeded left off; one that fails leaves nothing. Then two forks of one session
-- go different ways. Run it: mooncage run examples/snapshots.lua
local mooncage = require "mooncage"

local directory = os.tmpname()
os.remove(directory)
local store = mooncage.store.file { dir = directory }

local function attempt(command)
  return mooncage.with({
    snapshot_store = store,
    snapshot = { id = "task", exclude = { "**/*.tmp" } }, -- saved after success only
  }, function(session)
    local result = assert(session:exec(command))
    if not result.ok then return nil, "attempt failed: " .. result.stderr end
    return true
  end)
end

assert(attempt "echo 'plan: two steps' > plan; touch scratch.tmp")
print(attempt "echo 'step one, but wrong' >> plan; echo 'out of luck' >&2; exit 1")
assert(attempt "echo 'step one' >> plan; test ! -e scratch.tmp")

for _, snapshot in ipairs(assert(store:list())) do
  print(("%s, version %d: %d file(s), from %s"):format(snapshot.snapshot_id, snapshot.version,
    snapshot.file_count, snapshot.parent))
end

assert(mooncage.with({ snapshot_store = store }, function(session)
  assert(session:restore "task")
  for _, way in ipairs { "left", "right" } do
    local fork = assert(session:fork())
    assert(fork:exec { "sh", "-c", 'echo "step two, $1" >> plan', "sh", way })
    print(way, (assert(fork:exec "tail -n 1 plan").stdout:gsub("\n", "")))
    assert(fork:close())
  end
  io.write("left alone:\n", session:read "plan")
  return true
end))

assert(store:delete "task")
os.execute(("rm -r '%s'"):format(directory))
