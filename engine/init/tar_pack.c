/* tar_pack.c: a tree as a plain tar archive on stdout. What does not fit a ustar header goes before it in
 * a pax header. Owners are numbers as seen inside; times are whole seconds. */
#include "builtin.h"
#include "tar.h"
#include "tar_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Where a file with several names was packed first. */
typedef struct linked {
  struct linked *next;
  dev_t dev;
  ino_t ino;
  char path[];
} linked;
#define BUCKETS 1024
#define FIELD_MAX 077777777777u /* eleven digits: sizes and times */

typedef struct packer {
  tree_walk walk;
  bool strict;
  mounted others; /* what is left out, since it is mounted there */
  char **exclude;
  int exclude_count;
  linked *seen[BUCKETS];
  tar_caps caps;
  uint64_t room, holes; /* bytes the disk has in all; bytes of holes so far */
} packer;

static const char zeros[TAR_BLOCK];

static void put_padding(uint64_t len)
{
  if (len % TAR_BLOCK) builtin_put(zeros, TAR_BLOCK - len % TAR_BLOCK);
}

static void put_octal(char *field, size_t size, uint64_t value)
{
  for (size_t i = size - 1; i-- > 0; value >>= 3) field[i] = (char)('0' + (value & 7));
  field[size - 1] = 0;
}

static void finish_header(tar_header *header, char type, uint64_t size, const struct stat *info)
{
  uint64_t most = 07777777;
  header->type = type;
  put_octal(header->mode, sizeof header->mode, info->st_mode & 07777);
  put_octal(header->uid, sizeof header->uid, info->st_uid <= most ? info->st_uid : 0);
  put_octal(header->gid, sizeof header->gid, info->st_gid <= most ? info->st_gid : 0);
  put_octal(header->size, sizeof header->size, size);
  uint64_t mtime = info->st_mtime > 0 ? (uint64_t)info->st_mtime : 0;
  put_octal(header->mtime, sizeof header->mtime, mtime <= FIELD_MAX ? mtime : 0);
  memcpy(header->magic, "ustar", 6);
  memcpy(header->version, "00", 2);
  put_octal(header->checksum, 7, tar_checksum(header));
  header->checksum[7] = ' ';
  builtin_put(header, sizeof *header);
}

/* "LENGTH KEY=VALUE\n", where LENGTH counts itself. */
static void add_record(char **out, size_t *len, const char *key, const char *value,
                       size_t value_len)
{
  size_t body = strlen(key) + value_len + 3, total = body + 1;
  char digits[24];
  while ((size_t)snprintf(digits, sizeof digits, "%zu", total) + body > total) total++;
  char *grown = realloc(*out, *len + total + 1);
  if (!grown) builtin_fail(ENOMEM, "out of memory");
  char *at = grown + *len;
  at += sprintf(at, "%zu %s=", total, key);
  memcpy(at, value, value_len);
  at[value_len] = '\n';
  *out = grown;
  *len += total;
}

static void add_number(char **out, size_t *len, const char *key, long long value)
{
  char number[24];
  int digits = snprintf(number, sizeof number, "%lld", value);
  add_record(out, len, key, number, (size_t)digits);
}

/* Of each what does not fit a field: NULL, 0 otherwise. */
static void put_pax(const char *path, const char *link, uint64_t size, int64_t mtime)
{
  char *records = NULL;
  size_t len = 0;
  if (path) add_record(&records, &len, "path", path, strlen(path));
  if (link) add_record(&records, &len, "linkpath", link, strlen(link));
  if (size) add_number(&records, &len, "size", (long long)size);
  if (mtime) add_number(&records, &len, "mtime", mtime);
  if (len == 0) return;
  tar_header header = {.name = "././@PaxHeader"};
  struct stat info = {.st_mode = 0644};
  finish_header(&header, TAR_PAX, len, &info);
  builtin_put(records, len);
  put_padding(len);
  free(records);
}

/* The name in two fields if it can be cut at a slash. */
static bool split_name(tar_header *header, const char *path, size_t len)
{
  if (len <= sizeof header->name) {
    memcpy(header->name, path, len);
    return true;
  }
  for (size_t cut = len - 1 > sizeof header->prefix ? sizeof header->prefix : len - 2; cut > 0;
       cut--) {
    if (path[cut] != '/') continue;
    if (len - cut - 1 > sizeof header->name) return false;
    memcpy(header->prefix, path, cut);
    memcpy(header->name, path + cut + 1, len - cut - 1);
    return true;
  }
  return false;
}

static void put_header(const char *path, char type, uint64_t size, const char *link,
                       const struct stat *info)
{
  tar_header header = {0};
  bool fits = split_name(&header, path, strlen(path));
  if (!fits) memcpy(header.name, path, sizeof header.name);
  size_t link_len = link ? strlen(link) : 0;
  bool link_fits = link_len <= sizeof header.link;
  if (link_len) memcpy(header.link, link, link_fits ? link_len : sizeof header.link);
  bool late = info->st_mtime < 0 || (uint64_t)info->st_mtime > FIELD_MAX;
  put_pax(fits ? NULL : path, link_fits ? NULL : link, size > FIELD_MAX ? size : 0,
          late ? info->st_mtime : 0);
  finish_header(&header, type, size > FIELD_MAX ? 0 : size, info);
}

/* Exactly as many bytes as the header says, whatever happens to the file meanwhile. */
static void put_content(int fd, uint64_t size, const char *path)
{
  static char buffer[65536];
  uint64_t left = size;
  while (left) {
    size_t want = left < sizeof buffer ? (size_t)left : sizeof buffer;
    ssize_t len = read(fd, buffer, want);
    if (len < 0) builtin_fail(errno, "cannot read %.200s: %s", path, strerror(errno));
    if (len == 0) {
      memset(buffer, 0, want);
      len = (ssize_t)want;
    }
    builtin_put(buffer, (size_t)len);
    left -= (uint64_t)len;
  }
  put_padding(size);
}

static const char *first_name(packer *pack, const struct stat *info, const char *path)
{
  linked **bucket = &pack->seen[(info->st_ino ^ info->st_dev) % BUCKETS];
  for (linked *at = *bucket; at; at = at->next)
    if (at->dev == info->st_dev && at->ino == info->st_ino) return at->path;
  size_t len = strlen(path) + 1;
  linked *fresh = builtin_alloc(sizeof *fresh + len);
  fresh->next = *bucket;
  fresh->dev = info->st_dev;
  fresh->ino = info->st_ino;
  memcpy(fresh->path, path, len);
  *bucket = fresh;
  return NULL;
}

/* Before each header: an archive that could not be unpacked again is none. */
static void count(packer *pack, const char *path, bool directory)
{
  const char *fault = tar_count(&pack->caps, path, directory);
  if (fault) builtin_fail_fix(E2BIG, "leave it out, or remove it", "%.120s %s", path, fault);
}

/* A disk of 64 MiB can hold terabytes of holes, which are zeros in an archive. A copy to the host is no
 * archive: there they are holes again, on a disk that has its own word on the size. */
static void count_holes(packer *pack, const struct stat *info, const char *path)
{
  if (pack->strict) return;
  uint64_t used = (uint64_t)info->st_blocks * 512, size = (uint64_t)info->st_size;
  if (size > used) pack->holes += size - used;
  if (pack->room && pack->holes > pack->room)
    builtin_fail_fix(EFBIG, "leave it out, or remove it",
                     "%.120s has holes, which written out are more than the whole disk", path);
}

static _Noreturn void unreadable(const char *path)
{
  int number = errno;
  if (number != EACCES) builtin_fail(number, "cannot read %.200s: %s", path, strerror(number));
  builtin_fail_fix(EACCES, "make it readable (chmod u+rX), or leave it out",
                   "cannot read %.120s: %s", path, strerror(number));
}

/* Opened first and looked at then: what was a file a moment ago may be a fifo now. */
static void pack_file(packer *pack, int dir, const char *name, const char *path)
{
  struct stat info;
  int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return;
  if (fd < 0 || fstat(fd, &info) < 0) unreadable(path);
  if (S_ISREG(info.st_mode)) {
    const char *first = info.st_nlink > 1 ? first_name(pack, &info, path) : NULL;
    count(pack, path, false);
    if (!first) count_holes(pack, &info, path);
    put_header(path, first ? TAR_HARD : TAR_FILE, first ? 0 : (uint64_t)info.st_size, first, &info);
    if (!first) put_content(fd, (uint64_t)info.st_size, path);
  }
  close(fd);
}

static void pack_link(packer *pack, int dir, const char *name, const char *path,
                      const struct stat *info)
{
  char target[PATH_MAX];
  if (pack->strict) builtin_fail(ELOOP, "%.200s is a symbolic link", path);
  ssize_t len = readlinkat(dir, name, target, sizeof target - 1);
  if (len < 0) return;
  target[len] = 0;
  count(pack, path, false);
  put_header(path, TAR_LINK, 0, target, info);
}

static void pack_directory(packer *pack, const char *path, const struct stat *info)
{
  size_t len = strlen(path);
  count(pack, path, true);
  char *slashed = builtin_alloc(len + 2);
  memcpy(slashed, path, len);
  slashed[len] = '/';
  put_header(slashed, TAR_DIR, 0, NULL, info);
  free(slashed);
}

/* ".//x/./y/" is x/y, as paths of the tree are written; the pattern is ours. */
static void clean_pattern(char *pattern)
{
  char *to = pattern;
  for (const char *at = pattern; *at;) {
    size_t len = strcspn(at, "/");
    if (len && !(len == 1 && *at == '.')) {
      if (to != pattern) *to++ = '/';
      memmove(to, at, len);
      to += len;
    }
    at += len;
    at += *at == '/';
  }
  *to = 0;
}

static bool excluded(const packer *pack, const char *path)
{
  if (tar_stage_is(path)) return true; /* of a restore that is under way */
  if (mounted_at(&pack->others, path)) return true;
  for (int i = 0; i < pack->exclude_count; i++) {
    const char *one = pack->exclude[i];
    if (fnmatch(one, path, FNM_PATHNAME) == 0) return true;
    if (strncmp(one, "**/", 3) != 0) continue;
    for (const char *at = path; at; at = strchr(at, '/'), at += at != NULL)
      if (fnmatch(one + 3, at, FNM_PATHNAME) == 0) return true;
  }
  return false;
}

/* True: it is a directory to go down into. */
static bool pack_entry(packer *pack, int dir, const char *name, const char *path)
{
  struct stat info;
  if (excluded(pack, path) || fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) < 0) return false;
  if (S_ISDIR(info.st_mode)) {
    pack_directory(pack, path, &info);
    return true;
  }
  if (S_ISREG(info.st_mode))
    pack_file(pack, dir, name, path);
  else if (S_ISLNK(info.st_mode))
    pack_link(pack, dir, name, path, &info);
  else if (pack->strict)
    builtin_fail(EINVAL, "%.200s is neither a file nor a directory", path);
  return false;
}

/* Files first, then one subdirectory after the other: `names` holds those still to do, of all levels. */
typedef struct pending {
  struct pending *next;
  size_t depth;
  char name[];
} pending;

static pending *pack_here(packer *pack, pending *below)
{
  static entries list;
  const char *name;
  entries_init(&list, pack->walk.fd);
  while ((name = entries_next(&list))) {
    walk_path(&pack->walk, name);
    struct stat info;
    bool directory =
        fstatat(pack->walk.fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
    if (!directory) {
      pack_entry(pack, pack->walk.fd, name, pack->walk.path);
      continue;
    }
    pending *fresh = builtin_alloc(sizeof *fresh + strlen(name) + 1);
    *fresh = (pending){below, pack->walk.depth};
    memcpy(fresh->name, name, strlen(name) + 1);
    below = fresh;
  }
  return below;
}

static void pack_tree(packer *pack)
{
  char left[256];
  pending *to_do = pack_here(pack, NULL);
  while (to_do) {
    pending *now = to_do;
    to_do = now->next;
    while (pack->walk.depth > now->depth) walk_up(&pack->walk, left);
    walk_path(&pack->walk, now->name);
    if (pack_entry(pack, pack->walk.fd, now->name, pack->walk.path)) {
      if (walk_down(&pack->walk, now->name))
        to_do = pack_here(pack, to_do);
      else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
        unreadable(pack->walk.path);
    }
    free(now);
  }
}

void builtin_pack(int argc, char **argv)
{
  static packer pack;
  struct stat info;
  pack.strict = strcmp(argv[0], "pack-strict") == 0;
  pack.exclude = argv + 2;
  pack.exclude_count = argc - 2;
  for (int i = 2; i < argc; i++) clean_pattern(argv[i]);
  if (!pack.strict) builtin_lock(false); /* else half of what is being unpacked would be in it */
  int fd = paths_open(argv[1], O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
  if (fd < 0 && errno == ENOTDIR) {
    char name[256];
    int dir = paths_parent(argv[1], name);
    pack_entry(&pack, dir, name, name);
  } else {
    if (fd < 0 || fstat(fd, &info) < 0)
      builtin_fail(errno, "cannot open %.200s: %s", argv[1], strerror(errno));
    if (strcmp(argv[0], "pack-own") == 0) mounted_read(fd, &pack.others);
    struct statvfs disk;
    if (fstatvfs(fd, &disk) == 0) pack.room = (uint64_t)disk.f_blocks * disk.f_frsize;
    walk_init(&pack.walk, fd);
    pack_directory(&pack, ".", &info);
    pack_tree(&pack);
    walk_fini(&pack.walk);
  }
  builtin_put(zeros, TAR_BLOCK);
  builtin_put(zeros, TAR_BLOCK);
}
