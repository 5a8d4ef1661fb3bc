/* server.h: mooncage-init as the command server of one sandbox.
 *
 * It speaks protocol.h on a descriptor and runs commands until that descriptor's end of stream. Who
 * calls it has already built and confined the sandbox: nothing here confines anything, and everything
 * here works under what the caller put in force.
 *
 * WHAT THE SECCOMP FILTER MUST LEAVE to init and its children (commands inherit the same filter):
 *   processes   clone with CLONE_VM|CLONE_FILES|CLONE_PIDFD and with CLONE_VM|CLONE_VFORK (no
 *               namespace flag), fork as clone(SIGCHLD), execve, wait4, waitid, kill, pidfd_open,
 *               pidfd_send_signal, exit, exit_group, getpid, getppid, gettid, setsid, setpgid,
 *               prctl (SET_CHILD_SUBREAPER, SET_NAME, SET_PDEATHSIG), prlimit64 on pid 0
 *   signals     rt_sigaction, rt_sigprocmask, rt_sigtimedwait, rt_sigreturn
 *   users       setresuid, setresgid, setgroups, capset (range map only)
 *   waiting     poll, ppoll, eventfd2, clock_gettime, nanosleep
 *   descriptors pipe2, fcntl (O_NONBLOCK, F_SETPIPE_SZ), dup3, close, close_range, socket messages
 *               (sendmsg, recvmsg, getsockopt on the given socket), read, write, readv, writev
 *   terminals   openat of /dev/ptmx, ioctl TIOCSPTLCK, TIOCGPTN, TIOCGPTPEER, TIOCSWINSZ, TIOCSCTTY,
 *               TIOCGPGRP, TIOCSIG, TCGETS, TCSETS
 *   files       openat, openat2, newfstatat, fstat, statx, getdents64, readlinkat, mkdirat, unlinkat,
 *               renameat2, symlinkat, linkat, fchmod, fchmodat, utimensat, lseek, pread64, ftruncate,
 *               fstatfs, statfs, chdir, fchdir, umask
 *   memory      mmap, munmap, mprotect, madvise, brk, futex
 *   sockets     socket (INET and INET6, STREAM), setsockopt, bind, listen, connect: for LISTEN, CONNECT
 * It never mounts, never opens a namespace, never installs a handler. */
#ifndef MCG_SERVER_H
#define MCG_SERVER_H

#include "protocol.h"

typedef struct mcg_server_config {
  int fd;      /* the engine's connection; taken */
  int carrier; /* 0 SOCK_SEQPACKET, 1 byte stream */
  const char *workdir;
  const char *const *env;        /* base environment of every command, NULL-terminated */
  const char *const *mechanisms; /* "name=value" for HELLO, NULL-terminated; may be NULL */
  int *sockets;      /* MCG_SOCKETS of them, -1: none; taken: the first HELLO's. May be NULL */
  int confine_paths; /* 1: paths of built-ins must stay beneath workdir (plain sandboxes) */
  int range_map;   /* 1: `user=` works: init holds SETUID, SETGID and KILL in its user namespace */
  unsigned nofile; /* RLIMIT_NOFILE of commands, 0: as init's own */
  int is_pid1;     /* 0: init makes itself a subreaper, and never uses kill(-1) */
  int oom_adjust;  /* oom_score_adj of commands, 0: leave it */
  unsigned uid, gid; /* range_map: who commands are without `user=` */
} mcg_server_config;

/* Serves until end of stream or STOP; kills every process it is responsible for; returns the exit
 * status of the process (0: the stream ended in order, 1: it could not serve). Call it once. */
int mcg_server_main(const mcg_server_config *config);

/* For whoever sets the sandbox up: one FAILED frame on a connection not served yet. Best effort. */
void mcg_send_failed(int fd, int carrier, const char *step, int number, const char *text);

#endif
