/* project_apply.c: writes a sandbox's changes into the project on the host, or nothing.
 *
 * Three passes over the spooled stream: judge (is each record harmless, and has the host left the
 * path alone meanwhile?), stage (every byte into a directory of our own beneath the project, so that
 * a full disk is found while nothing has changed), commit (renames, deletions, links, modes). */
#include "project.h"
#include "beneath.h"
#include "sparse.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define STAGE ".mooncage-apply"

typedef struct entry {
  mcg_change change;
  char *path, *target; /* NUL-terminated, owned */
  off_t data;          /* where its bytes lie in the spool */
} entry;

typedef struct apply {
  int dir, spool, stage;
  const mcg_apply_options *options;
  mcg_trouble *trouble;
  entry *list;
  size_t count, cap;
} apply;

static int refuse(apply *a, const entry *e, const char *why)
{
  return mcg_trouble_set(a->trouble, EPERM, "%s: %s", e->path, why);
}

static int conflict(apply *a, const entry *e, const char *why)
{
  return mcg_trouble_set(a->trouble, ESTALE, "%s: %s", e->path, why);
}

static int failed(apply *a, const entry *e, const char *doing)
{
  return mcg_trouble_set(a->trouble, errno, "%s %s: %s", doing, e->path, strerror(errno));
}

static int malformed(apply *a)
{
  return mcg_trouble_set(a->trouble, EPROTO, "the stream of changes is malformed");
}

/* Takes all of `in` before anything is looked at: its end says that the sandbox is gone. */
static int spool_in(apply *a, int in)
{
  a->spool = memfd_create("changes", MFD_CLOEXEC);
  if (a->spool < 0) return mcg_trouble_set(a->trouble, errno, "spool: %s", strerror(errno));
  static uint8_t chunk[65536];
  for (;;) {
    ssize_t n = read(in, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return mcg_trouble_set(a->trouble, errno, "spool: %s", strerror(errno));
    off_t end = n == 0 ? lseek(a->spool, 0, SEEK_CUR) : 0;
    if (n == 0 ? ftruncate(a->spool, end) < 0 : mcg_write_sparse(a->spool, chunk, (size_t)n) < 0)
      return mcg_trouble_set(a->trouble, errno, "spool: %s", strerror(errno));
    if (n == 0) return 0;
  }
}

static int read_at(apply *a, void *to, size_t len, off_t *at)
{
  for (size_t got = 0; got < len;) {
    ssize_t n = pread(a->spool, (char *)to + got, len - got, *at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return malformed(a);
    got += (size_t)n;
    *at += n;
  }
  return 0;
}

static char *text_at(apply *a, size_t len, off_t *at)
{
  char *text = calloc(1, len + 1);
  if (!text) {
    mcg_trouble_set(a->trouble, ENOMEM, "no memory for the changes");
    return NULL;
  }
  if (read_at(a, text, len, at) == 0 && strlen(text) == len) return text;
  free(text);
  malformed(a);
  return NULL;
}

static int parse_one(apply *a, off_t end, off_t *at)
{
  uint8_t header[MCG_CHANGE_HEADER];
  entry e = {0};
  if (read_at(a, header, sizeof header, at) < 0) return -1;
  if (!mcg_change_decode(header, &e.change)) return malformed(a);
  if (a->count == a->cap) {
    size_t grown = a->cap ? a->cap * 2 : 64;
    entry *list = reallocarray(a->list, grown, sizeof *list);
    if (!list) return mcg_trouble_set(a->trouble, ENOMEM, "no memory for the changes");
    a->list = list;
    a->cap = grown;
  }
  e.path = text_at(a, e.change.path_len, at);
  e.target = e.path ? text_at(a, e.change.target_len, at) : NULL;
  e.data = *at;
  a->list[a->count++] = e; /* freed with the list, whole or not */
  if (!e.target) return -1;
  if (e.change.size > (uint64_t)(end - *at)) return malformed(a);
  *at += (off_t)e.change.size;
  return 0;
}

static int parse(apply *a)
{
  off_t end = lseek(a->spool, 0, SEEK_END), at = 0;
  while (at < end)
    if (parse_one(a, end, &at) < 0) return -1;
  return 0;
}

/* ---- judging the record alone ------------------------------------------------------------- */

static bool part_is(const char *part, size_t len, const char *name)
{
  return len == strlen(name) && strncasecmp(part, name, len) == 0;
}

static int judge_path(apply *a, const entry *e)
{
  for (const char *part = e->path;; part += 1) {
    size_t len = strcspn(part, "/");
    if (len == 0 || part_is(part, len, ".") || part_is(part, len, ".."))
      return refuse(a, e, "the path is not one beneath the project");
    if (part_is(part, len, STAGE)) return refuse(a, e, "the name is taken for applying changes");
    if (!a->options->git && part_is(part, len, ".git"))
      return refuse(a, e, "it is under .git, where hooks and configuration run as you");
    part += len;
    if (!*part) return 0;
  }
}

/* Only leading "..", no more of them than the link is deep: those steps are over real directories,
 * and none of them leaves the project. */
static bool link_stays(const entry *e)
{
  size_t depth = 0;
  for (const char *c = e->path; *c; c++) depth += *c == '/';
  bool leading = true;
  for (const char *part = e->target; *part;) {
    size_t len = strcspn(part, "/");
    if (part == e->target && len == 0) return false; /* absolute */
    if (len == 2 && part[0] == '.' && part[1] == '.') {
      if (!leading || depth == 0) return false;
      depth--;
    } else if (len > 0 && !(len == 1 && part[0] == '.')) {
      leading = false;
    }
    part += len;
    part += *part == '/';
  }
  return true;
}

static int judge_record(apply *a, const entry *e)
{
  if (judge_path(a, e) < 0) return -1;
  if (e->change.op == 'D') return 0;
  if (e->change.kind == 'o') return refuse(a, e, "it is a device, a socket or a fifo");
  if (e->change.kind == 'f' && (e->change.mode & 06000))
    return refuse(a, e, "it has a set-user-id or set-group-id bit");
  if (e->change.kind == 'l' && !link_stays(e)) return refuse(a, e, "the link leaves the project");
  return 0;
}

/* ---- judging the host --------------------------------------------------------------------- */

static const char *base_of(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* The directory of a path, opened beneath the project without following any link. */
static int open_parent(apply *a, const char *path)
{
  const char *name = base_of(path);
  if (name == path) return openat(a->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  char parent[PATH_MAX];
  snprintf(parent, sizeof parent, "%.*s", (int)(name - path - 1), path);
  return mcg_open_beneath(a->dir, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
}

static int look(apply *a, const entry *e, struct stat *st)
{
  int parent = open_parent(a, e->path);
  if (parent < 0) return -1;
  int rc = fstatat(parent, base_of(e->path), st, AT_SYMLINK_NOFOLLOW);
  int number = errno;
  close(parent);
  errno = number;
  return rc;
}

static bool changed_since(const apply *a, const struct stat *st)
{
  if (st->st_ctim.tv_sec != a->options->since_s) return st->st_ctim.tv_sec > a->options->since_s;
  return (uint32_t)st->st_ctim.tv_nsec >= a->options->since_ns;
}

/* Paths that the change set deletes, and directories that it makes, each sorted. */
typedef struct paths {
  char **list;
  size_t count;
} paths;

static int by_path(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool holds(const paths *set, const char *path)
{
  return bsearch(&path, set->list, set->count, sizeof *set->list, by_path) != NULL;
}

static int collect(apply *a, uint8_t op, bool directories_only, paths *out)
{
  out->list = calloc(a->count + 1, sizeof *out->list);
  if (!out->list) return mcg_trouble_set(a->trouble, ENOMEM, "no memory for the changes");
  for (size_t i = 0; i < a->count; i++) {
    const entry *e = &a->list[i];
    if (e->change.op == op && (!directories_only || e->change.kind == 'd'))
      out->list[out->count++] = e->path;
  }
  qsort(out->list, out->count, sizeof *out->list, by_path);
  return 0;
}

/* Everything that lies in a directory to be deleted must be deleted too. */
static int judge_directory_gone(apply *a, const entry *e, const paths *gone)
{
  int fd = mcg_open_beneath(a->dir, e->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  DIR *stream = fd < 0 ? NULL : fdopendir(fd);
  if (!stream) {
    if (fd >= 0) close(fd);
    return conflict(a, e, "the directory is no longer there as it was");
  }
  int rc = 0;
  for (struct dirent *d; rc == 0 && (d = readdir(stream));) {
    if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) continue;
    char path[PATH_MAX + NAME_MAX + 2];
    snprintf(path, sizeof path, "%s/%s", e->path, d->d_name);
    if (!holds(gone, path))
      rc = conflict(a, e, "something was put into the directory on the host meanwhile");
  }
  closedir(stream);
  return rc;
}

/* An addition must find nothing, unless the sandbox deleted what was there; its directory must be
 * there as a directory, unless the sandbox made it. */
static int judge_addition(apply *a, const entry *e, const paths *gone, const paths *made)
{
  const char *name = base_of(e->path);
  if (name != e->path) {
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%.*s", (int)(name - e->path - 1), e->path);
    if (holds(made, parent)) return 0; /* judged itself: nothing was there, or it was deleted */
  }
  int fd = open_parent(a, e->path);
  if (fd < 0) return conflict(a, e, "the directory above it is no longer there on the host");
  struct stat st;
  int rc = fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW);
  if (rc < 0 && errno != ENOENT)
    rc = failed(a, e, "look at");
  else
    rc = rc == 0 && !holds(gone, e->path) ? conflict(a, e, "it was made on the host meanwhile") : 0;
  close(fd);
  return rc;
}

static int judge_host(apply *a, const entry *e, const paths *gone, const paths *made)
{
  if (e->change.op == 'A') return judge_addition(a, e, gone, made);
  struct stat st;
  if (look(a, e, &st) < 0) return conflict(a, e, "it is no longer there on the host");
  if (e->change.kind == 'd') {
    if (!S_ISDIR(st.st_mode)) return conflict(a, e, "it is no longer a directory on the host");
    return e->change.op == 'D' ? judge_directory_gone(a, e, gone) : 0;
  }
  if (S_ISDIR(st.st_mode) || changed_since(a, &st))
    return conflict(a, e, "it was changed on the host meanwhile");
  return 0;
}

/* Will there be a `name` beside this entry when all is applied? */
static bool beside(apply *a, const entry *e, const char *name, const paths *gone,
                   const paths *added)
{
  char path[PATH_MAX];
  int before = (int)(base_of(e->path) - e->path);
  if (snprintf(path, sizeof path, "%.*s%s", before, e->path, name) >= (int)sizeof path)
    return false;
  if (holds(added, path)) return true;
  int fd = holds(gone, path) ? -1 : mcg_open_beneath(a->dir, path, O_PATH, 0);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

/* A directory needs no ".git" to be a repository: git takes any that holds these, and its "config" can
 * name programs, which then run as whoever calls git below it. */
static int judge_repository(apply *a, const entry *e, const paths *gone, const paths *added)
{
  static const char *const parts[] = {"HEAD", "objects", "refs", "commondir"};
  bool there[4], part = false;
  if (a->options->git || e->change.op != 'A') return 0;
  for (size_t i = 0; i < 4; i++) part = part || strcasecmp(base_of(e->path), parts[i]) == 0;
  if (!part) return 0;
  for (size_t i = 0; i < 4; i++) there[i] = beside(a, e, parts[i], gone, added);
  if (there[0] && ((there[1] && there[2]) || there[3]))
    return refuse(a, e,
                  "it makes its directory a git repository (the like of .git), whose "
                  "configuration runs as you");
  return 0;
}

static int judge(apply *a)
{
  for (size_t i = 0; i < a->count; i++)
    if (judge_record(a, &a->list[i]) < 0) return -1;
  paths gone = {0}, made = {0}, added = {0};
  int rc = collect(a, 'D', false, &gone);
  if (rc == 0) rc = collect(a, 'A', true, &made);
  if (rc == 0) rc = collect(a, 'A', false, &added);
  for (size_t i = 0; rc == 0 && i < a->count; i++) {
    rc = judge_repository(a, &a->list[i], &gone, &added);
    if (rc == 0) rc = judge_host(a, &a->list[i], &gone, &made);
  }
  free(gone.list);
  free(added.list);
  free(made.list);
  return rc;
}

/* ---- writing ------------------------------------------------------------------------------ */

static void stage_name(char out[32], size_t index)
{
  snprintf(out, 32, "%zu", index);
}

/* A modified file keeps its owner; a new one gets that of the project. */
static int give_owner(apply *a, const entry *e, int fd)
{
  struct stat st;
  if (!(e->change.op == 'M' && look(a, e, &st) == 0) && fstat(a->dir, &st) < 0) return -1;
  if (geteuid() != 0) st.st_uid = (uid_t)-1; /* only root can give files away */
  return fchown(fd, st.st_uid, st.st_gid) < 0 && geteuid() == 0 ? -1 : 0;
}

static int stage_file(apply *a, const entry *e, size_t index)
{
  char name[32];
  stage_name(name, index);
  int fd = openat(a->stage, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return failed(a, e, "write");
  static uint8_t chunk[65536];
  off_t at = e->data;
  int rc = 0;
  for (uint64_t left = e->change.size; rc == 0 && left > 0;) {
    size_t n = left < sizeof chunk ? (size_t)left : sizeof chunk;
    rc = read_at(a, chunk, n, &at);
    if (rc == 0 && mcg_write_sparse(fd, chunk, n) < 0) rc = failed(a, e, "write");
    left -= n;
  }
  if (rc == 0 && ftruncate(fd, (off_t)e->change.size) < 0) rc = failed(a, e, "write");
  if (rc == 0 && (give_owner(a, e, fd) < 0 || fchmod(fd, e->change.mode & 0777) < 0))
    rc = failed(a, e, "set owner and mode of");
  close(fd);
  return rc;
}

/* What an apply that was killed has staged: files whose names are numbers. */
static void clear_stage(int stage)
{
  int fd = openat(stage, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *stream = fd < 0 ? NULL : fdopendir(fd);
  for (struct dirent *d; stream && (d = readdir(stream));)
    if (d->d_name[strspn(d->d_name, "0123456789")] == 0) unlinkat(stage, d->d_name, 0);
  if (stream) closedir(stream);
}

/* A directory that is there already is ours when nobody holds its lock: the kernel lets go of that with
 * whoever was killed. */
static int open_stage(apply *a)
{
  struct stat st;
  if (mkdirat(a->dir, STAGE, 0700) < 0 && errno != EEXIST)
    return mcg_trouble_set(a->trouble, errno, "make %s in the project: %s", STAGE, strerror(errno));
  int fd = openat(a->dir, STAGE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid()) {
    if (fd >= 0) close(fd);
    return mcg_trouble_set(a->trouble, EEXIST, "%s in the project is not ours: remove it", STAGE);
  }
  if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
    close(fd);
    return mcg_trouble_set(a->trouble, ESTALE,
                           "changes are being applied to the project right now");
  }
  clear_stage(fd);
  a->stage = fd;
  return 0;
}

static int stage_all(apply *a)
{
  if (open_stage(a) < 0) return -1;
  for (size_t i = 0; i < a->count; i++) {
    const entry *e = &a->list[i];
    if (e->change.op != 'D' && e->change.kind == 'f' && stage_file(a, e, i) < 0) return -1;
  }
  return 0;
}

static void unstage(apply *a)
{
  for (size_t i = 0; a->stage >= 0 && i < a->count; i++) {
    char name[32];
    stage_name(name, i);
    if (a->list[i].change.kind == 'f') unlinkat(a->stage, name, 0);
  }
  if (a->stage >= 0) {
    close(a->stage);
    unlinkat(a->dir, STAGE, AT_REMOVEDIR);
  }
}

static int make_directory(apply *a, const entry *e, int parent, const char *name)
{
  if (mkdirat(parent, name, 0700) < 0) return failed(a, e, "make directory");
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return failed(a, e, "open directory");
  int rc = give_owner(a, e, fd) < 0 || fchmod(fd, e->change.mode & 0777) < 0
               ? failed(a, e, "set owner and mode of")
               : 0;
  close(fd);
  return rc;
}

static int make_link(apply *a, const entry *e, int parent, const char *name)
{
  if (e->change.op == 'M' && unlinkat(parent, name, 0) < 0) return failed(a, e, "replace");
  if (symlinkat(e->target, parent, name) < 0) return failed(a, e, "make link");
  struct stat st;
  if (geteuid() == 0 && fstat(a->dir, &st) == 0 &&
      fchownat(parent, name, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0)
    return failed(a, e, "set owner of");
  return 0;
}

static int commit_one(apply *a, const entry *e, size_t index)
{
  int parent = open_parent(a, e->path);
  if (parent < 0) return failed(a, e, "open the directory of");
  const char *name = base_of(e->path);
  int rc = 0;
  char staged[32];
  stage_name(staged, index);
  if (e->change.op == 'D') {
    if (unlinkat(parent, name, e->change.kind == 'd' ? AT_REMOVEDIR : 0) < 0)
      rc = failed(a, e, "delete");
  } else if (e->change.kind == 'f') {
    if (renameat(a->stage, staged, parent, name) < 0) rc = failed(a, e, "put in place");
  } else if (e->change.kind == 'l') {
    rc = make_link(a, e, parent, name);
  } else if (e->change.op == 'A') {
    rc = make_directory(a, e, parent, name);
  } else if (fchmodat(parent, name, e->change.mode & 0777, 0) < 0) {
    rc = failed(a, e, "set mode of");
  }
  close(parent);
  return rc;
}

static int tell(apply *a, const entry *e, int out)
{
  uint8_t record[MCG_CHANGE_HEADER];
  mcg_change_encode(&e->change, record);
  if (write(out, record, sizeof record) != (ssize_t)sizeof record ||
      write(out, e->path, e->change.path_len) != e->change.path_len ||
      write(out, e->target, e->change.target_len) != e->change.target_len)
    return mcg_trouble_set(a->trouble, errno, "report the changes: %s", strerror(errno));
  return 0;
}

int mcg_project_write_back(int dir, const mcg_apply_options *options, int in, int out,
                           mcg_trouble *trouble)
{
  apply a = {.dir = dir, .spool = -1, .stage = -1, .options = options, .trouble = trouble};
  int rc = spool_in(&a, in);
  if (rc == 0) rc = parse(&a);
  if (rc == 0) rc = judge(&a);
  bool writes = !options->judge_only && a.count > 0;
  if (rc == 0 && writes) rc = stage_all(&a);
  for (size_t i = 0; rc == 0 && writes && i < a.count; i++) {
    rc = commit_one(&a, &a.list[i], i);
    if (rc == 0) rc = tell(&a, &a.list[i], out);
  }
  unstage(&a);
  for (size_t i = 0; i < a.count; i++) {
    free(a.list[i].path);
    free(a.list[i].target);
  }
  free(a.list);
  if (a.spool >= 0) close(a.spool);
  return rc;
}
