/* proc.c: /proc of the sandbox's own pid namespace, whole but masked, so that ps, free, node and
 * their like work; only processes that the reader may trace are in it. Where the kernel refuses a
 * whole one (a host whose own /proc is covered), and in profile strict, it is pids alone. */
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "jail.h"
#include "kernel.h"

#define FLAGS (MS_NOSUID | MS_NODEV | MS_NOEXEC)

static const char *const HIDDEN_DIRS[] = {"acpi", "asound", "scsi"};
static const char *const HIDDEN_FILES[] = {
    "kcore",       "keys",          "latency_stats", "timer_list", "timer_stats",
    "sched_debug", "sysrq-trigger", "kallsyms",      "interrupts", "kmsg"};
static const char *const READ_ONLY[] = {"bus", "fs", "irq", "sys"};
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ENOENT is no failure: this kernel has no such file. */
static int cover(mcg_jail *jail, const char *name, const char *with)
{
  char path[64];
  snprintf(path, sizeof path, "%s/proc/%s", jail->fresh, name);
  if (mount(with, path, NULL, MS_BIND, NULL) < 0 && errno != ENOENT && errno != ENOTDIR)
    return mcg_jail_fail(jail, "proc", errno, "mask /proc/%s", name);
  return 0;
}

static int freeze(mcg_jail *jail, const char *name)
{
  char path[64];
  snprintf(path, sizeof path, "%s/proc/%s", jail->fresh, name);
  if (mount(path, path, NULL, MS_BIND | MS_REC, NULL) < 0) {
    if (errno == ENOENT) return 0;
    return mcg_jail_fail(jail, "proc", errno, "bind /proc/%s", name);
  }
  if (mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | FLAGS, NULL) < 0)
    return mcg_jail_fail(jail, "proc", errno, "make /proc/%s read-only", name);
  return 0;
}

/* What covers: an empty directory of our own, read-only, and the device that dev.c has looked at. */
static int mask(mcg_jail *jail)
{
  char null[32];
  snprintf(null, sizeof null, "%s/dev/null", jail->fresh);
  if (mkdir("e", 0555) < 0 || mount("e", "e", NULL, MS_BIND, NULL) < 0 ||
      mount(NULL, "e", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | FLAGS, NULL) < 0)
    return mcg_jail_fail(jail, "proc", errno, "make an empty directory");
  for (size_t i = 0; i < COUNT(HIDDEN_DIRS); i++)
    if (cover(jail, HIDDEN_DIRS[i], "e") < 0) return -1;
  for (size_t i = 0; i < COUNT(HIDDEN_FILES); i++)
    if (cover(jail, HIDDEN_FILES[i], null) < 0) return -1;
  for (size_t i = 0; i < COUNT(READ_ONLY); i++)
    if (freeze(jail, READ_ONLY[i]) < 0) return -1;
  return 0;
}

int mcg_jail_proc(mcg_jail *jail)
{
  char path[32];
  snprintf(path, sizeof path, "%s/proc", jail->fresh);
  bool strict = jail->spec->profile == MCG_PROFILE_STRICT;
  if (!strict && mount("proc", path, "proc", FLAGS, "hidepid=invisible") == 0) {
    mcg_jail_note(jail, "proc=masked, hidepid");
    int own = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (own < 0) return mcg_jail_fail(jail, "proc", errno, "open the sandbox's /proc");
    mcg_jail_tune(jail, own);
    close(own);
    return mask(jail);
  }
  if (mount("proc", path, "proc", FLAGS, "hidepid=invisible,subset=pid") < 0)
    return mcg_jail_fail(jail, "proc", errno, "mount /proc: the host's own /proc may be covered");
  mcg_jail_note(jail, "proc=pids only, hidepid");
  mcg_jail_tune(jail, jail->order->proc);
  return 0;
}
