/* stream_sockets.c: sockets that a sandbox makes for the engine in its own network: those of HELLO, and
 * the answers to LISTEN and CONNECT. All are hostile: each is looked at before anybody uses it. */
#include "stream_parts.h"
#include "service/linger.h"
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#define ANSWER_MS 10000
#define CONNECT_MS 10000
#define ORIGINAL_DST 80 /* SO_ORIGINAL_DST, and its like for IPv6 */

/* ---- what a descriptor is ------------------------------------------------------------------ */

static bool is(int fd, int option, int value)
{
  int found;
  socklen_t size = sizeof found;
  return getsockopt(fd, SOL_SOCKET, option, &found, &size) == 0 && size == sizeof found &&
         found == value;
}

static bool is_socket(int fd, int domain, int type, int protocol, bool listens)
{
  struct stat about;
  return fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode) && is(fd, SO_DOMAIN, domain) &&
         is(fd, SO_TYPE, type) && is(fd, SO_PROTOCOL, protocol) && is(fd, SO_ACCEPTCONN, listens) &&
         fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

static bool same_name(const struct sockaddr_storage *one, const struct sockaddr *other)
{
  const void *at = one;
  if (one->ss_family != other->sa_family) return false;
  if (one->ss_family == AF_INET) {
    const struct sockaddr_in *a = at, *b = (const void *)other;
    return a->sin_port == b->sin_port && a->sin_addr.s_addr == b->sin_addr.s_addr;
  }
  const struct sockaddr_in6 *a = at, *b = (const void *)other;
  return a->sin6_port == b->sin6_port &&
         memcmp(&a->sin6_addr, &b->sin6_addr, sizeof a->sin6_addr) == 0;
}

static bool is_named(int fd, const struct sockaddr *name)
{
  struct sockaddr_storage found = {0};
  socklen_t size = sizeof found;
  return getsockname(fd, (void *)&found, &size) == 0 && same_name(&found, name);
}

/* ---- of HELLO ------------------------------------------------------------------------------- */

static bool is_of_kind(int fd, uint64_t kind)
{
  const struct sockaddr_in stub = {
      .sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  const struct sockaddr *name = (const void *)&stub;
  switch (kind) {
  case MCG_SOCKET_STUB_UDP:
    return is_socket(fd, AF_INET, SOCK_DGRAM, IPPROTO_UDP, false) && is_named(fd, name);
  case MCG_SOCKET_STUB_TCP:
    return is_socket(fd, AF_INET, SOCK_STREAM, IPPROTO_TCP, true) && is_named(fd, name);
  case MCG_SOCKET_REFUSED: return is_socket(fd, AF_PACKET, SOCK_DGRAM, 0, false);
  case MCG_SOCKET_REDIRECT_4: return is_socket(fd, AF_INET, SOCK_STREAM, IPPROTO_TCP, true);
  case MCG_SOCKET_REDIRECT_6: return is_socket(fd, AF_INET6, SOCK_STREAM, IPPROTO_TCP, true);
  default: return false;
  }
}

bool mcg_stream_take_sockets(mcg_stream *stream, const uint8_t *body, size_t len, int *fds,
                             size_t count)
{
  size_t next = 0;
  mcg_reader reader = mcg_reader_of(body, len);
  mcg_field field;
  while (mcg_reader_next(&reader, &field)) {
    if (field.tag != MCG_TAG_SOCKET) continue;
    uint64_t kind = mcg_field_u64(&field);
    if (next == count || kind >= MCG_SOCKETS || stream->sockets[kind] >= 0 ||
        !is_of_kind(fds[next], kind))
      return false;
    stream->sockets[kind] = mcg_steal_fd(&fds[next++]);
  }
  return next == count;
}

void mcg_stream_drop_sockets(mcg_stream *stream)
{
  for (int i = 0; i < MCG_SOCKETS; i++)
    if (stream->sockets[i] >= 0) mcg_close_now(mcg_steal_fd(&stream->sockets[i]));
}

void mcg_stream_gateway_sockets(mcg_stream *stream, mcg_gateway_sockets *out)
{
  int *sockets = stream->sockets;
  *out = (mcg_gateway_sockets){.stub_udp = mcg_steal_fd(&sockets[MCG_SOCKET_STUB_UDP]),
                               .stub_tcp = mcg_steal_fd(&sockets[MCG_SOCKET_STUB_TCP]),
                               .refused = mcg_steal_fd(&sockets[MCG_SOCKET_REFUSED]),
                               .redirected = {mcg_steal_fd(&sockets[MCG_SOCKET_REDIRECT_4]),
                                              mcg_steal_fd(&sockets[MCG_SOCKET_REDIRECT_6])}};
}

/* ---- LISTEN and CONNECT --------------------------------------------------------------------- */

typedef struct asking {
  mcg_engine *engine;
  mcg_wait wait;
  bool answered;
  int fd, number; /* errno of a refusal */
  char text[128];
  mcg_error *lost;
} asking;

static void wake(asking *self)
{
  self->answered = true;
  mcg_wait_wake(self->engine, &self->wait);
}

static void started(void *data, int pid)
{
  (void)pid;
  wake(data);
}

static void refused(void *data, int number, const char *step, const char *text)
{
  (void)step;
  asking *self = data;
  self->number = number ? number : EIO;
  snprintf(self->text, sizeof self->text, "%s", text);
  wake(self);
}

static void lost(void *data, const mcg_error *error)
{
  asking *self = data;
  self->lost = mcg_error_copy(error);
  wake(self);
}

static bool put_name(mcg_wire *body, const struct sockaddr *address)
{
  const struct sockaddr_in *four = (const void *)address;
  const struct sockaddr_in6 *six = (const void *)address;
  if (address->sa_family == AF_INET)
    mcg_wire_put(body, MCG_TAG_ADDRESS, &four->sin_addr, sizeof four->sin_addr);
  else
    mcg_wire_put(body, MCG_TAG_ADDRESS, &six->sin6_addr, sizeof six->sin6_addr);
  mcg_wire_put_u64(body, MCG_TAG_PORT, ntohs(four->sin_port));
  return !body->failed;
}

static mcg_channel *send_question(mcg_stream *stream, mcg_frame_type type,
                                  const struct sockaddr *address, asking *self)
{
  static const mcg_channel_events events = {
      .on_started = started, .on_refused = refused, .on_lost = lost};
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_channel *channel =
      put_name(&body, address) ? mcg_channel_new(stream, 0, &events, self) : NULL;
  if (channel) {
    channel->socket = &self->fd;
    if (!mcg_stream_send(stream, type, channel->number, 0, body.data, body.len, -1)) {
      mcg_channel_unmap(channel);
      mcg_channel_release(channel);
      channel = NULL;
    }
  }
  mcg_wire_fini(&body);
  return channel;
}

/* 0: answered, with a descriptor or a number. */
static int ask(mcg_stream *stream, mcg_frame_type type, const struct sockaddr *address,
               asking *self, mcg_error **err)
{
  *self = (asking){.engine = stream->engine, .fd = -1};
  if (stream->carrier != MCG_CARRIER_DIRECT)
    return mcg_fail(err, MCG_UNSUPPORTED, "leave carrier = \"framed\" out",
                    "sockets of a sandbox's network need the direct carrier");
  if (mcg_stream_alive(stream, err) < 0) return -1;
  mcg_wait_init(&self->wait);
  mcg_channel *channel = send_question(stream, type, address, self);
  if (!channel) return mcg_fail(err, MCG_NOMEM, NULL, "out of memory for a socket");
  int rc = self->answered ? 0 : mcg_wait_park(stream->engine, &self->wait, ANSWER_MS, err);
  mcg_channel_release(channel);
  if (!rc && self->lost) {
    *err = mcg_steal_pointer(&self->lost);
    rc = -1;
  }
  if (rc < 0 && self->fd >= 0) mcg_close_now(self->fd);
  mcg_error_free(self->lost);
  return rc;
}

static const char *name_text(const struct sockaddr *address, char out[64])
{
  const struct sockaddr_in *four = (const void *)address;
  const struct sockaddr_in6 *six = (const void *)address;
  bool is_four = address->sa_family == AF_INET;
  char text[46] = "?";
  if (is_four)
    uv_ip4_name(four, text, sizeof text);
  else
    uv_ip6_name(six, text, sizeof text);
  snprintf(out, 64, is_four ? "%s:%u" : "[%s]:%u", text, ntohs(four->sin_port));
  return out;
}

static void lie_told(mcg_later *later)
{
  mcg_stream *stream = (mcg_stream *)(void *)((char *)later - offsetof(mcg_stream, lie));
  mcg_stream_lose(stream, MCG_PROTOCOL, "the sandbox sent another socket than was asked for");
  mcg_stream_unref(stream);
}

/* Who hears of the loss runs from the loop, and here is a fiber. */
static int impostor(mcg_stream *stream, asking *self, mcg_error **err)
{
  mcg_close_now(self->fd);
  if (!stream->lied) {
    stream->lied = true;
    stream->refs++;
    stream->lie.run = lie_told;
    mcg_streams_later(stream->shared, &stream->lie);
  }
  return mcg_fail(err, MCG_PROTOCOL, NULL, "the sandbox sent another socket than was asked for");
}

static int stream_listen(mcg_stream *stream, const struct sockaddr *address, int *fd,
                         mcg_error **err)
{
  asking self;
  char name[64];
  if (ask(stream, MCG_F_LISTEN, address, &self, err) < 0) return -1;
  if (self.number)
    return mcg_fail(err, self.number == EADDRINUSE ? MCG_CONFLICT : MCG_UNAVAILABLE,
                    self.number == EADDRINUSE ? "end the program in the sandbox that listens there"
                                              : NULL,
                    "listen on %s in the sandbox: %s", name_text(address, name), self.text);
  if (!is_socket(self.fd, address->sa_family, SOCK_STREAM, IPPROTO_TCP, true) ||
      !is_named(self.fd, address))
    return impostor(stream, &self, err);
  *fd = self.fd;
  return 0;
}

typedef struct joining { /* a connection that is under way */
  mcg_engine *engine;
  mcg_wait wait, closed;
  uv_poll_t poll;
} joining;

static void join_polled(uv_poll_t *poll, int status, int events)
{
  (void)status;
  (void)events;
  joining *self = poll->data;
  mcg_wait_wake(self->engine, &self->wait);
}

static void join_closed(uv_handle_t *handle)
{
  joining *self = handle->data;
  mcg_wait_wake(self->engine, &self->closed);
}

static int wait_connected(mcg_engine *engine, int fd, mcg_error **err)
{
  joining self = {.engine = engine};
  struct pollfd now = {.fd = fd, .events = POLLOUT};
  if (poll(&now, 1, 0) > 0) return 0;
  mcg_wait_init(&self.wait);
  mcg_wait_init(&self.closed);
  int rc = uv_poll_init(engine->loop, &self.poll, fd);
  if (rc < 0) return mcg_fail_errno(err, -rc, NULL, "watch a connection into the sandbox");
  self.poll.data = &self;
  uv_poll_start(&self.poll, UV_WRITABLE, join_polled);
  rc = mcg_wait_park(engine, &self.wait, CONNECT_MS, err);
  auto_error mcg_error *ignored = NULL;
  mcg_fiber_shield(engine, true);
  uv_close((uv_handle_t *)&self.poll, join_closed);
  (void)!mcg_wait_park(engine, &self.closed, -1, &ignored);
  mcg_fiber_shield(engine, false);
  return rc;
}

static int stream_connect(mcg_stream *stream, const struct sockaddr *address, int *fd,
                          mcg_error **err)
{
  asking self;
  char name[64];
  if (ask(stream, MCG_F_CONNECT, address, &self, err) < 0) return -1;
  int number = self.number;
  if (!number) {
    if (!is_socket(self.fd, address->sa_family, SOCK_STREAM, IPPROTO_TCP, false))
      return impostor(stream, &self, err);
    struct sockaddr_storage peer = {0};
    socklen_t size = sizeof number, peer_size = sizeof peer;
    if (wait_connected(stream->engine, self.fd, err) < 0) {
      mcg_close_now(self.fd);
      return -1;
    }
    if (getsockopt(self.fd, SOL_SOCKET, SO_ERROR, &number, &size) < 0) number = errno;
    if (!number && getpeername(self.fd, (void *)&peer, &peer_size) < 0) number = ECONNRESET;
    if (!number && !same_name(&peer, address)) return impostor(stream, &self, err);
  }
  if (!number) {
    *fd = self.fd;
    return 0;
  }
  if (self.fd >= 0) mcg_close_now(self.fd);
  return mcg_fail(err, MCG_UNAVAILABLE,
                  number == ECONNREFUSED ? "start a program in the sandbox that listens there"
                                         : NULL,
                  "connect to %s in the sandbox: %s", name_text(address, name), strerror(number));
}

/* The stream may end, and be let go of, meanwhile. */
int mcg_stream_listen(mcg_stream *stream, const struct sockaddr *address, int *fd, mcg_error **err)
{
  stream->refs++;
  int rc = stream_listen(stream, address, fd, err);
  mcg_stream_unref(stream);
  return rc;
}

int mcg_stream_connect(mcg_stream *stream, const struct sockaddr *address, int *fd, mcg_error **err)
{
  stream->refs++;
  int rc = stream_connect(stream, address, fd, err);
  mcg_stream_unref(stream);
  return rc;
}

/* ---- redirected ------------------------------------------------------------------------------ */

int mcg_redirected_destination(int fd, struct sockaddr_storage *out, mcg_error **err)
{
  int domain;
  socklen_t size = sizeof domain;
  *out = (struct sockaddr_storage){0};
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0)
    return mcg_fail_errno(err, errno, NULL, "ask what a redirected connection is");
  size = sizeof *out;
  bool six = domain == AF_INET6;
  if (getsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, ORIGINAL_DST, out, &size) < 0)
    return mcg_fail_errno(err, errno, NULL, "ask where a redirected connection wanted to go");
  socklen_t least = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
  if (size >= least && out->ss_family == domain) return 0;
  return mcg_fail(err, MCG_PROTOCOL, NULL, "a redirected connection has no destination");
}
