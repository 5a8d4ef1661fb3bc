-- Tests of cheapest_first: mooncage policy test policies/cheapest_first.lua
local jail = { name = "jail", backend = "jail", family = "local", isolation = "namespace",
  capabilities = { network_denied = true, pty = true } }
local dear = { name = "dear", backend = "v1", family = "hosted", isolation = "vm",
  cost = { usd_per_minute = 0.5 }, persistent = true, capabilities = { network = true } }
local cheap = { name = "cheap", backend = "v2", family = "hosted", isolation = "vm",
  cost = { usd_per_minute = 0.01 }, persistent = true, capabilities = { network = true } }
local same = { name = "same", backend = "v3", family = "hosted", isolation = "container",
  cost = { usd_per_minute = 0.01 }, capabilities = { network = true } }
local free = { name = "free", backend = "v4", family = "hosted", isolation = "container",
  cost = { usd_per_minute = 0 }, capabilities = { network = true } }

return {
  kind = "selector",
  candidates = { jail, dear, cheap, same, free },
  { name = "by price; the unpriced last, the same price as given",
    expect = { "free", "cheap", "same", "dear", "jail" } },
  { name = "unpriced first", options = { unpriced = "first" },
    expect = { "jail", "free", "cheap", "same", "dear" } },
  { name = "unpriced rejected", options = { unpriced = "reject" },
    expect = { "free", "cheap", "same", "dear" } },
  { name = "triage: without network it is the local one", requirements = { network = false },
    expect = { "jail" } },
  { name = "heavy work: network and a workspace that stays go to the cheapest hosted",
    requirements = { network = true, persistent = true }, expect = { "cheap", "dear" } },
  { name = "nobody will do, and each is told why", requirements = { min_isolation = "vm",
    network = false }, expect = false, reason = "cheap: its network is not denied" },
  { name = "nobody is there", candidates = {}, expect = false, reason = "no candidate" },
  { name = "a misspelt option is refused", options = { unprized = "last" }, expect = "error",
    reason = "unprized" },
  { name = "a setting that is not there is refused", options = { unpriced = "never" },
    expect = "error", reason = "never" },
}
