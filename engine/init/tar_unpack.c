/* tar_unpack.c: an archive from stdin into a directory. The archive is hostile: every name is walked
 * without following a link, so nothing is written outside of the directory, whatever order links and files
 * come in. Only files, directories, links and hard links are made; owners are not restored, nor set-id and
 * sticky bits. */
#include "beneath.h"
#include "builtin.h"
#include "tar.h"
#include "sparse.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EXTRA_MAX (1u << 20) /* bytes of one pax or GNU header */

/* What pax and GNU headers say about the next entry. */
typedef struct extra {
  char *path, *link;
  uint64_t size;
  int64_t mtime;
  bool has_size, has_mtime;
} extra;

typedef struct later { /* modes of directories: a read-only one must be filled first */
  struct later *next;
  mode_t mode;
  int64_t mtime;
  char path[];
} later;

typedef struct unpacker {
  int root;
  bool strict; /* symbolic links are errors */
  extra next;
  later *directories;
  char last_parent[PATH_MAX]; /* whose descriptor is kept */
  int last_fd;
} unpacker;

/* ---- reading ------------------------------------------------------------------------------ */

static void get_exactly(void *bytes, size_t len)
{
  if (builtin_get(bytes, len) != len) builtin_fail(EINVAL, "the archive ends in the middle");
}

static void skip(uint64_t len)
{
  static char sink[65536];
  while (len) {
    size_t piece = len < sizeof sink ? (size_t)len : sizeof sink;
    get_exactly(sink, piece);
    len -= piece;
  }
}

static uint64_t padding(uint64_t len)
{
  return (TAR_BLOCK - len % TAR_BLOCK) % TAR_BLOCK;
}

/* Octal with blanks around it, or base 256 (GNU) when the first bit is set. */
static uint64_t number_in(const char *field, size_t size)
{
  uint64_t value = 0;
  size_t i = 0;
  if ((unsigned char)field[0] & 0x80) {
    if ((unsigned char)field[0] != 0x80)
      builtin_fail(EINVAL, "the archive holds a number out of range");
    for (i = 1; i < size; i++) {
      if (value >> 55) builtin_fail(EINVAL, "the archive holds a number out of range");
      value = value << 8 | (unsigned char)field[i];
    }
    return value;
  }
  while (i < size && field[i] == ' ') i++;
  for (; i < size && field[i] >= '0' && field[i] <= '7'; i++) {
    if (value >> 60) builtin_fail(EINVAL, "the archive holds a number out of range");
    value = value << 3 | (uint64_t)(field[i] - '0');
  }
  if (i < size && field[i] != ' ' && field[i] != 0)
    builtin_fail(EINVAL, "the archive holds a bad number");
  return value;
}

/* Before 1970, GNU's base 256 goes negative: the time does not matter that much. */
static int64_t time_in(const char *field, size_t size)
{
  return (unsigned char)field[0] == 0xff ? 0 : (int64_t)number_in(field, size);
}

static char *get_extra(uint64_t size)
{
  if (size > EXTRA_MAX) builtin_fail(EINVAL, "a header of the archive is too long");
  char *text = builtin_alloc((size_t)size + 1);
  get_exactly(text, (size_t)size);
  skip(padding(size));
  return text;
}

static void replace(char **out, const char *bytes, size_t len)
{
  free(*out);
  *out = builtin_alloc(len + 1);
  memcpy(*out, bytes, len);
  if (strlen(*out) != len) builtin_fail(EINVAL, "a name in the archive holds a NUL byte");
}

static uint64_t decimal(const char *text, size_t len, size_t *used)
{
  uint64_t value = 0;
  size_t i = 0;
  for (; i < len && text[i] >= '0' && text[i] <= '9'; i++) {
    if (value > (UINT64_MAX >> 1) / 10)
      builtin_fail(EINVAL, "the archive holds a number out of range");
    value = value * 10 + (uint64_t)(text[i] - '0');
  }
  *used = i;
  return value;
}

static bool key_is(const char *key, size_t len, const char *name)
{
  return strlen(name) == len && memcmp(key, name, len) == 0;
}

static void take_record(extra *out, const char *key, size_t key_len, const char *value, size_t len)
{
  size_t used;
  if (key_is(key, key_len, "path")) replace(&out->path, value, len);
  if (key_is(key, key_len, "linkpath")) replace(&out->link, value, len);
  if (key_is(key, key_len, "size")) {
    out->size = decimal(value, len, &used);
    out->has_size = true;
    if (used != len || !len) builtin_fail(EINVAL, "the archive holds a bad size");
  }
  if (key_is(key, key_len, "mtime")) {
    out->mtime = (int64_t)decimal(value, len, &used);
    out->has_mtime = used > 0;
  }
  if (key_len >= 11 && memcmp(key, "GNU.sparse.", 11) == 0)
    builtin_fail(EINVAL, "the archive holds a sparse file; pack it without --sparse");
}

/* "LENGTH KEY=VALUE\n" one after the other. */
static void take_pax(extra *out, const char *text, size_t len)
{
  while (len) {
    size_t used, total = (size_t)decimal(text, len, &used);
    if (used == 0 || used >= len || text[used] != ' ' || total > len || total < used + 3 ||
        text[total - 1] != '\n')
      builtin_fail(EINVAL, "the archive holds a bad pax header");
    const char *key = text + used + 1, *end = text + total - 1;
    const char *equals = memchr(key, '=', (size_t)(end - key));
    if (!equals) builtin_fail(EINVAL, "the archive holds a bad pax header");
    take_record(out, key, (size_t)(equals - key), equals + 1, (size_t)(end - equals - 1));
    text += total;
    len -= total;
  }
}

/* ---- names -------------------------------------------------------------------------------- */

/* Into `out` without ".", doubled and trailing slashes. "": the root itself. */
static void clean_name(const char *name, char out[PATH_MAX])
{
  size_t len = 0;
  if (*name == '/') builtin_fail(EXDEV, "the archive holds an absolute name: %.180s", name);
  for (const char *at = name; *at;) {
    size_t part = strcspn(at, "/");
    if (part == 2 && at[0] == '.' && at[1] == '.')
      builtin_fail(EXDEV, "the archive holds a name with \"..\": %.180s", name);
    if (part && !(part == 1 && at[0] == '.')) {
      if (part > NAME_MAX || len + part + 2 > PATH_MAX)
        builtin_fail(ENAMETOOLONG, "the archive holds a name that is too long: %.180s", name);
      if (len) out[len++] = '/';
      memcpy(out + len, at, part);
      len += part;
    }
    at += part;
    while (*at == '/') at++;
  }
  out[len] = 0;
}

static int open_directory(unpacker *pack, const char *path)
{
  return mcg_open_beneath(pack->root, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
}

/* Opens the directory `path`, making what is missing. */
static int make_parents(unpacker *pack, char *path)
{
  int fd = open_directory(pack, path);
  if (fd >= 0 || errno != ENOENT) return fd;
  for (char *at = path; at;) {
    at = strchr(at + 1, '/');
    if (at) *at = 0;
    char *slash = strrchr(path, '/');
    int parent;
    if (slash) *slash = 0;
    parent = open_directory(pack, slash ? path : "");
    if (slash) *slash = '/';
    if (parent < 0) return -1;
    int made = mkdirat(parent, slash ? slash + 1 : path, 0755);
    int number = errno;
    if (made == 0) builtin_give_directory(parent, slash ? slash + 1 : path);
    close(parent);
    if (made < 0 && number != EEXIST) {
      errno = number;
      return -1;
    }
    if (at) *at = '/';
  }
  return open_directory(pack, path);
}

/* The directory `path` is in, kept open for the next entry; *name is its last part. */
static int parent_of(unpacker *pack, char *path, const char **name)
{
  char *slash = strrchr(path, '/');
  *name = slash ? slash + 1 : path;
  if (slash) *slash = 0;
  const char *parent = slash ? path : "";
  if (pack->last_fd < 0 || strcmp(parent, pack->last_parent) != 0) {
    if (pack->last_fd >= 0) close(pack->last_fd);
    char copy[PATH_MAX];
    memcpy(copy, parent, strlen(parent) + 1);
    pack->last_fd = make_parents(pack, copy);
    if (pack->last_fd < 0)
      builtin_fail(errno, "cannot make %.200s of the archive: %s", parent,
                   errno == ELOOP ? "a symbolic link is in its way" : strerror(errno));
    memcpy(pack->last_parent, parent, strlen(parent) + 1);
  }
  if (slash) *slash = '/';
  return pack->last_fd;
}

/* ---- making ------------------------------------------------------------------------------- */

static _Noreturn void failed(const char *path)
{
  builtin_fail(errno, "cannot make %.200s: %s", path, strerror(errno));
}

static void set_times(int fd, int64_t mtime)
{
  struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)mtime}};
  futimens(fd, times);
}

/* What is in the way of a file or link goes; a directory stays, and is an error. */
static void clear_way(int dir, const char *name, const char *path)
{
  if (unlinkat(dir, name, 0) < 0 && errno != ENOENT) failed(path);
}

static void make_file(unpacker *pack, char *path, mode_t mode, int64_t mtime, uint64_t size)
{
  static char buffer[65536];
  const char *name;
  int dir = parent_of(pack, path, &name);
  clear_way(dir, name, path);
  int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) failed(path);
  for (uint64_t left = size; left;) {
    size_t piece = left < sizeof buffer ? (size_t)left : sizeof buffer;
    get_exactly(buffer, piece);
    if (mcg_write_sparse(fd, (const uint8_t *)buffer, piece) < 0) failed(path);
    left -= piece;
  }
  if (ftruncate(fd, (off_t)size) < 0) failed(path);
  skip(padding(size));
  builtin_give(dir, fd);
  if (fchmod(fd, mode) < 0) failed(path);
  set_times(fd, mtime);
  close(fd);
}

static void make_directory(unpacker *pack, char *path, mode_t mode, int64_t mtime)
{
  size_t len = strlen(path) + 1;
  if (len > 1) {
    const char *name;
    int dir = parent_of(pack, path, &name);
    struct stat info;
    bool made = mkdirat(dir, name, 0700) == 0;
    if (!made) {
      if (errno != EEXIST || fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) < 0) failed(path);
      if (!S_ISDIR(info.st_mode)) {
        clear_way(dir, name, path);
        if (mkdirat(dir, name, 0700) < 0) failed(path);
        made = true;
      }
    }
    if (made) builtin_give_directory(dir, name);
  }
  later *note = builtin_alloc(sizeof *note + len);
  *note = (later){pack->directories, mode, mtime};
  memcpy(note->path, path, len);
  pack->directories = note;
}

static void make_link(unpacker *pack, char *path, const char *target)
{
  const char *name;
  if (pack->strict) builtin_fail(EINVAL, "%.200s is a symbolic link", path);
  int dir = parent_of(pack, path, &name);
  if (!*target || strlen(target) >= PATH_MAX)
    builtin_fail(EINVAL, "the link %.180s has a bad target", path);
  clear_way(dir, name, path);
  if (symlinkat(target, dir, name) < 0) failed(path);
}

/* To a file that is there already, beneath the root, through no link. */
static void make_hard(unpacker *pack, char *path, const char *target)
{
  char clean[PATH_MAX];
  const char *name, *last;
  struct stat info;
  clean_name(target, clean);
  char *slash = strrchr(clean, '/');
  if (slash) *slash = 0;
  last = slash ? slash + 1 : clean;
  int from = open_directory(pack, slash ? clean : "");
  if (from < 0 || fstatat(from, last, &info, AT_SYMLINK_NOFOLLOW) < 0)
    builtin_fail(errno, "%.90s is a hard link to %.90s, which is not there", path, target);
  if (!S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode))
    builtin_fail(EINVAL, "%.90s is a hard link to %.90s, which is not a file", path, target);
  int dir = parent_of(pack, path, &name);
  struct stat there;
  bool same = fstatat(dir, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_ino == info.st_ino &&
              there.st_dev == info.st_dev;
  if (!same) {
    clear_way(dir, name, path);
    if (linkat(from, last, dir, name, 0) < 0) failed(path);
  }
  close(from);
}

/* ---- entries ------------------------------------------------------------------------------ */

static void name_of(const tar_header *header, char out[PATH_MAX])
{
  char joined[sizeof header->prefix + sizeof header->name + 2];
  size_t prefix = 0;
  if (memcmp(header->magic, "ustar\0", 6) == 0)
    prefix = strnlen(header->prefix, sizeof header->prefix);
  memcpy(joined, header->prefix, prefix);
  if (prefix) joined[prefix++] = '/';
  size_t len = strnlen(header->name, sizeof header->name);
  memcpy(joined + prefix, header->name, len);
  joined[prefix + len] = 0;
  clean_name(joined, out);
}

static void take_entry(unpacker *pack, const tar_header *header, uint64_t size)
{
  extra *next = &pack->next;
  char path[PATH_MAX], link[sizeof header->link + 1];
  if (next->path)
    clean_name(next->path, path);
  else
    name_of(header, path);
  memcpy(link, header->link, sizeof header->link);
  link[sizeof header->link] = 0;
  const char *target = next->link ? next->link : link;
  if (next->has_size) size = next->size;
  int64_t mtime = next->has_mtime ? next->mtime : time_in(header->mtime, sizeof header->mtime);
  mode_t mode = (mode_t)(number_in(header->mode, sizeof header->mode) & 0777);
  bool directory = header->type == TAR_DIR;
  size_t raw = strnlen(header->name, sizeof header->name);
  if (header->type == TAR_FILE_OLD && raw && header->name[raw - 1] == '/')
    directory = true; /* V7 */
  if (!*path && !directory) builtin_fail(EINVAL, "the archive holds an entry without a name");
  if (directory) {
    make_directory(pack, path, mode, mtime);
  } else {
    switch (header->type) {
    case TAR_FILE:
    case TAR_FILE_OLD:
    case TAR_FILE_CONTIGUOUS: make_file(pack, path, mode, mtime, size); return;
    case TAR_LINK: make_link(pack, path, target); break;
    case TAR_HARD: make_hard(pack, path, target); break;
    case '3':
    case '4':
    case '6': builtin_fail(EINVAL, "%.200s is a device or fifo", path);
    default: builtin_fail(EINVAL, "%.180s is of a kind this reader does not know", path);
    }
  }
  skip(size);
  skip(padding(size));
}

static void forget(extra *next)
{
  free(next->path);
  free(next->link);
  *next = (extra){0};
}

static void take_header(unpacker *pack, const tar_header *header)
{
  char *text;
  uint64_t size = number_in(header->size, sizeof header->size);
  if (size > INT64_MAX) builtin_fail(EINVAL, "the archive holds a size out of range");
  switch (header->type) {
  case TAR_PAX:
    text = get_extra(size);
    take_pax(&pack->next, text, (size_t)size);
    break;
  case TAR_PAX_GLOBAL: /* defaults for what follows: nothing there that we use */
    text = get_extra(size);
    break;
  case TAR_GNU_NAME:
    text = get_extra(size);
    replace(&pack->next.path, text, strlen(text));
    break;
  case TAR_GNU_LINK:
    text = get_extra(size);
    replace(&pack->next.link, text, strlen(text));
    break;
  default:
    take_entry(pack, header, size);
    forget(&pack->next);
    return;
  }
  free(text);
}

/* Innermost last in the archive, so first here. */
static void finish_directories(unpacker *pack)
{
  while (pack->directories) {
    later *note = pack->directories;
    pack->directories = note->next;
    int fd = open_directory(pack, note->path);
    if (fd >= 0) { /* a later entry may have replaced it */
      fchmod(fd, note->mode);
      set_times(fd, note->mtime);
      close(fd);
    }
    free(note);
  }
}

void tar_unpack(int root, bool strict)
{
  static const char empty[TAR_BLOCK];
  unpacker pack = {.root = root, .strict = strict, .last_fd = -1};
  tar_header header;
  for (;;) {
    size_t len = builtin_get(&header, sizeof header);
    if (len == 0 && !pack.next.path && !pack.next.link) break; /* some writers leave the end out */
    if (len != sizeof header) builtin_fail(EINVAL, "the archive ends in the middle");
    if (memcmp(&header, empty, sizeof header) == 0) break;
    if (number_in(header.checksum, sizeof header.checksum) != tar_checksum(&header))
      builtin_fail(EINVAL, "this is not a tar archive, or it is damaged");
    take_header(&pack, &header);
  }
  while (builtin_get(&header, sizeof header) == sizeof header) continue; /* what pads the end */
  forget(&pack.next);
  finish_directories(&pack);
  if (pack.last_fd >= 0) close(pack.last_fd);
}

void builtin_unpack(int argc, char **argv)
{
  (void)argc;
  tar_unpack(paths_make(argv[1], 0755), strcmp(argv[0], "unpack-strict") == 0);
}
