/* sockets.c: LISTEN and CONNECT: sockets that must be made in the sandbox's network and are the
 * engine's. Nothing here waits: a connection that is under way is the engine's to wait for. Ports below
 * 1024 are anybody's in there, and any address can be bound that is local, as all are with a gateway. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "command.h"

#define BACKLOG 512

#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND 78
#endif

typedef union name {
  struct sockaddr any;
  struct sockaddr_in four;
  struct sockaddr_in6 six;
} name;

static bool read_name(const uint8_t *body, size_t len, name *out, socklen_t *size)
{
  mcg_reader reader = mcg_reader_of(body, len);
  mcg_field field;
  uint64_t port = 0;
  *out = (name){0};
  while (mcg_reader_next(&reader, &field)) {
    if (field.tag == MCG_TAG_PORT) port = mcg_field_u64(&field);
    if (field.tag != MCG_TAG_ADDRESS) continue;
    if (field.len == 4) {
      out->four.sin_family = AF_INET;
      memcpy(&out->four.sin_addr, field.bytes, 4);
    } else if (field.len == 16) {
      out->six.sin6_family = AF_INET6;
      memcpy(&out->six.sin6_addr, field.bytes, 16);
    }
  }
  out->six.sin6_port = htons((uint16_t)port); /* in the same place for both */
  *size = out->any.sa_family == AF_INET ? sizeof out->four : sizeof out->six;
  return !reader.bad && out->any.sa_family && port > 0 && port < 65536;
}

static int on(int fd, int level, int option)
{
  return setsockopt(fd, level, option, &(int){1}, sizeof(int));
}

/* Never SO_REUSEPORT: whoever has the same uid could then take a part of the connections. SO_REUSEADDR
 * lets it bind beside closed connections, and nobody listen beside it. */
static int start_listening(int fd, const name *at, socklen_t size)
{
  bool six = at->any.sa_family == AF_INET6;
  if (on(fd, SOL_SOCKET, SO_REUSEADDR) < 0) return -1;
  if (six && (on(fd, IPPROTO_IPV6, IPV6_V6ONLY) < 0 || on(fd, IPPROTO_IPV6, IPV6_FREEBIND) < 0))
    return -1;
  return bind(fd, &at->any, size) < 0 ? -1 : listen(fd, BACKLOG);
}

static int start_connecting(int fd, const name *at, socklen_t size)
{
  int rc = connect(fd, &at->any, size);
  return rc < 0 && errno == EINPROGRESS ? 0 : rc;
}

bool mcg_socket_answer(mcg_server *server, mcg_conn *conn, const mcg_frame *frame,
                       const uint8_t *body, size_t len)
{
  name at;
  socklen_t size;
  bool listens = frame->type == MCG_F_LISTEN;
  if (frame->channel == 0 || mcg_command_find(server, conn, frame->channel) ||
      !read_name(body, len, &at, &size))
    return false;
  const char *step = listens ? "listen" : "connect";
  if (conn->carrier != MCG_DIRECT) {
    mcg_refuse(conn, frame->channel, EOPNOTSUPP, step, "sockets travel over a direct carrier only");
    return true;
  }
  int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || (listens ? start_listening(fd, &at, size) : start_connecting(fd, &at, size)) < 0)
    mcg_refuse(conn, frame->channel, errno, step, NULL);
  else
    mcg_conn_send(conn, MCG_F_STARTED, frame->channel, 0, NULL, &fd, 1);
  if (fd >= 0) close(fd);
  return true;
}
