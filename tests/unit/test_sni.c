/* The name in a ClientHello: whole, cut into packets and records, and bent. */
#define MCG_SAMPLES_TLS
#include "cmocka_all.h"
#include "egress/sni.h"
#include "wire_samples.h"

static void reads_real_ones(void **state)
{
  (void)state;
  static const struct {
    const char *hex, *name; /* NULL: there is none */
  } cases[] = {
      {openssl_13, "api.example.com"},
      {openssl_12, "api.example.com"},
      {openssl_no_name, NULL},
      {python_idn, "xn--bcher-kva.example"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t bytes[2048];
    mcg_sni sni;
    size_t len = sample(cases[i].hex, bytes);
    for (size_t cut = 0; cut < len; cut++)
      assert_int_equal(mcg_sni_read(bytes, cut, &sni), MCG_SNI_MORE);
    assert_int_equal(mcg_sni_read(bytes, len, &sni), cases[i].name ? MCG_SNI_NAME : MCG_SNI_NONE);
    assert_string_equal(sni.name, cases[i].name ? cases[i].name : "");
    assert_false(sni.ech);
    memset(bytes + len, 23, 100); /* what comes behind it is not looked at */
    assert_int_equal(mcg_sni_read(bytes, len + 100, &sni),
                     cases[i].name ? MCG_SNI_NAME : MCG_SNI_NONE);
  }
}

/* The same message in records of `piece` bytes each. */
static size_t cut_up(const uint8_t *bytes, size_t len, size_t piece, uint8_t *out)
{
  size_t to = 0;
  for (size_t at = 5; at < len; at += piece) {
    size_t now = len - at < piece ? len - at : piece;
    memcpy(out + to, bytes, 3);
    out[to + 3] = (uint8_t)(now >> 8);
    out[to + 4] = (uint8_t)now;
    memcpy(out + to + 5, bytes + at, now);
    to += 5 + now;
  }
  return to;
}

static void reads_across_records(void **state)
{
  (void)state;
  uint8_t bytes[2048], records[16384];
  mcg_sni sni;
  size_t len = sample(openssl_13, bytes);
  static const size_t pieces[] = {1, 2, 3, 7, 50, 151, 300};
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
    size_t total = cut_up(bytes, len, pieces[i], records);
    for (size_t cut = 0; cut < total; cut++)
      assert_int_equal(mcg_sni_read(records, cut, &sni), MCG_SNI_MORE);
    assert_int_equal(mcg_sni_read(records, total, &sni), MCG_SNI_NAME);
    assert_string_equal(sni.name, "api.example.com");
  }
  size_t total = cut_up(bytes, len, 50, records);
  records[55] = 23; /* something else between two pieces */
  assert_int_equal(mcg_sni_read(records, total, &sni), MCG_SNI_BAD);
}

static void is_not_tls(void **state)
{
  (void)state;
  static const char *const texts[] = {
      "G",
      "GET / HTTP/1.1\r\n\r\n",
      "SSH-2.0-OpenSSH_9.2\r\n",
      "\x80\x2e\x01\x03\x01", /* SSL 2's way to say hello */
      "\x17\x03\x03\x00\x10",
      "\x15\x03\x01\x00\x02",
      "\x16\x02\x01\x00\x02",
      "\x16\x03\x01\xff\xff",
      "\x16\x03\x01\x00\x01\x02", /* a ServerHello */
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    mcg_sni sni;
    size_t len = i == 8 ? 6 : i > 2 ? 5 : strlen(texts[i]);
    if (mcg_sni_read((const uint8_t *)texts[i], len, &sni) != MCG_SNI_BAD)
      fail_msg("%zu is taken", i);
    assert_non_null(sni.why);
  }
  mcg_sni sni;
  assert_int_equal(mcg_sni_read((const uint8_t *)"", 0, &sni), MCG_SNI_MORE);
  assert_int_equal(mcg_sni_read((const uint8_t *)"\x16\x03\x01\x00\x00", 5, &sni), MCG_SNI_BAD);
  uint8_t long_one[] = "\x16\x03\x01\x40\x00\x01\xff\xff\xff";
  assert_int_equal(mcg_sni_read(long_one, 9, &sni), MCG_SNI_BAD);
}

/* A ClientHello with these extensions; its length. */
static size_t hello(const uint8_t *extensions, size_t len, uint8_t *out)
{
  uint8_t *at = out + 9;
  memset(out, 0, 9 + 34);
  at[0] = at[1] = 3;
  at += 34;
  memcpy(at, "\0\0\2\x13\1\1\0", 7); /* no session, one cipher, no compression */
  at += 7;
  *at++ = (uint8_t)(len >> 8);
  *at++ = (uint8_t)len;
  memcpy(at, extensions, len);
  at += len;
  size_t total = (size_t)(at - out);
  memcpy(out, "\x16\3\1", 3);
  out[3] = (uint8_t)((total - 5) >> 8);
  out[4] = (uint8_t)(total - 5);
  out[5] = 1;
  out[7] = (uint8_t)((total - 9) >> 8);
  out[8] = (uint8_t)(total - 9);
  return total;
}

static void looks_at_extensions(void **state)
{
  (void)state;
#define NAME "\0\0\0\13\0\11\0\0\6a.test"
  static const struct {
    const char *bytes;
    size_t len;
    mcg_sni_kind kind;
    bool ech;
  } cases[] = {
      {NAME, 15, MCG_SNI_NAME, false},
      {NAME "\xfe\x0d\0\1\0", 20, MCG_SNI_NAME, true},
      {"\xfe\x0d\0\1\0" NAME, 20, MCG_SNI_NAME, true},
      {"\xfe\x0d\0\1\0", 5, MCG_SNI_NONE, true},
      {NAME NAME, 30, MCG_SNI_BAD, false},                    /* twice */
      {"\0\0\0\13\0\11\1\0\6a.test", 15, MCG_SNI_BAD, false}, /* of another type */
      {"\0\0\0\13\0\10\0\0\6a.test", 15, MCG_SNI_BAD, false}, /* lengths disagree */
      {"\0\0\0\13\0\11\0\0\5a.test", 15, MCG_SNI_BAD, false}, /* a list of more */
      {"\0\0\0\13\0\11\0\0\7a.test", 15, MCG_SNI_BAD, false},
      {"\0\0\0\14\0\11\0\0\6a.test", 15, MCG_SNI_BAD, false},
      {"\0\0\0\0", 4, MCG_SNI_BAD, false}, /* empty, as servers send it */
      {"\0\0\0\13\0\11\0\0\6a\0test", 15, MCG_SNI_BAD, false},
      {"\0\0\0\14\0\12\0\0\7"
       "1.2.3.4",
       16, MCG_SNI_BAD, false}, /* no name */
      {"\0\0\0\13\0\11\0\0\6"
       "a_test",
       15, MCG_SNI_BAD, false},
      {"\0\0\0\13\0\11\0\0\6A.TEST", 15, MCG_SNI_NAME, false},
      {"\0\0\0\14\0\12\0\0\7"
       "a.test.",
       16, MCG_SNI_NAME, false},
      {"\0\5\0", 3, MCG_SNI_BAD, false},
      {"", 0, MCG_SNI_NONE, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t bytes[256];
    mcg_sni sni;
    size_t len = hello((const uint8_t *)cases[i].bytes, cases[i].len, bytes);
    mcg_sni_kind kind = mcg_sni_read(bytes, len, &sni);
    if (kind != cases[i].kind) fail_msg("case %zu: %d, %s", i, kind, sni.why ? sni.why : "");
    if (kind == MCG_SNI_NAME) assert_string_equal(sni.name, "a.test");
    if (kind != MCG_SNI_BAD) assert_int_equal(sni.ech, cases[i].ech);
    if (kind == MCG_SNI_BAD) assert_string_equal(sni.name, "");
  }
  uint8_t bytes[256];
  mcg_sni sni;
  hello((const uint8_t *)NAME, 15, bytes);
  bytes[51]++; /* the extensions end behind the message */
  assert_int_equal(mcg_sni_read(bytes, sizeof bytes, &sni), MCG_SNI_BAD);
}

static void ends_sometime(void **state)
{
  (void)state;
  static uint8_t bytes[MCG_SNI_BYTES + 16];
  mcg_sni sni;
  for (size_t at = 0; at + 6 <= sizeof bytes; at += 6) /* records of one byte, for ever */
    memcpy(bytes + at, "\x16\3\1\0\1\0", 6);
  /* The nth byte of the message: its type, its length (0x7f00), its version, that of its ciphers. */
  bytes[5] = 1;
  bytes[2 * 6 + 5] = 0x7f;
  bytes[4 * 6 + 5] = bytes[5 * 6 + 5] = 3;
  bytes[39 * 6 + 5] = 0x7f;
  assert_int_equal(mcg_sni_read(bytes, MCG_SNI_BYTES - 1, &sni), MCG_SNI_MORE);
  assert_int_equal(mcg_sni_read(bytes, MCG_SNI_BYTES, &sni), MCG_SNI_BAD);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_real_ones), cmocka_unit_test(reads_across_records),
      cmocka_unit_test(is_not_tls),      cmocka_unit_test(looks_at_extensions),
      cmocka_unit_test(ends_sometime),
  };
  return cmocka_run_group_tests_name("sni", tests, NULL, NULL);
}
