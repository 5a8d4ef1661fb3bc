/* peers.c: other programs, started the cheap way (posix_spawn) and waited for. */
#include "bench.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void wait_for(pid_t pid, const char *name)
{
  int status;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) bench_die("wait for %s: %s", name, strerror(errno));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    bench_die("%s failed: wait status %#x", name, (unsigned)status);
}

double peer_spawn(void *data)
{
  char **argv = data;
  double start = bench_now_ms();
  pid_t pid;
  int number = posix_spawn(&pid, argv[0], NULL, NULL, argv, environ);
  if (number) bench_die("start %s: %s", argv[0], strerror(number));
  wait_for(pid, argv[0]);
  return bench_now_ms() - start;
}

double peer_pipe(char **argv, int pipe_size)
{
  static char buffer[64 * 1024];
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0) bench_die("pipe: %s", strerror(errno));
  if (fcntl(ends[0], F_SETPIPE_SZ, pipe_size) < 0) bench_die("pipe size: %s", strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  double start = bench_now_ms();
  pid_t pid;
  int number = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
  if (number) bench_die("start %s: %s", argv[0], strerror(number));
  close(ends[1]);
  double bytes = 0;
  ssize_t n;
  while ((n = read(ends[0], buffer, sizeof buffer)) > 0) bytes += (double)n;
  wait_for(pid, argv[0]);
  double took = bench_now_ms() - start;
  close(ends[0]);
  posix_spawn_file_actions_destroy(&actions);
  return bytes / 1e3 / took;
}
