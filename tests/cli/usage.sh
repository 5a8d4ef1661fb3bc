# usage.sh: help, version, wrong usage, completion, man page.
# Sourced by run.

check "no command: help on stderr, status 2" gives 2 '' 'mooncage' 'Usage:'
check "--help" shows 'Commands:' 'mooncage --help'
check "--version" shows 'mooncage 0.' 'mooncage --version'
check "--json --version" json_is 0 'd["version"]' 'mooncage --json --version'
for command in run shell create exec cp ps stop reap doctor completion; do
  check "$command --help" shows "mooncage $command" "mooncage $command --help"
done
check "help COMMAND" shows 'mooncage run' 'mooncage help run'

check "unknown command, with the nearest" gives 2 '' 'mooncage rnu' 'did you mean mooncage run?'
check "a command of later" gives 2 '' 'mooncage serve' 'unknown command serve'
check "unknown flag, with the nearest" gives 2 '' 'mooncage run --memroy 1M -- true' \
  'did you mean --memory?'
check "an unknown flag that is like none" gives 2 '' 'mooncage run --user x -- true' 'run --help'
check "a size without sense" gives 2 '' 'mooncage run --memory lots -- true' 'is no size'
check "a duration without unit" gives 2 '' 'mooncage run --timeout 5 -- true' 'is no duration'
check "a flag without its value" gives 2 '' 'mooncage run --memory' '--memory needs a value'
check "a command without --" gives 2 '' 'mooncage run ls -l' 'mooncage run -- ls -l'
check "--diff without --project" gives 2 '' 'mooncage run --diff -- true' '--diff needs --project'
check "--json tells of wrong usage on stdout" json_is 2 \
  'd["error"]["code"] == "invalid" and "did you mean" in d["error"]["fix"]' \
  'mooncage --json rnu 2>/dev/null'
check "no colour in a pipe" gives 2 '' "mooncage rnu 2>&1 | grep -c $'\e' >&2; exit \${PIPESTATUS[0]}" 0
check "--color always" gives 2 '*' "mooncage --color always rnu" $'\e['

check "completion bash is bash" gives 0 '' 'mooncage completion bash | bash -n'
bash_completes() {
  local wanted=$1
  shift
  mooncage completion bash >"$work/complete.bash"
  bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mooncage
    printf "%s\n" "${COMPREPLY[@]}"' bash "$work/complete.bash" "$@" >"$work/replies"
  grep -qxF -- "$wanted" "$work/replies" || { cat "$work/replies"; return 1; }
}
check "bash completes commands" bash_completes completion mooncage comp
check "bash completes flags of a command" bash_completes --memory mooncage run --mem
check "bash completes choices" bash_completes subprocess mooncage run --backend su
check "bash completes shells" bash_completes fish mooncage completion f
for shell in zsh fish; do
  if command -v $shell >/dev/null; then
    check "completion $shell is $shell" gives 0 '' \
      "mooncage completion $shell > '$work/completion.$shell' && $shell -n '$work/completion.$shell'"
  else
    skip "completion $shell is $shell" "$shell is not installed"
  fi
done
if command -v fish >/dev/null; then
  check "fish completes flags" shows --memory \
    "fish -c 'source $work/completion.fish; complete -C \"mooncage run --mem\"'"
else
  skip "fish completes flags" "fish is not installed"
fi
check "no completion for tcsh" gives 2 '' 'mooncage completion tcsh' 'bash, zsh, fish'

check "the man page is made from the same table" gives 0 '' \
  "mooncage __document man | cmp - '$root/docs/mooncage.1'"
check "docs/commands.md too" gives 0 '' "mooncage __document markdown | cmp - '$root/docs/commands.md'"
if command -v mandoc >/dev/null; then
  # Which other pages are installed (bwrap's, those of system calls) is the machine's affair.
  man_pages() {
    mandoc -T lint "$root"/docs/mooncage.[13] 2>/dev/null | grep -v 'STYLE: referenced manual not found: '
  }
  check "the man pages pass mandoc -T lint" none man_pages
else
  skip "the man pages pass mandoc -T lint" "mandoc is not installed"
fi
check "a full disk is no success" gives 125 '' 'mooncage --help >/dev/full'
plain_errors() {
  mooncage $'\e[31mred' 2>"$work/stderr"
  ! grep -q $'\e' "$work/stderr" && grep -q red "$work/stderr"
}
check "an error shows control characters, and does not send them" plain_errors
