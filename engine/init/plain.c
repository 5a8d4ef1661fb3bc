/* plain.c: a sandbox that isolates nothing, for development: init as a plain child, in a directory,
 * with a scrubbed environment. It ends with its stream; what escapes it becomes the spawner's child
 * and is swept. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "box.h"
#include "jail.h"
#include "kernel.h"
#include "server.h"

#define PATIENCE_MS 1000

static int make_directory(mcg_spawner_state *state, mcg_box *box, mcg_failure *failure)
{
  const char *base = getenv("TMPDIR");
  if (!base || base[0] != '/') base = "/tmp";
  size_t size = strlen(base) + 112;
  box->directory = malloc(size);
  if (!box->directory) return mcg_failure_set(failure, "create", ENOMEM, "no memory");
  snprintf(box->directory, size, "%s/mooncage-%s-%llu", base, state->owner.text,
           (unsigned long long)++state->serial);
  if (mkdir(box->directory, 0700) == 0) return 0;
  mcg_failure_set(failure, "directory", errno, "make %s", box->directory);
  free(box->directory); /* it is not ours to remove */
  box->directory = NULL;
  return -1;
}

static void child(const mcg_spawn_spec *spec, int control, const char *directory)
    __attribute__((noreturn));
static void child(const mcg_spawn_spec *spec, int control, const char *directory)
{
  static char home[4096], place[4096 + 32];
  snprintf(home, sizeof home, "HOME=%s", directory);
  snprintf(place, sizeof place, "working_directory=%s", directory);
  const char *const env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                             home, "LANG=C.UTF-8", NULL};
  const char *const mechanisms[] = {"isolation=none", place, NULL};
  mcg_server_config config = {.fd = 3,
                              .carrier = (int)spec->carrier,
                              .workdir = directory,
                              .env = env,
                              .mechanisms = mechanisms,
                              .confine_paths = 1,
                              .nofile = spec->nofile};
  umask(022);
  setsid();
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3; fd++)
    if (null < 0 || dup2(null, fd) < 0) _exit(1);
  if (control != 3 && dup3(control, 3, O_CLOEXEC) < 0) _exit(1);
  mcg_sys_close_range(4, ~0u);
  if (chdir(directory) < 0) {
    mcg_tell_failed(3, spec->carrier, "directory", errno, directory);
    _exit(1);
  }
  _exit(mcg_server_main(&config));
}

int mcg_plain_start(mcg_spawner_state *state, mcg_box *box, const mcg_spawn_spec *spec, int control,
                    mcg_failure *failure)
{
  if (!spec->workdir && make_directory(state, box, failure) < 0) return -1;
  const char *directory = spec->workdir ? spec->workdir : box->directory;
  struct stat st;
  if (stat(directory, &st) < 0)
    return mcg_failure_set(failure, "directory", errno, "%s", directory);
  if (!S_ISDIR(st.st_mode)) return mcg_failure_set(failure, "directory", ENOTDIR, "%s", directory);
  int fd = -1;
  mcg_clone_args args = {.flags = CLONE_PIDFD, .pidfd = (uintptr_t)&fd};
  box->pid = mcg_sys_clone3(&args);
  if (box->pid == 0) child(spec, control, directory);
  if (box->pid < 0)
    return mcg_failure_set(failure, "clone", errno, "no process for another sandbox");
  box->pidfd = fd;
  box->control = fcntl(control, F_DUPFD_CLOEXEC, 3);
  return 0;
}

int64_t mcg_clock_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void mcg_plain_end(mcg_box *box)
{
  if (box->control < 0 || shutdown(box->control, SHUT_RDWR) < 0)
    mcg_sys_pidfd_kill(box->pidfd, SIGKILL);
  box->kill_at = mcg_clock_ms() + PATIENCE_MS;
}

/* ---- orphans ---------------------------------------------------------------------------------- */

static bool known(const mcg_spawner_state *state, pid_t pid)
{
  for (const mcg_box *box = state->boxes; box; box = box->next)
    if (box->pid == pid && !box->dead) return true;
  return false;
}

/* Kills the children that are nobody's; true: there was one. */
static bool sweep_once(const mcg_spawner_state *state)
{
  FILE *file = fopen("/proc/thread-self/children", "re");
  bool found = false;
  int pid;
  while (file && fscanf(file, "%d", &pid) == 1) {
    if (known(state, pid)) continue;
    found = true;
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR) {
    }
  }
  if (file) fclose(file);
  return found;
}

void mcg_plain_sweep(mcg_spawner_state *state)
{
  while (sweep_once(state)) {
  } /* each one's own children become ours in turn */
}
