/* Bounded capture: everything while it fits, head and tail and true counts when it does not. */
#include "session/capture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* A stream in which each position can be told from its neighbours. */
static uint8_t byte_at(uint64_t i)
{
  return (uint8_t)((i * 2654435761u) >> 16);
}

static void feed(mcg_capture *capture, uint64_t total, size_t chunk)
{
  uint8_t *buffer = malloc(chunk);
  for (uint64_t done = 0; done < total;) {
    size_t part = total - done < chunk ? (size_t)(total - done) : chunk;
    for (size_t i = 0; i < part; i++) buffer[i] = byte_at(done + i);
    assert_true(mcg_capture_add(capture, buffer, part));
    done += part;
  }
  free(buffer);
}

static void check(size_t limit, uint64_t total, size_t chunk)
{
  mcg_capture capture;
  mcg_capture_init(&capture, limit);
  feed(&capture, total, chunk);
  assert_true(capture.head_cap + capture.tail_cap <= limit);
  const char *bytes;
  size_t len;
  assert_true(mcg_capture_finish(&capture, &bytes, &len));
  assert_int_equal(capture.total, total);
  assert_int_equal(mcg_capture_truncated(&capture), total > limit);
  assert_int_equal(len, total < limit ? total : limit);
  size_t head = total <= limit ? len : limit - limit / 2;
  for (size_t i = 0; i < head; i++) assert_int_equal((uint8_t)bytes[i], byte_at(i));
  for (size_t i = head; i < len; i++) assert_int_equal((uint8_t)bytes[i], byte_at(total - len + i));
  mcg_capture_fini(&capture);
}

static void keeps_head_and_tail(void **state)
{
  (void)state;
  static const size_t limits[] = {0, 1, 2, 3, 10, 4096, 10001, 70000};
  static const uint64_t totals[] = {0,    1,    2,    3,     5,     9,     10,    11,
                                    4096, 5000, 9999, 10001, 10002, 69999, 300000};
  static const size_t chunks[] = {1, 7, 4096, 65536, 400000};
  for (size_t l = 0; l < sizeof limits / sizeof *limits; l++)
    for (size_t t = 0; t < sizeof totals / sizeof *totals; t++)
      for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++)
        check(limits[l], totals[t], chunks[c]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(keeps_head_and_tail)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
