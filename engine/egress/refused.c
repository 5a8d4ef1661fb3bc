/* refused.c: what the kernel refused in the sandbox, without anybody's help, told to the audit log.
 *
 * The socket sees only such packets; which are refusals is refusal.c's to read. */
#include "gateway_parts.h"
#include "refusal.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PACKETS 64 /* at once; then the loop looks at the rest */

static bool is_own(const mcg_address *address)
{
  static const uint8_t six[16] = {[15] = 1};
  return address->six ? memcmp(address->bytes, six, sizeof six) == 0 : address->bytes[0] == 127;
}

static void tell(mcg_egress *egress, const mcg_refusal *refusal)
{
  const mcg_address *to = &refusal->address;
  char text[MCG_ADDRESS_TEXT], reason[320];
  mcg_verdict verdict = {0};
  bool ours;
  const char *name = mcg_synthetic_name(egress->names, to, &ours);
  mcg_address_text(to, text);
  if (refusal->udp) {
    snprintf(reason, sizeof reason, "UDP leaves the sandbox nowhere");
  } else {
    const mcg_target target = {.name = name, .address = name ? NULL : to, .port = refusal->port};
    if (mcg_policy_judge(egress->policy, &target, &verdict))
      snprintf(reason, sizeof reason, "nobody listens there");
    else
      snprintf(reason, sizeof reason, "%s", verdict.reason);
  }
  mcg_netlog_denied(egress->log, &(mcg_net_event){.name = name,
                                                  .address = name ? NULL : text,
                                                  .port = refusal->port,
                                                  .protocol = refusal->udp ? "udp" : "tcp",
                                                  .rule = verdict.allowed ? NULL : verdict.rule,
                                                  .reason = reason});
}

static void ready(mcg_watch *watch)
{
  uint8_t bytes[MCG_REFUSAL_PACKET];
  for (int i = 0; i < PACKETS; i++) {
    ssize_t len = recv(watch->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (len < 0 && errno == EINTR) continue;
    if (len < 0) return;
    mcg_refusal refusal;
    if (mcg_refusal_parse(bytes, (size_t)len, &refusal) && !is_own(&refusal.address))
      tell(watch->egress, &refusal);
  }
}

int mcg_refused_start(mcg_egress *egress, int take_packets, mcg_error **err)
{
  mcg_watch *watch;
  if (mcg_egress_watch(egress, take_packets, ready, &watch, err) < 0) return -1;
  watch->packets = true;
  return 0;
}
