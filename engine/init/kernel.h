/* kernel.h: system calls and constants that musl or an old kernel header does not have. Thin: they
 * return what the kernel does, -1 with errno on failure. */
#ifndef MCG_INIT_KERNEL_H
#define MCG_INIT_KERNEL_H

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Numbers from 424 up are the same on every architecture. */
enum {
  MCG_NR_PIDFD_SEND_SIGNAL = 424,
  MCG_NR_OPEN_TREE = 428,
  MCG_NR_MOVE_MOUNT = 429,
  MCG_NR_FSOPEN = 430,
  MCG_NR_FSCONFIG = 431,
  MCG_NR_FSMOUNT = 432,
  MCG_NR_PIDFD_OPEN = 434,
  MCG_NR_CLONE3 = 435,
  MCG_NR_CLOSE_RANGE = 436,
  MCG_NR_OPENAT2 = 437,
  MCG_NR_MOUNT_SETATTR = 442,
  MCG_NR_LANDLOCK_CREATE_RULESET = 444,
  MCG_NR_LANDLOCK_ADD_RULE = 445,
  MCG_NR_LANDLOCK_RESTRICT_SELF = 446
};

/* The whole of struct clone_args as of 5.7. */
typedef struct mcg_clone_args {
  uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
      set_tid_size, cgroup;
} mcg_clone_args;
#define MCG_CLONE_INTO_CGROUP 0x200000000ull

static inline int mcg_sys_clone3(const mcg_clone_args *args)
{
  return (int)syscall(MCG_NR_CLONE3, args, sizeof *args);
}

typedef struct mcg_open_how {
  uint64_t flags, mode, resolve;
} mcg_open_how;
enum {
  MCG_RESOLVE_NO_XDEV = 1,
  MCG_RESOLVE_NO_MAGICLINKS = 2,
  MCG_RESOLVE_NO_SYMLINKS = 4,
  MCG_RESOLVE_BENEATH = 8,
  MCG_RESOLVE_IN_ROOT = 16
};

static inline int mcg_sys_openat2(int dir, const char *path, uint64_t flags, uint64_t resolve)
{
  mcg_open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve};
  return (int)syscall(MCG_NR_OPENAT2, dir, path, &how, sizeof how);
}

enum {
  MCG_OPEN_TREE_CLONE = 1,
  MCG_AT_RECURSIVE = 0x8000,
  MCG_MOVE_MOUNT_F_EMPTY = 4,
  MCG_MOVE_MOUNT_T_EMPTY = 0x40,
  MCG_ATTR_RDONLY = 1,
  MCG_ATTR_NOSUID = 2,
  MCG_ATTR_NODEV = 4,
  MCG_ATTR_NOEXEC = 8,
  MCG_ATTR_IDMAP = 0x100000,
  MCG_FSCONFIG_SET_FLAG = 0,
  MCG_FSCONFIG_SET_STRING = 1,
  MCG_FSCONFIG_CMD_CREATE = 6
};
typedef struct mcg_mount_attr {
  uint64_t set, clear, propagation, userns_fd;
} mcg_mount_attr;

static inline int mcg_sys_open_tree(int dir, const char *path, unsigned flags)
{
  return (int)syscall(MCG_NR_OPEN_TREE, dir, path, flags | O_CLOEXEC);
}

static inline int mcg_sys_fsopen(const char *type)
{
  return (int)syscall(MCG_NR_FSOPEN, type, 1); /* FSOPEN_CLOEXEC */
}

static inline int mcg_sys_fsconfig(int fs, unsigned command, const char *key, const void *value,
                                   int aux)
{
  return (int)syscall(MCG_NR_FSCONFIG, fs, command, key, value, aux);
}

static inline int mcg_sys_fsmount(int fs, unsigned attributes)
{
  return (int)syscall(MCG_NR_FSMOUNT, fs, 1, attributes); /* FSMOUNT_CLOEXEC */
}

/* Both by descriptor: nothing is looked up by name. */
static inline int mcg_sys_move_mount(int mount, int target)
{
  return (int)syscall(MCG_NR_MOVE_MOUNT, mount, "", target, "",
                      MCG_MOVE_MOUNT_F_EMPTY | MCG_MOVE_MOUNT_T_EMPTY);
}

static inline int mcg_sys_mount_setattr(int dir, const char *path, unsigned flags,
                                        const mcg_mount_attr *attr)
{
  return (int)syscall(MCG_NR_MOUNT_SETATTR, dir, path, flags, attr, sizeof *attr);
}

static inline int mcg_sys_pidfd_open(pid_t pid)
{
  return (int)syscall(MCG_NR_PIDFD_OPEN, pid, 0);
}

static inline int mcg_sys_pidfd_kill(int pidfd, int signo)
{
  return (int)syscall(MCG_NR_PIDFD_SEND_SIGNAL, pidfd, signo, NULL, 0);
}

static inline int mcg_sys_close_range(unsigned first, unsigned last)
{
  return (int)syscall(MCG_NR_CLOSE_RANGE, first, last, 0);
}

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

#endif
