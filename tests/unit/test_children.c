/* children.c: the two ways to know one's children agree, and nothing but a child is killed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "init/children.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct seen {
  pid_t pids[64];
  size_t count;
} seen;

static void note(pid_t pid, void *data)
{
  seen *all = data;
  assert_true(all->count < 64);
  all->pids[all->count++] = pid;
}

static pid_t start(const char *name)
{
  int ready[2];
  char byte;
  assert_int_equal(pipe(ready), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    prctl(PR_SET_NAME, name);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  assert_int_equal(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  close(ready[1]);
  return pid;
}

static void end(pid_t pid)
{
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

static bool has(const seen *all, pid_t pid)
{
  for (size_t i = 0; i < all->count; i++)
    if (all->pids[i] == pid) return true;
  return false;
}

/* A process may call itself what it likes: ") S 1 1" is a name as well. */
static void test_both_ways(void **state)
{
  (void)state;
  seen own = {0}, searched = {0}, none = {0};
  pid_t one = start(") S 1 1"), other = start("((");
  mcg_children_search(getpid(), note, &searched);
  assert_int_equal(searched.count, 2);
  assert_true(has(&searched, one) && has(&searched, other));
  if (mcg_children_own(note, &own)) {
    assert_int_equal(own.count, 2);
    assert_true(has(&own, one) && has(&own, other));
  } else {
    print_message("skipped: this kernel does not list children\n");
  }
  mcg_children_search(one, note, &none);
  assert_int_equal(none.count, 0);
  end(one);
  end(other);
}

static void test_kills_children_only(void **state)
{
  (void)state;
  int status;
  pid_t one = start("one");
  mcg_children_kill(one, getppid()); /* not a child of that one */
  mcg_children_kill(one, one);
  usleep(20000);
  assert_int_equal(waitpid(one, &status, WNOHANG), 0);
  mcg_children_kill(one, getpid());
  assert_int_equal(waitpid(one, &status, 0), one);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  mcg_children_kill(one, getpid()); /* it is gone: nothing happens */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_both_ways),
      cmocka_unit_test(test_kills_children_only),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
