-- network.lua: connections through the gateway beside socat's and beside none, in turns; and what
-- opening a sandbox costs with rules. In a network namespace that network.sh set up: a server is at
-- 11.0.0.1:7000, and socat listens for it on 11.0.0.1:7001. Prints rows as the bench driver does:
--   mooncage run tests/bench/network.lua PROGRAMS LOG [short]
local mooncage = require "mooncage"

local programs, log, short = arg[1], arg[2], arg[3] ~= nil
local wire = programs .. "/wire-musl"
local rounds, bytes = short and 3 or 7, short and 500e6 or 2000e6

local function config(network)
  return {
    backend = mooncage.jail { binds = { programs .. ":/mnt" } },
    audit = mooncage.audit.jsonl { path = log },
    network = network,
  }
end

local function figure(name, value, unit)
  print(table.concat({ "figure", "network", name, "musl", ("%.4f"):format(value), unit }, "\t"))
end

local function outside(...)
  local words = {}
  for i, word in ipairs { wire, ... } do words[i] = tostring(word) end
  local pipe = assert(io.popen(table.concat(words, " ")))
  local value = tonumber(pipe:read "*a")
  pipe:close()
  return assert(value, "no figure from outside")
end

local session = assert(mooncage.open(config { allow = { "11.0.0.1:7000" } }))

local function inside(...)
  local argv = { "/mnt/wire-musl" }
  for _, word in ipairs { ... } do argv[#argv + 1] = tostring(word) end
  local result = assert(session:exec(argv))
  return assert(tonumber(result.stdout), result.stderr)
end

local size = ("%d"):format(bytes)
for _ = 1, rounds do
  figure("MB/s through the gateway", inside("fetch", "11.0.0.1", 7000, size), "MB/s")
  figure("MB/s through socat", outside("fetch", "11.0.0.1", 7001, size), "MB/s")
  figure("first byte through the gateway", inside("reach", "11.0.0.1", 7000, 300), "ms")
  figure("first byte, plain", outside("reach", "11.0.0.1", 7000, 300), "ms")
  figure("connections a second through the gateway", inside("crowd", "11.0.0.1", 7000, 2000), "1/s")
end
session:close()

-- Opening, with and without rules, in turns.
local variants = {
  { name = "open and close, no network", config = config(nil), times = {} },
  { name = "open and close, an allow list",
    config = config { allow = { "api.example.com:443", "*.example.org:443" } }, times = {} },
}
local opens = short and 60 or 300
for round = -4, opens do
  for i = 1, 2 do
    local variant = variants[(round + i) % 2 + 1]
    local start = mooncage.now()
    local one = assert(mooncage.open(variant.config))
    local took = (mooncage.now() - start) * 1000
    one:close()
    if round > 0 then variant.times[round] = took end
  end
end
for _, variant in ipairs(variants) do
  local times = variant.times
  table.sort(times)
  print(table.concat({ "time", "network", variant.name, "musl", 0, opens,
    ("%.4f"):format(times[math.ceil(opens / 2)]), ("%.4f"):format(times[math.ceil(opens * 0.95)]),
    ("%.4f"):format(times[1]) }, "\t"))
end
