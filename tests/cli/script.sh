# script.sh: orchestration scripts.
# Sourced by run.

check "-e" gives 0 42 "mooncage run -e 'print(6*7)'"
check "its words" gives 0 'a b' "mooncage run -e 'print(arg[1], arg[2])' -- a b | tr '\t' ' '"
check "from standard input" gives 0 hi "echo 'print \"hi\"' | mooncage run -"
cat >ok.lua <<'LUA'
#!/usr/bin/env -S mooncage run
local mooncage = require "mooncage"
print(arg[0], arg[1], ...)
print(mooncage.with({}, function(s) return assert(s:exec("echo inside")).stdout end))
LUA
check "a file, with its words, and a sandbox" gives 0 $'ok.lua\tx\tx\ninside' 'mooncage run ok.lua x'
check "a script that throws" gives 1 '' "mooncage run -e 'error(\"ouch\")'" ouch
cat >throws.lua <<'LUA'
local function deep() local x = nil; return x.y end
deep()
LUA
check "shows where" gives 1 '' 'mooncage run throws.lua' 'throws.lua:1:'
check "an error table is told in words" gives 1 '' \
  "mooncage run -e 'assert(require\"mooncage\".open { backend = \"subprocess\", network = { default = \"allow\" } })'" 'rules'
check "a script that does not parse" gives 1 '' "mooncage run -e 'x ='" 'unexpected'
check "os.exit(n)" gives 5 '' "mooncage run -e 'os.exit(5)'"
check "os.exit(n) with a sandbox open" gives 6 '' \
  "mooncage run -e 'local m = require \"mooncage\"; local s = assert(m.open {});
    s:start({ \"sleep\", \"${nap}10\" }); os.exit(6)'"
check "closes it" no_process "sleep ${nap}10"
check "os.exit in a task" gives 4 '' \
  "mooncage run -e 'local m = require \"mooncage\"; m.join { m.spawn(function() m.sleep(0.01) os.exit(4) end) }'"
check "a session that is not closed is closed at the end" gives '*' '' \
  "mooncage -q run -e 'local m = require \"mooncage\"; assert(m.open {}):start { \"sleep\", \"${nap}11\" }'"
check "and leaves nothing" no_process "sleep ${nap}11"
check "waiting where it must not" gives 1 '' \
  "mooncage run -e 'local m = require \"mooncage\"; table.sort({ 2, 1 }, function(a, b) m.sleep(0.01) return a < b end)'" \
  'sort'
check "a missing script, with what was meant" gives 2 '' 'mooncage run nothing.lua' 'mooncage run -- nothing.lua'
printf '\033LJ' >binary.lua
check "bytecode" gives 2 '' 'mooncage run binary.lua' bytecode
check "flags are what its sandboxes start from" gives 0 v \
  "mooncage run --env A=v -e 'local m = require \"mooncage\"
    m.with({}, function(s) io.write(s:exec(\"echo \$A\").stdout) end)'"
check "flags that only a command can have" gives 2 '' "mooncage run --copy-in ok.lua -e 'print(1)'" \
  'not for a script'
check "tasks side by side" gives 0 '1 2 3' \
  "mooncage run -e 'local m = require \"mooncage\"; local t = {}
    for i = 1, 3 do t[i] = m.spawn(function() m.sleep(0.01 * (4 - i)); return i end) end
    print(unpack(assert(m.join(t))))' | tr '\t' ' '"
for example in quickstart ten_lines files stream; do
  check "examples/$example.lua" gives 0 '*' "mooncage run '$root/examples/$example.lua'"
done
check "examples/thousand.lua with 40" shows '40 of 40 right' "mooncage run '$root/examples/thousand.lua' 40"
check "examples/parallel.lua" gives 0 '       2 a
       1 b' "cd '$work/here'; printf 'x y\n' >a; echo z >b; mooncage run '$root/examples/parallel.lua' a b"
check "the soft limit of open files is raised to the hard one" gives 0 100 \
  "ulimit -Sn 128; mooncage run -e 'local m = require \"mooncage\"; local t = {}
    for i = 1, 100 do t[i] = assert(m.open {}) end; print(#t)'"
check "where that is used up, the answer is quota" json_is 1 'd["error"]["code"] == "quota"' \
  "ulimit -n 64; mooncage --json run -e 'local m = require \"mooncage\"; local t = {}
    for i = 1, 200 do t[i] = assert(m.open {}) end'"

# Whatever is thrown is shown, as text, and without a secret.
thrown() { # thrown MESSAGE LUA: so it is shown, in both forms, and the exit status is 1
  gives 1 '' "mooncage run -e '$2'" "$1" && MESSAGE=$1 json_is 1 \
    '__import__("os").environ["MESSAGE"] in d["error"]["message"] and isinstance(d["error"]["code"], str)' "mooncage --json run -e '$2'"
}
check "a table that is no error of ours" thrown 'broken' 'error { code = {}, message = "broken" }'
check "one that cannot be made a text" thrown 'an error of type table' 'error(setmetatable({}, { __tostring = function() error "x" end }))'
check "one whose text is none" thrown 'an error of type table' 'error(setmetatable({}, { __tostring = function() return 5 end }))'
check "one that cannot be indexed" thrown 'table: ' 'error(setmetatable({}, { __index = function() error "x" end }))'
check "one with a cause that is none" thrown 'why' 'error { message = "why", cause = 5 }'
check "nothing at all" thrown 'nil' 'error(nil)'
struck() { # struck LUA: `key` is a secret; nothing shows it
  local json status
  for json in '' --json; do
    status=0
    timeout 60 mooncage $json run -e "local m = require 'mooncage'; local key, value = m.secret 'tok/en-4711', 'tok/en-4711'; $1" \
      >"$work/said" 2>&1 || status=$?
    [ $status != 0 ] && grep -qF '***' "$work/said" && ! grep -F -e 'tok/en-4711' -e 'tok\/en-4711' "$work/said" || {
      echo "exit status $status"
      cat "$work/said"
      return 1
    }
  done
}
check "no secret in a text" struck 'error("a bad key: " .. value)'
check "behind a NUL" struck 'error("a\0b " .. value .. "\0")'
check "in a table" struck 'error { code = "invalid", message = value, fix = "do not say " .. value }'
check "in what a table is made a text by" struck 'error(setmetatable({}, { __tostring = function() return value end }))'
check "in a cause" struck 'error { message = "x", cause = { message = value } }'
check "in the name of a chunk" struck 'assert(loadstring("local x = " .. value .. " ("))'
check "in a traceback" struck 'load("error(5)", "=" .. value)()'
check "in a task" struck 'm.spawn(function() error(value) end) m.sleep(0.1)'
check "in what a session is with" struck 'm.with({}, function() error(value) end)'
check "in a key of a configuration" struck 'm.open { hooks = { [value] = 1 } }'
check "a caller of with is thrown the text without it, too" gives 0 '(-e):1: bad *** key' \
  "mooncage run -e 'local m = require \"mooncage\"; m.secret \"tok/en-4711\"; print(select(2, pcall(m.with, {}, function() error \"bad tok/en-4711 key\" end)))'"
cat >saves.lua <<'LUA'
local mooncage = require "mooncage"
local session = assert(mooncage.open {
  snapshot_store = mooncage.store.file { dir = "saves" }, snapshot = { id = "work" },
})
assert(session:exec "echo x >> file")
local how, status = ...
if how == "throw" then error "ouch" elseif how == "exit" then os.exit(tonumber(status)) end
LUA
cat >version.lua <<'LUA'
local metadata = require "mooncage".store.file { dir = "saves" }:show "work"
print(metadata and metadata.version or 0)
LUA
check "a script that throws saves no snapshot" gives 0 0 'mooncage -q run saves.lua throw 2>/dev/null; mooncage run version.lua'
check "nor one that exits with another status than 0" gives 0 0 'mooncage -q run saves.lua exit 3; mooncage run version.lua'
check "one that ends well does, though it closes nothing" gives 0 1 'mooncage -q run saves.lua 2>/dev/null; mooncage run version.lua'
check "os.exit(0) too" gives 0 2 'mooncage -q run saves.lua exit 0; mooncage run version.lua'
