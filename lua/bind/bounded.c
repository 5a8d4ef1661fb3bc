/* bounded.c: calls a function that must not take long: a policy. A count hook ends it after so many
 * instructions of the interpreter. That is a best effort against mistakes, no wall: compiled code and
 * long C functions (a pattern that backtracks) do not see hooks. */
#include "bind.h"

#define STEP 10000     /* instructions between two looks */
#define STEPS_MAX 2000 /* about a quarter of a second */
#define BUDGET "mooncage.bounded"

typedef struct budget {
  int steps;
  bool spent;
} budget;

/* Once it is spent every instruction throws again: a pcall inside does not get away. */
static void count(lua_State *L, lua_Debug *ar)
{
  (void)ar;
  lua_getfield(L, LUA_REGISTRYINDEX, BUDGET);
  budget *b = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (!b || ++b->steps <= STEPS_MAX) return;
  if (!b->spent) lua_sethook(L, count, LUA_MASKCOUNT, 1);
  b->spent = true;
  luaL_error(L, "it ran for too long and was stopped");
}

int mcg_lua_bounded_call(lua_State *L, int nargs, int nresults)
{
  lua_Hook hook = lua_gethook(L);
  int mask = lua_gethookmask(L), every = lua_gethookcount(L);
  if (hook == count) return lua_pcall(L, nargs, nresults, 0); /* inside another: its budget holds */
  budget b = {0};
  int at = lua_gettop(L) - nargs;
  luaL_checkstack(L, 2, "too many arguments");
  lua_pushlightuserdata(L, &b);
  lua_setfield(L, LUA_REGISTRYINDEX, BUDGET);
  lua_sethook(L, count, LUA_MASKCOUNT, STEP);
  int rc = lua_pcall(L, nargs, nresults, 0);
  lua_sethook(L, hook, mask, every);
  if (b.spent) { /* whatever it still returned or threw */
    lua_settop(L, at - 1);
    lua_pushliteral(L, "it ran for too long and was stopped");
    rc = LUA_ERRRUN;
  }
  lua_pushnil(L);
  lua_setfield(L, LUA_REGISTRYINDEX, BUDGET);
  return rc;
}

/* core.bounded(fn, ...) -> true, what it returned; or false, what it threw */
int mcg_lua_bounded(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TFUNCTION);
  int rc = mcg_lua_bounded_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  lua_pushboolean(L, rc == 0);
  lua_insert(L, 1);
  return lua_gettop(L);
}
