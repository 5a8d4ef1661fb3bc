/* workspace.c: session:persist_workspace and session:restore_workspace: the workspace as a plain tar
 * stream, to and from a host path or a Lua function; and the data of a snapshot store the same way. The function runs from the loop and must not
 * wait; bytes of a path never become Lua strings. */
#include "bind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct transfer {
  mcg_task *task;
  mcg_lua *host;
  int function; /* in the registry, or LUA_NOREF: a path */
  int fd;
  char *path;
  char *place,
      *partial;    /* written beside the place, renamed when whole; NULL: to the path as it is */
  int raised;      /* what the function threw, in the registry */
  int saved_errno; /* of a failed read or write of the path */
  char *rest;      /* of a chunk larger than the engine asked for */
  size_t rest_len, rest_start;
  size_t chunk_len;
  const void *chunk;
  bool stop;
  const char *answer; /* JSON; while it is told */
};

static void free_transfer(struct transfer *t)
{
  if (!t->host->closing) {
    luaL_unref(t->host->L, LUA_REGISTRYINDEX, t->function);
    luaL_unref(t->host->L, LUA_REGISTRYINDEX, t->raised);
  }
  if (t->fd >= 0) close(t->fd);
  if (t->partial) unlink(t->partial);
  free(t->partial);
  free(t->place);
  free(t->path);
  free(t->rest);
  free(t);
}

/* The thrown value is on top of the host's stack. */
static void keep_thrown(struct transfer *t)
{
  t->raised = luaL_ref(t->host->L, LUA_REGISTRYINDEX);
}

static int push_transferred(lua_State *L, void *ctx)
{
  const struct transfer *t = ctx;
  if (t->answer) return mcg_lua_decode(L, t->answer, strlen(t->answer)) < 0 ? 2 : 1;
  lua_pushboolean(L, 1);
  return 1;
}

struct failed {
  struct transfer *t;
  const mcg_error *error;
};

static int push_failed(lua_State *L, void *ctx)
{
  struct failed *f = ctx;
  if (f->t->raised != LUA_NOREF) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, f->t->raised);
    mcg_lua_caught(L, NULL);
    lua_getfield(L, -1, "message");
    const char *text = lua_isstring(L, -1) ? lua_tostring(L, -1) : "unknown error";
    int n = mcg_lua_fail(L, MCG_CANCELED, NULL, "the function raised: %s", text);
    lua_pushvalue(L, 1);
    lua_setfield(L, -2, "cause");
    return n;
  }
  if (f->t->saved_errno)
    return mcg_lua_fail(L, f->t->saved_errno == ENOENT ? MCG_NOT_FOUND : MCG_INTERNAL, NULL,
                        "%s: %s", f->t->path, strerror(f->t->saved_errno));
  lua_pushnil(L);
  mcg_lua_push_error(L, f->error);
  return 2;
}

static void transfer_told(void *data, const char *json, mcg_error *error)
{
  mcg_ticket *ticket = data;
  struct transfer *t = ticket->extra;
  t->answer = json;
  mcg_task *task = mcg_lua_take_ticket(ticket);
  if (!error && t->partial && rename(t->partial, t->place) < 0) t->saved_errno = errno;
  if (!error && !t->saved_errno) {
    free(t->partial);
    t->partial = NULL;
  }
  if (task && (error || t->saved_errno || t->raised != LUA_NOREF))
    mcg_lua_complete(task, push_failed, &(struct failed){t, error});
  else if (task)
    mcg_lua_complete(task, push_transferred, t);
  mcg_error_free(error);
  free_transfer(t);
}

static void transfer_done(void *data, mcg_error *error)
{
  transfer_told(data, NULL, error);
}

/* ---- out ---------------------------------------------------------------------------------- */

static int call_sink(lua_State *L)
{
  struct transfer *t = lua_touserdata(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, t->function);
  lua_pushlstring(L, t->chunk, t->chunk_len);
  lua_call(L, 1, 1);
  t->stop = lua_isboolean(L, -1) && !lua_toboolean(L, -1);
  return 0;
}

static bool write_whole(struct transfer *t, const char *bytes, size_t len)
{
  while (len > 0) {
    ssize_t n = write(t->fd, bytes, len);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      t->saved_errno = errno;
      return false;
    }
    bytes += n;
    len -= (size_t)n;
  }
  return true;
}

static bool sink(void *data, const void *bytes, size_t len)
{
  struct transfer *t = ((mcg_ticket *)data)->extra;
  if (t->host->closing || t->raised != LUA_NOREF) return false;
  if (t->function == LUA_NOREF) return write_whole(t, bytes, len);
  t->chunk = bytes;
  t->chunk_len = len;
  if (mcg_lua_call(t->host, "a function that takes a workspace", call_sink, t) != 0) {
    keep_thrown(t);
    return false;
  }
  return !t->stop;
}

/* ---- in ----------------------------------------------------------------------------------- */

static int call_source(lua_State *L)
{
  struct transfer *t = lua_touserdata(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, t->function);
  lua_call(L, 0, 1);
  t->rest_start = t->rest_len = 0;
  if (lua_isnil(L, -1)) {
    t->stop = true;
    return 0;
  }
  size_t len;
  const char *bytes = lua_tolstring(L, -1, &len);
  if (lua_type(L, -1) != LUA_TSTRING)
    return luaL_error(L, "the function must return a string, or nil at the end");
  char *rest = realloc(t->rest, len ? len : 1);
  if (!rest) return luaL_error(L, "not enough memory");
  memcpy(rest, bytes, len);
  t->rest = rest;
  t->rest_len = len;
  return 0;
}

static long source(void *data, void *buffer, size_t cap)
{
  struct transfer *t = ((mcg_ticket *)data)->extra;
  if (t->host->closing) return -1;
  if (t->function == LUA_NOREF) {
    ssize_t n;
    do n = read(t->fd, buffer, cap);
    while (n < 0 && errno == EINTR);
    if (n < 0) t->saved_errno = errno;
    return (long)n;
  }
  while (t->rest_start == t->rest_len && !t->stop)
    if (mcg_lua_call(t->host, "a function that gives a workspace", call_source, t) != 0) {
      keep_thrown(t);
      return -1;
    }
  size_t n = t->rest_len - t->rest_start;
  if (n > cap) n = cap;
  if (n > 0) memcpy(buffer, t->rest + t->rest_start, n);
  t->rest_start += n;
  return (long)n;
}

/* ---- methods ------------------------------------------------------------------------------ */

/* Our own stdout or stderr, which a path may name; -1: it is neither. */
static int own_stream(const struct stat *there)
{
  struct stat own;
  for (int fd = 1; fd <= 2; fd++)
    if (fstat(fd, &own) == 0 && own.st_dev == there->st_dev && own.st_ino == there->st_ino)
      return fcntl(fd, F_DUPFD_CLOEXEC, 3);
  return -1;
}

/* What is there and is no ordinary file, a device or a fifo, is written to as it is and stays; for who
 * reads a fifo this waits. So is our own stdout, even where it is a file. Else the bytes are beside it
 * until all are there, and take its place then: that of the file a link leads to, not of the link. */
static int open_target(struct transfer *t, const char *path)
{
  struct stat there;
  bool is_there = stat(path, &there) == 0;
  if (!is_there && (errno != ENOENT || lstat(path, &there) == 0)) return -1;
  if (is_there && S_ISDIR(there.st_mode)) return errno = EISDIR, -1;
  int own = is_there ? own_stream(&there) : -1;
  if (own >= 0) return own;
  if (is_there && !S_ISREG(there.st_mode)) return open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
  t->place = is_there ? realpath(path, NULL) : strdup(path);
  t->partial = t->place ? malloc(strlen(t->place) + 16) : NULL;
  if (!t->partial) return -1;
  sprintf(t->partial, "%s.partial-XXXXXX", t->place);
  return mkostemp(t->partial, O_CLOEXEC);
}

/* nil and an error on the stack. */
static void not_opened(lua_State *L, const char *what, const char *path, int number)
{
  static const struct {
    int number;
    mcg_code code;
    const char *fix;
  } known[] = {
      {ENOENT, MCG_NOT_FOUND, "name a file in a directory that is there, and no link to nowhere"},
      {EACCES, MCG_UNAUTHORIZED, "name a file that this user may open"},
      {EISDIR, MCG_INVALID, "name a file in that directory"},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].number == number) {
      mcg_lua_fail(L, known[i].code, known[i].fix, "%s: %s: %s", what, path, strerror(number));
      return;
    }
  mcg_lua_fail(L, MCG_INTERNAL, NULL, "%s: %s: %s", what, path, strerror(number));
}

/* NULL: nil and an error are on the stack. */
static mcg_ticket *new_transfer(lua_State *L, mcg_task *task, bool writes, const char *what)
{
  if (lua_type(L, 2) != LUA_TFUNCTION && lua_type(L, 2) != LUA_TSTRING)
    mcg_lua_misuse(L, "%s: give a host path or a function, not a %s", what, luaL_typename(L, 2));
  const char *path = lua_isstring(L, 2) ? mcg_lua_check_text(L, 2, what) : NULL;
  int function = LUA_NOREF;
  if (!path) {
    lua_pushvalue(L, 2);
    function = luaL_ref(L, LUA_REGISTRYINDEX);
  }
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  struct transfer *t = calloc(1, sizeof *t);
  if (!t) {
    free(ticket);
    luaL_unref(L, LUA_REGISTRYINDEX, function);
    mcg_lua_fail(L, MCG_NOMEM, NULL, "not enough memory");
    return NULL;
  }
  *t = (struct transfer){
      .task = task, .host = task->host, .function = function, .fd = -1, .raised = LUA_NOREF};
  ticket->extra = t;
  if (!path) return ticket;
  t->path = strdup(path);
  if (t->path) t->fd = writes ? open_target(t, path) : open(path, O_RDONLY | O_CLOEXEC);
  if (t->fd >= 0) return ticket;
  int number = errno;
  free(t->partial); /* there is no such file */
  t->partial = NULL;
  free_transfer(t);
  free(ticket);
  not_opened(L, what, path, number);
  return NULL;
}

/* session:persist_workspace(host_path | function(chunk)) -> true | nil, err; a function that returns
 * false stops it. */
int mcg_lua_workspace_persist(lua_State *L)
{
  mcg_session *session = mcg_lua_check_session(L, 1)->session;
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  mcg_ticket *ticket = new_transfer(L, task, true, "persist_workspace");
  if (!ticket) return 2;
  mcg_error *err = NULL;
  int rc = mcg_workspace_persist(session, sink, transfer_done, ticket, &ticket->op, &err);
  if (rc < 0) free_transfer(ticket->extra);
  return mcg_lua_started(L, task, ticket, rc, err);
}

/* session:restore_workspace(host_path | function() -> chunk | nil) -> true | nil, err */
int mcg_lua_workspace_restore(lua_State *L)
{
  mcg_session *session = mcg_lua_check_session(L, 1)->session;
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  mcg_ticket *ticket = new_transfer(L, task, false, "restore_workspace");
  if (!ticket) return 2;
  mcg_error *err = NULL;
  int rc = mcg_workspace_restore(session, source, transfer_done, ticket, &ticket->op, &err);
  if (rc < 0) free_transfer(ticket->extra);
  return mcg_lua_started(L, task, ticket, rc, err);
}

/* core.store_save(request, path | function() -> chunk | nil) -> metadata | nil, err, and
 * core.store_load(request, path | function(chunk)): requests of mcg_store_save and mcg_store_load. */
static int store_transfer(lua_State *L, bool writes)
{
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  mcg_lua_encode(L, 1, "store");
  size_t len;
  const char *request = lua_tolstring(L, 3, &len);
  mcg_error *err = NULL;
  mcg_engine *engine = mcg_lua_engine(task->host, &err);
  if (!engine) return mcg_lua_nil_error(L, err);
  mcg_ticket *ticket = new_transfer(L, task, writes, writes ? "load" : "save");
  if (!ticket) return 2;
  int rc =
      writes
          ? mcg_store_load(engine, request, len, sink, transfer_told, ticket, &ticket->op, &err)
          : mcg_store_save(engine, request, len, source, transfer_told, ticket, &ticket->op, &err);
  if (rc < 0) free_transfer(ticket->extra);
  return mcg_lua_started(L, task, ticket, rc, err);
}

int mcg_lua_store_save(lua_State *L)
{
  return store_transfer(L, false);
}

int mcg_lua_store_load(lua_State *L)
{
  return store_transfer(L, true);
}
