/* id.c: names that nobody can guess and that are safe in paths, cgroup names and URLs. */
#include "engine.h"
#include <errno.h>
#include <sys/random.h>

int mcg_random_id(char out[27], mcg_error **err)
{
  static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
  uint8_t random[17] = {0}; /* 128 bits, and two zero bits for the last digit */
  if (getentropy(random, 16) < 0)
    return mcg_fail_errno(err, errno, "this needs Linux 3.17 or newer, and getrandom allowed",
                          "draw a random id");
  for (size_t i = 0; i < 26; i++) {
    size_t bit = i * 5;
    unsigned pair = (unsigned)random[bit / 8] << 8 | random[bit / 8 + 1];
    out[i] = digits[pair >> (11 - bit % 8) & 31];
  }
  out[26] = '\0';
  return 0;
}
