/* config.c: reads a session's configuration: the keys, the candidate with its options, the
 * requirements, and what follows from them. Limits, network and environment have files of their own. */
#include "config.h"
#include "audit/audit.h"
#include "hooks.h"
#include "manifest.h"
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#define BINDS_MAX 64
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static const char *const keys[] = {"backend", "candidates",     "requirements", "limits",
                                   "network", "enforcement",    "environment",  "working_directory",
                                   "user",    "labels",         "tenant",       "run_id",
                                   "ttl_s",   "pool",           "project",      "manifest",
                                   "hooks",   "hook_timeout_s", "audit",        NULL};

static const char *const isolation_names[] = {"none",   "namespace", "container",
                                              "gvisor", "vm",        NULL};

/* ---- small ones --------------------------------------------------------------------------- */

static int optional_string(const json_t *object, const char *key, const mcg_where *up,
                           const char **out, mcg_error **err)
{
  const json_t *value = json_object_get(object, key);
  mcg_where at = {.up = up, .key = key};
  return value ? mcg_check_string(value, &at, out, err) : 0;
}

static int optional_number(const json_t *object, const char *key, const mcg_where *up, double low,
                           double high, bool whole, double *out, mcg_error **err)
{
  const json_t *value = json_object_get(object, key);
  mcg_where at = {.up = up, .key = key};
  return value ? mcg_check_number(value, &at, low, high, whole, out, err) : 0;
}

static int read_pool(const json_t *pool, const mcg_where *up, unsigned *out, mcg_error **err)
{
  static const char *const pool_keys[] = {"size", NULL};
  mcg_where at = {.up = up, .key = "pool"};
  double size = *out;
  if (!pool) return 0;
  if (mcg_check_keys(pool, pool_keys, &at, err) < 0 ||
      optional_number(pool, "size", &at, 0, 1000, true, &size, err) < 0)
    return -1;
  *out = (unsigned)size;
  return 0;
}

static int read_labels(mcg_config *config, mcg_error **err)
{
  const mcg_where where = {.key = "labels"};
  config->labels = json_object_get(config->root, "labels");
  if (!config->labels) return 0;
  if (mcg_check_object(config->labels, &where, err) < 0) return -1;
  const char *key, *text;
  json_t *value;
  json_object_foreach((json_t *)config->labels, key, value)
  {
    mcg_where at = {.up = &where, .key = key};
    if (mcg_check_string(value, &at, &text, err) < 0) return -1;
  }
  return 0;
}

static int read_enforcement(mcg_config *config, mcg_error **err)
{
  const mcg_where where = {.key = "enforcement"};
  const char *word = "required";
  if (optional_string(config->root, "enforcement", NULL, &word, err) < 0) return -1;
  config->plan.best_effort = strcmp(word, "best_effort") == 0;
  if (config->plan.best_effort || strcmp(word, "required") == 0) return 0;
  return mcg_check_fail(&where, err, "write \"required\" or \"best_effort\"", "\"%s\" is neither",
                        word);
}

/* ---- the candidate ------------------------------------------------------------------------ */

static bool type_fits(const json_t *value, mcg_type type)
{
  switch (type) {
  case MCG_T_BOOL: return json_is_boolean(value);
  case MCG_T_INT: return json_is_integer(value);
  case MCG_T_NUMBER: return json_is_number(value);
  case MCG_T_STRING:
    return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value);
  case MCG_T_LIST: return json_is_array(value) || json_object_size(value) == 0;
  case MCG_T_MAP: return json_is_object(value) || (json_is_array(value) && !json_array_size(value));
  }
  return false;
}

static const char *type_words(mcg_type type)
{
  static const char *const words[] = {"true or false",        "a whole number", "a number",
                                      "a string without NUL", "a list",         "a table"};
  return words[type];
}

static int read_options(mcg_config *config, const json_t *options, const mcg_where *up,
                        mcg_error **err)
{
  mcg_where where = {.up = up, .key = "options"};
  const mcg_option *known = config->backend->options;
  const char *names[64] = {NULL};
  for (size_t i = 0; known && known[i].name && i < 63; i++) names[i] = known[i].name;
  if (!options) options = config->no_options = json_object();
  if (!options) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the configuration");
  if (mcg_check_keys(options, names, &where, err) < 0) return -1;
  for (size_t i = 0; known && known[i].name; i++) {
    const json_t *value = json_object_get(options, known[i].name);
    mcg_where at = {.up = &where, .key = known[i].name};
    if (value && !type_fits(value, known[i].type))
      return mcg_check_fail(&at, err, NULL, "expected %s", type_words(known[i].type));
  }
  config->plan.options = options;
  return 0;
}

static int find_backend(mcg_engine *engine, mcg_config *config, const char *id, const mcg_where *up,
                        mcg_error **err)
{
  config->backend = mcg_engine_backend(engine, id);
  if (config->backend) return 0;
  const char *names[64] = {NULL};
  for (size_t i = 0; i < engine->backends.count && i < 63; i++)
    names[i] = engine->backends.list[i]->id;
  const char *near = mcg_nearest(id, names);
  auto_free char *fix = near ? mcg_format("did you mean `%s`?", near)
                             : mcg_format("use %s", names[0] ? names[0] : "a build with a backend");
  mcg_where at = {.up = up, .key = "id"};
  return mcg_check_fail(&at, err, fix, "there is no backend \"%s\"", id);
}

static int read_candidate(mcg_engine *engine, mcg_config *config, const json_t *candidate,
                          const mcg_where *where, mcg_error **err)
{
  static const char *const candidate_keys[] = {"id",           "options", "name",
                                               "max_sessions", "pool",    NULL};
  const char *id = "jail";
  double most = 0;
  if (json_is_string(candidate)) {
    if (mcg_check_string(candidate, where, &id, err) < 0) return -1;
    candidate = NULL;
  } else if (candidate && mcg_check_keys(candidate, candidate_keys, where, err) < 0) {
    return -1;
  }
  if (optional_string(candidate, "id", where, &id, err) < 0 ||
      find_backend(engine, config, id, where, err) < 0)
    return -1;
  config->name = id;
  if (optional_string(candidate, "name", where, &config->name, err) < 0 ||
      optional_number(candidate, "max_sessions", where, 1, 1e6, true, &most, err) < 0 ||
      read_pool(json_object_get(candidate, "pool"), where, &config->pool_size, err) < 0)
    return -1;
  config->max_sessions = (unsigned)most;
  return read_options(config, json_object_get(candidate, "options"), where, err);
}

static int read_candidates(mcg_engine *engine, mcg_config *config, mcg_error **err)
{
  const json_t *one = json_object_get(config->root, "backend");
  const json_t *list = json_object_get(config->root, "candidates");
  const mcg_where where = {.key = "backend"}, all = {.key = "candidates"};
  if (one && list)
    return mcg_check_fail(&all, err, "leave one of the two out", "`backend` is given as well");
  if (!list) return read_candidate(engine, config, one, &where, err);
  if (mcg_check_list(list, &all, err) < 0) return -1;
  size_t count = json_array_size(list);
  if (count > 1)
    return mcg_fail(err, MCG_UNSUPPORTED, "give one candidate",
                    "candidates: choosing among %zu is not possible in this version", count);
  if (!count)
    return mcg_fail(err, MCG_NO_CANDIDATE, "give one candidate", "candidates: the list is empty");
  const mcg_where first = {.up = &all, .index = 0};
  return read_candidate(engine, config, json_array_get(list, 0), &first, err);
}

/* ---- where commands run, and as whom ------------------------------------------------------ */

static int inherit(mcg_config *config, mcg_error **err)
{
  const json_t *names = json_object_get(config->plan.options, "inherit_env");
  for (size_t i = 0; i < json_array_size(names); i++) {
    const char *name = json_string_value(json_array_get(names, i));
    const char *value = name ? getenv(name) : NULL;
    if (!name || !mcg_environment_name_ok(name, strlen(name)))
      return mcg_fail(err, MCG_INVALID, NULL, "inherit_env[%zu] is no name of a variable", i + 1);
    auto_free char *text = value ? mcg_format("%s=%s", name, value) : NULL;
    if (text && mcg_environment_set(&config->environment, text, strlen(text), err) < 0) return -1;
  }
  return 0;
}

/* Directories of the option `path` come first in PATH. */
static int extend_path(mcg_config *config, mcg_error **err)
{
  const json_t *list = json_object_get(config->plan.options, "path");
  if (!json_array_size(list)) return 0;
  auto_free char *path = strdup("PATH=");
  for (size_t i = 0; path && i < json_array_size(list); i++) {
    const char *directory = json_string_value(json_array_get(list, i));
    char *longer = mcg_format("%s%s:", path, directory ? directory : "");
    free(path);
    path = longer;
  }
  auto_free char *whole = path ? mcg_format("%s%s", path, DEFAULT_PATH) : NULL;
  if (!whole) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the configuration");
  return mcg_environment_set(&config->environment, whole, strlen(whole), err);
}

/* The candidate's own word goes over the config's. */
static int read_defaults(mcg_config *config, mcg_error **err)
{
  const json_t *options = config->plan.options;
  const mcg_where outer = {.key = "environment"}, backend = {.key = "backend"};
  const mcg_where candidate = {.up = &backend, .key = "options"},
                  inner = {.up = &candidate, .key = "environment"};
  if (optional_string(config->root, "working_directory", NULL, &config->plan.working_directory,
                      err) < 0 ||
      optional_string(options, "working_directory", &candidate, &config->plan.working_directory,
                      err) < 0 ||
      optional_string(config->root, "user", NULL, &config->user, err) < 0 ||
      optional_string(options, "user", &candidate, &config->user, err) < 0)
    return -1;
  config->plan.user = config->user;
  if (inherit(config, err) < 0 || extend_path(config, err) < 0) return -1;
  if (mcg_environment_read(json_object_get(config->root, "environment"), &outer,
                           &config->environment, err) < 0)
    return -1;
  return mcg_environment_read(json_object_get(options, "environment"), &inner, &config->environment,
                              err);
}

/* Its environment is the first word; the config's and the candidate's go over it. */
static int read_manifest(mcg_config *config, mcg_error **err)
{
  const json_t *value = json_object_get(config->root, "manifest");
  if (!value) return 0;
  config->manifest = mcg_manifest_parse(value, err);
  if (!config->manifest) return -1;
  for (const char *const *pair = mcg_manifest_environment(config->manifest); *pair; pair++)
    if (mcg_environment_set(&config->environment, *pair, strlen(*pair), err) < 0) return -1;
  return 0;
}

static int read_project(mcg_config *config, mcg_error **err)
{
  const mcg_where where = {.key = "project"};
  struct stat about;
  if (optional_string(config->root, "project", NULL, &config->plan.project, err) < 0) return -1;
  const char *path = config->plan.project;
  if (!path) return 0;
  if (*path != '/')
    return mcg_check_fail(&where, err, NULL, "\"%s\" is not an absolute path", path);
  if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) return 0;
  return mcg_fail(err, MCG_NOT_FOUND, NULL, "project: %s is no directory", path);
}

/* ---- binds: "SRC:DST", "SRC:DST:rw", or {source, target, writable} ------------------------ */

static int bind_from_text(mcg_config *config, const char *text, const mcg_where *where,
                          mcg_bind *out, mcg_error **err)
{
  char *copy = strdup(text);
  if (!copy) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the configuration");
  config->bind_texts[config->bind_text_count++] = copy;
  char *target = strchr(copy, ':'), *mode = target ? strchr(target + 1, ':') : NULL;
  if (target) *target++ = '\0';
  if (mode) *mode++ = '\0';
  if (mode && strcmp(mode, "rw") != 0 && strcmp(mode, "ro") != 0)
    return mcg_check_fail(where, err, "write SRC:DST, or SRC:DST:rw", "\"%s\" is neither rw nor ro",
                          mode);
  *out = (mcg_bind){.source = copy,
                    .target = target && *target ? target : copy,
                    .writable = mode && strcmp(mode, "rw") == 0};
  return 0;
}

static int bind_from_table(const json_t *table, const mcg_where *where, mcg_bind *out,
                           mcg_error **err)
{
  static const char *const bind_keys[] = {"source", "target", "writable", NULL};
  if (mcg_check_keys(table, bind_keys, where, err) < 0 ||
      optional_string(table, "source", where, &out->source, err) < 0)
    return -1;
  if (!out->source) return mcg_check_fail(where, err, NULL, "it needs a `source`");
  out->target = out->source;
  const json_t *writable = json_object_get(table, "writable");
  mcg_where at = {.up = where, .key = "writable"};
  if (writable && mcg_check_bool(writable, &at, &out->writable, err) < 0) return -1;
  return optional_string(table, "target", where, &out->target, err);
}

static bool has_dots(const char *path)
{
  for (const char *at = path; (at = strstr(at, "/..")); at += 3)
    if (at[3] == '/' || at[3] == '\0') return true;
  return false;
}

static int read_binds(mcg_config *config, mcg_error **err)
{
  const mcg_where where = {.key = "binds"};
  const json_t *list = json_object_get(config->plan.options, "binds");
  size_t count = json_array_size(list);
  if (!count) return 0;
  if (count > BINDS_MAX) return mcg_check_fail(&where, err, NULL, "more than %d", BINDS_MAX);
  config->binds = calloc(count, sizeof *config->binds);
  config->bind_texts = calloc(count, sizeof *config->bind_texts);
  if (!config->binds || !config->bind_texts)
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the configuration");
  for (size_t i = 0; i < count; i++) {
    const json_t *item = json_array_get(list, i);
    mcg_where at = {.up = &where, .index = i};
    mcg_bind *bind = &config->binds[i];
    int rc = json_is_string(item) ? bind_from_text(config, json_string_value(item), &at, bind, err)
                                  : bind_from_table(item, &at, bind, err);
    if (rc < 0) return -1;
    if (*bind->source != '/' || *bind->target != '/' || has_dots(bind->source) ||
        has_dots(bind->target))
      return mcg_check_fail(&at, err, "write absolute paths without \"..\"",
                            "%s cannot be bound to %s", bind->source, bind->target);
    if (access(bind->source, F_OK) < 0)
      return mcg_fail(err, MCG_NOT_FOUND, NULL, "binds[%zu]: %s does not exist on the host", i + 1,
                      bind->source);
  }
  config->plan.binds = config->binds;
  config->plan.bind_count = count;
  return 0;
}

/* ---- requirements, and what this candidate can do ----------------------------------------- */

static int read_isolation(const json_t *requirements, const mcg_where *where, int *out,
                          mcg_error **err)
{
  const char *word = NULL;
  if (optional_string(requirements, "min_isolation", where, &word, err) < 0) return -1;
  if (!word) return 0;
  for (int i = 0; isolation_names[i]; i++)
    if (strcmp(isolation_names[i], word) == 0) {
      *out = i;
      return 0;
    }
  mcg_where at = {.up = where, .key = "min_isolation"};
  const char *near = mcg_nearest(word, isolation_names);
  auto_free char *fix = near ? mcg_format("did you mean `%s`?", near)
                             : mcg_format("write none, namespace, container, gvisor or vm");
  return mcg_check_fail(&at, err, fix, "\"%s\" is no isolation", word);
}

static int no_candidate(const mcg_config *config, const char *fix, const char *why, mcg_error **err)
{
  return mcg_fail(err, MCG_NO_CANDIDATE, fix, "%s does not meet requirements.%s", config->name,
                  why);
}

static int meet_amount(mcg_config *config, const char *key, double required, double unit,
                       mcg_limit *limit, mcg_error **err)
{
  uint64_t amount = (uint64_t)(required * unit + 0.5);
  if (limit->written && limit->value < amount) {
    auto_free char *fix = mcg_format("raise limits.%s, or ask for less", key);
    return no_candidate(config, fix, key, err);
  }
  if (!limit->written && amount > limit->value) limit->value = amount;
  return 0;
}

static int meet_requirements(mcg_config *config, mcg_error **err)
{
  static const char *const known[] = {"min_isolation", "network", "memory_mb",
                                      "cpu_count",     "pty",     NULL};
  const mcg_where where = {.key = "requirements"};
  const json_t *wanted = json_object_get(config->root, "requirements");
  int isolation = MCG_ISOLATION_NONE;
  bool flag;
  double memory = 0, cpu = 0;
  if (!wanted) return 0;
  if (mcg_check_keys(wanted, known, &where, err) < 0 ||
      read_isolation(wanted, &where, &isolation, err) < 0 ||
      optional_number(wanted, "memory_mb", &where, 0, 64.0 * 1024 * 1024, false, &memory, err) <
          0 ||
      optional_number(wanted, "cpu_count", &where, 0, 1024, false, &cpu, err) < 0)
    return -1;
  if ((int)config->backend->isolation < isolation) {
    if (config->backend->isolation == MCG_ISOLATION_NONE)
      return mcg_fail(err, MCG_UNENFORCEABLE, "use the jail backend",
                      "requirements.min_isolation: %s isolates nothing", config->name);
    return no_candidate(config, "ask for `namespace`, or use another backend", "min_isolation",
                        err);
  }
  const json_t *network = json_object_get(wanted, "network"), *pty = json_object_get(wanted, "pty");
  const mcg_where net = {.up = &where, .key = "network"}, tty = {.up = &where, .key = "pty"};
  if (pty && mcg_check_bool(pty, &tty, &flag, err) < 0) return -1;
  if (network) {
    if (mcg_check_bool(network, &net, &flag, err) < 0) return -1;
    if (flag != (config->plan.network != MCG_NETWORK_NONE))
      return no_candidate(config, flag ? "set network = \"host\"" : "leave network = \"host\" out",
                          "network", err);
  }
  if (config->backend->isolation == MCG_ISOLATION_NONE) return 0;
  mcg_limits *limits = &config->plan.limits;
  if (meet_amount(config, "memory_mb", memory, 1 << 20, &limits->memory_bytes, err) < 0) return -1;
  return meet_amount(config, "cpu_count", cpu, 1000, &limits->cpu_milli, err);
}

/* A backend that isolates nothing takes no defaults, and refuses what it cannot keep. */
static int without_isolation(mcg_config *config, bool network_written, mcg_error **err)
{
  mcg_plan *plan = &config->plan;
  if (!plan->best_effort && mcg_limits_refuse_written(&plan->limits, config->name, err) < 0)
    return -1;
  if (network_written && plan->network == MCG_NETWORK_NONE && !plan->best_effort)
    return mcg_fail(err, MCG_UNENFORCEABLE, "use the jail backend, or network = \"host\"",
                    "network: %s cannot keep its commands from the network", config->name);
  plan->network = MCG_NETWORK_HOST;
  return 0;
}

/* ---- all of it ---------------------------------------------------------------------------- */

static int read_all(mcg_engine *engine, mcg_config *config, mcg_error **err)
{
  const mcg_where limits = {.key = "limits"}, network = {.key = "network"};
  mcg_plan *plan = &config->plan;
  bool network_written;
  double ttl = 0;
  if (mcg_check_keys(config->root, keys, NULL, err) < 0 ||
      read_pool(json_object_get(config->root, "pool"), NULL, &config->pool_size, err) < 0 ||
      read_candidates(engine, config, err) < 0 || read_manifest(config, err) < 0 ||
      read_defaults(config, err) < 0 || read_enforcement(config, err) < 0 ||
      read_labels(config, err) < 0 ||
      mcg_limits_read(json_object_get(config->root, "limits"), &limits, &plan->limits, err) < 0 ||
      mcg_network_read(json_object_get(config->root, "network"), &network, &plan->network,
                       &network_written, err) < 0 ||
      optional_string(config->root, "tenant", NULL, &config->tenant, err) < 0 ||
      optional_string(config->root, "run_id", NULL, &config->run_id, err) < 0 ||
      optional_number(config->root, "ttl_s", NULL, 0.001, 1e9, false, &ttl, err) < 0 ||
      read_project(config, err) < 0 || read_binds(config, err) < 0 ||
      mcg_hooks_read(config, err) < 0 ||
      mcg_audit_read(engine, json_object_get(config->root, "audit"), &config->audit, err) < 0)
    return -1;
  config->ttl_ms = (int64_t)(ttl * 1000 + 0.5);
  bool isolated = config->backend->isolation != MCG_ISOLATION_NONE;
  if (!isolated && without_isolation(config, network_written, err) < 0) return -1;
  if (isolated) mcg_limits_default(&plan->limits);
  if (meet_requirements(config, err) < 0) return -1; /* may raise what was not written */
  if (isolated) mcg_limits_default(&plan->limits);
  return 0;
}

int mcg_config_read(mcg_engine *engine, const char *text, size_t len, mcg_config **out,
                    mcg_error **err)
{
  mcg_config *config = calloc(1, sizeof *config);
  if (!config) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the configuration");
  config->root = mcg_json_parse(text, len, err);
  int rc = config->root ? read_all(engine, config, err) : -1;
  if (rc < 0) {
    mcg_config_free(config);
    return mcg_wrap(err, "configuration");
  }
  *out = config;
  return 0;
}

const char *mcg_option_string(const mcg_plan *plan, const char *name)
{
  return json_string_value(json_object_get(plan->options, name));
}

bool mcg_option_bool(const mcg_plan *plan, const char *name)
{
  return json_is_true(json_object_get(plan->options, name));
}

void mcg_config_free(mcg_config *config)
{
  if (!config) return;
  mcg_environment_free(config->environment);
  for (size_t i = 0; i < config->bind_text_count; i++) free(config->bind_texts[i]);
  free(config->bind_texts);
  free(config->binds);
  mcg_manifest_free(config->manifest);
  mcg_sinks_free(config->audit);
  json_decref(config->no_options);
  json_decref(config->root);
  free(config);
}
