/* Packets by which a kernel (Linux 6.18) refused, as it sent them: a TCP connection to 93.184.216.34:8443
 * and to [2001:db8::7]:8443, a datagram to port 53 of both. And what is none of these. */
#include "cmocka_all.h"
#include "egress/refusal.h"

#include <stdlib.h>
#include <string.h>

#define TCP_4 "450000280000400040063ee25db8d822c612000120fb961c00000000ca4bdb3450140000574a0000"
#define UDP_4                                                                                      \
  "45c00040adbf00004001d04f5db8d822c612000103035d080000000045000024e055400040115e85c61200015db8d8" \
  "22e8de00350010fc0f7175657374696f6e"
#define TCP_6                                                                                      \
  "600a01150014064020010db8000000000000000000000007fd00000000000000000000000000000120fbdd88000000" \
  "0086057402501400002adc0000"
#define UDP_6                                                                                      \
  "600d6fd300403a40fd000000000000000000000000000001fd0000000000000000000000000000010104f87c000000" \
  "006003e73a00101140fd00000000000000000000000000000120010db8000000000000000000000007a2c700350010" \
  "2ae37175657374696f6e"

/* In memory of its own length: a byte too far is found by a sanitizer. */
static uint8_t *bytes_of(const char *hex, size_t *len)
{
  *len = strlen(hex) / 2;
  uint8_t *out = malloc(*len);
  assert_non_null(out);
  for (size_t i = 0; i < *len; i++) {
    const char pair[3] = {hex[2 * i], hex[2 * i + 1], 0};
    out[i] = (uint8_t)strtoul(pair, NULL, 16);
  }
  return out;
}

static bool parse_cut(const uint8_t *bytes, size_t len, mcg_refusal *out)
{
  uint8_t *copy = malloc(len ? len : 1);
  assert_non_null(copy);
  if (len) memcpy(copy, bytes, len);
  bool good = mcg_refusal_parse(copy, len, out);
  free(copy);
  return good;
}

static void expect(const char *hex, const char *address, uint16_t port, bool udp, size_t least)
{
  size_t len;
  uint8_t *bytes = bytes_of(hex, &len);
  mcg_refusal got;
  char text[MCG_ADDRESS_TEXT];
  assert_true(parse_cut(bytes, len, &got));
  mcg_address_text(&got.address, text);
  assert_string_equal(text, address);
  assert_int_equal(got.port, port);
  assert_int_equal(got.udp, udp);
  for (size_t cut = 0; cut < len; cut++)
    assert_int_equal(parse_cut(bytes, cut, &got), cut >= least);
  free(bytes);
}

static void test_refused(void **state)
{
  (void)state;
  expect(TCP_4, "93.184.216.34", 8443, false, 40);
  expect(UDP_4, "93.184.216.34", 53, true, 20 + 8 + 20 + 4);
  expect(TCP_6, "2001:db8::7", 8443, false, 60);
  expect(UDP_6, "2001:db8::7", 53, true, 40 + 8 + 40 + 4);
}

/* One byte is another. */
static bool parse_with(const char *hex, size_t at, uint8_t value)
{
  size_t len;
  uint8_t *bytes = bytes_of(hex, &len);
  mcg_refusal got;
  bytes[at] = value;
  bool good = mcg_refusal_parse(bytes, len, &got);
  free(bytes);
  return good;
}

static void test_no_refusal(void **state)
{
  (void)state;
  assert_true(parse_with(TCP_4, 33, 0x14));
  assert_false(parse_with(TCP_4, 33, 0x04));  /* RST alone: of a connection that was there */
  assert_false(parse_with(TCP_4, 33, 0x12));  /* SYN|ACK */
  assert_false(parse_with(TCP_4, 27, 1));     /* a sequence number */
  assert_false(parse_with(TCP_4, 9, 17));     /* UDP */
  assert_false(parse_with(TCP_4, 7, 1));      /* a later fragment */
  assert_false(parse_with(TCP_4, 0, 0x44));   /* a header of 16 bytes */
  assert_false(parse_with(TCP_4, 0, 0x4f));   /* one of 60, which leaves no room */
  assert_false(parse_with(TCP_4, 0, 0x75));   /* IP of version 7 */
  assert_false(parse_with(UDP_4, 21, 1));     /* host unreachable */
  assert_false(parse_with(UDP_4, 20, 11));    /* time exceeded */
  assert_false(parse_with(UDP_4, 28 + 9, 6)); /* it was no datagram */
  assert_false(parse_with(UDP_4, 28, 0x4f));
  assert_false(parse_with(UDP_4, 28, 0x65)); /* IPv6 in ICMP of IPv4 */
  assert_false(parse_with(UDP_6, 41, 3));    /* address unreachable */
  assert_false(parse_with(UDP_6, 48 + 6, 6));
  assert_false(parse_with(UDP_6, 6, 1)); /* ICMP of IPv4 in IPv6 */
  assert_false(parse_with(TCP_6, 53, 0x10));
}

/* No byte of any value at any place is read past the end. */
static void test_any_byte(void **state)
{
  (void)state;
  static const char *const all[] = {TCP_4, UDP_4, TCP_6, UDP_6};
  for (size_t i = 0; i < 4; i++)
    for (size_t at = 0; at < strlen(all[i]) / 2; at++)
      for (unsigned value = 0; value < 256; value++) parse_with(all[i], at, (uint8_t)value);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_no_refusal),
      cmocka_unit_test(test_any_byte),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
