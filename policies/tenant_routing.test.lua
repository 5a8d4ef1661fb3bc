-- Tests of tenant_routing: mooncage policy test policies/tenant_routing.lua
return {
  kind = "tenant",
  options = {
    tenants = {
      acme = { limits = { memory_mb = 512 }, quota = { sessions = 4 } },
      trial = { candidates = { "jail" }, network = "none" },
    },
  },
  { name = "a tenant of the table gets what stands there", tenant = "acme",
    expect = { limits = { memory_mb = 512 }, quota = { sessions = 4 } } },
  { name = "another gets its own", tenant = "trial",
    expect = { candidates = { "jail" }, network = "none" } },
  { name = "one that is not there is denied", tenant = "evil", expect = false,
    reason = "not known" },
  { name = "ids are compared byte by byte", tenant = "Acme", expect = false,
    reason = "not known" },
  { name = "no tenant is denied", expect = false, reason = "no tenant" },
  { name = "a default is for the others", tenant = "somebody",
    options = { default = { quota = { sessions = 1 } } }, expect = { quota = { sessions = 1 } } },
  { name = "but not for nobody", options = { default = {} }, expect = false },
  { name = "anonymous is for nobody", options = { anonymous = { limits = { wall_s = 10 } } },
    expect = { limits = { wall_s = 10 } } },
  { name = "a misspelt option is refused", options = { tennants = {} }, expect = "error",
    reason = "tennants" },
  { name = "a tenant that is no table is refused", options = { tenants = { acme = true } },
    expect = "error", reason = "table of tables" },
}
