# signals.sh: signals to the command.
# Sourced by run.

# signalled STATUS SIGNAL COUNT SCRIPT: runs `mooncage run -- sh -c SCRIPT`, waits until it says "up",
# sends the signal so many times, expects the exit status.
signalled() {
  local status=$1 signal=$2 count=$3 script=$4 pid code _
  : >"$work/up"
  mooncage run -- sh -c "$script" >"$work/up" 2>"$work/stderr" </dev/null &
  pid=$!
  for _ in $(seq 400); do
    grep -q up "$work/up" && break
    sleep 0.05
  done
  for _ in $(seq "$count"); do
    kill -"$signal" "$pid"
    sleep 0.3
  done
  (
    sleep 20
    kill -9 "$pid" 2>/dev/null
  ) &
  local guard=$!
  wait "$pid"
  code=$?
  kill "$guard" 2>/dev/null
  wait "$guard" 2>/dev/null
  [ "$code" = "$status" ] || { echo "exit status $code, not $status"; cat "$work/up" "$work/stderr"; return 1; }
}
check "SIGINT" signalled 130 INT 1 "echo up; exec sleep ${nap}20"
check "leaves nothing" no_process "sleep ${nap}20"
check "SIGTERM" signalled 143 TERM 1 "echo up; exec sleep ${nap}21"
check "SIGHUP" signalled 129 HUP 1 "echo up; exec sleep ${nap}21"
check "a command may handle it" signalled 9 INT 1 \
  'trap "exit 9" INT; echo up; while :; do sleep 0.1; done'
check "the second kills" signalled 130 INT 2 \
  'trap "" INT; echo up; while :; do sleep 0.1; done'
check "the second kills (TERM)" signalled 143 TERM 2 'trap "" TERM; echo up; while :; do sleep 0.1; done'
# 32 and 33 are the C library's own, which posix_spawn leaves ignored.
check "the command starts with default signals" gives 0 0 \
  "echo \$((0x\$(mooncage run -- sed -n 's/^SigIgn:.//p' /proc/self/status) & 0x7fffffff))"
script_ends() {
  mooncage run -e 'print "up" io.stdout:flush() while true do end' >"$work/up" 2>"$work/stderr" &
  local pid=$! code _
  for _ in $(seq 400); do
    grep -q up "$work/up" && break
    sleep 0.05
  done
  kill -INT $pid
  wait $pid
  code=$?
  [ $code = 130 ] || { echo "exit status $code"; cat "$work/stderr"; return 1; }
}
check "a script that never ends can be interrupted" script_ends
killed() {
  mooncage run -- sh -c "echo up; exec sleep ${nap}22" >"$work/up" 2>&1 &
  local pid=$! _
  for _ in $(seq 400); do
    grep -q up "$work/up" && break
    sleep 0.05
  done
  kill -KILL $pid
  wait $pid 2>/dev/null
  no_process "sleep ${nap}22"
}
check "kill -9 leaves nothing either" killed
