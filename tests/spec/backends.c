/* backends.c: backends that stand in for the hosted vendors and for Docker and Kubernetes in specs:
 * what they declare is theirs, what they make is a jail. In the specs' build of the Lua module only:
 *
 *   package.loadlib(core.so, "luaopen_spec_backends")() -> nothing; they are added to the engine
 *
 * `fail = "code"` has create fail so; prices are those of the vendors' lists in late 2026, rounded. */
#include "bind.h"
#include "engine.h"
#include <jansson.h>
#include <string.h>

static const mcg_option local_options[] = {
    {"api_key", MCG_T_STRING, "whose account", MCG_GRANT_FREE},
    {"namespace", MCG_T_STRING, "where", MCG_GRANT_FREE},
    {"fail", MCG_T_STRING, "the code that create fails with", MCG_GRANT_NONE},
    {"network", MCG_T_STRING, "none or open", MCG_GRANT_NONE},
    {"region", MCG_T_STRING, "where", MCG_GRANT_NONE},
    {"memory_mb", MCG_T_NUMBER, "the most it gives", MCG_GRANT_NONE},
    {"cpu_count", MCG_T_NUMBER, "the most it gives", MCG_GRANT_NONE},
    {"runtime", MCG_T_STRING, "runsc: gvisor", MCG_GRANT_NONE},
    {.name = NULL},
};

static const char *text(const json_t *options, const char *name)
{
  return json_string_value(json_object_get(options, name));
}

static void common(const json_t *options, mcg_traits *traits)
{
  const char *runtime = text(options, "runtime");
  traits->region = text(options, "region");
  traits->memory_mb = json_number_value(json_object_get(options, "memory_mb"));
  traits->cpu_count = json_number_value(json_object_get(options, "cpu_count"));
  if (runtime && strcmp(runtime, "runsc") == 0) traits->isolation = MCG_ISOLATION_GVISOR;
}

static void local_traits(const json_t *options, mcg_traits *traits)
{
  static const char *const names[] = {"binds", "image", NULL};
  common(options, traits);
  traits->capabilities = names;
  traits->networks = MCG_GIVES(MCG_NETWORK_NONE) | MCG_GIVES(MCG_NETWORK_OPEN);
}

/* One that cannot deny: its network is there, whatever is asked. */
static void vendor_traits(const json_t *options, mcg_traits *traits)
{
  static const char *const names[] = {"expose_port", NULL};
  common(options, traits);
  traits->capabilities = names;
  traits->networks = MCG_GIVES(MCG_NETWORK_OPEN);
}

static void snapshot_traits(const json_t *options, mcg_traits *traits)
{
  static const char *const names[] = {"expose_port", "snapshot", NULL};
  const char *network = text(options, "network");
  vendor_traits(options, traits);
  traits->capabilities = names;
  if (network && strcmp(network, "off") == 0) traits->networks = MCG_GIVES(MCG_NETWORK_NONE);
}

static void gpu_traits(const json_t *options, mcg_traits *traits)
{
  static const char *const names[] = {"expose_port", "snapshot", "gpu", NULL};
  snapshot_traits(options, traits);
  traits->capabilities = names;
}

static void stays_traits(const json_t *options, mcg_traits *traits)
{
  snapshot_traits(options, traits);
  traits->persistent = true;
}

static mcg_code code_named(const char *name)
{
  static const char *const names[] = {
#define CODE_NAME(code, said) said,
      MCG_CODES(CODE_NAME)
#undef CODE_NAME
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0) return (mcg_code)i;
  return MCG_INTERNAL;
}

static int create(mcg_session *session, const mcg_plan *plan, mcg_place *out, mcg_error **err)
{
  const char *code = mcg_option_string(plan, "fail");
  if (code) return mcg_fail(err, code_named(code), "try later", "the vendor says %s", code);
  const mcg_backend *jail = mcg_engine_backend(mcg_session_engine(session), "jail");
  return jail->create(session, plan, out, err);
}

static int destroy(mcg_session *session, mcg_place *place, mcg_error **err)
{
  return mcg_engine_backend(mcg_session_engine(session), "jail")->destroy(session, place, err);
}

#define STAND_IN(name, its_family, its_isolation, its_traits, usd)                                 \
  {                                                                                                \
    .id = name, .family = its_family, .isolation = its_isolation, .options = local_options,        \
    .create = create, .destroy = destroy, .traits = its_traits,                                    \
    .rate = (usd) < 0 ? NULL : &(const mcg_rate){usd, "2026-11-01"},                               \
  }

static const mcg_backend stand_ins[] = {
    STAND_IN("docker", MCG_LOCAL, MCG_ISOLATION_CONTAINER, local_traits, -1),
    STAND_IN("kubernetes", MCG_LOCAL, MCG_ISOLATION_CONTAINER, local_traits, -1),
    STAND_IN("e2b", MCG_HOSTED, MCG_ISOLATION_VM, snapshot_traits, 0.0018),
    STAND_IN("modal", MCG_HOSTED, MCG_ISOLATION_GVISOR, gpu_traits, 0.00035),
    STAND_IN("cloudflare", MCG_HOSTED, MCG_ISOLATION_VM, vendor_traits, 0.0012),
    STAND_IN("runloop", MCG_HOSTED, MCG_ISOLATION_VM, stays_traits, 0.0027),
    STAND_IN("daytona", MCG_HOSTED, MCG_ISOLATION_CONTAINER, stays_traits, 0.0011),
    STAND_IN("vercel", MCG_HOSTED, MCG_ISOLATION_VM, stays_traits, 0.0057),
    STAND_IN("blaxel", MCG_HOSTED, MCG_ISOLATION_VM, stays_traits, 0.0028),
};

int luaopen_spec_backends(lua_State *L);
__attribute__((visibility("default"))) int luaopen_spec_backends(lua_State *L)
{
  mcg_error *err = NULL;
  mcg_engine *engine = mcg_lua_engine(mcg_lua_host(L), &err);
  for (size_t i = 0; engine && i < sizeof stand_ins / sizeof *stand_ins; i++)
    if (!mcg_engine_backend(engine, stand_ins[i].id) &&
        mcg_engine_add_backend(engine, &stand_ins[i], &err) < 0)
      return mcg_lua_nil_error(L, err);
  return engine ? 0 : mcg_lua_nil_error(L, err);
}
