/* maps.c: who a sandbox is. One line a map: one uid of the host is one uid inside, and nobody else
 * exists. The child writes it itself: being the owner's own namespace and the owner's own id, that
 * needs no privilege. Nobody is root inside, and root of the host is never mapped. Profile packages has
 * a range of uids, root of which is nobody on the host. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "jail.h"
#include "kernel.h"

/* Paths through the host's /proc: where the root stands already, its own knows nobody. */
static int put(int proc, const char *path, const char *text, size_t len)
{
  int fd = openat(proc, path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t put = write(fd, text, len);
  int error = errno;
  close(fd);
  errno = error;
  return put == (ssize_t)len ? 0 : -1;
}

static int put_line(int proc, const char *path, uint32_t inside, uint32_t outside)
{
  char line[48];
  int len = snprintf(line, sizeof line, "%u %u 1\n", inside, outside);
  return put(proc, path, line, (size_t)len);
}

static int one_uid(mcg_jail *jail)
{
  const mcg_jail_order *order = jail->order;
  if (put(order->proc, "self/setgroups", "deny", 4) < 0)
    return mcg_jail_fail(jail, "maps", errno, "deny setgroups in the user namespace");
  if (put_line(order->proc, "self/uid_map", jail->uid, order->host_uid) < 0)
    return mcg_jail_fail(jail, "maps", errno, "map uid %u to %u", order->host_uid, jail->uid);
  if (put_line(order->proc, "self/gid_map", jail->gid, order->host_gid) < 0)
    return mcg_jail_fail(jail, "maps", errno, "map gid %u to %u", order->host_gid, jail->gid);
  mcg_jail_note(jail, "user_namespace=on, uid %u", jail->uid);
  return 0;
}

/* A range is more than oneself, so the spawner writes it; EOF: it could not, and has said so. */
static int range(mcg_jail *jail)
{
  char go;
  close(jail->order->go[1]);
  if (read(jail->order->go[0], &go, 1) != 1) _exit(1);
  mcg_jail_note(jail, "user_namespace=on, %u uids", jail->order->range);
  return 0;
}

int mcg_jail_maps(mcg_jail *jail)
{
  /* The change of ids before the clone made the process undumpable, and with that the files below
   * root's. It becomes undumpable again, for good, as soon as they are written. */
  if (prctl(PR_SET_DUMPABLE, 1) < 0) return mcg_jail_fail(jail, "maps", errno, "PR_SET_DUMPABLE");
  if ((jail->order->range > 1 ? range(jail) : one_uid(jail)) < 0) return -1;
  if (syscall(SYS_setresgid, jail->gid, jail->gid, jail->gid) < 0 ||
      syscall(SYS_setresuid, jail->uid, jail->uid, jail->uid) < 0)
    return mcg_jail_fail(jail, "maps", errno, "become uid %u inside", jail->uid);
  if (jail->order->range > 1 && syscall(SYS_setgroups, 0, NULL) < 0)
    return mcg_jail_fail(jail, "maps", errno, "drop the groups of the host");
  if (prctl(PR_SET_DUMPABLE, 0) < 0) return mcg_jail_fail(jail, "maps", errno, "PR_SET_DUMPABLE");
  return 0;
}
