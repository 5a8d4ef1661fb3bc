/* Killing a group where the kernel has no cgroup.kill (before Linux 5.14): those that its list names are
 * killed one by one. The group is a directory that a test made: to init a group is names and files. */
#include "cmocka_all.h"
#include "init/cgroup.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t sleeper(void)
{
  pid_t pid = fork();
  if (pid == 0)
    for (;;) pause();
  assert_true(pid > 0);
  return pid;
}

static void write_list(int base, const char *group, const pid_t *pids, size_t count)
{
  char path[128];
  snprintf(path, sizeof path, "%s/cgroup.procs", group);
  int fd = openat(base, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  for (size_t i = 0; i < count; i++) dprintf(fd, "%d\n", (int)pids[i]);
  close(fd);
}

static void no_cgroup_kill(void **state)
{
  char place[] = "/tmp/mooncage-cgroup-XXXXXX";
  pid_t pids[] = {sleeper(), sleeper()};
  int status;
  (void)state;
  assert_non_null(mkdtemp(place));
  int base = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_int_equal(mkdirat(base, "mcg-1-1-1", 0700), 0);
  write_list(base, "mcg-1-1-1", pids, 2);
  mcg_cgroups groups = {.mode = MCG_CGROUP_V2, .base = {base, -1, -1}};
  mcg_cgroup group = {.name = "mcg-1-1-1"};
  mcg_cgroup_kill(&groups, &group);
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
  unlinkat(base, "mcg-1-1-1/cgroup.procs", 0);
  assert_int_equal(mcg_cgroup_remove(&groups, &group), 0);
  close(base);
  rmdir(place);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_cgroup_kill)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
