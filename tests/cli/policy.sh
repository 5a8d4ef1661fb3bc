# policy.sh: mooncage policy: check, test; what their results and exit statuses are.
# Sourced by run.

mkdir -p pol
cat >pol/size.lua <<'LUA'
return function(options)
  if options.broken then error "broken on purpose" end
  return function(tenant, config)
    if tenant == "big" then return { limits = { memory_mb = config.limits.memory_mb / 2 } } end
    return nil, "only big is known"
  end
end
LUA
cat >pol/size.test.lua <<'LUA'
return {
  kind = "tenant",
  config = { limits = { memory_mb = 64 } },
  { name = "half of it", tenant = "big", expect = { limits = { memory_mb = 32 } } },
  { name = "nobody else", tenant = "small", expect = false, reason = "only big" },
}
LUA
check "the built-in policies pass their tests" gives 0 '*' "mooncage policy test '$root/policies/'"
check "policy test passes" shows '2 passed, 0 failed' 'mooncage policy test pol'
check "policy test by file" shows '2 passed, 0 failed' 'mooncage policy test pol/size.lua'
check "policy test as JSON" json_is 0 \
  'd["ok"] and d["passed"] == 2 and d["policies"][0]["cases"][1]["reason"] == "only big is known"' \
  'mooncage --json policy test pol'
sed -i 's/memory_mb = 32/memory_mb = 31/' pol/size.test.lua
check "a failing test says what was expected and decided" gives 1 '*' \
  'mooncage policy test pol >said; s=$?; grep -q "expected.*31" said && grep -q "decided.*32" said && exit $s'
check "a failing test as JSON" json_is 1 \
  'not d["ok"] and d["failed"] == 1 and d["policies"][0]["cases"][0]["ok"] is False' \
  'mooncage --json policy test pol'
printf 'return { kind = "tenant", { name = "x", tennant = "a", expect = false } }' >pol/size.test.lua
check "a misspelt field is refused" gives 1 '*' 'mooncage policy test pol/size.lua' "did you mean 'tenant'?"
printf 'return { kind = "tenat" }' >pol/size.test.lua
check "an unknown kind is refused" gives 1 '*' 'mooncage policy test pol/size.lua' 'kind'
printf 'return { kind = "tenant", { name = "x", tenant = "a" } }' >pol/size.test.lua
check "a case that expects nothing is refused" gives 1 '*' 'mooncage policy test pol/size.lua' 'expects nothing'
rm pol/size.test.lua
check "no tests by name is a failure" gives 1 '*' 'mooncage policy test pol/size.lua' 'no tests'
check "a directory without tests is an error" gives 125 '*' 'mooncage policy test pol' 'no tests there'
check "policy check" shows 'size.lua: ok' 'mooncage policy check pol/size.lua'
check "policy check of a built-in one, as JSON" json_is 0 'd["policies"][0]["needs_options"]' \
  'mooncage --json policy check budget'
printf 'return function(' >pol/bad.lua
check "policy check names file and line" gives 2 '*' 'mooncage policy check pol' 'pol/bad.lua:1:'
printf '\033LJ' >pol/bad.lua
check "policy check refuses bytecode" gives 2 '' 'mooncage policy check pol/bad.lua' 'bytecode'
printf 'return function() return os.time() end' >pol/bad.lua
check "policy check says what is impure" shows 'there is no os here' 'mooncage policy check pol/bad.lua'
check "policy check of nothing" gives 2 '' 'mooncage policy check pol/none.lua' 'none.lua'
check "policy check of a name nobody has" gives 125 '' 'mooncage policy check bugdet' 'did you mean "budget"'
check "policy needs an action" gives 2 '' 'mooncage policy' 'check, test'
check "policy knows its actions" gives 2 '' 'mooncage policy tset' 'did you mean mooncage policy test'
check "policy check needs a file" gives 2 '' 'mooncage policy check' 'needs more words'
rm -r pol
