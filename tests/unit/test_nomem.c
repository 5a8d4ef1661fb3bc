/* Memory that runs out: whichever request is refused, the call says `nomem`, every operation that was
 * started still completes once, and nothing is lost. The linker gives us the engine's requests. */
#include "turning.h"
#include "config/manifest.h"
#include <jansson.h>
#include <sys/mman.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);

static long left = -1; /* requests until one is refused; below 0: none is */
static bool refused;

static bool refuse(void)
{
  if (left < 0 || left-- > 0) return false;
  refused = true;
  errno = ENOMEM;
  return true;
}

void *__wrap_malloc(size_t size)
{
  return refuse() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
  return refuse() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
  return refuse() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
  return refuse() ? NULL : __real_strdup(text);
}

void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
  return refuse() ? MAP_FAILED : __real_mmap(at, len, prot, flags, fd, offset);
}

static bool arm(long requests)
{
  left = requests;
  refused = false;
  return true;
}

/* Whether the request was reached; afterwards none is refused. */
static bool disarm(void)
{
  left = -1;
  return refused;
}

static void a_new_engine(void **state)
{
  (void)state;
  long n = 0;
  for (bool reached = true; reached; n++) {
    mcg_engine *engine = NULL;
    mcg_error *err = NULL;
    arm(n);
    int rc = mcg_engine_new(NULL, &engine, &err);
    reached = disarm();
    assert_int_equal(rc, reached ? -1 : 0);
    if (reached)
      assert_int_equal(code_of(&err), MCG_NOMEM);
    else
      engine_end(engine);
  }
  assert_true(n > 3);
}

typedef struct count {
  int completions, errors;
  bool done;
} count;

static void note(void *data, mcg_error *error)
{
  count *self = data;
  self->completions++;
  self->errors += error != NULL;
  self->done = true;
  mcg_error_free(error);
}

static void an_operation(void **state)
{
  (void)state;
  long n = 0;
  for (bool reached = true; reached; n++) {
    mcg_engine *engine = engine_with(NULL);
    mcg_error *err = NULL;
    count it = {0};
    arm(n);
    int rc = mcg_sleep(engine, 0, note, &it, NULL, &err);
    reached = disarm();
    assert_int_equal(rc, reached ? -1 : 0);
    if (reached)
      assert_int_equal(code_of(&err), MCG_NOMEM);
    else
      turn_until(engine, &it.done);
    engine_end(engine);
    assert_int_equal(it.completions, reached ? 0 : 1);
  }
  assert_true(n > 3);
}

/* The error of a cancel cannot be made either: it comes as what there always is. */
static void a_cancel(void **state)
{
  (void)state;
  long n = 0;
  for (bool reached = true; reached; n++) {
    mcg_engine *engine = engine_with(NULL);
    mcg_error *err = NULL;
    mcg_op *op = NULL;
    count it = {0};
    assert_int_equal(mcg_sleep(engine, 1000000, note, &it, &op, &err), 0);
    mcg_engine_turn(engine);
    arm(n);
    mcg_op_cancel(op);
    turn_until(engine, &it.done);
    reached = disarm();
    assert_int_equal(it.completions, 1);
    assert_int_equal(it.errors, 1);
    engine_end(engine);
  }
  assert_true(n > 1);
}

static void a_close(void **state)
{
  (void)state;
  long n = 0;
  for (bool reached = true; reached; n++) {
    mcg_engine *engine = engine_with(NULL);
    mcg_error *err = NULL;
    count nap = {0}, end = {0};
    assert_int_equal(mcg_sleep(engine, 1000000, note, &nap, NULL, &err), 0);
    arm(n);
    int rc = mcg_engine_close(engine, note, &end, &err);
    if (rc == 0) turn_until(engine, &end.done);
    reached = disarm();
    if (rc == 0) {
      assert_int_equal(end.completions, 1);
      mcg_engine_free(engine);
    } else { /* it stays open, and can be closed yet */
      assert_int_equal(code_of(&err), MCG_NOMEM);
      assert_int_equal(nap.completions, 0);
      engine_end(engine);
    }
    assert_int_equal(nap.completions, 1);
  }
  assert_true(n > 2);
}

static void hear(void *data, mcg_log_level level, const char *message)
{
  (void)level;
  assert_string_equal(message, "a line");
  ++*(int *)data;
}

static void a_log_line(void **state)
{
  (void)state;
  long n = 0;
  for (bool reached = true; reached; n++) {
    int heard = 0;
    mcg_engine_options options = {.size = sizeof options, .on_log = hear, .data = &heard};
    mcg_engine *engine = engine_with(&options);
    arm(n);
    mcg_log(engine, MCG_LOG_INFO, "a %s", "line");
    reached = disarm();
    engine_end(engine);
    assert_int_equal(heard, reached ? 0 : 1);
  }
}

static void an_error(void **state)
{
  (void)state;
  long n = 0;
  for (bool reached = true; reached; n++) {
    mcg_error *err = NULL, *cause = NULL;
    arm(n);
    assert_int_equal(mcg_fail_errno(&err, ENOENT, "make it", "open %s", "x"), -1);
    assert_int_equal(mcg_wrap(&err, "session"), -1);
    assert_int_equal(mcg_fail(&cause, MCG_INVALID, "better", "why"), -1);
    reached = disarm();
    assert_non_null(err);
    assert_non_null(cause);
    assert_true(err->code == MCG_NOT_FOUND || err->code == MCG_NOMEM);
    assert_non_null(err->message);
    if (!reached) {
      assert_string_equal(err->message, "session: open x: No such file or directory");
      err->cause = cause;
      cause = NULL;
    }
    arm(n);
    mcg_error *copy = mcg_error_copy(err);
    disarm();
    assert_true(copy->code == err->code || copy->code == MCG_NOMEM);
    mcg_error_free(copy);
    mcg_error_free(err);
    mcg_error_free(cause);
  }
  assert_true(n > 5);
}

static void *json_malloc(size_t size)
{
  return refuse() ? NULL : __real_malloc(size);
}

/* ---- a whole session ------------------------------------------------------------------------- */

typedef struct visit {
  mcg_engine *engine;
  mcg_session *session;
  int opened, executed, written, closed;
  mcg_code worst; /* of what failed */
  bool failed, done;
} visit;

/* `invalid` may come of jansson, as above. */
static void note_failure(visit *self, mcg_error *error)
{
  if (!error) return;
  if (error->code == MCG_INTERNAL || error->code == MCG_PROTOCOL)
    fail_msg("%s (%s)", error->message, mcg_code_name(error->code));
  self->failed = true;
  self->worst = error->code;
  mcg_error_free(error);
}

static void visit_closed(void *data, mcg_error *error)
{
  visit *self = data;
  note_failure(self, error);
  self->closed++;
  self->done = true;
}

static void visit_end(visit *self)
{
  mcg_error *err = NULL;
  if (mcg_session_close(self->session, visit_closed, self, &err) == 0) return;
  note_failure(self, err);
  self->done = true; /* the engine's own end closes it */
}

static void visit_written(void *data, mcg_error *error)
{
  visit *self = data;
  note_failure(self, error);
  self->written++;
  visit_end(self);
}

static void visit_executed(void *data, const mcg_result *result, mcg_error *error)
{
  visit *self = data;
  assert_true((result != NULL) == (error == NULL));
  if (result) {
    assert_int_equal(result->exit_code, 7);
    assert_int_equal(result->stdout_bytes, 6);
    assert_memory_equal(result->stdout_data, "abcdef", 6);
  }
  note_failure(self, error);
  self->executed++;
  mcg_error *err = NULL;
  if (mcg_file_write(self->session, "a", "text", 4, 0644, visit_written, self, &err) == 0) return;
  note_failure(self, err);
  visit_end(self);
}

static void visit_opened(void *data, mcg_session *session, mcg_error *error)
{
  visit *self = data;
  note_failure(self, error);
  self->opened++;
  self->session = session;
  if (!session) {
    self->done = true;
    return;
  }
  const char *const env[] = {"X=def", NULL};
  const mcg_exec_spec spec = {.size = sizeof spec,
                              .shell = "cat; printf %s $X; exit 7",
                              .env = env,
                              .stdin_mode = MCG_STDIN_DATA,
                              .stdin_data = "abc",
                              .stdin_len = 3};
  const mcg_exec_events events = {.on_done = visit_executed};
  mcg_error *err = NULL;
  if (mcg_exec_start(session, &spec, &events, self, NULL, &err) == 0) return;
  note_failure(self, err);
  visit_end(self);
}

typedef struct ending {
  bool refused, done;
} ending;

/* A line of the audit log that there was no memory for is lost, and that is said. */
static void note_ending(void *data, mcg_error *error)
{
  ending *self = data;
  assert_true(!error || (self->refused && error->code == MCG_AUDIT_FAILED));
  mcg_error_free(error);
  self->done = true;
}

static void visits(const char *config, const mcg_deciders *deciders)
{
  long n = 0, refusals = 0;
  json_set_alloc_funcs(json_malloc, free);
  for (bool reached = true; reached; n++) {
    visit it = {.engine = engine_with(NULL)};
    mcg_error *err = NULL;
    arm(n);
    if (mcg_session_open_with(it.engine, config, strlen(config), deciders, visit_opened, &it, NULL,
                              &err) < 0) {
      note_failure(&it, err);
      it.done = true;
    }
    turn_until(it.engine, &it.done);
    reached = disarm();
    if (it.session) mcg_session_unref(it.session);
    ending end = {.refused = reached};
    assert_int_equal(mcg_engine_close(it.engine, note_ending, &end, NULL), 0);
    turn_until(it.engine, &end.done);
    mcg_engine_free(it.engine);
    assert_true(it.opened <= 1 && it.executed <= 1 && it.written <= 1 && it.closed <= 1);
    if (!reached) {
      if (it.failed && (it.worst == MCG_UNAUTHORIZED || it.worst == MCG_UNENFORCEABLE)) {
        print_message("skipped: this sandbox cannot be made here (%s)\n", mcg_code_name(it.worst));
        skip();
      }
      assert_false(it.failed);
      assert_int_equal(it.closed, 1);
    }
    refusals += it.failed;
  }
  json_set_alloc_funcs(__real_malloc, free);
  print_message("%ld requests, %ld of them refused the host something\n", n - 1, refusals);
  assert_true(n > 30);
}

static void a_subprocess_session(void **state)
{
  (void)state;
  visits("{\"backend\":{\"id\":\"subprocess\"},\"environment\":{\"Y\":\"1\"}}", NULL);
}

static void say_yes(void *data, unsigned kind, const char *json, mcg_question *question)
{
  (void)data, (void)json;
  mcg_answer(question, kind == MCG_ASK_GUARDRAIL ? "{\"allow\":true}" : NULL);
}

static void a_guarded_session(void **state)
{
  (void)state;
  const mcg_deciders deciders = {
      .size = sizeof deciders, .asks = MCG_ASK_GUARDRAIL | MCG_ASK_HOOK, .on_question = say_yes};
  visits("{\"backend\":\"subprocess\",\"audit\":false,\"guardrail\":true,\"hooks\":["
         "\"on_sandbox_start\",\"on_sandbox_stop\",\"on_sandbox_exec_start\","
         "\"on_sandbox_exec_end\"]}",
         &deciders);
}

static void a_jail_session(void **state)
{
  (void)state;
  visits("{\"backend\":{\"id\":\"jail\",\"options\":{\"binds\":[{\"source\":\"/tmp\",\"target\":\"/"
         "mnt/t\"}]}},"
         "\"limits\":{\"pid_limit\":20},\"enforcement\":\"best_effort\"}",
         NULL);
}

static void foreign_text(void **state)
{
  (void)state;
  static const char text[] =
      "{\"a\":[1,2,{\"b\":\"c\"}],\"d\":\"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee\"}";
  json_set_alloc_funcs(json_malloc, free);
  long n = 0;
  for (bool reached = true; reached; n++) {
    mcg_error *err = NULL;
    arm(n);
    auto_json json_t *json = mcg_json_parse(text, sizeof text - 1, &err);
    reached = disarm();
    /* jansson 2.14 passes over a buffer that could not grow: then it is a result. Otherwise it is an
     * error, though for some refusals it knows no better than that the text was wrong. */
    assert_true((json != NULL) == (err == NULL));
    if (!reached) assert_non_null(json);
    mcg_error_free(err);
  }
  assert_true(n > 5);
  json_set_alloc_funcs(__real_malloc, free);
}

static void a_manifest(void **state)
{
  (void)state;
  static const char text[] =
      "{\"directories\":[\"d\"],\"files\":{\"f\":\"x\"},\"environment\":{\"A\":\"b\"},"
      "\"users\":[{\"name\":\"bob\"},{\"name\":\"eve\",\"uid\":7,\"home\":\"/srv/eve\"}]}";
  json_t *value = json_loads(text, 0, NULL);
  assert_non_null(value);
  long n = 0;
  for (bool reached = true; reached; n++) {
    mcg_error *err = NULL;
    size_t users = 0;
    arm(n);
    mcg_manifest *manifest = mcg_manifest_parse(value, &err);
    reached = disarm();
    if (reached) {
      assert_null(manifest);
      assert_int_equal(code_of(&err), MCG_NOMEM);
      continue;
    }
    const mcg_user *list = mcg_manifest_users(manifest, &users);
    assert_int_equal(users, 2);
    assert_string_equal(list[0].home, "/home/bob");
    assert_int_equal(list[1].uid, 7);
    mcg_manifest_free(manifest);
  }
  json_decref(value);
  assert_true(n > 8);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_manifest),
      cmocka_unit_test(a_new_engine),
      cmocka_unit_test(an_operation),
      cmocka_unit_test(a_cancel),
      cmocka_unit_test(a_close),
      cmocka_unit_test(a_log_line),
      cmocka_unit_test(an_error),
      cmocka_unit_test(foreign_text),
      cmocka_unit_test(a_subprocess_session),
      cmocka_unit_test(a_jail_session),
      cmocka_unit_test(a_guarded_session),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
