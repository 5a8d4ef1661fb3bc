/* error.c: the one error type on Lua's side: a plain table {code, message, fix, backend, retryable,
 * cause} whose tostring reads well. */
#include "bind.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

char *(*mcg_lua_strike)(lua_State *L, const char *text);

struct striking {
  lua_State *L;
  const char *text;
};

static char *strike(void *from)
{
  const struct striking *s = from;
  return mcg_lua_strike(s->L, s->text);
}

void mcg_lua_push_struck(lua_State *L, const char *text)
{
  struct striking s = {L, text};
  if (!mcg_lua_strike)
    lua_pushstring(L, text);
  else if (!mcg_lua_text_from(L, strike, &s))
    lua_pushliteral(L, "not enough memory to say why");
}

static void set_text(lua_State *L, const char *key, const char *text)
{
  if (!text) return;
  mcg_lua_push_struck(L, text);
  lua_setfield(L, -2, key);
}

static void new_error(lua_State *L, const char *code, const char *message, const char *fix)
{
  lua_createtable(L, 0, 6);
  set_text(L, "code", code);
  set_text(L, "message", message);
  set_text(L, "fix", fix);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "retryable");
  luaL_setmetatable(L, MCG_LUA_ERROR);
}

void mcg_lua_push_error(lua_State *L, const mcg_error *error)
{
  luaL_checkstack(L, 6, "too many causes");
  new_error(L, mcg_code_name(error->code), error->message ? error->message : "", error->fix);
  set_text(L, "backend", error->backend);
  lua_pushboolean(L, error->retryable);
  lua_setfield(L, -2, "retryable");
  if (!error->cause) return;
  mcg_lua_push_error(L, error->cause);
  lua_setfield(L, -2, "cause");
}

static int push_protected(lua_State *L)
{
  mcg_lua_push_error(L, lua_touserdata(L, 1));
  return 1;
}

int mcg_lua_nil_error(lua_State *L, mcg_error *error)
{
  luaL_checkstack(L, 4, "too many results"); /* the error is lost with the state's last memory */
  lua_pushnil(L);
  lua_pushcfunction(L, push_protected);
  lua_pushlightuserdata(L, error);
  int rc = lua_pcall(L, 1, 1, 0);
  mcg_error_free(error);
  if (rc != 0) lua_error(L);
  return 2;
}

int mcg_lua_fail(lua_State *L, mcg_code code, const char *fix, const char *format, ...)
{
  char message[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  lua_pushnil(L);
  new_error(L, mcg_code_name(code), message, fix);
  return 2;
}

void mcg_lua_caught(lua_State *L, lua_State *from)
{
  if (lua_istable(L, -1)) {
    if (!lua_getmetatable(L, -1)) return; /* somebody's own error value: left as it is */
    luaL_getmetatable(L, MCG_LUA_ERROR);
    bool ours = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    if (!ours || !from) return;
  } else {
    int at = lua_gettop(L);
    if (lua_isstring(L, at))
      lua_pushvalue(L, at);
    else
      lua_pushfstring(L, "an error of type %s", luaL_typename(L, at));
    new_error(L, "internal", lua_tostring(L, -1), NULL);
    lua_replace(L, at);
    lua_settop(L, at);
  }
  if (!from) return;
  luaL_traceback(L, from, NULL, 0);
  lua_setfield(L, -2, "traceback");
}

static int error_tostring(lua_State *L)
{
  lua_settop(L, 1);
  lua_getfield(L, 1, "backend");
  lua_getfield(L, 1, "message");
  const char *message = lua_isstring(L, 3) ? lua_tostring(L, 3) : "unknown error";
  if (lua_isstring(L, 2))
    lua_pushfstring(L, "%s: %s", lua_tostring(L, 2), message);
  else
    lua_pushstring(L, message);
  return 1;
}

static int error_concat(lua_State *L)
{
  for (int i = 1; i <= 2; i++) {
    lua_getglobal(L, "tostring");
    lua_pushvalue(L, i);
    lua_call(L, 1, 1);
  }
  lua_concat(L, 2);
  return 1;
}

void mcg_lua_error_setup(lua_State *L)
{
  luaL_newmetatable(L, MCG_LUA_ERROR);
  lua_pushcfunction(L, error_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pushcfunction(L, error_concat);
  lua_setfield(L, -2, "__concat");
  lua_pop(L, 1);
}
