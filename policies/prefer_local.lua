-- prefer_local: a backend of this machine where one meets the requirements, else the cheapest
-- hosted one; the rest of that order is the order of failover.
--
--   selector = mooncage.policy "prefer_local" { unpriced = "last" }
--
-- Among local candidates, and among hosted ones, the order is that of cheapest_first.

local UNPRICED = { last = true, first = true, reject = true }

local function check(options)
  for key in pairs(options) do
    if key ~= "unpriced" then
      error(("prefer_local: unknown option '%s': it takes unpriced"):format(tostring(key)), 0)
    end
  end
  if options.unpriced ~= nil and not UNPRICED[options.unpriced] then
    error(("prefer_local: unpriced must be last, first or reject, not %s")
      :format(tostring(options.unpriced)), 0)
  end
end

return function(options)
  check(options)
  return function(candidates, requirements)
    local ranked, why = mooncage.rank(candidates, requirements, { unpriced = options.unpriced })
    if #ranked == 0 then return nil, why end
    local order = {}
    for _, candidate in ipairs(ranked) do
      if candidate.family ~= "hosted" then order[#order + 1] = candidate end
    end
    for _, candidate in ipairs(ranked) do
      if candidate.family == "hosted" then order[#order + 1] = candidate end
    end
    return order
  end
end
