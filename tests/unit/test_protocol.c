/* protocol.c: headers and records, byte by byte as protocol.h says, and what is no header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "init/protocol.h"

#include <string.h>

static const mcg_frame sample = {.length = 0x1234,
                                 .type = MCG_F_DATA,
                                 .flags = MCG_FRAME_MORE,
                                 .stream = 2,
                                 .fds = 3,
                                 .channel = 0xdeadbeef,
                                 .sequence = 0x0102030405060708ULL};

static void test_header_layout(void **state)
{
  (void)state;
  static const uint8_t expected[MCG_FRAME_HEADER] = {0x34, 0x12, 0,    0,    MCG_F_DATA, 1, 2, 3,
                                                     0xef, 0xbe, 0xad, 0xde, 0,          0, 0, 0,
                                                     8,    7,    6,    5,    4,          3, 2, 1};
  uint8_t bytes[MCG_FRAME_HEADER];
  mcg_frame back;
  mcg_frame_encode(&sample, bytes);
  assert_memory_equal(bytes, expected, sizeof expected);
  assert_true(mcg_frame_decode(bytes, &back));
  assert_int_equal(back.length, sample.length);
  assert_int_equal(back.type, sample.type);
  assert_int_equal(back.flags, sample.flags);
  assert_int_equal(back.stream, sample.stream);
  assert_int_equal(back.fds, sample.fds);
  assert_int_equal(back.channel, sample.channel);
  assert_true(back.sequence == sample.sequence);
}

static bool takes(size_t at, uint8_t value)
{
  uint8_t bytes[MCG_FRAME_HEADER];
  mcg_frame back;
  mcg_frame_encode(&sample, bytes);
  bytes[at] = value;
  return mcg_frame_decode(bytes, &back);
}

static void test_hostile_headers(void **state)
{
  (void)state;
  for (unsigned value = 0; value < 256; value++) {
    assert_int_equal(takes(4, (uint8_t)value), value >= 1 && value <= MCG_F_LAST);
    assert_int_equal(takes(5, (uint8_t)value), value <= 1);
    assert_int_equal(takes(6, (uint8_t)value), value <= 2);
    assert_int_equal(takes(7, (uint8_t)value), value <= MCG_FDS_MAX);
    for (size_t at = 12; at < 16; at++) assert_int_equal(takes(at, (uint8_t)value), value == 0);
  }
  assert_false(takes(2, 2)); /* 0x21234 is longer than a frame */
  assert_false(takes(3, 1));
  mcg_frame frame = sample, back;
  uint8_t bytes[MCG_FRAME_HEADER];
  frame.length = MCG_FRAME_MAX;
  mcg_frame_encode(&frame, bytes);
  assert_true(mcg_frame_decode(bytes, &back));
  frame.length++;
  mcg_frame_encode(&frame, bytes);
  assert_false(mcg_frame_decode(bytes, &back));
  frame = sample;
  frame.sequence = 0; /* they count from 1 */
  mcg_frame_encode(&frame, bytes);
  assert_false(mcg_frame_decode(bytes, &back));
}

static void test_entry(void **state)
{
  (void)state;
  const mcg_entry entry = {0100644, 1000, 1001, 2, 1ULL << 40, 77, -5, 999999999, 255, 4095};
  uint8_t bytes[MCG_ENTRY_HEADER];
  mcg_entry back;
  mcg_entry_encode(&entry, bytes);
  assert_int_equal(bytes[16 + 5], 1); /* size is the fifth field, at 16 */
  mcg_entry_decode(bytes, &back);
  assert_int_equal(back.mode, entry.mode);
  assert_int_equal(back.uid, entry.uid);
  assert_int_equal(back.gid, entry.gid);
  assert_int_equal(back.nlink, entry.nlink);
  assert_true(back.size == entry.size && back.inode == entry.inode &&
              back.mtime_s == entry.mtime_s);
  assert_int_equal(back.mtime_ns, entry.mtime_ns);
  assert_int_equal(back.name_len, entry.name_len);
  assert_int_equal(back.target_len, entry.target_len);
}

static void test_process(void **state)
{
  (void)state;
  const mcg_process_entry entry = {5, 4, 1000, 'S', 1ULL << 33, 12};
  uint8_t bytes[MCG_PROCESS_HEADER];
  mcg_process_entry back;
  mcg_process_encode(&entry, bytes);
  assert_int_equal(bytes[12], 'S');
  assert_int_equal(bytes[24], 12);
  mcg_process_decode(bytes, &back);
  assert_int_equal(back.pid, 5);
  assert_int_equal(back.ppid, 4);
  assert_int_equal(back.uid, 1000);
  assert_int_equal(back.state, 'S');
  assert_true(back.rss_kb == entry.rss_kb);
  assert_int_equal(back.command_len, 12);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_header_layout),
      cmocka_unit_test(test_hostile_headers),
      cmocka_unit_test(test_entry),
      cmocka_unit_test(test_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
