/* tar_unpack.c: an archive from stdin into a directory. The archive is hostile: every name is walked
 * without following a link, so nothing is written outside of the directory, whatever order links and files
 * come in. Only files, directories, links and hard links are made; owners are not restored, nor set-id and
 * sticky bits, attributes, lists of access, flags.
 *
 * All of it or nothing: it is unpacked into a fresh directory beside (tar_stage.c) and moved to its place
 * when the last byte has been judged. What two readers could read in two ways is refused. */
#include "beneath.h"
#include "builtin.h"
#include "protocol.h"
#include "sparse.h"
#include "tar.h"
#include "tar_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define EXTRA_MAX (1u << 20)    /* bytes of one pax or GNU header */
#define TRAILER_MAX (16u << 20) /* zeros after the end */

#define AGAIN "fetch or make the archive again"
#define WITHOUT "make the archive without this entry"

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
  int root, target; /* the staging directory, and where it all goes then */
  bool strict;      /* symbolic links are errors */
  extra next;
  tar_caps caps;
  uint64_t room, total; /* bytes the disk has in all; bytes of files so far */
  later *directories;
  char last_parent[PATH_MAX]; /* whose descriptor is kept */
  int last_fd;
} unpacker;

/* ---- refusing ----------------------------------------------------------------------------- */

static char entry[128]; /* the name of what is being read, cut */

/* "What" follows the entry's name, "" before there is one. */
static _Noreturn void refuse(const char *fix, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static _Noreturn void refuse(const char *fix, const char *format, ...)
{
  char what[128];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  builtin_fail_fix(MCG_EUNSAFE, fix, "%.90s%s %s; nothing was unpacked", entry,
                   *entry ? " in the archive" : "the archive", what);
}

static void set_entry(const char *name, size_t len)
{
  if (len >= sizeof entry) len = sizeof entry - 1;
  memcpy(entry, name, len);
  entry[len] = 0;
}

/* Something that could not be made. What lies in the staging directory came out of this archive, so
 * what is in the way is its own doing; the rest is the disk's. */
static _Noreturn void failed(void)
{
  int number = errno;
  switch (number) {
  case ELOOP: refuse(WITHOUT, "lies behind a symbolic link");
  case ENOTDIR: refuse(WITHOUT, "lies beneath what is no directory");
  case EISDIR:
  case EEXIST: refuse(WITHOUT, "is there twice, once as a directory");
  case ENAMETOOLONG: refuse(WITHOUT, "has a name that is too long");
  default: builtin_fail(number, "cannot make %.150s: %s", entry, strerror(number));
  }
}

/* ---- reading ------------------------------------------------------------------------------ */

static void get_exactly(void *bytes, size_t len)
{
  if (builtin_get(bytes, len) != len) refuse(AGAIN, "ends in the middle");
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
    if ((unsigned char)field[0] != 0x80) refuse(AGAIN, "has a number out of range");
    for (i = 1; i < size; i++) {
      if (value >> 55) refuse(AGAIN, "has a number out of range");
      value = value << 8 | (unsigned char)field[i];
    }
    return value;
  }
  while (i < size && field[i] == ' ') i++;
  for (; i < size && field[i] >= '0' && field[i] <= '7'; i++) {
    if (value >> 60) refuse(AGAIN, "has a number out of range");
    value = value << 3 | (uint64_t)(field[i] - '0');
  }
  if (i < size && field[i] != ' ' && field[i] != 0) refuse(AGAIN, "has a bad number");
  return value;
}

/* Before 1970, GNU's base 256 goes negative: the time does not matter that much. */
static int64_t time_in(const char *field, size_t size)
{
  return (unsigned char)field[0] == 0xff ? 0 : (int64_t)number_in(field, size);
}

static char *get_extra(uint64_t size)
{
  if (size > EXTRA_MAX) refuse(AGAIN, "has a name or header of more than 1 MiB");
  char *text = builtin_alloc((size_t)size + 1);
  get_exactly(text, (size_t)size);
  skip(padding(size));
  return text;
}

static void set_name(char **out, const char *bytes, size_t len)
{
  if (*out) refuse(AGAIN, "is given two names");
  *out = builtin_alloc(len + 1);
  memcpy(*out, bytes, len);
  if (strlen(*out) != len) refuse(WITHOUT, "has a name with a NUL byte");
}

static uint64_t decimal(const char *text, size_t len, size_t *used)
{
  uint64_t value = 0;
  size_t i = 0;
  for (; i < len && text[i] >= '0' && text[i] <= '9'; i++) {
    if (value > (UINT64_MAX >> 1) / 10) refuse(AGAIN, "has a number out of range");
    value = value * 10 + (uint64_t)(text[i] - '0');
  }
  *used = i;
  return value;
}

static bool key_is(const char *key, size_t len, const char *name)
{
  return strlen(name) == len && memcmp(key, name, len) == 0;
}

static void take_size(extra *out, const char *value, size_t len)
{
  size_t used;
  if (out->has_size) refuse(AGAIN, "is given two sizes");
  out->size = decimal(value, len, &used);
  out->has_size = true;
  if (used != len || !len || out->size > INT64_MAX) refuse(AGAIN, "has a bad size");
}

/* Whole seconds of it, rounded towards 1970. */
static void take_time(extra *out, const char *value, size_t len)
{
  size_t used;
  bool before = len > 0 && *value == '-';
  int64_t seconds = (int64_t)(decimal(value + before, len - before, &used) & INT64_MAX);
  out->mtime = before ? -seconds : seconds;
  out->has_mtime = used > 0;
}

/* `out` is NULL in a header for all entries: what would rename or resize all of them is no name. */
static void take_record(extra *out, const char *key, size_t key_len, const char *value, size_t len)
{
  bool path = key_is(key, key_len, "path"), link = key_is(key, key_len, "linkpath");
  bool size = key_is(key, key_len, "size");
  if (key_len >= 11 && memcmp(key, "GNU.sparse.", 11) == 0)
    refuse("pack it without --sparse", "is a sparse file");
  if (!out && (path || link || size)) refuse(AGAIN, "gives all entries one name or size");
  if (!out) return;
  if (path) set_name(&out->path, value, len);
  if (link) set_name(&out->link, value, len);
  if (size) take_size(out, value, len);
  if (key_is(key, key_len, "mtime")) take_time(out, value, len);
}

/* "LENGTH KEY=VALUE\n" one after the other. */
static void take_pax(extra *out, const char *text, size_t len)
{
  while (len) {
    size_t used, total = (size_t)decimal(text, len, &used);
    if (used == 0 || used >= len || text[used] != ' ' || total > len || total < used + 3 ||
        text[total - 1] != '\n')
      refuse(AGAIN, "has a bad pax header");
    const char *key = text + used + 1, *end = text + total - 1;
    const char *equals = memchr(key, '=', (size_t)(end - key));
    if (!equals) refuse(AGAIN, "has a bad pax header");
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
  const char *at = name;
  while (at[0] == '.' && at[1] == '/') at += 2;
  if (*at == '/') refuse(WITHOUT, "has an absolute name");
  while (*at) {
    size_t part = strcspn(at, "/");
    if (part == 2 && at[0] == '.' && at[1] == '.') refuse(WITHOUT, "has a name with \"..\"");
    if (!(part == 1 && at[0] == '.')) {
      if (part > NAME_MAX || len + part + 2 > PATH_MAX)
        refuse(WITHOUT, "has a name that is too long");
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

/* Who owns the directory that it will be merged into, owns it; else who owns the one it lies in. */
static void give_directory(unpacker *pack, const char *path, int parent, const char *name)
{
  int there = mcg_open_beneath(pack->target, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
  if (there < 0) {
    builtin_give_directory(parent, name);
    return;
  }
  int made = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (made >= 0) {
    builtin_give(there, made);
    close(made);
  }
  close(there);
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
    if (made == 0) give_directory(pack, path, parent, slash ? slash + 1 : path);
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
    if (pack->last_fd < 0) failed();
    memcpy(pack->last_parent, parent, strlen(parent) + 1);
  }
  if (slash) *slash = '/';
  return pack->last_fd;
}

/* ---- making ------------------------------------------------------------------------------- */

/* Of an open file, or of a link: `name` in the directory. */
static void set_times(int fd, const char *name, int64_t mtime)
{
  struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)mtime}};
  if (name)
    utimensat(fd, name, times, AT_SYMLINK_NOFOLLOW);
  else
    futimens(fd, times);
}

/* Whether an earlier entry has the name. It may come again with other content, as tar appends it, but
 * not as something else: who follows the first would meet the second. */
static bool is_again(int dir, const char *name, mode_t kind)
{
  struct stat there;
  if (fstatat(dir, name, &there, AT_SYMLINK_NOFOLLOW) < 0) {
    if (errno != ENOENT) failed();
    return false;
  }
  if ((there.st_mode & S_IFMT) != kind) refuse(WITHOUT, "is there twice, as two kinds of file");
  return true;
}

static void clear_way(int dir, const char *name, mode_t kind)
{
  if (is_again(dir, name, kind) && unlinkat(dir, name, 0) < 0) failed();
}

/* Holes take no room, so the disk would not end what says that it is larger than the disk. */
static void count_room(unpacker *pack, uint64_t size)
{
  pack->total = size > UINT64_MAX - pack->total ? UINT64_MAX : pack->total + size;
  if (pack->room && pack->total > pack->room)
    builtin_fail_fix(EFBIG, "raise the limit of the disk, or pack less",
                     "%.100s in the archive makes its files larger than the whole disk", entry);
}

static void make_file(unpacker *pack, char *path, mode_t mode, int64_t mtime, uint64_t size)
{
  static char buffer[65536];
  const char *name;
  count_room(pack, size);
  int dir = parent_of(pack, path, &name);
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  int fd = openat(dir, name, flags, 0600);
  if (fd < 0 && errno == EEXIST) {
    clear_way(dir, name, S_IFREG);
    fd = openat(dir, name, flags, 0600);
  }
  if (fd < 0) failed();
  for (uint64_t left = size; left;) {
    size_t piece = left < sizeof buffer ? (size_t)left : sizeof buffer;
    get_exactly(buffer, piece);
    if (mcg_write_sparse(fd, (const uint8_t *)buffer, piece) < 0) failed();
    left -= piece;
  }
  if (ftruncate(fd, (off_t)size) < 0) failed();
  skip(padding(size));
  builtin_give(dir, fd);
  if (fchmod(fd, mode) < 0) failed();
  set_times(fd, NULL, mtime);
  close(fd);
}

static void make_directory(unpacker *pack, char *path, mode_t mode, int64_t mtime)
{
  size_t len = strlen(path) + 1;
  if (len > 1) {
    const char *name;
    int dir = parent_of(pack, path, &name);
    if (mkdirat(dir, name, 0700) == 0)
      give_directory(pack, path, dir, name);
    else if (errno != EEXIST || !is_again(dir, name, S_IFDIR))
      failed();
  }
  later *note = builtin_alloc(sizeof *note + len);
  *note = (later){pack->directories, mode, mtime};
  memcpy(note->path, path, len);
  pack->directories = note;
}

static void make_link(unpacker *pack, char *path, const char *target, int64_t mtime)
{
  const char *name;
  if (pack->strict) refuse(WITHOUT, "is a symbolic link");
  if (!*target || strlen(target) >= PATH_MAX) refuse(WITHOUT, "is a link with a bad target");
  int dir = parent_of(pack, path, &name);
  clear_way(dir, name, S_IFLNK);
  if (symlinkat(target, dir, name) < 0) failed();
  set_times(dir, name, mtime);
}

/* To a file that came before in the archive, through no link. */
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
    refuse(WITHOUT, "is a hard link to what came not before it");
  if (!S_ISREG(info.st_mode)) refuse(WITHOUT, "is a hard link to what is no file");
  int dir = parent_of(pack, path, &name);
  struct stat there;
  bool same = fstatat(dir, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_ino == info.st_ino &&
              there.st_dev == info.st_dev;
  if (!same) {
    clear_way(dir, name, S_IFREG);
    if (linkat(from, last, dir, name, 0) < 0) failed();
  }
  close(from);
}

/* ---- entries ------------------------------------------------------------------------------ */

/* What the header itself names, before pax has its say. */
static void join_name(const tar_header *header, char out[TAR_JOINED_MAX])
{
  size_t prefix = 0;
  if (memcmp(header->magic, "ustar\0", 6) == 0)
    prefix = strnlen(header->prefix, sizeof header->prefix);
  memcpy(out, header->prefix, prefix);
  if (prefix) out[prefix++] = '/';
  size_t len = strnlen(header->name, sizeof header->name);
  memcpy(out + prefix, header->name, len);
  out[prefix + len] = 0;
}

/* The directories of V7 are files whose name ends in a slash. */
static char kind_of(const tar_header *header, const char *raw)
{
  size_t len = strlen(raw);
  bool slash = len && raw[len - 1] == '/';
  switch (header->type) {
  case TAR_FILE:
  case TAR_FILE_OLD: return slash ? TAR_DIR : TAR_FILE;
  case TAR_FILE_CONTIGUOUS: return TAR_FILE;
  case TAR_GNU_SPARSE: refuse("pack it without --sparse", "is a sparse file");
  case TAR_DIR:
  case TAR_LINK:
  case TAR_HARD: return header->type;
  case TAR_CHARACTER:
  case TAR_BLOCK_DEVICE:
  case TAR_FIFO: refuse("pack it without devices and fifos", "is a device or fifo");
  default: refuse(WITHOUT, "is of a kind that is not known");
  }
}

static void take_entry(unpacker *pack, const tar_header *header, const char *raw, uint64_t size)
{
  extra *next = &pack->next;
  char path[PATH_MAX], link[sizeof header->link + 1];
  memcpy(link, header->link, sizeof header->link);
  link[sizeof header->link] = 0;
  const char *target = next->link ? next->link : link;
  if (next->has_size) size = next->size;
  int64_t mtime = next->has_mtime ? next->mtime : time_in(header->mtime, sizeof header->mtime);
  mode_t mode = (mode_t)(number_in(header->mode, sizeof header->mode) & 0777);
  char kind = kind_of(header, raw);
  clean_name(raw, path);
  const char *fault = tar_count(&pack->caps, path, kind == TAR_DIR);
  if (fault) refuse("make several archives of it", "%s", fault);
  if (!*path && kind != TAR_DIR) refuse(WITHOUT, "has no name");
  if (tar_stage_is(path)) refuse("rename it", "has a name that an unpacking itself uses");
  if (size && kind != TAR_FILE) refuse(WITHOUT, "is no file, and has data");
  if (kind == TAR_FILE)
    make_file(pack, path, mode, mtime, size);
  else if (kind == TAR_DIR)
    make_directory(pack, path, mode, mtime);
  else if (kind == TAR_LINK)
    make_link(pack, path, target, mtime);
  else
    make_hard(pack, path, target);
}

static void forget(extra *next)
{
  free(next->path);
  free(next->link);
  *next = (extra){0};
}

static void take_header(unpacker *pack, const tar_header *header)
{
  char *text, joined[TAR_JOINED_MAX];
  join_name(header, joined);
  const char *raw = pack->next.path ? pack->next.path : joined;
  set_entry(raw, strlen(raw));
  uint64_t size = number_in(header->size, sizeof header->size);
  if (size > INT64_MAX) refuse(AGAIN, "has a size out of range");
  switch (header->type) {
  case TAR_PAX:
    text = get_extra(size);
    take_pax(&pack->next, text, (size_t)size);
    break;
  case TAR_PAX_GLOBAL: /* git puts a comment there */
    text = get_extra(size);
    take_pax(NULL, text, (size_t)size);
    break;
  case TAR_GNU_NAME:
    text = get_extra(size);
    set_name(&pack->next.path, text, strlen(text));
    break;
  case TAR_GNU_LINK:
    text = get_extra(size);
    set_name(&pack->next.link, text, strlen(text));
    break;
  default:
    take_entry(pack, header, raw, size);
    forget(&pack->next);
    return;
  }
  free(text);
}

/* ---- the whole ---------------------------------------------------------------------------- */

/* Innermost last in the archive, so first here. */
static void finish_directories(unpacker *pack)
{
  while (pack->directories) {
    later *note = pack->directories;
    pack->directories = note->next;
    int fd = tar_stage_kept(note->path)
                 ? -1
                 : mcg_open_beneath(pack->target, *note->path ? note->path : ".",
                                    O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
    if (fd >= 0) { /* a command may have replaced it */
      fchmod(fd, note->mode);
      set_times(fd, NULL, note->mtime);
      close(fd);
    }
    free(note);
  }
}

/* What is no number is no checksum: that makes it no tar archive, rather than one with a bad number. */
static bool has_checksum(const tar_header *header)
{
  unsigned value = 0;
  size_t i = 0;
  while (i < 8 && header->checksum[i] == ' ') i++;
  for (; i < 8 && header->checksum[i] >= '0' && header->checksum[i] <= '7'; i++)
    value = value << 3 | (unsigned)(header->checksum[i] - '0');
  return value == tar_checksum(header);
}

/* What people mistake for a tar archive, by its first bytes. */
static _Noreturn void refuse_format(const tar_header *header)
{
  static const struct {
    const char *magic;
    size_t len;
    const char *name;
  } formats[] = {
      {"\x1f\x8b", 2, "gzip"},
      {"BZh", 3, "bzip2"},
      {"\xfd"
       "7zXZ",
       5, "xz"},
      {"\x28\xb5\x2f\xfd", 4, "zstd"},
      {"PK", 2, "zip"},
      {"7z\xbc\xaf", 4, "7z"},
      {"Rar!", 4, "rar"},
      {"07070", 5, "cpio"},
  };
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (memcmp(header, formats[i].magic, formats[i].len) == 0)
      refuse("give it as plain tar", "is %s, not plain tar", formats[i].name);
  refuse(AGAIN, "is no tar archive, or it is damaged");
}

/* Zeros alone follow the block of zeros that ends it: a second archive there, which one reader takes
 * and another leaves out, is none that was judged. */
static void check_trailer(void)
{
  static uint8_t block[TAR_BLOCK];
  size_t len;
  *entry = 0;
  for (size_t total = 0; (len = builtin_get(block, sizeof block)) > 0; total += len)
    if (!mcg_is_zero(block, len) || total > TRAILER_MAX)
      refuse("cut it off, or give the archives one by one", "goes on after its end");
}

static void read_archive(unpacker *pack)
{
  tar_header header = {0};
  for (uint64_t count = 0;; count++) {
    size_t len = builtin_get(&header, sizeof header);
    if (len == 0 && count == 0) refuse(AGAIN, "is empty");
    if (len != sizeof header && count == 0) refuse_format(&header);
    if (len != sizeof header) refuse(AGAIN, "ends in the middle");
    if (mcg_is_zero((const uint8_t *)&header, sizeof header)) break;
    if (!has_checksum(&header)) refuse_format(&header);
    take_header(pack, &header);
  }
  if (pack->next.path || pack->next.link || pack->next.has_size)
    refuse(AGAIN, "ends in the middle");
  check_trailer();
}

static uint64_t room_of(int dir)
{
  struct statvfs disk;
  return fstatvfs(dir, &disk) == 0 ? (uint64_t)disk.f_blocks * disk.f_frsize : 0;
}

void tar_unpack(int target, bool strict, bool replaces)
{
  unpacker pack = {.target = target, .strict = strict, .last_fd = -1, .room = room_of(target)};
  *entry = 0;
  pack.root = tar_stage_begin(target);
  read_archive(&pack);
  if (pack.last_fd >= 0) close(pack.last_fd);
  tar_stage_merge(replaces);
  finish_directories(&pack);
}

static bool is_same(const struct stat *one, const struct stat *other)
{
  return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

/* What is the host's must not be emptied, whatever the name by which the directory was reached. */
static void check_own(int target, const char *hosts)
{
  struct stat theirs, here, above;
  if (stat(hosts, &theirs) < 0) return; /* it is not to be seen from in here */
  int fd = openat(target, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  for (bool top = false; fd >= 0 && fstat(fd, &here) == 0 && !top;) {
    if (is_same(&here, &theirs))
      builtin_fail_fix(EOPNOTSUPP, "open the session without it",
                       "the directory lies in %.150s, which is the host's", hosts);
    int next = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    close(fd);
    fd = next;
    top = fd >= 0 && fstat(fd, &above) == 0 && is_same(&here, &above);
  }
  if (fd < 0) builtin_fail(errno, "cannot see where the directory lies: %s", strerror(errno));
  close(fd);
}

void builtin_unpack(int argc, char **argv)
{
  bool replaces = strcmp(argv[0], "replace") == 0;
  int target = paths_make(argv[1], 0755);
  for (int i = 2; replaces && i < argc; i++) check_own(target, argv[i]);
  tar_unpack(target, strcmp(argv[0], "unpack-strict") == 0, replaces);
}
