/* expose.c: session:expose. */
#include "bind.h"

#include <math.h>

static int push_url(lua_State *L, void *ctx)
{
  lua_pushstring(L, ctx);
  return 1;
}

static void on_exposed(void *data, const char *url, mcg_error *error)
{
  mcg_task *task = mcg_lua_take_ticket(data);
  if (!task)
    mcg_error_free(error);
  else if (error)
    mcg_lua_failed(task, error);
  else
    mcg_lua_complete(task, push_url, (void *)(uintptr_t)url);
}

static uint16_t check_port(lua_State *L, double value, const char *what)
{
  if (!(value >= 1 && value <= 65535) || value != floor(value))
    mcg_lua_misuse(L, "expose: %s must be a whole number from 1 to 65535", what);
  return (uint16_t)value;
}

/* session:expose(port, { host_port = number, path = string }) -> url | nil, err */
int mcg_lua_session_expose(lua_State *L)
{
  static const char *const keys[] = {"host_port", "path", "connections", "idle_s", NULL};
  mcg_lua_session *s = mcg_lua_check_session(L, 1);
  lua_settop(L, 3);
  if (lua_type(L, 2) != LUA_TNUMBER)
    mcg_lua_misuse(L, "expose: the port must be a number, not a %s", luaL_typename(L, 2));
  mcg_lua_check_keys(L, 3, keys, "expose");
  mcg_expose_spec spec = {.size = sizeof spec,
                          .port = check_port(L, lua_tonumber(L, 2), "the port")};
  double host_port = mcg_lua_number_field(L, 3, "host_port", "expose", 0, 1, 65535);
  if (host_port != 0) spec.host_port = check_port(L, host_port, "host_port");
  spec.path = mcg_lua_text_field(L, 3, "path", "expose");
  spec.connections = (uint32_t)mcg_lua_number_field(L, 3, "connections", "expose", 0, 1, 1e6);
  spec.idle_ms = (uint64_t)(mcg_lua_number_field(L, 3, "idle_s", "expose", 0, 0.001, 1e6) * 1000);
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  mcg_error *err = NULL;
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  int rc = mcg_session_expose(s->session, &spec, on_exposed, ticket, &ticket->op, &err);
  return mcg_lua_started(L, task, ticket, rc, err);
}
