/* kill -9 at random moments: of the engine, of its spawner, of both. An engine stand-in makes and ends
 * sandboxes as fast as it can; two seconds after the kill no process of theirs lives, and no group,
 * directory or loop device is left, or where the spawner was killed, none after REAP. Mounts live in
 * namespaces and end with their processes. */
#include "spawner_client.h"
#include "init/box.h"

#include <dirent.h>
#include <ftw.h>
#include <sys/mman.h>

#define ROUNDS 17       /* of each kind and user; 50 and more kills in all */
#define MARK "31415926" /* seconds of sleep that only we sleep */
#define GONE_MS 2000

enum victim { ENGINE = 1, SPAWNER = 2, BOTH = 3 };
static uid_t as_uid;
static char base[64];
static bool loops; /* there is such a thing here */
static unsigned loops_before;
static struct shared {
  pid_t spawner;
  unsigned made;
} * shared;

/* ---- the engine -------------------------------------------------------------------------------- */

static bool start_commands(box *b)
{
  box_hello(b);
  if (!b->c) return false;
  job_start(b->c, MCG_EXEC_NO_STDIN, "/bin/sh", "-c",
            "(setsid sleep " MARK " &) ; echo x > file ; exec sleep " MARK, NULL);
  return true;
}

static void engine(void) __attribute__((noreturn));
static void engine(void)
{
  box boxes[4] = {0};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  spawner s = spawner_start(as_uid);
  shared->spawner = s.pid;
  for (unsigned at = 0;; at++) {
    box *b = &boxes[at % 4];
    mcg_spawn_spec spec = {.kind = at % 3 == 2 ? MCG_KIND_PLAIN : MCG_KIND_JAIL,
                           .disk = 8 << 20,
                           .memory = 64 << 20,
                           .pids = 32};
    if (at >= 4 && !box_destroy(b)) _exit(1);
    if (!box_create(&s, &spec, b) || !start_commands(b)) _exit(1);
    shared->made = at + 1;
  }
}

/* ---- what is left of it ------------------------------------------------------------------------ */

static bool process_is_left(void)
{
  DIR *dir = opendir("/proc");
  bool found = false;
  for (struct dirent *entry; !found && (entry = readdir(dir));) {
    char path[300], text[128] = "";
    snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (len > 6 && strcmp(text, "sleep") == 0 && strcmp(text + 6, MARK) == 0) found = true;
  }
  closedir(dir);
  return found;
}

/* A name in `path` that carries the spawner's number. */
static bool name_is_left(const char *path, const char *prefix)
{
  char wanted[64];
  bool found = false;
  snprintf(wanted, sizeof wanted, "%s%d-", prefix, (int)shared->spawner);
  DIR *dir = opendir(path);
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (strncmp(entry->d_name, wanted, strlen(wanted)) == 0) found = true;
  if (dir) closedir(dir);
  return found;
}

static bool group_is_left(void)
{
  static const char *const paths[] = {"/sys/fs/cgroup/memory/mooncage",
                                      "/sys/fs/cgroup/cpu/mooncage", "/sys/fs/cgroup/pids/mooncage",
                                      "/sys/fs/cgroup/mooncage"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    if (name_is_left(paths[i], "mcg-")) return true;
  return false;
}

static unsigned bound_loops(void)
{
  unsigned count = 0;
  for (int i = 0; i < 256; i++) {
    char path[64];
    snprintf(path, sizeof path, "/sys/block/loop%d/loop/backing_file", i);
    if (access(path, F_OK) == 0) count++;
  }
  return count;
}

static const char *left(bool names)
{
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  } /* a subreaper: the dead spawner is ours to bury */
  if (shared->spawner && kill(shared->spawner, 0) == 0) return "the spawner";
  if (process_is_left()) return "a process";
  if (bound_loops() > loops_before) return "a loop device";
  if (names && group_is_left()) return "a control group";
  if (names && name_is_left(base, "mooncage-")) return "a directory";
  return NULL;
}

static void wait_until_nothing_is_left(enum victim victim, bool names)
{
  uint64_t end = now_ms() + GONE_MS;
  const char *what;
  while ((what = left(names))) {
    if (now_ms() > end)
      fail_msg("kill of %d after %u sandboxes: %s is left", (int)victim, shared->made, what);
    usleep(5000);
  }
}

/* ---- the matrix --------------------------------------------------------------------------------- */

static void reap(void)
{
  uint8_t packet[65536];
  uint32_t op;
  int fds[2];
  size_t len, fd_count;
  spawner s = spawner_start(as_uid);
  assert_true(spawner_send(&s, MCG_S_REAP, 1, NULL));
  assert_true(
      spawner_answer(&s, MCG_S_REAPED, 1, &op, packet, sizeof packet, &len, fds, &fd_count));
  spawner_stop(&s);
}

static void one_kill(enum victim victim)
{
  *shared = (struct shared){0};
  pid_t pid = fork();
  if (pid == 0) engine();
  uint64_t start = now_ms();
  while (!shared->spawner && now_ms() - start < WAIT_MS) usleep(1000);
  usleep((useconds_t)(rand() % 60000));
  if (victim & SPAWNER) kill(shared->spawner, SIGKILL);
  if (victim & ENGINE) kill(pid, SIGKILL);
  waitpid(pid, NULL, 0); /* an engine whose spawner died ends by itself here */
  wait_until_nothing_is_left(victim, victim == ENGINE);
  if (victim == ENGINE) return;
  reap();
  wait_until_nothing_is_left(victim, true);
}

static void kills(enum victim victim)
{
  loops = access("/dev/loop-control", W_OK) == 0;
  if (!loops) puts("without disk images: no loop devices here");
  loops_before = bound_loops();
  for (int i = 0; i < ROUNDS; i++) one_kill(victim);
}

static void the_engine_is_killed(void **state)
{
  (void)state;
  kills(ENGINE);
}

static void the_spawner_is_killed(void **state)
{
  (void)state;
  kills(SPAWNER);
}

static void both_are_killed(void **state)
{
  (void)state;
  kills(BOTH);
}

static void the_living_are_not_reaped(void **state)
{
  (void)state;
  spawner s = spawner_start(as_uid);
  mcg_spawn_spec specs[2] = {{.kind = MCG_KIND_JAIL, .disk = 8 << 20, .memory = 64 << 20},
                             {.kind = MCG_KIND_PLAIN}};
  box boxes[2];
  for (int i = 0; i < 2; i++) {
    assert_true(box_create(&s, &specs[i], &boxes[i]));
    box_hello(&boxes[i]);
    assert_non_null(boxes[i].c);
  }
  reap();
  for (int i = 0; i < 2; i++) {
    job *j = job_start(boxes[i].c, MCG_EXEC_NO_STDIN, "/bin/sh", "-c", "echo x > file", NULL);
    client_until(boxes[i].c, j->exited);
    assert_int_equal(j->code, 0);
    assert_true(box_destroy(&boxes[i]));
  }
  spawner_stop(&s);
}

/* ---- whose it is -------------------------------------------------------------------------------- */

static unsigned long long namespace_of(const char *process)
{
  char path[64];
  struct stat st;
  snprintf(path, sizeof path, "/proc/%s/ns/pid", process);
  assert_int_equal(stat(path, &st), 0);
  return st.st_ino;
}

static void leave(char out[128], long pid, unsigned long long start, unsigned long long namespace)
{
  static unsigned serial;
  snprintf(out, 128, "%s/mooncage-%ld-%llu-%llu-%u", base, pid, start, namespace, ++serial);
  assert_int_equal(mkdir(out, 0700), 0);
  if (as_uid) assert_int_equal(chown(out, as_uid, as_uid), 0);
}

/* A process that is the first of a pid namespace. */
static pid_t start_elsewhere(void)
{
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t outer = fork();
  if (outer == 0) {
    if (unshare(CLONE_NEWPID) < 0) _exit(1);
    pid_t inner = fork();
    if (inner == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) pause();
    }
    if (write(ends[1], &inner, sizeof inner) != sizeof inner) _exit(1);
    _exit(0);
  }
  close(ends[1]);
  pid_t inner = 0;
  assert_int_equal(read(ends[0], &inner, sizeof inner), sizeof inner);
  close(ends[0]);
  return inner;
}

static bool is_there(const char *path)
{
  return access(path, F_OK) == 0;
}

static void who_cannot_be_judged_is_not_reaped(void **state)
{
  (void)state;
  if (getuid() != 0) {
    puts("skipped: another pid namespace needs root");
    skip();
  }
  char living[128], dead[128], elsewhere[128], unknown[128], number[16];
  unsigned long long here = namespace_of("self");
  pid_t inner = start_elsewhere();
  snprintf(number, sizeof number, "%d", (int)inner);
  unsigned long long there = namespace_of(number);
  assert_true(there != here);
  leave(living, getpid(), mcg_start_time(getpid()), here);
  leave(dead, getpid(), mcg_start_time(getpid()) + 1, here);
  leave(elsewhere, 1, mcg_start_time(inner) + 1, there);
  leave(unknown, getpid(), 1, 0);
  reap();
  assert_true(is_there(living));
  assert_false(is_there(dead));
  assert_true(is_there(elsewhere)); /* there may be another with that number in there */
  assert_true(is_there(unknown));
  kill(inner, SIGKILL);
  for (int i = 0; i < 500 && kill(inner, 0) == 0; i++) {
    waitpid(inner, NULL, WNOHANG);
    usleep(10000);
  }
  reap();
  bool sees_all = as_uid == 0 && here == 0xEFFFFFFCu;
  if (!sees_all) puts("a namespace without a process is not known for one here");
  assert_int_equal(is_there(elsewhere), !sees_all);
  assert_true(is_there(unknown));
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
  (void)st, (void)kind, (void)at;
  return remove(path);
}

static int make_base(void **state)
{
  (void)state;
  snprintf(base, sizeof base, "/tmp/mcg-test-crash-XXXXXX");
  if (!mkdtemp(base)) return -1;
  setenv("TMPDIR", base, 1);
  return as_uid ? chown(base, as_uid, as_uid) : 0;
}

static int remove_base(void **state)
{
  (void)state;
  return nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int all(const char *title)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_living_are_not_reaped),
      cmocka_unit_test(who_cannot_be_judged_is_not_reaped),
      cmocka_unit_test(the_engine_is_killed),
      cmocka_unit_test(the_spawner_is_killed),
      cmocka_unit_test(both_are_killed),
  };
  return cmocka_run_group_tests_name(title, tests, make_base, remove_base);
}

int main(void)
{
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(shared != MAP_FAILED);
  unsigned seed = (unsigned)now_ms();
  printf("seed %u\n", seed);
  srand(seed);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int failed = all(geteuid() == 0 ? "as root" : "as this user");
  if (geteuid() != 0) {
    puts("skipped: the other user; only root can be both");
    return failed;
  }
  as_uid = 65534;
  return failed + all("as uid 65534");
}
