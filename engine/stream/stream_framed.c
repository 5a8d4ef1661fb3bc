/* stream_framed.c: the carrier for everything that is one byte stream: frames, and credit for bytes.
 *
 * The sandbox may send no more of a stream than the window that it was granted, so what a pausing
 * receiver leaves behind is bounded; a sandbox that sends more has ended its own session. */
#include "stream_parts.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define READS_A_TURN 4

/* ---- frames ------------------------------------------------------------------------------- */

static bool framed_put(mcg_stream *stream, mcg_packet *packet)
{
  while (packet->at < packet->len) {
    ssize_t sent = send(stream->fd, packet->bytes + packet->at, packet->len - packet->at,
                        MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno != EAGAIN && errno != ENOBUFS; /* reading tells of the end */
    packet->at += (size_t)sent;
  }
  return true;
}

/* Goes through the frames that are whole; how many bytes they were. */
static size_t take_frames(mcg_stream *stream, const uint8_t *bytes, size_t len)
{
  size_t at = 0;
  while (stream->fd >= 0 && len - at >= MCG_FRAME_HEADER) {
    mcg_frame frame;
    if (!mcg_frame_decode(bytes + at, &frame) || frame.fds) {
      mcg_stream_lose(stream, MCG_PROTOCOL, "the sandbox sent bytes that are no frame");
      return len;
    }
    if (len - at - MCG_FRAME_HEADER < frame.length) break;
    mcg_stream_frame(stream, &frame, bytes + at + MCG_FRAME_HEADER, NULL, 0);
    at += MCG_FRAME_HEADER + frame.length;
  }
  return at;
}

static bool keep_rest(mcg_stream *stream, const uint8_t *bytes, size_t len)
{
  if (!len) return true;
  if (!stream->stash) stream->stash = malloc(MCG_FRAME_HEADER + MCG_FRAME_MAX);
  if (!stream->stash) {
    mcg_stream_lose(stream, MCG_NOMEM, "out of memory for a frame of the sandbox");
    return false;
  }
  memcpy(stream->stash, bytes, len);
  stream->stash_len = len;
  return true;
}

static void framed_readable(mcg_stream *stream)
{
  uint8_t *buffer = stream->shared->buffer;
  for (int i = 0; i < READS_A_TURN && stream->fd >= 0; i++) {
    size_t kept = stream->stash_len;
    if (kept) memcpy(buffer, stream->stash, kept);
    ssize_t len = recv(stream->fd, buffer + kept, MCG_IO_BUFFER - kept, MSG_DONTWAIT);
    if (len < 0 && errno == EINTR) continue;
    if (len < 0 && errno == EAGAIN) return;
    if (len <= 0) {
      mcg_stream_lose(stream, MCG_UNAVAILABLE, "the sandbox ended");
      return;
    }
    stream->stash_len = 0;
    size_t whole = kept + (size_t)len, used = take_frames(stream, buffer, whole);
    if (stream->fd < 0 || !keep_rest(stream, buffer + used, whole - used)) return;
    if (whole < MCG_IO_BUFFER) return;
  }
}

/* ---- output ------------------------------------------------------------------------------- */

static void say_number(mcg_channel *channel, mcg_frame_type type, int which, uint64_t bytes)
{
  mcg_wire body;
  mcg_wire_init(&body);
  if (bytes) mcg_wire_put_u64(&body, MCG_TAG_BYTES, bytes);
  if (!body.failed)
    mcg_stream_send(channel->stream, type, channel->number, (uint8_t)which, body.data, body.len,
                    -1);
  mcg_wire_fini(&body);
}

static void consumed(mcg_flow *flow, size_t len)
{
  flow->consumed += len;
  if (flow->consumed < MCG_WINDOW / 2 || flow->ending || !flow->channel->mapped) return;
  say_number(flow->channel, MCG_F_CREDIT, flow->stream, flow->consumed);
  flow->window += flow->consumed;
  flow->consumed = 0;
}

static void free_held(mcg_flow *flow)
{
  while (flow->held) {
    mcg_held *held = flow->held;
    flow->held = held->next;
    free(held);
  }
  flow->held_last = &flow->held;
}

static bool hold(mcg_flow *flow, const uint8_t *bytes, size_t len)
{
  mcg_held *held = malloc(sizeof *held + len);
  if (!held) return false;
  held->next = NULL;
  held->len = len;
  memcpy(held->bytes, bytes, len);
  *flow->held_last = held;
  flow->held_last = &held->next;
  return true;
}

static void hand_on_held(mcg_later *later)
{
  mcg_flow *flow = (mcg_flow *)((char *)later - offsetof(mcg_flow, later));
  mcg_channel *channel = flow->channel;
  flow->scheduled = false;
  while (flow->held && !flow->paused && channel->mapped) {
    mcg_held *held = flow->held;
    flow->held = held->next;
    if (!flow->held) flow->held_last = &flow->held;
    mcg_flow_give(flow, held->bytes, held->len);
    consumed(flow, held->len);
    free(held);
  }
  if (flow->ending && !flow->held && channel->mapped) mcg_flow_eof(flow);
  mcg_channel_unref(channel);
}

static void framed_resume(mcg_flow *flow)
{
  if (flow->scheduled || (!flow->held && !flow->ending)) return;
  flow->scheduled = true;
  flow->channel->refs++;
  flow->later.run = hand_on_held;
  mcg_streams_later(flow->channel->stream->shared, &flow->later);
}

static void output_came(mcg_channel *channel, const mcg_frame *frame, const uint8_t *body)
{
  mcg_flow *flow = &channel->flows[frame->stream - 1];
  if (flow->ending || frame->length > flow->window) {
    mcg_stream_lose(channel->stream, MCG_PROTOCOL, "the sandbox sent more output than it may");
    return;
  }
  flow->window -= frame->length;
  if (flow->dropping || !frame->length) return; /* it was told to CLOSE: this was on its way */
  if (!flow->paused && !flow->held) {
    mcg_flow_give(flow, body, frame->length);
    consumed(flow, frame->length);
  } else if (!hold(flow, body, frame->length)) {
    mcg_stream_lose(channel->stream, MCG_NOMEM, "out of memory for output that waits");
  }
}

static void credit_came(mcg_channel *channel, const mcg_frame *frame, const uint8_t *body)
{
  uint64_t more = 0;
  mcg_reader reader = mcg_reader_of(body, frame->length);
  mcg_field field;
  while (mcg_reader_next(&reader, &field))
    if (field.tag == MCG_TAG_BYTES) more = mcg_field_u64(&field);
  if (reader.bad || frame->stream || more > MCG_WINDOW || channel->in_credit + more > MCG_WINDOW) {
    mcg_stream_lose(channel->stream, MCG_PROTOCOL, "the sandbox granted what it has not taken");
    return;
  }
  channel->in_credit += more;
  channel->stream->ops->feed(channel);
}

static void framed_data(mcg_channel *channel, const mcg_frame *frame, const uint8_t *body)
{
  if (frame->type == MCG_F_CREDIT) {
    credit_came(channel, frame, body);
  } else if (!frame->stream) { /* it reads its input no more */
    if (frame->type == MCG_F_EOF)
      mcg_channel_break_stdin(channel, MCG_UNAVAILABLE,
                              "the command has closed its standard input");
    else
      mcg_stream_lose(channel->stream, MCG_PROTOCOL, "the sandbox sent input to the engine");
  } else if (frame->type == MCG_F_DATA) {
    output_came(channel, frame, body);
  } else {
    mcg_flow *flow = &channel->flows[frame->stream - 1];
    flow->ending = true;
    if (!flow->held) mcg_flow_eof(flow);
  }
}

/* Its EOF is the end of the drain, and init sends that after EXIT whoever holds the pipe. */
static void framed_drain(mcg_flow *flow)
{
  (void)flow;
}

static void framed_drop(mcg_flow *flow)
{
  free_held(flow);
  if (!flow->ending) say_number(flow->channel, MCG_F_CLOSE, flow->stream, 0);
}

/* ---- input -------------------------------------------------------------------------------- */

static void framed_feed(mcg_channel *channel)
{
  while (channel->chunks) {
    mcg_chunk *chunk = channel->chunks;
    size_t part = chunk->len - chunk->at;
    if (part > MCG_FRAME_MAX) part = MCG_FRAME_MAX;
    if (part > channel->in_credit) part = channel->in_credit;
    if (!part && chunk->at < chunk->len) return; /* CREDIT brings us back */
    if (part && !mcg_stream_send(channel->stream, MCG_F_DATA, channel->number, 0,
                                 chunk->bytes + chunk->at, part, -1)) {
      mcg_channel_break_stdin(channel, MCG_NOMEM, "out of memory for the command's input");
      return;
    }
    channel->in_credit -= part;
    chunk->at += part;
    if (chunk->at == chunk->len) mcg_chunk_finish(channel, NULL);
  }
  if (!channel->in_closing || channel->in_closed) return;
  channel->in_closed = true;
  if (!channel->in_broken) say_number(channel, MCG_F_EOF, 0, 0);
}

/* ---- start and end of a command ----------------------------------------------------------- */

static bool framed_started(mcg_channel *channel, int *fds, size_t count)
{
  (void)fds;
  if (channel->flags & MCG_EXEC_DETACH)
    channel->flows[0].eof = channel->flows[1].eof = channel->in_closed = true;
  if (channel->flags & MCG_EXEC_PTY) channel->flows[1].eof = true;
  return count == 0;
}

static void framed_end(mcg_channel *channel)
{
  for (int i = 0; i < 2; i++) free_held(&channel->flows[i]);
}

const mcg_carrier_ops mcg_carrier_framed = {
    .readable = framed_readable,
    .put = framed_put,
    .started = framed_started,
    .data = framed_data,
    .feed = framed_feed,
    .resume = framed_resume,
    .drain = framed_drain,
    .drop = framed_drop,
    .end = framed_end,
};
