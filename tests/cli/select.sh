# select.sh: mooncage select and mooncage backends: who would be chosen, why no other, exit statuses.
# Sourced by run.

cat >several.lua <<'LUA'
return {
  candidates = {
    mooncage.subprocess { name = "bare" },
    mooncage.jail { name = "dear", cost = { usd_per_minute = 0.1 } },
    mooncage.jail { name = "cheap", cost = { usd_per_minute = 0.05 } },
    mooncage.jail { name = "unpriced" },
  },
}
LUA
sel='mooncage -q --config several.lua'
check "select without anything is the jail" shows ' 1  jail  jail     fits; unpriced' 'mooncage select'
check "select -q is a name" gives 0 cheap "$sel select"
check "select opens nothing" gives 0 jail 'MOONCAGE_INIT=/nonexistent mooncage -q select'
check "select lists all, in the order in which they are tried" gives 0 \
  '1 cheap jail|2 dear jail|3 unpriced jail|- bare subprocess' \
  'mooncage --config several.lua select --min-isolation namespace 2>/dev/null |
     awk "NR > 1 { printf \"%s%s %s %s\", sep, \$1, \$2, \$3; sep = \"|\" }"'
check "select says why not" shows 'isolation is none, namespace is required' \
  "$sel select --min-isolation namespace; mooncage --config several.lua select --min-isolation namespace"
check "select as JSON" json_is 0 \
  '(d["chosen"]["name"] == "cheap" and d["order"] == [3, 2, 1, 4] and len(d["candidates"]) == 4
   and d["candidates"][1]["cost"]["usd_per_minute"] == 0.1 and all(c["reason"] for c in d["candidates"]))' \
  "$sel --json select"
check "select with nobody left exits 126" gives 126 '' "$sel select --min-isolation vm" \
  'no candidate can be used: bare: isolation is none, vm is required; dear: isolation is namespace'
check "and says so as JSON, with all reasons" json_is 126 \
  '(d["error"]["code"] == "no_candidate" and [c["fits"] for c in d["candidates"]] == [False] * 4
   and d["candidates"][2]["reason"] == "isolation is namespace, gvisor is required")' \
  "$sel --json select --min-isolation gvisor"
check "the network is required" gives 0 cheap "$sel select --require-network yes"
check "the network is denied" gives 0 cheap "$sel select --require-network no"
check "a price is the highest" gives 0 cheap "$sel select --max-usd-per-minute 0.07"
check "a price of 0 leaves the free" gives 126 '' "$sel select --max-usd-per-minute 0" 'at most 0 is allowed'
check "a capability" gives 0 cheap "$sel select --require-capability project --require-capability pty"
check "a capability that nobody has" gives 126 '' "$sel select --require-capability gpu" \
  'it lacks the capability gpu'
check "a workspace that stays" gives 126 '' "$sel select --require-persistent" 'ends with the session'
check "a region" gives 126 '' "$sel select --region eu" 'it names no region, eu is required'
check "only one backend" gives 0 bare "$sel select --only-backend subprocess"
check "not one backend" gives 0 bare "$sel select --not-backend jail"
check "a backend that is not there is misspelt" gives 2 '' "$sel select --not-backend jial" \
  'did you mean `jail`?'
check "memory that a written limit does not hold" gives 126 '' \
  "$sel select --memory 64M --require-memory 128M" \
  'it gives at most 64 MiB of memory, memory_mb = 128 is required'
check "what was written and a backend cannot keep" shows 'limits.memory_mb: bare cannot enforce it' \
  'mooncage --config several.lua select --memory 64M'
check "terminals and processors" gives 0 cheap "$sel select --require-pty --require-cpus 0.5"
check "--require-network takes yes or no" gives 2 '' 'mooncage select --require-network maybe' 'yes, no'
check "--min-isolation knows its levels" gives 2 '' 'mooncage select --min-isolation vmm' 'did you mean vm?'
check "--max-usd-per-minute is a number" gives 2 '' 'mooncage select --max-usd-per-minute x' 'must be a number'
check "--option with several candidates is refused" gives 2 '' \
  "$sel run --option profile=strict -- true" 'the configuration has 4 candidates'
check "--backend chooses among them" gives 0 jail "$sel select --backend jail --option profile=strict"

check "run takes the one that select names" json_is 0 'd["session"]["backend"] == "jail"' \
  "$sel --json run -- true"
cat >weak.lua <<'LUA'
return { candidates = { mooncage.subprocess {}, mooncage.jail {} }, requirements = { min_isolation = "vm" } }
LUA
check "run exits 126 when nobody is left" gives 126 '' \
  'mooncage -q --config weak.lua run -- true' 'no candidate can be used'
cat >chooses.lua <<'LUA'
return {
  candidates = { mooncage.jail { name = "a" }, mooncage.jail { name = "b" } },
  selector = function(candidates) return candidates[2], "b is better" end,
}
LUA
check "a selector of the configuration chooses" shows 'the selector: b is better' \
  'mooncage --config chooses.lua select'
check "for run too" gives 0 b \
  'mooncage --config chooses.lua run -e "mooncage = require \"mooncage\"; mooncage.with(nil, function(s) print(s.name) end)"'
sed -i 's/return candidates\[2\].*end/error "on strike" end/' chooses.lua
check "one that throws is an error of the configuration" gives 2 '' \
  'mooncage --config chooses.lua select' 'on strike'
sed -i 's/error "on strike"/while true do end/' chooses.lua
check "one that loops is ended" gives 124 '' 'mooncage --config chooses.lua run -- true' 'processor time'
sed -i 's/selector = .*/selector = mooncage.policy "prefer_local" {},/' chooses.lua
check "a policy is one" gives 0 a 'mooncage -q --config chooses.lua select'

check "backends" shows 'jail        local   namespace  unpriced    no     yes   binds,' 'mooncage backends'
check "backends as JSON" json_is 0 \
  '(sorted(b["id"] for b in d["backends"]) == ["jail", "subprocess"] and all(b["usable"] for b in d["backends"])
   and d["backends"][0]["isolation"] == "namespace" and d["backends"][0]["persistent"] is False
   and "cost" not in d["backends"][0] and d["backends"][0]["capabilities"]["project"] is True
   and {o["name"]: o["tenant"] for o in d["backends"][0]["options"]}["profile"] == "tighter")' \
  'mooncage --json backends'
check "backends -q are names" gives 0 $'jail\nsubprocess' 'mooncage -q backends'
check "what could not be written is no success" gives 0 '125 125 125 125' \
  'for c in select backends "-q select" "--json backends"; do mooncage $c >/dev/full 2>/dev/null; printf "%s " $?; done | sed "s/ $//"'
check "names that would act on a terminal do not" gives 0 0 \
  'printf "return { candidates = { mooncage.jail { name = \"a\\27[31m\" }, \"jail\" } }" >esc.lua
   script -qec "mooncage --config esc.lua select" /dev/null | grep -c "$(printf "\033\\[31m")"; true'
check "backends says why one cannot be used" shows 'cannot be used here: ' \
  'MOONCAGE_INIT=/nonexistent mooncage backends'
