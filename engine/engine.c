/* engine.c: an engine's life: its loop, its options, its log, its end. What it does for a living is
 * in session.c, exec.c and their neighbours; it names no backend. */
#include "engine.h"
#include "audit/audit.h"
#include "snapshot/workers.h"
#include "spawner.h"
#include <errno.h>
#include <string.h>

typedef struct mcg_log_line {
  struct mcg_log_line *next;
  mcg_log_level level;
  char *text;
} mcg_log_line;

/* ---- making one ------------------------------------------------------------------------------- */

/* A host built against another version of the header has a shorter or a longer struct. */
static int read_options(const mcg_engine_options *given, mcg_engine_options *out, mcg_error **err)
{
  *out = (mcg_engine_options){.size = sizeof *out};
  if (!given) return 0;
  if (given->size < sizeof given->size)
    return mcg_fail(err, MCG_INVALID, "set .size = sizeof(mcg_engine_options)",
                    "engine options say they are %zu bytes long", given->size);
  const unsigned char *bytes = (const unsigned char *)given;
  for (size_t i = sizeof *out; i < given->size; i++)
    if (bytes[i] != 0)
      return mcg_fail(err, MCG_UNSUPPORTED,
                      "install a newer libmooncage, or leave new options zero",
                      "engine options hold something this version (" MCG_VERSION ") does not know");
  memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
  return 0;
}

static char *find_init(const char *given)
{
  if (!given) given = secure_getenv("MOONCAGE_INIT");
  return strdup(given && *given ? given : MCG_INIT_PATH);
}

static void free_parts(mcg_engine *engine)
{
  mcg_fibers_free(engine);
  while (engine->log_first) {
    mcg_log_line *line = engine->log_first;
    engine->log_first = line->next;
    free(line->text);
    free(line);
  }
  mcg_healths_free(engine);
  mcg_cleanup_json(&engine->spent);
  free(engine->backends.list);
  free(engine->init_path);
  free(engine);
}

static int fill(mcg_engine *engine, const mcg_engine_options *options, mcg_error **err)
{
  engine->max_waits = options->max_waits ? options->max_waits : 16000;
  engine->on_log = options->on_log;
  engine->log_data = options->data;
  engine->no_stderr = options->no_stderr;
  engine->log_end = &engine->log_first;
  engine->init_path = find_init(options->init_path);
  if (!engine->init_path) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for an engine");
  if (mcg_backends_add(engine, err) < 0) return -1;
  engine->loop = options->loop;
  if (!engine->loop) {
    int rc = uv_loop_init(&engine->own_loop);
    if (rc < 0)
      return mcg_fail_errno(err, -rc, "raise the limit on open files (ulimit -n)",
                            "make an event loop");
    engine->owns_loop = true;
    engine->loop = &engine->own_loop;
  }
  return mcg_fibers_new(engine, err); /* last: its handles could not be closed at once */
}

int mcg_engine_new(const mcg_engine_options *options, mcg_engine **out, mcg_error **err)
{
  mcg_engine_options known;
  if (read_options(options, &known, err) < 0) return -1;
  mcg_engine *engine = calloc(1, sizeof *engine);
  if (!engine) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for an engine");
  if (fill(engine, &known, err) < 0) {
    if (engine->owns_loop) uv_loop_close(&engine->own_loop);
    free_parts(engine);
    return -1;
  }
  *out = engine;
  return 0;
}

/* ---- backends --------------------------------------------------------------------------------- */

const mcg_backend *mcg_engine_backend(const mcg_engine *engine, const char *id)
{
  for (size_t i = 0; i < engine->backends.count; i++)
    if (strcmp(engine->backends.list[i]->id, id) == 0) return engine->backends.list[i];
  return NULL;
}

int mcg_engine_add_backend(mcg_engine *engine, const mcg_backend *backend, mcg_error **err)
{
  if (!backend || !backend->id || !*backend->id)
    return mcg_fail(err, MCG_INVALID, "set .id to the backend's name", "a backend without an id");
  if (mcg_engine_backend(engine, backend->id))
    return mcg_fail(err, MCG_CONFLICT, "give the backend another id",
                    "there is a backend \"%s\" already", backend->id);
  mcg_backends *backends = &engine->backends;
  const mcg_backend **longer = realloc(backends->list, (backends->count + 1) * sizeof *longer);
  if (!longer) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for backend \"%s\"", backend->id);
  backends->list = longer;
  longer[backends->count++] = backend;
  return 0;
}

/* ---- turning ---------------------------------------------------------------------------------- */

int mcg_engine_fd(const mcg_engine *engine)
{
  return uv_backend_fd(engine->loop);
}

/* libuv says 0 when nothing is under way; but an idle engine still looks at its spawner, and must
 * not have a foreign loop spin. So it is asked as if something were. */
int mcg_engine_timeout(const mcg_engine *engine)
{
  if (engine->closed) return -1;
  mcg_engine *asked = (mcg_engine *)engine; /* held and let go: the same afterwards */
  mcg_fibers_hold(asked, true);
  uv_update_time(engine->loop);
  int timeout = uv_backend_timeout(engine->loop);
  mcg_fibers_hold(asked, engine->turning);
  return timeout;
}

int mcg_engine_turn(mcg_engine *engine)
{
  if (engine->turning || mcg_fiber_current(engine))
    return -1; /* from a callback: loops do not nest */
  engine->turning = true;
  mcg_fibers_hold(engine, true);
  uv_run(engine->loop, UV_RUN_NOWAIT);
  engine->turning = false;
  mcg_fibers_hold(engine, false);
  int more = uv_loop_alive(engine->loop);
  if (!engine->free_after_turn) return more;
  mcg_engine_free(engine);
  return 0;
}

struct uv_loop_s *mcg_engine_loop(mcg_engine *engine)
{
  return engine->loop;
}

/* ---- the log ---------------------------------------------------------------------------------- */

/* Said anywhere, also on a fiber's stack; heard by the host from the loop, like any callback. */
void mcg_log(mcg_engine *engine, mcg_log_level level, const char *format, ...)
{
  if (!engine->on_log) return;
  va_list list;
  va_start(list, format);
  auto_free char *text = mcg_audit_redact_text(engine, mcg_format_line(format, list));
  va_end(list);
  mcg_log_line *line = text ? calloc(1, sizeof *line) : NULL;
  if (!line) return;
  line->level = level;
  line->text = mcg_steal_pointer(&text);
  *engine->log_end = line;
  engine->log_end = &line->next;
  mcg_fibers_kick(engine);
}

void mcg_engine_flush_log(mcg_engine *engine)
{
  while (engine->log_first) {
    mcg_log_line *line = engine->log_first;
    engine->log_first = line->next;
    if (!engine->log_first) engine->log_end = &engine->log_first;
    engine->on_log(engine->log_data, line->level, line->text);
    free(line->text);
    free(line);
  }
}

/* ---- its end ---------------------------------------------------------------------------------- */

typedef struct mcg_closing {
  mcg_engine *engine;
  mcg_done done;
  void *data;
  mcg_error *error;
} closing;

int mcg_engine_check_open(const mcg_engine *engine, mcg_error **err)
{
  if (!engine->closing) return 0;
  return mcg_fail(err, MCG_UNAVAILABLE, "open a new engine", "the engine is closing");
}

static void keep_first(mcg_error **first, mcg_error *error)
{
  if (*first)
    mcg_error_free(error);
  else
    *first = error;
}

static void wait_for_fiber(mcg_engine *engine)
{
  mcg_error *ignored = NULL;
  if (mcg_wait_park(engine, &engine->fiber_ended, -1, &ignored) < 0) mcg_error_free(ignored);
}

static void close_main(void *arg)
{
  closing *self = arg;
  mcg_engine *engine = self->engine;
  while (engine->ops) wait_for_fiber(engine);
  mcg_error *error = NULL;
  if (mcg_sessions_close(engine, &error) < 0) keep_first(&self->error, error);
  mcg_workers_end(engine);
  error = NULL;
  if (mcg_audit_end(engine, &error) < 0) { /* this counts most */
    mcg_error_free(self->error);
    self->error = error;
  }
  mcg_spawner_stop(engine);
  mcg_fibers_cancel_all(engine);
  while (mcg_fibers_live(engine) > 1) wait_for_fiber(engine);
}

static void close_completed(mcg_engine *engine)
{
  closing self = *engine->closer;
  free(engine->closer);
  engine->closer = NULL;
  if (engine->on_log) mcg_engine_flush_log(engine);
  engine->closed = true;
  if (self.done)
    self.done(self.data, self.error);
  else
    mcg_error_free(self.error);
}

static void close_ended(void *arg)
{
  closing *self = arg;
  self->engine->closer = self;
  mcg_streams_end(self->engine);
  mcg_fibers_close(self->engine, close_completed);
}

int mcg_engine_close(mcg_engine *engine, mcg_done done, void *data, mcg_error **err)
{
  if (mcg_engine_check_open(engine, err) < 0) return -1;
  auto_free closing *self = malloc(sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to close the engine");
  *self = (closing){.engine = engine, .done = done, .data = data};
  if (mcg_fiber_run(engine, close_main, close_ended, self, true, NULL, err) < 0) return -1;
  self = NULL;
  engine->closing = true;
  mcg_ops_cancel(engine);
  return 0;
}

void mcg_engine_free(mcg_engine *engine)
{
  if (!engine) return;
  if (!engine->closed) { /* its handles are in the loop: better lost than dangling */
    if (engine->on_log)
      engine->on_log(engine->log_data, MCG_LOG_ERROR, "an engine was freed before it was closed");
    return;
  }
  engine->free_after_turn = engine->turning;
  if (engine->turning) return;
  if (engine->owns_loop) uv_loop_close(&engine->own_loop);
  free_parts(engine);
}
