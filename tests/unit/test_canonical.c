/* Canonical JSON against the examples of RFC 8785, and what is kept out of it. */
#include "audit/canonical.h"
#include "audit/audit.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static const char *said(mcg_text *text)
{
  assert_false(text->failed);
  mcg_text_put(text, "", 1);
  return text->data;
}

static void number_is(uint64_t bits, const char *expected)
{
  double number;
  mcg_text text = {0};
  memcpy(&number, &bits, sizeof number);
  mcg_text_number(&text, number);
  assert_string_equal(said(&text), expected);
  mcg_text_fini(&text);
}

/* RFC 8785, appendix B. */
static void numbers_as_ecmascript_has_them(void **state)
{
  (void)state;
  number_is(0x0000000000000000, "0");
  number_is(0x0000000000000001, "5e-324");
  number_is(0x8000000000000001, "-5e-324");
  number_is(0x7fefffffffffffff, "1.7976931348623157e+308");
  number_is(0x4340000000000000, "9007199254740992");
  number_is(0xc340000000000000, "-9007199254740992");
  number_is(0x4430000000000000, "295147905179352830000");
  number_is(0x44b52d02c7e14af5, "9.999999999999997e+22");
  number_is(0x44b52d02c7e14af6, "1e+23");
  number_is(0x44b52d02c7e14af7, "1.0000000000000001e+23");
  number_is(0x444b1ae4d6e2ef4e, "999999999999999700000");
  number_is(0x444b1ae4d6e2ef4f, "999999999999999900000");
  number_is(0x444b1ae4d6e2ef50, "1e+21");
  number_is(0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7");
  number_is(0x3eb0c6f7a0b5ed8d, "0.000001");
  number_is(0x41b3de4355555553, "333333333.3333332");
  number_is(0x41b3de4355555557, "333333333.33333343");
  number_is(0xbecbf647612f3696, "-0.0000033333333333333333");
  number_is(0x43143ff3c1cb0959, "1424953923781206.2");
  number_is(0x7ff0000000000000, "null");
  number_is(0x7fffffffffffffff, "null");
}

/* RFC 8785, 3.2.3: keys in the order of UTF-16. */
static void keys_in_order(void **state)
{
  (void)state;
  json_t *value =
      json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "\xe2\x82\xac", "Euro Sign", "\r",
                "Carriage Return", "\xef\xac\xb3", "Hebrew", "1", "One", "\xf0\x9f\x98\x80",
                "Emoji", "\xc2\x80", "Control", "\xc3\xb6", "Latin");
  mcg_text text = {0};
  mcg_text_json(&text, NULL, value);
  assert_string_equal(said(&text),
                      "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\xc2\x80\":\"Control\","
                      "\"\xc3\xb6\":\"Latin\",\"\xe2\x82\xac\":\"Euro Sign\","
                      "\"\xf0\x9f\x98\x80\":\"Emoji\",\"\xef\xac\xb3\":\"Hebrew\"}");
  mcg_text_fini(&text);
  json_decref(value);
}

static void foreign_is(const char *bytes, size_t len, const mcg_secrets *secrets,
                       const char *expected)
{
  mcg_text text = {0};
  mcg_text_foreign(&text, secrets, bytes, len, MCG_TEXT_MAX);
  assert_string_equal(said(&text), expected);
  mcg_text_fini(&text);
}
#define FOREIGN(literal, expected) foreign_is(literal, sizeof literal - 1, NULL, expected)

static void strings_escaped(void **state)
{
  (void)state;
  FOREIGN("plain", "\"plain\"");
  FOREIGN("", "\"\"");
  FOREIGN("a\"b\\c/", "\"a\\\"b\\\\c/\"");
  FOREIGN("\b\t\n\f\r\v\0\x1b[2J\x1f", "\"\\b\\t\\n\\f\\r\\u000b\\u0000\\u001b[2J\\u001f\"");
  FOREIGN("\xe2\x82\xac$", "\"\xe2\x82\xac$\"");
  FOREIGN("\n{\"op\":\"exec\"}", "\"\\n{\\\"op\\\":\\\"exec\\\"}\"");
}

/* Nothing in a line may act on a terminal, or end it for some reader of lines; and no byte is lost. */
static void what_is_no_clean_text_is_base64(void **state)
{
  (void)state;
  FOREIGN("\xff\xfe", "{\"base64\":\"//4=\"}");
  FOREIGN("\xc0\xaf", "{\"base64\":\"wK8=\"}");
  FOREIGN("\xed\xa0\x80", "{\"base64\":\"7aCA\"}");
  FOREIGN("\xf4\x90\x80\x80", "{\"base64\":\"9JCAgA==\"}");
  FOREIGN("a\x7f", "{\"base64\":\"YX8=\"}");
  FOREIGN("\xc2\x9b", "{\"base64\":\"wps=\"}");
  FOREIGN("\xe2\x80\xa8", "{\"base64\":\"4oCo\"}");
  FOREIGN("\xe2\x80\xae", "{\"base64\":\"4oCu\"}");
  FOREIGN("cut\xe2\x82", "{\"base64\":\"Y3V04oI=\"}");
}

static void what_is_long_is_cut(void **state)
{
  (void)state;
  size_t len = (size_t)100 << 20;
  char *bytes = malloc(len);
  memset(bytes, 'a', len);
  mcg_text text = {0};
  mcg_text_foreign(&text, NULL, bytes, len, MCG_TEXT_MAX);
  /* head -c 104857600 /dev/zero | tr '\0' a | sha256sum */
  const char *begins = "{\"len\":104857600,\"sha256\":"
                       "\"cee41e98d0a6ad65cc0ec77a2ba50bf26d64dc9007f7f1c7d7df68b8b71291a6\","
                       "\"text\":\"aaaa";
  assert_memory_equal(said(&text), begins, strlen(begins));
  assert_true(text.len < 2048);
  mcg_text_fini(&text);

  const char **words = calloc(20001, sizeof *words);
  for (size_t i = 0; i < 20000; i++) words[i] = "a word of some length";
  mcg_text_words(&text, NULL, words);
  assert_non_null(strstr(said(&text), "\"words\":19936}]"));
  assert_true(text.len < 64 << 10);
  mcg_text_fini(&text);
  bytes[len - 1] = '\0';
  const char *const one[] = {"cat", bytes, "end", NULL};
  mcg_text_words(&text, NULL, one);
  assert_non_null(strstr(said(&text), "{\"len\":104857599,"));
  assert_non_null(strstr(text.data, ",\"end\"]"));
  mcg_text_fini(&text);
  free(words);
  free(bytes);
}

static void secrets_are_struck_out(void **state)
{
  (void)state;
  mcg_secrets *secrets = mcg_secrets_new();
  assert_true(mcg_secrets_add(secrets, "s3cret/token", 12));
  assert_true(mcg_secrets_add(secrets, "s3cret", 6));
  assert_true(mcg_secrets_add(secrets, "", 0));
  assert_true(mcg_secrets_add(secrets, "x\xff", 2));
#define SECRET(literal, expected) foreign_is(literal, sizeof literal - 1, secrets, expected)
  SECRET("nothing here", "\"nothing here\"");
  SECRET("s3cret/token", "\"***\"");
  SECRET("a=s3cret&b=s3cret/token.", "\"a=***&b=***.\"");
  SECRET("s3crets3cret", "\"******\"");
  SECRET("x\xff\xfe", "{\"base64\":\"Kioq/g==\"}"); /* ***\xfe */
  SECRET("7333637265742f746f6b656e", "\"***\"");    /* xxd -p */
  SECRET("czNjcmV0L3Rva2Vu", "\"***\"");            /* base64 */
  SECRET("s3cret%2Ftoken s3cret%2ftoken", "\"*** ***\"");
  SECRET("7333637265742F746F6B656E", "\"***\"");
  /* printf u:s3cret/token | base64; with another letter before, and two more */
  SECRET("dTpzM2NyZXQvdG9rZW4=", "\"dTp***4=\"");
  SECRET("dXU6czNjcmV0L3Rva2Vu", "\"dXU6***\"");
  SECRET("dXV1OnMzY3JldC90b2tlbg==", "\"dXV1On***g==\"");
  json_t *value = json_pack("{s:[s]}", "k", "is s3cret");
  mcg_text text = {0};
  mcg_text_json(&text, secrets, value);
  assert_string_equal(said(&text), "{\"k\":[\"is ***\"]}");
  mcg_text_fini(&text);
  json_decref(value);
  mcg_secrets_free(secrets);
}

/* As Python's json writes it, host names and variables have it, and our own messages quote it. */
static void a_secret_of_many_lines(void **state)
{
  (void)state;
  static const char plain[] = "--Begin--\nLine\tone\x1b\r\n\xffline two\n--End--";
  static const char *const spellings[] = {
      "--Begin--\nLine\tone\x1b\r\n\xffline two\n--End--",
      "--begin--\nline\tone\x1b\r\n\xffline two\n--end--",
      "--BEGIN--\nLINE\tONE\x1b\r\n\xffLINE TWO\n--END--",
      "--Begin--\\nLine\\tone\\u001b\\r\\n\xffline two\\n--End--",
      "--Begin--\\nLine\\tone\\u001B\\r\\n\xffline two\\n--End--",
      "--Begin--\\nLine\\tone\\x1b\\r\\n\\xffline two\\n--End--"};
  mcg_secrets *secrets = mcg_secrets_new();
  assert_true(mcg_secrets_add(secrets, plain, sizeof plain - 1));
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
    size_t len = strlen(spellings[i]), out;
    char *fresh;
    const char *clean = mcg_redact(secrets, spellings[i], len, &out, &fresh);
    assert_int_equal(out, 3);
    assert_memory_equal(clean, "***", 3);
    free(fresh);
  }
  mcg_secrets_free(secrets);
}

/* What a message has of a secret that it cut: its start, in one spelling or the other. */
static void the_start_of_a_secret(void **state)
{
  (void)state;
  static const char plain[] = "the first line\nand what comes in the second";
  static const char *const cases[][2] = {
      {"open the first line\nand what comes i...", "open ***..."},
      {"open the first line\\nand what comes i...", "open ***..."},
      {"THE FIRST LINE\nAND W, the first line\nan", "***, ***"},
      {"tthe first line\nand what comes in the second", "t***"},
      {"the first line.", "the first line."}, /* too little to tell */
      {"", ""},
  };
  mcg_secrets *secrets = mcg_secrets_new();
  assert_true(mcg_secrets_add(secrets, plain, sizeof plain - 1));
  assert_true(mcg_secrets_add(secrets, "the first day", 13)); /* as is half of this */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *clean = mcg_redact_parts(secrets, cases[i][0], strlen(cases[i][0]));
    assert_string_equal(clean, cases[i][1]);
    free(clean);
  }
  mcg_secrets_free(secrets);
}

/* As Python's json, base64 and PHP's json_encode write it. */
static void a_secret_in_other_spellings(void **state)
{
  (void)state;
  static const char plain[] = "\164\157\153\057\042\134\077\076\176\377\376\055\145\156\144";
  static const char *const spellings[] = {
      "\164\157\153\057\042\134\077\076\176\377\376\055\145\156\144",
      "\164\157\153\057\134\042\134\134\077\076\176\377\376\055\145\156\144",
      "\164\157\153\134\057\134\042\134\134\077\076\176\377\376\055\145\156\144",
      "dG9rLyJcPz5+//4tZW5k", "dG9rLyJcPz5-__4tZW5k"};
  mcg_secrets *secrets = mcg_secrets_new();
  assert_true(mcg_secrets_add(secrets, plain, sizeof plain - 1));
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
    char text[128];
    size_t len = strlen(spellings[i]);
    snprintf(text, sizeof text, "<%s>", spellings[i]);
    mcg_secrets_mask(secrets, text, len + 2);
    assert_int_equal(strspn(text + 1, "*"), len);
    assert_true(text[0] == '<' && text[len + 1] == '>');
  }
  mcg_secrets_free(secrets);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_as_ecmascript_has_them),
      cmocka_unit_test(keys_in_order),
      cmocka_unit_test(strings_escaped),
      cmocka_unit_test(what_is_no_clean_text_is_base64),
      cmocka_unit_test(a_secret_in_other_spellings),
      cmocka_unit_test(a_secret_of_many_lines),
      cmocka_unit_test(the_start_of_a_secret),
      cmocka_unit_test(what_is_long_is_cut),
      cmocka_unit_test(secrets_are_struck_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
