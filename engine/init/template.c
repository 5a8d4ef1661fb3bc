/* template.c: when a template serves, and building it, in a child, with the steps that build any root. */
#include "template.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail.h"
#include "kernel.h"

#define ROOT_SIZE (4u << 20) /* of the tmpfs that holds directories, links and a few small files */

/* ---- whom it serves --------------------------------------------------------------------------- */

static bool same(const char *text, const char *usual)
{
  return !text || strcmp(text, usual) == 0;
}

/* A place on a writable directory is made when that is mounted. */
static bool place_is_there(const char *target)
{
  static const char *const empty[] = {"/opt", "/mnt", "/srv", "/root"};
  static const char *const above[] = {"/tmp/", "/var/tmp/", "/run/", "/home/sandbox/",
                                      "/workspace/"};
  if (strstr(target, "/.") || strstr(target, "//")) return false;
  for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
    if (strcmp(target, empty[i]) == 0) return true;
  for (size_t i = 0; i < sizeof above / sizeof *above; i++)
    if (strncmp(target, above[i], strlen(above[i])) == 0) return true;
  return false;
}

static bool usual(const mcg_jail_order *order)
{
  const mcg_spawn_spec *spec = &order->spec;
  for (size_t i = 0; i < spec->mount_count; i++)
    if (order->mounts[i] < 0 || !place_is_there(spec->mounts[i].target)) return false;
  return !spec->rootfs && !spec->project && !spec->authority && spec->network != MCG_NET_HOST &&
         order->range <= 1 && spec->profile != MCG_PROFILE_PACKAGES && order->disk < 0 &&
         (!spec->uid || spec->uid == 1000) && (!spec->gid || spec->gid == 1000) &&
         same(spec->hostname, "sandbox") && same(spec->workdir, "/workspace");
}

/* ---- building --------------------------------------------------------------------------------- */

/* Says whether it stands, then stays until the other end has gone: its namespace has been taken, or
 * nobody is left to take it. */
static void build(int parent) __attribute__((noreturn));
static void build(int parent)
{
  static mcg_jail jail;
  mcg_jail_order order;
  mcg_jail_order_init(&order);
  order.spec.disk = ROOT_SIZE;
  umask(022);
  jail = (mcg_jail){.order = &order,
                    .spec = &order.spec,
                    .workdir = "/workspace",
                    .uid = 1000,
                    .gid = 1000,
                    .root = -1,
                    .fresh = "r"};
  char answer = mcg_jail_standing(&jail) == 0 ? '1' : '0';
  if (write(parent, &answer, 1) != 1) _exit(1);
  while (read(parent, &answer, 1) < 0 && errno == EINTR) {
  }
  _exit(0);
}

/* The child's mount namespace, by its number: it is alive, and waited for by nobody but us. */
static int take_space(pid_t pid)
{
  char path[40];
  snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)pid);
  return open(path, O_RDONLY | O_CLOEXEC);
}

static int build_in_child(void)
{
  int pair[2], space = -1;
  char answer = '0';
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) return -1;
  mcg_clone_args args = {.flags = CLONE_NEWNS | CLONE_NEWPID};
  pid_t pid = mcg_sys_clone3(&args);
  if (pid == 0) {
    close(pair[0]);
    build(pair[1]);
  }
  close(pair[1]);
  if (pid > 0 && read(pair[0], &answer, 1) == 1 && answer == '1') space = take_space(pid);
  close(pair[0]);
  while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR) {
  }
  return space;
}

static void make(mcg_template *template, const struct timespec *etc)
{
  if (template->made && template->space >= 0) close(template->space);
  if (!template->made) template->home = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  template->made = true;
  template->etc = *etc;
  template->space = template->home < 0 ? -1 : build_in_child();
}

bool mcg_template_serves(mcg_template *template, const mcg_jail_order *order)
{
  struct stat etc;
  bool failed = template->made && template->space < 0;
  if (failed || !usual(order) || template->asked++ == 0 || stat("/etc", &etc) < 0) return false;
  bool fresh = template->made && etc.st_mtim.tv_sec == template->etc.tv_sec &&
               etc.st_mtim.tv_nsec == template->etc.tv_nsec;
  if (!fresh) make(template, &etc.st_mtim);
  return template->space >= 0;
}

int mcg_template_enter(const mcg_template *template)
{
  return setns(template->space, CLONE_NEWNS);
}

void mcg_template_leave(const mcg_template *template)
{
  /* What is mounted by name, and what is removed at the end, is at home: elsewhere it is another. */
  if (setns(template->home, CLONE_NEWNS) < 0) _exit(1);
}
