/* rootfs.c: a root from a directory that somebody gave. It is hostile: it may hold links where a
 * directory is mounted on, and then it is refused. An overlay adds the places that it lacks, and
 * where it is to be writable, takes the writes onto the sandbox's own disk. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "jail.h"
#include "kernel.h"
#include "people.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
static const char *const PLACES[] = {"dev", "proc", "tmp", "var/tmp", "run", "etc", "home/sandbox"};

/* 1: it is there; 0: it is missing; -1: refused. */
static int look(mcg_jail *jail, int rootfs, const char *place)
{
  int fd =
      mcg_sys_openat2(rootfs, place, O_PATH | O_DIRECTORY,
                      MCG_RESOLVE_IN_ROOT | MCG_RESOLVE_NO_SYMLINKS | MCG_RESOLVE_NO_MAGICLINKS);
  if (fd >= 0) {
    close(fd);
    return 1;
  }
  if (errno == ENOENT) return 0;
  return mcg_jail_fail(jail, "rootfs", errno, "/%s in %s is a symbolic link or not a directory",
                       place, jail->spec->rootfs);
}

static int make_dirs(const char *base, const char *place)
{
  char path[PATH_MAX];
  size_t start = strlen(base) + 1;
  if ((size_t)snprintf(path, sizeof path, "%s/%s", base, place) >= sizeof path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  for (char *at = path + start; (at = strchr(at, '/')); at++) {
    *at = 0;
    if (mkdir(path, 0755) < 0 && errno != EEXIST) return -1;
    *at = '/';
  }
  return mkdir(path, 0755) < 0 && errno != EEXIST ? -1 : 0;
}

static int add_missing(mcg_jail *jail, int rootfs, const char *base)
{
  for (size_t i = 0; i <= COUNT(PLACES); i++) {
    const char *place = i < COUNT(PLACES) ? PLACES[i] : jail->workdir + strspn(jail->workdir, "/");
    if (strstr(place, "..") || !*place)
      return mcg_jail_fail(jail, "workdir", EINVAL, "%s: not a directory to work in",
                           jail->workdir);
    int found = look(jail, rootfs, place);
    if (found < 0) return -1;
    if (found == 0 && make_dirs(base, place) < 0)
      return mcg_jail_fail(jail, "rootfs", errno, "add /%s", place);
  }
  return 0;
}

/* ---- /etc/passwd and /etc/group with the sandbox's own users in them -------------------------- */

/* 1: read whole; 0: there is none; -1: it is not one of ours to mend. */
static int read_names(int rootfs, const char *path, mcg_names *out)
{
  int fd =
      mcg_sys_openat2(rootfs, path, O_RDONLY | O_NONBLOCK | O_NOCTTY,
                      MCG_RESOLVE_IN_ROOT | MCG_RESOLVE_NO_SYMLINKS | MCG_RESOLVE_NO_MAGICLINKS);
  struct stat st;
  ssize_t got = -1;
  out->len = 0;
  out->text[0] = 0;
  if (fd < 0) return errno == ENOENT ? 0 : -1;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) got = read(fd, out->text, sizeof out->text);
  close(fd);
  if (got < 0 || got == sizeof out->text) return -1;
  out->text[got] = 0;
  out->len = (size_t)got;
  return 1;
}

static int write_names(mcg_jail *jail, const char *base, const char *name, const mcg_names *names)
{
  char path[64];
  snprintf(path, sizeof path, "%s/etc", base);
  if (mkdir(path, 0755) < 0 && errno != EEXIST)
    return mcg_jail_fail(jail, "rootfs", errno, "add /etc");
  snprintf(path, sizeof path, "%s/etc/%s", base, name);
  unlink(path); /* of the overlay, where that is there already */
  if (mcg_jail_write(path, 0644, names->text, names->len) < 0)
    return mcg_jail_fail(jail, "rootfs", errno, "add /etc/%s", name);
  return 0;
}

/* The one that every command is, unless the rootfs has a name for it. */
static bool add_self(const mcg_jail *jail, mcg_names *passwd)
{
  char wanted[32], line[128];
  snprintf(wanted, sizeof wanted, ":x:%u:", jail->uid);
  if (strstr(passwd->text, wanted)) return false;
  bool open_line = passwd->len && passwd->text[passwd->len - 1] != '\n';
  int more = snprintf(line, sizeof line, "%ssandbox:x:%u:%u::/home/sandbox:/bin/sh\n",
                      open_line ? "\n" : "", jail->uid, jail->gid);
  if (passwd->len + (size_t)more >= sizeof passwd->text) return false;
  memcpy(passwd->text + passwd->len, line, (size_t)more + 1);
  passwd->len += (size_t)more;
  return true;
}

static int add_users(mcg_jail *jail, int rootfs, const char *base)
{
  static mcg_names passwd, group;
  bool people = jail->spec->user_count > 0;
  int found = read_names(rootfs, "etc/passwd", &passwd);
  if (!people && found <= 0) return 0;
  if (!people) return add_self(jail, &passwd) ? write_names(jail, base, "passwd", &passwd) : 0;
  if (found < 0 || read_names(rootfs, "etc/group", &group) < 0)
    return mcg_jail_fail(jail, "users", EINVAL,
                         "/etc/passwd or /etc/group of %s is too large, or no file",
                         jail->spec->rootfs);
  add_self(jail, &passwd);
  if (mcg_jail_people(jail, &passwd, &group) < 0) return -1;
  return write_names(jail, base, "passwd", &passwd) < 0 ? -1
                                                        : write_names(jail, base, "group", &group);
}

/* With a gateway, which may come later, names are asked of its stub, whatever the rootfs says, as are its
 * own host's. */
static int add_resolver(mcg_jail *jail, int rootfs, const char *base)
{
  static mcg_names text = {.len = sizeof MCG_RESOLVER - 1, .text = MCG_RESOLVER};
  if (jail->spec->network == MCG_NET_HOST) return 0;
  if (write_names(jail, base, "resolv.conf", &text) < 0) return -1;
  int hosts = mcg_sys_openat2(rootfs, "etc/hosts", O_PATH, MCG_RESOLVE_IN_ROOT);
  if (hosts >= 0) return close(hosts);
  text.len = (size_t)snprintf(text.text, sizeof text.text, "127.0.0.1 localhost\n::1 localhost\n");
  return write_names(jail, base, "hosts", &text);
}

/* ---- the mount ------------------------------------------------------------------------------ */

static int lower(mcg_jail *jail)
{
  if (mkdir("l", 0755) < 0) return mcg_jail_fail(jail, "rootfs", errno, "make the stage");
  int place = open("l", O_PATH | O_DIRECTORY | O_CLOEXEC);
  int rc = place < 0 ? -1 : mcg_sys_move_mount(jail->rootfs, place);
  if (place >= 0) close(place);
  if (rc < 0) return mcg_jail_fail(jail, "rootfs", errno, "%s", jail->spec->rootfs);
  int fd = open("l", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return mcg_jail_fail(jail, "rootfs", errno, "%s", jail->spec->rootfs);
  return fd;
}

static int overlay(mcg_jail *jail)
{
  bool rw = jail->spec->rootfs_rw;
  const char *options =
      rw ? "lowerdir=l,upperdir=d/upper,workdir=d/ovl,userxattr" : "lowerdir=k:l,userxattr";
  unsigned long flags = MS_NOSUID | MS_NODEV | (rw ? 0 : MS_RDONLY);
  if (mount("overlay", "r", "overlay", flags, options) < 0)
    return mcg_jail_fail(jail, "rootfs", errno, "mount an overlay on %s", jail->spec->rootfs);
  jail->root = open("r", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (jail->root < 0) return mcg_jail_fail(jail, "rootfs", errno, "open the new root");
  mcg_jail_note(jail, "rootfs=%s", rw ? "overlay, writable" : "read-only");
  return 0;
}

/* The spawner's overlay, writable: what is missing is made in it. */
static int given(mcg_jail *jail)
{
  int place = open("r", O_PATH | O_DIRECTORY | O_CLOEXEC);
  int rc = place < 0 ? -1 : mcg_sys_move_mount(jail->rootfs, place);
  if (place >= 0) close(place);
  if (rc == 0) jail->root = open("r", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (rc < 0 || jail->root < 0)
    return mcg_jail_fail(jail, "rootfs", errno, "%s", jail->spec->rootfs);
  if (add_missing(jail, jail->root, "r") < 0 || add_users(jail, jail->root, "r") < 0 ||
      add_resolver(jail, jail->root, "r") < 0)
    return -1;
  if (jail->spec->project && mcg_jail_project_places(jail, "r") < 0) return -1;
  mcg_jail_note(jail, "rootfs=overlay, writable");
  return mkdir("x/dev", 0755) < 0 || mkdir("x/proc", 0755) < 0
             ? mcg_jail_fail(jail, "rootfs", errno, "make the stage")
             : 0;
}

int mcg_jail_rootfs(mcg_jail *jail)
{
  bool rw = jail->spec->rootfs_rw;
  if (rw && jail->order->rootfs >= 0) return given(jail);
  const char *base = rw ? "d/upper" : "k";
  if (mkdir(base, 0755) < 0 || (rw && mkdir("d/ovl", 0755) < 0) || mkdir("x/dev", 0755) < 0 ||
      mkdir("x/proc", 0755) < 0)
    return mcg_jail_fail(jail, "rootfs", errno, "make the stage");
  int rootfs = lower(jail);
  if (rootfs < 0) return -1;
  int rc = add_missing(jail, rootfs, base);
  if (rc == 0) rc = add_users(jail, rootfs, base);
  if (rc == 0) rc = add_resolver(jail, rootfs, base);
  if (rc == 0 && jail->spec->project) rc = mcg_jail_project_places(jail, base);
  close(rootfs);
  return rc < 0 ? -1 : overlay(jail);
}

/* dev and proc were built in x: now over the rootfs's own. */
int mcg_jail_rootfs_cover(mcg_jail *jail)
{
  static const char *const over[][2] = {{"x/dev", "/dev"}, {"x/proc", "/proc"}};
  for (size_t i = 0; i < COUNT(over); i++) {
    int target = mcg_jail_target(jail, "rootfs", over[i][1], true);
    if (target < 0) return -1;
    int rc = mcg_jail_bind(jail, "rootfs", over[i][0], target);
    close(target);
    if (rc < 0) return -1;
  }
  return 0;
}
