/* box.h: one sandbox as its spawner knows it, and the spawner's own state. */
#ifndef MCG_INIT_BOX_H
#define MCG_INIT_BOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cgroup.h"
#include "image.h"
#include "spawn.h"
#include "stash.h"
#include "template.h"

typedef struct mcg_box {
  struct mcg_box *next;
  uint32_t id; /* the engine's number for it */
  uint32_t kind;
  pid_t pid;
  int pidfd;
  int slot;        /* of the host uids this spawner gives away; -1: none */
  bool destroying; /* the engine waits for GONE */
  bool dead;       /* its init was waited for */
  bool gone;       /* the engine knows; only its group or directory is left to remove */
  int code, signo;
  uint64_t cpu_us; /* once dead */
  mcg_cgroup cgroup;
  mcg_cgroup_limits limits; /* of the group, as it was made */
  char *directory;          /* PLAIN: a temporary directory to remove */
  int image;                /* a directory of its disk image; -1: none */
  bool standing;            /* its root was the template's (template.h) */
  bool stashed;             /* its network was the stash's, without a gateway (stash.h) */
  int space, net; /* of a dying one: its namespaces, so that nobody waits for their end; else -1 */
  int control;    /* PLAIN: a copy of its end of the stream, to end it in order; else -1 */
  int64_t
      kill_at; /* PLAIN: when patience ends, in ms of the monotonic clock; 0: it was not asked */
} mcg_box;

#define MCG_SLOTS 16384 /* host uids of one engine */

typedef struct mcg_spawner_state {
  int engine; /* the socket */
  int engine_pidfd;
  int self_pidfd; /* given to the children */
  int proc;       /* /proc, lent to the children */
  int epoll;
  pid_t engine_pid;
  pid_t self;
  mcg_owner owner;    /* the same for others: groups and directories carry it in their names */
  bool root;          /* may give uids away */
  uint32_t uid, gid;  /* our own */
  uint32_t first_uid; /* as root: of SLOTS that this engine may use */
  unsigned next_slot;
  uint64_t serial; /* of the names of directories */
  mcg_cgroups cgroups;
  mcg_stash stash;
  unsigned jails;        /* made so far */
  mcg_template template; /* as root only */
  mcg_image image;
  mcg_box *boxes;
  unsigned leftovers; /* boxes that are gone but not removed */
  unsigned ending;    /* plain boxes that were asked to end */
  bool over;          /* the engine is gone */
  uint8_t used[MCG_SLOTS];
} mcg_spawner_state;

/* How a step of CREATE failed. */
typedef struct mcg_failure {
  const char *step;
  int error;
  char text[512];
} mcg_failure;
int mcg_failure_set(mcg_failure *failure, const char *step, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5))); /* returns -1 */

/* Waits for a box's init, which is dead or dying; then `dead`, code and signo are set. */
void mcg_box_wait(mcg_spawner_state *state, mcg_box *box);

/* plain.c: a sandbox that is none: init as a plain child in a directory. */
int mcg_plain_start(mcg_spawner_state *state, mcg_box *box, const mcg_spawn_spec *spec, int control,
                    mcg_failure *failure);
/* Asks it to end, as if its engine had gone: only itself knows all that it started. */
void mcg_plain_end(mcg_box *box);
int64_t mcg_clock_ms(void);
/* Kills what dead plain sandboxes left behind: children of ours that are no box. */
void mcg_plain_sweep(mcg_spawner_state *state);

/* janitor.c: the start time of a process in ticks, 0: there is no such process. */
uint64_t mcg_start_time(pid_t pid);
/* Microseconds it and its waited-for children have used. */
uint64_t mcg_cpu_time(pid_t pid);
/* Kills all that is left, waits, removes. For the end of the engine. */
void mcg_janitor(mcg_spawner_state *state);
/* Removes a directory and what is in it, following no link and leaving no file system. */
int mcg_remove_tree(int parent, const char *name);

/* reap.c: REAP: what dead engines left. Appends "kind name" texts; removes unless dry. */
void mcg_reap(mcg_spawner_state *state, bool dry, mcg_wire *out);

#endif
