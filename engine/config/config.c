/* config.c: reads a session's configuration for one candidate: the keys, and what follows from them.
 * The candidate, requirements, limits, network and environment have files of their own. */
#include "decide/candidate.h"
#include "audit/audit.h"
#include "decide/hooks.h"
#include "manifest.h"
#include "decide/pipeline.h"
#include "decide/tenant.h"
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#define BINDS_MAX 64
#define RUN_ID_MAX 256
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* clang-format off */
static const char *const keys[] = {
  "backend",
  "candidates",
  "requirements",
  "limits",
  "network",
  "enforcement",
  "environment",
  "working_directory",
  "user",
  "labels",
  "tenant",
  "run_id",
  "ttl_s",
  "capture_live_cost",
  "pool",
  "project",
  "manifest",
  "hooks",
  "hook_timeout_s",
  "audit",
  "selector",
  "failover",
  "tools",
  "allowed_tools",
  "guardrail",
  "snapshot_store",
  "snapshot",
  "store_prefix",
  NULL,
};
/* clang-format on */

/* ---- small ones --------------------------------------------------------------------------- */

int mcg_optional_string(const json_t *object, const char *key, const mcg_where *up,
                        const char **out, mcg_error **err)
{
  const json_t *value = json_object_get(object, key);
  mcg_where at = {.up = up, .key = key};
  return value ? mcg_check_string(value, &at, out, err) : 0;
}

int mcg_optional_number(const json_t *object, const char *key, const mcg_where *up, double low,
                        double high, bool whole, double *out, mcg_error **err)
{
  const json_t *value = json_object_get(object, key);
  mcg_where at = {.up = up, .key = key};
  return value ? mcg_check_number(value, &at, low, high, whole, out, err) : 0;
}

int mcg_pool_size_read(const json_t *pool, const mcg_where *up, unsigned *out, mcg_error **err)
{
  static const char *const pool_keys[] = {"size", NULL};
  mcg_where at = {.up = up, .key = "pool"};
  double size = *out;
  if (!pool) return 0;
  if (mcg_check_keys(pool, pool_keys, &at, err) < 0 ||
      mcg_optional_number(pool, "size", &at, 0, 1000, true, &size, err) < 0)
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

/* For whom, and of which run. Both end up in logs, neither in a path. */
static int read_identity(mcg_config *config, mcg_error **err)
{
  const mcg_where tenant = {.key = "tenant"}, run = {.key = "run_id"};
  const json_t *id = json_object_get(config->root, "tenant");
  if (id && mcg_tenant_check(id, &tenant, err) < 0) return -1;
  config->tenant = json_string_value(id);
  if (mcg_optional_string(config->root, "run_id", NULL, &config->run_id, err) < 0) return -1;
  const char *text = config->run_id ? config->run_id : "x";
  if (!*text || strlen(text) > RUN_ID_MAX)
    return mcg_check_fail(&run, err, "give a shorter name, or none", "it must be 1 to %d bytes",
                          RUN_ID_MAX);
  for (const char *c = text; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 127)
      return mcg_check_fail(&run, err, "leave it out", "it holds a control character");
  return 0;
}

static int read_enforcement(mcg_config *config, mcg_error **err)
{
  const mcg_where where = {.key = "enforcement"};
  const char *word = "required";
  if (mcg_optional_string(config->root, "enforcement", NULL, &word, err) < 0) return -1;
  config->plan.best_effort = strcmp(word, "best_effort") == 0;
  if (config->plan.best_effort || strcmp(word, "required") == 0) return 0;
  return mcg_check_fail(&where, err, "write \"required\" or \"best_effort\"", "\"%s\" is neither",
                        word);
}

/* ---- the candidate ------------------------------------------------------------------------ */

/* `backend`, or the one there is in `candidates`: choosing among several is choice.c's. */
static int read_the_candidate(mcg_engine *engine, mcg_config *config, const mcg_where *at,
                              mcg_error **err)
{
  const json_t *one = json_object_get(config->root, "backend");
  const json_t *list = json_object_get(config->root, "candidates");
  const mcg_where where = {.key = "backend"}, all = {.key = "candidates"};
  if (one && list)
    return mcg_check_fail(&all, err, "leave one of the two out", "`backend` is given as well");
  if (!list) return mcg_candidate_read(engine, config, one, at ? at : &where, err);
  if (mcg_check_list(list, &all, err) < 0) return -1;
  if (json_array_size(list) > 1)
    return mcg_check_fail(&all, err, "give one", "there are several, and nobody to choose");
  if (!json_array_size(list))
    return mcg_fail(err, MCG_NO_CANDIDATE, "give one candidate", "candidates: the list is empty");
  const mcg_where first = {.up = &all, .index = 0};
  return mcg_candidate_read(engine, config, json_array_get(list, 0), &first, err);
}

/* ---- where commands run, and as whom ------------------------------------------------------ */

static int inherit(mcg_config *config, mcg_error **err)
{
  const json_t *names = json_object_get(config->plan.options, "inherit_env");
  for (size_t i = 0; i < json_array_size(names); i++) {
    const char *name = json_string_value(json_array_get(names, i));
    const char *value = name ? getenv(name) : NULL;
    if (!name || !mcg_environment_name_ok(name, strlen(name)))
      return mcg_fail(err, MCG_INVALID, "use letters, digits and _",
                      "inherit_env[%zu] is no name of a variable", i + 1);
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

/* One that is relative is the backend's to refuse. */
static int read_directory(mcg_config *config, const mcg_where *candidate, mcg_error **err)
{
  const char *text = NULL, *own = NULL;
  if (mcg_optional_string(config->root, "working_directory", NULL, &text, err) < 0 ||
      mcg_optional_string(config->plan.options, "working_directory", candidate, &own, err) < 0)
    return -1;
  const mcg_where where = {.up = own ? candidate : NULL, .key = "working_directory"};
  if (own) text = own;
  if (!text) return 0;
  if (mcg_path_climbs(text))
    return mcg_check_fail(&where, err, "write the path that you mean, without \"..\"",
                          "\"%s\" has \"..\" in it", text);
  config->directory = strdup(text);
  if (!config->directory) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the configuration");
  mcg_path_clean(config->directory);
  config->plan.working_directory = config->directory;
  return 0;
}

/* The candidate's own word goes over the config's. */
static int read_defaults(mcg_config *config, const mcg_where *at, mcg_error **err)
{
  const json_t *options = config->plan.options;
  const mcg_where outer = {.key = "environment"}, backend = {.key = "backend"};
  const mcg_where candidate = {.up = at ? at : &backend, .key = "options"},
                  inner = {.up = &candidate, .key = "environment"};
  if (read_directory(config, &candidate, err) < 0 ||
      mcg_optional_string(config->root, "user", NULL, &config->user, err) < 0 ||
      mcg_optional_string(options, "user", &candidate, &config->user, err) < 0)
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
  config->plan.users = mcg_manifest_users(config->manifest, &config->plan.user_count);
  return 0;
}

/* Users exist where a range of uids does. */
static int check_users(const mcg_config *config, mcg_error **err)
{
  if (!config->plan.user_count) return 0;
  for (const char *const *name = config->traits.capabilities; name && *name; name++)
    if (strcmp(*name, "users") == 0) return 0;
  return mcg_fail(err, MCG_UNSUPPORTED,
                  "use mooncage.jail { profile = \"packages\" }, or leave manifest.users out",
                  "manifest.users: %s has one uid, and cannot be given users of its own",
                  config->name);
}

static int read_project(mcg_config *config, mcg_error **err)
{
  const mcg_where where = {.key = "project"};
  struct stat about;
  if (mcg_optional_string(config->root, "project", NULL, &config->plan.project, err) < 0) return -1;
  const char *path = config->plan.project;
  if (!path) return 0;
  if (*path != '/')
    return mcg_check_fail(&where, err, "write it from / on", "\"%s\" is not an absolute path",
                          path);
  if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) return 0;
  return mcg_fail(err, MCG_NOT_FOUND, "name a directory that is there",
                  "project: %s is no directory", path);
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
      mcg_optional_string(table, "source", where, &out->source, err) < 0)
    return -1;
  if (!out->source)
    return mcg_check_fail(where, err, "name what of the host it shows", "it needs a `source`");
  out->target = out->source;
  const json_t *writable = json_object_get(table, "writable");
  mcg_where at = {.up = where, .key = "writable"};
  if (writable && mcg_check_bool(writable, &at, &out->writable, err) < 0) return -1;
  return mcg_optional_string(table, "target", where, &out->target, err);
}

/* The target is compared with other places inside. */
static int clean_target(mcg_config *config, mcg_bind *bind, mcg_error **err)
{
  char *copy = strdup(bind->target);
  if (!copy) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the configuration");
  config->bind_texts[config->bind_text_count++] = copy;
  mcg_path_clean(copy);
  bind->target = copy;
  return 0;
}

static int read_binds(mcg_config *config, mcg_error **err)
{
  const mcg_where where = {.key = "binds"};
  const json_t *list = json_object_get(config->plan.options, "binds");
  size_t count = json_array_size(list);
  if (!count) return 0;
  if (count > BINDS_MAX)
    return mcg_check_fail(&where, err, "bind a directory that holds them", "more than %d",
                          BINDS_MAX);
  config->binds = calloc(count, sizeof *config->binds);
  config->bind_texts = calloc(count, 2 * sizeof *config->bind_texts);
  if (!config->binds || !config->bind_texts)
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the configuration");
  for (size_t i = 0; i < count; i++) {
    const json_t *item = json_array_get(list, i);
    mcg_where at = {.up = &where, .index = i};
    mcg_bind *bind = &config->binds[i];
    int rc = json_is_string(item) ? bind_from_text(config, json_string_value(item), &at, bind, err)
                                  : bind_from_table(item, &at, bind, err);
    if (rc < 0) return -1;
    if (*bind->source != '/' || *bind->target != '/' || mcg_path_climbs(bind->source) ||
        mcg_path_climbs(bind->target))
      return mcg_check_fail(&at, err, "write absolute paths without \"..\"",
                            "%s cannot be bound to %s", bind->source, bind->target);
    if (access(bind->source, F_OK) < 0)
      return mcg_fail(err, MCG_NOT_FOUND, "make it first, or name what is there",
                      "binds[%zu]: %s does not exist on the host", i + 1, bind->source);
    if (clean_target(config, bind, err) < 0) return -1;
  }
  config->plan.binds = config->binds;
  config->plan.bind_count = count;
  return 0;
}

/* ---- limits ------------------------------------------------------------------------------- */

/* A backend that isolates nothing takes no defaults, and refuses what it cannot keep. What is required
 * raises what was not written, and the disk follows the memory. */
static int settle_limits(mcg_config *config, mcg_error **err)
{
  mcg_limits *limits = &config->plan.limits;
  if (config->traits.isolation == MCG_ISOLATION_NONE)
    return config->plan.best_effort ? 0 : mcg_limits_refuse_written(limits, config->name, err);
  mcg_limits_default(limits);
  mcg_candidate_raise(config);
  mcg_limits_default(limits);
  return 0;
}

/* A name that is misspelt would let in what was to be kept out. */
static int known_backends(const mcg_engine *engine, const json_t *list, const char *key,
                          mcg_error **err)
{
  const mcg_where where = {.key = "requirements"}, all = {.up = &where, .key = key};
  const char *names[64] = {NULL};
  for (size_t i = 0; i < engine->backends.count && i < 63; i++)
    names[i] = engine->backends.list[i]->id;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *id = json_string_value(json_array_get(list, i));
    if (mcg_engine_backend(engine, id)) continue;
    const mcg_where at = {.up = &all, .index = i};
    auto_free char *fix = mcg_names_fix(id, names);
    return mcg_check_fail(&at, err, fix, "there is no backend \"%s\"", id);
  }
  return 0;
}

static int read_required(mcg_engine *engine, mcg_config *config, mcg_error **err)
{
  const mcg_where where = {.key = "requirements"};
  mcg_requirements *wanted = &config->requirements;
  if (mcg_requirements_read(json_object_get(config->root, "requirements"), &where, wanted, err) < 0)
    return -1;
  if (known_backends(engine, wanted->backends, "backends", err) < 0) return -1;
  return known_backends(engine, wanted->not_backends, "not_backends", err);
}

/* ---- places ------------------------------------------------------------------------------- */

/* What is no text, or says nothing, is refused by who reads it. */
static int make_absolute(json_t *table, const char *key, const char *name, mcg_error **err)
{
  const char *path = json_string_value(json_object_get(table, key));
  if (!path || !*path || *path == '/') return 0;
  auto_free char *here = getcwd(NULL, 0);
  if (!here) return mcg_fail_errno(err, errno, "write an absolute path", "%s: %s", name, path);
  auto_free char *absolute = mcg_format("%s/%s", here, path);
  if (absolute && json_object_set_new(table, key, json_string(absolute)) == 0) return 0;
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the configuration");
}

/* Relative ones are meant from where the process is that reads them first. A keeper hands the
 * configuration on to others, who are elsewhere. */
static int settle_places(json_t *root, mcg_error **err)
{
  json_t *audit = json_object_get(root, "audit");
  size_t count = json_is_array(audit) ? json_array_size(audit) : 1;
  for (size_t i = 0; i < count; i++) {
    json_t *log = json_is_array(audit) ? json_array_get(audit, i) : audit;
    if (make_absolute(log, "path", "audit", err) < 0 || make_absolute(log, "dir", "audit", err) < 0)
      return -1;
  }
  return make_absolute(json_object_get(root, "snapshot_store"), "dir", "snapshot_store", err);
}

/* ---- all of it ---------------------------------------------------------------------------- */

/* Asks a provider what a session has cost, when it stops. No backend of this version has one. */
static int check_live_cost(const json_t *root, mcg_error **err)
{
  const mcg_where at = {.key = "capture_live_cost"};
  const json_t *wanted = json_object_get(root, "capture_live_cost");
  bool ignored;
  return wanted ? mcg_check_bool(wanted, &at, &ignored, err) : 0;
}

static int read_all(mcg_engine *engine, mcg_config *config, const mcg_where *where, mcg_error **err)
{
  const mcg_where limits = {.key = "limits"}, network = {.key = "network"};
  mcg_plan *plan = &config->plan;
  const json_t *reach = json_object_get(config->root, "network");
  double ttl = 0;
  if (mcg_check_keys(config->root, keys, NULL, err) < 0 || settle_places(config->root, err) < 0 ||
      mcg_audit_learn(engine, config->root, err) < 0 ||
      mcg_pool_size_read(json_object_get(config->root, "pool"), NULL, &config->pool_size, err) <
          0 ||
      read_the_candidate(engine, config, where, err) < 0 || read_manifest(config, err) < 0 ||
      read_defaults(config, where, err) < 0 || read_enforcement(config, err) < 0 ||
      read_labels(config, err) < 0 ||
      mcg_limits_read(json_object_get(config->root, "limits"), &limits, &plan->limits, err) < 0 ||
      mcg_network_read(reach, &network, &plan->network, &config->policy, err) < 0 ||
      read_identity(config, err) < 0 || check_users(config, err) < 0 ||
      mcg_optional_number(config->root, "ttl_s", NULL, 0.001, 1e9, false, &ttl, err) < 0 ||
      check_live_cost(config->root, err) < 0 || read_project(config, err) < 0 ||
      read_binds(config, err) < 0 || mcg_hooks_read(config, err) < 0 ||
      mcg_pipeline_read(config, err) < 0 ||
      mcg_audit_read(engine, json_object_get(config->root, "audit"), &config->audit, err) < 0 ||
      mcg_audit_apart(config->audit, config->binds, config->plan.bind_count, err) < 0 ||
      mcg_snapshots_read(engine, config, err) < 0)
    return -1;
  config->ttl_ms = (int64_t)(ttl * 1000 + 0.5);
  if (read_required(engine, config, err) < 0) return -1;
  if (mcg_candidate_network(config, reach != NULL, &config->refused) == 0)
    settle_limits(config, &config->refused);
  plan->redirect = config->policy && mcg_policy_redirects(config->policy);
  if (config->policy && mcg_policy_terminates(config->policy) &&
      mcg_environment_trust(&config->environment, err) < 0)
    return -1;
  if (config->refused) mcg_wrap(&config->refused, "configuration");
  return 0;
}

int mcg_config_plan(mcg_engine *engine, json_t *take_root, const mcg_where *where, mcg_config **out,
                    mcg_error **err)
{
  mcg_config *config = calloc(1, sizeof *config);
  if (!config) {
    json_decref(take_root);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the configuration");
  }
  config->root = take_root;
  if (read_all(engine, config, where, err) < 0) {
    mcg_config_free(config);
    mcg_wrap(err, "configuration");
    mcg_audit_redact(engine, *err);
    return -1;
  }
  *out = config;
  return 0;
}

int mcg_config_read(mcg_engine *engine, const char *text, size_t len, mcg_config **out,
                    mcg_error **err)
{
  json_t *root = mcg_json_parse(text, len, err);
  if (!root) return mcg_wrap(err, "configuration");
  mcg_config *config;
  if (mcg_config_plan(engine, root, NULL, &config, err) < 0) return -1;
  mcg_error *refused = mcg_steal_pointer(&config->refused);
  if (!refused && mcg_candidate_meet(config, &refused) < 0) mcg_wrap(&refused, "configuration");
  if (refused) {
    mcg_config_free(config);
    mcg_audit_redact(engine, refused);
    *err = refused;
    return -1;
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
  free(config->directory);
  free(config->binds);
  mcg_manifest_free(config->manifest);
  mcg_policy_unref(config->policy);
  mcg_sinks_free(config->audit);
  mcg_snapshots_fini(&config->snapshots);
  mcg_requirements_fini(&config->requirements);
  mcg_error_free(config->refused);
  json_decref(config->no_options);
  json_decref(config->root);
  free(config);
}
