/* count.h: how many files are in a tar archive that goes by, from its headers alone. */
#ifndef MCG_SNAPSHOT_COUNT_H
#define MCG_SNAPSHOT_COUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mcg_tar_count {
  uint64_t files;  /* all but directories */
  bool lost, over; /* it is no tar that we understand: no count; its end was seen */
  uint64_t skip;   /* of what the last header spoke of */
  size_t have;     /* of the next header */
  uint8_t header[512];
  uint64_t size; /* of the next file, from a pax header; 0: its own says it */
  size_t pax_left, pax_len;
  char pax[4096]; /* the beginning of one: our packer writes no longer ones with a size */
} mcg_tar_count;

void mcg_tar_count_add(mcg_tar_count *count, const void *bytes, size_t len); /* zeroed at first */

#endif
