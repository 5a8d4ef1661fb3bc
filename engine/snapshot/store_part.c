/* store_part.c: the directory of one part of a file store: see store_part.h for what lies in it. */
#include "store_part.h"
#include "audit/anchor.h"
#include "engine.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define RANDOM_LEN 26
#define METADATA_MAX ((off_t)1 << 20)
#define LOCK_TRIES 1000 /* of 10 ms: whoever holds the lock has a few files to sync */
#define CREATE_TRIES 10
#define NUMBER_MAX ((json_int_t)1 << 53)
#define TIME_END 253402300800.0 /* of the last year that has four digits */
#define READ_TRIES 10           /* a save in between may take away the data that was named */

static int failed(const mcg_part *part, const char *what, mcg_error **err)
{
  const char *fix =
      errno == ENOSPC || errno == EDQUOT ? "make room on the disk of the store" : NULL;
  return mcg_fail_errno(err, errno, fix, "snapshot store %s: %s", part->directory, what);
}

/* ---- the directories ---------------------------------------------------------------------- */

/* Whoever may write to it may replace snapshots. */
static int open_own(const mcg_part *part, int at, const char *name, mcg_error **err)
{
  struct stat about;
  auto_fd int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (at < 0 ? 0 : O_NOFOLLOW));
  if (fd < 0) return -1; /* errno */
  if (fstat(fd, &about) < 0) return failed(part, "look at it", err);
  if (about.st_uid != geteuid() && about.st_uid != 0)
    return mcg_fail(err, MCG_UNAUTHORIZED, "use a directory of your own",
                    "snapshot store %s: %s belongs to another user", part->directory, name);
  if (about.st_mode & 022)
    return mcg_fail(err, MCG_UNAUTHORIZED, "chmod go-w it, or use a directory of your own",
                    "snapshot store %s: others may write to %s", part->directory, name);
  return mcg_steal_fd(&fd);
}

static int open_inner(const mcg_part *part, int at, const char *name, bool make, mcg_error **err)
{
  bool made = make && mkdirat(at, name, 0700) == 0;
  if (make && !made && errno != EEXIST) return failed(part, name, err);
  if (made && fsync(at) < 0) return failed(part, "sync it", err);
  int fd = open_own(part, at, name, err);
  if (fd >= 0 || *err) return fd;
  return errno == ENOENT ? -1 : failed(part, name, err);
}

int mcg_part_open(mcg_part *part, bool make, mcg_error **err)
{
  part->fd = part->data_fd = -1;
  int rc = make ? mcg_make_directories(part->directory) : 0;
  if (rc < 0) return errno = -rc, failed(part, "make it", err);
  auto_fd int top = open_own(part, AT_FDCWD, part->directory, err);
  if (top < 0 && !*err && errno != ENOENT) failed(part, "open it", err);
  if (top >= 0) part->fd = open_inner(part, top, part->name, make, err);
  if (part->fd >= 0) part->data_fd = open_inner(part, part->fd, "data", make, err);
  if (part->data_fd >= 0) return 0;
  mcg_part_close(part);
  return *err ? -1
              : mcg_fail(err, MCG_NOT_FOUND, NULL, "snapshot store %s: nothing was saved there yet",
                         part->directory);
}

void mcg_part_close(mcg_part *part)
{
  if (part->fd >= 0) close(part->fd);
  if (part->data_fd >= 0) close(part->data_fd);
  part->fd = part->data_fd = -1;
}

/* Held until the descriptor is closed. A process that was stopped while it holds it must not stop us. */
static int lock_part(const mcg_part *part, mcg_error **err)
{
  auto_fd int fd = openat(part->fd, ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return failed(part, "open its lock", err);
  for (int i = 0; i < LOCK_TRIES; i++) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return mcg_steal_fd(&fd);
    if (errno != EWOULDBLOCK && errno != EINTR) return failed(part, "lock it", err);
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  mcg_fail(err, MCG_UNAVAILABLE, "try again; is a process that holds it stopped?",
           "snapshot store %s: it is locked by another process", part->directory);
  (*err)->retryable = true;
  return -1;
}

/* ---- names of data ------------------------------------------------------------------------ */

/* "ID.RANDOM" or "ID.RANDOM.new": how long the id is; 0: it is no name of ours. */
static size_t data_id(const char *name, bool *unfinished)
{
  size_t len = strlen(name);
  *unfinished = len > 4 && strcmp(name + len - 4, ".new") == 0;
  if (*unfinished) len -= 4;
  if (len < RANDOM_LEN + 2 || name[len - RANDOM_LEN - 1] != '.') return 0;
  for (size_t i = len - RANDOM_LEN; i < len; i++)
    if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '2' && name[i] <= '7'))) return 0;
  auto_error mcg_error *ignored = NULL;
  len -= RANDOM_LEN + 1;
  return mcg_snapshot_id_check(name, len, &ignored) < 0 ? 0 : len;
}

static bool data_of(const char *name, const char *id)
{
  bool unfinished;
  return name && strlen(name) < MCG_DATA_NAME_MAX && data_id(name, &unfinished) == strlen(id) &&
         !unfinished && memcmp(name, id, strlen(id)) == 0;
}

/* ---- metadata ----------------------------------------------------------------------------- */

/* What the rest of it comes to, under the store's key where it has one. */
static int seal_of(const mcg_part *part, const json_t *metadata, char out[96])
{
  auto_json json_t *copy = json_copy((json_t *)metadata);
  if (copy) json_object_del(copy, "seal");
  auto_free char *text = copy ? json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
  mcg_sha256 hash;
  uint8_t digest[32];
  char hex[65] = {0};
  if (!text) return -1;
  if (part->key)
    mcg_hmac_start(part->key, &hash);
  else
    mcg_sha256_init(&hash);
  mcg_sha256_update(&hash, text, strlen(text));
  if (part->key)
    mcg_hmac_final(part->key, &hash, digest);
  else
    mcg_sha256_final(&hash, digest);
  mcg_hex(digest, sizeof digest, hex);
  snprintf(out, 96, "%s:%s", part->key ? "hmac-sha256" : "sha256", hex);
  return 0;
}

static bool same_text(const char *a, const char *b)
{
  unsigned different = strlen(a) != strlen(b);
  for (size_t i = 0; !different && a[i]; i++) different |= (unsigned)(a[i] ^ b[i]);
  return !different;
}

static int damaged(const mcg_part *part, const char *id, const char *why, mcg_error **err)
{
  return mcg_fail(err, MCG_PROTOCOL,
                  "remove it and save it again, or bring back a copy of the store",
                  "snapshot %s in %s: %s", id, part->directory, why);
}

static bool is_number(const json_t *value, json_int_t low)
{
  return json_is_integer(value) && json_integer_value(value) >= low &&
         json_integer_value(value) <= NUMBER_MAX;
}

static bool is_time(const json_t *value)
{
  return json_is_number(value) && json_number_value(value) >= 0 &&
         json_number_value(value) < TIME_END;
}

/* Who wrote it may be anybody, and those who show it believe in what a field is. */
static bool fields_fit(const json_t *metadata)
{
  static const char *const texts[] = {"format", "manifest_hash", "backend", "tenant", "parent"};
  const json_t *labels = json_object_get(metadata, "labels"),
               *files = json_object_get(metadata, "file_count");
  const char *key;
  json_t *label;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const json_t *value = json_object_get(metadata, texts[i]);
    if (value && !json_is_null(value) && !json_is_string(value)) return false;
  }
  json_object_foreach((json_t *)labels, key, label)
  {
    if (!json_is_string(label)) return false;
  }
  return (!labels || json_is_object(labels)) && (!files || is_number(files, 0)) &&
         is_time(json_object_get(metadata, "created_at")) &&
         is_number(json_object_get(metadata, "size_bytes"), 0) &&
         is_number(json_object_get(metadata, "version"), 1);
}

static int check_metadata(const mcg_part *part, const char *id, const json_t *metadata,
                          mcg_error **err)
{
  const char *seal = json_string_value(json_object_get(metadata, "seal"));
  const char *named = json_string_value(json_object_get(metadata, "snapshot_id"));
  const char *where = json_string_value(json_object_get(metadata, "part"));
  const char *digest = json_string_value(json_object_get(metadata, "sha256"));
  char made[96];
  if (!seal || !named || !where) return damaged(part, id, "its metadata is not whole", err);
  if (seal_of(part, metadata, made) < 0)
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for metadata");
  if (strcspn(seal, ":") != strcspn(made, ":"))
    return mcg_fail(err, MCG_PROTOCOL, "give the store the hmac_key that it was saved with",
                    "snapshot %s in %s is sealed %s a key", id, part->directory,
                    part->key ? "without" : "with");
  if (!same_text(seal, made)) return damaged(part, id, "its metadata was changed", err);
  if (strcmp(named, id) != 0 || strcmp(where, part->name) != 0)
    return damaged(part, id, "its metadata is another snapshot's", err);
  if (!data_of(json_string_value(json_object_get(metadata, "data")), id) || !digest ||
      strlen(digest) != 64 || !fields_fit(metadata))
    return damaged(part, id, "its metadata is not whole", err);
  return 0;
}

static int read_text(int fd, char **out, size_t *len)
{
  struct stat about;
  if (fstat(fd, &about) < 0) return -1;
  if (!S_ISREG(about.st_mode) || about.st_size > METADATA_MAX) return errno = EINVAL, -1;
  char *text = malloc((size_t)about.st_size + 1);
  if (!text) return -1;
  ssize_t got = pread(fd, text, (size_t)about.st_size, 0);
  if (got < 0) return free(text), -1;
  *out = text;
  *len = (size_t)got;
  return 0;
}

/* Not verified yet. */
static int read_json(const mcg_part *part, const char *id, json_t **out, mcg_error **err)
{
  auto_free char *name = mcg_format("%s.json", id), *text = NULL;
  size_t len = 0;
  if (!name) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for metadata");
  auto_fd int fd = openat(part->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT)
    return mcg_fail(err, MCG_NOT_FOUND, "list what there is", "there is no snapshot %s", id);
  if (fd < 0 || read_text(fd, &text, &len) < 0) return failed(part, name, err);
  auto_error mcg_error *wrong = NULL;
  auto_json json_t *read = mcg_json_parse(text, len, &wrong);
  if (!json_is_object(read)) return damaged(part, id, "its metadata is not whole", err);
  *out = mcg_steal_pointer(&read);
  return 0;
}

int mcg_part_read(const mcg_part *part, const char *id, json_t **metadata, mcg_error **err)
{
  auto_json json_t *read = NULL;
  if (read_json(part, id, &read, err) < 0 || check_metadata(part, id, read, err) < 0) return -1;
  *metadata = mcg_steal_pointer(&read);
  return 0;
}

int mcg_part_open_data(const mcg_part *part, const char *id, json_t **metadata, int *fd,
                       mcg_error **err)
{
  for (int i = 0; i < READ_TRIES; i++) {
    auto_json json_t *read = NULL;
    struct stat about;
    if (mcg_part_read(part, id, &read, err) < 0) return -1;
    const char *name = json_string_value(json_object_get(read, "data"));
    auto_fd int data = openat(part->data_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (data < 0 && errno == ENOENT) continue; /* another save took its place: look again */
    if (data < 0 || fstat(data, &about) < 0) return failed(part, "open its data", err);
    if (!S_ISREG(about.st_mode) ||
        about.st_size != json_integer_value(json_object_get(read, "size_bytes")))
      return damaged(part, id, "its data has another size than it was saved with", err);
    *fd = mcg_steal_fd(&data);
    *metadata = mcg_steal_pointer(&read);
    return 0;
  }
  return damaged(part, id, "its data is gone", err);
}

void mcg_part_strip(json_t *metadata)
{
  json_object_del(metadata, "data");
  json_object_del(metadata, "part");
  json_object_del(metadata, "seal");
}

/* ---- what was cut short ------------------------------------------------------------------- */

/* The names in a directory, in no order; -1: errno. */
static int names_in(int fd, struct dirent ***list)
{
  auto_fd int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return copy < 0 ? -1 : scandirat(copy, ".", list, NULL, NULL);
}

/* Nobody writes it, and no metadata names it. */
static bool forsaken(const mcg_part *part, const char *name, size_t id_len, bool unfinished)
{
  auto_json json_t *metadata = NULL;
  auto_error mcg_error *wrong = NULL;
  char id[MCG_SNAPSHOT_ID_MAX + 1];
  auto_fd int fd = openat(part->data_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) return false;
  if (unfinished) return true;
  snprintf(id, sizeof id, "%.*s", (int)id_len, name);
  if (mcg_part_read(part, id, &metadata, &wrong) < 0) return wrong->code == MCG_NOT_FOUND;
  return strcmp(json_string_value(json_object_get(metadata, "data")), name) != 0;
}

/* In the data, or beside the metadata, where nobody but who holds the lock writes. */
static int sweep_directory(const mcg_part *part, bool data, const char *id, bool dry_run,
                           json_t *out, mcg_error **err)
{
  struct dirent **names;
  int fd = data ? part->data_fd : part->fd, count = names_in(fd, &names);
  if (count < 0) return failed(part, "list it", err);
  for (int i = 0; i < count; i++) {
    bool unfinished;
    const char *name = names[i]->d_name + !data;
    size_t len = data || *names[i]->d_name == '.' ? data_id(name, &unfinished) : 0;
    bool meant = len && (!id || unfinished || (len == strlen(id) && memcmp(name, id, len) == 0));
    if (meant && (!data || forsaken(part, name, len, unfinished)) &&
        (dry_run || unlinkat(fd, names[i]->d_name, 0) == 0))
      json_array_append_new(out, json_string(names[i]->d_name));
    free(names[i]);
  }
  free(names);
  return 0;
}

/* `id`: what that one left, and data that nobody writes any more. NULL: all. */
static int sweep_locked(const mcg_part *part, const char *id, bool dry_run, json_t *out,
                        mcg_error **err)
{
  if (sweep_directory(part, true, id, dry_run, out, err) < 0) return -1;
  return sweep_directory(part, false, id, dry_run, out, err);
}

/* ---- saving ------------------------------------------------------------------------------- */

/* What somebody has sealed with a key is only replaced by who has it: else they could no longer read it. */
static int check_key(const mcg_part *part, const char *id, mcg_error **err)
{
  auto_json json_t *old = NULL;
  auto_error mcg_error *none = NULL;
  char made[96];
  if (read_json(part, id, &old, &none) < 0) return 0;
  const char *seal = json_string_value(json_object_get(old, "seal"));
  if (!seal || strncmp(seal, "hmac-", 5) != 0) return 0;
  if (seal_of(part, old, made) < 0) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for metadata");
  if (same_text(seal, made)) return 0;
  return mcg_fail(
      err, MCG_UNAUTHORIZED,
      "give the store the hmac_key that it was saved with, or remove the snapshot first",
      "snapshot %s in %s is sealed with %s", id, part->directory,
      part->key ? "another key, or damaged" : "a key");
}

/* Who sweeps may be quicker than our lock: then it is gone again, or theirs for a moment. */
int mcg_part_create(const mcg_part *part, const char *id, char name[MCG_DATA_NAME_MAX], int *out,
                    mcg_error **err)
{
  char random[27], path[MCG_DATA_NAME_MAX + 8];
  if (check_key(part, id, err) < 0) return -1; /* again at the end: before all is packed */
  for (int i = 0; i < CREATE_TRIES; i++) {
    struct stat about;
    if (mcg_random_id(random, err) < 0) return -1;
    snprintf(name, MCG_DATA_NAME_MAX, "%s.%s", id, random);
    snprintf(path, sizeof path, "%s.new", name);
    auto_fd int fd =
        openat(part->data_fd, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return failed(part, "make a file for its data", err);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &about) == 0 && about.st_nlink == 1) {
      *out = mcg_steal_fd(&fd);
      return 0;
    }
    mcg_part_discard(part, name);
  }
  return failed(part, "lock a file for its data", err);
}

void mcg_part_discard(const mcg_part *part, const char *name)
{
  char path[MCG_DATA_NAME_MAX + 8];
  snprintf(path, sizeof path, "%s.new", name);
  unlinkat(part->data_fd, path, 0);
}

static int write_all(int fd, const char *text, size_t len)
{
  while (len) {
    ssize_t put = write(fd, text, len);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return -1;
    text += put;
    len -= (size_t)put;
  }
  return 0;
}

/* Beside the old one, then in its place. */
static int write_metadata(const mcg_part *part, const char *id, const char *data, json_t *metadata,
                          mcg_error **err)
{
  char seal[96], beside[MCG_DATA_NAME_MAX + 8], name[MCG_SNAPSHOT_ID_MAX + 8];
  int rc = json_object_set_new(metadata, "data", json_string(data));
  rc += json_object_set_new(metadata, "part", json_string(part->name));
  rc += seal_of(part, metadata, seal);
  rc += json_object_set_new(metadata, "seal", json_string(seal));
  auto_free char *text = rc == 0 ? json_dumps(metadata, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
  if (!text) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for metadata");
  snprintf(beside, sizeof beside, ".%s", data);
  snprintf(name, sizeof name, "%s.json", id);
  auto_fd int fd =
      openat(part->fd, beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return failed(part, "write metadata", err);
  if (write_all(fd, text, strlen(text)) < 0 || fsync(fd) < 0 ||
      renameat(part->fd, beside, part->fd, name) < 0) {
    failed(part, "write metadata", err);
    unlinkat(part->fd, beside, 0);
    return -1;
  }
  return fsync(part->fd) < 0 ? failed(part, "sync it", err) : 0;
}

/* What the id had, or NULL; damage is no reason not to save anew. */
static char *old_data(const mcg_part *part, const char *id, json_int_t *version)
{
  auto_json json_t *old = NULL;
  auto_error mcg_error *none = NULL;
  *version = 0;
  if (mcg_part_read(part, id, &old, &none) < 0) return NULL;
  *version = json_integer_value(json_object_get(old, "version"));
  return strdup(json_string_value(json_object_get(old, "data")));
}

static int commit_locked(const mcg_part *part, const char *id, const char *name, json_t *metadata,
                         mcg_error **err)
{
  char path[MCG_DATA_NAME_MAX + 8];
  json_int_t version;
  if (check_key(part, id, err) < 0) return -1;
  auto_free char *old = old_data(part, id, &version);
  snprintf(path, sizeof path, "%s.new", name);
  if (json_object_set_new(metadata, "version", json_integer(version % NUMBER_MAX + 1)) < 0)
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for metadata");
  if (renameat(part->data_fd, path, part->data_fd, name) < 0 || fsync(part->data_fd) < 0)
    return failed(part, "put its data in place", err);
  if (write_metadata(part, id, name, metadata, err) < 0) {
    auto_json json_t *now = NULL;
    auto_error mcg_error *none = NULL; /* is it in place, and only the last sync failed? */
    bool placed = mcg_part_read(part, id, &now, &none) == 0 &&
                  strcmp(json_string_value(json_object_get(now, "data")), name) == 0;
    if (!placed) unlinkat(part->data_fd, name, 0);
    return -1;
  }
  if (old) unlinkat(part->data_fd, old, 0);
  return 0;
}

int mcg_part_commit(const mcg_part *part, const char *id, const char *name, int fd,
                    json_t *metadata, mcg_error **err)
{
  if (fsync(fd) < 0) return failed(part, "sync its data", err);
  auto_fd int lock = lock_part(part, err);
  if (lock < 0 || commit_locked(part, id, name, metadata, err) < 0) return -1;
  auto_json json_t *swept = json_array();
  auto_error mcg_error *later = NULL; /* another one will do it */
  if (swept) sweep_locked(part, id, false, swept, &later);
  return 0;
}

/* ---- the rest ----------------------------------------------------------------------------- */

int mcg_part_remove(const mcg_part *part, const char *id, mcg_error **err)
{
  auto_free char *name = mcg_format("%s.json", id);
  auto_json json_t *swept = json_array();
  if (!name || !swept) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to remove a snapshot");
  auto_fd int lock = lock_part(part, err);
  if (lock < 0) return -1;
  if (unlinkat(part->fd, name, 0) < 0) {
    if (errno != ENOENT) return failed(part, name, err);
    return mcg_fail(err, MCG_NOT_FOUND, "list what there is", "there is no snapshot %s", id);
  }
  if (fsync(part->fd) < 0) return failed(part, "sync it", err);
  return sweep_locked(part, id, false, swept, err); /* its data has no name now */
}

static json_t *listed(const mcg_part *part, const char *id)
{
  json_t *metadata = NULL;
  auto_error mcg_error *wrong = NULL;
  if (mcg_part_read(part, id, &metadata, &wrong) == 0) {
    mcg_part_strip(metadata);
    return metadata;
  }
  if (wrong->code == MCG_NOT_FOUND) return NULL; /* it has gone meanwhile */
  return json_pack("{s:s, s:s}", "snapshot_id", id, "damaged", wrong->message);
}

static int compare_ids(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int mcg_part_list(const mcg_part *part, const char *prefix, json_t **out, mcg_error **err)
{
  struct dirent **names;
  int count = names_in(part->fd, &names), found = 0;
  json_t *list = json_array();
  if (count < 0) return json_decref(list), failed(part, "list it", err);
  const char **ids = calloc((size_t)count + 1, sizeof *ids);
  for (int i = 0; i < count; i++) {
    auto_error mcg_error *ignored = NULL;
    char *name = names[i]->d_name;
    size_t len = strlen(name);
    if (len < 6 || strcmp(name + len - 5, ".json") != 0) continue;
    name[len - 5] = '\0';
    if (ids && strncmp(name, prefix, strlen(prefix)) == 0 &&
        mcg_snapshot_id_check(name, len - 5, &ignored) == 0)
      ids[found++] = name;
  }
  if (ids) qsort(ids, (size_t)found, sizeof *ids, compare_ids); /* without their ".json" */
  for (int i = 0; i < found; i++) {
    json_t *one = listed(part, ids[i]);
    if (one) json_array_append_new(list, one);
  }
  for (int i = 0; i < count; i++) free(names[i]);
  free(names);
  bool whole = ids && list;
  free(ids);
  *out = list;
  return whole ? 0 : mcg_fail(err, MCG_NOMEM, NULL, "no memory to list snapshots");
}

int mcg_part_sweep(const mcg_part *part, bool dry_run, json_t *out, mcg_error **err)
{
  auto_fd int lock = lock_part(part, err);
  return lock < 0 ? -1 : sweep_locked(part, NULL, dry_run, out, err);
}
