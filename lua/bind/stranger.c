/* stranger.c: a stranger's policy as Lua holds it: a userdata that is asked, and counted by the sessions
 * that ask it. With the last of these its processes end. See mooncage/stranger.h. */
#include "bind.h"

#include <mooncage/stranger.h>

struct mcg_lua_stranger { /* the block of a userdata */
  mcg_lua *host;
  mcg_stranger *stranger; /* NULL once the engine is gone */
  unsigned users;
  struct mcg_lua_stranger *older, *newer;
};
typedef struct mcg_lua_stranger holder;

static void forget(holder *self)
{
  mcg_stranger_free(self->stranger);
  self->stranger = NULL;
  if (self->newer)
    self->newer->older = self->older;
  else if (self->host->strangers == self)
    self->host->strangers = self->older;
  if (self->older) self->older->newer = self->newer;
  self->older = self->newer = NULL;
}

static int stranger_gc(lua_State *L)
{
  holder *self = lua_touserdata(L, 1);
  if (self->stranger) forget(self);
  return 0;
}

/* core.stranger(json) -> what is asked */
int mcg_lua_stranger(lua_State *L)
{
  size_t len;
  const char *json = luaL_checklstring(L, 1, &len);
  mcg_error *err = NULL;
  holder *self = lua_newuserdata(L, sizeof *self);
  *self = (holder){.host = mcg_lua_host(L)};
  luaL_setmetatable(L, MCG_LUA_STRANGER);
  mcg_engine *engine = mcg_lua_engine(self->host, &err);
  if (!engine || mcg_stranger_new(engine, json, len, &self->stranger, &err) < 0) {
    mcg_lua_nil_error(L, err);
    return lua_error(L);
  }
  self->older = self->host->strangers;
  if (self->older) self->older->newer = self;
  self->host->strangers = self;
  return 1;
}

static void answered(void *data, const char *json, mcg_error *error)
{
  mcg_ticket *ticket = data;
  ticket->op = NULL;
  mcg_lua_text_done(ticket, json, error);
}

/* core.stranger_ask(stranger, apart | nil, json) -> the answer, or nil, err; waits */
int mcg_lua_stranger_ask(lua_State *L)
{
  size_t len;
  holder *self = luaL_checkudata(L, 1, MCG_LUA_STRANGER);
  const char *apart = luaL_optstring(L, 2, NULL), *json = luaL_checklstring(L, 3, &len);
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  if (!self->stranger) return mcg_lua_fail(L, MCG_UNAVAILABLE, NULL, "the engine is closed");
  mcg_error *err = NULL;
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  int rc = mcg_stranger_ask(self->stranger, apart, json, len, answered, ticket, &ticket->op, &err);
  return mcg_lua_started(L, task, ticket, rc, err);
}

/* core.stranger_rest(stranger): its processes end */
int mcg_lua_stranger_rest(lua_State *L)
{
  holder *self = luaL_checkudata(L, 1, MCG_LUA_STRANGER);
  if (self->stranger) mcg_stranger_rest(self->stranger);
  return 0;
}

void mcg_lua_strangers_use(lua_State *L, int functions, bool on)
{
  int top = lua_gettop(L);
  if (mcg_lua_field(L, functions, "strangers") == LUA_TTABLE)
    for (int i = 1; i <= (int)lua_objlen(L, top + 1); i++) {
      lua_rawgeti(L, top + 1, i);
      holder *self = lua_touserdata(L, -1);
      lua_pop(L, 1);
      if (!self || !self->stranger) continue;
      if (on)
        self->users++;
      else if (--self->users == 0)
        mcg_stranger_rest(self->stranger);
    }
  lua_settop(L, top);
}

void mcg_lua_strangers_end(mcg_lua *host)
{
  while (host->strangers) forget(host->strangers);
}

void mcg_lua_stranger_setup(lua_State *L)
{
  mcg_lua_class(L, MCG_LUA_STRANGER, NULL, stranger_gc);
  lua_pop(L, 1);
}
