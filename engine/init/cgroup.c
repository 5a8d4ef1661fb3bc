/* cgroup.c: which version of control groups is here, and what is the same for both. */
#include "cgroup.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "kernel.h"

#define CGROUP2_MAGIC 0x63677270

void mcg_cgroups_open(mcg_cgroups *groups, const mcg_owner *owner)
{
  struct statfs fs;
  *groups = (mcg_cgroups){
      .owner = owner, .base = {-1, -1, -1}, .why = "no cgroup file system at /sys/fs/cgroup"};
  if (statfs("/sys/fs/cgroup", &fs) < 0) return;
  if ((unsigned long)fs.f_type == CGROUP2_MAGIC)
    mcg_cgroups_open_v2(groups);
  else
    mcg_cgroups_open_v1(groups);
}

void mcg_cgroup_name(const mcg_cgroups *groups, uint64_t serial, mcg_cgroup *out)
{
  snprintf(out->name, sizeof out->name, "mcg-%s-%llu", groups->owner->text,
           (unsigned long long)serial);
}

int mcg_cgroup_make(const mcg_cgroups *groups, const mcg_cgroup *group)
{
  for (size_t i = 0; i < MCG_CONTROLLERS; i++)
    if (groups->base[i] >= 0 && mkdirat(groups->base[i], group->name, 0755) < 0) return -1;
  return 0;
}

int mcg_cgroup_open(const mcg_cgroups *groups, const mcg_cgroup *group)
{
  return openat(groups->base[0], group->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void tell(mcg_wire *enforced, const mcg_cgroups *groups, const char *limit, unsigned bit)
{
  char text[192];
  if (groups->can & bit)
    snprintf(text, sizeof text, "%s=cgroup v%d", limit, groups->mode == MCG_CGROUP_V2 ? 2 : 1);
  else
    snprintf(text, sizeof text, "%s=none: %s", limit,
             groups->why ? groups->why : "no such controller");
  mcg_wire_put_str(enforced, MCG_ST_ENFORCED, text);
}

int mcg_cgroup_limit(const mcg_cgroups *groups, const mcg_cgroup *group,
                     const mcg_cgroup_limits *limits, const char **what)
{
  if (groups->mode == MCG_CGROUP_V2) return mcg_cgroup_limit_v2(groups, group->name, limits, what);
  return mcg_cgroup_limit_v1(groups, group->name, limits, what);
}

void mcg_cgroup_tell(const mcg_cgroups *groups, const mcg_cgroup_limits *limits, mcg_wire *enforced)
{
  if (limits->memory) tell(enforced, groups, "memory", MCG_CAN_MEMORY);
  if (limits->cpu_milli) tell(enforced, groups, "cpu", MCG_CAN_CPU);
  if (limits->pids) tell(enforced, groups, "pids", MCG_CAN_PIDS);
}

void mcg_cgroup_read(const mcg_cgroups *groups, const mcg_cgroup *group, bool live,
                     mcg_cgroup_use *out)
{
  *out = (mcg_cgroup_use){0};
  if (!group->name[0]) return;
  if (groups->mode == MCG_CGROUP_V2)
    mcg_cgroup_read_v2(groups, group->name, live, out);
  else
    mcg_cgroup_read_v1(groups, group->name, live, out);
}

void mcg_cgroup_kill(const mcg_cgroups *groups, const mcg_cgroup *group)
{
  if (!group->name[0]) return;
  if (groups->mode == MCG_CGROUP_V2 &&
      mcg_cgroup_put(groups->base[0], group->name, "cgroup.kill", "1"))
    return;
  for (size_t i = 0; i < MCG_CONTROLLERS; i++)
    if (groups->base[i] >= 0) mcg_cgroup_kill_listed(groups->base[i], group->name);
}

int mcg_cgroup_remove(const mcg_cgroups *groups, mcg_cgroup *group)
{
  int rc = 0;
  if (!group->name[0]) return 0;
  for (size_t i = 0; i < MCG_CONTROLLERS; i++)
    if (groups->base[i] >= 0 && unlinkat(groups->base[i], group->name, AT_REMOVEDIR) < 0 &&
        errno != ENOENT)
      rc = -1;
  if (rc == 0) group->name[0] = 0;
  return rc;
}

/* Version 2 has a peak that is nobody's to set back. */
bool mcg_cgroup_renew(const mcg_cgroups *groups, const mcg_cgroup *group,
                      const mcg_cgroup_limits *limits)
{
  return groups->mode == MCG_CGROUP_V1 && mcg_cgroup_renew_v1(groups, group->name, limits);
}

/* ---- files ----------------------------------------------------------------------------------- */

static int open_file(int base, const char *group, const char *file, int flags)
{
  char path[192];
  snprintf(path, sizeof path, "%s/%s", group, file);
  return openat(base, path, flags | O_CLOEXEC);
}

bool mcg_cgroup_put(int base, const char *group, const char *file, const char *text)
{
  int fd = open_file(base, group, file, O_WRONLY);
  if (fd < 0) return false;
  ssize_t put = write(fd, text, strlen(text));
  int error = errno;
  close(fd);
  errno = error;
  return put == (ssize_t)strlen(text);
}

bool mcg_cgroup_put_number(int base, const char *group, const char *file, uint64_t value)
{
  char text[24];
  snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  return mcg_cgroup_put(base, group, file, text);
}

int mcg_cgroup_doors(const mcg_cgroups *groups, const mcg_cgroup *group, int out[MCG_CONTROLLERS])
{
  for (size_t i = 0; i < MCG_CONTROLLERS; i++) {
    if (groups->base[i] < 0) continue;
    out[i] = open_file(groups->base[i], group->name, "tasks", O_WRONLY);
    if (out[i] < 0) return -1;
  }
  return 0;
}

static bool read_file(int base, const char *group, const char *file, char *out, size_t size)
{
  int fd = open_file(base, group, file, O_RDONLY);
  if (fd < 0) return false;
  ssize_t len = read(fd, out, size - 1);
  close(fd);
  if (len <= 0) return false;
  out[len] = 0;
  return true;
}

bool mcg_cgroup_is_empty(int base, const char *group)
{
  char byte;
  int fd = open_file(base, group, "tasks", O_RDONLY);
  if (fd < 0) return false;
  ssize_t len = read(fd, &byte, 1);
  close(fd);
  return len == 0;
}

uint64_t mcg_cgroup_get(int base, const char *group, const char *file, const char *key)
{
  char text[4096];
  if (base < 0 || !read_file(base, group, file, text, sizeof text)) return 0;
  if (!key) return strtoull(text, NULL, 10);
  size_t len = strlen(key);
  for (const char *line = text; line; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (strncmp(line, key, len) == 0 && line[len] == ' ') return strtoull(line + len, NULL, 10);
  }
  return 0;
}

/* Lines are "number:controller,controller:path"; version 2's is "0::path". */
bool mcg_cgroup_own_path(const char *controller, char *out, size_t size)
{
  FILE *file = fopen("/proc/self/cgroup", "re");
  char line[4352];
  bool found = false;
  while (file && !found && fgets(line, sizeof line, file)) {
    char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
    if (!path) continue;
    *path++ = 0;
    path[strcspn(path, "\n")] = 0;
    bool match = !*controller && !names[1];
    for (char *save, *name = strtok_r(names + 1, ",", &save); name;
         name = strtok_r(NULL, ",", &save))
      if (*controller && strcmp(name, controller) == 0) match = true;
    if (match) found = (size_t)snprintf(out, size, "%s", path) < size;
  }
  if (file) fclose(file);
  return found;
}

void mcg_cgroup_kill_listed(int base, const char *group)
{
  int fd = open_file(base, group, "cgroup.procs", O_RDONLY);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
  int pid;
  while (file && fscanf(file, "%d", &pid) == 1)
    if (pid > 1 && pid != getpid()) kill(pid, SIGKILL);
  if (file)
    fclose(file);
  else if (fd >= 0)
    close(fd);
}
