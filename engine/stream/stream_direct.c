/* stream_direct.c: the carrier of the jail: control in SOCK_SEQPACKET packets, bytes in pipes.
 *
 * Descriptors that arrive are hostile: the exact number, pipes (or the master of a PTY) and nothing
 * else. Nothing that is done with them waits. */
#include "stream_parts.h"
#include "service/linger.h"
#include "service/quiet.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define PACKETS_A_TURN 64
#define READS_A_TURN 8
#define PIPE_USUAL (64 << 10) /* what the kernel makes */
#define PIPE_WIDE (1 << 20)   /* fs.pipe-max-size as it comes */
#define PTY_ROOM ((size_t)64 << 10)
#define END_OF_FILE_CHAR "\004"

/* ---- packets ------------------------------------------------------------------------------ */

typedef union control_room {
  struct cmsghdr align;
  char bytes[CMSG_SPACE(MCG_FDS_MAX * sizeof(int))];
} control_room;

static bool direct_put(mcg_stream *stream, mcg_packet *packet)
{
  struct iovec vector = {.iov_base = packet->bytes, .iov_len = packet->len};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
  control_room control;
  if (packet->fd >= 0) {
    memset(&control, 0, sizeof control);
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &packet->fd, sizeof(int));
  }
  ssize_t sent;
  do sent = sendmsg(stream->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  /* Any other failure is the end of the stream, and reading tells of it. */
  return sent >= 0 || (errno != EAGAIN && errno != ENOBUFS);
}

/* Copies the descriptors out; SIZE_MAX: more or other things came than may come. */
static size_t take_descriptors(struct msghdr *message, int fds[MCG_FDS_MAX])
{
  size_t count = 0;
  bool wrong = false;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
       header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      wrong = true;
      continue;
    }
    size_t here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < here; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      if (count < MCG_FDS_MAX)
        fds[count++] = fd;
      else
        mcg_close_now(fd);
    }
  }
  if (!wrong) return count;
  for (size_t i = 0; i < count; i++) mcg_close_now(fds[i]);
  return SIZE_MAX;
}

static bool out_of_descriptors(int fd)
{
  int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy >= 0) close(copy);
  return copy < 0 && (errno == EMFILE || errno == ENFILE);
}

static void packet_came(mcg_stream *stream, struct msghdr *message, size_t len)
{
  int fds[MCG_FDS_MAX];
  size_t count = take_descriptors(message, fds);
  mcg_frame frame;
  const uint8_t *bytes = stream->shared->packet;
  bool cut = message->msg_flags & MSG_CTRUNC;
  bool starved = cut && count < MCG_FDS_MAX && out_of_descriptors(stream->fd);
  if (count == SIZE_MAX || (cut && !starved) || message->msg_flags & MSG_TRUNC ||
      len < MCG_FRAME_HEADER || !mcg_frame_decode(bytes, &frame) ||
      frame.length != len - MCG_FRAME_HEADER) {
    mcg_stream_lose(stream, MCG_PROTOCOL, "the sandbox sent a packet that is no frame");
  } else {
    mcg_stream_frame(stream, &frame, bytes + MCG_FRAME_HEADER, starved ? NULL : fds,
                     starved ? frame.fds : count);
  }
  for (size_t i = 0; count != SIZE_MAX && i < count; i++)
    if (fds[i] >= 0) mcg_close_now(fds[i]);
}

/* ---- descriptors of a command ------------------------------------------------------------- */

static void give_back(mcg_channel *channel)
{
  if (!channel->promised) return;
  channel->promised--;
  channel->stream->shared->descriptors--;
}

static void stdin_closed(uv_handle_t *handle)
{
  mcg_channel_unref(handle->data);
}

static void flow_closed(uv_handle_t *handle)
{
  mcg_flow *flow = handle->data;
  mcg_channel_unref(flow->channel);
}

static void flow_close(mcg_flow *flow)
{
  if (flow->has_poll) uv_close((uv_handle_t *)&flow->poll, flow_closed);
  flow->has_poll = flow->reading = false;
  if (flow->fd < 0) return;
  mcg_close_now(flow->fd);
  flow->fd = -1;
  give_back(flow->channel);
}

static void stdin_close(mcg_channel *channel)
{
  channel->in_closed = true;
  if (channel->in_has_poll) uv_close((uv_handle_t *)&channel->in_poll, stdin_closed);
  channel->in_has_poll = channel->in_writing = false;
  if (channel->in_fd < 0) return;
  mcg_close_now(channel->in_fd);
  channel->in_fd = -1;
  give_back(channel);
}

/* ---- output ------------------------------------------------------------------------------- */

static void flow_over(mcg_flow *flow)
{
  flow_close(flow);
  mcg_flow_eof(flow);
}

/* A pipe that was full is one whose writer waits for us. A larger one spares both most of the waiting;
 * where it may not be larger it stays as it is. Its pages count as the sandbox's memory. */
static void flow_widen(mcg_flow *flow)
{
  flow->widened = true;
  fcntl(flow->fd, F_SETPIPE_SZ, PIPE_WIDE);
}

/* Init made the pipe, and has the same open file if it kept it: it could clear O_NONBLOCK, and hold the loop.
 * RWF_NOWAIT is said with each call; where the kernel has it for no pipe (before 6.4), or the descriptor is a
 * terminal, the flag is set anew before each. */
static ssize_t move_now(mcg_channel *channel, int fd, const struct iovec *vector, bool out)
{
  struct mcg_streams *shared = channel->stream->shared;
  bool terminal = channel->flags & MCG_EXEC_PTY;
  if (!terminal && !shared->no_nowait) {
    ssize_t len =
        out ? pwritev2(fd, vector, 1, -1, RWF_NOWAIT) : preadv2(fd, vector, 1, -1, RWF_NOWAIT);
    if (len >= 0 || errno != EOPNOTSUPP) return len;
    shared->no_nowait = true;
  }
  fcntl(fd, F_SETFL, O_NONBLOCK);
  return out ? writev(fd, vector, 1) : readv(fd, vector, 1);
}

/* One read; false when there is no more now. Of a command that has ended, what its pipe held then is its own,
 * and so is the end of file, which is often there already; what others write later is not. */
static bool flow_read(mcg_flow *flow)
{
  uint8_t *buffer = flow->channel->stream->shared->buffer;
  bool read_out = flow->draining && !flow->left;
  size_t want =
      flow->draining && !read_out && flow->left < MCG_IO_BUFFER ? flow->left : MCG_IO_BUFFER;
  const struct iovec vector = {.iov_base = buffer, .iov_len = want};
  ssize_t len = move_now(flow->channel, flow->fd, &vector, false);
  if (len < 0 && errno == EINTR) return true;
  if (len < 0 && errno == EAGAIN) {
    if (flow->draining) mcg_flow_drained(flow);
    return false;
  }
  if (len <= 0) { /* EIO is how a PTY says that nobody has it open */
    flow_over(flow);
    return false;
  }
  if (read_out) {
    mcg_flow_drained(flow);
    return flow->fd >= 0;
  }
  if (flow->draining) flow->left -= (size_t)len;
  if (len >= PIPE_USUAL && !flow->widened) flow_widen(flow);
  return mcg_flow_give(flow, buffer, (size_t)len);
}

static void flow_polled(uv_poll_t *poll, int status, int events)
{
  (void)status; /* an error of the descriptor shows when it is read */
  (void)events;
  mcg_flow *flow = poll->data;
  mcg_channel *channel = flow->channel;
  channel->refs++;
  for (int i = 0; i < READS_A_TURN && flow->fd >= 0; i++)
    if (!flow_read(flow)) break;
  if (flow->paused && flow->reading) {
    uv_poll_stop(&flow->poll);
    flow->reading = false;
  }
  mcg_channel_unref(channel);
}

static void flow_watch(mcg_flow *flow)
{
  if (flow->fd < 0 || flow->reading || flow->paused) return;
  if (!flow->has_poll) {
    if (uv_poll_init(flow->channel->stream->engine->loop, &flow->poll, flow->fd) < 0) {
      flow_over(flow);
      return;
    }
    flow->poll.data = flow;
    flow->has_poll = true;
    flow->channel->refs++;
  }
  flow->reading = uv_poll_start(&flow->poll, UV_READABLE, flow_polled) == 0;
}

static void direct_resume(mcg_flow *flow)
{
  flow_watch(flow);
}

/* What is in the pipe now, and no more: someone may write to it for ever. */
static void direct_drain(mcg_flow *flow)
{
  int ready = 0;
  if (flow->channel->flags & MCG_EXEC_PTY)
    flow->left = PTY_ROOM; /* the terminal's own queue shows only when it is read */
  else
    flow->left = ioctl(flow->fd, FIONREAD, &ready) == 0 && ready > 0 ? (size_t)ready : 0;
  while (flow->fd >= 0 && !flow->paused && flow_read(flow)) {
  }
  if (flow->paused && flow->reading) {
    uv_poll_stop(&flow->poll);
    flow->reading = false;
  }
}

static void direct_drop(mcg_flow *flow)
{
  flow_watch(flow);
}

/* ---- input -------------------------------------------------------------------------------- */

static ssize_t write_quietly(mcg_channel *channel, const void *bytes, size_t len)
{
  const struct iovec vector = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
  mcg_quiet quiet;
  mcg_quiet_begin(&quiet);
  ssize_t written = move_now(channel, channel->in_fd, &vector, true);
  mcg_quiet_end(&quiet, written < 0 && errno == EPIPE);
  return written;
}

static void direct_feed(mcg_channel *channel);

static void stdin_polled(uv_poll_t *poll, int status, int events)
{
  (void)status;
  (void)events;
  mcg_channel *channel = poll->data;
  channel->refs++;
  direct_feed(channel);
  mcg_channel_unref(channel);
}

static void stdin_watch(mcg_channel *channel, bool on)
{
  if (on == channel->in_writing) return;
  if (!channel->in_has_poll) {
    if (uv_poll_init(channel->stream->engine->loop, &channel->in_poll, channel->in_fd) < 0) return;
    channel->in_poll.data = channel;
    channel->in_has_poll = true;
    channel->refs++;
  }
  channel->in_writing = on;
  if (on)
    uv_poll_start(&channel->in_poll, UV_WRITABLE, stdin_polled);
  else
    uv_poll_stop(&channel->in_poll);
}

static void direct_feed(mcg_channel *channel)
{
  while (channel->chunks && channel->in_fd >= 0) {
    mcg_chunk *chunk = channel->chunks;
    ssize_t written = chunk->len > chunk->at
                          ? write_quietly(channel, chunk->bytes + chunk->at, chunk->len - chunk->at)
                          : 0;
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {
      stdin_watch(channel, true);
      return;
    }
    if (written < 0) {
      mcg_channel_break_stdin(channel, MCG_UNAVAILABLE,
                              "the command has closed its standard input");
      stdin_close(channel);
      return;
    }
    chunk->at += (size_t)written;
    if (chunk->at == chunk->len) mcg_chunk_finish(channel, NULL);
  }
  if (channel->in_writing) stdin_watch(channel, false);
  if (!channel->in_closing || channel->in_fd < 0) return;
  /* A terminal has no end but the character that says so. */
  if (channel->flags & MCG_EXEC_PTY) (void)!write_quietly(channel, END_OF_FILE_CHAR, 1);
  stdin_close(channel);
}

/* ---- start and end of a command ----------------------------------------------------------- */

static bool acceptable(int fd, bool pty)
{
  struct stat about;
  int number;
  if (fstat(fd, &about) < 0) return false;
  return pty ? S_ISCHR(about.st_mode) && ioctl(fd, TIOCGPTN, &number) == 0
             : S_ISFIFO(about.st_mode);
}

static bool started_pty(mcg_channel *channel, int *fds)
{
  channel->in_fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
  channel->flows[0].fd = mcg_steal_fd(&fds[0]);
  channel->flows[1].eof = true;
  if (channel->in_fd < 0) give_back(channel);
  return true;
}

static bool direct_started(mcg_channel *channel, int *fds, size_t count)
{
  bool pty = channel->flags & MCG_EXEC_PTY, input = !(channel->flags & MCG_EXEC_NO_STDIN);
  size_t expected = channel->flags & MCG_EXEC_DETACH ? 0 : pty ? 1 : input ? 3 : 2;
  if (count != expected) return false;
  for (size_t i = 0; i < count; i++)
    if (!acceptable(fds[i], pty)) return false;
  if (!count) {
    channel->flows[0].eof = channel->flows[1].eof = channel->in_closed = true;
    return true;
  }
  if (pty) {
    started_pty(channel, fds);
  } else {
    size_t next = 0;
    if (input) channel->in_fd = mcg_steal_fd(&fds[next++]);
    channel->flows[0].fd = mcg_steal_fd(&fds[next++]);
    channel->flows[1].fd = mcg_steal_fd(&fds[next]);
  }
  channel->refs++;
  channel->next_fresh = channel->stream->fresh;
  channel->stream->fresh = channel;
  return true;
}

/* The bytes written after it go through the same descriptor: they must not overtake it. */
static bool direct_resize(mcg_channel *channel, uint16_t cols, uint16_t rows)
{
  struct winsize size = {.ws_col = cols, .ws_row = rows};
  return channel->flags & MCG_EXEC_PTY && channel->flows[0].fd >= 0 &&
         ioctl(channel->flows[0].fd, TIOCSWINSZ, &size) == 0;
}

static void direct_end(mcg_channel *channel)
{
  for (int i = 0; i < 2; i++) flow_close(&channel->flows[i]);
  stdin_close(channel);
}

/* ---- the turn ------------------------------------------------------------------------------ */

static void read_packets(mcg_stream *stream)
{
  for (int i = 0; i < PACKETS_A_TURN && stream->fd >= 0; i++) {
    struct iovec vector = {.iov_base = stream->shared->packet,
                           .iov_len = sizeof stream->shared->packet};
    control_room control;
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t len = recvmsg(stream->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (len < 0 && errno == EINTR) continue;
    if (len < 0 && errno == EAGAIN) return;
    if (len <= 0) {
      mcg_stream_lose(stream, MCG_UNAVAILABLE, "the sandbox ended");
      return;
    }
    packet_came(stream, &message, (size_t)len);
  }
}

/* A command that has ended already, as short ones have, is read out and never polled. */
static void direct_readable(mcg_stream *stream)
{
  stream->refs++;
  read_packets(stream);
  while (stream->fresh) {
    mcg_channel *channel = stream->fresh;
    stream->fresh = channel->next_fresh;
    for (int i = 0; i < 2; i++) flow_watch(&channel->flows[i]);
    mcg_channel_unref(channel);
  }
  mcg_stream_unref(stream);
}

const mcg_carrier_ops mcg_carrier_direct = {
    .readable = direct_readable,
    .put = direct_put,
    .started = direct_started,
    .feed = direct_feed,
    .resize = direct_resize,
    .resume = direct_resume,
    .drain = direct_drain,
    .drop = direct_drop,
    .end = direct_end,
};
