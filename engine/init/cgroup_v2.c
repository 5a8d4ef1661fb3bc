/* cgroup_v2.c: one hierarchy. Root makes groups below /sys/fs/cgroup/mooncage. An ordinary user needs
 * a group that is its own: one it was given, or a scope that its systemd makes for the spawner. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroup.h"
#include "kernel.h"

#define ROOT "/sys/fs/cgroup"
#define SCOPE_PATIENCE_MS 2000

static const char *const NAMES[MCG_CONTROLLERS] = {"memory", "cpu", "pids"};
static const unsigned BITS[MCG_CONTROLLERS] = {MCG_CAN_MEMORY, MCG_CAN_CPU, MCG_CAN_PIDS};

static unsigned listed(int dir, const char *file)
{
  char text[512] = " ";
  unsigned found = 0;
  int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
  ssize_t len = fd < 0 ? -1 : read(fd, text + 1, sizeof text - 3);
  if (fd >= 0) close(fd);
  if (len <= 0) return 0;
  text[len + 1] = 0;
  for (char *save, *name = strtok_r(text, " \n", &save); name; name = strtok_r(NULL, " \n", &save))
    for (size_t i = 0; i < MCG_CONTROLLERS; i++)
      if (strcmp(name, NAMES[i]) == 0) found |= BITS[i];
  return found;
}

/* One by one: a controller that cannot be had must not cost the others. Returns what children have. */
static unsigned enable(int dir)
{
  unsigned have = listed(dir, "cgroup.controllers"), on = listed(dir, "cgroup.subtree_control");
  for (size_t i = 0; i < MCG_CONTROLLERS; i++) {
    char text[16];
    if (!(have & BITS[i]) || on & BITS[i]) continue;
    snprintf(text, sizeof text, "+%s", NAMES[i]);
    mcg_cgroup_put(dir, ".", "cgroup.subtree_control", text);
  }
  return listed(dir, "cgroup.subtree_control");
}

static void use(mcg_cgroups *groups, int dir)
{
  groups->can = enable(dir);
  groups->base[0] = dir;
  groups->mode = MCG_CGROUP_V2;
  groups->why = "this cgroup v2 controller is not available below the group in use";
}

static void open_as_root(mcg_cgroups *groups)
{
  int top = open(ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (top >= 0) enable(top);
  if (top >= 0) close(top);
  if (mkdir(ROOT "/mooncage", 0755) < 0 && errno != EEXIST) {
    groups->why = "/sys/fs/cgroup is not writable";
    return;
  }
  int dir = open(ROOT "/mooncage", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir >= 0) use(groups, dir);
}

/* ---- an ordinary user ------------------------------------------------------------------------ */

static int open_own(void)
{
  char own[PATH_MAX - 64], path[PATH_MAX];
  if (!mcg_cgroup_own_path("", own, sizeof own)) return -1;
  snprintf(path, sizeof path, ROOT "%s", own);
  int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir >= 0 && faccessat(dir, ".", W_OK, AT_EACCESS) == 0 &&
      faccessat(dir, "cgroup.subtree_control", W_OK, AT_EACCESS) == 0 &&
      faccessat(dir, "cgroup.procs", W_OK, AT_EACCESS) == 0)
    return dir;
  if (dir >= 0) close(dir);
  return -1;
}

/* Controllers can be given to children only by a group without processes: the spawner goes into a
 * leaf. Where others are in the group as well it is not the spawner's to rearrange. */
static bool settle(int dir)
{
  char text[64];
  if (mkdirat(dir, "mooncage-spawner", 0755) < 0 && errno != EEXIST) return false;
  snprintf(text, sizeof text, "%d", (int)getpid());
  if (!mcg_cgroup_put(dir, "mooncage-spawner", "cgroup.procs", text)) return false;
  int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
  ssize_t others = fd < 0 ? 1 : read(fd, text, sizeof text);
  if (fd >= 0) close(fd);
  return others == 0;
}

/* systemd's user manager makes the scope `unit`, delegates it, and moves this process in. */
static bool ask_systemd(const char *unit)
{
  char self[16];
  if (!getenv("XDG_RUNTIME_DIR") && !getenv("DBUS_SESSION_BUS_ADDRESS")) return false;
  snprintf(self, sizeof self, "%d", (int)getpid());
  pid_t pid = fork();
  if (pid == 0) {
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) dup2(null, fd);
    mcg_sys_close_range(3, ~0u);
    execlp("busctl", "busctl", "--user", "--quiet", "call", "org.freedesktop.systemd1",
           "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "StartTransientUnit",
           "ssa(sv)a(sa(sv))", unit, "fail", "3", "PIDs", "au", "1", self, "Delegate", "b", "true",
           "CollectMode", "s", "inactive-or-failed", "0", (char *)NULL);
    _exit(127);
  }
  int status = -1;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status == 0;
}

static void open_as_user(mcg_cgroups *groups)
{
  groups->why = "this user has no cgroup of its own; start it with "
                "systemd-run --user --scope -p Delegate=yes";
  int dir = open_own();
  if (dir >= 0 && settle(dir)) {
    use(groups, dir);
    return;
  }
  if (dir >= 0) close(dir);
  char unit[64];
  snprintf(unit, sizeof unit, "mooncage-%d.scope", (int)getpid());
  if (!ask_systemd(unit)) return;
  for (int waited = 0; waited < SCOPE_PATIENCE_MS; waited += 5) {
    char own[PATH_MAX];
    if (mcg_cgroup_own_path("", own, sizeof own) && strstr(own, unit)) {
      dir = open_own();
      if (dir >= 0 && settle(dir)) use(groups, dir);
      return;
    }
    poll(NULL, 0, 5);
  }
}

void mcg_cgroups_open_v2(mcg_cgroups *groups)
{
  if (geteuid() == 0)
    open_as_root(groups);
  else
    open_as_user(groups);
}

/* ---- limits and figures ---------------------------------------------------------------------- */

static bool limit_memory(int base, const char *group, uint64_t bytes)
{
  if (!mcg_cgroup_put_number(base, group, "memory.max", bytes)) return false;
  /* Absent where the kernel has no swap. */
  if (!mcg_cgroup_put(base, group, "memory.swap.max", "0") && errno != ENOENT) return false;
  if (!mcg_cgroup_put(base, group, "memory.zswap.max", "0") && errno != ENOENT) return false;
  return true;
}

int mcg_cgroup_limit_v2(const mcg_cgroups *groups, const char *group,
                        const mcg_cgroup_limits *limits, const char **what)
{
  char text[48];
  int base = groups->base[0];
  *what = "memory";
  if (limits->memory && groups->can & MCG_CAN_MEMORY && !limit_memory(base, group, limits->memory))
    return -1;
  *what = "cpu";
  snprintf(text, sizeof text, "%llu %d",
           (unsigned long long)limits->cpu_milli * MCG_CPU_PERIOD_US / 1000, MCG_CPU_PERIOD_US);
  if (limits->cpu_milli && groups->can & MCG_CAN_CPU &&
      !mcg_cgroup_put(base, group, "cpu.max", text))
    return -1;
  *what = "pids";
  if (limits->pids && groups->can & MCG_CAN_PIDS &&
      !mcg_cgroup_put_number(base, group, "pids.max", limits->pids + MCG_PIDS_RESERVE))
    return -1;
  *what = "descendants";
  return mcg_cgroup_put(base, group, "cgroup.max.descendants", "0") ? 0 : -1;
}

void mcg_cgroup_read_v2(const mcg_cgroups *groups, const char *group, bool live,
                        mcg_cgroup_use *out)
{
  int base = groups->base[0];
  if (live) out->memory = mcg_cgroup_get(base, group, "memory.current", NULL);
  out->memory_peak = mcg_cgroup_get(base, group, "memory.peak", NULL);
  out->cpu_us = mcg_cgroup_get(base, group, "cpu.stat", "usage_usec");
  if (live) out->pids = mcg_cgroup_get(base, group, "pids.current", NULL);
  out->oom_kills = mcg_cgroup_get(base, group, "memory.events", "oom_kill");
  out->pids_hits = mcg_cgroup_get(base, group, "pids.events", "max");
}
