/* options.c: arguments and option tables. What the programmer did wrong raises, and says what would
 * be right. Fields are read raw: an option table is plain data. */
#include "bind.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* "file:line: " of whoever called the module: some of its functions go through Lua of ours. */
static void push_caller(lua_State *L)
{
  static const char own[] = "mooncage/init.lua";
  lua_Debug about;
  int level = 1;
  for (; lua_getstack(L, level, &about); level++) {
    lua_getinfo(L, "S", &about);
    size_t len = strlen(about.source);
    if (len < sizeof own - 1 || strcmp(about.source + len - (sizeof own - 1), own) != 0) break;
  }
  luaL_where(L, level);
}

int mcg_lua_misuse(lua_State *L, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  push_caller(L);
  lua_pushliteral(L, "mooncage: ");
  lua_pushvfstring(L, format, args);
  va_end(args);
  lua_concat(L, 3);
  mcg_lua_push_struck(L, lua_tostring(L, -1));
  return lua_error(L);
}

void mcg_lua_check_keys(lua_State *L, int index, const char *const *names, const char *what)
{
  if (lua_isnoneornil(L, index)) return;
  if (!lua_istable(L, index))
    mcg_lua_misuse(L, "%s: options must be a table, not a %s", what, luaL_typename(L, index));
  lua_pushnil(L);
  while (lua_next(L, index)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) != LUA_TSTRING)
      mcg_lua_misuse(L, "%s: option names are strings, not a %s", what, luaL_typename(L, -1));
    const char *key = lua_tostring(L, -1), *const *name = names;
    while (*name && strcmp(*name, key) != 0) name++;
    if (*name) continue;
    const char *near = mcg_nearest(key, names);
    if (near) mcg_lua_misuse(L, "%s: unknown option '%s' (did you mean '%s'?)", what, key, near);
    mcg_lua_misuse(L, "%s: unknown option '%s'", what, key);
  }
}

int mcg_lua_field(lua_State *L, int index, const char *key)
{
  if (!lua_istable(L, index)) {
    lua_pushnil(L);
    return LUA_TNIL;
  }
  lua_pushstring(L, key);
  lua_rawget(L, index);
  return lua_type(L, -1);
}

static void wrong_type(lua_State *L, const char *what, const char *key, const char *wanted)
{
  mcg_lua_misuse(L, "%s: %s must be %s, not a %s", what, key, wanted, luaL_typename(L, -1));
}

const char *mcg_lua_text_field(lua_State *L, int index, const char *key, const char *what)
{
  int type = mcg_lua_field(L, index, key);
  if (type != LUA_TNIL && type != LUA_TSTRING) wrong_type(L, what, key, "a string");
  size_t len = 0;
  const char *text = lua_tolstring(L, -1, &len);
  if (text && strlen(text) != len)
    mcg_lua_misuse(L, "%s: %s contains a NUL byte, which no path, name or argument can", what, key);
  lua_pop(L, 1);
  return text;
}

bool mcg_lua_bool_field(lua_State *L, int index, const char *key, const char *what)
{
  int type = mcg_lua_field(L, index, key);
  if (type != LUA_TNIL && type != LUA_TBOOLEAN) wrong_type(L, what, key, "true or false");
  bool value = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return value;
}

double mcg_lua_number_field(lua_State *L, int index, const char *key, const char *what,
                            double otherwise, double least, double most)
{
  int type = mcg_lua_field(L, index, key);
  if (type != LUA_TNIL && type != LUA_TNUMBER) wrong_type(L, what, key, "a number");
  double value = type == LUA_TNIL ? otherwise : lua_tonumber(L, -1);
  lua_pop(L, 1);
  if (type != LUA_TNIL && !(value >= least && value <= most))
    mcg_lua_misuse(L, "%s: %s must be from %f to %f", what, key, least, most);
  return value;
}

int mcg_lua_list_length(lua_State *L, int index)
{
  int length = (int)lua_objlen(L, index), count = 0;
  for (lua_pushnil(L); lua_next(L, index); count++) {
    double n = lua_type(L, -2) == LUA_TNUMBER ? lua_tonumber(L, -2) : 0;
    lua_pop(L, 1);
    if (n >= 1 && n <= length && n == floor(n)) continue;
    lua_pop(L, 1);
    return -1;
  }
  return count == length ? length : -1;
}

const char *mcg_lua_check_text(lua_State *L, int index, const char *what)
{
  if (lua_type(L, index) != LUA_TSTRING)
    mcg_lua_misuse(L, "%s must be a string, not a %s", what, luaL_typename(L, index));
  size_t len;
  const char *text = lua_tolstring(L, index, &len);
  if (strlen(text) != len)
    mcg_lua_misuse(L, "%s contains a NUL byte, which no path, name or argument can", what);
  return text;
}

int64_t mcg_lua_ms(lua_State *L, double seconds, const char *what)
{
  if (!(seconds >= 0 && seconds <= 1e9))
    mcg_lua_misuse(L, "%s: seconds must be a number from 0 to 1e9", what);
  double ms = ceil(seconds * 1000); /* never sooner than asked */
  return (int64_t)ms;
}

int mcg_lua_mode(lua_State *L, int index, int otherwise, const char *what)
{
  int mode = -1;
  if (lua_isnoneornil(L, index)) return otherwise;
  if (lua_type(L, index) == LUA_TNUMBER) {
    double n = lua_tonumber(L, index);
    if (n >= 0 && n <= 07777 && n == floor(n)) mode = (int)n;
  } else if (lua_type(L, index) == LUA_TSTRING) {
    mode = 0;
    const char *digits = lua_tostring(L, index);
    size_t len = strlen(digits);
    if (len < 3 || len > 5) mode = -1;
    for (const char *d = digits; mode >= 0 && *d; d++)
      mode = *d >= '0' && *d <= '7' ? mode * 8 + (*d - '0') : -1;
  }
  if (mode < 0 || mode > 07777)
    mcg_lua_misuse(L, "%s: mode must be octal digits such as \"755\", or the number they mean",
                   what);
  return mode;
}
