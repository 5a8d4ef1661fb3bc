/* The seccomp filters, run here by a small BPF machine over every number and both sides of every
 * argument rule, against tables written from the security defaults (allow list, section 5). */
#include "cmocka_all.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#include "init/spawn.h"
#include "seccomp_filters.h"

#define NATIVE AUDIT_ARCH_X86_64
#define FOREIGN AUDIT_ARCH_I386
#define NUMBERS 600

/* ---- the machine: what the kernel accepts in a seccomp filter, and nothing else -------------- */

static uint32_t run_code(const struct sock_filter *code, size_t len,
                         const struct seccomp_data *data)
{
  uint32_t a = 0;
  for (size_t at = 0; at < len; at++) {
    struct sock_filter i = code[at];
    switch (i.code) {
    case BPF_LD | BPF_W | BPF_ABS:
      assert_true(i.k % 4 == 0 && i.k + 4 <= sizeof *data);
      memcpy(&a, (const char *)data + i.k, 4);
      break;
    case BPF_ALU | BPF_AND | BPF_K: a &= i.k; break;
    case BPF_JMP | BPF_JA: at += i.k; break;
    case BPF_JMP | BPF_JEQ | BPF_K: at += a == i.k ? i.jt : i.jf; break;
    case BPF_JMP | BPF_JGT | BPF_K: at += a > i.k ? i.jt : i.jf; break;
    case BPF_JMP | BPF_JGE | BPF_K: at += a >= i.k ? i.jt : i.jf; break;
    case BPF_JMP | BPF_JSET | BPF_K: at += a & i.k ? i.jt : i.jf; break;
    case BPF_RET | BPF_K: return i.k;
    default: fail_msg("instruction %zu has the code 0x%x", at, i.code);
    }
  }
  fail_msg("the program runs out");
  return 0;
}

static uint32_t run(unsigned profile, const struct seccomp_data *data)
{
  return run_code(mcg_seccomp_filters[profile].code, mcg_seccomp_filters[profile].len, data);
}

#define PRETENDED (-2)

/* 0 allowed, an errno, PRETENDED for an errno of 0, or -1 for anything else. */
static int answer(unsigned profile, long number, const uint64_t args[6])
{
  struct seccomp_data data = {.nr = (int)number, .arch = NATIVE};
  if (args) memcpy(data.args, args, sizeof data.args);
  uint32_t verdict = run(profile, &data);
  if (verdict == SECCOMP_RET_ALLOW) return 0;
  if (verdict == SECCOMP_RET_ERRNO) return PRETENDED;
  if ((verdict & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO)
    return (int)(verdict & SECCOMP_RET_DATA);
  return -1;
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* Calls newer than the oldest headers stand with their numbers: 442 mount_setattr, 443 quotactl_fd,
 * 444 to 446 landlock, 447 memfd_secret, 448 process_mrelease, 449 futex_waitv, 451 cachestat,
 * 452 fchmodat2, 453 map_shadow_stack, 454 to 456 futex, 457 statmount, 458 listmount, 462 mseal,
 * 467 open_tree_attr, 470 listns. */
/* clang-format off: tables */
static const int ALLOWED[] = {
    SYS_access,
    SYS_chdir,
    SYS_chmod,
    SYS_chown,
    SYS_close,
    SYS_close_range,
    SYS_copy_file_range,
    SYS_creat,
    SYS_dup,
    SYS_dup2,
    SYS_dup3,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_fadvise64,
    SYS_fallocate,
    SYS_fchdir,
    SYS_fchmod,
    SYS_fchmodat,
    452,
    SYS_fchown,
    SYS_fchownat,
    SYS_fcntl,
    SYS_fdatasync,
    SYS_fgetxattr,
    SYS_flistxattr,
    SYS_flock,
    SYS_fremovexattr,
    SYS_fsetxattr,
    SYS_fstat,
    SYS_fstatfs,
    SYS_fsync,
    SYS_ftruncate,
    SYS_futimesat,
    SYS_getcwd,
    SYS_getdents,
    SYS_getdents64,
    SYS_getxattr,
    SYS_inotify_add_watch,
    SYS_inotify_init,
    SYS_inotify_init1,
    SYS_inotify_rm_watch,
    SYS_lchown,
    SYS_lgetxattr,
    SYS_link,
    SYS_linkat,
    SYS_listxattr,
    SYS_llistxattr,
    SYS_lremovexattr,
    SYS_lseek,
    SYS_lsetxattr,
    SYS_lstat,
    SYS_memfd_create,
    SYS_mkdir,
    SYS_mkdirat,
    SYS_mknod,
    SYS_mknodat,
    SYS_newfstatat,
    SYS_open,
    SYS_openat,
    SYS_openat2,
    SYS_pread64,
    SYS_preadv,
    SYS_preadv2,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_pwritev2,
    SYS_read,
    SYS_readahead,
    SYS_readlink,
    SYS_readlinkat,
    SYS_readv,
    SYS_removexattr,
    SYS_rename,
    SYS_renameat,
    SYS_renameat2,
    SYS_rmdir,
    SYS_sendfile,
    SYS_setxattr,
    SYS_splice,
    SYS_stat,
    SYS_statfs,
    SYS_statx,
    SYS_symlink,
    SYS_symlinkat,
    SYS_sync,
    SYS_sync_file_range,
    SYS_syncfs,
    SYS_tee,
    SYS_truncate,
    SYS_umask,
    SYS_unlink,
    SYS_unlinkat,
    SYS_utime,
    SYS_utimensat,
    SYS_utimes,
    SYS_vmsplice,
    SYS_write,
    SYS_writev,
    451,
    SYS_alarm,
    SYS_clock_getres,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_epoll_create,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_epoll_wait,
    SYS_eventfd,
    SYS_eventfd2,
    SYS_getitimer,
    SYS_gettimeofday,
    SYS_nanosleep,
    SYS_pause,
    SYS_pipe,
    SYS_pipe2,
    SYS_poll,
    SYS_ppoll,
    SYS_pselect6,
    SYS_select,
    SYS_setitimer,
    SYS_time,
    SYS_timer_create,
    SYS_timer_delete,
    SYS_timer_getoverrun,
    SYS_timer_gettime,
    SYS_timer_settime,
    SYS_timerfd_create,
    SYS_timerfd_gettime,
    SYS_timerfd_settime,
    SYS_times,
    SYS_brk,
    SYS_madvise,
    453,
    SYS_membarrier,
    SYS_mincore,
    SYS_mlock,
    SYS_mlock2,
    SYS_mlockall,
    SYS_mmap,
    SYS_mprotect,
    SYS_mremap,
    462,
    SYS_msync,
    SYS_munlock,
    SYS_munlockall,
    SYS_munmap,
    SYS_pkey_alloc,
    SYS_pkey_free,
    SYS_pkey_mprotect,
    SYS_remap_file_pages,
    SYS_arch_prctl,
    SYS_execve,
    SYS_execveat,
    SYS_exit,
    SYS_exit_group,
    SYS_fork,
    SYS_futex,
    456,
    455,
    449,
    454,
    SYS_get_robust_list,
    SYS_get_thread_area,
    SYS_getcpu,
    SYS_getpgid,
    SYS_getpgrp,
    SYS_getpid,
    SYS_getppid,
    SYS_getpriority,
    SYS_getrandom,
    SYS_getrlimit,
    SYS_getrusage,
    SYS_getsid,
    SYS_gettid,
    SYS_ioprio_get,
    SYS_kill,
    445,
    444,
    446,
    SYS_pidfd_open,
    SYS_pidfd_send_signal,
    448,
    SYS_restart_syscall,
    SYS_rseq,
    SYS_rt_sigaction,
    SYS_rt_sigpending,
    SYS_rt_sigprocmask,
    SYS_rt_sigqueueinfo,
    SYS_rt_sigreturn,
    SYS_rt_sigsuspend,
    SYS_rt_sigtimedwait,
    SYS_rt_tgsigqueueinfo,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_sched_getaffinity,
    SYS_sched_getattr,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_sched_rr_get_interval,
    SYS_sched_yield,
    SYS_seccomp,
    SYS_set_robust_list,
    SYS_set_thread_area,
    SYS_set_tid_address,
    SYS_setpgid,
    SYS_setsid,
    SYS_sigaltstack,
    SYS_signalfd,
    SYS_signalfd4,
    SYS_sysinfo,
    SYS_tgkill,
    SYS_tkill,
    SYS_uname,
    SYS_vfork,
    SYS_wait4,
    SYS_waitid,
    SYS_capget,
    SYS_capset,
    SYS_getegid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getgroups,
    SYS_getresgid,
    SYS_getresuid,
    SYS_getuid,
    SYS_setfsgid,
    SYS_setfsuid,
    SYS_setgid,
    SYS_setgroups,
    SYS_setregid,
    SYS_setresgid,
    SYS_setresuid,
    SYS_setreuid,
    SYS_setuid,
    SYS_mq_getsetattr,
    SYS_mq_notify,
    SYS_mq_open,
    SYS_mq_timedreceive,
    SYS_mq_timedsend,
    SYS_mq_unlink,
    SYS_msgctl,
    SYS_msgget,
    SYS_msgrcv,
    SYS_msgsnd,
    SYS_semctl,
    SYS_semget,
    SYS_semop,
    SYS_semtimedop,
    SYS_shmat,
    SYS_shmctl,
    SYS_shmdt,
    SYS_shmget,
    SYS_accept,
    SYS_accept4,
    SYS_bind,
    SYS_connect,
    SYS_getpeername,
    SYS_getsockname,
    SYS_getsockopt,
    SYS_listen,
    SYS_recvfrom,
    SYS_recvmmsg,
    SYS_recvmsg,
    SYS_sendmmsg,
    SYS_sendmsg,
    SYS_sendto,
    SYS_setsockopt,
    SYS_shutdown,
};
static const int REFUSED[] = {
    SYS_pidfd_getfd,
    SYS_process_madvise,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_userfaultfd,
    SYS_perf_event_open,
    SYS_bpf,
    SYS_add_key,
    SYS_keyctl,
    SYS_request_key,
    SYS_lookup_dcookie,
    SYS_nfsservctl,
    447,
    SYS_fanotify_init,
    SYS_vhangup,
    SYS_syslog,
    SYS_modify_ldt,
    SYS_iopl,
    SYS_ioperm,
    SYS_uselib,
    SYS_ustat,
    SYS_sysfs,
    SYS__sysctl,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    SYS_quotactl,
    443,
    SYS_acct,
    SYS_swapon,
    SYS_swapoff,
    SYS_reboot,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_create_module,
    SYS_query_module,
    SYS_get_kernel_syms,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_move_mount,
    SYS_open_tree,
    467,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    442,
    457,
    458,
    470,
    SYS_setns,
    SYS_unshare,
};
static const int DEBUG_ONLY[] = {
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
};
static const int BY_ARGUMENTS[] = {
    SYS_clone,
    SYS_ioctl,
    SYS_socket,
    SYS_socketpair,
    SYS_prctl,
    SYS_personality,
    SYS_prlimit64,
    SYS_sched_setaffinity,
    SYS_sched_setscheduler,
    SYS_sched_setparam,
    SYS_sched_setattr,
    SYS_setpriority,
    SYS_ioprio_set,
    SYS_migrate_pages,
    SYS_move_pages,
    SYS_setrlimit,
};
/* clang-format on */
#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool in(const int *list, size_t count, long number)
{
  for (size_t i = 0; i < count; i++)
    if (list[i] == number) return true;
  return false;
}

/* ---- the cases ------------------------------------------------------------------------------- */

static void every_number_has_its_answer(void **state)
{
  (void)state;
  for (unsigned profile = 0; profile < COUNT(mcg_seccomp_filters); profile++)
    for (long number = 0; number < NUMBERS; number++) {
      if (in(BY_ARGUMENTS, COUNT(BY_ARGUMENTS), number)) continue;
      int expected = ENOSYS;
      if (in(ALLOWED, COUNT(ALLOWED), number)) expected = 0;
      if (in(REFUSED, COUNT(REFUSED), number)) expected = EPERM;
      if (in(DEBUG_ONLY, COUNT(DEBUG_ONLY), number))
        expected = profile == MCG_PROFILE_DEBUG ? 0 : EPERM;
      int got = answer(profile, number, NULL);
      if (got != expected)
        fail_msg("profile %u, call %ld: %d instead of %d", profile, number, got, expected);
    }
}

static void another_architecture_is_killed(void **state)
{
  (void)state;
  for (unsigned profile = 0; profile < COUNT(mcg_seccomp_filters); profile++)
    for (long number = 0; number < NUMBERS; number++) {
      struct seccomp_data data = {.nr = (int)number, .arch = FOREIGN};
      assert_int_equal(run(profile, &data), SECCOMP_RET_KILL_PROCESS);
    }
}

static void the_x32_numbers_are_killed(void **state)
{
  (void)state;
  for (long number = 0; number < NUMBERS; number++) {
    struct seccomp_data data = {.nr = (int)(number | 0x40000000), .arch = NATIVE};
    assert_int_equal(run(0, &data), SECCOMP_RET_KILL_PROCESS);
  }
}

static int with(long number, uint64_t a, uint64_t b, uint64_t c)
{
  return answer(MCG_PROFILE_DEFAULT, number, (uint64_t[6]){a, b, c});
}

static void clone_makes_no_namespace(void **state)
{
  (void)state;
  static const uint64_t namespaces[] = {0x80,      0x20000,    0x2000000,  0x4000000,
                                        0x8000000, 0x10000000, 0x20000000, 0x40000000};
  assert_int_equal(with(SYS_clone, 17, 0, 0), 0);       /* fork */
  assert_int_equal(with(SYS_clone, 0x3d0f00, 0, 0), 0); /* a thread */
  assert_int_equal(with(SYS_clone, 0x4111, 0, 0), 0);   /* vfork */
  for (size_t i = 0; i < COUNT(namespaces); i++) {
    assert_int_equal(with(SYS_clone, namespaces[i] | 17, 0, 0), EPERM);
    assert_int_equal(with(SYS_clone, namespaces[i] | 17 | 1ull << 40, 0, 0), EPERM);
  }
  assert_int_equal(answer(MCG_PROFILE_DEBUG, 435, NULL), ENOSYS); /* clone3 */
}

static void a_terminal_is_not_typed_into(void **state)
{
  (void)state;
  static const uint64_t refused[] = {0x5412, 0x541c, 0x541d, 0x5423};
  for (size_t i = 0; i < COUNT(refused); i++) {
    assert_int_equal(with(SYS_ioctl, 0, refused[i], 0), EPERM);
    assert_int_equal(with(SYS_ioctl, 0, refused[i] | 1ull << 32, 0), EPERM);
    assert_int_equal(with(SYS_ioctl, 0, refused[i] | 0xffffffff00000000ull, 0), EPERM);
    assert_int_equal(with(SYS_ioctl, 0, refused[i] | 1u << 31, 0), 0);
  }
  assert_int_equal(with(SYS_ioctl, 0, 0x5401, 0), 0);     /* TCGETS */
  assert_int_equal(with(SYS_ioctl, 0, 0x80045430, 0), 0); /* TIOCGPTN */
}

/* Every family, type and protocol up to a bound, flags of the type included. */
static void sockets_are_local_or_inet(void **state)
{
  (void)state;
  for (unsigned family = 0; family < 64; family++)
    for (unsigned type = 0; type < 16; type++)
      for (unsigned protocol = 0; protocol < 300; protocol++) {
        bool inet = family == AF_INET || family == AF_INET6;
        bool stream = type == SOCK_STREAM, dgram = type == SOCK_DGRAM;
        bool allowed =
            (inet && stream && (protocol == 0 || protocol == 6)) ||
            (inet && dgram && (protocol == 0 || protocol == 17)) ||
            (family == AF_UNIX && protocol == 0 && (stream || dgram || type == SOCK_SEQPACKET)) ||
            (family == AF_NETLINK && protocol == 0 && (dgram || type == SOCK_RAW));
        bool pair = family == AF_UNIX && allowed;
        int got = with(SYS_socket, family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
        if (got != (allowed ? 0 : EPERM))
          fail_msg("socket(%u, %u, %u): %d", family, type, protocol, got);
        assert_int_equal(with(SYS_socketpair, family, type, protocol), pair ? 0 : EPERM);
      }
}

static void the_limit_on_cores_stays(void **state)
{
  (void)state;
  const uint64_t limit = 0x7fff00001000, aligned = 0x100000000; /* its low half is 0 */
  assert_int_equal(with(SYS_setrlimit, 4, limit, 0), PRETENDED);
  assert_int_equal(with(SYS_setrlimit, 4 | 1ull << 32, limit, 0), PRETENDED);
  assert_int_equal(with(SYS_setrlimit, 7, limit, 0), 0);
  assert_int_equal(with(SYS_prlimit64, 0, 4, limit), PRETENDED);
  assert_int_equal(with(SYS_prlimit64, 0, 4, aligned), PRETENDED);
  assert_int_equal(with(SYS_prlimit64, 0, 4, 1), PRETENDED);
  assert_int_equal(with(SYS_prlimit64, 0, 4, 0), 0); /* getrlimit */
  assert_int_equal(with(SYS_prlimit64, 1, 4, 0), EPERM);
  assert_int_equal(with(SYS_prlimit64, 0, 7, limit), 0);
}

static int setid(long number, uint64_t b, uint64_t c, uint64_t d)
{
  struct seccomp_data data = {.nr = (int)number, .arch = NATIVE, .args = {0, b, c, d}};
  uint32_t verdict = run_code(mcg_seccomp_no_setid, COUNT(mcg_seccomp_no_setid), &data);
  return verdict == SECCOMP_RET_ALLOW ? 0 : (int)(verdict & SECCOMP_RET_DATA);
}

static void set_id_bits_are_refused_beside_a_writable_bind(void **state)
{
  (void)state;
  static const uint64_t modes[] = {04000, 02000, 06755, 0104755, 04000 | 1ull << 32};
  const uint64_t creat = 0101, tmpfile = 020200002; /* O_WRONLY|O_CREAT, O_RDWR|O_TMPFILE */
  for (size_t i = 0; i < COUNT(modes); i++) {
    assert_int_equal(setid(SYS_chmod, modes[i], 0, 0), EPERM);
    assert_int_equal(setid(SYS_fchmod, modes[i], 0, 0), EPERM);
    assert_int_equal(setid(SYS_creat, modes[i], 0, 0), EPERM);
    assert_int_equal(setid(SYS_mknod, modes[i], 0, 0), EPERM);
    assert_int_equal(setid(SYS_fchmodat, 0, modes[i], 0), EPERM);
    assert_int_equal(setid(SYS_mknodat, 0, modes[i], 0), EPERM);
    assert_int_equal(setid(452, 0, modes[i], 0), EPERM); /* fchmodat2 */
    assert_int_equal(setid(SYS_open, creat, modes[i], 0), EPERM);
    assert_int_equal(setid(SYS_openat, 0, creat, modes[i]), EPERM);
    assert_int_equal(setid(SYS_openat, 0, tmpfile, modes[i]), EPERM);
    assert_int_equal(setid(SYS_openat, 0, 0, modes[i]),
                     0); /* makes nothing: the mode is not read */
  }
  assert_int_equal(setid(SYS_openat2, 0, 0, 0), ENOSYS);
  assert_int_equal(setid(SYS_chmod, 01777, 0, 0), 0);
  assert_int_equal(setid(SYS_openat, 0, creat, 0644), 0);
  assert_int_equal(setid(SYS_mkdir, 0, 0, 0), 0);
  assert_int_equal(setid(SYS_read, 04000, 04000, 04000), 0);
}

static void others_are_not_tuned(void **state)
{
  (void)state;
  static const int by_pid[] = {SYS_prlimit64,      SYS_sched_setaffinity, SYS_sched_setscheduler,
                               SYS_sched_setparam, SYS_sched_setattr,     SYS_migrate_pages,
                               SYS_move_pages};
  for (size_t i = 0; i < COUNT(by_pid); i++) {
    assert_int_equal(with(by_pid[i], 0, 7, 1), 0);
    assert_int_equal(with(by_pid[i], 1, 7, 1), EPERM);
    assert_int_equal(with(by_pid[i], 0xffffffff, 7, 1), EPERM);
    assert_int_equal(with(by_pid[i], 1ull << 32 | 1, 7, 1), EPERM);
  }
  assert_int_equal(with(SYS_setpriority, 0, 0, 5), 0);
  assert_int_equal(with(SYS_setpriority, 0, 1, 5), EPERM);
  assert_int_equal(with(SYS_setpriority, 1, 0, 5), EPERM);
  assert_int_equal(with(SYS_setpriority, 2, 0, 5), EPERM); /* all of the uid: init too */
  assert_int_equal(with(SYS_ioprio_set, 1, 0, 5), 0);
  assert_int_equal(with(SYS_ioprio_set, 1, 1, 5), EPERM);
  assert_int_equal(with(SYS_ioprio_set, 3, 0, 5), EPERM);
}

static void prctl_and_personality(void **state)
{
  (void)state;
  assert_int_equal(with(SYS_prctl, 35, 0, 0), EPERM);         /* PR_SET_MM */
  assert_int_equal(with(SYS_prctl, 0x59616d61, 5, 0), EPERM); /* PR_SET_PTRACER */
  assert_int_equal(with(SYS_prctl, 35 | 1ull << 32, 0, 0), EPERM);
  assert_int_equal(with(SYS_prctl, 15, 0, 0), 0); /* PR_SET_NAME */
  assert_int_equal(with(SYS_prctl, 38, 1, 0), 0); /* PR_SET_NO_NEW_PRIVS */
  assert_int_equal(with(SYS_personality, 0, 0, 0), 0);
  assert_int_equal(with(SYS_personality, 0xffffffff, 0, 0), 0);
  assert_int_equal(with(SYS_personality, 0x40000, 0, 0), EPERM);  /* ADDR_NO_RANDOMIZE */
  assert_int_equal(with(SYS_personality, 0x400000, 0, 0), EPERM); /* READ_IMPLIES_EXEC */
}

/* Each sandbox waits until the kernel has compiled its filter, a third of a microsecond an instruction. */
static void the_kernel_has_little_to_compile(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(mcg_seccomp_filters); i++)
    assert_in_range(mcg_seccomp_filters[i].len, 1, 256);
}

#endif

int main(void)
{
#if defined(__x86_64__)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_number_has_its_answer),
      cmocka_unit_test(another_architecture_is_killed),
      cmocka_unit_test(the_x32_numbers_are_killed),
      cmocka_unit_test(clone_makes_no_namespace),
      cmocka_unit_test(a_terminal_is_not_typed_into),
      cmocka_unit_test(sockets_are_local_or_inet),
      cmocka_unit_test(the_limit_on_cores_stays),
      cmocka_unit_test(set_id_bits_are_refused_beside_a_writable_bind),
      cmocka_unit_test(others_are_not_tuned),
      cmocka_unit_test(prctl_and_personality),
      cmocka_unit_test(the_kernel_has_little_to_compile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
#else
  puts("skipped: the tables are of x86_64");
  return 0;
#endif
}
