# json.sh: one JSON document on stdout and nothing else, also when it fails.
# Sourced by run.

check "a result" json_is 3 \
  'd["exit_code"] == 3 and d["stdout"] == "o\n" and d["stderr"] == "e\n" and not d["ok"]' \
  "mooncage --json run -- sh -c 'echo o; echo e >&2; exit 3'"
check "its session" json_is 0 \
  'd["session"]["backend"] == "jail" and d["session"]["id"] and len(d["session"]["enforcement"]) > 3' \
  'mooncage run --json -- true'
check "standard input is read" json_is 0 'd["stdout"] == "HI\n"' \
  'echo hi | mooncage --json run -- tr a-z A-Z'
check "bytes that are not UTF-8" json_is 0 'd["stdout"] == {"base64": "/wA="}' \
  "mooncage --json run -- printf '\\377\\000'"
check "UTF-8 is text" json_is 0 'd["stdout"] == "ü\u0000\n"' "mooncage --json run -- printf 'ü\\000\\n'"
check "counts are exact, capture is bounded" json_is 0 \
  'd["stdout_bytes"] == 3000000 and d["stdout_truncated"] and len(d["stdout"]) <= 1100000' \
  "mooncage --json run -- sh -c 'head -c 3000000 /dev/zero | tr \"\\0\" x'"
check "a signal" json_is 143 'd["signal"] == "SIGTERM" and d.get("exit_code") is None' \
  "mooncage --json run -- sh -c 'kill \$\$'"
check "a time-out" json_is 124 'd["timed_out"] and d["signal"] == "SIGKILL"' \
  'mooncage --json run --timeout 300ms -- sleep 30'
check "a missing program is a result" json_is 127 'd["not_found"] and d["exit_code"] == 127' \
  'mooncage --json run -- no-such-program'
check "an error" json_is 125 'd["error"]["code"] == "unenforceable" and d["error"]["fix"]' \
  'mooncage --json run --network open --backend subprocess -- true'
check "a configuration error" json_is 2 'd["error"]["code"] == "invalid"' \
  "echo 'return 5' >five.lua; mooncage --json --config five.lua run -- true"
check "an unknown session" json_is 125 'd["error"]["code"] == "not_found"' \
  'mooncage --json exec nosuch -- true'
check "help" json_is 0 '"Usage" in d["help"]' 'mooncage --json run --help'
check "ps" json_is 0 'd["sessions"] == []' 'mooncage --json ps'
check "reap" json_is 0 'isinstance(d["removed"], list)' 'mooncage --json reap --dry-run'
check "doctor" json_is '0' 'd["checks"] and any(b["id"] == "jail" for b in d["backends"])' \
  'mooncage --json doctor'
check "completion" json_is 0 'd["shell"] == "bash" and d["script"]' 'mooncage --json completion bash'
check "a script that throws" json_is 1 '"ouch" in d["error"]["message"] and d["traceback"]' \
  "mooncage --json run -e 'error(\"ouch\")'"
check "a script that does not parse" json_is 1 'd["error"]["code"] == "invalid"' \
  "mooncage --json run -e 'x ='"
