/* connection.c: both carriers. Direct: a frame is a packet, descriptors ride with it. Framed: frames
 * are laid one after the other into a buffer. */
#include "connection.h"
#include "server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

typedef struct mcg_packet {
  struct mcg_packet *next;
  size_t len;
  unsigned count;
  int fds[MCG_FDS_MAX];
  uint8_t bytes[];
} mcg_packet;

mcg_conn *mcg_conn_new(int fd, int carrier)
{
  mcg_conn *conn = calloc(1, sizeof *conn);
  if (!conn) return NULL;
  conn->fd = fd;
  conn->carrier = carrier;
  for (int i = 0; i < MCG_FDS_MAX; i++) conn->received[i] = -1;
  mcg_intake_init(&conn->intake);
  return conn;
}

static void packet_free(mcg_packet *packet)
{
  for (unsigned i = 0; i < packet->count; i++) close(packet->fds[i]);
  free(packet);
}

void mcg_conn_free(mcg_conn *conn)
{
  while (conn->head) {
    mcg_packet *packet = conn->head;
    conn->head = packet->next;
    packet_free(packet);
  }
  mcg_intake_fini(&conn->intake);
  free(conn->out);
  close(conn->fd);
  free(conn);
}

/* ---- direct ------------------------------------------------------------------------------- */

/* 1 sent, 0 not now, -1 never. */
static int send_packet(int fd, struct iovec *parts, size_t part_count, const int *fds,
                       unsigned count)
{
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * MCG_FDS_MAX)];
  } control;
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = part_count};
  if (count) {
    memset(&control, 0, sizeof control);
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * count);
    memcpy(CMSG_DATA(header), fds, sizeof(int) * count);
  }
  ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) return 1;
  return errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ETOOMANYREFS ? 0 : -1;
}

static bool queue_packet(mcg_conn *conn, const uint8_t *header, const uint8_t *payload, size_t len,
                         const int *fds, unsigned count)
{
  mcg_packet *packet = malloc(sizeof *packet + MCG_FRAME_HEADER + len);
  if (!packet) return false;
  packet->next = NULL;
  packet->len = MCG_FRAME_HEADER + len;
  packet->count = 0;
  memcpy(packet->bytes, header, MCG_FRAME_HEADER);
  if (len) memcpy(packet->bytes + MCG_FRAME_HEADER, payload, len);
  for (unsigned i = 0; i < count; i++) {
    int copy = dup(fds[i]);
    if (copy < 0) {
      packet_free(packet);
      return false;
    }
    packet->fds[packet->count++] = copy;
  }
  if (conn->head)
    conn->last->next = packet;
  else
    conn->head = packet;
  conn->last = packet;
  conn->queued += packet->len;
  return true;
}

static bool direct_frame(mcg_conn *conn, const uint8_t *header, const uint8_t *payload, size_t len,
                         const int *fds, unsigned count)
{
  if (!conn->head) {
    struct iovec parts[2] = {{(void *)header, MCG_FRAME_HEADER}, {(void *)payload, len}};
    int sent = send_packet(conn->fd, parts, len ? 2 : 1, fds, count);
    if (sent) return sent > 0;
  }
  return queue_packet(conn, header, payload, len, fds, count);
}

static void direct_flush(mcg_conn *conn)
{
  while (conn->head) {
    mcg_packet *packet = conn->head;
    struct iovec part = {packet->bytes, packet->len};
    int sent = send_packet(conn->fd, &part, 1, packet->fds, packet->count);
    if (sent == 0) return;
    if (sent < 0) {
      conn->dead = true;
      return;
    }
    conn->head = packet->next;
    conn->queued -= packet->len;
    packet_free(packet);
  }
}

static void take_descriptors(mcg_conn *conn, struct msghdr *message, int *count)
{
  *count = 0;
  for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
    int many = (int)((at->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (int i = 0; i < many; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(at) + sizeof(int) * (size_t)i, sizeof fd);
      if (*count < MCG_FDS_MAX)
        conn->received[(*count)++] = fd;
      else
        close(fd);
    }
  }
}

static void direct_receive(mcg_conn *conn, mcg_on_message fn)
{
  static uint8_t buffer[MCG_FRAME_HEADER + MCG_FRAME_MAX];
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * MCG_FDS_MAX)];
  } control;
  struct iovec part = {buffer, sizeof buffer};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  ssize_t len = recvmsg(conn->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (len < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (len <= 0) {
    conn->dead = true;
    return;
  }
  int count;
  mcg_frame frame;
  take_descriptors(conn, &message, &count);
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || len < MCG_FRAME_HEADER ||
      !mcg_frame_decode(buffer, &frame) || frame.fds != count ||
      !mcg_intake_packet(&conn->intake, buffer, (size_t)len, fn, conn))
    conn->dead = true;
  for (int i = 0; i < MCG_FDS_MAX; i++) {
    if (conn->received[i] >= 0) close(conn->received[i]);
    conn->received[i] = -1;
  }
}

/* ---- framed ------------------------------------------------------------------------------- */

static bool out_room(mcg_conn *conn, size_t more)
{
  if (conn->out_at && (conn->out_at == conn->out_len || conn->out_len + more > conn->out_cap)) {
    memmove(conn->out, conn->out + conn->out_at, conn->out_len - conn->out_at);
    conn->out_len -= conn->out_at;
    conn->out_at = 0;
  }
  if (conn->out_len + more <= conn->out_cap) return true;
  size_t cap = conn->out_cap ? conn->out_cap : 4096;
  while (cap < conn->out_len + more) cap *= 2;
  uint8_t *grown = realloc(conn->out, cap);
  if (!grown) return false;
  conn->out = grown;
  conn->out_cap = cap;
  return true;
}

static void framed_flush(mcg_conn *conn)
{
  while (conn->out_at < conn->out_len) {
    ssize_t sent = send(conn->fd, conn->out + conn->out_at, conn->out_len - conn->out_at,
                        MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == ENOTSOCK)
      sent = write(conn->fd, conn->out + conn->out_at, conn->out_len - conn->out_at);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS) conn->dead = true;
      break;
    }
    conn->out_at += (size_t)sent;
  }
  conn->queued = conn->out_len - conn->out_at;
}

static bool framed_frame(mcg_conn *conn, const uint8_t *header, const uint8_t *payload, size_t len)
{
  if (!out_room(conn, MCG_FRAME_HEADER + len)) return false;
  memcpy(conn->out + conn->out_len, header, MCG_FRAME_HEADER);
  if (len) memcpy(conn->out + conn->out_len + MCG_FRAME_HEADER, payload, len);
  conn->out_len += MCG_FRAME_HEADER + len;
  framed_flush(conn);
  return true;
}

uint8_t *mcg_conn_data_room(mcg_conn *conn)
{
  if (!out_room(conn, MCG_FRAME_HEADER + MCG_FRAME_MAX)) return NULL;
  return conn->out + conn->out_len + MCG_FRAME_HEADER;
}

void mcg_conn_data_done(mcg_conn *conn, uint32_t channel, uint8_t stream, size_t len)
{
  mcg_frame frame = {.length = (uint32_t)len,
                     .type = MCG_F_DATA,
                     .stream = stream,
                     .channel = channel,
                     .sequence = ++conn->sequence};
  mcg_frame_encode(&frame, conn->out + conn->out_len);
  conn->out_len += MCG_FRAME_HEADER + len;
  framed_flush(conn);
}

static void framed_receive(mcg_conn *conn, mcg_on_message fn)
{
  static uint8_t buffer[MCG_FRAME_MAX];
  ssize_t len = read(conn->fd, buffer, sizeof buffer);
  if (len < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (len <= 0 || !mcg_intake_bytes(&conn->intake, buffer, (size_t)len, fn, conn))
    conn->dead = true;
}

/* ---- both --------------------------------------------------------------------------------- */

void mcg_conn_send_bytes(mcg_conn *conn, mcg_frame_type type, uint32_t channel, uint8_t stream,
                         const void *bytes, size_t len)
{
  mcg_wire body = {.data = (uint8_t *)(uintptr_t)bytes, .len = len};
  mcg_conn_send(conn, type, channel, stream, &body, NULL, 0);
}

void mcg_conn_send(mcg_conn *conn, mcg_frame_type type, uint32_t channel, uint8_t stream,
                   const mcg_wire *body, const int *fds, unsigned count)
{
  size_t len = body ? body->len : 0, at = 0;
  if (conn->dead) return;
  if (body && body->failed) {
    conn->dead = true;
    return;
  }
  do {
    size_t piece = len - at < MCG_FRAME_MAX ? len - at : MCG_FRAME_MAX;
    bool more = at + piece < len;
    mcg_frame frame = {.length = (uint32_t)piece,
                       .type = (uint8_t)type,
                       .stream = stream,
                       .flags = more ? MCG_FRAME_MORE : 0,
                       .fds = more ? 0 : (uint8_t)count,
                       .channel = channel,
                       .sequence = ++conn->sequence};
    uint8_t header[MCG_FRAME_HEADER];
    mcg_frame_encode(&frame, header);
    const uint8_t *payload = piece ? body->data + at : NULL;
    bool good = conn->carrier == MCG_DIRECT
                    ? direct_frame(conn, header, payload, piece, more ? NULL : fds, frame.fds)
                    : framed_frame(conn, header, payload, piece);
    if (!good) conn->dead = true;
    at += piece;
  } while (at < len && !conn->dead);
}

void mcg_conn_flush(mcg_conn *conn)
{
  if (conn->carrier == MCG_DIRECT)
    direct_flush(conn);
  else
    framed_flush(conn);
}

void mcg_conn_receive(mcg_conn *conn, mcg_on_message fn)
{
  if (conn->carrier == MCG_DIRECT)
    direct_receive(conn, fn);
  else
    framed_receive(conn, fn);
}

void mcg_send_failed(int fd, int carrier, const char *step, int number, const char *text)
{
  mcg_conn conn = {.fd = fd, .carrier = carrier};
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_str(&body, MCG_TAG_STEP, step);
  mcg_wire_put_u64(&body, MCG_TAG_ERRNO, (uint64_t)number);
  mcg_wire_put_str(&body, MCG_TAG_TEXT, text);
  mcg_conn_send(&conn, MCG_F_FAILED, 0, 0, &body, NULL, 0);
  mcg_wire_fini(&body);
  free(conn.out);
  free(conn.head);
}
