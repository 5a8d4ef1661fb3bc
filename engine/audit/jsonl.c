/* jsonl.c: lines appended to a file that many processes may share. Each batch is one write under the
 * file's lock, after a look at what others have left there: the head of the chain, a torn line, a file
 * that is no longer at its path, lines that the anchor knows of and the file has not.
 *
 * Runs on the writer's thread, or on the loop's where nothing has to be waited for. */
#include "anchor.h"
#include "engine.h"
#include "unfinished.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#define REOPENS_MAX 16
#define NAP_MIN_US 50 /* between two tries for the lock */
#define NAP_MAX_US 10000

typedef struct jsonl {
  mcg_sink sink;
  char *given; /* the path, or NULL: one in `directory` */
  char *directory;
  char own[10];                /* "-" and eight letters, where the file is this engine's alone */
  bool durable, own_directory; /* ours to make */
  uint64_t rotate_bytes;
  mcg_chain chain, fresh; /* where the file is; where a new one begins */
  mcg_anchor anchor;
  char *path; /* of what is open */
  int fd, month;
  dev_t device;
  ino_t inode;
  off_t size; /* as it was left: else somebody else has written */
  char *anchor_path;
  int anchor_fd;
  bool anchor_failed, new_entry;
  mcg_unfinished *unfinished; /* NULL: nothing is recovered */
  bool looked;                /* for what dead engines have left */
  mcg_text out;
} jsonl;

/* ---- what goes wrong ------------------------------------------------------------------------ */

static int refuse(const jsonl *self, mcg_error **err, const char *what)
{
  const char *path = self->path ? self->path : self->given ? self->given : self->directory;
  return mcg_fail(err, MCG_AUDIT_FAILED,
                  "name a file that can be written with --audit FILE (config: audit = "
                  "mooncage.audit.jsonl { path = ... }), or write audit = false to have no log",
                  "the audit log%s%s: %s", path ? " " : "", path ? path : "", what);
}

static int refuse_errno(const jsonl *self, mcg_error **err, const char *step, int number)
{
  char what[256];
  snprintf(what, sizeof what, "%s: %s", step, strerror(number));
  return refuse(self, err, what);
}

/* ---- opening ------------------------------------------------------------------------------ */

static void file_close(jsonl *self)
{
  if (self->fd >= 0) close(self->fd); /* the lock goes with it */
  if (self->anchor_fd >= 0) close(self->anchor_fd);
  self->fd = self->anchor_fd = -1;
}

static int month_now(void)
{
  time_t now = time(NULL);
  struct tm tm;
  gmtime_r(&now, &tm);
  return tm.tm_year * 12 + tm.tm_mon;
}

static int name_file(jsonl *self, mcg_error **err)
{
  if (!self->given && !self->directory)
    return refuse(self, err, "there is no place for it: neither XDG_STATE_HOME nor HOME is set");
  int month = self->given ? 0 : month_now();
  if (self->path && self->month == month) return 0;
  file_close(self);
  free(self->path);
  free(self->anchor_path);
  self->month = month;
  self->path = self->given
                   ? strdup(self->given)
                   : mcg_format("%s/%u-%04d-%02d%s.jsonl", self->directory, (unsigned)geteuid(),
                                1900 + month / 12, month % 12 + 1, self->own);
  self->anchor_path = self->path ? mcg_anchor_path(self->path) : NULL;
  return self->path ? 0 : refuse(self, err, "no memory");
}

static int file_open(jsonl *self, mcg_error **err)
{
  struct stat about;
  const int flags = O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  self->fd = open(self->path, flags, 0600);
  if (self->fd < 0 && errno == ENOENT && self->own_directory) {
    int rc = mcg_make_directories(self->directory);
    if (rc < 0) return refuse_errno(self, err, "make its directory", -rc);
    self->fd = open(self->path, flags, 0600);
  }
  if (self->fd < 0)
    return refuse_errno(self, err, errno == ELOOP ? "a link is not followed" : "open", errno);
  if (fstat(self->fd, &about) < 0) return refuse_errno(self, err, "look at it", errno);
  if (!S_ISREG(about.st_mode)) return refuse(self, err, "it is no regular file");
  if (about.st_nlink > 1) return refuse(self, err, "it has a second name (a hard link)");
  if (about.st_uid != geteuid() && about.st_uid != 0)
    return refuse(self, err, "it belongs to another user, who could change it");
  if (about.st_mode & 002) return refuse(self, err, "anybody may write to it; chmod o-w it first");
  self->device = about.st_dev;
  self->inode = about.st_ino;
  self->size = -1;
  self->new_entry = about.st_size == 0;
  return 0;
}

/* ---- what is there already ------------------------------------------------------------------ */

typedef struct tail {
  off_t whole; /* the file up to the end of its last whole line */
  off_t torn;  /* bytes after that */
  uint64_t seq;
  char head[MCG_HASH_LEN];
} tail;

/* Where the line begins that ends before `end` (a newline is at end - 1), or the byte after the last
 * newline before `end`; -1: an error. */
static off_t line_start(int fd, off_t end)
{
  char buffer[4096];
  while (end > 0) {
    size_t want = end < (off_t)sizeof buffer ? (size_t)end : sizeof buffer;
    ssize_t got = pread(fd, buffer, want, end - (off_t)want);
    if (got != (ssize_t)want) return -1;
    const char *newline = memrchr(buffer, '\n', want);
    if (newline) return end - (off_t)want + (newline - buffer) + 1;
    end -= (off_t)want;
  }
  return 0;
}

static int read_last(jsonl *self, off_t from, off_t end, tail *out, mcg_error **err)
{
  size_t len = (size_t)(end - from);
  if (len > MCG_LINE_MAX) return refuse(self, err, "its last line is too long to be ours");
  auto_free char *line = malloc(len);
  if (!line || pread(self->fd, line, len, from) != (ssize_t)len)
    return refuse(self, err, "its last line cannot be read");
  auto_error mcg_error *wrong = NULL;
  auto_json json_t *event = mcg_json_parse(line, len, &wrong);
  const char *hash = json_string_value(json_object_get(event, "hash"));
  json_int_t seq = json_integer_value(json_object_get(event, "seq"));
  if (!hash || strlen(hash) != MCG_HASH_LEN || seq <= 0 || (uint64_t)seq > MCG_SEQ_MAX)
    return refuse(self, err, "its last line is no audit event; is this the right file?");
  out->seq = (uint64_t)seq;
  memcpy(out->head, hash, MCG_HASH_LEN);
  return 0;
}

static int read_tail(jsonl *self, off_t size, tail *out, mcg_error **err)
{
  *out = (tail){.whole = line_start(self->fd, size)};
  memset(out->head, '0', MCG_HASH_LEN);
  if (out->whole < 0) return refuse_errno(self, err, "read its end", errno);
  out->torn = size - out->whole;
  if (out->whole == 0) return 0;
  off_t from = line_start(self->fd, out->whole - 1);
  if (from < 0) return refuse_errno(self, err, "read its end", errno);
  return read_last(self, from, out->whole, out, err);
}

/* ---- what was lost is said ------------------------------------------------------------------ */

static bool say_recovered(jsonl *self, const json_t *detail)
{
  char id[27];
  auto_error mcg_error *unlikely = NULL;
  if (mcg_random_id(id, &unlikely) < 0) return false;
  const mcg_event event = {.detail = detail};
  const mcg_stamp stamp = {.op = "recovered", .phase = "point", .id = id, .duration_s = -1};
  mcg_line *line = mcg_event_line(&event, &stamp, NULL);
  bool ok = line && mcg_chain_append(&self->chain, &self->out, line);
  free(line);
  return ok;
}

static int recover_torn(jsonl *self, const tail *end, mcg_error **err)
{
  size_t len = (size_t)end->torn;
  auto_free char *bytes = malloc(len);
  if (!bytes || pread(self->fd, bytes, len, end->whole) != (ssize_t)len)
    return refuse(self, err, "its torn last line cannot be read");
  mcg_sha256 hash;
  uint8_t digest[32];
  char hex[65] = {0};
  mcg_sha256_init(&hash);
  mcg_sha256_update(&hash, bytes, len);
  mcg_sha256_final(&hash, digest);
  mcg_hex(digest, sizeof digest, hex);
  auto_json json_t *detail =
      json_pack("{s:s, s:I, s:s}", "what", "torn_line", "bytes", (json_int_t)len, "sha256", hex);
  if (!detail || !say_recovered(self, detail)) return refuse(self, err, "no memory");
  if (ftruncate(self->fd, end->whole) < 0)
    return refuse_errno(self, err, "take away its torn last line", errno);
  return 0;
}

/* The loop logs it once it has its thread back. */
static void warn_of(jsonl *self, const char *what)
{
  free(atomic_exchange(&self->sink.warning,
                       mcg_format("the audit log %s: %s; the log says so from here on, and "
                                  "`mooncage audit verify` shows where",
                                  self->path, what)));
}

static int recover_lines(jsonl *self, const char *what, uint64_t first, uint64_t last,
                         mcg_error **err)
{
  auto_json json_t *detail = json_pack("{s:s, s:I, s:I}", "what", what, "first_seq",
                                       (json_int_t)first, "last_seq", (json_int_t)last);
  return detail && say_recovered(self, detail) ? 0 : refuse(self, err, "no memory");
}

static int recover_missing(jsonl *self, uint64_t first, uint64_t last, mcg_error **err)
{
  warn_of(self, "lines that its anchor knows are missing");
  return recover_lines(self, "missing_lines", first, last, err);
}

/* An anchor that is gone or says nothing: whoever took it may have cut a tail that it knew of. Where
 * none can be written either, note_anchor says so. */
static int recover_anchor(jsonl *self, int read, mcg_error **err)
{
  if (!self->anchor_path || !mcg_anchor_claim(self->anchor_path)) return 0;
  warn_of(self, read < 0 ? "its anchor cannot be read and is made anew" : "its anchor is gone");
  auto_json json_t *detail = json_pack("{s:s}", "what", read < 0 ? "bad_anchor" : "no_anchor");
  if (detail && read < 0 && read != -EBADMSG)
    json_object_set_new(detail, "why", json_string(strerror(-read)));
  return detail && say_recovered(self, detail) ? 0 : refuse(self, err, "no memory");
}

/* Is the line that the anchor is about still the one it was? Looked for from the end: the writer of
 * what follows it was killed before its anchor, or it was no writer of ours. */
static bool holds_anchored(jsonl *self, const tail *end, const mcg_anchor *known)
{
  tail at = *end;
  off_t from = end->whole;
  while (at.seq > known->seq && from > 0) {
    off_t before = line_start(self->fd, from - 1);
    auto_error mcg_error *garbled = NULL;
    if (before < 0 || read_last(self, before, from, &at, &garbled) < 0) return false;
    from = before;
  }
  return at.seq == known->seq && memcmp(at.head, known->head, MCG_HASH_LEN) == 0;
}

static int recover_unknown(jsonl *self, const tail *end, const mcg_anchor *known, mcg_error **err)
{
  if (known->seq > known->base && !holds_anchored(self, end, known)) {
    warn_of(self, "it was written anew");
    return recover_lines(self, "rewritten", known->seq, known->seq, err);
  }
  return end->seq > known->seq
             ? recover_lines(self, "unanchored_lines", known->seq + 1, end->seq, err)
             : 0;
}

/* A start that somebody left gets the finish that it lacks. */
static bool say_finish(jsonl *self, const json_t *start)
{
  auto_json json_t *detail = json_pack("{s:s}", "outcome", "unknown");
  const mcg_event event = {.detail = detail};
  const mcg_stamp stamp = {.op = json_string_value(json_object_get(start, "op")),
                           .phase = "finish",
                           .id = json_string_value(json_object_get(start, "id")),
                           .session = json_string_value(json_object_get(start, "session")),
                           .backend = json_string_value(json_object_get(start, "backend")),
                           .tenant = json_string_value(json_object_get(start, "tenant")),
                           .run_id = json_string_value(json_object_get(start, "run_id")),
                           .duration_s = -1};
  mcg_line *line = detail ? mcg_event_line(&event, &stamp, NULL) : NULL;
  bool ok = line && mcg_chain_append(&self->chain, &self->out, line);
  free(line);
  return ok;
}

static int finish_unfinished(jsonl *self, mcg_error **err)
{
  auto_json json_t *starts = mcg_unfinished_find(self->unfinished);
  for (size_t i = 0; i < json_array_size(starts); i++)
    if (!say_finish(self, json_array_get(starts, i))) return refuse(self, err, "no memory");
  return 0;
}

/* What a full file is called once it is put aside; `seq` is of its last line. Fresh. */
static char *aside_name(const jsonl *self, uint64_t seq)
{
  size_t stem = strlen(self->path);
  if (stem > 6 && strcmp(self->path + stem - 6, ".jsonl") == 0) stem -= 6;
  return mcg_format("%.*s.%012llu.jsonl", (int)stem, self->path, (unsigned long long)seq);
}

/* Was it put aside by a writer that was killed before it could say so in the anchor? */
static bool is_aside(const jsonl *self, const mcg_anchor *known)
{
  auto_free char *aside = aside_name(self, known->seq);
  auto_free char *path = aside ? mcg_anchor_path(aside) : NULL;
  mcg_anchor its = {0};
  return path && access(aside, F_OK) == 0 && mcg_anchor_read(path, &its) == 1 &&
         its.seq == known->seq && memcmp(its.head, known->head, MCG_HASH_LEN) == 0;
}

/* The chain as the file and its anchor have it. What has to be said of that is in self->out; *size is
 * what the file has once a torn line is gone. */
static int take_up(jsonl *self, off_t *size, mcg_error **err)
{
  tail end;
  if (read_tail(self, *size, &end, err) < 0) return -1;
  *size = end.whole;
  self->chain.seq = end.seq;
  memcpy(self->chain.head, end.head, MCG_HASH_LEN);
  mcg_anchor known = {0};
  int rc = self->anchor_path ? mcg_anchor_read(self->anchor_path, &known) : 0;
  bool anchored = rc > 0;
  self->anchor = (mcg_anchor){.base = anchored ? known.base : 0};
  if (end.whole == 0 && anchored) { /* begun anew: the chain goes on where the anchor says */
    self->anchor.base = self->chain.seq = known.seq;
    memcpy(self->chain.head, known.head, MCG_HASH_LEN);
    if (known.seq > known.base && !is_aside(self, &known) &&
        recover_missing(self, known.base + 1, known.seq, err) < 0)
      return -1;
  } else if (anchored && known.seq > end.seq) { /* its tail was cut: no number is used twice */
    self->chain.seq = known.seq;
    if (recover_missing(self, end.seq + 1, known.seq, err) < 0) return -1;
  } else if (anchored && recover_unknown(self, &end, &known, err) < 0) {
    return -1;
  } else if (!anchored && (end.whole || rc < 0) && recover_anchor(self, rc, err) < 0) {
    return -1;
  }
  return end.torn ? recover_torn(self, &end, err) : 0;
}

/* ---- under the lock --------------------------------------------------------------------------- */

/* Is what is at the path the file that is open? No times are asked for: a kernel that has told them
 * gives each write new ones, and writes those down. */
static bool is_at_path(const jsonl *self, struct stat *about)
{
  struct statx found;
  if (statx(AT_FDCWD, self->path, 0, STATX_INO | STATX_SIZE, &found) < 0) {
    if (stat(self->path, about) < 0) return false; /* statx may be forbidden */
  } else {
    *about = (struct stat){.st_dev = makedev(found.stx_dev_major, found.stx_dev_minor),
                           .st_ino = found.stx_ino,
                           .st_size = (off_t)found.stx_size};
  }
  return about->st_ino == self->inode && about->st_dev == self->device;
}

static bool is_patient(const jsonl *self)
{
  uint64_t end = self->sink.patience;
  return !end || uv_hrtime() < end;
}

/* 1: another has it. It is tried again and again: a flock that waits cannot be ended. Who has waited
 * for long waits longer between two tries. */
static int lock_file(jsonl *self, bool may_wait, mcg_error **err)
{
  for (useconds_t waited = 0, nap; flock(self->fd, LOCK_EX | LOCK_NB) < 0; waited += nap) {
    nap = waited / 16 < NAP_MIN_US ? NAP_MIN_US : waited / 16;
    if (nap > NAP_MAX_US) nap = NAP_MAX_US;
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return refuse_errno(self, err, "lock it", errno);
    if (!may_wait || !is_patient(self)) return 1;
    usleep(nap);
  }
  return 0;
}

/* 0: `fd` is the file at the path, locked; *about is its number and size. 1: it would have to wait. */
static int lock(jsonl *self, bool may_wait, struct stat *about, mcg_error **err)
{
  for (int i = 0; i < REOPENS_MAX; i++) {
    if (self->fd < 0 && file_open(self, err) < 0) {
      file_close(self);
      return -1;
    }
    int rc = lock_file(self, may_wait, err);
    if (rc != 0) return rc;
    if (is_at_path(self, about)) return 0;
    file_close(self); /* moved or removed by others: what is at the path counts */
  }
  return refuse(self, err, "it is replaced again and again");
}

static void note_anchor(jsonl *self)
{
  self->anchor.seq = self->chain.seq;
  memcpy(self->anchor.head, self->chain.head, MCG_HASH_LEN);
  int rc = self->anchor_path
               ? mcg_anchor_write(&self->anchor_fd, self->anchor_path, self->path, &self->anchor)
               : -ENOENT;
  if (rc < 0 && !self->anchor_failed)
    free(atomic_exchange(
        &self->sink.warning,
        mcg_format("the audit log %s has no anchor (%s: %s): verify cannot see a tail that is cut",
                   self->path, self->anchor_path ? self->anchor_path : "no state directory",
                   strerror(-rc))));
  self->anchor_failed = rc < 0;
}

/* Full: it gets a name of its own, and the next batch begins a file whose chain goes on. */
static int rotate(jsonl *self, mcg_error **err)
{
  auto_free char *aside = aside_name(self, self->chain.seq);
  auto_free char *aside_anchor = aside ? mcg_anchor_path(aside) : NULL;
  if (!aside) return refuse(self, err, "no memory");
  if (access(aside, F_OK) == 0) return refuse_errno(self, err, "rotate it", EEXIST);
  const mcg_anchor whole = self->anchor;
  auto_fd int fd = -1;
  if (aside_anchor) (void)mcg_anchor_write(&fd, aside_anchor, aside, &whole);
  if (renameat2(AT_FDCWD, self->path, AT_FDCWD, aside, RENAME_NOREPLACE) < 0)
    return refuse_errno(self, err, "rotate it", errno);
  self->anchor.base = self->chain.seq;
  note_anchor(self);
  file_close(self);
  return 0;
}

static int write_all(jsonl *self, off_t size, mcg_error **err)
{
  const char *at = self->out.data;
  size_t left = self->out.len;
  while (left) {
    ssize_t put = write(self->fd, at, left);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      int number = put < 0 ? errno : ENOSPC;
      if (ftruncate(self->fd, size) < 0) number = errno; /* half a line is as good as none */
      return refuse_errno(self, err, "write", number);
    }
    at += put;
    left -= (size_t)put;
  }
  return 0;
}

static int sync_all(jsonl *self, mcg_error **err)
{
  if (fdatasync(self->fd) < 0) return refuse_errno(self, err, "write to the disk", errno);
  if (!self->new_entry) return 0;
  auto_free char *directory = strndup(self->path, (size_t)(strrchr(self->path, '/') - self->path));
  auto_fd int fd = directory ? open(*directory ? directory : "/", O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0 || fsync(fd) < 0) return refuse_errno(self, err, "write its name to the disk", errno);
  self->new_entry = false;
  return 0;
}

static int append(jsonl *self, const mcg_delivery *batch, const struct stat *about, mcg_error **err)
{
  off_t size = about->st_size;
  self->out.len = 0;
  if (size != self->size && take_up(self, &size, err) < 0) return -1;
  mcg_unfinished_mark(self->unfinished, self->path, about, size);
  if (!self->looked && finish_unfinished(self, err) < 0) return -1;
  for (const mcg_delivery *each = batch; each; each = each->next)
    if (!mcg_chain_append(&self->chain, &self->out, each->line))
      return refuse(self, err, "no memory");
  if (self->chain.seq > MCG_SEQ_MAX)
    return refuse(self, err, "its numbers are used up: go on in another file");
  if (write_all(self, size, err) < 0) return -1;
  mcg_unfinished_forget(self->unfinished);
  self->looked = true;
  self->size = size + (off_t)self->out.len;
  if (self->durable && sync_all(self, err) < 0) return -1;
  note_anchor(self);
  return 0;
}

static int jsonl_write(mcg_sink *sink, const mcg_delivery *batch, bool may_wait, mcg_error **err)
{
  jsonl *self = (jsonl *)sink;
  struct stat about;
  if (name_file(self, err) < 0) return -1;
  int rc = lock(self, may_wait, &about, err);
  if (rc == 0 && self->rotate_bytes && (uint64_t)about.st_size >= self->rotate_bytes &&
      about.st_size == self->size) {
    rc = rotate(self, err);
    if (rc == 0)
      rc = lock(self, may_wait, &about, err);
    else
      flock(self->fd, LOCK_UN); /* nothing has changed: it is tried again */
  }
  if (rc != 0) return rc;
  rc = append(self, batch, &about, err);
  if (rc < 0) self->size = -1; /* whatever is there now will be looked at */
  flock(self->fd, LOCK_UN);
  if (self->out.cap > MCG_LINE_MAX) mcg_text_fini(&self->out);
  return rc;
}

static void jsonl_free(mcg_sink *sink)
{
  jsonl *self = (jsonl *)sink;
  file_close(self);
  mcg_unfinished_free(self->unfinished);
  mcg_text_fini(&self->out);
  explicit_bzero(&self->chain, sizeof self->chain);
  free(self->given);
  free(self->directory);
  free(self->path);
  free(self->anchor_path);
  free(atomic_load(&self->sink.warning));
  free(self);
}

static const mcg_sink_type jsonl_type = {.write = jsonl_write, .free = jsonl_free};

mcg_sink *mcg_jsonl_new(mcg_engine *engine, const mcg_jsonl_options *options, mcg_error **err)
{
  jsonl *self = calloc(1, sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the audit log"), NULL;
  self->sink = (mcg_sink){.type = &jsonl_type, .engine = engine, .quick = !options->durable};
  self->fd = self->anchor_fd = -1;
  self->size = -1;
  self->durable = options->durable;
  self->rotate_bytes = options->rotate_bytes;
  mcg_chain_init(&self->chain, options->hmac_key, options->hmac_key_len);
  if (options->path) {
    self->given = strdup(options->path);
  } else {
    auto_free char *state = options->dir ? NULL : mcg_state_directory();
    if (options->own) snprintf(self->own, sizeof self->own, "-%.8s", options->own);
    self->own_directory = true;
    self->directory = options->dir ? strdup(options->dir)
                      : state      ? mcg_format("%s/audit", state)
                                   : NULL;
  }
  const char *log = self->given ? self->given : self->directory;
  if (options->engine && !options->own && log)
    self->unfinished = mcg_unfinished_new(log, options->engine);
  self->sink.place = self->given ? self->given : self->directory;
  return &self->sink;
}
