/* select.c: candidates as Lua sees them, judged and ranked by the engine. Facts are read raw: what a
 * table's metamethods would say is not asked, but for the read-only candidates of select.lua, whose
 * facts are the __index of their metatable. */
#include "bind.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RANK_JOB "mooncage.rank"
#define MARK "mooncage.candidate" /* in the metatable of a read-only candidate */

/* Lives in a userdata, so that an error raised on the way leaks nothing. */
typedef struct rank_job {
  mcg_candidates *candidates;
  mcg_requirements *requirements;
  mcg_ranking *ranking;
} rank_job;

static int job_gc(lua_State *L)
{
  rank_job *job = lua_touserdata(L, 1);
  mcg_ranking_free(job->ranking);
  mcg_requirements_free(job->requirements);
  mcg_candidates_free(job->candidates);
  *job = (rank_job){NULL, NULL, NULL};
  return 0;
}

static rank_job *job_new(lua_State *L)
{
  rank_job *job = lua_newuserdata(L, sizeof *job);
  *job = (rank_job){NULL, NULL, NULL};
  if (luaL_newmetatable(L, RANK_JOB)) {
    lua_pushcfunction(L, job_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  return job;
}

/* ---- facts from a table ------------------------------------------------------------------- */

/* Which candidate is being read, for messages. */
typedef struct reading {
  lua_State *L;
  const char *what;
  int place;
} reading;

static void wrong(const reading *r, const char *key, const char *wanted)
{
  mcg_lua_misuse(r->L, "%s: candidate %d: %s must be %s, not %s", r->what, r->place, key, wanted,
                 lua_isstring(r->L, -1) ? lua_tostring(r->L, -1) : luaL_typename(r->L, -1));
}

/* Borrowed from the table, which holds it. */
static const char *text(const reading *r, int table, const char *key)
{
  int type = mcg_lua_field(r->L, table, key);
  size_t len = 0;
  if (type != LUA_TNIL && type != LUA_TSTRING) wrong(r, key, "a string");
  const char *value = lua_tolstring(r->L, -1, &len);
  if (value && strlen(value) != len) wrong(r, key, "text without NUL");
  lua_pop(r->L, 1);
  return value;
}

static double number(const reading *r, int table, const char *key, double most)
{
  int type = mcg_lua_field(r->L, table, key);
  double value = type == LUA_TNUMBER ? lua_tonumber(r->L, -1) : 0;
  if (type != LUA_TNIL && (type != LUA_TNUMBER || !(value >= 0 && value <= most)))
    wrong(r, key, "a number, not negative");
  lua_pop(r->L, 1);
  return value;
}

static bool flag(const reading *r, int table, const char *key)
{
  int type = mcg_lua_field(r->L, table, key);
  if (type != LUA_TNIL && type != LUA_TBOOLEAN) wrong(r, key, "true or false");
  bool value = lua_toboolean(r->L, -1);
  lua_pop(r->L, 1);
  return value;
}

static int word(const reading *r, int table, const char *key, const char *const *words)
{
  const char *said = text(r, table, key);
  if (!said) return 0;
  for (int i = 0; words[i]; i++)
    if (strcmp(words[i], said) == 0) return i;
  lua_pushstring(r->L, said);
  lua_pushliteral(r->L, "one of");
  for (int i = 0; words[i]; i++) lua_pushfstring(r->L, " %s", words[i]);
  int count = 1;
  while (words[count - 1]) count++;
  lua_concat(r->L, count);
  lua_insert(r->L, -2);
  wrong(r, key, lua_tostring(r->L, -2));
  return 0;
}

/* { usd_per_minute = number }, or nil: unpriced. */
static void price(const reading *r, int table, mcg_facts *out)
{
  lua_State *L = r->L;
  int type = mcg_lua_field(L, table, "cost");
  if (type != LUA_TNIL && type != LUA_TTABLE) wrong(r, "cost", "a table");
  if (type == LUA_TTABLE && mcg_lua_field(L, lua_gettop(L), "usd_per_minute") != LUA_TNIL) {
    double usd = lua_tonumber(L, -1);
    if (lua_type(L, -1) != LUA_TNUMBER || !(usd >= 0 && isfinite(usd)))
      wrong(r, "cost.usd_per_minute", "a number, not negative");
    out->priced = true;
    out->usd_per_minute = usd;
  }
  lua_settop(L, table);
}

/* A set, { pty = true }, or a list, { "pty" }. The names' list is left on the stack. */
static const char *const *names(const reading *r, int table)
{
  lua_State *L = r->L;
  int type = mcg_lua_field(L, table, "capabilities"), set = lua_gettop(L);
  if (type != LUA_TNIL && type != LUA_TTABLE) wrong(r, "capabilities", "a table");
  size_t count = 0;
  for (lua_pushnil(L); type == LUA_TTABLE && lua_next(L, set); lua_pop(L, 1)) count++;
  lua_settop(L, set);
  const char **list = lua_newuserdata(L, (count + 1) * sizeof *list);
  size_t n = 0;
  for (lua_pushnil(L); type == LUA_TTABLE && lua_next(L, set); lua_pop(L, 1)) {
    bool named = lua_type(L, -2) == LUA_TSTRING;
    if (!named && lua_type(L, -1) != LUA_TSTRING)
      wrong(r, "capabilities", "a set or list of names");
    if (named && !lua_toboolean(L, -1)) continue;
    size_t len;
    list[n] = lua_tolstring(L, named ? -2 : -1, &len);
    if (!len || strlen(list[n++]) != len) wrong(r, "capabilities", "names without NUL");
  }
  list[n] = NULL;
  lua_settop(L, set + 1);
  lua_remove(L, set);
  return list;
}

/* Replaces a read-only candidate at the top of the stack by its facts. */
static void unwrap(lua_State *L)
{
  if (!lua_istable(L, -1) || !lua_getmetatable(L, -1)) return;
  lua_pushliteral(L, MARK);
  lua_rawget(L, -2);
  bool ours = lua_toboolean(L, -1);
  lua_pop(L, 1);
  if (ours) {
    lua_pushliteral(L, "__index");
    lua_rawget(L, -2);
    lua_replace(L, -3);
  }
  lua_pop(L, 1);
}

/* The candidate is at the top of the stack; in its place the list of names that the facts borrow. */
static void read_facts(const reading *r, mcg_facts *out)
{
  static const char *const families[] = {"local", "hosted", NULL};
  static const char *const isolations[] = {"none", "namespace", "container", "gvisor", "vm", NULL};
  lua_State *L = r->L;
  unwrap(L);
  if (!lua_istable(L, -1))
    mcg_lua_misuse(L, "%s: candidate %d must be a table of facts, not a %s", r->what, r->place,
                   luaL_typename(L, -1));
  int table = lua_gettop(L);
  if (mcg_lua_field(L, table, "options") != LUA_TNIL && text(r, table, "id"))
    mcg_lua_misuse(L,
                   "%s: candidate %d is a configured backend, not its facts; mooncage.select "
                   "chooses among those",
                   r->what, r->place);
  lua_settop(L, table);
  *out = (mcg_facts){.size = sizeof *out,
                     .name = text(r, table, "name"),
                     .backend = text(r, table, "backend"),
                     .region = text(r, table, "region"),
                     .persistent = flag(r, table, "persistent"),
                     .memory_mb = number(r, table, "memory_mb", 1e12),
                     .cpu_count = number(r, table, "cpu_count", 1e9),
                     .sessions = (unsigned)number(r, table, "sessions", 1e9),
                     .max_sessions = (unsigned)number(r, table, "max_sessions", 1e9)};
  out->family = (mcg_family)word(r, table, "family", families);
  out->isolation = (mcg_isolation)word(r, table, "isolation", isolations);
  price(r, table, out);
  out->capabilities = names(r, table);
  lua_remove(L, table);
}

/* Raises what the engine says against it, with the caller's line. */
static void refuse(lua_State *L, const char *what, mcg_error *err)
{
  lua_pushstring(L, err->message ? err->message : "");
  lua_pushstring(L, err->fix ? err->fix : "");
  mcg_error_free(err);
  const char *fix = lua_tostring(L, -1);
  mcg_lua_misuse(L, *fix ? "%s: %s (%s)" : "%s: %s", what, lua_tostring(L, -2), fix);
}

/* The facts of the list's first `count`; without a list those of the one argument. */
static void read_all(lua_State *L, const char *what, int list, int count, rank_job *job)
{
  mcg_facts *facts = lua_newuserdata(L, (size_t)(count + 1) * sizeof *facts);
  lua_createtable(L, count, 0); /* holds what the facts borrow */
  int anchor = lua_gettop(L);
  for (int i = 1; i <= count; i++) {
    const reading r = {L, what, i};
    if (list)
      lua_rawgeti(L, list, i);
    else
      lua_pushvalue(L, 1);
    read_facts(&r, &facts[i - 1]);
    lua_rawseti(L, anchor, i);
  }
  mcg_error *err = NULL;
  if (mcg_candidates_new(facts, (size_t)count, &job->candidates, &err) < 0) refuse(L, what, err);
  lua_settop(L, anchor - 2);
}

static void read_requirements(lua_State *L, const char *what, int index, rank_job *job)
{
  if (lua_isnoneornil(L, index)) return;
  if (!lua_istable(L, index))
    mcg_lua_misuse(L, "%s: requirements must be a table, not a %s", what, luaL_typename(L, index));
  mcg_lua_encode(L, index, "requirements");
  size_t len;
  const char *json = lua_tolstring(L, -1, &len);
  mcg_error *err = NULL;
  if (mcg_requirements_new(json, len, &job->requirements, &err) < 0) refuse(L, what, err);
  lua_pop(L, 1);
}

static void rank(lua_State *L, mcg_unpriced unpriced, rank_job *job)
{
  mcg_error *err = NULL;
  if (mcg_rank(job->candidates, job->requirements, unpriced, &job->ranking, &err) < 0)
    refuse(L, "rank", err);
}

/* ---- what Lua gets ------------------------------------------------------------------------ */

struct reason {
  const rank_job *job;
  size_t index;
};

static char *get_reason(void *from)
{
  const struct reason *r = from;
  return mcg_ranking_reason(r->job->ranking, r->job->candidates, r->job->requirements, r->index);
}

static void push_reason(lua_State *L, const rank_job *job, size_t index)
{
  struct reason r = {job, index};
  if (!mcg_lua_text_from(L, get_reason, &r)) luaL_error(L, "mooncage: not enough memory");
}

/* { name, backend, fits, reason } of the candidate at the top of the stack, in its place. */
static void push_entry(lua_State *L, const rank_job *job, size_t index)
{
  static const char *const kept[] = {"name", "backend"};
  unwrap(L);
  int facts = lua_gettop(L);
  lua_createtable(L, 0, 4);
  for (int i = 0; i < 2; i++) {
    mcg_lua_field(L, facts, kept[i]);
    lua_setfield(L, facts + 1, kept[i]);
  }
  lua_pushboolean(L, job->ranking->verdicts[index] == 0);
  lua_setfield(L, facts + 1, "fits");
  push_reason(L, job, index);
  lua_setfield(L, facts + 1, "reason");
  lua_remove(L, facts);
}

static mcg_unpriced unpriced_option(lua_State *L, int options)
{
  static const char *const known[] = {"unpriced", NULL};
  static const char *const words[] = {"last", "first", "reject"};
  mcg_lua_check_keys(L, options, known, "rank");
  const char *said = mcg_lua_text_field(L, options, "unpriced", "rank");
  if (!said) return MCG_UNPRICED_LAST;
  for (int i = 0; i < 3; i++)
    if (strcmp(words[i], said) == 0) return (mcg_unpriced)i;
  return (mcg_unpriced)mcg_lua_misuse(L, "rank: unpriced must be last, first or reject, not %s",
                                      said);
}

/* core.rank(candidates, requirements, options) -> those that fit, in order; one entry for each */
int mcg_lua_rank(lua_State *L)
{
  lua_settop(L, 3);
  if (!lua_istable(L, 1))
    mcg_lua_misuse(L, "rank: candidates must be a list, not a %s", luaL_typename(L, 1));
  int count = mcg_lua_list_length(L, 1);
  if (count < 0)
    mcg_lua_misuse(L, "rank: candidates must be a list: 1..n without holes or other keys");
  mcg_unpriced unpriced = unpriced_option(L, 3);
  rank_job *job = job_new(L);
  read_requirements(L, "rank", 2, job);
  read_all(L, "rank", 1, count, job);
  rank(L, unpriced, job);
  int fitting = (int)job->ranking->count;
  lua_createtable(L, fitting, 0);
  for (int i = 0; i < fitting; i++) {
    lua_rawgeti(L, 1, (int)job->ranking->order[i] + 1);
    lua_rawseti(L, -2, i + 1);
  }
  lua_createtable(L, count, 0);
  for (int i = 0; i < count; i++) {
    lua_rawgeti(L, 1, i + 1);
    push_entry(L, job, (size_t)i);
    lua_rawseti(L, -2, i + 1);
  }
  luaL_setmetatable(L, MCG_LUA_EXPLANATION);
  return 2;
}

/* "e2b: fits; 0.01 USD a minute; jail: it does not reach the network" */
static int explanation_tostring(lua_State *L)
{
  lua_settop(L, 1);
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  int count = (int)lua_objlen(L, 1);
  for (int i = 1; i <= count; i++) {
    lua_rawgeti(L, 1, i);
    int entry = lua_gettop(L);
    if (mcg_lua_field(L, entry, "name") != LUA_TSTRING) mcg_lua_field(L, entry, "backend");
    mcg_lua_field(L, entry, "reason");
    const char *name = lua_tostring(L, -2), *reason = lua_tostring(L, -1);
    lua_pushfstring(L, "%s%s: %s", i > 1 ? "; " : "", name ? name : "candidate",
                    reason ? reason : "");
    lua_replace(L, entry);
    lua_settop(L, entry);
    luaL_addvalue(&b);
  }
  if (!count) luaL_addstring(&b, "there is no candidate");
  luaL_pushresult(&b);
  return 1;
}

/* core.explanation(list of entries) -> the same list, whose tostring is one line */
int mcg_lua_explanation(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  luaL_setmetatable(L, MCG_LUA_EXPLANATION);
  return 1;
}

/* core.is_explanation(value) -> bool */
int mcg_lua_is_explanation(lua_State *L)
{
  lua_settop(L, 1);
  bool is = false;
  if (lua_istable(L, 1) && lua_getmetatable(L, 1)) {
    luaL_getmetatable(L, MCG_LUA_EXPLANATION);
    is = lua_rawequal(L, -1, -2);
  }
  lua_pushboolean(L, is);
  return 1;
}

void mcg_lua_select_setup(lua_State *L)
{
  luaL_newmetatable(L, MCG_LUA_EXPLANATION);
  lua_pushcfunction(L, explanation_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pop(L, 1);
}

/* core.satisfies(candidate, requirements) -> bool, reason */
int mcg_lua_satisfies(lua_State *L)
{
  lua_settop(L, 2);
  rank_job *job = job_new(L);
  read_requirements(L, "satisfies", 2, job);
  read_all(L, "satisfies", 0, 1, job);
  rank(L, MCG_UNPRICED_LAST, job);
  lua_pushboolean(L, job->ranking->verdicts[0] == 0);
  push_reason(L, job, 0);
  return 2;
}
