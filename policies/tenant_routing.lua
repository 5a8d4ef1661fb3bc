-- tenant_routing: what each tenant gets, as a table. Who is not in it is denied.
--
--   tenants = mooncage.policy "tenant_routing" {
--     tenants = {
--       acme = { limits = { memory_mb = 512 }, quota = { sessions = 4, usd = 20 } },
--       trial = { candidates = { "jail" }, limits = { memory_mb = 128, wall_s = 60 } },
--     },
--     default = { quota = { sessions = 1 } }, -- the other tenants; without it they are denied
--     anonymous = {},                         -- no tenant was named; without it that is denied
--   }
--
-- What a tenant's table may hold is in docs/tenants.md; it can only tighten what the configuration
-- says, and the engine checks that.

local KNOWN = { tenants = true, default = true, anonymous = true }

local function check(options)
  for key, value in pairs(options) do
    if not KNOWN[key] then
      error(("tenant_routing: unknown option '%s': it takes tenants, default and anonymous")
        :format(tostring(key)), 0)
    end
    if type(value) ~= "table" then
      error(("tenant_routing: %s must be a table, not a %s"):format(key, type(value)), 0)
    end
  end
  for id, overrides in pairs(options.tenants or {}) do
    if type(id) ~= "string" or type(overrides) ~= "table" then
      error("tenant_routing: tenants must be a table of tables, by the tenant's id", 0)
    end
    if not id:match "^[A-Za-z0-9_-]+$" or #id > 64 then
      error(("tenant_routing: nobody can have the id %q: it is 1 to 64 letters, digits, - and _")
        :format(id:sub(1, 64)), 0)
    end
  end
end

return function(options)
  check(options)
  local tenants = options.tenants or {}
  return function(tenant)
    if tenant == nil then
      if options.anonymous then return options.anonymous end
      return nil, "no tenant was named"
    end
    local found = tenants[tenant] or options.default
    if not found then return nil, "it is not known here" end
    return found
  end
end
