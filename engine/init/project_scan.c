/* project_scan.c: walks a project and the view of it side by side and writes what differs.
 *
 * A file is the same when size, mode, mtime and ctime are: a view that was not written to shows the
 * lower file's own, and no program can set a ctime. Everything else is compared byte by byte. */
#include "project.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 256
#define CHUNK 65536

typedef struct scan {
  int out;
  bool data;
  unsigned depth;
  char path[PATH_MAX];
  size_t path_len, used;
  mcg_trouble *trouble;
  uint8_t buffer[CHUNK], left[CHUNK], right[CHUNK];
} scan;

typedef struct names {
  char **list;
  size_t count;
} names;

int mcg_trouble_set(mcg_trouble *trouble, int number, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  vsnprintf(trouble->text, sizeof trouble->text, format, args);
  va_end(args);
  trouble->number = number ? number : EIO;
  return -1;
}

static int fail(scan *s, const char *what)
{
  return mcg_trouble_set(s->trouble, errno, "%s %s: %s", what, s->path, strerror(errno));
}

static int flush(scan *s)
{
  for (size_t at = 0; at < s->used;) {
    ssize_t n = write(s->out, s->buffer + at, s->used - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(s, "write the changes at");
    at += (size_t)n;
  }
  s->used = 0;
  return 0;
}

static int put(scan *s, const void *bytes, size_t len)
{
  const uint8_t *from = bytes;
  while (len > 0) {
    if (s->used == sizeof s->buffer && flush(s) < 0) return -1;
    size_t n = sizeof s->buffer - s->used < len ? sizeof s->buffer - s->used : len;
    memcpy(s->buffer + s->used, from, n);
    s->used += n;
    from += n;
    len -= n;
  }
  return 0;
}

static uint8_t kind_of(const struct stat *st)
{
  return S_ISREG(st->st_mode) ? 'f' : S_ISDIR(st->st_mode) ? 'd' : S_ISLNK(st->st_mode) ? 'l' : 'o';
}

/* The bytes of a file, exactly as many as its record says. */
static int put_data(scan *s, int dir, const char *name, uint64_t size)
{
  int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return fail(s, "read");
  int rc = 0;
  while (size > 0 && rc == 0) {
    size_t want = size < CHUNK ? (size_t)size : CHUNK;
    ssize_t n = read(fd, s->left, want);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      rc = fail(s, "read");
    else if (n == 0)
      rc = mcg_trouble_set(s->trouble, EAGAIN, "%s shrank while it was read", s->path);
    else
      rc = put(s, s->left, (size_t)n);
    if (n > 0) size -= (uint64_t)n;
  }
  close(fd);
  return rc;
}

static int emit(scan *s, uint8_t op, int dir, const char *name, const struct stat *st,
                uint64_t old_size)
{
  mcg_change change = {.op = op,
                       .kind = kind_of(st),
                       .path_len = (uint16_t)s->path_len,
                       .mode = st->st_mode & 07777,
                       .old_size = old_size};
  char target[PATH_MAX];
  if (op != 'D' && change.kind == 'f') change.size = (uint64_t)st->st_size;
  if (op != 'D' && change.kind == 'l') {
    ssize_t n = readlinkat(dir, name, target, sizeof target);
    if (n <= 0 || n == (ssize_t)sizeof target) return fail(s, "read the link");
    change.target_len = (uint16_t)n;
  }
  uint8_t header[MCG_CHANGE_HEADER];
  mcg_change_encode(&change, header);
  if (put(s, header, sizeof header) < 0 || put(s, s->path, s->path_len) < 0 ||
      put(s, target, change.target_len) < 0)
    return -1;
  return s->data && change.size > 0 ? put_data(s, dir, name, change.size) : 0;
}

static void names_free(names *n)
{
  for (size_t i = 0; i < n->count; i++) free(n->list[i]);
  free(n->list);
  *n = (names){0};
}

static int by_name(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory, sorted. The descriptor stays the caller's. */
static int names_read(scan *s, int dir, names *out)
{
  int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *stream = copy < 0 ? NULL : fdopendir(copy);
  if (!stream) {
    if (copy >= 0) close(copy);
    return fail(s, "list");
  }
  size_t cap = 0;
  int rc = 0;
  for (struct dirent *e; rc == 0 && (errno = 0, e = readdir(stream)) != NULL;) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    if (out->count == cap) {
      size_t grown = cap ? cap * 2 : 32;
      char **list = reallocarray(out->list, grown, sizeof *list);
      if (!list)
        rc = fail(s, "list");
      else
        out->list = list, cap = grown;
    }
    if (rc == 0 && !(out->list[out->count] = strdup(e->d_name))) rc = fail(s, "list");
    if (rc == 0) out->count++;
  }
  if (rc == 0 && errno) rc = fail(s, "list");
  closedir(stream);
  if (rc < 0)
    names_free(out);
  else if (out->count > 1)
    qsort(out->list, out->count, sizeof *out->list, by_name);
  return rc;
}

/* Goes one name down; *mark brings the path back. */
static int descend(scan *s, const char *name, size_t *mark)
{
  *mark = s->path_len;
  size_t len = strlen(name), slash = s->path_len > 0;
  if (s->path_len + slash + len + 1 > sizeof s->path)
    return mcg_trouble_set(s->trouble, ENAMETOOLONG, "a path below %.200s is too long", s->path);
  if (slash) s->path[s->path_len++] = '/';
  memcpy(s->path + s->path_len, name, len + 1);
  s->path_len += len;
  return 0;
}

static void ascend(scan *s, size_t mark)
{
  s->path_len = mark;
  s->path[mark] = 0;
}

static int open_dir(scan *s, int dir, const char *name)
{
  if (++s->depth > DEPTH_MAX)
    return mcg_trouble_set(s->trouble, ELOOP, "directories deeper than %d at %.200s", DEPTH_MAX,
                           s->path);
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return fd < 0 ? fail(s, "open directory") : fd;
}

static int whole(scan *s, uint8_t op, int dir, const char *name);

static int whole_children(scan *s, uint8_t op, int dir, const char *name)
{
  int fd = open_dir(s, dir, name);
  names inside = {0};
  int rc = fd < 0 ? -1 : names_read(s, fd, &inside);
  for (size_t i = 0; rc == 0 && i < inside.count; i++) {
    size_t mark;
    rc = descend(s, inside.list[i], &mark);
    if (rc == 0) rc = whole(s, op, fd, inside.list[i]);
    ascend(s, mark);
  }
  names_free(&inside);
  if (fd >= 0) close(fd);
  s->depth--;
  return rc;
}

/* A whole subtree that was added or deleted; s->path names it. */
static int whole(scan *s, uint8_t op, int dir, const char *name)
{
  struct stat st;
  if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) return fail(s, "look at");
  uint64_t old_size = op == 'D' && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
  if (!S_ISDIR(st.st_mode)) return emit(s, op, dir, name, &st, old_size);
  if (op == 'D') return whole_children(s, op, dir, name) < 0 ? -1 : emit(s, op, dir, name, &st, 0);
  return emit(s, op, dir, name, &st, 0) < 0 ? -1 : whole_children(s, op, dir, name);
}

static ssize_t read_full(int fd, uint8_t *to, size_t want)
{
  size_t got = 0;
  while (got < want) {
    ssize_t n = read(fd, to + got, want - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    got += (size_t)n;
  }
  return (ssize_t)got;
}

/* 1: the same bytes, 0: not, -1: trouble. */
static int same_bytes(scan *s, int old_dir, int new_dir, const char *name)
{
  int a = openat(old_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  int b = openat(new_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  int same = a < 0 || b < 0 ? fail(s, "read") : 1;
  for (ssize_t n = 1; same == 1 && n > 0;) {
    n = read_full(a, s->left, CHUNK);
    ssize_t m = read_full(b, s->right, CHUNK);
    if (n < 0 || m < 0)
      same = fail(s, "read");
    else if (n != m || memcmp(s->left, s->right, (size_t)n) != 0)
      same = 0;
  }
  if (a >= 0) close(a);
  if (b >= 0) close(b);
  return same;
}

static int same_link(scan *s, int old_dir, int new_dir, const char *name)
{
  ssize_t n = readlinkat(old_dir, name, (char *)s->left, PATH_MAX);
  ssize_t m = readlinkat(new_dir, name, (char *)s->right, PATH_MAX);
  if (n < 0 || m < 0) return fail(s, "read the link");
  return n == m && memcmp(s->left, s->right, (size_t)n) == 0;
}

static bool same_time(struct timespec a, struct timespec b)
{
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static int same_entry(scan *s, int old_dir, int new_dir, const char *name, const struct stat *was,
                      const struct stat *is)
{
  bool mode = (was->st_mode & 07777) == (is->st_mode & 07777);
  if (kind_of(is) == 'l') return same_link(s, old_dir, new_dir, name);
  if (kind_of(is) == 'o') return mode && was->st_rdev == is->st_rdev;
  if (!mode || was->st_size != is->st_size) return 0;
  if (same_time(was->st_mtim, is->st_mtim) && same_time(was->st_ctim, is->st_ctim)) return 1;
  return same_bytes(s, old_dir, new_dir, name);
}

static int compare(scan *s, int old_dir, int new_dir);

/* A directory on both sides: its own mode, then what is in it. */
static int compare_directory(scan *s, int old_dir, int new_dir, const char *name,
                             const struct stat *was, const struct stat *is)
{
  if ((was->st_mode & 0777) != (is->st_mode & 0777) && emit(s, 'M', new_dir, name, is, 0) < 0)
    return -1;
  int a = open_dir(s, old_dir, name);
  s->depth--;
  int b = a < 0 ? -1 : open_dir(s, new_dir, name);
  int rc = b < 0 ? -1 : compare(s, a, b);
  if (b >= 0) close(b);
  if (a >= 0) {
    close(a);
    s->depth--;
  }
  return rc;
}

static int compare_both(scan *s, int old_dir, int new_dir, const char *name)
{
  struct stat was, is;
  if (fstatat(old_dir, name, &was, AT_SYMLINK_NOFOLLOW) < 0 ||
      fstatat(new_dir, name, &is, AT_SYMLINK_NOFOLLOW) < 0)
    return fail(s, "look at");
  if (kind_of(&was) != kind_of(&is))
    return whole(s, 'D', old_dir, name) < 0 ? -1 : whole(s, 'A', new_dir, name);
  if (S_ISDIR(is.st_mode)) return compare_directory(s, old_dir, new_dir, name, &was, &is);
  int same = same_entry(s, old_dir, new_dir, name, &was, &is);
  if (same != 0) return same < 0 ? -1 : 0;
  return emit(s, 'M', new_dir, name, &is, S_ISREG(was.st_mode) ? (uint64_t)was.st_size : 0);
}

static int compare(scan *s, int old_dir, int new_dir)
{
  names was = {0}, is = {0};
  int rc = names_read(s, old_dir, &was) < 0 ? -1 : names_read(s, new_dir, &is);
  for (size_t i = 0, j = 0; rc == 0 && (i < was.count || j < is.count);) {
    int order = i == was.count ? 1 : j == is.count ? -1 : strcmp(was.list[i], is.list[j]);
    const char *name = order <= 0 ? was.list[i] : is.list[j];
    size_t mark;
    rc = descend(s, name, &mark);
    if (rc == 0) {
      if (order < 0)
        rc = whole(s, 'D', old_dir, name);
      else if (order > 0)
        rc = whole(s, 'A', new_dir, name);
      else
        rc = compare_both(s, old_dir, new_dir, name);
    }
    ascend(s, mark);
    i += order <= 0;
    j += order >= 0;
  }
  names_free(&was);
  names_free(&is);
  return rc;
}

int mcg_project_scan(int old_dir, int new_dir, bool with_data, int out, mcg_trouble *trouble)
{
  scan *s = calloc(1, sizeof *s);
  if (!s) return mcg_trouble_set(trouble, ENOMEM, "no memory for the comparison");
  s->out = out;
  s->data = with_data;
  s->trouble = trouble;
  int rc = compare(s, old_dir, new_dir);
  if (rc == 0) rc = flush(s);
  free(s);
  return rc;
}
