-- tenant_routing.lua: one configuration for several customers: each gets its own limits and
-- variables, nobody gets more than the configuration says, and who is not known gets nothing.
-- Run it: mooncage run examples/tenant_routing.lua
local mooncage = require "mooncage"

local config = {
  limits = { memory_mb = 256 },
  tenants = mooncage.policy "tenant_routing" {
    tenants = {
      acme = { limits = { memory_mb = 128 }, environment = { PLAN = "large" } },
      trial = { limits = { memory_mb = 32 }, environment = { PLAN = "small" } },
      greedy = { limits = { memory_mb = 4096 } },
    },
  },
}

for _, tenant in ipairs { "acme", "trial", "greedy", "stranger" } do
  config.tenant = tenant
  local result, err = mooncage.with(config, function(session)
    local said = session:exec("echo plan: $PLAN")
    return said and said.stdout:gsub("\n", "") .. ", memory: " .. session:info().limits.memory_mb
  end)
  print(tenant, result or tostring(err))
end
