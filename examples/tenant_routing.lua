-- tenant_routing.lua: one configuration for several customers: each gets its own limits and
-- variables, nobody gets more than the configuration says, and who is not known gets nothing.
-- Run it: mooncage run examples/tenant_routing.lua
local mooncage = require "mooncage"

local config = {
  limits = { wall_s = 600 },
  tenants = mooncage.policy "tenant_routing" {
    tenants = {
      acme = { limits = { wall_s = 300 }, environment = { PLAN = "large" } },
      trial = { limits = { wall_s = 30 }, environment = { PLAN = "small" } },
      greedy = { limits = { wall_s = 86400 } },
    },
  },
}

for _, tenant in ipairs { "acme", "trial", "greedy", "stranger" } do
  config.tenant = tenant
  local result, err = mooncage.with(config, function(session)
    local said = session:exec("echo plan: $PLAN")
    return said and said.stdout:gsub("\n", "") .. ", for " .. session:info().limits.wall_s .. " s"
  end)
  print(tenant, result or tostring(err))
end
