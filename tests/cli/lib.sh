# lib.sh: how the CLI cases say what they expect.
# Sourced by run.

# gives STATUS STDOUT SCRIPT [STDERR]: the script (bash, with `mooncage` in PATH) exits so, prints
# exactly that (but for newlines at the end), and its stderr holds the fixed text STDERR. "*" stands
# for anything.
gives() {
  local status=$1 stdout=$2 script=$3 stderr=${4-} got code
  got=$(timeout --kill-after=5 60 bash -c "$script" 2>"$work/stderr" </dev/null)
  code=$?
  if [ "$status" != '*' ] && [ "$code" != "$status" ]; then
    echo "exit status $code, not $status; stdout: ${got:0:400}"
    cat "$work/stderr"
    return 1
  fi
  if [ "$stdout" != '*' ] && [ "$got" != "$stdout" ]; then
    printf 'stdout %q, not %q\n' "${got:0:400}" "$stdout"
    cat "$work/stderr"
    return 1
  fi
  if [ -n "$stderr" ] && ! grep -qF -- "$stderr" "$work/stderr"; then
    printf 'stderr has no %q:\n' "$stderr"
    cat "$work/stderr"
    return 1
  fi
}

# config FILE TEXT: a configuration.
config() { printf '%s\n' "$2" >"$1"; }

# shows TEXT SCRIPT: exits 0 and its output holds TEXT.
shows() {
  local text=$1 script=$2 got code
  got=$(timeout --kill-after=5 60 bash -c "$script" 2>&1 </dev/null)
  code=$?
  [ "$code" = 0 ] && grep -qF -- "$text" <<<"$got" && return
  printf 'exit status %s; no %q in:\n%s\n' "$code" "$text" "${got:0:2000}"
  return 1
}

# json_is STATUS FILTER SCRIPT: stdout is exactly one JSON document for which the Python expression FILTER holds (of `d`).
json_is() {
  local status=$1 filter=$2 script=$3 code
  timeout --kill-after=5 60 bash -c "$script" >"$work/stdout" 2>"$work/stderr" </dev/null
  code=$?
  if [ "$code" != "$status" ]; then
    echo "exit status $code, not $status"
    head -c 600 "$work/stdout"
    cat "$work/stderr"
    return 1
  fi
  python3 -c 'import json,sys; json.load(open(sys.argv[1], encoding="utf-8"))' "$work/stdout" || {
    head -c 600 "$work/stdout"
    return 1
  }
  FILTER=$filter python3 "$root/tests/cli/holds.py" "$work/stdout"
}

# no_process TEXT: no process here has this in its command line (waits a little for the dead to go).
no_process() {
  local _
  for _ in $(seq 100); do
    pgrep -f -- "$1" >/dev/null || return 0
    sleep 0.05
  done
  pgrep -fa -- "$1"
  return 1
}

# A session with a limit can be had here? Without cgroups (an ordinary user without delegation) it is
# refused, which is a case of its own.
can_limit() {
  mooncage run "$@" -- true >/dev/null 2>"$work/limit" && return
  grep -q 'fix:' "$work/limit" || cat "$work/limit"
  return 1
}
