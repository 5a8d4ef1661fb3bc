/* traces.c: the files of /proc/net in which any use of a network shows.
 *
 * Whoever has no capability over a network can leave nothing in it but: sockets (counted, of every family,
 * until the last byte of the last of them is freed, those that only an unread message holds included);
 * what packets leave, such as TIME-WAIT, metrics, routes learnt, fragments (each packet is counted by
 * loopback, the only device); memberships of multicast groups; leases of IPv6 flow labels, which outlive
 * their socket; and the counts themselves, which the next sandbox could read. Counts only grow: one that is
 * as it was has not moved meanwhile. */
#include "traces.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const files[] = {"sockstat", "dev",  "snmp",  "snmp6",
                                    "netstat",  "igmp", "igmp6", "ip6_flowlabel"};

/* What is not there was not there before either: the kernel does without. */
static bool append(int proc, const char *name, mcg_traces *out)
{
  char path[64];
  snprintf(path, sizeof path, "thread-self/net/%s", name);
  int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT;
  ssize_t got;
  while ((got = read(fd, out->text + out->len, sizeof out->text - out->len)) > 0)
    out->len += (size_t)got;
  close(fd);
  return got == 0 && out->len < sizeof out->text; /* a full buffer may have cut something off */
}

/* Cuts each line off at " alloc " or " mem ": what the kernel counts for all networks together. */
static void forget_shared(mcg_traces *traces)
{
  size_t to = 0;
  bool keep = true;
  for (size_t at = 0; at < traces->len; at++) {
    const char *text = traces->text + at;
    size_t left = traces->len - at;
    if ((left >= 7 && memcmp(text, " alloc ", 7) == 0) ||
        (left >= 5 && memcmp(text, " mem ", 5) == 0))
      keep = false;
    if (*text == '\n') keep = true;
    if (keep) traces->text[to++] = *text;
  }
  traces->len = to;
}

bool mcg_traces_read(int proc, mcg_traces *out)
{
  out->len = 0;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    if (append(proc, files[i], out)) {
      if (i == 0) forget_shared(out);
      continue;
    }
    out->len = 0;
    break;
  }
  return out->len > 0;
}

bool mcg_traces_same(const mcg_traces *one, const mcg_traces *other)
{
  return one->len && one->len == other->len && memcmp(one->text, other->text, one->len) == 0;
}
