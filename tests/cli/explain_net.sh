# explain_net.sh: mooncage policy explain-net: may a sandbox connect there, by which rule, and why.
# Sourced by run.

net='mooncage policy explain-net'
cat >net.lua <<'LUA'
return {
  default = "deny",
  allow = {
    "*.example.org",
    { host = "api.example.com", port = { 443, "8000-8100" }, sni = true },
    { host = "key.example.com", terminate_tls = true, headers = { Authorization = { "Bearer ", secret "TOKEN" } } },
    "10.0.0.0/8:5432",
  },
  deny = { "bad.example.org" },
}
LUA
export TOKEN=s3cret-of-the-rules
check "a name below a suffix" shows 'by the rule *.example.org:80,443' "$net --policy net.lua a.example.org:443"
check "at any depth, in any case" gives 0 '*' "$net --policy net.lua A.b.EXAMPLE.org.:80"
check "not the suffix itself" gives 126 'denied: no rule allows example.org' "$net --policy net.lua example.org:443"
check "nor what only ends so" gives 126 '*' "$net --policy net.lua xexample.org:443"
check "nor what goes on behind it" gives 126 '*' "$net --policy net.lua api.example.com.evil.test:443"
check "another port" gives 126 'denied: api.example.com is allowed on other ports, not on 22' \
  "$net --policy net.lua api.example.com:22"
check "a port of a range" shows 'sni:' "$net --policy net.lua api.example.com:8050"
check "deny wins" gives 126 '*' "$net --policy net.lua bad.example.org:443"
check "and is named" json_is 126 'd["by"] == "deny" and d["index"] == 1 and d["rule"] == "bad.example.org:*"' \
  "mooncage --json policy explain-net --policy net.lua bad.example.org:443"
check "an address" gives 0 '*' "$net --policy net.lua 10.1.2.3:5432"
check "the same address in another spelling" json_is 0 'd["target"] == {"address": "10.1.2.3", "port": 5432}' \
  "mooncage --json policy explain-net --policy net.lua 0xa.0x10203:5432"
check "a name at a private address" json_is 126 'd["by"] == "range" and d["rule"] == "private" and "10.0.0.7" in d["reason"]' \
  "mooncage --json policy explain-net --policy net.lua --address 10.0.0.7 a.example.org:443"
check "a name at an ordinary one" gives 0 '*' "$net --policy net.lua --address 11.0.0.1 a.example.org:443"
check "that addresses are judged later is said" gives 0 '*' "$net --policy net.lua a.example.org:443" '--address'
check "headers are named and not shown" json_is 0 'd["terminate_tls"] and d["headers"] == ["Authorization"] and "s3cret" not in str(d)' \
  "mooncage --json policy explain-net --policy net.lua key.example.com:443"
check "an address that is none" gives 2 '' "$net --policy net.lua --address x a.example.org:443" 'error: --address: "x" is no address'
check "two addresses" gives 2 '' "$net --policy net.lua --address 1.2.3.4 1.2.3.4:443" 'fix: leave it out'
check "rules of flags" gives 0 '*' "$net --policy net.lua --allow other.test:9 other.test:9"
check "denials of flags" gives 126 '*' "$net --policy net.lua --deny '*:80' a.example.org:80"

config net-config.lua 'return { network = { allow = { "a.test" } }, tenants = function(tenant) if tenant == "acme" then return { network = { allow = { "a.test:443" } } } end return nil, "only acme" end }'
check "the configuration's" gives 126 '*' "mooncage --config net-config.lua policy explain-net a.test:443" 'only acme'
check "what a tenant gets of it" gives 0 '*' "mooncage --config net-config.lua policy explain-net --tenant acme a.test:443"
check "and what not" gives 126 '*' "mooncage --config net-config.lua policy explain-net --tenant acme a.test:80"
check "a configuration is a policy file, too" gives 0 '*' "$net --policy net-config.lua --tenant acme a.test:443"
config net-config.lua 'return { network = "host" }'
check "the host's network" shows 'nothing of it is judged' "mooncage --config net-config.lua policy explain-net a.test:443"
check "there is none by default" gives 126 'denied: there is no network' "$net a.test:443"

check "HOST:PORT needs its port" gives 2 '' "$net --policy net.lua a.test" 'has no port'
for target in a.test:0 a.test:99999 a.test:443x a.test: a..test:1 '-a.test:1' a_b.test:1 ' a.test:1' 'a.test :1' \
  '①②⑦.0.0.1:80' '[::1:80' '::1:80' '[fe80::1%25eth0]:80' 1.2.3.4.5:80 256.1.1.1:80 'http://a.test:80' 'u@a.test:80'; do
  check "no target: $target" gives 2 '' "$net --policy net.lua '$target'" 'fix:'
done
check "a rule that is wrong names its line" gives 2 '' \
  "printf 'return {\n  allow = {\n    \"a.test\",\n    \"*.com\",\n  },\n}\n' >bad.lua; $net --policy bad.lua a.test:1" 'bad.lua:4:'
for rule in '*' '' com '*.com' '*.*' 'a.*.test' 'a.test:0' 'a.test:9-1' '10.1.2.3/8' '010.0.0.1' '::1' 'https://a.test' '0.0.0.0/0'; do
  check "no rule: $rule" gives 2 '' "$net --policy net.lua --allow '$rule' a.test:1" 'fix:'
done
check "a rule of a flag is named so" gives 2 '' "$net --allow com a.test:1" 'error: --allow: "com"'
check "one of the file is not" gives 2 '' \
  "echo 'return { allow = { \"com\" } }' >bad.lua; $net --policy bad.lua --allow a.test a.test:1" 'bad.lua:1: network.allow[1]'
check "config show knows the flags" json_is 0 \
  'd["sources"]["network.allow"]["source"] == "--allow" and d["config"]["network.deny"] == ["b.test"]' \
  'mooncage --json config show --allow a.test --deny b.test'
check "and no header of a rule" gives 0 '' \
  "echo 'return { network = { allow = { { host = \"a.test\", terminate_tls = true, headers = { A = \"plain-s3cret\" } } } } }' >h.lua; mooncage --config h.lua config show >said && ! grep s3cret said"
check "--allow does not go with --network none" gives 2 '' 'mooncage run --network none --allow a.test -- true' 'leave --network out'
check "every host on one port can be said" gives 0 '*' "$net --policy net.lua --allow '*:443' other.test:443"
check "an unknown key" gives 2 '' "echo 'return { allwo = {} }' >bad.lua; $net --policy bad.lua a.test:1" 'allow'
check "a policy that is not there" gives 125 '' "$net --policy nowhere.lua a.test:1" 'nowhere.lua'
check "--policy and --config" gives 2 '' "mooncage --config net.lua policy explain-net --policy net.lua a.test:1" 'leave one out'
check "one target" gives 2 '' "$net a.test:1 b.test:1" 'unexpected'
unset TOKEN
check "a rule of no host says what one is" gives 2 '' "mooncage run --allow 'a b' -- true" 'write a name (api.example.com'
