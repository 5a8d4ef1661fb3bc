/* stub.h: the parent of one command.
 *
 * A stub is a process that shares init's memory and descriptors, is a subreaper, starts the command
 * with vfork and execve, and then only waits: whatever the command leaves behind, setsid and double
 * forks included, ends up as the stub's child. So "the tree of this command" is a fact of the kernel's,
 * and killing it is killing the stub's children until there are none.
 *
 * Stub and init meet in a slot. Init fills `launch`, the stub writes the results and then a flag
 * (release), and adds to the eventfd. Slots are kept and used again; so is a stub: when its tree is empty it
 * waits for the next launch, or is told to leave.
 *
 * A stub whose sandbox has a second command, or its first to come, has a child ready: one that has done what
 * no launch changes, and waits for its turn itself. Then a command starts without a clone, and without its stub,
 * which sleeps until there is a death to note, or is nudged to say that the command has started. */
#ifndef MCG_STUB_H
#define MCG_STUB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum mcg_slot_flag {
  MCG_SLOT_STARTED = 1, /* pid is valid; the command runs, or failed to (error, step) */
  MCG_SLOT_EXITED = 2,  /* code, signo, cpu_us, maxrss_kb are valid */
  MCG_SLOT_GONE = 4,    /* no child is left; the stub waits for `turn` */
  MCG_SLOT_REFUSED = 8  /* no process could be made (error) */
};

enum mcg_step {
  MCG_STEP_EXEC,
  MCG_STEP_FORK,
  MCG_STEP_CWD,
  MCG_STEP_USER,
  MCG_STEP_LIMIT,
  MCG_STEP_TERMINAL,
  MCG_STEP_STREAMS
};
const char *mcg_step_name(int step);

typedef struct mcg_rlimit {
  uint32_t resource;
  uint64_t soft, hard;
} mcg_rlimit;

/* Everything the child of vfork needs, made before: it only calls the kernel. */
typedef struct mcg_launch {
  char *const *paths; /* what to try, in order, NULL-terminated */
  char **shell_argv; /* [0] "/bin/sh", [1] the program's name (a path when the shell runs it) ... */
  char **envp;
  const char *cwd; /* NULL: init's */
  int fds[3];
  bool terminal; /* fds are a terminal: make it the controlling one */
  bool change_ids;
  uid_t uid;
  gid_t gid;
  int oom_adjust;
  const mcg_rlimit *limits;
  size_t limit_count;
} mcg_launch;

#define MCG_SLOT_TEXT 256
typedef struct mcg_slot {
  const mcg_launch *launch;
  int wake;          /* eventfd */
  _Atomic int turn;  /* futex: changes when the stub has something to do again */
  int done_turn;     /* as of which a new stub has nothing to do */
  _Atomic int leave; /* that is: to exit */
  _Atomic int kill;
  _Atomic unsigned flags;
  int pid, pidfd;    /* of the command; the pidfd is init's too */
  int ready_turn;    /* the one that the ready child waits out */
  _Atomic int ready; /* pid of the child that waits for the next turn; 0: there is none */
  int ready_fd;      /* its pidfd; -1: none. It becomes `pidfd` when the turn has come */
  _Atomic int
      starting; /* futex: the kernel makes it 0 when that child has executed its program or ended */
  int code, signo;
  uint64_t cpu_us, maxrss_kb;
  int error, step;
  char text[MCG_SLOT_TEXT]; /* of a failed built-in; not trusted to end in NUL */
  struct mcg_slot *next;    /* among the free ones */
} mcg_slot;

/* A zeroed slot with its stack; shared with forked children too. NULL: no memory. */
mcg_slot *mcg_slot_new(void);
void mcg_slot_free(mcg_slot *slot);

/* Starts a stub on the slot's stack, to run its launch at once or to wait for mcg_stub_next. Its pid, and
 * *pidfd; or -errno. */
int mcg_stub_start(mcg_slot *slot, bool idle, int *pidfd);
/* Wakes who waits: to run the slot's launch, or to leave. */
void mcg_stub_next(mcg_slot *slot, bool leave);
/* Ends the ready child that a dead stub has left behind: it is the caller's own by now. */
void mcg_stub_end_ready(mcg_slot *slot);

#endif
