/* channel.c: one command on a stream, as exec.c and files.c see it: open, write, drain, kill, release. */
#include "stream_parts.h"
#include <string.h>
#include <sys/resource.h>

/* Descriptors that STARTED brings, and the one a PTY is duplicated to. */
static size_t descriptors_needed(const mcg_stream *stream, uint32_t flags)
{
  if (stream->carrier != MCG_CARRIER_DIRECT || flags & MCG_EXEC_DETACH) return 0;
  if (flags & MCG_EXEC_PTY) return 2;
  return flags & MCG_EXEC_NO_STDIN ? 2 : 3;
}

/* Refused now, with a way out, rather than in the middle of a message's descriptors. */
static int spare_descriptors(const mcg_stream *stream, size_t need, mcg_error **err)
{
  struct rlimit limit;
  if (!need || getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY) return 0;
  size_t spare = limit.rlim_cur >= 512 ? 64 : 24;
  if (stream->shared->descriptors + need + spare <= limit.rlim_cur) return 0;
  auto_free char *fix =
      mcg_format("raise the limit of this process (ulimit -n, now %llu), or run fewer "
                 "commands at once",
                 (unsigned long long)limit.rlim_cur);
  return mcg_fail(err, MCG_QUOTA, fix, "no descriptors left for another command's streams");
}

mcg_channel *mcg_channel_new(mcg_stream *stream, uint32_t flags, const mcg_channel_events *events,
                             void *data)
{
  mcg_channel *channel = calloc(1, sizeof *channel);
  if (!channel) return NULL;
  *channel = (mcg_channel){.stream = stream,
                           .number = ++stream->last_channel,
                           .flags = flags,
                           .events = *events,
                           .data = data,
                           .refs = 2,
                           .mapped = true,
                           .in_fd = -1,
                           .in_closed = flags & MCG_EXEC_NO_STDIN,
                           .in_credit = MCG_WINDOW};
  channel->chunks_last = &channel->chunks;
  for (int i = 0; i < 2; i++) {
    mcg_flow *flow = &channel->flows[i];
    *flow = (mcg_flow){.channel = channel, .stream = i + 1, .fd = -1, .window = MCG_WINDOW};
    flow->held_last = &flow->held;
  }
  mcg_wire_init(&channel->partial);
  mcg_channel **bucket = mcg_stream_bucket(stream, channel->number);
  channel->next = *bucket;
  *bucket = channel;
  stream->refs++;
  return channel;
}

static bool send_exec(mcg_channel *channel, const mcg_wire *body)
{
  mcg_wire message;
  mcg_wire_init(&message);
  mcg_wire_put_u64(&message, MCG_TAG_FLAGS, channel->flags);
  size_t len = message.len + body->len;
  uint8_t *whole = message.failed || len > MCG_WIRE_MAX ? NULL : realloc(message.data, len);
  if (whole) {
    message.data = whole;
    if (body->len) memcpy(whole + message.len, body->data, body->len);
  }
  bool sent =
      whole && mcg_stream_send(channel->stream, MCG_F_EXEC, channel->number, 0, whole, len, -1);
  mcg_wire_fini(&message);
  return sent;
}

int mcg_channel_open(mcg_stream *stream, const mcg_wire *body, uint32_t flags,
                     const mcg_channel_events *events, void *data, mcg_channel **out,
                     mcg_error **err)
{
  size_t need = descriptors_needed(stream, flags);
  if (mcg_stream_alive(stream, err) < 0 || spare_descriptors(stream, need, err) < 0) return -1;
  mcg_channel *channel = body->failed ? NULL : mcg_channel_new(stream, flags, events, data);
  if (!channel) return mcg_fail(err, MCG_NOMEM, NULL, "out of memory for a command");
  channel->promised = need;
  stream->shared->descriptors += need;
  if (!send_exec(channel, body)) {
    mcg_channel_unmap(channel);
    mcg_channel_release(channel);
    return mcg_fail(err, MCG_NOMEM, NULL, "out of memory for a command");
  }
  *out = channel;
  return 0;
}

int mcg_channel_write(mcg_channel *channel, const void *bytes, size_t len, mcg_done done,
                      void *data, mcg_error **err)
{
  if (channel->in_broken || channel->in_closing || channel->in_closed || !channel->mapped)
    return mcg_fail(err, MCG_UNAVAILABLE, NULL, "the command's standard input is closed");
  mcg_chunk *chunk = malloc(sizeof *chunk + len);
  if (!chunk) return mcg_fail(err, MCG_NOMEM, NULL, "out of memory for %zu bytes of input", len);
  *chunk = (mcg_chunk){.len = len, .done = done, .data = data};
  if (len) memcpy(chunk->bytes, bytes, len);
  *channel->chunks_last = chunk;
  channel->chunks_last = &chunk->next;
  if (channel->started) channel->stream->ops->feed(channel);
  return 0;
}

void mcg_channel_close_stdin(mcg_channel *channel)
{
  if (channel->in_closing || channel->in_closed) return;
  channel->in_closing = true;
  if (channel->started && channel->mapped) channel->stream->ops->feed(channel);
}

void mcg_channel_resume(mcg_channel *channel, int stream)
{
  if (stream != 1 && stream != 2) return;
  mcg_flow *flow = &channel->flows[stream - 1];
  if (!flow->paused) return;
  flow->paused = false;
  if (channel->mapped && channel->started) channel->stream->ops->resume(flow);
}

void mcg_channel_drain(mcg_channel *channel, void (*done)(void *data), void *data)
{
  channel->refs++;
  channel->drained = done;
  channel->drained_data = data;
  channel->flows[0].draining = channel->flows[1].draining = true;
  for (int i = 0; i < 2; i++) {
    mcg_flow *flow = &channel->flows[i];
    if (flow->eof || !channel->mapped)
      mcg_flow_drained(flow);
    else
      channel->stream->ops->drain(flow);
  }
  mcg_channel_unref(channel);
}

static int channel_say(mcg_channel *channel, mcg_frame_type type, const mcg_wire *body,
                       mcg_error **err)
{
  if (!channel->mapped || channel->exited)
    return mcg_fail(err, MCG_NOT_FOUND, NULL, "the command has ended");
  const void *bytes = body ? body->data : NULL;
  if ((!body || !body->failed) &&
      mcg_stream_send(channel->stream, type, channel->number, 0, bytes, body ? body->len : 0, -1))
    return 0;
  return mcg_fail(err, MCG_NOMEM, NULL, "out of memory for a message");
}

int mcg_channel_signal(mcg_channel *channel, int signo, mcg_error **err)
{
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_u64(&body, MCG_TAG_SIGNO, (uint64_t)signo);
  int rc = channel_say(channel, MCG_F_SIGNAL, &body, err);
  mcg_wire_fini(&body);
  return rc;
}

int mcg_channel_resize(mcg_channel *channel, uint16_t cols, uint16_t rows, mcg_error **err)
{
  const mcg_carrier_ops *ops = channel->stream->ops;
  if (channel->mapped && ops->resize && ops->resize(channel, cols, rows)) return 0;
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_u64(&body, MCG_TAG_COLS, cols);
  mcg_wire_put_u64(&body, MCG_TAG_ROWS, rows);
  int rc = channel_say(channel, MCG_F_RESIZE, &body, err);
  mcg_wire_fini(&body);
  return rc;
}

/* After EXIT too: what the command left behind lives on until then. */
void mcg_channel_kill(mcg_channel *channel)
{
  if (channel->mapped && !channel->gone)
    mcg_stream_send(channel->stream, MCG_F_KILL, channel->number, 0, NULL, 0, -1);
}

void mcg_channel_release(mcg_channel *channel)
{
  if (!channel || channel->released) return;
  channel->released = true;
  channel->drained = NULL;
  if (channel->mapped && !channel->socket) {
    mcg_channel_break_stdin(channel, MCG_UNAVAILABLE, "the command has ended");
    channel->in_closing = true;
    if (channel->started) channel->stream->ops->feed(channel);
  }
  for (int i = 0; i < 2; i++) {
    mcg_flow *flow = &channel->flows[i];
    flow->draining = flow->paused = false;
    flow->dropping = true;
    if (channel->mapped && channel->started && !flow->eof) channel->stream->ops->drop(flow);
  }
  mcg_channel_settle(channel);
  mcg_channel_unref(channel);
}
