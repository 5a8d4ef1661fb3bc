/* Rules: their grammar, what they name, and "HOST:PORT" beside curl's reading of it. */
#include "cmocka_all.h"
#include "curl_url.h"
#include "egress/rule.h"

static void understands(void **state)
{
  (void)state;
  static const struct {
    const char *text, *allows, *denies; /* as it is told; NULL: refused */
  } cases[] = {
      {"api.example.com", "api.example.com:80,443", "api.example.com:*"},
      {"API.example.com.", "api.example.com:80,443", "api.example.com:*"},
      {"api.example.com:443", "api.example.com:443", "api.example.com:443"},
      {"a.test:443,80,81", "a.test:80-81,443", "a.test:80-81,443"},
      {"a.test:90-100,95-120,80", "a.test:80,90-120", "a.test:80,90-120"},
      {"a.test:1-65535", "a.test:*", "a.test:*"},
      {"a.test:*", "a.test:*", "a.test:*"},
      {"*.example.org:443", "*.example.org:443", "*.example.org:443"},
      {"*:443", "*:443", "*:443"},
      {"*", NULL, "*:*"},
      {"com", NULL, "com:*"},
      {"com.", "com:80,443", "com:*"},
      {"com:443", NULL, "com:443"},
      {"*.com", NULL, "*.com:*"},
      {"*.com.", NULL, "*.com:*"},
      {"*.com:443", NULL, "*.com:443"},
      {"*.*", NULL, NULL},
      {"*.", NULL, NULL},
      {"**", NULL, NULL},
      {"*a.test", NULL, NULL},
      {"a.*.test", NULL, NULL},
      {"*.*.test", NULL, NULL},
      {"*.10.0.0.1", NULL, NULL},
      {"", NULL, NULL},
      {":443", NULL, NULL},
      {"10.0.0.1", "10.0.0.1:80,443", "10.0.0.1:*"},
      {"10.0.0.0/8:5432", "10.0.0.0/8:5432", "10.0.0.0/8:5432"},
      {"10.0.0.1/32", "10.0.0.1:80,443", "10.0.0.1:*"},
      {"10.0.0.1/8", NULL, NULL},
      {"10.0.0.0/33", NULL, NULL},
      {"10.0.0.0/08", NULL, NULL},
      {"10.0.0.0/", NULL, NULL},
      {"10.0.0.0/-1", NULL, NULL},
      {"10/8", NULL, NULL},
      {"010.0.0.1", NULL, NULL},
      {"0x7f.1", NULL, NULL},
      {"2130706433", NULL, NULL},
      {"1.2.3.4.5", NULL, NULL},
      {"0.0.0.0/0", NULL, "0.0.0.0/0:*"},
      {"0.0.0.0/0:443", "0.0.0.0/0:443", "0.0.0.0/0:443"},
      {"[::1]:80", "[::1]:80", "[::1]:80"},
      {"[::1]", "[::1]:80,443", "[::1]:*"},
      {"[fd00::/8]:22", "[fd00::/8]:22", "[fd00::/8]:22"},
      {"[fd00::]/8:22", "[fd00::/8]:22", "[fd00::/8]:22"},
      {"fd00::/8:22", "[fd00::/8]:22", "[fd00::/8]:22"},
      {"[FD00:0::]/8", "[fd00::/8]:80,443", "[fd00::/8]:*"},
      {"::1", NULL, NULL},
      {"::1:80", NULL, NULL},
      {"[::1", NULL, NULL},
      {"[::1]x", NULL, NULL},
      {"[", NULL, NULL},
      {"[]", NULL, NULL},
      {"[]:80", NULL, NULL},
      {"[/]", NULL, NULL},
      {"[[::1]]", NULL, NULL},
      {"[[fd00::]/8]", NULL, NULL},
      {"[10.0.0.0]/8", NULL, NULL},
      {"[10.0.0.0/8]", NULL, NULL},
      {"[127.0.0.1]", NULL, NULL},
      {"[::ffff:10.0.0.1]", NULL, NULL}, /* write it as IPv4 */
      {"[fe80::1%eth0]", NULL, NULL},
      {"a.test:", NULL, NULL},
      {"a.test:0", NULL, NULL},
      {"a.test:65536", NULL, NULL},
      {"a.test:99999999999999999999", NULL, NULL},
      {"a.test:080", NULL, NULL},
      {"a.test:443x", NULL, NULL},
      {"a.test:+443", NULL, NULL},
      {"a.test: 443", NULL, NULL},
      {"a.test:443 ", NULL, NULL},
      {"a.test:443,", NULL, NULL},
      {"a.test:,443", NULL, NULL},
      {"a.test:9-8", NULL, NULL},
      {"a.test:8-", NULL, NULL},
      {"a.test:-8", NULL, NULL},
      {"a.test:443:444", NULL, NULL},
      {"http://a.test", NULL, NULL},
      {"a.test/path", NULL, NULL},
      {"u@a.test", NULL, NULL},
      {"a.test:80@b.test", NULL, NULL},
      {" a.test", NULL, NULL},
      {"a_b.test", NULL, NULL},
      {"b\xc3\xbc.test", NULL, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int allows = 0; allows < 2; allows++) {
      const char *wanted = allows ? cases[i].allows : cases[i].denies;
      mcg_rule rule;
      mcg_fault fault;
      bool good = mcg_rule_parse(cases[i].text, strlen(cases[i].text), allows, &rule, &fault);
      if (good != (wanted != NULL) || (good && strcmp(rule.text, wanted) != 0))
        fail_msg("\"%s\" (%s): %s", cases[i].text, allows ? "allow" : "deny",
                 good ? rule.text : fault.text);
      if (!good) assert_true(*fault.text);
      mcg_rule_fini(&rule);
    }
}

static void ports(void **state)
{
  (void)state;
  mcg_ports list = {.count = 0};
  for (uint16_t i = 0; i < MCG_PORTS_MAX; i++)
    assert_true(mcg_ports_add(&list, (uint16_t)(10 * i + 1), (uint16_t)(10 * i + 2)));
  assert_false(mcg_ports_add(&list, 5000, 5000));
  assert_int_equal(list.count, MCG_PORTS_MAX);
  assert_true(mcg_ports_add(&list, 3, 10)); /* joins two */
  assert_int_equal(list.count, MCG_PORTS_MAX - 1);
  assert_true(mcg_ports_add(&list, 1, 65535));
  assert_int_equal(list.count, 1);
  assert_true(mcg_ports_have(&list, 1) && mcg_ports_have(&list, 65535));
  assert_false(mcg_ports_have(&list, 0));
  assert_int_equal(mcg_ports_after(&list, 65535), 0);
  list = (mcg_ports){.list = {{80, 82}, {443, 443}}, .count = 2};
  assert_int_equal(mcg_ports_after(&list, 0), 80);
  assert_int_equal(mcg_ports_after(&list, 80), 81);
  assert_int_equal(mcg_ports_after(&list, 82), 443);
  assert_int_equal(mcg_ports_after(&list, 443), 0);
}

static void meets(void **state)
{
  (void)state;
  static const struct {
    const char *a, *b;
    bool meet;
  } cases[] = {
      {"a.test:1", "a.test:1", true},
      {"a.test:1", "a.test:2", false},
      {"a.test:1-5", "a.test:5-9", true},
      {"a.test:1-4", "a.test:5-9", false},
      {"*.b.test:1", "a.b.test:1", true},
      {"*.b.test:1", "b.test:1", false},
      {"*.b.test:1", "*.a.b.test:1", true},
      {"*.b.test:1", "*.b.test:1", true},
      {"*.b.test:1", "*.xb.test:1", false},
      {"*:1", "a.test:1", true},
      {"*:1", "10.0.0.1:1", true},
      {"a.test:1", "10.0.0.1:1", false},
      {"10.0.0.0/8:1", "10.1.0.0/16:1", true},
      {"10.0.0.0/8:1", "11.0.0.0/8:1", false},
      {"[fd00::/8]:1", "10.0.0.0/8:1", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mcg_rule a, b;
    mcg_fault fault;
    assert_true(mcg_rule_parse(cases[i].a, strlen(cases[i].a), true, &a, &fault));
    assert_true(mcg_rule_parse(cases[i].b, strlen(cases[i].b), true, &b, &fault));
    if (mcg_rules_meet(&a, &b) != cases[i].meet || mcg_rules_meet(&b, &a) != cases[i].meet)
      fail_msg("%s and %s", a.text, b.text);
    mcg_rule_fini(&a);
    mcg_rule_fini(&b);
  }
}

/* What we take for a host and a port, curl takes for the same; what we refuse it may take as it likes. */
static void agrees_with_curl(void **state)
{
  (void)state;
  static const char *const hosts[] = {"a.test",
                                      "A.Test",
                                      "a.test.",
                                      "a-b.test",
                                      "0x7f.1",
                                      "127.1",
                                      "2130706433",
                                      "0177.0.0.1",
                                      "127.0.0.1",
                                      "127.0.0.1.",
                                      "[::1]",
                                      "[::FFFF:1.2.3.4]",
                                      "[fe80::1%25eth0]",
                                      "[::1",
                                      "::1",
                                      "a..test",
                                      "a_b.test",
                                      "a b.test",
                                      "u@a.test",
                                      "a.test/x",
                                      "a.test?x",
                                      "a.test#x",
                                      "a.test\\x",
                                      "256.1.1.1",
                                      "1.2.3.4.5",
                                      "0x7f.0.0.1.x",
                                      "xn--bcher-kva.test",
                                      "a%2etest",
                                      "%61.test",
                                      "*.test",
                                      "a.test@b.test",
                                      "a.test:1@b.test",
                                      "[v1.x]",
                                      "",
                                      "a,b.test",
                                      "a;b.test",
                                      "08.0.0.1",
                                      "0x",
                                      "1.2.3.0x4",
                                      "4294967295",
                                      "4294967296"};
  static const char *const tails[] = {
      ":80", ":443", ":1", ":65535", ":65536", ":0",   ":",   "",           ":080", ":+1",
      ": 1", ":1 ",  ":x", ":80:80", ":80/",   ":1,2", ":-1", ":80@c.test", ":80?", ":80#"};
  curl_parser curl;
  size_t agreed = 0;
  if (!curl_open(&curl)) {
    print_message("skipped: there is no libcurl.so.4 to compare with\n");
    skip();
  }
  for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
    for (size_t k = 0; k < sizeof tails / sizeof *tails; k++) {
      char text[128], name[MCG_NAME_ROOM], host[1024], theirs[MCG_NAME_ROOM];
      mcg_address address, other;
      mcg_fault fault;
      const char *why;
      bool literal;
      uint16_t port;
      unsigned their_port;
      snprintf(text, sizeof text, "%s%s", hosts[i], tails[k]);
      if (!mcg_host_port_parse(text, strlen(text), name, &address, &literal, &port, &fault)) {
        assert_true(*fault.text);
        continue;
      }
      if (!curl_splits(&curl, text, strlen(text), host, &their_port)) continue;
      mcg_name_kind kind = mcg_name_normalise(host, strlen(host), theirs, &other, &why);
      if (their_port != port || kind != (literal ? MCG_NAME_ADDRESS : MCG_NAME_HOST) ||
          (literal ? !mcg_address_equal(&address, &other) : strcmp(name, theirs) != 0))
        fail_msg("%s: %s and %u for curl", text, host, their_port);
      agreed++;
    }
  assert_true(agreed > 40);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(understands),
      cmocka_unit_test(ports),
      cmocka_unit_test(meets),
      cmocka_unit_test(agrees_with_curl),
  };
  return cmocka_run_group_tests_name("rule", tests, NULL, NULL);
}
