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
  'mooncage policy test pol >said; s=$?; grep -q "expected.*31" said && grep -q "decided.*32" said && exit $s; exit 9'
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
check "policy check finds what is impure before it is called" gives 2 '' 'mooncage policy check pol/bad.lua' 'pol/bad.lua:1: uses os'
printf 'return function()\n  local x = { os = 1 } return function(load, c) local print = c; print(load) return c.os.io(x.os) end -- os.time()\nend' >pol/bad.lua
check "and no names of its own" shows 'pol/bad.lua: ok' 'mooncage policy check pol/bad.lua'
# LU-20: what is no ordinary file of somebody trusted
mkfifo pol/pipe.lua
check "a pipe is not waited for" gives 2 '' 'timeout 20 mooncage policy check pol/pipe.lua' 'no ordinary file'
check "nor by its test" gives 1 '*' 'timeout 20 mooncage policy test pol/pipe.lua' 'no tests'
check "nor as a stranger's" gives 2 '' 'timeout 20 mooncage policy check --untrusted pol/pipe.lua' 'no ordinary file'
rm pol/pipe.lua
printf 'return function() return function() return true end end' >pol/good.lua
ln -s good.lua pol/link.lua
check "a link is not followed" gives 2 '' 'mooncage policy check pol/link.lua' 'symbolic link'
rm pol/link.lua
chmod 666 pol/good.lua
check "what others can write is not loaded" gives 2 '' 'mooncage policy check pol/good.lua' 'can be written by others'
check "but as a stranger's" shows 'good.lua: ok' 'mooncage policy check --untrusted pol/good.lua'
chmod 644 pol/good.lua
if [ "$(id -u)" = 0 ]; then
  chown 12345 pol/good.lua
  check "what belongs to somebody else is not loaded" gives 2 '' 'mooncage policy check pol/good.lua' 'belongs to somebody else'
  check "but under sudo, where the caller's" shows 'good.lua: ok' 'SUDO_UID=12345 mooncage policy check pol/good.lua'
  chown 0 pol/good.lua
fi
head -c 30 pol/good.lua >pol/half.lua
check "half a file is refused" gives 2 '' 'mooncage policy check pol/half.lua' 'pol/half.lua:1:'
check "half a file of a stranger's, too" gives 2 '' 'mooncage policy check --untrusted pol/half.lua' 'pol/half.lua:1:'
rm pol/half.lua
ln -s /dev/zero pol/zero.lua
check "a device is refused" gives 2 '' 'timeout 20 mooncage policy check --untrusted pol/zero.lua' 'no ordinary file'
rm pol/zero.lua
echo 'return { kind = "guardrail" }' >pol/good.test.lua
check "tests without a case are not green" gives 1 '*' 'mooncage policy test pol/good.lua' 'there is no case in it'
cat >pol/good.test.lua <<'LUA'
return { kind = "guardrail", { name = "anything", command = { "ls" }, expect = true } }
LUA
check "policy test of a stranger's" shows '1 passed, 0 failed' 'mooncage policy test --untrusted pol/good.lua'
check "the built-in policies pass as strangers'" json_is 0 \
  'd["failed"] == 0 and d["passed"] > 700 and all(c["ok"] for p in d["policies"] for c in p["cases"])' \
  "mooncage --json policy test --untrusted cheapest_first prefer_local failover command_guardrail"
printf 'return function() return function() while true do end end end' >pol/good.lua
check "a stranger's that loops fails its tests" gives 1 '*' \
  'mooncage policy test --untrusted pol/good.lua >said; s=$?; grep -q "100 ms" said && exit $s; exit 9'
printf 'while true do end' >pol/good.lua
check "a stranger's that loops is not ok" gives 2 '' 'mooncage policy check --untrusted pol/good.lua' '100 ms'
printf 'return function(o) return o.x.y and print end' >pol/good.lua
check "a stranger's that needs options is ok" shows 'needs options' 'mooncage policy check --untrusted pol/good.lua'
rm pol/good.lua pol/good.test.lua
check "policy check of nothing" gives 2 '' 'mooncage policy check pol/none.lua' 'none.lua'
check "policy check of a name nobody has" gives 125 '' 'mooncage policy check bugdet' 'did you mean "budget"'
check "policy needs an action" gives 2 '' 'mooncage policy' 'check, test'
check "policy knows its actions" gives 2 '' 'mooncage policy tset' 'did you mean mooncage policy test'
check "policy check needs a file" gives 2 '' 'mooncage policy check' 'needs more words'

cat >g.lua <<'LUA'
return {
  allowed_tools = { "shell" },
  guardrail = function(command)
    local name = command.words and command.words[1]
    if name == "ls" then return true, nil, "reads" end
    if name == "make" then return "ask", "it may write" end
    if name == "pip" then return { rewrite = { "pip", "--isolated" } } end
    if name == "boom" then error "boom" end
    return false, "not known", "default"
  end,
  tenants = function(id)
    if id == "none" then return { allowed_tools = {} } end
    if id == "loose" then return { network = "host" } end
    if id == "gone" then return nil, "go away" end
    return {}
  end,
}
LUA
explains() { json_is "$1" "$2" "mooncage --json --config g.lua policy explain $3"; }
check "explain: allowed, by its rule" explains 0 'd["decision"] == "allow" and d["rule"] == "reads" and d["by"] == "guardrail"' '-- ls -l'
check "explain: denied, and why" explains 126 'd["decision"] == "deny" and d["reason"] == "not known" and d["rule"] == "default"' '-- rm -rf /'
check "explain: ask" explains 126 'd["decision"] == "ask" and d["reason"] == "it may write"' '-- make'
check "explain: rewrite" explains 0 'd["rewrite"] == ["pip", "--isolated"]' '-- pip install x'
check "explain: a guardrail that throws denies" explains 126 '"boom" in d["reason"]' '-- boom'
check "explain: shell text that is no simple command" explains 126 'd["rule"] == "default"' "--shell -- 'ls; rm x'"
check "explain: shell text that is one" explains 0 'd["rule"] == "reads"' "--shell -- 'ls \"a b\"'"
check "explain: a tenant without tools" explains 126 'd["by"] == "allowed_tools"' '--tenant none -- ls'
check "explain: a tenant that is denied" explains 126 'd["by"] == "tenants" and d["reason"] == "go away"' '--tenant gone -- ls'
check "explain: a tenant that would be refused" explains 126 'd["by"] == "select" and "looser" in d["reason"]' '--tenant loose -- ls'
check "explain: as another tool" explains 126 'd["by"] == "allowed_tools" and "other" in d["reason"]' '--tool other -- ls'
check "explain agrees with run" gives 126 '' 'mooncage --config g.lua run -- rm -rf /' 'not known'
check "explain, for people" shows 'guardrail     allow (rule reads)' 'mooncage --config g.lua policy explain -- ls'
check "explain without a configuration" shows 'there is no guardrail' 'mooncage policy explain -- ls'
check "explain: a program without a name" gives 2 '' "mooncage policy explain -- ''" 'the command is empty'
printf 'return { tenants = function(t) print("asked") return {} end,\n  guardrail = function(c) return { rewrite = c.argv[1] == "a" and {} or { "" } } end }\n' >odd.lua
check "explain: no function is asked of an id that is none" gives 2 '' 'mooncage --config odd.lua policy explain --tenant a/b -- ls' 'byte 2 is no letter'
for word in a b; do
  check "explain: a rewrite that run refuses ($word)" gives 126 '*' "mooncage --config odd.lua policy explain --tenant x -- $word | grep 'deny: its rewrite is no list'; exit \${PIPESTATUS[0]}"
done
check "a policy that is no file" gives 2 '' 'mooncage policy check /dev/null' 'the policy /dev/null is no ordinary file'
check "explain needs a command" gives 2 '' 'mooncage policy explain' 'policy explain needs a command after --'
cat >pol/g.lua <<'LUA'
return function() return function(c) return c.words ~= nil, c.shell and "text", "words" end end
LUA
cat >pol/g.test.lua <<'LUA'
return { kind = "guardrail",
  { name = "argv", command = { "a b" }, expect = true, rule = "words" },
  { name = "simple text", command = "a 'b c'", expect = true, reason = "text" },
  { name = "no simple text", command = "a | b", expect = false },
  { name = "facts", command = { shell = "a $(b)", tool = "x" }, expect = false },
}
LUA
check "guardrail tests give commands as the engine does" shows '4 passed, 0 failed' 'mooncage policy test pol/g.lua'
sed -i 's/rule = "words"/rule = "other"/' pol/g.test.lua
check "and look at the rule" gives 1 '*' 'mooncage policy test pol/g.lua >said; s=$?; grep -q "by rule  other" said && exit $s; exit 9'
cat >g.lua <<'LUA'
return { guardrail = mooncage.policy "command_guardrail" { allow = { "ls *", "cat *" }, deny = { "rm *" } } }
LUA
check "explain shows every simple command, and its verdict" json_is 126 \
  '[(c["words"][0], c["decision"], c.get("inside")) for c in d["commands"]] == [("ls", "allow", None), ("xargs", "allow", None), ("rm", "deny", 2)] and "byte 12" in d["reason"]' \
  "mooncage --json --config g.lua policy explain --shell -- 'ls | xargs rm'"
check "explain, for people, shows what runs what" gives 126 '*' \
  "mooncage --config g.lua policy explain --shell -- 'ls \$(env cat x); sudo rm x' >said; s=\$?; grep -q '^at byte 10      cat x  allow' said && grep -q 'deny: a rule denies it' said && exit \$s"
check "explain of what is not understood" json_is 126 '"at byte 6" in d["unclear"] and d["rule"] == "unknown"' \
  "mooncage --json --config g.lua policy explain --shell -- 'ls \$('"
check "the error says which command it was" gives 126 "" "mooncage --config g.lua run -- sh -c 'ls; env rm x'" "run by \"env\", run by \"sh\""

printf 'return function() while true do end end' >pol/odd.lua
check "policy check: one that loops needs no options" gives 2 '' 'mooncage policy check pol/odd.lua' 'used more than 1 s'
check "nor a stranger's" gives 2 '' 'mooncage policy check --untrusted pol/odd.lua' '100 ms'
printf 'return function() return 5 end' >pol/odd.lua
check "policy check: one that gives a number" gives 2 '' 'mooncage policy check pol/odd.lua' 'gives number, not a function'
check "policy check: tests are no policy" gives 2 '' 'mooncage policy check pol/g.test.lua' 'policy test pol/g.test.lua'
rm pol/odd.lua

# What is green has run, and the engine would let it.
echo 'return function() return function() return false, "never" end end' >pol/no.lua
green='{ name = "a", command = { "a" }, expect = false }' red='{ name = "b", command = { "b" }, expect = true }'
for holes in "nil, $green" "$green, nil, $red" "$green, [0] = $red" "$green, [7] = $red" "$green, [1.5] = $red" "$green, [-1] = $red"; do
  echo "return { kind = 'guardrail', $holes }" >pol/no.test.lua
  check "a hole in the cases is refused: ${holes:0:6}... ${holes: -40:8}" gives 1 '*' 'mooncage policy test pol/no.lua' 'there is'
done
echo 'return { kind = "guardrail", nil }' >pol/no.test.lua
check "no case at all" gives 1 '*' 'mooncage policy test pol/no.lua' 'there is no case in it'
cat >pol/first.lua <<'LUA'
return function() return function(candidates) return candidates[1] end end
LUA
tries() { # tries WHAT-IS-SAID CASE: of a selector that takes the first
  echo "return { kind = 'selector', candidates = { { name = 'a', backend = 'jail', isolation = 'namespace' } }, $2 }" >pol/first.test.lua
  local how
  for how in "" --untrusted; do
    mooncage policy test $how pol/first.lua >said 2>&1
    [ $? = 1 ] && grep -qF -- "$1" said || { cat said; return 1; }
  done
}
check "a choice that the engine refuses" tries 'the engine refuses it: the selector chose a, which cannot be used' \
  '{ name = "x", requirements = { min_isolation = "vm" }, expect = "a" }'
check "a requirement that is misspelt" tries 'did you mean `min_isolation`?' \
  '{ name = "x", requirements = { min_isolatoin = "none" }, expect = "a" }'
check "a fact that is misspelt" tries "did you mean 'backend'?" \
  '{ name = "x", candidates = { { name = "a", backnd = "jail" } }, expect = "a" }'
echo "return { kind = 'selector', { name = 'x', candidates = { { name = 'a', isolation = 'vm' } }, requirements = { min_isolation = 'vm' }, expect = 'a' } }" >pol/first.test.lua
check "and one that it takes" shows '1 passed, 0 failed' 'mooncage policy test pol/first.lua'
cat >pol/gives.lua <<'LUA'
return function() return function(tenant) return tenant == "a" and { limts = {} } or { limits = { memory_mb = 128 } } end end
LUA
echo 'return { kind = "tenant", config = { limits = { memory_mb = 64 } },
  { name = "a", tenant = "a", expect = { limts = {} } }, { name = "b", tenant = "b", expect = { limits = { memory_mb = 128 } } } }' >pol/gives.test.lua
for how in "" --untrusted; do
  check "overrides that the engine refuses ($how)" gives 1 '*' \
    "mooncage policy test $how pol/gives.lua >said; s=\$?; grep -q '\(error.*limts\|limts: unknown key\)' said && grep -q '128 is looser than 64' said && exit \$s; exit 9"
done
sed -i 's/memory_mb = 64/memory_mb = 256/; s/{ limts = {} }/"error"/' pol/gives.test.lua
check "and some that it takes" shows '2 passed, 0 failed' 'mooncage policy test pol/gives.lua'
echo 'return function() return function(c) return c.tool == "x" and "alow" or { rewrite = {} } end end' >pol/odd.lua
echo 'return { kind = "guardrail", { name = "a", command = { tool = "x", argv = { "a" } }, expect = "alow" }, { name = "b", command = { "a" }, expect = { rewrite = {} } } }' >pol/odd.test.lua
check "verdicts that are none" shows '0 passed, 2 failed' 'mooncage policy test pol/odd.lua || true'
echo 'return { kind = "guardrail", { name = "a", command = { tol = "x", argv = { "a" } }, expect = false } }' >pol/odd.test.lua
check "a fact of a command that is misspelt" gives 1 '*' 'mooncage policy test pol/odd.lua' "did you mean 'tool'?"
rm -r pol g.lua
