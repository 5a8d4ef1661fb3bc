/* engine.h: the engine's insides, for the engine's own files. Hosts and backends never see it. */
#ifndef MCG_ENGINE_H
#define MCG_ENGINE_H

#include "fiber.h"
#include <stdarg.h>
#include <uv.h>

struct mcg_fibers;   /* fiber.c: stacks, run queue */
struct mcg_log_line; /* engine.c: said, not yet handed to the host */
struct mcg_closing;  /* engine.c */
struct mcg_spawner;  /* spawner.c */
struct mcg_health;   /* health.c: what was seen of one candidate */
struct mcg_streams;  /* stream.c: what all streams share */

typedef struct mcg_backends {
  const mcg_backend **list;
  size_t count;
} mcg_backends;

struct mcg_engine {
  uv_loop_t *loop;
  uv_loop_t own_loop;
  bool owns_loop, closing, closed;
  bool turning, free_after_turn;
  bool no_stderr; /* of the host: what goes there is lost */
  char *init_path;
  unsigned max_waits;
  void (*on_log)(void *data, mcg_log_level level, const char *message);
  void *log_data;
  struct mcg_fibers *fibers;
  struct mcg_spawner *spawner;
  struct mcg_streams *streams; /* made on first use, NULL before */
  struct mcg_pool *pools;      /* pool.c */
  uint64_t pool_takes;         /* how often one was asked for */
  mcg_question *questions;     /* ask.c: not yet handed to the host */
  struct mcg_health *healths;
  mcg_backends backends;
  mcg_session *sessions; /* doubly linked through the sessions */
  struct json_t *spent;  /* spend.c: sums of sessions that are over, by run and tenant; or NULL */
  unsigned session_count;
  unsigned listeners;          /* of all gateways */
  mcg_op *ops;                 /* doubly linked; those for taking down are not in it */
  mcg_wait fiber_ended;        /* woken whenever a fiber ends, for the one that closes the engine */
  struct mcg_audit *audit;     /* audit/: made when first needed, NULL before */
  struct mcg_workers *workers; /* snapshot/workers.c: the same */
  struct mcg_closing *closer;
  struct mcg_log_line *log_first, **log_end;
};

const mcg_backend *mcg_engine_backend(const mcg_engine *engine, const char *id);
/* Operations (mcg_op) are fibers with a completion: the one way a public start function is built.
 * `run` is called on the fiber; `complete` from the loop with no fiber current, then arg is the
 * completion's to free. `error` is what run returned, or NULL. */
int mcg_op_start(mcg_engine *engine, int (*run)(void *arg, mcg_error **err),
                 void (*complete)(void *arg, mcg_error *error), void *arg, mcg_op **out,
                 mcg_error **err);

/* The same for taking down (closing a session): also while the engine closes, past max_waits, and
 * cancel does not reach it. */
int mcg_op_start_teardown(mcg_engine *engine, int (*run)(void *arg, mcg_error **err),
                          void (*complete)(void *arg, mcg_error *error), void *arg, mcg_op **out,
                          mcg_error **err);
void mcg_ops_cancel(mcg_engine *engine); /* all of them */
/* `unavailable` once mcg_engine_close was called. */
int mcg_engine_check_open(const mcg_engine *engine, mcg_error **err);
/* engine.c: hands the host what was said; called by the loop with no fiber current. */
void mcg_engine_flush_log(mcg_engine *engine);

/* session.c: closes every session there is, side by side, and waits for all of them. Called by
 * mcg_engine_close on a shielded fiber. The first error is the one returned. */
int mcg_sessions_close(mcg_engine *engine, mcg_error **err) MCG_PARKS;
/* stream.c: last part of closing the engine, when no session is left. Frees behind its handles. */
void mcg_streams_end(mcg_engine *engine);
void mcg_healths_free(mcg_engine *engine);
/* backends/backends.c: adds the backends that were built in. */
int mcg_backends_add(mcg_engine *engine, mcg_error **err);

/* fiber.c, for op.c and engine.c. `ended` runs on the main stack, from the loop, once `fn` has
 * returned and its fiber counts no more. A reserved fiber may start past max_waits and is shielded. */
int mcg_fiber_run(mcg_engine *engine, mcg_fiber_fn fn, mcg_fiber_fn ended, void *arg, bool reserved,
                  mcg_fiber **out, mcg_error **err);
int mcg_fibers_new(mcg_engine *engine, mcg_error **err);
unsigned mcg_fibers_live(const mcg_engine *engine);
void mcg_fibers_cancel_all(mcg_engine *engine); /* but the current one */
void mcg_fibers_kick(mcg_engine *engine);       /* have the loop come by: there is a log line */
/* Keeps the loop turning though nothing is under way: for a turn that must look at descriptors. */
void mcg_fibers_hold(mcg_engine *engine, bool on);
/* No fiber lives. Closes the handles, calls `closed` from the loop, and then only _free. */
void mcg_fibers_close(mcg_engine *engine, void (*closed)(mcg_engine *engine));
void mcg_fibers_free(mcg_engine *engine);
/* Most bytes of stack any fiber has touched, in whole pages. For tests: it asks about every page. */
size_t mcg_fibers_high_water(const mcg_engine *engine);

/* error.c */
/* Unless it has one. NULL is fine. */
void mcg_error_set_backend(mcg_error *error, const char *backend);
mcg_error *mcg_error_copy(const mcg_error *error); /* never NULL */
char *mcg_one_line(const char *text); /* control bytes and broken UTF-8 escaped; NULL: no memory */
/* At most 4 KiB of it, then mcg_one_line. */
char *mcg_format_line(const char *format, va_list list) __attribute__((format(printf, 1, 0)));

/* 128 random bits as 26 lower-case base32 characters, into out[27]. */
int mcg_random_id(char out[27], mcg_error **err);
/* Parses foreign text: depth is checked before jansson sees it. Duplicate keys are errors. */
struct json_t *mcg_json_parse(const char *text, size_t len, mcg_error **err);

#endif
