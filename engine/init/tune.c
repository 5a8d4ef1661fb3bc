/* tune.c: what the namespaces of a sandbox are told through /proc/sys.
 *
 * Through a /proc of the sandbox's own, wherever it has a whole one: in another's the kernel keeps an entry
 * of the same name for every namespace that ever asked, and looks through all of them. With a thousand
 * sandboxes that took longer than all the rest of making one. Where /proc/sys cannot be written, as in some
 * containers, other fences stand. */
#include <string.h>

#include "jail.h"
#include "kernel.h"
#include "net.h"

static bool put(int proc, const char *path, const char *text)
{
  int fd = openat(proc, path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool done = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  close(fd);
  return done;
}

/* A command has no capability to bind low ports with, and in its own namespace needs none. */
void mcg_net_free_ports(int proc)
{
  put(proc, "sys/net/ipv4/ip_unprivileged_port_start", "0");
}

/* What the kernel counts for a user namespace it counts for the one above, too: without a share of its
 * own a sandbox could use up the user's. No namespaces below it at all: the second fence behind
 * seccomp. */
void mcg_jail_tune(mcg_jail *jail, int proc)
{
  bool none = put(proc, "sys/user/max_user_namespaces", "0");
  bool few = put(proc, "sys/user/max_inotify_instances", "64");
  mcg_jail_note(jail, "nested_namespaces=%s",
                none && few ? "none, by count and seccomp" : "none, by seccomp");
  if (jail->spec->network != MCG_NET_HOST && jail->order->net.fd < 0) mcg_net_free_ports(proc);
}
