/* describe.c: what an engine's backends are and what options they take, for hosts that check a
 * candidate before they open it, and for --help. */
#include "engine.h"

#include <jansson.h>

static const char *const families[] = {[MCG_LOCAL] = "local", [MCG_HOSTED] = "hosted"};
static const char *const isolations[] = {
    [MCG_ISOLATION_NONE] = "none",
    [MCG_ISOLATION_NAMESPACE] = "namespace",
    [MCG_ISOLATION_CONTAINER] = "container",
    [MCG_ISOLATION_GVISOR] = "gvisor",
    [MCG_ISOLATION_VM] = "vm",
};
static const char *const types[] = {
    [MCG_T_BOOL] = "bool",     [MCG_T_INT] = "integer", [MCG_T_NUMBER] = "number",
    [MCG_T_STRING] = "string", [MCG_T_LIST] = "list",   [MCG_T_MAP] = "map",
};

static json_t *describe_backend(const mcg_backend *backend)
{
  auto_json json_t *options = json_array();
  for (const mcg_option *o = backend->options; o && o->name; o++)
    if (json_array_append_new(options, json_pack("{s:s, s:s, s:s}", "name", o->name, "type",
                                                 types[o->type], "help", o->help ? o->help : "")) <
        0)
      return NULL;
  return json_pack("{s:s, s:s, s:O}", "family", families[backend->family], "isolation",
                   isolations[backend->isolation], "options", options);
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
