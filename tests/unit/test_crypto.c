/* SHA-256 against FIPS 180-4's examples, base64 against RFC 4648's. */
#include "service/base64.h"
#include "service/crypto.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void sha256_of_the_published_examples(void **state)
{
  (void)state;
  char hex[65];
  assert_int_equal(mcg_sha256_hex("abc", 3, hex, NULL), 0);
  assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  assert_int_equal(mcg_sha256_hex("", 0, hex, NULL), 0);
  assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void base64_of_the_published_examples(void **state)
{
  (void)state;
  static const char *const pairs[][2] = {{"", ""},
                                         {"f", "Zg=="},
                                         {"fo", "Zm8="},
                                         {"foo", "Zm9v"},
                                         {"foob", "Zm9vYg=="},
                                         {"fooba", "Zm9vYmE="},
                                         {"foobar", "Zm9vYmFy"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    char *text = mcg_base64_encode(pairs[i][0], strlen(pairs[i][0]));
    assert_string_equal(text, pairs[i][1]);
    size_t len = 99;
    char *bytes = mcg_base64_decode(text, strlen(text), &len);
    assert_int_equal(len, strlen(pairs[i][0]));
    assert_string_equal(bytes, pairs[i][0]);
    free(bytes);
    free(text);
  }
}

static void what_is_not_base64_is_refused(void **state)
{
  (void)state;
  static const char *const bad[] = {
      "Z", "Zg=", "Zg", "====", "Zg==Zg==", "Zh==", "Zm9=", "Zm 9", "Z===", "Zm9v\n", "Zm9v!m9v"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    size_t len;
    assert_null(mcg_base64_decode(bad[i], strlen(bad[i]), &len));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sha256_of_the_published_examples),
      cmocka_unit_test(base64_of_the_published_examples),
      cmocka_unit_test(what_is_not_base64_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
