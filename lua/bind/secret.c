/* secret.c: a value that is handed on, and never shown: tostring, concatenation and JSON output for
 * people give "[redacted]"; only a config on its way to the engine holds the value. */
#include "bind.h"

#include <string.h>

int mcg_lua_secret(lua_State *L)
{
  size_t len;
  const char *value = luaL_checklstring(L, 1, &len);
  char *block = lua_newuserdata(L, len + 1);
  memcpy(block, value, len + 1);
  luaL_setmetatable(L, MCG_LUA_SECRET);
  mcg_error *err = NULL; /* the audit log is to know it; who cannot have an engine opens nothing */
  mcg_engine *engine = mcg_lua_engine(mcg_lua_host(L), &err);
  if (!engine || mcg_engine_secret(engine, block, len, &err) < 0) return mcg_lua_nil_error(L, err);
  return 1;
}

static int redacted(lua_State *L)
{
  lua_pushliteral(L, "[redacted]");
  return 1;
}

void mcg_lua_secret_setup(lua_State *L)
{
  mcg_lua_class(L, MCG_LUA_SECRET, NULL, NULL);
  lua_pushcfunction(L, redacted);
  lua_setfield(L, -2, "__tostring");
  lua_pop(L, 1);
}
