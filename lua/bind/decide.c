/* decide.c: what the engine asks, answered by Lua. The functions of a session's config stay in a
 * table of the registry; a question calls the decider (mooncage/decide.lua) with that table.
 *
 * Selector, tenant and guardrail functions decide at once, under a budget of processor time; those of
 * strangers decide in a process of theirs, for which a task waits. Hooks, on_ask and audit callbacks run
 * as tasks of their own and may wait. */
#include "bind.h"

#include <jansson.h>
#include <luajit.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AT_ONCE (MCG_ASK_SELECT | MCG_ASK_TENANT | MCG_ASK_GUARDRAIL)
#define BUDGET_NS 1000000000ull          /* of processor time, for one decision */
#define LOOK_EVERY 1000                  /* instructions between two looks at the clock */
#define STACK_MAX ((ptrdiff_t)256 << 10) /* of C: coroutines in coroutines use it, unbounded */

static const char *const kind_names[] = {"select",  "tenant", "guardrail",
                                         "confirm", "hook",   "event"};

struct mcg_lua_deciders { /* of one session */
  mcg_lua *host;
  int functions;      /* in the registry */
  unsigned strangers; /* the kinds that a stranger's policy answers */
  bool left_behind;   /* somebody did not answer in time, and may never */
};

/* ---- errors of Lua, for the engine -------------------------------------------------------- */

static mcg_code code_named(const char *name)
{
  static const char *const names[] = {
#define CODE_NAME(code, text) text,
      MCG_CODES(CODE_NAME)
#undef CODE_NAME
  };
  for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0) return (mcg_code)i;
  return MCG_INVALID;
}

static const char *raw_text(lua_State *L, int index, const char *key)
{
  lua_pushstring(L, key);
  lua_rawget(L, index);
  const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
  lua_pop(L, 1); /* the table holds it */
  return text;
}

#define THREW_FIX "correct the function that threw or returned this"

mcg_error *mcg_lua_error_at(lua_State *L, int index)
{
  if (lua_type(L, index) == LUA_TSTRING)
    return mcg_error_new(MCG_INVALID, lua_tostring(L, index), THREW_FIX);
  if (lua_istable(L, index) && raw_text(L, index, "message"))
    return mcg_error_new(code_named(raw_text(L, index, "code")), raw_text(L, index, "message"),
                         raw_text(L, index, "fix"));
  return mcg_error_new(MCG_INVALID, "it threw a value that is neither a text nor an error",
                       THREW_FIX);
}

/* ---- a decision under a budget ------------------------------------------------------------ */

static uint64_t processor_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* Once spent it throws at every instruction, so that no pcall in a loop can swallow it. */
static void on_count(lua_State *L, lua_Debug *ar)
{
  (void)ar;
  mcg_lua *host = mcg_lua_host(L);
  ptrdiff_t deep = host->budget_stack - (const char *)__builtin_frame_address(0);
  host->too_deep = host->too_deep || deep > STACK_MAX || deep < -STACK_MAX;
  uint64_t now = processor_ns();
  if (!host->budget_end) host->budget_end = now + BUDGET_NS; /* most decide before this look */
  if (!host->overspent && !host->too_deep && now < host->budget_end) return;
  if (!host->overspent) lua_sethook(L, on_count, LUA_MASKCOUNT, 1);
  host->overspent = true;
  luaL_error(L, "the time to decide is used up");
}

static bool jit_is_on(lua_State *L)
{
  lua_getglobal(L, "jit");
  bool on = false;
  if (lua_istable(L, -1)) {
    lua_getfield(L, -1, "status");
    if (lua_pcall(L, 0, 1, 0) == 0) on = lua_toboolean(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return on;
}

static int nothing(lua_State *L)
{
  (void)L;
  return 0;
}

/* What would take the budget away from a function of the operator's own: a policy has none of it. Code
 * that a __gc runs is never looked at, so none can be made. */
static const struct {
  const char *library, *name;
} withheld[] = {{"debug", "sethook"}, {"jit", "on"}, {"_G", "newproxy"}};
#define WITHHELD ((int)(sizeof withheld / sizeof *withheld))

static int not_within(lua_State *L)
{
  return luaL_error(L, "a decision cannot change what watches over it");
}

/* core's own table of them: each library, the name, and what stands there meanwhile. The numbers are
 * where a table of all has them. */
static void push_withheld(lua_State *L, mcg_lua *host)
{
  lua_rawgeti(L, LUA_REGISTRYINDEX, host->withheld_ref);
  if (lua_istable(L, -1)) return;
  lua_pop(L, 1);
  lua_createtable(L, 3 * WITHHELD, 0);
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  bool whole = true;
  for (int i = 0; i < WITHHELD; i++) {
    lua_getfield(L, -1, withheld[i].library);
    whole = whole && lua_istable(L, -1);
    lua_rawseti(L, -3, 3 * i + 1);
    lua_pushstring(L, withheld[i].name);
    lua_rawseti(L, -3, 3 * i + 2);
    lua_pushcfunction(L, not_within);
    lua_rawseti(L, -3, 3 * i + 3);
  }
  lua_pop(L, 1);
  if (!whole) return; /* what is not there yet may come */
  lua_pushvalue(L, -1);
  lua_rawseti(L, LUA_REGISTRYINDEX, host->withheld_ref);
}

/* Pushes what each was; nil where there is none. `all` is where the table is. */
static void withhold(lua_State *L, int all)
{
  for (int i = 0; i < WITHHELD; i++) {
    lua_rawgeti(L, all, 3 * i + 1);
    if (!lua_istable(L, -1)) {
      lua_pop(L, 1);
      lua_pushnil(L);
      continue;
    }
    lua_rawgeti(L, all, 3 * i + 2);
    lua_rawget(L, -2);
    if (lua_isfunction(L, -1)) {
      lua_rawgeti(L, all, 3 * i + 2);
      lua_rawgeti(L, all, 3 * i + 3);
      lua_rawset(L, -4);
    }
    lua_remove(L, -2);
  }
}

static void give_back(lua_State *L, int all)
{
  for (int i = 0; i < WITHHELD; i++) {
    if (!lua_isfunction(L, all + 1 + i)) continue;
    lua_rawgeti(L, all, 3 * i + 1);
    lua_rawgeti(L, all, 3 * i + 2);
    lua_pushvalue(L, all + 1 + i);
    lua_rawset(L, -3);
    lua_pop(L, 1);
  }
}

/* Compiled loops never see a hook, so nothing is compiled while it decides, and it itself never. */
static int resume_within(lua_State *L, mcg_lua *host, lua_State *decision, int nargs)
{
  lua_Hook outer = lua_gethook(L);
  int mask = lua_gethookmask(L), count = lua_gethookcount(L);
  bool jit = jit_is_on(L);
  luaL_checkstack(L, WITHHELD + 5, "too many arguments");
  push_withheld(L, host);
  int all = lua_gettop(L);
  withhold(L, all);
  luaJIT_setmode(decision, 1, LUAJIT_MODE_ALLFUNC | LUAJIT_MODE_OFF);
  if (jit) luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
  host->budget_stack = __builtin_frame_address(0);
  host->overspent = host->too_deep = false;
  host->budget_end = 0;
  lua_sethook(decision, on_count, LUA_MASKCOUNT, LOOK_EVERY);
  int rc = lua_resume(decision, nargs);
  /* LuaJIT before 2023 leaves a C function that throws after it resumed a coroutine with that one as
   * the current state, and the next compiled code to exit crashes. A call puts it right. */
  lua_pushcfunction(L, nothing);
  lua_call(L, 0, 0);
  lua_sethook(L, outer, mask, count);
  give_back(L, all);
  lua_settop(L, all - 1);
  if (jit) luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_ON);
  return rc;
}

static int throw_error(lua_State *L, mcg_code code, const char *fix, const char *name,
                       const char *message)
{
  mcg_lua_fail(L, code, fix, "%s %s", name, message);
  return lua_error(L);
}

static int throw_its_own(lua_State *L, lua_State *decision, const char *name)
{
  int at = lua_gettop(decision);
  mcg_code code = MCG_INVALID;
  const char *message = NULL, *fix = NULL;
  if (at > 0 && lua_type(decision, at) == LUA_TSTRING) {
    message = lua_tostring(decision, at);
  } else if (at > 0 && lua_istable(decision, at)) {
    message = raw_text(decision, at, "message");
    fix = raw_text(decision, at, "fix");
    code = code_named(raw_text(decision, at, "code"));
  }
  mcg_lua_fail(L, code, fix ? fix : "the function threw this; correct it there", "%s: %s", name,
               message ? message : "it threw a value that is neither a text nor an error");
  return lua_error(L);
}

/* Pushes the coroutine of the last decision that returned, as good as new, or a new one. */
static lua_State *take_thread(lua_State *L, mcg_lua *host)
{
  lua_State *thread = host->decision;
  if (!thread) return lua_newthread(L);
  host->decision = NULL;
  lua_rawgeti(L, LUA_REGISTRYINDEX, host->decision_ref);
  lua_pushvalue(L, LUA_GLOBALSINDEX);
  lua_xmove(L, thread, 1);
  lua_replace(thread, LUA_GLOBALSINDEX);
  return thread;
}

/* core.decide(name, fn, ...) -> what fn returns. Raises an error table, which names it, when it
 * throws, yields, or uses more than its second of processor time. */
int mcg_lua_decide(lua_State *L)
{
  const char *name = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  int nargs = lua_gettop(L) - 2;
  mcg_lua *host = mcg_lua_host(L);
  lua_State *decision = take_thread(L, host);
  lua_insert(L, 2);
  luaL_checkstack(decision, nargs + 1, "too many arguments");
  lua_xmove(L, decision, nargs + 1);
  const char *outer = host->callback;
  bool within = host->decides;
  host->callback = name; /* what would wait says where it cannot */
  host->decides = true;
  int rc = resume_within(L, host, decision, nargs);
  host->callback = outer;
  host->decides = within;
  if (host->too_deep)
    return throw_error(L, MCG_INVALID, "use fewer coroutines, one in another", name,
                       "nests coroutines too deeply");
  if (host->overspent)
    return throw_error(L, MCG_TIMEOUT, "make it return sooner: it decides from what it is given",
                       name, "used more than 1 s of processor time");
  if (rc == LUA_YIELD)
    return throw_error(L, MCG_INVALID, "decide at once; a hook may wait", name,
                       "yielded, which it must not");
  if (rc != 0) return throw_its_own(L, decision, name);
  int results = lua_gettop(decision);
  luaL_checkstack(L, results, "too many results");
  lua_xmove(decision, L, results);
  lua_pushvalue(L, 2);
  lua_rawseti(L, LUA_REGISTRYINDEX, host->decision_ref);
  host->decision = decision;
  return results;
}

/* ---- the engine asks ---------------------------------------------------------------------- */

struct asking {
  struct mcg_lua_deciders *deciders;
  unsigned kind;
  mcg_question *open; /* NULL once it is answered, or a task's */
  mcg_task *task;     /* that answers it; or NULL: it was answered at once */
};

static int encode_answer(lua_State *L)
{
  mcg_lua_encode(L, 1, lua_tostring(L, 2));
  return 1;
}

/* On the stack is what the decider gave: true and an answer or nil, or false and what was thrown.
 * Raises when the answer is no plain data: *open is open yet. */
static void give_answer(lua_State *L, unsigned kind, mcg_question **open)
{
  mcg_question *question = *open;
  lua_settop(L, 2);
  json_t *simple = NULL;
  if (!lua_toboolean(L, 1)) {
    mcg_error *error = mcg_lua_error_at(L, 2);
    *open = NULL;
    mcg_answer_error(question, error);
  } else if (lua_isnil(L, 2) || (simple = mcg_lua_simple_object(L, 2))) {
    *open = NULL;
    mcg_answer_json(question, simple);
  } else {
    lua_pushcfunction(L, encode_answer); /* it blames nobody's line */
    lua_insert(L, 2);
    lua_pushstring(L, kind_names[__builtin_ctz(kind)]);
    lua_call(L, 2, 1);
    *open = NULL;
    mcg_answer(question, lua_tostring(L, -1));
  }
}

static int ask_protected(lua_State *L)
{
  struct asking *a = lua_touserdata(L, 1);
  mcg_lua *host = a->deciders->host;
  bool waits = !(a->kind & AT_ONCE & ~a->deciders->strangers);
  mcg_session *session = a->kind == MCG_ASK_HOOK ? mcg_question_session(a->open) : NULL;
  const mcg_told *told = mcg_question_told(a->open);
  lua_settop(L, 0);
  lua_rawgeti(L, LUA_REGISTRYINDEX, host->decide_ref);
  lua_pushstring(L, kind_names[__builtin_ctz(a->kind)]);
  lua_rawgeti(L, LUA_REGISTRYINDEX, a->deciders->functions);
  if (told)
    mcg_lua_push_told(L, told);
  else
    mcg_lua_push_question(L, mcg_question_json(a->open));
  if (session)
    mcg_lua_push_session(L, host, session);
  else
    lua_pushnil(L);
  if (!waits) {
    lua_call(L, 4, 2);
    give_answer(L, a->kind, &a->open);
    return 0;
  }
  mcg_task *task = a->task = mcg_lua_task_asked(L, 4);
  task->question = a->open;
  task->asked = a->kind;
  a->open = NULL;
  return 0;
}

static void on_question(void *data, unsigned kind, const char *json, mcg_question *open)
{
  struct asking a = {data, kind, open, NULL};
  mcg_lua *host = a.deciders->host;
  (void)json;
  if (host->closing || host->exiting) {
    mcg_answer_error(open, mcg_error_new(MCG_CANCELED, "Lua is being left", NULL));
    return;
  }
  const char *name =
      kind & AT_ONCE & ~a.deciders->strangers ? kind_names[__builtin_ctz(kind)] : NULL;
  const char *outer = host->callback;
  if (name) host->callback = name;
  int rc = lua_cpcall(host->L, ask_protected, &a);
  host->callback = outer;
  if (a.task) mcg_lua_task_now(a.task);
  if (rc == 0) return;
  mcg_error *error = mcg_lua_error_at(host->L, lua_gettop(host->L));
  lua_pop(host->L, 1);
  if (a.open)
    mcg_answer_error(a.open, error);
  else
    mcg_error_free(error);
}

static mcg_task *task_of(const mcg_lua *host, const mcg_question *question)
{
  mcg_task *task = host->live;
  while (task && task->question != question) task = task->older;
  return task;
}

static void on_abandoned(void *data, mcg_question *open)
{
  struct mcg_lua_deciders *d = data;
  mcg_task *task = task_of(d->host, open);
  if (!d->left_behind) d->host->waited_for--;
  d->left_behind = true;
  if (task) mcg_lua_task_cancel(task);
}

static void on_release(void *data)
{
  struct mcg_lua_deciders *d = data;
  d->host->deciders--;
  if (!d->left_behind) d->host->waited_for--;
  if (!d->host->closing) {
    lua_State *L = d->host->L;
    lua_rawgeti(L, LUA_REGISTRYINDEX, d->functions);
    mcg_lua_strangers_use(L, lua_gettop(L), false);
    lua_pop(L, 1);
    luaL_unref(L, LUA_REGISTRYINDEX, d->functions);
  }
  free(d);
}

static unsigned kinds_in(lua_State *L, int list)
{
  unsigned asks = 0;
  for (int i = 1; i <= (int)lua_objlen(L, list); i++) {
    lua_rawgeti(L, list, i);
    for (unsigned k = 0; k < sizeof kind_names / sizeof *kind_names; k++)
      if (strcmp(kind_names[k], luaL_checkstring(L, -1)) == 0) asks |= 1u << k;
    lua_pop(L, 1);
  }
  return asks;
}

bool mcg_lua_deciders(lua_State *L, int functions, mcg_deciders *out)
{
  if (!lua_istable(L, functions)) return false;
  lua_getfield(L, functions, "asks");
  luaL_checktype(L, -1, LUA_TTABLE);
  unsigned asks = kinds_in(L, lua_gettop(L));
  lua_pop(L, 1);
  if (!asks) return false;
  lua_getfield(L, functions, "waits");
  unsigned strangers = lua_istable(L, -1) ? kinds_in(L, lua_gettop(L)) : 0;
  lua_pop(L, 1);
  lua_pushvalue(L, functions);
  int ref = luaL_ref(L, LUA_REGISTRYINDEX);
  mcg_lua *host = mcg_lua_host(L);
  mcg_lua_strangers_use(L, functions, true);
  struct mcg_lua_deciders *d = malloc(sizeof *d); /* last: Lua's errors come before it */
  if (!d) {
    mcg_lua_strangers_use(L, functions, false);
    luaL_unref(L, LUA_REGISTRYINDEX, ref);
    luaL_error(L, "mooncage: not enough memory");
  }
  *d = (struct mcg_lua_deciders){host, ref, strangers, false};
  host->deciders++;
  host->waited_for++;
  *out = (mcg_deciders){.size = sizeof *out,
                        .asks = asks,
                        .data = d,
                        .on_question = on_question,
                        .on_abandoned = on_abandoned,
                        .on_release = on_release,
                        .parsed = true};
  return true;
}

void mcg_lua_deciders_drop(const mcg_deciders *deciders)
{
  on_release(deciders->data);
}

/* ---- closing from inside, and the end ----------------------------------------------------- */

static mcg_question *take_question(mcg_task *task)
{
  mcg_question *question = task->question;
  task->question = NULL;
  return question;
}

void mcg_lua_questions_settle(mcg_lua *host, const mcg_session *session)
{
  for (mcg_task *task = host->live; task; task = task->older) {
    if (!task->question || (task->asked & AT_ONCE)) continue;
    if (mcg_question_session(task->question) != session) continue;
    if (task->asked == MCG_ASK_CONFIRM)
      mcg_answer_error(take_question(task),
                       mcg_error_new(MCG_CANCELED, "the session was closed", NULL));
    else
      mcg_answer(take_question(task), NULL);
  }
}

static int answer_protected(lua_State *L)
{
  mcg_task *task = lua_touserdata(L, 1);
  lua_settop(task->L, 2);
  lua_settop(L, 0);
  for (int i = 1; i <= 2; i++) lua_pushvalue(task->L, i);
  lua_xmove(task->L, L, 2);
  give_answer(L, task->asked, &task->question);
  return 0;
}

/* One that threw: out of memory, as good as certainly, for the decider catches the rest. */
void mcg_lua_question_end(mcg_task *task)
{
  lua_State *L = task->host->L;
  mcg_error *error = NULL;
  if (!task->question) return;
  if (task->state == MCG_TASK_FAILED) {
    error = mcg_error_new(MCG_CANCELED, "the function ended without an answer", NULL);
  } else if (lua_cpcall(L, answer_protected, task) != 0) {
    error = mcg_lua_error_at(L, lua_gettop(L));
    lua_pop(L, 1);
  }
  if (error && task->question)
    mcg_answer_error(take_question(task), error);
  else
    mcg_error_free(error);
}

void mcg_lua_question_drop(mcg_task *task)
{
  if (!task->question) return;
  mcg_answer_error(take_question(task), mcg_error_new(MCG_CANCELED, "Lua is being left", NULL));
}

void mcg_lua_questions_end(mcg_lua *host)
{
  for (mcg_task *task = host->live; task; task = task->older) mcg_lua_question_drop(task);
}

void mcg_lua_spec_by_task(const mcg_lua *host, const mcg_session *session, mcg_exec_spec *spec)
{
  const mcg_task *task = host->current ? host->current : host->outside;
  spec->quiet = task->inside;
  if (!spec->tool && task->tool && task->tool_session == session) spec->tool = task->tool;
}

/* core.set_decider(function(kind, functions, asked, session) -> as pcall says it: true, answer) */
int mcg_lua_set_decider(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  mcg_lua *host = mcg_lua_host(L);
  luaL_unref(L, LUA_REGISTRYINDEX, host->decide_ref);
  host->decide_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}
