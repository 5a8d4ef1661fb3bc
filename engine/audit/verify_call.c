/* verify_call.c: mcg_audit_verify: the reading is done on a thread, since a log may be long. */
#include "engine.h"
#include "verify.h"
#include <string.h>

typedef struct verifying {
  mcg_engine *engine;
  json_t *request;
  char *key;
  size_t key_len;
  json_t *reports;
  bool no_memory;
  mcg_text_done done;
  void *data;
} verifying;

/* The files of one log follow each other: each goes on where the one before ended. */
static void verify_files(verifying *self, const mcg_log_files *files)
{
  mcg_link link;
  for (size_t i = 0; i < files->count; i++) {
    const mcg_log_file *file = &files->list[i], *before = i ? file - 1 : NULL;
    bool begins = !before || !mcg_log_file_same(file, before);
    bool linked = file->whole && (begins || before->ends);
    if (begins) link = (mcg_link){0};
    if (begins) memset(link.head, '0', MCG_HASH_LEN);
    json_t *report = mcg_verify_linked(file, linked ? &link : NULL, self->key, self->key_len);
    if (json_array_append_new(self->reports, report) < 0) self->no_memory = true;
  }
}

static void work(void *arg)
{
  verifying *self = arg;
  mcg_log_files files = {0};
  const json_t *paths = json_object_get(self->request, "paths");
  for (size_t i = 0; i < json_array_size(paths); i++)
    mcg_log_files_add(&files, json_string_value(json_array_get(paths, i)));
  mcg_log_files_sort(&files);
  verify_files(self, &files);
  self->no_memory |= files.failed;
  mcg_log_files_fini(&files);
}

static int verify_run(void *arg, mcg_error **err)
{
  verifying *self = arg;
  if (mcg_fiber_work(self->engine, work, self, err) < 0) return -1;
  return self->no_memory ? mcg_fail(err, MCG_NOMEM, NULL, "no memory to check audit logs") : 0;
}

static void verifying_free(verifying *self)
{
  if (self->key) explicit_bzero(self->key, self->key_len);
  free(self->key);
  json_decref(self->request);
  json_decref(self->reports);
  free(self);
}

static void verify_complete(void *arg, mcg_error *error)
{
  verifying *self = arg;
  auto_free char *text = NULL;
  if (!error) {
    bool ok = true;
    for (size_t i = 0; i < json_array_size(self->reports); i++)
      ok = ok && json_is_true(json_object_get(json_array_get(self->reports, i), "ok"));
    auto_json json_t *all = json_pack("{s:b, s:O}", "ok", ok, "files", self->reports);
    text = json_dumps(all, JSON_COMPACT);
    if (!text) mcg_fail(&error, MCG_NOMEM, NULL, "no memory for the answer");
  }
  self->done(self->data, text, error);
  verifying_free(self);
}

static int read_request(verifying *self, const char *json, size_t len, mcg_error **err)
{
  static const char *const keys[] = {"paths", "hmac_key", NULL};
  const mcg_where paths = {.key = "paths"}, key = {.key = "hmac_key"};
  self->request = mcg_json_parse(json, len, err);
  if (!self->request || mcg_check_keys(self->request, keys, NULL, err) < 0) return -1;
  const json_t *list = json_object_get(self->request, "paths");
  const json_t *given = json_object_get(self->request, "hmac_key");
  if (mcg_check_list(list ? list : json_null(), &paths, err) < 0) return -1;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const mcg_where at = {.up = &paths, .index = i};
    const char *path;
    if (mcg_check_string(json_array_get(list, i), &at, &path, err) < 0) return -1;
  }
  return given ? mcg_check_bytes(given, &key, &self->key, &self->key_len, err) : 0;
}

int mcg_audit_verify(mcg_engine *engine, const char *json, size_t len, mcg_text_done done,
                     void *data, mcg_error **err)
{
  verifying *self = calloc(1, sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for an operation");
  *self = (verifying){.engine = engine, .reports = json_array(), .done = done, .data = data};
  if (read_request(self, json, len, err) == 0 &&
      mcg_op_start(engine, verify_run, verify_complete, self, NULL, err) == 0)
    return 0;
  verifying_free(self);
  return -1;
}
