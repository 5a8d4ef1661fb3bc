/* probe_fs.c: attempts on the view of the file system: paths, descriptors, mounts, links, races. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static int run_read(int argc, char **argv)
{
  if (argc < 1) return 2;
  for (int i = 0; i < argc; i++) {
    char text[4096];
    long got = read_some(argv[i], text, sizeof text);
    if (got < 0)
      judge(argv[i], -1);
    else
      say("ALLOWED", argv[i], "%ld bytes: %s", got, printable(text, got));
  }
  return 0;
}

static int run_list(int argc, char **argv)
{
  if (argc < 1) return 2;
  for (int i = 0; i < argc; i++) {
    DIR *dir = opendir(argv[i]);
    if (!dir) {
      judge(argv[i], -1);
      continue;
    }
    long count = 0;
    char first[NAME_MAX + 1] = "";
    for (struct dirent *entry; (entry = readdir(dir));) {
      if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
      if (count++ == 0) snprintf(first, sizeof first, "%s", entry->d_name);
    }
    closedir(dir);
    say("ALLOWED", argv[i], "%ld entries: %s", count, printable(first, (long)strlen(first)));
  }
  return 0;
}

/* Opens for writing and writes nothing: for files whose content must not change anywhere. */
static int run_open_write(int argc, char **argv)
{
  if (argc < 1) return 2;
  for (int i = 0; i < argc; i++) {
    int fd = open(argv[i], O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    judge(argv[i], fd);
    if (fd >= 0) close(fd);
  }
  return 0;
}

static long write_text(const char *path, const char *text)
{
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return -1;
  long put = write(fd, text, strlen(text));
  close(fd);
  return put;
}

static int run_put(int argc, char **argv)
{
  if (argc != 2) return 2;
  judge(argv[0], write_text(argv[0], argv[1]));
  return 0;
}

/* Every way to change a file or what is known of it. Only for canaries of the test itself. */
static int run_change(int argc, char **argv)
{
  if (argc != 1) return 2;
  const char *path = argv[0];
  struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
  char other[PATH_MAX];
  snprintf(other, sizeof other, "%s.moved", path);
  int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  judge("append", fd < 0 ? -1 : write(fd, "evil", 4));
  if (fd >= 0) close(fd);
  judge("truncate", truncate(path, 1));
  judge("chmod", chmod(path, 0666));
  judge("utimes", utimensat(AT_FDCWD, path, times, 0));
  judge("setxattr", setxattr(path, "user.evil", "1", 1, 0));
  judge("rename", rename(path, other));
  judge("unlink", unlink(access(path, F_OK) == 0 ? path : other));
  return 0;
}

static int run_link(int argc, char **argv)
{
  if (argc != 2) return 2;
  judge("link", link(argv[0], argv[1]));
  judge("write through the link", write_text(argv[1], "evil"));
  judge("write to the original", write_text(argv[0], "evil"));
  return 0;
}

/* What is open above 2, and whether a directory among it leads out. */
static int run_fds(int argc, char **argv)
{
  (void)argc, (void)argv;
  long open_ones = 0;
  for (int fd = 3; fd < 4096; fd++) {
    if (fcntl(fd, F_GETFD) < 0) continue;
    open_ones++;
    char what[64], link[64], target[PATH_MAX] = "";
    snprintf(what, sizeof what, "fd %d", fd);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, target, sizeof target - 1);
    say("ALLOWED", what, "%s", n < 0 ? "?" : target);
    snprintf(what, sizeof what, "fd %d/secret", fd);
    int inner = openat(fd, "secret", O_RDONLY | O_CLOEXEC);
    judge(what, inner);
    if (inner >= 0) close(inner);
  }
  say(open_ones ? "ALLOWED" : "DENIED", "descriptors", "%ld above 2", open_ones);
  return 0;
}

static int run_cwd(int argc, char **argv)
{
  if (argc > 1) return 2;
  if (argc == 1 && judge("chdir", chdir(argv[0])) < 0) return 0;
  char where[PATH_MAX], text[256];
  if (syscall(SYS_getcwd, where, sizeof where) < 0)
    judge("getcwd", -1);
  else
    say("ALLOWED", "getcwd", "%s", where);
  long got = read_some("secret", text, sizeof text);
  if (got < 0)
    judge("secret", -1);
  else
    say("ALLOWED", "secret", "%ld bytes: %s", got, printable(text, got));
  return 0;
}

/* Overwrite the program of a running process: at once, and through a descriptor opened for reading. */
static int run_overwrite(int argc, char **argv)
{
  if (argc < 1) return 2;
  for (int i = 0; i < argc; i++) {
    char what[PATH_MAX + 32], again[64];
    int fd = open(argv[i], O_RDONLY | O_CLOEXEC);
    snprintf(what, sizeof what, "%s read", argv[i]);
    judge(what, fd);
    snprintf(what, sizeof what, "%s write", argv[i]);
    int direct = open(argv[i], O_WRONLY | O_CLOEXEC);
    judge(what, direct);
    if (direct >= 0) close(direct);
    if (fd < 0) continue;
    snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
    snprintf(what, sizeof what, "%s reopen", argv[i]);
    int second = open(again, O_WRONLY | O_CLOEXEC);
    judge(what, second);
    if (second >= 0) close(second);
    close(fd);
  }
  return 0;
}

/* ---- mounts: each in a child with its own mount namespace where it can have one -------------- */

/* A privileged caller that cannot have its own must not touch the ones it is in. */
static void own_mounts(void)
{
  if (unshare(CLONE_NEWNS) == 0)
    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
  else if (geteuid() == 0) {
    say("DENIED", "own mount namespace", "%s", errno_name(errno));
    _exit(0);
  }
}

static long try_umount_proc(void *data)
{
  return (void)data, own_mounts(), umount2("/proc", MNT_DETACH);
}
static long try_umount_root(void *data)
{
  return (void)data, own_mounts(), umount2("/", MNT_DETACH);
}
static long try_bind(void *data)
{
  return own_mounts(), mount("/", data, NULL, MS_BIND | MS_REC, NULL);
}
static long try_tmpfs(void *data)
{
  return own_mounts(), mount("x", data, "tmpfs", 0, NULL);
}
static long try_remount(void *data)
{
  (void)data;
  return own_mounts(), mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL);
}
static long try_pivot(void *data)
{
  own_mounts();
  if (mount("x", data, "tmpfs", 0, NULL) < 0 || chdir(data) < 0) return -1;
  return syscall(SYS_pivot_root, ".", ".");
}
static long try_pivot_bare(void *data)
{
  return (void)data, syscall(SYS_pivot_root, "/", "/");
}
/* The classic: chroot below, climb out with the directory that stayed outside. */
static long try_chroot(void *data)
{
  if (chdir("/") < 0 || chroot(data) < 0) return -1;
  for (int i = 0; i < 64; i++)
    if (chdir("..") < 0) break;
  return chroot(".");
}

static int run_mounts(int argc, char **argv)
{
  if (argc != 1) return 2; /* an empty directory to use as a mount point */
  judge_in_child("umount /proc", try_umount_proc, NULL);
  judge_in_child("umount /", try_umount_root, NULL);
  judge_in_child("bind", try_bind, argv[0]);
  judge_in_child("tmpfs", try_tmpfs, argv[0]);
  judge_in_child("remount", try_remount, NULL);
  judge_in_child("pivot_root", try_pivot, argv[0]);
  judge_in_child("pivot_root bare", try_pivot_bare, NULL);
  judge_in_child("chroot", try_chroot, argv[0]);
  return 0;
}

/* ---- races, odd trees ------------------------------------------------------------------------ */

static int run_swap(int argc, char **argv)
{
  if (argc != 3) return 2; /* A B COUNT (0: for ever) */
  long limit = number_of(argv[2]), done = 0;
  for (; limit == 0 || done < limit; done++)
    if (syscall(SYS_renameat2, AT_FDCWD, argv[0], AT_FDCWD, argv[1], 2 /* RENAME_EXCHANGE */) < 0)
      break;
  if (limit && done == limit)
    say("ALLOWED", "swap", "%ld", done);
  else
    judge("swap", -1);
  return 0;
}

static int run_race_read(int argc, char **argv)
{
  if (argc != 3) return 2; /* PATH WORD COUNT: how often does PATH hold WORD? */
  long hits = 0, limit = number_of(argv[2]);
  for (long i = 0; i < limit; i++) {
    char text[256];
    if (read_some(argv[0], text, sizeof text) > 0 && strstr(text, argv[1])) hits++;
  }
  say(hits ? "ALLOWED" : "DENIED", "hits", "%ld of %ld", hits, limit);
  return 0;
}

static int run_deep(int argc, char **argv)
{
  if (argc != 2) return 2; /* DIR COUNT */
  long made = 0, limit = number_of(argv[1]);
  int at = open(argv[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  while (at >= 0 && made < limit) {
    if (mkdirat(at, "d", 0777) < 0 && errno != EEXIST) break;
    int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(at);
    at = next;
    if (at >= 0) made++;
  }
  if (at >= 0) close(at);
  say(made == limit ? "ALLOWED" : "DENIED", "deep", "%ld levels", made);
  return 0;
}

static int run_names(int argc, char **argv)
{
  if (argc != 1 || chdir(argv[0]) < 0) return 2;
  char longest[256];
  memset(longest, 'n', 255);
  longest[255] = '\0';
  const char *names[] = {"new\nline",  "\033[2Jclear", "\377\376invalid",
                         "\302\233c1", "-rf",          "--",
                         "$(touch x)", ";touch y",     " ",
                         "\\",         "'\"",          "%s%n",
                         longest};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    long put = write_text(names[i], "x");
    char what[24];
    snprintf(what, sizeof what, "name %zu", i);
    judge(what, put);
  }
  return 0;
}

static int run_special(int argc, char **argv)
{
  if (argc != 1 || chdir(argv[0]) < 0) return 2;
  judge("fifo", mkfifo("fifo", 0666));
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  judge("socket", fd < 0 ? -1 : bind(fd, (struct sockaddr *)&address, sizeof address));
  judge("char 1:3", mknod("char", S_IFCHR | 0666, 0x103));
  judge("block 8:0", mknod("block", S_IFBLK | 0666, 0x800));
  return 0;
}

/* ---- the standard streams -------------------------------------------------------------------- */

static int run_stdio(int argc, char **argv)
{
  (void)argc, (void)argv;
  for (int fd = 0; fd < 3; fd++) {
    char what[32], link[32], target[PATH_MAX] = "";
    snprintf(what, sizeof what, "readlink %d", fd);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, target, sizeof target - 1);
    if (n < 0)
      judge(what, -1);
    else
      say(target[0] == '/' ? "ALLOWED" : "DENIED", what, "%s", target);
    if (fd == 0) continue;
    struct stat file;
    snprintf(what, sizeof what, "truncate %d", fd);
    int again = open(link, O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (again < 0)
      judge(what, -1);
    else if (fstat(again, &file) == 0 && S_ISREG(file.st_mode))
      say("ALLOWED", what, "a file");
    else
      say("DENIED", what, "no file");
    if (again >= 0) close(again);
  }
  return 0;
}

/* ---- running what was dropped ---------------------------------------------------------------- */

static long run_and_wait(const char *what, int memfd, char *const args[])
{
  pid_t child = fork();
  if (child == 0) {
    char *const env[] = {NULL};
    setenv("SBX_PREFIX", what, 1);
    if (memfd >= 0)
      syscall(SYS_execveat, memfd, "", args, env, AT_EMPTY_PATH);
    else
      execv(args[0], args);
    _exit(errno == EACCES ? 101 : errno == EPERM ? 102 : 103);
  }
  int status;
  if (child < 0 || waitpid(child, &status, 0) < 0) return -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) < 101) return WEXITSTATUS(status);
  errno = WIFEXITED(status) && WEXITSTATUS(status) == 101   ? EACCES
          : WIFEXITED(status) && WEXITSTATUS(status) == 102 ? EPERM
                                                            : ENOEXEC;
  return -1;
}

/* Ways to run a dropped program: DIR is where it is dropped, the program is this one with `ids`. */
static int run_drop(int argc, char **argv)
{
  if (argc != 1) return 2;
  char path[PATH_MAX], script[PATH_MAX];
  snprintf(path, sizeof path, "%s/dropped", argv[0]);
  snprintf(script, sizeof script, "%s/dropped.sh", argv[0]);
  int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
  int memory = (int)syscall(SYS_memfd_create, "dropped", 0);
  static char buffer[1 << 16];
  for (ssize_t n; (n = read(self, buffer, sizeof buffer)) > 0;) {
    if (file >= 0 && write(file, buffer, (size_t)n) != n) break;
    if (memory >= 0 && write(memory, buffer, (size_t)n) != n) break;
  }
  close(self);
  if (file >= 0) close(file);
  if (write_text(script, "true\n") < 0) judge("script written", -1);
  judge("direct", run_and_wait("direct", -1, (char *[]){path, "ids", "direct", NULL}));
  judge("sh", run_and_wait("sh", -1, (char *[]){"/bin/sh", script, NULL}));
  judge("ld.so",
        run_and_wait("ld.so", -1, (char *[]){"/lib64/ld-linux-x86-64.so.2", "/bin/true", NULL}));
  if (memory < 0)
    judge("memfd", -1);
  else
    judge("memfd", run_and_wait("memfd", memory, (char *[]){"x", "ids", "memfd", NULL}));
  return 0;
}

const attempt attempts_fs[] = {
    {"read", "PATH...", run_read},
    {"list", "DIR...", run_list},
    {"open-write", "PATH...", run_open_write},
    {"put", "PATH TEXT", run_put},
    {"change", "PATH", run_change},
    {"link", "OLD NEW", run_link},
    {"fds", "", run_fds},
    {"cwd", "[DIR]", run_cwd},
    {"overwrite", "PATH...", run_overwrite},
    {"mounts", "DIR", run_mounts},
    {"swap", "A B COUNT", run_swap},
    {"race-read", "PATH WORD COUNT", run_race_read},
    {"deep", "DIR COUNT", run_deep},
    {"names", "DIR", run_names},
    {"special", "DIR", run_special},
    {"stdio", "", run_stdio},
    {"drop", "DIR", run_drop},
    {NULL, NULL, NULL},
};
