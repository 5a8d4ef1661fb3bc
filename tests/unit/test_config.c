/* Configuration: what is taken, what is refused and how the refusal reads. */
#include "config/config.h"
#include "audit/audit.h"
#include "config/manifest_parts.h"
#include "host.h"

typedef struct refused {
  const char *text;
  mcg_code code;
  const char *says, *mends; /* parts of message and fix; NULL: any */
} refused;

static const refused refusals[] = {
    {"", MCG_INVALID, "JSON", NULL},
    {"[1]", MCG_INVALID, "expected a table, found a list", NULL},
    {"7", MCG_INVALID, "JSON", NULL},
    {"{\"limts\":{}}", MCG_INVALID, "limts: unknown key", "`limits`"},
    {"{\"limits\":{\"memory\":5}}", MCG_INVALID, "limits.memory: unknown key", NULL},
    {"{\"limits\":{\"memory_mbb\":5}}", MCG_INVALID, "limits.memory_mbb: unknown key",
     "`memory_mb`"},
    {"{\"limits\":{\"memory_mb\":\"5\"}}", MCG_INVALID,
     "limits.memory_mb: expected a number, found a string", NULL},
    {"{\"limits\":{\"memory_mb\":-1}}", MCG_INVALID, "limits.memory_mb", NULL},
    {"{\"limits\":{\"memory_mb\":1e300}}", MCG_INVALID, "limits.memory_mb", NULL},
    {"{\"limits\":{\"memory_mb\":0}}", MCG_INVALID, "limits.memory_mb", NULL},
    {"{\"limits\":{\"pid_limit\":1.5}}", MCG_INVALID, "whole number", NULL},
    {"{\"limits\":{\"wall_s\":0}}", MCG_INVALID, "limits.wall_s", NULL},
    {"{\"limits\":5}", MCG_INVALID, "limits: expected a table, found a number", NULL},
    {"{\"limits\":{},\"limits\":{}}", MCG_INVALID, "duplicate", NULL},
    {"{\"backend\":\"docker\"}", MCG_INVALID, "backend: there is no backend \"docker\"",
     "only `jail`, `subprocess`"},
    {"{\"backend\":\"jial\"}", MCG_INVALID, "there is no backend \"jial\"", "`jail`"},
    {"{\"backend\":{\"id\":5}}", MCG_INVALID, "backend.id: expected a string, found a number",
     NULL},
    {"{\"backend\":{\"id\":\"jail\",\"options\":{\"rootfss\":\"/\"}}}", MCG_INVALID,
     "backend.options.rootfss", "`rootfs`"},
    {"{\"backend\":{\"id\":\"jail\",\"options\":{\"rootfs\":5}}}", MCG_INVALID,
     "backend.options.rootfs: expected a string", NULL},
    {"{\"backend\":{\"id\":\"jail\",\"options\":{\"profile\":\"debg\"}}}", MCG_INVALID,
     "backend.options.profile: there is no profile \"debg\"", "`debug`"},
    {"{\"backend\":{\"id\":\"subprocess\",\"options\":{\"carrier\":\"x\"}}}", MCG_INVALID,
     "backend.options.carrier: there is no carrier \"x\"", "`framed`"},
    {"{\"backend\":{\"id\":\"jail\",\"options\":{\"binds\":[\"relative:/x\"]}}}", MCG_INVALID,
     "relative", NULL},
    {"{\"backend\":{\"id\":\"jail\",\"options\":{\"binds\":[\"/usr:/x/../y\"]}}}", MCG_INVALID,
     "binds[1]", NULL},
    {"{\"backend\":{\"id\":\"jail\",\"options\":{\"binds\":[\"/usr:/x:rx\"]}}}", MCG_INVALID, "rx",
     "rw"},
    {"{\"backend\":{\"id\":\"jail\",\"options\":{\"binds\":[\"/nonexistent-mcg:/x\"]}}}",
     MCG_NOT_FOUND, "/nonexistent-mcg", NULL},
    {"{\"backend\":{\"id\":\"jail\",\"options\":{\"binds\":\"/usr:/x\"}}}", MCG_INVALID,
     "backend.options.binds: expected a list", "list"},
    {"{\"candidates\":[{\"id\":\"jail\",\"options\":{\"path\":7}}]}", MCG_INVALID,
     "candidates[1].options.path: expected a list", "list"},
    {"{\"backend\":{\"id\":\"jail\",\"options\":{\"environment\":true}}}", MCG_INVALID,
     "backend.options.environment: expected a table", "table"},
    {"{\"backend\":\"jail\",\"candidates\":[]}", MCG_INVALID, "candidates", NULL},
    {"{\"candidates\":[\"jail\",\"subprocess\"]}", MCG_INVALID, "nobody to choose", NULL},
    {"{\"candidates\":[]}", MCG_NO_CANDIDATE, "empty", NULL},
    {"{\"network\":\"open\",\"backend\":\"subprocess\"}", MCG_UNENFORCEABLE, "rules", "jail"},
    {"{\"network\":{\"default\":\"allow\"},\"backend\":{\"id\":\"jail\",\"options\":{\"carrier\":"
     "\"framed\"}}}",
     MCG_UNENFORCEABLE, "network.default", "carrier"},
    {"{\"network\":{\"allow\":[\"example.org:443\"]},\"backend\":\"subprocess\"}",
     MCG_UNENFORCEABLE, "network", "jail"},
    {"{\"network\":{\"allow\":[\"*\"]}}", MCG_INVALID, "every host", "*:443"},
    {"{\"network\":\"nonsense\"}", MCG_INVALID, "nonsense", "host"},
    {"{\"network\":{\"defualt\":\"deny\"}}", MCG_INVALID, "network.defualt", "`default`"},
    {"{\"enforcement\":\"strict\"}", MCG_INVALID, "enforcement", "best_effort"},
    {"{\"environment\":{\"A B\":\"x\"}}", MCG_INVALID, "environment.A B", NULL},
    {"{\"environment\":{\"A\":5}}", MCG_INVALID, "environment.A: expected a string, found a number",
     NULL},
    {"{\"environment\":{\"A\\nB\":\"x\"}}", MCG_INVALID, "no name", NULL},
    {"{\"environment\":{\"A\":{\"base64\":\"AA==\"}}}", MCG_INVALID, "NUL", NULL},
    {"{\"working_directory\":5}", MCG_INVALID, "working_directory", NULL},
    {"{\"tenant\":{\"base64\":\"YQBi\"}}", MCG_INVALID, "tenant: it holds bytes that are no text",
     NULL},
    {"{\"working_directory\":\"/a\\u0000b\"}", MCG_INVALID, NULL, NULL},
    {"{\"working_directory\":\"/a/../b\"}", MCG_INVALID,
     "working_directory: \"/a/../b\" has \"..\"", "without"},
    {"{\"working_directory\":\"..\"}", MCG_INVALID, "working_directory: \"..\" has", "without"},
    {"{\"candidates\":[{\"id\":\"jail\",\"options\":{\"working_directory\":\"/a/..\"}}]}",
     MCG_INVALID, "options.working_directory: \"/a/..\" has", "without"},
    {"{\"working_directory\":5,\"backend\":{\"id\":\"jail\",\"options\":{\"working_directory\":"
     "\"/a\"}}}",
     MCG_INVALID, "working_directory: expected a string", NULL},
    {"{\"ttl_s\":-1}", MCG_INVALID, "ttl_s", NULL},
    {"{\"capture_live_cost\":1}", MCG_INVALID, "capture_live_cost: expected true or false", NULL},
    {"{\"labels\":{\"a\":5}}", MCG_INVALID, "labels.a", NULL},
    {"{\"pool\":{\"sise\":1}}", MCG_INVALID, "pool.sise", "`size`"},
    {"{\"project\":\"relative\"}", MCG_INVALID, "absolute", NULL},
    {"{\"project\":\"/nonexistent-mcg\"}", MCG_NOT_FOUND, "/nonexistent-mcg", NULL},
    {"{\"requirements\":{\"min_isolation\":\"vmm\"}}", MCG_INVALID, "min_isolation", "`vm`"},
    {"{\"requirements\":{\"min_isolation\":\"vm\"}}", MCG_NO_CANDIDATE, "min_isolation", NULL},
    {"{\"requirements\":{\"network\":true},\"network\":\"none\"}", MCG_NO_CANDIDATE, "network",
     "open"},
    {"{\"requirements\":{\"network\":false},\"network\":\"host\"}", MCG_NO_CANDIDATE, "network",
     NULL},
    {"{\"requirements\":{\"memory_mb\":512},\"limits\":{\"memory_mb\":256}}", MCG_NO_CANDIDATE,
     "memory_mb", "raise"},
    {"{\"backend\":\"subprocess\",\"requirements\":{\"min_isolation\":\"namespace\"}}",
     MCG_UNENFORCEABLE, "min_isolation", "jail"},
    {"{\"backend\":\"subprocess\",\"limits\":{\"memory_mb\":64}}", MCG_UNENFORCEABLE,
     "limits.memory_mb", "jail"},
    {"{\"backend\":\"subprocess\",\"network\":\"none\"}", MCG_UNENFORCEABLE, "network", "jail"},
};

static void refuses(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    const refused *r = &refusals[i];
    mcg_config *config = NULL;
    mcg_error *err = NULL;
    if (mcg_config_read(engine, r->text, strlen(r->text), &config, &err) == 0)
      fail_msg("taken: %s", r->text);
    assert_null(config);
    if (err->code != r->code)
      fail_msg("%s: code %s: %s", r->text, mcg_code_name(err->code), err->message);
    if (r->says && !strstr(err->message, r->says))
      fail_msg("%s: says \"%s\"", r->text, err->message);
    if (!err->fix) fail_msg("%s: no fix for \"%s\"", r->text, err->message);
    if (r->mends && !strstr(err->fix, r->mends)) fail_msg("%s: fix \"%s\"", r->text, err->fix);
    mcg_error_free(err);
  }
}

static mcg_config *taken(const char *text)
{
  mcg_config *config = NULL;
  mcg_error *err = NULL;
  if (mcg_config_read(engine, text, strlen(text), &config, &err) < 0)
    fail_msg("%s: %s", text, err->message);
  return config;
}

static void has_defaults(void **state)
{
  (void)state;
  mcg_config *config = taken("{}");
  const mcg_limits *limits = &config->plan.limits;
  assert_string_equal(config->backend->id, "jail");
  assert_int_equal(limits->memory_bytes.value, 1024 << 20);
  assert_false(limits->memory_bytes.written);
  assert_int_equal(limits->disk_bytes.value, 512 << 20);
  assert_int_equal(limits->cpu_milli.value, 1000);
  assert_int_equal(limits->pids.value, 256);
  assert_int_equal(limits->open_files.value, 1024);
  assert_int_equal(limits->wall_ms.value, 0);
  assert_int_equal(config->plan.network, MCG_NETWORK_NONE);
  mcg_config_free(config);
}

/* Half of the memory, at most 1 GiB, unless it was written. */
static void disk_follows_memory(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    uint64_t memory, disk;
  } cases[] = {
      {"{\"limits\":{\"memory_mb\":64}}", 64, 32},
      {"{\"limits\":{\"memory_mb\":8192}}", 8192, 1024},
      {"{\"limits\":{\"disk_mb\":16}}", 1024, 16},
      {"{\"requirements\":{\"memory_mb\":2000}}", 2000, 1000},
      {"{\"requirements\":{\"memory_mb\":100}}", 1024, 512},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mcg_config *config = taken(cases[i].text);
    assert_int_equal(config->plan.limits.memory_bytes.value, cases[i].memory << 20);
    assert_int_equal(config->plan.limits.disk_bytes.value, cases[i].disk << 20);
    mcg_config_free(config);
  }
}

static void candidate_goes_over_config(void **state)
{
  (void)state;
  mcg_config *config = taken(
      "{\"environment\":{\"A\":\"1\",\"B\":\"2\"},\"working_directory\":\"/"
      "a\",\"labels\":{\"x\":\"y\"},"
      "\"backend\":{\"id\":\"jail\",\"name\":\"mine\",\"max_sessions\":3,\"pool\":{\"size\":2},"
      "\"options\":{"
      "\"environment\":{\"B\":\"3\",\"C\":{\"base64\":\"aGk=\"}},\"working_directory\":\"/b\","
      "\"binds\":[\"/usr:/x:rw\",\"/usr:/y\",{\"source\":\"/usr\",\"target\":\"/"
      "z\",\"writable\":true}]}},"
      "\"limits\":{\"wall_s\":1.5,\"output_mb\":0.5,\"cpu_count\":0.25},\"network\":\"host\",\"ttl_"
      "s\":60}");
  assert_string_equal(config->name, "mine");
  assert_string_equal(config->plan.working_directory, "/b");
  assert_string_equal(config->environment[0], "A=1");
  assert_string_equal(config->environment[1], "B=3");
  assert_string_equal(config->environment[2], "C=hi");
  assert_null(config->environment[3]);
  assert_int_equal(config->plan.bind_count, 3);
  assert_string_equal(config->plan.binds[0].target, "/x");
  assert_true(config->plan.binds[0].writable);
  assert_false(config->plan.binds[1].writable);
  assert_true(config->plan.binds[2].writable);
  assert_int_equal(config->plan.limits.wall_ms.value, 1500);
  assert_int_equal(config->plan.limits.output_bytes.value, 512 << 10);
  assert_int_equal(config->plan.limits.cpu_milli.value, 250);
  assert_int_equal(config->plan.network, MCG_NETWORK_HOST);
  assert_int_equal(config->ttl_ms, 60000);
  assert_int_equal(config->max_sessions, 3);
  assert_int_equal(config->pool_size, 2);
  mcg_config_free(config);
}

/* What is compared as text is written in one way, whatever was given. */
static void paths_have_one_spelling(void **state)
{
  (void)state;
  static const char *const spelled[][2] = {
      {"/", "/"},
      {"//", "/"},
      {"/.", "/"},
      {"/b", "/b"},
      {"/b/", "/b"},
      {"//b", "/b"},
      {"/./b", "/b"},
      {"/b/.", "/b"},
      {"/b//c", "/b/c"},
      {"/./b/././c//", "/b/c"},
      {"/.b/..c/d.", "/.b/..c/d."},
      {"/b/.../c", "/b/.../c"},
  };
  for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++) {
    const char *given = spelled[i][0], *wanted = spelled[i][1];
    char *text = mcg_format("{\"working_directory\":\"%s\"}", given);
    mcg_config *config = taken(text);
    assert_string_equal(config->plan.working_directory, wanted);
    mcg_config_free(config);
    free(text);
    text = mcg_format("{\"working_directory\":\"/x\",\"backend\":{\"id\":\"jail\",\"options\":{"
                      "\"working_directory\":\"%s\",\"binds\":[\"/usr:%s:rw\",{\"source\":\"/usr\","
                      "\"target\":\"%s\"}]}}}",
                      given, given, given);
    config = taken(text);
    assert_string_equal(config->plan.working_directory, wanted);
    assert_string_equal(config->plan.binds[0].target, wanted);
    assert_string_equal(config->plan.binds[1].target, wanted);
    mcg_config_free(config);
    free(text);
  }
  mcg_config *config =
      taken("{\"manifest\":{\"files\":{\"./a//b\":\"\"},\"directories\":[\"c/./d/\"]}}");
  assert_string_equal(config->manifest->entries[0].path, "c/d");
  assert_string_equal(config->manifest->entries[1].path, "a/b");
  mcg_config_free(config);
  config = taken("{\"backend\":{\"id\":\"jail\",\"options\":{\"binds\":[\"/usr//\"]}}}");
  assert_string_equal(config->plan.binds[0].target, "/usr");
  mcg_config_free(config);
}

static void subprocess_takes_no_defaults(void **state)
{
  (void)state;
  mcg_config *config = taken("{\"backend\":\"subprocess\",\"limits\":{\"exec_s\":5}}");
  assert_int_equal(config->plan.limits.memory_bytes.value, 0);
  assert_int_equal(config->plan.limits.pids.value, 0);
  assert_int_equal(config->plan.limits.exec_ms.value, 5000);
  mcg_config_free(config);
  config = taken(
      "{\"backend\":\"subprocess\",\"enforcement\":\"best_effort\",\"limits\":{\"memory_mb\":64}}");
  assert_true(config->plan.best_effort);
  mcg_config_free(config);
}

static void lua_empty_tables_are_fine(void **state)
{
  (void)state;
  mcg_config_free(
      taken("{\"limits\":[],\"environment\":[],\"labels\":[],\"requirements\":[],"
            "\"network\":{\"allow\":{}},\"backend\":{\"id\":\"jail\",\"options\":[]}}"));
}

/* Whatever stands in the headers of a rule is known to the audit log as secret before anything is told. */
static void headers_are_secrets(void **state)
{
  (void)state;
  static const char *const wanted[] = {"c2VjcmV0LW9uZQ==", "c2VjcmV0LXR3bw==", "c2VjcmV0LXRocmVl",
                                       "czQ="}; /* secret-one, -two, -three, and s4 */
  mcg_config_free(taken(
      "{\"enforcement\":\"best_effort\",\"backend\":\"subprocess\",\"network\":{\"allow\":["
      "{\"host\":\"a.test\",\"terminate_tls\":true,\"headers\":{\"A\":\"secret-one\"}}],"
      "\"within\":{\"allow\":[\"b.test\",{\"host\":\"a.test\",\"terminate_tls\":true,\"headers\":"
      "{\"B\":[\"Bearer \",\"secret-two\"],\"C\":{\"secret\":\"secret-three\"},"
      "\"D\":[\"Basic \",{\"secret\":\"s4\"}]}}]}}}"));
  auto_json json_t *known = mcg_audit_secrets(engine);
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    bool found = false;
    for (size_t k = 0; k < json_array_size(known); k++)
      found |= strcmp(json_string_value(json_array_get(known, k)), wanted[i]) == 0;
    if (!found) fail_msg("%s is not known", wanted[i]);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refuses),
      cmocka_unit_test(has_defaults),
      cmocka_unit_test(disk_follows_memory),
      cmocka_unit_test(candidate_goes_over_config),
      cmocka_unit_test(paths_have_one_spelling),
      cmocka_unit_test(subprocess_takes_no_defaults),
      cmocka_unit_test(lua_empty_tables_are_fine),
      cmocka_unit_test(headers_are_secrets),
  };
  return cmocka_run_group_tests(tests, engine_up, engine_down);
}
