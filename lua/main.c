/* main.c: the command `mooncage`: a Lua state with the module built in, whose main task is
 * require "mooncage.cli".main(arguments). Everything a command does is there. */
#include "bind/bind.h"
#include "bind/system.h"
#include "embedded.h"

#include <fcntl.h>
#include <limits.h>
#include <lualib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef MOONCAGE_ENTRY
#define MOONCAGE_ENTRY "local arguments = ... return require('mooncage.cli').main(arguments)"
#endif

static bool no_stderr; /* the caller closed it */

/* package.loaders: the modules that are in this file. */
static int load_embedded(lua_State *L)
{
  const char *name = luaL_checkstring(L, 1);
  for (const mcg_embedded *m = mcg_embedded_modules; m->name; m++) {
    if (strcmp(m->name, name) != 0) continue;
    if (luaL_loadbuffer(L, (const char *)m->data, m->size, name) != 0) return lua_error(L);
    return 1;
  }
  lua_pushfstring(L, "\n\tno module '%s' in the command itself", name);
  return 1;
}

static void add_loader(lua_State *L)
{
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "preload");
  lua_pushcfunction(L, luaopen_mooncage_core);
  lua_setfield(L, -2, "mooncage.core");
  lua_pushcfunction(L, luaopen_mooncage_cli_system);
  lua_setfield(L, -2, "mooncage.cli.system");
  lua_pop(L, 1);
  /* Second, after preload and before the file system: what belongs to the command is the command's. */
  lua_getfield(L, -1, "loaders");
  for (int i = (int)lua_objlen(L, -1); i >= 2; i--) {
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushcfunction(L, load_embedded);
  lua_rawseti(L, -2, 2);
  lua_pop(L, 2);
}

/* The mooncage-init that was installed or built together with this command, wherever that is. */
static char *find_init(void)
{
  static const char *const places[] = {"/../libexec/mooncage/mooncage-init", "/mooncage-init"};
  char path[PATH_MAX + 64];
  if (getenv("MOONCAGE_INIT")) return NULL;
  ssize_t len = readlink("/proc/self/exe", path, PATH_MAX);
  if (len <= 0) return NULL;
  while (len > 0 && path[len] != '/') len--;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    strcpy(path + len, places[i]);
    if (access(path, X_OK) == 0) return strdup(path);
  }
  return NULL;
}

/* The commands that open a sandbox: it is prepared while their Lua loads. */
static bool wants_sandbox(char *const *argv)
{
  for (size_t i = 1; argv[i]; i++)
    if (argv[i][0] != '-') return strcmp(argv[i], "run") == 0 || strcmp(argv[i], "shell") == 0;
  return false;
}

static int run(lua_State *L)
{
  char **argv = lua_touserdata(L, 1);
  luaL_openlibs(L);
  add_loader(L);
  lua_pushcfunction(L, luaopen_mooncage_core);
  lua_call(L, 0, 0);
  mcg_lua *host = mcg_lua_host(L);
  host->init_path = find_init();
  host->no_stderr = no_stderr;
  if (wants_sandbox(argv)) {
    mcg_error *ignored = NULL; /* met again by whoever needs the engine */
    mcg_engine *engine = mcg_lua_engine(host, &ignored);
    if (engine) mcg_engine_warm(engine);
    mcg_error_free(ignored);
  }
  lua_settop(L, 0);
  lua_pushcfunction(L, mcg_lua_task_run);
  if (luaL_loadbuffer(L, MOONCAGE_ENTRY, strlen(MOONCAGE_ENTRY), "=mooncage") != 0)
    return lua_error(L);
  lua_newtable(L);
  for (int i = 0; argv[i]; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i);
  }
  lua_call(L, 2, 1);
  if (!host->exiting) host->exit_status = lua_isnumber(L, -1) ? (int)lua_tointeger(L, -1) : 0;
  return 0;
}

static int failed(lua_State *L)
{
  const char *why = NULL, *trace = NULL;
  if (lua_istable(L, -1)) {
    lua_getfield(L, -1, "traceback");
    trace = lua_tostring(L, -1);
    lua_getfield(L, -2, "message");
  }
  why = lua_tostring(L, -1);
  fprintf(stderr, "mooncage: internal error: %s\n%s%s", why ? why : "unknown", trace ? trace : "",
          trace ? "\n" : "");
  return 125;
}

/* A standard stream that the caller closed would be the next descriptor that anything opens. */
static void fill_standard_streams(void)
{
  no_stderr = fcntl(STDERR_FILENO, F_GETFD) < 0;
  for (int fd = 0; fd <= 2; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) < 0) _exit(125);
}

/* Secrets are in our environment and memory: no core file, and no other process of this user reads
 * them in /proc or by ptrace. What we start has its own say: exec sets this back. A library's host
 * decides for itself, so it is done here and not in the engine. */
static void keep_to_ourselves(void)
{
  if (prctl(PR_SET_DUMPABLE, 0) < 0) perror("mooncage: PR_SET_DUMPABLE");
}

/* With nothing open the engine need not be closed step by step: what is left of it is the spawner,
 * which sees us go and removes what it was still removing. A millisecond, on every command. */
static bool may_just_leave(mcg_lua *host)
{
#ifdef __SANITIZE_ADDRESS__
  return false; /* for the leak checker */
#endif
  for (mcg_lua_session *s = host->sessions; s; s = s->older)
    if (!s->closed) return false;
  if (host->live || host->let_go) return false;
  if (host->engine && mcg_engine_owes(host->engine)) return false;
  mcg_lua_terminal_restore(host);
  return true;
}

int main(int argc, char **argv)
{
  (void)argc;
  keep_to_ourselves();
  fill_standard_streams();
  signal(SIGPIPE, SIG_IGN); /* a reader that is gone is an error of the write, and handled there */
  lua_State *L = luaL_newstate();
  if (!L) {
    fputs("mooncage: not enough memory\n", stderr);
    return 125;
  }
  int status = lua_cpcall(L, run, argv) == 0 ? -1 : failed(L);
  mcg_lua *host = mcg_lua_host(L);
  if (host) {
    if (status < 0) {
      fflush(stdout); /* what is called from here on may have to be interrupted */
      mcg_lua_host_leave(host);
      status = host->exit_status;
    }
    if (host->unclosed || !may_just_leave(host)) mcg_lua_host_close(host);
    if (host->unrecorded && status == 0) status = 125;
  }
#ifdef __SANITIZE_ADDRESS__
  lua_close(L); /* for the leak checker; otherwise the kernel is faster */
#endif
  if (fflush(stdout) != 0 && status == 0) status = 125;
  return status & 0xff;
}
