/* exec.h: a running command, and the two halves of starting one: what was asked, and its message. */
#ifndef MCG_EXEC_H
#define MCG_EXEC_H

#include "capture.h"
#include "session.h"
#include "stream_parts.h"

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
  uint64_t began_ns;
  int pid;
  mcg_exit exit;
  mcg_error *error; /* what it will complete with, instead of a result */
  char *cwd;        /* as it was asked for: for the message when it is not there */
  bool detached, exited, drained, gone;
  bool killed, timed_out, oom_killed, no_memory;
  bool doomed; /* the whole sandbox goes, because this could not be ended */
  bool finishing, finished;
};

/* Takes a spec of another version of the header for what it is. */
int mcg_exec_spec_read(const mcg_exec_spec *given, mcg_exec_spec *out, mcg_error **err);
/* The fields of EXEC; `invalid` for what cannot be a command. */
int mcg_exec_encode(const mcg_session *session, const mcg_exec_spec *spec, mcg_wire *out,
                    mcg_error **err);

#endif
