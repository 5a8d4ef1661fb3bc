/* exec.h: a running command, and the two halves of starting one: what was asked, and its message. */
#ifndef MCG_EXEC_H
#define MCG_EXEC_H

#include "capture.h"
#include "session.h"
#include "stream/stream_parts.h"

typedef struct mcg_exec_pending { /* one mcg_exec_write that has not completed */
  struct mcg_exec_pending *before, *after;
  mcg_exec *exec;
  mcg_done done;
  void *data;
} mcg_exec_pending;

struct mcg_exec {
  mcg_session *session;
  mcg_exec *before, *after; /* in session->execs */
  unsigned refs;            /* the command itself, its timer, work that is queued */
  mcg_channel *channel;
  mcg_exec_events events;
  void *data;
  mcg_capture captures[2];
  mcg_exec_pending *writes;
  uv_timer_t timer; /* its deadline, then the grace of a kill */
  bool has_timer;
  mcg_later later;
  struct mcg_errand *errand; /* pipeline.c: the steps before and after it; or NULL */
  uint64_t began_ns, ended_ns;
  int pid;
  mcg_exit exit;
  mcg_error *error; /* what it will complete with, instead of a result */
  char *cwd;        /* as it was asked for: for the message when it is not there */
  bool detached, exited, drained, gone;
  bool killed, timed_out, oom_killed, no_memory;
  bool overdue; /* it was killed, and is not gone yet */
  bool doomed;  /* the whole sandbox goes, because this could not be ended */
  bool finishing, finished;
  char signal_room[16]; /* the name of a real-time signal */
};

/* Takes a spec of another version of the header for what it is. */
int mcg_exec_spec_read(const mcg_exec_spec *given, mcg_exec_spec *out, mcg_error **err);
/* The fields of EXEC; `invalid` for what cannot be a command. */
int mcg_exec_encode(const mcg_session *session, const mcg_exec_spec *spec, mcg_wire *out,
                    mcg_error **err);

/* The last step of starting: hands it to the sandbox. Without one it was never begun. */
int mcg_exec_launch(mcg_exec *exec, const mcg_exec_spec *spec, mcg_error **err);
/* Of a command that never reached the sandbox. From the loop; takes the error. */
void mcg_exec_fail(mcg_exec *exec, mcg_error *take_error);
/* The very last step: tells who started it. From the loop. */
void mcg_exec_tell(mcg_exec *exec);
/* What it would be told now; its texts are borrowed from the command. NULL when there is no result, and
 * then *error (borrowed) says why. */
const mcg_result *mcg_exec_outcome(mcg_exec *exec, mcg_result *room, const mcg_error **error);

#endif
