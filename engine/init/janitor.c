/* janitor.c: when the engine is gone, nothing of it may stay: every sandbox is killed, waited for and
 * removed. Also what it shares with reap.c: judging whether an owner lives, and removing trees. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box.h"
#include "kernel.h"

#define PATIENCE_MS 1500 /* for a group whose last process is leaving */

/* Field `wanted` and those after it of /proc/PID/stat. The name in field 2 may hold anything, so count
 * from its last parenthesis. */
static bool stat_fields(pid_t pid, bool living, int wanted, unsigned long long *out, size_t count)
{
  char path[32], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  int fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return false;
  ssize_t len = read(fd, text, sizeof text - 1);
  close(fd);
  if (len <= 0) return false;
  text[len] = 0;
  char *at = strrchr(text, ')');
  /* A dead process keeps its entry until its parent has looked. */
  if (living && at && (at[2] == 'Z' || at[2] == 'X')) return false;
  for (int field = 2; at && field < wanted; field++) at = strchr(at + 1, ' ');
  for (size_t i = 0; at && i < count; i++) out[i] = strtoull(at, &at, 10);
  return at != NULL;
}

uint64_t mcg_start_time(pid_t pid)
{
  unsigned long long start;
  return stat_fields(pid, true, 22, &start, 1) ? start : 0;
}

uint64_t mcg_cpu_time(pid_t pid)
{
  unsigned long long ticks[4]; /* utime stime cutime cstime */
  if (!stat_fields(pid, false, 14, ticks, 4)) return 0;
  return (ticks[0] + ticks[1] + ticks[2] + ticks[3]) * (1000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* ---- removing a tree -------------------------------------------------------------------------- */

static int empty_directory(int dir, dev_t device, int depth);

static int remove_entry(int dir, const char *name, dev_t device, int depth)
{
  if (unlinkat(dir, name, 0) == 0 || errno == ENOENT) return 0;
  if (errno != EISDIR && errno != EPERM) return -1;
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && errno == EACCES && fchmodat(dir, name, 0700, 0) == 0)
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  if (empty_directory(fd, device, depth + 1) < 0) return -1; /* closes fd */
  return unlinkat(dir, name, AT_REMOVEDIR);
}

/* Takes fd. */
static int empty_directory(int fd, dev_t device, int depth)
{
  struct stat st;
  if (depth > 4096 || fstat(fd, &st) < 0 || st.st_dev != device) {
    close(fd);
    return -1;
  }
  if (!(st.st_mode & 0200) || !(st.st_mode & 0100)) fchmod(fd, 0700);
  DIR *dir = fdopendir(fd);
  if (!dir) {
    close(fd);
    return -1;
  }
  int rc = 0;
  for (struct dirent *entry; (entry = readdir(dir));)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
        remove_entry(fd, entry->d_name, device, depth) < 0)
      rc = -1;
  closedir(dir);
  return rc;
}

int mcg_remove_tree(int parent, const char *name)
{
  struct stat st;
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? 0 : -1;
  if (fstat(fd, &st) < 0) {
    close(fd);
    return -1;
  }
  if (empty_directory(fd, st.st_dev, 0) < 0) return -1;
  return unlinkat(parent, name, AT_REMOVEDIR);
}

/* ---- the end of the engine -------------------------------------------------------------------- */

static void remove_group(mcg_spawner_state *state, mcg_cgroup *group)
{
  for (int waited = 0; mcg_cgroup_remove(&state->cgroups, group) < 0; waited += 10) {
    if (waited >= PATIENCE_MS) return; /* reap finds it by its name */
    mcg_cgroup_kill(&state->cgroups, group);
    poll(NULL, 0, 10);
  }
}

void mcg_janitor(mcg_spawner_state *state)
{
  for (mcg_box *box = state->boxes; box; box = box->next) {
    if (box->dead) continue;
    if (box->image >= 0) mcg_image_abandon(box->image);
    if (box->kind == MCG_KIND_PLAIN)
      mcg_plain_end(box);
    else
      mcg_sys_pidfd_kill(box->pidfd, SIGKILL);
  }
  for (mcg_box *box = state->boxes; box; box = box->next) {
    if (box->dead) continue;
    struct pollfd end = {.fd = box->pidfd, .events = POLLIN};
    int64_t left = box->kill_at ? box->kill_at - mcg_clock_ms() : -1;
    if (poll(&end, 1, box->kill_at && left < 0 ? 0 : (int)left) == 0)
      mcg_sys_pidfd_kill(box->pidfd, SIGKILL);
    mcg_box_wait(state, box);
  }
  mcg_plain_sweep(state);
  mcg_stash_fini(&state->stash);
  for (mcg_box *box = state->boxes; box; box = box->next) {
    if (box->directory) mcg_remove_tree(AT_FDCWD, box->directory);
    remove_group(state, &box->cgroup);
  }
}
