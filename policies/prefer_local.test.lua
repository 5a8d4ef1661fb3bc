-- Tests of prefer_local: mooncage policy test policies/prefer_local.lua
local jail = { name = "jail", backend = "jail", family = "local", isolation = "namespace",
  capabilities = { network_denied = true } }
local docker = { name = "docker", backend = "docker", family = "local", isolation = "container",
  cost = { usd_per_minute = 0.1 }, capabilities = { network_denied = true } }
local free = { name = "free", backend = "v", family = "hosted", isolation = "vm",
  cost = { usd_per_minute = 0 }, capabilities = { network = true } }

return {
  kind = "selector",
  candidates = { free, jail, docker },
  { name = "local before hosted, whatever the price", expect = { "docker", "jail", "free" } },
  { name = "unpriced first, among the local ones", options = { unpriced = "first" },
    expect = { "jail", "docker", "free" } },
  { name = "hosted where no local one will do", requirements = { network = true },
    expect = { "free" } },
  { name = "nobody", requirements = { region = "moon" }, expect = false,
    reason = "jail: it names no region" },
  { name = "a misspelt option is refused", options = { prefer = 1 }, expect = "error",
    reason = "prefer" },
}
