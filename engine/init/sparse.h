/* sparse.h: writes bytes of a sandbox so that what was a hole there takes no room here. A disk of 64 MiB
 * can hold terabytes of holes; written out they would fill the host. */
#ifndef MCG_INIT_SPARSE_H
#define MCG_INIT_SPARSE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define MCG_SPARSE_BLOCK ((size_t)4096)

static inline bool mcg_is_zero(const uint8_t *bytes, size_t len)
{
  return len == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0);
}

static inline int mcg_write_whole(int fd, const uint8_t *bytes, size_t len)
{
  for (size_t put = 0; put < len;) {
    ssize_t n = write(fd, bytes + put, len - put);
    if (n < 0 && errno != EINTR) return -1;
    if (n > 0) put += (size_t)n;
  }
  return 0;
}

/* At the descriptor's offset, which moves on. The file's end is the caller's to set (ftruncate), since
 * the last block may be a hole. */
static inline int mcg_write_sparse(int fd, const uint8_t *bytes, size_t len)
{
  while (len > 0) {
    size_t run = 0;
    while (run < len) {
      size_t block = len - run < MCG_SPARSE_BLOCK ? len - run : MCG_SPARSE_BLOCK;
      if (mcg_is_zero(bytes + run, block)) break;
      run += block;
    }
    if (run > 0 && mcg_write_whole(fd, bytes, run) < 0) return -1;
    bytes += run;
    len -= run;
    size_t hole = len < MCG_SPARSE_BLOCK ? len : MCG_SPARSE_BLOCK;
    if (len > 0 && lseek(fd, (off_t)hole, SEEK_CUR) < 0) return -1;
    bytes += hole;
    len -= hole;
  }
  return 0;
}

#endif
