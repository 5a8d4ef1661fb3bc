-- selector.lua: a selector in plain Lua over a thousand candidates, called as the engine's question
-- calls it: read-only candidates, bounded, not compiled. Prints rows as the bench driver does:
--   luajit tests/bench/selector.lua [ROUNDS]
local core = require "mooncage.core"
local select = require "mooncage.select"

local rounds = tonumber(arg and arg[1]) or 300
local MANY = 1000

---The candidates of rank.c, as facts.
local function facts()
  local list, seed = {}, 1
  local function bits(shift)
    return math.floor(seed / 2 ^ shift)
  end
  for i = 1, MANY do
    seed = (seed * 69069 + 12345) % 2 ^ 32
    local rare = bits(14) % 40 == 0
    list[i] = {
      name = "c" .. i, backend = "b" .. bits(20) % 11, family = "hosted",
      isolation = ({ "container", "gvisor", "vm" })[bits(8) % 3 + 1],
      cost = bits(12) % 6 ~= 0 and { usd_per_minute = bits(16) / 65536 } or nil,
      persistent = bits(10) % 2 == 1, region = bits(18) % 2 == 1 and "eu" or "us",
      capabilities = { network = true, pty = true, snapshot = true, gpu = rare or nil },
      health = "unknown", sessions = 0, memory_mb = 1024 * 2 ^ (bits(24) % 5),
    }
  end
  return list
end

local STRENGTH = { none = 0, namespace = 1, container = 2, gvisor = 3, vm = 4 }

---Matches and finds the cheapest, by hand: no help of the engine's.
local function cheapest(candidates, requirements)
  local best, least = nil, math.huge
  local strength = STRENGTH[requirements.min_isolation]
  for i = 1, #candidates do
    local candidate = candidates[i]
    local capabilities = candidate.capabilities
    if capabilities.network and capabilities.pty and STRENGTH[candidate.isolation] >= strength
      and candidate.memory_mb >= requirements.memory_mb
      and (not requirements.region or candidate.region == requirements.region) then
      local cost = candidate.cost
      local price = cost and cost.usd_per_minute or 1e9
      if price < least then best, least = candidate, price end
    end
  end
  return best
end

local function measure(name, requirements)
  local candidates, times = {}, {}
  for i, each in ipairs(facts()) do candidates[i] = select.candidate(each) end
  for round = -1, rounds do
    local start = require("mooncage").now()
    local best = core.decide("selector", cheapest, candidates, requirements, {})
    local took = require("mooncage").now() - start
    if not best then error(name .. ": nobody fits") end
    if round > 0 then times[round] = took * 1000 end
  end
  table.sort(times)
  print(table.concat({ "time", "rank", name, "", 0, rounds,
    ("%.4f"):format(times[math.ceil(rounds / 2)]),
    ("%.4f"):format(times[math.ceil(rounds * 0.95)]), ("%.4f"):format(times[1]) }, "\t"))
end

measure("pure Lua selector of 1000, few match",
  { min_isolation = "vm", region = "eu", memory_mb = 16384 })
measure("pure Lua selector of 1000, all match", { min_isolation = "container", memory_mb = 0 })
