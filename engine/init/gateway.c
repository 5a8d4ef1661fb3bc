/* gateway.c: addresses, routes, the sockets of the stub, and those that see what the kernel refuses. */
#include "gateway.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_addr.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netlink.h"

#define LOOPBACK 1 /* the index of lo: the first interface of a namespace, always */
#define BACKLOG 128
#define SNAP 160 /* bytes of a refusal: two IPv4 headers of full length and the ports */

void mcg_gateway_init(mcg_gateway *gateway)
{
  *gateway = (mcg_gateway){0};
  for (int i = 0; i < MCG_SOCKETS; i++) gateway->sockets[i] = -1;
}

void mcg_gateway_close(mcg_gateway *gateway)
{
  for (int i = 0; i < MCG_SOCKETS; i++) {
    if (gateway->sockets[i] >= 0) close(gateway->sockets[i]);
    gateway->sockets[i] = -1;
  }
}

static int failed(mcg_gateway *gateway, const char *what)
{
  gateway->failed = what;
  return -1;
}

/* ---- addresses and routes ---------------------------------------------------------------------- */

static void put_address(mcg_netlink *out, int family, const void *address, size_t len)
{
  struct ifaddrmsg body = {.ifa_family = (uint8_t)family,
                           .ifa_prefixlen = (uint8_t)(len * 8),
                           .ifa_flags = family == AF_INET6 ? IFA_F_NODAD : 0,
                           .ifa_index = LOOPBACK};
  mcg_netlink_begin(out, RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE, &body, sizeof body);
  mcg_netlink_put(out, IFA_LOCAL, address, len);
  mcg_netlink_put(out, IFA_ADDRESS, address, len);
}

/* All of the family is local. Who connects does it from the sandbox's one address, and not, as the kernel
 * would have it, from the destination's: there a program could meet itself (a simultaneous open). */
static void put_route(mcg_netlink *out, int family, const void *source, size_t len)
{
  uint32_t interface = LOOPBACK;
  struct rtmsg body = {.rtm_family = (uint8_t)family,
                       .rtm_table = RT_TABLE_LOCAL,
                       .rtm_protocol = RTPROT_STATIC,
                       .rtm_scope = RT_SCOPE_HOST,
                       .rtm_type = RTN_LOCAL};
  mcg_netlink_begin(out, RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE, &body, sizeof body);
  mcg_netlink_put(out, RTA_OIF, &interface, sizeof interface);
  mcg_netlink_put(out, RTA_PREFSRC, source, len);
}

/* What a kernel without IPv6, or with it turned off, answers. */
static bool no_family(int error)
{
  return error == EOPNOTSUPP || error == EAFNOSUPPORT || error == EACCES;
}

static int make_local(mcg_gateway *gateway)
{
  mcg_netlink out = {0};
  struct in_addr four;
  struct in6_addr six;
  inet_pton(AF_INET, MCG_OWN_ADDRESS_4, &four);
  inet_pton(AF_INET6, MCG_OWN_ADDRESS_6, &six);
  put_address(&out, AF_INET, &four, sizeof four);
  put_route(&out, AF_INET, &four, sizeof four);
  put_address(&out, AF_INET6, &six, sizeof six);
  put_route(&out, AF_INET6, &six, sizeof six);
  if (mcg_netlink_send(&out, NETLINK_ROUTE) < 0) return failed(gateway, "ask for its addresses");
  gateway->six = !no_family(out.errors[2]);
  for (uint32_t i = 0; i < (gateway->six ? 4u : 2u); i++) {
    if (!out.errors[i]) continue;
    errno = out.errors[i];
    return failed(gateway, i % 2 ? "make every address local" : "add its address to lo");
  }
  return 0;
}

/* ---- the stub's sockets ------------------------------------------------------------------------ */

static int stub(mcg_gateway *gateway, int kind, int type)
{
  struct sockaddr_in name = {
      .sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  gateway->sockets[kind] = fd;
  if (fd < 0 || bind(fd, (void *)&name, sizeof name) < 0)
    return failed(gateway, "bind port 53 of 127.0.0.1");
  if (type == SOCK_STREAM && listen(fd, BACKLOG) < 0)
    return failed(gateway, "listen on port 53 of 127.0.0.1");
  return 0;
}

/* ---- what was refused --------------------------------------------------------------------------- */

#define LOAD(size, at) BPF_STMT(BPF_LD | (size) | BPF_ABS, at)
#define LOAD_X(size, at) BPF_STMT(BPF_LD | (size) | BPF_IND, at)
#define MASK(bits) BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits)
/* `at` is the jump's own place; a jump says how many instructions it skips. */
#define JUMP(how, at, value, yes, no)                                                              \
  BPF_JUMP(BPF_JMP | (how) | BPF_K, value, (yes) - (at)-1, (no) - (at)-1)
#define EQUAL(at, value, yes, no) JUMP(BPF_JEQ, at, value, yes, no)
#define GIVE(len) BPF_STMT(BPF_RET | BPF_K, len)

enum { FIN_SYN_RST_ACK = 0x17, RST_ACK = 0x14 };

/* From another address than loopback's: a TCP segment RST|ACK whose sequence number is 0, with which the
 * kernel, and nobody else, answers a SYN that nobody listens for; or ICMP port unreachable. */
enum { SIX = 13, SIX_ELSEWHERE = 22, TCP = 28, YES = 33, NO = 34 };
static const struct sock_filter REFUSED[] = {
    LOAD(BPF_B, 0), /* version */
    MASK(0xf0),
    EQUAL(2, 0x40, 3, SIX),
    LOAD(BPF_B, 12), /* source */
    EQUAL(4, 127, NO, 5),
    LOAD(BPF_H, 6),
    JUMP(BPF_JSET, 6, 0x1fff, NO, 7),       /* a later fragment */
    BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0), /* X = length of the header */
    LOAD(BPF_B, 9),
    EQUAL(9, IPPROTO_TCP, TCP, 10),
    EQUAL(10, IPPROTO_ICMP, 11, NO),
    LOAD_X(BPF_H, 0),
    EQUAL(12, 3 << 8 | 3, YES, NO), /* destination unreachable: port */
    EQUAL(13, 0x60, 14, NO),
    LOAD(BPF_W, 8), /* source, in four parts */
    EQUAL(15, 0, 16, SIX_ELSEWHERE),
    LOAD(BPF_W, 12),
    EQUAL(17, 0, 18, SIX_ELSEWHERE),
    LOAD(BPF_W, 16),
    EQUAL(19, 0, 20, SIX_ELSEWHERE),
    LOAD(BPF_W, 20),
    EQUAL(21, 1, NO, SIX_ELSEWHERE),
    BPF_STMT(BPF_LDX | BPF_IMM, 40),
    LOAD(BPF_B, 6), /* next header */
    EQUAL(24, IPPROTO_TCP, TCP, 25),
    EQUAL(25, IPPROTO_ICMPV6, 26, NO),
    LOAD_X(BPF_H, 0),
    EQUAL(27, 1 << 8 | 4, YES, NO), /* destination unreachable: port */
    LOAD_X(BPF_B, 13),
    MASK(FIN_SYN_RST_ACK),
    EQUAL(30, RST_ACK, 31, NO),
    LOAD_X(BPF_W, 4), /* sequence number */
    EQUAL(32, 0, YES, NO),
    GIVE(SNAP),
    GIVE(0),
};

/* The filter before the name: from the first packet on it sees refusals alone. What is on its way out is
 * not shown to it: each packet of a connection would cost a copy. */
static int watch_refusals(mcg_gateway *gateway)
{
  struct sock_fprog program = {.len = sizeof REFUSED / sizeof *REFUSED,
                               .filter = (struct sock_filter *)(uintptr_t)REFUSED};
  struct sockaddr_ll name = {
      .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = LOOPBACK};
  int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1;
  gateway->sockets[MCG_SOCKET_REFUSED] = fd;
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0 ||
      setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &yes, sizeof yes) < 0 ||
      setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes) < 0 ||
      bind(fd, (void *)&name, sizeof name) < 0)
    return failed(gateway, "watch for refused connections");
  return 0;
}

/* ---- all of it ----------------------------------------------------------------------------------- */

static int make(mcg_gateway *gateway, bool redirect)
{
  if (make_local(gateway) < 0 || stub(gateway, MCG_SOCKET_STUB_UDP, SOCK_DGRAM) < 0 ||
      stub(gateway, MCG_SOCKET_STUB_TCP, SOCK_STREAM) < 0 || watch_refusals(gateway) < 0)
    return -1;
  gateway->redirecting = redirect;
  return redirect ? mcg_redirect_make(gateway) : 0;
}

int mcg_gateway_make(mcg_gateway *gateway, bool redirect)
{
  mcg_gateway_init(gateway);
  if (make(gateway, redirect) == 0) return 0;
  int error = errno;
  mcg_gateway_close(gateway);
  errno = error;
  return -1;
}
