/* describe.c: what an engine's backends are and what options they take, for hosts that check a
 * candidate before they open it, and for --help. */
#include "decide/select.h"
#include "engine.h"

#include <jansson.h>

static const char *const types[] = {
    [MCG_T_BOOL] = "bool",     [MCG_T_INT] = "integer", [MCG_T_NUMBER] = "number",
    [MCG_T_STRING] = "string", [MCG_T_LIST] = "list",   [MCG_T_MAP] = "map",
};

static const char *const grants[] = {
    [MCG_GRANT_NONE] = "nothing", [MCG_GRANT_TIGHTER] = "tighter", [MCG_GRANT_FREE] = "anything"};

/* Without options: what its usual candidate is. */
static mcg_traits usual_traits(const mcg_backend *backend)
{
  mcg_traits traits = {.isolation = backend->isolation,
                       .networks = MCG_GIVES(MCG_NETWORK_NONE) | MCG_GIVES(MCG_NETWORK_HOST)};
  auto_json json_t *none = json_object();
  if (backend->traits && none) backend->traits(none, &traits);
  return traits;
}

static json_t *describe_option(const mcg_option *option)
{
  return json_pack("{s:s, s:s, s:s, s:s}", "name", option->name, "type", types[option->type],
                   "help", option->help ? option->help : "", "tenant", grants[option->grant]);
}

static json_t *describe_backend(const mcg_backend *backend)
{
  mcg_traits traits = usual_traits(backend);
  json_t *capabilities = json_object();
  json_object_set_new(capabilities, "pty", json_true());
  bool isolates = traits.isolation != MCG_ISOLATION_NONE;
  if (isolates && traits.networks & MCG_GIVES(MCG_NETWORK_NONE))
    json_object_set_new(capabilities, "network_denied", json_true());
  if (traits.networks & ~MCG_GIVES(MCG_NETWORK_NONE))
    json_object_set_new(capabilities, "network", json_true());
  for (const char *const *name = traits.capabilities; name && *name; name++)
    json_object_set_new(capabilities, *name, json_true());
  auto_json json_t *options = json_array();
  for (const mcg_option *o = backend->options; o && o->name; o++)
    if (json_array_append_new(options, describe_option(o)) < 0) return NULL;
  json_t *about =
      json_pack("{s:s, s:s, s:b, s:o, s:O}", "family", mcg_family_names[backend->family],
                "isolation", mcg_isolation_names[traits.isolation], "persistent", traits.persistent,
                "capabilities", capabilities, "options", options);
  if (about && backend->rate)
    json_object_set_new(about, "cost",
                        json_pack("{s:f, s:s?}", "usd_per_minute", backend->rate->usd_per_minute,
                                  "as_of", backend->rate->as_of));
  return about;
}

char *mcg_engine_backends(const mcg_engine *engine)
{
  auto_json json_t *all = json_object();
  for (size_t i = 0; i < engine->backends.count; i++) {
    const mcg_backend *backend = engine->backends.list[i];
    if (json_object_set_new(all, backend->id, describe_backend(backend)) < 0) return NULL;
  }
  return json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
}
