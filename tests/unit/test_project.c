/* The project view's changes: scanned from two trees, applied to a third, checked with diff(1). */
#include "init/project.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static char top[64];

/* Runs shell text in the scratch directory; its exit status. */
static int sh(const char *text)
{
  char command[4096];
  snprintf(command, sizeof command, "cd %s && { %s ; }", top, text);
  return system(command);
}

static int dir_of(const char *name)
{
  char path[256];
  snprintf(path, sizeof path, "%s/%s", top, name);
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_true(fd >= 0);
  return fd;
}

static int set_up(void **state)
{
  (void)state;
  strcpy(top, "/tmp/mcg-test-project-XXXXXX");
  assert_non_null(mkdtemp(top));
  assert_int_equal(sh("mkdir -p old/sub/deep old/gone/in && echo one >old/a && echo two >old/sub/b"
                      " && echo x >old/gone/in/x && ln -s a old/link && echo k >old/kind &&"
                      " chmod 640 old/a && printf '\\000\\377' >old/bin && cp -a old host"),
                   0);
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  char command[256];
  snprintf(command, sizeof command, "rm -rf %s", top);
  return system(command);
}

static mcg_apply_options now_options(bool git)
{
  struct timespec now;
  usleep(20000); /* past the tick in which the tree was made */
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return (mcg_apply_options){.since_s = now.tv_sec, .since_ns = (uint32_t)now.tv_nsec, .git = git};
}

static int scan_changes(mcg_trouble *trouble)
{
  int old_dir = dir_of("old"), new_dir = dir_of("new"), out = memfd_create("changes", 0);
  int rc = mcg_project_scan(old_dir, new_dir, true, out, trouble);
  close(old_dir);
  close(new_dir);
  if (rc < 0) {
    close(out);
    return -1;
  }
  lseek(out, 0, SEEK_SET);
  return out;
}

/* Scans old -> new, applies to host. */
static int carry(const mcg_apply_options *options, mcg_trouble *trouble)
{
  int changes = scan_changes(trouble);
  assert_true(changes >= 0);
  int host = dir_of("host"), done = memfd_create("done", 0);
  int rc = mcg_project_write_back(host, options, changes, done, trouble);
  close(host);
  close(done);
  close(changes);
  return rc;
}

static void every_kind_of_change_is_carried_over(void **state)
{
  (void)state;
  mcg_trouble trouble = {0};
  mcg_apply_options options = now_options(false);
  assert_int_equal(
      sh("cp -a old new && echo changed >new/a && rm -r new/gone && mkdir -p new/fresh/er &&"
         " echo n >new/fresh/er/n && chmod 755 new/sub/b && rm new/link && ln -s sub/b new/link &&"
         " rm new/kind && mkdir new/kind && echo inside >new/kind/f && ln -s ../a new/sub/up &&"
         " : >new/empty && head -c 300000 /dev/urandom >new/large"),
      0);
  assert_int_equal(carry(&options, &trouble), 0);
  assert_int_equal(sh("diff -r --no-dereference new host"), 0);
  assert_int_equal(
      sh("test \"$(stat -c %a host/sub/b)\" = 755 && test \"$(stat -c %a host/a)\" = 640"), 0);
  assert_int_equal(sh("test ! -e host/.mooncage-apply"), 0);
}

static void an_unchanged_tree_has_no_changes(void **state)
{
  (void)state;
  mcg_trouble trouble = {0};
  assert_int_equal(sh("cp -a old new && touch new/a && touch -r old/sub/b new/sub/b"), 0);
  int changes = scan_changes(&trouble);
  struct stat st;
  assert_int_equal(fstat(changes, &st), 0);
  assert_int_equal(st.st_size, 0);
  close(changes);
}

static void same_size_and_forged_mtime_are_seen(void **state)
{
  (void)state;
  mcg_trouble trouble = {0};
  mcg_apply_options options = now_options(false);
  assert_int_equal(sh("cp -a old new && echo eno >new/a && touch -r old/a new/a"), 0);
  assert_int_equal(carry(&options, &trouble), 0);
  assert_int_equal(sh("grep -q eno host/a"), 0);
}

static void refused(const char *change, const char *word)
{
  mcg_trouble trouble = {0};
  mcg_apply_options options = now_options(false);
  assert_int_equal(sh("rm -rf new before && cp -a old new && cp -a host before"), 0);
  assert_int_equal(sh(change), 0);
  assert_int_equal(carry(&options, &trouble), -1);
  assert_int_equal(trouble.number, EPERM);
  if (!strstr(trouble.text, word)) fail_msg("\"%s\" does not say %s", trouble.text, word);
  assert_int_equal(sh("diff -r --no-dereference before host"), 0); /* nothing was written */
}

static void what_is_not_harmless_is_refused_whole(void **state)
{
  (void)state;
  refused("echo y >new/z; cp /bin/true new/suid; chmod 4755 new/suid", "suid");
  refused("echo y >new/z; cp /bin/true new/sgid; chmod 2755 new/sgid", "sgid");
  refused("mkfifo new/pipe", "pipe");
  refused("ln -s /etc/passwd new/abs", "leaves the project");
  refused("ln -s ../outside new/up", "leaves the project");
  refused("ln -s sub/../../outside new/sneaky", "leaves the project");
  refused("ln -s ../../outside new/sub/up2", "leaves the project");
  refused("mkdir -p new/.git/hooks; echo evil >new/.git/hooks/pre-commit", ".git");
  refused("mkdir -p new/sub/.GIT; echo evil >new/sub/.GIT/config", ".GIT");
}

static void git_is_written_where_asked(void **state)
{
  (void)state;
  mcg_trouble trouble = {0};
  mcg_apply_options options = now_options(true);
  assert_int_equal(sh("cp -a old new && mkdir new/.git && echo ref >new/.git/HEAD"), 0);
  assert_int_equal(carry(&options, &trouble), 0);
  assert_int_equal(sh("diff -r new host"), 0);
}

static void conflicting(const char *in_sandbox, const char *on_host)
{
  mcg_trouble trouble = {0};
  assert_int_equal(sh("rm -rf new host && cp -a old new && cp -a old host"), 0);
  mcg_apply_options options = now_options(false);
  assert_int_equal(sh(in_sandbox), 0);
  assert_int_equal(sh(on_host), 0);
  assert_int_equal(sh("rm -rf before && cp -a host before"), 0);
  assert_int_equal(carry(&options, &trouble), -1);
  assert_int_equal(trouble.number, ESTALE);
  assert_int_equal(sh("diff -r --no-dereference before host"), 0);
}

static void a_host_that_moved_on_is_a_conflict(void **state)
{
  (void)state;
  conflicting("echo s >new/a", "echo h >>host/a");
  conflicting("echo s >new/a", "rm host/a");
  conflicting("rm new/a", "echo h >>host/a");
  conflicting("echo s >new/both", "echo h >host/both");
  conflicting("rm -r new/gone", "echo h >host/gone/in/extra");
  conflicting("echo s >new/sub/n", "mv host/sub host/elsewhere; ln -s /tmp host/sub");
  conflicting("echo s >new/a", "cp -p host/a host/t; mv host/t host/a");
}

static void put_record(int fd, mcg_change change, const char *path)
{
  uint8_t header[MCG_CHANGE_HEADER];
  change.path_len = (uint16_t)strlen(path);
  mcg_change_encode(&change, header);
  assert_int_equal(write(fd, header, sizeof header), sizeof header);
  assert_int_equal(write(fd, path, change.path_len), change.path_len);
  lseek(fd, 0, SEEK_SET);
}

static void hostile_stream(mcg_change change, const char *path, int number)
{
  mcg_trouble trouble = {0};
  mcg_apply_options options = now_options(true);
  int host = dir_of("host"), in = memfd_create("hostile", 0), out = memfd_create("done", 0);
  put_record(in, change, path);
  assert_int_equal(mcg_project_write_back(host, &options, in, out, &trouble), -1);
  assert_int_equal(trouble.number, number);
  close(host);
  close(in);
  close(out);
  assert_int_equal(sh("diff -r --no-dereference old host && test ! -e outside"), 0);
}

static void a_hostile_stream_writes_nothing(void **state)
{
  (void)state;
  mcg_change file = {.op = 'A', .kind = 'f', .mode = 0644};
  hostile_stream(file, "../outside", EPERM);
  hostile_stream(file, "/outside", EPERM);
  hostile_stream(file, "sub/../../outside", EPERM);
  hostile_stream(file, "a//b", EPERM);
  hostile_stream(file, "sub/", EPERM);
  hostile_stream(file, ".mooncage-apply", EPERM);
  hostile_stream((mcg_change){.op = 'X', .kind = 'f'}, "x", EPROTO);
  hostile_stream((mcg_change){.op = 'A', .kind = 'f', .mode = 0170644}, "x", EPROTO);
  hostile_stream((mcg_change){.op = 'A', .kind = 'f', .size = UINT64_MAX / 2}, "x", EPROTO);
  hostile_stream((mcg_change){.op = 'A', .kind = 'l'}, "x", EPROTO);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      CASE(every_kind_of_change_is_carried_over), CASE(an_unchanged_tree_has_no_changes),
      CASE(same_size_and_forged_mtime_are_seen),  CASE(what_is_not_harmless_is_refused_whole),
      CASE(git_is_written_where_asked),           CASE(a_host_that_moved_on_is_a_conflict),
      CASE(a_hostile_stream_writes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
