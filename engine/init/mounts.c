/* mounts.c: the sandbox's file system. Everything is built on a stage, a tmpfs of the sandbox's own
 * whose size is the disk limit, mounted over a directory that only this mount namespace sees; then
 * pivot_root makes the stage's "r" the root and the host's tree goes away. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "disk.h"
#include "jail.h"
#include "kernel.h"
#include "people.h"

void mcg_jail_writables(const mcg_jail *jail, mcg_jail_writable out[MCG_JAIL_WRITABLES])
{
  static const mcg_jail_writable all[MCG_JAIL_WRITABLES - 1] = {
      {"/tmp", "d/tmp", 01777},          {"/var/tmp", "d/vartmp", 01777}, {"/run", "d/run", 0755},
      {"/home/sandbox", "d/home", 0755}, {"/dev/shm", "d/shm", 01777},
  };
  memcpy(out, all, sizeof all);
  out[MCG_JAIL_WRITABLES - 1] = (mcg_jail_writable){jail->workdir, "d/work", 0755};
}

/* ---- places --------------------------------------------------------------------------------- */

static int in_root(const mcg_jail *jail, const char *path, uint64_t flags)
{
  while (*path == '/') path++;
  return mcg_sys_openat2(jail->root, *path ? path : ".", O_PATH | flags,
                         MCG_RESOLVE_IN_ROOT | MCG_RESOLVE_NO_SYMLINKS | MCG_RESOLVE_NO_MAGICLINKS);
}

/* Makes what is missing on the way, component by component, from a path without "..". */
static int make_place(mcg_jail *jail, const char *path, bool directory)
{
  char part[PATH_MAX];
  size_t len = strlen(path);
  for (size_t i = 1; i <= len; i++) {
    if (path[i] != '/' && path[i] != 0) continue;
    memcpy(part, path, i);
    part[i] = 0;
    const char *relative = part + strspn(part, "/");
    if (!*relative) continue;
    int fd = in_root(jail, part, 0);
    if (fd >= 0) {
      close(fd);
      continue;
    }
    if (errno != ENOENT) return -1;
    if (path[i] == '/' || directory ? mkdirat(jail->root, relative, 0755)
                                    : mknodat(jail->root, relative, S_IFREG | 0644, 0))
      return -1;
  }
  return in_root(jail, path, directory ? O_DIRECTORY : 0);
}

static bool plain_path(const char *path)
{
  if (path[0] != '/' || strlen(path) >= PATH_MAX) return false;
  for (const char *at = path; (at = strstr(at, "/..")); at++)
    if (at[3] == '/' || at[3] == 0) return false;
  return path[strspn(path, "/.")] != 0;
}

/* Whether a path, read without "//" and "/./", is one of the places or below it. */
static bool is_below(const char *target, const char *const *places)
{
  char path[PATH_MAX];
  size_t len = 0;
  for (const char *at = target; *at && len < sizeof path - 1; at++) {
    if (at[0] == '/' && (at[1] == '/' || at[1] == 0)) continue;
    if (at[0] == '/' && at[1] == '.' && (at[2] == '/' || at[2] == 0)) {
      at++;
      continue;
    }
    path[len++] = *at;
  }
  path[len] = 0;
  for (; *places; places++) {
    size_t size = strlen(*places);
    if (strncmp(path, *places, size) == 0 && (path[size] == '/' || path[size] == 0)) return true;
  }
  return false;
}

/* The host's own directories, which whoever owns one could still write to here. */
static bool is_the_hosts(const mcg_jail *jail, const char *path)
{
  static const char *const trees[] = {"/usr",   "/bin",   "/sbin",   "/lib",
                                      "/lib32", "/lib64", "/libx32", NULL};
  return !jail->foreign && is_below(path, trees);
}

int mcg_jail_target(mcg_jail *jail, const char *step, const char *path, bool directory)
{
  if (!plain_path(path))
    return mcg_jail_fail(jail, step, EINVAL, "%s: not an absolute path below / without \"..\"",
                         path);
  int fd = in_root(jail, path, directory ? O_DIRECTORY : 0);
  if (fd < 0 && errno == ENOENT && is_the_hosts(jail, path))
    return mcg_jail_fail(jail, step, EROFS,
                         "%s: the host has no such place and gets none; one below /mnt is made",
                         path);
  if (fd < 0 && errno == ENOENT) fd = make_place(jail, path, directory);
  if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
    return mcg_jail_fail(jail, step, errno, "%s: a symbolic link or a file is in the way", path);
  if (fd < 0) return mcg_jail_fail(jail, step, errno, "%s: no such place in the sandbox", path);
  return fd;
}

int mcg_jail_bind(mcg_jail *jail, const char *step, const char *source, int target)
{
  char place[40];
  snprintf(place, sizeof place, "/proc/self/fd/%d", target);
  if (mount(source, place, NULL, MS_BIND | MS_REC, NULL) < 0)
    return mcg_jail_fail(jail, step, errno, "bind %s", source);
  return 0;
}

int mcg_jail_write(const char *path, mode_t mode, const char *text, size_t len)
{
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return -1;
  ssize_t put = write(fd, text, len);
  int error = put < 0 ? errno : ENOSPC;
  close(fd);
  errno = error;
  return put == (ssize_t)len ? 0 : -1;
}

/* ---- the stage ------------------------------------------------------------------------------ */

/* A tmpfs on the first of the places that is there; then that is the working directory. */
static int mount_stage(mcg_jail *jail, const char *const *places)
{
  char options[96] = "mode=755";
  uint64_t disk = jail->order->disk >= 0 ? 16u << 20 : jail->spec->disk;
  uint64_t inodes = mcg_disk_inodes(disk);
  if (disk)
    snprintf(options, sizeof options, "mode=755,size=%llu,nr_inodes=%llu", (unsigned long long)disk,
             (unsigned long long)inodes);
  for (; *places; places++)
    if (mount("tmpfs", *places, "tmpfs", MS_NOSUID | MS_NODEV, options) == 0 && chdir(*places) == 0)
      return 0;
  return mcg_jail_fail(jail, "disk", errno, "mount the sandbox's tmpfs");
}

/* What comes from the host by its name, while the names are still those of the host: the stage may lie
 * over them. */
static int take(mcg_jail *jail, const char *step, const char *source, int given, int *out)
{
  *out = given >= 0 ? given
                    : mcg_sys_open_tree(AT_FDCWD, source, MCG_OPEN_TREE_CLONE | MCG_AT_RECURSIVE);
  return *out < 0 ? mcg_jail_fail(jail, step, errno, "%s", source) : 0;
}

static int take_sources(mcg_jail *jail)
{
  const mcg_spawn_spec *spec = jail->spec;
  if (spec->rootfs && take(jail, "rootfs", spec->rootfs, jail->order->rootfs, &jail->rootfs) < 0)
    return -1;
  if (spec->project &&
      take(jail, "project", spec->project, jail->order->original, &jail->original) < 0)
    return -1;
  for (size_t i = 0; i < spec->mount_count; i++)
    if (take(jail, "bind", spec->mounts[i].source, jail->order->mounts[i], &jail->mounts[i]) < 0)
      return -1;
  return 0;
}

static int begin(mcg_jail *jail)
{
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
    return mcg_jail_fail(jail, "mounts", errno, "make the mounts private");
  return take_sources(jail);
}

/* What commands write to, all on one disk, so that the limit is one. */
static int make_disk(mcg_jail *jail)
{
  if (mkdir("d", 0755) < 0)
    return mcg_jail_fail(jail, "disk", errno, "make a directory on the disk");
  if (jail->order->disk >= 0) {
    int place = open("d", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (place < 0 || mcg_sys_move_mount(jail->order->disk, place) < 0)
      return mcg_jail_fail(jail, "disk", errno, "mount the disk image");
    close(place);
  }
  if (jail->spec->disk)
    mcg_jail_note(jail, "disk=%s, %llu MiB", jail->spec->disk_image ? "ext4 image" : "tmpfs",
                  (unsigned long long)jail->spec->disk >> 20);
  mcg_jail_writable dirs[MCG_JAIL_WRITABLES];
  mcg_jail_writables(jail, dirs);
  for (size_t i = 0; i < MCG_JAIL_WRITABLES; i++)
    if (mkdir(dirs[i].on_disk, dirs[i].mode) < 0)
      return mcg_jail_fail(jail, "disk", errno, "make %s", dirs[i].inside);
  return 0;
}

static int make_stage(mcg_jail *jail)
{
  static const char *const places[] = {"/tmp", "/run", "/mnt", "/srv", NULL};
  if (begin(jail) < 0 || mount_stage(jail, places) < 0) return -1;
  if (mkdir("r", 0755) < 0 || (jail->foreign && mkdir("x", 0755) < 0))
    return mcg_jail_fail(jail, "disk", errno, "make directories on the sandbox's tmpfs");
  return 0;
}

/* ---- the root from the host's /usr ---------------------------------------------------------- */

static const char *const TREES[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

/* /bin and its like: the link that the host has, or the directory where it has one. */
static int tree(mcg_jail *jail, const char *name)
{
  char source[32], place[32], link[PATH_MAX];
  snprintf(source, sizeof source, "/%s", name);
  snprintf(place, sizeof place, "r/%s", name);
  ssize_t len = readlink(source, link, sizeof link - 1);
  if (len > 0) {
    link[len] = 0;
    if (symlink(link, place) < 0) return mcg_jail_fail(jail, "mounts", errno, "link %s", source);
    return 0;
  }
  if (errno == ENOENT) return 0;
  if (mkdir(place, 0755) < 0 || mount(source, place, NULL, MS_BIND | MS_REC, NULL) < 0)
    return mcg_jail_fail(jail, "mounts", errno, "bind %s", source);
  return 0;
}

static int host_root(mcg_jail *jail)
{
  static const char *const dirs[] = {"r/usr",  "r/dev",     "r/proc", "r/etc",  "r/tmp",
                                     "r/var",  "r/var/tmp", "r/run",  "r/home", "r/home/sandbox",
                                     "r/root", "r/opt",     "r/mnt",  "r/srv"};
  if (mount("r", "r", NULL, MS_BIND, NULL) < 0)
    return mcg_jail_fail(jail, "mounts", errno, "bind the new root");
  for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
    if (mkdir(dirs[i], 0755) < 0)
      return mcg_jail_fail(jail, "mounts", errno, "make %s", dirs[i] + 1);
  if (mount("/usr", "r/usr", NULL, MS_BIND | MS_REC, NULL) < 0)
    return mcg_jail_fail(jail, "mounts", errno, "bind /usr");
  for (size_t i = 0; i < sizeof TREES / sizeof *TREES; i++)
    if (tree(jail, TREES[i]) < 0) return -1;
  jail->root = open("r", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (jail->root < 0) return mcg_jail_fail(jail, "mounts", errno, "open the new root");
  return 0;
}

/* ---- binds that the user asked for ---------------------------------------------------------- */

static int bind_one(mcg_jail *jail, const mcg_spawn_mount *wanted, int from)
{
  mcg_mount_attr attr = {.set = MCG_ATTR_NOSUID | MCG_ATTR_NODEV};
  if (!wanted->writable) attr.set |= MCG_ATTR_RDONLY;
  struct stat st;
  if (fstat(from, &st) < 0 ||
      mcg_sys_mount_setattr(from, "", AT_EMPTY_PATH | MCG_AT_RECURSIVE, &attr) < 0)
    return mcg_jail_fail(jail, "bind", errno, "%s", wanted->source);
  if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode) && !S_ISSOCK(st.st_mode))
    return mcg_jail_fail(jail, "bind", EINVAL,
                         "%s: only directories, files and sockets can be bound", wanted->source);
  int target = mcg_jail_target(jail, "bind", wanted->target, S_ISDIR(st.st_mode));
  if (target < 0) return -1;
  int rc = mcg_sys_move_mount(from, target);
  if (rc < 0) mcg_jail_fail(jail, "bind", errno, "%s on %s", wanted->source, wanted->target);
  close(target);
  return rc;
}

/* Binds come last, so one here would lie over what the wall is made of. */
static bool is_ours(const char *target)
{
  static const char *const places[] = {"/proc", "/dev", "/sys", NULL};
  return is_below(target, places);
}

/* The root will be read-only: a place on it must be there before. Places on the writable directories
 * are made when those are mounted. */
static int bind_places(mcg_jail *jail)
{
  mcg_jail_writable dirs[MCG_JAIL_WRITABLES];
  mcg_jail_writables(jail, dirs);
  for (size_t i = 0; i < jail->spec->mount_count; i++) {
    const char *target = jail->spec->mounts[i].target;
    bool later = false;
    for (size_t k = 0; k < MCG_JAIL_WRITABLES; k++) {
      size_t len = strlen(dirs[k].inside);
      later = later || (strncmp(target, dirs[k].inside, len) == 0 && target[len] == '/');
    }
    struct stat st;
    if (is_ours(target))
      return mcg_jail_fail(jail, "bind", EINVAL, "%s: /proc, /dev and /sys are the sandbox's own",
                           target);
    if (later) continue;
    if (fstat(jail->mounts[i], &st) < 0)
      return mcg_jail_fail(jail, "bind", errno, "%s", jail->spec->mounts[i].source);
    int fd = mcg_jail_target(jail, "bind", target, S_ISDIR(st.st_mode));
    if (fd < 0) return -1;
    close(fd);
  }
  return 0;
}

static int binds(mcg_jail *jail)
{
  for (size_t i = 0; i < jail->spec->mount_count; i++)
    if (bind_one(jail, &jail->spec->mounts[i], jail->mounts[i]) < 0) return -1;
  return 0;
}

/* ---- writable directories, then the turn ----------------------------------------------------- */

static int writable(mcg_jail *jail, const mcg_jail_writable *dir, bool standard)
{
  char place[64];
  if (standard && !jail->foreign) { /* our own tree: nobody put a link there */
    snprintf(place, sizeof place, "%s%s", jail->fresh, dir->inside);
    if (mount(dir->on_disk, place, NULL, MS_BIND, NULL) < 0)
      return mcg_jail_fail(jail, "mounts", errno, "bind %s", dir->inside);
    return 0;
  }
  int target = mcg_jail_target(jail, standard ? "rootfs" : "workdir", dir->inside, true);
  if (target < 0) return -1;
  int rc = mcg_jail_bind(jail, "mounts", dir->on_disk, target);
  close(target);
  return rc;
}

static int writables(mcg_jail *jail)
{
  mcg_jail_writable dirs[MCG_JAIL_WRITABLES];
  mcg_jail_writables(jail, dirs);
  const char *workdir = dirs[MCG_JAIL_WRITABLES - 1].inside;
  for (size_t i = 0; i < MCG_JAIL_WRITABLES; i++) {
    bool last = i == MCG_JAIL_WRITABLES - 1;
    if (last && jail->spec->project) return mcg_jail_project(jail);
    if (!last && strcmp(dirs[i].inside, workdir) == 0) continue;
    if (writable(jail, &dirs[i], !last) < 0) return -1;
  }
  return 0;
}

static int turn(mcg_jail *jail)
{
  struct stat built, now;
  char where[PATH_MAX];
  if (fstat(jail->root, &built) < 0 || fchdir(jail->root) < 0)
    return mcg_jail_fail(jail, "mounts", errno, "enter the new root");
  if (syscall(SYS_pivot_root, ".", ".") < 0)
    return mcg_jail_fail(jail, "mounts", errno, "pivot_root");
  if (umount2(".", MNT_DETACH) < 0) return mcg_jail_fail(jail, "mounts", errno, "detach the host");
  if (chdir("/") < 0 || !getcwd(where, sizeof where) || strcmp(where, "/") != 0 ||
      stat("/", &now) < 0 || now.st_dev != built.st_dev || now.st_ino != built.st_ino)
    return mcg_jail_fail(jail, "mounts", EINVAL, "the root is not the one that was built");
  mcg_jail_note(jail, "mount_namespace=on, pivoted");
  return 0;
}

static int read_only(mcg_jail *jail)
{
  mcg_mount_attr attr = {.set = MCG_ATTR_RDONLY | MCG_ATTR_NOSUID | MCG_ATTR_NODEV};
  if (mcg_sys_mount_setattr(AT_FDCWD, "r", MCG_AT_RECURSIVE, &attr) < 0)
    return mcg_jail_fail(jail, "mounts", errno, "make the root read-only (Linux 5.12 or newer)");
  return 0;
}

/* The workdir's place must be there before the root is read-only. */
static int workdir_place(mcg_jail *jail)
{
  int fd = mcg_jail_target(jail, "workdir", jail->workdir, true);
  if (fd >= 0) close(fd);
  return fd < 0 ? -1 : 0;
}

/* The host's /usr: everything that is read-only is mounted, then made so in one call, then the devices. */
int mcg_jail_host_root(mcg_jail *jail)
{
  if (host_root(jail) < 0 || mcg_jail_etc(jail) < 0 || workdir_place(jail) < 0) return -1;
  if (mcg_jail_home_places(jail) < 0) return -1;
  if (jail->spec->project && mcg_jail_project_places(jail, "r") < 0) return -1;
  if (bind_places(jail) < 0 || mcg_jail_dev_places(jail) < 0 || read_only(jail) < 0) return -1;
  return mcg_jail_dev(jail);
}

static int from_host(mcg_jail *jail)
{
  if (mcg_jail_host_root(jail) < 0 || mcg_jail_pts(jail) < 0) return -1;
  return mcg_jail_proc(jail);
}

static int from_rootfs(mcg_jail *jail)
{
  if (mcg_jail_rootfs(jail) < 0 || mcg_jail_dev_places(jail) < 0 || mcg_jail_dev(jail) < 0)
    return -1;
  if (mcg_jail_pts(jail) < 0) return -1;
  if (mcg_jail_proc(jail) < 0 || mcg_jail_rootfs_cover(jail) < 0) return -1;
  return mcg_jail_trust_cover(jail);
}

/* ---- the template ---------------------------------------------------------------------------- */

int mcg_jail_standing(mcg_jail *jail)
{
  if (make_stage(jail) < 0 || mcg_jail_host_root(jail) < 0) return -1;
  if (mount("proc", "r/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
    return mcg_jail_fail(jail, "proc", errno, "mount a /proc of nobody");
  return turn(jail);
}

/* The root stands. The stage lies on the workdir until the workdir itself lies on it: then nothing of
 * the stage but what is bound elsewhere can be reached. */
static int from_standing(mcg_jail *jail)
{
  const char *const places[] = {jail->workdir, NULL};
  if (begin(jail) < 0 || mount_stage(jail, places) < 0 || make_disk(jail) < 0) return -1;
  jail->root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (jail->root < 0) return mcg_jail_fail(jail, "mounts", errno, "open the root");
  if (mcg_jail_pts(jail) < 0 || mcg_jail_proc(jail) < 0 || bind_places(jail) < 0) return -1;
  if (writables(jail) < 0 || binds(jail) < 0) return -1;
  if (chdir("/") < 0) return mcg_jail_fail(jail, "mounts", errno, "enter the root");
  mcg_jail_note(jail, "mount_namespace=on, pivoted");
  return 0;
}

int mcg_jail_mounts(mcg_jail *jail)
{
  if (jail->order->standing) return from_standing(jail);
  if (make_stage(jail) < 0 || make_disk(jail) < 0) return -1;
  if ((jail->foreign ? from_rootfs(jail) : from_host(jail)) < 0) return -1;
  if (writables(jail) < 0 || mcg_jail_homes(jail) < 0 || binds(jail) < 0) return -1;
  return turn(jail);
}
