# run.sh: one command in a fresh sandbox: streams, exit status, what it cannot reach.
# Sourced by run.

check "a filter" gives 0 HI 'echo hi | mooncage run -- tr a-z A-Z'
check "the exit status is the command's" gives 7 '' "mooncage run -- sh -c 'exit 7'"
check "exit status 255" gives 255 '' "mooncage run -- sh -c 'exit 255'"
check "128+N for a signal" gives 143 '' "mooncage run -- sh -c 'kill -TERM \$\$'"
check "a program that is missing" gives 127 '' 'mooncage run -- no-such-program' 'no program no-such-program'
check "with -q it is the status alone" gives 127 '' '[ -z "$(mooncage -q run -- no-such-program 2>&1)" ] && mooncage -q run -- no-such-program'
check "a program that cannot be executed" gives 126 '' 'mooncage run -- /etc/passwd' '/etc/passwd cannot be executed in the sandbox: Permission denied'
check "a directory" gives 126 '' 'mooncage run -- /etc' 'Permission denied'
check "with --json it is in the result" json_is 126 'd["start_error"] == "Permission denied" and not d["not_found"]' 'mooncage --json run -- /etc/passwd'
check "a command that exits so has started" json_is 126 '"start_error" not in d' "mooncage --json run -- sh -c 'exit 126'"
check "/etc/shadow cannot be read" gives '*' '' '! mooncage run -- cat /etc/shadow'
check "stderr apart" gives 0 out "mooncage run -- sh -c 'echo out; echo err >&2'" err
check "nothing of ours on stdout" gives 0 '' 'mooncage -vv run -- true'
check "an empty standard input" gives 0 0 'mooncage run -- wc -c </dev/null'
check "arguments come through" gives 0 $'[a b]\n[]\n[x\ny]\n[--memory]' \
  "mooncage run -- printf '[%s]\n' 'a b' '' \$'x\ny' --memory"
check "an argument that is not UTF-8" gives 0 ff \
  "mooncage run -- printf %s \$'\\xff' | od -An -tx1 | tr -d ' '"

byte_exact() {
  head -c 20000000 /dev/urandom >"$work/bytes"
  timeout 60 mooncage run -- cat <"$work/bytes" | cmp - "$work/bytes"
}
check "20 MB through, byte for byte" byte_exact
check "closed streams" gives 0 '' 'mooncage run -- true <&- >&- 2>&-'
check "closed input" gives 0 x 'mooncage run -- echo x <&-'
check "a reader that leaves ends the command" gives 141 y \
  'mooncage run -- yes | head -n 1; exit ${PIPESTATUS[0]}'
check "output that cannot be written is no success" gives 125 '' 'mooncage run -- echo x >/dev/full' 'No space left'
check "a background child does not hold us" gives 0 done \
  "mooncage run -- sh -c 'sleep ${nap}01 & echo done'"
check "and does not live on" no_process "sleep ${nap}01"

check "a time-out" gives 124 '' "mooncage run --timeout 1s -- sh -c '(setsid sleep ${nap}02 &) ; sleep ${nap}02'" \
  'time limit'
check "leaves nothing" no_process "sleep ${nap}02"
check "--wall ends the sandbox" gives 124 '' "mooncage run --wall 1s -- sleep ${nap}03" 'wall'
check "and leaves nothing" no_process "sleep ${nap}03"

check "--env" gives 0 'v w=x' \
  "B=w=x mooncage run --env A=v --env B -- sh -c 'echo \$A \$B'"
check "our environment stays here" gives 0 '[]' "SECRET=1 mooncage run -- sh -c 'echo [\$SECRET]'"
check "--env-file" gives 0 'one two' \
  "printf '# c\nA=one\n\nB=two\n' >env; mooncage run --env-file env -- sh -c 'echo \$A \$B'"
check "a bad line in it" gives 2 '' "printf 'A=1\n=x\n' >env; mooncage run --env-file env -- true" 'env:2:'
check "--workdir" gives 0 /tmp 'mooncage run --workdir /tmp -- pwd'
check "--workdir puts the workspace there" gives 0 /tmp/a/b 'mooncage run --workdir /tmp/a/b -- pwd'
check "--workdir must be absolute" gives 2 '' 'mooncage run --workdir a/b -- pwd' '--workdir'

listener() { # prints the port of a TCP listener on loopback; its pid goes to $work/listener
  python3 -c '
import socket, sys
s = socket.create_server(("127.0.0.1", 0)); s.settimeout(60)
print(s.getsockname()[1], flush=True)
while True: s.accept()' >"$work/port" 2>/dev/null &
  echo $! >"$work/listener"
  until [ -s "$work/port" ]; do sleep 0.05; done
}
listener
port=$(cat "$work/port")
check "control: the listener can be reached from here" bash -c "exec 3<>/dev/tcp/127.0.0.1/$port"
check "no connection from inside" gives '*' '' \
  "! mooncage run -- bash -c 'exec 3<>/dev/tcp/127.0.0.1/$port'"
check "--network host can" gives 0 '' \
  "mooncage run --network host -- bash -c 'exec 3<>/dev/tcp/127.0.0.1/$port'"
kill "$(cat "$work/listener")" 2>/dev/null
check "--network open has a loopback of its own" gives '*' '' \
  "! mooncage run --network open -- bash -c 'exec 3<>/dev/tcp/127.0.0.1/$port'"
check "--network open needs a wall" gives 125 '' \
  'mooncage run --network open --backend subprocess -- true' 'fix: use the jail backend'
check "--allow" gives 0 hi 'mooncage run --allow example.org:443 --deny "*.example.org" -- echo hi'
check "--allow of everything says what to write" gives 2 '' "mooncage run --allow '*' -- true" '"*:443"'
check "--allow of a whole domain of all" gives 2 '' "mooncage run --allow '*.com' -- true" 'two labels'
check "--allow beside no network" gives 2 '' 'mooncage run --network none --allow x.test -- true' 'leave --network out'
check "--allow beside the host's" gives 2 '' 'mooncage run --network host --allow x.test -- true' 'no rules'
check "--allow where bytes are framed" gives 125 '' \
  'mooncage run --option carrier=framed --allow x.test -- true' 'direct carrier'
check "--backend subprocess" gives 0 hi 'mooncage run --backend subprocess -- echo hi'
check "says that it isolates nothing" gives 0 '*' 'mooncage run --backend subprocess -- true' 'warning:'
check "-q leaves that out" gives 0 '' 'mooncage -q run --backend subprocess -- true 2>&1'
check "an unknown option of the backend" gives 2 '' 'mooncage run --option rotfs=/x -- true' 'rootfs'
check "--option profile=strict" gives 0 hi 'mooncage run --option profile=strict -- echo hi'
check "--option rootfs that is missing" gives 125 '' 'mooncage run --option rootfs=/no/such -- true' '/no/such'
