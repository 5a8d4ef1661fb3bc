/* store.c: what all kinds of stores share: ids, parts, which kind is meant. */
#include "store.h"
#include "decide/tenant.h"
#include <string.h>

#define PREFIX_MAX 64

static bool ordinary(char c)
{
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Nothing that means something in a path, a URL or a terminal. */
static bool component(const char *text, size_t len, size_t most)
{
  if (!len || len > most || !ordinary(*text)) return false;
  for (size_t i = 0; i < len; i++)
    if (!ordinary(text[i]) && text[i] != '.' && text[i] != '_' && text[i] != '-') return false;
  return true;
}

int mcg_snapshot_id_check(const char *id, size_t len, mcg_error **err)
{
  if (component(id, len, MCG_SNAPSHOT_ID_MAX)) return 0;
  return mcg_fail(err, MCG_INVALID,
                  "use letters, digits, '.', '_' and '-', 1 to 128 of them, the first a letter or "
                  "digit",
                  "\"%.*s\" cannot be the id of a snapshot", len > 140 ? 140 : (int)len, id);
}

int mcg_store_prefix_check(const json_t *prefix, const mcg_where *where, mcg_error **err)
{
  const char *text;
  if (mcg_check_string(prefix, where, &text, err) < 0) return -1;
  if (component(text, strlen(text), PREFIX_MAX)) return 0;
  return mcg_check_fail(
      where, err,
      "use letters, digits, '.', '_' and '-', 1 to 64 of them, the first a letter "
      "or digit",
      "\"%.70s\" cannot name a part of a store", text);
}

void mcg_store_part(const char *tenant, const char *prefix, char out[MCG_STORE_PART_MAX])
{
  char key[MCG_TENANT_KEY];
  if (tenant) mcg_tenant_key(tenant, key);
  if (prefix)
    snprintf(out, MCG_STORE_PART_MAX, "prefix-%s", prefix);
  else
    snprintf(out, MCG_STORE_PART_MAX, "%s%s", tenant ? "tenant-" : "common", tenant ? key : "");
}

int mcg_store_open(mcg_engine *engine, const json_t *options, const mcg_where *where,
                   mcg_store **out, mcg_error **err)
{
  const mcg_where at = {.up = where, .key = "type"};
  const json_t *value = options ? json_object_get(options, "type") : NULL;
  const char *type = "file";
  if (options && mcg_check_object(options, where, err) < 0) return -1;
  if (options && mcg_check_string(value ? value : json_null(), &at, &type, err) < 0) return -1;
  if (strcmp(type, "file") == 0) return mcg_store_file_open(engine, options, where, out, err);
  if (strcmp(type, "s3") == 0 || strcmp(type, "gcs") == 0)
    return mcg_fail(err, MCG_UNSUPPORTED, "use mooncage.store.file { dir = ... }",
                    "this version has no snapshot store \"%s\"", type);
  return mcg_check_fail(&at, err, "use mooncage.store.file { dir = ... }",
                        "there is no store \"%s\"", type);
}

void mcg_store_close(mcg_store *store)
{
  if (store) store->type->close(store);
}

const char *mcg_store_directory(const mcg_store *store)
{
  return mcg_store_file_directory(store);
}

int mcg_put_failed(mcg_put *put, mcg_error **err)
{
  if (put->failure)
    *err = mcg_steal_pointer(&put->failure);
  else
    mcg_fail(err, MCG_INTERNAL, NULL, "the store took no more");
  return -1;
}

/* ---- a host's bytes ----------------------------------------------------------------------- */

typedef struct turnstile {
  mcg_engine *engine;
  mcg_wait wait;
} turnstile;

static void turnstile_open(void *data)
{
  turnstile *self = data;
  mcg_wait_wake(self->engine, &self->wait);
}

int mcg_put_all(mcg_put *put, long (*source)(void *data, void *buffer, size_t cap), void *data,
                mcg_error **err)
{
  const mcg_store_type *type = put->store->type;
  const size_t chunk = 65536;
  auto_free char *buffer = malloc(chunk);
  turnstile gate = {.engine = put->store->engine};
  if (!buffer) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to save a snapshot");
  mcg_wait_init(&gate.wait);
  put->on_ready = turnstile_open;
  put->data = &gate;
  int rc = 0;
  long len = 0;
  while (rc == 0 && (len = source(data, buffer, chunk)) > 0) {
    if (!type->put(put, buffer, (size_t)len)) rc = mcg_put_failed(put, err);
    while (rc == 0 && !type->put_ready(put)) rc = mcg_wait_park(gate.engine, &gate.wait, -1, err);
  }
  put->on_ready = NULL;
  if (rc == 0 && len < 0) rc = mcg_fail(err, MCG_CANCELED, NULL, "the source of the data stopped");
  return rc;
}
