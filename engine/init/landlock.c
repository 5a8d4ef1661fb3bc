/* landlock.c: the second wall of the file system, and the first between commands and signals or
 * abstract sockets of others. It says again, by inode, what the mounts say: should a mount be wrong
 * or a descriptor of the host be met, there is still no right to it. Taken once by init, so that the
 * commands of a session are one domain. No network rights: the namespace is that wall. */
#include <sys/prctl.h>

#include "jail.h"
#include "kernel.h"

/* Our own names for the bits: the headers of a distribution know only its kernel's. */
enum {
  FS_EXECUTE = 1 << 0,
  FS_WRITE = 1 << 1,
  FS_READ = 1 << 2,
  FS_READ_DIR = 1 << 3,
  FS_REMOVE_DIR = 1 << 4,
  FS_REMOVE_FILE = 1 << 5,
  FS_MAKE_CHAR = 1 << 6,
  FS_MAKE_DIR = 1 << 7,
  FS_MAKE_REG = 1 << 8,
  FS_MAKE_SOCK = 1 << 9,
  FS_MAKE_FIFO = 1 << 10,
  FS_MAKE_BLOCK = 1 << 11,
  FS_MAKE_SYM = 1 << 12,
  FS_REFER = 1 << 13,       /* ABI 2 */
  FS_TRUNCATE = 1 << 14,    /* ABI 3 */
  FS_IOCTL_DEV = 1 << 15,   /* ABI 5 */
  FS_RESOLVE_UNIX = 1 << 16 /* ABI 9 */
};
#define FS_ABI_1 0x1fffu
#define FS_LOOK (FS_EXECUTE | FS_READ | FS_READ_DIR)
#define FS_FILE (FS_EXECUTE | FS_WRITE | FS_READ | FS_TRUNCATE | FS_IOCTL_DEV | FS_RESOLVE_UNIX)
#define SCOPE_ABSTRACT_UNIX 1u
#define SCOPE_SIGNAL 2u

typedef struct ruleset_attr {
  uint64_t fs, net, scoped;
} ruleset_attr;
typedef struct path_beneath {
  uint64_t allowed;
  int32_t parent;
} __attribute__((packed)) path_beneath;

int mcg_landlock_abi(void)
{
  long abi = syscall(MCG_NR_LANDLOCK_CREATE_RULESET, NULL, 0, 1);
  return abi < 0 ? 0 : (int)abi;
}

static uint64_t handled(int abi)
{
  uint64_t rights = FS_ABI_1;
  if (abi >= 2) rights |= FS_REFER;
  if (abi >= 3) rights |= FS_TRUNCATE;
  if (abi >= 5) rights |= FS_IOCTL_DEV;
  if (abi >= 9) rights |= FS_RESOLVE_UNIX;
  return rights;
}

static int allow(mcg_jail *jail, int ruleset, const char *path, uint64_t rights)
{
  path_beneath rule = {.allowed = rights, .parent = open(path, O_PATH | O_CLOEXEC)};
  if (rule.parent < 0) return mcg_jail_fail(jail, "landlock", errno, "open %s", path);
  long rc = syscall(MCG_NR_LANDLOCK_ADD_RULE, ruleset, 1, &rule, 0);
  int error = errno;
  close(rule.parent);
  if (rc < 0) return mcg_jail_fail(jail, "landlock", error, "add a rule for %s", path);
  return 0;
}

static bool is_directory(const char *path)
{
  int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

static int allow_binds(mcg_jail *jail, int ruleset, uint64_t full)
{
  for (size_t i = 0; i < jail->spec->mount_count; i++) {
    const mcg_spawn_mount *bind = &jail->spec->mounts[i];
    if (!bind->writable) continue;
    uint64_t rights = is_directory(bind->target) ? full : full & FS_FILE;
    if (allow(jail, ruleset, bind->target, rights) < 0) return -1;
  }
  return 0;
}

static int rules(mcg_jail *jail, int ruleset, uint64_t all)
{
  uint64_t full = all & ~(uint64_t)(FS_MAKE_CHAR | FS_MAKE_BLOCK | FS_IOCTL_DEV);
  mcg_jail_writable dirs[MCG_JAIL_WRITABLES];
  mcg_jail_writables(jail, dirs);
  bool free_root = jail->foreign && jail->spec->rootfs_rw;
  if (allow(jail, ruleset, "/", free_root ? full : (uint64_t)FS_LOOK) < 0) return -1;
  for (size_t i = 0; i < MCG_JAIL_WRITABLES; i++)
    if (allow(jail, ruleset, dirs[i].inside, full) < 0) return -1;
  for (size_t i = 0; i < jail->spec->user_count; i++)
    if (allow(jail, ruleset, jail->spec->users[i].home, full) < 0) return -1;
  /* A process tunes itself through /proc; what is more than its own is read-only there. */
  if (allow(jail, ruleset, "/proc", all & (FS_WRITE | FS_TRUNCATE)) < 0) return -1;
  if (allow(jail, ruleset, "/dev", all & (FS_WRITE | FS_TRUNCATE | FS_IOCTL_DEV)) < 0) return -1;
  return allow_binds(jail, ruleset, full);
}

int mcg_jail_landlock(mcg_jail *jail)
{
  int abi = mcg_landlock_abi();
  if (abi == 0) {
    mcg_jail_note(jail, "landlock=none: this kernel has it not, or off");
    return 0;
  }
  ruleset_attr attr = {.fs = handled(abi)};
  if (abi >= 6) attr.scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL;
  size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
  int ruleset = (int)syscall(MCG_NR_LANDLOCK_CREATE_RULESET, &attr, size, 0);
  if (ruleset < 0) return mcg_jail_fail(jail, "landlock", errno, "make a ruleset of ABI %d", abi);
  if (rules(jail, ruleset, attr.fs) < 0) return -1;
  if (syscall(MCG_NR_LANDLOCK_RESTRICT_SELF, ruleset, 0) < 0)
    return mcg_jail_fail(jail, "landlock", errno, "restrict oneself");
  close(ruleset);
  mcg_jail_note(jail, "landlock=abi %d", abi);
  return 0;
}
