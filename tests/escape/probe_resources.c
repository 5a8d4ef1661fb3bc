/* probe_resources.c: attempts to use up what the machine has: processes, memory, files, disk, output.
 * Each takes as much as it is told to and no more, so that a control is harmless. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* How many of COUNT came to be, and why no more. */
static void tally(const char *what, long made, long wanted)
{
  if (made >= wanted)
    say("ALLOWED", what, "%ld", made);
  else
    say("DENIED", what, "%s after %ld", errno_name(errno), made);
}

static int run_forks(int argc, char **argv)
{
  if (argc != 1) return 2;
  long wanted = number_of(argv[0]), made = 0;
  int hold[2];
  if (pipe(hold) < 0) return judge("pipe", -1), 0;
  for (; made < wanted; made++) {
    pid_t pid = fork();
    if (pid < 0) break;
    if (pid == 0) {
      char byte;
      close(hold[1]);
      while (read(hold[0], &byte, 1) < 0 && errno == EINTR) continue;
      _exit(0);
    }
  }
  tally("forks", made, wanted);
  close(hold[1]);
  while (wait(NULL) > 0) continue;
  return 0;
}

static void *idle(void *lock)
{
  pthread_mutex_lock(lock);
  pthread_mutex_unlock(lock);
  return NULL;
}

static int run_threads(int argc, char **argv)
{
  if (argc != 1) return 2;
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  long wanted = number_of(argv[0]), made = 0;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN + 16384);
  pthread_mutex_lock(&lock);
  for (; made < wanted; made++) {
    pthread_t thread;
    int failed = pthread_create(&thread, &small, idle, &lock);
    if (failed) {
      errno = failed;
      break;
    }
  }
  tally("threads", made, wanted);
  _exit(0);
}

static int run_memory(int argc, char **argv)
{
  if (argc != 1) return 2; /* MiB, touched */
  size_t wanted = (size_t)number_of(argv[0]) << 20, done = 0;
  for (; done < wanted; done += 1 << 20) {
    char *part = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (part == MAP_FAILED) break;
    memset(part, 1, 1 << 20);
  }
  tally("memory", (long)(done >> 20), (long)(wanted >> 20));
  return 0;
}

/* PATH MiB: bytes that are really written; the file is removed first, so only the descriptor holds it. */
static int fill(const char *path, long mib, bool unlinked)
{
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return judge(path, -1), 0;
  if (unlinked) unlink(path);
  static char block[1 << 16];
  memset(block, 'x', sizeof block);
  long wanted = mib * 16, made = 0;
  while (made < wanted && write(fd, block, sizeof block) == (ssize_t)sizeof block) made++;
  /* A short write says nothing; the next one says why. */
  if (made < wanted)
    while (write(fd, block, sizeof block) > 0) continue;
  tally(path, made / 16, mib);
  close(fd);
  return 0;
}

static int run_fill(int argc, char **argv)
{
  return argc == 2 ? fill(argv[0], number_of(argv[1]), false) : 2;
}

static int run_fill_unlinked(int argc, char **argv)
{
  return argc == 2 ? fill(argv[0], number_of(argv[1]), true) : 2;
}

static int run_inodes(int argc, char **argv)
{
  if (argc != 2) return 2; /* DIR COUNT */
  long wanted = number_of(argv[1]), made = 0;
  int at = open(argv[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (; made < wanted; made++) {
    char name[24];
    snprintf(name, sizeof name, "i%ld", made);
    int fd = openat(at, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) break;
    close(fd);
  }
  tally("inodes", made, wanted);
  return 0;
}

static int run_allocate(int argc, char **argv)
{
  if (argc != 2) return 2; /* PATH GiB */
  off_t size = (off_t)number_of(argv[1]) << 30;
  signal(SIGXFSZ, SIG_IGN);
  int fd = open(argv[0], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  judge("sparse", fd < 0 ? -1 : ftruncate(fd, size));
  judge("fallocate", fd < 0 ? -1 : fallocate(fd, 0, 0, size));
  unlink(argv[0]);
  return 0;
}

static int run_descriptors(int argc, char **argv)
{
  if (argc != 1) return 2;
  long wanted = number_of(argv[0]), made = 0;
  int first = open("/dev/null", O_RDONLY);
  while (first >= 0 && made < wanted && dup(first) >= 0) made++;
  tally("descriptors", made, wanted);
  return 0;
}

/* Kernel objects a process can hold many of. */
static long make_socket(void)
{
  return socket(AF_UNIX, SOCK_STREAM, 0);
}
static long make_epoll(void)
{
  return epoll_create1(0);
}
static long make_inotify(void)
{
  return inotify_init1(0);
}
static long make_pipe(void)
{
  int ends[2];
  if (pipe(ends) < 0) return -1;
  static char block[65536];
  fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  while (write(ends[1], block, sizeof block) > 0) continue;
  return ends[1];
}
static long make_temporary(void)
{
  return open("/tmp", O_TMPFILE | O_RDWR, 0600);
}

static int run_objects(int argc, char **argv)
{
  if (argc != 1) return 2;
  static const struct {
    const char *name;
    long (*make)(void);
  } kinds[] = {{"sockets", make_socket},
               {"epolls", make_epoll},
               {"inotifies", make_inotify},
               {"pipes", make_pipe},
               {"temporary files", make_temporary}};
  long wanted = number_of(argv[0]);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
      long made = 0;
      while (made < wanted && kinds[i].make() >= 0) made++;
      tally(kinds[i].name, made, wanted);
      _exit(0);
    }
    int status = 0;
    if (pid > 0) waitpid(pid, &status, 0);
    if (pid < 0)
      judge(kinds[i].name, -1);
    else if (WIFSIGNALED(status))
      say("KILLED", kinds[i].name, "signal %d", WTERMSIG(status));
  }
  return 0;
}

static int run_spin(int argc, char **argv)
{
  if (argc != 2) return 2; /* PROCESSES SECONDS */
  long count = number_of(argv[0]), seconds = number_of(argv[1]);
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  pid_t parent = getpid();
  for (long i = 1; i < count && getpid() == parent; i++)
    if (fork() < 0) break;
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while (now.tv_sec - start.tv_sec < seconds);
  while (wait(NULL) > 0) continue;
  struct rusage mine, theirs;
  getrusage(RUSAGE_SELF, &mine);
  getrusage(RUSAGE_CHILDREN, &theirs);
  clock_gettime(CLOCK_MONOTONIC, &now);
  long cpu_ms = (mine.ru_utime.tv_sec + mine.ru_stime.tv_sec + theirs.ru_utime.tv_sec +
                 theirs.ru_stime.tv_sec) *
                    1000 +
                (mine.ru_utime.tv_usec + mine.ru_stime.tv_usec + theirs.ru_utime.tv_usec +
                 theirs.ru_stime.tv_usec) /
                    1000;
  long wall_ms = (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000;
  if (getpid() == parent) say("ALLOWED", "cpu", "%ld ms in %ld ms", cpu_ms, wall_ms);
  return 0;
}

static int run_file_size(int argc, char **argv)
{
  if (argc != 2) return 2; /* PATH MiB */
  struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
  signal(SIGXFSZ, SIG_IGN);
  judge("unlimited", setrlimit(RLIMIT_FSIZE, &unlimited));
  return fill(argv[0], number_of(argv[1]), false);
}

static int run_output(int argc, char **argv)
{
  if (argc != 3) return 2; /* FD MiB newlines|none|nul */
  static char block[1 << 16];
  memset(block, argv[2][1] == 'u' ? 0 : 'y', sizeof block);
  if (strcmp(argv[2], "newlines") == 0)
    for (size_t i = 1; i < sizeof block; i += 2) block[i] = '\n';
  int fd = (int)number_of(argv[0]);
  for (long left = number_of(argv[1]) * 16; left > 0; left--)
    for (size_t at = 0; at < sizeof block;) {
      ssize_t n = write(fd, block + at, sizeof block - at);
      if (n < 0) return 1;
      at += (size_t)n;
    }
  return 0;
}

/* Touches files in DIR so fast that a watcher drowns. */
static int run_touch_storm(int argc, char **argv)
{
  if (argc != 2) return 2;
  long count = number_of(argv[1]);
  if (chdir(argv[0]) < 0) return judge(argv[0], -1), 0;
  for (long i = 0; i < count; i++) {
    int fd = open("storm", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return judge("storm", -1), 0;
    close(fd);
    unlink("storm");
  }
  say("ALLOWED", "storm", "%ld", count);
  return 0;
}

/* What is counted for the whole machine or for the user, not for a process. COUNT of each. */
static int run_shared(int argc, char **argv)
{
  if (argc != 1) return 2;
  long wanted = number_of(argv[0]), made = 0;
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  unsigned long context = 0;
  judge("aio", syscall(SYS_io_setup, 1024, &context));
  if (context) syscall(SYS_io_destroy, context);
  while (made < wanted && open("/dev/ptmx", O_RDWR | O_NOCTTY) >= 0) made++;
  tally("terminals", made, wanted);
  for (made = 0; made < wanted && inotify_init1(0) >= 0;) made++;
  tally("inotify instances", made, wanted);
  return 0;
}

const attempt attempts_resources[] = {
    {"forks", "COUNT", run_forks},
    {"threads", "COUNT", run_threads},
    {"memory", "MIB", run_memory},
    {"fill", "PATH MIB", run_fill},
    {"fill-unlinked", "PATH MIB", run_fill_unlinked},
    {"inodes", "DIR COUNT", run_inodes},
    {"allocate", "PATH GIB", run_allocate},
    {"descriptors", "COUNT", run_descriptors},
    {"objects", "COUNT", run_objects},
    {"shared", "COUNT", run_shared},
    {"spin", "PROCESSES SECONDS", run_spin},
    {"file-size", "PATH MIB", run_file_size},
    {"output", "FD MIB newlines|none|nul", run_output},
    {"touch-storm", "DIR COUNT", run_touch_storm},
    {NULL, NULL, NULL},
};
