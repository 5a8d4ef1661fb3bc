/* settings.c: reads what a configuration says of snapshots. */
#include "settings.h"
#include "audit/audit.h"
#include "config/config.h"
#include <string.h>

#define MAX_MB_DEFAULT 8192
#define PATTERNS_MAX 256
#define PATTERN_MAX 1024

static int read_word(const json_t *value, const mcg_where *where, const char *const *words,
                     unsigned *out, mcg_error **err)
{
  const char *text;
  if (!value) return 0;
  if (mcg_check_string(value, where, &text, err) < 0) return -1;
  for (unsigned i = 0; words[i]; i++)
    if (strcmp(words[i], text) == 0) return *out = i, 0;
  auto_free char *fix = mcg_names_fix(text, words);
  return mcg_check_fail(where, err, fix, "\"%s\" is none of its values", text);
}

int mcg_mismatch_read(const json_t *value, const mcg_where *where, mcg_on_mismatch *out,
                      mcg_error **err)
{
  static const char *const words[] = {"error", "warn", "ignore", NULL};
  unsigned which = *out;
  if (read_word(value, where, words, &which, err) < 0) return -1;
  *out = (mcg_on_mismatch)which;
  return 0;
}

int mcg_exclude_check(const json_t *list, const mcg_where *where, mcg_error **err)
{
  if (!list) return 0;
  if (mcg_check_list(list, where, err) < 0) return -1;
  if (json_array_size(list) > PATTERNS_MAX)
    return mcg_check_fail(where, err, "name directories that hold them", "more than %d",
                          PATTERNS_MAX);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const mcg_where at = {.up = where, .index = i};
    const char *text;
    if (mcg_check_string(json_array_get(list, i), &at, &text, err) < 0) return -1;
    if (!*text || *text == '/' || strlen(text) > PATTERN_MAX)
      return mcg_check_fail(&at, err,
                            "write a path in the workspace, such as \"build\" or \"**/*.o\"",
                            "\"%.80s\" is no path in the workspace", text);
  }
  return 0;
}

static int read_snapshot(mcg_snapshots *out, const json_t *table, mcg_error **err)
{
  static const char *const keys[] = {"id",      "restore", "save", "on_mismatch",
                                     "exclude", "max_mb",  NULL};
  static const char *const restores[] = {"if_exists", "required", "never", NULL};
  static const char *const saves[] = {"on_success", "always", "never", NULL};
  const mcg_where top = {.key = "snapshot"};
  const mcg_where restore = {.up = &top, .key = "restore"}, save = {.up = &top, .key = "save"},
                  mismatch = {.up = &top, .key = "on_mismatch"},
                  exclude = {.up = &top, .key = "exclude"};
  unsigned restores_at = 0, saves_at = 0;
  double max_mb = MAX_MB_DEFAULT;
  if (table && (mcg_check_keys(table, keys, &top, err) < 0 ||
                mcg_optional_string(table, "id", &top, &out->id, err) < 0 ||
                mcg_optional_number(table, "max_mb", &top, 1, 1e9, false, &max_mb, err) < 0))
    return -1;
  if (out->id && mcg_snapshot_id_check(out->id, strlen(out->id), err) < 0)
    return mcg_wrap(err, "snapshot.id");
  if (read_word(json_object_get(table, "restore"), &restore, restores, &restores_at, err) < 0 ||
      read_word(json_object_get(table, "save"), &save, saves, &saves_at, err) < 0 ||
      mcg_mismatch_read(json_object_get(table, "on_mismatch"), &mismatch, &out->on_mismatch, err) <
          0 ||
      mcg_exclude_check(json_object_get(table, "exclude"), &exclude, err) < 0)
    return -1;
  if (!out->id && (json_object_get(table, "restore") || json_object_get(table, "save")))
    return mcg_check_fail(&top, err, "say which snapshot with `id`",
                          "`restore` and `save` are of the snapshot that `id` names");
  out->restore = (mcg_restore_when)restores_at;
  out->save = (mcg_save_when)saves_at;
  out->exclude = json_object_get(table, "exclude");
  out->max_bytes = (uint64_t)(max_mb * (1 << 20));
  return 0;
}

int mcg_snapshots_read(mcg_engine *engine, mcg_config *config, mcg_error **err)
{
  const mcg_where top = {.key = "store_prefix"};
  const json_t *prefix = json_object_get(config->root, "store_prefix");
  mcg_snapshots *out = &config->snapshots;
  if (prefix && mcg_store_prefix_check(prefix, &top, err) < 0) return -1;
  mcg_store_part(config->tenant, json_string_value(prefix), out->part);
  out->options = json_object_get(config->root, "snapshot_store");
  if (read_snapshot(out, json_object_get(config->root, "snapshot"), err) < 0) return -1;
  mcg_store *store;
  return out->options || out->id ? mcg_snapshots_store(engine, config, &store, err) : 0;
}

static int not_apart(const mcg_where *where, const char *place, const char *by, mcg_error **err)
{
  return mcg_check_fail(where, err, "keep snapshots elsewhere, or give the sandbox less",
                        "the sandbox may change %s, where snapshots are, by way of %s", place, by);
}

int mcg_snapshots_apart(const mcg_config *config, const mcg_store *store, const mcg_where *where,
                        mcg_error **err)
{
  const mcg_plan *plan = &config->plan;
  const char *place = mcg_store_directory(store);
  bool walled = config->backend->isolation != MCG_ISOLATION_NONE;
  const char *own[] = {plan->project, walled ? NULL : plan->working_directory};
  const mcg_bind all_of_it = {.source = place, .writable = true};
  const char *by = place ? mcg_bind_over(place, config->binds, plan->bind_count) : NULL;
  for (size_t i = 0; place && !by && i < plan->bind_count; i++)
    if (config->binds[i].writable && mcg_bind_over(config->binds[i].source, &all_of_it, 1))
      by = config->binds[i].source; /* a part of it is bound */
  for (size_t i = 0; place && !by && i < sizeof own / sizeof *own; i++) {
    const mcg_bind view = {.source = own[i], .writable = true}; /* apply writes what was changed */
    if (own[i] && mcg_bind_over(place, &view, 1)) by = own[i];
  }
  return by ? not_apart(where, place, by, err) : 0;
}

int mcg_snapshots_store(mcg_engine *engine, mcg_config *config, mcg_store **out, mcg_error **err)
{
  const mcg_where where = {.key = "snapshot_store"};
  mcg_snapshots *snapshots = &config->snapshots;
  if (!snapshots->store) {
    mcg_store *made;
    if (mcg_store_open(engine, snapshots->options, &where, &made, err) < 0) return -1;
    if (mcg_snapshots_apart(config, made, &where, err) < 0) {
      mcg_store_close(made);
      return -1;
    }
    snapshots->store = made;
  }
  *out = snapshots->store;
  return 0;
}

void mcg_snapshots_fini(mcg_snapshots *snapshots)
{
  mcg_store_close(snapshots->store);
}
