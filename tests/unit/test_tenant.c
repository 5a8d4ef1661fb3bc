/* A tenant's overrides: what tightens is taken, what loosens is refused and named; ids. */
#include "host.h"
#include "decide/tenant.h"
#include <string.h>

static json_t *parse(const char *text)
{
  json_t *json = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
  if (!json) fail_msg("no JSON: %s", text);
  return json;
}

typedef struct kept {
  const char *base, *overrides, *result;
} kept;

/* The result of each is the configuration, written by hand. */
static const kept tightened[] = {
    {"{}", "{}", "{}"},
    {"{}", "[]", "{}"},
    {"{}", "{\"limits\":{\"memory_mb\":512}}", "{\"limits\":{\"memory_mb\":512}}"},
    {"{\"limits\":{\"memory_mb\":2048,\"wall_s\":60}}", "{\"limits\":{\"memory_mb\":2048}}",
     "{\"limits\":{\"memory_mb\":2048,\"wall_s\":60}}"},
    {"{\"limits\":{\"wall_s\":60}}", "{\"limits\":{\"wall_s\":59.5,\"exec_s\":1e6}}",
     "{\"limits\":{\"wall_s\":59.5,\"exec_s\":1e6}}"},
    {"{\"network\":\"host\"}", "{\"network\":\"none\"}", "{\"network\":\"none\"}"},
    {"{\"network\":\"host\"}", "{\"network\":\"host\"}", "{\"network\":\"host\"}"},
    {"{}", "{\"network\":{\"default\":\"deny\"}}", "{\"network\":{\"default\":\"deny\"}}"},
    /* what both allow, whatever it is */
    {"{\"network\":{\"allow\":[\"*.a.test:1-9\",\"b.test:2\"],\"deny\":[\"c.a.test\"]}}",
     "{\"network\":{\"allow\":[\"x.a.test:2\"],\"deny\":[\"d.test\"],\"idle_s\":5}}",
     "{\"network\":{\"allow\":[\"x.a.test:2\"],\"deny\":[\"d.test\"],\"idle_s\":5,\"within\":"
     "{\"allow\":[\"*.a.test:1-9\",\"b.test:2\"],\"deny\":[\"c.a.test\"]}}}"},
    {"{\"network\":{\"default\":\"allow\",\"deny\":[\"c.test\"]}}",
     "{\"network\":{\"allow\":[\"x.test\"]}}",
     "{\"network\":{\"allow\":[\"x.test\"],\"within\":{\"default\":\"allow\",\"deny\":"
     "[\"c.test\"]}}}"},
    {"{\"network\":{\"default\":\"allow\",\"deny\":[\"c.test\"]}}", "{\"network\":\"open\"}",
     "{\"network\":{\"default\":\"allow\",\"deny\":[\"c.test\"]}}"},
    {"{\"network\":\"open\"}", "{\"network\":{\"default\":\"allow\",\"connections\":900}}",
     "{\"network\":{\"default\":\"allow\",\"connections\":900,\"within\":\"open\"}}"},
    {"{\"network\":\"open\"}", "{\"network\":\"none\"}", "{\"network\":\"none\"}"},
    {"{\"network\":\"host\"}", "{\"network\":{\"allow\":[\"x.test\"]}}",
     "{\"network\":{\"allow\":[\"x.test\"]}}"},
    {"{\"network\":\"open\"}",
     "{\"network\":{\"allow\":[\"x.test\"],\"within\":{\"allow\":[\"*:80\"]}}}",
     "{\"network\":{\"allow\":[\"x.test\"],\"within\":{\"allow\":[\"*:80\"],\"within\":\"open\"}}"
     "}"},
    {"{\"requirements\":{\"min_isolation\":\"namespace\"}}",
     "{\"requirements\":{\"min_isolation\":\"vm\",\"max_usd_per_minute\":1}}",
     "{\"requirements\":{\"min_isolation\":\"vm\",\"max_usd_per_minute\":1}}"},
    {"{\"requirements\":{\"capabilities\":[\"gpu\"]}}",
     "{\"requirements\":{\"capabilities\":[\"pty\"]}}",
     "{\"requirements\":{\"capabilities\":[\"gpu\",\"pty\"]}}"},
    {"{\"requirements\":{\"capabilities\":{},\"not_backends\":[]}}", /* Lua's {} is either */
     "{\"requirements\":{\"capabilities\":[\"pty\"],\"not_backends\":[\"jail\"]}}",
     "{\"requirements\":{\"capabilities\":[\"pty\"],\"not_backends\":[\"jail\"]}}"},
    {"{\"backend\":\"jail\"}", "{\"candidates\":[\"jail\"]}", "{\"candidates\":[\"jail\"]}"},
    {"{\"candidates\":[{\"id\":\"jail\",\"name\":\"a\"},{\"id\":\"jail\",\"name\":\"b\"},"
     "\"subprocess\"]}",
     "{\"candidates\":[\"b\"]}", "{\"candidates\":[{\"id\":\"jail\",\"name\":\"b\"}]}"},
    {"{\"candidates\":[\"subprocess\"]}", "{\"candidates\":[{\"id\":\"jail\"}]}",
     "{\"candidates\":[{\"id\":\"jail\"}]}"},
    {"{\"enforcement\":\"best_effort\"}", "{\"enforcement\":\"required\"}",
     "{\"enforcement\":\"required\"}"},
    {"{\"environment\":{\"A\":\"1\",\"B\":\"1\"}}", "{\"environment\":{\"B\":\"2\"}}",
     "{\"environment\":{\"A\":\"1\",\"B\":\"2\"}}"},
    {"{}", "{\"labels\":{\"team\":\"x\"}}", "{\"labels\":{\"team\":\"x\"}}"},
    {"{}", "{\"allowed_tools\":[\"shell\"]}", "{\"allowed_tools\":[\"shell\"]}"},
    {"{\"allowed_tools\":[\"shell\",\"list_files\"]}", "{\"allowed_tools\":[\"list_files\"]}",
     "{\"allowed_tools\":[\"list_files\"]}"},
    {"{}", "{\"audit\":{\"type\":\"jsonl\",\"dir\":\"/x\"}}",
     "{\"audit\":[{\"type\":\"jsonl\",\"dir\":\"/x\"}]}"},
    {"{\"audit\":[{\"type\":\"jsonl\"},{\"type\":\"stderr\"}]}",
     "{\"audit\":[{\"type\":\"jsonl\",\"dir\":\"/x\"}]}",
     "{\"audit\":[{\"type\":\"stderr\"},{\"type\":\"jsonl\",\"dir\":\"/x\"}]}"},
    {"{\"audit\":false}", "{\"audit\":false}", "{\"audit\":false}"},
    {"{\"audit\":false}", "{\"audit\":{\"type\":\"jsonl\"}}", "{\"audit\":[{\"type\":\"jsonl\"}]}"},
    /* what is no log takes no log away, also not the one that is there without being named */
    {"{\"audit\":{\"type\":\"jsonl\",\"path\":\"/x\"}}", "{\"audit\":{\"type\":\"stderr\"}}",
     "{\"audit\":[{\"type\":\"jsonl\",\"path\":\"/x\"},{\"type\":\"stderr\"}]}"},
    {"{\"audit\":[{\"type\":\"jsonl\"}]}", "{\"audit\":[{\"type\":\"stderr\"}]}",
     "{\"audit\":[{\"type\":\"jsonl\"},{\"type\":\"stderr\"}]}"},
    {"{}", "{\"audit\":{\"type\":\"stderr\"}}",
     "{\"audit\":[{\"type\":\"jsonl\"},{\"type\":\"stderr\"}]}"},
    /* and a log says what the one said in whose place it is */
    {"{\"audit\":{\"type\":\"jsonl\",\"path\":\"/x\",\"durable\":true,\"hmac_key\":\"k\","
     "\"rotate_mb\":2}}",
     "{\"audit\":{\"type\":\"jsonl\",\"path\":\"/y\"}}",
     "{\"audit\":[{\"type\":\"jsonl\",\"path\":\"/y\",\"durable\":true,\"hmac_key\":\"k\","
     "\"rotate_mb\":2}]}"},
    {"{\"audit\":[{\"type\":\"jsonl\",\"durable\":false},{\"type\":\"jsonl\",\"path\":\"/x\","
     "\"durable\":true,\"hmac_key\":\"k\"}]}",
     "{\"audit\":[{\"type\":\"stderr\"},{\"type\":\"jsonl\",\"hmac_key\":\"l\"}]}",
     "{\"audit\":[{\"type\":\"stderr\"},{\"type\":\"jsonl\",\"hmac_key\":\"l\",\"durable\":true}]"
     "}"},
    {"{}", "{\"credentials\":{\"jail\":{\"environment\":{\"A\":\"1\"}}}}",
     "{\"candidates\":[{\"id\":\"jail\",\"options\":{\"environment\":{\"A\":\"1\"}}}]}"},
    {"{\"backend\":{\"id\":\"jail\",\"name\":\"a\",\"options\":{\"profile\":\"packages\","
     "\"binds\":[\"/a:/a\",\"/b:/b\"],\"user\":\"u\",\"rootfs\":\"/r\"}}}",
     "{\"credentials\":{\"a\":{\"profile\":\"default\",\"binds\":[\"/b:/b\"],\"user\":\"u\"}}}",
     "{\"candidates\":[{\"id\":\"jail\",\"name\":\"a\",\"options\":{\"profile\":\"default\","
     "\"binds\":[\"/b:/b\"],\"user\":\"u\",\"rootfs\":\"/r\"}}]}"},
    {"{}", "{\"candidates\":[{\"id\":\"jail\",\"options\":{\"profile\":\"strict\"}}]}",
     "{\"candidates\":[{\"id\":\"jail\",\"options\":{\"profile\":\"strict\"},\"within\":{\"name\":"
     "\"jail\"}}]}"},
    {"{\"candidates\":[\"jail\",{\"id\":\"jail\",\"options\":{\"binds\":[\"/a:/a\"],"
     "\"profile\":\"debug\"}}]}", /* no looser than one of them is enough */
     "{\"candidates\":[{\"id\":\"jail\",\"options\":{\"binds\":[\"/a:/a\"],\"profile\":\"debug\"}},"
     "{\"id\":\"jail\",\"options\":{\"profile\":\"strict\"}}]}",
     "{\"candidates\":[{\"id\":\"jail\",\"options\":{\"binds\":[\"/a:/a\"],\"profile\":\"debug\"},"
     "\"within\":{\"name\":\"jail\"}},{\"id\":\"jail\",\"options\":{\"profile\":\"strict\"},"
     "\"within\":{\"name\":\"jail\"}}]}"},
    /* what it costs, what it is and how many there may be is the configuration's */
    {"{\"backend\":{\"id\":\"jail\",\"name\":\"a\",\"cost\":{\"usd_per_minute\":1},\"tags\":[\"t\"]"
     ","
     "\"max_sessions\":3,\"pool\":{\"size\":2}}}",
     "{\"candidates\":[{\"id\":\"jail\",\"name\":\"b\"}]}",
     "{\"candidates\":[{\"id\":\"jail\",\"name\":\"b\",\"cost\":{\"usd_per_minute\":1},\"tags\":["
     "\"t\"],"
     "\"pool\":{\"size\":2},\"within\":{\"name\":\"a\",\"max_sessions\":3}}]}"},
    {"{\"backend\":{\"id\":\"jail\",\"cost\":{\"usd_per_minute\":1},\"tags\":[\"t\"],"
     "\"max_sessions\":3},\"pool\":{\"size\":2}}",
     "{\"candidates\":[{\"id\":\"jail\",\"cost\":{\"usd_per_minute\":1.0},\"tags\":[\"t\"],"
     "\"max_sessions\":2,\"pool\":{\"size\":1}}]}",
     "{\"candidates\":[{\"id\":\"jail\",\"cost\":{\"usd_per_minute\":1},\"tags\":[\"t\"],"
     "\"max_sessions\":2,\"pool\":{\"size\":1},\"within\":{\"name\":\"jail\",\"max_sessions\":3}}],"
     "\"pool\":{\"size\":2}}"},
    {"{\"candidates\":[{\"id\":\"jail\",\"name\":\"a\",\"options\":{\"profile\":\"strict\"},"
     "\"cost\":{\"usd_per_minute\":0}},{\"id\":\"jail\",\"name\":\"b\",\"cost\":"
     "{\"usd_per_minute\":5}}]}", /* the first that it is no looser than */
     "{\"candidates\":[{\"id\":\"jail\",\"name\":\"a\"}]}",
     "{\"candidates\":[{\"id\":\"jail\",\"name\":\"a\",\"cost\":{\"usd_per_minute\":5},"
     "\"within\":{\"name\":\"b\"}}]}"},
    {"{\"candidates\":[\"subprocess\"]}",
     "{\"candidates\":[{\"id\":\"jail\",\"cost\":{},\"max_sessions\":2}]}",
     "{\"candidates\":[{\"id\":\"jail\",\"max_sessions\":2}]}"},
};

static void tightens(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof tightened / sizeof *tightened; i++) {
    const kept *k = &tightened[i];
    json_t *base = parse(k->base), *overrides = parse(k->overrides), *wanted = parse(k->result);
    json_t *before = json_deep_copy(base), *out = NULL;
    mcg_quota quota;
    mcg_error *err = NULL;
    if (mcg_tenant_apply(engine, base, "acme", overrides, &out, &quota, &err) < 0)
      fail_msg("%s over %s: %s", k->overrides, k->base, err->message);
    if (!json_equal(out, wanted)) fail_msg("%s: %s", k->overrides, json_dumps(out, JSON_COMPACT));
    assert_true(json_equal(base, before));
    assert_int_equal(quota.sessions, 0);
    json_decref(base);
    json_decref(before);
    json_decref(overrides);
    json_decref(wanted);
    json_decref(out);
  }
}

typedef struct refused {
  const char *base, *overrides;
  mcg_code code;
  const char *says;
} refused;

#define PRICED                                                                                     \
  "{\"backend\":{\"id\":\"jail\",\"cost\":{\"usd_per_minute\":1},\"tags\":[\"t\"],"                \
  "\"max_sessions\":3,\"pool\":{\"size\":2}}}"

static const refused loosened[] = {
    {"{}", "{\"limits\":{\"memory_mb\":1025}}", MCG_INVALID,
     "tenant \"acme\": limits.memory_mb: 1025 is looser than 1024"},
    {"{\"limits\":{\"memory_mb\":64}}", "{\"limits\":{\"memory_mb\":65}}", MCG_INVALID,
     "limits.memory_mb: 65 is looser than 64"},
    {"{\"limits\":{\"memory_mb\":64}}", "{\"limits\":{\"disk_mb\":33}}", MCG_INVALID,
     "limits.disk_mb: 33 is looser than 32"},
    {"{\"limits\":{\"wall_s\":60}}", "{\"limits\":{\"wall_s\":61}}", MCG_INVALID, "limits.wall_s"},
    {"{}", "{\"limits\":{\"memroy_mb\":1}}", MCG_INVALID, "limits.memroy_mb: unknown key"},
    {"{}", "{\"limits\":{\"memory_mb\":\"1\"}}", MCG_INVALID,
     "limits.memory_mb: expected a number"},
    {"{}", "{\"limits\":{\"memory_mb\":-1}}", MCG_INVALID, "limits.memory_mb"},
    {"{}", "{\"network\":\"host\"}", MCG_INVALID, "network: \"host\" is looser than \"none\""},
    {"{\"network\":\"none\"}", "{\"network\":{\"default\":\"allow\"}}", MCG_INVALID, "looser"},
    {"{\"network\":{\"default\":\"allow\"}}", "{\"network\":\"host\"}", MCG_INVALID, "looser"},
    {"{\"network\":{\"allow\":[\"a.test:1\"]}}",
     "{\"network\":{\"allow\":[\"a.test:1\",\"b.test:2\"]}}", MCG_INVALID, "network.allow: rule 2"},
    {"{\"network\":{\"allow\":[\"a.test:1\"]}}", "{\"network\":{\"allow\":[\"a.test:2\"]}}",
     MCG_INVALID, "network.allow: rule 1"},
    {"{\"network\":{\"allow\":[\"a.test:1\"]}}", "{\"network\":{\"allow\":[\"*.a.test:1\"]}}",
     MCG_INVALID, "network.allow: rule 1"},
    {"{\"network\":{\"allow\":[\"10.0.0.0/8\"]}}", "{\"network\":{\"allow\":[\"11.0.0.0/8\"]}}",
     MCG_INVALID, "network.allow: rule 1"},
    {"{\"network\":{\"allow\":[\"a.test\"]}}", "{\"network\":\"open\"}", MCG_INVALID, "looser"},
    {"{\"network\":\"open\"}", "{\"network\":{\"allow\":[\"com\"]}}", MCG_INVALID,
     "network.allow[1]: \"com\""},
    {"{}", "{\"network\":\"nonsense\"}", MCG_INVALID, "nonsense"},
    {"{}", "{\"network\":7}", MCG_INVALID, "network"},
    {"{\"requirements\":{\"min_isolation\":\"container\"}}",
     "{\"requirements\":{\"min_isolation\":\"namespace\"}}", MCG_INVALID,
     "requirements.min_isolation: namespace is weaker than container"},
    {"{}", "{\"requirements\":{\"min_isolation\":\"vmm\"}}", MCG_INVALID, "no isolation"},
    {"{\"requirements\":{\"max_usd_per_minute\":1}}",
     "{\"requirements\":{\"max_usd_per_minute\":2}}", MCG_INVALID, "2 is more than 1"},
    {"{\"requirements\":{\"network\":false}}", "{\"requirements\":{\"network\":true}}", MCG_INVALID,
     "requirements.network"},
    {"{}", "{\"requirements\":{\"memory_mb\":9999}}", MCG_INVALID, "unknown key"},
    {"{}", "{\"candidates\":[\"subprocess\"]}", MCG_INVALID, "no candidate \"subprocess\""},
    {"{}", "{\"candidates\":[{\"id\":\"subprocess\"}]}", MCG_INVALID,
     "candidates[1]: subprocess isolates less than namespace"},
    {"{}", "{\"candidates\":\"jail\"}", MCG_INVALID, "expected a list"},
    {"{}", "{\"enforcement\":\"best_effort\"}", MCG_INVALID, "enforcement"},
    {"{\"allowed_tools\":[\"shell\"]}", "{\"allowed_tools\":[\"write_file\"]}", MCG_INVALID,
     "allowed_tools"},
    {"{}", "{\"audit\":false}", MCG_INVALID, "audit"},
    {"{}", "{\"audit\":[]}", MCG_INVALID, "audit: the list is empty"},
    {"{\"audit\":{\"type\":\"jsonl\",\"durable\":true}}",
     "{\"audit\":{\"type\":\"jsonl\",\"durable\":false}}", MCG_INVALID,
     "audit.durable: false is looser than true"},
    {"{}", "{\"store_prefix\":\"a/\"}", MCG_INVALID, "store_prefix"},
    {"{}", "{\"namespace\":\"a\"}", MCG_UNSUPPORTED, "namespace"},
    {"{}", "{\"credentials\":{\"e2b\":{\"api_key\":\"x\"}}}", MCG_INVALID, "credentials.e2b"},
    {"{}", "{\"credentials\":{\"jail\":{\"binds\":[\"/etc:/workspace/etc\"]}}}", MCG_INVALID,
     "credentials.jail.binds: a tenant cannot set it"},
    {"{}", "{\"credentials\":{\"jail\":{\"rootfs\":\"/\"}}}", MCG_INVALID,
     "credentials.jail.rootfs: a tenant cannot set it"},
    {"{}", "{\"credentials\":{\"jail\":{\"path\":[\"/root\"]}}}", MCG_INVALID, "jail.path"},
    {"{}", "{\"credentials\":{\"jail\":{\"profile\":\"debug\"}}}", MCG_INVALID,
     "credentials.jail.profile: \"debug\" is looser than \"default\""},
    {"{\"backend\":{\"id\":\"jail\",\"options\":{\"profile\":\"strict\"}}}",
     "{\"credentials\":{\"jail\":{\"profile\":\"default\"}}}", MCG_INVALID,
     "\"default\" is looser than \"strict\""},
    {"{\"backend\":{\"id\":\"jail\",\"options\":{\"profile\":\"debug\"}}}",
     "{\"credentials\":{\"jail\":{\"profile\":\"packages\"}}}", MCG_INVALID, "looser"},
    {"{\"backend\":{\"id\":\"jail\",\"options\":{\"binds\":[\"/a:/a\"]}}}",
     "{\"credentials\":{\"jail\":{\"binds\":[\"/a:/a:rw\"]}}}", MCG_INVALID, "jail.binds"},
    {"{}", "{\"credentials\":{\"jail\":{\"binds\":\"/tmp:/host\"}}}", MCG_INVALID,
     "credentials.jail.binds: a tenant cannot set it"}, /* no list is no empty one */
    {"{}", "{\"candidates\":[{\"id\":\"jail\",\"options\":{\"path\":7}}]}", MCG_INVALID,
     "candidates[1].options.path"},
    {"{\"backend\":\"subprocess\"}",
     "{\"credentials\":{\"subprocess\":{\"inherit_env\":[\"AWS_SECRET\"]}}}", MCG_INVALID,
     "subprocess.inherit_env: a tenant cannot set it"},
    {"{}", "{\"candidates\":[{\"id\":\"jail\",\"options\":{\"binds\":[\"/etc:/e\"]}}]}",
     MCG_INVALID, "candidates[1].options.binds: a tenant cannot set it"},
    {"{}", "{\"candidates\":[{\"options\":{\"profile\":\"packages\"}}]}", MCG_INVALID,
     "candidates[1].options.profile: \"packages\" is looser"},
    {"{\"backend\":{\"id\":\"jail\",\"options\":{\"profile\":\"strict\"}}}",
     "{\"candidates\":[{\"id\":\"jail\"}]}", MCG_INVALID, "\"default\" is looser than \"strict\""},
    {"{\"backend\":{\"id\":\"jail\",\"options\":{\"rootfs\":\"/r\"}}}",
     "{\"candidates\":[{\"id\":\"jail\"}]}", MCG_INVALID,
     "options.rootfs: a tenant cannot leave out what the configuration says"},
    {"{\"candidates\":[{\"id\":\"jail\",\"options\":{\"binds\":[\"/a:/a\"]}},"
     "{\"id\":\"jail\",\"options\":{\"profile\":\"debug\"}}]}", /* of each a bit is none of them */
     "{\"candidates\":[{\"id\":\"jail\",\"options\":{\"binds\":[\"/a:/"
     "a\"],\"profile\":\"debug\"}}]}",
     MCG_INVALID, "looser"},
    {PRICED, "{\"candidates\":[{\"id\":\"jail\",\"cost\":{\"usd_per_minute\":0}}]}", MCG_INVALID,
     "candidates[1].cost: a tenant cannot set it"},
    {PRICED, "{\"candidates\":[{\"id\":\"jail\",\"cost\":{\"usd_per_minute\":2}}]}", MCG_INVALID,
     "candidates[1].cost: a tenant cannot set it"},
    {PRICED, "{\"candidates\":[{\"id\":\"jail\",\"cost\":{}}]}", MCG_INVALID,
     "candidates[1].cost: a tenant cannot set it"},
    {PRICED, "{\"candidates\":[{\"id\":\"jail\",\"cost\":5}]}", MCG_INVALID,
     "candidates[1].cost: expected a table"},
    {PRICED, "{\"candidates\":[{\"id\":\"jail\",\"tags\":[\"u\"]}]}", MCG_INVALID,
     "candidates[1].tags: a tenant cannot set them"},
    {PRICED, "{\"candidates\":[{\"id\":\"jail\",\"tags\":[]}]}", MCG_INVALID,
     "candidates[1].tags: a tenant cannot set them"},
    {PRICED, "{\"candidates\":[{\"id\":\"jail\",\"max_sessions\":4}]}", MCG_INVALID,
     "candidates[1].max_sessions: 4 is looser than 3"},
    {PRICED, "{\"candidates\":[{\"id\":\"jail\",\"max_sessions\":\"4\"}]}", MCG_INVALID,
     "candidates[1].max_sessions: expected a number"},
    {PRICED, "{\"candidates\":[{\"id\":\"jail\",\"pool\":{\"size\":3}}]}", MCG_INVALID,
     "candidates[1].pool: 3 is looser than 2"},
    {PRICED, "{\"candidates\":[{\"id\":\"jail\",\"within\":{\"name\":\"other\"}}]}", MCG_INVALID,
     "candidates[1].within: it is not"},
    {"{}", "{\"candidates\":[{\"id\":\"jail\",\"cost\":{\"usd_per_minute\":0}}]}", MCG_INVALID,
     "candidates[1].cost: a tenant cannot set it"},
    {"{}", "{\"candidates\":[{\"id\":\"jail\",\"pool\":{\"size\":1}}]}", MCG_INVALID,
     "candidates[1].pool: 1 is looser than 0"},
    {"{\"candidates\":[\"subprocess\"]}",
     "{\"candidates\":[{\"id\":\"jail\",\"cost\":{\"usd_per_minute\":0}}]}", MCG_INVALID,
     "candidates[1].cost: a tenant cannot set it"},
    {"{\"candidates\":[\"subprocess\"]}",
     "{\"candidates\":[{\"id\":\"jail\",\"pool\":{\"size\":1}}]}", MCG_INVALID,
     "candidates[1].pool: 1 is looser than 0"},
    {"{}", "{\"candidates\":[{\"id\":\"jial\"}]}", MCG_INVALID,
     "candidates[1]: there is no backend \"jial\""},
    {"{}", "{\"quota\":{\"sesions\":1}}", MCG_INVALID, "quota.sesions: unknown key"},
    {"{}", "{\"quota\":{\"sessions\":0}}", MCG_INVALID, "quota.sessions"},
    {"{}", "{\"quota\":{\"sessions\":1.5}}", MCG_INVALID, "whole number"},
    {"{}", "{\"quota\":{\"usd\":-5}}", MCG_INVALID, "quota.usd"},
    {"{}", "{\"quota\":{\"usd\":5,\"per\":\"week\"}}", MCG_INVALID, "quota.per"},
    {"{}", "{\"tenant\":\"other\"}", MCG_INVALID, "unknown key"},
    {"{}", "{\"limit\":{}}", MCG_INVALID, "limit: unknown key"},
    {"{}", "{\"candidates\":[5]}", MCG_INVALID, "candidates[1]: expected a table"},
    {"{}", "{\"candidates\":[null]}", MCG_INVALID, "candidates[1]: expected a table"},
    {"{}", "{\"candidates\":[{\"id\":\"subprocess\",\"name\":\"jail\"}]}", MCG_INVALID,
     "isolates less"},
    {"{}", "{\"credentials\":5}", MCG_INVALID, "credentials: expected a table"},
    {"{}", "{\"credentials\":{\"jail\":5}}", MCG_INVALID, "credentials.jail: expected a table"},
    {"{}", "{\"requirements\":5}", MCG_INVALID, "requirements: expected a table"},
    {"{}", "{\"requirements\":{\"capabilities\":5}}", MCG_INVALID, "expected a list"},
    {"{}", "{\"requirements\":{\"min_isolation\":5}}", MCG_INVALID, "expected a string"},
    {"{}", "{\"limits\":5}", MCG_INVALID, "limits: expected a table"},
    {"{}", "{\"network\":{\"allow\":5}}", MCG_INVALID, "network.allow: expected a list"},
    {"{}", "{\"network\":{\"default\":5}}", MCG_INVALID, "network.default: expected a string"},
    {"{}", "{\"labels\":5}", MCG_INVALID, "labels: expected a table"},
    {"{}", "{\"environment\":[1]}", MCG_INVALID, "environment: expected a table"},
    {"{}", "{\"allowed_tools\":5}", MCG_INVALID, "allowed_tools: expected a list"},
    {"{}", "{\"enforcement\":5}", MCG_INVALID, "enforcement: expected a string"},
    {"{}", "{\"namespace\":5}", MCG_INVALID, "namespace: expected a string"},
    {"{}", "{\"quota\":5}", MCG_INVALID, "quota: expected a table"},
    {"{}", "{\"quota\":{\"usd\":\"5\"}}", MCG_INVALID, "quota.usd: expected a number"},
    {"{}", "7", MCG_INVALID, "expected a table"},
    {"{}", "[1]", MCG_INVALID, "expected a table"},
};

static void refuses_what_loosens(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof loosened / sizeof *loosened; i++) {
    const refused *r = &loosened[i];
    json_t *base = parse(r->base), *overrides = parse(r->overrides), *out = NULL;
    mcg_quota quota;
    mcg_error *err = NULL;
    if (mcg_tenant_apply(engine, base, "acme", overrides, &out, &quota, &err) == 0)
      fail_msg("taken: %s over %s", r->overrides, r->base);
    assert_null(out);
    if (err->code != r->code)
      fail_msg("%s: code %s: %s", r->overrides, mcg_code_name(err->code), err->message);
    if (!strstr(err->message, r->says)) fail_msg("%s: says \"%s\"", r->overrides, err->message);
    mcg_error_free(err);
    json_decref(base);
    json_decref(overrides);
  }
}

static void reads_quotas(void **state)
{
  (void)state;
  json_t *base = parse("{}"), *out;
  json_t *overrides =
      parse("{\"quota\":{\"sessions\":3,\"usd\":2.5,\"minutes\":90,\"per\":\"day\"}}");
  mcg_quota quota;
  mcg_error *err = NULL;
  assert_int_equal(mcg_tenant_apply(engine, base, "a", overrides, &out, &quota, &err), 0);
  assert_int_equal(quota.sessions, 3);
  assert_true(quota.usd == 2.5 && quota.minutes == 90);
  assert_int_equal(quota.per, MCG_PER_DAY);
  assert_int_equal(json_object_size(out), 0); /* it is no key of a configuration */
  json_decref(base);
  json_decref(overrides);
  json_decref(out);
}

static void judges_ids(void **state)
{
  (void)state;
  static const char *const good[] = {"\"a\"", "\"Acme-Corp_7\"", "\"7\"", "\"-\""};
  static const char *const bad[] = {
      "\"\"",
      "\"a/b\"",
      "\"..\"",
      "\".\"",
      "\"a.b\"",
      "\"a b\"",
      "\"a\\n\"",
      "\"a\\u0000\"",
      "\"\\u001b\"",
      "\"\\u0430cme\"",
      "\"\\uff41cme\"",
      "\"a\\u200b\"",
      "\"\\u00e9\"",
      "\"a%2f\"",
      "\"C:\"",
      "\"a\\\\b\"",
      "7",
      "null",
      "{}",
      "true",
  };
  const mcg_where where = {.key = "tenant"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    json_t *id = parse(good[i]);
    mcg_error *err = NULL;
    assert_int_equal(mcg_tenant_check(id, &where, &err), 0);
    json_decref(id);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    json_t *id = parse(bad[i]);
    mcg_error *err = NULL;
    if (mcg_tenant_check(id, &where, &err) == 0) fail_msg("taken: %s", bad[i]);
    assert_int_equal(err->code, MCG_INVALID);
    assert_non_null(strstr(err->message, "tenant: "));
    mcg_error_free(err);
    json_decref(id);
  }
  char *megabyte = malloc(1 << 20);
  memset(megabyte, 'a', (1 << 20) - 1);
  for (size_t len = 64; len < 1 << 20; len = len == 64 ? 65 : (1 << 20)) {
    json_t *id = json_stringn(megabyte, len);
    mcg_error *err = NULL;
    assert_int_equal(mcg_tenant_check(id, &where, &err), len == 64 ? 0 : -1);
    if (err) assert_true(strlen(err->message) < 200);
    mcg_error_free(err);
    json_decref(id);
  }
  free(megabyte);
}

/* The keys are what sha256sum says of the ids. */
static void keys_name_one_tenant(void **state)
{
  (void)state;
  char a[MCG_TENANT_KEY], b[MCG_TENANT_KEY];
  mcg_tenant_key("acme", a);
  mcg_tenant_key("Acme", b);
  assert_string_equal(a, "822b33ad87c148a0a20a5ba7cd5ebcaa");
  assert_string_not_equal(a, b);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tightens),
      cmocka_unit_test(refuses_what_loosens),
      cmocka_unit_test(reads_quotas),
      cmocka_unit_test(judges_ids),
      cmocka_unit_test(keys_name_one_tenant),
  };
  return cmocka_run_group_tests(tests, engine_up, engine_down);
}
