/* snapshot.c: session:snapshot and session:restore, and what is asked of a store without a session. */
#include "bind.h"

#include <string.h>

typedef int (*snapshot_call)(mcg_session *session, const char *request, size_t len,
                             mcg_text_done done, void *data, mcg_op **op, mcg_error **err);

/* The options at 3 with the id at 2, pushed as JSON. */
static void push_request(lua_State *L, const char *const *keys, bool quiet, const char *what)
{
  if (!lua_isnoneornil(L, 2) && lua_type(L, 2) != LUA_TSTRING)
    mcg_lua_misuse(L, "%s: the id must be a string, not a %s", what, luaL_typename(L, 2));
  if (!lua_isnil(L, 3) && !lua_istable(L, 3))
    mcg_lua_misuse(L, "%s: the options must be a table, not a %s", what, luaL_typename(L, 3));
  mcg_lua_check_keys(L, 3, keys, what);
  lua_newtable(L);
  for (int i = 0; lua_istable(L, 3) && keys[i]; i++) {
    lua_getfield(L, 3, keys[i]);
    lua_setfield(L, 4, keys[i]);
  }
  if (!lua_isnil(L, 2)) {
    lua_pushvalue(L, 2);
    lua_setfield(L, 4, "id");
  }
  if (quiet) {
    lua_pushboolean(L, 1);
    lua_setfield(L, 4, "quiet");
  }
  mcg_lua_encode(L, 4, what);
}

static int call(lua_State *L, snapshot_call how, const char *const *keys, bool saves,
                const char *what)
{
  mcg_lua_session *s = mcg_lua_check_session(L, 1);
  lua_settop(L, 3);
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  push_request(L, keys, saves && task->inside, what);
  size_t len;
  const char *request = lua_tolstring(L, -1, &len);
  mcg_error *err = NULL;
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  int rc = how(s->session, request, len, mcg_lua_text_done, ticket, &ticket->op, &err);
  return mcg_lua_started(L, task, ticket, rc, err);
}

/* session:snapshot(id?, { exclude, store }?) -> metadata | nil, err */
int mcg_lua_session_snapshot(lua_State *L)
{
  static const char *const keys[] = {"exclude", "store", NULL};
  return call(L, mcg_session_snapshot, keys, true, "snapshot");
}

/* session:restore(id?, { on_mismatch, store }?) -> metadata | nil, err */
int mcg_lua_session_restore(lua_State *L)
{
  static const char *const keys[] = {"on_mismatch", "store", NULL};
  return call(L, mcg_session_restore, keys, false, "restore");
}

/* session:unsuccessful() */
int mcg_lua_session_unsuccessful(lua_State *L)
{
  mcg_lua_session *s = luaL_checkudata(L, 1, MCG_LUA_SESSION);
  if (s->session) mcg_session_unsuccessful(s->session);
  return 0;
}

void mcg_lua_unsuccessful(mcg_lua *host)
{
  for (mcg_lua_session *s = host->sessions; s; s = s->older)
    if (s->session && !s->closed) mcg_session_unsuccessful(s->session);
}

/* core.store_ask(request) -> what mcg_store_ask says | nil, err */
int mcg_lua_store_ask(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  mcg_lua_encode(L, 1, "store");
  size_t len;
  const char *request = lua_tolstring(L, 2, &len);
  mcg_error *err = NULL;
  mcg_engine *engine = mcg_lua_engine(task->host, &err);
  if (!engine) return mcg_lua_nil_error(L, err);
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  int rc = mcg_store_ask(engine, request, len, mcg_lua_text_done, ticket, &ticket->op, &err);
  return mcg_lua_started(L, task, ticket, rc, err);
}
