# audit.sh: the audit log: what is in it, what becomes of it on bad days, and who notices.
# Sourced by run.

audits=$XDG_STATE_HOME/mooncage/audit
log=$audits/$(id -u)-$(date -u +%Y-%m).jsonl
chain() { python3 "$root/tests/cli/chain.py" "$@"; }
# A log of its own for each case, so that its anchor is its own, too.
a=0
fresh() { a=$((a + 1)) && l=$work/audit$a.jsonl; }
export -f chain
export root log audits

rm -rf "$XDG_STATE_HOME/mooncage/audit" "$XDG_STATE_HOME/mooncage/anchors"
touch "$work/open.jsonl"
chmod 666 "$work/open.jsonl"
check "a log that anybody may write to" gives 125 '' "mooncage run --audit '$work/open.jsonl' -- true" 'anybody may write'
rm "$work/open.jsonl"
if [ "$(id -u)" = 0 ]; then
  (umask 077 && : >"$work/foreign.jsonl") && chown 54321 "$work/foreign.jsonl"
  check "a log of another user" gives 125 '' "mooncage run --audit '$work/foreign.jsonl' -- true" 'another user'
  rm "$work/foreign.jsonl"
fi
check "a run leaves a log, unasked" gives 0 hi 'mooncage run -- echo hi && test -s "$log" 2>/dev/null'
check "for its user alone" gives 0 '700 600' 'echo $(stat -c %a "$audits" "$log")'
check "which is a chain" gives 0 '' 'chain "$log" >/dev/null'
check "verify is content" gives 0 '' 'mooncage -q audit verify >/dev/null'
check "as JSON" json_is 0 'd["ok"] and d["files"][0]["anchor"] == "ok" and d["files"][0]["problems"] == []' \
  'mooncage --json audit verify'
check "show" shows 'open       start' 'mooncage audit show'
check "show, as it stands there" gives 0 '' 'mooncage --json audit show | cmp - "$log"'
check "tail" gives 0 2 'mooncage audit tail -n 2 | wc -l'
check "of one kind" gives 0 close 'mooncage --json audit tail --op close | python3 -c "import json,sys; print(json.loads(sys.stdin.readline())[\"op\"])"'
check "stats" json_is 0 'd["total"]["sessions"] == 1 and d["total"]["exec_count"] == 1 and d["total"]["open"] == 0' \
  'mooncage --json audit stats'
check "a kind that there is none of" gives 2 '' 'mooncage audit show --op exce' 'did you mean exec?'
check "a kind that is like none" gives 2 '' 'mooncage audit tail --op xyzzyx' 'there are select, open'
check "an action must be said" gives 2 '' 'mooncage audit' 'tail, show, verify, stats'
check "no such log" gives 125 '' 'mooncage audit show nothing.jsonl' 'nothing.jsonl'
check "a key is not for the command line" gives 2 '' 'mooncage audit verify --hmac-key topsecret 2>&1 | grep -v topsecret >&2; exit ${PIPESTATUS[0]}' '@env:NAME'

# Tampering is found, and where it was is named.
fresh
for _ in 1 2 3; do mooncage run --audit "$l" -- true; done
cp "$l" "$work/whole.jsonl"
found() { # found WHAT SED-SCRIPT
  cp "$work/whole.jsonl" "$l" && sed -i "$2" "$l"
  gives 1 '*' "mooncage audit verify '$l'" && grep -qF -- "$1" <<<"$(mooncage audit verify "$l")"
}
check "a byte changed" found 'line 4 (seq 4) was changed' '4s/"v":1}/"v":2}/'
check "a line removed" found 'the line with seq 4 is missing before line 4' 4d
check "lines swapped" found 'line 4 (seq 3) is out of place' '3{h;d};4{G}'
check "the tail cut" found 'the tail is cut off: lines with seq 8 to 15 are missing' '8,$d'
check "the head cut" found 'the line with seq 1 is missing before line 1' 1d
check "all of it cut" found 'the tail is cut off: lines with seq 1 to 15 are missing' d
check "no event any more" found 'line 5 is no audit event any more' '5s/.*/{}/'
check "a line inserted" found 'line 6 (seq 5) is out of place' 5p
cat >"$work/anew.py" <<'END'
import hashlib, json, sys
previous, out = "0" * 64, []
for n, line in enumerate(open(sys.argv[1])):
    event = json.loads(line)
    del event["hash"]
    event["prev"] = previous
    if n == 2:
        event["session"] = "another"
    text = json.dumps(event, sort_keys=True, separators=(",", ":"))
    event["hash"] = previous = hashlib.sha256((previous + text).encode()).hexdigest()
    out.append(json.dumps(event, sort_keys=True, separators=(",", ":")) + "\n")
open(sys.argv[1], "w").writelines(out)
END
cat >"$work/more.py" <<'END'
import hashlib, json, sys
event = json.loads(open(sys.argv[1]).readlines()[-1])
event.update(prev=event.pop("hash"), seq=event["seq"] + 1)
text = json.dumps(event, sort_keys=True, separators=(",", ":"))
event["hash"] = hashlib.sha256((event["prev"] + text).encode()).hexdigest()
print(json.dumps(event, sort_keys=True, separators=(",", ":")), file=open(sys.argv[1], "a"))
END
anew() {
  cp "$work/whole.jsonl" "$l" && python3 "$work/anew.py" "$l" && chain "$l" >/dev/null &&
    grep -qF 'the file was written anew: its line with seq 15' <<<"$(mooncage audit verify "$l")"
}
check "a file written anew, as a good chain" anew
rm "$l"
check "a file removed" gives 1 '*' "mooncage audit verify '$l'"
gone() {
  mkdir -p "$work/dir" && mooncage run --audit "$work/dir/x.jsonl" -- true && rm "$work/dir/x.jsonl" &&
    mooncage audit verify "$work/dir"
  [ $? = 1 ]
}
check "also of a directory" gone
rm -r "$work/dir"
check "also with the directory" gives 1 '*' "mooncage audit verify '$work/dir'"
check "and with the usual one" gives 1 '*' 'mv "$audits" "$audits.away"; mooncage audit verify; s=$?; mv "$audits.away" "$audits"; exit $s'
mkfifo "$work/wait.jsonl"
for how in show tail stats "tail -n 1"; do
  check "audit $how waits for no pipe" gives 125 '' "timeout 20 mooncage audit $how '$work/wait.jsonl'" 'no ordinary file'
done
rm "$work/wait.jsonl"
mkfifo "$work/pipe.jsonl"
check "a pipe is no log" gives 1 '*' "timeout 20 mooncage audit verify '$work/pipe.jsonl'"
rm "$work/pipe.jsonl"
printf 'return { candidates = { mooncage.jail { name = "first" }, mooncage.jail { name = "second" } },\n  selector = "in_order" }\n' >"$work/order.lua"
check "a choice without a reason is no denial" gives 0 '*' \
  "mooncage --config '$work/order.lua' run --audit '$work/order.jsonl' -- true && mooncage audit show --op select '$work/order.jsonl' | grep -q 'in_order: first'"
check "no log yet" gives 125 '' "XDG_STATE_HOME='$work/new' mooncage audit verify" 'there is no audit log'
check "to show" gives 125 '' "XDG_STATE_HOME='$work/new' mooncage audit show" 'there is no audit log'

# Followed: all that is in the directory, what is put aside, begun meanwhile, or takes another's place; each line once.
comes() { # comes TEXT FILE
  local _
  for _ in $(seq 400); do
    grep -qF -- "$1" "$2" && return
    sleep 0.05
  done
  return 1
}
followed() {
  local d=$work/followed file follower told
  mkdir "$d"
  for file in a b; do mooncage run --audit "$d/$file.jsonl" -- echo before "$file" || return; done
  mooncage audit tail -n 2 --op exec -f "$d" >"$work/told" 2>&1 &
  follower=$!
  comes 'exit 0' "$work/told"
  for file in a c b; do mooncage run --audit "$d/$file.jsonl" -- echo to "$file"; done
  mv "$d/b.jsonl" "$d/b.7.jsonl"
  mooncage run --audit "$d/b.jsonl" -- echo to the next
  comes 'echo to c' "$work/told" # what comes and goes in one look's time is not seen
  rm "$d/c.jsonl"
  mooncage run --audit "$d/c.jsonl" -- echo anew
  comes 'echo anew' "$work/told"
  kill "$follower"
  wait "$follower"
  told=$(grep ' start ' "$work/told" | sed 's/.* echo \(.*\)  tool.*/\1/' | sort | tr '\n' ,)
  [ "$told" = 'anew,before b,to a,to b,to c,to the next,' ] || { cat "$work/told"; return 1; }
}
check "tail -f follows whatever is there" followed

# In a directory the newest events are those of the newest times, whatever the files are called.
aged() {
  local d=$work/aged
  mkdir "$d"
  for file in b a c; do mooncage run --audit "$d/$file.jsonl" -- echo "to $file" || return; done
  mooncage run --audit "$d/b.jsonl" -- echo late
  [ "$(mooncage audit tail -n 3 --op exec "$d" | sed -n 's/.* start .* echo \(.*\)  tool.*/\1/p')" = "late" ] || return
  mooncage audit tail -n 6 --op exec "$d" | sed -n 's/.* start .* echo \(.*\)  tool.*/\1/p' | tr '\n' , >"$work/told"
  [ "$(cat "$work/told")" = "'to a','to c',late," ]
}
check "tail goes by time, not by name" aged

# A decision stands by what was let through, too.
fresh
printf 'return { guardrail = function(c) return c.argv[1] == "true", nil, "known" end }' >"$work/lets.lua"
check "what a guardrail let through is not called denied" gives 0 $'allowed\ndenied' \
  "mooncage --config '$work/lets.lua' run --audit '$l' -- true; mooncage --config '$work/lets.lua' run --audit '$l' -- no 2>/dev/null
   mooncage audit show '$l' | sed -n 's/.*guardrail: \([a-z]*\) (rule known).*/\1/p' | sort -u"

for misplaced in "show -f" "stats -n 3" "verify -f" "verify --tenant a" "tail --hmac-key @env:HOME" "verify --op exec"; do
  check "audit $misplaced is refused" gives 2 '' "mooncage audit $misplaced" 'takes no --'
done
for action in "audit verify" "audit stats" "audit show" "config show" "policy test budget" "policy check budget"; do
  check "$action: output that is lost is no success" gives 125 '' "mooncage $action >/dev/full" 'cannot write to standard output'
done
painted() { # painted COLOUR-CODE COMMAND...: on a terminal it is a colour, not the text of one
  timeout 30 script -qec "${*:2}" /dev/null </dev/null >"$work/shown"
  grep -qF $'\33['"$1m" "$work/shown" && ! grep -F '\x1b' "$work/shown"
}
export TERM=xterm
if command -v script >/dev/null; then
  check "audit verify has colours on a terminal" painted 32 mooncage audit verify
  check "policy explain" painted 32 mooncage policy explain -- ls
  check "policy explain-net" painted 31 mooncage policy explain-net example.com:443
  check "policy test" painted 32 mooncage policy test budget
  check "policy check" painted 32 mooncage policy check budget
  check "config show" painted 2 mooncage config show
else
  skip "colours on a terminal" "needs script, of util-linux"
fi
printf 'return function() return function() return false, "\\27]0;x\\7\\nok evil", "\\27[2J" end end' >evil.lua
printf 'return { kind = "guardrail", { name = "n", command = { "a" }, expect = true } }' >evil.test.lua
for how in "" --untrusted; do
  check "what a policy says acts nowhere, nor behind a pipe ($how)" gives 0 '' \
    "mooncage policy test $how evil.lua | cat >shown; ! grep \$'\\33' shown && ! grep '^ok evil' shown && grep -q 'decided.*x1b' shown"
done
rm evil.lua evil.test.lua

# A key: nobody without it writes a line that verifies.
fresh
printf 'return { audit = mooncage.audit.jsonl { path = "%s", hmac_key = secret "KEY" } }' "$l" >"$work/keyed.lua"
export KEY=sesame
check "with a key" gives 0 '' "mooncage --config $work/keyed.lua run -- true; chain '$l' sesame >/dev/null"
check "verify takes it from the configuration" gives 0 '' "mooncage -q --config $work/keyed.lua audit verify >/dev/null"
check "or from --hmac-key" gives 0 '' "mooncage -q audit verify --hmac-key @env:KEY '$l' >/dev/null"
check "another key does not do" gives 1 '*' "KEY=other mooncage audit verify --hmac-key @env:KEY '$l'"
check "which is said" gives 1 1 "KEY=other mooncage audit verify --hmac-key @env:KEY '$l' | grep -c 'is it the key of this log'; exit \${PIPESTATUS[0]}"
check "nor none" gives 1 '*' "mooncage audit verify '$l'"
check "which is said, too" gives 1 1 "mooncage audit verify '$l' | grep -c 'give it with --hmac-key'; exit \${PIPESTATUS[0]}"

# --audit moves the log, and keeps what else is said of it.
printf 'return { audit = { mooncage.audit.jsonl { dir = "%s", own = true, hmac_key = secret "KEY", rotate_mb = 0.004 },
  mooncage.audit.callback(function(e) if e.op == "close" then io.stderr:write("told\\n") end end) } }' "$work/unused" >"$work/keyed.lua"
fresh
check "--audit keeps the key and the other sinks" gives 0 '' "mooncage --config $work/keyed.lua run --audit '$l' -- true; chain '$l' sesame >/dev/null" told
check "and rotation" gives 0 '' "for i in 1 2 3 4 5 6; do mooncage --config $work/keyed.lua run --audit '$l' -- true || exit; done 2>&1 | grep -v told; ls ${l%.jsonl}.0*.jsonl >/dev/null"
check "and leaves the place alone that it moves from" gives 1 '' "test -e '$work/unused'"
fresh
check "--audit beside other sinks alone" gives 0 '' \
  "echo 'return { audit = mooncage.audit.stderr() }' >s.lua; mooncage --config s.lua run --audit '$l' -- true 2>err; chain err >/dev/null && chain '$l' >/dev/null"
fresh
check "--audit where there is to be no log" gives 0 '' \
  "echo 'return { audit = false }' >s.lua; mooncage -q --config s.lua run --audit '$l' -- true; chain '$l' >/dev/null"

# Bad days.
refused() { json_is 125 'd["error"]["code"] == "audit_failed" and "--audit" in d["error"]["fix"]' "mooncage --json run --audit '$1' -- touch '$work/ran'"; }
mkfifo "$work/fifo" && ln -s "$work/whole.jsonl" "$work/link" && ln "$work/whole.jsonl" "$work/second"
for place in /proc/nothing /dev/full "$work/fifo" "$work/link" "$work/second" "$work" "$work/no/such"; do
  check "no log at $(basename "$place"): nothing is run" refused "$place"
done
check "no log where the sandbox may write" gives 2 '' \
  "mkdir -p '$work/own'; mooncage run --audit '$work/own/a.jsonl' --bind '$work/own:/own:rw' -- true" 'may write'
check "nor where it leads by what is not there yet" gives 2 '' \
  "mooncage run --audit '$work/none/../own/a.jsonl' --bind '$work/own:/own:rw' -- true" 'may write'
check "nor anchors of logs where it may" gives 2 '' \
  "mooncage run --audit '$work/own/a.jsonl' --bind \"\$(dirname \"\$audits\")/anchors:/own:rw\" -- true" 'anchors of logs'
check "a log has a name" gives 2 '' "mooncage run --audit '' -- true" '--audit: is empty'
check "where it may only read there is one" gives 0 '' \
  "mooncage run --audit '$work/own/a.jsonl' --bind '$work/own:/own' -- true; test -s '$work/own/a.jsonl'"
echo 'not ours' >"$work/notes.txt"
check "a file that is no log is left alone" refused "$work/notes.txt"
check "as it was" gives 0 'not ours' "cat '$work/notes.txt'"
if [ "$(id -u)" != 0 ]; then
  check "no place at all" json_is 125 'd["error"]["code"] == "audit_failed" and "HOME" in d["error"]["message"]' \
    'env -u HOME -u XDG_STATE_HOME "$(command -v mooncage)" --json run -- true'
else
  skip "audit log without HOME" "root's is in /var/lib"
fi
check "none, where it is written that there is none" gives 0 'hi' \
  "echo 'return { audit = false }' >unlogged.lua; before=\$(wc -l <'$log'); mooncage --config unlogged.lua run -- echo hi; test \$(wc -l <'$log') = \$before"
check "an empty list is not that" gives 2 '' "echo 'return { audit = {} }' >e.lua; mooncage --config e.lua run -- true" 'audit = false'
check "a sink that is misspelt" gives 2 '' "echo 'return { audit = mooncage.audit.jsonl { pth = 1 } }' >e.lua; mooncage --config e.lua run -- true" "did you mean 'path'"

fresh
check "a torn line is taken away, and that is said" gives 0 'torn_line 1' \
  "mooncage run --audit '$l' -- true; printf '{\"argv\":[\"half' >>'$l'; mooncage run --audit '$l' -- true
   chain '$l' >/dev/null; mooncage -q audit verify '$l' >/dev/null || exit
   mooncage --json audit show --op recovered '$l' | python3 -c 'import json,sys; e=[json.loads(l) for l in sys.stdin]; print(e[0][\"detail\"][\"what\"], len(e))'"
fresh
check "what was lost stays lost" gives 1 '*' \
  "mooncage run --audit '$l' -- true; sed -i '\$d' '$l'; mooncage run --audit '$l' -- true; mooncage audit verify '$l'"
check "and is named" gives 0 '' "mooncage audit verify '$l' | grep -qF 'the line with seq 5 is missing before line 5'"
# The anchor alone is spoilt, or the log alone: the next writer says it, and verify goes on saying it.
fresh
anchor_of() { printf %s "$1" | sha256sum | sed "s|^\\(.\\{32\\}\\).*|$XDG_STATE_HOME/mooncage/anchors/\\1|"; }
spoilt() { # spoilt STATUS WHAT VERIFY-SAYS STDERR-SAYS SCRIPT: $n is the anchor
  rm -f "$l" && n=$(anchor_of "$l") && rm -f "$n" && mooncage run --audit "$l" -- true && test -s "$n" || return
  n=$n bash -c "$5" && mooncage run --audit "$l" -- true 2>"$work/said" && mooncage run --audit "$l" -- true || return
  [ "$2" = missing_lines ] || chain "$l" >/dev/null || return
  grep -qF -- "$4" <<<"$(cat "$work/said")" || { cat "$work/said"; return 1; }
  [ "$(mooncage --json audit show --op recovered "$l" | sed 's/.*"what":"\([a-z_]*\)".*/\1/')" = "$2" ] &&
    gives "$1" '*' "mooncage audit verify '$l'" && grep -F -- "$3" <<<"$(mooncage audit verify "$l")"
}
export l work
check "a garbled anchor" spoilt 1 bad_anchor 'could not be read before line 6' 'its anchor cannot be read' 'echo garbled >$n'
check "an anchor of zeros" spoilt 1 bad_anchor 'could not be read before line 6' 'its anchor cannot be read' 'head -c 192 /dev/zero >$n'
check "an anchor beyond all numbers" spoilt 1 bad_anchor 'could not be read before line 6' 'its anchor cannot be read' \
  'sed -i "s/seq 5/seq 18446744073709551615/" $n'
check "an anchor that is gone" spoilt 0 no_anchor 'there was no anchor' 'its anchor is gone' 'rm $n'
check "an anchor that is empty" spoilt 0 no_anchor 'there was no anchor' 'its anchor is gone' ': >$n'
check "an anchor that knows too much" spoilt 1 missing_lines 'lines with seq 6 to 9 are missing' 'are missing' 'sed -i "s/seq 5/seq 9/" $n'
check "a log written anew, of the same length" spoilt 1 rewritten 'written anew before line 6: its line with seq 5' 'it was written anew' \
  'python3 $work/anew.py $l'
check "or a longer one" spoilt 1 rewritten 'written anew before line 7: its line with seq 5' 'it was written anew' \
  'tail -n 1 $l >>$l; sed -i "\$s/\"seq\":5/\"seq\":6/" $l; python3 $work/anew.py $l'
check "a line put at the end" spoilt 0 unanchored_lines 'did not know lines with seq 6 to 6' '' 'python3 $work/more.py $l'
fresh
check "no place for anchors is no anchor that is gone" gives 0 0 \
  "export XDG_STATE_HOME=/proc; for i in 1 2; do mooncage -q run --audit '$l' -- true; done 2>/dev/null; mooncage audit show --op recovered '$l' | wc -l"
fresh
check "two engines, one file" gives 0 40 \
  "for i in 1 2 3 4 5 6 7 8; do mooncage run --audit '$l' -- true & done; wait; chain '$l'"
fresh
killed() {
  local i
  for i in $(seq 12); do
    mooncage run --audit "$l" -- sleep 0.1 >/dev/null 2>&1 &
    sleep "0.0$((i % 5))$i"
    kill -9 $!
    wait $! 2>/dev/null
  done
  mooncage run --audit "$l" -- true && chain "$l" && mooncage audit verify "$l"
}
check "kill -9 at any time" killed

fresh
full='mount -t tmpfs -o size=64k none "$work/full" && head -c 60000 /dev/zero >"$work/full/fill"
i=0; while mooncage run --audit "$work/full/a.jsonl" -- true 2>"$work/why"; do i=$((i + 1)); [ $i -lt 99 ] || exit 9; done
grep -q "No space left" "$work/why" || exit 8
mooncage run --audit "$work/full/a.jsonl" -- touch "$work/ran" && exit 7
chain "$work/full/a.jsonl" >/dev/null || exit 6
rm "$work/full/fill" && mooncage run --audit "$work/full/a.jsonl" -- echo again && mooncage -q audit verify "$work/full/a.jsonl" >/dev/null'
mkdir -p "$work/full"
export work full
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
  check "a full disk: nothing is run, the log stays whole" gives 0 again 'unshare --mount --propagation private bash -c "$full"'
else
  skip "audit log on a full disk" "needs root, to mount a small one"
fi

fresh
vanished="local m = require 'mooncage'
m.with({}, function(s)
  assert(s:write('a', 'x'))
  assert(os.execute('rm -r $work/gone') == 0 or true)
  local ok, err = s:write('b', 'x')
  print(ok, err and err.code, (s:read('b')))
end)"
check "a directory that vanishes: nothing more happens" gives 0 $'nil\taudit_failed\tnil' \
  "mkdir -p '$work/gone'; cd /; mooncage run --audit '$work/gone/a.jsonl' -e \"$vanished\"; true"
moved="local m = require 'mooncage'
m.with({}, function(s)
  assert(s:write('a', 'x')); os.rename('$l', '$l.1'); assert(s:write('b', 'x'))
end)"
check "a log that is moved away: the next one goes on" gives 0 '' \
  "mooncage run --audit '$l' -e \"$moved\"; chain '$l.1' >/dev/null && test \$(head -n 1 '$l' | grep -c missing_lines) = 1"

fresh
# A log that cannot be written for a while, or to the end: lost DIRECTORY SCRIPT STATUS; the script is run when
# the command has ended, and the command line ends with the status by itself.
cat >"$work/lost.lua" <<END
local m = require "mooncage"
local task, session
session = assert(m.open { audit = m.audit.jsonl { path = os.getenv "LOST" .. "/b.jsonl" } })
task = m.spawn(function() return session:exec { "sleep", "0.3" } end)
m.sleep(0.1)
os.execute "cd \$LOST && mv b.jsonl gone && mkdir b.jsonl"
m.join { task }
assert(session:close())
os.execute(os.getenv "AFTER")
if os.getenv "STATUS" ~= "0" then os.exit(tonumber(os.getenv "STATUS")) end
END
lost() { export LOST=$work/$1 && mkdir "$LOST" && AFTER="cd \$LOST && $2" STATUS=$3 mooncage run "$work/lost.lua"; }
export work
export -f lost
back='rmdir b.jsonl && mv gone b.jsonl'
check "what was kept is written in the end" gives 0 "exec finish
close point" "lost back '$back' 0 2>/dev/null && mooncage --json audit show '$work/back/b.jsonl' |
  python3 -c 'import json,sys; print(*[e[\"op\"] + \" \" + e[\"phase\"] for e in map(json.loads, sys.stdin)][-2:], sep=\"\n\")'"
check "what cannot be, is said, and no success" gives 125 '' "lost gone true 0" '2 audit lines are lost'
check "a status of its own it keeps" gives 7 '' "lost away true 7" '2 audit lines are lost'

# Somebody else holds the log: neither a signal nor the end of a session waits for that.
fresh
check "a log that is held: a signal ends the wait" gives 143 '' "mooncage run --audit '$l' -- true
  (exec 9>>'$l' && flock 9 && exec sleep 60) & holder=\$!; until ! flock -n '$l' true; do sleep 0.02; done
  timeout --preserve-status -k 20 1 mooncage run --audit '$l' -- touch '$work/ran' 2>/dev/null; s=\$?
  kill \$holder; wait \$holder 2>/dev/null; [ ! -e '$work/ran' ] || exit 9; chain '$l' >/dev/null; exit \$s"
cat >"$work/held.lua" <<END
local m = require "mooncage"
local session = assert(m.open { audit = m.audit.jsonl { path = "$l" }, limits = { wall_s = 1 } })
local holder = io.popen("exec 9>>$l; flock 9; echo \$\$; exec sleep 60")
local pid = holder:read()
local result, err = session:exec { "true" }
print(result, err.code)
os.execute("kill " .. pid)
session:close()
END
check "and so does the end of a session's time" gives 0 $'nil\ttimeout' \
  "timeout -k 5 30 mooncage run '$work/held.lua' 2>/dev/null; s=\$?; chain '$l' >/dev/null; exit \$s"

fresh
rotating="local m = require 'mooncage'
m.with({ audit = m.audit.jsonl { path = '$l', rotate_mb = 0.004 } }, function(s)
  for i = 1, 20 do assert(s:write('a', 'x')) end
end)"
check "a log that is full is put aside, the chain goes on" gives 0 '' \
  "mooncage run -e \"$rotating\"; ls ${l%.jsonl}.*.jsonl | wc -l | grep -qv '^0'; mooncage -q audit verify ${l%.jsonl}*.jsonl >/dev/null &&
   cat ${l%.jsonl}.*.jsonl '$l' >'$work/joined' && chain '$work/joined' >/dev/null"
# What was put aside belongs to the log, however that is named: by its file, or by the configuration.
events() { cat ${l%.jsonl}.*.jsonl "$l" | wc -l; }
check "show reads the parts put aside, too" gives 0 "$(events)" "mooncage audit show '$l' | wc -l"
check "in their order" gives 0 '' "mooncage --json audit show '$l' | cmp - <(cat ${l%.jsonl}.*.jsonl '$l')"
check "each once, though named" gives 0 "$(events)" "mooncage audit show ${l%.jsonl}*.jsonl | wc -l"
printf 'return { audit = mooncage.audit.jsonl { path = "%s", rotate_mb = 0.004 } }' "$l" >"$work/rotated.lua"
check "and those of a configured log" gives 0 "$(events)" "mooncage --config '$work/rotated.lua' audit show | wc -l"
check "tail goes back into them" gives 0 12 "mooncage audit tail -n 12 '$l' | wc -l"
check "stats sums them up" json_is 0 "d[\"total\"][\"events\"] == $(events) and d[\"total\"][\"sessions\"] == 1" "mooncage --json audit stats '$l'"
gone_on() { # followed across a rotation: every line once
  local follower
  mooncage --json audit tail -n 1 -f "$l" >"$work/told" &
  follower=$!
  comes '"seq"' "$work/told"
  mooncage run -e "$rotating"
  comes "$(tail -n 1 "$l")" "$work/told"
  kill "$follower"
  wait "$follower"
  cat ${l%.jsonl}.*.jsonl "$l" | tail -n "$(wc -l <"$work/told")" | cmp - "$work/told" && [ "$(wc -l <"$work/told")" -gt 40 ]
}
check "tail -f of a file goes on across rotations" gone_on
check "a part that is missing is found" gives 1 '*' "rm \$(ls ${l%.jsonl}.*.jsonl | head -n 1); mooncage audit verify $work"
# What was put aside is one chain with the log: whatever of it is gone, its anchor too, is missed.
parts() { # parts NAME: a log of several files in a directory of its own, $d; they are in $p
  d=$work/$1 && mkdir "$d" && mooncage run -e "local m = require 'mooncage'
m.with({ audit = m.audit.jsonl { path = '$d/a.jsonl', rotate_mb = 0.004 } }, function(s)
  for i = 1, 25 do assert(s:write('a', 'x')) end
end)" && p=("$d"/a.*.jsonl) && [ ${#p[@]} -ge 4 ]
}
away() { rm -f "$1" "$(anchor_of "$1")"; }
judged() { # judged STATUS TEXT PATH...
  local status=$1 text=$2
  shift 2
  mooncage audit verify "$@" >"$work/judged"
  [ $? = "$status" ] && grep -qF -- "$text" "$work/judged" || { cat "$work/judged"; return 1; }
}
all_of_it() {
  parts whole || return
  for each in "$d" "$d/a.jsonl" "$d/a.jsonl ${p[*]}"; do # shellcheck disable=SC2086
    judged 0 ok $each && [ "$(grep -c ': ok' "$work/judged")" = $((${#p[@]} + 1)) ] || { cat "$work/judged"; return 1; }
  done
  judged 0 ok "${p[1]}" && [ "$(grep -c ': ok' "$work/judged")" = 1 ]
}
check "verify of a log looks at all of it" all_of_it
without() { # without WHICH TEXT: a part and its anchor; FIRST and LAST stand for those it lies between
  local n
  parts "without$1" && n=$(($1 < 0 ? ${#p[@]} + $1 : $1)) && away "${p[n]}" || return
  local before=${p[n - 1]} after=${p[n + 1]-$d/a.jsonl} text=$2
  text=${text/BEFORE/$before} text=${text/AFTER/$after}
  judged 1 "$text" "$d" && [ "$(grep -c 'not what was written' "$work/judged")" = 1 ] && judged 1 "$text" "$d/a.jsonl"
}
check "a part in the middle that is gone with its anchor" without 1 'are missing between BEFORE and AFTER'
check "the first one" without 0 'are missing before AFTER'
check "the last one" without -1 'are missing between BEFORE and AFTER'
gone_part() { parts gone_part && rm "${p[1]}" && judged 1 'No such file' "$d/a.jsonl" && ! grep -q 'missing between' "$work/judged"; }
check "a part that only its anchor knows of" gone_part
replaced() { parts replaced && python3 "$work/anew.py" "${p[1]}" && rm "$(anchor_of "${p[1]}")" && judged 1 'does not go on where' "$d"; }
check "a part written anew" replaced
added() {
  parts "added$1" && python3 "$work/more.py" "${p[1]}" && { [ "$1" = anchored ] || rm "$(anchor_of "${p[1]}")"; } &&
    judged 1 'the file was put aside before' "${p[1]}" && judged 1 'the file was put aside before' "$d"
}
check "a line added to what was put aside" added anchored
check "without its anchor, too" added alone
shortened() { parts shortened && sed -i '$d' "${p[1]}" && rm "$(anchor_of "${p[1]}")" && judged 1 'the tail is cut off' "${p[1]}"; }
check "or taken from it" shortened

# A line that is added, moved about in, or beyond all numbers.
fresh
more() { mooncage run --audit "$l" -- true && python3 "$work/more.py" "$l" && judged 0 'the anchor does not know lines with seq 6 to 6' "$l"; }
check "a line that the anchor does not know is told of" more
fresh
late() {
  mooncage run --audit "$l" -- true && sed 's/"0" \* 64/"f" * 64/' "$work/anew.py" >"$work/late.py" && python3 "$work/late.py" "$l" &&
    rm "$(anchor_of "$l")" && judged 1 'does not begin as a log does' "$l"
}
check "a log that begins with a line after another" late
fresh
moved_hash() {
  mooncage run --audit "$l" -- true && sed -i '3s/\("hash":"[0-9a-f]*"\),\(.*\)}$/\2,\1}/' "$l" && judged 1 'line 3 (seq 3) was changed' "$l"
}
check "a hash in another place" moved_hash
beyond() { # beyond SEQ TEXT
  rm -f "$l" "$(anchor_of "$l")" && mooncage run --audit "$l" -- true && sed -i "\$s/\"seq\":5/\"seq\":$1/" "$l" && rm "$(anchor_of "$l")" || return
  gives 125 '' "mooncage run --audit '$l' -- true" "$2"
}
fresh
check "a number that is none: nothing is run" beyond 9223372036854775807 'is no audit event'
check "nor after the last that is one" beyond 9007199254740991 'numbers are used up'
fresh
piped() {
  mooncage run --audit "$l" -- true && rm "$(anchor_of "$l")" && mkfifo "$(anchor_of "$l")" || return
  gives 1 '*' "timeout 20 mooncage audit verify '$l'" && gives 0 '' "timeout 20 mooncage run --audit '$l' -- true" 'has no anchor'
  local s=$?
  rm "$(anchor_of "$l")"
  return $s
}
check "a pipe in the place of an anchor holds nobody up" piped
fresh
died() {
  mooncage run --audit "$l" -- sleep 60 & local engine=$!
  until grep -q '"op":"exec"' "$l" 2>/dev/null; do sleep 0.02; done
  kill -9 $engine
  wait $engine 2>/dev/null
  json_is 0 'd["total"]["open"] == 1' "mooncage --json audit stats '$l'" && mooncage run --audit "$l" -- true || return
  grep -q '"outcome":"unknown"' "$l" && json_is 0 'd["total"]["open"] == 0' "mooncage --json audit stats '$l'"
}
check "what died is begun and not ended until the next says so" died

aside() { # aside HOW: as a writer leaves it that is killed when it has just put the file aside
  rm -f "$l" && n=$(anchor_of "$l") && rm -f "$n" && mooncage run --audit "$l" -- true &&
    part=${l%.jsonl}.000000000005.jsonl && mv "$l" "$part" && cp "$n" "$(anchor_of "$part")" || return
  [ "$1" = whole ] || rm "$part"
  mooncage run --audit "$l" -- true 2>/dev/null
  [ "$(mooncage audit show --op recovered "$l" | wc -l)" = "$2" ]
}
fresh
check "put aside by one who was killed then: nothing is missing" aside whole 0
check "and the chain goes on" gives 0 '' "mooncage -q audit verify ${l%.jsonl}*.jsonl >/dev/null"
fresh
check "unless the part is gone" aside gone 1

fresh
check "a clock that was set back" gives 0 '' \
  "mooncage run --audit '$l' -- true; python3 - '$l' <<'END'
import hashlib, json, sys
lines = open(sys.argv[1]).read().splitlines()
last = json.loads(lines[-1])
event = {'id': 'x', 'mono': 1, 'op': 'open', 'phase': 'point', 'prev': last['hash'], 'seq': last['seq'] + 1,
         'ts': '2099-01-01T00:00:00.000000Z', 'v': 1}
text = json.dumps(event, sort_keys=True, separators=(',', ':'))
event['hash'] = hashlib.sha256((last['hash'] + text).encode()).hexdigest()
open(sys.argv[1], 'a').write(json.dumps(event, sort_keys=True, separators=(',', ':')) + '\n')
END
   mooncage run --audit '$l' -- true; chain '$l' >/dev/null; mooncage audit verify '$l' | grep -q 'the clock went back'"

# Secrets, in whatever is written.
fresh
secrets="local m = require 'mooncage'
local key = m.secret 'tok/en-1234'
m.with({ run_id = 'run tok/en-1234', labels = { a = 'tok/en-1234' }, environment = { KEY = key } }, function(s)
  assert(s:write('tok/en-1234', 'tok/en-1234'))
  s:read('nothing/746f6b2f656e2d31323334')
  s:exec('echo tok/en-1234 \$KEY')
  s:exec({ 'echo', 'dG9rL2VuLTEyMzQ=', 'tok%2Fen-1234' }, { stdin = 'tok/en-1234' })
end)"
check "no secret is in it" gives 0 '' \
  "mooncage run --audit '$l' -e \"$secrets\"; chain '$l' >/dev/null; grep -c -e 'tok/en-1234' -e 746f6b2f656e2d31323334 -e dG9rL2VuLTEyMzQ -e 'tok%2Fen-1234' '$l' >&2; grep -q 'run \\*\\*\\*' '$l'"
fresh
printf 'return { environment = { T = secret "TOKEN" } }' >kept.lua
check "nor in what another process does in a kept session" gives 0 '' \
  "id=\$(TOKEN=tok/en-77 mooncage --config kept.lua create --audit '$l'); mooncage exec \$id -- true tok/en-77; mooncage -q stop \$id >/dev/null
   chain '$l' >/dev/null; grep -q '\"argv\":\[\"true\",\"\*\*\*\"\]' '$l' && ! grep tok/en-77 '$l'"
fresh
check "no place for an anchor is said" gives 0 '' "XDG_STATE_HOME=/proc mooncage run --audit '$l' -- true" 'has no anchor'
fresh
cat >"$work/big.lua" <<'END'
local mooncage = require "mooncage"
local long = ("x"):rep(2 ^ 20)
mooncage.with({}, function(s)
  assert(s:exec { "true", long })
  s:write(("d"):rep(200) .. "/\n{\"op\":\"exec\"}\r\27[2J\226\128\168", "x")
  s:write("\255\254", "x")
end)
END
check "a word of a megabyte is cut, and nothing breaks a line" gives 0 '' \
  "mooncage run --audit '$l' $work/big.lua; chain '$l' >/dev/null; test \$(wc -c <'$l') -lt 50000"
check "or reach a terminal" gives 0 0 "mooncage audit show '$l' | grep -c \$'\\33' || true"

# Logs that others have written.
cat >"$work/evil.jsonl" <<'END'
{"op":5,"phase":{},"session":[1],"argv":"x","detail":[1],"error":"e","exit_code":{},"ts":5,"usage":"x","tenant":{}}
{"op":"exec","phase":"start","argv":[[1],{"base64":5},{"words":"x"},{"text":{"text":1}},null],"shell":{"base64":"!"},"path":{"len":"x"},"error":{"code":[]},"decision":{"by":{}},"detail":{"what":[1],"first_seq":"a"}}
[]
"x"
{"op":"close","phase":"point","usage":{"wall_clock_s":"x","max_rss_mb":[]},"id":[1]}
{"op":"exec","phase":"finish","id":{"a":1},"session":{"x":1},"tenant":{"base64":"eA=="}}
END
# One event each, whatever is in it: in op, phase, session, ts, tenant; and one more, whose words turn round.
python3 - "$work/forged.jsonl" <<'END'
import json, sys
evil = "\ufeff\x1b[2J\x1b]0;t\x07\nforged\tline\r\u009b1m\u2028\u2029\u202e\u2066\u200f\u061c\x7f"
with open(sys.argv[1], "w") as log:
    for key in "op", "phase", "session", "ts", "tenant":
        event = {"op": "open", "phase": "start", "session": "s", "ts": "2026-11-30T00:00:00Z", key: evil}
        print(json.dumps(event), file=log)
    print(json.dumps({"op": "exec", "phase": "start", "argv": ["a", evil], "error": {"code": evil, "message": evil}}), file=log)
END
acts() { LC_ALL=C grep -cP "[\\x00-\\x08\\x0b-\\x1f\\x7f]|\\xc2[\\x80-\\x9f]|\\xe2\\x80[\\x8e\\x8f\\xa8-\\xae]|\\xe2\\x81[\\xa6-\\xa9]|\\xd8\\x9c|\\xef\\xbb\\xbf|\\xed[\\xa0-\\xbf]|^forged"; }
export -f acts
check "show of forged lines: a line each, and nothing acts" gives 0 "6
0" "mooncage audit show '$work/forged.jsonl' >'$work/shown'; wc -l <'$work/shown'; acts <'$work/shown' || true"
check "stats of forged lines" gives 0 "7
0" "mooncage audit stats '$work/forged.jsonl' >'$work/shown'; grep -c . '$work/shown'; acts <'$work/shown' || true"
head -c 5000 /dev/urandom >>"$work/evil.jsonl"
for action in show tail stats; do
  check "$action of garbage" gives 0 '*' "mooncage audit $action '$work/evil.jsonl' 2>&1 | grep -q traceback && exit 3; mooncage audit $action '$work/evil.jsonl'"
done
check "verify of garbage" gives 1 '*' "mooncage audit verify '$work/evil.jsonl'"

# Other sinks, and several at once.
fresh
check "standard error" gives 0 '' \
  "echo 'return { audit = mooncage.audit.stderr() }' >s.lua; mooncage --config s.lua run -- true 2>err; chain err >/dev/null"
for place in '2>/dev/full' '2>&-' '<&- >&- 2>&-'; do
  check "standard error that takes nothing, $place: nothing is run" gives 125 '' \
    "rm -f '$work/ran'; mooncage --config s.lua run -- touch '$work/ran' $place; s=\$?; [ ! -e '$work/ran' ] && exit \$s"
done
both="local m = require 'mooncage'
local ops = {}
local audit = { m.audit.jsonl { path = '$l', durable = true }, m.audit.callback(function(e, line)
  m.sleep(0.001)
  assert(m.json.decode(line).hash == e.hash)
  ops[#ops + 1] = e.op .. ' ' .. e.phase
end) }
m.with({ audit = audit }, function(s) assert(s:write('a', 'x')) end)
print(table.concat(ops, ', '))"
check "a file that is durable, and a function" gives 0 'open start, open finish, write start, write finish, close point' \
  "mooncage run -e \"$both\" && chain '$l' >/dev/null"
throws="local m = require 'mooncage'
local s, err = m.open { audit = m.audit.callback(function() error 'no' end) }
print(s, err.code, err.message:match 'no\$')"
check "a function that throws: nothing is opened" gives 0 $'nil\taudit_failed\tno' "mooncage run -e \"$throws\""
refuses="local m = require 'mooncage'
local seen = 0
local _, err = m.with({ audit = m.audit.callback(function(e) if e.op == 'write' then seen = seen + 1; error 'no' end end) },
  function(s) return s:write('a', 'x') end)
print(err.code, seen)"
check "or nothing is done" gives 0 $'audit_failed\t1' "mooncage run -e \"$refuses\""
