/* tool.c: what session:call_tool (mooncage/tools.lua) needs of the engine: a tool's start and finish,
 * and whose tool a command is that runs meanwhile. */
#include "bind.h"

#include <string.h>

typedef struct handle {
  mcg_tool *tool; /* NULL once it is finished */
} handle;

struct started {
  mcg_tool *tool;
};

static int push_handle(lua_State *L, void *ctx)
{
  struct started *s = ctx;
  handle *h = lua_newuserdata(L, sizeof *h);
  h->tool = NULL;
  luaL_setmetatable(L, MCG_LUA_TOOL);
  h->tool = s->tool;
  s->tool = NULL;
  return 1;
}

static void on_start(void *data, mcg_tool *tool, mcg_error *error)
{
  mcg_task *task = mcg_lua_take_ticket(data);
  struct started s = {tool};
  if (!task)
    mcg_error_free(error);
  else if (error)
    mcg_lua_failed(task, error);
  else
    mcg_lua_complete(task, push_handle, &s);
  if (s.tool) mcg_tool_finish(s.tool, mcg_error_new(MCG_CANCELED, "canceled", NULL));
}

/* core.tool_start(session, name, on_host, path | nil) -> handle | nil, err. Waits. */
int mcg_lua_tool_start(lua_State *L)
{
  mcg_lua_session *session = mcg_lua_check_session(L, 1);
  const char *name = mcg_lua_check_text(L, 2, "the name of a tool");
  bool on_host = lua_toboolean(L, 3);
  size_t len = 0;
  const char *path = lua_tolstring(L, 4, &len);
  if (path && strlen(path) != len) path = NULL; /* what no path is, the tool refuses itself */
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  mcg_error *err = NULL;
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  int rc =
      mcg_tool_start(session->session, name, path, on_host, on_start, ticket, &ticket->op, &err);
  return mcg_lua_started(L, task, ticket, rc, err);
}

static int handle_finish(lua_State *L)
{
  handle *h = luaL_checkudata(L, 1, MCG_LUA_TOOL);
  lua_settop(L, 2);
  mcg_tool *tool = h->tool;
  h->tool = NULL;
  if (tool) mcg_tool_finish(tool, lua_isnil(L, 2) ? NULL : mcg_lua_error_at(L, 2));
  return 0;
}

/* Its task never went on: it was left with the state, or canceled for good. */
static int handle_gc(lua_State *L)
{
  handle *h = lua_touserdata(L, 1);
  if (h->tool) mcg_tool_finish(h->tool, mcg_error_new(MCG_CANCELED, "it did not end", NULL));
  h->tool = NULL;
  return 0;
}

static const luaL_Reg handle_methods[] = {{"finish", handle_finish}, {NULL, NULL}};
static const char NAMES_KEY = 0;

/* The name, held for good: there are few. */
static const char *hold_name(lua_State *L, int index)
{
  lua_pushlightuserdata(L, (void *)&NAMES_KEY);
  lua_rawget(L, LUA_REGISTRYINDEX);
  lua_pushvalue(L, index);
  lua_pushboolean(L, 1);
  lua_rawset(L, -3);
  lua_pop(L, 1);
  return lua_tostring(L, index);
}

/* core.tool_scope(session | pointer | nil, name | nil) -> what it was before, to be given back: commands
 * of this task, and of those it spawns, count as that tool's. */
int mcg_lua_tool_scope(lua_State *L)
{
  lua_settop(L, 2);
  mcg_lua *host = mcg_lua_host(L);
  mcg_task *task = host->current ? host->current : host->outside;
  const mcg_session *session = lua_islightuserdata(L, 1) ? lua_touserdata(L, 1) : NULL;
  if (lua_type(L, 1) == LUA_TUSERDATA) session = mcg_lua_check_session(L, 1)->session;
  const char *name = lua_isnil(L, 2) ? NULL : hold_name(L, 2);
  lua_pushlightuserdata(L, (void *)task->tool_session);
  lua_pushstring(L, task->tool);
  task->tool = name;
  task->tool_session = session;
  return 2;
}

void mcg_lua_tool_setup(lua_State *L)
{
  mcg_lua_class(L, MCG_LUA_TOOL, handle_methods, handle_gc);
  lua_pop(L, 1);
  lua_pushlightuserdata(L, (void *)&NAMES_KEY);
  lua_newtable(L);
  lua_rawset(L, LUA_REGISTRYINDEX);
}
