# tenants.sh: --tenant, and a configuration that routes tenants.
# Sourced by run.

config ten.lua $'return {
  environment = { WHO = "nobody" },
  tenants = mooncage.policy "tenant_routing" { tenants = {
    acme = { environment = { WHO = "acme" }, labels = { plan = "large" } },
    loose = { network = "host" },
  } },
}'
check "a tenant gets what is its own" gives 0 acme "mooncage --config ten.lua run --tenant acme -- sh -c 'echo \$WHO'"
check "also in a script" gives 0 acme \
  "mooncage --config ten.lua run --tenant acme -e 'require\"mooncage\".with({}, function(s) io.write(s:exec(\"echo \$WHO\").stdout) end)'"
check "one that is not known is denied" gives 126 '' 'mooncage --config ten.lua run --tenant evil -- true' \
  'tenant "evil" is denied: it is not known here'
check "and its code says so" json_is 126 'd["error"]["code"] == "no_candidate"' \
  'mooncage --json --config ten.lua run --tenant evil -- true'
check "nobody is denied" gives 126 '' 'mooncage --config ten.lua run -- true' 'no tenant was named'
check "a looser value is refused" gives 2 '' 'mooncage --config ten.lua run --tenant loose -- true' \
  '"host" is looser than "none"'
check "create asks too" gives 126 '' 'mooncage --config ten.lua create --tenant evil' 'is denied'
check "and gives what is the tenant's" gives 0 acme \
  "id=\$(mooncage --config ten.lua create --tenant acme --ttl 1m) && mooncage exec \$id -- sh -c 'echo \$WHO'; mooncage -q stop \$id >/dev/null"
check "an id is no path" gives 2 '' 'mooncage run --tenant ../x -- true' 'no letter, digit, - or _'
check "an id is not too long" gives 2 '' \
  "mooncage run --tenant \$(printf %065d 0) -- true" 'longer than 64'
config ten.lua $'return {\n  tenants = 5,\n}'
check "tenants that are no function" gives 2 '' 'mooncage --config ten.lua run -- true' 'ten.lua:2: tenants must be a function'
check "also for a script" gives 2 '' "mooncage --config ten.lua run -e 'print(1)'" 'ten.lua:2: tenants must be a function'
config ten.lua 'return { tenants = function() error "boom" end }'
check "tenants that throw" gives 2 '' 'mooncage --config ten.lua run --tenant a -- true' 'ten.lua:1: boom'

# A quota holds over processes: what create holds, run has not.
config quota.lua 'return { tenants = function() return { quota = { sessions = 1 } } end }'
holds_the_one() {
  local id
  id=$(mooncage --config quota.lua create --tenant few --ttl 1m) || return
  gives 125 '' 'mooncage --config quota.lua run --tenant few -- true' 'tenant "few" has its 1 session already' || return
  gives 0 '' 'mooncage --config quota.lua run --tenant other -- true' || return
  mooncage -q stop "$id" >/dev/null || return
  gives 0 '' 'mooncage --config quota.lua run --tenant few -- true'
}
check "a session that stays counts against the quota" holds_the_one
check "a quota that is over has its code" json_is 125 'd["error"]["code"] == "quota"' \
  'echo "return { tenants = function() return { quota = { minutes = 0.000001 } } end }" >q.lua; mooncage --config q.lua run --tenant over -- sleep 0.05; mooncage --json --config q.lua run --tenant over -- true'
