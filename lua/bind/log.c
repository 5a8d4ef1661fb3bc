/* log.c: where the engine's log lines go: to stderr in the command, to the host's on_log function
 * when there is one. The function runs from the loop, never from inside the call that logged. */
#include "bind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mcg_log_line {
  struct mcg_log_line *next;
  mcg_log_level level;
  char text[];
};

static const char *const level_names[] = {"debug", "info", "warning", "error"};

void mcg_lua_log(void *data, mcg_log_level level, const char *message)
{
  mcg_lua *host = data;
  if ((int)level >= host->log_level)
    fprintf(stderr, "mooncage: %s: %s\n", level_names[level], message);
  if (host->log_ref == LUA_NOREF || host->closing) return;
  size_t len = strlen(message);
  struct mcg_log_line *line = malloc(sizeof *line + len + 1);
  if (!line) return;
  line->next = NULL;
  line->level = level;
  memcpy(line->text, message, len + 1);
  *host->log_end = line;
  host->log_end = &line->next;
  mcg_lua_wake(host);
}

static int deliver_protected(lua_State *L)
{
  mcg_lua *host = mcg_lua_host(L);
  struct mcg_log_line *line = lua_touserdata(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, host->log_ref);
  lua_pushstring(L, level_names[line->level]);
  lua_pushstring(L, line->text);
  lua_call(L, 2, 0);
  return 0;
}

void mcg_lua_log_deliver(mcg_lua *host)
{
  struct mcg_log_line *line = host->log_lines;
  host->log_lines = NULL;
  host->log_end = &host->log_lines;
  while (line) {
    struct mcg_log_line *next = line->next;
    if (host->log_ref != LUA_NOREF && mcg_lua_call(host, "on_log", deliver_protected, line) != 0) {
      const char *why = lua_tostring(host->L, -1);
      fprintf(stderr, "mooncage: error: on_log failed: %s\n", why ? why : "unknown error");
      lua_pop(host->L, 1);
    }
    free(line);
    line = next;
  }
}

void mcg_lua_log_free(mcg_lua *host)
{
  while (host->log_lines) {
    struct mcg_log_line *next = host->log_lines->next;
    free(host->log_lines);
    host->log_lines = next;
  }
  host->log_end = &host->log_lines;
}

/* core.on_log(function(level, message) | nil) */
int mcg_lua_on_log(lua_State *L)
{
  mcg_lua *host = mcg_lua_host(L);
  if (!lua_isnoneornil(L, 1)) luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  luaL_unref(L, LUA_REGISTRYINDEX, host->log_ref);
  host->log_ref = lua_isnil(L, 1) ? LUA_NOREF : luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

/* core.log(level, message) says something as the engine would; core.log_level(name | "none") sets
 * the least that is said on stderr. */
int mcg_lua_log_write(lua_State *L)
{
  static const char *const names[] = {"debug", "info", "warning", "error", NULL};
  int level = luaL_checkoption(L, 1, NULL, names);
  mcg_lua_log(mcg_lua_host(L), (mcg_log_level)level, luaL_checkstring(L, 2));
  return 0;
}

int mcg_lua_log_level(lua_State *L)
{
  static const char *const names[] = {"debug", "info", "warning", "error", "none", NULL};
  mcg_lua_host(L)->log_level = luaL_checkoption(L, 1, NULL, names);
  return 0;
}
