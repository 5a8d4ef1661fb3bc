/* Files of sandboxes, copies from and to the host, the workspace as a stream; with and without walls. */
#include "fiber.h"
#include "host.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const configs[] = {
    "{}",
    "{\"backend\":{\"id\":\"jail\",\"options\":{\"carrier\":\"framed\"}}}",
    "{\"backend\":\"subprocess\"}",
};
#define CONFIGS (sizeof configs / sizeof *configs)

static mcg_session *sessions[CONFIGS], *session;
static char directory[64];

static int all_up(void **state)
{
  engine_up(state);
  strcpy(directory, "/tmp/mcg-files-XXXXXX");
  assert_non_null(mkdtemp(directory));
  for (size_t i = 0; i < CONFIGS; i++) sessions[i] = open_session(configs[i]);
  return 0;
}

static int all_down(void **state)
{
  char command[96];
  for (size_t i = 0; i < CONFIGS; i++) close_session(sessions[i]);
  snprintf(command, sizeof command, "rm -rf %s", directory);
  assert_int_equal(system(command), 0);
  return engine_down(state);
}

#define CASE(name)                                                                                 \
  static void name##_here(void);                                                                   \
  static void name(void **state)                                                                   \
  {                                                                                                \
    (void)state;                                                                                   \
    for (size_t i = 0; i < CONFIGS; i++) {                                                         \
      session = sessions[i];                                                                       \
      name##_here();                                                                               \
    }                                                                                              \
  }                                                                                                \
  static void name##_here(void)

typedef struct listing {
  outcome out;
  size_t count;
  mcg_file_info files[16];
  char names[16][64], types[16][16], targets[16][64];
} listing;

static void take_bytes(void *data, const void *bytes, size_t len, mcg_error *error)
{
  outcome *out = data;
  if (bytes) out->text = copy_bytes(bytes, len);
  out->len = len;
  take_done(out, error);
}

static void take_text(void *data, const char *json, mcg_error *error)
{
  outcome *out = data;
  if (json) out->text = copy_bytes(json, strlen(json));
  take_done(out, error);
}

static void take_files(void *data, const mcg_file_info *files, size_t count, mcg_error *error)
{
  listing *list = data;
  list->count = count;
  for (size_t i = 0; i < count && i < 16; i++) {
    list->files[i] = files[i];
    snprintf(list->names[i], 64, "%s", files[i].name);
    snprintf(list->types[i], 16, "%s", files[i].type);
    snprintf(list->targets[i], 64, "%s", files[i].target ? files[i].target : "");
  }
  take_done(&list->out, error);
}

/* Finishes what was started, or takes its refusal; the error's code, or -1. */
static int end_of(int rc, mcg_error *refused, outcome *out)
{
  if (rc < 0)
    out->error = refused;
  else
    until(out);
  return out->error ? (int)out->error->code : -1;
}

static int write_file(const char *path, const void *bytes, size_t len, uint32_t mode)
{
  outcome out = {0};
  mcg_error *err = NULL;
  int rc = mcg_file_write(session, path, bytes, len, mode, take_done, &out, &err);
  int code = end_of(rc, err, &out);
  outcome_fini(&out);
  return code;
}

static int read_file(const char *path, uint64_t most, outcome *out)
{
  mcg_error *err = NULL;
  *out = (outcome){0};
  int rc = mcg_file_read(session, path, most, take_bytes, out, &err);
  return end_of(rc, err, out);
}

static void expect_file(const char *path, const char *text)
{
  outcome out;
  if (read_file(path, 0, &out) >= 0) fail_msg("%s: %s", path, out.error->message);
  assert_int_equal(out.len, strlen(text));
  assert_memory_equal(out.text, text, out.len);
  outcome_fini(&out);
}

static void shell(const char *text)
{
  outcome out;
  run_shell(session, text, &out);
  if (out.result.exit_code) fail_msg("%s: %s", text, out.result.stderr_data);
  outcome_fini(&out);
}

CASE(writes_and_reads)
{
  size_t len = 1 << 20;
  char *bytes = malloc(len);
  for (size_t i = 0; i < len; i++) bytes[i] = (char)((i * 2654435761u) >> 15);
  assert_int_equal(write_file("big", bytes, len, 0600), -1);
  outcome out;
  assert_int_equal(read_file("big", 0, &out), -1);
  assert_int_equal(out.len, len);
  assert_memory_equal(out.text, bytes, len);
  outcome_fini(&out);
  free(bytes);
  assert_int_equal(read_file("big", 100, &out), MCG_QUOTA);
  outcome_fini(&out);
  assert_int_equal(write_file("empty", "", 0, 0), -1);
  expect_file("empty", "");
  shell("test $(stat -c %a big) = 600 && test $(stat -c %a empty) = 644");
  assert_int_equal(write_file("big", "small", 5, 0755), -1);
  expect_file("big", "small");
}

CASE(refuses_what_is_no_file)
{
  outcome out;
  shell("mkdir -p dir && rm -f pipe && mkfifo pipe");
  assert_int_equal(read_file("missing", 0, &out), MCG_NOT_FOUND);
  outcome_fini(&out);
  assert_int_equal(read_file("dir", 0, &out), MCG_INVALID);
  outcome_fini(&out);
  assert_int_equal(read_file("pipe", 0, &out), MCG_INVALID);
  outcome_fini(&out);
  assert_int_equal(read_file("../etc/passwd", 0, &out), MCG_INVALID);
  outcome_fini(&out);
  assert_int_equal(read_file("dir/../../x", 0, &out), MCG_INVALID);
  outcome_fini(&out);
  assert_int_equal(read_file("", 0, &out), MCG_INVALID);
  outcome_fini(&out);
  assert_int_equal(write_file("no/such/dir/file", "x", 1, 0), MCG_NOT_FOUND);
  assert_int_equal(write_file("x", "x", 1, 01777), MCG_INVALID);
}

CASE(lists_and_moves)
{
  listing list = {0};
  outcome out = {0};
  shell("rm -rf * && mkdir d && echo hello > d/b && ln -s b d/a && mkdir d/c");
  assert_int_equal(mcg_file_list(session, "d", take_files, &list, NULL), 0);
  until(&list.out);
  assert_null(list.out.error);
  assert_int_equal(list.count, 3);
  assert_string_equal(list.names[0], "a");
  assert_string_equal(list.types[0], "symlink");
  assert_string_equal(list.targets[0], "b");
  assert_string_equal(list.names[1], "b");
  assert_string_equal(list.types[1], "file");
  assert_int_equal(list.files[1].size, 6);
  assert_string_equal(list.types[2], "directory");
  list = (listing){0};
  assert_int_equal(mcg_file_stat(session, "d/a", take_files, &list, NULL), 0);
  until(&list.out);
  assert_int_equal(list.count, 1);
  assert_string_equal(list.types[0], "symlink");
  assert_int_equal(mcg_file_move(session, "d/b", "e", take_done, &out, NULL), 0);
  until(&out);
  assert_null(out.error);
  expect_file("e", "hello\n");
  out = (outcome){0};
  assert_int_equal(mcg_file_mkdir(session, "x/y/z", 0700, take_done, &out, NULL), 0);
  until(&out);
  assert_null(out.error);
  out = (outcome){0};
  assert_int_equal(mcg_file_remove(session, "d", take_done, &out, NULL), 0);
  until(&out);
  assert_null(out.error);
  shell("test -d x/y/z && ! test -e d && test -f e");
}

/* ---- copies ------------------------------------------------------------------------------- */

static int upload(const char *from, const char *to)
{
  outcome out = {0};
  mcg_error *err = NULL;
  int rc = mcg_file_upload(session, from, to, take_done, &out, NULL, &err);
  int code = end_of(rc, err, &out);
  outcome_fini(&out);
  return code;
}

static int download(const char *from, const char *to)
{
  outcome out = {0};
  mcg_error *err = NULL;
  int rc = mcg_file_download(session, from, to, take_done, &out, NULL, &err);
  int code = end_of(rc, err, &out);
  outcome_fini(&out);
  return code;
}

static void on_host(const char *format)
{
  char command[512];
  snprintf(command, sizeof command, "cd %s && { %s; }", directory, format);
  if (system(command) != 0) fail_msg("%s", command);
}

static const char *host_path(const char *name)
{
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return path;
}

CASE(copies_both_ways)
{
  shell("rm -rf *");
  on_host("rm -rf * && mkdir -p tree/sub && echo one > tree/sub/f && chmod 750 tree/sub/f && echo "
          "two > tree/g && echo f > file");
  assert_int_equal(upload(host_path("tree"), "in"), -1);
  assert_int_equal(upload(host_path("file"), "in/"), -1);
  shell("test \"$(cat in/sub/f in/g in/file | tr '\\n' ' ')\" = 'one two f ' && test $(stat -c %a "
        "in/sub/f) = 750");
  shell("echo more > in/sub/h");
  assert_int_equal(download("in", host_path("out")), -1);
  assert_int_equal(download("in/sub/h", host_path("")), -1);
  on_host("test \"$(cat out/sub/f out/sub/h h | tr '\\n' ' ')\" = 'one more more '");
  on_host("ln -s file link; ln -s /etc/passwd tree/evil");
  assert_int_equal(upload(host_path("link"), "x"), MCG_INVALID);
  assert_int_equal(upload(host_path("tree"), "y"), MCG_INVALID);
  assert_int_equal(upload(host_path("missing"), "z"), MCG_NOT_FOUND);
  assert_int_equal(download("missing", host_path("z")), MCG_NOT_FOUND);
  shell("ln -s /etc/passwd in/evil");
  assert_int_equal(download("in", host_path("evil")), MCG_INVALID);
}

typedef struct tape {
  outcome out;
  char *bytes;
  size_t len, cap, at;
  bool on_fiber; /* where the host's code may not run: its stack is as deep as any */
} tape;

static bool record(void *data, const void *bytes, size_t len)
{
  tape *t = data;
  t->on_fiber |= mcg_fiber_current(engine) != NULL;
  if (t->len + len > t->cap) t->bytes = realloc(t->bytes, t->cap = (t->len + len) * 2);
  memcpy(t->bytes + t->len, bytes, len);
  t->len += len;
  return true;
}

static long play(void *data, void *buffer, size_t cap)
{
  tape *t = data;
  t->on_fiber |= mcg_fiber_current(engine) != NULL;
  size_t part = t->len - t->at < cap ? t->len - t->at : cap;
  memcpy(buffer, t->bytes + t->at, part);
  t->at += part;
  return (long)part;
}

static void taped(void *data, mcg_error *error)
{
  take_done(&((tape *)data)->out, error);
}

CASE(persists_and_restores)
{
  tape t = {0};
  shell("rm -rf * && mkdir -p a/b && echo x > a/b/c && ln -s c a/b/l && chmod 700 a && head -c "
        "300000 "
        "/dev/zero > a/z");
  assert_int_equal(mcg_workspace_persist(session, record, taped, &t, NULL, NULL), 0);
  until(&t.out);
  assert_null(t.out.error);
  assert_true(t.len > 300000);
  shell("rm -rf *");
  t.out = (outcome){0};
  assert_int_equal(mcg_workspace_restore(session, play, taped, &t, NULL, NULL), 0);
  until(&t.out);
  if (t.out.error) fail_msg("%s", t.out.error->message);
  shell("test $(cat a/b/l) = x && test $(readlink a/b/l) = c && test $(stat -c %a a) = 700 && test "
        "$(stat -c %s a/z) = 300000");
  assert_false(t.on_fiber);
  free(t.bytes);
}

CASE(tells_figures_and_processes)
{
  outcome out = {0};
  assert_int_equal(mcg_session_stats(session, take_text, &out, NULL), 0);
  until(&out);
  if (out.error) fail_msg("%s", out.error->message);
  assert_non_null(strstr(out.text, "disk_used_bytes"));
  outcome_fini(&out);
  shell("sleep 20 &");
  bool there = false;
  for (int tries = 0; tries < 200 && !there; tries++) { /* it may be between two programs */
    assert_int_equal(mcg_session_processes(session, take_text, &out, NULL), 0);
    until(&out);
    if (out.error) fail_msg("%s", out.error->message);
    there = strstr(out.text, "\"command\":\"sleep 20\"") != NULL;
    outcome_fini(&out);
    if (!there) turn_for(10);
  }
  assert_true(there);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(writes_and_reads),      cmocka_unit_test(refuses_what_is_no_file),
      cmocka_unit_test(lists_and_moves),       cmocka_unit_test(copies_both_ways),
      cmocka_unit_test(persists_and_restores), cmocka_unit_test(tells_figures_and_processes),
  };
  return cmocka_run_group_tests(tests, all_up, all_down);
}
