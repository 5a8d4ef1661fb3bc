/* dial.c: RFC 8305 in small: attempts that begin one after the other and run side by side. */
#include "dial.h"
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>

#define STAGGER_MS 250
#define ATTEMPTS_MAX 16

typedef struct attempt {
  struct dialing *dialing;
  uv_poll_t poll;
  int fd; /* -1: over */
  size_t which;
} attempt;

typedef struct dialing {
  mcg_engine *engine;
  mcg_wait wait;
  unsigned refs; /* the fiber, and each handle */
  size_t started, running;
  int first_number; /* errno of the first that failed */
  size_t first_which;
  attempt *winner;
  int at_once; /* connected, and never watched; or -1 */
  size_t at_once_which;
  attempt attempts[ATTEMPTS_MAX];
} dialing;

void mcg_endpoint_text(const mcg_address *address, uint16_t port, char out[MCG_ENDPOINT_TEXT])
{
  char text[MCG_ADDRESS_TEXT];
  mcg_address_text(address, text);
  snprintf(out, MCG_ENDPOINT_TEXT, address->six ? "[%s]:%u" : "%s:%u", text, port);
}

static void unref(dialing *self)
{
  if (--self->refs == 0) free(self);
}

static void handle_closed(uv_handle_t *handle)
{
  unref(((attempt *)handle->data)->dialing);
}

/* Gives up its descriptor, which is returned. */
static int attempt_end(attempt *self)
{
  int fd = self->fd;
  self->fd = -1;
  self->dialing->running--;
  uv_close((uv_handle_t *)&self->poll, handle_closed);
  return fd;
}

static void failed(dialing *self, size_t which, int number)
{
  if (self->first_number) return;
  self->first_number = number;
  self->first_which = which;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
  (void)status;
  (void)events;
  attempt *self = poll->data;
  dialing *all = self->dialing;
  int number = 0;
  socklen_t len = sizeof number;
  if (getsockopt(self->fd, SOL_SOCKET, SO_ERROR, &number, &len) < 0) number = errno;
  if (number) {
    failed(all, self->which, number);
    close(attempt_end(self));
  } else if (!all->winner) {
    all->winner = self;
    uv_poll_stop(poll);
  }
  mcg_wait_wake(all->engine, &all->wait);
}

static int await_answer(dialing *self, int fd, size_t which)
{
  attempt *one = &self->attempts[self->started];
  int rc = uv_poll_init(self->engine->loop, &one->poll, fd);
  if (rc < 0) return -rc;
  one->dialing = self;
  one->fd = fd;
  one->which = which;
  one->poll.data = one;
  self->refs++;
  self->started++;
  self->running++;
  uv_poll_start(&one->poll, UV_WRITABLE, on_poll);
  return 0;
}

static int connect_now(int fd, const struct sockaddr_storage *to, socklen_t len)
{
  return connect(fd, (const struct sockaddr *)to, len) < 0 ? errno : 0;
}

static int begin(dialing *self, const mcg_address *address, uint16_t port, size_t which)
{
  struct sockaddr_storage to;
  const int on = 1;
  socklen_t len = mcg_address_sockaddr(address, port, &to);
  int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  int number = connect_now(fd, &to, len);
  /* Who is on this machine has answered by now; asked again, the kernel says so. */
  if (number == EINPROGRESS) number = connect_now(fd, &to, len);
  if (number == 0) {
    self->at_once = fd;
    self->at_once_which = which;
  } else if (number == EALREADY) {
    number = await_answer(self, fd, which);
  }
  if (number) close(fd);
  return number;
}

/* The numbers of the list, families in turn. */
static size_t order_of(const mcg_address *list, size_t count, size_t out[ATTEMPTS_MAX])
{
  size_t next[2] = {0, 0}, made = 0;
  for (int turn = 0; made < count && made < ATTEMPTS_MAX; turn = !turn) {
    bool like_first = turn == 0;
    size_t *at = &next[turn];
    while (*at < count && (list[*at].six == list[0].six) != like_first) ++*at;
    if (*at < count) out[made++] = (*at)++;
  }
  return made;
}

static int conclude(dialing *self, const mcg_address *list, uint16_t port, int *fd, size_t *which,
                    mcg_error **err)
{
  attempt *winner = self->winner;
  if (self->at_once >= 0) {
    *which = self->at_once_which;
    *fd = self->at_once;
    return 0;
  }
  if (winner) {
    *which = winner->which;
    *fd = attempt_end(winner);
    return 0;
  }
  char text[MCG_ENDPOINT_TEXT];
  mcg_endpoint_text(&list[self->first_which], port, text);
  return mcg_fail(err, MCG_UNAVAILABLE, NULL, "connect to %s: %s", text,
                  strerror(self->first_number ? self->first_number : ETIMEDOUT));
}

int mcg_dial(mcg_engine *engine, const mcg_address *list, size_t count, uint16_t port,
             int64_t timeout_ms, int *fd, size_t *which, mcg_error **err)
{
  size_t order[ATTEMPTS_MAX], next = 0;
  dialing *self = calloc(1, sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a connection");
  self->engine = engine;
  self->at_once = -1;
  self->refs = 1;
  mcg_wait_init(&self->wait);
  count = order_of(list, count, order);
  uint64_t until = mcg_now_ms(engine) + (uint64_t)timeout_ms;
  int rc = 0;
  while (rc == 0 && !self->winner && (next < count || self->running)) {
    int64_t left = (int64_t)(until - mcg_now_ms(engine));
    if (left <= 0) break;
    if (next < count) {
      size_t number = order[next++];
      int why = begin(self, &list[number], port, number);
      if (why) {
        failed(self, number, why);
        continue;
      }
      if (self->at_once >= 0) break;
    }
    mcg_error *error = NULL;
    if (next < count && left > STAGGER_MS) left = STAGGER_MS;
    if (mcg_wait_park(engine, &self->wait, left, &error) < 0) {
      if (error->code == MCG_TIMEOUT) {
        mcg_error_free(error);
        continue;
      }
      *err = error;
      rc = -1;
    }
  }
  if (rc == 0) rc = conclude(self, list, port, fd, which, err);
  for (size_t i = 0; i < self->started; i++)
    if (self->attempts[i].fd >= 0) close(attempt_end(&self->attempts[i]));
  unref(self);
  return rc;
}
