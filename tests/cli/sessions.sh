# sessions.sh: sessions that stay: create, exec, cp, ps, stop.
# Sourced by run.

check "ps with none" gives 0 '' 'mooncage ps -q'
check "exec in none" gives 125 '' 'mooncage exec nosuch -- true' 'there is no session nosuch'
check "create" gives 0 '*' 'mooncage create --env A=v > id'
id=$(cat id)
check "prints an id" test -n "$id"
check "ps lists it" gives 0 "$id" 'mooncage ps -q'
for place in "exec '' -- true" "stop ''" "diff ''" "apply ''"; do
  check "an id that is empty means none: ${place%% *}" gives 2 '' "mooncage $place" 'is empty'
done
for word in ../../../etc/passwd . .. a/b '*' "$(printf '%0100000d' 0)" $'\xd0\xb0' "${id^^}" "$id/" "$id."; do
  check "nor does a word that is no id: ${word:0:20}" gives 125 '' "mooncage stop '$word'" 'there is no session'
done
check "which harms nobody" gives 0 "$id" 'mooncage ps -q'
check "ps for people" shows jail 'mooncage ps'
check "ps --json" json_is 0 "d['sessions'][0]['id'] == '$id' and d['sessions'][0]['ends_in_s'] > 3000" \
  'mooncage --json ps'
check "exec" gives 7 v "mooncage exec $id -- sh -c 'echo \$A; echo kept > file; exit 7'"
check "what it wrote stays" gives 0 kept "mooncage exec $id -- cat file"
check "a beginning of the id is enough" gives 0 kept "mooncage exec ${id:0:6} -- cat file"
check "exec reads our stdin" gives 0 HI "echo hi | mooncage exec $id -- tr a-z A-Z"
check "exec --env, --workdir" gives 0 'w /tmp' \
  "mooncage exec --env B=w --workdir /tmp $id -- sh -c 'echo \$B \$PWD'"
check "exec --timeout" gives 124 '' "mooncage exec --timeout 300ms $id -- sleep ${nap}30"
check "kills only that" gives 0 kept "mooncage exec $id -- cat file"
check "exec --json" json_is 0 'd["stdout"] == "kept\n"' "mooncage --json exec $id -- cat file"
check "exec with a sandbox flag" gives 2 '' "mooncage exec --memory 1G $id -- true" '--memory'
check "cp in" gives 0 in "echo in > in; mooncage cp in $id:there && mooncage exec $id -- cat there"
check "cp out" gives 0 kept "mooncage cp $id:file copied && cat copied"
check "cp into a directory that is there" gives 0 $'kept\nin' \
  "mkdir there; mooncage cp $id:file there && cat there/file
    mooncage exec $id -- mkdir inside && mooncage cp in $id:inside && mooncage exec $id -- cat inside/in"
check "cp of a directory" gives 0 deep \
  "mkdir -p d/e; echo deep > d/e/f; mooncage cp d $id:d && mooncage exec $id -- cat d/e/f"
check "cp to a fifo, which stays one" gives 0 $'kept\ncpfifo' \
  "mkfifo cpfifo; cat cpfifo >from & mooncage cp $id:file cpfifo; wait; cat from; find cpfifo -type p"
check "cp to what a link leads to" gives 0 $'kept\ncplink' \
  "echo x >cpreal; ln -s cpreal cplink; mooncage cp $id:file cplink; cat cpreal; find cplink -type l"
check "cp to our own output, though it is a file" gives 0 $'before\nkept\nafter' \
  "ln -sf /proc/self/fd/1 output; { echo before; mooncage cp $id:file output; echo after; } >own; cat own" # not /dev/stdout: see snapshot.sh
if mknod full c 1 7 2>/dev/null; then
  check "cp to a device, which stays one" gives 125 full \
    "mooncage cp $id:file full; code=\$?; find full -type c; exit \$code" 'host file full: No space left'
fi
check "cp of what is missing" gives 125 '' "mooncage cp $id:missing x" missing
check "cp between two sessions" gives 2 '' "mooncage cp $id:a $id:b" 'one of the places'
client_killed() {
  mooncage exec "$id" -- sh -c "echo up; exec sleep ${nap}31" >"$work/up" 2>&1 &
  local pid=$! _
  for _ in $(seq 400); do
    grep -q up "$work/up" && break
    sleep 0.05
  done
  kill -KILL $pid
  wait $pid 2>/dev/null
  no_process "sleep ${nap}31" && gives 0 kept "mooncage exec $id -- cat file"
}
check "a killed client's command dies, the session lives" client_killed
no_secret_shown() {
  local secret="secret-$nap-$RANDOM" other
  echo "TOKEN=$secret" >secret
  echo "$secret" >pattern
  other=$(mooncage create --env-file secret) || return 1
  gives 0 "$secret" "mooncage exec $other -- printenv TOKEN" &&
    none grep -alF -f pattern /proc/[0-9]*/cmdline "$XDG_RUNTIME_DIR"/mooncage/*.json
  local code=$?
  mooncage stop "$other" >/dev/null
  return $code
}
check "a secret is in no argument, and in no file" no_secret_shown
exposed() {
  local kept url server code
  kept=$(mooncage create --expose 8080 2>"$work/said") || return 1
  url=$(sed -n 's/.*port 8080 of the sandbox: //p' "$work/said")
  mooncage exec "$kept" -- sh -c 'echo kept > page; exec python3 -m http.server 8080' >"$work/served" 2>&1 &
  server=$!
  gives 0 kept "for i in \$(seq 200); do curl -sf $url/page && exit; sleep 0.05; done; exit 1"
  code=$?
  mooncage stop "$kept" >/dev/null
  wait $server
  [ $code = 0 ] && gives 7 '' "curl -s $url/page"
}
check "--expose: the keeper holds the port" exposed
check "stop" gives 0 "$id" "mooncage stop $id"
check "it is gone" gives 125 '' "mooncage exec $id -- true" "no session $id"
check "its log counts the commands of all who used it" json_is 0 'd["usage"]["exec_count"] >= 5 and d["usage"]["exec_s"] > 0' \
  "mooncage --json audit show --op close --session $id"
check "stop of what is gone" gives 125 '' "mooncage stop $id" "no session"
check "--ttl ends it" gives 0 '' \
  'mooncage create --ttl 1s > id3; for i in $(seq 100); do mooncage ps -q | grep -q . || exit 0; sleep 0.1; done; exit 1'
check "create that is refused" gives 125 '' 'mooncage create --network open --backend subprocess' 'fix:'
check "create --json" json_is 0 'd["session"]["id"] and d["session"]["backend"] == "jail"' \
  'mooncage --json create --ttl 60s'
check "--backend subprocess can stay, too" gives 0 hi \
  'id=$(mooncage -q create --backend subprocess) && mooncage exec $id -- echo hi; mooncage stop $id >/dev/null'
check "stop --all" gives 0 '' 'mooncage stop --all >/dev/null; mooncage ps -q'
keeper_killed() {
  local id keeper
  id=$(mooncage create) || return 1
  mooncage exec "$id" -- sh -c "setsid sleep ${nap}32 >/dev/null 2>&1 &"
  keeper=$(pgrep -n -f 'mooncage __keeper') || { echo "no keeper"; return 1; }
  kill -KILL "$keeper"
  no_process "sleep ${nap}32" || return 1
  gives 125 '' "mooncage exec $id -- true" 'has ended' && gives 0 '' 'mooncage ps -q'
}
check "a killed keeper leaves nothing, and ps forgets it" keeper_killed
