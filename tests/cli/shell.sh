# shell.sh: the interactive terminal, on a PTY that a small Python program plays the user of.
# Sourced by run.

check "shell needs a terminal" gives 2 '' 'mooncage shell </dev/null' terminal
terminal() { timeout 90 python3 "$root/tests/cli/terminal.py" "$@"; }
for what in hello size resize interrupt uncaught status joined restored killed; do
  check "shell: $what" terminal "$what"
done
