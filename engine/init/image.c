/* image.c: the template by mkfs.ext4, copies of its few non-zero blocks, loop devices. */
#include "image.h"

#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "kernel.h"

#define TRIES 64 /* for a free loop device that nobody else takes meanwhile */
#define EXT4_SHUTDOWN _IOR('X', 125, uint32_t)
#define SHUTDOWN_NOLOGFLUSH 2

/* As of 5.8. */
typedef struct loop_setup {
  uint32_t fd, block_size;
  struct loop_info64 info;
  uint64_t reserved[8];
} loop_setup;
#define LOOP_SETUP 0x4C0A

static int nameless(uint64_t size)
{
  static const char *const places[] = {"/var/tmp", "/var/lib", "/tmp"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    int fd = openat(AT_FDCWD, places[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 && ftruncate(fd, (off_t)size) == 0) return fd;
    if (fd >= 0) close(fd);
  }
  return -1;
}

/* No journal: what is on it dies with the sandbox. */
static void run_mkfs(int fd) __attribute__((noreturn));
static void run_mkfs(int fd)
{
  char path[32];
  char *env[] = {(char *)"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
  int null = open("/dev/null", O_RDWR);
  for (int i = 0; i < 3; i++) dup2(null, i);
  if (dup2(fd, 3) != 3) _exit(126);
  mcg_sys_close_range(4, ~0u);
  fcntl(3, F_SETFD, 0);
  snprintf(path, sizeof path, "/proc/self/fd/%d", 3);
  char *argv[] = {(char *)"mkfs.ext4",
                  (char *)"-q",
                  (char *)"-F",
                  (char *)"-m",
                  (char *)"0",
                  (char *)"-O",
                  (char *)"^has_journal",
                  (char *)"-E",
                  (char *)"lazy_itable_init=1,nodiscard",
                  path,
                  NULL};
  execve("/usr/sbin/mkfs.ext4", argv, env);
  execve("/sbin/mkfs.ext4", argv, env);
  _exit(127);
}

static int make_template(mcg_image *image, uint64_t size, const char **what)
{
  if (image->fd > 0 && image->size == size) return 0;
  if (image->fd > 0) close(image->fd);
  *what = "make a file without a name for the disk image";
  image->fd = nameless(size);
  if (image->fd < 0) return -1;
  *what = "run mkfs.ext4 (package e2fsprogs)";
  int status = -1;
  pid_t pid = fork();
  if (pid == 0) run_mkfs(image->fd);
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) {
    image->size = size;
    return 0;
  }
  errno = WIFEXITED(status) && WEXITSTATUS(status) == 127 ? ENOENT : EIO;
  close(image->fd);
  image->fd = 0;
  return -1;
}

static int copy_data(int from, int to)
{
  for (off_t at = 0;;) {
    at = lseek(from, at, SEEK_DATA);
    if (at < 0) return errno == ENXIO ? 0 : -1; /* nothing but a hole to the end */
    off_t end = lseek(from, at, SEEK_HOLE), in = at, out = at;
    if (end < 0) return -1;
    while (in < end)
      if (syscall(SYS_copy_file_range, from, &in, to, &out, (size_t)(end - in), 0) <= 0) return -1;
    at = end;
  }
}

static int attach(int file, char device[32])
{
  int control = openat(AT_FDCWD, "/dev/loop-control", O_RDWR | O_CLOEXEC);
  loop_setup setup = {.fd = (uint32_t)file, .info = {.lo_flags = LO_FLAGS_AUTOCLEAR}};
  int fd = -1;
  for (int i = 0; control >= 0 && fd < 0 && i < TRIES; i++) {
    int number = ioctl(control, LOOP_CTL_GET_FREE);
    if (number < 0) break;
    snprintf(device, 32, "/dev/loop%d", number);
    fd = openat(AT_FDCWD, device, O_RDWR | O_CLOEXEC);
    if (fd < 0) break;
    if (ioctl(fd, LOOP_SETUP, &setup) == 0) break;
    int error = errno;
    close(fd);
    fd = -1;
    errno = error;
    if (error != EBUSY) break;
  }
  int error = errno;
  if (control >= 0) close(control);
  errno = error;
  return fd;
}

static int mount_device(const char *device)
{
  int fs = mcg_sys_fsopen("ext4"), mount = -1;
  if (fs < 0) return -1;
  if (mcg_sys_fsconfig(fs, MCG_FSCONFIG_SET_STRING, "source", device, 0) == 0 &&
      mcg_sys_fsconfig(fs, MCG_FSCONFIG_SET_FLAG, "noinit_itable", NULL, 0) == 0 &&
      mcg_sys_fsconfig(fs, MCG_FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
    mount = mcg_sys_fsmount(fs, MCG_ATTR_NOSUID | MCG_ATTR_NODEV);
  int error = errno;
  close(fs);
  errno = error;
  return mount;
}

int mcg_image_mount(mcg_image *image, uint64_t size, uint32_t uid, uint32_t gid, const char **what)
{
  char device[32];
  if (make_template(image, size, what) < 0) return -1;
  *what = "copy the empty disk image";
  int file = nameless(size), mount = -1;
  if (file < 0 || copy_data(image->fd, file) < 0) goto out;
  *what = "attach a loop device";
  int loop = attach(file, device);
  if (loop < 0) goto out;
  *what = "mount the disk image";
  mount = mount_device(device);
  int error = errno;
  close(loop); /* the mount holds it now */
  errno = error;
  if (mount >= 0 && fchownat(mount, "", uid, gid, AT_EMPTY_PATH) < 0) {
    close(mount);
    mount = -1;
  }
out:
  error = errno;
  if (file >= 0) close(file);
  errno = error;
  return mount;
}

void mcg_image_abandon(int directory)
{
  uint32_t how = SHUTDOWN_NOLOGFLUSH;
  ioctl(directory, EXT4_SHUTDOWN, &how);
}
