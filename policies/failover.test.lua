-- Tests of failover: mooncage policy test policies/failover.lua
local function hosted(name, usd, health, latency_s)
  return { name = name, backend = name, family = "hosted", isolation = "vm",
    cost = { usd_per_minute = usd }, health = health, latency_s = latency_s }
end

return {
  kind = "selector",
  candidates = {
    hosted("a", 0.01, "failing", 0.2), hosted("b", 0.02, "ok", 9), hosted("c", 0.03, "ok", 1),
    hosted("d", 0.04, "unknown"),
  },
  { name = "what fails comes last, the others by price", expect = { "b", "c", "d", "a" } },
  { name = "slow ones come before those that fail", options = { max_latency_s = 5 },
    expect = { "c", "d", "b", "a" } },
  { name = "by latency, those never tried last", options = { prefer = "latency" },
    expect = { "c", "b", "d", "a" } },
  { name = "one that fails is better than none", candidates = { hosted("a", 1, "failing") },
    expect = { "a" } },
  { name = "requirements hold", requirements = { max_usd_per_minute = 0.02 },
    expect = { "b", "a" } },
  { name = "nobody", requirements = { network = true }, expect = false,
    reason = "a: it does not reach the network" },
  { name = "a preference that is not there is refused", options = { prefer = "luck" },
    expect = "error", reason = "luck" },
  { name = "a latency that is none is refused", options = { max_latency_s = "fast" },
    expect = "error", reason = "max_latency_s" },
  { name = "a misspelt option is refused", options = { prefers = "price" }, expect = "error",
    reason = "prefers" },
}
