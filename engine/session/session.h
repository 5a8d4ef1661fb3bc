/* session.h: one live sandbox, for the engine's own files: exec.c, files.c, keeper.c, project.c. */
#ifndef MCG_SESSION_H
#define MCG_SESSION_H

#include "decide/ask.h"
#include "config/config.h"
#include "stream/stream.h"

typedef enum mcg_phase {
  MCG_SESSION_STARTING,
  MCG_SESSION_RUNNING,
  MCG_SESSION_STOPPING, /* close was asked for, or a limit ended it */
  MCG_SESSION_CLOSED
} mcg_phase;

typedef struct mcg_close_waiter {
  struct mcg_close_waiter *next;
  mcg_done done;
  void *data;
} mcg_close_waiter;

struct mcg_session {
  mcg_engine *engine;
  mcg_session *before, *after; /* in engine->sessions, until closed */
  unsigned refs, inner_refs;   /* inner: the engine's list, running commands and operations */
  char id[27];
  mcg_config *config;
  mcg_counsel *counsel; /* the host that decides, until the session is closed; or NULL */
  mcg_phase state;
  bool placed;
  bool undecided; /* its tenant is asked: whose candidate it will be is not known */
  bool unaudited; /* the engine's own, and nobody's: parked, or for fetching */
  bool stopping;  /* the keeper was asked to end it, and will answer */
  mcg_place place;
  char *directory;    /* where init says it works, where the backend cannot know */
  mcg_stream *stream; /* cut when it closes, and in memory as long as the session */
  mcg_error *ended;   /* why it ended without being asked: lost, wall limit; NULL otherwise */
  json_t *enforcement, *warnings;
  double created_at;             /* seconds since 1970 */
  struct timespec since;         /* the same as file systems stamp it: before the place was made */
  uint64_t began_ns, ended_ns;   /* uv_hrtime */
  struct mcg_deadline *deadline; /* wall limit and time to live */
  struct mcg_quota_seat *seat;   /* quota.c: it counts against its tenant's quota; or NULL */
  bool spend_kept;               /* spend.c: its cost is in the sums of its run and tenant */
  mcg_exec *execs;               /* doubly linked, those that run */
  mcg_wait execs_gone;           /* close waits here */
  mcg_close_waiter *waiters;
  mcg_error *close_error;
  json_t *given;       /* the configuration before its tenant's part; or NULL: it is config->root */
  bool forked;         /* it began as a copy of another one, and leaves no snapshot */
  char *parent;        /* "ID@VERSION" that it was last restored from or saved as; or NULL */
  mcg_fiber *restorer; /* replaces the workspace: who reads or replaces all of it waits; or NULL */
  unsigned savers;     /* that read all of it: who replaces it waits */
  unsigned waiting;    /* for the restorer, to read */
  bool unsuccessful;   /* what it was for has failed, says its host */
  /* usage */
  uint64_t exec_count, exec_ns, cpu_us, place_cpu_us, maxrss_kb, place_peak;
  uint64_t snapshot_bytes;          /* of all that were saved of it */
  uint64_t oom_kills;               /* seen so far */
  struct mcg_pool *pool;            /* pool.c: it is parked there; or NULL */
  struct mcg_keeper *keeper;        /* keeper.c: it is served to others; or NULL */
  struct mcg_remote *remote;        /* resume.c: another engine's; or NULL */
  struct mcg_egress *egress;        /* gateway.c: the way out; or NULL */
  bool egress_coming;               /* one is being made for a sandbox that had none */
  struct mcg_authority *authority;  /* what programs inside believe, where TLS ends here; or NULL */
  uint64_t net_in, net_out;         /* what went through it, once that is over */
  struct mcg_netring *net_ring;     /* netlog.c: the last connections, either way; or NULL */
  uint64_t exposed_in, exposed_out; /* moved by connections to its ports that have ended */
  struct mcg_exposure *exposures;   /* expose.c: its ports that the host may reach */
};

/* session.c, for resume.c too. The config is the session's, also on failure. */
mcg_session *mcg_session_make(mcg_engine *engine, mcg_config *take_config, mcg_error **err);
void mcg_session_enlist(mcg_session *session); /* it is live: the engine closes it */
int mcg_session_deadline(mcg_session *session, mcg_error **err); /* deadline.c: its time begins */
void mcg_session_no_deadline(mcg_session *session);
void mcg_session_discard(mcg_session *session); /* it never stood */
void mcg_session_mechanism(void *session, const char *name, const char *value);
void mcg_session_stream_lost(void *session, const mcg_error *error);
/* For whatever of the engine runs in a session: it stays in memory, and nobody is said to own it. */
void mcg_session_hold(mcg_session *session);
void mcg_session_let_go(mcg_session *session);
/* Opening and closing for the engine's own use, from a fiber that waits for it. */
int mcg_session_open_here(mcg_engine *engine, const char *config, mcg_session **out,
                          mcg_error **err) MCG_PARKS;
/* A session of the same configuration, whose workspace is a copy; the host that decides is the same. */
int mcg_session_open_copy(mcg_session *origin, mcg_session **out, mcg_error **err) MCG_PARKS;
int mcg_session_close_here(mcg_session *session, mcg_error **err) MCG_PARKS; /* shielded */
/* network.c: the value of the key `network`; also through a keeper. */
int mcg_session_change_network(mcg_session *session, const json_t *network,
                               mcg_error **err) MCG_PARKS;
/* session_info.c: what mcg_session_usage says; the caller's. */
json_t *mcg_session_usage_json(const mcg_session *session);
/* furnish.c: puts the manifest of the config into the workspace, or of that what is ephemeral. */
int mcg_session_furnish(mcg_session *session, bool ephemeral_only, mcg_error **err) MCG_PARKS;
/* Refuses with what there is to say about a session that does not run. */
int mcg_session_alive(const mcg_session *session, mcg_error **err);
/* The default of every command, from inside; NULL: init's own. */
const char *mcg_session_directory(const mcg_session *session);
/* The backend's figures: memory_bytes, memory_peak_bytes, pids, cpu_s, oom_kills. */
int mcg_session_figures(mcg_session *session, json_t *out, mcg_error **err) MCG_PARKS;
/* Ends a session for a reason that its owner did not ask for; takes the error. From the loop. */
void mcg_session_end(mcg_session *session, mcg_error *reason);
/* files.c: a path of the sandbox that may be asked for; `invalid` where it climbs out. */
int mcg_file_path_check(const mcg_session *session, const char *path, mcg_error **err);
/* exec.c: what runs completes with this error (copied), soon, from the loop. */
void mcg_execs_abort(mcg_session *session, const mcg_error *error);
void mcg_execs_end(
    mcg_session *session); /* no process lives: nor do those that could not be ended */

#endif
