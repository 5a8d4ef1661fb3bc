# config.sh: configuration files: where they are looked for, what is wrong with them.
# Sourced by run.

config c.lua 'return { environment = { A = "from file" }, limits = { exec_s = 20 } }'
check "--config" gives 0 'from file' "mooncage --config c.lua run -- sh -c 'echo \$A'"
check "MOONCAGE_CONFIG" gives 0 'from file' "MOONCAGE_CONFIG=c.lua mooncage run -- sh -c 'echo \$A'"
mkdir -p "$work/config/mooncage"
config "$work/config/mooncage/config.lua" 'return { environment = { A = "of the user" } }'
check "the user's own" gives 0 'of the user' "mooncage run -- sh -c 'echo \$A'"
rm "$work/config/mooncage/config.lua"
check "flags are over the file" gives 0 flag "mooncage --config c.lua run --env A=flag -- sh -c 'echo \$A'"
config mooncage.lua 'error "must not run"'
check "a mooncage.lua that lies here is not used" gives 0 hi 'mooncage run -- echo hi' 'is not used'
check "and --json does not mention it" gives 0 '*' \
  'mooncage --json run -- true 2>stderr; s=$?; test ! -s stderr || exit 99; exit $s'
rm mooncage.lua

config bad.lua $'return {\n  limits = = 1\n}'
check "a parse error, with file and line" gives 2 '' 'mooncage --config bad.lua run -- true' 'bad.lua:2:'
config bad.lua $'\nerror("nope")'
check "a throw, with file and line" gives 2 '' 'mooncage --config bad.lua run -- true' 'bad.lua:2: nope'
config bad.lua $'return {\n  limits = { memroy_mb = 64 },\n}'
check "an unknown key, with line and nearest" gives 2 '' 'mooncage --config bad.lua run -- true' 'bad.lua:2:'
check "nearest" gives 2 '' 'mooncage --config bad.lua run -- true' 'memory_mb'
config bad.lua $'return {\n\n  limits = "much",\n}'
check "a wrong type, with line" gives 2 '' 'mooncage --config bad.lua run -- true' 'bad.lua:3:'
config bad.lua $'return {\n  candidates = {\n  mooncage.jail {},\n  mooncage.jail { profile = "debg", name = "b" } } }'
check "an option's wrong word, with line" gives 2 '' 'mooncage --config bad.lua run -- true' \
  'bad.lua:4: candidates[2].options.profile: there is no profile "debg"'
config bad.lua $'return {\n  candidates = {},\n}'
check "no candidate, with line" gives 126 '' 'mooncage --config bad.lua run -- true' 'bad.lua:2: candidates'
config bad.lua 'return { "x" }'
for action in "run -- true" "run -e ''" "config show" "select" "policy explain -- ls" "create"; do
  check "a list is no configuration: $action" gives 2 '' "mooncage --config bad.lua $action" 'bad.lua: expected a table of names, found an item [1]'
done
config bad.lua 'return 5'
check "no table" gives 2 '' 'mooncage --config bad.lua run -- true' 'not a table'
config bad.lua 'return { environment = { T = secret "NO_SUCH_SECRET_HERE" } }'
check "a missing secret" gives 2 '' 'mooncage --config bad.lua run -- true' 'fix: set it: export NO_SUCH_SECRET_HERE='
config good.lua 'return { environment = { T = secret "TOKEN" } }'
check "a secret reaches the command" gives 0 s3cret \
  "TOKEN=s3cret mooncage --config good.lua run -- sh -c 'echo \$T'"
printf '\033LJ' >bytecode.lua
check "bytecode" gives 2 '' 'mooncage --config bytecode.lua run -- true' 'bytecode'
check "a missing file" gives 125 '' 'mooncage --config none.lua run -- true' 'none.lua'
config open.lua 'return {}'
chmod 666 open.lua
check "a file that anybody can write" gives 2 '' 'mooncage --config open.lua run -- true' 'written by others'
chmod 644 open.lua
check "and the same, when nobody else can" gives 0 '' 'mooncage --config open.lua run -- true'
if [ "$(id -u)" = 0 ]; then
  chown 54321 open.lua
  check "a file of somebody else" gives 2 '' 'mooncage --config open.lua run -- true' 'somebody else'
fi
mkfifo pipe.lua
check "a pipe" gives 2 '' 'timeout 9 mooncage --config pipe.lua run -- true' 'no ordinary file'
config two.lua 'return { candidates = { mooncage.jail {}, mooncage.subprocess {} } }'
check "more than one candidate" json_is 0 'd["session"]["backend"] == "jail"' \
  'mooncage --json --config two.lua run -- true'
config key.lua 'return { capture_live_cost = 1 }'
check "capture_live_cost is true or false" gives 2 '' 'mooncage --config key.lua run -- true' 'capture_live_cost: expected true or false'
