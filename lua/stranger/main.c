/* main.c: mooncage-policy: a policy of a stranger, alone in its process. It gives up what it could do,
 * then reads lines of JSON behind a mark, the first of which is the policy's text, and answers each with
 * one behind the same mark.
 *
 * What holds it: 64 MiB of address space, 100 ms of processor time a line (the kernel's timer, which
 * ends the process), and a filter that leaves reading, writing and memory: it opens nothing, starts
 * nothing, and maps no code. Lua's ffi, jit, debug, io, os and package are not opened. */
#include "bind/bind.h"
#include "embedded.h"

#include <jansson.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <luajit.h>
#include <lualib.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define MEMORY_MAX ((rlim_t)64 << 20)
#define QUESTION_MAX ((size_t)8 << 20)
#define MARK 27 /* bytes that an answer begins with as its question did: 26, and a blank */
#define BUDGET_US 100000
#define NOT_ANSWERED 70

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "no seccomp filter for this machine"
#endif

/* ---- what is given up --------------------------------------------------------------------- */

/* What LuaJIT's ffi.load would call, had it been opened: the build gives them these names. */
void *mcg_no_dlopen(const char *path, int flags);
void *mcg_no_dlsym(void *handle, const char *name);
int mcg_no_dlclose(void *handle);
char *mcg_no_dlerror(void);

void *mcg_no_dlopen(const char *path, int flags)
{
  (void)path;
  (void)flags;
  return NULL;
}

void *mcg_no_dlsym(void *handle, const char *name)
{
  (void)handle;
  (void)name;
  return NULL;
}

int mcg_no_dlclose(void *handle)
{
  (void)handle;
  return -1;
}

char *mcg_no_dlerror(void)
{
  static char nothing[] = "nothing is loaded here";
  return nothing;
}

#define ALLOW(number)                                                                              \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int lock_system(void)
{
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ALLOW(SYS_read),
      ALLOW(SYS_write),
      ALLOW(SYS_setitimer),
      ALLOW(SYS_munmap),
      ALLOW(SYS_mremap),
      ALLOW(SYS_madvise),
      ALLOW(SYS_brk),
      ALLOW(SYS_exit),
      ALLOW(SYS_exit_group),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return -1;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int limit(int resource, rlim_t most)
{
  const struct rlimit wanted = {.rlim_cur = most, .rlim_max = most};
  return setrlimit(resource, &wanted);
}

static void budget(long us)
{
  const struct itimerval timer = {.it_value = {.tv_usec = us}};
  if (setitimer(ITIMER_PROF, &timer, NULL) < 0) _exit(NOT_ANSWERED);
}

/* ---- Lua ---------------------------------------------------------------------------------- */

static int load_embedded(lua_State *L)
{
  const char *name = luaL_checkstring(L, 1);
  for (const mcg_embedded *m = mcg_embedded_modules; m->name; m++) {
    if (strcmp(m->name, name) != 0) continue;
    if (luaL_loadbuffer(L, (const char *)m->data, m->size, name) != 0) return lua_error(L);
    return 1;
  }
  return luaL_error(L, "there is no module %s", name);
}

static const luaL_Reg core[] = {
    {"encode", mcg_lua_json_encode},
    {"question", mcg_lua_json_question},
    {"array", mcg_lua_json_array},
    {"rank", mcg_lua_rank},
    {"satisfies", mcg_lua_satisfies},
    {"explanation", mcg_lua_explanation},
    {"is_explanation", mcg_lua_is_explanation},
    {"words", mcg_lua_words},
    {"commands", mcg_lua_commands},
    {"embedded", load_embedded},
    {NULL, NULL},
};

static const luaL_Reg libraries[] = {
    {"", luaopen_base},
    {LUA_TABLIBNAME, luaopen_table},
    {LUA_STRLIBNAME, luaopen_string},
    {LUA_MATHLIBNAME, luaopen_math},
    {LUA_BITLIBNAME, luaopen_bit},
    {NULL, NULL},
};

static void open_libraries(lua_State *L)
{
  for (const luaL_Reg *each = libraries; each->func; each++) {
    lua_pushcfunction(L, each->func);
    lua_pushstring(L, each->name);
    lua_call(L, 1, 0);
  }
  luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
  lua_pushliteral(L, "");
  lua_getmetatable(L, -1);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  mcg_lua_error_setup(L);
  mcg_lua_select_setup(L);
  luaL_newmetatable(L, MCG_LUA_ARRAY);
  lua_settop(L, 0);
}

/* The registry's "answer" is the function that answers a line. */
static int open_protected(lua_State *L)
{
  open_libraries(L);
  lua_pushcfunction(L, load_embedded);
  lua_pushliteral(L, "stranger.runner");
  lua_call(L, 1, 1);
  lua_newtable(L);
  luaL_setfuncs(L, core, 0);
  lua_pushlightuserdata(L, NULL);
  lua_setfield(L, -2, "null");
  lua_call(L, 1, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, "answer");
  return 0;
}

struct line {
  char *text;
  size_t len, cap;
};

/* Behind the mark, which is none of the policy's business. */
static int answer_protected(lua_State *L)
{
  const struct line *line = lua_touserdata(L, 1);
  lua_pushlstring(L, line->text, MARK);
  lua_getfield(L, LUA_REGISTRYINDEX, "answer");
  lua_pushlstring(L, line->text + MARK, line->len - MARK);
  lua_call(L, 1, 1);
  lua_concat(L, 2);
  lua_setfield(L, LUA_REGISTRYINDEX, "said");
  return 0;
}

/* ---- lines -------------------------------------------------------------------------------- */

static bool read_line(struct line *line)
{
  for (line->len = 0;;) {
    if (line->len == line->cap) {
      size_t cap = line->cap ? line->cap * 2 : 65536;
      char *longer = cap > QUESTION_MAX ? NULL : realloc(line->text, cap);
      if (!longer) return false;
      line->text = longer;
      line->cap = cap;
    }
    ssize_t got = read(0, line->text + line->len, line->cap - line->len);
    if (got <= 0) return false;
    line->len += (size_t)got;
    if (line->text[line->len - 1] == '\n') return true; /* the engine says one line at a time */
  }
}

static bool write_all(const char *text, size_t len)
{
  while (len) {
    ssize_t put = write(1, text, len);
    if (put <= 0) return false;
    text += put;
    len -= (size_t)put;
  }
  return true;
}

static bool answer(lua_State *L, struct line *line)
{
  static const char out_of_memory[] = "{\"error\":\"it needs more than 64 MiB\"}\n";
  if (line->len <= MARK) return false;
  budget(BUDGET_US);
  int rc = lua_cpcall(L, answer_protected, line);
  budget(0);
  lua_settop(L, 0);
  if (rc != 0)
    return write_all(line->text, MARK) && write_all(out_of_memory, sizeof out_of_memory - 1);
  lua_getfield(L, LUA_REGISTRYINDEX, "said");
  size_t len;
  const char *text = lua_tolstring(L, -1, &len);
  bool ok = text && write_all(text, len);
  lua_settop(L, 0);
  return ok;
}

int main(void)
{
  struct line line = {NULL, 0, 0};
  if (limit(RLIMIT_AS, MEMORY_MAX) < 0 || limit(RLIMIT_CORE, 0) < 0 || limit(RLIMIT_FSIZE, 0) < 0)
    return NOT_ANSWERED;
  lua_State *L = luaL_newstate();
  json_object_seed(0); /* from /dev/urandom, while that can be opened */
  if (!L || lua_cpcall(L, open_protected, NULL) != 0 || lock_system() < 0) return NOT_ANSWERED;
  while (read_line(&line))
    if (!answer(L, &line)) return NOT_ANSWERED;
  return 0;
}
