/* tenant.c: a tenant's overrides over a configuration: each key has a rule by which it can only
 * tighten. What names no rule here cannot be changed by a tenant at all. */
#include "tenant_parts.h"
#include "config/config.h"
#include "service/sha256.h"
#include "snapshot/store.h"
#include <string.h>

#define ID_MAX 64

/* ---- ids ---------------------------------------------------------------------------------- */

static bool id_char(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

/* What the id is stays out of the message: it may be anything. */
int mcg_tenant_check(const json_t *id, const mcg_where *where, mcg_error **err)
{
  static const char fix[] = "use letters, digits, - and _, at most 64 of them";
  const char *text;
  if (mcg_check_string(id, where, &text, err) < 0) return -1;
  size_t len = strlen(text);
  if (len == 0) return mcg_check_fail(where, err, fix, "it is empty");
  if (len > ID_MAX) return mcg_check_fail(where, err, fix, "it is longer than %d bytes", ID_MAX);
  for (size_t i = 0; i < len; i++)
    if (!id_char(text[i]))
      return mcg_check_fail(where, err, fix, "byte %zu is no letter, digit, - or _", i + 1);
  return 0;
}

void mcg_tenant_key(const char *id, char key[MCG_TENANT_KEY])
{
  mcg_sha256 hash;
  uint8_t digest[32];
  mcg_sha256_init(&hash);
  mcg_sha256_update(&hash, id, strlen(id));
  mcg_sha256_final(&hash, digest);
  mcg_hex(digest, MCG_TENANT_KEY / 2, key);
  key[MCG_TENANT_KEY - 1] = '\0';
}

/* ---- small ones --------------------------------------------------------------------------- */

int mcg_tenant_looser(const char *key, mcg_error **err, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  auto_free char *text = mcg_format_line(format, args);
  va_end(args);
  return mcg_fail(err, MCG_INVALID, "a tenant can only tighten what the configuration says",
                  "%s: %s", key, text ? text : "it is looser");
}

int mcg_tenant_set(json_t *object, const char *key, json_t *take_value, mcg_error **err)
{
  if (take_value && json_object_set_new(object, key, take_value) == 0) return 0;
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a tenant's configuration");
}

/* The object at `key` of the result, made if it is not there. */
static json_t *inner(mcg_merge *m, const char *key)
{
  json_t *object = json_object_get(m->root, key);
  if (json_is_object(object)) return object;
  object = json_object();
  return object && json_object_set_new(m->root, key, object) == 0 ? object : NULL;
}

bool mcg_tenant_in_list(const json_t *list, const json_t *value)
{
  for (size_t i = 0; i < json_array_size(list); i++)
    if (json_equal(json_array_get(list, i), value)) return true;
  return false;
}

static int index_of(const char *word, const char *const *names)
{
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], word) == 0) return i;
  return -1;
}

/* ---- limits ------------------------------------------------------------------------------- */

static int merge_limits(mcg_merge *m, const json_t *given, const mcg_where *where, mcg_error **err)
{
  const mcg_where base_where = {.key = "limits"};
  mcg_limits base = {0}, own = {0};
  if (mcg_limits_read(given, where, &own, err) < 0 ||
      mcg_limits_read(json_object_get(m->root, "limits"), &base_where, &base, err) < 0)
    return -1;
  mcg_limits_default(&base);
  auto_json json_t *most = mcg_limits_json(&base);
  json_t *limits = inner(m, "limits");
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)given, key, value)
  {
    const json_t *bound = json_object_get(most, key);
    auto_free char *path = mcg_format("limits.%s", key);
    if (bound && json_number_value(value) > json_number_value(bound))
      return mcg_tenant_looser(path, err, "%.15g is looser than %.15g", json_number_value(value),
                               json_number_value(bound));
    if (!limits || json_object_set(limits, key, value) < 0)
      return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a tenant's configuration");
  }
  return 0;
}

/* ---- network ------------------------------------------------------------------------------ */

typedef enum reach { REACH_NONE, REACH_RULES, REACH_OPEN, REACH_HOST } reach;

static reach reach_of(const json_t *network)
{
  const char *name = json_string_value(network);
  if (name)
    return strcmp(name, "none") == 0   ? REACH_NONE
           : strcmp(name, "host") == 0 ? REACH_HOST
                                       : REACH_OPEN;
  const char *by_default = json_string_value(json_object_get(network, "default"));
  if (by_default && strcmp(by_default, "allow") == 0) return REACH_OPEN;
  return json_array_size(json_object_get(network, "allow")) ? REACH_RULES : REACH_NONE;
}

/* The outermost table of those within each other. */
static json_t *outermost(json_t *network)
{
  for (json_t *next; json_is_object(next = json_object_get(network, "within"));) network = next;
  return network;
}

/* A rule of the tenant's that the configuration lets nothing through of is a mistake. */
static int check_rules(const json_t *base, const json_t *given, mcg_error **err)
{
  const mcg_where where = {.key = "network"};
  mcg_policy *outer = NULL, *own = NULL;
  int rc = mcg_policy_read(base, &where, &outer, err);
  if (rc == 0) rc = mcg_policy_read(given, &where, &own, err);
  unsigned apart = rc == 0 ? mcg_policy_rule_apart(own, outer) : 0;
  mcg_policy_unref(outer);
  mcg_policy_unref(own);
  if (!apart) return rc;
  return mcg_tenant_looser("network.allow", err,
                           "rule %u allows nothing that the configuration allows", apart);
}

/* What both allow: the tenant's lies within the configuration's. */
static int confine(json_t *base, json_t *given, json_t **out, mcg_error **err)
{
  if (!json_is_object(given)) { /* "open" is no more than what the configuration allows */
    *out = json_incref(reach_of(given) == REACH_OPEN ? base : given);
    return 0;
  }
  if (check_rules(base, given, err) < 0) return -1;
  *out = json_deep_copy(given);
  json_t *outer = *out ? outermost(*out) : NULL;
  if (reach_of(json_object_get(outer, "within")) == REACH_NONE && json_object_get(outer, "within"))
    return 0; /* nothing is within nothing */
  if (outer && json_object_set(outer, "within", base) == 0) return 0;
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a tenant's configuration");
}

int mcg_tenant_network(const json_t *base, const json_t *given, const mcg_where *where,
                       json_t **out, mcg_error **err)
{
  static const char *const names[] = {"none", "rules", "open", "host"};
  mcg_policy *policy;
  mcg_network ignored;
  if (!json_is_string(given) && mcg_check_object(given, where, err) < 0) return -1;
  for (const json_t *table = given; table; table = json_object_get(table, "within"))
    if (json_object_get(table, "proxy"))
      return mcg_tenant_looser("network.proxy", err,
                               "which way connections leave is the configuration's");
  if (mcg_network_read(given, where, &ignored, &policy, err) < 0) return -1;
  mcg_policy_unref(policy);
  reach most = base ? reach_of(base) : REACH_NONE, asked = reach_of(given);
  if (asked > most)
    return mcg_tenant_looser("network", err, "\"%s\" is looser than \"%s\"", names[asked],
                             names[most]);
  if (most != REACH_NONE && most != REACH_HOST)
    return confine((json_t *)base, (json_t *)given, out, err);
  *out = json_incref((json_t *)given); /* nothing to be within of */
  return 0;
}

static int merge_network(mcg_merge *m, const json_t *given, const mcg_where *where, mcg_error **err)
{
  auto_json json_t *base = json_incref(json_object_get(m->root, "network"));
  json_t *merged;
  if (mcg_tenant_network(base, given, where, &merged, err) < 0) return -1;
  return mcg_tenant_set(m->root, "network", merged, err);
}

/* ---- requirements ------------------------------------------------------------------------- */

static int raise_isolation(json_t *wanted, const json_t *value, const mcg_where *where,
                           mcg_error **err)
{
  const char *asked, *least = json_string_value(json_object_get(wanted, "min_isolation"));
  if (mcg_check_string(value, where, &asked, err) < 0) return -1;
  int level = index_of(asked, mcg_isolation_names);
  if (level < 0) {
    const char *near = mcg_nearest(asked, mcg_isolation_names);
    auto_free char *fix = near ? mcg_format("did you mean `%s`?", near)
                               : mcg_format("write none, namespace, container, gvisor or vm");
    return mcg_check_fail(where, err, fix, "\"%s\" is no isolation", asked);
  }
  if (least && level < index_of(least, mcg_isolation_names))
    return mcg_tenant_looser("requirements.min_isolation", err, "%s is weaker than %s", asked,
                             least);
  return json_object_set(wanted, "min_isolation", (json_t *)value);
}

static int lower_price(json_t *wanted, const json_t *value, const mcg_where *where, mcg_error **err)
{
  const json_t *most = json_object_get(wanted, "max_usd_per_minute");
  double asked;
  if (mcg_check_number(value, where, 0, 1e9, false, &asked, err) < 0) return -1;
  if (most && asked > json_number_value(most))
    return mcg_tenant_looser("requirements.max_usd_per_minute", err, "%.15g is more than %.15g",
                             asked, json_number_value(most));
  return json_object_set(wanted, "max_usd_per_minute", (json_t *)value);
}

static int join_lists(json_t *wanted, const char *key, const json_t *value, const mcg_where *where,
                      mcg_error **err)
{
  if (mcg_check_list(value, where, err) < 0) return -1;
  const json_t *base = json_object_get(wanted, key); /* {} is no array to add to */
  json_t *both = json_is_array(base) ? json_copy((json_t *)base) : json_array();
  for (size_t i = 0; i < json_array_size(value); i++)
    if (!mcg_tenant_in_list(both, json_array_get(value, i)))
      json_array_append(both, json_array_get(value, i));
  return mcg_tenant_set(wanted, key, both, err);
}

static int merge_requirements(mcg_merge *m, const json_t *given, const mcg_where *where,
                              mcg_error **err)
{
  static const char *const known[] = {
      "min_isolation", "max_usd_per_minute", "capabilities", "not_backends", "backends",
      "network",       "persistent",         "pty",          "region",       NULL};
  if (mcg_check_keys(given, known, where, err) < 0) return -1;
  json_t *wanted = inner(m, "requirements"), *value;
  if (!wanted) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a tenant's configuration");
  const char *key;
  json_object_foreach((json_t *)given, key, value)
  {
    const mcg_where at = {.up = where, .key = key};
    const json_t *base = json_object_get(wanted, key);
    int rc;
    if (strcmp(key, "min_isolation") == 0) {
      rc = raise_isolation(wanted, value, &at, err);
    } else if (strcmp(key, "max_usd_per_minute") == 0) {
      rc = lower_price(wanted, value, &at, err);
    } else if (strcmp(key, "capabilities") == 0 || strcmp(key, "not_backends") == 0) {
      rc = join_lists(wanted, key, value, &at, err);
    } else { /* one word of the configuration's cannot be taken back */
      auto_free char *path = mcg_where_text(&at);
      if (base && !json_equal(base, value))
        return mcg_tenant_looser(path ? path : key, err, "the configuration says otherwise");
      rc = json_object_set(wanted, key, value);
    }
    if (rc < 0) return -1;
  }
  return 0;
}

/* ---- the rest ----------------------------------------------------------------------------- */

static int merge_enforcement(mcg_merge *m, const json_t *given, const mcg_where *where,
                             mcg_error **err)
{
  const char *word, *base = json_string_value(json_object_get(m->root, "enforcement"));
  if (mcg_check_string(given, where, &word, err) < 0) return -1;
  if (strcmp(word, "best_effort") == 0 && (!base || strcmp(base, word) != 0))
    return mcg_tenant_looser("enforcement", err, "\"best_effort\" is looser than \"required\"");
  return json_object_set(m->root, "enforcement", (json_t *)given);
}

static int merge_table(mcg_merge *m, const char *key, const json_t *given, const mcg_where *where,
                       mcg_error **err)
{
  if (mcg_check_object(given, where, err) < 0) return -1;
  json_t *table = inner(m, key);
  if (table && json_object_update(table, (json_t *)given) == 0) return 0;
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a tenant's configuration");
}

static int merge_environment(mcg_merge *m, const json_t *given, const mcg_where *where,
                             mcg_error **err)
{
  return merge_table(m, "environment", given, where, err);
}

static int merge_labels(mcg_merge *m, const json_t *given, const mcg_where *where, mcg_error **err)
{
  return merge_table(m, "labels", given, where, err);
}

static int merge_allowed_tools(mcg_merge *m, const json_t *given, const mcg_where *where,
                               mcg_error **err)
{
  const json_t *base = json_object_get(m->root, "allowed_tools");
  if (mcg_check_list(given, where, err) < 0) return -1;
  for (size_t i = 0; base && i < json_array_size(given); i++)
    if (!mcg_tenant_in_list(base, json_array_get(given, i)))
      return mcg_tenant_looser("allowed_tools", err, "tool %zu is not one of the configuration's",
                               i + 1);
  return json_object_set(m->root, "allowed_tools", (json_t *)given);
}

static int merge_store_prefix(mcg_merge *m, const json_t *given, const mcg_where *where,
                              mcg_error **err)
{
  if (mcg_store_prefix_check(given, where, err) < 0) return -1;
  return json_object_set(m->root, "store_prefix", (json_t *)given);
}

/* ---- the log ------------------------------------------------------------------------------ */

static bool is_log(const json_t *sink)
{
  const char *type = json_string_value(json_object_get(sink, "type"));
  return type && strcmp(type, "jsonl") == 0;
}

/* The key `audit` as a list that is ours; a configuration without it has a log all the same. */
static json_t *sinks_of(const json_t *audit)
{
  if (json_is_array(audit)) return json_copy((json_t *)audit);
  if (json_is_false(audit)) return json_array();
  return audit ? json_pack("[O]", audit) : json_pack("[{s:s}]", "type", "jsonl");
}

/* What a log that takes the place of others does not say is what they say. */
static int take_over(json_t *log, const json_t *sinks, mcg_error **err)
{
  static const char *const keys[] = {"durable", "hmac_key", "rotate_mb"};
  for (size_t i = 0; i < json_array_size(sinks); i++) {
    const json_t *other = json_array_get(sinks, i);
    for (size_t k = 0; is_log(other) && k < sizeof keys / sizeof *keys; k++) {
      json_t *value = json_object_get(other, keys[k]), *own = json_object_get(log, keys[k]);
      if (json_is_true(value) && json_is_false(own))
        return mcg_tenant_looser("audit.durable", err, "false is looser than true");
      if (value && !own && !json_is_false(value) && json_object_set(log, keys[k], value) < 0)
        return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a tenant's configuration");
    }
  }
  return 0;
}

/* Turns each log of the list into one that says what those said. How many; -1: no error is no memory. */
static int take_places(json_t *own, const json_t *kept, mcg_error **err)
{
  int logs = 0;
  for (size_t i = 0; i < json_array_size(own); i++) {
    if (!is_log(json_array_get(own, i))) continue;
    json_t *log = json_copy(json_array_get(own, i));
    if (json_array_set_new(own, i, log) < 0 || take_over(log, kept, err) < 0) return -1;
    logs++;
  }
  return logs;
}

/* Its log takes the place of the configuration's; what else hears of events goes on hearing, and so
 * does the configuration's log where the tenant has none. */
static int merge_audit(mcg_merge *m, const json_t *given, const mcg_where *where, mcg_error **err)
{
  const json_t *base = json_object_get(m->root, "audit");
  if (json_is_false(given))
    return json_is_false(base) ? 0 : mcg_tenant_looser("audit", err, "no log is looser than one");
  if ((json_is_object(given) && !json_object_size(given)) || /* Lua's {} */
      (json_is_array(given) && !json_array_size(given)))
    return mcg_check_fail(where, err, "name where events go, or leave it out", "the list is empty");
  auto_json json_t *kept = sinks_of(base), *own = sinks_of(given);
  json_t *sinks = json_array();
  int logs = kept && own ? take_places(own, kept, err) : -1;
  for (size_t i = 0; i < json_array_size(kept); i++)
    if (logs == 0 || !is_log(json_array_get(kept, i)))
      json_array_append(sinks, json_array_get(kept, i));
  if (logs < 0 || json_array_extend(sinks, own) < 0) {
    json_decref(sinks);
    return -1; /* no error: no memory */
  }
  return mcg_tenant_set(m->root, "audit", sinks, err);
}

/* ---- the quota ---------------------------------------------------------------------------- */

static int merge_quota(mcg_merge *m, const json_t *given, const mcg_where *where, mcg_error **err)
{
  static const char *const known[] = {"sessions", "usd", "minutes", "per", NULL};
  static const char *const periods[] = {"ever", "month", "day", NULL};
  const mcg_where sessions = {.up = where, .key = "sessions"}, usd = {.up = where, .key = "usd"},
                  minutes = {.up = where, .key = "minutes"}, per = {.up = where, .key = "per"};
  const json_t *value;
  double number;
  if (mcg_check_keys(given, known, where, err) < 0) return -1;
  if ((value = json_object_get(given, "sessions"))) {
    if (mcg_check_number(value, &sessions, 1, 1e6, true, &number, err) < 0) return -1;
    m->quota->sessions = (unsigned)number;
  }
  if ((value = json_object_get(given, "usd")) &&
      mcg_check_number(value, &usd, 1e-6, 1e12, false, &m->quota->usd, err) < 0)
    return -1;
  if ((value = json_object_get(given, "minutes")) &&
      mcg_check_number(value, &minutes, 1e-6, 1e12, false, &m->quota->minutes, err) < 0)
    return -1;
  if ((value = json_object_get(given, "per"))) {
    const char *word;
    if (mcg_check_string(value, &per, &word, err) < 0) return -1;
    int period = index_of(word, periods);
    if (period < 0) return mcg_check_fail(&per, err, "write day, month or ever", "it is none");
    m->quota->per = (unsigned)period;
  }
  return 0;
}

/* ---- all of it ---------------------------------------------------------------------------- */

/* In this order: the candidates are chosen before their options are set. */
static const struct {
  const char *key;
  int (*merge)(mcg_merge *m, const json_t *given, const mcg_where *where, mcg_error **err);
} rules[] = {
    {"candidates", mcg_tenant_candidates},
    {"credentials", mcg_tenant_credentials},
    {"namespace", mcg_tenant_namespace},
    {"limits", merge_limits},
    {"network", merge_network},
    {"requirements", merge_requirements},
    {"enforcement", merge_enforcement},
    {"environment", merge_environment},
    {"labels", merge_labels},
    {"allowed_tools", merge_allowed_tools},
    {"store_prefix", merge_store_prefix},
    {"audit", merge_audit},
    {"quota", merge_quota},
};
#define RULES (sizeof rules / sizeof *rules)

int mcg_tenant_apply(mcg_engine *engine, const json_t *base, const char *tenant,
                     const json_t *overrides, json_t **out, mcg_quota *quota, mcg_error **err)
{
  const char *names[RULES + 1] = {NULL};
  auto_json json_t *root = json_deep_copy(base);
  mcg_merge m = {.engine = engine, .root = root, .quota = quota};
  memset(quota, 0, sizeof *quota);
  for (size_t i = 0; i < RULES; i++) names[i] = rules[i].key;
  int rc = root ? mcg_check_keys(overrides, names, NULL, err)
                : mcg_fail(err, MCG_NOMEM, NULL, "no memory for a tenant's configuration");
  for (size_t i = 0; rc == 0 && i < RULES; i++) {
    const json_t *given = json_object_get(overrides, rules[i].key);
    const mcg_where where = {.key = rules[i].key};
    if (given && rules[i].merge(&m, given, &where, err) < 0) rc = -1;
  }
  if (rc < 0) {
    if (!*err) mcg_fail(err, MCG_NOMEM, NULL, "no memory for a tenant's configuration");
    return mcg_wrap(err, "tenant \"%s\"", tenant ? tenant : "");
  }
  *out = mcg_steal_pointer(&root);
  return 0;
}
