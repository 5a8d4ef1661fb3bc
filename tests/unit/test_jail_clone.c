/* A clone that cannot bring the sandbox into its control group makes none: on version 2 that is how its
 * limits come to hold. clone3's flags lie behind a pointer, where no filter of system calls sees them; a
 * descriptor that is no control group makes the kernel refuse that one flag. */
#include "cmocka_all.h"
#include "init/jail.h"
#include "init/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __WALL
#define __WALL 0x40000000
#endif

static bool has_no_child(void)
{
  siginfo_t info;
  return waitid(P_ALL, 0, &info, WEXITED | __WALL) < 0 && errno == ECHILD;
}

/* The same flags without that one, and a child that leaves at once. */
static void the_rest_of_it_is_possible(void)
{
  mcg_clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                                  CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP,
                         .exit_signal = SIGCHLD};
  siginfo_t info;
  pid_t pid = mcg_sys_clone3(&args);
  if (pid == 0) _exit(0);
  if (pid < 0) skip(); /* no namespaces here */
  assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED), 0);
}

static void one_that_cannot_be_born_in_its_group_is_not_born(void **state)
{
  (void)state;
  const pid_t self = getpid();
  int pidfd = -1, go[2];
  the_rest_of_it_is_possible();
  assert_int_equal(pipe(go), 0);
  mcg_jail_order order;
  mcg_jail_order_init(&order);
  order.control = go[1]; /* a child that did come to be would have nothing to serve, and leave */
  order.cgroup = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_true(order.cgroup >= 0);
  assert_int_equal(mcg_jail_clone(&order, &pidfd), -1);
  assert_int_equal(errno, EBADF);
  assert_int_equal(getpid(), self);
  assert_int_equal(pidfd, -1);
  assert_true(has_no_child());
  mcg_jail_order_fini(&order);
  close(go[0]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_that_cannot_be_born_in_its_group_is_not_born),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
