/* What a proxy is, and which connections go through it; and the addresses that stand for names. */
#include "turning.h"
#include "egress/proxy.h"
#include "egress/synthetic.h"

static mcg_address address(const char *text)
{
  mcg_address out;
  assert_true(mcg_address_parse(text, strlen(text), &out));
  return out;
}

static void urls(void **state)
{
  (void)state;
  static const char *const rows[][2] = {
      {"http://proxy.test:3129", "proxy.test:3129"},
      {"proxy.test", "proxy.test:3128"},
      {"http://me:p%40ss@proxy.test:80/", "proxy.test:80"},
      {"HTTP://Proxy.Test:80", "proxy.test:80"},
      {"http://[2001:db8::1]:8080", "[2001:db8::1]:8080"},
      {"http://10.0.0.1", "10.0.0.1:3128"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    mcg_proxy *proxy = NULL;
    mcg_error *err = NULL;
    if (mcg_proxy_new(rows[i][0], NULL, &proxy, &err) < 0)
      fail_msg("%s: %s", rows[i][0], err->message);
    assert_string_equal(mcg_proxy_text(proxy), rows[i][1]);
    mcg_proxy_free(proxy);
  }
  static const char *const bad[] = {"https://proxy.test", "socks5://proxy.test:1", "http://",
                                    "http://x:0",         "http://x:65536",        "http://x:1x",
                                    "http://x/path",      "http://a b:1"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mcg_proxy *proxy = NULL;
    mcg_error *err = NULL;
    if (mcg_proxy_new(bad[i], NULL, &proxy, &err) == 0) fail_msg("taken: %s", bad[i]);
    assert_non_null(err->fix);
    assert_int_equal(code_of(&err), MCG_INVALID);
  }
}

static void those_without(void **state)
{
  (void)state;
  mcg_proxy *proxy = NULL;
  mcg_address near = address("10.1.2.3"), far = address("11.0.0.1"), six = address("2001:db8::5");
  assert_int_equal(mcg_proxy_new("http://p.test",
                                 "one.test, .two.test,*.three.test 10.0.0.0/8,2001:db8::5", &proxy,
                                 NULL),
                   0);
  assert_false(mcg_proxy_covers(proxy, "one.test", NULL));
  assert_false(mcg_proxy_covers(proxy, "a.one.test", NULL));
  assert_true(mcg_proxy_covers(proxy, "notone.test", NULL));
  assert_false(mcg_proxy_covers(proxy, "a.two.test", NULL));
  assert_false(mcg_proxy_covers(proxy, "a.three.test", NULL));
  assert_true(mcg_proxy_covers(proxy, "test", NULL));
  assert_false(mcg_proxy_covers(proxy, NULL, &near));
  assert_true(mcg_proxy_covers(proxy, NULL, &far));
  assert_false(mcg_proxy_covers(proxy, NULL, &six));
  assert_false(mcg_proxy_covers(NULL, "one.test", NULL));
  mcg_proxy_free(proxy);
  assert_int_equal(mcg_proxy_new("http://p.test", "*", &proxy, NULL), 0);
  assert_false(mcg_proxy_covers(proxy, "one.test", NULL));
  assert_false(mcg_proxy_covers(proxy, NULL, &far));
  mcg_proxy_free(proxy);
}

static void names_have_addresses_of_their_own(void **state)
{
  (void)state;
  mcg_synthetic *names = mcg_synthetic_new();
  char name[32], text[MCG_ADDRESS_TEXT];
  mcg_address at;
  bool ours;
  for (int i = 0; i < MCG_SYNTHETIC_MAX; i++) {
    snprintf(name, sizeof name, "n%d.test", i);
    assert_int_equal(mcg_synthetic_number(names, name), i);
    for (int six = 0; six < 2; six++) {
      mcg_synthetic_address(i, six, &at);
      assert_string_equal(mcg_synthetic_name(names, &at, &ours), name);
      assert_true(ours);
    }
  }
  assert_int_equal(mcg_synthetic_number(names, "one.more.test"), -1);
  assert_int_equal(mcg_synthetic_number(names, "n7.test"), 7); /* it keeps its own */
  mcg_synthetic_address(0, false, &at);
  mcg_address_text(&at, text);
  assert_string_equal(text, "198.18.0.2");
  mcg_synthetic_address(0, true, &at);
  mcg_address_text(&at, text);
  assert_string_equal(text, "fd00::2");
  at = address("198.19.255.255");
  assert_null(mcg_synthetic_name(names, &at, &ours));
  assert_true(ours);
  at = address("198.20.0.1");
  assert_null(mcg_synthetic_name(names, &at, &ours));
  assert_false(ours);
  at = address("fd00:0:0:1::2");
  assert_null(mcg_synthetic_name(names, &at, &ours));
  assert_false(ours);
  mcg_synthetic_free(names);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(urls),
      cmocka_unit_test(those_without),
      cmocka_unit_test(names_have_addresses_of_their_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
