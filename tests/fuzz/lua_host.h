/* lua_host.h: a Lua state with the module in it, for targets whose readers are written in Lua. The chunk
 * is given the module's core and returns a function; each input is a call of it with one string, and an
 * error that it throws is a finding. */
#ifndef MCG_FUZZ_LUA_HOST_H
#define MCG_FUZZ_LUA_HOST_H

#include "../../lua/bind/bind.h"
#include "../../lua/bind/system.h"
#include "fuzz.h"

#include <lualib.h>
#include <string.h>

#define LUA_RUNS 5000 /* a state remembers: secrets, strings of errors */

static lua_State *fuzz_lua;

/* LuaJIT's memory is its own, and not looked into for pointers: all that Lua holds would seem lost. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
  return "detect_leaks=0";
}

static void lua_check(lua_State *L, int rc)
{
  if (rc == 0) return;
  fprintf(stderr, "not so: %s\n", lua_tostring(L, -1) ? lua_tostring(L, -1) : "(no text)");
  abort();
}

static void lua_up(const char *chunk)
{
  lua_State *L = luaL_newstate();
  FUZZ_NEED(L);
  luaL_openlibs(L);
  lua_getglobal(L, "package");
  lua_pushliteral(L, FUZZ_ROOT "/lua/?.lua;" FUZZ_ROOT "/lua/?/init.lua");
  lua_setfield(L, -2, "path");
  lua_getfield(L, -1, "preload");
  lua_pushcfunction(L, luaopen_mooncage_core);
  lua_setfield(L, -2, "mooncage.core");
  lua_pushcfunction(L, luaopen_mooncage_cli_system);
  lua_setfield(L, -2, "mooncage.cli.system");
  lua_settop(L, 0);
  lua_check(L, luaL_loadbuffer(L, chunk, strlen(chunk), "=fuzz"));
  lua_check(L, lua_pcall(L, 0, 1, 0));
  fuzz_lua = L;
}

static void lua_down(void)
{
  if (fuzz_lua) lua_close(fuzz_lua);
  fuzz_lua = NULL;
}

static void lua_run(const char *chunk, const void *bytes, size_t len)
{
  static unsigned runs;
  if (runs++ == 0) atexit(lua_down);
  if (runs % LUA_RUNS == 0) lua_down();
  if (!fuzz_lua) lua_up(chunk);
  lua_pushvalue(fuzz_lua, 1);
  lua_pushlstring(fuzz_lua, len ? bytes : "", len);
  lua_check(fuzz_lua, lua_pcall(fuzz_lua, 1, 0, 0));
}

#endif
