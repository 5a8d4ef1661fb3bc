/* redirect.c: nftables, by messages of our own: no program of that name need be there. One table for
 * each family, in the sandbox's namespace, with one chain and one rule:
 *   type nat hook output priority -100; meta l4proto tcp (ip daddr & 255.0.0.0 != 127.0.0.0) redirect to :PORT */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "gateway.h"
#include "netlink.h"

#define TABLE "mooncage"
#define CHAIN "out"
#define BACKLOG 128
#define PRIORITY_DNAT (-100) /* where nat of what is sent has its place */
#define HOOK_OUTPUT 3        /* NF_INET_LOCAL_OUT; its header does not go with musl's */
#define FAMILY_4 2           /* NFPROTO_IPV4 */
#define FAMILY_6 10

static int failed(mcg_gateway *gateway, const char *what)
{
  gateway->failed = what;
  return -1;
}

static int listener(mcg_gateway *gateway, int kind, const struct sockaddr *name, socklen_t len,
                    uint16_t *port)
{
  struct sockaddr_in6 bound;
  socklen_t size = sizeof bound;
  int fd = socket(name->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  gateway->sockets[kind] = fd;
  if (fd < 0 || bind(fd, name, len) < 0 || listen(fd, BACKLOG) < 0 ||
      getsockname(fd, (void *)&bound, &size) < 0)
    return failed(gateway, "listen for what is redirected");
  *port = bound.sin6_port; /* in the same place for both families */
  return 0;
}

/* ---- the rule ------------------------------------------------------------------------------------ */

static void begin(mcg_netlink *out, uint16_t what, uint16_t flags, uint8_t family)
{
  const struct nfgenmsg body = {.nfgen_family = family, .version = NFNETLINK_V0};
  mcg_netlink_begin(out, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | what), NLM_F_ACK | flags, &body,
                    sizeof body);
}

/* All between begin and end is done, or none of it. */
static void edge(mcg_netlink *out, uint16_t type)
{
  const struct nfgenmsg body = {.version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};
  mcg_netlink_begin(out, type, 0, &body, sizeof body);
}

typedef struct expression {
  size_t element, data;
} expression;

static expression open_expression(mcg_netlink *out, const char *name)
{
  expression opened = {.element = mcg_netlink_open(out, NFTA_LIST_ELEM)};
  mcg_netlink_put_text(out, NFTA_EXPR_NAME, name);
  opened.data = mcg_netlink_open(out, NFTA_EXPR_DATA);
  return opened;
}

static void close_expression(mcg_netlink *out, expression opened)
{
  mcg_netlink_close(out, opened.data);
  mcg_netlink_close(out, opened.element);
}

static void put_value(mcg_netlink *out, uint16_t type, const void *bytes, size_t len)
{
  size_t opened = mcg_netlink_open(out, type);
  mcg_netlink_put(out, NFTA_DATA_VALUE, bytes, len);
  mcg_netlink_close(out, opened);
}

static void compare(mcg_netlink *out, uint32_t how, const void *bytes, size_t len)
{
  expression opened = open_expression(out, "cmp");
  mcg_netlink_put_be32(out, NFTA_CMP_SREG, NFT_REG_1);
  mcg_netlink_put_be32(out, NFTA_CMP_OP, how);
  put_value(out, NFTA_CMP_DATA, bytes, len);
  close_expression(out, opened);
}

static void is_tcp(mcg_netlink *out)
{
  const uint8_t tcp = IPPROTO_TCP;
  expression opened = open_expression(out, "meta");
  mcg_netlink_put_be32(out, NFTA_META_DREG, NFT_REG_1);
  mcg_netlink_put_be32(out, NFTA_META_KEY, NFT_META_L4PROTO);
  close_expression(out, opened);
  compare(out, NFT_CMP_EQ, &tcp, sizeof tcp);
}

/* `loopback` is how a destination begins that is left alone. */
static void is_elsewhere(mcg_netlink *out, uint32_t offset, const void *loopback, uint32_t len)
{
  expression opened = open_expression(out, "payload");
  mcg_netlink_put_be32(out, NFTA_PAYLOAD_DREG, NFT_REG_1);
  mcg_netlink_put_be32(out, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
  mcg_netlink_put_be32(out, NFTA_PAYLOAD_OFFSET, offset);
  mcg_netlink_put_be32(out, NFTA_PAYLOAD_LEN, len);
  close_expression(out, opened);
  compare(out, NFT_CMP_NEQ, loopback, len);
}

static void redirect_to(mcg_netlink *out, uint16_t port)
{
  expression opened = open_expression(out, "immediate");
  mcg_netlink_put_be32(out, NFTA_IMMEDIATE_DREG, NFT_REG_1);
  put_value(out, NFTA_IMMEDIATE_DATA, &port, sizeof port);
  close_expression(out, opened);
  opened = open_expression(out, "redir");
  mcg_netlink_put_be32(out, NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1);
  close_expression(out, opened);
}

static void put_rule(mcg_netlink *out, uint8_t family, uint16_t port)
{
  static const uint8_t loopback_6[16] = {[15] = 1}, loopback_4[1] = {127};
  begin(out, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, family);
  mcg_netlink_put_text(out, NFTA_RULE_TABLE, TABLE);
  mcg_netlink_put_text(out, NFTA_RULE_CHAIN, CHAIN);
  size_t expressions = mcg_netlink_open(out, NFTA_RULE_EXPRESSIONS);
  is_tcp(out);
  if (family == FAMILY_4)
    is_elsewhere(out, 16, loopback_4, sizeof loopback_4);
  else
    is_elsewhere(out, 24, loopback_6, sizeof loopback_6);
  redirect_to(out, port);
  mcg_netlink_close(out, expressions);
}

static void put_table(mcg_netlink *out, uint8_t family, uint16_t port)
{
  begin(out, NFT_MSG_NEWTABLE, NLM_F_CREATE, family);
  mcg_netlink_put_text(out, NFTA_TABLE_NAME, TABLE);
  begin(out, NFT_MSG_NEWCHAIN, NLM_F_CREATE, family);
  mcg_netlink_put_text(out, NFTA_CHAIN_TABLE, TABLE);
  mcg_netlink_put_text(out, NFTA_CHAIN_NAME, CHAIN);
  size_t hook = mcg_netlink_open(out, NFTA_CHAIN_HOOK);
  mcg_netlink_put_be32(out, NFTA_HOOK_HOOKNUM, HOOK_OUTPUT);
  mcg_netlink_put_be32(out, NFTA_HOOK_PRIORITY, (uint32_t)PRIORITY_DNAT);
  mcg_netlink_close(out, hook);
  mcg_netlink_put_text(out, NFTA_CHAIN_TYPE, "nat");
  put_rule(out, family, port);
}

static int send_rules(mcg_gateway *gateway, uint16_t port_4, uint16_t port_6)
{
  mcg_netlink out = {0};
  edge(&out, NFNL_MSG_BATCH_BEGIN);
  put_table(&out, FAMILY_4, port_4);
  if (port_6) put_table(&out, FAMILY_6, port_6);
  edge(&out, NFNL_MSG_BATCH_END);
  if (mcg_netlink_send(&out, NETLINK_NETFILTER) < 0) return failed(gateway, "ask nftables");
  for (uint32_t i = 0; i < out.count; i++) {
    if (!out.errors[i]) continue;
    errno = out.errors[i];
    return failed(gateway, "make nftables redirect");
  }
  return 0;
}

int mcg_redirect_make(mcg_gateway *gateway)
{
  const struct sockaddr_in name_4 = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  const struct sockaddr_in6 name_6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  uint16_t port_4, port_6 = 0;
  if (listener(gateway, MCG_SOCKET_REDIRECT_4, (const void *)&name_4, sizeof name_4, &port_4) < 0)
    return -1;
  if (gateway->six &&
      listener(gateway, MCG_SOCKET_REDIRECT_6, (const void *)&name_6, sizeof name_6, &port_6) < 0)
    return -1;
  return send_rules(gateway, port_4, port_6);
}
