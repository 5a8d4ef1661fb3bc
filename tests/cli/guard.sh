# guard.sh: allowed tools, the guardrail and the question at the terminal, as the command's user meets
# them.
# Sourced by run.

cat >"$work/guard.lua" <<'LUA'
return {
  backend = "subprocess",
  allowed_tools = { "shell" },
  on_log = function() end,
  guardrail = mooncage.policy "command_guardrail" {
    allow = { "echo *", "cat", "sh -c *", "stty *", "true" }, ask = { "touch *" }, deny = { "rm *" },
  },
}
LUA
echo 'return { backend = "subprocess", allowed_tools = { "read_file" }, on_log = function() end }' \
  >"$work/files.lua"
echo 'return { backend = "subprocess", on_log = function() end, guardrail = function() while true do end end }' \
  >"$work/loops.lua"
echo 'return { backend = "subprocess", on_log = function() end, guardrail = function() error "lost it" end }' \
  >"$work/throws.lua"
echo 'return { backend = "subprocess", guardrail = 7 }' >"$work/seven.lua"
export guard="--config $work/guard.lua" rules=$work

check "guard: what a rule allows runs" gives 0 hi 'mooncage run $guard -- echo hi'
check "guard: what none allows does not: 126" gives 126 '' 'mooncage run $guard -- ls' \
  'the guardrail denied the command (rule default): no rule allows it'
check "guard: a denied command runs nothing" gives 126 '' \
  'mooncage run $guard -- rm -rf "$HOME/keep"; s=$?; [ -d "$HOME" ] && exit $s' 'deny "rm *"'
check "guard: --json has the code" json_is 126 'd["error"]["code"] == "command_denied"' \
  'mooncage --json run $guard -- ls'
check "guard: a tool that is not allowed: 126" gives 126 '' \
  'mooncage run --config "$rules/files.lua" -- echo hi' 'the tool "shell" is not allowed here'
check "guard: --tool says what a command counts as" gives 0 hi \
  'mooncage run --config "$rules/files.lua" --tool read_file -- echo hi'
check "guard: --tool is not for scripts" gives 2 '' 'mooncage run --tool x -e "return 1"' \
  '--tool is for a command, not for a script'
check "guard: nobody to ask is a no" gives 126 '' 'mooncage run $guard -- touch x </dev/null' \
  'nobody can be asked'
check "guard: a guardrail that throws denies" gives 126 '' \
  'mooncage run --config "$rules/throws.lua" -- echo hi' 'lost it'
check "guard: one that loops denies" gives 126 '' \
  'mooncage run --config "$rules/loops.lua" -- echo hi' 'used more than 1 s of processor time'
check "guard: one that is no function" gives 2 '' \
  'mooncage run --config "$rules/seven.lua" -- echo hi' 'guardrail must be a function'
check "guard: a script is guarded too" gives 0 command_denied \
  'mooncage run $guard -e "mooncage = require \"mooncage\"; print(select(2, assert(mooncage.open()):exec(\"ls\")).code)"'
for what in asked refused hidden piped no_input ask_interrupt ask_shell; do
  check "guard: at the terminal: $what" timeout 90 env GUARD="$work/guard.lua" \
    python3 "$root/tests/cli/terminal.py" "$what"
done

kept_guard() {
  local id
  id=$(mooncage create $guard) || return 1
  gives 0 hi "mooncage exec $guard $id -- echo hi" || return 1
  gives 126 '' "mooncage exec $guard $id -- ls" 'no rule allows it' || return 1
  gives 126 '' "mooncage exec $id -- echo hi" 'the session has a guardrail, and this process does not' ||
    return 1
  mooncage -q stop "$id"
}
check "guard: a session that stays runs nothing without its guardrail" kept_guard
