/* requirements.c: what a sandbox must be, read from configuration. What it means is in select.c. */
#include "decide/select.h"
#include "engine.h"
#include <string.h>

const char *const mcg_isolation_names[] = {
    [MCG_ISOLATION_NONE] = "none",
    [MCG_ISOLATION_NAMESPACE] = "namespace",
    [MCG_ISOLATION_CONTAINER] = "container",
    [MCG_ISOLATION_GVISOR] = "gvisor",
    [MCG_ISOLATION_VM] = "vm",
    NULL,
};
const char *const mcg_family_names[] = {[MCG_LOCAL] = "local", [MCG_HOSTED] = "hosted", NULL};

static int read_isolation(const json_t *value, const mcg_where *at, mcg_isolation *out,
                          mcg_error **err)
{
  const char *word;
  if (!value) return 0;
  if (mcg_check_string(value, at, &word, err) < 0) return -1;
  for (int i = 0; mcg_isolation_names[i]; i++)
    if (strcmp(mcg_isolation_names[i], word) == 0) {
      *out = (mcg_isolation)i;
      return 0;
    }
  const char *near = mcg_nearest(word, mcg_isolation_names);
  auto_free char *fix = near ? mcg_format("did you mean `%s`?", near)
                             : mcg_format("write none, namespace, container, gvisor or vm");
  return mcg_check_fail(at, err, fix, "\"%s\" is no isolation", word);
}

static int read_names(const json_t *value, const mcg_where *at, const json_t **out, mcg_error **err)
{
  const char *name;
  if (!value) return 0;
  if (mcg_check_list(value, at, err) < 0) return -1;
  for (size_t i = 0; i < json_array_size(value); i++) {
    const mcg_where item = {.up = at, .index = i};
    if (mcg_check_string(json_array_get(value, i), &item, &name, err) < 0) return -1;
    if (!*name) return mcg_check_fail(&item, err, "leave it out", "the name is empty");
  }
  *out = value;
  return 0;
}

static int read_flags(const json_t *value, const mcg_where *where, mcg_requirements *out,
                      mcg_error **err)
{
  bool network = false;
  const json_t *flag = json_object_get(value, "network");
  const mcg_where net = {.up = where, .key = "network"}, tty = {.up = where, .key = "pty"},
                  stays = {.up = where, .key = "persistent"};
  if (flag && mcg_check_bool(flag, &net, &network, err) < 0) return -1;
  if (flag) out->network = network;
  flag = json_object_get(value, "pty");
  if (flag && mcg_check_bool(flag, &tty, &out->pty, err) < 0) return -1;
  flag = json_object_get(value, "persistent");
  return flag ? mcg_check_bool(flag, &stays, &out->persistent, err) : 0;
}

static int read_amounts(const json_t *value, const mcg_where *where, mcg_requirements *out,
                        mcg_error **err)
{
  const struct {
    const char *key;
    double most;
    double *out;
  } rows[] = {{"memory_mb", 64.0 * 1024 * 1024, &out->memory_mb},
              {"cpu_count", 1024, &out->cpu_count},
              {"max_usd_per_minute", 1e6, &out->max_usd_per_minute}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const json_t *amount = json_object_get(value, rows[i].key);
    const mcg_where at = {.up = where, .key = rows[i].key};
    if (amount && mcg_check_number(amount, &at, 0, rows[i].most, false, rows[i].out, err) < 0)
      return -1;
  }
  out->capped = json_object_get(value, "max_usd_per_minute") != NULL;
  return 0;
}

int mcg_requirements_read(const json_t *value, const mcg_where *where, mcg_requirements *out,
                          mcg_error **err)
{
  static const char *const known[] = {
      "network", "persistent", "capabilities",       "min_isolation", "memory_mb",    "cpu_count",
      "pty",     "region",     "max_usd_per_minute", "backends",      "not_backends", NULL};
  const mcg_where isolation = {.up = where, .key = "min_isolation"},
                  capabilities = {.up = where, .key = "capabilities"},
                  backends = {.up = where, .key = "backends"},
                  not_backends = {.up = where, .key = "not_backends"},
                  region = {.up = where, .key = "region"};
  *out = (mcg_requirements){.network = -1};
  if (!value) return 0;
  const json_t *place = json_object_get(value, "region");
  if (mcg_check_keys(value, known, where, err) < 0 ||
      read_isolation(json_object_get(value, "min_isolation"), &isolation, &out->min_isolation,
                     err) < 0 ||
      read_flags(value, where, out, err) < 0 || read_amounts(value, where, out, err) < 0 ||
      read_names(json_object_get(value, "capabilities"), &capabilities, &out->capabilities, err) <
          0 ||
      read_names(json_object_get(value, "backends"), &backends, &out->backends, err) < 0 ||
      read_names(json_object_get(value, "not_backends"), &not_backends, &out->not_backends, err) <
          0 ||
      (place && mcg_check_string(place, &region, &out->region, err) < 0))
    return -1;
  out->root = json_incref((json_t *)value);
  return 0;
}

void mcg_requirements_fini(mcg_requirements *requirements)
{
  json_decref(requirements->root);
  requirements->root = NULL;
}

int mcg_requirements_new(const char *text, size_t len, mcg_requirements **out, mcg_error **err)
{
  const mcg_where where = {.key = "requirements"};
  auto_json json_t *value = mcg_json_parse(text, len, err);
  if (!value) return mcg_wrap(err, "requirements");
  auto_free mcg_requirements *made = malloc(sizeof *made);
  if (!made) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for requirements");
  if (mcg_requirements_read(value, &where, made, err) < 0) return -1;
  *out = mcg_steal_pointer(&made);
  return 0;
}

void mcg_requirements_free(mcg_requirements *requirements)
{
  if (!requirements) return;
  mcg_requirements_fini(requirements);
  free(requirements);
}
