/* stream.c: one connection to a mooncage-init: opening, frames in and out, channels and their events.
 *
 * What differs between the carriers is in stream_direct.c and stream_framed.c. Everything that comes
 * in is hostile: what does not fit ends the stream with `protocol`, never the engine. */
#include "stream_parts.h"
#include "spawner.h"
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#define HELLO_TIMEOUT_MS 15000
#define KILL_TIMEOUT_MS 30000
#define HEARTBEAT_MS 10000
#define HEARTBEATS_LOST 4

/* ---- what all streams share --------------------------------------------------------------- */

/* What is queued now; what that queues has its turn next time. */
static void streams_run(struct mcg_streams *shared)
{
  for (size_t left = shared->queued; left && shared->first; left--) {
    mcg_later *later = shared->first;
    shared->first = later->next;
    if (!shared->first) shared->last = &shared->first;
    shared->queued--;
    later->run(later);
  }
}

static void idle_cb(uv_idle_t *idle)
{
  (void)idle;
}

/* After the poll and not in a timer: a host that turns the loop once at a time then sees at once what
 * was completed, instead of sleeping behind it. */
static void check_cb(uv_check_t *check)
{
  struct mcg_streams *shared = check->data;
  streams_run(shared);
  if (shared->first) return;
  uv_idle_stop(&shared->idle);
  uv_check_stop(&shared->check);
}

void mcg_streams_later(struct mcg_streams *shared, mcg_later *later)
{
  later->next = NULL;
  *shared->last = later;
  shared->last = &later->next;
  shared->queued++;
  uv_idle_start(&shared->idle, idle_cb);
  uv_check_start(&shared->check, check_cb);
}

static struct mcg_streams *streams_of(mcg_engine *engine, mcg_error **err)
{
  if (engine->streams) return engine->streams;
  struct mcg_streams *shared = malloc(sizeof *shared);
  if (!shared) return mcg_fail(err, MCG_NOMEM, NULL, "out of memory for a stream"), NULL;
  shared->first = NULL;
  shared->last = &shared->first;
  shared->queued = shared->descriptors = 0;
  shared->no_nowait = false;
  shared->handles = 2;
  uv_idle_init(engine->loop, &shared->idle);
  uv_check_init(engine->loop, &shared->check);
  shared->idle.data = shared->check.data = shared;
  return engine->streams = shared;
}

static void streams_closed(uv_handle_t *handle)
{
  struct mcg_streams *shared = handle->data;
  if (--shared->handles == 0) free(shared);
}

void mcg_streams_end(mcg_engine *engine)
{
  struct mcg_streams *shared = engine->streams;
  if (!shared) return;
  while (shared->first) streams_run(shared);
  engine->streams = NULL;
  uv_close((uv_handle_t *)&shared->idle, streams_closed);
  uv_close((uv_handle_t *)&shared->check, streams_closed);
}

/* ---- life --------------------------------------------------------------------------------- */

static void drop_packets(mcg_stream *stream)
{
  while (stream->packets) {
    mcg_packet *packet = stream->packets;
    stream->packets = packet->next;
    if (packet->fd >= 0) close(packet->fd);
    free(packet);
  }
  stream->packets_last = &stream->packets;
}

void mcg_stream_unref(mcg_stream *stream)
{
  if (--stream->refs) return;
  mcg_stream_drop_sockets(stream);
  mcg_wire_fini(&stream->partial);
  mcg_error_free(stream->failure);
  free(stream->stash);
  free(stream);
}

static void stream_handle_closed(uv_handle_t *handle)
{
  mcg_stream_unref(handle->data);
}

/* The descriptor and the handles go; memory follows when nobody is in it any more. */
static void stream_shut(mcg_stream *stream)
{
  mcg_wait_wake(stream->engine, &stream->killed);
  if (stream->has_poll) uv_close((uv_handle_t *)&stream->poll, stream_handle_closed);
  if (stream->has_timer) uv_close((uv_handle_t *)&stream->heartbeat, stream_handle_closed);
  stream->has_poll = stream->has_timer = false;
  drop_packets(stream);
  if (stream->fd >= 0) {
    close(stream->fd);
    stream->shared->descriptors--;
  }
  stream->fd = -1;
}

void mcg_channel_unref(mcg_channel *channel)
{
  if (--channel->refs) return;
  mcg_wire_fini(&channel->partial);
  mcg_stream_unref(channel->stream);
  free(channel);
}

mcg_channel **mcg_stream_bucket(mcg_stream *stream, uint32_t number)
{
  return &stream->buckets[number % MCG_CHANNEL_BUCKETS];
}

mcg_channel *mcg_stream_find(mcg_stream *stream, uint32_t number)
{
  mcg_channel *channel = *mcg_stream_bucket(stream, number);
  while (channel && channel->number != number) channel = channel->next;
  return channel;
}

/* Takes the channel out of the map: no frame reaches it any more. */
void mcg_channel_unmap(mcg_channel *channel)
{
  if (!channel->mapped) return;
  mcg_channel **at = mcg_stream_bucket(channel->stream, channel->number);
  while (*at != channel) at = &(*at)->next;
  *at = channel->next;
  channel->mapped = false;
  channel->stream->ops->end(channel);
  channel->stream->shared->descriptors -= channel->promised;
  channel->promised = 0;
  mcg_channel_break_stdin(channel, MCG_UNAVAILABLE, "the command has ended");
  mcg_channel_unref(channel);
}

/* GONE is not the end while output is still on its way to someone. */
void mcg_channel_settle(mcg_channel *channel)
{
  bool quiet = channel->flows[0].eof && channel->flows[1].eof;
  if (channel->gone && (channel->released || quiet)) mcg_channel_unmap(channel);
}

static void each_channel(mcg_stream *stream, const mcg_error *error)
{
  for (size_t i = 0; i < MCG_CHANNEL_BUCKETS; i++) {
    while (stream->buckets[i]) {
      mcg_channel *channel = stream->buckets[i];
      channel->refs++;
      mcg_channel_unmap(channel);
      if (error && !channel->released && channel->events.on_lost)
        channel->events.on_lost(channel->data, error);
      mcg_channel_unref(channel);
    }
  }
}

static void lose_with(mcg_stream *stream, mcg_error *error)
{
  if (stream->lost || stream->closed) {
    mcg_error_free(error);
    return;
  }
  stream->lost = true;
  stream->refs++;
  stream_shut(stream);
  if (stream->opening) {
    stream->failure = error;
    mcg_wait_wake(stream->engine, &stream->hello);
  } else {
    each_channel(stream, error);
    if (!stream->closed && stream->on_lost) stream->on_lost(stream->data, error);
    mcg_error_free(error);
  }
  mcg_stream_unref(stream);
}

void mcg_stream_lose(mcg_stream *stream, mcg_code code, const char *format, ...)
{
  char text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  mcg_error *error = NULL;
  mcg_fail(&error, code, NULL, "%s", text);
  lose_with(stream, error);
}

void mcg_stream_close(mcg_stream *stream)
{
  if (!stream || stream->closed) return;
  stream->closed = true;
  stream_shut(stream);
  auto_error mcg_error *closed = NULL; /* whoever waits for a channel must not wait for ever */
  mcg_fail(&closed, MCG_CANCELED, NULL, "the session was closed");
  each_channel(stream, closed);
  mcg_stream_unref(stream);
}

void mcg_stream_cut(mcg_stream *stream)
{
  if (stream && !stream->closed) stream->refs++;
  mcg_stream_close(stream);
}

int mcg_stream_hold(const mcg_stream *stream)
{
  return stream && stream->fd >= 0 ? fcntl(stream->fd, F_DUPFD_CLOEXEC, 3) : -1;
}

/* ---- sending ------------------------------------------------------------------------------ */

void mcg_stream_watch(mcg_stream *stream)
{
  if (!stream->has_poll) return;
  int want = UV_READABLE | (stream->packets ? UV_WRITABLE : 0);
  if (want == stream->events) return;
  stream->events = want;
  uv_poll_start(&stream->poll, want, stream->poll.poll_cb);
}

static bool send_frame(mcg_stream *stream, mcg_frame *frame, const void *body, int fd)
{
  mcg_packet *packet = malloc(sizeof *packet + MCG_FRAME_HEADER + frame->length);
  if (!packet) {
    if (fd >= 0) close(fd);
    return false;
  }
  frame->sequence = ++stream->sent;
  *packet = (mcg_packet){.len = MCG_FRAME_HEADER + frame->length, .fd = fd};
  mcg_frame_encode(frame, packet->bytes);
  if (frame->length) memcpy(packet->bytes + MCG_FRAME_HEADER, body, frame->length);
  if (!stream->packets && stream->ops->put(stream, packet)) {
    if (fd >= 0) close(fd);
    free(packet);
    return true;
  }
  *stream->packets_last = packet;
  stream->packets_last = &packet->next;
  mcg_stream_watch(stream);
  return true;
}

bool mcg_stream_send(mcg_stream *stream, mcg_frame_type type, uint32_t channel, uint8_t which,
                     const void *body, size_t len, int fd)
{
  if (stream->fd < 0) {
    if (fd >= 0) close(fd);
    return true; /* the loss has been told, or will be */
  }
  const uint8_t *bytes = body;
  bool ok = true;
  do {
    size_t part = len < MCG_FRAME_MAX ? len : MCG_FRAME_MAX;
    mcg_frame frame = {.length = (uint32_t)part,
                       .type = type,
                       .stream = which,
                       .channel = channel,
                       .flags = part < len ? MCG_FRAME_MORE : 0,
                       .fds = fd >= 0};
    ok = send_frame(stream, &frame, bytes, fd);
    fd = -1;
    len -= part;
    if (len) bytes += part; /* there may be no bytes at all */
  } while (ok && len);
  return ok;
}

static void flush(mcg_stream *stream)
{
  while (stream->packets && stream->ops->put(stream, stream->packets)) {
    mcg_packet *packet = stream->packets;
    stream->packets = packet->next;
    if (packet->fd >= 0) close(packet->fd);
    free(packet);
  }
  if (!stream->packets) stream->packets_last = &stream->packets;
}

static void stream_polled(uv_poll_t *poll, int status, int events)
{
  mcg_stream *stream = poll->data;
  stream->refs++;
  if (events & UV_WRITABLE) flush(stream);
  if (status < 0 || events & UV_READABLE) stream->ops->readable(stream);
  mcg_stream_watch(stream);
  mcg_stream_unref(stream);
}

/* ---- events of a channel ------------------------------------------------------------------ */

bool mcg_flow_give(mcg_flow *flow, const void *bytes, size_t len)
{
  mcg_channel *channel = flow->channel;
  if (flow->dropping || channel->released || !channel->events.on_data) return true;
  bool more = channel->events.on_data(channel->data, flow->stream, bytes, len);
  if (!more && !channel->released) flow->paused = true;
  return !flow->paused;
}

void mcg_flow_eof(mcg_flow *flow)
{
  mcg_channel *channel = flow->channel;
  if (flow->eof) return;
  flow->eof = true;
  channel->refs++;
  if (!flow->dropping && !channel->released && channel->events.on_eof)
    channel->events.on_eof(channel->data, flow->stream);
  if (flow->draining) mcg_flow_drained(flow);
  mcg_channel_settle(channel);
  mcg_channel_unref(channel);
}

void mcg_flow_drained(mcg_flow *flow)
{
  mcg_channel *channel = flow->channel;
  flow->draining = false;
  flow->dropping = true;
  if (channel->flows[0].draining || channel->flows[1].draining || !channel->drained) return;
  void (*done)(void *) = channel->drained;
  channel->drained = NULL;
  if (!channel->released) done(channel->drained_data);
}

static void chunk_run(mcg_later *later)
{
  mcg_chunk *chunk = (mcg_chunk *)later;
  if (chunk->done && !chunk->channel->released)
    chunk->done(chunk->data, chunk->error);
  else
    mcg_error_free(chunk->error);
  mcg_channel_unref(chunk->channel);
  free(chunk);
}

void mcg_channel_tell_writes(mcg_channel *channel)
{
  struct mcg_streams *shared = channel->stream->shared;
  for (mcg_later **at = &shared->first; *at;) {
    mcg_later *later = *at;
    if (later->run != chunk_run || ((mcg_chunk *)later)->channel != channel) {
      at = &later->next;
      continue;
    }
    *at = later->next;
    if (!*at) shared->last = at;
    shared->queued--;
    later->run(later);
    at = &shared->first; /* it may have changed the queue */
  }
}

void mcg_chunk_finish(mcg_channel *channel, mcg_error *error)
{
  mcg_chunk *chunk = channel->chunks;
  channel->chunks = chunk->next;
  if (!channel->chunks) channel->chunks_last = &channel->chunks;
  chunk->error = error;
  chunk->later.run = chunk_run;
  chunk->channel = channel;
  channel->refs++;
  mcg_streams_later(channel->stream->shared, &chunk->later);
}

void mcg_channel_break_stdin(mcg_channel *channel, mcg_code code, const char *message)
{
  channel->in_broken = true;
  while (channel->chunks) {
    mcg_error *error = NULL;
    if (channel->chunks->done) mcg_fail(&error, code, NULL, "%s", message);
    mcg_chunk_finish(channel, error);
  }
}

/* ---- frames that came --------------------------------------------------------------------- */

typedef struct answer { /* the fields that init's messages have, copied out */
  mcg_exit exit;
  uint64_t pid, version, bytes;
  char *step, *text;
  bool bad;
} answer;

static void answer_read(answer *out, const uint8_t *body, size_t len)
{
  *out = (answer){0};
  mcg_reader reader = mcg_reader_of(body, len);
  mcg_field field;
  while (mcg_reader_next(&reader, &field)) {
    uint64_t number = mcg_field_u64(&field);
    switch (field.tag) {
    case MCG_TAG_VERSION: out->version = number; break;
    case MCG_TAG_PID: out->pid = number; break;
    case MCG_TAG_ERRNO: out->exit.error = number < 4096 ? (int)number : EINVAL; break;
    case MCG_TAG_CODE: out->exit.code = (int)(number & 255); break;
    case MCG_TAG_SIGNO: out->exit.signo = number < 128 ? (int)number : 0; break;
    case MCG_TAG_CPU_US: out->exit.cpu_us = number; break;
    case MCG_TAG_MAXRSS_KB: out->exit.maxrss_kb = number; break;
    case MCG_TAG_BYTES: out->bytes = number; break;
    case MCG_TAG_STEP:
      free(out->step);
      out->step = mcg_field_str(&field);
      break;
    case MCG_TAG_TEXT:
      free(out->text);
      out->text = mcg_field_str(&field);
      break;
    default: break;
    }
  }
  out->bad = reader.bad;
  out->exit.step = out->step;
  out->exit.text = out->text;
}

static void answer_fini(answer *got)
{
  free(got->step);
  free(got->text);
}

static void take_mechanisms(mcg_stream *stream, const uint8_t *body, size_t len)
{
  mcg_reader reader = mcg_reader_of(body, len);
  mcg_field field;
  while (stream->mechanism && mcg_reader_next(&reader, &field)) {
    if (field.tag != MCG_TAG_MECHANISM) continue;
    auto_free char *text = mcg_field_str(&field);
    char *value = text ? strchr(text, '=') : NULL;
    if (!value) continue;
    *value = '\0';
    stream->mechanism(stream->data, text, value + 1);
  }
}

static void greeting(mcg_stream *stream, const answer *got, const uint8_t *body, size_t len,
                     int *fds, size_t count)
{
  if (got->version != MCG_PROTOCOL_VERSION) {
    mcg_stream_lose(stream, MCG_PROTOCOL, "mooncage-init speaks version %llu, the engine %d",
                    (unsigned long long)got->version, MCG_PROTOCOL_VERSION);
  } else if (count && !fds) {
    mcg_stream_lose(stream, MCG_QUOTA, "no descriptors left for the gateway of another session");
  } else if (!mcg_stream_take_sockets(stream, body, len, fds, count)) {
    mcg_stream_lose(stream, MCG_PROTOCOL, "the sandbox sent sockets that are no gateway's");
  } else {
    stream->greeted = true;
    take_mechanisms(stream, body, len);
    mcg_wait_wake(stream->engine, &stream->hello);
  }
}

static void connection_message(mcg_stream *stream, uint8_t type, const uint8_t *body, size_t len,
                               int *fds, size_t count)
{
  if (type == MCG_F_PONG) return;
  if (type == MCG_F_PING) {
    mcg_stream_send(stream, MCG_F_PONG, 0, 0, body, len < 64 ? len : 64, -1);
    return;
  }
  if (type == MCG_F_GONE && stream->killing) {
    stream->killing = false;
    mcg_wait_wake(stream->engine, &stream->killed);
    return;
  }
  answer got;
  answer_read(&got, body, len);
  if (got.bad) {
    mcg_stream_lose(stream, MCG_PROTOCOL, "the sandbox sent a message that does not parse");
  } else if (type == MCG_F_HELLO && !stream->greeted) {
    greeting(stream, &got, body, len, fds, count);
  } else if (type == MCG_F_FAILED && !stream->greeted) {
    mcg_error *error = NULL;
    mcg_spawner_setup_error(&error, got.step ? got.step : "set-up", got.exit.error,
                            got.text ? got.text : "");
    lose_with(stream, error);
  } else {
    mcg_stream_lose(stream, MCG_PROTOCOL, "the sandbox sent a message out of order (type %u)",
                    type);
  }
  answer_fini(&got);
}

/* Our own limit, not the sandbox's fault: this command fails, the session lives on. */
static void channel_starved(mcg_channel *channel)
{
  mcg_channel_kill(channel);
  channel->exited = true;
  mcg_channel_unmap(channel);
  if (!channel->released && channel->events.on_refused)
    channel->events.on_refused(channel->data, EMFILE, "descriptors", "this process has none left");
}

/* LISTEN and CONNECT are over with the answer. Who gave up waiting has let go of `socket`. */
static void channel_socket(mcg_channel *channel, int *fds, size_t count)
{
  if (count != 1) {
    mcg_stream_lose(channel->stream, MCG_PROTOCOL, "the sandbox sent a wrong number of sockets");
    return;
  }
  channel->started = channel->exited = channel->gone = true;
  bool wanted = !channel->released;
  if (wanted) *channel->socket = mcg_steal_fd(&fds[0]);
  mcg_channel_unmap(channel);
  if (wanted) channel->events.on_started(channel->data, 0);
}

static void channel_started(mcg_channel *channel, const answer *got, int *fds, size_t count)
{
  if (!fds && count && !channel->started) {
    channel_starved(channel);
    return;
  }
  if (channel->socket && !channel->started) {
    channel_socket(channel, fds, count);
    return;
  }
  if (channel->started || !channel->stream->ops->started(channel, fds, count)) {
    mcg_stream_lose(channel->stream, MCG_PROTOCOL, "the sandbox sent a wrong start of a command");
    return;
  }
  channel->started = true;
  if (!channel->released && channel->events.on_started)
    channel->events.on_started(channel->data, got->pid <= INT32_MAX ? (int)got->pid : 0);
  if (channel->mapped) channel->stream->ops->feed(channel);
}

static void channel_message(mcg_channel *channel, uint8_t type, const uint8_t *body, size_t len,
                            int *fds, size_t count)
{
  mcg_stream *stream = channel->stream;
  answer got;
  answer_read(&got, body, len);
  bool answered = channel->started || channel->exited;
  if (got.bad) {
    mcg_stream_lose(stream, MCG_PROTOCOL, "the sandbox sent a message that does not parse");
  } else if (type == MCG_F_STARTED) {
    channel_started(channel, &got, fds, count);
  } else if (type == MCG_F_ERROR && !answered) {
    channel->exited = true;
    mcg_channel_unmap(channel);
    if (!channel->released && channel->events.on_refused)
      channel->events.on_refused(channel->data, got.exit.error, got.step ? got.step : "",
                                 got.text ? got.text : "");
  } else if (type == MCG_F_EXIT && channel->started && !channel->exited) {
    channel->exited = true;
    if (!channel->released && channel->events.on_exit)
      channel->events.on_exit(channel->data, &got.exit);
  } else if (type == MCG_F_GONE && channel->exited && !channel->gone) {
    channel->gone = true;
    if (!channel->released && channel->events.on_gone) channel->events.on_gone(channel->data);
    mcg_channel_settle(channel);
  } else {
    mcg_stream_lose(stream, MCG_PROTOCOL, "the sandbox sent a message out of order (type %u)",
                    type);
  }
  answer_fini(&got);
}

/* Collects a message of several frames; true when `*body` is whole. */
static bool assemble(mcg_stream *stream, mcg_wire *partial, uint8_t *partial_type,
                     const mcg_frame *frame, const uint8_t **body, size_t *len)
{
  bool more = frame->flags & MCG_FRAME_MORE;
  if (!partial->len && !more) return true;
  if (partial->len && *partial_type != frame->type) {
    mcg_stream_lose(stream, MCG_PROTOCOL, "the sandbox mixed two messages");
    return false;
  }
  size_t need = partial->len + frame->length;
  if (need > MCG_WIRE_MAX || !frame->length) {
    mcg_stream_lose(stream, MCG_PROTOCOL, "the sandbox sent a message that is too long or empty");
    return false;
  }
  uint8_t *grown = realloc(partial->data, need);
  if (!grown) {
    mcg_stream_lose(stream, MCG_NOMEM, "out of memory for a message of the sandbox");
    return false;
  }
  memcpy(grown + partial->len, *body, frame->length);
  partial->data = grown;
  partial->len = partial->cap = need;
  *partial_type = frame->type;
  *body = grown;
  *len = need;
  return !more;
}

static bool whole_message(mcg_stream *stream, mcg_channel *channel, const mcg_frame *frame,
                          const uint8_t *body, int *fds, size_t count)
{
  mcg_wire *partial = channel ? &channel->partial : &stream->partial;
  uint8_t *type = channel ? &channel->partial_type : &stream->partial_type;
  size_t len = frame->length;
  if (!assemble(stream, partial, type, frame, &body, &len)) return false;
  if (channel)
    channel_message(channel, frame->type, body, len, fds, count);
  else
    connection_message(stream, frame->type, body, len, fds, count);
  mcg_wire_fini(partial);
  mcg_wire_init(partial);
  return true;
}

void mcg_stream_frame(mcg_stream *stream, const mcg_frame *frame, const uint8_t *body, int *fds,
                      size_t count)
{
  stream->quiet = 0;
  if (frame->sequence != ++stream->received || frame->fds != count ||
      (count && frame->type != MCG_F_STARTED && frame->type != MCG_F_HELLO)) {
    mcg_stream_lose(stream, MCG_PROTOCOL, "the sandbox lost count of its messages");
    return;
  }
  if (!frame->channel) {
    whole_message(stream, NULL, frame, body, fds, count);
    return;
  }
  if (frame->channel > stream->last_channel || !stream->greeted) {
    mcg_stream_lose(stream, MCG_PROTOCOL, "the sandbox spoke of a command that is not there");
    return;
  }
  mcg_channel *channel = mcg_stream_find(stream, frame->channel);
  if (!channel) return; /* it was over for us: late words are fine */
  channel->refs++;
  if (frame->type != MCG_F_DATA && frame->type != MCG_F_EOF && frame->type != MCG_F_CREDIT)
    whole_message(stream, channel, frame, body, fds, count);
  else if (stream->ops->data && channel->started)
    stream->ops->data(channel, frame, body);
  else
    mcg_stream_lose(stream, MCG_PROTOCOL, "the sandbox sent data where none can be");
  mcg_channel_unref(channel);
}

/* ---- opening and closing ------------------------------------------------------------------ */

static void heartbeat(uv_timer_t *timer)
{
  mcg_stream *stream = timer->data;
  if (++stream->quiet > HEARTBEATS_LOST) {
    mcg_stream_lose(stream, MCG_UNAVAILABLE, "the sandbox has not answered for %d s",
                    HEARTBEATS_LOST * HEARTBEAT_MS / 1000);
    return;
  }
  mcg_stream_send(stream, MCG_F_PING, 0, 0, NULL, 0, -1);
}

static mcg_stream *stream_new(mcg_engine *engine, int fd, mcg_carrier carrier, mcg_error **err)
{
  struct mcg_streams *shared = streams_of(engine, err);
  mcg_stream *stream = shared ? calloc(1, sizeof *stream) : NULL;
  if (!stream) {
    close(fd);
    if (shared) mcg_fail(err, MCG_NOMEM, NULL, "out of memory for a stream");
    return NULL;
  }
  *stream = (mcg_stream){.engine = engine,
                         .shared = shared,
                         .fd = fd,
                         .carrier = carrier,
                         .refs = 1,
                         .ops = carrier == MCG_CARRIER_DIRECT ? &mcg_carrier_direct
                                                              : &mcg_carrier_framed};
  stream->packets_last = &stream->packets;
  shared->descriptors++;
  mcg_wait_init(&stream->hello);
  for (int i = 0; i < MCG_SOCKETS; i++) stream->sockets[i] = -1;
  return stream;
}

static int stream_start(mcg_stream *stream, mcg_error **err)
{
  int rc = uv_poll_init(stream->engine->loop, &stream->poll, stream->fd);
  if (rc < 0) return mcg_fail_errno(err, -rc, NULL, "watch the sandbox's socket");
  stream->has_poll = true;
  stream->refs++;
  stream->poll.data = stream;
  stream->events = UV_READABLE;
  uv_poll_start(&stream->poll, UV_READABLE, stream_polled);
  if (stream->carrier == MCG_CARRIER_FRAMED) {
    uv_timer_init(stream->engine->loop, &stream->heartbeat);
    stream->has_timer = true;
    stream->refs++;
    stream->heartbeat.data = stream;
    uv_timer_start(&stream->heartbeat, heartbeat, HEARTBEAT_MS, HEARTBEAT_MS);
  }
  mcg_wire hello;
  mcg_wire_init(&hello);
  mcg_wire_put_u64(&hello, MCG_TAG_VERSION, MCG_PROTOCOL_VERSION);
  bool sent =
      !hello.failed && mcg_stream_send(stream, MCG_F_HELLO, 0, 0, hello.data, hello.len, -1);
  mcg_wire_fini(&hello);
  return sent ? 0 : mcg_fail(err, MCG_NOMEM, NULL, "out of memory for a stream");
}

static int stream_greet(mcg_stream *stream, mcg_error **err)
{
  stream->opening = true;
  int rc = stream_start(stream, err);
  if (!rc) rc = mcg_wait_park(stream->engine, &stream->hello, HELLO_TIMEOUT_MS, err);
  stream->opening = false;
  if (!rc && stream->failure) {
    *err = mcg_steal_pointer(&stream->failure);
    rc = -1;
  }
  return rc;
}

int mcg_stream_open(mcg_engine *engine, int fd, mcg_carrier carrier,
                    void (*mechanism)(void *data, const char *name, const char *value),
                    void (*on_lost)(void *data, const mcg_error *error), void *data,
                    mcg_stream **out, mcg_error **err)
{
  mcg_stream *stream = stream_new(engine, fd, carrier, err);
  if (!stream) return -1;
  stream->mechanism = mechanism;
  stream->on_lost = on_lost;
  stream->data = data;
  if (stream_greet(stream, err) < 0) {
    mcg_stream_close(stream);
    return -1;
  }
  *out = stream;
  return 0;
}

int mcg_stream_alive(mcg_stream *stream, mcg_error **err)
{
  if (!stream->lost && !stream->closed) return 0;
  return mcg_fail(err, MCG_UNAVAILABLE, "open a new session", "the sandbox is gone");
}

int mcg_stream_attach(mcg_stream *stream, int fd, mcg_error **err)
{
  if (mcg_stream_alive(stream, err) < 0) {
    close(fd);
    return -1;
  }
  if (stream->carrier != MCG_CARRIER_DIRECT) {
    close(fd);
    return mcg_fail(err, MCG_UNSUPPORTED, NULL, "a framed stream takes no further clients");
  }
  if (mcg_stream_send(stream, MCG_F_ATTACH, 0, 0, NULL, 0, fd)) return 0;
  return mcg_fail(err, MCG_NOMEM, NULL, "out of memory for a message");
}

int mcg_stream_stop(mcg_stream *stream, mcg_error **err)
{
  if (mcg_stream_alive(stream, err) < 0) return -1;
  if (mcg_stream_send(stream, MCG_F_STOP, 0, 0, NULL, 0, -1)) return 0;
  return mcg_fail(err, MCG_NOMEM, NULL, "out of memory for a message");
}

int mcg_stream_kill_all(mcg_stream *stream, mcg_error **err)
{
  int rc = 0;
  stream->refs++;
  for (int i = 0; rc == 0 && stream->killing && i < KILL_TIMEOUT_MS / 10; i++) /* one at a time */
    rc = mcg_fiber_sleep(stream->engine, 10, err);
  if (rc == 0) rc = mcg_stream_alive(stream, err);
  if (rc == 0 && !mcg_stream_send(stream, MCG_F_KILL, 0, 0, NULL, 0, -1))
    rc = mcg_fail(err, MCG_NOMEM, NULL, "out of memory for a message");
  if (rc == 0) {
    mcg_wait_init(&stream->killed);
    stream->killing = true;
    rc = mcg_wait_park(stream->engine, &stream->killed, KILL_TIMEOUT_MS, err);
  }
  if (rc == 0) rc = mcg_stream_alive(stream, err);
  mcg_stream_unref(stream);
  return rc < 0 ? mcg_wrap(err, "end what runs in the sandbox") : 0;
}
