/* core.c: the C half of the module, `mooncage.core`: the table of functions that the Lua files
 * build on. Not linked against the Lua VM: one file serves every host. */
#include "bind.h"
#include "system.h"

#include <stdlib.h>
#include <string.h>

static int now(lua_State *L)
{
  lua_pushnumber(L, (double)uv_hrtime() / 1e9);
  return 1;
}

/* core.set_pump(function(process, source)): what feeds a stdin function to its process. */
static int set_pump(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  mcg_lua *host = mcg_lua_host(L);
  luaL_unref(L, LUA_REGISTRYINDEX, host->pump_ref);
  host->pump_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

static char *get_backends(const void *engine)
{
  return mcg_engine_backends(engine);
}

/* core.backends() -> { jail = { family, isolation, options = { { name, type, help } … } } … } */
static int backends(lua_State *L)
{
  mcg_error *err = NULL;
  mcg_engine *engine = mcg_lua_engine(mcg_lua_host(L), &err);
  if (!engine) return mcg_lua_nil_error(L, err);
  return mcg_lua_decode_from(L, get_backends, engine) < 0 ? 2 : 1;
}

/* core.nearest(word, list) -> the nearest of the list, or nil */
static int nearest(lua_State *L)
{
  const char *word = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  size_t count = lua_objlen(L, 2);
  const char **names = lua_newuserdata(L, (count + 1) * sizeof *names);
  size_t n = 0;
  for (size_t i = 1; i <= count; i++) {
    lua_rawgeti(L, 2, (int)i); /* anchored by the list */
    if (lua_type(L, -1) == LUA_TSTRING) names[n++] = lua_tostring(L, -1);
    lua_pop(L, 1);
  }
  names[n] = NULL;
  lua_pushstring(L, mcg_nearest(word, names));
  return 1;
}

struct resolving {
  mcg_engine *engine;
  const char *text;
  size_t len;
  mcg_error *err;
};

static char *get_resolved(void *ctx)
{
  struct resolving *r = ctx;
  return mcg_config_resolve(r->engine, r->text, r->len, &r->err);
}

/* The table at 1, as JSON, to what `get` makes of it. */
static int answer(lua_State *L, const char *what, char *(*get)(void *ctx))
{
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  mcg_lua_encode(L, 1, what);
  struct resolving r = {.text = lua_tolstring(L, -1, &r.len)};
  r.engine = mcg_lua_engine(mcg_lua_host(L), &r.err);
  if (!r.engine || !mcg_lua_text_from(L, get, &r)) return mcg_lua_nil_error(L, r.err);
  size_t len;
  const char *json = lua_tolstring(L, -1, &len);
  return mcg_lua_decode(L, json, len) < 0 ? 2 : 1;
}

/* core.resolve(config) -> what is in force with it, or nil, err; opens nothing */
static int resolve(lua_State *L)
{
  return answer(L, "config", get_resolved);
}

static char *get_explained(void *ctx)
{
  struct resolving *r = ctx;
  return mcg_network_explain(r->engine, r->text, r->len, &r->err);
}

/* core.explain_net(request) -> the answer of mcg_network_explain, or nil, err */
static int explain_net(lua_State *L)
{
  return answer(L, "explain_net", get_explained);
}

/* core.check(config): raises where it is no plain data */
static int check(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  mcg_lua_encode(L, 1, "config");
  return 0;
}

static int doctor(lua_State *L)
{
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  mcg_error *err = NULL;
  mcg_engine *engine = mcg_lua_engine(task->host, &err);
  if (!engine) return mcg_lua_nil_error(L, err);
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  int rc = mcg_doctor(engine, mcg_lua_text_done, ticket, &err);
  return mcg_lua_started(L, task, ticket, rc, err);
}

/* core.audit_verify{ paths = list, hmac_key = secret? } -> the report of mcg_audit_verify */
static int audit_verify(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  mcg_lua_encode(L, 1, "audit_verify");
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  mcg_error *err = NULL;
  mcg_engine *engine = mcg_lua_engine(task->host, &err);
  if (!engine) return mcg_lua_nil_error(L, err);
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  size_t len;
  const char *request = lua_tolstring(L, -1, &len);
  int rc = mcg_audit_verify(engine, request, len, mcg_lua_text_done, ticket, &err);
  return mcg_lua_started(L, task, ticket, rc, err);
}

static int reap(lua_State *L)
{
  bool dry_run = lua_toboolean(L, 1);
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  mcg_error *err = NULL;
  mcg_engine *engine = mcg_lua_engine(task->host, &err);
  if (!engine) return mcg_lua_nil_error(L, err);
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  int rc = mcg_reap(engine, dry_run, mcg_lua_text_done, ticket, &err);
  return mcg_lua_started(L, task, ticket, rc, err);
}

/* core.error(code, message, fix) -> an error table, for what Lua itself finds out */
static int new_error(lua_State *L)
{
  lua_settop(L, 3);
  lua_createtable(L, 0, 6);
  static const char *const keys[] = {"code", "message", "fix"};
  for (int i = 0; i < 3; i++) {
    if (lua_type(L, i + 1) == LUA_TSTRING)
      mcg_lua_push_struck(L, lua_tostring(L, i + 1));
    else
      lua_pushvalue(L, i + 1);
    lua_setfield(L, 4, keys[i]);
  }
  lua_pushboolean(L, 0);
  lua_setfield(L, 4, "retryable");
  luaL_setmetatable(L, MCG_LUA_ERROR);
  return 1;
}

static char *strike(lua_State *L, const char *text)
{
  const mcg_lua *host = mcg_lua_host(L);
  return host->engine ? mcg_engine_redact(host->engine, text) : strdup(text);
}

/* core.unsuccessful(): what every open session was for has failed */
static int unsuccessful(lua_State *L)
{
  mcg_lua_unsuccessful(mcg_lua_host(L));
  return 0;
}

/* core.struck(text): with *** in the place of secrets. What holds a NUL is struck piece by piece. */
static int struck(lua_State *L)
{
  size_t len;
  const char *text = luaL_checklstring(L, 1, &len), *end = text + len;
  luaL_Buffer buffer;
  luaL_buffinit(L, &buffer);
  for (;;) {
    mcg_lua_push_struck(L, text);
    luaL_addvalue(&buffer);
    text += strlen(text);
    if (text >= end) break;
    luaL_addchar(&buffer, *text++);
  }
  luaL_pushresult(&buffer);
  return 1;
}

/* core.cancel_all(): every task, the one that asks too */
static int cancel_all(lua_State *L)
{
  for (mcg_task *t = mcg_lua_host(L)->live; t; t = t->older) mcg_lua_task_cancel(t);
  return 0;
}

/* core.exit(status): no task is resumed again; whoever turns the loop closes everything and leaves
 * with this status. Does not return where it can help it. */
static int leave(lua_State *L)
{
  mcg_lua *host = mcg_lua_host(L);
  host->exit_status = luaL_optint(L, 1, 0);
  if (host->exit_status) mcg_lua_unsuccessful(host);
  host->exiting = true;
  if (host->current && host->current->L == L && lua_isyieldable(L)) return lua_yield(L, 0);
  return luaL_error(L, "exit");
}

static const luaL_Reg functions[] = {
    {"open", mcg_lua_session_open},
    {"resume", mcg_lua_session_resume},
    {"fork", mcg_lua_session_fork},
    {"spawn", mcg_lua_task_spawn},
    {"join", mcg_lua_task_join},
    {"run", mcg_lua_task_run},
    {"sleep", mcg_lua_task_sleep},
    {"current", mcg_lua_task_current},
    {"tasks", mcg_lua_tasks},
    {"live", mcg_lua_live},
    {"now", now},
    {"secret", mcg_lua_secret},
    {"encode", mcg_lua_json_encode},
    {"decode", mcg_lua_json_decode},
    {"array", mcg_lua_json_array},
    {"on_log", mcg_lua_on_log},
    {"log", mcg_lua_log_write},
    {"log_level", mcg_lua_log_level},
    {"set_pump", set_pump},
    {"set_decider", mcg_lua_set_decider},
    {"decide", mcg_lua_decide},
    {"words", mcg_lua_words},
    {"commands", mcg_lua_commands},
    {"stranger", mcg_lua_stranger},
    {"stranger_rest", mcg_lua_stranger_rest},
    {"stranger_ask", mcg_lua_stranger_ask},
    {"tool_start", mcg_lua_tool_start},
    {"tool_scope", mcg_lua_tool_scope},
    {"session_methods", mcg_lua_session_methods},
    {"functions_of", mcg_lua_session_functions},
    {"backends", backends},
    {"nearest", nearest},
    {"select", mcg_lua_select},
    {"rank", mcg_lua_rank},
    {"satisfies", mcg_lua_satisfies},
    {"explanation", mcg_lua_explanation},
    {"is_explanation", mcg_lua_is_explanation},
    {"doctor", doctor},
    {"reap", reap},
    {"audit_verify", audit_verify},
    {"resolve", resolve},
    {"read_file", mcg_lua_read_file},
    {"explain_net", explain_net},
    {"check", check},
    {"exit", leave},
    {"error", new_error},
    {"struck", struck},
    {"cancel_all", cancel_all},
    {"unsuccessful", unsuccessful},
    {"store_ask", mcg_lua_store_ask},
    {"store_save", mcg_lua_store_save},
    {"store_load", mcg_lua_store_load},
    {NULL, NULL},
};

__attribute__((visibility("default"))) int luaopen_mooncage_core(lua_State *L)
{
  if (!mcg_lua_host(L)) {
    mcg_lua_host_new(L);
    mcg_lua_strike = strike;
    mcg_lua_error_setup(L);
    mcg_lua_secret_setup(L);
    mcg_lua_task_setup(L);
    mcg_lua_process_setup(L);
    mcg_lua_session_setup(L);
    mcg_lua_select_setup(L);
    mcg_lua_tool_setup(L);
    mcg_lua_stranger_setup(L);
    luaL_newmetatable(L, MCG_LUA_ARRAY);
    lua_pop(L, 1);
  }
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  mcg_lua_terminal_open(L);
  lua_setfield(L, -2, "terminal");
  lua_pushlightuserdata(L, NULL);
  lua_setfield(L, -2, "null");
  lua_pushliteral(L, MCG_VERSION);
  lua_setfield(L, -2, "version");
  return 1;
}
