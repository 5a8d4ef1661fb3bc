/* Foreign JSON, mistyped words, random names. */
#include "turning.h"
#include <jansson.h>
#include <sys/wait.h>
#include <unistd.h>

static json_t *parse(const char *text, mcg_error **err)
{
  return mcg_json_parse(text, strlen(text), err);
}

static void good_text_is_read(void **state)
{
  (void)state;
  mcg_error *err = NULL;
  auto_json json_t *json = parse("{\"a\":[1,2.5,\"x\\n\",true,null],\"b\":{}}", &err);
  assert_null(err);
  assert_int_equal(json_array_size(json_object_get(json, "a")), 5);
  auto_json json_t *big = parse("[9007199254740993]", &err); /* 2^53 + 1 is no double */
  assert_true(json_integer_value(json_array_get(big, 0)) == 9007199254740993);
}

static void bad_text_is_invalid(void **state)
{
  (void)state;
  static const char *const texts[] = {"",
                                      "{",
                                      "[1,]",
                                      "{\"a\":1,\"a\":2}",
                                      "\"text\"",
                                      "1",
                                      "nul",
                                      "[\"\xff\"]",
                                      "[\"\\u0000\"]",
                                      "[\"\\ud800\"]",
                                      "{} {}",
                                      "[1e999]",
                                      "[99999999999999999999]",
                                      "[\"a",
                                      "]",
                                      "[\"\\",
                                      "{\"a\\"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    mcg_error *err = NULL;
    assert_null(parse(texts[i], &err));
    assert_non_null(strstr(err->message, "line 1, column "));
    assert_int_equal(code_of(&err), MCG_INVALID);
  }
}

static void its_message_does_not_quote_the_text(void **state)
{
  (void)state;
  mcg_error *err = NULL;
  assert_null(parse("{\"api_key\":\n  hunter2}", &err));
  assert_non_null(strstr(err->message, "line 2"));
  assert_null(strstr(err->message, "hunter2"));
  mcg_error_free(err);
}

static char *nested(size_t depth, const char *open, const char *close)
{
  char *text = calloc(depth, strlen(open) + strlen(close) + 1);
  char *at = text;
  for (size_t i = 0; i < depth; i++) at = stpcpy(at, open);
  if (*open == '{') at = stpcpy(at, "1");
  for (size_t i = 0; i < depth; i++) at = stpcpy(at, close);
  return text;
}

static void depth_is_bounded_before_the_parser(void **state)
{
  (void)state;
  mcg_error *err = NULL;
  auto_free char *fits = nested(128, "[", "]"), *past = nested(129, "[", "]");
  auto_free char *huge = nested(1000000, "{\"a\":", "}"), *open = nested(1000000, "[", "");
  auto_json json_t *json = parse(fits, &err);
  assert_non_null(json);
  char *const bad[] = {past, huge, open};
  for (size_t i = 0; i < 3; i++) {
    assert_null(parse(bad[i], &err));
    assert_non_null(strstr(err->message, "128"));
    assert_int_equal(code_of(&err), MCG_INVALID);
  }
}

static void brackets_in_strings_do_not_count(void **state)
{
  (void)state;
  mcg_error *err = NULL;
  char text[600] = "[\"\\\"\\\\";
  memset(text + strlen(text), '[', 500);
  strcat(text, "\\\\\"]");
  auto_json json_t *json = parse(text, &err);
  assert_null(err);
  assert_int_equal(json_string_length(json_array_get(json, 0)), 503);
}

/* jansson at the greatest depth that is let through, on a fiber: its stack must have room left. */
typedef struct deep {
  mcg_engine *engine;
  bool done;
} deep;

static void parses_deep(void *arg)
{
  deep *self = arg;
  auto_free char *text = nested(128, "{\"a\":", "}");
  mcg_error *err = NULL;
  auto_json json_t *json = parse(text, &err);
  assert_non_null(json);
  auto_free char *again = json_dumps(json, JSON_SORT_KEYS);
  assert_non_null(again);
  self->done = true;
}

static void the_deepest_text_fits_a_fiber(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  deep self = {.engine = engine};
  mcg_error *err = NULL;
  assert_int_equal(mcg_fiber_start(engine, parses_deep, &self, NULL, &err), 0);
  turn_until(engine, &self.done);
  size_t used = mcg_fibers_high_water(engine);
  printf("deepest JSON: %zu KiB of stack\n", used >> 10);
  assert_true(used > 0 && used <= 128 << 10);
  engine_end(engine);
}

static void the_nearest_word_is_found(void **state)
{
  (void)state;
  static const char *const names[] = {"memory_mb",         "pids", "cpus", "env", "network",
                                      "working_directory", NULL};
  static const struct {
    const char *word, *nearest;
  } cases[] = {{"memory", "memory_mb"},
               {"mmeory_mb", "memory_mb"},
               {"pdis", "pids"},
               {"cpu", "cpus"},
               {"evn", "env"},
               {"netwrok", "network"},
               {"NETWORK", NULL},
               {"xyz", NULL},
               {"", NULL},
               {"workdir", NULL},
               {"working_dirctory", "working_directory"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *nearest = mcg_nearest(cases[i].word, names);
    if (cases[i].nearest)
      assert_string_equal(nearest, cases[i].nearest);
    else
      assert_null(nearest);
  }
  char endless[300];
  memset(endless, 'a', sizeof endless - 1);
  endless[299] = '\0';
  assert_null(mcg_nearest(endless, names));
  static const char *const none[] = {NULL};
  assert_null(mcg_nearest("a", none));
}

static void ids_are_random_and_safe_in_paths(void **state)
{
  (void)state;
  char ids[200][27];
  bool seen[26][128] = {{false}};
  for (size_t i = 0; i < 200; i++) {
    mcg_error *err = NULL;
    memset(ids[i], '!', 27);
    assert_int_equal(mcg_random_id(ids[i], &err), 0);
    assert_int_equal(strlen(ids[i]), 26);
    assert_int_equal(strspn(ids[i], "abcdefghijklmnopqrstuvwxyz234567"), 26);
    for (size_t j = 0; j < i; j++) assert_string_not_equal(ids[i], ids[j]);
    for (size_t j = 0; j < 26; j++) seen[j][(int)ids[i][j]] = true;
  }
  for (size_t j = 0; j < 26; j++) { /* every place varies: 25 of 5 bits, the last of 3 */
    int different = 0;
    for (int c = 0; c < 128; c++) different += seen[j][c];
    assert_true(different >= (j < 25 ? 20 : 7) && different <= (j < 25 ? 32 : 8));
  }
}

/* They are drawn ahead: a child has none of its parent's. */
static void ids_after_a_fork_are_others(void **state)
{
  (void)state;
  char ours[4][27], theirs[4][27];
  int ends[2], status;
  assert_int_equal(mcg_random_id(ours[0], NULL), 0);
  assert_int_equal(pipe(ends), 0);
  pid_t pid = fork();
  for (size_t i = 0; i < 4; i++)
    assert_int_equal(mcg_random_id(pid ? ours[i] : theirs[i], NULL), 0);
  if (!pid) _exit(write(ends[1], theirs, sizeof theirs) == sizeof theirs ? 0 : 1);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  assert_int_equal(read(ends[0], theirs, sizeof theirs), sizeof theirs);
  for (size_t i = 0; i < 16; i++) assert_string_not_equal(ours[i / 4], theirs[i % 4]);
  close(ends[0]);
  close(ends[1]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_text_is_read),
      cmocka_unit_test(bad_text_is_invalid),
      cmocka_unit_test(its_message_does_not_quote_the_text),
      cmocka_unit_test(depth_is_bounded_before_the_parser),
      cmocka_unit_test(brackets_in_strings_do_not_count),
      cmocka_unit_test(the_deepest_text_fits_a_fiber),
      cmocka_unit_test(the_nearest_word_is_found),
      cmocka_unit_test(ids_are_random_and_safe_in_paths),
      cmocka_unit_test(ids_after_a_fork_are_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
