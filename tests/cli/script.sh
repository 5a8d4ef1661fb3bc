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
