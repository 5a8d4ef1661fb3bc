/* wire.c: fields survive the trip, and whatever else comes in is refused, not read past. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "init/wire.h"

#include <stdlib.h>
#include <string.h>

static void test_round_trip(void **state)
{
  (void)state;
  mcg_wire wire;
  mcg_field field;
  mcg_wire_init(&wire);
  mcg_wire_put_u64(&wire, 7, 0x0123456789abcdefULL);
  mcg_wire_put_str(&wire, 8, "text");
  mcg_wire_put_str(&wire, 9, NULL);
  mcg_wire_put(&wire, 10, NULL, 0);
  mcg_wire_put(&wire, 11, "a\0b", 3);
  assert_false(wire.failed);
  mcg_reader reader = mcg_reader_of(wire.data, wire.len);
  assert_true(mcg_reader_next(&reader, &field));
  assert_int_equal(field.tag, 7);
  assert_true(mcg_field_u64(&field) == 0x0123456789abcdefULL);
  assert_true(mcg_reader_next(&reader, &field));
  char *text = mcg_field_str(&field);
  assert_string_equal(text, "text");
  free(text);
  assert_true(mcg_reader_next(&reader, &field));
  assert_int_equal(field.tag, 10);
  assert_int_equal(field.len, 0);
  text = mcg_field_str(&field);
  assert_string_equal(text, "");
  free(text);
  assert_true(mcg_reader_next(&reader, &field));
  assert_null(mcg_field_str(&field)); /* it holds a NUL */
  assert_false(mcg_reader_next(&reader, &field));
  assert_false(reader.bad);
  mcg_wire_fini(&wire);
}

/* The bytes are part of the protocol. */
static void test_layout(void **state)
{
  (void)state;
  static const uint8_t expected[] = {0x02, 0x01, 0, 0, 3, 0, 0, 0, 'a', 'b', 'c'};
  mcg_wire wire;
  mcg_wire_init(&wire);
  mcg_wire_put_str(&wire, 0x0102, "abc");
  assert_int_equal(wire.len, sizeof expected);
  assert_memory_equal(wire.data, expected, sizeof expected);
  mcg_wire_fini(&wire);
}

static void test_numbers_of_any_length(void **state)
{
  (void)state;
  static const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (size_t len = 0; len <= sizeof bytes; len++) {
    mcg_field field = {.bytes = bytes, .len = len};
    uint64_t expected = 0;
    for (size_t i = 0; i < len && len <= 8; i++) expected |= (uint64_t)bytes[i] << (8 * i);
    assert_true(mcg_field_u64(&field) == expected);
  }
}

static void refuse(const void *bytes, size_t len)
{
  mcg_reader reader = mcg_reader_of(bytes, len);
  mcg_field field;
  while (mcg_reader_next(&reader, &field)) continue;
  assert_true(reader.bad);
  assert_false(mcg_reader_next(&reader, &field)); /* and stays refused */
}

static void test_hostile(void **state)
{
  (void)state;
  for (size_t len = 1; len < 8; len++) refuse("\0\0\0\0\0\0\0\0", len);
  refuse("\1\0\0\0\1\0\0\0", 8);
  refuse("\1\0\0\0\xff\xff\xff\xff"
         "abc",
         11);
  refuse("\1\0\1\0\0\0\0\0", 8);
  refuse("\1\0\0\0\0\0\0\0\1", 9);
  mcg_reader reader = mcg_reader_of(NULL, 0);
  mcg_field field;
  assert_false(mcg_reader_next(&reader, &field));
  assert_false(reader.bad);
}

static void test_limit(void **state)
{
  (void)state;
  static uint8_t big[MCG_WIRE_MAX];
  mcg_wire wire;
  mcg_wire_init(&wire);
  mcg_wire_put(&wire, 1, big, MCG_WIRE_MAX - 8);
  assert_false(wire.failed);
  assert_int_equal(wire.len, MCG_WIRE_MAX);
  mcg_wire_put(&wire, 1, "", 0);
  assert_true(wire.failed);
  assert_int_equal(wire.len, MCG_WIRE_MAX);
  mcg_wire_fini(&wire);
  mcg_wire_put(&wire, 1, big, SIZE_MAX);
  assert_true(wire.failed);
  mcg_wire_fini(&wire);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_layout),
      cmocka_unit_test(test_numbers_of_any_length),
      cmocka_unit_test(test_hostile),
      cmocka_unit_test(test_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
