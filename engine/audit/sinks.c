/* sinks.c: the key `audit` of a configuration: where events go. A place that several sessions name is
 * opened once. */
#include "sinks.h"
#include "anchor.h"
#include "config/config.h"
#include <errno.h>
#include <limits.h>
#include <string.h>

#define SECRET_MIN 8 /* a piece of a header that is shorter is no secret unless it says so */

static int read_jsonl(struct mcg_audit *audit, const json_t *table, const mcg_where *where,
                      mcg_jsonl_options *out, mcg_error **err)
{
  static const char *const keys[] = {"type", "path",      "dir",      "durable",
                                     "own",  "rotate_mb", "hmac_key", NULL};
  const json_t *value;
  if (!table) return 0; /* the default */
  if (mcg_check_keys(table, keys, where, err) < 0) return -1;
  const mcg_where path = {.up = where, .key = "path"}, dir = {.up = where, .key = "dir"};
  if ((value = json_object_get(table, "path")) &&
      mcg_check_string(value, &path, &out->path, err) < 0)
    return -1;
  if ((value = json_object_get(table, "dir")) && mcg_check_string(value, &dir, &out->dir, err) < 0)
    return -1;
  if (out->path && out->dir)
    return mcg_check_fail(&dir, err, "leave one of the two out", "`path` is given as well");
  if ((out->path && !*out->path) || (out->dir && !*out->dir))
    return mcg_check_fail(out->path ? &path : &dir, err, "name a place, or leave it out",
                          "it is empty");
  const mcg_where durable = {.up = where, .key = "durable"};
  if ((value = json_object_get(table, "durable")) &&
      mcg_check_bool(value, &durable, &out->durable, err) < 0)
    return -1;
  const mcg_where own = {.up = where, .key = "own"};
  bool alone = false;
  if ((value = json_object_get(table, "own")) && mcg_check_bool(value, &own, &alone, err) < 0)
    return -1;
  if (alone && !*audit->own && mcg_random_id(audit->own, err) < 0) return -1;
  if (alone) out->own = audit->own;
  if (alone && out->path)
    return mcg_check_fail(&own, err, "leave one of the two out", "`path` is given as well");
  const mcg_where rotate = {.up = where, .key = "rotate_mb"};
  double megabytes = 0;
  if ((value = json_object_get(table, "rotate_mb")) &&
      mcg_check_number(value, &rotate, 0.001, 1e6, false, &megabytes, err) < 0)
    return -1;
  out->rotate_bytes = (uint64_t)(megabytes * (1 << 20));
  return 0;
}

static int read_key(const json_t *table, const mcg_where *where, char **key, size_t *len,
                    mcg_error **err)
{
  const mcg_where at = {.up = where, .key = "hmac_key"};
  const json_t *value = json_object_get(table, "hmac_key");
  if (!value) return 0;
  if (mcg_check_bytes(value, &at, key, len, err) < 0) return -1;
  return *len ? 0 : mcg_check_fail(&at, err, "give a key, or leave it out", "the key is empty");
}

static mcg_sink *find(const struct mcg_audit *audit, const char *key)
{
  mcg_sink *sink = audit->sinks;
  while (sink && strcmp(sink->key, key) != 0) sink = sink->next;
  return sink;
}

/* Takes both. */
static mcg_sink *enlist(struct mcg_audit *audit, mcg_sink *sink, char *key, mcg_error **err)
{
  if (sink && mcg_writer_new(sink, err) == 0) {
    sink->key = key;
    sink->next = audit->sinks;
    return audit->sinks = sink;
  }
  if (sink) sink->type->free(sink);
  free(key);
  return NULL;
}

static mcg_sink *jsonl_sink(mcg_engine *engine, struct mcg_audit *audit, const json_t *table,
                            const mcg_where *where, mcg_error **err)
{
  mcg_jsonl_options options = {0};
  auto_free char *hmac_key = NULL, *state = NULL;
  if (read_jsonl(audit, table, where, &options, err) < 0 ||
      read_key(table, where, &hmac_key, &options.hmac_key_len, err) < 0)
    return NULL;
  options.hmac_key = hmac_key;
  if (!*audit->own && mcg_random_id(audit->own, err) < 0) return NULL;
  snprintf(audit->engine, sizeof audit->engine, "%.8s", audit->own);
  options.engine = audit->engine;
  if (hmac_key && mcg_engine_secret(engine, hmac_key, options.hmac_key_len, err) < 0) return NULL;
  if (!options.path && !options.dir) state = mcg_state_directory();
  char hex[65] = {0};
  if (hmac_key) {
    mcg_sha256 hash;
    uint8_t digest[32];
    mcg_sha256_init(&hash);
    mcg_sha256_update(&hash, hmac_key, options.hmac_key_len);
    mcg_sha256_final(&hash, digest);
    mcg_hex(digest, sizeof digest, hex);
  }
  char *key = mcg_format("jsonl %d %d %llu %s %s", options.durable, options.own != NULL,
                         (unsigned long long)options.rotate_bytes, hex,
                         options.path  ? options.path
                         : options.dir ? options.dir
                         : state       ? state
                                       : "");
  if (!key) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the audit log"), NULL;
  mcg_sink *known = find(audit, key);
  if (!known) return enlist(audit, mcg_jsonl_new(engine, &options, err), key, err);
  free(key);
  return known;
}

static mcg_sink *stderr_sink(mcg_engine *engine, struct mcg_audit *audit, const json_t *table,
                             const mcg_where *where, mcg_error **err)
{
  static const char *const keys[] = {"type", NULL};
  if (mcg_check_keys(table, keys, where, err) < 0) return NULL;
  mcg_sink *known = find(audit, "stderr");
  if (known) return known;
  char *key = strdup("stderr");
  if (!key) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the audit log"), NULL;
  return enlist(audit, mcg_stderr_new(engine, err), key, err);
}

/* NULL also for *callback: that is the session's, not the engine's. */
static mcg_sink *sink_of(mcg_engine *engine, const json_t *table, const mcg_where *where,
                         bool *callback, mcg_error **err)
{
  struct mcg_audit *audit = mcg_audit_of(engine, err);
  const mcg_where at = {.up = where, .key = "type"};
  const char *type = "jsonl";
  if (!audit) return NULL;
  if (table) {
    const json_t *value = json_object_get(table, "type");
    if (mcg_check_object(table, where, err) < 0 ||
        mcg_check_string(value ? value : json_null(), &at, &type, err) < 0)
      return NULL;
  }
  if (strcmp(type, "jsonl") == 0) return jsonl_sink(engine, audit, table, where, err);
  if (strcmp(type, "stderr") == 0) return stderr_sink(engine, audit, table, where, err);
  *callback = strcmp(type, "callback") == 0;
  if (!*callback)
    mcg_check_fail(&at, err, "use mooncage.audit.jsonl { ... }, .callback(fn) or .stderr()",
                   "there is no sink \"%s\"", type);
  return NULL;
}

static int add(mcg_engine *engine, struct mcg_sinks *sinks, const json_t *table,
               const mcg_where *where, mcg_error **err)
{
  if (sinks->count == MCG_SINKS_MAX)
    return mcg_check_fail(where, err, "leave some out", "more than %d sinks", MCG_SINKS_MAX);
  bool callback = false;
  mcg_sink *sink = sink_of(engine, table, where, &callback, err);
  if (callback) {
    if (!sinks->callback) mcg_chain_init(&sinks->callback_chain, NULL, 0);
    sinks->callback = true;
    return 0;
  }
  if (!sink) return -1;
  for (unsigned i = 0; i < sinks->count; i++)
    if (sinks->list[i] == sink) return 0;
  sink->refs++;
  sinks->list[sinks->count++] = sink;
  return 0;
}

static int add_all(mcg_engine *engine, struct mcg_sinks *sinks, const json_t *audit,
                   mcg_error **err)
{
  const mcg_where where = {.key = "audit"};
  if (!audit) return add(engine, sinks, NULL, &where, err);
  if (json_is_false(audit)) return 0;
  bool empty = json_is_object(audit) && !json_object_size(audit); /* Lua's {} */
  if (!json_is_array(audit) && !empty) return add(engine, sinks, audit, &where, err);
  if (!json_array_size(audit))
    return mcg_check_fail(&where, err, "write audit = false to have no log", "the list is empty");
  for (size_t i = 0; i < json_array_size(audit); i++) {
    const mcg_where at = {.up = &where, .index = i};
    if (add(engine, sinks, json_array_get(audit, i), &at, err) < 0) return -1;
  }
  return 0;
}

int mcg_audit_read(mcg_engine *engine, const json_t *audit, struct mcg_sinks **out, mcg_error **err)
{
  struct mcg_audit *whole = mcg_audit_of(engine, err);
  if (!whole) return -1;
  struct mcg_sinks *sinks = calloc(1, sizeof *sinks);
  if (!sinks) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the audit log");
  sinks->audit = whole;
  whole->refs++;
  if (add_all(engine, sinks, audit, err) < 0) {
    mcg_sinks_free(sinks);
    return -1;
  }
  *out = sinks;
  return 0;
}

void mcg_sinks_close(struct mcg_audit *audit, bool all)
{
  for (mcg_sink **at = &audit->sinks; *at;) {
    mcg_sink *sink = *at;
    if (!all && (sink->refs || !mcg_writer_at_rest(sink->writer))) {
      at = &sink->next;
      continue;
    }
    *at = sink->next;
    audit->lost += mcg_writer_free(sink->writer);
    free(sink->key);
    sink->type->free(sink);
  }
}

void mcg_sinks_free(struct mcg_sinks *sinks)
{
  if (!sinks) return;
  struct mcg_audit *audit = sinks->audit;
  if (audit->sinks) { /* else the engine has closed them */
    for (unsigned i = 0; i < sinks->count; i++) sinks->list[i]->refs--;
    mcg_sinks_close(audit, false);
  }
  mcg_audit_unref(audit);
  free(sinks);
}

static int learn(mcg_engine *engine, const json_t *text, mcg_error **err)
{
  if (!json_is_string(text)) return 0;
  return mcg_engine_secret(engine, json_string_value(text), json_string_length(text), err);
}

/* A header's value is a secret, or a list of pieces: those that say so, and whatever is long enough to
 * be one. */
static int learn_value(mcg_engine *engine, const json_t *value, mcg_error **err)
{
  for (size_t i = 0; i < json_array_size(value); i++) {
    const json_t *piece = json_array_get(value, i);
    if (json_string_length(piece) < SECRET_MIN) piece = json_object_get(piece, "secret");
    if (learn(engine, piece, err) < 0) return -1;
  }
  const json_t *secret = json_object_get(value, "secret");
  return learn(engine, secret ? secret : value, err);
}

int mcg_audit_learn_network(mcg_engine *engine, const json_t *network, mcg_error **err)
{
  for (; json_is_object(network); network = json_object_get(network, "within")) {
    const json_t *allow = json_object_get(network, "allow");
    for (size_t i = 0; i < json_array_size(allow); i++) {
      const char *name;
      json_t *value;
      json_object_foreach(json_object_get(json_array_get(allow, i), "headers"), name, value)
      {
        if (learn_value(engine, value, err) < 0) return -1;
      }
    }
  }
  return 0;
}

int mcg_audit_learn(mcg_engine *engine, const json_t *root, mcg_error **err)
{
  const json_t *environment = json_object_get(json_object_get(root, "manifest"), "environment");
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)environment, name, value)
  {
    if (learn(engine, json_object_get(value, "secret"), err) < 0) return -1;
  }
  return mcg_audit_learn_network(engine, json_object_get(root, "network"), err);
}

/* Of two real paths: is `inner` the outer one, or beneath it? */
static bool beneath(const char *inner, const char *outer)
{
  size_t len = strlen(outer);
  if (len > 1 && strncmp(inner, outer, len) != 0) return false;
  return len == 1 || inner[len] == '/' || inner[len] == '\0';
}

/* Where it is, or will be: what is not there is going to be directories, which ".." leads out of. */
static bool real_place(const char *place, char out[PATH_MAX])
{
  char next[PATH_MAX];
  strcpy(out, "/");
  for (const char *at = place; *at;) {
    size_t len = strcspn(at, "/");
    if (len == 2 && memcmp(at, "..", 2) == 0) {
      char *slash = strrchr(out, '/');
      slash[slash == out] = '\0';
    } else if (len && !(len == 1 && *at == '.')) {
      int n = snprintf(next, sizeof next, "%s/%.*s", out[1] ? out : "", (int)len, at);
      if (n < 0 || (size_t)n >= sizeof next) return false;
      if (!realpath(next, out)) strcpy(out, next);
    }
    at += len + (at[len] == '/');
  }
  return true;
}

const char *mcg_bind_over(const char *place, const mcg_bind *binds, size_t count)
{
  char real[PATH_MAX], source[PATH_MAX];
  if (!real_place(place, real)) return NULL;
  for (size_t k = 0; k < count; k++)
    if (binds[k].writable && realpath(binds[k].source, source) && beneath(real, source))
      return binds[k].source;
  return NULL;
}

int mcg_audit_apart(const struct mcg_sinks *sinks, const mcg_bind *binds, size_t count,
                    mcg_error **err)
{
  for (unsigned i = 0; i < sinks->count; i++) {
    const char *place = sinks->list[i]->place, *by = NULL;
    if (!place) continue;
    if ((by = mcg_bind_over(place, binds, count)))
      return mcg_fail(err, MCG_INVALID, "write the log elsewhere, or bind less",
                      "audit: the log %s lies in %s, which the sandbox may write", place, by);
    auto_free char *anchor = mcg_anchor_path(place);
    if (anchor && (by = mcg_bind_over(anchor, binds, count)))
      return mcg_fail(err, MCG_INVALID, "bind less, or move them with XDG_STATE_HOME",
                      "audit: the anchors of logs lie in %s, which the sandbox may write", by);
  }
  return 0;
}
