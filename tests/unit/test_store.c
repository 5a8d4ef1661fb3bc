/* The file store when things go wrong: its process is killed, or a system call fails, at every point of a
 * save; the disk is full; several processes save the same id. What was there before is whole, or what is
 * new; nothing else is ever seen, and nothing is left lying about for long.
 *
 * Each try is a process of its own. The linker gives us the calls that change the disk. */
#include "fiber.h"
#include "host.h"
#include <glob.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t size = (size_t)3 << 20; /* of the data: several pieces */
static int rounds = 10;

static atomic_long left = -1; /* calls until one is hit; below 0: none is */
static int hit_with;          /* an errno; 0: the process is killed */

ssize_t __real_write(int fd, const void *bytes, size_t len);
int __real_fsync(int fd);
int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __real_unlinkat(int dir, const char *name, int flags);
int __real_mkdirat(int dir, const char *name, mode_t mode);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
int __wrap_fsync(int fd);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_unlinkat(int dir, const char *name, int flags);
int __wrap_mkdirat(int dir, const char *name, mode_t mode);

static bool hit(void)
{
  if (left < 0 || atomic_fetch_sub(&left, 1) != 0) return false;
  if (!hit_with) kill(getpid(), SIGKILL);
  errno = hit_with;
  return true;
}

/* A write that is hit has written a part of it. */
ssize_t __wrap_write(int fd, const void *bytes, size_t len)
{
  bool data = len > 64; /* not the eight bytes that wake a loop */
  if (data && left == 0) __real_write(fd, bytes, len / 2);
  return data && hit() ? -1 : __real_write(fd, bytes, len);
}

int __wrap_fsync(int fd)
{
  return hit() ? -1 : __real_fsync(fd);
}

int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
  return hit() ? -1 : __real_renameat(from_dir, from, to_dir, to);
}

int __wrap_unlinkat(int dir, const char *name, int flags)
{
  return hit() ? -1 : __real_unlinkat(dir, name, flags);
}

int __wrap_mkdirat(int dir, const char *name, mode_t mode)
{
  return hit() ? -1 : __real_mkdirat(dir, name, mode);
}

/* ---- one process -------------------------------------------------------------------------- */

static char directory[] = "/tmp/mooncage-store-XXXXXX";

typedef struct told {
  outcome out; /* first */
  char *json;
  char letter;       /* of the data that is given, or was taken; '?': several */
  size_t given, got; /* bytes */
  bool spoils;       /* the store, with the first byte that was taken */
  bool on_fiber;     /* where the host's code may not run: its stack is as deep as any */
} told;

static void take_told(void *data, const char *json, mcg_error *error)
{
  told *self = data;
  self->json = json ? strdup(json) : NULL;
  take_done(data, error);
}

static long give(void *data, void *buffer, size_t cap)
{
  told *self = data;
  self->on_fiber |= mcg_fiber_current(engine) != NULL;
  size_t len = size - self->given < cap ? size - self->given : cap;
  memset(buffer, self->letter, len);
  self->given += len;
  return (long)len;
}

/* Another byte at the end of the only data file there is. */
static void spoil_data(void)
{
  glob_t found = {0};
  char pattern[128];
  snprintf(pattern, sizeof pattern, "%s/store/common/data/same.*", directory);
  if (glob(pattern, 0, NULL, &found) != 0 || found.gl_pathc != 1) abort();
  int fd = open(found.gl_pathv[0], O_WRONLY | O_CLOEXEC);
  if (fd < 0 || pwrite(fd, "x", 1, (off_t)size - 1) != 1) abort();
  close(fd);
  globfree(&found);
}

static bool take(void *data, const void *bytes, size_t len)
{
  told *self = data;
  self->on_fiber |= mcg_fiber_current(engine) != NULL;
  const char *at = bytes;
  if (!self->got) self->letter = *at;
  if (!self->got && self->spoils) spoil_data();
  for (size_t i = 0; i < len; i++)
    if (at[i] != self->letter) self->letter = '?';
  self->got += len;
  return true;
}

static char *request(const char *rest)
{
  char *text = malloc(512);
  snprintf(text, 512, "{\"store\":{\"type\":\"file\",\"dir\":\"%s/store\"}%s}", directory, rest);
  return text;
}

static void finish(told *self, int rc, mcg_error *err)
{
  if (rc < 0) take_told(self, NULL, err);
  while (!self->out.completions) uv_run(mcg_engine_loop(engine), UV_RUN_ONCE);
  if (self->on_fiber) abort();
}

static void save(told *self, char letter)
{
  char *text = request(",\"id\":\"same\"");
  mcg_error *err = NULL;
  *self = (told){.letter = letter};
  int rc = mcg_store_save(engine, text, strlen(text), give, take_told, self, NULL, &err);
  finish(self, rc, err);
  free(text);
}

static void load_so(told *self, bool spoils)
{
  char *text = request(",\"id\":\"same\"");
  mcg_error *err = NULL;
  *self = (told){.spoils = spoils};
  int rc = mcg_store_load(engine, text, strlen(text), take, take_told, self, NULL, &err);
  finish(self, rc, err);
  free(text);
}

static void load(told *self)
{
  load_so(self, false);
}

static void ask(told *self, const char *rest)
{
  char *text = request(rest);
  mcg_error *err = NULL;
  *self = (told){0};
  int rc = mcg_store_ask(engine, text, strlen(text), take_told, self, NULL, &err);
  finish(self, rc, err);
  free(text);
}

static void told_fini(told *self)
{
  mcg_error_free(self->out.error);
  free(self->json);
}

/* What a process of its own returns; 1000 + the signal that ended it. */
static int apart(int (*fn)(int arg), int arg)
{
  int status = -1;
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    engine_up(NULL);
    int code = fn(arg);
    left = -1;
    engine_down(NULL);
    _exit(code);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- what processes do -------------------------------------------------------------------- */

static int save_old(int arg)
{
  (void)arg;
  told self;
  save(&self, 'o');
  int code = self.out.error ? 1 : 0;
  told_fini(&self);
  return code;
}

/* 0: saved, 2: refused with an error; and where it was not hit: 3. */
static int save_hit(int nth)
{
  told self;
  left = nth;
  save(&self, 'n');
  bool reached = left < 0;
  left = -1;
  int code = !reached ? 3 : self.out.error ? 2 : 0;
  if (self.out.error && self.out.error->code != MCG_QUOTA && hit_with == ENOSPC) code = 4;
  told_fini(&self);
  return code;
}

/* The letter of what is there, all of it; it is listed once. */
static int look(int arg)
{
  (void)arg;
  told self, listed;
  load(&self);
  ask(&listed, ",\"call\":\"list\"");
  int code = self.out.error || self.got != size ? '!' : self.letter;
  const char *first = listed.json ? strstr(listed.json, "snapshot_id") : NULL;
  if (!first || strstr(first + 1, "snapshot_id") || strstr(first, "damaged")) code = '#';
  told_fini(&self);
  told_fini(&listed);
  return code;
}

static int collect(int arg)
{
  (void)arg;
  told self;
  ask(&self, ",\"call\":\"gc\"");
  int code = self.out.error != NULL;
  told_fini(&self);
  return code;
}

static int count_in(const char *inner)
{
  char path[128];
  int count = 0;
  snprintf(path, sizeof path, "%s/store/common%s", directory, inner);
  DIR *dir = opendir(path);
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  if (dir) closedir(dir);
  return count;
}

static void nothing_left_over(void)
{
  assert_int_equal(count_in("/data"), 1);
  assert_int_equal(count_in(""), 3); /* data, .lock, same.json */
}

/* ---- the cases ---------------------------------------------------------------------------- */

static int set_up(void **state)
{
  (void)state;
  strcpy(directory + strlen(directory) - 6, "XXXXXX");
  return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", directory);
  return system(command);
}

/* At every point of it, until it is past the last. How many there were, and how many left it undone. */
static int hit_everywhere(int *undone)
{
  bool over = false;
  int nth = 0;
  *undone = 0;
  for (; !over; nth++) {
    assert_int_equal(apart(save_old, 0), 0);
    int code = apart(save_hit, nth);
    over = code == 3;
    assert_true(over || code == 0 || (hit_with ? code == 2 : code == 1000 + SIGKILL));
    int letter = apart(look, 0);
    assert_true(letter == 'o' || letter == 'n');
    assert_true(!over || letter == 'n');
    *undone += letter == 'o';
    assert_int_equal(apart(collect, 0), 0);
    nothing_left_over();
  }
  return nth;
}

static void test_killed_anywhere(void **state)
{
  (void)state;
  int undone;
  hit_with = 0;
  int points = hit_everywhere(&undone);
  assert_true(points > 9); /* writes, syncs, renames ... */
  assert_true(undone > 5 && undone < points - 2);
}

static void test_fails_anywhere(void **state)
{
  (void)state;
  int undone;
  hit_with = ENOSPC;
  assert_true(hit_everywhere(&undone) > 9);
  assert_true(undone > 5);
}

/* Without being asked, the next save of the id takes away what one before it left. */
static void test_next_save_sweeps(void **state)
{
  (void)state;
  hit_with = 0;
  for (int nth = 0; nth < 20; nth++) {
    apart(save_hit, nth);
    assert_int_equal(apart(save_old, 0), 0);
    nothing_left_over();
  }
}

static int save_many(int letter)
{
  for (int i = 0; i < rounds; i++) {
    told self;
    save(&self, (char)letter);
    if (self.out.error) return 1;
    told_fini(&self);
  }
  return 0;
}

static int load_many(int arg)
{
  (void)arg;
  for (int i = 0; i < 6 * rounds; i++) {
    int letter = look(0);
    if (letter < 'a' || letter > 'z') return letter;
  }
  return 0;
}

static void test_many_save_one_id(void **state)
{
  (void)state;
  pid_t pids[5];
  assert_int_equal(apart(save_old, 0), 0);
  for (int i = 0; i < 5; i++) {
    pids[i] = fork();
    assert_true(pids[i] >= 0);
    if (pids[i] == 0) _exit(i == 4 ? apart(load_many, 0) : apart(save_many, 'a' + i));
  }
  for (int i = 0; i < 5; i++) {
    int status;
    assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
  }
  engine_up(NULL);
  told self;
  char version[32];
  snprintf(version, sizeof version, "\"version\":%d", 1 + 4 * rounds);
  ask(&self, ",\"call\":\"show\",\"id\":\"same\"");
  assert_non_null(strstr(self.json, version)); /* none was lost */
  told_fini(&self);
  engine_down(NULL);
  nothing_left_over();
}

static bool write_file(const char *path, const char *text)
{
  int fd = open(path, O_WRONLY);
  bool good = fd >= 0 && __real_write(fd, text, strlen(text)) > 0;
  if (fd >= 0) close(fd);
  return good;
}

/* Mounts that nobody else sees. */
static bool own_mounts(void)
{
  char map[32];
  unsigned uid = geteuid(), gid = getegid();
  if (unshare(CLONE_NEWNS | (uid ? CLONE_NEWUSER : 0)) < 0) return false;
  snprintf(map, sizeof map, "%u %u 1", uid, uid);
  if (uid &&
      (!write_file("/proc/self/setgroups", "deny") || !write_file("/proc/self/uid_map", map)))
    return false;
  snprintf(map, sizeof map, "%u %u 1", gid, gid);
  if (uid && !write_file("/proc/self/gid_map", map)) return false;
  return mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0;
}

/* A tmpfs that holds one of them and a half. */
static int on_full_disk(int arg)
{
  (void)arg;
  char options[64];
  snprintf(options, sizeof options, "size=%zuk,mode=700", size / 2 * 3 >> 10);
  if (!own_mounts() || mount("none", directory, "tmpfs", 0, options) < 0) return 77;
  told self;
  save(&self, 'o');
  if (self.out.error) return 1;
  told_fini(&self);
  for (int i = 0; i < 3; i++) {
    save(&self, 'n');
    if (!self.out.error || self.out.error->code != MCG_QUOTA || !self.out.error->fix) return 2;
    told_fini(&self);
    if (look(0) != 'o' || count_in("/data") != 1 || count_in("") != 3) return 3;
  }
  return 0;
}

/* Before any thread is there: a process with threads cannot have a user namespace of its own. */
static void test_full_disk(void **state)
{
  (void)state;
  int code = apart(on_full_disk, 0);
  if (code == 77) skip();
  assert_int_equal(code, 0);
}

static void test_no_part_of_a_save_shows(void **state)
{
  (void)state;
  hit_with = 0;
  for (int nth = 0; nth < 8; nth++) { /* nothing was there before */
    apart(save_hit, nth);
    int letter = apart(look, 0);
    assert_true(letter == '#' || letter == 'n'); /* not listed, or whole */
  }
}

/* It was verified, and is changed while it is read. */
static int load_spoilt(int arg)
{
  (void)arg;
  told self;
  load_so(&self, true);
  int code = !self.out.error                                  ? 1
             : self.out.error->code != MCG_PROTOCOL           ? 2
             : !self.out.error->fix                           ? 3
             : !self.got || self.got > (size - 1) >> 20 << 20 ? 4
                                                              : 0;
  told_fini(&self);
  return code;
}

static void test_a_change_while_it_is_read(void **state)
{
  (void)state;
  hit_with = 0;
  assert_int_equal(apart(save_old, 0), 0);
  assert_int_equal(apart(load_spoilt, 0), 0);
}

int main(void)
{
  if (getenv("MOONCAGE_VALGRIND")) { /* which takes a hundred times as long */
    size = (size_t)5 << 18;
    rounds = 3;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_killed_anywhere, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_fails_anywhere, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_next_save_sweeps, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_many_save_one_id, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_full_disk, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_no_part_of_a_save_shows, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_a_change_while_it_is_read, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
