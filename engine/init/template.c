/* template.c: when a template serves, and building it with the steps that build any root. */
#include "template.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail.h"

/* A directory that nobody binds into a sandbox. What is mounted here is in the spawner's namespace only. */
#define PLACE "/sys/bus"
#define ROOT PLACE "/r"

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
  for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
    if (strcmp(target, empty[i]) == 0) return true;
  for (size_t i = 0; i < sizeof above / sizeof *above; i++)
    if (strncmp(target, above[i], strlen(above[i])) == 0) return true;
  return false;
}

static bool usual(const mcg_spawn_spec *spec)
{
  for (size_t i = 0; i < spec->mount_count; i++)
    if (!place_is_there(spec->mounts[i].target)) return false;
  return !spec->rootfs && !spec->project && spec->network == 0 &&
         spec->profile != MCG_PROFILE_PACKAGES && (!spec->uid || spec->uid == 1000) &&
         (!spec->gid || spec->gid == 1000) && same(spec->hostname, "sandbox") &&
         same(spec->workdir, "/workspace");
}

static int build(void)
{
  static const mcg_jail_order order;
  mcg_jail jail = {.order = &order,
                   .spec = &order.spec,
                   .workdir = "/workspace",
                   .uid = 1000,
                   .gid = 1000,
                   .root = -1,
                   .fresh = "r"};
  int rc = mount("tmpfs", PLACE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=4m,nr_inodes=1024");
  if (rc == 0) rc = chdir(PLACE);
  if (rc == 0) rc = mkdir("r", 0755);
  if (rc == 0) rc = mcg_jail_host_root(&jail);
  if (jail.root >= 0) close(jail.root);
  return rc;
}

/* The namespace that the template is mounted in; the spawner is there only to build and to clone. */
static bool open_space(mcg_template *template)
{
  template->home = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  if (template->home < 0 || unshare(CLONE_NEWNS) < 0) return false;
  template->space = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  return template->space >= 0 && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0;
}

static bool make(mcg_template *template, const struct timespec *etc)
{
  bool again = template->place != NULL;
  template->place = NULL;
  template->etc = *etc;
  bool there = again ? mcg_template_enter(template) == 0 : open_space(template);
  if (there && again) umount2(PLACE, MNT_DETACH);
  mode_t mask = umask(022);
  int rc = there ? build() : -1;
  umask(mask);
  if (template->home >= 0) mcg_template_leave(template);
  if (rc == 0) template->place = ROOT;
  return rc == 0;
}

const char *mcg_template_for(mcg_template *template, const mcg_spawn_spec *spec)
{
  struct stat etc;
  if (template->failed || !usual(spec) || template->asked++ == 0 || stat("/etc", &etc) < 0)
    return NULL;
  bool fresh = template->place && etc.st_mtim.tv_sec == template->etc.tv_sec &&
               etc.st_mtim.tv_nsec == template->etc.tv_nsec;
  if (!fresh && !make(template, &etc.st_mtim)) template->failed = true;
  return template->failed ? NULL : template->place;
}

int mcg_template_enter(const mcg_template *template)
{
  return setns(template->space, CLONE_NEWNS);
}

void mcg_template_leave(const mcg_template *template)
{
  /* What is mounted by name, and what is removed at the end, is at home: elsewhere it would be another. */
  if (setns(template->home, CLONE_NEWNS) < 0) _exit(1);
}
