/* The sink of files from many threads at once, what fails it, and what it keeps; and what verify finds. */
#include "audit/sinks.h"
#include "audit/verify.h"
#include "host.h"
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define WRITERS 16
#define LINES 100

static char directory[64], path[96];

/* The clock that names files of a month; libc's own where it is not set. */
static time_t fake_now;

time_t time(time_t *out)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  time_t told = fake_now ? fake_now : now.tv_sec;
  if (out) *out = told;
  return told;
}

static int place(void **state)
{
  (void)state;
  strcpy(directory, "/tmp/mooncage-audit-XXXXXX");
  assert_non_null(mkdtemp(directory));
  snprintf(path, sizeof path, "%s/a.jsonl", directory);
  setenv("XDG_STATE_HOME", directory, 1);
  return 0;
}

static int unplace(void **state)
{
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", directory);
  return system(command);
}

static mcg_line *line_of(const char *shell)
{
  const mcg_event event = {.shell = shell};
  const mcg_stamp stamp = {.op = "exec", .phase = "point", .id = "x", .duration_s = -1};
  mcg_line *line = mcg_event_line(&event, &stamp, NULL);
  assert_non_null(line);
  return line;
}

static mcg_sink *sink_at(const char *at, bool durable)
{
  const mcg_jsonl_options options = {.path = at, .durable = durable};
  mcg_sink *sink = mcg_jsonl_new(NULL, &options, NULL);
  assert_non_null(sink);
  return sink;
}

static int put(mcg_sink *sink, const char *shell, mcg_error **err)
{
  mcg_line *line = line_of(shell);
  mcg_delivery delivery = {.line = line};
  int rc = sink->type->write(sink, &delivery, true, err);
  mcg_line_unref(line);
  return rc;
}

static void *many(void *arg)
{
  mcg_sink *sink = arg;
  char shell[6000]; /* longer than a pipe takes at once */
  memset(shell, 'x', sizeof shell);
  shell[sizeof shell - 1] = '\0';
  for (int i = 0; i < LINES; i++) put(sink, shell, NULL);
  return NULL;
}

static json_t *verified(void)
{
  json_t *report = mcg_verify_file(path, NULL, 0);
  assert_non_null(report);
  return report;
}

static void many_writers_one_chain(void **state)
{
  (void)state;
  pthread_t threads[WRITERS];
  mcg_sink *sinks[WRITERS];
  for (int i = 0; i < WRITERS; i++) {
    sinks[i] = sink_at(path, i % 2);
    assert_int_equal(pthread_create(&threads[i], NULL, many, sinks[i]), 0);
  }
  for (int i = 0; i < WRITERS; i++) {
    pthread_join(threads[i], NULL);
    sinks[i]->type->free(sinks[i]);
  }
  json_t *report = verified();
  assert_true(json_is_true(json_object_get(report, "ok")));
  assert_int_equal(json_integer_value(json_object_get(report, "lines")), WRITERS * LINES);
  assert_int_equal(json_integer_value(json_object_get(report, "last_seq")), WRITERS * LINES);
  assert_string_equal(json_string_value(json_object_get(report, "anchor")), "ok");
  json_decref(report);
}

/* No line is so long that the next writer would not believe it. */
static void a_large_detail_is_cut(void **state)
{
  (void)state;
  json_t *detail = json_object(), *list = json_array();
  for (int i = 0; i < 20000; i++)
    json_array_append_new(list, json_string("a candidate, and why it does not fit"));
  json_object_set_new(detail, "candidates", list);
  const mcg_event event = {.detail = detail};
  const mcg_stamp stamp = {.op = "select", .phase = "point", .id = "x", .duration_s = -1};
  mcg_line *line = mcg_event_line(&event, &stamp, NULL);
  assert_non_null(line);
  assert_true(line->len < 1024);
  mcg_line_unref(line);
  json_decref(detail);
}

/* The second is spelled once: a later line has a later one. */
static void each_line_has_its_time(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct tm tm = {0};
    time_t before = time(NULL);
    mcg_line *line = line_of("x");
    const char *ts = memmem(line->text, line->len, "\"ts\":\"", 6);
    assert_non_null(ts);
    assert_non_null(strptime(ts + 6, "%Y-%m-%dT%H:%M:%S", &tm));
    assert_in_range(timegm(&tm), before, time(NULL));
    mcg_line_unref(line);
    while (i == 0 && time(NULL) == before) usleep(10000);
  }
}

/* A writer that may not wait leaves a file that another holds alone. */
static void who_may_not_wait_does_not(void **state)
{
  (void)state;
  mcg_sink *sink = sink_at(path, false);
  assert_int_equal(put(sink, "one", NULL), 0);
  FILE *other = fopen(path, "r");
  assert_non_null(other);
  assert_int_equal(flock(fileno(other), LOCK_EX), 0);
  mcg_line *line = line_of("two");
  mcg_delivery delivery = {.line = line};
  mcg_error *err = NULL;
  assert_int_equal(sink->type->write(sink, &delivery, false, &err), 1);
  assert_null(err);
  fclose(other);
  assert_int_equal(sink->type->write(sink, &delivery, false, &err), 0);
  mcg_line_unref(line);
  sink->type->free(sink);
  json_t *report = verified();
  assert_int_equal(json_integer_value(json_object_get(report, "lines")), 2);
  json_decref(report);
}

static void a_limit_on_files_leaves_it_whole(void **state)
{
  (void)state;
  mcg_sink *sink = sink_at(path, false);
  mcg_error *err = NULL;
  assert_int_equal(put(sink, "fits", NULL), 0);
  struct rlimit before, small = {.rlim_cur = 1000, .rlim_max = RLIM_INFINITY};
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  small.rlim_max = before.rlim_max;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  char shell[2000];
  memset(shell, 'x', sizeof shell);
  shell[sizeof shell - 1] = '\0';
  assert_int_equal(put(sink, shell, &err), -1);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  assert_int_equal(err->code, MCG_AUDIT_FAILED);
  assert_non_null(strstr(err->fix, "--audit"));
  mcg_error_free(err);
  assert_int_equal(put(sink, "again", NULL), 0);
  sink->type->free(sink);
  json_t *report = verified();
  assert_true(json_is_true(json_object_get(report, "ok")));
  assert_int_equal(json_integer_value(json_object_get(report, "lines")), 2);
  json_decref(report);
}

/* As if the machine had gone down: what the anchor does not know yet is no problem. */
static void an_anchor_may_be_behind(void **state)
{
  (void)state;
  mcg_sink *sink = sink_at(path, false);
  char command[256];
  assert_int_equal(put(sink, "one", NULL), 0);
  snprintf(command, sizeof command, "cp -r %s/mooncage %s/kept", directory, directory);
  assert_int_equal(system(command), 0);
  assert_int_equal(put(sink, "two", NULL), 0);
  sink->type->free(sink);
  snprintf(command, sizeof command, "rm -r %s/mooncage && mv %s/kept %s/mooncage", directory,
           directory, directory);
  assert_int_equal(system(command), 0);
  json_t *report = verified();
  assert_true(json_is_true(json_object_get(report, "ok")));
  assert_string_equal(json_string_value(json_object_get(report, "anchor")), "behind");
  json_decref(report);
}

/* What the next writer says of a log whose anchor was spoilt so. */
static void told_after(const char *spoil, const char *what, bool sound)
{
  char command[512], found[512];
  mcg_sink *sink = sink_at(path, false);
  assert_int_equal(put(sink, "one", NULL), 0);
  assert_int_equal(put(sink, "two", NULL), 0);
  sink->type->free(sink);
  snprintf(command, sizeof command, "cd %s && a=$(echo mooncage/anchors/*) && %s", directory,
           spoil);
  assert_int_equal(system(command), 0);
  sink = sink_at(path, false);
  assert_int_equal(put(sink, "three", NULL), 0);
  sink->type->free(sink);
  snprintf(found, sizeof found, "grep -c '\"what\":\"%s\"' %s >/dev/null", what, path);
  assert_int_equal(system(found), 0);
  json_t *report = verified();
  assert_int_equal(json_is_true(json_object_get(report, "ok")), sound);
  assert_string_equal(json_string_value(json_object_get(report, "anchor")), "ok");
  json_decref(report);
  snprintf(command, sizeof command, "rm -r %s/mooncage %s", directory, path);
  assert_int_equal(system(command), 0);
}

static void what_was_spoilt_is_told_by_the_next(void **state)
{
  (void)state;
  told_after("echo garbled >$a", "bad_anchor", false);
  told_after("sed -i 's/head ./head z/' $a", "bad_anchor", false);
  told_after("rm $a", "no_anchor", true);
  told_after("sed -i 's/seq 2/seq 1/' $a", "rewritten", false); /* its head is of another line */
  told_after("sed -i 's/seq 2/seq 3/' $a", "missing_lines", false);
  told_after("sed -i 's/base 0 seq 2/base 1 seq 1/' $a", "unanchored_lines", false);
}

/* Through the engine: points from the loop, on a thread, and all there when it has closed. */
static void what_was_said_is_there_at_the_end(void **state)
{
  (void)state;
  struct mcg_sinks *sinks;
  json_t *config = json_pack("{s:s, s:s, s:b}", "type", "jsonl", "path", path, "durable", 1);
  assert_int_equal(engine_up(NULL), 0);
  assert_int_equal(mcg_audit_read(engine, config, &sinks, NULL), 0);
  for (int i = 0; i < 500; i++) {
    mcg_line *line = line_of("point");
    mcg_writer_post(sinks->list[0], line, 0, NULL);
    mcg_line_unref(line);
  }
  assert_int_equal(engine_down(NULL), 0);
  mcg_sinks_free(sinks); /* late, as by a session that somebody holds */
  json_decref(config);
  json_t *report = verified();
  assert_true(json_is_true(json_object_get(report, "ok")));
  assert_int_equal(json_integer_value(json_object_get(report, "lines")), 500);
  json_decref(report);
}

static struct mcg_sinks *engine_with(const char *log, bool durable)
{
  struct mcg_sinks *sinks;
  json_t *config = json_pack("{s:s, s:s, s:b}", "type", "jsonl", "path", log, "durable", durable);
  assert_int_equal(engine_up(NULL), 0);
  assert_int_equal(mcg_audit_read(engine, config, &sinks, NULL), 0);
  json_decref(config);
  return sinks;
}

static void post_line(struct mcg_sinks *sinks, const char *shell, mcg_posting *posting)
{
  mcg_line *line = line_of(shell);
  mcg_writer_post(sinks->list[0], line, 0, posting);
  mcg_line_unref(line);
}

/* The engine's end where lines are lost, after at most some seconds. */
static void ends_with_loss(struct mcg_sinks *sinks, const char *lost)
{
  outcome out = {0};
  time_t before = time(NULL);
  assert_true(mcg_engine_owes(engine));
  assert_int_equal(mcg_engine_close(engine, take_done, &out, NULL), 0);
  until(&out);
  assert_true(time(NULL) - before < 10);
  assert_non_null(out.error);
  assert_int_equal(out.error->code, MCG_AUDIT_FAILED);
  assert_non_null(strstr(out.error->message, lost));
  mcg_error_free(out.error);
  mcg_engine_free(engine);
  mcg_sinks_free(sinks);
}

static void what_is_lost_is_said_at_the_end(void **state)
{
  (void)state;
  assert_int_equal(mkdir(path, 0700), 0);
  struct mcg_sinks *sinks = engine_with(path, false);
  assert_false(mcg_engine_owes(engine));
  post_line(sinks, "one", NULL);
  post_line(sinks, "two", NULL);
  ends_with_loss(sinks, "2 lines");
}

static void what_can_be_written_in_the_end_is(void **state)
{
  (void)state;
  assert_int_equal(mkdir(path, 0700), 0);
  struct mcg_sinks *sinks = engine_with(path, false);
  post_line(sinks, "one", NULL);
  assert_true(mcg_engine_owes(engine));
  assert_int_equal(rmdir(path), 0);
  assert_int_equal(engine_down(NULL), 0);
  mcg_sinks_free(sinks);
  json_t *report = verified();
  assert_int_equal(json_integer_value(json_object_get(report, "lines")), 1);
  json_decref(report);
}

static FILE *held_log(void)
{
  FILE *other = fopen(path, "a");
  assert_non_null(other);
  assert_int_equal(flock(fileno(other), LOCK_EX), 0);
  return other;
}

static void turn_until_answered(const mcg_posting *posting)
{
  for (int i = 0; i < 500 && posting->left; i++) turn_for(10);
  assert_int_equal(posting->left, 0);
}

/* Of those who wait for another process the one that gives up is answered; the others go on, and what
 * has happened stays in its order. */
static void the_wait_for_a_lock_can_be_given_up(void **state)
{
  (void)state;
  struct mcg_sinks *sinks = engine_with(path, false);
  FILE *other = held_log();
  mcg_posting goes = {.engine = engine}, stays = {.engine = engine};
  mcg_posting kept = {.engine = engine, .keeps = true};
  post_line(sinks, "goes", &goes);
  post_line(sinks, "first", NULL);
  post_line(sinks, "stays", &stays);
  post_line(sinks, "second", &kept);
  turn_for(50);
  assert_int_equal(goes.left, 1);
  mcg_writer_give_up(sinks->list[0]->writer, &goes);
  turn_until_answered(&goes);
  assert_int_equal(goes.error->code, MCG_AUDIT_FAILED);
  assert_non_null(strstr(goes.error->message, "holds its lock"));
  mcg_error_free(goes.error);
  mcg_writer_give_up(sinks->list[0]->writer, &kept);
  turn_until_answered(&kept);
  mcg_error_free(kept.error);
  assert_int_equal(stays.left, 1);
  fclose(other);
  turn_until_answered(&stays);
  assert_null(stays.error);
  assert_int_equal(engine_down(NULL), 0);
  mcg_sinks_free(sinks);
  char command[256];
  snprintf(command, sizeof command,
           "[ \"$(grep -o '\"shell\":\"[a-z]*' %s | tr -d '\\n')\" = "
           "'\"shell\":\"first\"shell\":\"second\"shell\":\"stays' ]",
           path);
  assert_int_equal(system(command), 0);
}

static void nor_does_the_end_wait_for_ever(void **state)
{
  (void)state;
  for (int durable = 0; durable < 2; durable++) {
    struct mcg_sinks *sinks = engine_with(path, durable);
    FILE *other = held_log();
    post_line(sinks, "one", NULL);
    ends_with_loss(sinks, "1 line is");
    fclose(other);
  }
}

/* Full, and its name is taken: others are not kept from the log, and it is tried again. */
static void a_rotation_that_fails_keeps_no_lock(void **state)
{
  (void)state;
  mcg_error *err = NULL;
  char aside[128];
  const mcg_jsonl_options options = {.path = path, .rotate_bytes = 100};
  mcg_sink *sink = mcg_jsonl_new(NULL, &options, NULL);
  assert_int_equal(put(sink, "one", NULL), 0);
  snprintf(aside, sizeof aside, "%s/a.000000000001.jsonl", directory);
  assert_int_equal(mkdir(aside, 0700), 0);
  assert_int_equal(put(sink, "two", &err), -1);
  assert_int_equal(err->code, MCG_AUDIT_FAILED);
  mcg_error_free(err);
  fclose(held_log());
  assert_int_equal(rmdir(aside), 0);
  assert_int_equal(put(sink, "two", NULL), 0);
  assert_int_equal(access(aside, F_OK), 0);
  sink->type->free(sink);
}

static json_t *verified_month(const char *month)
{
  snprintf(path, sizeof path, "%s/log/%u-%s.jsonl", directory, (unsigned)geteuid(), month);
  return verified();
}

/* Each month has a file and a chain of its own, also where the clock is set back. */
static void a_month_begins_a_file(void **state)
{
  (void)state;
  char log[80];
  snprintf(log, sizeof log, "%s/log", directory);
  const mcg_jsonl_options options = {.dir = log};
  mcg_sink *sink = mcg_jsonl_new(NULL, &options, NULL);
  assert_non_null(sink);
  fake_now = 1798761599; /* 2026-12-31T23:59:59Z */
  assert_int_equal(put(sink, "last", NULL), 0);
  fake_now++;
  assert_int_equal(put(sink, "first", NULL), 0);
  assert_int_equal(put(sink, "second", NULL), 0);
  fake_now--;
  assert_int_equal(put(sink, "late", NULL), 0);
  fake_now = 0;
  sink->type->free(sink);
  static const char *const months[] = {"2026-12", "2027-01"};
  for (int i = 0; i < 2; i++) {
    json_t *report = verified_month(months[i]);
    assert_true(json_is_true(json_object_get(report, "ok")));
    assert_int_equal(json_integer_value(json_object_get(report, "lines")), 2);
    assert_int_equal(json_integer_value(json_object_get(report, "first_seq")), 1);
    json_decref(report);
  }
}

static void put_event(mcg_sink *sink, const char *writer, const char *phase, const char *id)
{
  const mcg_event event = {.shell = "\"id\":\"b\" \"phase\":\"finish\""};
  const mcg_stamp stamp = {
      .op = "exec", .engine = writer, .phase = phase, .id = id, .session = "s", .duration_s = -1};
  mcg_line *line = mcg_event_line(&event, &stamp, NULL);
  mcg_delivery delivery = {.line = line};
  assert_int_equal(sink->type->write(sink, &delivery, true, NULL), 0);
  mcg_line_unref(line);
}

static mcg_sink *sink_of(const char *writer, const char *dir, uint64_t rotate)
{
  const mcg_jsonl_options options = {
      .path = dir ? NULL : path, .dir = dir, .engine = writer, .rotate_bytes = rotate};
  mcg_sink *sink = mcg_jsonl_new(NULL, &options, NULL);
  assert_non_null(sink);
  return sink;
}

/* How many lines of all files there have both texts. */
static int count_lines(const char *one, const char *other)
{
  char command[256], number[16] = "";
  snprintf(command, sizeof command,
           "cat %s/*.jsonl %s/log/*.jsonl 2>/dev/null | grep -F '%s' | grep -cF '%s'", directory,
           directory, one, other);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  assert_non_null(fgets(number, sizeof number, pipe));
  pclose(pipe);
  return atoi(number);
}

/* An engine that is killed with two starts open, of three; `dir`: over the end of a month. */
static void die_between(const char *dir, uint64_t rotate)
{
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    fake_now = 1798761599;
    mcg_sink *sink = sink_of("aaaaaaaa", dir, rotate);
    put_event(sink, "aaaaaaaa", "start", "a");
    put_event(sink, "aaaaaaaa", "start", "b");
    fake_now++;
    put_event(sink, NULL, "finish", "a");
    put_event(sink, "aaaaaaaa", "start", "c");
    kill(getpid(), SIGKILL);
  }
  assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void recovered_once(const char *dir, uint64_t rotate)
{
  mcg_sink *lives = sink_of("bbbbbbbb", dir, rotate);
  fake_now = 1798761600;
  put_event(lives, "bbbbbbbb", "start", "d");
  die_between(dir, rotate);
  for (int i = 0; i < 2; i++) { /* the second finds nothing left to do */
    mcg_sink *next = sink_of(i ? "dddddddd" : "cccccccc", dir, rotate);
    put_event(next, NULL, "point", "p");
    next->type->free(next);
  }
  assert_int_equal(count_lines("\"phase\":\"finish\"", "\"outcome\":\"unknown\""), 2);
  assert_int_equal(count_lines("\"outcome\":\"unknown\"", ",\"id\":\"b\",\"mono\""), 1);
  assert_int_equal(count_lines("\"outcome\":\"unknown\"", ",\"id\":\"c\",\"mono\""), 1);
  assert_int_equal(count_lines("\"outcome\":\"unknown\"", ",\"id\":\"d\",\"mono\""), 0);
  put_event(lives, NULL, "finish", "d");
  lives->type->free(lives);
  fake_now = 0;
}

static void what_the_dead_left_open_is_finished_once(void **state)
{
  (void)state;
  recovered_once(NULL, 0);
  json_t *report = verified();
  assert_true(json_is_true(json_object_get(report, "ok")));
  json_decref(report);
}

static void also_in_files_put_aside(void **state)
{
  (void)state;
  recovered_once(NULL, 600);
}

static void also_over_the_end_of_a_month(void **state)
{
  (void)state;
  char log[80];
  snprintf(log, sizeof log, "%s/log", directory);
  recovered_once(log, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(many_writers_one_chain, place, unplace),
      cmocka_unit_test(a_large_detail_is_cut),
      cmocka_unit_test(each_line_has_its_time),
      cmocka_unit_test_setup_teardown(who_may_not_wait_does_not, place, unplace),
      cmocka_unit_test_setup_teardown(a_limit_on_files_leaves_it_whole, place, unplace),
      cmocka_unit_test_setup_teardown(an_anchor_may_be_behind, place, unplace),
      cmocka_unit_test_setup_teardown(what_was_spoilt_is_told_by_the_next, place, unplace),
      cmocka_unit_test_setup_teardown(a_month_begins_a_file, place, unplace),
      cmocka_unit_test_setup_teardown(what_the_dead_left_open_is_finished_once, place, unplace),
      cmocka_unit_test_setup_teardown(also_in_files_put_aside, place, unplace),
      cmocka_unit_test_setup_teardown(also_over_the_end_of_a_month, place, unplace),
      cmocka_unit_test_setup_teardown(what_was_said_is_there_at_the_end, place, unplace),
      cmocka_unit_test_setup_teardown(what_is_lost_is_said_at_the_end, place, unplace),
      cmocka_unit_test_setup_teardown(what_can_be_written_in_the_end_is, place, unplace),
      cmocka_unit_test_setup_teardown(the_wait_for_a_lock_can_be_given_up, place, unplace),
      cmocka_unit_test_setup_teardown(nor_does_the_end_wait_for_ever, place, unplace),
      cmocka_unit_test_setup_teardown(a_rotation_that_fails_keeps_no_lock, place, unplace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
