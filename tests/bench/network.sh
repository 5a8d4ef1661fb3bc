# network.sh COMMAND WORK [quick]: in a network namespace of its own: a server, socat before it, and
# network.lua, which measures. Started by run.
set -eu
command=$1 work=$2 short=${3:-}
ip link set lo up
ip addr add 11.0.0.1/32 dev lo
"$work/programs/wire-musl" serve 11.0.0.1 7000 >"$work/wire" &
server=$!
socat TCP-LISTEN:7001,bind=11.0.0.1,reuseaddr,fork TCP:11.0.0.1:7000 &
relay=$!
trap 'kill "$relay" "$server"' EXIT
until grep -q up "$work/wire" && socat -u OPEN:/dev/null TCP:11.0.0.1:7001 2>/dev/null; do sleep 0.05; done
"$command" run tests/bench/network.lua "$work/programs" "$work/network.jsonl" $short
