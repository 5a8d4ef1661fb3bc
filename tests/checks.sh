# checks.sh: for suites written in bash: counts checks and prints the figures ./run-tests sums up.
# Sourced.
ok=0 bad=0 skips=0

# check "what should hold" COMMAND...: passes when the command succeeds; its output shows when not.
check() {
  local what=$1 check_output
  shift
  if check_output=$("$@" 2>&1); then
    ok=$((ok + 1))
    echo "ok: $what"
  else
    bad=$((bad + 1))
    echo "FAILED: $what"
    [ -z "$check_output" ] || printf '%s\n' "$check_output" | tail -n 40 | sed 's/^/    /'
  fi
}

skip() {
  skips=$((skips + 1))
  echo "skip: $1: $2"
}

figures() {
  echo "$ok passed, $bad failed, $skips skipped"
  [ "$bad" = 0 ]
}

# none COMMAND...: succeeds when the command prints nothing (for greps of what must not be there).
none() {
  local output
  output=$("$@")
  [ -z "$output" ] || { printf '%s\n' "$output"; return 1; }
}
