/* decide.c: what the engine asks, answered by Lua. The functions of a session's config stay in a
 * table of the registry; a question calls the decider (mooncage/decide.lua) with that table.
 *
 * Selector, tenant and guardrail functions decide at once, under a budget of processor time; those of
 * strangers decide in a process of theirs, for which a task waits. Hooks, on_ask and audit callbacks run
 * as tasks of their own and may wait. */
#include "bind.h"

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
};

struct mcg_lua_question { /* the block of a userdata, which its task holds */
  mcg_lua *host;
  mcg_question *question; /* NULL once it is answered */
  unsigned kind;
  mcg_task *task;
  struct mcg_lua_question *older, *newer; /* of the host, while it is open */
};
typedef struct mcg_lua_question question;

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

mcg_error *mcg_lua_error_at(lua_State *L, int index)
{
  if (lua_type(L, index) == LUA_TSTRING)
    return mcg_error_new(MCG_INVALID, lua_tostring(L, index), NULL);
  if (lua_istable(L, index) && raw_text(L, index, "message"))
    return mcg_error_new(code_named(raw_text(L, index, "code")), raw_text(L, index, "message"),
                         raw_text(L, index, "fix"));
  return mcg_error_new(MCG_INVALID, "it threw a value that is neither a text nor an error", NULL);
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
  if (!host->overspent && !host->too_deep && processor_ns() < host->budget_end) return;
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

/* Pushes what it was; nil where there is none. */
static void withhold(lua_State *L, int i)
{
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  lua_getfield(L, -1, withheld[i].library);
  lua_remove(L, -2);
  int type = mcg_lua_field(L, lua_gettop(L), withheld[i].name);
  if (type == LUA_TFUNCTION) {
    lua_pushstring(L, withheld[i].name);
    lua_pushcfunction(L, not_within);
    lua_rawset(L, -4);
  }
  lua_remove(L, -2);
}

/* Pops it. */
static void give_back(lua_State *L, int i)
{
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    return;
  }
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  lua_getfield(L, -1, withheld[i].library);
  lua_pushstring(L, withheld[i].name);
  lua_pushvalue(L, -4);
  lua_rawset(L, -3);
  lua_pop(L, 3);
}

/* Compiled loops never see a hook, so nothing is compiled while it decides, and it itself never. */
static int resume_within(lua_State *L, mcg_lua *host, lua_State *decision, int nargs, uint64_t ns)
{
  lua_Hook outer = lua_gethook(L);
  int mask = lua_gethookmask(L), count = lua_gethookcount(L);
  bool jit = jit_is_on(L);
  luaL_checkstack(L, WITHHELD + 4, "too many arguments");
  for (int i = 0; i < WITHHELD; i++) withhold(L, i);
  luaJIT_setmode(decision, 1, LUAJIT_MODE_ALLFUNC | LUAJIT_MODE_OFF);
  if (jit) luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
  host->budget_stack = __builtin_frame_address(0);
  host->overspent = host->too_deep = false;
  host->budget_end = processor_ns() + ns;
  lua_sethook(decision, on_count, LUA_MASKCOUNT, LOOK_EVERY);
  int rc = lua_resume(decision, nargs);
  /* LuaJIT before 2023 leaves a C function that throws after it resumed a coroutine with that one as
   * the current state, and the next compiled code to exit crashes. A call puts it right. */
  lua_pushcfunction(L, nothing);
  lua_call(L, 0, 0);
  lua_sethook(L, outer, mask, count);
  for (int i = WITHHELD - 1; i >= 0; i--) give_back(L, i);
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

/* core.decide(name, fn, ...) -> what fn returns. Raises an error table, which names it, when it
 * throws, yields, or uses more than its second of processor time. */
int mcg_lua_decide(lua_State *L)
{
  const char *name = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  int nargs = lua_gettop(L) - 2;
  mcg_lua *host = mcg_lua_host(L);
  lua_State *decision = lua_newthread(L);
  lua_insert(L, 2);
  luaL_checkstack(decision, nargs + 1, "too many arguments");
  lua_xmove(L, decision, nargs + 1);
  const char *outer = host->callback;
  host->callback = name; /* what would wait says where it cannot */
  int rc = resume_within(L, host, decision, nargs, BUDGET_NS);
  host->callback = outer;
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
  return results;
}

/* ---- one question ------------------------------------------------------------------------- */

static void question_forget(question *q)
{
  q->question = NULL;
  if (q->newer)
    q->newer->older = q->older;
  else if (q->host->questions == q)
    q->host->questions = q->older;
  if (q->older) q->older->newer = q->newer;
  q->older = q->newer = NULL;
}

static void answer(question *q, const char *json)
{
  mcg_question *open = q->question;
  question_forget(q);
  mcg_answer(open, json);
}

static void answer_error(question *q, mcg_error *error)
{
  mcg_question *open = q->question;
  question_forget(q);
  mcg_answer_error(open, error);
}

static question *check_question(lua_State *L)
{
  return luaL_checkudata(L, 1, MCG_LUA_QUESTION);
}

/* question:answer(table | nil); a second answer is nothing. Raises when it is no plain data. */
static int question_answer(lua_State *L)
{
  question *q = check_question(L);
  lua_settop(L, 2);
  if (!q->question) return 0;
  if (lua_isnil(L, 2)) {
    answer(q, NULL);
    return 0;
  }
  mcg_lua_encode(L, 2, kind_names[__builtin_ctz(q->kind)]);
  answer(q, lua_tostring(L, -1));
  return 0;
}

/* question:fail(error table or text) */
static int question_fail(lua_State *L)
{
  question *q = check_question(L);
  lua_settop(L, 2);
  if (q->question) answer_error(q, mcg_lua_error_at(L, 2));
  return 0;
}

/* question:session() -> the session it is about, or nil */
static int question_session(lua_State *L)
{
  question *q = check_question(L);
  mcg_session *session = q->question ? mcg_question_session(q->question) : NULL;
  if (session)
    mcg_lua_push_session(L, q->host, session);
  else
    lua_pushnil(L);
  return 1;
}

static int question_gc(lua_State *L)
{
  question *q = lua_touserdata(L, 1);
  if (q->question)
    answer_error(q, mcg_error_new(MCG_CANCELED, "the function ended without an answer", NULL));
  return 0;
}

static const luaL_Reg question_methods[] = {
    {"answer", question_answer},
    {"fail", question_fail},
    {"session", question_session},
    {NULL, NULL},
};

/* ---- the engine asks ---------------------------------------------------------------------- */

struct asking {
  struct mcg_lua_deciders *deciders;
  unsigned kind;
  mcg_question *open; /* NULL once it is a userdata's */
  mcg_task *task;     /* that answers it; or NULL: it was answered at once */
};

static question *push_question(lua_State *L, struct asking *a)
{
  question *q = lua_newuserdata(L, sizeof *q);
  memset(q, 0, sizeof *q);
  luaL_setmetatable(L, MCG_LUA_QUESTION);
  q->host = a->deciders->host;
  q->kind = a->kind;
  q->question = a->open;
  a->open = NULL;
  q->older = q->host->questions;
  if (q->older) q->older->newer = q;
  q->host->questions = q;
  return q;
}

static int ask_protected(lua_State *L)
{
  struct asking *a = lua_touserdata(L, 1);
  mcg_lua *host = a->deciders->host;
  bool waits = !(a->kind & AT_ONCE & ~a->deciders->strangers);
  lua_settop(L, 0);
  lua_pushcfunction(L, mcg_lua_task_spawn);
  lua_rawgeti(L, LUA_REGISTRYINDEX, host->decide_ref);
  question *q = push_question(L, a);
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, -1);
  lua_setfenv(L, 3);
  lua_insert(L, 1);
  lua_pushstring(L, kind_names[__builtin_ctz(a->kind)]);
  lua_rawgeti(L, LUA_REGISTRYINDEX, a->deciders->functions);
  mcg_lua_push_json(L, mcg_question_json(q->question));
  if (!waits) {
    lua_call(L, 4, 0);
    return 0;
  }
  lua_call(L, 5, 1);
  q->task = luaL_checkudata(L, -1, MCG_LUA_TASK);
  q->task->owed = q->task->inside = true;
  q->task->tool = NULL;       /* whoever waits outside meanwhile, it is not his tool's */
  lua_setfield(L, 1, "task"); /* the question's environment */
  a->task = q->task;
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
  question *made = host->questions; /* the newest, when there is one */
  if (a.open)
    mcg_answer_error(a.open, error);
  else if (made && made->question == open)
    answer_error(made, error);
  else
    mcg_error_free(error);
}

static void on_abandoned(void *data, mcg_question *open)
{
  struct mcg_lua_deciders *d = data;
  question *q = d->host->questions;
  while (q && q->question != open) q = q->older;
  if (q && q->task) mcg_lua_task_cancel(q->task);
}

static void on_release(void *data)
{
  struct mcg_lua_deciders *d = data;
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
  *d = (struct mcg_lua_deciders){host, ref, strangers};
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

void mcg_lua_questions_settle(mcg_lua *host, const mcg_session *session)
{
  for (question *q = host->questions, *older; q; q = older) {
    older = q->older;
    if (mcg_question_session(q->question) != session || (q->kind & AT_ONCE)) continue;
    if (q->kind == MCG_ASK_CONFIRM)
      answer_error(q, mcg_error_new(MCG_CANCELED, "the session was closed", NULL));
    else
      answer(q, NULL);
  }
}

/* Out of memory, as good as certainly: the decider always answers. */
void mcg_lua_question_end(const mcg_task *task)
{
  question *q = task->host->questions;
  while (q && q->task != task) q = q->older;
  if (q) answer_error(q, mcg_error_new(MCG_CANCELED, "the function ended without an answer", NULL));
}

void mcg_lua_questions_end(mcg_lua *host)
{
  while (host->questions)
    answer_error(host->questions, mcg_error_new(MCG_CANCELED, "Lua is being left", NULL));
}

void mcg_lua_spec_by_task(const mcg_lua *host, const mcg_session *session, mcg_exec_spec *spec)
{
  const mcg_task *task = host->current ? host->current : host->outside;
  spec->quiet = task->inside;
  if (!spec->tool && task->tool && task->tool_session == session) spec->tool = task->tool;
}

/* core.set_decider(function(question, kind, functions, asked)) */
int mcg_lua_set_decider(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  mcg_lua *host = mcg_lua_host(L);
  luaL_unref(L, LUA_REGISTRYINDEX, host->decide_ref);
  host->decide_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

void mcg_lua_decide_setup(lua_State *L)
{
  mcg_lua_class(L, MCG_LUA_QUESTION, question_methods, question_gc);
  lua_pop(L, 1);
}
