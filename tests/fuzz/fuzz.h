/* fuzz.h: what a fuzz target is. In the preset `fuzz` it is linked to libFuzzer and seeds.c; elsewhere,
 * with any compiler, to runner.c, which mutates the target's seeds, the same way every time. Both look
 * for crashes, sanitizer reports and broken FUZZ_NEEDs. */
#ifndef MCG_FUZZ_H
#define MCG_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FUZZ_NEED(condition)                                                                       \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                      \
      abort();                                                                                     \
    }                                                                                              \
  } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* The index-th good input into `out`: its size; 0: there are no more. For what cannot well be a file in
 * corpus/NAME, because it follows the protocol: a target may leave it out. */
size_t fuzz_seed(unsigned index, uint8_t *out, size_t room) __attribute__((weak));

#endif
