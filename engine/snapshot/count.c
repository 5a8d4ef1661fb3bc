/* count.c: walks the headers of a tar archive that comes in pieces. What it says is for people: nothing
 * is decided by it, and an archive that it does not understand has no count. */
#include "count.h"
#include "init/tar.h"
#include <stdlib.h>
#include <string.h>

static uint64_t octal(const char *field, size_t size)
{
  uint64_t value = 0;
  for (size_t i = 0; i < size && field[i] >= '0' && field[i] <= '7'; i++)
    value = value << 3 | (uint64_t)(field[i] - '0');
  return value;
}

static uint64_t padded(uint64_t size)
{
  return (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
}

/* "NN size=DIGITS\n" in what was kept of a pax header. */
static void read_pax(mcg_tar_count *count)
{
  count->pax[count->pax_len] = '\0';
  const char *at = strstr(count->pax, " size=");
  if (at) count->size = strtoull(at + 6, NULL, 10);
  count->pax_len = 0;
}

static void read_header(mcg_tar_count *count)
{
  static const uint8_t end[TAR_BLOCK];
  tar_header header;
  memcpy(&header, count->header, sizeof header);
  if (memcmp(count->header, end, sizeof end) == 0) {
    count->over = true;
    return;
  }
  if (octal(header.checksum, 6) != tar_checksum(&header)) {
    count->lost = true;
    return;
  }
  bool pax = header.type == TAR_PAX;
  bool aside = pax || header.type == TAR_PAX_GLOBAL || header.type == TAR_GNU_NAME ||
               header.type == TAR_GNU_LINK;
  uint64_t size = octal(header.size, sizeof header.size);
  if (!aside && count->size) size = count->size;
  if (!aside) count->size = 0;
  if (!aside && header.type != TAR_DIR) count->files++;
  if (size > INT64_MAX - TAR_BLOCK) count->lost = true;
  count->skip = padded(size);
  count->pax_left = pax && size < sizeof count->pax ? (size_t)size : 0;
}

/* How many of the bytes are taken. */
static size_t take(mcg_tar_count *count, const uint8_t *at, size_t len)
{
  uint64_t want = count->pax_left ? count->pax_left
                  : count->skip   ? count->skip
                                  : sizeof count->header - count->have;
  size_t piece = want < len ? (size_t)want : len;
  if (count->pax_left) {
    memcpy(count->pax + count->pax_len, at, piece);
    count->pax_len += piece;
    count->pax_left -= piece;
    count->skip -= piece;
    if (!count->pax_left) read_pax(count);
  } else if (count->skip) {
    count->skip -= piece;
  } else {
    memcpy(count->header + count->have, at, piece);
    count->have = (count->have + piece) % sizeof count->header;
    if (!count->have) read_header(count);
  }
  return piece;
}

void mcg_tar_count_add(mcg_tar_count *count, const void *bytes, size_t len)
{
  const uint8_t *at = bytes;
  while (len && !count->lost && !count->over) {
    size_t piece = take(count, at, len);
    at += piece;
    len -= piece;
  }
}
