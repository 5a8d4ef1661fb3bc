/* fake_init.h: the other end of a stream, played by a test: it sends what a real init never would. */
#ifndef TEST_FAKE_INIT_H
#define TEST_FAKE_INIT_H

#include "host.h"
#include "stream/stream.h"
#include "engine.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct fake {
  mcg_carrier carrier;
  int fd, theirs; /* theirs: until the stream has taken it */
  uint64_t sent;
  mcg_stream *stream;
  outcome opening;
  mcg_error *lost; /* what on_lost told */
  int losses, mechanisms;
} fake;

/* What a channel was told. */
typedef struct told {
  int started, exited, gone, refused, lost, eofs;
  int number, code;
  size_t bytes[3];
  bool pause;
} told;

UNUSED static void told_started(void *data, int pid)
{
  (void)pid;
  ((told *)data)->started++;
}
UNUSED static bool told_data(void *data, int stream, const void *bytes, size_t len)
{
  (void)bytes;
  ((told *)data)->bytes[stream] += len;
  return !((told *)data)->pause;
}
UNUSED static void told_eof(void *data, int stream)
{
  (void)stream;
  ((told *)data)->eofs++;
}
UNUSED static void told_exit(void *data, const mcg_exit *status)
{
  ((told *)data)->exited++;
  ((told *)data)->code = status->code;
}
UNUSED static void told_refused(void *data, int number, const char *step, const char *text)
{
  (void)step;
  (void)text;
  ((told *)data)->refused++;
  ((told *)data)->number = number;
}
UNUSED static void told_gone(void *data)
{
  ((told *)data)->gone++;
}
UNUSED static void told_lost(void *data, const mcg_error *error)
{
  (void)error;
  ((told *)data)->lost++;
}
UNUSED static const mcg_channel_events telling = {told_started, told_data, told_eof, told_exit,
                                                  told_refused, told_gone, told_lost};

UNUSED static int open_descriptors(void)
{
  int count = 0;
  DIR *dir = opendir("/proc/self/fd");
  while (readdir(dir)) count++;
  closedir(dir);
  return count;
}

static void fake_mechanism(void *data, const char *name, const char *value)
{
  (void)name;
  (void)value;
  ((fake *)data)->mechanisms++;
}

static void fake_lost(void *data, const mcg_error *error)
{
  fake *self = data;
  self->losses++;
  mcg_error_free(self->lost);
  self->lost = mcg_error_copy(error);
}

static int fake_open_run(void *arg, mcg_error **err)
{
  fake *self = arg;
  return mcg_stream_open(engine, self->theirs, self->carrier, fake_mechanism, fake_lost, self,
                         &self->stream, err);
}

static void fake_open_done(void *arg, mcg_error *error)
{
  take_done(&((fake *)arg)->opening, error);
}

/* Starts opening; what the fake sends meanwhile decides how it ends. */
UNUSED static void fake_begin(fake *self, mcg_carrier carrier)
{
  int pair[2];
  *self = (fake){.carrier = carrier};
  int type = carrier == MCG_CARRIER_DIRECT ? SOCK_SEQPACKET : SOCK_STREAM;
  assert_int_equal(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair), 0);
  self->fd = pair[0];
  self->theirs = pair[1];
  assert_int_equal(mcg_op_start(engine, fake_open_run, fake_open_done, self, NULL, NULL), 0);
}

/* Bytes as they are, with descriptors; a full socket drops them, as the engine has gone away. */
UNUSED static void fake_raw(fake *self, const void *bytes, size_t len, const int *fds, size_t count)
{
  char room[CMSG_SPACE(8 * sizeof(int))] = {0};
  struct iovec vector = {.iov_base = (void *)bytes, .iov_len = len};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
  if (count) {
    message.msg_control = room;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(header), fds, count * sizeof(int));
  }
  (void)!sendmsg(self->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

UNUSED static void fake_frame(fake *self, mcg_frame frame, const void *body, const int *fds)
{
  uint8_t *bytes = malloc(MCG_FRAME_HEADER + frame.length);
  frame.sequence = ++self->sent;
  mcg_frame_encode(&frame, bytes);
  if (frame.length) memcpy(bytes + MCG_FRAME_HEADER, body, frame.length);
  fake_raw(self, bytes, MCG_FRAME_HEADER + frame.length, fds, frame.fds);
  free(bytes);
}

UNUSED static void fake_say(fake *self, mcg_frame_type type, uint32_t channel, const mcg_wire *body,
                            const int *fds, size_t count)
{
  mcg_frame frame = {.length = body ? (uint32_t)body->len : 0,
                     .type = (uint8_t)type,
                     .channel = channel,
                     .fds = (uint8_t)count};
  fake_frame(self, frame, body ? body->data : NULL, fds);
}

UNUSED static void fake_hello(fake *self, uint64_t version)
{
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_u64(&body, MCG_TAG_VERSION, version);
  mcg_wire_put_str(&body, MCG_TAG_MECHANISM, "seccomp=on");
  mcg_wire_put_u64(&body, MCG_TAG_PID, 1);
  fake_say(self, MCG_F_HELLO, 0, &body, NULL, 0);
  mcg_wire_fini(&body);
}

/* A stream that stands. */
UNUSED static void fake_up(fake *self, mcg_carrier carrier)
{
  fake_begin(self, carrier);
  fake_hello(self, MCG_PROTOCOL_VERSION);
  until(&self->opening);
  assert_null(self->opening.error);
}

UNUSED static void fake_down(fake *self)
{
  mcg_stream_close(self->stream);
  mcg_error_free(self->lost);
  mcg_error_free(self->opening.error);
  close(self->fd);
  turn_for(1);
}

UNUSED static mcg_channel *fake_exec(fake *self, uint32_t flags, told *data)
{
  mcg_wire body;
  mcg_channel *channel;
  mcg_wire_init(&body);
  mcg_wire_put_str(&body, MCG_TAG_ARG, "true");
  *data = (told){0};
  assert_int_equal(mcg_channel_open(self->stream, &body, flags, &telling, data, &channel, NULL), 0);
  mcg_wire_fini(&body);
  return channel;
}

#endif
