/* lockdown.c: what init gives up for good before it serves, and every command with it: resource
 * limits that it could raise, capabilities, the way back to them, and most system calls. */
#include <linux/capability.h>
#include <linux/securebits.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "jail.h"
#include "seccomp_filters.h"
#include "kernel.h"

#ifndef PR_CAP_AMBIENT
#define PR_CAP_AMBIENT 47
#define PR_CAP_AMBIENT_CLEAR_ALL 4
#endif

/* Never above what the caller may have: a hard limit can only sink. */
static int limit(mcg_jail *jail, int resource, rlim_t soft, rlim_t hard, const char *name)
{
  struct rlimit now;
  if (getrlimit(resource, &now) < 0) return mcg_jail_fail(jail, "rlimits", errno, "read %s", name);
  if (hard > now.rlim_max) hard = now.rlim_max;
  if (soft > hard) soft = hard;
  struct rlimit wanted = {.rlim_cur = soft, .rlim_max = hard};
  if (setrlimit(resource, &wanted) < 0)
    return mcg_jail_fail(jail, "rlimits", errno, "set %s", name);
  return 0;
}

/* RLIMIT_NOFILE is the commands' and set by init for each; init itself needs more. */
int mcg_jail_rlimits(mcg_jail *jail)
{
  const mcg_spawn_spec *spec = jail->spec;
  rlim_t mib = 1u << 20;
  /* One byte and not none: no file comes of either, but with 0 the kernel still starts the handler
   * of a piped core_pattern, as root of the host and fed by the payload; with 1 it does not. */
  if (limit(jail, RLIMIT_CORE, 1, 1, "CORE") < 0 ||
      limit(jail, RLIMIT_MEMLOCK, 64 << 10, 64 << 10, "MEMLOCK") < 0 ||
      limit(jail, RLIMIT_MSGQUEUE, 0, 0, "MSGQUEUE") < 0 ||
      limit(jail, RLIMIT_NICE, 0, 0, "NICE") < 0 ||
      limit(jail, RLIMIT_RTPRIO, 0, 0, "RTPRIO") < 0 ||
      limit(jail, RLIMIT_SIGPENDING, 1024, 1024, "SIGPENDING") < 0 ||
      limit(jail, RLIMIT_STACK, 8 * mib, 64 * mib, "STACK") < 0)
    return -1;
  /* Above what the disk holds, so that a full disk is ENOSPC and never SIGXFSZ. */
  rlim_t file = spec->disk + mib;
  if (spec->disk && limit(jail, RLIMIT_FSIZE, file, file, "FSIZE") < 0) return -1;
  /* Counted per user namespace since 5.14: a second fence behind the cgroup's, for everyone. */
  if (spec->pids && limit(jail, RLIMIT_NPROC, spec->pids + 64, spec->pids + 64, "NPROC") < 0)
    return -1;
  mcg_jail_note(jail, "rlimits=on");
  return 0;
}

/* What a package manager as root of a range does to files and to itself; over those uids alone. */
#define RANGE_CAPS                                                                                 \
  (1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER | 1u << CAP_FSETID |                \
   1u << CAP_KILL | 1u << CAP_SETGID | 1u << CAP_SETUID)

static int drop_bounding(uint32_t keep)
{
  for (int cap = 0; cap < 64; cap++) {
    if (cap < 32 && keep >> cap & 1) continue;
    if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) return errno == EINVAL && cap > 0 ? 0 : -1;
  }
  return 0;
}

/* Init of a range is a uid that no command has: root in there must not be able to reach it. */
static int leave_root(mcg_jail *jail)
{
  uint32_t last = jail->order->range - 1;
  if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0 ||
      syscall(SYS_setresgid, last, last, last) < 0 ||
      syscall(SYS_setresuid, last, last, last) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
      prctl(PR_SET_DUMPABLE, 0) < 0)
    return mcg_jail_fail(jail, "caps", errno, "become uid %u inside", last);
  return 0;
}

int mcg_jail_caps(mcg_jail *jail)
{
  bool range = jail->order->range > 1;
  uint32_t keep = range ? RANGE_CAPS : 0;
  unsigned long bits = SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED |
                       SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
                       SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
  if (!range) bits |= SECBIT_NOROOT | SECBIT_NOROOT_LOCKED;
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct caps[2] = {{.effective = keep, .permitted = keep}};
  if (range && leave_root(jail) < 0) return -1;
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
    return mcg_jail_fail(jail, "caps", errno, "clear ambient capabilities");
  if (drop_bounding(keep) < 0) return mcg_jail_fail(jail, "caps", errno, "drop the bounding set");
  if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0)
    return mcg_jail_fail(jail, "caps", errno, "lock the securebits");
  if (syscall(SYS_capset, &header, caps) < 0)
    return mcg_jail_fail(jail, "caps", errno, "drop capabilities");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    return mcg_jail_fail(jail, "caps", errno, "no_new_privs");
  mcg_jail_note(jail, "capabilities=%s", range ? "those over files and uids of the range" : "none");
  mcg_jail_note(jail, "no_new_privs=on");
  return 0;
}

static int load(mcg_jail *jail, const char *what, const struct sock_filter *code, size_t len)
{
  struct sock_fprog program = {.len = (unsigned short)len, .filter = (struct sock_filter *)code};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
    return mcg_jail_fail(jail, "seccomp", errno, "load the filter %s", what);
  return 0;
}

/* Where the sandbox writes files that are a user's on the host, none of them may be set-id. */
static int no_setid(mcg_jail *jail)
{
  bool writable = false;
  for (size_t i = 0; i < jail->spec->mount_count; i++)
    writable = writable || jail->spec->mounts[i].writable;
  if (!writable) return 0;
  mcg_jail_note(jail, "setid_bits=refused: a bind is writable");
  return load(jail, "no_setid", mcg_seccomp_no_setid,
              sizeof mcg_seccomp_no_setid / sizeof *mcg_seccomp_no_setid);
}

int mcg_jail_seccomp(mcg_jail *jail)
{
  unsigned profile = jail->spec->profile;
  if (profile >= sizeof mcg_seccomp_filters / sizeof *mcg_seccomp_filters)
    return mcg_jail_fail(jail, "seccomp", EINVAL, "no profile of number %u", profile);
  mcg_jail_note(jail, "seccomp=%s, %u instructions", mcg_seccomp_filters[profile].name,
                mcg_seccomp_filters[profile].len);
  if (no_setid(jail) < 0) return -1;
  return load(jail, mcg_seccomp_filters[profile].name, mcg_seccomp_filters[profile].code,
              mcg_seccomp_filters[profile].len);
}
