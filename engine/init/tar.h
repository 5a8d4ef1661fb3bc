/* tar.h: the header block of a tar archive (POSIX.1-1988 ustar, POSIX.1-2001 pax), shared by packing and
 * unpacking. Fields are text; numbers are octal. */
#ifndef MCG_TAR_H
#define MCG_TAR_H

#define TAR_BLOCK 512

typedef struct tar_header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
  char magic[6], version[2], uname[32], gname[32], major[8], minor[8], prefix[155], pad[12];
} tar_header;
_Static_assert(sizeof(tar_header) == TAR_BLOCK, "a header is one block");

#define TAR_FILE '0'
#define TAR_FILE_OLD '\0'
#define TAR_HARD '1'
#define TAR_LINK '2'
#define TAR_DIR '5'
#define TAR_FILE_CONTIGUOUS '7'
#define TAR_PAX 'x'
#define TAR_PAX_GLOBAL 'g'
#define TAR_GNU_NAME 'L'
#define TAR_GNU_LINK 'K'

static inline unsigned tar_checksum(const tar_header *header)
{
  const unsigned char *bytes = (const unsigned char *)header;
  unsigned sum = 0;
  for (unsigned i = 0; i < TAR_BLOCK; i++) /* as if the field held blanks */
    sum += i >= 148 && i < 156 ? ' ' : bytes[i];
  return sum;
}

#endif
