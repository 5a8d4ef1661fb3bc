/* terminal.c: core.terminal: what the command needs of its own descriptors: is it a terminal, raw
 * mode, window size, and streams whose reads and writes wait like everything else. */
#include "bind.h"
#include "fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define STREAM "mooncage.stream"
#define READ_MAX 65536

/* ---- modes -------------------------------------------------------------------------------- */

struct mcg_raw {
  struct mcg_raw *next;
  int fd;
  struct termios before;
};

#define RAW "mooncage.raw"

static int terminal_isatty(lua_State *L)
{
  lua_pushboolean(L, isatty(luaL_checkint(L, 1)));
  return 1;
}

/* nil, err from errno */
static int push_errno(lua_State *L, const char *what)
{
  return mcg_lua_fail(L, errno == EBADF ? MCG_INVALID : MCG_INTERNAL, NULL, "%s: %s", what,
                      strerror(errno));
}

/* terminal.raw(fd) -> handle | nil, err: raw until handle:restore(), or the end of the process */
static int terminal_raw(lua_State *L)
{
  mcg_lua *host = mcg_lua_host(L);
  int fd = luaL_checkint(L, 1);
  lua_newuserdata(L, 1);
  luaL_setmetatable(L, RAW);
  struct termios mode;
  if (tcgetattr(fd, &mode) < 0) return push_errno(L, "raw mode");
  struct mcg_raw *raw = calloc(1, sizeof *raw);
  if (!raw) return mcg_lua_fail(L, MCG_NOMEM, NULL, "not enough memory");
  raw->fd = fd;
  raw->before = mode;
  cfmakeraw(&mode);
  if (tcsetattr(fd, TCSADRAIN, &mode) < 0) {
    free(raw);
    return push_errno(L, "raw mode");
  }
  raw->next = host->raw;
  host->raw = raw;
  return 1;
}

void mcg_lua_terminal_restore(mcg_lua *host)
{
  while (host->raw) {
    struct mcg_raw *raw = host->raw;
    host->raw = raw->next;
    tcsetattr(raw->fd, TCSADRAIN, &raw->before);
    free(raw);
  }
}

static int terminal_restore(lua_State *L)
{
  mcg_lua_terminal_restore(mcg_lua_host(L));
  return 0;
}

/* terminal.size(fd) -> columns, rows | nil, err */
static int terminal_size(lua_State *L)
{
  struct winsize size;
  if (ioctl(luaL_checkint(L, 1), TIOCGWINSZ, &size) < 0) return push_errno(L, "window size");
  lua_pushinteger(L, size.ws_col ? size.ws_col : 80);
  lua_pushinteger(L, size.ws_row ? size.ws_row : 24);
  return 2;
}

/* ---- streams ------------------------------------------------------------------------------ */

struct stream {
  mcg_lua *host;
  mcg_fd *fd; /* NULL: closed */
  mcg_task *task;
  bool writes;
  int data_ref; /* what write() still has to write */
  int self_ref; /* anchored while a task waits for it */
  size_t done;
  char *buffer;
};

struct read_result {
  const char *bytes;
  ssize_t n;
};

static int push_read(lua_State *L, void *ctx)
{
  struct read_result *r = ctx;
  if (r->n > 0)
    lua_pushlstring(L, r->bytes, (size_t)r->n);
  else if (r->n == 0)
    lua_pushnil(L);
  else
    return push_errno(L, "read");
  return 1;
}

/* The wait is over: gives the task that was in it. */
static mcg_task *release(struct stream *s)
{
  int number = errno;
  mcg_task *task = s->task;
  s->task = NULL;
  luaL_unref(s->host->L, LUA_REGISTRYINDEX, s->self_ref);
  s->self_ref = LUA_NOREF;
  errno = number;
  return task;
}

/* How far a write got: 1 done, 0 not yet, -1 failed with errno. */
static int try_write(struct stream *s, const char *bytes, size_t len)
{
  while (s->done < len) {
    ssize_t n = mcg_fd_write(s->fd, bytes + s->done, len - s->done);
    if (n > 0)
      s->done += (size_t)n;
    else
      return n < 0 && errno == EAGAIN ? 0 : -1;
  }
  return 1;
}

static int push_written(lua_State *L, void *ctx)
{
  if (*(int *)ctx < 0)
    return mcg_lua_fail(L, errno == EPIPE ? MCG_UNAVAILABLE : MCG_INTERNAL, NULL, "write: %s",
                        strerror(errno));
  lua_pushboolean(L, 1);
  return 1;
}

static int write_more(lua_State *L)
{
  struct stream *s = lua_touserdata(L, 1);
  size_t len;
  lua_rawgeti(L, LUA_REGISTRYINDEX, s->data_ref);
  const char *bytes = lua_tolstring(L, -1, &len);
  int rc = try_write(s, bytes, len);
  if (rc == 0) rc = mcg_fd_arm(s->fd);
  if (rc == 0) return 0;
  int number = errno;
  luaL_unref(L, LUA_REGISTRYINDEX, s->data_ref);
  s->data_ref = LUA_NOREF;
  errno = number;
  mcg_lua_complete(release(s), push_written, &rc);
  return 0;
}

static void on_ready(void *data)
{
  struct stream *s = data;
  mcg_task *task = s->task;
  if (!task || s->host->closing) return;
  if (s->writes) {
    if (lua_cpcall(s->host->L, write_more, s) != 0) lua_pop(s->host->L, 1);
    return;
  }
  struct read_result r = {s->buffer, mcg_fd_read(s->fd, s->buffer, READ_MAX)};
  if (r.n < 0 && errno == EAGAIN && mcg_fd_arm(s->fd) == 0) return;
  mcg_lua_complete(release(s), push_read, &r);
}

static void leave(mcg_task *task, void *what)
{
  struct stream *s = what;
  release(s);
  if (s->fd) mcg_fd_disarm(s->fd);
  mcg_lua_complete_canceled(task);
}

/* terminal.stream(fd, "r" | "w") -> stream | nil, err */
static int stream_new(lua_State *L)
{
  static const char *const modes[] = {"r", "w", NULL};
  int fd = luaL_checkint(L, 1);
  bool writes = luaL_checkoption(L, 2, NULL, modes) == 1;
  struct stream *s = lua_newuserdata(L, sizeof *s);
  memset(s, 0, sizeof *s);
  s->host = mcg_lua_host(L);
  s->writes = writes;
  s->data_ref = s->self_ref = LUA_NOREF;
  luaL_setmetatable(L, STREAM);
  if (!writes && !(s->buffer = malloc(READ_MAX)))
    return mcg_lua_fail(L, MCG_NOMEM, NULL, "not enough memory");
  s->fd = mcg_fd_open(&s->host->loop, fd, writes, on_ready, s);
  return s->fd ? 1 : push_errno(L, "open a stream");
}

static struct stream *begin(lua_State *L, bool writes, mcg_task **task)
{
  struct stream *s = luaL_checkudata(L, 1, STREAM);
  *task = mcg_lua_enter(L);
  if (!s->fd) mcg_lua_misuse(L, "the stream is closed");
  if (s->writes != writes)
    mcg_lua_misuse(L, "the stream was opened for %s", s->writes ? "writing" : "reading");
  if (s->task) mcg_lua_misuse(L, "another task is waiting for this stream");
  return s;
}

static int stream_wait(lua_State *L, struct stream *s, mcg_task *task)
{
  if (mcg_fd_arm(s->fd) < 0) return push_errno(L, "wait for a stream");
  lua_pushvalue(L, 1);
  s->self_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  s->task = task;
  mcg_lua_cancelable(task, leave, s);
  return mcg_lua_wait(L, task);
}

/* stream:read() -> bytes | nil at the end | nil, err */
static int stream_read(lua_State *L)
{
  mcg_task *task;
  struct stream *s = begin(L, false, &task);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  return stream_wait(L, s, task);
}

/* stream:write(bytes) -> true | nil, err; when all is written */
static int stream_write(lua_State *L)
{
  mcg_task *task;
  size_t len;
  const char *bytes = luaL_checklstring(L, 2, &len);
  struct stream *s = begin(L, true, &task);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  s->done = 0;
  int rc = try_write(s, bytes, len);
  if (rc != 0) return push_written(L, &rc);
  lua_settop(L, 2);
  luaL_unref(L, LUA_REGISTRYINDEX, s->data_ref);
  s->data_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  return stream_wait(L, s, task);
}

static int stream_close(lua_State *L)
{
  struct stream *s = luaL_checkudata(L, 1, STREAM);
  if (s->task) leave(s->task, s);
  if (!s->host->closing) mcg_fd_close(s->fd);
  s->fd = NULL;
  free(s->buffer);
  s->buffer = NULL;
  return 0;
}

static const luaL_Reg stream_methods[] = {
    {"read", stream_read}, {"write", stream_write}, {"close", stream_close}, {NULL, NULL}};

static const luaL_Reg raw_methods[] = {{"restore", terminal_restore}, {NULL, NULL}};

static const luaL_Reg terminal_functions[] = {
    {"isatty", terminal_isatty},      {"raw", terminal_raw},
    {"size", terminal_size},          {"stream", stream_new},
    {"on_signal", mcg_lua_on_signal}, {NULL, NULL},
};

int mcg_lua_terminal_open(lua_State *L)
{
  mcg_lua_class(L, STREAM, stream_methods, stream_close);
  mcg_lua_class(L, RAW, raw_methods, NULL);
  lua_pop(L, 2);
  lua_newtable(L);
  luaL_setfuncs(L, terminal_functions, 0);
  return 1;
}
