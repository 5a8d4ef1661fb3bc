/* SHA-256 against FIPS 180-4's and NIST's examples, HMAC against RFC 4231's; and against libcrypto. */
#include "service/crypto.h"
#include "service/sha256.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void hash(const void *bytes, size_t len, size_t step, char out[65])
{
  mcg_sha256 sum;
  uint8_t digest[32];
  mcg_sha256_init(&sum);
  for (size_t at = 0; at < len; at += step)
    mcg_sha256_update(&sum, (const char *)bytes + at, len - at < step ? len - at : step);
  mcg_sha256_final(&sum, digest);
  mcg_hex(digest, sizeof digest, out);
  out[64] = '\0';
}

static void the_published_examples(void **state)
{
  (void)state;
  static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  char hex[65];
  hash("abc", 3, 3, hex);
  assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  hash("", 0, 1, hex);
  assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  hash(two, sizeof two - 1, 7, hex);
  assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  char *million = malloc(1000000);
  memset(million, 'a', 1000000);
  hash(million, 1000000, 997, hex);
  assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  free(million);
}

static void every_length_as_libcrypto_has_it(void **state)
{
  (void)state;
  unsigned char bytes[300];
  char ours[65], theirs[65];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 131 + 7);
  for (size_t len = 0; len <= sizeof bytes; len++)
    for (size_t step = 1; step < 130; step += 43) {
      hash(bytes, len, step, ours);
      assert_int_equal(mcg_sha256_hex(bytes, len, theirs, NULL), 0);
      assert_string_equal(ours, theirs);
    }
}

/* With the processor's instructions, where it has them, as without. */
static void every_block_the_same_either_way(void **state)
{
  (void)state;
  uint8_t bytes[64 * 7];
  uint32_t number = 1;
  for (int round = 0; round < 200; round++) {
    uint32_t plain[8], fast[8];
    for (size_t i = 0; i < sizeof bytes; i++) {
      number = number * 1664525 + 1013904223;
      bytes[i] = (uint8_t)(number >> 24);
    }
    memcpy(plain, bytes, sizeof plain);
    memcpy(fast, bytes, sizeof fast);
    mcg_sha256_blocks(plain, bytes + 64, (size_t)round % 7, true);
    mcg_sha256_blocks(fast, bytes + 64, (size_t)round % 7, false);
    assert_memory_equal(plain, fast, sizeof plain);
  }
}

static void check_hmac(const void *key, size_t key_len, const char *text, size_t len,
                       const char *expected)
{
  mcg_hmac_key made;
  mcg_sha256 sum;
  uint8_t digest[32];
  char hex[65] = {0};
  mcg_hmac_key_init(&made, key, key_len);
  for (int again = 0; again < 2; again++) { /* one key, many messages */
    mcg_hmac_start(&made, &sum);
    mcg_sha256_update(&sum, text, len);
    mcg_hmac_final(&made, &sum, digest);
    mcg_hex(digest, sizeof digest, hex);
    assert_string_equal(hex, expected);
  }
}

static void hmac_of_the_published_examples(void **state)
{
  (void)state;
  unsigned char key[131];
  memset(key, 0x0b, 20);
  check_hmac(key, 20, "Hi There", 8,
             "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  check_hmac("Jefe", 4, "what do ya want for nothing?", 28,
             "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  memset(key, 0xaa, sizeof key);
  check_hmac(key, sizeof key, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
             "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_published_examples),
      cmocka_unit_test(every_length_as_libcrypto_has_it),
      cmocka_unit_test(every_block_the_same_either_way),
      cmocka_unit_test(hmac_of_the_published_examples),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
