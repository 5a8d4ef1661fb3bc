-- cheapest_first: of the candidates that meet the requirements the cheapest; what comes after it is
-- the order of failover. This is what chooses where no selector is given.
--
--   selector = mooncage.policy "cheapest_first" { unpriced = "last" }
--
-- Prices are cost.usd_per_minute; the same price keeps the given order. Candidates without a price,
-- as the local backends are, stand after all priced ones (unpriced = "last", the default), before
-- them ("first"), or are not chosen ("reject").

local UNPRICED = { last = true, first = true, reject = true }

local function check(options)
  for key in pairs(options) do
    if key ~= "unpriced" then
      error(("cheapest_first: unknown option '%s': it takes unpriced"):format(tostring(key)), 0)
    end
  end
  if options.unpriced ~= nil and not UNPRICED[options.unpriced] then
    error(("cheapest_first: unpriced must be last, first or reject, not %s")
      :format(tostring(options.unpriced)), 0)
  end
end

return function(options)
  check(options)
  return function(candidates, requirements)
    local order, why = mooncage.rank(candidates, requirements, { unpriced = options.unpriced })
    if #order == 0 then return nil, why end
    return order
  end
end
