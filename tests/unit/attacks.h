/* attacks.h: what test_jail.c tries in a sandbox and, as the control, outside: each by its name on the
 * command line of the test's own executable. 0: it worked. */
#ifndef MCG_TEST_ATTACKS_H
#define MCG_TEST_ATTACKS_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static int attack_prlimit(const char *argument)
{
  struct rlimit limit = {.rlim_cur = 64, .rlim_max = 64};
  return prlimit(atoi(argument), RLIMIT_NOFILE, &limit, NULL);
}

static int attack_affinity(const char *argument)
{
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  return sched_setaffinity(atoi(argument), sizeof set, &set);
}

static int attack_nice(const char *argument)
{
  return setpriority(PRIO_PROCESS, (id_t)atoi(argument), 19);
}

static int attack_read(const char *argument)
{
  return open(argument, O_RDONLY) < 0;
}

static int attack_unshare(const char *argument)
{
  (void)argument;
  return unshare(CLONE_NEWUSER);
}

static int attack_clone(const char *argument)
{
  (void)argument;
  long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) _exit(0);
  return pid < 0;
}

/* Needs the namespace that gives the right to; the control gets it first. */
static int attack_mount(const char *argument)
{
  if (strcmp(argument, "namespace") == 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) return 2;
  return mount("none", "/tmp", "tmpfs", 0, NULL);
}

static int attack_connect(const char *argument)
{
  struct sockaddr_in to = {.sin_family = AF_INET,
                           .sin_port = htons((uint16_t)atoi(argument)),
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  return fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0;
}

static int attack_abstract(const char *argument)
{
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  size_t len = strlen(argument);
  memcpy(to.sun_path + 1, argument, len);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  return fd < 0 ||
         connect(fd, (struct sockaddr *)&to, (socklen_t)(sizeof to.sun_family + 1 + len)) < 0;
}

static const struct attack {
  const char *name;
  int (*run)(const char *argument);
} ATTACKS[] = {
    {"prlimit", attack_prlimit}, {"affinity", attack_affinity}, {"nice", attack_nice},
    {"read", attack_read},       {"unshare", attack_unshare},   {"clone", attack_clone},
    {"mount", attack_mount},     {"connect", attack_connect},   {"abstract", attack_abstract}};

static int attack(const char *name, const char *argument)
{
  for (size_t i = 0; i < sizeof ATTACKS / sizeof *ATTACKS; i++)
    if (strcmp(ATTACKS[i].name, name) == 0) return ATTACKS[i].run(argument) ? 1 : 0;
  return 99;
}

#endif
