/* session.c: the session object: open, resume, close, facts and figures. Its commands are in
 * process.c, its files in file.c and workspace.c. */
#include "bind.h"

#include <stdlib.h>
#include <string.h>

static void link_session(mcg_lua_session *s)
{
  s->older = s->host->sessions;
  if (s->older) s->older->newer = s;
  s->host->sessions = s;
}

static void unlink_session(mcg_lua_session *s)
{
  if (s->newer)
    s->newer->older = s->older;
  else if (s->host->sessions == s)
    s->host->sessions = s->older;
  if (s->older) s->older->newer = s->newer;
  s->older = s->newer = NULL;
}

mcg_lua_session *mcg_lua_check_session(lua_State *L, int index)
{
  mcg_lua_session *s = luaL_checkudata(L, index, MCG_LUA_SESSION);
  if (!s->session) luaL_error(L, "mooncage: the engine of this session is closed");
  return s;
}

/* The engine says the leak, and takes the sandbox down. */
static int session_gc(lua_State *L)
{
  mcg_lua_session *s = lua_touserdata(L, 1);
  if (!s->session) return 0;
  if (!s->closed) s->host->let_go = true;
  unlink_session(s);
  mcg_session_unref(s->session);
  s->session = NULL;
  return 0;
}

/* ---- opening ------------------------------------------------------------------------------ */

struct opened {
  mcg_lua *host;
  mcg_session *session;
};

static char *get_info(const void *session)
{
  return mcg_session_info(session);
}

static char *get_usage(const void *session)
{
  return mcg_session_usage(session);
}

/* The facts are kept in the environment: fields are read far more often than they change. */
static void keep_facts(lua_State *L, int self, const mcg_session *session)
{
  if (mcg_lua_decode_from(L, get_info, session) < 0 || !lua_istable(L, -1))
    luaL_error(L, "mooncage: the session's facts are no table");
  lua_setfenv(L, self);
}

static const char OBJECTS_KEY = 0; /* of a weak table: engine's session -> its object */

static void push_objects(lua_State *L)
{
  lua_pushlightuserdata(L, (void *)&OBJECTS_KEY);
  lua_rawget(L, LUA_REGISTRYINDEX);
}

/* Pushes the object there is, or nil. */
static mcg_lua_session *find_object(lua_State *L, const mcg_session *session)
{
  push_objects(L);
  lua_pushlightuserdata(L, (void *)session);
  lua_rawget(L, -2);
  lua_replace(L, -2);
  mcg_lua_session *s = lua_touserdata(L, -1);
  return s && s->session == session ? s : NULL;
}

/* *session becomes NULL once the object, which is pushed, holds the reference. */
static void push_new(lua_State *L, mcg_lua *host, mcg_session **session)
{
  mcg_lua_session *s = lua_newuserdata(L, sizeof *s);
  int self = lua_gettop(L);
  memset(s, 0, sizeof *s);
  s->host = host;
  luaL_setmetatable(L, MCG_LUA_SESSION);
  keep_facts(L, self, *session);
  push_objects(L);
  lua_pushlightuserdata(L, *session);
  lua_pushvalue(L, self);
  lua_rawset(L, -3);
  lua_settop(L, self);
  s->session = *session;
  *session = NULL;
  link_session(s);
}

static int push_opened(lua_State *L, void *ctx)
{
  struct opened *o = ctx;
  mcg_lua_session *s = find_object(L, o->session);
  if (s) { /* a hook has seen it before it was open; the caller lets go of this reference */
    keep_facts(L, lua_gettop(L), o->session);
    return 1;
  }
  lua_pop(L, 1);
  push_new(L, o->host, &o->session);
  return 1;
}

void mcg_lua_push_session(lua_State *L, mcg_lua *host, mcg_session *session)
{
  mcg_session *given = session;
  if (find_object(L, session)) return;
  lua_pop(L, 1);
  push_new(L, host, &given); /* or Lua's error, and nothing was taken */
  mcg_session_ref(session);
}

static void on_open(void *data, mcg_session *session, mcg_error *error)
{
  mcg_task *task = mcg_lua_take_ticket(data);
  struct opened o = {task ? task->host : NULL, session};
  if (!task)
    mcg_error_free(error);
  else if (error)
    mcg_lua_failed(task, error);
  else
    mcg_lua_complete(task, push_opened, &o);
  if (o.session) mcg_session_unref(o.session); /* nobody took it */
}

/* core.open(config, functions) -> session | nil, err; the config is plain data, the functions that
 * were in it are in the other table (or nil): see mooncage/decide.lua. */
int mcg_lua_session_open(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TTABLE);
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  lua_settop(L, 2);
  mcg_lua_encode(L, 1, "config");
  size_t len;
  const char *text = lua_tolstring(L, -1, &len);
  mcg_error *err = NULL;
  mcg_engine *engine = mcg_lua_engine(task->host, &err);
  if (!engine) return mcg_lua_nil_error(L, err);
  mcg_deciders deciders;
  bool decides = mcg_lua_deciders(L, 2, &deciders);
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  int rc = mcg_session_open_with(engine, text, len, decides ? &deciders : NULL, on_open, ticket,
                                 &ticket->op, &err);
  if (rc < 0 && decides) mcg_lua_deciders_drop(&deciders);
  return mcg_lua_started(L, task, ticket, rc, err);
}

/* core.select(config, functions) -> what mcg_select says | nil, err */
int mcg_lua_select(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TTABLE);
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  lua_settop(L, 2);
  mcg_lua_encode(L, 1, "config");
  size_t len;
  const char *text = lua_tolstring(L, -1, &len);
  mcg_error *err = NULL;
  mcg_engine *engine = mcg_lua_engine(task->host, &err);
  if (!engine) return mcg_lua_nil_error(L, err);
  mcg_deciders deciders;
  bool decides = mcg_lua_deciders(L, 2, &deciders);
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  int rc = mcg_select(engine, text, len, decides ? &deciders : NULL, mcg_lua_text_done, ticket,
                      &ticket->op, &err);
  if (rc < 0 && decides) mcg_lua_deciders_drop(&deciders);
  return mcg_lua_started(L, task, ticket, rc, err);
}

/* core.resume(state, config, functions) -> session | nil, err; of the config only what stands by a
 * session that is there: see mooncage.resume. */
int mcg_lua_session_resume(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TSTRING);
  luaL_checktype(L, 2, LUA_TTABLE);
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  lua_settop(L, 3);
  mcg_lua_encode(L, 2, "config");
  size_t len;
  const char *state = lua_tolstring(L, 1, &len), *config = lua_tostring(L, -1);
  mcg_error *err = NULL;
  mcg_engine *engine = mcg_lua_engine(task->host, &err);
  if (!engine) return mcg_lua_nil_error(L, err);
  mcg_deciders deciders;
  bool decides = mcg_lua_deciders(L, 3, &deciders);
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  int rc = mcg_session_resume_with(engine, state, len, config, decides ? &deciders : NULL, on_open,
                                   ticket, &ticket->op, &err);
  if (rc < 0 && decides) mcg_lua_deciders_drop(&deciders);
  return mcg_lua_started(L, task, ticket, rc, err);
}

/* core.fork(session) -> another session | nil, err */
int mcg_lua_session_fork(lua_State *L)
{
  mcg_lua_session *s = mcg_lua_check_session(L, 1);
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  mcg_error *err = NULL;
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  int rc = mcg_session_fork(s->session, on_open, ticket, &ticket->op, &err);
  return mcg_lua_started(L, task, ticket, rc, err);
}

/* core.live() -> counts: sessions this state still holds open, tasks that are not over. */
int mcg_lua_live(lua_State *L)
{
  mcg_lua *host = mcg_lua_host(L);
  int sessions = 0, tasks = 0;
  for (mcg_lua_session *s = host->sessions; s; s = s->older) sessions += !s->closed;
  for (mcg_task *t = host->live; t; t = t->older) tasks++;
  lua_pushinteger(L, sessions);
  lua_pushinteger(L, tasks);
  return 2;
}

/* ---- ending ------------------------------------------------------------------------------- */

/* close and stop are the clean-up of a canceled task: they are carried out all the same. */
static int end_session(lua_State *L, int (*how)(mcg_session *, mcg_done, void *, mcg_error **))
{
  mcg_lua_session *s = luaL_checkudata(L, 1, MCG_LUA_SESSION);
  if (!s->session) { /* the engine is closed, and with it every session */
    lua_pushboolean(L, 1);
    return 1;
  }
  mcg_task *task = mcg_lua_enter(L);
  mcg_error *err = NULL;
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  if (task->inside) mcg_lua_questions_settle(task->host, s->session);
  int rc = how(s->session, mcg_lua_done, ticket, &err);
  if (rc == 0) {
    task->shielded = true;
    s->closed = true;
  }
  return mcg_lua_started(L, task, ticket, rc, err);
}

static int session_close(lua_State *L)
{
  return end_session(L, mcg_session_close);
}

static int session_stop(lua_State *L)
{
  return end_session(L, mcg_session_stop);
}

/* ---- facts and figures -------------------------------------------------------------------- */

static int session_usage(lua_State *L)
{
  return mcg_lua_decode_from(L, get_usage, mcg_lua_check_session(L, 1)->session) < 0 ? 2 : 1;
}

struct state {
  mcg_session *session;
  mcg_error *err;
};

static char *get_state(void *from)
{
  struct state *s = from;
  return mcg_session_state(s->session, &s->err);
}

static int session_state(lua_State *L)
{
  struct state s = {mcg_lua_check_session(L, 1)->session, NULL};
  return mcg_lua_text_from(L, get_state, &s) ? 1 : mcg_lua_nil_error(L, s.err);
}

/* session:info() -> the facts as they are now */
static int session_info(lua_State *L)
{
  return mcg_lua_decode_from(L, get_info, mcg_lua_check_session(L, 1)->session) < 0 ? 2 : 1;
}

static int session_keep(lua_State *L)
{
  mcg_lua_session *s = mcg_lua_check_session(L, 1);
  const char *path = mcg_lua_check_text(L, 2, "keep: the path");
  mcg_error *err = NULL;
  if (mcg_session_keep(s->session, path, &err) < 0) return mcg_lua_nil_error(L, err);
  lua_pushboolean(L, 1);
  return 1;
}

static int text_operation(lua_State *L,
                          int (*how)(mcg_session *, mcg_text_done, void *, mcg_error **))
{
  mcg_lua_session *s = mcg_lua_check_session(L, 1);
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  mcg_error *err = NULL;
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  int rc = how(s->session, mcg_lua_text_done, ticket, &err);
  return mcg_lua_started(L, task, ticket, rc, err);
}

static int session_stats(lua_State *L)
{
  return text_operation(L, mcg_session_stats);
}

static int session_processes(lua_State *L)
{
  return text_operation(L, mcg_session_processes);
}

static int session_network_log(lua_State *L)
{
  return text_operation(L, mcg_session_network_log);
}

/* session:set_network(policy) -> true | nil, err */
static int session_set_network(lua_State *L)
{
  mcg_lua_session *s = mcg_lua_check_session(L, 1);
  luaL_argcheck(L, lua_istable(L, 2) || lua_type(L, 2) == LUA_TSTRING, 2,
                "expected a table of rules, \"none\" or \"open\"");
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  lua_settop(L, 2);
  mcg_lua_encode(L, 2, "network");
  size_t len;
  const char *text = lua_tolstring(L, -1, &len);
  mcg_error *err = NULL;
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  int rc = mcg_session_set_network(s->session, text, len, mcg_lua_done, ticket, &err);
  return mcg_lua_started(L, task, ticket, rc, err);
}

static int session_diff(lua_State *L)
{
  return text_operation(L, mcg_project_diff);
}

/* session:apply({ git = bool }) */
static int session_apply(lua_State *L)
{
  static const char *const keys[] = {"git", NULL};
  mcg_lua_session *s = mcg_lua_check_session(L, 1);
  lua_settop(L, 2);
  mcg_lua_check_keys(L, 2, keys, "apply");
  bool git = mcg_lua_bool_field(L, 2, "git", "apply");
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  mcg_error *err = NULL;
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  int rc =
      mcg_project_apply(s->session, git ? "{\"git\":true}" : "{}", mcg_lua_text_done, ticket, &err);
  if (rc == 0) task->shielded = true; /* half applied is no state to leave it in */
  return mcg_lua_started(L, task, ticket, rc, err);
}

/* ---- the class ---------------------------------------------------------------------------- */

static int session_index(lua_State *L)
{
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(1));
  if (!lua_isnil(L, -1)) return 1;
  lua_getfenv(L, 1);
  lua_pushvalue(L, 2);
  lua_rawget(L, -2);
  return 1;
}

static const char METHODS_KEY = 0;

int mcg_lua_session_methods(lua_State *L)
{
  lua_pushlightuserdata(L, (void *)&METHODS_KEY);
  lua_rawget(L, LUA_REGISTRYINDEX);
  return 1;
}

/* The functions of its config are kept beside its facts: they live as long as it does. */
int mcg_lua_session_functions(lua_State *L)
{
  luaL_checkudata(L, 1, MCG_LUA_SESSION);
  lua_settop(L, 2);
  lua_getfenv(L, 1);
  if (lua_istable(L, 2)) {
    lua_pushvalue(L, 2);
    lua_setfield(L, 3, "_functions");
  }
  lua_getfield(L, 3, "_functions");
  return 1;
}

static int session_tostring(lua_State *L)
{
  luaL_checkudata(L, 1, MCG_LUA_SESSION);
  lua_getfenv(L, 1);
  lua_getfield(L, -1, "backend");
  lua_getfield(L, -2, "id");
  lua_pushfstring(L, "mooncage.session (%s %s)", lua_tostring(L, -2), lua_tostring(L, -1));
  return 1;
}

static const luaL_Reg session_methods[] = {
    {"close", session_close},
    {"stop", session_stop},
    {"usage", session_usage},
    {"state", session_state},
    {"info", session_info},
    {"_keep", session_keep},
    {"stats", session_stats},
    {"processes", session_processes},
    {"set_network", session_set_network},
    {"network_log", session_network_log},
    {"diff", session_diff},
    {"apply", session_apply},
    {"expose", mcg_lua_session_expose},
    {"exec", mcg_lua_session_exec},
    {"start", mcg_lua_session_start},
    {"_attach", mcg_lua_session_attach},
    {"persist_workspace", mcg_lua_workspace_persist},
    {"restore_workspace", mcg_lua_workspace_restore},
    {"snapshot", mcg_lua_session_snapshot},
    {"restore", mcg_lua_session_restore},
    {"unsuccessful", mcg_lua_session_unsuccessful},
    {NULL, NULL},
};

void mcg_lua_session_setup(lua_State *L)
{
  lua_pushlightuserdata(L, (void *)&OBJECTS_KEY);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
  mcg_lua_class(L, MCG_LUA_SESSION, session_methods, session_gc);
  lua_getfield(L, -1, "__index");
  luaL_setfuncs(L, mcg_lua_file_methods, 0);
  lua_pushlightuserdata(L, (void *)&METHODS_KEY);
  lua_pushvalue(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
  lua_pushcclosure(L, session_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, session_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pop(L, 1);
}
