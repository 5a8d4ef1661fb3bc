/* tenant_candidates.c: which candidates a tenant has, and which of their options it may set. Each option
 * says itself what of it a tenant may have (mcg_grant); one that says nothing is the configuration's. */
#include "config/config.h"
#include "tenant_parts.h"
#include <string.h>

static const char *id_of(const json_t *candidate)
{
  const char *id = json_string_value(candidate);
  if (!id) id = json_string_value(json_object_get(candidate, "id"));
  return id ? id : "jail";
}

static const char *name_of(const json_t *candidate)
{
  const char *name = json_string_value(json_object_get(candidate, "name"));
  return name ? name : id_of(candidate);
}

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
  const mcg_backend *backend = mcg_engine_backend(engine, id_of(candidate));
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

/* No looser than one of the configuration's of the same backend; where it has none, than what the backend
 * does when nothing is said. */
static int check_own(const mcg_merge *m, const json_t *base, const json_t *own, const mcg_where *up,
                     mcg_error **err)
{
  const mcg_backend *backend = mcg_engine_backend(m->engine, id_of(own));
  const mcg_where where = {.up = up, .key = "options"};
  auto_error mcg_error *first = NULL;
  bool met = false;
  if (!backend) return 0; /* told of when it is read */
  for (size_t i = 0; i < json_array_size(base); i++) {
    const json_t *candidate = json_array_get(base, i);
    mcg_error *why = NULL;
    if (strcmp(id_of(candidate), backend->id) != 0) continue;
    met = true;
    if (check_options(backend, options_of(candidate), options_of(own), &where, &why) == 0) return 0;
    if (first)
      mcg_error_free(why);
    else
      first = why;
  }
  if (!met) return check_options(backend, NULL, options_of(own), &where, err);
  *err = mcg_steal_pointer(&first);
  return -1;
}

static int add_own(const mcg_merge *m, const json_t *base, int weakest, const json_t *given,
                   const mcg_where *where, json_t *out, mcg_error **err)
{
  if (mcg_check_object(given, where, err) < 0) return -1;
  auto_free char *path = mcg_where_text(where);
  if (isolation_of(m->engine, given) < weakest)
    return mcg_tenant_looser(path ? path : "candidates", err, "%s isolates less than %s",
                             id_of(given), mcg_isolation_names[weakest]);
  if (check_own(m, base, given, where, err) < 0) return -1;
  return json_array_append(out, (json_t *)given);
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
    if (count < 64) names[count++] = name_of(candidate);
    if (strcmp(name_of(candidate), name) == 0 || strcmp(id_of(candidate), name) == 0)
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
  if (who) return strcmp(who, id_of(candidate)) == 0 || strcmp(who, name_of(candidate)) == 0;
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
    const mcg_backend *backend = mcg_engine_backend(m->engine, id_of(candidate));
    json_t *own = json_is_object(candidate) ? json_deep_copy(candidate)
                                            : json_pack("{s:s}", "id", id_of(candidate));
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
