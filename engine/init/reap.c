/* reap.c: what spawners left that died before they could clean up. Processes and mounts end by
 * themselves; groups and temporary directories carry their owner in the name. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box.h"

static bool orphaned(const char *name, const char *prefix)
{
  size_t len = strlen(prefix);
  return strncmp(name, prefix, len) == 0 && mcg_owner_dead(name + len);
}

static void report(mcg_wire *out, const char *kind, const char *name)
{
  char text[512];
  snprintf(text, sizeof text, "%s %s", kind, name);
  mcg_wire_put_str(out, MCG_ST_TEXT, text);
}

static void reap_directories(bool dry, mcg_wire *out)
{
  const char *base = getenv("TMPDIR");
  if (!base || base[0] != '/') base = "/tmp";
  DIR *dir = opendir(base);
  if (!dir) return;
  for (struct dirent *entry; (entry = readdir(dir));) {
    struct stat st;
    if (!orphaned(entry->d_name, "mooncage-") ||
        fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
        st.st_uid != geteuid())
      continue;
    if (!dry && mcg_remove_tree(dirfd(dir), entry->d_name) < 0) continue;
    report(out, "directory", entry->d_name);
  }
  closedir(dir);
}

/* A group is in each hierarchy of version 1: told once. */
static bool told(const mcg_wire *out, const char *name)
{
  mcg_reader reader = mcg_reader_of(out->data, out->len);
  mcg_field field;
  size_t len = strlen(name);
  while (mcg_reader_next(&reader, &field))
    if (field.len > len && memcmp(field.bytes + field.len - len, name, len) == 0) return true;
  return false;
}

static bool remove_group(const mcg_cgroups *groups, const char *name)
{
  mcg_cgroup group = {0};
  if (strlen(name) >= sizeof group.name) return false;
  strcpy(group.name, name);
  for (int i = 0; i < 100; i++) {
    if (mcg_cgroup_remove(groups, &group) == 0) return true;
    mcg_cgroup_kill(groups, &group);
    poll(NULL, 0, 10);
  }
  return false;
}

static void reap_groups(const mcg_cgroups *groups, int base, bool dry, mcg_wire *out)
{
  int fd = openat(base, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    if (!orphaned(entry->d_name, "mcg-") || told(out, entry->d_name)) continue;
    if (dry || remove_group(groups, entry->d_name)) report(out, "cgroup", entry->d_name);
  }
  if (dir) closedir(dir);
}

void mcg_reap(mcg_spawner_state *state, bool dry, mcg_wire *out)
{
  for (size_t i = 0; i < MCG_CONTROLLERS; i++)
    if (state->cgroups.base[i] >= 0) reap_groups(&state->cgroups, state->cgroups.base[i], dry, out);
  reap_directories(dry, out);
}
