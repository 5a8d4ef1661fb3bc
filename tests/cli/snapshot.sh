# snapshot.sh: mooncage snapshot, and --snapshot of run, shell and create.
# Sourced by run.

check "ls of an empty store" gives 0 '' 'mooncage snapshot ls -q'
check "ls --json of one" json_is 0 "d == {'snapshots': []}" 'mooncage --json snapshot ls'
check "snapshot without an action" gives 2 '' 'mooncage snapshot' 'save, restore, ls'
check "snapshot of what is none" gives 2 '' 'mooncage snapshot lss' 'did you mean mooncage snapshot ls?'
check "show of none" gives 125 '' 'mooncage snapshot show nosuch' nosuch
check "an id that is none" gives 2 '' 'mooncage snapshot show ../x' 'fix:'
check "save of no session" gives 125 '' 'mooncage snapshot save nosuch one' 'there is no session nosuch'

# A session that stays is saved, changed and brought back.
kept=$(mooncage create)
check "save" gives 0 one@1 "mooncage exec $kept -- sh -c 'echo old > f; mkdir d; ln -s f l' && mooncage snapshot save $kept one"
check "again" gives 0 one@2 "mooncage snapshot save $kept one"
check "save --json" json_is 0 "d['snapshot']['snapshot_id'] == 'two' and d['snapshot']['version'] == 1" \
  "mooncage --json snapshot save ${kept:0:6} two"
check "the log says which" gives 0 one@2 \
  "mooncage audit show --op snapshot | grep -o 'one@2 ' | tr -d ' ' | sort -u"
check "save under a bad id" gives 2 '' "mooncage snapshot save $kept a/b" 'fix:'
check "restore" gives 0 $'one@2\nold\nd\nf\nl' \
  "mooncage exec $kept -- sh -c 'echo new > f; rm -r d; touch g' && mooncage snapshot restore $kept one && mooncage exec $kept -- sh -c 'cat f; ls'"
restore_ends_commands() {
  mooncage exec "$kept" -- sh -c "echo up; exec sleep ${nap}40" >"$work/up" 2>/dev/null &
  local pid=$! _
  for _ in $(seq 400); do grep -q up "$work/up" && break; sleep 0.05; done
  gives 0 one@2 "mooncage snapshot restore $kept one"
  local code=$?
  wait $pid
  [ $code = 0 ] && no_process "sleep ${nap}40"
}
check "restore ends what runs" restore_ends_commands
check "restore of none changes nothing" gives 125 old \
  "mooncage snapshot restore $kept nosuch; code=\$?; mooncage exec $kept -- cat f; exit \$code" nosuch
check "restore into another session, from another store" gives 0 $'three@1\nthree@1\nold' \
  "mooncage snapshot save --store $work/st $kept three; id=\$(mooncage create); mooncage snapshot restore --store $work/st \$id three
    mooncage exec \$id -- cat f; mooncage stop \$id > /dev/null"
check "not from one that the sandbox may change" gives 2 '' \
  "id=\$(mkdir -p $work/proj && mooncage create --project $work/proj); mooncage snapshot save --store $work/proj/st \$id four
    code=\$?; mooncage stop \$id > /dev/null; exit \$code" 'the sandbox may change'
check "which is not in the usual one" gives 125 '' 'mooncage snapshot show three' three
check "--tenant is not for save" gives 2 '' "mooncage snapshot save --tenant t $kept one" 'its part of the store'

# What is there.
check "ls is in order" gives 0 $'a\none\ntwo' "mooncage snapshot save $kept a >/dev/null; mooncage snapshot ls -q"
check "ls of a prefix" gives 0 one 'mooncage snapshot ls -q o'
check "ls for people" shows VERSION 'mooncage snapshot ls'
check "ls --json" json_is 0 "[s['snapshot_id'] for s in d['snapshots']] == ['a', 'one', 'two'] and d['snapshots'][1]['file_count'] == 2" \
  'mooncage --json snapshot ls'
check "show" shows 'snapshot_id: one' 'mooncage snapshot show one'
check "show has the version" shows 'version: 2' 'mooncage snapshot show one'
check "show --json" json_is 0 "d['snapshot']['version'] == 2 and len(d['snapshot']['sha256']) == 64" 'mooncage --json snapshot show one'
check "a configured store" gives 0 three \
  "echo 'return { snapshot_store = mooncage.store.file { dir = \"$work/st\" } }' > c.lua; mooncage --config c.lua snapshot ls -q"
check "a tenant sees its own" gives 0 'of-t' \
  'mooncage run --tenant t --snapshot of-t -- touch x; mooncage snapshot ls -q of-; mooncage snapshot ls -q --tenant t'
damaged() {
  mooncage snapshot save --store "$work/bad" "$kept" hurt >/dev/null || return 1
  printf x | dd of="$(echo "$work"/bad/common/data/hurt.*)" bs=1 seek=600 conv=notrunc 2>/dev/null
  gives 125 '' "mooncage snapshot export --store $work/bad hurt x.tar" 'hurt' && gives 1 '' 'test -e x.tar' &&
    gives 125 '' "mooncage snapshot export --store $work/bad hurt" 'hurt' &&
    gives 125 '' "mooncage snapshot restore --store $work/bad $kept hurt" && gives 0 old "mooncage exec $kept -- cat f"
}
check "a damaged one is not used" damaged

# Differences, by path.
check "diff" gives 0 $'D d\nM f\nA g\nT l  link -> directory\nM m  mode 644 -> 755' "
  mooncage exec $kept -- sh -c 'echo m > m; chmod 644 m' && mooncage snapshot save $kept before > /dev/null
  mooncage exec $kept -- sh -c 'echo new > f; rm -r d l; touch g; mkdir l; chmod 755 m; touch -d @1 m' && mooncage snapshot save $kept after >/dev/null
  mooncage snapshot diff before after"
check "diff of two that are the same" gives 0 '' 'mooncage snapshot diff before before'
check "diff of one and none" gives 125 '' 'mooncage snapshot diff before nosuch' nosuch
check "diff --json" json_is 0 "[(c['op'], c['path']) for c in d['changes']] == [('D','d'),('M','f'),('A','g'),('T','l'),('M','m')] and d['changes'][-1]['what'] == ['mode'] and d['changes'][-2]['old_kind'] == 'link'" 'mooncage --json snapshot diff before after'
check "diff of odd names, hard links, long ones" gives 0 $'M a\\nb\nM hard\nM '"$(printf 'n%.0s' {1..90})/$(printf 'm%.0s' {1..90})"$'\nA \xff' "
  mooncage exec $kept -- sh -c 'rm -rf ./*; echo 1 > \"a
b\"; ln \"a
b\" hard; n=\$(printf \"n%.0s\" \$(seq 90)); m=\$(printf \"m%.0s\" \$(seq 90)); mkdir \$n; echo 1 > \$n/\$m' && mooncage snapshot save $kept odd1 > /dev/null
  mooncage exec $kept -- sh -c 'echo 2 > hard; for f in n*/m*; do echo 2 > \$f; done; touch \"\$(printf \"\\377\")\"' && mooncage snapshot save $kept odd2 > /dev/null
  mooncage snapshot diff odd1 odd2"

# rm
check "rm of several with one missing" gives 125 $'a\ntwo' 'mooncage snapshot rm a nosuch two' nosuch
check "the rest is there" gives 0 $'after\nbefore\nodd1\nodd2\none' 'mooncage snapshot ls -q'
check "rm --json" json_is 125 "d['removed'] == ['odd1', 'odd2'] and d['error']['code'] == 'not_found'" 'mooncage --json snapshot rm odd1 odd2 odd2'

# Out and in.
check "export is plain tar" gives 0 $'before@1\n./\nd/\nf\nl\nm\nold' \
  'mooncage snapshot export before out.tar && tar -tf out.tar | sort && tar -xOf out.tar f'
check "export to standard output" gives 0 $'./\nd/\nf\nl\nm' 'mooncage snapshot export before | tar -t | sort'
check "to a full disk" gives 125 '' 'mooncage snapshot export before > /dev/full' ''
check "export --json needs a file" gives 2 '*' 'mooncage --json snapshot export before'
check "import" gives 0 $'back@1' 'mooncage snapshot import back out.tar'
check "it is the same" gives 0 '' 'mooncage snapshot diff before back'
check "import from standard input, of what GNU tar wrote" gives 0 $'gnu@1\nA x\nA x/y' \
  'mkdir x; echo y > x/y; tar -c x | mooncage snapshot import gnu; mooncage snapshot diff before gnu | grep x'
unsafe() {
  python3 -c '
import io, tarfile
t = tarfile.open("evil.tar", "w")
i = tarfile.TarInfo("../evil"); i.size = 1; t.addfile(i, io.BytesIO(b"x")); t.close()'
  gives 125 '' 'mooncage snapshot import evil evil.tar' '../evil in the archive has a name with' &&
    gives 125 '' 'gzip -c out.tar | mooncage snapshot import evil' 'is gzip, not plain tar' &&
    gives 125 '' 'mooncage snapshot import evil < /dev/null' 'is empty' &&
    gives 125 '' 'mooncage snapshot import evil missing.tar' missing.tar &&
    gives 0 '' 'mooncage snapshot ls -q evil'
}
check "import refuses what is unsafe" unsafe
check "import of what does not fit" gives 125 '' \
  'head -c 9000000 /dev/urandom > big; tar -c big | mooncage snapshot import --disk 4M big' 'fix:'
check "with room for it" gives 0 big@1 'tar -c big | mooncage snapshot import --disk 64M big'

# --snapshot
check "run --snapshot" gives 0 $'1\n1\n2' \
  'mooncage run --snapshot r -- sh -c "echo 1 >> log; cat log"; mooncage run --snapshot r -- sh -c "echo 2 >> log; cat log"'
check "what fails is not saved" gives 3 $'1\n2' \
  'mooncage run --snapshot r -- sh -c "echo 3 >> log; exit 3"; code=$?; mooncage run --snapshot r -- cat log; exit $code'
check "nor what is killed, or not copied out" gives 124 $'1\n2' \
  'mooncage run --snapshot r --copy-out nosuch -- sh -c "echo 4 >> log" 2> /dev/null
    mooncage run --snapshot r --timeout 300ms -- sh -c "echo 3 >> log; sleep 9"; code=$?; mooncage run --snapshot r -- cat log; exit $code'
check "run --snapshot --store" gives 0 mine "mooncage run --store $work/own --snapshot mine -- true; mooncage snapshot ls -q --store $work/own"
check "a script's sessions" gives 0 script@1 \
  'mooncage run --snapshot script -e "local m = require \"mooncage\" m.with({}, function(s) assert(s:exec \"touch x\") return true end)"
    mooncage --json snapshot show script | python3 -c "import json,sys; s = json.load(sys.stdin)[\"snapshot\"]; print(s[\"snapshot_id\"] + \"@\" + str(s[\"version\"]))"'
check "a script that fails" gives 1 '' \
  'mooncage run --snapshot script2 -e "local m = require \"mooncage\" m.with({}, function(s) assert(s:exec \"touch x\") error \"no\" end)" 2>/dev/null
    code=$?; mooncage snapshot ls -q script2; exit $code'
check "create --snapshot: saved when it is stopped" gives 0 $'kept@1\n5' \
  'id=$(mooncage create --snapshot c) && mooncage exec $id -- sh -c "echo 5 > f" && mooncage snapshot save $id kept && mooncage stop $id > /dev/null
    mooncage run --snapshot c -- cat f'
check "and when its time is over" gives 0 6 \
  'id=$(mooncage create --ttl 2s --snapshot ttl) && mooncage exec $id -- sh -c "echo 6 > f"
    for i in $(seq 100); do mooncage snapshot ls -q ttl | grep -q . && break; sleep 0.1; done; mooncage run --snapshot ttl -- cat f'
check "a bad id opens nothing" gives 2 '' 'mooncage run --snapshot a/b -- touch x' '--snapshot'
check "a snapshot of another manifest" gives 125 '' \
  'echo "return { files = { [\"x\"] = \"1\" } }" > m.lua; mooncage run --manifest m.lua --snapshot r -- true' 'another manifest'
terminal_saved() {
  python3 - <<'PY'
import os, pty, subprocess
for code in (0, 3):
    child, fd = pty.fork()
    if child == 0:
        os.execvp("mooncage", ["mooncage", "shell", "--snapshot", "sh%d" % code, "--", "sh", "-c", "echo typed > f; exit %d" % code])
    try:
        while os.read(fd, 1000):
            pass
    except OSError:
        pass
    os.waitpid(child, 0)
print(subprocess.run("mooncage snapshot ls -q sh; mooncage run --snapshot sh0 -- cat f", shell=True, stdout=subprocess.PIPE, text=True).stdout.split())
PY
}
check "shell --snapshot" gives 0 "['sh0', 'typed']" "$(declare -f terminal_saved); terminal_saved"

# What a writer that was killed has left.
killed_writer() {
  mooncage run -e 'local m = require "mooncage"
    local given
    m.store.file():save { id = "cut", data = function()
      if given then io.write "up\n" io.flush() os.execute "exec sleep 5" end
      given = true
      return ("x"):rep(1e6)
    end }' >"$work/up" 2>&1 &
  local pid=$! _
  for _ in $(seq 400); do grep -q up "$work/up" && break; sleep 0.05; done
  kill -KILL $pid
  wait $pid 2>/dev/null
  gives 0 1 'mooncage snapshot gc --dry-run | grep -c "^would remove cut"' &&
    json_is 0 "len(d['removed']) == 1 and d['dry_run']" 'mooncage --json snapshot gc --dry-run' &&
    gives 0 1 'mooncage snapshot gc | grep -c "^removed cut"' && gives 0 '' 'mooncage snapshot gc' 'nothing was left' &&
    gives 0 '' 'mooncage snapshot ls -q cut'
}
check "gc of what a killed save has left" killed_writer
mooncage stop "$kept" >/dev/null
