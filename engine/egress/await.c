/* await.c: one descriptor, one fiber, one event. */
#include "await.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

typedef struct await {
  mcg_engine *engine;
  mcg_wait *wait; /* NULL once the fiber has gone on */
  uv_poll_t poll;
} await;

static void await_closed(uv_handle_t *handle)
{
  free(handle->data);
}

static void await_ready(uv_poll_t *poll, int status, int events)
{
  (void)status; /* what is wrong with it, reading or writing will say */
  (void)events;
  await *self = poll->data;
  uv_poll_stop(poll);
  mcg_wait_wake(self->engine, self->wait);
}

static int await_event(mcg_engine *engine, int fd, int event, int64_t timeout_ms, mcg_error **err)
{
  mcg_wait wait;
  await *self = malloc(sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to wait for a socket");
  self->engine = engine;
  self->wait = &wait;
  int rc = uv_poll_init(engine->loop, &self->poll, fd);
  if (rc < 0) {
    free(self);
    return mcg_fail_errno(err, -rc, NULL, "watch a socket");
  }
  self->poll.data = self;
  mcg_wait_init(&wait);
  uv_poll_start(&self->poll, event, await_ready);
  rc = mcg_wait_park(engine, &wait, timeout_ms, err);
  uv_close((uv_handle_t *)&self->poll, await_closed); /* it calls nobody any more */
  return rc;
}

int mcg_await_readable(mcg_engine *engine, int fd, int64_t timeout_ms, mcg_error **err)
{
  return await_event(engine, fd, UV_READABLE, timeout_ms, err);
}

int mcg_await_writable(mcg_engine *engine, int fd, int64_t timeout_ms, mcg_error **err)
{
  return await_event(engine, fd, UV_WRITABLE, timeout_ms, err);
}

static int broken(ssize_t n, mcg_error **err)
{
  return mcg_fail(err, MCG_UNAVAILABLE, NULL, "%s",
                  n == 0 ? "the connection ended too early" : strerror(errno));
}

int64_t mcg_await_left(const mcg_engine *engine, uint64_t until_ms)
{
  int64_t left = (int64_t)(until_ms - mcg_now_ms(engine));
  return left > 0 ? left : 0;
}

int mcg_await_send(mcg_engine *engine, int fd, const void *bytes, size_t len, int64_t timeout_ms,
                   mcg_error **err)
{
  const char *at = bytes;
  const uint64_t until = mcg_now_ms(engine) + (uint64_t)timeout_ms;
  while (len) {
    ssize_t n = send(fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) return broken(n, err);
    if (n < 0) {
      if (mcg_await_writable(engine, fd, mcg_await_left(engine, until), err) < 0) return -1;
      continue;
    }
    at += n;
    len -= (size_t)n;
  }
  return 0;
}

int mcg_await_recv(mcg_engine *engine, int fd, void *bytes, size_t len, int64_t timeout_ms,
                   mcg_error **err)
{
  char *at = bytes;
  const uint64_t until = mcg_now_ms(engine) + (uint64_t)timeout_ms;
  while (len) {
    ssize_t n = recv(fd, at, len, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0 || (n < 0 && errno != EAGAIN)) return broken(n, err);
    if (n < 0) {
      if (mcg_await_readable(engine, fd, mcg_await_left(engine, until), err) < 0) return -1;
      continue;
    }
    at += n;
    len -= (size_t)n;
  }
  return 0;
}
