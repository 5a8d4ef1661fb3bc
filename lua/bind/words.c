/* words.c: the words of a shell text, and the commands that are run, for guardrails. */
#include "bind.h"

struct text {
  const char *bytes;
  size_t len;
  const char **argv; /* or NULL: bytes is text for the shell */
  size_t *lens, count;
  mcg_error *err;
};

static char *get_words(void *from)
{
  struct text *text = from;
  return mcg_shell_words(text->bytes, text->len, &text->err);
}

static char *get_commands(void *from)
{
  struct text *text = from;
  if (text->argv) return mcg_argv_commands(text->argv, text->lens, text->count, &text->err);
  return mcg_shell_commands(text->bytes, text->len, &text->err);
}

static int answer(lua_State *L, char *(*get)(void *from), struct text *text)
{
  if (mcg_lua_text_from(L, get, text))
    return mcg_lua_decode_bytes(L, lua_tostring(L, -1), lua_objlen(L, -1)) < 0 ? 2 : 1;
  lua_pushnil(L);
  lua_pushstring(L, text->err->message);
  mcg_error_free(text->err);
  return 2;
}

/* core.words(text) -> the words of one simple command, or nil, why it is none */
int mcg_lua_words(lua_State *L)
{
  struct text text = {.bytes = luaL_checklstring(L, 1, &text.len)};
  return answer(L, get_words, &text);
}

/* The list's texts stay where they are: the list holds them. */
static void read_list(lua_State *L, struct text *text)
{
  int count = mcg_lua_list_length(L, 1);
  if (count < 0) luaL_argerror(L, 1, "must be 1..n without holes or other keys");
  text->count = (size_t)count;
  if (text->count == 0 || text->count > 65536)
    luaL_argerror(L, 1, "must hold a program, and at most 65536 words");
  text->argv = lua_newuserdata(L, text->count * (sizeof *text->argv + sizeof *text->lens));
  text->lens = (size_t *)(text->argv + text->count);
  for (size_t i = 0; i < text->count; i++) {
    lua_rawgeti(L, 1, (int)i + 1);
    if (lua_type(L, -1) != LUA_TSTRING) luaL_argerror(L, 1, "must hold texts alone");
    text->argv[i] = lua_tolstring(L, -1, &text->lens[i]);
    lua_pop(L, 1);
  }
}

/* core.commands(text or list) -> the commands that run, or nil, why that cannot be told */
int mcg_lua_commands(lua_State *L)
{
  struct text text = {0};
  if (lua_istable(L, 1))
    read_list(L, &text);
  else
    text.bytes = luaL_checklstring(L, 1, &text.len);
  return answer(L, get_commands, &text);
}
