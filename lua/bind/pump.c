/* pump.c: joins a command's streams to descriptors of ours, in C: bytes never become Lua strings,
 * the loop never blocks, and whoever is slow slows the other side. A reader of ours that is gone
 * (EPIPE) is told to the command as SIGPIPE, as a pipeline would; what it still says is dropped. */
#include "bind.h"
#include "fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)64 << 10)

struct sink {
  mcg_pump *pump;
  mcg_fd *fd;
  int stream;
  char *rest; /* taken, not yet written; at most one chunk of the engine */
  size_t len, start;
  bool gone, paused;
};

struct mcg_pump {
  mcg_lua *host;
  mcg_exec *exec;
  struct sink sinks[3]; /* 1 and 2 are used */
  mcg_fd *input;
  char *chunk;
  bool ending, input_over, writing;
  int *lost;
  void (*drained)(void *data);
  void *data;
};

static void pump_free(mcg_pump *p)
{
  for (int i = 1; i <= 2; i++) {
    mcg_fd_close(p->sinks[i].fd);
    free(p->sinks[i].rest);
  }
  mcg_fd_close(p->input);
  free(p->chunk);
  free(p);
}

/* ---- out ---------------------------------------------------------------------------------- */

static void check_drained(mcg_pump *p)
{
  /* A write to the command may still be under way: its completion holds the pump. */
  if (!p->ending || p->writing || p->sinks[1].len || p->sinks[2].len) return;
  void (*drained)(void *) = p->drained;
  void *data = p->data;
  pump_free(p);
  if (drained) drained(data);
}

static void sink_lost(struct sink *s)
{
  mcg_error *error = NULL;
  if (!*s->pump->lost) *s->pump->lost = errno;
  s->gone = true;
  s->len = s->start = 0;
  if (s->pump->exec && mcg_exec_signal(s->pump->exec, "SIGPIPE", &error) < 0) mcg_error_free(error);
}

/* Writes what it can; returns how much, and marks the sink gone when its reader is. */
static size_t sink_write(struct sink *s, const char *bytes, size_t len)
{
  size_t done = 0;
  while (done < len && !s->gone) {
    ssize_t n = mcg_fd_write(s->fd, bytes + done, len - done);
    if (n > 0)
      done += (size_t)n;
    else if (n < 0 && errno == EAGAIN)
      break;
    else
      sink_lost(s);
  }
  return s->gone ? len : done;
}

static void sink_ready(void *data)
{
  struct sink *s = data;
  size_t n = sink_write(s, s->rest + s->start, s->len);
  if (s->len > 0) {
    s->start += n;
    s->len -= n;
  }
  if (s->len > 0 && mcg_fd_arm(s->fd) == 0) return;
  if (s->len > 0) sink_lost(s);
  s->start = 0;
  if (s->paused && s->pump->exec) {
    s->paused = false;
    mcg_exec_resume(s->pump->exec, s->stream);
  }
  check_drained(s->pump);
}

bool mcg_pump_output(mcg_pump *p, int stream, const void *bytes, size_t len)
{
  struct sink *s = &p->sinks[stream];
  if (!s->fd || s->gone) return true;
  size_t done = s->len > 0 ? 0 : sink_write(s, bytes, len);
  if (done == len) return true;
  /* What comes after a pause (the engine drains a command that ended) is kept too. */
  char *rest = malloc(s->len + (len - done));
  if (!rest) {
    errno = ENOMEM;
    sink_lost(s);
    return true;
  }
  if (s->len > 0) memcpy(rest, s->rest + s->start, s->len);
  memcpy(rest + s->len, (const char *)bytes + done, len - done);
  free(s->rest);
  s->rest = rest;
  s->start = 0;
  s->len += len - done;
  s->paused = mcg_fd_arm(s->fd) == 0;
  if (!s->paused) sink_lost(s);
  return !s->paused;
}

/* ---- in ----------------------------------------------------------------------------------- */

static void input_end(mcg_pump *p)
{
  p->input_over = true;
  if (p->exec) mcg_exec_close_stdin(p->exec);
}

static void input_wait(mcg_pump *p)
{
  if (mcg_fd_arm(p->input) < 0) input_end(p);
}

static void on_written(void *data, mcg_error *error)
{
  mcg_pump *p = data;
  p->writing = false;
  if (error) p->input_over = true; /* the command wants no more */
  mcg_error_free(error);
  if (p->ending)
    check_drained(p);
  else if (!p->input_over)
    input_wait(p);
}

static void input_ready(void *data)
{
  mcg_pump *p = data;
  if (p->ending || p->input_over || !p->exec) return;
  ssize_t n = mcg_fd_read(p->input, p->chunk, CHUNK);
  mcg_error *error = NULL;
  if (n < 0 && errno == EAGAIN) {
    input_wait(p);
  } else if (n <= 0) {
    input_end(p);
  } else if (mcg_exec_write(p->exec, p->chunk, (size_t)n, on_written, p, &error) < 0) {
    p->input_over = true;
    mcg_error_free(error);
  } else {
    p->writing = true;
  }
}

/* ---- the whole ---------------------------------------------------------------------------- */

mcg_pump *mcg_pump_new(mcg_lua *host, const int fds[3], int *lost)
{
  mcg_pump *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->host = host;
  p->lost = lost;
  for (int i = 1; i <= 2; i++) {
    p->sinks[i].pump = p;
    p->sinks[i].stream = i;
    /* A descriptor that is closed swallows what is written to it, as /dev/null would. */
    if (fds[i] >= 0)
      p->sinks[i].fd = mcg_fd_open(&host->loop, fds[i], true, sink_ready, &p->sinks[i]);
  }
  if (fds[0] < 0) return p;
  p->chunk = malloc(CHUNK);
  p->input = mcg_fd_open(&host->loop, fds[0], false, input_ready, p);
  if (p->chunk) return p;
  pump_free(p);
  return NULL;
}

void mcg_pump_bind(mcg_pump *p, mcg_exec *exec)
{
  p->exec = exec;
  if (p->input)
    input_wait(p);
  else if (p->chunk)
    input_end(p);
}

void mcg_pump_finish(mcg_pump *p, void (*drained)(void *data), void *data)
{
  p->exec = NULL;
  p->ending = true;
  p->drained = drained;
  p->data = data;
  if (p->input) mcg_fd_disarm(p->input);
  check_drained(p);
}
