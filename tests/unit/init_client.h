/* init_client.h: a plain client of `mooncage-init server` for tests, over both carriers. It follows
 * protocol.h and shares only its codecs with the engine. Every wait ends after WAIT_MS with a failure. */
#ifndef INIT_CLIENT_H
#define INIT_CLIENT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "init/protocol.h"
#include "init/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Not every test uses everything here. */
#define MAYBE __attribute__((unused))

/* Under valgrind everything takes long. */
#define WAIT_MS (getenv("MOONCAGE_VALGRIND") ? 300000u : 120000u)
#define JOBS_MAX 16

typedef struct job {
  uint32_t channel;
  bool started, exited, gone, refused;
  int pid, code, signo, error;
  char step[64], text[256];
  int fds[3]; /* direct: stdin, stdout, stderr; -1 where closed */
  bool ended[3];
  char *data[3];
  size_t len[3];
  uint64_t cpu_us, maxrss_kb;
  uint32_t window; /* framed: what may still go to stdin */
  bool hold[3];    /* read nothing and grant nothing */
} job;

typedef struct client {
  int fd, carrier;
  pid_t pid;
  uint64_t sent, seen;
  uint8_t in[MCG_FRAME_HEADER + MCG_FRAME_MAX];
  size_t held;
  bool hello, ended;
  int server_pid;
  char failed[64];
  char mechanisms[2048]; /* of HELLO, a line each */
  unsigned pongs, all_gone;
  job jobs[JOBS_MAX];
  unsigned job_count;
} client;

static uint64_t now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void client_send_raw(client *c, const void *bytes, size_t len, int fd)
{
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct iovec part = {(void *)(uintptr_t)bytes, len};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (fd >= 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  while (len) {
    ssize_t sent = sendmsg(c->fd, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return; /* the peer is gone: the test sees its end */
    len -= (size_t)sent;
    part.iov_base = (char *)part.iov_base + sent;
    part.iov_len = len;
    message.msg_control = NULL;
    message.msg_controllen = 0;
  }
}

MAYBE static void client_send_fd(client *c, mcg_frame_type type, uint32_t channel, uint8_t stream,
                                 const void *bytes, size_t len, int fd)
{
  size_t at = 0;
  do {
    size_t piece = len - at < MCG_FRAME_MAX ? len - at : MCG_FRAME_MAX;
    uint8_t *frame = malloc(MCG_FRAME_HEADER + piece);
    mcg_frame header = {.length = (uint32_t)piece,
                        .type = (uint8_t)type,
                        .stream = stream,
                        .flags = at + piece < len ? MCG_FRAME_MORE : 0,
                        .fds = fd >= 0,
                        .channel = channel,
                        .sequence = ++c->sent};
    assert_non_null(frame);
    mcg_frame_encode(&header, frame);
    if (piece) memcpy(frame + MCG_FRAME_HEADER, (const char *)bytes + at, piece);
    client_send_raw(c, frame, MCG_FRAME_HEADER + piece, fd);
    free(frame);
    at += piece;
  } while (at < len);
}

static void client_send(client *c, mcg_frame_type type, uint32_t channel, uint8_t stream,
                        const mcg_wire *body)
{
  client_send_fd(c, type, channel, stream, body ? body->data : NULL, body ? body->len : 0, -1);
}

MAYBE static void client_send_number(client *c, mcg_frame_type type, uint32_t channel,
                                     uint8_t stream, uint16_t tag, uint64_t value)
{
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_u64(&body, tag, value);
  client_send(c, type, channel, stream, &body);
  mcg_wire_fini(&body);
}

static job *client_job(client *c, uint32_t channel)
{
  for (unsigned i = 0; i < c->job_count; i++)
    if (c->jobs[i].channel == channel) return &c->jobs[i];
  return NULL;
}

static void job_append(job *j, int stream, const void *bytes, size_t len)
{
  j->data[stream] = realloc(j->data[stream], j->len[stream] + len + 1);
  assert_non_null(j->data[stream]);
  if (len) memcpy(j->data[stream] + j->len[stream], bytes, len);
  j->len[stream] += len;
  j->data[stream][j->len[stream]] = 0;
}

static void copy_text(char *out, size_t size, const mcg_field *field)
{
  size_t len = field->len < size - 1 ? field->len : size - 1;
  memcpy(out, field->bytes, len);
  out[len] = 0;
}

static void job_fields(job *j, const uint8_t *body, size_t len)
{
  mcg_reader reader = mcg_reader_of(body, len);
  mcg_field field;
  while (mcg_reader_next(&reader, &field)) {
    int value = (int)mcg_field_u64(&field);
    if (field.tag == MCG_TAG_PID) j->pid = value;
    if (field.tag == MCG_TAG_CODE) j->code = value;
    if (field.tag == MCG_TAG_SIGNO) j->signo = value;
    if (field.tag == MCG_TAG_ERRNO) j->error = value;
    if (field.tag == MCG_TAG_CPU_US) j->cpu_us = mcg_field_u64(&field);
    if (field.tag == MCG_TAG_MAXRSS_KB) j->maxrss_kb = mcg_field_u64(&field);
    if (field.tag == MCG_TAG_STEP) copy_text(j->step, sizeof j->step, &field);
    if (field.tag == MCG_TAG_TEXT) copy_text(j->text, sizeof j->text, &field);
  }
  assert_false(reader.bad);
}

static void client_take(client *c, const mcg_frame *frame, const uint8_t *body, const int *fds)
{
  assert_int_equal(frame->sequence, ++c->seen);
  mcg_reader reader = mcg_reader_of(body, frame->length);
  mcg_field field;
  if (frame->type == MCG_F_HELLO) {
    c->hello = true;
    while (mcg_reader_next(&reader, &field)) {
      if (field.tag == MCG_TAG_PID) c->server_pid = (int)mcg_field_u64(&field);
      size_t used = strlen(c->mechanisms);
      if (field.tag == MCG_TAG_MECHANISM)
        snprintf(c->mechanisms + used, sizeof c->mechanisms - used, "%.*s\n", (int)field.len,
                 (const char *)field.bytes);
    }
    return;
  }
  if (frame->type == MCG_F_FAILED) {
    while (mcg_reader_next(&reader, &field))
      if (field.tag == MCG_TAG_STEP) copy_text(c->failed, sizeof c->failed, &field);
    return;
  }
  if (frame->type == MCG_F_PONG) {
    c->pongs++;
    return;
  }
  if (frame->type == MCG_F_GONE && frame->channel == 0) {
    c->all_gone++;
    return;
  }
  job *j = client_job(c, frame->channel);
  assert_non_null(j);
  assert_false(j->gone); /* nothing comes after GONE */
  switch (frame->type) {
  case MCG_F_STARTED:
    job_fields(j, body, frame->length);
    j->started = true;
    if (c->carrier == 0) {
      int at = 0, count = frame->fds;
      if (count == 3) j->fds[0] = fds[at++];
      if (count) j->fds[1] = fds[at++];
      if (count > 1) j->fds[2] = fds[at++];
      for (int i = 1; i < 3; i++) j->ended[i] = j->fds[i] < 0;
    }
    break;
  case MCG_F_ERROR:
    job_fields(j, body, frame->length);
    j->refused = j->gone = true;
    break;
  case MCG_F_DATA:
    assert_int_equal(c->carrier, 1);
    assert_false(j->ended[frame->stream]);
    job_append(j, frame->stream, body, frame->length);
    if (!j->hold[frame->stream])
      client_send_number(c, MCG_F_CREDIT, j->channel, frame->stream, MCG_TAG_BYTES, frame->length);
    break;
  case MCG_F_EOF: j->ended[frame->stream] = true; break;
  case MCG_F_CREDIT:
    while (mcg_reader_next(&reader, &field)) j->window += (uint32_t)mcg_field_u64(&field);
    break;
  case MCG_F_EXIT:
    assert_true(j->started);
    job_fields(j, body, frame->length);
    j->exited = true;
    break;
  case MCG_F_GONE:
    assert_true(j->exited);
    j->gone = true;
    break;
  default: fail_msg("unexpected frame type %d", frame->type);
  }
}

static void client_read_packet(client *c)
{
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * MCG_FDS_MAX)];
  } control;
  int fds[MCG_FDS_MAX] = {-1, -1, -1, -1, -1};
  size_t count = 0;
  mcg_frame frame;
  struct iovec part = {c->in, sizeof c->in};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  ssize_t len = recvmsg(c->fd, &message, MSG_CMSG_CLOEXEC);
  if (len <= 0) {
    c->ended = true;
    return;
  }
  for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
    count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(fds, CMSG_DATA(at), count * sizeof(int));
  }
  assert_true(mcg_frame_decode(c->in, &frame));
  assert_int_equal(frame.fds, count);
  assert_int_equal(frame.length + MCG_FRAME_HEADER, len);
  client_take(c, &frame, c->in + MCG_FRAME_HEADER, fds);
}

static void client_read_frames(client *c)
{
  ssize_t len = read(c->fd, c->in + c->held, sizeof c->in - c->held);
  if (len <= 0) {
    c->ended = true;
    return;
  }
  c->held += (size_t)len;
  mcg_frame frame;
  while (c->held >= MCG_FRAME_HEADER) {
    assert_true(mcg_frame_decode(c->in, &frame));
    size_t whole = MCG_FRAME_HEADER + frame.length;
    if (c->held < whole) return;
    client_take(c, &frame, c->in + MCG_FRAME_HEADER, NULL);
    memmove(c->in, c->in + whole, c->held - whole);
    c->held -= whole;
  }
}

static void job_read(job *j, int stream)
{
  char buffer[65536];
  ssize_t len = read(j->fds[stream], buffer, sizeof buffer);
  if (len > 0) {
    job_append(j, stream, buffer, (size_t)len);
    return;
  }
  close(j->fds[stream]);
  j->fds[stream] = -1;
  j->ended[stream] = true;
}

/* One round of waiting, at most `ms`. */
static void client_turn(client *c, int ms)
{
  struct pollfd set[1 + JOBS_MAX * 2] = {{.fd = c->fd, .events = POLLIN}};
  struct {
    job *j;
    int stream;
  } who[1 + JOBS_MAX * 2];
  nfds_t count = 1;
  for (unsigned i = 0; i < c->job_count; i++)
    for (int s = 1; s < 3; s++)
      if (c->jobs[i].fds[s] >= 0 && !c->jobs[i].hold[s]) {
        who[count].j = &c->jobs[i];
        who[count].stream = s;
        set[count++] = (struct pollfd){.fd = c->jobs[i].fds[s], .events = POLLIN};
      }
  if (c->ended) set[0].fd = -1;
  if (poll(set, count, ms) < 0) return;
  if (set[0].revents && c->carrier == 0) client_read_packet(c);
  if (set[0].revents && c->carrier == 1) client_read_frames(c);
  for (nfds_t i = 1; i < count; i++)
    if (set[i].revents) job_read(who[i].j, who[i].stream);
}

#define client_until(c, condition)                                                                 \
  do {                                                                                             \
    uint64_t end_ = now_ms() + WAIT_MS;                                                            \
    while (!(condition)) {                                                                         \
      if (now_ms() > end_) fail_msg("waited in vain for %s", #condition);                          \
      client_turn(c, 100);                                                                         \
      if ((c)->ended && end_ > now_ms() + 2000) end_ = now_ms() + 2000;                            \
    }                                                                                              \
  } while (0)

/* `pid1`: in a pid namespace of its own; NULL where that is not allowed. */
MAYBE static client *client_start_in(int carrier, const char *dir, bool pid1)
{
  int pair[2];
  const char *path = getenv("MOONCAGE_INIT");
  client *c = calloc(1, sizeof *c);
  assert_non_null(path);
  assert_non_null(c);
  assert_int_equal(
      socketpair(AF_UNIX, (carrier ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_CLOEXEC, 0, pair), 0);
  signal(SIGPIPE, SIG_IGN);
  c->pid = fork();
  assert_true(c->pid >= 0);
  if (c->pid == 0) {
    if (pair[1] == 3)
      fcntl(3, F_SETFD, 0);
    else
      dup2(pair[1], 3);
    static char *const around[] = {"unshare", "--user",       "--map-root-user", "--pid",
                                   "--fork",  "--kill-child", "--mount-proc"};
    char *argv[16] = {0};
    int at = pid1 ? 7 : 0;
    memcpy(argv, around, (size_t)at * sizeof *argv);
    argv[at++] = (char *)(uintptr_t)path;
    argv[at++] = "server";
    if (carrier) argv[at++] = "--framed";
    if (dir) {
      argv[at++] = "--dir";
      argv[at++] = (char *)(uintptr_t)dir;
    }
    execvp(argv[0], argv);
    _exit(99);
  }
  close(pair[1]);
  c->fd = pair[0];
  c->carrier = carrier;
  client_send_number(c, MCG_F_HELLO, 0, 0, MCG_TAG_VERSION, MCG_PROTOCOL_VERSION);
  client_until(c, c->hello || (pid1 && c->ended));
  if (c->hello) return c;
  waitpid(c->pid, NULL, 0);
  close(c->fd);
  free(c);
  return NULL;
}

MAYBE static client *client_start_with(int carrier, const char *dir)
{
  return client_start_in(carrier, dir, false);
}

static void client_free(client *c)
{
  for (unsigned i = 0; i < c->job_count; i++)
    for (int s = 0; s < 3; s++) {
      if (c->jobs[i].fds[s] >= 0) close(c->jobs[i].fds[s]);
      free(c->jobs[i].data[s]);
    }
  close(c->fd);
  free(c);
}

/* Closes the stream and takes init's exit status. */
MAYBE static int client_stop(client *c)
{
  int status = -1;
  pid_t pid = c->pid;
  client_free(c);
  uint64_t end = now_ms() + WAIT_MS;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (now_ms() > end) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      fail_msg("init did not leave at the end of its stream");
    }
    usleep(2000);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static job *job_open(client *c, uint32_t flags, mcg_wire *body)
{
  static uint32_t last;
  assert_true(c->job_count < JOBS_MAX);
  job *j = &c->jobs[c->job_count++];
  *j = (job){.channel = ++last, .fds = {-1, -1, -1}, .window = MCG_WINDOW};
  for (int i = 0; i < 3; i++) job_append(j, i, "", 0);
  mcg_wire_put_u64(body, MCG_TAG_FLAGS, flags);
  client_send(c, MCG_F_EXEC, j->channel, 0, body);
  mcg_wire_fini(body);
  return j;
}

/* Starts `argv` (NULL-terminated varargs); does not wait. */
MAYBE __attribute__((sentinel)) static job *job_start(client *c, uint32_t flags, const char *first,
                                                      ...)
{
  mcg_wire body;
  va_list rest;
  mcg_wire_init(&body);
  va_start(rest, first);
  for (const char *arg = first; arg; arg = va_arg(rest, const char *))
    mcg_wire_put_str(&body, MCG_TAG_ARG, arg);
  va_end(rest);
  return job_open(c, flags, &body);
}

MAYBE static void job_close_stdin(client *c, job *j)
{
  if (c->carrier == 1) {
    client_send(c, MCG_F_EOF, j->channel, 0, NULL);
  } else if (j->fds[0] >= 0) {
    close(j->fds[0]);
    j->fds[0] = -1;
  }
}

/* Writes all of it, reading what comes meanwhile. */
MAYBE static void job_write(client *c, job *j, const void *bytes, size_t len)
{
  const char *at = bytes;
  client_until(c, j->started || j->gone);
  if (c->carrier == 0) fcntl(j->fds[0], F_SETFL, O_NONBLOCK);
  while (len) {
    size_t piece = len < MCG_FRAME_MAX ? len : MCG_FRAME_MAX;
    if (c->carrier == 0) {
      ssize_t sent = write(j->fds[0], at, piece);
      if (sent < 0 && errno != EAGAIN) return;
      if (sent < 0) client_turn(c, 10);
      piece = sent < 0 ? 0 : (size_t)sent;
    } else {
      client_until(c, j->window > 0 || j->exited);
      if (j->exited) return;
      if (piece > j->window) piece = j->window;
      client_send_fd(c, MCG_F_DATA, j->channel, 0, at, piece, -1);
      j->window -= (uint32_t)piece;
      client_turn(c, 0);
    }
    at += piece;
    len -= piece;
  }
}

MAYBE static void job_finish(client *c, job *j)
{
  client_until(c, j->gone && (j->refused || (j->ended[1] && j->ended[2])));
}

/* Forgets finished jobs, so that a client can run many. */
MAYBE static void client_forget(client *c)
{
  for (unsigned i = 0; i < c->job_count; i++)
    for (int s = 0; s < 3; s++) {
      if (c->jobs[i].fds[s] >= 0) close(c->jobs[i].fds[s]);
      free(c->jobs[i].data[s]);
    }
  c->job_count = 0;
}

#endif
