# snapshot.sh: mooncage snapshot, and --snapshot of run, shell and create.
# Sourced by run. In a directory of its own: what the other subjects have left has its names.

mkdir snapshots
cd snapshots || exit 1

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

# A key, a tenant, a relative place: of the configuration.
keyed() {
  config keyed.lua "return { snapshot_store = mooncage.store.file { dir = \"$PWD/keyed\", hmac_key = \"K0123456789\" } }"
  gives 0 key@1 "mooncage --config keyed.lua snapshot save --store keyed $kept key" &&
    gives 0 hmac-sha256 "grep -o 'hmac-sha256' keyed/common/key.json" &&
    gives 0 key@1 "mooncage --config keyed.lua snapshot restore --store keyed $kept key" &&
    gives 0 forged@1 "mooncage snapshot save --store keyed $kept forged" &&
    gives 125 '' "mooncage --config keyed.lua snapshot restore --store keyed $kept forged" 'sealed without a key'
}
check "--store keeps the configuration's key" keyed
named_parts() {
  config parts.lua "return { snapshot_store = mooncage.store.file { dir = \"$PWD/parts\" },
    selector = function() error 'nobody chooses here' end, tenants = function(tenant)
    if tenant ~= 'acme' then return nil, 'unknown' end
    return { store_prefix = 'shared', limits = { disk_mb = 2 }, allowed_tools = { 'shell' } }
  end }"
  sed '/selector/s/selector = .*end, //' parts.lua >open.lua
  gives 0 '' 'mooncage --config open.lua run --tenant acme --snapshot a -- true' &&
    gives 0 a 'mooncage --config parts.lua snapshot ls -q --tenant acme' &&
    gives 0 a 'mooncage --config parts.lua snapshot ls -q --store-prefix shared' &&
    gives 0 $'b@1\nparts/prefix-shared/b.json' \
      'mkdir -p e; tar -C e -c . | mooncage --config parts.lua snapshot import --tenant acme b; find parts -name b.json' &&
    gives 125 '' 'head -c 3000000 /dev/urandom >fat; tar -c fat | mooncage --config parts.lua snapshot import --tenant acme fat' 'disk' &&
    gives 126 '' 'mooncage --config parts.lua snapshot ls --tenant other' 'tenant "other" is denied: unknown' &&
    gives 126 '' 'mooncage --config parts.lua snapshot ls' 'fix: name the tenant with --tenant' &&
    gives 2 '' 'mooncage --config parts.lua snapshot ls --tenant ../x' '--tenant: byte 1'
}
check "--tenant is what tenants says of it" named_parts
from_elsewhere() {
  mkdir -p made asked
  config made/c.lua 'return { snapshot_store = mooncage.store.file { dir = "snaps" },
    audit = mooncage.audit.jsonl { path = "log" } }'
  gives 0 $'here@1\nmade/log\nmade/snaps/common/here.json' 'cd made; id=$(mooncage --config c.lua create); cd ../asked
    mooncage exec $id -- true; mooncage snapshot save $id here; mooncage stop $id >/dev/null
    cd ..; find made asked -name log -o -name here.json | sort'
}
check "relative places are those of who made the session" from_elsewhere

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
check "to a full disk" gives 125 '' 'mooncage snapshot export before > /dev/full' 'No space left'
# Never by the name /dev/stdout: a version that replaces links would replace the machine's.
ln -sf /proc/self/fd/1 output
check "to a name of our own output, with nothing after it" gives 0 $'./\nd/\nf\nl\nm\nsame\nsame' \
  'mooncage snapshot export before output | tar -t | sort; mooncage snapshot export before >plain.tar
    mooncage snapshot export before output >same.tar; cmp plain.tar same.tar && echo same; find output -type l | sed s/.*/same/'
check "to what a link leads to" gives 0 $'before@1\nlink\n600\nold' \
  'echo x > real; ln -s real link; mooncage snapshot export before link; find link -type l; stat -c %a real; tar -xOf real f'
check "to a link that leads nowhere" gives 125 '' 'ln -s nowhere lost; mooncage snapshot export before lost' 'no link to nowhere'
check "to a directory" gives 2 '' 'mooncage snapshot export before .' 'fix: name a file in that directory'
check "to a fifo, which stays one" gives 0 $'before@1\n./\nd/\nf\nl\nm\nfifo' \
  'mkfifo fifo; tar -t <fifo >listed & mooncage snapshot export before fifo; wait; sort listed; find fifo -type p'
if mknod null c 1 3 2>/dev/null; then
  check "to a device, which stays one" gives 0 $'before@1\nnull' 'mooncage snapshot export before null; find null -type c'
fi
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
# A tree that only a sandbox of the configuration would see.
bare_import() {
  local own=$1
  rm -rf seen arch && mkdir -p seen arch/b && echo secret >seen/secret && echo new >arch/b/new
  tar -C arch -cf arch.tar .
  config bare.lua "return { $own, project = \"$PWD/x\",
    manifest = { files = { [\"more\"] = \"1\" } }, environment = { A = \"1\" } }"
  gives 0 $'./\nb/\nb/new' 'mooncage --config bare.lua snapshot import bare arch.tar >/dev/null; mooncage snapshot export bare | tar -t | sort' &&
    gives 0 secret 'ls seen'
}
check "import is not into a directory of the host" bare_import "working_directory = \"$PWD/seen\", backend = mooncage.subprocess {}"
check "nor through a bind" bare_import "backend = mooncage.jail { binds = { \"$PWD/seen:/workspace/b:rw\" } }"
check "import keeps to snapshot.max_mb" gives 125 '' 'echo "return { snapshot = { max_mb = 1 } }" > most.lua
  head -c 3000000 /dev/urandom > big; tar -c big | mooncage --config most.lua snapshot import most' 'snapshot.max_mb'
check "import is told to the hook, and to the log of the configuration" gives 0 $'told@1\ntold\ntold' "
  echo 'return { audit = mooncage.audit.jsonl { path = \"told.log\" },
    hooks = { on_sandbox_snapshot = function(_, _, _, saved) print(saved.snapshot_id) end } }' > told.lua
  mooncage --config told.lua snapshot import told out.tar | sort -r; grep -o 'told' told.log | sort -u"
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

# What is not written is no success, and is spoken of.
unwritten() {
  local what
  for what in 'ls' 'ls -q' '--json ls' 'show before' 'export before' 'import back out.tar' 'rm back' 'gc --dry-run'; do
    local words=("mooncage snapshot" "$what")
    [ "${what#--json }" = "$what" ] || words=("mooncage --json snapshot" "${what#--json }")
    [ "$what" != 'gc --dry-run' ] || : >"$XDG_STATE_HOME/mooncage/snapshots/common/data/left.aaaaaaaaaaaaaaaaaaaaaaaaaa.new"
    gives 125 '' "${words[*]} >/dev/full" 'cannot write to standard output: No space left' ||
      { echo "that was: $what"; return 1; }
  done
}
check "output that is not written" unwritten

# What a signal cuts short leaves nothing.
cut_short() {
  local signal try code
  mooncage run -e 'local left = 300
    assert(require("mooncage").store.file():save { id = "long", data = function()
      left = left - 1
      return left >= 0 and ("x"):rep(1e6) or nil
    end })' || return 1
  mkdir -p cut
  for signal in INT TERM HUP; do
    for try in 1 2 3 4 5; do
      # A job in the background ignores SIGINT unless it is told otherwise.
      env --default-signal=INT mooncage snapshot export long cut/long >"$work/cut" 2>&1 &
      while ! compgen -G 'cut/*' >/dev/null && kill -0 $! 2>/dev/null; do :; done
      kill -"$signal" $! 2>/dev/null
      wait $!
      code=$?
      [ $code != 0 ] && break
      rm -f cut/long
    done
    [ $code = $((128 + $(kill -l $signal))) ] || { echo "$signal: exit status $code in try $try"; cat "$work/cut"; return 1; }
    [ -z "$(ls cut)" ] || { echo "$signal left $(ls cut)"; return 1; }
  done
  mooncage snapshot rm long >/dev/null
}
check "an export that a signal ends leaves nothing" cut_short

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
cd ..
