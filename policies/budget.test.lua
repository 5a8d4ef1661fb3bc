-- Tests of budget: mooncage policy test policies/budget.lua
local function spent(usd, minutes, unpriced)
  return { spend = { session = { usd = usd, minutes = minutes, unpriced = unpriced } } }
end

return {
  kind = "guardrail",
  options = { usd = 5, minutes = 60 },
  command = "make test",
  { name = "far from it, all is well", context = spent(1, 5), expect = true },
  { name = "from four fifths on it warns", context = spent(4, 5),
    expect = { warn = "budget: this session has spent $4.00 of $5.00" } },
  { name = "at the limit it denies", context = spent(5, 5), expect = false,
    reason = "$5.00 of $5.00" },
  { name = "minutes count too", context = spent(0, 60.5), expect = false,
    reason = "60.5 of 60 minutes" },
  { name = "warn_at says when", options = { minutes = 10, warn_at = 0.5 }, context = spent(0, 5),
    expect = { warn = "budget: this session has spent 5 of 10 minutes" } },
  { name = "nothing known is denied", context = {}, expect = false, reason = "not known" },
  { name = "an unpriced backend is denied", context = spent(0, 5, true), expect = false,
    reason = "unpriced" },
  { name = "unless that is allowed", options = { usd = 5, unpriced = "allow" },
    context = spent(0, 5, true), expect = true },
  { name = "minutes need no price", options = { minutes = 10 }, context = spent(0, 5, true),
    expect = true },
  { name = "of a tenant", options = { per = "tenant", usd = 5 },
    context = { spend = { tenant = { usd = 6, minutes = 1 } } }, expect = false,
    reason = "this tenant" },
  { name = "of a run, which is not this session", options = { per = "run", usd = 5 },
    context = spent(1, 5), expect = false, reason = "no run_id" },
  { name = "a figure that is no number is denied", context = spent("much", 5), expect = false },
  { name = "the next policy judges the rest", context = spent(1, 5), expect = "ask",
    options = { usd = 5, next = function() return "ask", "sure?" end }, reason = "sure?" },
  { name = "but not what cannot be paid", context = spent(9, 5), expect = false,
    options = { usd = 5, next = function() return true end } },
  { name = "without a limit it is refused", options = {}, expect = "error", reason = "usd" },
  { name = "per what is not known is refused", options = { usd = 1, per = "day" },
    expect = "error", reason = "day" },
}
