/* files.c: the built-ins that deal with single files and directories. */
#include "builtin.h"
#include "protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

static uint64_t number_of(const char *text, int base)
{
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, base);
  if (errno || *end || end == text || *text == '-')
    builtin_fail(EINVAL, "\"%.100s\" is not a number", text);
  return value;
}

static mode_t mode_of(const char *text)
{
  uint64_t mode = number_of(text, 8);
  if (mode > 0777) builtin_fail(EINVAL, "mode %.20s is not between 0 and 777", text);
  return (mode_t)mode;
}

/* ---- read, write -------------------------------------------------------------------------- */

/* Without O_NONBLOCK a fifo would hold us here for ever. */
static int open_regular(const char *path)
{
  struct stat info;
  int fd = paths_need(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (fstat(fd, &info) < 0) builtin_fail(errno, "cannot look at %.200s: %s", path, strerror(errno));
  if (S_ISDIR(info.st_mode)) builtin_fail(EISDIR, "%.200s is a directory", path);
  if (!S_ISREG(info.st_mode)) builtin_fail(EINVAL, "%.200s is not a regular file", path);
  return fd;
}

void builtin_read(int argc, char **argv)
{
  static char buffer[131072];
  int fd = open_regular(argv[1]);
  uint64_t left = argc > 3 ? number_of(argv[3], 10) : UINT64_MAX;
  uint64_t offset = argc > 2 ? number_of(argv[2], 10) : 0;
  if (offset > INT64_MAX) builtin_fail(EINVAL, "the offset is too large");
  if (offset && lseek(fd, (off_t)offset, SEEK_SET) < 0) builtin_fail(errno, "cannot seek");
  while (left) {
    ssize_t len = read(fd, buffer, left < sizeof buffer ? (size_t)left : sizeof buffer);
    if (len < 0) builtin_fail(errno, "cannot read %.200s: %s", argv[1], strerror(errno));
    if (len == 0) break;
    builtin_put(buffer, (size_t)len);
    left -= (uint64_t)len;
  }
}

static int temporary_dir = -1;
static char temporary[32];

static void remove_temporary(void)
{
  if (temporary_dir >= 0) unlinkat(temporary_dir, temporary, 0);
}

static void on_term(int signo)
{
  remove_temporary();
  _exit(128 + signo);
}

static int try_temporaries(int dir, const char *path)
{
  for (unsigned i = 0; i < 1000; i++) {
    snprintf(temporary, sizeof temporary, ".mooncage-%u-%u", (unsigned)getpid(), i);
    int fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 || errno != EEXIST) {
      if (fd < 0) builtin_fail(errno, "cannot write %.200s: %s", path, strerror(errno));
      temporary_dir = dir;
      return fd;
    }
  }
  builtin_fail(EEXIST, "cannot make a temporary file beside %.200s", path);
}

/* Told to end between its making and its being known as one's own, it would stay. */
static int make_temporary(int dir, const char *path)
{
  struct sigaction ending = {.sa_handler = on_term};
  sigset_t term, before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, &before);
  int fd = try_temporaries(dir, path);
  sigaction(SIGTERM, &ending, NULL);
  sigprocmask(SIG_SETMASK, &before, NULL);
  return fd;
}

static _Noreturn void write_failed(int number, const char *path)
{
  remove_temporary();
  builtin_fail(number, "cannot write %.200s: %s", path, strerror(number));
}

static uint64_t copy_input(int fd, const char *path)
{
  static char buffer[131072];
  uint64_t total = 0;
  size_t len;
  while ((len = builtin_get(buffer, sizeof buffer)) > 0) {
    for (size_t at = 0; at < len;) {
      ssize_t put = write(fd, buffer + at, len - at);
      if (put < 0 && errno != EINTR) write_failed(errno, path);
      if (put > 0) at += (size_t)put;
    }
    total += len;
  }
  return total;
}

void builtin_write(int argc, char **argv)
{
  char name[256];
  struct stat there;
  mode_t mode = mode_of(argv[2]);
  int dir = paths_parent(argv[1], name);
  if (fstatat(dir, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(there.st_mode))
    builtin_fail(EISDIR, "%.200s is a directory", argv[1]);
  int fd = make_temporary(dir, argv[1]);
  uint64_t len = copy_input(fd, argv[1]);
  if (argc > 3 && len != number_of(argv[3], 10)) {
    remove_temporary();
    builtin_fail(EIO, "the input for %.200s ended after %llu bytes", argv[1],
                 (unsigned long long)len);
  }
  builtin_give(dir, fd);
  if (fchmod(fd, mode) < 0 || close(fd) < 0) write_failed(errno, argv[1]);
  if (renameat(dir, temporary, dir, name) < 0) write_failed(errno, argv[1]);
}

/* ---- list, stat --------------------------------------------------------------------------- */

static bool put_entry(int dir, const char *name, const char *shown)
{
  struct stat info;
  char target[PATH_MAX];
  uint8_t record[MCG_ENTRY_HEADER];
  ssize_t target_len = 0;
  if (fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) < 0) return false;
  if (S_ISLNK(info.st_mode)) target_len = readlinkat(dir, name, target, sizeof target);
  if (target_len < 0) target_len = 0;
  size_t name_len = strlen(shown);
  mcg_entry entry = {.mode = info.st_mode,
                     .uid = info.st_uid,
                     .gid = info.st_gid,
                     .nlink = (uint32_t)info.st_nlink,
                     .size = (uint64_t)info.st_size,
                     .inode = info.st_ino,
                     .mtime_s = info.st_mtim.tv_sec,
                     .mtime_ns = (uint32_t)info.st_mtim.tv_nsec,
                     .name_len = (uint16_t)name_len,
                     .target_len = (uint16_t)target_len};
  mcg_entry_encode(&entry, record);
  builtin_put(record, sizeof record);
  builtin_put(shown, name_len);
  builtin_put(target, (size_t)target_len);
  return true;
}

void builtin_list(int argc, char **argv)
{
  static entries list;
  (void)argc;
  int fd = paths_need(argv[1], O_RDONLY | O_DIRECTORY | O_NONBLOCK);
  const char *name;
  entries_init(&list, fd);
  while ((name = entries_next(&list))) put_entry(fd, name, name); /* what vanished is not listed */
}

void builtin_stat(int argc, char **argv)
{
  (void)argc;
  size_t len = strlen(argv[1]);
  const char *slash = strrchr(argv[1], '/');
  const char *last = slash ? slash + 1 : argv[1];
  bool whole = !*last || strcmp(last, ".") == 0 || strcmp(last, "..") == 0; /* "/", "a/", "." */
  char name[256];
  int dir = whole ? paths_need(argv[1], O_RDONLY | O_DIRECTORY | O_NONBLOCK)
                  : paths_parent(argv[1], name);
  if (len > 255) len = 255;
  const char *shown = whole ? argv[1] + strlen(argv[1]) - len : name;
  if (!put_entry(dir, whole ? "." : name, shown))
    builtin_fail(errno, "cannot look at %.200s: %s", argv[1], strerror(errno));
}

/* ---- mkdir, remove, move, disk ------------------------------------------------------------ */

void builtin_mkdir(int argc, char **argv)
{
  (void)argc;
  paths_make(argv[1], mode_of(argv[2]));
}

void builtin_remove(int argc, char **argv)
{
  char name[256];
  (void)argc;
  int dir = paths_parent(argv[1], name);
  tree_remove(dir, name);
}

void builtin_move(int argc, char **argv)
{
  char from[256], to[256];
  (void)argc;
  int from_dir = paths_parent(argv[1], from), to_dir = paths_parent(argv[2], to);
  if (renameat(from_dir, from, to_dir, to) == 0) return;
  if (errno == EXDEV)
    builtin_fail(EXDEV, "%.90s and %.90s are on different file systems", argv[1], argv[2]);
  builtin_fail(errno, "cannot move %.90s to %.90s: %s", argv[1], argv[2], strerror(errno));
}

void builtin_disk(int argc, char **argv)
{
  struct statfs info;
  char text[128];
  (void)argc;
  int fd = paths_need(argv[1], O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (fstatfs(fd, &info) < 0)
    builtin_fail(errno, "cannot measure %.200s: %s", argv[1], strerror(errno));
  uint64_t block = (uint64_t)info.f_bsize;
  int len = snprintf(text, sizeof text, "%llu %llu %llu\n",
                     (unsigned long long)((info.f_blocks - info.f_bfree) * block),
                     (unsigned long long)(info.f_blocks * block),
                     (unsigned long long)(info.f_files - info.f_ffree));
  builtin_put(text, (size_t)len);
}
