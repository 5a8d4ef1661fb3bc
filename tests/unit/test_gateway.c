/* A network without IPv6 has a gateway all the same; one without loopback has none. In a network namespace
 * of the test's own. */
#include "cmocka_all.h"
#include "init/net.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool put(const char *path, const char *text)
{
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  if (fd >= 0) close(fd);
  return done;
}

enum { GOOD = 0, WRONG = 1, NOT_HERE = 2 };

static int without_ipv6(void)
{
  mcg_gateway gateway;
  if (!put("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1")) return NOT_HERE;
  if (mcg_net_loopback() < 0 || mcg_gateway_make(&gateway, true) < 0 || gateway.six) return WRONG;
  return gateway.sockets[MCG_SOCKET_STUB_UDP] >= 0 && gateway.sockets[MCG_SOCKET_REDIRECT_4] >= 0 &&
                 gateway.sockets[MCG_SOCKET_REDIRECT_6] < 0
             ? GOOD
             : WRONG;
}

static int without_loopback(void)
{
  mcg_gateway gateway;
  if (mcg_gateway_make(&gateway, false) == 0 || !gateway.failed || !errno) return WRONG;
  for (int i = 0; i < MCG_SOCKETS; i++)
    if (gateway.sockets[i] >= 0) return WRONG;
  return GOOD;
}

static void in_a_network(int (*test)(void))
{
  int status;
  pid_t pid = fork();
  if (pid == 0) {
    bool root = getuid() == 0;
    if (unshare(CLONE_NEWNET | (root ? 0 : CLONE_NEWUSER)) < 0) _exit(NOT_HERE);
    _exit(test());
  }
  waitpid(pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE) {
    print_message("skipped: no network namespace whose IPv6 can be turned off can be made here\n");
    skip();
  }
  assert_int_equal(status, 0);
}

static void test_without_ipv6(void **state)
{
  (void)state;
  in_a_network(without_ipv6);
}

static void test_without_loopback(void **state)
{
  (void)state;
  in_a_network(without_loopback);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_without_ipv6),
      cmocka_unit_test(test_without_loopback),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
