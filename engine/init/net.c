/* net.c: the network namespace is the wall; in it there is loopback, and nothing else. */
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "jail.h"
#include "kernel.h"
#include "net.h"

int mcg_net_loopback(void)
{
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  struct ifreq request = {.ifr_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING};
  strcpy(request.ifr_name, "lo");
  int rc = ioctl(fd, SIOCSIFFLAGS, &request);
  int error = errno;
  close(fd);
  errno = error;
  return rc;
}

void mcg_net_init(mcg_net *net)
{
  *net = (mcg_net){.fd = -1};
  mcg_gateway_init(&net->ways);
}

void mcg_net_close(mcg_net *net)
{
  mcg_gateway_close(&net->ways);
  if (net->fd >= 0) close(net->fd);
  net->fd = -1;
}

/* In a namespace that was made ahead it has been made with it. */
static int gateway(mcg_jail *jail)
{
  const mcg_spawn_spec *spec = jail->spec;
  if (spec->carrier != 0)
    return mcg_jail_fail(jail, "gateway", EOPNOTSUPP,
                         "its sockets cannot travel over the carrier framed");
  jail->gateway = jail->order->net.ways;
  if (jail->order->net.fd < 0 && mcg_gateway_make(&jail->gateway, spec->redirect) < 0)
    return mcg_jail_fail(jail, jail->gateway.redirecting ? "redirect" : "gateway", errno, "%s",
                         jail->gateway.failed);
  mcg_jail_note(jail, "network=own, all of it through the gateway: IPv4%s%s",
                jail->gateway.six ? " and IPv6" : " alone", spec->redirect ? ", redirected" : "");
  return 0;
}

int mcg_jail_net(mcg_jail *jail)
{
  const char *name = jail->spec->hostname ? jail->spec->hostname : "sandbox";
  if (sethostname(name, strlen(name)) < 0)
    return mcg_jail_fail(jail, "userns", errno, "set the host name to %s", name);
  if (jail->spec->network == MCG_NET_HOST) {
    mcg_jail_note(jail, "network=shared with the host");
    return 0;
  }
  if (jail->order->net.fd < 0 && mcg_net_loopback() < 0)
    return mcg_jail_fail(jail, "userns", errno, "bring up loopback");
  if (jail->spec->network == MCG_NET_GATEWAY) return gateway(jail);
  if (jail->spec->network != MCG_NET_OWN)
    return mcg_jail_fail(jail, "gateway", EINVAL, "no network of number %u", jail->spec->network);
  mcg_jail_note(jail, "network=own, loopback only");
  return 0;
}
