# machine.sh: doctor and reap.
# Sourced by run.

check "doctor" gives 0 '*' 'mooncage doctor'
check "doctor names the mechanisms" shows seccomp 'mooncage doctor'
# Its own trial stays on this machine, where no proxy reaches.
check "doctor finds the same with a proxy that nobody listens at" gives 0 '' \
  'egress() { mooncage doctor | grep "egress gateway"; }; diff <(egress) <(https_proxy=http://127.0.0.1:9 egress)'
check "reap" gives 0 '*' 'mooncage reap'
check "reap --dry-run" gives 0 '*' 'mooncage reap --dry-run'
# On version 2 an ordinary user's groups are in a scope that systemd ends when nobody is in it.
systemd_took() {
  local _
  [ "$(id -u)" != 0 ] && [ -e /sys/fs/cgroup/cgroup.controllers ] || return 1
  for _ in $(seq 40); do
    [ -n "$(find /sys/fs/cgroup -type d -name "mcg-$1-*" 2>/dev/null)" ] || return 0
    sleep 0.05
  done
  return 1
}
# Engine and spawner killed at once: nobody is left to clean up.
orphaned() {
  local pid spawner _
  mooncage run -- sh -c "echo up; exec sleep ${nap}50" >"$work/up" 2>&1 &
  pid=$!
  for _ in $(seq 400); do
    grep -q up "$work/up" && break
    sleep 0.05
  done
  spawner=$(pgrep -P $pid)
  kill -KILL $pid "$spawner"
  wait $pid 2>/dev/null
  no_process "sleep ${nap}50" || return 1
  systemd_took "$spawner" && return
  mooncage reap --dry-run >"$work/would" && mooncage reap >"$work/did" || return 1
  grep -qE "would remove .*mcg-$spawner-" "$work/would" && grep -qE "removed .*mcg-$spawner-" "$work/did" ||
    { cat "$work/would" "$work/did"; return 1; }
  mooncage reap --dry-run >"$work/would"
  ! grep -E "mcg-$spawner-" "$work/would"
}
if can_limit --pids 64; then
  check "reap removes what a killed engine and spawner left" orphaned
else
  skip "reap of a killed engine's cgroup" "no cgroup here that this user may use"
fi
