# limits.sh: memory, processes, disk, output; where they cannot be enforced they are refused.
# Sourced by run.

if can_limit --memory 64M; then
  check "memory: killed, reported, and the session lives on" json_is '137' \
    'd["oom_killed"] and d["signal"] == "SIGKILL" and d["session"]["backend"] == "jail"' \
    "mooncage --json run --memory 64M -- python3 -c 'x=bytearray(10**9)'"
  check "pids: a fork bomb is held" gives '*' '*' \
    "mooncage run --pids 32 --timeout 10s -- bash -c 'f() { f | f & }; f; sleep 1; echo alive'"
  check "cpus" gives 0 ok 'mooncage run --cpus 0.5 -- echo ok'
else
  refused() {
    json_is 125 'd["error"]["code"] == "unenforceable" and d["error"]["fix"]' "$1 2>/dev/null"
  }
  check "memory is refused where it cannot be enforced" refused 'mooncage --json run --memory 64M -- true'
  check "pids are refused" refused 'mooncage --json run --pids 32 -- true'
  check "--best-effort goes on" gives 0 hi 'mooncage run --best-effort --memory 64M -- echo hi'
  skip "memory, pids and cpu limits" "no cgroup here that this user may use"
fi
if can_limit --disk 16M; then
  check "disk: no space left, not a kill" gives 1 '' \
    "mooncage run --disk 16M -- sh -c 'head -c 100000000 /dev/zero > big'" 'No space left'
else
  skip "disk limit" "it cannot be enforced here: $(head -n 1 "$work/limit")"
fi
check "100 MB of output" gives 0 100000000 'mooncage run -- head -c 100000000 /dev/zero | wc -c'
check "no limit above all sense" gives 2 '' 'mooncage run --cpus 100000 -- true' '--cpus'
