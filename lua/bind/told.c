/* told.c: what a question tells of a command, as the table that the JSON of the question would become:
 * three are asked of each command, and no JSON is made in between. Each question has tables of its own:
 * what a function does to them is not seen by the next one. */
#include "bind.h"

#include <string.h>

/* `alone` are the words of a command that is the only one, in the place of `commands`. What most have
 * not is put in last: the tables are small then. */
static const char make_told[] =
    "return function(hook, id, argv, shell, words, alone, commands, unclear, env_names, tool,\n"
    "    has_stdin, pty, cwd, result, failure, minutes, usd, unpriced, run, tenant, reason, rule)\n"
    "  local command = { argv = argv, words = words, env_names = env_names, tool = tool,\n"
    "    commands = alone and { { words = alone, at = 1 } } or commands, has_stdin = has_stdin,\n"
    "    pty = pty }\n"
    "  if shell then command.shell = shell end\n"
    "  if cwd then command.cwd = cwd end\n"
    "  if unclear then command.unclear = unclear end\n"
    "  if hook then\n"
    "    return { hook = hook, command = command, result = result,\n"
    "      exec = { id = id, error = failure, session = false } }\n"
    "  end\n"
    "  return { command = command, reason = reason, rule = rule, spend = { run = run,\n"
    "    tenant = tenant, session = { minutes = minutes, usd = usd, unpriced = unpriced } } }\n"
    "end\n";
#define VALUES 22

static void push_text(lua_State *L, const char *text)
{
  if (text)
    lua_pushstring(L, text);
  else
    lua_pushnil(L);
}

/* `until`: what ends each text, besides its end. */
static void push_texts(lua_State *L, const char *const *list, const char *until)
{
  int count = 0;
  while (list && list[count]) count++;
  lua_createtable(L, count, 0);
  if (!count) luaL_setmetatable(L, MCG_LUA_ARRAY);
  for (int i = 0; i < count; i++) {
    lua_pushlstring(L, list[i], strcspn(list[i], until));
    lua_rawseti(L, -2, i + 1);
  }
}

static void push_list(lua_State *L, const struct json_t *list)
{
  if (list)
    mcg_lua_push_bytes_json(L, list);
  else
    lua_pushnil(L);
}

static void set_text(lua_State *L, const char *key, const char *text)
{
  push_text(L, text);
  lua_setfield(L, -2, key);
}

static void push_failure(lua_State *L, const mcg_error *error)
{
  if (!error) {
    lua_pushnil(L);
    return;
  }
  lua_createtable(L, 0, 4);
  set_text(L, "code", mcg_code_name(error->code));
  set_text(L, "message", error->message);
  set_text(L, "fix", error->fix);
  lua_pushboolean(L, error->retryable);
  lua_setfield(L, -2, "retryable");
}

static void push_spent(lua_State *L, const mcg_spent *spent)
{
  if (!spent) {
    lua_pushnil(L);
    return;
  }
  lua_createtable(L, 0, 3);
  lua_pushnumber(L, spent->minutes);
  lua_setfield(L, -2, "minutes");
  lua_pushnumber(L, spent->usd);
  lua_setfield(L, -2, "usd");
  lua_pushboolean(L, spent->unpriced);
  lua_setfield(L, -2, "unpriced");
}

/* From argv to cwd. */
static void push_command(lua_State *L, const mcg_told *told)
{
  const mcg_exec_spec *spec = told->spec;
  bool alone = spec->argv && !told->commands && !told->unclear;
  if (spec->argv)
    push_texts(L, spec->argv, "");
  else
    lua_pushnil(L);
  push_text(L, spec->shell);
  if (spec->argv)
    push_texts(L, spec->argv, "");
  else
    push_list(L, told->words);
  if (alone)
    push_texts(L, spec->argv, "");
  else
    lua_pushnil(L);
  push_list(L, told->commands);
  push_text(L, told->unclear);
  push_texts(L, spec->env, "="); /* names only: values may be secrets */
  lua_pushstring(L, spec->tool ? spec->tool : "shell");
  lua_pushboolean(L, spec->stdin_mode != MCG_STDIN_EMPTY);
  lua_pushboolean(L, spec->pty);
  push_text(L, spec->cwd);
}

/* From minutes to rule. */
static void push_spend(lua_State *L, const mcg_told *told)
{
  const mcg_spent *session = told->session;
  if (session) {
    lua_pushnumber(L, session->minutes);
    lua_pushnumber(L, session->usd);
    lua_pushboolean(L, session->unpriced);
  } else {
    lua_settop(L, lua_gettop(L) + 3);
  }
  push_spent(L, told->run);
  push_spent(L, told->tenant);
  push_text(L, told->reason);
  push_text(L, told->rule);
}

void mcg_lua_push_told(lua_State *L, const mcg_told *told)
{
  luaL_checkstack(L, VALUES + 4, "a question");
  mcg_lua_push_maker(L, mcg_lua_host(L)->told_ref, make_told);
  push_text(L, told->hook);
  push_text(L, told->id);
  push_command(L, told);
  if (told->result)
    mcg_lua_push_result(L, told->result);
  else
    lua_pushnil(L);
  push_failure(L, told->error);
  push_spend(L, told);
  lua_call(L, VALUES, 1);
}
