# machine.sh: doctor and reap.
# Sourced by run.

check "doctor" gives 0 '*' 'mooncage doctor'
check "doctor names the mechanisms" shows seccomp 'mooncage doctor'
check "reap with nothing to do" gives 0 '' 'mooncage reap' 'nothing was left'
check "reap --dry-run" gives 0 '*' 'mooncage reap --dry-run'
