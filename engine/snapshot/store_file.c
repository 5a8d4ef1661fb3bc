/* store_file.c: snapshots in a directory of this host. What blocks runs on the threads of workers.h, a
 * piece at a time; what lies on the disk, and how it stays whole, is store_part.c's. */
#include "store_part.h"
#include "workers.h"
#include "audit/anchor.h"
#include "engine.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define PIECE ((size_t)1 << 20)

typedef struct file_store {
  mcg_store store;
  char *directory;
  bool keyed;
  mcg_hmac_key key;
} file_store;

static mcg_part part_of(mcg_store *store, const char *name)
{
  file_store *self = (file_store *)store;
  return (mcg_part){.directory = self->directory,
                    .name = name,
                    .key = self->keyed ? &self->key : NULL,
                    .fd = -1,
                    .data_fd = -1};
}

/* ---- one call on a thread ------------------------------------------------------------------- */

typedef struct call {
  mcg_part part;
  const char *id; /* or the prefix of ids */
  bool dry_run;
  json_t *out;
  int rc;
  mcg_error *error;
} call;

static int run_call(mcg_store *store, void (*fn)(void *arg), call *self, mcg_error **err)
{
  if (mcg_workers_run(store->engine, fn, self, err) < 0) return -1;
  if (self->error) *err = self->error;
  return self->rc;
}

static bool open_for(call *self)
{
  self->rc = mcg_part_open(&self->part, false, &self->error);
  return self->rc == 0;
}

/* Where nothing was ever saved there is none of this id. */
static void no_part(call *self)
{
  if (!self->error || self->error->code != MCG_NOT_FOUND || self->part.fd >= 0) return;
  mcg_error_free(mcg_steal_pointer(&self->error));
  mcg_fail(&self->error, MCG_NOT_FOUND, "list what there is", "there is no snapshot %s", self->id);
}

static void show_here(void *arg)
{
  call *self = arg;
  if (open_for(self)) self->rc = mcg_part_read(&self->part, self->id, &self->out, &self->error);
  no_part(self);
  mcg_part_close(&self->part);
  if (self->out) mcg_part_strip(self->out);
}

static int file_show(mcg_store *store, const char *part, const char *id, json_t **metadata,
                     mcg_error **err)
{
  call self = {.part = part_of(store, part), .id = id};
  int rc = run_call(store, show_here, &self, err);
  *metadata = self.out;
  return rc;
}

static void remove_here(void *arg)
{
  call *self = arg;
  if (open_for(self)) self->rc = mcg_part_remove(&self->part, self->id, &self->error);
  no_part(self);
  mcg_part_close(&self->part);
}

static int file_remove(mcg_store *store, const char *part, const char *id, mcg_error **err)
{
  call self = {.part = part_of(store, part), .id = id};
  return run_call(store, remove_here, &self, err);
}

/* Nothing was saved yet: there is nothing in it, which is no error. */
static void or_empty(call *self)
{
  mcg_part_close(&self->part);
  if (self->rc == 0 || self->error->code != MCG_NOT_FOUND) return;
  mcg_error_free(mcg_steal_pointer(&self->error));
  if (!self->out) self->out = json_array();
  self->rc = self->out ? 0 : mcg_fail(&self->error, MCG_NOMEM, NULL, "no memory for a list");
}

static void list_here(void *arg)
{
  call *self = arg;
  if (open_for(self)) self->rc = mcg_part_list(&self->part, self->id, &self->out, &self->error);
  or_empty(self);
}

static int file_list(mcg_store *store, const char *part, const char *prefix, json_t **out,
                     mcg_error **err)
{
  call self = {.part = part_of(store, part), .id = prefix};
  int rc = run_call(store, list_here, &self, err);
  *out = self.out;
  return rc;
}

static void sweep_here(void *arg)
{
  call *self = arg;
  if (open_for(self) && (self->out = json_array()))
    self->rc = mcg_part_sweep(&self->part, self->dry_run, self->out, &self->error);
  or_empty(self);
}

static int file_sweep(mcg_store *store, const char *part, bool dry_run, json_t **out,
                      mcg_error **err)
{
  call self = {.part = part_of(store, part), .id = "", .dry_run = dry_run};
  int rc = run_call(store, sweep_here, &self, err);
  *out = self.out;
  return rc;
}

/* ---- saving: bytes gather on the loop, and go to a thread a piece at a time ------------------ */

typedef struct file_put {
  mcg_put put;
  mcg_part part;
  char *part_name, *id, name[MCG_DATA_NAME_MAX];
  int fd;
  mcg_sha256 hash;
  char *gathering, *writing; /* what comes meanwhile; what the job has */
  size_t gathered, gathering_cap, writing_len, writing_cap;
  bool busy; /* the job is under way */
  mcg_job job;
  mcg_wait idle;
  int number; /* errno of a write */
  json_t *metadata;
  int rc;
  mcg_error *error;
} file_put;

static void create_here(void *arg)
{
  file_put *self = arg;
  self->rc = mcg_part_open(&self->part, true, &self->error);
  if (self->rc == 0)
    self->rc = mcg_part_create(&self->part, self->id, self->name, &self->fd, &self->error);
}

static void write_here(mcg_job *job)
{
  file_put *self = (file_put *)((char *)job - offsetof(file_put, job));
  const char *at = self->writing;
  mcg_sha256_update(&self->hash, at, self->writing_len);
  for (size_t left = self->writing_len; left && !self->number;) {
    ssize_t put = write(self->fd, at, left);
    if (put < 0 && errno != EINTR) self->number = errno;
    if (put <= 0) continue;
    at += put;
    left -= (size_t)put;
  }
}

static bool post_piece(file_put *self);

static void written(mcg_job *job)
{
  file_put *self = (file_put *)((char *)job - offsetof(file_put, job));
  self->busy = false;
  if (self->number && !self->put.failure)
    mcg_fail_errno(&self->put.failure, self->number, "make room on the disk of the store",
                   "snapshot store %s: write the data of %s", self->part.directory, self->id);
  if (self->gathered >= PIECE && !self->put.failure) post_piece(self);
  mcg_wait_wake(self->put.store->engine, &self->idle);
  if (self->put.on_ready) self->put.on_ready(self->put.data);
}

/* What has gathered goes to a thread; false: put.failure. */
static bool post_piece(file_put *self)
{
  char *full = self->gathering;
  size_t cap = self->gathering_cap;
  self->gathering = self->writing;
  self->gathering_cap = self->writing_cap;
  self->writing = full;
  self->writing_cap = cap;
  self->writing_len = self->gathered;
  self->gathered = 0;
  self->job = (mcg_job){.run = write_here, .done = written};
  self->busy = mcg_workers_post(self->put.store->engine, &self->job, &self->put.failure) == 0;
  return self->busy;
}

static bool room_for(file_put *self, size_t len)
{
  if (len <= self->gathering_cap - self->gathered) return true;
  size_t cap = self->gathering_cap ? self->gathering_cap : PIECE + (PIECE >> 2);
  while (cap - self->gathered < len) cap *= 2;
  char *grown = realloc(self->gathering, cap);
  if (!grown) return false;
  self->gathering = grown;
  self->gathering_cap = cap;
  return true;
}

static bool file_write(mcg_put *put, const void *bytes, size_t len)
{
  file_put *self = (file_put *)put;
  if (put->failure) return false;
  if (len > put->max - put->size) {
    mcg_fail(&put->failure, MCG_QUOTA,
             "make the workspace smaller, leave something out of it with `exclude`, or raise "
             "snapshot.max_mb",
             "the snapshot takes more than %llu MB", (unsigned long long)(put->max >> 20));
    return false;
  }
  if (!room_for(self, len)) {
    mcg_fail(&put->failure, MCG_NOMEM, NULL, "no memory to save a snapshot");
    return false;
  }
  memcpy(self->gathering + self->gathered, bytes, len);
  self->gathered += len;
  put->size += len;
  return self->gathered < PIECE || self->busy || post_piece(self);
}

static bool file_ready(const mcg_put *put)
{
  const file_put *self = (const file_put *)put;
  return self->gathered < PIECE || put->failure;
}

/* No job has anything of it any more. */
static void rest(file_put *self)
{
  mcg_engine *engine = self->put.store->engine;
  mcg_fiber_shield(engine, true);
  while (self->busy) {
    auto_error mcg_error *ignored = NULL;
    if (mcg_wait_park(engine, &self->idle, -1, &ignored) < 0) continue;
  }
  mcg_fiber_shield(engine, false);
}

static void commit_here(void *arg)
{
  file_put *self = arg;
  self->rc =
      mcg_part_commit(&self->part, self->id, self->name, self->fd, self->metadata, &self->error);
}

static int file_commit(mcg_put *put, json_t *metadata, mcg_error **err)
{
  file_put *self = (file_put *)put;
  uint8_t digest[32];
  char hex[65] = {0};
  rest(self);
  if (!put->failure && self->gathered && post_piece(self)) rest(self);
  if (put->failure) return mcg_put_failed(put, err);
  mcg_sha256_final(&self->hash, digest);
  mcg_hex(digest, sizeof digest, hex);
  self->metadata = metadata;
  if (json_object_set_new(metadata, "sha256", json_string(hex)) < 0 ||
      json_object_set_new(metadata, "size_bytes", json_integer((json_int_t)put->size)) < 0)
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for metadata");
  if (mcg_workers_run(put->store->engine, commit_here, self, err) < 0) return -1;
  mcg_part_strip(metadata);
  if (self->rc < 0) *err = mcg_steal_pointer(&self->error);
  return self->rc;
}

static void file_put_end(mcg_put *put)
{
  file_put *self = (file_put *)put;
  rest(self);
  if (self->fd >= 0) { /* its name is another one where it was committed */
    mcg_part_discard(&self->part, self->name);
    close(self->fd);
  }
  mcg_part_close(&self->part);
  mcg_error_free(put->failure);
  mcg_error_free(self->error);
  free(self->gathering);
  free(self->writing);
  free(self->part_name);
  free(self->id);
  free(self);
}

static int file_put_begin(mcg_store *store, const char *part, const char *id, mcg_put **out,
                          mcg_error **err)
{
  file_put *self = calloc(1, sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to save a snapshot");
  self->put = (mcg_put){.store = store, .max = UINT64_MAX};
  self->part_name = strdup(part);
  self->id = strdup(id);
  self->part = part_of(store, self->part_name);
  self->fd = -1;
  mcg_wait_init(&self->idle);
  mcg_sha256_init(&self->hash);
  int rc = self->part_name && self->id
               ? mcg_workers_run(store->engine, create_here, self, err)
               : mcg_fail(err, MCG_NOMEM, NULL, "no memory to save a snapshot");
  if (rc == 0 && self->rc < 0) {
    *err = mcg_steal_pointer(&self->error);
    rc = -1;
  }
  if (rc < 0) {
    file_put_end(&self->put);
    return -1;
  }
  *out = &self->put;
  return 0;
}

/* ---- loading: all of it is hashed before anybody sees a byte, and again as it is given: the last piece
 * is kept back where it was changed in between ------------------------------------------------ */

typedef struct file_get {
  mcg_get get;
  mcg_part part;
  const char *id;
  int fd;
  json_t *metadata;
  uint64_t left; /* to be verified, or to be given */
  mcg_sha256 hash;
  char *piece;
  size_t at, len;
  int rc, number;
  mcg_error *error;
} file_get;

static void open_here(void *arg)
{
  file_get *self = arg;
  self->rc = mcg_part_open(&self->part, false, &self->error);
  if (self->rc == 0)
    self->rc = mcg_part_open_data(&self->part, self->id, &self->metadata, &self->fd, &self->error);
  mcg_part_close(&self->part);
}

static void read_here(void *arg)
{
  file_get *self = arg;
  ssize_t got;
  size_t want = self->left < PIECE ? (size_t)self->left : PIECE;
  do got = want ? read(self->fd, self->piece, want) : 0;
  while (got < 0 && errno == EINTR);
  self->number = got < 0 ? errno : 0;
  self->at = 0;
  self->len = got < 0 ? 0 : (size_t)got;
}

static void hash_piece(void *arg)
{
  file_get *self = arg;
  read_here(self);
  if (!self->len) return;
  mcg_sha256_update(&self->hash, self->piece, self->len);
  self->left -= self->len;
}

static void hash_here(void *arg)
{
  file_get *self = arg;
  self->len = 1;
  for (int i = 0; i < 16 && self->left && self->len; i++)
    hash_piece(self); /* then cancel has its turn */
}

static int read_failed(const file_get *self, mcg_error **err)
{
  if (self->number)
    return mcg_fail_errno(err, self->number, NULL, "snapshot store %s: read the data of %s",
                          self->part.directory, self->id);
  return mcg_fail(err, MCG_PROTOCOL,
                  "remove it and save it again, or bring back a copy of the store",
                  "snapshot %s in %s: its data was cut off", self->id, self->part.directory);
}

/* At the end: is what was hashed what was saved? */
static int check_hash(file_get *self, mcg_error **err)
{
  const char *said = json_string_value(json_object_get(self->metadata, "sha256"));
  uint8_t digest[32];
  char hex[65] = {0};
  mcg_sha256_final(&self->hash, digest);
  mcg_hex(digest, sizeof digest, hex);
  if (strcmp(hex, said) == 0) return 0;
  return mcg_fail(err, MCG_PROTOCOL,
                  "remove it and save it again, or bring back a copy of the store",
                  "snapshot %s in %s: its data is not what was saved (SHA-256 differs)", self->id,
                  self->part.directory);
}

static int verify(file_get *self, mcg_error **err)
{
  mcg_engine *engine = self->get.store->engine;
  uint64_t size = (uint64_t)json_integer_value(json_object_get(self->metadata, "size_bytes"));
  self->left = size;
  mcg_sha256_init(&self->hash);
  while (self->left) {
    if (mcg_workers_run(engine, hash_here, self, err) < 0) return -1;
    if (self->left && !self->len) return read_failed(self, err);
    if (mcg_fiber_stopped(engine)) return mcg_fail(err, MCG_CANCELED, NULL, "canceled");
  }
  if (check_hash(self, err) < 0) return -1;
  self->left = size;
  self->len = 0;
  mcg_sha256_init(&self->hash);
  if (lseek(self->fd, 0, SEEK_SET) == 0) return 0;
  self->number = errno;
  return read_failed(self, err);
}

static void file_get_end(mcg_get *get)
{
  file_get *self = (file_get *)get;
  if (self->fd >= 0) close(self->fd);
  json_decref(self->metadata);
  mcg_error_free(self->error);
  free(self->piece);
  free(self);
}

static int file_get_begin(mcg_store *store, const char *part, const char *id, json_t **metadata,
                          mcg_get **out, mcg_error **err)
{
  file_get *self = calloc(1, sizeof *self);
  if (!self || !(self->piece = malloc(PIECE))) {
    free(self);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory to load a snapshot");
  }
  self->get.store = store;
  self->part = part_of(store, part);
  self->id = id; /* the caller's, until the end */
  self->fd = -1;
  int rc = mcg_workers_run(store->engine, open_here, self, err);
  if (rc == 0 && self->rc < 0) {
    call none = {.part = {.fd = -1}, .id = id, .error = mcg_steal_pointer(&self->error)};
    no_part(&none);
    *err = none.error;
    rc = -1;
  }
  if (rc == 0) rc = verify(self, err);
  if (rc < 0) {
    file_get_end(&self->get);
    return -1;
  }
  mcg_part_strip(self->metadata);
  *metadata = json_incref(self->metadata);
  *out = &self->get;
  return 0;
}

static long file_get_some(mcg_get *get, void *buffer, size_t cap, mcg_error **err)
{
  file_get *self = (file_get *)get;
  if (self->at == self->len && self->left) {
    if (mcg_workers_run(get->store->engine, hash_piece, self, err) < 0) return -1;
    if (!self->len) return read_failed(self, err);
    if (!self->left && check_hash(self, err) < 0) return -1;
  }
  size_t len = self->len - self->at < cap ? self->len - self->at : cap;
  memcpy(buffer, self->piece + self->at, len);
  self->at += len;
  return (long)len;
}

/* ---- the store ------------------------------------------------------------------------------ */

static void file_close(mcg_store *store)
{
  file_store *self = (file_store *)store;
  explicit_bzero(&self->key, sizeof self->key);
  free(self->directory);
  free(self);
}

static const mcg_store_type file_type = {
    .name = "file",
    .close = file_close,
    .put_begin = file_put_begin,
    .put = file_write,
    .put_ready = file_ready,
    .put_commit = file_commit,
    .put_end = file_put_end,
    .get_begin = file_get_begin,
    .get = file_get_some,
    .get_end = file_get_end,
    .show = file_show,
    .remove = file_remove,
    .list = file_list,
    .sweep = file_sweep,
};

static char *directory_of(const json_t *options, const mcg_where *where, mcg_error **err)
{
  const mcg_where at = {.up = where, .key = "dir"};
  const json_t *value = options ? json_object_get(options, "dir") : NULL;
  const char *dir = NULL;
  if (value && mcg_check_string(value, &at, &dir, err) < 0) return NULL;
  if (dir && !*dir)
    return mcg_check_fail(&at, err, "name a directory, or leave it out", "it is empty"), NULL;
  auto_free char *state = dir ? NULL : mcg_state_directory();
  if (!dir && !state)
    return mcg_fail(err, MCG_INVALID, "write snapshot_store = mooncage.store.file { dir = ... }",
                    "there is no place for snapshots: neither XDG_STATE_HOME nor HOME is set"),
           NULL;
  auto_free char *here = dir && *dir != '/' ? getcwd(NULL, 0) : NULL;
  char *made = !dir          ? mcg_format("%s/snapshots", state)
               : *dir == '/' ? strdup(dir)
               : here        ? mcg_format("%s/%s", here, dir)
                             : NULL;
  if (!made) mcg_fail(err, MCG_NOMEM, NULL, "no memory for a snapshot store");
  return made;
}

static int read_key(mcg_engine *engine, const json_t *options, const mcg_where *where,
                    file_store *self, mcg_error **err)
{
  const mcg_where at = {.up = where, .key = "hmac_key"};
  const json_t *value = options ? json_object_get(options, "hmac_key") : NULL;
  auto_free char *key = NULL;
  size_t len = 0;
  if (!value) return 0;
  if (mcg_check_bytes(value, &at, &key, &len, err) < 0) return -1;
  if (!len) return mcg_check_fail(&at, err, "give a key, or leave it out", "the key is empty");
  self->keyed = true;
  mcg_hmac_key_init(&self->key, key, len);
  int rc = mcg_engine_secret(engine, key, len, err);
  explicit_bzero(key, len);
  return rc;
}

int mcg_store_file_open(mcg_engine *engine, const json_t *options, const mcg_where *where,
                        mcg_store **out, mcg_error **err)
{
  static const char *const keys[] = {"type", "dir", "hmac_key", NULL};
  if (options && mcg_check_keys(options, keys, where, err) < 0) return -1;
  file_store *self = calloc(1, sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a snapshot store");
  self->store = (mcg_store){.type = &file_type, .engine = engine};
  self->directory = directory_of(options, where, err);
  if (!self->directory || read_key(engine, options, where, self, err) < 0) {
    file_close(&self->store);
    return -1;
  }
  *out = &self->store;
  return 0;
}

const char *mcg_store_file_directory(const mcg_store *store)
{
  return store->type == &file_type ? ((const file_store *)store)->directory : NULL;
}
