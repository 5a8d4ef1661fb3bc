/* fd.c: see fd.h. A pipe or terminal is opened once more through /proc/self/fd, which gives a file
 * description of our own to be non-blocking; a socket has MSG_DONTWAIT; a regular file does not
 * block; what is left is written in pieces that poll says fit. Readiness comes through an epoll of
 * our own inside the loop's, since uv_poll would set O_NONBLOCK on the shared description. */
#include "fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum kind { OWN, SOCKET, REGULAR, CAREFUL };

struct mcg_fd {
  uv_loop_t *loop;
  uv_poll_t poll;
  enum kind kind;
  int fd, epoll, always;
  bool writes, owned, polling;
  mcg_fd_ready ready;
  void *data;
};

static void on_poll(uv_poll_t *poll, int status, int events)
{
  mcg_fd *f = poll->data;
  (void)status;
  (void)events;
  uv_poll_stop(poll);
  if (f->ready) f->ready(f->data);
}

static void choose_kind(mcg_fd *f)
{
  struct stat st;
  char path[40];
  f->kind = CAREFUL;
  if (fstat(f->fd, &st) < 0) return;
  if (S_ISREG(st.st_mode)) f->kind = REGULAR;
  if (S_ISSOCK(st.st_mode)) f->kind = SOCKET;
  if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode)) return;
  snprintf(path, sizeof path, "/proc/self/fd/%d", f->fd);
  int flags = f->writes ? O_WRONLY : O_RDONLY;
  int own = open(path, flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (own < 0) return;
  f->kind = OWN;
  f->fd = own;
  f->owned = true;
}

mcg_fd *mcg_fd_open(uv_loop_t *loop, int fd, bool writes, mcg_fd_ready ready, void *data)
{
  if (fcntl(fd, F_GETFD) < 0) return NULL;
  mcg_fd *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  f->loop = loop;
  f->fd = fd;
  f->epoll = f->always = -1;
  f->writes = writes;
  f->ready = ready;
  f->data = data;
  choose_kind(f);
  return f;
}

/* Most descriptors never make anybody wait: the epoll is made by the first that does. */
static int start_polling(mcg_fd *f)
{
  f->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (f->epoll < 0) return -1;
  struct epoll_event event = {.events = f->writes ? EPOLLOUT : EPOLLIN};
  if (epoll_ctl(f->epoll, EPOLL_CTL_ADD, f->fd, &event) < 0) {
    if (errno != EPERM) return -1;
    event.events = EPOLLOUT;             /* a regular file or /dev/null is always ready: */
    f->always = eventfd(0, EFD_CLOEXEC); /* and so is this, which stands in for it */
    if (f->always < 0 || epoll_ctl(f->epoll, EPOLL_CTL_ADD, f->always, &event) < 0) return -1;
  }
  if (uv_poll_init(f->loop, &f->poll, f->epoll) < 0) return -1;
  f->poll.data = f;
  f->polling = true;
  return 0;
}

ssize_t mcg_fd_read(mcg_fd *f, void *buffer, size_t cap)
{
  ssize_t n;
  struct pollfd wait = {.fd = f->fd, .events = POLLIN};
  if (f->kind == CAREFUL && poll(&wait, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  do n = f->kind == SOCKET ? recv(f->fd, buffer, cap, MSG_DONTWAIT) : read(f->fd, buffer, cap);
  while (n < 0 && errno == EINTR);
  return n;
}

ssize_t mcg_fd_write(mcg_fd *f, const void *bytes, size_t len)
{
  ssize_t n;
  if (f->kind == CAREFUL) {
    struct pollfd wait = {.fd = f->fd, .events = POLLOUT};
    if (poll(&wait, 1, 0) == 0) {
      errno = EAGAIN;
      return -1;
    }
    if (len > PIPE_BUF) len = PIPE_BUF; /* this much fits when poll says writable */
  }
  do
    n = f->kind == SOCKET ? send(f->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL)
                          : write(f->fd, bytes, len);
  while (n < 0 && errno == EINTR);
  return n;
}

int mcg_fd_arm(mcg_fd *f)
{
  if (!f->polling && start_polling(f) < 0) return -1;
  uv_poll_start(&f->poll, UV_READABLE, on_poll);
  return 0;
}

void mcg_fd_disarm(mcg_fd *f)
{
  if (f->polling) uv_poll_stop(&f->poll);
}

static void fd_free(mcg_fd *f)
{
  if (f->epoll >= 0) close(f->epoll);
  if (f->always >= 0) close(f->always);
  if (f->owned) close(f->fd);
  free(f);
}

static void on_closed(uv_handle_t *handle)
{
  fd_free(handle->data);
}

void mcg_fd_close(mcg_fd *f)
{
  if (!f) return;
  f->ready = NULL;
  if (f->polling)
    uv_close((uv_handle_t *)&f->poll, on_closed);
  else
    fd_free(f);
}
