/* The one error type. */
#include "turning.h"
#include "spawner.h"

static void codes_have_their_names(void **state)
{
  (void)state;
  /* The list of the error contract, in words. */
  static const char *const names[] = {"invalid",
                                      "unsupported",
                                      "unenforceable",
                                      "tool_not_allowed",
                                      "command_denied",
                                      "no_candidate",
                                      "not_found",
                                      "conflict",
                                      "quota",
                                      "timeout",
                                      "canceled",
                                      "unavailable",
                                      "protocol",
                                      "unauthorized",
                                      "snapshot_unsupported",
                                      "snapshot_mismatch",
                                      "archive_unsafe",
                                      "audit_failed",
                                      "nomem",
                                      "internal"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    assert_string_equal(mcg_code_name((mcg_code)i), names[i]);
  assert_string_equal(mcg_code_name((mcg_code)999), "internal");
}

static void an_error_says_what_and_how_to_mend(void **state)
{
  (void)state;
  mcg_error *err = NULL;
  assert_int_equal(mcg_fail(&err, MCG_QUOTA, "close some", "%d of %s", 3, "them"), -1);
  assert_int_equal(err->code, MCG_QUOTA);
  assert_true(err->retryable);
  assert_null(err->backend);
  assert_null(err->cause);
  assert_string_equal(err->message, "3 of them");
  assert_string_equal(err->fix, "close some");
  mcg_error_free(err);
  err = NULL;
  assert_int_equal(mcg_fail(&err, MCG_INVALID, NULL, "no"), -1);
  assert_null(err->fix);
  assert_false(err->retryable);
  mcg_error_free(err);
  mcg_error_free(NULL);
  assert_int_equal(mcg_fail(NULL, MCG_INVALID, NULL, "nobody asks"), -1);
}

static void a_wrap_keeps_the_code_and_comes_first(void **state)
{
  (void)state;
  mcg_error *err = NULL;
  mcg_fail(&err, MCG_NOT_FOUND, "make it", "no such rootfs");
  assert_int_equal(mcg_wrap(&err, "open %s", "/srv/root"), -1);
  assert_int_equal(mcg_wrap(&err, "session x"), -1);
  assert_string_equal(err->message, "session x: open /srv/root: no such rootfs");
  assert_string_equal(err->fix, "make it");
  assert_int_equal(code_of(&err), MCG_NOT_FOUND);
  assert_int_equal(mcg_wrap(&err, "nothing to wrap"), -1);
  assert_null(err);
  assert_int_equal(mcg_wrap(NULL, "nothing to wrap"), -1);
}

static void errno_has_its_code(void **state)
{
  (void)state;
  static const struct {
    int number;
    mcg_code code;
  } cases[] = {{ENOENT, MCG_NOT_FOUND}, {EACCES, MCG_UNAUTHORIZED}, {EPERM, MCG_UNAUTHORIZED},
               {EMFILE, MCG_QUOTA},     {ENFILE, MCG_QUOTA},        {EAGAIN, MCG_QUOTA},
               {ENOSPC, MCG_QUOTA},     {ENOMEM, MCG_NOMEM},        {EIO, MCG_INTERNAL},
               {EINVAL, MCG_INTERNAL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mcg_error *err = NULL;
    assert_int_equal(mcg_fail_errno(&err, cases[i].number, NULL, "open %s", "x"), -1);
    auto_free char *expected = mcg_format("open x: %s", strerror(cases[i].number));
    assert_string_equal(err->message, expected);
    assert_int_equal(code_of(&err), cases[i].code);
  }
}

static void a_message_stays_one_harmless_line(void **state)
{
  (void)state;
  static const struct {
    const char *given, *shown;
  } cases[] = {
      {"a\nb\r\tc", "a\\nb\\r\\tc"},
      {"\x1b[31mred\x7f", "\\x1b[31mred\\x7f"},
      {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x8c\x99",
       "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x8c\x99"},
      {"\xff\xfe", "\\xff\\xfe"},
      {"\xc3", "\\xc3"},                            /* cut short */
      {"\xc0\xaf", "\\xc0\\xaf"},                   /* overlong */
      {"\xe0\x80\xaf", "\\xe0\\x80\\xaf"},          /* overlong */
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},          /* a surrogate */
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, /* past U+10FFFF */
      {"\xc2\x9b"
       "31m",
       "\\xc2\\x9b"
       "31m"},                                             /* CSI in one character */
      {"a\xe2\x80\xaetxt.exe", "a\\xe2\\x80\\xaetxt.exe"}, /* right to left override */
      {"a\xe2\x80\xa8z", "a\\xe2\\x80\\xa8z"},             /* line separator */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mcg_error *err = NULL;
    mcg_fail(&err, MCG_INVALID, cases[i].given, "<%s>", cases[i].given);
    auto_free char *expected = mcg_format("<%s>", cases[i].shown);
    assert_string_equal(err->message, expected);
    assert_string_equal(err->fix, cases[i].shown);
    mcg_wrap(&err, "%s", cases[i].given);
    auto_free char *wrapped = mcg_format("%s: <%s>", cases[i].shown, cases[i].shown);
    assert_string_equal(err->message, wrapped);
    mcg_error_free(err);
  }
}

static void a_long_message_is_cut(void **state)
{
  (void)state;
  auto_free char *long_text = malloc(100001);
  memset(long_text, 'x', 100000);
  long_text[100000] = '\0';
  mcg_error *err = NULL;
  mcg_fail(&err, MCG_INVALID, NULL, "%s", long_text);
  assert_int_equal(strlen(err->message), 4096);
  assert_string_equal(err->message + 4093, "...");
  mcg_error_free(err);
  auto_free char *whole = mcg_format("%s", long_text);
  assert_int_equal(strlen(whole), 100000);
}

static void a_copy_is_its_own(void **state)
{
  (void)state;
  mcg_error *err = NULL, *inner = NULL;
  mcg_fail(&err, MCG_UNAVAILABLE, "again", "gone");
  mcg_fail(&inner, MCG_PROTOCOL, NULL, "garbage");
  mcg_error_set_backend(err, "jail");
  mcg_error_set_backend(err, "other"); /* the first to know is right */
  mcg_error_set_backend(NULL, "other");
  err->cause = inner;
  mcg_error *copy = mcg_error_copy(err);
  mcg_error_free(err);
  assert_int_equal(copy->code, MCG_UNAVAILABLE);
  assert_string_equal(copy->message, "gone");
  assert_string_equal(copy->fix, "again");
  assert_string_equal(copy->backend, "jail");
  assert_string_equal(copy->cause->message, "garbage");
  mcg_error_free(copy);
}

/* Whatever the kernel answers: who cannot be born in its group is not told of user namespaces. */
static void a_group_that_refuses_is_named(void **state)
{
  (void)state;
  static const int errors[] = {ENOSYS, EPERM, EACCES, EBADF, EBUSY, EOPNOTSUPP, EINVAL};
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    auto_error mcg_error *err = NULL;
    mcg_spawner_setup_error(&err, "group", errors[i], "start the sandbox in it");
    assert_int_equal(err->code, MCG_UNENFORCEABLE);
    assert_non_null(strstr(err->message, "control group does not take it"));
    assert_non_null(strstr(err->message, strerror(errors[i])));
    assert_non_null(strstr(err->fix, "CLONE_INTO_CGROUP"));
    assert_null(strstr(err->fix, "user namespaces"));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(codes_have_their_names),
      cmocka_unit_test(an_error_says_what_and_how_to_mend),
      cmocka_unit_test(a_wrap_keeps_the_code_and_comes_first),
      cmocka_unit_test(errno_has_its_code),
      cmocka_unit_test(a_message_stays_one_harmless_line),
      cmocka_unit_test(a_long_message_is_cut),
      cmocka_unit_test(a_copy_is_its_own),
      cmocka_unit_test(a_group_that_refuses_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
