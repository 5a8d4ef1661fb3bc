/* tenant_candidates.c: which candidates a tenant has, and which of their options it may set. Each
 * option says itself what of it a tenant may have (mcg_grant); one that says nothing is the
 * configuration's, and so are price, tags and how many sessions there may be. */
#include "candidate.h"
#include "tenant_parts.h"
#include <string.h>

/* NULL: it has none. */
static const json_t *options_of(const json_t *candidate)
{
  const json_t *options = json_object_get(candidate, "options");
  return json_is_object(options) ? options : NULL;
}

/* The configuration's candidates, as a list in any case. */
static json_t *list_of(const json_t *root)
{
  const json_t *list = json_object_get(root, "candidates"), *one = json_object_get(root, "backend");
  if (json_is_array(list)) return json_incref((json_t *)list);
  json_t *made = json_array();
  json_array_append_new(made, one ? json_incref((json_t *)one) : json_string("jail"));
  return made;
}

/* ---- what of an option is a tenant's ------------------------------------------------------ */

static int word_index(const mcg_option_words *of, const char *word)
{
  for (int i = 0; word && of->words[i]; i++)
    if (strcmp(of->words[i], word) == 0) return i;
  return -1;
}

/* NULL: there is no order of its words. */
static const mcg_option_words *words_of(const mcg_backend *backend, const mcg_option *option)
{
  const mcg_option_words *of = backend->words;
  while (of && of->option && strcmp(of->option, option->name) != 0) of++;
  return of && of->option && of->no_looser ? of : NULL;
}

/* A word that is none is told of when the candidate is read. */
static int check_word(const mcg_option_words *of, const json_t *was, const json_t *value,
                      const char *path, mcg_error **err)
{
  int from = was ? word_index(of, json_string_value(was)) : 0;
  int to = value ? word_index(of, json_string_value(value)) : 0;
  if (to < 0 || (from >= 0 && of->no_looser[from] & 1U << to)) return 0;
  return mcg_tenant_looser(path, err, "\"%s\" is looser than \"%s\"", of->words[to],
                           from >= 0 ? of->words[from] : of->words[0]);
}

static bool is_selection(const json_t *list, const json_t *of)
{
  for (size_t i = 0; i < json_array_size(list); i++)
    if (!mcg_tenant_in_list(of, json_array_get(list, i))) return false;
  return mcg_is_list(list);
}

/* May a tenant have `value` (NULL: nothing) where the configuration says `was`? */
static int check_option(const mcg_backend *backend, const mcg_option *option, const json_t *was,
                        const json_t *value, const mcg_where *where, mcg_error **err)
{
  const mcg_where at = {.up = where, .key = option->name};
  auto_free char *path = mcg_where_text(&at);
  if (option->grant == MCG_GRANT_FREE || was == value || (was && value && json_equal(was, value)))
    return 0;
  const mcg_option_words *of =
      option->grant == MCG_GRANT_TIGHTER ? words_of(backend, option) : NULL;
  if (of) return check_word(of, was, value, path ? path : option->name, err);
  bool listed = option->type == MCG_T_LIST || option->type == MCG_T_MAP;
  if (listed && (!value || (option->type == MCG_T_LIST && is_selection(value, was)))) return 0;
  return mcg_fail(err, MCG_INVALID,
                  "give it to a candidate of the configuration, which the tenant names",
                  "%s: a tenant cannot %s %s", path ? path : option->name,
                  value ? "set" : "leave out", value ? "it" : "what the configuration says");
}

/* ---- candidates --------------------------------------------------------------------------- */

static int isolation_of(mcg_engine *engine, const json_t *candidate)
{
  const mcg_backend *backend = mcg_engine_backend(engine, mcg_candidate_id(candidate));
  if (!backend) return (int)MCG_ISOLATION_VM + 1; /* refused later */
  mcg_traits traits = {.isolation = backend->isolation};
  const json_t *given = options_of(candidate);
  auto_json json_t *options = given ? json_incref((json_t *)given) : json_object();
  if (backend->traits && options) backend->traits(options, &traits);
  return (int)traits.isolation;
}

static int check_options(const mcg_backend *backend, const json_t *was, const json_t *own,
                         const mcg_where *where, mcg_error **err)
{
  for (const mcg_option *o = backend->options; o && o->name; o++)
    if (check_option(backend, o, json_object_get(was, o->name), json_object_get(own, o->name),
                     where, err) < 0)
      return -1;
  return 0;
}

/* One candidate, read by itself. Of `out` no more than no_options is owned. */
static int read_alone(const mcg_merge *m, const json_t *candidate, const mcg_where *where,
                      mcg_config *out, mcg_error **err)
{
  const json_t *pool = json_object_get(m->root, "pool");
  *out = (mcg_config){.root = NULL};
  if (mcg_pool_size_read(pool, NULL, &out->pool_size, err) < 0) return -1;
  return mcg_candidate_read(m->engine, out, candidate, where, err);
}

static bool same_tags(const json_t *a, const json_t *b)
{
  bool none = json_array_size(a) == 0 && json_array_size(b) == 0;
  return none || (a && b && json_equal(a, b));
}

/* What is said of `own` beside its options, beside what the configuration says. */
static int check_terms(const mcg_config *was, const mcg_config *own, const json_t *given,
                       const mcg_where *up, mcg_error **err)
{
  static const char fix[] = "leave it out: it is that of the configuration's candidate";
  auto_free char *path = mcg_where_text(up);
  const char *at = path ? path : "candidates";
  auto_free char *sessions = mcg_format("%s.max_sessions", at), *pool = mcg_format("%s.pool", at);
  bool same_price = own->priced == was->priced && own->usd_per_minute == was->usd_per_minute;
  if (json_object_get(given, "cost") && !same_price)
    return mcg_fail(err, MCG_INVALID, fix, "%s.cost: a tenant cannot set it", at);
  if (json_object_get(given, "tags") && !same_tags(own->tags, was->tags))
    return mcg_fail(err, MCG_INVALID, fix, "%s.tags: a tenant cannot set them", at);
  if (was->max_sessions && own->max_sessions > was->max_sessions)
    return mcg_tenant_looser(sessions ? sessions : at, err, "%u is looser than %u",
                             own->max_sessions, was->max_sessions);
  if (json_object_get(given, "pool") && own->pool_size > was->pool_size)
    return mcg_tenant_looser(pool ? pool : at, err, "%u is looser than %u", own->pool_size,
                             was->pool_size);
  return 0;
}

/* The tenant's own with what it has of `candidate` (NULL: none of the configuration's). */
static json_t *with_terms(const json_t *given, const json_t *candidate, const mcg_config *was)
{
  static const char *const taken[] = {"cost", "tags", "pool"};
  json_t *made = json_copy((json_t *)given);
  for (size_t i = 0; made && i < sizeof taken / sizeof *taken; i++) {
    json_t *value = json_object_get(candidate, taken[i]);
    if (strcmp(taken[i], "pool") == 0 && json_object_get(given, "pool")) continue;
    if (value)
      json_object_set(made, taken[i], value);
    else
      json_object_del(made, taken[i]);
  }
  if (!made || !candidate) return made;
  json_t *within = json_pack("{s:s}", "name", was->name);
  if (within && was->max_sessions)
    json_object_set_new(within, "max_sessions", json_integer(was->max_sessions));
  if (within && json_object_set_new(made, "within", within) == 0) return made;
  json_decref(made);
  return NULL;
}

/* *out is the tenant's own as it may be beside one of the configuration's, or, where that is NULL,
 * beside what its backend does and costs when nothing is said. */
static int measure(const mcg_merge *m, const json_t *candidate, const mcg_where *at,
                   const mcg_config *own, const json_t *given, const mcg_where *where, json_t **out,
                   mcg_error **err)
{
  const mcg_where options = {.up = where, .key = "options"};
  auto_json json_t *bare = json_string(own->backend->id);
  mcg_config was;
  *out = NULL;
  int rc = read_alone(m, candidate ? candidate : bare, at, &was, err);
  if (rc == 0)
    rc = check_options(own->backend, options_of(candidate), options_of(given), &options, err);
  if (rc == 0) rc = check_terms(&was, own, given, where, err);
  if (rc == 0 && !(*out = with_terms(given, candidate, &was)))
    rc = mcg_fail(err, MCG_NOMEM, NULL, "no memory for a tenant's configuration");
  json_decref(was.no_options);
  return rc;
}

/* No looser than one of the configuration's of the same backend, the first of which it is so. */
static int measure_all(const mcg_merge *m, const json_t *base, const mcg_config *own,
                       const json_t *given, const mcg_where *where, json_t **out, mcg_error **err)
{
  auto_error mcg_error *first = NULL;
  bool met = false;
  for (size_t i = 0; i < json_array_size(base); i++) {
    const json_t *candidate = json_array_get(base, i);
    const mcg_where at = {.up = where->up, .index = i};
    mcg_error *why = NULL;
    if (strcmp(mcg_candidate_id(candidate), own->backend->id) != 0) continue;
    met = true;
    if (measure(m, candidate, &at, own, given, where, out, &why) == 0) return 0;
    if (first)
      mcg_error_free(why);
    else
      first = why;
  }
  if (!met) return measure(m, NULL, where, own, given, where, out, err);
  *err = mcg_steal_pointer(&first);
  return -1;
}

static int add_own(const mcg_merge *m, const json_t *base, int weakest, const json_t *given,
                   const mcg_where *where, json_t *out, mcg_error **err)
{
  const mcg_where within = {.up = where, .key = "within"};
  if (mcg_check_object(given, where, err) < 0) return -1;
  auto_free char *path = mcg_where_text(where);
  if (isolation_of(m->engine, given) < weakest)
    return mcg_tenant_looser(path ? path : "candidates", err, "%s isolates less than %s",
                             mcg_candidate_id(given), mcg_isolation_names[weakest]);
  if (json_object_get(given, "within"))
    return mcg_check_fail(&within, err, "leave it out", "it is not a tenant's to say");
  mcg_config own;
  json_t *made = NULL;
  int rc = read_alone(m, given, where, &own, err);
  if (rc == 0) rc = measure_all(m, base, &own, given, where, &made, err);
  json_decref(own.no_options);
  return rc < 0 ? -1 : json_array_append_new(out, made);
}

/* A name means those of the configuration; a table is a candidate of the tenant's own. */
static int choose_one(const mcg_merge *m, const json_t *base, int weakest, const json_t *given,
                      const mcg_where *where, json_t *out, mcg_error **err)
{
  const char *name = json_string_value(given);
  if (!name) return add_own(m, base, weakest, given, where, out, err);
  const char *names[65] = {NULL};
  size_t before = json_array_size(out), count = 0;
  for (size_t i = 0; i < json_array_size(base); i++) {
    json_t *candidate = json_array_get(base, i);
    if (count < 64) names[count++] = mcg_candidate_name(candidate);
    if (strcmp(mcg_candidate_name(candidate), name) == 0 ||
        strcmp(mcg_candidate_id(candidate), name) == 0)
      json_array_append(out, candidate);
  }
  if (json_array_size(out) > before) return 0;
  const char *near = mcg_nearest(name, names);
  auto_free char *fix = mcg_format("did you mean `%s`?", near       ? near
                                                         : names[0] ? names[0]
                                                                    : "jail");
  return mcg_check_fail(where, err, fix, "the configuration has no candidate \"%s\"", name);
}

int mcg_tenant_candidates(mcg_merge *m, const json_t *given, const mcg_where *where,
                          mcg_error **err)
{
  auto_json json_t *base = list_of(m->root);
  auto_json json_t *chosen = json_array();
  if (mcg_check_list(given, where, err) < 0) return -1;
  int weakest = (int)MCG_ISOLATION_VM;
  for (size_t i = 0; i < json_array_size(base); i++) {
    int level = isolation_of(m->engine, json_array_get(base, i));
    if (level < weakest) weakest = level;
  }
  for (size_t i = 0; i < json_array_size(given); i++) {
    const mcg_where at = {.up = where, .index = i};
    if (choose_one(m, base, weakest, json_array_get(given, i), &at, chosen, err) < 0) return -1;
  }
  json_object_del(m->root, "backend");
  return mcg_tenant_set(m->root, "candidates", mcg_steal_pointer(&chosen), err);
}

/* ---- options ------------------------------------------------------------------------------ */

static const mcg_option *option_named(const mcg_backend *backend, const char *name)
{
  const mcg_option *option = backend ? backend->options : NULL;
  while (option && option->name && strcmp(option->name, name) != 0) option++;
  return option && option->name ? option : NULL;
}

/* Whom `who` means: those of that name or backend; NULL: all that know the only option. */
static bool is_meant(const mcg_backend *backend, const json_t *candidate, const char *who,
                     const json_t *options)
{
  if (who)
    return strcmp(who, mcg_candidate_id(candidate)) == 0 ||
           strcmp(who, mcg_candidate_name(candidate)) == 0;
  return option_named(backend, json_object_iter_key(json_object_iter((json_t *)options)));
}

/* Over those of one candidate, which is ours to change. */
static int put_options(const mcg_backend *backend, json_t *candidate, const json_t *options,
                       const mcg_where *where, mcg_error **err)
{
  const json_t *was = options_of(candidate);
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)options, key, value)
  {
    const mcg_option *option = option_named(backend, key); /* an unknown one is told of later */
    if (option && check_option(backend, option, json_object_get(was, key), value, where, err) < 0)
      return -1;
  }
  if (!was && json_object_set_new(candidate, "options", json_object()) < 0) return -1;
  return json_object_update((json_t *)options_of(candidate), (json_t *)options);
}

static int set_options(mcg_merge *m, const char *who, const json_t *options, const mcg_where *where,
                       size_t *hits, mcg_error **err)
{
  auto_json json_t *list = list_of(m->root);
  auto_json json_t *changed = json_array();
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *candidate = json_array_get(list, i);
    const mcg_backend *backend = mcg_engine_backend(m->engine, mcg_candidate_id(candidate));
    json_t *own = json_is_object(candidate) ? json_deep_copy(candidate)
                                            : json_pack("{s:s}", "id", mcg_candidate_id(candidate));
    if (json_array_append_new(changed, own) < 0) return -1;
    if (!is_meant(backend, own, who, options)) continue;
    if (put_options(backend, own, options, where, err) < 0) return -1;
    *hits += 1;
  }
  json_object_del(m->root, "backend");
  return mcg_tenant_set(m->root, "candidates", mcg_steal_pointer(&changed), err);
}

int mcg_tenant_credentials(mcg_merge *m, const json_t *given, const mcg_where *where,
                           mcg_error **err)
{
  const char *who;
  json_t *options;
  if (mcg_check_object(given, where, err) < 0) return -1;
  json_object_foreach((json_t *)given, who, options)
  {
    const mcg_where at = {.up = where, .key = who};
    size_t hits = 0;
    if (mcg_check_object(options, &at, err) < 0 ||
        set_options(m, who, options, &at, &hits, err) < 0)
      return -1;
    if (!hits)
      return mcg_check_fail(&at, err, "name a candidate, or a backend of one",
                            "no candidate is called so");
  }
  return 0;
}

int mcg_tenant_namespace(mcg_merge *m, const json_t *given, const mcg_where *where, mcg_error **err)
{
  const char *text;
  size_t hits = 0;
  if (mcg_check_string(given, where, &text, err) < 0) return -1;
  auto_json json_t *options = json_pack("{s:s}", "namespace", text);
  if (!options || set_options(m, NULL, options, NULL, &hits, err) < 0) return -1;
  return hits ? 0
              : mcg_fail(err, MCG_UNSUPPORTED, "leave it out",
                         "namespace: no candidate of this configuration has namespaces");
}
