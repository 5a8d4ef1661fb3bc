/* spec.c: a command and its options from Lua, and its result to Lua. The strings stay Lua's: they
 * are anchored on the caller's stack until the engine has copied them. */
#include "bind.h"

#include <stdio.h>
#include <string.h>

static const char *const exec_keys[] = {"cwd",        "env",    "stdin",     "timeout",
                                        "user",       "pty",    "on_stdout", "on_stderr",
                                        "max_output", "detach", "tool",      NULL};

#define KEYS_MAX 24

/* Text of the value on top, which is replaced by the string; NULL: the wrong type. */
static const char *plain_text(lua_State *L, const char *what, const char *of)
{
  if (lua_type(L, -1) != LUA_TSTRING && lua_type(L, -1) != LUA_TNUMBER)
    mcg_lua_misuse(L, "%s: %s must be a string, not a %s", what, of, luaL_typename(L, -1));
  size_t len;
  const char *text = lua_tolstring(L, -1, &len);
  if (strlen(text) != len)
    mcg_lua_misuse(L, "%s: %s contains a NUL byte, which no argument can", what, of);
  return text;
}

/* The same of an argument, which is given its name where there is something to say of it. */
static const char *argument_text(lua_State *L, const char *what, int number)
{
  char of[40];
  size_t len;
  const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &len) : NULL;
  if (text && strlen(text) == len) return text;
  snprintf(of, sizeof of, "argument %d", number);
  return plain_text(L, what, of);
}

/* Leaves two values: the anchors and the array. */
static const char **read_argv(lua_State *L, int index, const char *what)
{
  int count = mcg_lua_list_length(L, index);
  if (count < 0)
    mcg_lua_misuse(L, "%s: the command must be a list: 1..n without holes or other keys", what);
  if (count == 0) mcg_lua_misuse(L, "%s: the command is an empty list", what);
  lua_createtable(L, count, 0);
  int anchors = lua_gettop(L);
  const char **argv = lua_newuserdata(L, sizeof *argv * ((size_t)count + 1));
  for (int i = 1; i <= count; i++) {
    lua_rawgeti(L, index, i);
    argv[i - 1] = argument_text(L, what, i - 1);
    lua_rawseti(L, anchors, i);
  }
  argv[count] = NULL;
  return argv;
}

/* Leaves two values when there is an environment. */
static const char *const *read_env(lua_State *L, int options, const char *what)
{
  int type = mcg_lua_field(L, options, "env");
  int env = lua_gettop(L), count = 0;
  if (type == LUA_TNIL) {
    lua_pop(L, 1);
    return NULL;
  }
  if (type != LUA_TTABLE)
    mcg_lua_misuse(L, "%s: env must be a table of names and values, not a %s", what,
                   luaL_typename(L, env));
  lua_newtable(L);
  int anchors = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, env); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING)
      mcg_lua_misuse(L, "%s: env must be { NAME = \"value\" }", what);
    size_t len;
    const char *name = lua_tolstring(L, -2, &len);
    if (len == 0 || strlen(name) != len || strchr(name, '=')) {
      lua_pushlstring(L, name, strcspn(name, "=")); /* what follows may be a secret */
      mcg_lua_misuse(L, "%s: env: '%s' is no name of a variable; give { NAME = \"value\" }", what,
                     lua_tostring(L, -1));
    }
    if (luaL_testudata(L, -1, MCG_LUA_SECRET)) {
      const char *value = lua_touserdata(L, -1);
      if (strlen(value) + 1 != lua_objlen(L, -1))
        mcg_lua_misuse(L, "%s: env.%s contains a NUL byte", what, name);
      lua_pushfstring(L, "%s=%s", name, value);
    } else {
      char of[80];
      snprintf(of, sizeof of, "env.%s", name);
      lua_pushvalue(L, -1);
      lua_pushfstring(L, "%s=%s", name, plain_text(L, what, of));
      lua_remove(L, -2);
    }
    lua_rawseti(L, anchors, ++count);
  }
  const char **list = lua_newuserdata(L, sizeof *list * ((size_t)count + 1));
  for (int i = 1; i <= count; i++) {
    lua_rawgeti(L, anchors, i);
    list[i - 1] = lua_tostring(L, -1);
    lua_pop(L, 1);
  }
  list[count] = NULL;
  lua_remove(L, env);
  return list;
}

static void read_pty(lua_State *L, int options, const char *what, mcg_exec_spec *spec)
{
  static const char *const keys[] = {"cols", "rows", NULL};
  int type = mcg_lua_field(L, options, "pty");
  if (type == LUA_TTABLE) {
    int pty = lua_gettop(L);
    mcg_lua_check_keys(L, pty, keys, "pty");
    spec->pty = true;
    spec->cols = (uint16_t)mcg_lua_number_field(L, pty, "cols", what, 80, 1, 65535);
    spec->rows = (uint16_t)mcg_lua_number_field(L, pty, "rows", what, 24, 1, 65535);
  } else if (type == LUA_TBOOLEAN || type == LUA_TNIL) {
    spec->pty = lua_toboolean(L, -1);
  } else {
    mcg_lua_misuse(L, "%s: pty must be true or { cols = 80, rows = 24 }", what);
  }
  lua_pop(L, 1);
}

static void read_stdin(lua_State *L, int options, const char *what, mcg_lua_spec *out)
{
  int type = mcg_lua_field(L, options, "stdin");
  if (type == LUA_TSTRING) {
    out->spec.stdin_mode = MCG_STDIN_DATA;
    out->spec.stdin_data = lua_tolstring(L, -1, &out->spec.stdin_len); /* anchored by the table */
  } else if (type == LUA_TFUNCTION) {
    out->spec.stdin_mode = MCG_STDIN_PIPE;
    out->stdin_function = true;
    return; /* stays on top */
  } else if (type != LUA_TNIL) {
    mcg_lua_misuse(L, "%s: stdin must be a string or a function that returns chunks, not a %s",
                   what, luaL_typename(L, -1));
  }
  lua_pop(L, 1);
}

void mcg_lua_parse_spec(lua_State *L, int cmd, int options, const char *const *extra,
                        const char *what, mcg_lua_spec *out)
{
  const char *keys[KEYS_MAX];
  size_t n = 0;
  for (const char *const *k = exec_keys; *k; k++) keys[n++] = *k;
  for (const char *const *k = extra; k && *k && n < KEYS_MAX - 1; k++) keys[n++] = *k;
  keys[n] = NULL;
  luaL_checkstack(L, 16, "too many arguments");
  memset(out, 0, sizeof *out);
  mcg_exec_spec *spec = &out->spec;
  spec->size = sizeof *spec;
  mcg_lua_check_keys(L, options, keys, what);
  if (lua_type(L, cmd) == LUA_TTABLE) {
    spec->argv = read_argv(L, cmd, what);
  } else if (lua_type(L, cmd) == LUA_TSTRING) {
    lua_pushvalue(L, cmd);
    spec->shell = plain_text(L, what, "the command");
  } else {
    mcg_lua_misuse(L, "%s: the command must be a string (shell text) or a list (argv), not a %s",
                   what, luaL_typename(L, cmd));
  }
  spec->cwd = mcg_lua_text_field(L, options, "cwd", what);
  spec->user = mcg_lua_text_field(L, options, "user", what);
  spec->tool = mcg_lua_text_field(L, options, "tool", what);
  spec->env = read_env(L, options, what);
  spec->detach = mcg_lua_bool_field(L, options, "detach", what);
  double timeout = mcg_lua_number_field(L, options, "timeout", what, 0, 0.001, 1e9);
  spec->timeout_ms = mcg_lua_ms(L, timeout, what);
  double most = mcg_lua_number_field(L, options, "max_output", what, -1, 0, 4e9);
  spec->max_output = most < 0 ? 0 : most == 0 ? MCG_CAPTURE_NONE : (size_t)most;
  read_pty(L, options, what, spec);
  read_stdin(L, options, what, out);
}

/* What every result has. */
static const char make_result[] =
    "return function(exit_code, ok, stdout, stdout_bytes, stdout_truncated, stderr, stderr_bytes,\n"
    "    stderr_truncated, timed_out, oom_killed, not_found, pid, duration, cpu_s, max_rss_mb)\n"
    "  return { exit_code = exit_code, ok = ok, stdout = stdout, stdout_bytes = stdout_bytes,\n"
    "    stdout_truncated = stdout_truncated, stderr = stderr, stderr_bytes = stderr_bytes,\n"
    "    stderr_truncated = stderr_truncated, timed_out = timed_out, oom_killed = oom_killed,\n"
    "    not_found = not_found, pid = pid, duration = duration, cpu_s = cpu_s,\n"
    "    max_rss_mb = max_rss_mb }\n"
    "end\n";
#define RESULT_FIELDS 15

static void push_stream(lua_State *L, const char *data, size_t len, uint64_t bytes, bool truncated)
{
  lua_pushlstring(L, data ? data : "", data ? len : 0);
  lua_pushnumber(L, (lua_Number)bytes);
  lua_pushboolean(L, truncated);
}

/* Where it does not hold, nil. */
static void push_number_if(lua_State *L, bool holds, double number)
{
  if (holds)
    lua_pushnumber(L, number);
  else
    lua_pushnil(L);
}

static void set_text(lua_State *L, const char *key, const char *text)
{
  if (!text) return;
  lua_pushstring(L, text);
  lua_setfield(L, -2, key);
}

void mcg_lua_push_result(lua_State *L, const mcg_result *r)
{
  bool exited = !r->signal && !r->detached;
  luaL_checkstack(L, RESULT_FIELDS + 4, "a result");
  mcg_lua_push_maker(L, mcg_lua_host(L)->result_ref, make_result);
  push_number_if(L, exited, r->exit_code);
  lua_pushboolean(L, exited && r->exit_code == 0);
  push_stream(L, r->stdout_data, r->stdout_len, r->stdout_bytes, r->stdout_truncated);
  push_stream(L, r->stderr_data, r->stderr_len, r->stderr_bytes, r->stderr_truncated);
  lua_pushboolean(L, r->timed_out);
  lua_pushboolean(L, r->oom_killed);
  lua_pushboolean(L, r->not_found);
  push_number_if(L, r->pid > 0, r->pid);
  lua_pushnumber(L, r->duration_s);
  lua_pushnumber(L, r->cpu_s);
  lua_pushnumber(L, r->max_rss_mb);
  lua_call(L, RESULT_FIELDS, 1);
  set_text(L, "signal", r->signal);
  set_text(L, "start_error", r->start_error);
  if (!r->detached) return;
  lua_pushboolean(L, true);
  lua_setfield(L, -2, "detached");
}
