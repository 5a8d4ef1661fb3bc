/* stderr.c: events as lines on standard error, for people who watch. Their chain begins with the
 * engine. Always on a thread: a reader that does not read holds up that one only. */
#include "engine.h"
#include "sink.h"
#include <errno.h>
#include <poll.h>
#include <string.h>

typedef struct to_stderr {
  mcg_sink sink;
  mcg_chain chain;
  mcg_text out;
} to_stderr;

static int fail(mcg_error **err, int number)
{
  return mcg_fail(err, MCG_AUDIT_FAILED, "leave standard error open, or use mooncage.audit.jsonl",
                  "the audit log on standard error: %s", strerror(number));
}

static int stderr_write(mcg_sink *sink, const mcg_delivery *batch, bool may_wait, mcg_error **err)
{
  to_stderr *self = (to_stderr *)sink;
  if (!may_wait) return 1;
  if (self->sink.engine->no_stderr) return fail(err, EBADF);
  const mcg_chain before = self->chain;
  self->out.len = 0;
  for (; batch; batch = batch->next)
    if (!mcg_chain_append(&self->chain, &self->out, batch->line)) {
      self->chain = before;
      return fail(err, ENOMEM);
    }
  const char *at = self->out.data;
  for (size_t left = self->out.len; left;) {
    ssize_t put = write(STDERR_FILENO, at, left);
    if (put > 0) {
      at += put;
      left -= (size_t)put;
    } else if (put < 0 && errno == EAGAIN) {
      struct pollfd writable = {.fd = STDERR_FILENO, .events = POLLOUT};
      poll(&writable, 1, -1);
    } else if (put == 0 || errno != EINTR) {
      return fail(err, put == 0 ? EIO : errno);
    }
  }
  return 0;
}

static void stderr_free(mcg_sink *sink)
{
  to_stderr *self = (to_stderr *)sink;
  mcg_text_fini(&self->out);
  free(self);
}

static const mcg_sink_type stderr_type = {.write = stderr_write, .free = stderr_free};

mcg_sink *mcg_stderr_new(mcg_engine *engine, mcg_error **err)
{
  to_stderr *self = calloc(1, sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the audit log"), NULL;
  self->sink = (mcg_sink){.type = &stderr_type, .engine = engine};
  mcg_chain_init(&self->chain, NULL, 0);
  return &self->sink;
}
