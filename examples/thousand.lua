-- thousand.lua: many sandboxes side by side: opens them all, runs a command in each, closes them,
-- prints a summary. Run it: mooncage run examples/thousand.lua [HOW_MANY]
local mooncage = require "mooncage"

local how_many = tonumber(arg[1] or 1000)
assert(how_many and how_many >= 1, "usage: thousand.lua [HOW_MANY]")

---Runs fn(i) for every i in a task of its own; returns the results in order, and the seconds taken.
local function all(fn)
  local started, tasks = mooncage.now(), {}
  for i = 1, how_many do
    tasks[i] = mooncage.spawn(function() return fn(i) end)
  end
  return assert(mooncage.join(tasks)), mooncage.now() - started
end

local function available_mb()
  local file = io.open "/proc/meminfo"
  local kb = file and file:read("*a"):match "MemAvailable:%s*(%d+)"
  if file then file:close() end
  return kb and kb / 1024
end

local before = available_mb()
local sessions, opening = all(function() return assert(mooncage.open {}) end)
local after = available_mb()

local results, running = all(function(i)
  return assert(sessions[i]:exec({ "sh", "-c", "echo $1", "sh", tostring(i) }, { timeout = 60 }))
end)

local right = 0
for i, result in ipairs(results) do
  if result.ok and result.stdout == i .. "\n" then right = right + 1 end
end

local _, closing = all(function(i) return assert(sessions[i]:close()) end)

print(("opened  %d sandboxes in %.2f s (%.2f ms each)"):format(how_many, opening,
  opening / how_many * 1000))
print(("ran     a shell in each, all at the same time, in %.2f s; %d of %d right"):format(running,
  right, how_many))
print(("closed  them in %.2f s"):format(closing))
if before and after and before > after then -- others on this machine use memory, too
  print(("memory  %.0f KiB for each idle sandbox"):format((before - after) * 1024 / how_many))
end
os.exit(right == how_many and 0 or 1)
