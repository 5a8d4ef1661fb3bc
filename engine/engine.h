/* engine.h: the engine's insides, for the engine's own files. Hosts and backends never see it. */
#ifndef MCG_ENGINE_H
#define MCG_ENGINE_H

#include "fiber.h"
#include <uv.h>

struct mcg_fibers;  /* fiber.c: stacks, run queue */
struct mcg_spawner; /* spawner.c */
struct mcg_streams; /* stream.c: what all streams share */

typedef struct mcg_backends {
  const mcg_backend **list;
  size_t count;
} mcg_backends;

struct mcg_engine {
  uv_loop_t *loop;
  uv_loop_t own_loop;
  bool owns_loop, closing;
  char *init_path;
  unsigned max_waits;
  void (*on_log)(void *data, mcg_log_level level, const char *message);
  void *log_data;
  struct mcg_fibers *fibers;
  struct mcg_spawner *spawner;
  struct mcg_streams *streams; /* made on first use, NULL before */
  mcg_backends backends;
  mcg_session *sessions; /* doubly linked through the sessions */
  unsigned session_count;
};

const mcg_backend *mcg_engine_backend(const mcg_engine *engine, const char *id);
/* Operations (mcg_op) are fibers with a completion: the one way a public start function is built.
 * `run` is called on the fiber; `complete` from the loop with no fiber current, then arg is the
 * completion's to free. `error` is what run returned, or NULL. */
int mcg_op_start(mcg_engine *engine, int (*run)(void *arg, mcg_error **err),
                 void (*complete)(void *arg, mcg_error *error), void *arg, mcg_op **out,
                 mcg_error **err);

/* Last part of closing the engine, from the loop, when no session is left. Frees behind its handles. */
void mcg_streams_end(mcg_engine *engine);

/* 128 random bits as 26 lower-case base32 characters, into out[27]. */
int mcg_random_id(char out[27], mcg_error **err);
/* Nearest of the NULL-terminated names within edit distance 3, or NULL. */
const char *mcg_nearest(const char *word, const char *const *names);
/* Parses foreign text: depth is checked before jansson sees it. Duplicate keys are errors. */
struct json_t *mcg_json_parse(const char *text, size_t len, mcg_error **err);

#endif
