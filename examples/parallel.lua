-- parallel.lua: a pipeline of tasks with a bound on how many run at once: the words of each file
-- given are counted in a sandbox of its own. Run it: mooncage run examples/parallel.lua FILE...
local mooncage = require "mooncage"

local AT_ONCE = 4
local files = { unpack(arg) }
if #files == 0 then
  io.stderr:write "usage: mooncage run examples/parallel.lua FILE...\n"
  os.exit(2)
end

local counts, next_file = {}, 1

---Takes files until none is left. No lock is needed: a task gives way only where it waits.
local function worker()
  while next_file <= #files do
    local mine = next_file
    next_file = next_file + 1
    counts[mine] = assert(mooncage.with({}, function(session)
      assert(session:upload(files[mine], "input"))
      local result = assert(session:exec("wc -w < input", { timeout = 30 }))
      return tonumber(result.stdout)
    end))
  end
  return true
end

local tasks = {}
for i = 1, math.min(AT_ONCE, #files) do tasks[i] = mooncage.spawn(worker) end
assert(mooncage.join(tasks))
for i, name in ipairs(files) do print(("%8d %s"):format(counts[i], name)) end
