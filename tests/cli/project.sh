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
