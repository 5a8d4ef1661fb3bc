/* json.c: Lua values to JSON text and back. Integers stay integers; strings that are not UTF-8 (for
 * the engine also those that hold NUL) become {"base64": "..."}; keys are in order. What JSON cannot say (functions, NaN,
 * cycles, mixed keys) raises, with the path to it. An empty table is {}, one made by core.array is
 * []. */
#include "bind.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 100
#define BUFFER "mooncage.buffer"

/* Lives in a userdata, so that an error raised on the way leaks nothing. */
struct buffer {
  char *data;
  size_t len, cap;
};

struct path {
  const struct path *up;
  const char *key; /* NULL: an index */
  int index;
};

struct encoder {
  lua_State *L;
  struct buffer *out;
  const char *what;
  int seen;    /* stack index: tables on the path */
  bool reveal; /* secrets too: the text goes to the engine */
};

static int buffer_gc(lua_State *L)
{
  struct buffer *b = lua_touserdata(L, 1);
  free(b->data);
  b->data = NULL;
  return 0;
}

static struct buffer *buffer_new(lua_State *L)
{
  struct buffer *b = lua_newuserdata(L, sizeof *b);
  memset(b, 0, sizeof *b);
  if (luaL_newmetatable(L, BUFFER)) {
    lua_pushcfunction(L, buffer_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  return b;
}

static void put(struct encoder *e, const char *text, size_t len)
{
  struct buffer *b = e->out;
  if (len > b->cap - b->len) {
    size_t cap = b->cap ? b->cap : 256;
    while (cap - b->len < len) {
      if (cap > SIZE_MAX / 4) luaL_error(e->L, "mooncage: not enough memory");
      cap *= 2;
    }
    char *data = realloc(b->data, cap);
    if (!data) luaL_error(e->L, "mooncage: not enough memory");
    b->data = data;
    b->cap = cap;
  }
  memcpy(b->data + b->len, text, len);
  b->len += len;
}

static void put_text(struct encoder *e, const char *text)
{
  put(e, text, strlen(text));
}

/* Pushes "config.limits.memory_mb". */
static void push_path(lua_State *L, const char *what, const struct path *path)
{
  if (!path) {
    lua_pushstring(L, what);
    return;
  }
  push_path(L, what, path->up);
  if (path->key)
    lua_pushfstring(L, "%s.%s", lua_tostring(L, -1), path->key);
  else
    lua_pushfstring(L, "%s[%d]", lua_tostring(L, -1), path->index);
  lua_remove(L, -2);
}

static void refuse(struct encoder *e, const struct path *path, const char *why)
{
  luaL_checkstack(e->L, 8, "too deep");
  push_path(e->L, e->what, path);
  mcg_lua_misuse(e->L, "%s: %s", lua_tostring(e->L, -1), why);
}

/* How many bytes the UTF-8 sequence at `s` has; 0: none (RFC 3629: no surrogates, no overlongs). */
static size_t utf8_length(const unsigned char *s, size_t left)
{
  if (s[0] < 0x80) return 1;
  size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
  if (s[0] < 0xc2 || s[0] > 0xf4 || n > left) return 0;
  for (size_t i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f)) return 0;
  if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f)) return 0;
  return n;
}

static bool is_text(const char *s, size_t len, bool with_nul)
{
  for (size_t i = 0; i < len;) {
    size_t n = s[i] || with_nul ? utf8_length((const unsigned char *)s + i, len - i) : 0;
    if (n == 0) return false;
    i += n;
  }
  return true;
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_base64(struct encoder *e, const unsigned char *s, size_t len)
{
  const char *digits = base64_digits;
  put_text(e, "{\"base64\":\"");
  for (size_t i = 0; i < len; i += 3) {
    size_t n = len - i < 3 ? len - i : 3;
    unsigned v =
        (unsigned)s[i] << 16 | (n > 1 ? (unsigned)s[i + 1] << 8 : 0) | (n > 2 ? s[i + 2] : 0);
    char four[4] = {digits[v >> 18], digits[v >> 12 & 63], n > 1 ? digits[v >> 6 & 63] : '=',
                    n > 2 ? digits[v & 63] : '='};
    put(e, four, 4);
  }
  put_text(e, "\"}");
}

static void put_quoted(struct encoder *e, const char *s, size_t len)
{
  put_text(e, "\"");
  size_t plain = 0;
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)s[i];
    if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) continue;
    put(e, s + plain, i - plain);
    plain = i + 1;
    char escape[8];
    if (c == '"' || c == '\\')
      snprintf(escape, sizeof escape, "\\%c", c);
    else if (c == '\n')
      snprintf(escape, sizeof escape, "\\n");
    else if (c == '\t')
      snprintf(escape, sizeof escape, "\\t");
    else
      snprintf(escape, sizeof escape, "\\u%04x", c);
    put_text(e, escape);
  }
  put(e, s + plain, len - plain);
  put_text(e, "\"");
}

static void put_string(struct encoder *e, const char *s, size_t len)
{
  if (is_text(s, len, !e->reveal))
    put_quoted(e, s, len);
  else
    put_base64(e, (const unsigned char *)s, len);
}

static void put_number(struct encoder *e, double n, const struct path *path)
{
  char text[40];
  if (!isfinite(n)) refuse(e, path, "NaN and infinity cannot be said in JSON");
  if (n == floor(n) && fabs(n) < 9007199254740992.0)
    snprintf(text, sizeof text, "%.0f", n == 0 ? 0.0 : n);
  else
    for (int digits = 15; digits <= 17; digits++) { /* the shortest that reads back the same */
      snprintf(text, sizeof text, "%.*g", digits, n);
      if (strtod(text, NULL) == n) break;
    }
  /* A host may have set a locale whose decimal point is a comma. */
  for (char *c = text; *c; c++)
    if (*c == ',') *c = '.';
  put_text(e, text);
}

static void encode(struct encoder *e, int index, const struct path *path, int depth);

static void encode_list(struct encoder *e, int index, int count, const struct path *path, int depth)
{
  put_text(e, "[");
  for (int i = 1; i <= count; i++) {
    struct path here = {path, NULL, i};
    if (i > 1) put_text(e, ",");
    lua_rawgeti(e->L, index, i);
    encode(e, lua_gettop(e->L), &here, depth);
    lua_pop(e->L, 1);
  }
  put_text(e, "]");
}

static int compare_keys(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void encode_object(struct encoder *e, int index, int count, const struct path *path,
                          int depth)
{
  lua_State *L = e->L;
  /* The keys are anchored by the table itself. */
  const char **keys = lua_newuserdata(L, sizeof *keys * (size_t)(count ? count : 1));
  int n = 0;
  lua_pushnil(L);
  while (lua_next(L, index)) {
    lua_pop(L, 1);
    size_t len;
    const char *key = lua_tolstring(L, -1, &len);
    if (!is_text(key, len, false)) refuse(e, path, "a key is not UTF-8 text");
    keys[n++] = key;
  }
  qsort(keys, (size_t)n, sizeof *keys, compare_keys);
  put_text(e, "{");
  for (int i = 0; i < n; i++) {
    struct path here = {path, keys[i], 0};
    if (i) put_text(e, ",");
    put_quoted(e, keys[i], strlen(keys[i]));
    put_text(e, ":");
    lua_pushstring(L, keys[i]);
    lua_rawget(L, index);
    encode(e, lua_gettop(L), &here, depth);
    lua_pop(L, 1);
  }
  put_text(e, "}");
  lua_pop(L, 1);
}

/* Counts the keys. */
static bool is_list(struct encoder *e, int index, int *count, const struct path *path)
{
  lua_State *L = e->L;
  int texts = 0, numbers = 0, length = (int)lua_objlen(L, index);
  lua_pushnil(L);
  while (lua_next(L, index)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING) {
      texts++;
    } else if (lua_type(L, -1) == LUA_TNUMBER) {
      double n = lua_tonumber(L, -1);
      if (n != floor(n) || n < 1 || n > length)
        refuse(e, path, "a list must be 1..n without holes");
      numbers++;
    } else {
      refuse(e, path, "keys must be strings, or 1..n");
    }
  }
  if (texts && numbers) refuse(e, path, "has both names and list items");
  if (numbers && numbers != length) refuse(e, path, "a list must be 1..n without holes");
  *count = texts + numbers;
  if (*count) return numbers > 0;
  if (!lua_getmetatable(L, index)) return false;
  luaL_getmetatable(L, MCG_LUA_ARRAY);
  bool array = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return array;
}

static void encode_table(struct encoder *e, int index, const struct path *path, int depth)
{
  lua_State *L = e->L;
  if (depth > DEPTH_MAX) refuse(e, path, "is nested too deep");
  luaL_checkstack(L, 12, "too deep");
  lua_pushvalue(L, index);
  lua_rawget(L, e->seen);
  if (lua_toboolean(L, -1)) refuse(e, path, "contains itself");
  lua_pop(L, 1);
  lua_pushvalue(L, index);
  lua_pushboolean(L, 1);
  lua_rawset(L, e->seen);
  int count;
  if (is_list(e, index, &count, path))
    encode_list(e, index, count, path, depth + 1);
  else
    encode_object(e, index, count, path, depth + 1);
  lua_pushvalue(L, index);
  lua_pushnil(L);
  lua_rawset(L, e->seen);
}

static void encode(struct encoder *e, int index, const struct path *path, int depth)
{
  lua_State *L = e->L;
  size_t len;
  const char *text;
  switch (lua_type(L, index)) {
  case LUA_TNIL: put_text(e, "null"); return;
  case LUA_TBOOLEAN: put_text(e, lua_toboolean(L, index) ? "true" : "false"); return;
  case LUA_TNUMBER: put_number(e, lua_tonumber(L, index), path); return;
  case LUA_TTABLE: encode_table(e, index, path, depth); return;
  case LUA_TSTRING:
    text = lua_tolstring(L, index, &len);
    put_string(e, text, len);
    return;
  case LUA_TLIGHTUSERDATA:
    if (!lua_touserdata(L, index)) { /* core.null */
      put_text(e, "null");
      return;
    }
    break;
  case LUA_TUSERDATA:
    if (!luaL_testudata(L, index, MCG_LUA_SECRET)) break;
    if (e->reveal)
      put_string(e, lua_touserdata(L, index), lua_objlen(L, index) - 1);
    else
      put_text(e, "\"[redacted]\"");
    return;
  default: break;
  }
  lua_pushfstring(L, "a %s cannot be given here", luaL_typename(L, index));
  refuse(e, path, lua_tostring(L, -1));
}

static void encode_value(lua_State *L, int index, const char *what, bool reveal)
{
  struct encoder e = {.L = L, .what = what, .reveal = reveal};
  e.out = buffer_new(L);
  int base = lua_gettop(L);
  lua_newtable(L);
  e.seen = base + 1;
  encode(&e, index, NULL, 0);
  lua_pushlstring(L, e.out->data ? e.out->data : "", e.out->len);
  free(e.out->data);
  e.out->data = NULL;
  lua_replace(L, base);
  lua_settop(L, base);
}

void mcg_lua_encode(lua_State *L, int index, const char *what)
{
  encode_value(L, index, what, true);
}

/* The value at the top of the stack; NULL: it needs more than this, or there is no memory. */
static json_t *simple_value(lua_State *L)
{
  size_t len;
  const char *text;
  switch (lua_type(L, -1)) {
  case LUA_TBOOLEAN: return json_boolean(lua_toboolean(L, -1));
  case LUA_TSTRING:
    text = lua_tolstring(L, -1, &len);
    return is_text(text, len, false) ? json_stringn_nocheck(text, len) : NULL;
  default: return NULL;
  }
}

struct json_t *mcg_lua_simple_object(lua_State *L, int index)
{
  json_t *object = lua_istable(L, index) ? json_object() : NULL;
  if (!object) return NULL;
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    size_t len;
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &len) : NULL;
    if (key && is_text(key, len, false) &&
        json_object_set_new_nocheck(object, key, simple_value(L)) == 0)
      continue;
    lua_pop(L, 2);
    json_decref(object);
    return NULL;
  }
  return object;
}

/* core.encode(value) -> text; secrets are redacted. */
int mcg_lua_json_encode(lua_State *L)
{
  luaL_checkany(L, 1);
  lua_settop(L, 1);
  encode_value(L, 1, "value", false);
  return 1;
}

/* Pushes what {"base64":"..."} stands for; false: it is another object. */
static bool push_base64(lua_State *L, const json_t *object)
{
  const json_t *coded = json_object_get(object, "base64");
  if (json_object_size(object) != 1 || !json_is_string(coded)) return false;
  luaL_Buffer bytes;
  luaL_buffinit(L, &bytes);
  unsigned bits = 0, count = 0;
  for (const char *at = json_string_value(coded); *at && *at != '='; at++) {
    const char *digit = strchr(base64_digits, *at);
    bits = bits << 6 | (digit ? (unsigned)(digit - base64_digits) : 0);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    luaL_addchar(&bytes, (char)(bits >> count & 255));
  }
  luaL_pushresult(&bytes);
  return true;
}

/* `bytes`: what is no text in it is bytes again, not an object. */
static void push_json(lua_State *L, const json_t *value, bool bytes)
{
  luaL_checkstack(L, 4, "JSON nested too deep");
  size_t i;
  const char *key;
  json_t *item;
  switch (json_typeof(value)) {
  case JSON_OBJECT:
    if (bytes && push_base64(L, value)) return;
    lua_createtable(L, 0, (int)json_object_size(value));
    json_object_foreach((json_t *)value, key, item)
    {
      push_json(L, item, bytes);
      lua_setfield(L, -2, key);
    }
    return;
  case JSON_ARRAY:
    lua_createtable(L, (int)json_array_size(value), 0);
    json_array_foreach(value, i, item)
    {
      push_json(L, item, bytes);
      lua_rawseti(L, -2, (int)i + 1);
    }
    if (json_array_size(value) == 0) luaL_setmetatable(L, MCG_LUA_ARRAY);
    return;
  case JSON_STRING: lua_pushlstring(L, json_string_value(value), json_string_length(value)); return;
  case JSON_INTEGER: lua_pushnumber(L, (lua_Number)json_integer_value(value)); return;
  case JSON_REAL: lua_pushnumber(L, json_real_value(value)); return;
  case JSON_TRUE: lua_pushboolean(L, 1); return;
  case JSON_FALSE: lua_pushboolean(L, 0); return;
  default: lua_pushnil(L); return;
  }
}

void mcg_lua_push_json(lua_State *L, const struct json_t *value)
{
  push_json(L, value, false);
}

void mcg_lua_push_bytes_json(lua_State *L, const struct json_t *value)
{
  push_json(L, value, true);
}

void mcg_lua_push_question(lua_State *L, const struct json_t *question)
{
  const char *key;
  json_t *item;
  lua_createtable(L, 0, (int)json_object_size(question));
  json_object_foreach((json_t *)question, key, item)
  {
    push_json(L, item, strcmp(key, "command") == 0 || strcmp(key, "result") == 0);
    lua_setfield(L, -2, key);
  }
}

/* What Lua allocates for the call is there before memory of others is: begin, get it, end. */
struct decoding {
  json_t *value;
  char *text;
};

static int push_json_protected(lua_State *L)
{
  push_json(L, ((struct decoding *)lua_touserdata(L, 1))->value, false);
  return 1;
}

static int push_bytes_protected(lua_State *L)
{
  push_json(L, ((struct decoding *)lua_touserdata(L, 1))->value, true);
  return 1;
}

static int push_question_protected(lua_State *L)
{
  mcg_lua_push_question(L, ((struct decoding *)lua_touserdata(L, 1))->value);
  return 1;
}

static int push_text_protected(lua_State *L)
{
  lua_pushstring(L, ((struct decoding *)lua_touserdata(L, 1))->text);
  return 1;
}

static void begin(lua_State *L, lua_CFunction push, struct decoding *d)
{
  luaL_checkstack(L, 4, "too many results");
  lua_pushcfunction(L, push);
  lua_pushlightuserdata(L, d);
}

static int end(lua_State *L, struct decoding *d, const char *text, size_t len)
{
  json_error_t why;
  d->value = json_loadb(text, len, JSON_DECODE_ANY, &why);
  free(d->text);
  if (!d->value) {
    lua_pop(L, 2);
    mcg_lua_fail(L, MCG_INVALID, NULL, "not JSON: line %d: %s", why.line, why.text);
    return -1;
  }
  int rc = lua_pcall(L, 1, 1, 0);
  json_decref(d->value);
  if (rc != 0) lua_error(L);
  return 0;
}

int mcg_lua_decode(lua_State *L, const char *text, size_t len)
{
  struct decoding d = {NULL, NULL};
  begin(L, push_json_protected, &d);
  return end(L, &d, text, len);
}

int mcg_lua_decode_bytes(lua_State *L, const char *text, size_t len)
{
  struct decoding d = {NULL, NULL};
  begin(L, push_bytes_protected, &d);
  return end(L, &d, text, len);
}

int mcg_lua_decode_from(lua_State *L, char *(*get)(const void *from), const void *from)
{
  struct decoding d = {NULL, NULL};
  begin(L, push_json_protected, &d);
  d.text = get(from);
  if (!d.text) luaL_error(L, "mooncage: not enough memory");
  return end(L, &d, d.text, strlen(d.text));
}

bool mcg_lua_text_from(lua_State *L, char *(*get)(void *from), void *from)
{
  struct decoding d = {NULL, NULL};
  begin(L, push_text_protected, &d);
  d.text = get(from);
  if (!d.text) {
    lua_pop(L, 2);
    return false;
  }
  int rc = lua_pcall(L, 1, 1, 0);
  free(d.text);
  if (rc != 0) lua_error(L);
  return true;
}

/* core.decode(text) -> value | nil, err */
int mcg_lua_json_decode(lua_State *L)
{
  size_t len;
  const char *text = luaL_checklstring(L, 1, &len);
  return mcg_lua_decode(L, text, len) < 0 ? 2 : 1;
}

/* core.question(text) -> a question of the engine's, as a decision is given it | nil, err */
int mcg_lua_json_question(lua_State *L)
{
  size_t len;
  const char *text = luaL_checklstring(L, 1, &len);
  struct decoding d = {NULL, NULL};
  begin(L, push_question_protected, &d);
  return end(L, &d, text, len) < 0 ? 2 : 1;
}

/* core.array(t): t, which is a JSON list even when it is empty. */
int mcg_lua_json_array(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  luaL_newmetatable(L, MCG_LUA_ARRAY);
  lua_setmetatable(L, 1);
  return 1;
}
