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

int mcg_jail_net(mcg_jail *jail)
{
  const char *name = jail->spec->hostname ? jail->spec->hostname : "sandbox";
  if (sethostname(name, strlen(name)) < 0)
    return mcg_jail_fail(jail, "userns", errno, "set the host name to %s", name);
  if (jail->spec->network != 0) {
    mcg_jail_note(jail, "network=shared with the host");
    return 0;
  }
  if (jail->order->net < 0 && mcg_net_loopback() < 0)
    return mcg_jail_fail(jail, "userns", errno, "bring up loopback");
  mcg_jail_note(jail, "network=own, loopback only");
  return 0;
}
