/* A policy: how it is read, what it judges, what it wants listened on. */
#include "cmocka_all.h"
#include "egress/policy.h"
#include "engine.h"
#include <jansson.h>
#include <string.h>

static const mcg_where where = {.key = "network"};

static mcg_policy *policy_of(const char *text)
{
  mcg_policy *policy = NULL;
  mcg_error *err = NULL;
  auto_json json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
  if (!json) fail_msg("no JSON: %s", text);
  if (mcg_policy_read(json, &where, &policy, &err) < 0) fail_msg("%s: %s", text, err->message);
  return policy;
}

typedef struct question {
  const char *target, *resolved; /* "name:port" or "address:port"; resolved: an address, or NULL */
  bool allowed;
  const char *rule, *says; /* NULL: not looked at */
} question;

static void ask(const mcg_policy *policy, const question *q)
{
  char name[MCG_NAME_ROOM];
  mcg_address address;
  mcg_fault fault;
  mcg_verdict verdict;
  bool is_address;
  uint16_t port;
  if (!mcg_host_port_parse(q->target, strlen(q->target), name, &address, &is_address, &port,
                           &fault))
    fail_msg("%s: %s", q->target, fault.text);
  if (q->resolved) assert_true(mcg_address_parse(q->resolved, strlen(q->resolved), &address));
  const mcg_target target = {.name = is_address ? NULL : name,
                             .address = is_address || q->resolved ? &address : NULL,
                             .port = port};
  bool allowed = mcg_policy_judge(policy, &target, &verdict);
  assert_int_equal(allowed, verdict.allowed);
  if (allowed != q->allowed || (q->rule && strcmp(q->rule, verdict.rule) != 0) ||
      (q->says && !strstr(verdict.reason, q->says)))
    fail_msg("%s at %s: %s by %s: %s", q->target, q->resolved ? q->resolved : "-",
             allowed ? "allowed" : "denied", verdict.rule, verdict.reason);
}

static void judges(void **state)
{
  (void)state;
  mcg_policy *policy =
      policy_of("{\"allow\":[\"api.example.com:443\",\"*.example.org\",\"10.1.0.0/16:5432\","
                "\"[fd00::/8]:5432\",\"8.8.8.0/24:53\",\"api.example.com:8443\"],"
                "\"deny\":[\"bad.example.org\",\"10.1.2.3\",\"*:8443\"]}");
  const question questions[] = {
      {"api.example.com:443", NULL, true, "api.example.com:443", NULL},
      {"API.example.COM.:443", NULL, true, "api.example.com:443", NULL},
      {"api.example.com:443", "1.2.3.4", true, NULL, NULL},
      {"api.example.com:443", "10.0.0.1", false, "private", "is at 10.0.0.1"},
      {"api.example.com:443", "127.0.0.1", false, "loopback", NULL},
      {"api.example.com:443", "10.1.9.9", false, "private", NULL}, /* its port is another */
      {"api.example.com:80", NULL, false, "default", "other ports"},
      {"api.example.com:8443", NULL, false, "*:8443", "denied"},
      {"example.com:443", NULL, false, "default", "no rule"},
      {"xapi.example.com:443", NULL, false, NULL, NULL},
      {"api.example.com.evil.test:443", NULL, false, NULL, NULL},
      {"example.org:443", NULL, false, NULL, NULL},
      {"a.example.org:80", NULL, true, "*.example.org:80,443", NULL},
      {"a.b.example.org:443", NULL, true, NULL, NULL},
      {"xexample.org:443", NULL, false, NULL, NULL},
      {"bad.example.org:443", NULL, false, "bad.example.org:*", NULL},
      {"10.1.0.1:5432", NULL, true, "10.1.0.0/16:5432", NULL},
      {"10.1.2.3:5432", NULL, false, "10.1.2.3:*", NULL},
      {"10.2.0.1:5432", NULL, false, "default", NULL},
      {"a.example.org:443", "10.1.2.3", false, "10.1.2.3:*", "is at 10.1.2.3"},
      {"[fd12::1]:5432", NULL, true, "[fd00::/8]:5432", NULL},
      {"[fd00:ec2::254]:5432", NULL, false, "metadata", NULL},
      {"8.8.8.8:53", NULL, true, NULL, NULL},
      {"8.8.8.8:443", NULL, false, NULL, "other ports"},
      {"[::ffff:8.8.8.8]:53", NULL, true, NULL, NULL},
      {"[64:ff9b::808:808]:53", NULL, false, NULL, NULL},
  };
  for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) ask(policy, &questions[i]);
  mcg_policy_unref(policy);
}

static void everything_but_special(void **state)
{
  (void)state;
  mcg_policy *policy = policy_of("\"open\"");
  const question questions[] = {
      {"a.test:1", NULL, true, "default", NULL},
      {"a.test:443", "9.9.9.9", true, "default", NULL},
      {"a.test:443", "192.168.0.1", false, "private", NULL},
      {"9.9.9.9:65535", NULL, true, NULL, NULL},
      {"169.254.169.254:80", NULL, false, "metadata", NULL},
      {"168.63.129.16:80", NULL, false, "metadata", NULL},
      {"0x7f.1:80", NULL, false, "loopback", NULL},
      {"[::1]:80", NULL, false, "loopback", NULL},
      {"[64:ff9b::7f00:1]:80", NULL, false, "loopback", NULL},
  };
  for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) ask(policy, &questions[i]);
  assert_true(mcg_policy_by_default(policy));
  assert_true(mcg_policy_redirects(policy));
  mcg_policy_unref(policy);
}

static void wide_rules_open_nothing_special(void **state)
{
  (void)state;
  mcg_policy *policy =
      policy_of("{\"allow\":[\"0.0.0.0/0:80\",\"*:80\",\"169.254.0.0/16:80\",\"[::/0]:80\"]}");
  const question questions[] = {
      {"9.9.9.9:80", NULL, true, NULL, NULL},
      {"10.0.0.1:80", NULL, false, "private", NULL},
      {"127.0.0.1:80", NULL, false, "loopback", NULL},
      {"169.254.1.1:80", NULL, true, NULL, NULL},
      {"169.254.169.254:80", NULL, false, "metadata", NULL},
      {"[fd00::1]:80", NULL, false, "private", NULL},
      {"[2606:4700::1]:80", NULL, true, NULL, NULL},
  };
  for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) ask(policy, &questions[i]);
  mcg_policy_unref(policy);
  policy = policy_of("{\"allow\":[\"169.254.169.254:80\",\"a.test:80\"]}");
  ask(policy, &(question){"169.254.169.254:80", NULL, true, NULL, NULL});
  ask(policy, &(question){"a.test:80", "169.254.169.254", true, NULL, NULL});
  ask(policy, &(question){"[64:ff9b::a9fe:a9fe]:80", NULL, false, NULL, NULL});
  mcg_policy_unref(policy);
}

/* A denial of an address is one of what stands for it, too. */
static void deny_sees_through(void **state)
{
  (void)state;
  mcg_policy *policy = policy_of("{\"default\":\"allow\",\"deny\":[\"8.8.8.8\"]}");
  ask(policy, &(question){"8.8.8.8:53", NULL, false, "8.8.8.8:*", NULL});
  ask(policy, &(question){"[64:ff9b::808:808]:53", NULL, false, "8.8.8.8:*", NULL});
  ask(policy, &(question){"[2002:808:808::1]:53", NULL, false, "8.8.8.8:*", NULL});
  ask(policy, &(question){"134744072:53", NULL, false, "8.8.8.8:*", NULL});
  ask(policy, &(question){"8.8.4.4:53", NULL, true, NULL, NULL});
  mcg_policy_unref(policy);
}

static void one_within_another(void **state)
{
  (void)state;
  mcg_policy *policy = policy_of(
      "{\"allow\":[\"*.example.org:443,8443\",\"other.test:443\"],\"idle_s\":90,\"connections\":8,"
      "\"within\":{\"allow\":[\"a.example.org:443\",{\"host\":\"b.example.org\",\"sni\":true}],"
      "\"deny\":[\"x.example.org\"],\"idle_s\":30}}");
  ask(policy, &(question){"a.example.org:443", NULL, true, "*.example.org:443,8443", NULL});
  ask(policy, &(question){"a.example.org:8443", NULL, false, NULL, NULL});
  ask(policy, &(question){"c.example.org:443", NULL, false, NULL, NULL});
  ask(policy, &(question){"x.example.org:443", NULL, false, "x.example.org:*", NULL});
  ask(policy, &(question){"other.test:443", NULL, false, NULL, NULL});
  assert_int_equal(mcg_policy_limits(policy)->idle_ms, 30000);
  assert_int_equal(mcg_policy_limits(policy)->connections, 8);
  assert_int_equal(mcg_policy_name_port(policy, "a.example.org", 0), 443);
  assert_int_equal(mcg_policy_name_port(policy, "a.example.org", 443), 0);
  assert_false(mcg_policy_names(policy, "other.test"));
  mcg_verdict verdict;
  mcg_policy_judge(policy, &(mcg_target){.name = "b.example.org", .port = 443}, &verdict);
  assert_true(verdict.allowed && verdict.sni && !verdict.terminate_tls);
  assert_int_equal(verdict.rule_count, 2);
  mcg_policy_unref(policy);
  policy = policy_of("{\"default\":\"allow\",\"within\":{\"allow\":[\"a.test:443\"]}}");
  assert_false(mcg_policy_redirects(policy));
  assert_false(mcg_policy_by_default(policy));
  assert_int_equal(mcg_policy_name_port(policy, "a.test", 0), 443);
  assert_int_equal(mcg_policy_name_port(policy, "a.test", 443), 0);
  mcg_policy_unref(policy);
}

/* The first rule that one of the others lets nothing through of, however far out it is. */
static void rules_apart(void **state)
{
  (void)state;
  static const struct {
    const char *own, *around;
    unsigned apart;
  } cases[] = {
      {"{\"allow\":[\"10.0.0.2:1\",\"10.0.0.3:1\"]}", "{\"allow\":[\"10.0.0.2:1\"]}", 2},
      {"{\"allow\":[\"10.0.0.2:1\"]}",
       "{\"allow\":[\"10.0.0.0/24:1\"],\"within\":{\"allow\":[\"10.0.0.3:1\"]}}", 1},
      {"{\"allow\":[\"10.0.0.3:1\",\"10.0.0.2:1\"]}",
       "{\"default\":\"allow\",\"within\":{\"allow\":[\"10.0.0.0/24:1\"],\"within\":{\"allow\":"
       "[\"10.0.0.3:1\"]}}}",
       2},
      {"{\"allow\":[\"10.0.0.3:1\"]}",
       "{\"allow\":[\"10.0.0.0/24:1\"],\"within\":{\"allow\":[\"10.0.0.3:1\"]}}", 0},
      {"{\"allow\":[\"a.test:1\"]}", "{\"default\":\"allow\",\"within\":{\"default\":\"allow\"}}",
       0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mcg_policy *own = policy_of(cases[i].own), *around = policy_of(cases[i].around);
    assert_int_equal(mcg_policy_rule_apart(own, around), cases[i].apart);
    mcg_policy_unref(own);
    mcg_policy_unref(around);
  }
}

static void wants_listeners(void **state)
{
  (void)state;
  mcg_policy *policy = policy_of(
      "{\"allow\":[\"a.test\",\"*.x.test:22,80-82\",\"10.0.0.0/8:5432\",\"[fd00::/8]:1\"],"
      "\"deny\":[\"*:81\",\"c.x.test\"]}");
  static const uint16_t wanted[] = {22, 80, 82};
  uint16_t port = 0;
  for (size_t i = 0; i < 3; i++) {
    port = mcg_policy_name_port(policy, "b.x.test", port);
    assert_int_equal(port, wanted[i]);
  }
  assert_int_equal(mcg_policy_name_port(policy, "b.x.test", port), 0);
  assert_int_equal(mcg_policy_name_port(policy, "a.x", 0), 0);
  assert_false(mcg_policy_names(policy, "c.x.test"));
  assert_int_equal(mcg_policy_address_port(policy, false, 0), 5432);
  assert_int_equal(mcg_policy_address_port(policy, false, 5432), 0);
  assert_int_equal(mcg_policy_address_port(policy, true, 0), 1);
  assert_false(mcg_policy_redirects(policy));
  mcg_policy_unref(policy);
  policy = policy_of("{\"allow\":[\"a.test:1000-1063\"]}");
  assert_false(mcg_policy_redirects(policy));
  mcg_policy_unref(policy);
  policy = policy_of("{\"allow\":[\"a.test:1000-1064\"]}");
  assert_true(mcg_policy_redirects(policy));
  assert_false(mcg_policy_by_default(policy));
  mcg_policy_unref(policy);
  policy = policy_of("{\"allow\":[\"a.test:65535\"]}");
  assert_int_equal(mcg_policy_name_port(policy, "a.test", 0), 65535);
  assert_int_equal(mcg_policy_name_port(policy, "a.test", 65535), 0);
  mcg_policy_unref(policy);
  policy = policy_of("[]");
  assert_true(mcg_policy_allows_nothing(policy));
  assert_false(mcg_policy_names(policy, "a.test"));
  mcg_policy_unref(policy);
}

/* Every port on which a name may be connected to is one that is listened on for it, and no other is; of
 * addresses all are that any of them may be connected to. */
static void listens_where_it_allows(void **state)
{
  (void)state;
  static const char *const policies[] = {
      "{\"allow\":[\"a.x.test:1,3-5,65535\",\"*.x.test:4-9,80\",\"*:7\"],\"deny\":[\"*:5\","
      "\"a.x.test:8-9\"]}",
      "{\"default\":\"allow\",\"deny\":[\"*.x.test:100-65000\"]}",
      "{\"default\":\"allow\",\"within\":{\"allow\":[\"a.x.test:2-40\",\"11.0.0.0/8:9\"],"
      "\"deny\":[\"*:9-20\"]}}",
      "{\"allow\":[\"*.x.test:10-30\"],\"within\":{\"allow\":[\"a.x.test:20-40\",\"*:5\"],"
      "\"within\":{\"allow\":[\"*:1-25\"],\"deny\":[\"*:22\"]}}}",
      "{\"allow\":[\"11.0.0.0/8:5-9\",\"[2a01::]/16:6\",\"*:8\"]}",
      "{}",
  };
  static const char *const names[] = {"a.x.test", "b.x.test", "c.test"};
  static const char *const addresses[] = {"11.0.0.1", "2a01::1", "9.9.9.9"};
  for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
    mcg_policy *policy = policy_of(policies[i]);
    for (size_t k = 0; k < 3; k++) {
      mcg_address address;
      mcg_verdict verdict;
      assert_true(mcg_address_parse(addresses[k], strlen(addresses[k]), &address));
      for (uint32_t port = 1; port <= UINT16_MAX; port++) {
        const uint16_t before = (uint16_t)(port - 1), now = (uint16_t)port;
        bool named =
            mcg_policy_judge(policy, &(mcg_target){.name = names[k], .port = now}, &verdict);
        if (named != (mcg_policy_name_port(policy, names[k], before) == now))
          fail_msg("%s: %s:%u", policies[i], names[k], port);
        if (mcg_policy_judge(policy, &(mcg_target){.address = &address, .port = now}, &verdict) &&
            mcg_policy_address_port(policy, address.six, before) != now)
          fail_msg("%s: %s:%u", policies[i], addresses[k], port);
      }
    }
    mcg_policy_unref(policy);
  }
}

static void secrets_and_options(void **state)
{
  (void)state;
  mcg_policy *policy =
      policy_of("{\"allow\":[{\"host\":\"api.test\",\"port\":[443,\"8443-8444\"],"
                "\"terminate_tls\":true,\"headers\":{\"Authorization\":[\"Bearer \",{\"secret\":"
                "\"tok\"}]}},{\"host\":\"b.test\",\"sni\":true},{\"host\":\"*\",\"port\":25}]}");
  mcg_verdict verdict;
  mcg_policy_judge(policy, &(mcg_target){.name = "api.test", .port = 8444}, &verdict);
  assert_true(verdict.allowed && verdict.terminate_tls);
  assert_string_equal(verdict.rules[0]->headers[0].name, "Authorization");
  assert_string_equal(verdict.rules[0]->headers[0].value, "Bearer tok");
  assert_memory_equal(verdict.rules[0]->headers[0].secrets, "tok\0", 5);
  assert_true(mcg_policy_terminates(policy));
  ask(policy, &(question){"b.test:443", NULL, true, "b.test:443", NULL});
  ask(policy, &(question){"b.test:80", NULL, false, NULL, NULL});
  ask(policy, &(question){"c.test:25", NULL, true, "*:25", NULL});
  json_t *shown = mcg_policy_json(policy);
  char *text = json_dumps(shown, 0);
  assert_null(strstr(text, "tok"));
  free(text);
  json_decref(shown);
  mcg_policy_unref(policy);
}

static void refuses(void **state)
{
  (void)state;
  static const struct {
    const char *text, *says, *mends;
  } cases[] = {
      {"5", "network: expected a table", NULL},
      {"\"host\"", "has no rules", NULL},
      {"\"opne\"", "no network", NULL},
      {"{\"alow\":[]}", "network.alow: unknown key", "`allow`"},
      {"{\"allow\":\"a.test\"}", "network.allow: expected a list", NULL},
      {"{\"allow\":[5]}", "network.allow[1]: expected a string", NULL},
      {"{\"allow\":[\"a.test\",\"\"]}", "network.allow[2]: it is empty", NULL},
      {"{\"allow\":[\"*\"]}", "network.allow[1]: \"*\" alone", "\"*:443\""},
      {"{\"allow\":[\"*.*\"]}", "first label", NULL},
      {"{\"allow\":[\"com\"]}", "one label", "whole name"},
      {"{\"allow\":[\"*.com\"]}", "too broad", NULL},
      {"{\"allow\":[\"a.test:0\"]}", "no list of ports", NULL},
      {"{\"allow\":[{\"host\":\"a.test\",\"prot\":1}]}", "network.allow[1].prot: unknown",
       "`port`"},
      {"{\"allow\":[{\"port\":1}]}", "needs a `host`", NULL},
      {"{\"allow\":[{\"host\":\"a.test:1\",\"port\":1}]}", "`host` has ports", NULL},
      {"{\"allow\":[{\"host\":\"a.test\",\"port\":1.5}]}", "allow[1].port", NULL},
      {"{\"allow\":[{\"host\":\"a.test\",\"port\":[]}]}", "allow[1].port", NULL},
      {"{\"allow\":[{\"host\":\"*\"}]}", "alone", NULL},
      {"{\"allow\":[{\"host\":\"a.test\",\"sni\":1}]}", "allow[1].sni: expected true", NULL},
      {"{\"allow\":[{\"host\":\"10.0.0.1\",\"sni\":true}]}", "knows no name", NULL},
      {"{\"allow\":[{\"host\":\"10.0.0.1\",\"terminate_tls\":true}]}", "whose name", NULL},
      {"{\"allow\":[{\"host\":\"a.test\",\"headers\":{\"A\":\"b\"}}]}", "TLS ends",
       "terminate_tls = true"},
      {"{\"allow\":[{\"host\":\"*.a.test\",\"terminate_tls\":true,\"headers\":{\"A\":\"b\"}}]}",
       "more than one host", NULL},
      {"{\"allow\":[{\"host\":\"a.test\",\"terminate_tls\":true,\"headers\":{\"Host\":\"b\"}}]}",
       "cannot be set", NULL},
      {"{\"allow\":[{\"host\":\"a.test\",\"terminate_tls\":true,\"headers\":{\"A:\":\"b\"}}]}",
       "no name of a header", NULL},
      {"{\"allow\":[{\"host\":\"a.test\",\"terminate_tls\":true,\"headers\":{\"A\":\"b\\r\\nC: "
       "d\"}}]}",
       "control character", NULL},
      {"{\"allow\":[{\"host\":\"a.test\",\"terminate_tls\":true,\"headers\":{\"A\":\"\"}}]}",
       "empty", NULL},
      {"{\"deny\":[{\"host\":\"a.test\",\"sni\":true}]}", "rule that denies", NULL},
      {"{\"connections\":0}", "network.connections", NULL},
      {"{\"idle_s\":-1}", "network.idle_s", NULL},
      {"{\"bytes_per_s\":0.5}", "network.bytes_per_s", NULL},
      {"{\"bytes_total\":\"1\"}", "network.bytes_total", NULL},
      {"{\"within\":{\"within\":{\"within\":{\"within\":{}}}}}", "deep at most", NULL},
      {"{\"within\":{\"allow\":[\"\"]}}", "network.within.allow[1]", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mcg_policy *policy = NULL;
    auto_error mcg_error *err = NULL;
    auto_json json_t *json = json_loads(cases[i].text, JSON_DECODE_ANY, NULL);
    if (!json) fail_msg("no JSON: %s", cases[i].text);
    if (mcg_policy_read(json, &where, &policy, &err) == 0) fail_msg("%s is taken", cases[i].text);
    if (err->code != MCG_INVALID || !strstr(err->message, cases[i].says))
      fail_msg("%s: %s", cases[i].text, err->message);
    if (cases[i].mends && (!err->fix || !strstr(err->fix, cases[i].mends)))
      fail_msg("%s: fix %s", cases[i].text, err->fix ? err->fix : "none");
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(judges),
      cmocka_unit_test(everything_but_special),
      cmocka_unit_test(wide_rules_open_nothing_special),
      cmocka_unit_test(deny_sees_through),
      cmocka_unit_test(one_within_another),
      cmocka_unit_test(rules_apart),
      cmocka_unit_test(wants_listeners),
      cmocka_unit_test(listens_where_it_allows),
      cmocka_unit_test(secrets_and_options),
      cmocka_unit_test(refuses),
  };
  return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
