/* memory.c: the binding when Lua's memory runs out: a scenario is run again and again, and each time
 * another one of its allocations fails, once. It must end (with a value or an error), and leave
 * neither a session nor memory. Usage: spec_memory [STRIDE [FIRST]]; built with AddressSanitizer it also
 * finds leaks. */
#include "../../lua/bind/bind.h"

#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char scenario[] =
    "local core = ...\n"
    "local function check(value, err)\n"
    "  if value == nil and type(err) == 'table' then assert(type(err.code) == 'string') end\n"
    "  return value, err\n"
    "end\n"
    "core.set_decider(function(question, kind, functions, asked)\n"
    "  local ok, answer = pcall(function()\n"
    "    if kind == 'guardrail' then return { allow = core.decide('g', functions.judge, asked) } "
    "end\n"
    "    assert(question:session())\n"
    "    core.sleep(0.001)\n"
    "  end)\n"
    "  if ok then ok, answer = pcall(question.answer, question, answer) end\n"
    "  if not ok then question:fail(answer) end\n"
    "end)\n"
    "local functions = { asks = { 'guardrail', 'hook' }, judge = function() return true end }\n"
    "local session, err = check(core.open({ backend = { id = 'subprocess' }, labels = { a = 'b' "
    "},\n"
    "  audit = false, guardrail = true, hook_timeout_s = 60,\n"
    "  hooks = { 'on_sandbox_start', 'on_sandbox_exec_start', 'on_sandbox_exec_end' } }, "
    "functions))\n"
    "if not session then error(err, 0) end\n"
    "local ok, why = pcall(function()\n"
    "  check(session:exec('echo hi; cat', { stdin = ('x'):rep(1000), env = { A = 'b' } }))\n"
    "  local process = check(session:start { 'cat' })\n"
    "  if process then\n"
    "    check(process:write 'some bytes')\n"
    "    check(process:read())\n"
    "    process:close_stdin()\n"
    "    check(process:wait())\n"
    "  end\n"
    "  check(session:write('f', 'data'))\n"
    "  check(session:read 'f')\n"
    "  check(session:list())\n"
    "  check(session:exec('echo y', { on_stdout = function(chunk) return chunk .. chunk end }))\n"
    "  local tasks = {}\n"
    "  for i = 1, 3 do\n"
    "    tasks[i] = core.spawn(function() core.sleep(0.001) return i end)\n"
    "  end\n"
    "  tasks[3]:cancel()\n"
    "  check(core.join(tasks))\n"
    "  session:usage()\n"
    "  local facts = { name = 'a', cost = { usd_per_minute = 1 }, capabilities = { gpu = true } }\n"
    "  local order, said = core.rank({ facts, facts }, { capabilities = { 'gpu' } })\n"
    "  assert(#order == 2 and tostring(said) == 'a: fits; 1 USD a minute; a: fits; 1 USD a "
    "minute')\n"
    "  check(core.select({ candidates = { 'jail', 'subprocess' } }))\n"
    "end)\n"
    "repeat local closed, again = pcall(session.close, session) until closed and again\n"
    "if not ok then error(why, 0) end\n";

static long countdown; /* the allocation that fails; negative: none */
static long allocations;

static void *allocate(void *data, void *block, size_t old, size_t size)
{
  (void)data;
  (void)old;
  if (size == 0) {
    free(block);
    return NULL;
  }
  if (size > old) {
    allocations++;
    if (countdown >= 0 && countdown-- == 0) return NULL;
  }
  return realloc(block, size);
}

static int run(lua_State *L)
{
  lua_pushcfunction(L, mcg_lua_task_run);
  if (luaL_loadbuffer(L, scenario, strlen(scenario), "=scenario") != 0) return lua_error(L);
  lua_pushvalue(L, 1);
  lua_call(L, 2, 0);
  return 0;
}

/* Runs the scenario with allocation `n` failing; how many there were. */
static long attempt(long n)
{
  countdown = -1;
  lua_State *L = lua_newstate(allocate, NULL);
  if (!L) {
    puts("skipped: this LuaJIT takes no allocator");
    exit(0);
  }
  luaL_openlibs(L);
  lua_getglobal(L, "jit");
  lua_getfield(L, -1, "off");
  lua_call(L, 0, 0);
  lua_settop(L, 0);
  luaopen_mooncage_core(L);
  lua_pushcfunction(L, run);
  lua_insert(L, 1);
  allocations = 0;
  countdown = n;
  alarm(20); /* a wait that never ends is the failure to be found */
  int rc = lua_pcall(L, 1, 0, 0);
  alarm(0);
  if (n < 0 && rc != 0) { /* nothing failed: then the scenario must not either */
    lua_getglobal(L, "tostring");
    lua_insert(L, -2);
    lua_call(L, 1, 1);
    printf("the scenario itself fails: %s\n", lua_tostring(L, -1));
    exit(1);
  }
  countdown = -1;
  long seen = allocations;
  lua_settop(L, 0);
  for (int i = 0; i < 2; i++)
    lua_gc(L, LUA_GCCOLLECT, 0); /* one whose handle was lost on the way */
  mcg_lua *host = mcg_lua_host(L);
  for (mcg_lua_session *s = host->sessions; s; s = s->older)
    if (!s->closed) {
      printf("allocation %ld: a session was left\n", n);
      exit(1);
    }
  lua_close(L);
  return seen;
}

int main(int argc, char **argv)
{
  long stride = argc > 1 ? atol(argv[1]) : 1;
  setvbuf(stdout, NULL, _IONBF, 0);
  long total = attempt(-1);
  printf("%ld allocations\n", total);
  for (long n = argc > 2 ? atol(argv[2]) : 0; n<total; n += stride> 0 ? stride : 1) {
    printf("\r%ld ", n);
    attempt(n);
  }
  puts("ok");
  return 0;
}
