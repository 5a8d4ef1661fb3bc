-- cost_aware.lua: the cheapest backend that will do, a cap on what a minute may cost, and the next
-- one when the cheapest cannot be had. Prices stand in the configuration here, because the local
-- backends have none; hosted ones bring their own.
-- Run it: mooncage run examples/cost_aware.lua
local mooncage = require "mooncage"

local candidates = {
  mooncage.jail { name = "workstation" }, -- unpriced: after all that have a price
  mooncage.jail { name = "spot", cost = { usd_per_minute = 0.002 }, max_sessions = 1 },
  mooncage.jail { name = "reserved", cost = { usd_per_minute = 0.010 } },
}

---Who would be taken, and what is said of each.
local function explain(title, config)
  local candidate, explanation, why = mooncage.select(config)
  print(("%s: %s"):format(title, candidate and candidate.name or "nobody"))
  for _, entry in ipairs(why or explanation) do
    print(("  %-12s %s"):format(entry.name, entry.reason))
  end
end

explain("by price", { candidates = candidates })
explain("at most half a cent", {
  candidates = candidates, requirements = { max_usd_per_minute = 0.005 },
})
explain("what has no price is not wanted", {
  candidates = candidates,
  selector = mooncage.policy "cheapest_first" { unpriced = "reject" },
  requirements = { not_backends = { "jail" } },
})

-- The cheapest takes one session at a time: the second goes to the next.
local first = assert(mooncage.open { candidates = candidates })
local second = assert(mooncage.open { candidates = candidates })
print("opened: " .. first.name .. ", then " .. second.name)
first:close()
second:close()
