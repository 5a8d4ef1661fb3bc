/* snapshot_call.c: the public calls about snapshots: of a session, and of a store without one. */
#include "audit/audit.h"
#include "count.h"
#include "decide/tenant.h"
#include "session/host_bytes.h"
#include "snapshot.h"
#include <string.h>

typedef struct call {
  mcg_engine *engine;
  mcg_session *session; /* or NULL: of a store */
  json_t *request, *answer;
  mcg_store *store; /* owned; or NULL: the session's */
  char part[MCG_STORE_PART_MAX];
  const char *id;
  mcg_host_bytes bytes;
  int (*run)(void *arg, mcg_error **err);
  mcg_text_done done;
  void *data;
} call;

static void call_free(call *self)
{
  mcg_store_close(self->store);
  json_decref(self->request);
  json_decref(self->answer);
  if (self->session) mcg_session_let_go(self->session);
  free(self);
}

static void call_complete(void *arg, mcg_error *error)
{
  call *self = arg;
  auto_free char *text = error ? NULL : json_dumps(self->answer, JSON_COMPACT | JSON_ENCODE_ANY);
  if (!error && !text) mcg_fail(&error, MCG_NOMEM, NULL, "no memory for the answer");
  if (self->session) mcg_error_set_backend(error, self->session->config->backend->id);
  if (self->done)
    self->done(self->data, text, error);
  else
    mcg_error_free(error);
  call_free(self);
}

static int call_start(call *self, mcg_op **op, mcg_error **err)
{
  if (mcg_op_start(self->engine, self->run, call_complete, self, op, err) == 0) return 0;
  call_free(self);
  return -1;
}

/* The request, whose keys are these, with its store. NULL: refused. */
static call *call_new(mcg_engine *engine, mcg_session *session, const char *text, size_t len,
                      const char *const *keys, mcg_error **err)
{
  const mcg_where where = {.key = "store"};
  call *self = calloc(1, sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for an operation"), NULL;
  self->engine = engine;
  self->session = session;
  if (session) mcg_session_hold(session);
  self->request = mcg_json_parse(text, len, err);
  const json_t *store = json_object_get(self->request, "store");
  if (self->request && mcg_check_keys(self->request, keys, NULL, err) == 0 &&
      (session && !store ? 0 : mcg_store_open(engine, store, &where, &self->store, err)) == 0 &&
      (!session || !store || mcg_snapshots_apart(session->config, self->store, &where, err) == 0))
    return self;
  call_free(self);
  return NULL;
}

/* `fallback`: where the request has none; NULL: it must have one. */
static int read_id(call *self, const char *fallback, mcg_error **err)
{
  const mcg_where where = {.key = "id"};
  const json_t *value = json_object_get(self->request, "id");
  self->id = fallback;
  if (value && mcg_check_string(value, &where, &self->id, err) < 0) return -1;
  if (!self->id)
    return mcg_fail(err, MCG_INVALID, "give an id, or set snapshot.id",
                    "which snapshot is not said");
  return mcg_snapshot_id_check(self->id, strlen(self->id), err);
}

/* ---- of a session ------------------------------------------------------------------------- */

static int save_run(void *arg, mcg_error **err)
{
  call *self = arg;
  if (mcg_session_alive(self->session, err) < 0) return -1;
  const mcg_snapshot_spec spec = {.id = self->id,
                                  .store = self->store,
                                  .exclude = json_object_get(self->request, "exclude"),
                                  .quiet = json_is_true(json_object_get(self->request, "quiet"))};
  return mcg_snapshot_save(self->session, &spec, &self->answer, err);
}

int mcg_session_snapshot(mcg_session *session, const char *request, size_t len, mcg_text_done done,
                         void *data, mcg_op **op, mcg_error **err)
{
  static const char *const keys[] = {"id", "store", "exclude", "quiet", NULL};
  const mcg_where exclude = {.key = "exclude"};
  if (mcg_session_alive(session, err) < 0) return -1;
  call *self = call_new(session->engine, session, request, len, keys, err);
  if (!self) return -1;
  self->run = save_run;
  self->done = done;
  self->data = data;
  if (read_id(self, session->config->snapshots.id, err) == 0 &&
      mcg_exclude_check(json_object_get(self->request, "exclude"), &exclude, err) == 0)
    return call_start(self, op, err);
  call_free(self);
  return -1;
}

static int restore_run(void *arg, mcg_error **err)
{
  call *self = arg;
  const mcg_where mismatch = {.key = "on_mismatch"};
  if (mcg_session_alive(self->session, err) < 0) return -1;
  mcg_snapshot_spec spec = {.id = self->id,
                            .store = self->store,
                            .on_mismatch = self->session->config->snapshots.on_mismatch};
  if (mcg_mismatch_read(json_object_get(self->request, "on_mismatch"), &mismatch, &spec.on_mismatch,
                        err) < 0)
    return -1;
  return mcg_snapshot_restore(self->session, &spec, &self->answer, err);
}

int mcg_session_restore(mcg_session *session, const char *request, size_t len, mcg_text_done done,
                        void *data, mcg_op **op, mcg_error **err)
{
  static const char *const keys[] = {"id", "store", "on_mismatch", NULL};
  if (mcg_session_alive(session, err) < 0) return -1;
  call *self = call_new(session->engine, session, request, len, keys, err);
  if (!self) return -1;
  self->run = restore_run;
  self->done = done;
  self->data = data;
  if (read_id(self, session->config->snapshots.id, err) == 0) return call_start(self, op, err);
  call_free(self);
  return -1;
}

/* ---- a copy of a session ------------------------------------------------------------------ */

typedef struct forking {
  mcg_session *origin, *copy;
  mcg_session_done done;
  void *data;
} forking;

static int fork_run(void *arg, mcg_error **err)
{
  forking *self = arg;
  if (mcg_session_alive(self->origin, err) < 0) return -1;
  return mcg_session_open_copy(self->origin, &self->copy, err);
}

static void fork_complete(void *arg, mcg_error *error)
{
  forking self = *(forking *)arg;
  free(arg);
  self.done(self.data, error ? NULL : self.copy, error);
  mcg_session_let_go(self.origin);
}

int mcg_session_fork(mcg_session *session, mcg_session_done done, void *data, mcg_op **op,
                     mcg_error **err)
{
  if (mcg_session_alive(session, err) < 0) return -1;
  if (session->remote)
    return mcg_fail(err, MCG_UNSUPPORTED, "use snapshot, and restore it in a new session",
                    "a session that a keeper holds cannot be forked by who took it up");
  forking *self = malloc(sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for an operation");
  *self = (forking){.origin = session, .done = done, .data = data};
  if (mcg_op_start(session->engine, fork_run, fork_complete, self, op, err) < 0) {
    free(self);
    return -1;
  }
  mcg_session_hold(session);
  return 0;
}

void mcg_session_unsuccessful(mcg_session *session)
{
  session->unsuccessful = true;
}

/* ---- of a store --------------------------------------------------------------------------- */

static int read_part(call *self, mcg_error **err)
{
  const mcg_where of_tenant = {.key = "tenant"}, of_prefix = {.key = "store_prefix"};
  const json_t *tenant = json_object_get(self->request, "tenant");
  const json_t *prefix = json_object_get(self->request, "store_prefix");
  if (tenant && mcg_tenant_check(tenant, &of_tenant, err) < 0) return -1;
  if (prefix && mcg_store_prefix_check(prefix, &of_prefix, err) < 0) return -1;
  mcg_store_part(json_string_value(tenant), json_string_value(prefix), self->part);
  return 0;
}

static int list_run(void *arg, mcg_error **err)
{
  call *self = arg;
  const char *prefix = json_string_value(json_object_get(self->request, "prefix"));
  return self->store->type->list(self->store, self->part, prefix ? prefix : "", &self->answer, err);
}

static int show_run(void *arg, mcg_error **err)
{
  call *self = arg;
  return self->store->type->show(self->store, self->part, self->id, &self->answer, err);
}

static int exists_run(void *arg, mcg_error **err)
{
  call *self = arg;
  auto_json json_t *metadata = NULL;
  int rc = self->store->type->show(self->store, self->part, self->id, &metadata, err);
  if (rc < 0 && (*err)->code != MCG_NOT_FOUND) return -1;
  if (rc < 0) mcg_error_free(mcg_steal_pointer(err));
  self->answer = json_boolean(rc == 0);
  return 0;
}

static int delete_run(void *arg, mcg_error **err)
{
  call *self = arg;
  self->answer = json_true();
  return self->store->type->remove(self->store, self->part, self->id, err);
}

static int gc_run(void *arg, mcg_error **err)
{
  call *self = arg;
  json_t *removed = NULL;
  bool dry_run = json_is_true(json_object_get(self->request, "dry_run"));
  if (self->store->type->sweep(self->store, self->part, dry_run, &removed, err) < 0) return -1;
  self->answer = json_pack("{s:o}", "removed", removed);
  return 0;
}

static const struct {
  const char *name;
  bool of_id;
  int (*run)(void *arg, mcg_error **err);
} store_calls[] = {{"list", false, list_run},
                   {"show", true, show_run},
                   {"exists", true, exists_run},
                   {"delete", true, delete_run},
                   {"gc", false, gc_run}};

int mcg_store_ask(mcg_engine *engine, const char *request, size_t len, mcg_text_done done,
                  void *data, mcg_op **op, mcg_error **err)
{
  static const char *const keys[] = {"call",         "store",  "id",      "tenant",
                                     "store_prefix", "prefix", "dry_run", NULL};
  const mcg_where at = {.key = "call"};
  call *self = call_new(engine, NULL, request, len, keys, err);
  const char *name;
  if (!self) return -1;
  self->done = done;
  self->data = data;
  const json_t *what = json_object_get(self->request, "call");
  int rc = mcg_check_string(what ? what : json_null(), &at, &name, err);
  bool of_id = false;
  for (size_t i = 0; rc == 0 && i < sizeof store_calls / sizeof *store_calls; i++)
    if (strcmp(store_calls[i].name, name) == 0) {
      self->run = store_calls[i].run;
      of_id = store_calls[i].of_id;
    }
  if (rc == 0 && !self->run)
    rc = mcg_check_fail(&at, err, "ask for list, show, exists, delete or gc",
                        "\"%.40s\" is nothing to ask a store", name);
  if (rc == 0) rc = read_part(self, err);
  if (rc == 0 && of_id) rc = read_id(self, NULL, err);
  if (rc == 0) return call_start(self, op, err);
  call_free(self);
  return -1;
}

/* ---- a host's own bytes ------------------------------------------------------------------- */

typedef struct counted {
  call *call;
  mcg_tar_count count;
} counted;

static long count_source(void *data, void *buffer, size_t cap)
{
  counted *self = data;
  long len = mcg_host_source(&self->call->bytes, buffer, cap);
  if (len > 0) mcg_tar_count_add(&self->count, buffer, (size_t)len);
  return len;
}

static json_t *describe(const call *self)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  json_t *metadata = json_pack("{s:s, s:f, s:s}", "snapshot_id", self->id, "created_at",
                               (double)now.tv_sec + (double)now.tv_nsec / 1e9, "format", "tar");
  static const char *const kept[] = {"manifest_hash", "tenant"};
  const json_t *labels = json_object_get(self->request, "labels");
  for (size_t i = 0; metadata && i < sizeof kept / sizeof *kept; i++) {
    json_t *value = json_object_get(self->request, kept[i]);
    if (value) json_object_set(metadata, kept[i], value);
  }
  if (metadata && labels)
    json_object_set_new(metadata, "labels", mcg_snapshot_labels(self->engine, labels));
  return metadata;
}

static int put_run(void *arg, mcg_error **err)
{
  call *self = arg;
  const mcg_store_type *type = self->store->type;
  counted source = {.call = self};
  mcg_put *put;
  auto_json json_t *metadata = describe(self);
  if (!metadata) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for metadata");
  if (type->put_begin(self->store, self->part, self->id, &put, err) < 0) return -1;
  int rc = mcg_put_all(put, count_source, &source, err);
  if (rc == 0 && !source.count.lost)
    json_object_set_new(metadata, "file_count", json_integer((json_int_t)source.count.files));
  if (rc == 0) rc = type->put_commit(put, metadata, err);
  type->put_end(put);
  if (rc < 0) return mcg_wrap(err, "save %s", self->id);
  self->answer = mcg_steal_pointer(&metadata);
  return 0;
}

static int check_described(const call *self, mcg_error **err)
{
  const mcg_where hash = {.key = "manifest_hash"}, labels = {.key = "labels"};
  const json_t *given = json_object_get(self->request, "manifest_hash");
  const json_t *table = json_object_get(self->request, "labels");
  const char *text, *key;
  json_t *value;
  if (given && mcg_check_string(given, &hash, &text, err) < 0) return -1;
  if (table && mcg_check_object(table, &labels, err) < 0) return -1;
  json_object_foreach((json_t *)table, key, value)
  {
    const mcg_where at = {.up = &labels, .key = key};
    if (mcg_check_string(value, &at, &text, err) < 0) return -1;
  }
  return 0;
}

int mcg_store_save(mcg_engine *engine, const char *request, size_t len,
                   long (*source)(void *data, void *buffer, size_t cap), mcg_text_done done,
                   void *data, mcg_op **op, mcg_error **err)
{
  static const char *const keys[] = {"store",         "id",     "tenant", "store_prefix",
                                     "manifest_hash", "labels", NULL};
  call *self = call_new(engine, NULL, request, len, keys, err);
  if (!self) return -1;
  self->run = put_run;
  self->bytes = (mcg_host_bytes){.engine = engine, .source = source, .data = data};
  self->done = done;
  self->data = data;
  if (read_id(self, NULL, err) == 0 && read_part(self, err) == 0 && check_described(self, err) == 0)
    return call_start(self, op, err);
  call_free(self);
  return -1;
}

static int get_run(void *arg, mcg_error **err)
{
  call *self = arg;
  const mcg_store_type *type = self->store->type;
  const size_t chunk = 65536;
  auto_free char *buffer = malloc(chunk);
  mcg_get *get;
  long got;
  if (!buffer) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to load a snapshot");
  if (type->get_begin(self->store, self->part, self->id, &self->answer, &get, err) < 0) return -1;
  while ((got = type->get(get, buffer, chunk, err)) > 0)
    if (!mcg_host_sink(&self->bytes, buffer, (size_t)got)) {
      got = mcg_fail(err, MCG_CANCELED, NULL, "the sink of the data stopped");
      break;
    }
  type->get_end(get);
  return got < 0 ? mcg_wrap(err, "load %s", self->id) : 0;
}

int mcg_store_load(mcg_engine *engine, const char *request, size_t len,
                   bool (*sink)(void *data, const void *bytes, size_t len), mcg_text_done done,
                   void *data, mcg_op **op, mcg_error **err)
{
  static const char *const keys[] = {"store", "id", "tenant", "store_prefix", NULL};
  call *self = call_new(engine, NULL, request, len, keys, err);
  if (!self) return -1;
  self->run = get_run;
  self->bytes = (mcg_host_bytes){.engine = engine, .sink = sink, .data = data};
  self->done = done;
  self->data = data;
  if (read_id(self, NULL, err) == 0 && read_part(self, err) == 0) return call_start(self, op, err);
  call_free(self);
  return -1;
}
