/* Names: what is one, what is an address in truth, and what is neither. Beside getaddrinfo, which must take
 * no name of ours for an address. */
#include "cmocka_all.h"
#include "egress/name.h"
#include <netdb.h>

#define A63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

typedef struct name_case {
  const char *text;
  mcg_name_kind kind;
  const char *out; /* the name, or the address in its usual spelling */
} name_case;

static const name_case cases[] = {
    {"api.allowed.test", MCG_NAME_HOST, "api.allowed.test"},
    {"API.ALLOWED.TEST", MCG_NAME_HOST, "api.allowed.test"},
    {"api.allowed.test.", MCG_NAME_HOST, "api.allowed.test"},
    {"api.allowed.test..", MCG_NAME_BAD, NULL},
    {".api.allowed.test", MCG_NAME_BAD, NULL},
    {"api..allowed.test", MCG_NAME_BAD, NULL},
    {" api.allowed.test", MCG_NAME_BAD, NULL},
    {"api.allowed.test ", MCG_NAME_BAD, NULL},
    {"api.allowed.test\n", MCG_NAME_BAD, NULL},
    {"api.allowed\t.test", MCG_NAME_BAD, NULL},
    {"api.allowed.test\r", MCG_NAME_BAD, NULL},
    {"api.allowed.test/x", MCG_NAME_BAD, NULL},
    {"api.allowed.test%00", MCG_NAME_BAD, NULL},
    {"api.allowed.test#", MCG_NAME_BAD, NULL},
    {"api.allowed.test\\@evil.test", MCG_NAME_BAD, NULL},
    {"user@api.allowed.test", MCG_NAME_BAD, NULL},
    {"api_x.allowed.test", MCG_NAME_BAD, NULL},
    {"*.allowed.test", MCG_NAME_BAD, NULL},
    {"-api.allowed.test", MCG_NAME_BAD, NULL},
    {"api-.allowed.test", MCG_NAME_BAD, NULL},
    {"r3---sn-ab5.allowed.test", MCG_NAME_HOST, "r3---sn-ab5.allowed.test"},
    {"xn--bcher-kva.test", MCG_NAME_HOST, "xn--bcher-kva.test"},
    {"XN--BCHER-KVA.test", MCG_NAME_HOST, "xn--bcher-kva.test"},
    {"xn--.test", MCG_NAME_BAD, NULL},
    {"b\xc3\xbc"
     "cher.test",
     MCG_NAME_BAD, NULL},
    {"\xd0\xb0pi.allowed.test", MCG_NAME_BAD, NULL}, /* a Cyrillic a */
    {"api\xe3\x80\x82"
     "allowed\xe3\x80\x82test",
     MCG_NAME_BAD, NULL}, /* ideographic dots */
    {"api\xef\xbc\x8e"
     "allowed.test",
     MCG_NAME_BAD, NULL},                                               /* a full-width one */
    {"\xe2\x91\xa0\xe2\x91\xa1\xe2\x91\xa6.0.0.1", MCG_NAME_BAD, NULL}, /* ①②⑦ */
    {"\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1", MCG_NAME_BAD, NULL}, /* full-width digits */
    {"", MCG_NAME_BAD, NULL},
    {".", MCG_NAME_BAD, NULL},
    {"a", MCG_NAME_HOST, "a"},
    {A63 ".test", MCG_NAME_HOST, A63 ".test"},
    {A63 "a.test", MCG_NAME_BAD, NULL},
    {"0x7f.1", MCG_NAME_ADDRESS, "127.0.0.1"},
    {"0X7F.1", MCG_NAME_ADDRESS, "127.0.0.1"},
    {"2130706433", MCG_NAME_ADDRESS, "127.0.0.1"},
    {"0177.0.0.1", MCG_NAME_ADDRESS, "127.0.0.1"},
    {"127.1", MCG_NAME_ADDRESS, "127.0.0.1"},
    {"127.0.0.1.", MCG_NAME_ADDRESS, "127.0.0.1"},
    {"0", MCG_NAME_ADDRESS, "0.0.0.0"},
    {"2852039166", MCG_NAME_ADDRESS, "169.254.169.254"},
    {"0251.0376.0251.0376", MCG_NAME_ADDRESS, "169.254.169.254"},
    {"1.2.3.4.5", MCG_NAME_BAD, NULL},
    {"256.1.1.1", MCG_NAME_BAD, NULL},
    {"08.1.1.1", MCG_NAME_BAD, NULL},
    {"4294967296", MCG_NAME_BAD, NULL},
    {"evil.127", MCG_NAME_BAD, NULL},
    {"evil.0x7f", MCG_NAME_BAD, NULL},
    {"evil.0x", MCG_NAME_BAD, NULL}, /* some parsers take that for 0 */
    {"127.0.0.1.test", MCG_NAME_HOST, "127.0.0.1.test"},
    {"0x7f.0xtest", MCG_NAME_HOST, "0x7f.0xtest"},
    {"1e3.test", MCG_NAME_HOST, "1e3.test"},
    {"[::1]", MCG_NAME_ADDRESS, "::1"},
    {"::1", MCG_NAME_ADDRESS, "::1"},
    {"[::ffff:a9fe:a9fe]", MCG_NAME_ADDRESS, "169.254.169.254"},
    {"[::ffff:127.0.0.1]", MCG_NAME_ADDRESS, "127.0.0.1"},
    {"[fe80::1%25eth0]", MCG_NAME_BAD, NULL},
    {"fe80::1%eth0", MCG_NAME_BAD, NULL},
    {"[127.0.0.1]", MCG_NAME_BAD, NULL},
    {"[api.allowed.test]", MCG_NAME_BAD, NULL},
    {"[::1", MCG_NAME_BAD, NULL},
    {"::1]", MCG_NAME_BAD, NULL},
    {"[]", MCG_NAME_BAD, NULL},
    {"[[::1]]", MCG_NAME_BAD, NULL},
    {"[::1].", MCG_NAME_BAD, NULL},
};

static mcg_name_kind read_name(const char *text, size_t len, char out[MCG_NAME_ROOM])
{
  mcg_address address;
  const char *why = NULL;
  mcg_name_kind kind = mcg_name_normalise(text, len, out, &address, &why);
  if (kind == MCG_NAME_ADDRESS) mcg_address_text(&address, out);
  if (kind == MCG_NAME_BAD) assert_non_null(why);
  return kind;
}

static void normalises(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char out[MCG_NAME_ROOM];
    mcg_name_kind kind = read_name(cases[i].text, strlen(cases[i].text), out);
    if (kind != cases[i].kind) fail_msg("\"%s\" is %d", cases[i].text, kind);
    if (cases[i].out) assert_string_equal(out, cases[i].out);
  }
}

/* A NUL ends what C reads; what stands behind it is no part of a name that may be allowed. */
static void a_nul_is_no_end(void **state)
{
  (void)state;
  char out[MCG_NAME_ROOM];
  assert_int_equal(read_name("evil.test\0.pkg.test", 19, out), MCG_NAME_BAD);
  assert_int_equal(read_name("pkg.test\0", 9, out), MCG_NAME_BAD);
  assert_int_equal(read_name("127.0.0.1\0", 10, out), MCG_NAME_BAD);
  assert_int_equal(read_name("[::1\0]", 6, out), MCG_NAME_BAD);
}

static void lengths(void **state)
{
  (void)state;
  char text[300], out[MCG_NAME_ROOM];
  memset(text, 'a', sizeof text);
  for (size_t i = 63; i < sizeof text; i += 64) text[i] = '.';
  text[252] = 'a';
  assert_int_equal(read_name(text, 253, out), MCG_NAME_HOST);
  assert_int_equal(strlen(out), 253);
  text[253] = '.';
  assert_int_equal(read_name(text, 254, out), MCG_NAME_HOST); /* a dot at the end is not counted */
  text[253] = 'a';
  assert_int_equal(read_name(text, 254, out), MCG_NAME_BAD);
  assert_int_equal(read_name(text, 300, out), MCG_NAME_BAD);
  memset(text, '0', sizeof text); /* zero, to inet_aton */
  assert_int_equal(read_name(text, 253, out), MCG_NAME_ADDRESS);
  assert_int_equal(read_name(text, 300, out), MCG_NAME_BAD);
}

/* What is a name for us is none of the texts that the C library takes for an address, and the other
 * way round, for every short text of the characters that numbers are made of. */
static void agrees_with_the_library(void **state)
{
  (void)state;
  static const char letters[] = "017x.8f:";
  struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;
  char text[8], out[MCG_NAME_ROOM];
  size_t addresses = 0;
  for (unsigned long n = 1; n < 8ul * 8 * 8 * 8 * 8 * 8; n++) {
    size_t len = 0;
    for (unsigned long rest = n; rest; rest /= 8) text[len++] = letters[rest % 8];
    text[len] = '\0';
    if (text[len - 1] == '.') continue; /* we take one off, as names have it */
    bool theirs = getaddrinfo(text, NULL, &hints, &found) == 0;
    mcg_name_kind kind = read_name(text, len, out);
    if (theirs != (kind == MCG_NAME_ADDRESS))
      fail_msg("\"%s\": %s for the library, %d for us", text, theirs ? "an address" : "none", kind);
    if (!theirs) continue;
    mcg_address address;
    char usual[MCG_ADDRESS_TEXT];
    assert_true(mcg_address_of(found->ai_addr, &address));
    mcg_address_text(&address, usual);
    assert_string_equal(usual, out);
    freeaddrinfo(found);
    addresses++;
  }
  assert_true(addresses > 1000);
}

static void beneath(void **state)
{
  (void)state;
  assert_true(mcg_name_beneath("a.pkg.test", "pkg.test"));
  assert_true(mcg_name_beneath("a.b.pkg.test", "pkg.test"));
  assert_false(mcg_name_beneath("pkg.test", "pkg.test"));
  assert_false(mcg_name_beneath("notpkg.test", "pkg.test"));
  assert_false(mcg_name_beneath("xpkg.test", "pkg.test"));
  assert_false(mcg_name_beneath("pkg.test.evil.test", "pkg.test"));
  assert_false(mcg_name_beneath("test", "pkg.test"));
  assert_false(mcg_name_beneath(".pkg.test", "pkg.test"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(normalises), cmocka_unit_test(a_nul_is_no_end),
      cmocka_unit_test(lengths),    cmocka_unit_test(agrees_with_the_library),
      cmocka_unit_test(beneath),
  };
  return cmocka_run_group_tests_name("name", tests, NULL, NULL);
}
