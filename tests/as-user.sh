# as-user.sh: for ./run-tests as root: runs a suite once more as an ordinary user, from a copy of the
# tree that the user can reach, either inside cgroup directories that were handed over to it
# (`delegated`, as systemd does it on a desktop) or in the caller's own (`plain`). Sourced by bash.

# Who: the one behind sudo, else a number that is nobody's. Where it has no name and no range of
# subordinate ids it has both in files of its own, which lie over those of /etc in a mount namespace of
# the suite's: nothing of the machine is changed, and newuidmap and newgidmap do what they do for a person.
user_id=${SUDO_UID:-12345}
group_id=${SUDO_GID:-12345}
user_copy=

# What the suites need, without objects and logs. Made once a run.
make_user_copy() {
  [ -z "$user_copy" ] || return 0
  user_copy=$(mktemp -d /tmp/mooncage-user.XXXXXX) || return
  chmod 755 "$user_copy"
  trap 'rm -rf -- "$user_copy"' EXIT
  { git ls-files -co --exclude-standard 2>/dev/null || find . -path ./build -prune -o -type f -print; } |
    tar -cf - --ignore-failed-read -T - | tar -xf - -C "$user_copy" || return
  mkdir -p "$user_copy/build/dev" "$user_copy/home" "$user_copy/tmp" "$user_copy/run" || return
  tar -C build/dev -cf - --exclude=CMakeFiles --exclude='*.a' --exclude='*.o' . |
    tar -xf - -C "$user_copy/build/dev" || return
  chown -R "$user_id:$group_id" "$user_copy" || return
  chmod 700 "$user_copy/run" "$user_copy/home"
}

# give_a_name DIRECTORY: in the mount namespace of the caller. The range is the one of a first user.
give_a_name() {
  local file name=mooncage-tester
  name=$(getent passwd "$user_id" | cut -d: -f1) && [ -n "$name" ] || name=mooncage-tester
  mkdir -p "$1" || return
  for file in passwd group subuid subgid; do
    [ -e "/etc/$file" ] || continue # without package uidmap there are no ranges, and no use for them
    cat "/etc/$file" >"$1/$file" || return
    case $file in
      passwd) getent passwd "$user_id" >/dev/null || echo "$name:x:$user_id:$group_id::/nonexistent:/bin/sh" ;;
      group) getent group "$group_id" >/dev/null || echo "$name:x:$group_id:" ;;
      *) grep -q "^\($name\|$user_id\):" "/etc/$file" || echo "$name:100000:65536" ;;
    esac >>"$1/$file" || return
    chmod 644 "$1/$file" && mount --bind "$1/$file" "/etc/$file" || return
  done
}

controllers="memory cpu pids"

# v1: one directory per controller; v2: one directory. Prints them.
delegated_directories() {
  local controller
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    echo /sys/fs/cgroup/mooncage-test
  else
    for controller in $controllers; do echo "/sys/fs/cgroup/$controller/mooncage-test"; done
  fi
}

hand_over() {
  local directory
  for directory in $(delegated_directories); do
    mkdir -p "$directory" || return
    chown "$user_id:$group_id" "$directory" "$directory"/{tasks,cgroup.procs,cgroup.subtree_control} 2>/dev/null
  done
  return 0
}

take_back() {
  local directory
  for directory in $(delegated_directories); do
    [ ! -d "$directory" ] || find "$directory" -depth -type d -exec rmdir {} + 2>/dev/null
  done
  return 0
}

# as_user delegated|plain SUITE: of the specs one mode of the JIT compiler each; root's run has both.
as_user() {
  local how=$1 name=$2 code=0 jit=off
  [ "$how" != delegated ] || jit=on
  make_user_copy || { echo "cannot copy the tree for the ordinary user"; return 1; }
  if [ "$how" = delegated ]; then
    hand_over || { echo "cannot hand cgroup directories over"; return 1; }
  fi
  (
    if [ "$how" = delegated ]; then
      for directory in $(delegated_directories); do echo "$BASHPID" >"$directory/cgroup.procs" || exit 1; done
    fi
    cd "$user_copy" || exit 1
    export user_id group_id
    exec unshare --mount --propagation private bash -c "$(declare -f give_a_name)"'
      give_a_name "$1" || { echo "cannot give the ordinary user a name"; exit 1; }
      shift; exec "$@"' bash "$user_copy/etc" setpriv --reuid "$user_id" --regid "$group_id" --clear-groups --inh-caps=-all -- \
      env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME="$user_copy/home" TMPDIR="$user_copy/tmp" MOONCAGE_JIT=$jit \
      XDG_RUNTIME_DIR="$user_copy/run" USER=tester MOONCAGE_DELEGATED="$([ "$how" = delegated ] && echo 1)" \
      MOONCAGE_BUILD="$user_copy/build/dev" MOONCAGE="$user_copy/build/dev/mooncage" \
      MOONCAGE_INIT="$user_copy/build/dev/mooncage-init" \
      timeout --kill-after=10 900 "tests/$name/run"
  ) || code=$?
  [ "$how" != delegated ] || take_back
  return $code
}
