/* words.c: the words of a shell text, for guardrails. */
#include "bind.h"

struct text {
  const char *bytes;
  size_t len;
  mcg_error *err;
};

static char *get_words(void *from)
{
  struct text *text = from;
  return mcg_shell_words(text->bytes, text->len, &text->err);
}

/* core.words(text) -> the words of one simple command, or nil, why it is none */
int mcg_lua_words(lua_State *L)
{
  struct text text = {.bytes = luaL_checklstring(L, 1, &text.len)};
  if (mcg_lua_text_from(L, get_words, &text))
    return mcg_lua_decode(L, lua_tostring(L, -1), lua_objlen(L, -1)) < 0 ? 2 : 1;
  lua_pushnil(L);
  lua_pushstring(L, text.err->message);
  mcg_error_free(text.err);
  return 2;
}
