/* host.c: the host of one Lua state: its loop, its engine, how Lua is entered from the loop, and how
 * all of it ends. The engine is made when the first operation needs it. */
#include "bind.h"

#include <stdlib.h>
#include <string.h>

#define PATIENCE_S 5 /* with hooks at the end of a script; docs/hooks.md says so */

static const char HOST_KEY = 0;

mcg_lua *mcg_lua_host(lua_State *L)
{
  lua_pushlightuserdata(L, (void *)&HOST_KEY);
  lua_rawget(L, LUA_REGISTRYINDEX);
  mcg_lua *host = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return host;
}

static void on_idle(uv_idle_t *idle)
{
  mcg_lua *host = idle->data;
  uv_idle_stop(idle);
  mcg_lua_log_deliver(host);
  mcg_lua_run_ready(host);
}

void mcg_lua_wake(mcg_lua *host)
{
  uv_idle_start(&host->idle, on_idle);
}

void mcg_lua_rest(mcg_lua *host)
{
  if (!host->ready && !host->log_lines) uv_idle_stop(&host->idle);
}

static int host_gc(lua_State *L)
{
  mcg_lua_host_close(lua_touserdata(L, 1));
  return 0;
}

mcg_lua *mcg_lua_host_new(lua_State *L)
{
  lua_pushlightuserdata(L, (void *)&HOST_KEY);
  mcg_lua *host = lua_newuserdata(L, sizeof *host);
  memset(host, 0, sizeof *host);
  host->closing = true; /* until everything below has worked */
  lua_newtable(L);
  lua_pushcfunction(L, host_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);

  /* Callbacks run on the main state while nothing else turns the loop. */
  host->L = L;
  host->ready_end = &host->ready;
  host->log_end = &host->log_lines;
  host->log_level = MCG_LOG_ERROR + 1;
  host->log_ref = host->pump_ref = host->decide_ref = LUA_NOREF;
  lua_newtable(L);
  host->live_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_pushboolean(L, 0); /* places */
  host->decision_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_pushboolean(L, 0);
  host->withheld_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_pushboolean(L, 0);
  host->result_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_pushboolean(L, 0);
  host->told_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  int rc = uv_loop_init(&host->loop);
  if (rc < 0) luaL_error(L, "mooncage: cannot make an event loop: %s", uv_strerror(rc));
  uv_idle_init(&host->loop, &host->idle);
  host->idle.data = host;
  host->closing = false;
  return host;
}

mcg_engine *mcg_lua_engine(mcg_lua *host, mcg_error **err)
{
  if (host->engine) return host->engine;
  mcg_engine_options options = {
      .size = sizeof options,
      .loop = &host->loop,
      .init_path = host->init_path,
      .on_log = mcg_lua_log,
      .data = host,
      .no_stderr = host->no_stderr,
  };
  return mcg_engine_new(&options, &host->engine, err) < 0 ? NULL : host->engine;
}

bool mcg_lua_turn(mcg_lua *host)
{
  host->turning++;
  int more = uv_run(&host->loop, UV_RUN_ONCE);
  host->turning--;
  return more != 0;
}

int mcg_lua_call(mcg_lua *host, const char *what, lua_CFunction fn, void *ctx)
{
  const char *outer = host->callback;
  host->callback = what;
  int rc = lua_cpcall(host->L, fn, ctx);
  host->callback = outer;
  return rc;
}

/* Compiled when it is first needed: a table constructor makes a table of many names several times
 * faster than C can, from text: what is saved as bytecode has forgotten the names of such. */
void mcg_lua_push_maker(lua_State *L, int ref, const char *text)
{
  lua_rawgeti(L, LUA_REGISTRYINDEX, ref);
  if (lua_isfunction(L, -1)) return;
  lua_pop(L, 1);
  if (luaL_loadbuffer(L, text, strlen(text), "=mooncage") != 0) lua_error(L);
  lua_call(L, 0, 1);
  lua_pushvalue(L, -1);
  lua_rawseti(L, LUA_REGISTRYINDEX, ref);
}

static void patience_ends(uv_timer_t *timer)
{
  uv_timer_stop(timer);
}

static void one_closed(void *data, mcg_error *error)
{
  ((mcg_lua *)data)->unclosed--;
  mcg_error_free(error); /* nobody is left to hear it, as below */
}

/* Said again after each turn: what was being opened as the script ended is there later. */
static void close_open(mcg_lua *host)
{
  for (mcg_lua_session *s = host->sessions; s; s = s->older) {
    mcg_error *refused = NULL;
    if (!s->session || s->closed) continue;
    s->closed = true;
    host->unclosed++;
    if (mcg_session_close(s->session, one_closed, host, &refused) < 0) one_closed(host, refused);
  }
}

void mcg_lua_host_leave(mcg_lua *host)
{
  if (host->closing || !host->deciders) return;
  uv_handle_t *patience = (uv_handle_t *)&host->patience;
  mcg_lua_terminal_restore(host);
  mcg_lua_tasks_drop(host);
  host->leaving = true;
  host->exiting = false;
  uv_timer_init(&host->loop, &host->patience);
  uv_timer_start(&host->patience, patience_ends, PATIENCE_S * 1000, 0);
  mcg_lua_signals_watch(host, PATIENCE_S + 1);
  for (close_open(host); host->unclosed || host->waited_for; close_open(host)) {
    if (host->exiting || !uv_is_active(patience)) break;
    mcg_lua_turn(host);
  }
  mcg_lua_signals_watch(host, 0);
  uv_close(patience, NULL);
}

struct ending {
  mcg_lua *host;
  bool done;
};

static void closed(void *data, mcg_error *error)
{
  struct ending *self = data;
  self->host->unrecorded = error && error->code == MCG_AUDIT_FAILED;
  mcg_error_free(error); /* nobody is left to hear it; the janitor has the rest */
  self->done = true;
}

static void close_handle(uv_handle_t *handle, void *arg)
{
  (void)arg;
  if (!uv_is_closing(handle)) uv_close(handle, NULL);
}

void mcg_lua_host_close(mcg_lua *host)
{
  if (host->closing) return;
  host->closing = true;
  mcg_lua_terminal_restore(host);
  mcg_lua_signals_close(host);
  mcg_lua_questions_end(host);
  if (host->engine) {
    struct ending ending = {.host = host};
    mcg_error *error = NULL;
    if (mcg_engine_close(host->engine, closed, &ending, &error) == 0)
      while (!ending.done && uv_run(&host->loop, UV_RUN_ONCE)) continue;
    mcg_error_free(error);
    for (mcg_lua_session *s = host->sessions; s; s = s->older) {
      mcg_session_unref(s->session);
      s->session = NULL;
    }
    host->sessions = NULL;
    mcg_lua_strangers_end(host);
    mcg_engine_free(host->engine);
    host->engine = NULL;
  }
  uv_walk(&host->loop, close_handle, NULL);
  while (uv_run(&host->loop, UV_RUN_NOWAIT)) continue;
  uv_loop_close(&host->loop);
  mcg_lua_log_free(host);
  free(host->init_path);
  host->init_path = NULL;
}

void mcg_lua_class(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction gc)
{
  luaL_newmetatable(L, name);
  lua_newtable(L);
  if (methods) luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__name");
  lua_pushboolean(L, 0); /* getmetatable says no more than this */
  lua_setfield(L, -2, "__metatable");
  if (gc) {
    lua_pushcfunction(L, gc);
    lua_setfield(L, -2, "__gc");
  }
}
