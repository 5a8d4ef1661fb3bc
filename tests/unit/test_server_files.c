/* The file built-ins of mooncage-init, against the files themselves and against the system's tar. */
#include "init_client.h"

#include <dirent.h>
#include <sys/stat.h>

typedef struct place {
  client *c;
  char dir[64];
} place;

static int shell(const char *dir, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int shell(const char *dir, const char *format, ...)
{
  char command[4096];
  va_list args;
  int at = snprintf(command, sizeof command, "cd '%s' && ", dir);
  va_start(args, format);
  vsnprintf(command + at, sizeof command - (size_t)at, format, args);
  va_end(args);
  return system(command);
}

static int setup(void **state, int carrier)
{
  place *p = calloc(1, sizeof *p);
  strcpy(p->dir, "/tmp/mcg-files-XXXXXX");
  assert_non_null(mkdtemp(p->dir));
  p->c = client_start_with(carrier, p->dir);
  *state = p;
  return 0;
}
static int direct(void **state)
{
  return setup(state, 0);
}
static int framed(void **state)
{
  return setup(state, 1);
}
static int done(void **state)
{
  place *p = *state;
  assert_int_equal(client_stop(p->c), 0);
  assert_int_equal(shell("/tmp", "chmod -R u+rwX %s; rm -rf %s", p->dir, p->dir), 0);
  free(p);
  return 0;
}

#define builtin(p, ...) builtin_with(p, NULL, 0, __VA_ARGS__, NULL)
__attribute__((sentinel)) static job *builtin_with(place *p, const void *input, size_t len,
                                                   const char *first, ...)
{
  mcg_wire body;
  va_list rest;
  client_forget(p->c);
  mcg_wire_init(&body);
  va_start(rest, first);
  for (const char *arg = first; arg; arg = va_arg(rest, const char *))
    mcg_wire_put_str(&body, MCG_TAG_ARG, arg);
  va_end(rest);
  job *j = job_open(p->c, MCG_EXEC_BUILTIN, &body);
  job_write(p->c, j, input, len);
  job_close_stdin(p->c, j);
  job_finish(p->c, j);
  return j;
}

static char *slurp(const char *dir, const char *name, size_t *len)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *bytes = malloc(8 << 20);
  *len = fread(bytes, 1, 8 << 20, file);
  bytes[*len] = 0;
  fclose(file);
  return bytes;
}

static void test_read(void **state)
{
  place *p = *state;
  shell(p->dir, "printf 0123456789 > f");
  job *j = builtin(p, "read", "f");
  assert_int_equal(j->code, 0);
  assert_string_equal(j->data[1], "0123456789");
  assert_string_equal(builtin(p, "read", "f", "3")->data[1], "3456789");
  assert_string_equal(builtin(p, "read", "./f", "3", "2")->data[1], "34");
  assert_string_equal(builtin(p, "read", "f", "100")->data[1], "");
}

static void test_read_big(void **state)
{
  place *p = *state;
  size_t len;
  shell(p->dir, "head -c 3000000 /dev/urandom > f");
  job *j = builtin(p, "read", "f");
  char *bytes = slurp(p->dir, "f", &len);
  assert_int_equal(j->len[1], 3000000);
  assert_memory_equal(j->data[1], bytes, len);
  free(bytes);
}

static void test_read_what_is_no_file(void **state)
{
  place *p = *state;
  shell(p->dir, "mkfifo fifo; mkdir d; ln -s loop loop");
  assert_int_equal(builtin(p, "read", "none")->error, ENOENT);
  assert_int_equal(builtin(p, "read", "fifo")->error, EINVAL); /* and does not hang */
  assert_int_equal(builtin(p, "read", "d")->error, EISDIR);
  assert_int_equal(builtin(p, "read", "loop")->error, ELOOP);
  job *j = builtin(p, "read", "f", "x");
  assert_int_not_equal(j->error, 0);
  assert_int_not_equal(j->code, 0);
  assert_string_equal(j->step, "builtin");
}

static void test_paths_stay_inside(void **state)
{
  place *p = *state;
  char absolute[128];
  shell(p->dir, "echo in > f; mkdir d; ln -s /etc/passwd out; ln -s ../f d/up; ln -s /etc etc");
  snprintf(absolute, sizeof absolute, "%s/f", p->dir);
  assert_string_equal(builtin(p, "read", absolute)->data[1], "in\n");
  assert_string_equal(builtin(p, "read", "d/../f")->data[1], "in\n");
  assert_string_equal(builtin(p, "read", "d/up")->data[1], "in\n");
  assert_int_equal(builtin(p, "read", "../x")->error, EXDEV);
  assert_int_equal(builtin(p, "read", "d/../../x")->error, EXDEV);
  assert_int_equal(builtin(p, "read", "/etc/passwd")->error, EXDEV);
  assert_int_equal(builtin(p, "read", "out")->error, EXDEV);
  assert_int_equal(builtin(p, "read", "etc/passwd")->error, EXDEV);
  assert_int_equal(builtin(p, "mkdir", "etc/x", "755")->error, EXDEV);
  assert_int_equal(builtin(p, "list", "etc")->error, EXDEV);
  assert_int_equal(builtin(p, "read", "")->error, EINVAL);
  job *j = builtin_with(p, "x", 1, "write", "etc/mooncage-test", "644", NULL);
  assert_int_equal(j->error, EXDEV);
}

static void test_write(void **state)
{
  place *p = *state;
  struct stat info;
  size_t len;
  char path[128];
  job *j = builtin_with(p, "hello\n", 6, "write", "f", "640", NULL);
  assert_int_equal(j->code, 0);
  snprintf(path, sizeof path, "%s/f", p->dir);
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_mode & 07777, 0640);
  j = builtin_with(p, "other", 5, "write", "f", "777", "5", NULL);
  assert_int_equal(j->code, 0);
  char *bytes = slurp(p->dir, "f", &len);
  assert_string_equal(bytes, "other");
  free(bytes);
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_mode & 07777, 0777);
}

static void test_write_that_fails_changes_nothing(void **state)
{
  place *p = *state;
  size_t len;
  shell(p->dir, "echo old > f; mkdir d; ln -s f link");
  assert_int_equal(builtin_with(p, "new", 3, "write", "f", "644", "10", NULL)->error, EIO);
  assert_int_equal(builtin_with(p, "new", 3, "write", "d", "644", NULL)->error, EISDIR);
  assert_int_equal(builtin_with(p, "new", 3, "write", "none/f", "644", NULL)->error, ENOENT);
  assert_int_equal(builtin_with(p, "new", 3, "write", "f", "4755", NULL)->error, EINVAL);
  assert_int_equal(builtin_with(p, "new", 3, "write", "link", "644", NULL)->error, 0);
  char *bytes = slurp(p->dir, "f", &len); /* the link was replaced, not followed */
  assert_string_equal(bytes, "old\n");
  free(bytes);
  assert_int_equal(shell(p->dir, "test -z \"$(ls -A | grep mooncage)\""), 0);
}

/* A built-in whose input has not ended. */
static job *stalled(place *p, const char *name, const char *first, const char *second)
{
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_str(&body, MCG_TAG_ARG, name);
  mcg_wire_put_str(&body, MCG_TAG_ARG, first);
  if (second) mcg_wire_put_str(&body, MCG_TAG_ARG, second);
  return job_open(p->c, MCG_EXEC_BUILTIN, &body);
}

static void test_killed_write_leaves_no_temporary(void **state)
{
  place *p = *state;
  job *j = stalled(p, "write", "f", "644");
  job_write(p->c, j, "abc", 3);
  while (shell(p->dir, "ls -A | grep -q mooncage") != 0) usleep(1000);
  client_send(p->c, MCG_F_KILL, j->channel, 0, NULL);
  job_finish(p->c, j);
  assert_true(j->signo == SIGTERM || j->code == 128 + SIGTERM);
  assert_int_equal(shell(p->dir, "test -z \"$(ls -A)\""), 0);
}

static void test_write_full_disk(void **state)
{
  place *p = *state;
  if (geteuid() != 0) {
    print_message("skipped: mounting a small tmpfs needs root\n");
    skip();
  }
  if (shell(p->dir, "mkdir small && mount -t tmpfs -o size=64k none small 2>/dev/null") != 0) {
    print_message("skipped: this place does not allow mount\n");
    skip();
  }
  char *bytes = calloc(1, 1 << 20);
  job *j = builtin_with(p, bytes, 1 << 20, "write", "small/f", "644", NULL);
  int error = j->error, left = shell(p->dir, "test -z \"$(ls -A small)\"");
  shell(p->dir, "umount small");
  free(bytes);
  assert_int_equal(error, ENOSPC);
  assert_int_equal(left, 0);
}

typedef struct listed {
  mcg_entry entry;
  char name[256], target[256];
} listed;

static size_t read_list(const job *j, listed *out, size_t most)
{
  size_t count = 0;
  for (size_t at = 0; at < j->len[1]; count++) {
    assert_true(count < most);
    assert_true(at + MCG_ENTRY_HEADER <= j->len[1]);
    listed *one = &out[count];
    mcg_entry_decode((const uint8_t *)j->data[1] + at, &one->entry);
    at += MCG_ENTRY_HEADER;
    memcpy(one->name, j->data[1] + at, one->entry.name_len);
    one->name[one->entry.name_len] = 0;
    at += one->entry.name_len;
    memcpy(one->target, j->data[1] + at, one->entry.target_len);
    one->target[one->entry.target_len] = 0;
    at += one->entry.target_len;
  }
  return count;
}

static const listed *named(const listed *list, size_t count, const char *name)
{
  for (size_t i = 0; i < count; i++)
    if (strcmp(list[i].name, name) == 0) return &list[i];
  fail_msg("%s is not listed", name);
  return NULL;
}

static void test_list_and_stat(void **state)
{
  place *p = *state;
  listed list[8];
  struct stat info;
  char path[128];
  shell(p->dir, "printf abc > f; chmod 604 f; mkdir d; ln -s some/where l; touch -d @1000000000.5 "
                "f; touch .hidden");
  size_t count = read_list(builtin(p, "list", "."), list, 8);
  assert_int_equal(count, 4);
  named(list, count, ".hidden");
  const listed *f = named(list, count, "f");
  snprintf(path, sizeof path, "%s/f", p->dir);
  stat(path, &info);
  assert_int_equal(f->entry.mode, S_IFREG | 0604);
  assert_int_equal(f->entry.size, 3);
  assert_int_equal(f->entry.inode, info.st_ino);
  assert_int_equal(f->entry.mtime_s, 1000000000);
  assert_int_equal(f->entry.mtime_ns, 500000000);
  assert_int_equal(f->entry.uid, getuid());
  assert_true(S_ISDIR(named(list, count, "d")->entry.mode));
  const listed *l = named(list, count, "l");
  assert_true(S_ISLNK(l->entry.mode));
  assert_string_equal(l->target, "some/where");
  assert_int_equal(read_list(builtin(p, "stat", "l"), list, 8), 1);
  assert_true(S_ISLNK(list[0].entry.mode));
  assert_int_equal(read_list(builtin(p, "stat", "."), list, 8), 1);
  assert_true(S_ISDIR(list[0].entry.mode));
  assert_int_equal(builtin(p, "stat", "none")->error, ENOENT);
  assert_int_equal(builtin(p, "list", "f")->error, ENOTDIR);
}

static void test_mkdir(void **state)
{
  place *p = *state;
  shell(p->dir, "echo > f");
  assert_int_equal(builtin(p, "mkdir", "a/b//c/", "700")->code, 0);
  assert_int_equal(shell(p->dir, "test $(stat -c %%a a) = 755 && test $(stat -c %%a a/b/c) = 700"),
                   0);
  assert_int_equal(builtin(p, "mkdir", "a/b", "755")->code, 0);
  assert_int_equal(builtin(p, "mkdir", "f", "755")->error, EEXIST);
  assert_int_equal(builtin(p, "mkdir", "f/x", "755")->error, EEXIST);
  assert_int_equal(builtin(p, "mkdir", "w", "777")->code, 0);
  assert_int_equal(shell(p->dir, "test $(stat -c %%a w) = 777"), 0);
}

static void test_remove(void **state)
{
  place *p = *state;
  shell(p->dir, "mkdir -p keep t/a/b t/c; echo x > keep/x; ln -s ../keep t/link; echo > t/a/b/f; "
                "chmod 555 t/a; "
                "mkfifo t/fifo; echo > single");
  assert_int_equal(builtin(p, "remove", "t")->code, 0);
  assert_int_equal(builtin(p, "remove", "single")->code, 0);
  assert_int_equal(shell(p->dir, "test ! -e t && test -e keep/x && test ! -e single"), 0);
  assert_int_equal(builtin(p, "remove", "t")->error, ENOENT);
  assert_int_equal(builtin(p, "remove", ".")->error, EINVAL);
  assert_int_equal(builtin(p, "remove", "keep/..")->error, EINVAL);
}

/* Deeper than PATH_MAX can name. */
static void test_deep_tree(void **state)
{
  place *p = *state;
  char path[128];
  snprintf(path, sizeof path, "%s/t", p->dir);
  assert_int_equal(mkdir(path, 0755), 0);
  int at = open(path, O_RDONLY | O_DIRECTORY);
  for (int i = 0; i < 6000; i++) {
    assert_int_equal(mkdirat(at, "d", 0755), 0);
    int next = openat(at, "d", O_RDONLY | O_DIRECTORY);
    assert_true(next >= 0);
    close(at);
    at = next;
  }
  close(at);
  job *j = builtin(p, "pack", "t"); /* could not be unpacked again */
  assert_int_equal(j->error, E2BIG);
  assert_non_null(strstr(j->text, "deep"));
  j = builtin(p, "remove", "t");
  assert_int_equal(j->code, 0);
  assert_int_equal(shell(p->dir, "test ! -e t"), 0);
}

static void test_move(void **state)
{
  place *p = *state;
  shell(p->dir, "mkdir d; echo 1 > a; echo 2 > b");
  assert_int_equal(builtin(p, "move", "a", "d/c")->code, 0);
  assert_int_equal(builtin(p, "move", "b", "d/c")->code, 0);
  assert_int_equal(shell(p->dir, "test ! -e a && test ! -e b && test $(cat d/c) = 2"), 0);
  assert_int_equal(builtin(p, "move", "none", "x")->error, ENOENT);
  assert_int_equal(builtin(p, "move", "d", "../x")->error, EXDEV);
}

static void test_disk(void **state)
{
  place *p = *state;
  unsigned long long used, total, files;
  job *j = builtin(p, "disk", ".");
  assert_int_equal(sscanf(j->data[1], "%llu %llu %llu", &used, &total, &files), 3);
  assert_true(total > 0 && used <= total);
}

static void test_processes(void **state)
{
  place *p = *state;
  job *j = builtin(p, "processes");
  assert_int_equal(j->code, 0);
  assert_int_equal(j->len[1], 0); /* not init, not its stubs, not the built-in; nor the host's */
  client_forget(p->c);
  static const char line[] = "sh\0-c\0echo up; read x";
  job *sleeper = job_start(p->c, 0, "sh", "-c", "echo up; read x", NULL);
  client_until(p->c, sleeper->len[1] > 0);
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_str(&body, MCG_TAG_ARG, "processes");
  j = job_open(p->c, MCG_EXEC_BUILTIN, &body);
  job_finish(p->c, j);
  mcg_process_entry entry;
  assert_true(j->len[1] >= MCG_PROCESS_HEADER);
  mcg_process_decode((const uint8_t *)j->data[1], &entry);
  assert_int_equal(entry.pid, sleeper->pid);
  assert_int_equal(entry.uid, getuid());
  assert_int_equal(entry.command_len, sizeof line);
  assert_memory_equal(j->data[1] + MCG_PROCESS_HEADER, line, sizeof line);
  assert_int_equal(j->len[1], MCG_PROCESS_HEADER + entry.command_len);
  client_send(p->c, MCG_F_KILL, sleeper->channel, 0, NULL);
  job_finish(p->c, sleeper);
}

/* ---- tar ---------------------------------------------------------------------------------- */

static const char *const tree =
    "mkdir -p t/sub/empty t/$(printf 'n%%.0s' $(seq 90))/$(printf 'm%%.0s' $(seq 90))/deep && "
    "echo hello > t/file && chmod 640 t/file && ln t/file t/sub/hard && ln -s ../file t/sub/soft "
    "&& "
    "ln -s /abs/$(printf 'x%%.0s' $(seq 150)) t/longlink && head -c 100000 /dev/urandom > t/big && "
    "echo y > t/$(printf 'n%%.0s' $(seq 90))/$(printf 'm%%.0s' $(seq 90))/deep/$(printf 'k%%.0s' "
    "$(seq 200)) && "
    "echo u > 't/sp ace ü' && touch -d @1234567890 t/file && mkdir t/ro && echo r > t/ro/f && "
    "chmod 555 t/ro && : > t/zero";

static void save(place *p, const char *name, const job *j)
{
  char path[128];
  snprintf(path, sizeof path, "%s/%s", p->dir, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(j->data[1], 1, j->len[1], file), j->len[1]);
  fclose(file);
}

static int same_trees(place *p, const char *one, const char *other)
{
  return shell(
      p->dir,
      "diff -r --no-dereference %s %s && for d in %s %s; do (cd $d && find . ! -name . | sort | "
      "while read -r f; do stat -c '%%n %%f %%h' \"$f\"; done) > $d.list; done; "
      "diff %s.list %s.list",
      one, other, one, other, one, other);
}

static void test_pack_read_by_tar(void **state)
{
  place *p = *state;
  assert_int_equal(shell(p->dir, "%s", tree), 0);
  job *j = builtin(p, "pack", "t");
  assert_int_equal(j->code, 0);
  assert_int_equal(j->len[1] % 512, 0);
  save(p, "out.tar", j);
  assert_int_equal(shell(p->dir, "mkdir x && tar -C x -xpf out.tar"), 0);
  assert_int_equal(same_trees(p, "t", "x"), 0);
  assert_int_equal(shell(p->dir, "test $(stat -c %%Y x/file) = 1234567890"), 0);
}

static void test_pack_leaves_out(void **state)
{
  place *p = *state;
  shell(p->dir, "mkdir -p t/.git/objects t/node t/nodes; echo > t/.git/config; mkfifo t/fifo; echo "
                "> t/f; echo > t/nodes/x");
  save(p, "out.tar", builtin(p, "pack", "t", ".git", "./node/"));
  assert_int_equal(
      shell(p->dir, "test \"$(tar tf out.tar | sort | tr '\\n' ' ')\" = './ f nodes/ nodes/x '"),
      0);
}

static void test_pack_leaves_out_patterns(void **state)
{
  place *p = *state;
  shell(p->dir, "mkdir -p 't/a*b' t/aXb t/d/1/x t/d/2/y t/s/n t/n; cd t; touch a.o s/b.o s/n/f n/f "
                "'a*b/f' aXb/f d/1/x/f d/2/y/f '[x]' x");
  save(p, "out.tar", builtin(p, "pack", "t", "a\\*b", "**/*.o", "d/*/x", "**/n/", "\\[x\\]"));
  assert_int_equal(shell(p->dir, "test \"$(tar tf out.tar | LC_ALL=C sort | tr '\\n' ' ')\" = "
                                 "'./ aXb/ aXb/f d/ d/1/ d/2/ d/2/y/ d/2/y/f s/ x '"),
                   0);
}

static void test_pack_one_file(void **state)
{
  place *p = *state;
  shell(p->dir, "mkdir d; echo content > d/f");
  save(p, "out.tar", builtin(p, "pack", "d/f"));
  assert_int_equal(
      shell(p->dir, "test \"$(tar tf out.tar)\" = f && test \"$(tar xOf out.tar f)\" = content"),
      0);
}

static void test_pack_strict(void **state)
{
  place *p = *state;
  shell(p->dir, "mkdir good link fifo; echo > good/f; ln -s f link/l; mkfifo fifo/p");
  assert_int_equal(builtin(p, "pack-strict", "good")->code, 0);
  assert_int_equal(builtin(p, "pack-strict", "link")->error, ELOOP);
  assert_int_equal(builtin(p, "pack-strict", "fifo")->error, EINVAL);
}

static job *feed(place *p, const char *how, const char *name, const char *to)
{
  size_t len;
  char *bytes = slurp(p->dir, name, &len);
  job *j = builtin_with(p, bytes, len, how, to, NULL);
  free(bytes);
  return j;
}

static job *unpack_file(place *p, const char *name, const char *to)
{
  return feed(p, "unpack", name, to);
}

static void test_replace(void **state)
{
  place *p = *state;
  shell(p->dir,
        "mkdir -p keep t/a/b t/c; echo x > keep/x; ln -s ../keep t/link; echo > t/a/b/f; "
        "chmod 555 t/a; mkfifo t/fifo; echo > t/.hidden; mkdir -p new/a new/link; echo > new/c; "
        "echo > new/a/g; tar -C new -cf new.tar .; mkdir none; tar -C none -cf none.tar .; "
        "head -c 1200 new.tar > cut.tar");
  assert_int_equal(feed(p, "replace", "cut.tar", "t")->error, EBADE);
  assert_int_equal(shell(p->dir, "test \"$(cd t; find . | LC_ALL=C sort | tr '\\n' ' ')\" = "
                                 "'. ./.hidden ./a ./a/b ./a/b/f ./c ./fifo ./link '"),
                   0);
  assert_int_equal(feed(p, "replace", "new.tar", "t")->code, 0);
  assert_int_equal(shell(p->dir, "test \"$(cd t; find . | LC_ALL=C sort | tr '\\n' ' ')\" = "
                                 "'. ./a ./a/g ./c ./link ' && test -e keep/x"),
                   0);
  assert_int_equal(feed(p, "replace", "none.tar", "t")->code, 0);
  assert_int_equal(shell(p->dir, "test -z \"$(ls -A t)\""), 0);
}

static void test_unpack_written_by_tar(void **state)
{
  place *p = *state;
  static const char *const formats[] = {"gnu", "pax", "oldgnu", "posix"};
  assert_int_equal(shell(p->dir, "%s", tree), 0);
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    assert_int_equal(shell(p->dir, "tar --format=%s -C t -cf in.tar .", formats[i]), 0);
    job *j = unpack_file(p, "in.tar", "x/y");
    assert_string_equal(j->text, "");
    assert_int_equal(j->code, 0);
    assert_int_equal(same_trees(p, "t", "x/y"), 0);
    assert_int_equal(
        shell(p->dir, "test $(stat -c %%Y x/y/file) = 1234567890; chmod -R u+w x; rm -rf x"), 0);
  }
}

static void test_round_trip(void **state)
{
  place *p = *state;
  assert_int_equal(shell(p->dir, "%s", tree), 0);
  save(p, "out.tar", builtin(p, "pack", "t"));
  job *j = unpack_file(p, "out.tar", "x");
  assert_int_equal(j->code, 0);
  assert_int_equal(same_trees(p, "t", "x"), 0);
}

static void test_unpack_over_what_is_there(void **state)
{
  place *p = *state;
  shell(p->dir, "mkdir -p t/d x/d; echo new > t/d/f; echo old > x/d/f; ln -s /etc/passwd x/l; echo "
                "safe > t/l; "
                "tar -C t -cf in.tar .");
  assert_int_equal(unpack_file(p, "in.tar", "x")->code, 0);
  assert_int_equal(
      shell(p->dir, "test $(cat x/d/f) = new && test $(cat x/l) = safe && test ! -L x/l"), 0);
}

static void make_tar(place *p, const char *code)
{
  char path[128];
  snprintf(path, sizeof path, "%s/make.py", p->dir);
  FILE *file = fopen(path, "w");
  fprintf(file,
          "import tarfile, io, sys\n"
          "t = tarfile.open('%s/in.tar', 'w')\n"
          "def add(name, kind=tarfile.REGTYPE, data=b'', link='', mode=0o644):\n"
          "  i = tarfile.TarInfo(name); i.type = kind; i.size = len(data); i.linkname = link; "
          "i.mode = mode\n"
          "  t.addfile(i, io.BytesIO(data))\n%s\nt.close()\n",
          p->dir, code);
  fclose(file);
  assert_int_equal(shell(p->dir, "python3 make.py"), 0);
}

/* Refused, with nothing of it there. The same archives and more, against the whole: tests/escape. */
static void test_unpack_hostile(void **state)
{
  place *p = *state;
  static const struct {
    const char *code, *says;
  } cases[] = {
      {"add('../evil', data=b'x')", "../evil in the archive has a name with \"..\""},
      {"add('/tmp/evil', data=b'x')", "/tmp/evil in the archive has an absolute name"},
      {"add('.//tmp/evil', data=b'x')", "an absolute name"},
      {"add('a/../../evil', data=b'x')", "\"..\""},
      {"add('l', tarfile.SYMTYPE, link='..'); add('l/evil', data=b'x')",
       "l/evil in the archive lies"},
      {"add('d', tarfile.SYMTYPE, link='/tmp'); add('d/evil/x', data=b'x')", "a symbolic link"},
      {"add('h', tarfile.LNKTYPE, link='../secret')", "\"..\""},
      {"add('h', tarfile.LNKTYPE, link='/etc/passwd')", "an absolute name"},
      {"add('h', tarfile.LNKTYPE, link='none')", "came not before"},
      {"add('h', tarfile.LNKTYPE, link='kept')", "came not before"},
      {"add('d', tarfile.SYMTYPE, link='.'); add('h', tarfile.LNKTYPE, link='d')", "is no file"},
      {"add('l', tarfile.SYMTYPE, link='..'); add('h', tarfile.LNKTYPE, link='l/secret')",
       "came not before"},
      {"add('dev', tarfile.CHRTYPE)", "dev in the archive is a device or fifo"},
      {"add('dev', tarfile.BLKTYPE)", "device"},
      {"add('fifo', tarfile.FIFOTYPE)", "fifo"},
      {"add('odd', b'Z')", "not known"},
      {"add('sparse', b'S')", "sparse"},
      {"add('d', tarfile.DIRTYPE, mode=0o755); add('d', data=b'x')", "twice"},
      {"add('d', data=b'x'); add('d', tarfile.SYMTYPE, link='x')", "twice"},
      {"add('f', data=b'x'); add('f/g', data=b'x')", "no directory"},
      {"add('x' * 256, data=b'x')", "too long"},
      {"add('x/' * 3000 + 'f', data=b'x')", "too long"},
      {"add('x/' * 1200 + 'f', data=b'x')", "deep"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    shell(p->dir, "mkdir x; echo secret > secret; echo kept > x/kept");
    char code[256];
    snprintf(code, sizeof code, "add('first', data=b'x'); %s", cases[i].code);
    make_tar(p, code);
    job *j = unpack_file(p, "in.tar", "x");
    if (j->error != EBADE || !strstr(j->text, cases[i].says))
      fail_msg("%s: %d (%s)", cases[i].code, j->error, j->text);
    assert_true(strrchr(j->text, '\n')[1] != 0); /* what to do */
    assert_int_equal(shell(p->dir, "test ! -e evil && test ! -e /tmp/evil && test $(cat secret) = "
                                   "secret && test \"$(ls -A x)\" = kept"),
                     0);
    shell(p->dir, "rm -rf x");
  }
}

/* In the way is a directory, found before anything is moved; the rest of what is there stays. */
static void test_unpack_conflict(void **state)
{
  place *p = *state;
  shell(p->dir, "mkdir -p t/d x/d/f; echo new > t/a; echo new > t/d/f; echo old > x/a; "
                "tar -C t -cf in.tar .");
  job *j = unpack_file(p, "in.tar", "x");
  assert_int_equal(j->error, EEXIST);
  assert_non_null(strstr(j->text, "d/f is a directory here"));
  assert_int_equal(
      shell(p->dir, "test $(cat x/a) = old && test \"$(ls -A x)\" = \"$(printf 'a\\nd')\""), 0);
}

/* Killed while it waits for more, it removes what it made; what one left that could not, the next does. */
static void test_killed_unpack_leaves_nothing(void **state)
{
  place *p = *state;
  shell(p->dir, "mkdir -p x t/d; head -c 300000 /dev/urandom > t/d/f; tar -C t -cf in.tar .; "
                "mkdir -p x/.mooncage-unpack-1-0/d; chmod 500 x/.mooncage-unpack-1-0/d");
  size_t len;
  char *bytes = slurp(p->dir, "in.tar", &len);
  job *j = stalled(p, "unpack", "x", NULL);
  job_write(p->c, j, bytes, 200000);
  while (shell(p->dir, "ls x/.mooncage-unpack-*/d/f >/dev/null 2>&1") != 0) usleep(1000);
  assert_int_equal(shell(p->dir, "test ! -e x/.mooncage-unpack-1-0"), 0);
  client_send(p->c, MCG_F_KILL, j->channel, 0, NULL);
  job_finish(p->c, j);
  assert_int_equal(j->error, EINTR);
  assert_int_equal(shell(p->dir, "test -z \"$(ls -A x)\""), 0);
  free(bytes);
}

static void test_unpack_keeps_no_special_bits(void **state)
{
  place *p = *state;
  make_tar(p, "add('s', data=b'x', mode=0o6755); add('d', tarfile.DIRTYPE, mode=0o3777)");
  assert_int_equal(unpack_file(p, "in.tar", "x")->code, 0);
  assert_int_equal(shell(p->dir, "test $(stat -c %%a x/s) = 755 && test $(stat -c %%a x/d) = 777"),
                   0);
}

static void test_unpack_damaged(void **state)
{
  place *p = *state;
  shell(p->dir, "mkdir t; head -c 5000 /dev/urandom > t/f; tar -C t -cf whole.tar .; "
                "head -c 3000 whole.tar > in.tar");
  assert_int_equal(unpack_file(p, "in.tar", "x")->error, EBADE);
  shell(p->dir, "head -c 700 whole.tar > in.tar");
  assert_int_equal(unpack_file(p, "in.tar", "x")->error, EBADE);
  shell(p->dir, "head -c 20480 /dev/urandom > in.tar");
  assert_int_equal(unpack_file(p, "in.tar", "x")->error, EBADE);
  shell(p->dir, "gzip -c whole.tar > in.tar");
  assert_int_equal(unpack_file(p, "in.tar", "x")->error, EBADE);
  shell(p->dir, ": > in.tar");
  assert_int_equal(unpack_file(p, "in.tar", "x")->error, EBADE);
  shell(p->dir, "tar -b 1 -C t -cf in.tar .; truncate -s -1024 in.tar");
  assert_int_equal(unpack_file(p, "in.tar", "x")->error, EBADE); /* the mark of the end alone */
  shell(p->dir, "cat whole.tar whole.tar > in.tar");
  assert_int_equal(unpack_file(p, "in.tar", "x")->error, EBADE);
  assert_int_equal(shell(p->dir, "test -z \"$(ls -A x)\""), 0);
}

static void test_unknown_builtin(void **state)
{
  place *p = *state;
  job *j = builtin(p, "frobnicate");
  assert_int_equal(j->error, ENOSYS);
  assert_non_null(strstr(j->text, "frobnicate"));
  assert_int_equal(builtin(p, "read")->error, EINVAL);
}

#define ONE(test)                                                                                  \
  {                                                                                                \
#test, test, direct, done, NULL                                                                \
  }
#define BOTH(test)                                                                                 \
  {#test " (direct)", test, direct, done, NULL},                                                   \
  {                                                                                                \
#test " (framed)", test, framed, done, NULL                                                    \
  }

int main(void)
{
  const struct CMUnitTest tests[] = {
      BOTH(test_read),
      BOTH(test_read_big),
      ONE(test_read_what_is_no_file),
      ONE(test_paths_stay_inside),
      BOTH(test_write),
      ONE(test_write_that_fails_changes_nothing),
      BOTH(test_killed_write_leaves_no_temporary),
      ONE(test_write_full_disk),
      ONE(test_list_and_stat),
      ONE(test_mkdir),
      ONE(test_remove),
      ONE(test_replace),
      ONE(test_deep_tree),
      ONE(test_move),
      ONE(test_disk),
      BOTH(test_processes),
      BOTH(test_pack_read_by_tar),
      ONE(test_pack_leaves_out),
      ONE(test_pack_leaves_out_patterns),
      ONE(test_pack_one_file),
      ONE(test_pack_strict),
      BOTH(test_unpack_written_by_tar),
      ONE(test_round_trip),
      ONE(test_unpack_over_what_is_there),
      ONE(test_unpack_hostile),
      ONE(test_unpack_conflict),
      BOTH(test_killed_unpack_leaves_nothing),
      ONE(test_unpack_keeps_no_special_bits),
      ONE(test_unpack_damaged),
      ONE(test_unknown_builtin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
