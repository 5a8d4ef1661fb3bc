/* builtin.c: feeds a built-in, takes what it says, waits until nothing of it lives. */
#include "builtin.h"
#include <errno.h>
#include <stdint.h>
#include <string.h>

#define CHUNK 65536
#define GONE_MS 5000 /* how long a killed built-in may take to be gone */

typedef struct run {
  mcg_engine *engine;
  mcg_builtin *builtin;
  mcg_channel *channel;
  mcg_wait wait;
  bool started, exited, drained, gone, over, stopped, full, writing, finished;
  int code, number; /* of its exit: status, errno */
  bool said;        /* the text is the built-in's own */
  char *text;
  mcg_error *lost, *unwritten;
  size_t cap;
  struct run *to; /* takes what this one says, see mcg_builtin_pipe */
} run;

static void wake(run *r)
{
  mcg_wait_wake(r->engine, &r->wait);
  if (r->to) mcg_wait_wake(r->engine, &r->to->wait); /* where mcg_builtin_pipe waits for both */
}

static void on_started(void *data, int pid)
{
  (void)pid;
  run *r = data;
  r->started = true;
  wake(r);
}

static bool collect(run *r, const void *bytes, size_t len)
{
  mcg_builtin *b = r->builtin;
  if (len > b->max_output - b->output_len) return false;
  if (b->output_len + len + 1 > r->cap) {
    size_t cap = (b->output_len + len + 1) * 2;
    char *grown = realloc(b->output, cap);
    if (!grown) return false;
    b->output = grown;
    r->cap = cap;
  }
  memcpy(b->output + b->output_len, bytes, len);
  b->output_len += len;
  b->output[b->output_len] = 0;
  return true;
}

static void on_passed(void *data, mcg_error *error)
{
  run *r = data;
  r->stopped = error != NULL; /* why is what the other one's exit tells */
  mcg_error_free(error);
  if (!r->stopped && !r->over && !r->finished) mcg_channel_resume(r->channel, 1);
  wake(r);
}

/* Hands the bytes on and pauses until they are taken. */
static bool pass(run *r, const void *bytes, size_t len)
{
  auto_error mcg_error *refused = NULL;
  if (!r->to->over && mcg_channel_write(r->to->channel, bytes, len, on_passed, r, &refused) == 0)
    return false;
  r->stopped = true;
  wake(r);
  return true;
}

static bool on_data(void *data, int stream, const void *bytes, size_t len)
{
  run *r = data;
  if (stream != 1 || r->full || r->stopped) return true;
  if (r->to) return pass(r, bytes, len);
  if (r->builtin->sink)
    r->stopped = !r->builtin->sink(r->builtin->data, bytes, len);
  else
    r->full = !collect(r, bytes, len);
  if (r->stopped || r->full) wake(r);
  const mcg_builtin *b = r->builtin;
  return r->stopped || !b->sink || !b->ready || b->ready(b->data);
}

void mcg_builtin_resume(mcg_builtin *builtin)
{
  run *r = builtin->run;
  if (r && !r->over && !r->finished) mcg_channel_resume(r->channel, 1);
}

static void on_exit_status(void *data, const mcg_exit *status)
{
  run *r = data;
  r->exited = true;
  r->code = status->signo ? -status->signo : status->code;
  r->number = status->error;
  if (status->text) r->text = strdup(status->text);
  r->said = !r->builtin->program;
  wake(r);
}

static void on_refused(void *data, int number, const char *step, const char *text)
{
  run *r = data;
  r->exited = r->drained = r->gone = r->over = true;
  r->number = number;
  r->text = mcg_format("%s: %s", step ? step : "start", text ? text : strerror(number));
  wake(r);
}

static void on_gone(void *data)
{
  run *r = data;
  r->gone = true;
  wake(r);
}

static void on_lost(void *data, const mcg_error *error)
{
  run *r = data;
  r->over = true;
  mcg_fail(&r->lost, error ? error->code : MCG_UNAVAILABLE, error ? error->fix : NULL, "%s",
           error ? error->message : "the sandbox ended");
  wake(r);
}

static const mcg_channel_events run_events = {
    .on_started = on_started,
    .on_data = on_data,
    .on_exit = on_exit_status,
    .on_refused = on_refused,
    .on_gone = on_gone,
    .on_lost = on_lost,
};

static bool broken(const run *r)
{
  return r->over || r->stopped || r->full;
}

static void on_written(void *data, mcg_error *error)
{
  run *r = data;
  r->writing = false;
  r->unwritten = error;
  wake(r);
}

/* Writes one piece and parks until it is taken. 1: taken, 0: the built-in takes no more, -1: *err. */
static int feed_piece(run *r, const void *bytes, size_t len, mcg_error **err)
{
  r->writing = true;
  auto_error mcg_error *refused = NULL;
  if (mcg_channel_write(r->channel, bytes, len, on_written, r, &refused) < 0) {
    r->writing = false;
    return 0;
  }
  while (r->writing && !broken(r))
    if (mcg_wait_park(r->engine, &r->wait, -1, err) < 0) return -1;
  bool taken = !r->writing && !r->unwritten;
  mcg_error_free(r->unwritten);
  r->unwritten = NULL;
  return taken;
}

static int feed_source(run *r, mcg_error **err)
{
  auto_free char *chunk = malloc(CHUNK);
  if (!chunk) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to feed %s", r->builtin->argv[0]);
  for (;;) {
    long n = r->builtin->source(r->builtin->data, chunk, CHUNK);
    if (n < 0)
      return mcg_fail(err, MCG_CANCELED, NULL, "the source of %s stopped", r->builtin->argv[0]);
    int taken = n == 0 ? 0 : feed_piece(r, chunk, (size_t)n, err);
    if (taken <= 0) return taken;
  }
}

static int feed(run *r, mcg_error **err)
{
  const mcg_builtin *b = r->builtin;
  int rc = 0;
  if (b->source) rc = feed_source(r, err);
  for (size_t at = 0; !b->source && at < b->input_len;) {
    size_t n = b->input_len - at < CHUNK ? b->input_len - at : CHUNK;
    rc = feed_piece(r, (const char *)b->input + at, n, err);
    if (rc <= 0) break;
    at += n;
  }
  if (rc < 0) return -1; /* it must not take what it has for all of it: it is killed */
  if (!r->over) mcg_channel_close_stdin(r->channel);
  return 0;
}

static void on_drained(void *data)
{
  run *r = data;
  r->drained = true;
  wake(r);
}

static int wait_for_end(run *r, mcg_error **err)
{
  while (!r->exited && !broken(r))
    if (mcg_wait_park(r->engine, &r->wait, -1, err) < 0) return -1;
  if (r->exited && !r->over) mcg_channel_drain(r->channel, on_drained, r);
  while (!r->drained && !broken(r))
    if (mcg_wait_park(r->engine, &r->wait, -1, err) < 0) return -1;
  return 0;
}

static mcg_code code_of(int number)
{
  switch (number) {
  case ENOENT: return MCG_NOT_FOUND;
  case ESTALE:
  case EEXIST:
  case ENOTEMPTY: return MCG_CONFLICT;
  case ENOSPC:
  case EDQUOT:
  case EFBIG:
  case EMFILE:
  case ENFILE:
  case EAGAIN: return MCG_QUOTA;
  case EACCES:
  case EPERM:
  case EROFS: return MCG_UNAUTHORIZED;
  case ENOMEM: return MCG_NOMEM;
  case EIO: return MCG_INTERNAL;
  case EOPNOTSUPP: return MCG_UNSUPPORTED;
  case MCG_EUNSAFE: return MCG_ARCHIVE_UNSAFE;
  default: return MCG_INVALID;
  }
}

/* What to do, if anything, stands behind the last newline of a built-in's text, which is cut off there.
 * NULL where it says nothing. */
static const char *take_fix(char *text)
{
  char *cut = text ? strrchr(text, '\n') : NULL;
  if (!cut) return NULL;
  *cut = 0;
  return cut[1] ? cut + 1 : NULL;
}

static int verdict(run *r, mcg_error **err)
{
  const char *name = r->builtin->argv[0];
  if (r->lost) {
    *err = r->lost;
    r->lost = NULL;
    return mcg_wrap(err, "%s", name);
  }
  if (r->full)
    return mcg_fail(err, MCG_QUOTA, "ask for less, or raise the limit of what is read at once",
                    "%s gives more than %zu bytes", name, r->builtin->max_output);
  if (r->stopped) return mcg_fail(err, MCG_CANCELED, NULL, "the sink of %s stopped", name);
  if (r->builtin->program && !r->number && r->code >= 0) {
    if (r->builtin->exit_code) *r->builtin->exit_code = r->code;
    return 0;
  }
  if (r->number || r->code != 0) {
    if (r->code < 0)
      return mcg_fail(err, MCG_UNAVAILABLE, NULL, "%s was ended by signal %d", name, -r->code);
    const char *fix = r->said ? take_fix(r->text) : NULL;
    if (!fix && code_of(r->number) == MCG_QUOTA)
      fix = "make room in the sandbox, or raise its limit";
    return mcg_fail(err, code_of(r->number), fix, "%s: %s", name,
                    r->text ? r->text : strerror(r->number));
  }
  return 0;
}

/* Nothing of it may live on, whatever came before: another call could meet it. */
static void finish(run *r)
{
  if (r->finished) return;
  r->finished = true;
  if (!r->over && !r->gone) mcg_channel_kill(r->channel);
  mcg_fiber_shield(r->engine, true);
  auto_error mcg_error *late = NULL;
  while (!r->over && !r->gone && !late)
    if (mcg_wait_park(r->engine, &r->wait, GONE_MS, &late) < 0) break;
  mcg_fiber_shield(r->engine, false);
  mcg_channel_release(r->channel);
}

static int start(run *r, mcg_engine *engine, mcg_stream *stream, mcg_builtin *builtin, bool feeds,
                 mcg_error **err)
{
  *r = (run){.engine = engine, .builtin = builtin};
  mcg_wait_init(&r->wait);
  mcg_wire body;
  mcg_wire_init(&body);
  for (const char *const *arg = builtin->argv; *arg; arg++)
    mcg_wire_put_str(&body, MCG_TAG_ARG, *arg);
  if (builtin->user) mcg_wire_put_str(&body, MCG_TAG_USER, builtin->user);
  uint32_t flags = (builtin->program ? 0 : MCG_EXEC_BUILTIN) | (feeds ? 0 : MCG_EXEC_NO_STDIN);
  int rc = mcg_channel_open(stream, &body, flags, &run_events, r, &r->channel, err);
  mcg_wire_fini(&body);
  if (rc < 0) return mcg_wrap(err, "%s", builtin->argv[0]);
  builtin->run = r;
  return 0;
}

static void dispose(run *r)
{
  r->builtin->run = NULL;
  mcg_error_free(r->lost);
  mcg_error_free(r->unwritten);
  free(r->text);
}

int mcg_builtin_run(mcg_engine *engine, mcg_stream *stream, mcg_builtin *builtin, mcg_error **err)
{
  run r;
  bool feeds = builtin->source || builtin->input_len > 0;
  if (start(&r, engine, stream, builtin, feeds, err) < 0) return -1;
  int rc = feeds ? feed(&r, err) : 0;
  if (rc == 0) rc = wait_for_end(&r, err);
  finish(&r);
  if (rc == 0) rc = verdict(&r, err);
  dispose(&r);
  return rc;
}

static bool ended_well(const run *r)
{
  return r->exited && r->drained && !r->stopped && !r->over && !r->number && r->code == 0;
}

/* All of `from` is with `to`: lets go of the one, and tells the other that there is no more. */
static int end_input(run *from, run *to, mcg_error **err)
{
  finish(from);
  const mcg_builtin *b = to->builtin;
  if (b->before_end && b->before_end(b->data, err) < 0) return -1;
  mcg_channel_close_stdin(to->channel);
  return wait_for_end(to, err);
}

/* Until `from` has said all and `to` has taken it and ended, or either is broken. */
static int wait_for_both(run *from, run *to, mcg_error **err)
{
  bool drains = false;
  while (!broken(from) && !broken(to) && !to->exited && !from->drained) {
    if (from->exited && !drains) {
      drains = true;
      mcg_channel_drain(from->channel, on_drained, from);
    } else if (mcg_wait_park(to->engine, &to->wait, -1, err) < 0) {
      return -1;
    }
  }
  return ended_well(from) && !to->exited && !broken(to) ? end_input(from, to, err) : 0;
}

int mcg_builtin_pipe(mcg_engine *engine, mcg_stream *from_stream, mcg_builtin *from,
                     mcg_stream *to_stream, mcg_builtin *to, mcg_error **err)
{
  run sender, taker;
  if (start(&taker, engine, to_stream, to, true, err) < 0) return -1;
  int rc = start(&sender, engine, from_stream, from, false, err);
  if (rc < 0) {
    finish(&taker);
    dispose(&taker);
    return -1;
  }
  sender.to = &taker;
  rc = wait_for_both(&sender, &taker, err);
  bool sent = sender.exited && sender.drained && !sender.stopped; /* well or not */
  finish(&sender);
  /* A taker that closed its stdin early has a reason, or had enough: its exit tells. */
  if (rc == 0 && sender.stopped && !taker.exited) rc = wait_for_end(&taker, err);
  finish(&taker);
  if (rc == 0 && (sent || sender.over)) rc = verdict(&sender, err);
  if (rc == 0) rc = verdict(&taker, err);
  dispose(&sender);
  dispose(&taker);
  return rc;
}
