/* tar.h: the header block of a tar archive (POSIX.1-1988 ustar, POSIX.1-2001 pax), shared by packing and
 * unpacking. Fields are text; numbers are octal. */
#ifndef MCG_TAR_H
#define MCG_TAR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TAR_BLOCK 512

/* What an archive may hold. Packing keeps to it too: what was packed can be unpacked. */
#define TAR_ENTRIES_MAX 2000000u
#define TAR_DEPTH_MAX 1024u
#define TAR_DIRECTORY_BYTES_MAX                                                                    \
  (256u << 20) /* names of directories: they are remembered to the end */

typedef struct tar_header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
  char magic[6], version[2], uname[32], gname[32], major[8], minor[8], prefix[155], pad[12];
} tar_header;
_Static_assert(sizeof(tar_header) == TAR_BLOCK, "a header is one block");

#define TAR_FILE '0'
#define TAR_FILE_OLD '\0'
#define TAR_HARD '1'
#define TAR_LINK '2'
#define TAR_CHARACTER '3'
#define TAR_BLOCK_DEVICE '4'
#define TAR_DIR '5'
#define TAR_FIFO '6'
#define TAR_FILE_CONTIGUOUS '7'
#define TAR_PAX 'x'
#define TAR_PAX_GLOBAL 'g'
#define TAR_GNU_NAME 'L'
#define TAR_GNU_LINK 'K'
#define TAR_GNU_SPARSE 'S'

#define TAR_JOINED_MAX (155 + 1 + 100 + 1) /* prefix, slash, name, NUL */

static inline unsigned tar_checksum(const tar_header *header)
{
  const unsigned char *bytes = (const unsigned char *)header;
  unsigned sum = 0;
  for (unsigned i = 0; i < TAR_BLOCK; i++) /* as if the field held blanks */
    sum += i >= 148 && i < 156 ? ' ' : bytes[i];
  return sum;
}

typedef struct tar_caps {
  uint64_t entries, directory_bytes;
} tar_caps;

/* Counts one more entry. What is wrong with it, or NULL. */
static inline const char *tar_count(tar_caps *caps, const char *path, bool directory)
{
  size_t depth = 1;
  const char *at = path;
  while ((at = strchr(at, '/'))) at++, depth++;
  if (strlen(path) >= PATH_MAX) return "has a name that is too long";
  if (depth > TAR_DEPTH_MAX) return "lies more than 1,024 directories deep";
  if (directory) caps->directory_bytes += strlen(path) + 32;
  if (caps->directory_bytes > TAR_DIRECTORY_BYTES_MAX)
    return "is one directory too many: their names take more than 256 MiB";
  if (++caps->entries > TAR_ENTRIES_MAX)
    return "comes after 2,000,000 entries, the most there may be";
  return NULL;
}

#endif
