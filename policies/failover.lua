-- failover: the cheapest, or the fastest, of those that work: candidates whose last sandbox could
-- not be made come after all others, and so do, before them, those that take too long to make one.
--
--   selector = mooncage.policy "failover" { prefer = "price", max_latency_s = 5 }
--
-- health and latency_s are what this engine saw: "ok" or "failing" by the last attempt of the past
-- minute, else "unknown"; and the seconds that making a sandbox took, the recent ones above all.
-- prefer = "latency" orders by latency_s; one that was never tried comes after those that were.

local UNPRICED = { last = true, first = true, reject = true }
local PREFER = { price = true, latency = true }
local KNOWN = { unpriced = true, prefer = true, max_latency_s = true }

local function check(options)
  for key in pairs(options) do
    if not KNOWN[key] then
      error(("failover: unknown option '%s': it takes prefer, max_latency_s and unpriced")
        :format(tostring(key)), 0)
    end
  end
  if options.unpriced ~= nil and not UNPRICED[options.unpriced] then
    error(("failover: unpriced must be last, first or reject, not %s")
      :format(tostring(options.unpriced)), 0)
  end
  if options.prefer ~= nil and not PREFER[options.prefer] then
    error(("failover: prefer must be price or latency, not %s"):format(tostring(options.prefer)), 0)
  end
  local most = options.max_latency_s
  if most ~= nil and not (type(most) == "number" and most > 0) then
    error(("failover: max_latency_s must be a number above 0, not %s"):format(tostring(most)), 0)
  end
end

---The same candidates by latency; equals stay as they are.
local function by_latency(candidates)
  local places, sorted = {}, {}
  for i, candidate in ipairs(candidates) do
    places[candidate] = i
    sorted[i] = candidate
  end
  table.sort(sorted, function(a, b)
    local first, second = a.latency_s or math.huge, b.latency_s or math.huge
    if first ~= second then return first < second end
    return places[a] < places[b]
  end)
  return sorted
end

return function(options)
  check(options)
  local most = options.max_latency_s or math.huge
  return function(candidates, requirements)
    local ranked, why = mooncage.rank(candidates, requirements, { unpriced = options.unpriced })
    if #ranked == 0 then return nil, why end
    if options.prefer == "latency" then ranked = by_latency(ranked) end
    local order, slow, failing = {}, {}, {}
    for _, candidate in ipairs(ranked) do
      local list = order
      if candidate.health == "failing" then
        list = failing
      elseif (candidate.latency_s or 0) > most then
        list = slow
      end
      list[#list + 1] = candidate
    end
    for _, candidate in ipairs(slow) do order[#order + 1] = candidate end
    for _, candidate in ipairs(failing) do order[#order + 1] = candidate end
    return order
  end
end
