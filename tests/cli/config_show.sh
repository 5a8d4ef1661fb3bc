# config_show.sh: mooncage config: what holds and where it came from; trusting a local file.
# Sourced by run.

config show.lua $'return {\n  limits = {\n    memory_mb = 64,\n  },\n  environment = { T = secret "TOKEN", L = "C" },\n}'
check "config show, from the file" shows 'limits.memory_mb = 64' 'TOKEN=s3cret mooncage --config show.lua config show'
check "with its line" json_is 0 \
  'd["sources"]["limits.memory_mb"] == {"source": "file", "file": "show.lua", "line": 3}' \
  'TOKEN=s3cret mooncage --json --config show.lua config show'
check "from a flag" json_is 0 \
  'd["config"]["limits.memory_mb"] == 32 and d["sources"]["limits.memory_mb"]["source"] == "--memory"' \
  'TOKEN=s3cret mooncage --json --config show.lua config show --memory 32M'
check "by default" json_is 0 \
  'd["config"]["limits.pid_limit"] == 256 and d["sources"]["limits.pid_limit"]["source"] == "default" and d["file"] is None' \
  'mooncage --json config show'
check "all that holds by default" json_is 0 \
  'd["config"]["selector"] == "cheapest_first" and d["config"]["failover"] is True and d["config"]["audit"]["dir"].endswith("/mooncage/audit")' \
  'mooncage --json config show'
check "a variable of a flag" json_is 0 'd["sources"]["environment.A"]["source"] == "--env"' \
  'mooncage --json config show --env A=1'
config added.lua $'return {\n  network = {\n    allow = { "a.example" } },\n  backend = mooncage.jail {\n    user = "u" } }'
origin() { json_is 0 "d['sources']['$1'] == $2" "mooncage --json --config ${4:-added.lua} config show $3"; }
check "what a flag added to a list" origin network.allow "{'source': 'file', 'file': 'added.lua', 'line': 3, 'added': '--allow'}" '--allow b.example'
check "for people" shows 'added.lua:3, and --allow' 'mooncage --config added.lua config show --allow b.example'
check "what only a flag set" origin network.deny "{'source': '--deny'}" '--deny b.example'
check "beside what the file says" origin network.allow "{'source': 'file', 'file': 'added.lua', 'line': 3}" '--deny b.example'
check "and what nobody set" origin network.default "{'source': 'default'}" '--allow b.example'
check "a backend of the file with an option of a flag" origin backend "{'source': 'file', 'file': 'added.lua', 'line': 4, 'added': '--option'}" '--option profile=strict'
check "a backend of a flag with one" origin backend "{'source': '--backend', 'added': '--option'}" '--backend jail --option profile=strict'
echo 'return {}' >empty.lua
check "an option alone" origin backend "{'source': '--option'}" '--option profile=strict' empty.lua
check "a rule alone" origin network.allow "{'source': '--allow'}" '--allow b.example' empty.lua
check "a secret is redacted" gives 0 '' \
  'TOKEN=s3cret mooncage --config show.lua config show >said; grep s3cret said; grep -q "T = \"\[redacted\]\"" said'
check "and with --json" gives 0 '' 'TOKEN=s3cret mooncage --json --config show.lua config show | grep s3cret; true'
config made.lua 'local s = "r-" .. os.getenv "TOKEN"
return { environment = { T = secret "TOKEN", O = s }, run_id = s, labels = { [s] = s }, context = { deep = { s } },
  backend = mooncage.jail { user = s }, guardrail = mooncage.policy "command_guardrail" { allow = { s } } }'
check "nor what was made of one" gives 0 0 \
  'export TOKEN=s3cret-77; { mooncage --config made.lua config show --env NEW=$TOKEN; mooncage --json --config made.lua config show --env NEW=a$TOKEN; } >said; grep -c "s3cret-77" said; test "$(grep -c "r-\*\*\*" said)" -gt 5'
check "nor in ps" json_is 0 'd["sessions"][0]["labels"] == {"a": "r-***"}' \
  "echo 'return { environment = { T = secret \"TOKEN\" }, labels = { a = \"r-\" .. os.getenv \"TOKEN\" } }' >made.lua
   id=\$(TOKEN=s3cret-77 mooncage --config made.lua create); mooncage --json ps; mooncage -q stop \$id >&2"
check "a variable taken over is not shown" json_is 0 'd["config"]["environment.TOKEN"] == "[from the environment]"' \
  'TOKEN=s3cret mooncage --json config show --env TOKEN'
check "nor is an option of the environment" json_is 0 'd["config"]["backend"]["options"]["user"] == "[redacted]"' \
  'TOKEN=s3cret mooncage --json config show --option user=@env:TOKEN'
config show.lua 'return { environment = { API_KEY = "plain1" }, audit = mooncage.audit.jsonl { hmac_key = "plain2" } }'
check "what sounds like a secret is not shown" gives 0 '' 'mooncage --config show.lua config show >said && ! grep plain said'
config show.lua $'return {\n  limts = {},\n}'
check "config show judges the file" gives 2 '' 'mooncage --config show.lua config show' 'show.lua:2:'
check "config wants an action" gives 2 '' 'mooncage config' 'show, trust'

config show.lua $'return {\n\n  environment = { ["A B"] = "x" },\n  candidates = {\n    { id = "jail",\n      options = { profil = "x" } } },\n}'
check "a key in a table in a list has its line" gives 2 '' 'mooncage --config show.lua run -- true' 'show.lua:6:'
check "and the nearest name" gives 2 '' 'mooncage --config show.lua run -- true' 'profile'
check "also when a script opens the session" gives 1 '' \
  "mooncage --config show.lua run -e 'assert(require\"mooncage\".open())'" 'show.lua:6:'
check "but not for the script's own keys" gives 0 'configuration: limts: unknown key' \
  "mooncage --config show.lua run -e 'io.write(select(2, require\"mooncage\".open { backend = \"jail\", limts = 1 }).message)'"

# A configuration that lies in the working directory.
config mooncage.lua 'return { environment = { A = "local" } }'
check "a local file is not used" gives 0 '' "mooncage run -- sh -c 'echo \$A'" 'mooncage config trust mooncage.lua'
check "it can be trusted" shows "$PWD/mooncage.lua" 'mooncage config trust mooncage.lua'
check "then it is used" gives 0 'local' "mooncage run -- sh -c 'echo \$A'"
check "its hash is sha256sum's" gives 0 '' \
  'grep -qxF "$(sha256sum "$PWD/mooncage.lua")" "$XDG_STATE_HOME/mooncage/trusted"'
check "--config goes before it" gives 0 'other' \
  "echo 'return { environment = { A = \"other\" } }' >o.lua; mooncage --config o.lua run -- sh -c 'echo \$A'"
echo '-- changed' >>mooncage.lua
check "a changed file is not trusted" gives 0 '' "mooncage run -- sh -c 'echo \$A'" 'has changed since'
mkdir -p elsewhere && cp mooncage.lua elsewhere/ && mooncage -q config trust mooncage.lua >/dev/null
check "nor is the same file elsewhere" gives 0 '' "cd elsewhere; mooncage run -- sh -c 'echo \$A'" 'is not used'
mkdir -p linked && ln -s ../mooncage.lua linked/mooncage.lua
check "nor is a link to it elsewhere" gives 0 '' "cd linked; mooncage run -- sh -c 'echo \$A'" 'is not used'
check "which can be trusted by its own name" gives 0 local "cd linked; mooncage -q config trust mooncage.lua >said; mooncage run -- sh -c 'echo \$A'"
rm -r linked

# What a trusted configuration loads is trusted with it, as it stood.
cp mooncage.lua mooncage.kept
deny='return function() return function(c) return c.argv[1] ~= "rm", "not that" end end'
echo "$deny" >p.lua
config mooncage.lua $'local m = require "mooncage"\nreturn {\n  guardrail = m.policy "./p.lua" {}, manifest = "./m.lua" }'
config m.lua 'return { files = { hello = "hi" } }'
check "trust names the policies and the manifest, too" gives 0 "trusted as it stands: $PWD/mooncage.lua
with it: $PWD/p.lua
with it: $PWD/m.lua" 'mooncage config trust mooncage.lua' 'dofile'
check "then they are used" gives 0 hi 'mooncage run -- cat hello'
check "as what they are" gives 126 '' 'mooncage run -- rm x' 'not that'
echo 'return function() return function() return true end end' >p.lua
check "a policy that has changed is not loaded" gives 125 '' 'mooncage run -- rm x' 'mooncage.lua:3: ./p.lua is not loaded: it has changed since'
echo "$deny" >p.lua
check "until it is what it was" gives 0 hi 'mooncage run -- cat hello'
config m.lua 'os.execute "touch escaped" return { files = { hello = "hi" } }'
check "nor a manifest" gives 125 '' 'mooncage run -- cat hello' 'm.lua is not loaded: it has changed since'
check "and nothing of it was run" gives 1 '' 'test -e escaped'
config m.lua 'return { files = { hello = "hi" } }'
config mooncage.lua 'return { guardrail = mooncage.policy("./" .. ("p") .. ".lua", { untrusted = true }) {} }'
check "one that it does not name" gives 125 '' 'mooncage -q config trust mooncage.lua >said; mv p.lua q.lua; cp q.lua p.lua; echo -- >>p.lua; mooncage run -- true' 'say mooncage config trust ./p.lua'
check "is trusted by itself" gives 0 hi 'mooncage -q config trust ./p.lua >said; mooncage run -- echo hi'
check "the user's own configuration loads what it likes" gives 0 hi 'echo -- >>p.lua; mooncage --config mooncage.lua run -- echo hi'
mv mooncage.kept mooncage.lua && rm p.lua q.lua m.lua
chmod 666 "$XDG_STATE_HOME/mooncage/trusted"
check "a list that others can write trusts nothing" gives 0 '' "mooncage run -- sh -c 'echo \$A'" 'written by others'
check "and cannot be added to" gives 125 '' 'mooncage config trust mooncage.lua' 'written by others'
rm "$XDG_STATE_HOME/mooncage/trusted"
printf '\033LJ' >mooncage.lua
check "bytecode cannot be trusted" gives 2 '' 'mooncage config trust mooncage.lua' 'Lua text'
rm mooncage.lua && mkfifo mooncage.lua
check "a pipe is not waited for" gives 0 hi 'mooncage run -- echo hi' 'is no ordinary file'
rm -r mooncage.lua elsewhere
check "trusting nothing" gives 125 '' 'mooncage config trust none.lua' 'none.lua'

# What is wrong with a file names it, and the line.
config odd.lua $'return {\n  limits = { 2, memory_mb = 3 },\n}'
check "a table with names and items" gives 2 '' 'mooncage --config odd.lua run -- true' 'odd.lua:2: limits: has both names'
check "also for config show" gives 2 '' 'mooncage --config odd.lua config show' 'odd.lua:2:'
config odd.lua $'local t = {}\nt.labels = t\nreturn t'
check "a table that contains itself" gives 2 '' 'mooncage --config odd.lua run -- true' 'contains itself'
config odd.lua $'return {\n  environment = { A = print },\n}'
check "a function where there can be none" gives 2 '' 'mooncage --config odd.lua run -- true' 'odd.lua:2: environment.A: a function'
config odd.lua $'\nreturn { tenants = mooncage.policy "tenant_routin" {} }'
check "a policy that is not there" gives 2 '' 'mooncage --config odd.lua run -- true' 'odd.lua:2: there is no policy'
config odd.lua $'\nerror {}'
check "a throw of a table" gives 2 '' 'mooncage --config odd.lua run -- true' 'odd.lua:2: threw an error of type table'
config odd.lua $'return { labels = setmetatable({}, { __index = error, __pairs = error }) }'
check "a metatable is not asked" gives 0 hi 'mooncage --config odd.lua run -- echo hi'
config odd.lua $'local function f()\n  local v = secret "NOT_THERE"\n  return v\nend\nreturn { environment = { A = f() } }'
check "a missing secret has its line" gives 2 '' 'mooncage --config odd.lua run -- true' 'odd.lua:2: secret'
config m.lua $'return {\n  fils = { a = "x" },\n}'
check "a manifest is told by its own file" gives 2 '' 'mooncage run --manifest m.lua -- true' 'm.lua:2: fils: unknown key'
config m.lua $'return {\n  files = {\n    ["/abs"] = "x",\n  },\n}'
config odd.lua 'return { manifest = "m.lua" }'
check "also one that the configuration names" gives 2 '' 'mooncage --config odd.lua run -- true' 'm.lua:3: files./abs:'
check "and in a script" gives 1 '' "mooncage --config odd.lua run -e 'assert(require\"mooncage\".open())'" 'm.lua:3: files./abs:'
config odd.lua $'return {\n  environment = {\n    ["A B"] = "x" },\n}'
check "a key that is no word has its line" gives 2 '' 'mooncage --config odd.lua run -- true' 'odd.lua:3: environment.A B'
near() { config odd.lua "$2" && gives 2 '' 'mooncage --config odd.lua run -- true' "$1"; }
check "a hook whose name is half" near "did you mean 'on_sandbox_exec_end'?" 'return { hooks = { on_sandbox_exec = print } }'
check "a key of a tool" near "did you mean 'sandbox'?" 'return { tools = { x = { run = print, sandbx = false } } }'
check "a sink without a type" near "did you mean 'path'?" 'return { audit = { paht = "x" } }'
