/* netlink.c: writing them, sending them, reading the acknowledgements. */
#include "netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ALIGN(len) (((len) + 3) & ~(size_t)3)

static void *room(mcg_netlink *netlink, size_t len)
{
  size_t at = netlink->len;
  if (netlink->full || ALIGN(len) > sizeof netlink->bytes - at) {
    netlink->full = true;
    return NULL;
  }
  memset(netlink->bytes + at, 0, ALIGN(len));
  netlink->len += ALIGN(len);
  return netlink->bytes + at;
}

/* The message that is being written is as long as what follows its beginning. */
static void measure(mcg_netlink *netlink)
{
  uint32_t len = (uint32_t)(netlink->len - netlink->begin);
  if (!netlink->full) memcpy(netlink->bytes + netlink->begin, &len, sizeof len);
}

void mcg_netlink_begin(mcg_netlink *netlink, uint16_t type, uint16_t flags, const void *body,
                       size_t len)
{
  if (netlink->count == MCG_NETLINK_MESSAGES) netlink->full = true;
  size_t begin = netlink->len;
  uint8_t *at = room(netlink, sizeof(struct nlmsghdr) + len);
  if (!at) return;
  struct nlmsghdr header = {.nlmsg_type = type,
                            .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
                            .nlmsg_seq = netlink->count++};
  memcpy(at, &header, sizeof header);
  if (len) memcpy(at + sizeof header, body, len);
  netlink->begin = begin;
  measure(netlink);
}

static void *attribute(mcg_netlink *netlink, uint16_t type, size_t len)
{
  struct nlattr header = {.nla_len = (uint16_t)(sizeof header + len), .nla_type = type};
  uint8_t *at = room(netlink, sizeof header + len);
  if (!at) return NULL;
  memcpy(at, &header, sizeof header);
  measure(netlink);
  return at + sizeof header;
}

void mcg_netlink_put(mcg_netlink *netlink, uint16_t type, const void *bytes, size_t len)
{
  void *at = attribute(netlink, type, len);
  if (at && len) memcpy(at, bytes, len);
}

void mcg_netlink_put_text(mcg_netlink *netlink, uint16_t type, const char *text)
{
  mcg_netlink_put(netlink, type, text, strlen(text) + 1);
}

void mcg_netlink_put_be32(mcg_netlink *netlink, uint16_t type, uint32_t value)
{
  uint32_t big = htonl(value);
  mcg_netlink_put(netlink, type, &big, sizeof big);
}

size_t mcg_netlink_open(mcg_netlink *netlink, uint16_t type)
{
  size_t opened = netlink->len;
  attribute(netlink, type | NLA_F_NESTED, 0);
  return opened;
}

void mcg_netlink_close(mcg_netlink *netlink, size_t opened)
{
  uint16_t len = (uint16_t)(netlink->len - opened);
  if (!netlink->full) memcpy(netlink->bytes + opened, &len, sizeof len);
}

/* An acknowledgement is an error message whose error is 0. */
static void read_answers(mcg_netlink *netlink, const uint8_t *at, size_t left)
{
  struct nlmsghdr header;
  int error;
  while (left >= sizeof header + sizeof error) {
    memcpy(&header, at, sizeof header);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > left) return;
    memcpy(&error, at + sizeof header, sizeof error);
    if (header.nlmsg_type == NLMSG_ERROR && header.nlmsg_seq < netlink->count) {
      netlink->answered[header.nlmsg_seq] = true;
      netlink->errors[header.nlmsg_seq] = -error;
    }
    size_t step = ALIGN((size_t)header.nlmsg_len);
    if (step >= left) return;
    at += step;
    left -= step;
  }
}

static bool all_answered(const mcg_netlink *netlink)
{
  struct nlmsghdr header;
  for (size_t at = 0; at < netlink->len; at += ALIGN((size_t)header.nlmsg_len)) {
    memcpy(&header, netlink->bytes + at, sizeof header);
    if (header.nlmsg_flags & NLM_F_ACK && !netlink->answered[header.nlmsg_seq]) return false;
  }
  return true;
}

static int exchange(mcg_netlink *netlink, int fd)
{
  uint8_t answer[8192];
  const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
  if (sendto(fd, netlink->bytes, netlink->len, 0, (const void *)&kernel, sizeof kernel) < 0)
    return -1;
  /* The kernel has done its work, and answered, when the send returns. */
  while (!all_answered(netlink)) {
    ssize_t len = recv(fd, answer, sizeof answer, MSG_DONTWAIT);
    if (len < 0 && errno == EINTR) continue;
    if (len <= 0) return -1;
    read_answers(netlink, answer, (size_t)len);
  }
  return 0;
}

int mcg_netlink_send(mcg_netlink *netlink, int family)
{
  if (netlink->full) {
    errno = EMSGSIZE;
    return -1;
  }
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, family);
  int rc = fd < 0 ? -1 : exchange(netlink, fd);
  int error = errno;
  if (fd >= 0) close(fd);
  errno = error;
  return rc;
}
