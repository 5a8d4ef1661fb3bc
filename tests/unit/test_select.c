/* mcg_rank: who meets the requirements, in which order, and what is said of the others. */
#include "host.h"
#include <math.h>

#define HOSTED(n, price)                                                                           \
  .size = sizeof(mcg_facts), .name = n, .backend = n, .family = MCG_HOSTED,                        \
  .isolation = MCG_ISOLATION_VM, .priced = true, .usd_per_minute = price

static const char *const reaches[] = {"network", "pty", NULL};
static const char *const denied[] = {"network_denied", "pty", NULL};
static const char *const gpu[] = {"network", "gpu", "pty", NULL};

/* Prices are made up; what matters is their order. */
static const mcg_facts few[] = {
    {.size = sizeof(mcg_facts),
     .name = "jail",
     .backend = "jail",
     .isolation = MCG_ISOLATION_NAMESPACE,
     .capabilities = denied},
    {HOSTED("dear", 0.5), .capabilities = reaches, .persistent = true, .region = "eu"},
    {HOSTED("cheap", 0.01), .capabilities = reaches, .persistent = true, .region = "us",
     .memory_mb = 2048, .cpu_count = 2},
    {HOSTED("same", 0.5), .capabilities = gpu, .region = "eu"},
    {HOSTED("free", 0), .capabilities = reaches, .sessions = 2, .max_sessions = 2},
};
#define FEW (sizeof few / sizeof *few)

static mcg_candidates *table(const mcg_facts *facts, size_t count)
{
  mcg_candidates *made = NULL;
  mcg_error *err = NULL;
  if (mcg_candidates_new(facts, count, &made, &err) < 0) fail_msg("%s", err->message);
  return made;
}

static mcg_requirements *required(const char *json)
{
  mcg_requirements *made = NULL;
  mcg_error *err = NULL;
  if (mcg_requirements_new(json, strlen(json), &made, &err) < 0) fail_msg("%s", err->message);
  return made;
}

/* The names of those that fit, in order. */
static void orders(const mcg_facts *facts, size_t count, const char *json, mcg_unpriced unpriced,
                   const char *expected)
{
  mcg_candidates *candidates = table(facts, count);
  mcg_requirements *requirements = required(json);
  mcg_ranking *ranking = NULL;
  mcg_error *err = NULL;
  assert_int_equal(mcg_rank(candidates, requirements, unpriced, &ranking, &err), 0);
  char names[512] = "";
  for (size_t i = 0; i < ranking->count; i++) {
    assert_int_equal(ranking->verdicts[ranking->order[i]], 0);
    strcat(names, i ? " " : "");
    strcat(names, facts[ranking->order[i]].name);
  }
  if (strcmp(names, expected) != 0) fail_msg("%s: %s, not %s", json, names, expected);
  mcg_ranking_free(ranking);
  mcg_requirements_free(requirements);
  mcg_candidates_free(candidates);
}

static void orders_by_price(void **state)
{
  (void)state;
  orders(few, FEW, "{}", MCG_UNPRICED_LAST, "cheap dear same jail");
  orders(few, FEW, "{}", MCG_UNPRICED_FIRST, "jail cheap dear same");
  orders(few, FEW, "{}", MCG_UNPRICED_REJECT, "cheap dear same");
  orders(few, 0, "{}", MCG_UNPRICED_LAST, "");
}

static void says_why(void **state)
{
  (void)state;
  static const struct {
    const char *json;
    size_t index;
    const char *reason;
  } cases[] = {
      {"{}", 0, "fits; unpriced"},
      {"{}", 1, "fits; 0.5 USD a minute"},
      {"{}", 4, "it has its 2 sessions already"},
      {"{\"min_isolation\":\"vm\"}", 0, "isolation is namespace, vm is required"},
      {"{\"network\":true}", 0, "it does not reach the network"},
      {"{\"network\":false}", 1, "its network is not denied"},
      {"{\"persistent\":true}", 3, "its workspace ends with the session"},
      {"{\"capabilities\":[\"gpu\"]}", 1, "it lacks the capability gpu"},
      {"{\"capabilities\":[\"quantum\"]}", 3, "it lacks the capability quantum"},
      {"{\"capabilities\":[\"eu\"]}", 3, "it lacks the capability eu"},
      {"{\"region\":\"eu\"}", 2, "its region is us, eu is required"},
      {"{\"region\":\"eu\"}", 0, "it names no region, eu is required"},
      {"{\"memory_mb\":4096}", 2,
       "it gives at most 2048 MiB of memory, memory_mb = 4096 is required"},
      {"{\"cpu_count\":8}", 2, "it gives at most 2 processors, cpu_count = 8 is required"},
      {"{\"max_usd_per_minute\":0.1}", 1, "it costs 0.5 USD a minute, at most 0.1 is allowed"},
      {"{\"max_usd_per_minute\":0.1}", 0, "it is unpriced, and max_usd_per_minute is set"},
      {"{\"backends\":[\"cheap\"]}", 1, "dear is not among backends"},
      {"{\"not_backends\":[\"dear\"]}", 1, "not_backends names dear"},
  };
  mcg_candidates *candidates = table(few, FEW);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mcg_requirements *requirements = required(cases[i].json);
    mcg_ranking *ranking = NULL;
    mcg_error *err = NULL;
    assert_int_equal(mcg_rank(candidates, requirements, MCG_UNPRICED_LAST, &ranking, &err), 0);
    char *said = mcg_ranking_reason(ranking, candidates, requirements, cases[i].index);
    assert_string_equal(said, cases[i].reason);
    free(said);
    mcg_ranking_free(ranking);
    mcg_requirements_free(requirements);
  }
  mcg_candidates_free(candidates);
}

/* Against the plainest thing that can order: selection by scanning, ties by index. */
static void sorts_like_a_scan(void **state)
{
  (void)state;
  enum { MANY = 1000 };
  static mcg_facts many[MANY];
  static bool taken[MANY];
  unsigned seed = 7;
  for (size_t i = 0; i < MANY; i++) {
    seed = seed * 1103515245u + 12345u;
    many[i] = (mcg_facts){HOSTED("x", (seed >> 16) % 300 / 1000.0)};
    many[i].priced = (seed >> 8) % 5 != 0;
  }
  mcg_candidates *candidates = table(many, MANY);
  mcg_ranking *ranking = NULL;
  mcg_error *err = NULL;
  assert_int_equal(mcg_rank(candidates, NULL, MCG_UNPRICED_LAST, &ranking, &err), 0);
  assert_int_equal(ranking->count, MANY);
  for (size_t at = 0; at < MANY; at++) {
    size_t best = MANY;
    for (size_t i = 0; i < MANY; i++) {
      double usd = many[i].priced ? many[i].usd_per_minute : INFINITY;
      if (!taken[i] &&
          (best == MANY || usd < (many[best].priced ? many[best].usd_per_minute : INFINITY)))
        best = i;
    }
    taken[best] = true;
    assert_int_equal(ranking->order[at], best);
  }
  mcg_ranking_free(ranking);
  mcg_candidates_free(candidates);
}

/* More names than one word has bits. */
static void knows_many_capabilities(void **state)
{
  (void)state;
  enum { NAMES = 200 };
  static char names[NAMES][8];
  static const char *lists[NAMES][2];
  static mcg_facts facts[NAMES];
  for (int i = 0; i < NAMES; i++) {
    snprintf(names[i], sizeof names[i], "c%d", i);
    lists[i][0] = names[i];
    facts[i] = (mcg_facts){HOSTED(names[i], 1), .capabilities = lists[i]};
  }
  for (int i = 0; i < NAMES; i++) {
    char json[64];
    snprintf(json, sizeof json, "{\"capabilities\":[\"c%d\"]}", i);
    orders(facts, NAMES, json, MCG_UNPRICED_LAST, names[i]);
  }
  orders(facts, NAMES, "{\"capabilities\":[\"c1\",\"c150\"]}", MCG_UNPRICED_LAST, "");
}

static void refuses_bad_facts(void **state)
{
  (void)state;
  const mcg_facts bad[] = {
      {HOSTED("x", -1)},
      {HOSTED("x", NAN)},
      {HOSTED("x", INFINITY)},
      {.size = 3},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mcg_candidates *made = NULL;
    mcg_error *err = NULL;
    assert_int_equal(mcg_candidates_new(&bad[i], 1, &made, &err), -1);
    assert_int_equal(err->code, MCG_INVALID);
    mcg_error_free(err);
  }
}

static void refuses_bad_requirements(void **state)
{
  (void)state;
  static const char *const bad[][2] = {
      {"[1]", "expected a table"},
      {"{", "not JSON"},
      {"{\"netwrok\":true}", "requirements.netwrok: unknown key"},
      {"{\"network\":1}", "requirements.network: expected true or false"},
      {"{\"min_isolation\":\"vmm\"}", "\"vmm\" is no isolation"},
      {"{\"capabilities\":\"gpu\"}", "requirements.capabilities: expected a list"},
      {"{\"capabilities\":[1]}", "requirements.capabilities[1]: expected a string"},
      {"{\"backends\":[\"\"]}", "requirements.backends[1]: the name is empty"},
      {"{\"memory_mb\":-1}", "requirements.memory_mb: -1 is not between"},
      {"{\"max_usd_per_minute\":\"1\"}", "requirements.max_usd_per_minute: expected a number"},
      {"{\"region\":7}", "requirements.region: expected a string"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mcg_requirements *made = NULL;
    mcg_error *err = NULL;
    assert_int_equal(mcg_requirements_new(bad[i][0], strlen(bad[i][0]), &made, &err), -1);
    if (!strstr(err->message, bad[i][1])) fail_msg("%s: %s", bad[i][0], err->message);
    assert_int_equal(err->code, MCG_INVALID);
    mcg_error_free(err);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(orders_by_price),   cmocka_unit_test(says_why),
      cmocka_unit_test(sorts_like_a_scan), cmocka_unit_test(knows_many_capabilities),
      cmocka_unit_test(refuses_bad_facts), cmocka_unit_test(refuses_bad_requirements),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
