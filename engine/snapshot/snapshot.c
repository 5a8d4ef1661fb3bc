/* snapshot.c: packing a workspace into a store, and unpacking it from there. Both ends are init's
 * built-ins, inside: the engine itself walks no tree. */
#include "snapshot.h"
#include "audit/audit.h"
#include "config/manifest.h"
#include "config/manifest_parts.h"
#include "count.h"
#include "decide/hooks.h"
#include "session/builtin.h"
#include "session/keeper.h"
#include <string.h>

/* ---- one after the other ------------------------------------------------------------------- */

/* Asked after every wait: the session may have been closed meanwhile. One that opens is not yet running. */
static int check_open(const mcg_session *session, mcg_error **err)
{
  return session->state == MCG_SESSION_STARTING ? 0 : mcg_session_alive(session, err);
}

/* What the sandbox said at its end is not why it failed. */
static int closed_instead(const mcg_session *session, mcg_error **err)
{
  mcg_error *closed = NULL;
  bool ended = session->ended && (*err)->code == MCG_CANCELED;
  if ((!ended && (*err)->code != MCG_UNAVAILABLE) || check_open(session, &closed) == 0) return -1;
  mcg_error_free(*err);
  *err = closed;
  return -1;
}

int mcg_snapshot_await(mcg_session *session, mcg_error **err)
{
  int rc = 0;
  session->waiting++;
  while (rc == 0 && session->restorer) rc = mcg_fiber_sleep(session->engine, 10, err);
  session->waiting--;
  return rc;
}

/* ---- what is left out --------------------------------------------------------------------- */

typedef struct words {
  const char **list; /* of pack, NULL-terminated */
  char **made;       /* those that are ours */
  size_t count, made_count;
} words;

static void words_free(words *self)
{
  for (size_t i = 0; i < self->made_count; i++) free(self->made[i]);
  free(self->made);
  free(self->list);
}

/* A path as a pattern that means itself. */
static char *literally(const char *path)
{
  char *out = malloc(strlen(path) * 2 + 1), *at = out;
  for (; out && *path; path++) {
    if (strchr("*?[]\\", *path)) *at++ = '\\';
    *at++ = *path;
  }
  if (out) *at = '\0';
  return out;
}

static bool words_add(words *self, const char *path)
{
  char *made = literally(path);
  if (!made) return false;
  self->made[self->made_count++] = made;
  self->list[self->count++] = made;
  return true;
}

/* The part of `path` that lies beneath the directory; NULL: it does not, or is it. */
static const char *beneath(const char *directory, const char *path)
{
  size_t len = directory ? strlen(directory) : 0;
  if (!len || strncmp(path, directory, len) != 0) return NULL;
  if (directory[len - 1] != '/' && path[len] != '/') return NULL;
  path += len;
  while (*path == '/') path++;
  return *path ? path : NULL;
}

/* pack's arguments: what the caller and the configuration leave out, what is ephemeral, and what is the
 * host's and only shown in the workspace. `all`: only the last. */
static int pack_words(mcg_session *session, bool all, const json_t *extra, words *out,
                      mcg_error **err)
{
  const mcg_config *config = session->config;
  const json_t *lists[] = {all ? NULL : config->snapshots.exclude, extra};
  size_t entries = config->manifest && !all ? config->manifest->count : 0,
         binds = config->plan.bind_count;
  size_t patterns = json_array_size(lists[0]) + json_array_size(lists[1]);
  *out = (words){.list = calloc(patterns + entries + binds + 3, sizeof *out->list),
                 .made = calloc(entries + binds + 1, sizeof *out->made)};
  bool whole = out->list && out->made;
  if (whole) {
    out->list[out->count++] = "pack-own";
    out->list[out->count++] = ".";
  }
  for (size_t k = 0; whole && k < 2; k++)
    for (size_t i = 0; i < json_array_size(lists[k]); i++)
      out->list[out->count++] = json_string_value(json_array_get(lists[k], i));
  for (size_t i = 0; whole && i < entries; i++)
    if (config->manifest->entries[i].ephemeral)
      whole = words_add(out, config->manifest->entries[i].path);
  for (size_t i = 0; whole && i < binds; i++) {
    const char *path = beneath(mcg_session_directory(session), config->binds[i].target);
    if (path) whole = words_add(out, path);
  }
  if (whole) return 0;
  words_free(out);
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory to save a snapshot");
}

/* ---- saving ------------------------------------------------------------------------------- */

typedef struct saving {
  mcg_session *session;
  const mcg_snapshot_spec *spec;
  mcg_put *put;
  mcg_builtin pack;
  mcg_tar_count count;
  json_t *metadata;
  bool leaves; /* the session closes, and waits for it */
} saving;

static bool save_bytes(void *data, const void *bytes, size_t len)
{
  saving *self = data;
  mcg_tar_count_add(&self->count, bytes, len);
  return self->put->store->type->put(self->put, bytes, len);
}

static bool save_ready(void *data)
{
  const saving *self = data;
  return self->put->store->type->put_ready(self->put);
}

static void save_more(void *data)
{
  saving *self = data;
  mcg_builtin_resume(&self->pack);
}

/* Without what must not be shown: labels end up in a file that others may be given. */
json_t *mcg_snapshot_labels(const mcg_engine *engine, const json_t *given)
{
  json_t *labels = json_object(), *value;
  const char *key;
  json_object_foreach((json_t *)given, key, value)
  {
    auto_free char *name = mcg_engine_redact(engine, key);
    auto_free char *text = mcg_engine_redact(engine, json_string_value(value));
    auto_json json_t *clean = text ? json_string(text) : NULL; /* NULL: cut, it is no UTF-8 */
    if (!clean) clean = json_string("***");
    if (!name || json_object_set(labels, name, clean) < 0) json_object_set(labels, "***", clean);
  }
  return labels;
}

static json_t *describe(const mcg_session *session, const char *id)
{
  const mcg_config *config = session->config;
  struct timespec now;
  char hash[65];
  auto_error mcg_error *unhashed = NULL;
  clock_gettime(CLOCK_REALTIME, &now);
  bool hashed = config->manifest && mcg_manifest_hash(config->manifest, hash, &unhashed) == 0;
  return json_pack("{s:s, s:f, s:s?, s:s, s:s, s:o, s:s?, s:s?}", "snapshot_id", id, "created_at",
                   (double)now.tv_sec + (double)now.tv_nsec / 1e9, "manifest_hash",
                   hashed ? hash : NULL, "backend", config->backend->id, "format", "tar", "labels",
                   mcg_snapshot_labels(session->engine, config->labels), "tenant", config->tenant,
                   "parent", session->parent);
}

/* The next one that is saved comes from this one, of which so many bytes were saved (0: it was restored). */
static void note(mcg_session *session, const json_t *metadata, uint64_t bytes)
{
  char *parent = mcg_format("%s@%lld", json_string_value(json_object_get(metadata, "snapshot_id")),
                            (long long)json_integer_value(json_object_get(metadata, "version")));
  session->snapshot_bytes += bytes;
  if (!parent) return;
  free(session->parent);
  session->parent = parent;
  if (session->remote) mcg_remote_snapshot(session, bytes, parent);
}

static int pack_into(saving *self, mcg_error **err)
{
  mcg_session *session = self->session;
  words arguments;
  if (pack_words(session, false, self->spec->exclude, &arguments, err) < 0) return -1;
  self->pack =
      (mcg_builtin){.argv = arguments.list, .sink = save_bytes, .ready = save_ready, .data = self};
  self->put->on_ready = save_more;
  self->put->data = self;
  self->put->max = session->config->snapshots.max_bytes;
  int rc = mcg_builtin_run(session->engine, session->stream, &self->pack, err);
  self->put->on_ready = NULL;
  words_free(&arguments);
  if (!self->put->failure) return rc;
  mcg_error_free(*err); /* the pack was stopped, and this is why */
  *err = NULL;
  return mcg_put_failed(self->put, err);
}

static int save_now(saving *self, mcg_error **err)
{
  mcg_session *session = self->session;
  mcg_store *store = self->spec->store;
  if (!self->leaves && check_open(session, err) < 0) return -1;
  if (!store && mcg_snapshots_store(session->engine, session->config, &store, err) < 0) return -1;
  self->metadata = describe(session, self->spec->id);
  if (!self->metadata) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for metadata");
  if (store->type->put_begin(store, session->config->snapshots.part, self->spec->id, &self->put,
                             err) < 0)
    return -1;
  int rc = self->leaves ? 0 : check_open(session, err);
  if (rc == 0) rc = pack_into(self, err);
  if (rc == 0 && !self->count.lost)
    json_object_set_new(self->metadata, "file_count", json_integer((json_int_t)self->count.files));
  if (rc == 0) rc = store->type->put_commit(self->put, self->metadata, err);
  store->type->put_end(self->put);
  if (rc < 0) return -1;
  note(session, self->metadata,
       (uint64_t)json_integer_value(json_object_get(self->metadata, "size_bytes")));
  return 0;
}

static int save_run(void *arg, mcg_error **err)
{
  saving *self = arg;
  mcg_session *session = self->session;
  if (mcg_snapshot_await(session, err) < 0) return -1;
  session->savers++;
  int rc = save_now(self, err);
  session->savers--;
  return rc < 0 && !self->leaves ? closed_instead(session, err) : rc;
}

/* What the log has of a snapshot at its end. */
static json_t *record(const json_t *metadata)
{
  json_t *detail = json_object();
  static const char *const keys[] = {"snapshot_id", "version", "sha256", "manifest_hash"};
  for (size_t i = 0; detail && metadata && i < sizeof keys / sizeof *keys; i++)
    json_object_set(detail, keys[i], json_object_get(metadata, keys[i]));
  return detail;
}

/* A start, what it begins, and its finish with what came of it. */
static int audited(mcg_session *session, const char *op, const char *id,
                   int (*run)(void *, mcg_error **), void *arg, json_t *const *metadata,
                   mcg_error **err)
{
  mcg_audit_op *audit;
  auto_json json_t *detail = json_pack("{s:s}", "snapshot_id", id);
  if (mcg_audit_start(session, &(mcg_event){.op = op, .detail = detail}, &audit, err) < 0)
    return -1;
  int rc = run(arg, err);
  auto_json json_t *told = rc == 0 ? record(*metadata) : NULL;
  json_int_t bytes = json_integer_value(json_object_get(*metadata, "size_bytes"));
  mcg_audit_finish(audit, &(mcg_event){.error = rc < 0 ? *err : NULL,
                                       .counted = rc == 0,
                                       .bytes = (uint64_t)bytes,
                                       .detail = told ? told : detail});
  return rc;
}

/* It is saved, whatever becomes of that. */
static void tell_hook(mcg_session *session, json_t *metadata)
{
  auto_error mcg_error *error = NULL;
  if (mcg_hook_fire(session, MCG_HOOK_SANDBOX_SNAPSHOT, json_pack("{s:O}", "metadata", metadata),
                    &error) < 0)
    mcg_log(session->engine, MCG_LOG_INFO, "session %.8s: on_sandbox_snapshot: %s", session->id,
            error->message);
}

static int save(saving *self, json_t **metadata, mcg_error **err)
{
  const mcg_snapshot_spec *spec = self->spec;
  if (audited(self->session, "snapshot", spec->id, save_run, self, &self->metadata, err) < 0) {
    json_decref(self->metadata);
    return mcg_wrap(err, "snapshot %s", spec->id);
  }
  *metadata = self->metadata;
  if (!spec->quiet) tell_hook(self->session, self->metadata);
  return 0;
}

int mcg_snapshot_save(mcg_session *session, const mcg_snapshot_spec *spec, json_t **metadata,
                      mcg_error **err)
{
  saving self = {.session = session, .spec = spec};
  return save(&self, metadata, err);
}

/* ---- restoring ---------------------------------------------------------------------------- */

typedef struct restoring {
  mcg_session *session;
  const mcg_snapshot_spec *spec;
  mcg_get *get;
  mcg_error *unread;
  json_t *metadata;
} restoring;

static long restore_bytes(void *data, void *buffer, size_t cap)
{
  restoring *self = data;
  return self->get->store->type->get(self->get, buffer, cap, &self->unread);
}

/* Emptying it would take files of the host's. */
static int check_own(const mcg_session *session, mcg_error **err)
{
  const mcg_config *config = session->config;
  const char *directory = mcg_session_directory(session);
  const char *fix = "open the session without it, or use restore_workspace, which empties nothing";
  if (config->plan.project)
    return mcg_fail(err, MCG_SNAPSHOT_UNSUPPORTED, fix,
                    "the workspace is a view of the project %s, which a snapshot would replace",
                    config->plan.project);
  if (config->backend->isolation == MCG_ISOLATION_NONE && config->plan.working_directory)
    return mcg_fail(err, MCG_SNAPSHOT_UNSUPPORTED, fix,
                    "the workspace is the host's directory %s, which a snapshot would replace",
                    config->plan.working_directory);
  for (size_t i = 0; directory && i < config->plan.bind_count; i++)
    if (strcmp(config->binds[i].target, directory) == 0 ||
        beneath(config->binds[i].target, directory))
      return mcg_fail(err, MCG_SNAPSHOT_UNSUPPORTED, fix,
                      "the workspace lies in %s of the host, which a snapshot would replace",
                      config->binds[i].source);
  return 0;
}

static int check_manifest(restoring *self, mcg_error **err)
{
  const mcg_manifest *manifest = self->session->config->manifest;
  const char *saved = json_string_value(json_object_get(self->metadata, "manifest_hash"));
  char hash[65] = "";
  if (self->spec->on_mismatch == MCG_MISMATCH_IGNORE) return 0;
  if (manifest && mcg_manifest_hash(manifest, hash, err) < 0) return -1;
  if (strcmp(saved ? saved : "", hash) == 0) return 0;
  if (self->spec->on_mismatch == MCG_MISMATCH_ERROR)
    return mcg_fail(err, MCG_SNAPSHOT_MISMATCH,
                    "save it anew with this manifest, or set snapshot.on_mismatch to \"warn\" or "
                    "\"ignore\"",
                    "it was made with another manifest");
  mcg_session_warn(self->session, "snapshot %s was made with another manifest", self->spec->id);
  return 0;
}

static void end_commands(mcg_session *session)
{
  auto_error mcg_error *why = NULL;
  mcg_fail(&why, MCG_CANCELED, NULL, "a snapshot is restored into the session");
  mcg_execs_abort(session, why);
}

/* replace's arguments: the host's places, in none of which the workspace may lie. */
static const char **replace_words(const mcg_config *config)
{
  const char **list = calloc(config->plan.bind_count + 3, sizeof *list);
  if (!list) return NULL;
  list[0] = "replace";
  list[1] = ".";
  for (size_t i = 0; i < config->plan.bind_count; i++) list[i + 2] = config->binds[i].target;
  return list;
}

/* The old workspace stays as it is until all of the new one is there. */
static int replace(restoring *self, mcg_error **err)
{
  mcg_session *session = self->session;
  auto_free const char **argv = replace_words(session->config);
  if (!argv) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to restore a snapshot");
  mcg_builtin unpack = {.argv = argv, .source = restore_bytes, .data = self, .max_output = 4096};
  int rc = mcg_builtin_run(session->engine, session->stream, &unpack, err);
  free(unpack.output);
  if (rc < 0 && self->unread) {
    mcg_error_free(*err);
    *err = mcg_steal_pointer(&self->unread);
  }
  if (rc < 0) return -1;
  if (mcg_session_furnish(session, true, err) == 0) return 0;
  return mcg_wrap(err, "the workspace is restored, but for what is ephemeral");
}

static int restore_run(void *arg, mcg_error **err)
{
  restoring *self = arg;
  mcg_session *session = self->session;
  mcg_store *store = self->spec->store;
  if (check_open(session, err) < 0 || check_own(session, err) < 0) return -1;
  if (!store && mcg_snapshots_store(session->engine, session->config, &store, err) < 0) return -1;
  if (store->type->get_begin(store, session->config->snapshots.part, self->spec->id,
                             &self->metadata, &self->get, err) < 0)
    return -1;
  int rc = check_open(session, err);
  if (rc == 0) rc = check_manifest(self, err);
  if (rc == 0) {
    end_commands(session);
    rc = mcg_stream_kill_all(session->stream, err);
  }
  if (rc == 0) rc = check_open(session, err);
  if (rc == 0) rc = replace(self, err);
  store->type->get_end(self->get);
  mcg_error_free(self->unread);
  if (rc == 0) note(session, self->metadata, 0);
  return rc;
}

/* One at a time: each empties what the other has unpacked. Who saves would miss what is emptied. */
static int restore_alone(void *arg, mcg_error **err)
{
  mcg_session *session = ((restoring *)arg)->session;
  int rc = 0;
  while (rc == 0 && (session->restorer || session->waiting)) /* who waits to read is first */
    rc = mcg_fiber_sleep(session->engine, 10, err);
  if (rc < 0) return -1;
  session->restorer = mcg_fiber_current(session->engine);
  while (rc == 0 && session->savers) rc = mcg_fiber_sleep(session->engine, 10, err);
  if (rc == 0) rc = restore_run(arg, err);
  session->restorer = NULL;
  return rc < 0 ? closed_instead(session, err) : rc;
}

int mcg_snapshot_restore(mcg_session *session, const mcg_snapshot_spec *spec, json_t **metadata,
                         mcg_error **err)
{
  restoring self = {.session = session, .spec = spec};
  if (audited(session, "restore", spec->id, restore_alone, &self, &self.metadata, err) == 0) {
    *metadata = self.metadata;
    return 0;
  }
  json_decref(self.metadata);
  return mcg_wrap(err, "restore %s", spec->id);
}

/* ---- with the session --------------------------------------------------------------------- */

static mcg_snapshot_spec spec_of(const mcg_config *config)
{
  return (mcg_snapshot_spec){.id = config->snapshots.id,
                             .on_mismatch = config->snapshots.on_mismatch};
}

int mcg_snapshot_furnish(mcg_session *session, mcg_error **err)
{
  const mcg_snapshots *set = &session->config->snapshots;
  if (!set->id || set->restore == MCG_RESTORE_NEVER)
    return mcg_session_furnish(session, false, err);
  mcg_snapshot_spec spec = spec_of(session->config);
  auto_json json_t *metadata = NULL;
  mcg_store *store;
  if (set->restore == MCG_RESTORE_IF_EXISTS) {
    auto_error mcg_error *none = NULL;
    if (mcg_snapshots_store(session->engine, session->config, &store, err) < 0) return -1;
    if (store->type->show(store, set->part, set->id, &metadata, &none) < 0 &&
        none->code == MCG_NOT_FOUND)
      return mcg_session_furnish(session, false, err);
    json_decref(mcg_steal_pointer(&metadata));
  }
  return mcg_snapshot_restore(session, &spec, &metadata, err);
}

typedef struct copying {
  mcg_session *from, *to;
} copying;

static int copy_run(void *arg, mcg_error **err)
{
  copying *self = arg;
  words arguments;
  if (mcg_snapshot_await(self->from, err) < 0 || mcg_session_alive(self->from, err) < 0 ||
      check_own(self->to, err) < 0 || pack_words(self->from, true, NULL, &arguments, err) < 0)
    return -1;
  mcg_builtin pack = {.argv = arguments.list};
  mcg_builtin unpack = {.argv = (const char *const[]){"unpack", ".", NULL}, .max_output = 4096};
  self->from->savers++;
  int rc = mcg_builtin_pipe(self->from->engine, self->from->stream, &pack, self->to->stream,
                            &unpack, err);
  self->from->savers--;
  free(unpack.output);
  words_free(&arguments);
  return rc;
}

int mcg_snapshot_copy(mcg_session *origin, mcg_session *session, mcg_error **err)
{
  copying self = {origin, session};
  auto_json json_t *detail = json_pack("{s:s, s:s}", "call", "fork", "fork", session->id);
  session->forked = true;
  if (mcg_audit_around(origin, &(mcg_event){.op = "read", .path = ".", .detail = detail}, copy_run,
                       &self, err) < 0)
    return mcg_wrap(err, "copy the workspace");
  session->parent = origin->parent ? strdup(origin->parent) : NULL;
  return 0;
}

/* What it had begun is undone before its workspace is saved. */
static int end_restore(mcg_session *session, mcg_error **err)
{
  if (session->restorer) mcg_fiber_cancel(session->restorer);
  return mcg_snapshot_await(session, err);
}

int mcg_snapshot_leave(mcg_session *session, mcg_error **err)
{
  const mcg_snapshots *set = &session->config->snapshots;
  bool well = !session->ended && !session->unsuccessful;
  if (!set->id || set->save == MCG_SAVE_NEVER || session->forked || !session->stream) return 0;
  if (set->save == MCG_SAVE_ON_SUCCESS && !well) return 0;
  if (end_restore(session, err) < 0 || mcg_stream_kill_all(session->stream, err) < 0)
    return mcg_wrap(err, "snapshot %s", set->id);
  mcg_snapshot_spec spec = spec_of(session->config);
  saving self = {.session = session, .spec = &spec, .leaves = true};
  auto_json json_t *metadata = NULL;
  return save(&self, &metadata, err);
}
