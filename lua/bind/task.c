/* task.c: tasks: coroutines that the loop resumes; spawn, join, cancel, sleep, and the one place
 * where Lua goes on after a wait.
 *
 * A task's return values stay on its own stack until somebody asks. A task has failed when it threw,
 * or returned nil and something: join then cancels the others. */
#include "bind.h"

#include <stdlib.h>
#include <string.h>

/* ---- waiting ------------------------------------------------------------------------------ */

mcg_task *mcg_lua_enter(lua_State *L)
{
  mcg_lua *host = mcg_lua_host(L);
  mcg_task *task = host->current;
  if (host->closing) luaL_error(L, "mooncage: the engine is closed");
  if (host->callback)
    luaL_error(L, "mooncage: cannot wait inside %s; %s", host->callback,
               host->decides ? "it decides at once, from what it is given"
                             : "use mooncage.spawn there");
  if (!task) {
    if (host->turning) luaL_error(L, "mooncage: cannot wait here: the loop is being turned");
    return host->outside;
  }
  if (task->L != L)
    luaL_error(L, "mooncage: cannot wait inside a plain coroutine; use mooncage.spawn");
  if (!lua_isyieldable(L))
    luaL_error(L, "mooncage: cannot wait inside sort, gsub, require or another C function");
  return task;
}

bool mcg_lua_is_canceled(const mcg_task *task)
{
  return task->canceled && !task->shielded;
}

void mcg_lua_cancelable(mcg_task *task, void (*cancel)(mcg_task *task, void *what), void *what)
{
  task->cancel = cancel;
  task->what = what;
}

static void make_ready(mcg_task *task)
{
  mcg_lua *host = task->host;
  if (task->outside) {
    task->woken = true;
    return;
  }
  task->state = MCG_TASK_READY;
  task->next = NULL;
  *host->ready_end = task;
  host->ready_end = &task->next;
  mcg_lua_wake(host);
}

struct completion {
  mcg_task *task;
  int (*push)(lua_State *L, void *ctx);
  void *ctx;
};

static int complete_protected(lua_State *L)
{
  struct completion *c = lua_touserdata(L, 1);
  lua_settop(L, 0);
  int n = c->push(L, c->ctx);
  luaL_checkstack(c->task->L, n, "too many results");
  lua_xmove(L, c->task->L, n);
  c->task->nargs = n;
  return 0;
}

void mcg_lua_complete(mcg_task *task, int (*push)(lua_State *L, void *ctx), void *ctx)
{
  mcg_lua *host = task->host;
  task->cancel = NULL;
  task->shielded = false;
  if (host->closing) return;
  struct completion c = {task, push, ctx};
  if (lua_cpcall(host->L, complete_protected, &c) != 0) {
    /* Out of memory, as good as certainly: the message is one that the state keeps ready. */
    lua_pushnil(task->L);
    lua_xmove(host->L, task->L, 1);
    task->nargs = 2;
  }
  make_ready(task);
}

static int wait_outside(lua_State *L, mcg_task *task)
{
  mcg_lua *host = task->host;
  lua_State *outer = host->L;
  host->L = L;
  while (!task->woken && mcg_lua_turn(host)) continue;
  host->L = outer;
  if (!task->woken) return luaL_error(L, "mooncage: nothing is left that could end this wait");
  task->woken = false;
  int n = task->nargs;
  task->nargs = 0;
  luaL_checkstack(L, n, "too many results");
  lua_xmove(task->L, L, n);
  return n;
}

int mcg_lua_wait(lua_State *L, mcg_task *task)
{
  if (task->outside) return wait_outside(L, task);
  task->state = MCG_TASK_WAITING;
  return lua_yield(L, 0);
}

static int push_canceled(lua_State *L, void *ctx)
{
  (void)ctx;
  return mcg_lua_fail(L, MCG_CANCELED, NULL, "the task was canceled");
}

int mcg_lua_canceled(lua_State *L, mcg_task *task)
{
  /* By way of the ready queue: a canceled task that keeps trying must not starve the loop. */
  if (task->outside)
    mcg_lua_complete_canceled(task);
  else
    make_ready(task);
  task->told = !task->outside; /* its stack is in use until it has yielded */
  return mcg_lua_wait(L, task);
}

void mcg_lua_complete_canceled(mcg_task *task)
{
  mcg_lua_complete(task, push_canceled, NULL);
}

/* ---- joining ------------------------------------------------------------------------------ */

static mcg_task *task_at(lua_State *L, int index)
{
  return luaL_testudata(L, index, MCG_LUA_TASK);
}

static bool task_over(const mcg_task *task)
{
  return task->state == MCG_TASK_DONE || task->state == MCG_TASK_FAILED;
}

/* It threw, or returned nil and an error. */
static bool task_failed(const mcg_task *task)
{
  if (task->state == MCG_TASK_FAILED) return true;
  return lua_gettop(task->L) >= 2 && lua_isnil(task->L, 1) && !lua_isnil(task->L, 2);
}

/* Copies values `from`..`to` of an ended task's stack. */
static void copy_values(lua_State *L, mcg_task *task, int from, int to)
{
  luaL_checkstack(L, to - from + 1, "too many results");
  luaL_checkstack(task->L, to - from + 1, "too many results");
  for (int i = from; i <= to; i++) lua_pushvalue(task->L, i);
  lua_xmove(task->L, L, to - from + 1);
}

static int push_failure(lua_State *L, mcg_task *task)
{
  task->observed = true;
  lua_pushnil(L);
  if (task->state == MCG_TASK_FAILED)
    copy_values(L, task, 1, 1);
  else
    copy_values(L, task, 2, 2);
  return 2;
}

/* A task in the list of the one it waits for. */
struct mcg_joiner {
  mcg_task *task;
  struct mcg_joiner *next;
};

/* One join: what ends it needs no memory of Lua's. */
struct mcg_join {
  int ref;  /* the list of tasks, anchored in the registry */
  bool one; /* wait(): all values of the only one, not the first of each */
  mcg_task *failed;
  size_t left, count;
  struct {
    mcg_task *task;
    struct mcg_joiner joiner;
  } each[];
};

static void join_free(mcg_task *joiner)
{
  if (!joiner->join) return;
  if (!joiner->host->closing) luaL_unref(joiner->host->L, LUA_REGISTRYINDEX, joiner->join->ref);
  free(joiner->join);
  joiner->join = NULL;
}

static int push_joined(lua_State *L, void *ctx)
{
  const struct mcg_join *join = ((mcg_task *)ctx)->join;
  if (join->failed) return push_failure(L, join->failed);
  if (join->one) {
    mcg_task *only = join->each[0].task;
    int n = lua_gettop(only->L);
    only->observed = true;
    copy_values(L, only, 1, n);
    return n;
  }
  lua_createtable(L, (int)join->count, 0);
  int results = lua_gettop(L);
  for (size_t i = 0; i < join->count; i++) {
    mcg_task *task = join->each[i].task;
    task->observed = true;
    if (lua_gettop(task->L) == 0) continue;
    copy_values(L, task, 1, 1);
    lua_rawseti(L, results, (int)i + 1);
  }
  return 1;
}

static void join_cancel(mcg_task *joiner, void *what)
{
  (void)what;
  for (size_t i = 0; i < joiner->join->count; i++) mcg_lua_task_cancel(joiner->join->each[i].task);
}

/* `task` has ended: those that wait for it hear so. */
static void tell_joiners(mcg_task *task)
{
  bool failed = task_failed(task);
  struct mcg_joiner *at = task->joiners;
  task->joiners = NULL;
  while (at) {
    mcg_task *joiner = at->task;
    at = at->next;
    if (failed && !joiner->join->failed) {
      joiner->join->failed = task;
      join_cancel(joiner, NULL);
    }
    if (--joiner->join->left > 0) continue;
    mcg_lua_complete(joiner, push_joined, joiner);
    join_free(joiner);
  }
}

/* Waits for the tasks of the list at `list` (a table of this call's own, its items checked). */
static int join_list(lua_State *L, int list, bool one)
{
  mcg_task *self = mcg_lua_enter(L);
  size_t count = lua_objlen(L, list);
  join_free(self); /* of one that ended by an error */
  lua_pushvalue(L, list);
  int ref = luaL_ref(L, LUA_REGISTRYINDEX);
  struct mcg_join *join = calloc(1, sizeof *join + count * sizeof join->each[0]);
  if (!join) {
    luaL_unref(L, LUA_REGISTRYINDEX, ref);
    return luaL_error(L, "mooncage: not enough memory");
  }
  self->join = join;
  join->ref = ref;
  join->one = one;
  join->count = count;
  for (size_t i = 0; i < count; i++) {
    lua_rawgeti(L, list, (int)i + 1);
    mcg_task *task = join->each[i].task = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (task_over(task)) {
      if (!join->failed && task_failed(task)) join->failed = task;
      continue;
    }
    join->each[i].joiner = (struct mcg_joiner){self, task->joiners};
    task->joiners = &join->each[i].joiner;
    join->left++;
  }
  if (join->left == 0) {
    lua_settop(L, 0);
    int n = push_joined(L, self);
    join_free(self);
    return n;
  }
  mcg_lua_cancelable(self, join_cancel, NULL);
  if (join->failed || mcg_lua_is_canceled(self)) join_cancel(self, NULL);
  return mcg_lua_wait(L, self);
}

int mcg_lua_task_join(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TTABLE);
  mcg_task *self = mcg_lua_enter(L);
  int count = (int)lua_objlen(L, 1);
  lua_settop(L, 1);
  lua_createtable(L, count, 0);
  for (int i = 1; i <= count; i++) {
    lua_rawgeti(L, 1, i);
    mcg_task *task = task_at(L, -1);
    if (!task)
      return mcg_lua_misuse(L, "join: item %d is a %s, not a task", i, luaL_typename(L, -1));
    if (task == self) return mcg_lua_misuse(L, "join: a task cannot wait for itself");
    lua_rawseti(L, 2, i);
  }
  return join_list(L, 2, false);
}

static int task_wait(lua_State *L)
{
  mcg_task *task = luaL_checkudata(L, 1, MCG_LUA_TASK);
  if (task == mcg_lua_enter(L)) return mcg_lua_misuse(L, "wait: a task cannot wait for itself");
  lua_settop(L, 1);
  lua_createtable(L, 1, 0);
  lua_pushvalue(L, 1);
  lua_rawseti(L, 2, 1);
  return join_list(L, 2, true);
}

/* ---- running ------------------------------------------------------------------------------ */

static void live_add(mcg_task *task)
{
  mcg_lua *host = task->host;
  task->older = host->live;
  if (host->live) host->live->newer = task;
  host->live = task;
}

static void live_remove(mcg_task *task)
{
  if (task->newer)
    task->newer->older = task->older;
  else
    task->host->live = task->older;
  if (task->older) task->older->newer = task->newer;
  task->older = task->newer = NULL;
}

static int fail_protected(lua_State *L)
{
  mcg_task *task = lua_touserdata(L, 1);
  lua_xmove(task->L, L, 1);
  mcg_lua_caught(L, task->L);
  lua_settop(task->L, 0); /* a thread that threw keeps its frames; its stack is ours to use */
  lua_xmove(L, task->L, 1);
  return 0;
}

/* Lets go of what was live. The key is there: nothing is allocated, nothing throws. */
static void forget(mcg_task *task)
{
  lua_State *L = task->host->L;
  lua_rawgeti(L, LUA_REGISTRYINDEX, task->host->live_ref);
  lua_pushlightuserdata(L, task);
  lua_pushnil(L);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

/* It stays anchored as a live one is. */
static void keep_spare(mcg_task *task)
{
  lua_settop(task->L, 0);
  task->host->spare = task;
}

static void task_finish(mcg_task *task, bool threw)
{
  lua_State *L = task->host->L;
  if (threw && lua_cpcall(L, fail_protected, task) != 0) {
    lua_settop(task->L, 0);
    lua_xmove(L, task->L, 1);
  }
  task->state = threw ? MCG_TASK_FAILED : MCG_TASK_DONE;
  if (task->owed) mcg_lua_question_end(task);
  live_remove(task);
  tell_joiners(task);
  if (!threw && task->owed && !task->shown && !task->waited && !task->host->spare)
    keep_spare(task);
  else
    forget(task);
}

/* Puts nil and `canceled` on a task's stack: what its wait gives, or, when it was canceled before it
 * ever ran, what it returns. */
static int tell_canceled(lua_State *L)
{
  mcg_task *task = lua_touserdata(L, 1);
  task->nargs = push_canceled(L, NULL);
  lua_xmove(L, task->L, task->nargs);
  return 0;
}

static void task_run(mcg_task *task)
{
  mcg_lua *host = task->host;
  if (task->dropped) return;
  bool unbegun = task->canceled && !task->begun && !task->owed;
  if (unbegun) lua_settop(task->L, 0);
  if ((unbegun || task->told) && lua_cpcall(host->L, tell_canceled, task) != 0) lua_pop(host->L, 1);
  task->told = false;
  if (unbegun) {
    task_finish(task, false);
    return;
  }
  int nargs = task->nargs;
  task->nargs = 0;
  task->begun = true;
  task->state = MCG_TASK_RUNNING;
  host->current = task;
  int rc = lua_resume(task->L, nargs);
  host->current = NULL;
  if (host->exiting || host->closing) return;
  task->waited = task->waited || rc == LUA_YIELD;
  if (rc != LUA_YIELD) {
    task_finish(task, rc != 0);
  } else if (task->state == MCG_TASK_RUNNING) {
    lua_settop(task->L, 0); /* a bare coroutine.yield(): let the others run */
    make_ready(task);
  }
}

void mcg_lua_run_ready(mcg_lua *host)
{
  /* Only those that are ready now: what they make ready runs on the next turn, after the loop has
   * looked at its descriptors. */
  mcg_task *task = host->ready;
  host->ready = NULL;
  host->ready_end = &host->ready;
  while (task && !host->exiting && !host->closing) {
    mcg_task *next = task->next;
    task_run(task);
    task = next;
  }
}

void mcg_lua_task_now(mcg_task *task)
{
  mcg_lua *host = task->host;
  if (host->current || host->ready != task || task->next) return;
  host->ready = NULL;
  host->ready_end = &host->ready;
  task_run(task);
  mcg_lua_rest(host);
}

/* Pushes it. */
static mcg_task *task_new(lua_State *L, mcg_lua *host)
{
  mcg_task *task = lua_newuserdata(L, sizeof *task);
  memset(task, 0, sizeof *task);
  task->host = host;
  luaL_setmetatable(L, MCG_LUA_TASK);
  lua_newtable(L); /* its environment anchors the coroutine */
  task->L = lua_newthread(L);
  lua_setfield(L, -2, "thread");
  lua_setfenv(L, -2);
  lua_rawgeti(L, LUA_REGISTRYINDEX, host->live_ref);
  lua_pushlightuserdata(L, task);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 1);
  return task;
}

/* Takes the function and its arguments from the top of the stack. */
static void task_begin(lua_State *L, mcg_task *task, int nargs)
{
  luaL_checkstack(task->L, nargs + 1, "too many arguments");
  lua_xmove(L, task->L, nargs + 1);
  task->nargs = nargs;
  live_add(task);
  make_ready(task);
}

int mcg_lua_task_spawn(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TFUNCTION);
  mcg_lua *host = mcg_lua_host(L);
  if (host->closing) return luaL_error(L, "mooncage: the engine is closed");
  int nargs = lua_gettop(L) - 1;
  mcg_task *task = task_new(L, host);
  lua_insert(L, 1);
  task_begin(L, task, nargs);
  const mcg_task *parent = host->current ? host->current : host->outside;
  task->shown = true;
  task->inside = parent && parent->inside;
  if (parent) task->tool = parent->tool, task->tool_session = parent->tool_session;
  return 1;
}

/* As good as a new one: what the last function did to the globals of its thread is gone, too. */
static mcg_task *take_spare(lua_State *L, mcg_lua *host)
{
  mcg_task *task = host->spare;
  host->spare = NULL;
  *task = (mcg_task){.host = host, .L = task->L};
  lua_pushvalue(L, LUA_GLOBALSINDEX);
  lua_xmove(L, task->L, 1);
  lua_replace(task->L, LUA_GLOBALSINDEX);
  return task;
}

mcg_task *mcg_lua_task_asked(lua_State *L, int nargs)
{
  mcg_lua *host = mcg_lua_host(L);
  bool again = host->spare != NULL;
  mcg_task *task = again ? take_spare(L, host) : task_new(L, host);
  if (!again) lua_pop(L, 1); /* anchored as a live one */
  task_begin(L, task, nargs);
  task->owed = task->inside = true;
  return task;
}

void mcg_lua_task_cancel(mcg_task *task)
{
  if (task->canceled || task_over(task)) return;
  task->canceled = true;
  if (task->shielded || !task->cancel) return;
  void (*cancel)(mcg_task *, void *) = task->cancel;
  task->cancel = NULL;
  cancel(task, task->what);
}

void mcg_lua_tasks_drop(mcg_lua *host)
{
  for (mcg_task *task = host->live; task; task = task->older) {
    bool exits = task->state == MCG_TASK_RUNNING; /* none runs: this one has called os.exit */
    if (task->inside && !exits) continue;
    task->dropped = true;
    mcg_lua_question_drop(task);
    mcg_lua_task_cancel(task);
  }
}

static int task_cancel(lua_State *L)
{
  mcg_lua_task_cancel(luaL_checkudata(L, 1, MCG_LUA_TASK));
  return 0;
}

static int task_status(lua_State *L)
{
  static const char *const names[] = {"ready", "running", "waiting", "done", "failed"};
  mcg_task *task = luaL_checkudata(L, 1, MCG_LUA_TASK);
  lua_pushstring(L, names[task->state]);
  return 1;
}

static int task_tostring(lua_State *L)
{
  task_status(L);
  lua_pushfstring(L, "mooncage.task (%s): %p", lua_tostring(L, -1), lua_topointer(L, 1));
  return 1;
}

int mcg_lua_task_current(lua_State *L)
{
  mcg_lua *host = mcg_lua_host(L);
  if (!host->current) return 0;
  host->current->shown = true;
  lua_rawgeti(L, LUA_REGISTRYINDEX, host->live_ref);
  lua_pushlightuserdata(L, host->current);
  lua_rawget(L, -2);
  return 1;
}

/* core.tasks() -> the tasks that are not over, but the one that asks; hooks that were left behind are
 * nobody's to wait for, whatever they make of having been canceled */
int mcg_lua_tasks(lua_State *L)
{
  mcg_lua *host = mcg_lua_host(L);
  lua_newtable(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, host->live_ref);
  int n = 0, list = lua_gettop(L) - 1;
  for (mcg_task *t = host->live; t; t = t->older) {
    if (t == host->current || (t->inside && t->canceled)) continue;
    t->shown = true;
    lua_pushlightuserdata(L, t);
    lua_rawget(L, list + 1);
    lua_rawseti(L, list, ++n);
  }
  lua_pop(L, 1);
  lua_pushinteger(L, (lua_Integer)host->lost);
  return 2;
}

/* mooncage.run: for embedded hosts: a task, and the loop turned until it is done. */
int mcg_lua_task_run(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TFUNCTION);
  if (mcg_lua_host(L)->current)
    return mcg_lua_misuse(L, "run: this is a task already; call the function");
  mcg_task *outside = mcg_lua_enter(L);
  mcg_lua_task_spawn(L);
  lua_settop(L, 1);
  mcg_task *task = luaL_checkudata(L, 1, MCG_LUA_TASK);
  lua_State *outer = outside->host->L;
  outside->host->L = L;
  while (!task_over(task) && !outside->host->exiting && mcg_lua_turn(outside->host)) continue;
  outside->host->L = outer;
  if (outside->host->exiting) return 0;
  if (!task_over(task)) return luaL_error(L, "mooncage: nothing is left that could end the task");
  task->observed = true;
  copy_values(L, task, 1, lua_gettop(task->L));
  if (task->state == MCG_TASK_FAILED) return lua_error(L);
  return lua_gettop(L) - 1;
}

int mcg_lua_task_sleep(lua_State *L)
{
  double seconds = luaL_checknumber(L, 1);
  int64_t ms = mcg_lua_ms(L, seconds, "sleep");
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  mcg_error *err = NULL;
  mcg_engine *engine = mcg_lua_engine(task->host, &err);
  if (!engine) return mcg_lua_nil_error(L, err);
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  int rc = mcg_sleep(engine, ms, mcg_lua_done, ticket, &ticket->op, &err);
  return mcg_lua_started(L, task, ticket, rc, err);
}

/* A task that threw and that nobody asked: said once, here, and counted for the script's status. */
static int task_gc(lua_State *L)
{
  mcg_task *task = lua_touserdata(L, 1);
  join_free(task);
  if (task->state != MCG_TASK_FAILED || task->observed || task->host->closing) return 0;
  task->host->lost++;
  copy_values(L, task, 1, 1);
  const char *text = NULL;
  if (lua_istable(L, -1)) {
    lua_getfield(L, -1, "message");
    text = lua_tostring(L, -1);
  }
  lua_pushfstring(L, "a task failed and nobody waited for it: %s", text ? text : "unknown error");
  mcg_lua_log(task->host, MCG_LOG_ERROR, lua_tostring(L, -1));
  return 0;
}

static const luaL_Reg task_methods[] = {
    {"cancel", task_cancel},
    {"status", task_status},
    {"wait", task_wait},
    {NULL, NULL},
};

void mcg_lua_task_setup(lua_State *L)
{
  mcg_lua *host = mcg_lua_host(L);
  mcg_lua_class(L, MCG_LUA_TASK, task_methods, task_gc);
  lua_pushcfunction(L, task_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pop(L, 1);
  /* The one that stands for the code outside any task. */
  mcg_task *outside = lua_newuserdata(L, sizeof *outside);
  memset(outside, 0, sizeof *outside);
  outside->host = host;
  outside->outside = true;
  lua_newtable(L);
  outside->L = lua_newthread(L);
  lua_setfield(L, -2, "thread");
  lua_setfenv(L, -2);
  host->outside = outside;
  luaL_ref(L, LUA_REGISTRYINDEX);
}
