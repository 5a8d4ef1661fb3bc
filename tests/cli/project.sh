# project.sh: --project: a view of one's own tree, the changes shown, dropped or written back.
# Sourced by run.

fresh() {
  rm -rf project
  mkdir -p project/.git/hooks
  printf 'first\n' >project/README.md
  printf 'old\n' >project/old
}
fresh
change="sh -c 'echo x >> README.md; rm old; echo n > new'"
check "--diff lists what changed" gives 0 '*' "mooncage run --project project --diff -- $change >diff"
check "  M" grep -qx 'M README.md' diff
check "  D" grep -qx 'D old' diff
check "  A" grep -qx 'A new' diff
check "  and how" grep -qx '+x' diff
check "the tree is untouched" gives 0 $'first\nold' 'cat project/README.md project/old; test ! -e project/new'
check "--json has both" json_is 0 'len(d["project"]["changes"]) == 3 and "+x" in d["project"]["diff"]' \
  "mooncage --json run --project project --diff -- $change"
check "--apply writes it" gives 0 $'first\nx\nn' \
  "mooncage run --project project --apply -- $change && cat project/README.md project/new && test ! -e project/old"
fresh
check "a failed command's changes are not written" gives 3 first \
  "mooncage run --project project --apply -- sh -c 'echo x >> README.md; exit 3'; s=\$?; cat project/README.md; exit \$s" \
  'nothing was written'
check "under .git only with --apply-git" gives '*' '' \
  "! mooncage run --project project --apply -- sh -c 'echo evil > .git/hooks/post-checkout'" .git
check "nothing there" test ! -e project/.git/hooks/post-checkout
check "--apply-git" gives 0 '' \
  "mooncage run --project project --apply --apply-git -- sh -c 'echo fine > .git/hooks/x'"
check "is there" test -e project/.git/hooks/x
check "--json tells what was written" json_is 0 \
  '[c["path"] for c in d["project"]["applied"]] == ["README.md"]' \
  "mooncage --json run --project project --apply -- sh -c 'echo y >> README.md'"
check "people are told how much" gives 0 '' \
  "mooncage run --project project --apply -- sh -c 'echo z >> README.md'" '1 change written to project'
check "a name takes one line of the list" gives 0 'A a\nM README.md' \
  "mooncage run --project project --diff -- sh -c ': > \"\$(printf \"a\\nM README.md\")\"'"
check "a directory that is missing" gives 125 '' 'mooncage run --project no/such -- true' 'no/such'
kept_view() {
  local id code
  fresh
  id=$(mooncage create --project project) || return 1
  gives 0 $'first\nx' "mooncage exec $id -- sh -c 'echo x >> README.md; cat README.md'" &&
    gives 0 first 'cat project/README.md'
  code=$?
  mooncage stop "$id" >/dev/null
  return $code
}
check "a session that stays can have a view, too" kept_view
fresh
id=$(mooncage create --project project)
check "change it, in two commands" gives 0 '' "mooncage exec $id -- sh -c 'echo x >> README.md; rm old'
  mooncage exec $id -- sh -c 'echo n > new'"
check "diff of a session that stays" gives 0 '*' "mooncage diff $id > diff"
check "  M" grep -qx 'M README.md' diff
check "  D" grep -qx 'D old' diff
check "  A" grep -qx 'A new' diff
check "  and how" grep -qx '+x' diff
check "it stays after that, and the tree is untouched" gives 0 $'first\nold' \
  "mooncage exec $id -- true && cat project/README.md project/old; test ! -e project/new"
check "diff --json" json_is 0 "len(d['project']['changes']) == 3 and d['session']['id'] == '$id'" \
  "mooncage --json diff ${id:0:8}"
check "what must not be written is refused" gives 125 '' \
  "mooncage exec $id -- sh -c 'ln -s /etc/passwd out' && mooncage apply $id" 'nothing was written'
check "  the session stays, to mend it" gives 0 old "mooncage exec $id -- rm out && cat project/old"
check "under .git only with --git" gives 125 '' \
  "mooncage exec $id -- sh -c 'echo fine > .git/hooks/x' && mooncage apply $id" .git
sleep 0.02 # the clock of file systems ticks more slowly than that of commands
check "a file changed on the host meanwhile is a conflict" gives 125 '' \
  "echo mine >> project/README.md; mooncage apply --git $id" 'README.md'
check "  and the session stays" gives 0 $'first\nx' "mooncage exec $id -- cat README.md"
check "  nothing was written" gives 0 $'first\nmine\nold' 'cat project/README.md project/old'
check "stop drops it" gives 0 '*' "mooncage stop $id; test ! -e project/new"
fresh
id=$(mooncage create --project project)
check "apply writes it" gives 0 '' \
  "mooncage exec $id -- sh -c 'echo x >> README.md; rm old; echo n > .git/hooks/x; (setsid sleep ${nap}41 >/dev/null 2>&1 &)'
    mooncage apply --git $id" '3 changes written to '
check "  it is there" gives 0 $'first\nx\nn' 'cat project/README.md project/.git/hooks/x; test ! -e project/old'
check "  the session has ended, with all in it" no_process "sleep ${nap}41"
check "  and is not listed" gives 125 '' "mooncage diff $id" "no session $id"
check "apply --json" json_is 0 '[c["path"] for c in d["project"]["applied"]] == ["README.md"]' \
  "id=\$(mooncage create --project project); mooncage exec \$id -- sh -c 'echo y >> README.md'; mooncage --json apply \$id"
check "apply of nothing changed" gives 0 '' \
  'mooncage apply $(mooncage create --project project)' '0 changes written'
check "diff of a session without a view" gives 125 '' \
  'id=$(mooncage create); mooncage diff $id; s=$?; mooncage stop $id >/dev/null; exit $s' 'no view of a project'
check "diff needs a session" gives 2 '' 'mooncage diff' 'the id of a session'
check "and only one" gives 2 '' 'mooncage apply a b' 'unexpected word b'
