/* file.c: the files of a session: read, write, list, stat, mkdir, remove, move, upload, download. */
#include "bind.h"

#include <string.h>

/* What every method here needs. False: the wait was refused, its values are on the stack. */
struct call {
  mcg_session *session;
  mcg_task *task;
  mcg_ticket *ticket;
  mcg_error *err;
};

static bool begin(lua_State *L, struct call *c)
{
  c->err = NULL;
  c->ticket = NULL;
  c->session = mcg_lua_check_session(L, 1)->session;
  c->task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(c->task)) return false;
  c->ticket = mcg_lua_ticket(L, c->task);
  return true;
}

static int go(lua_State *L, struct call *c, int rc)
{
  return mcg_lua_started(L, c->task, c->ticket, rc, c->err);
}

/* session:read(path, { max_bytes = n }) -> bytes | nil, err */
static int file_read(lua_State *L)
{
  static const char *const keys[] = {"max_bytes", NULL};
  lua_settop(L, 3);
  const char *path = mcg_lua_check_text(L, 2, "read: the path");
  mcg_lua_check_keys(L, 3, keys, "read");
  double most = mcg_lua_number_field(L, 3, "max_bytes", "read", 0, 1, 4e9);
  struct call c;
  if (!begin(L, &c)) return mcg_lua_canceled(L, c.task);
  /* Without a bound of the caller's: what one Lua string can sensibly be. */
  uint64_t bound = most > 0 ? (uint64_t)most : (uint64_t)1 << 30;
  return go(L, &c, mcg_file_read(c.session, path, bound, mcg_lua_bytes_done, c.ticket, &c.err));
}

static int upload(lua_State *L, const char *from, const char *to)
{
  struct call c;
  if (!begin(L, &c)) return mcg_lua_canceled(L, c.task);
  return go(L, &c,
            mcg_file_upload(c.session, from, to, mcg_lua_done, c.ticket, &c.ticket->op, &c.err));
}

/* session:write(path, data | { from = host_path }, mode) -> true | nil, err */
static int file_write(lua_State *L)
{
  static const char *const keys[] = {"from", NULL};
  lua_settop(L, 4);
  const char *path = mcg_lua_check_text(L, 2, "write: the path");
  if (lua_istable(L, 3)) {
    mcg_lua_check_keys(L, 3, keys, "write");
    const char *from = mcg_lua_text_field(L, 3, "from", "write");
    if (!from) return mcg_lua_misuse(L, "write: give data, or { from = \"host/path\" }");
    if (!lua_isnil(L, 4)) return mcg_lua_misuse(L, "write: a copied file keeps its own mode");
    return upload(L, from, path);
  }
  if (lua_type(L, 3) != LUA_TSTRING)
    return mcg_lua_misuse(L, "write: the data must be a string or { from = path }, not a %s",
                          luaL_typename(L, 3));
  size_t len;
  const char *bytes = lua_tolstring(L, 3, &len);
  int mode = mcg_lua_mode(L, 4, 0644, "write");
  struct call c;
  if (!begin(L, &c)) return mcg_lua_canceled(L, c.task);
  return go(
      L, &c,
      mcg_file_write(c.session, path, bytes, len, (uint32_t)mode, mcg_lua_done, c.ticket, &c.err));
}

static void push_info(lua_State *L, const mcg_file_info *f)
{
  lua_createtable(L, 0, 8);
  lua_pushstring(L, f->name);
  lua_setfield(L, -2, "name");
  lua_pushstring(L, f->type);
  lua_setfield(L, -2, "type");
  if (f->target) {
    lua_pushstring(L, f->target);
    lua_setfield(L, -2, "target");
  }
  const struct {
    const char *key;
    double value;
  } numbers[] = {{"size", (double)f->size},
                 {"mode", f->mode},
                 {"uid", f->uid},
                 {"gid", f->gid},
                 {"mtime", f->mtime}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    lua_pushnumber(L, numbers[i].value);
    lua_setfield(L, -2, numbers[i].key);
  }
}

struct files {
  const mcg_file_info *list;
  size_t count;
};

static int push_files(lua_State *L, void *ctx)
{
  struct files *f = ctx;
  lua_createtable(L, (int)f->count, 0);
  for (size_t i = 0; i < f->count; i++) {
    push_info(L, &f->list[i]);
    lua_rawseti(L, -2, (int)i + 1);
  }
  return 1;
}

static int push_file(lua_State *L, void *ctx)
{
  struct files *f = ctx;
  if (f->count == 0) return mcg_lua_fail(L, MCG_INTERNAL, NULL, "no answer about the file");
  push_info(L, f->list);
  return 1;
}

static void on_files(void *data, const mcg_file_info *files, size_t count, mcg_error *error,
                     int (*push)(lua_State *, void *))
{
  mcg_task *task = mcg_lua_take_ticket(data);
  if (!task)
    mcg_error_free(error);
  else if (error)
    mcg_lua_failed(task, error);
  else
    mcg_lua_complete(task, push, &(struct files){files, count});
}

static void on_list(void *data, const mcg_file_info *files, size_t count, mcg_error *error)
{
  on_files(data, files, count, error, push_files);
}

static void on_stat(void *data, const mcg_file_info *files, size_t count, mcg_error *error)
{
  on_files(data, files, count, error, push_file);
}

/* session:list(path) -> { { name, type, size, mode, uid, gid, mtime, target } … } | nil, err */
static int file_list(lua_State *L)
{
  lua_settop(L, 2);
  const char *path = lua_isnil(L, 2) ? "." : mcg_lua_check_text(L, 2, "list: the path");
  struct call c;
  if (!begin(L, &c)) return mcg_lua_canceled(L, c.task);
  return go(L, &c, mcg_file_list(c.session, path, on_list, c.ticket, &c.err));
}

static int file_stat(lua_State *L)
{
  const char *path = mcg_lua_check_text(L, 2, "stat: the path");
  struct call c;
  if (!begin(L, &c)) return mcg_lua_canceled(L, c.task);
  return go(L, &c, mcg_file_stat(c.session, path, on_stat, c.ticket, &c.err));
}

static int file_mkdir(lua_State *L)
{
  const char *path = mcg_lua_check_text(L, 2, "mkdir: the path");
  int mode = mcg_lua_mode(L, 3, 0755, "mkdir");
  struct call c;
  if (!begin(L, &c)) return mcg_lua_canceled(L, c.task);
  return go(L, &c, mcg_file_mkdir(c.session, path, (uint32_t)mode, mcg_lua_done, c.ticket, &c.err));
}

static int file_remove(lua_State *L)
{
  const char *path = mcg_lua_check_text(L, 2, "remove: the path");
  struct call c;
  if (!begin(L, &c)) return mcg_lua_canceled(L, c.task);
  return go(L, &c, mcg_file_remove(c.session, path, mcg_lua_done, c.ticket, &c.err));
}

static int file_move(lua_State *L)
{
  const char *from = mcg_lua_check_text(L, 2, "move: the old path");
  const char *to = mcg_lua_check_text(L, 3, "move: the new path");
  struct call c;
  if (!begin(L, &c)) return mcg_lua_canceled(L, c.task);
  return go(L, &c, mcg_file_move(c.session, from, to, mcg_lua_done, c.ticket, &c.err));
}

/* session:upload(host_path, path) and session:download(path, host_path): files or directories */
static int file_upload(lua_State *L)
{
  const char *from = mcg_lua_check_text(L, 2, "upload: the host path");
  return upload(L, from, mcg_lua_check_text(L, 3, "upload: the path in the sandbox"));
}

static int file_download(lua_State *L)
{
  const char *from = mcg_lua_check_text(L, 2, "download: the path in the sandbox");
  const char *to = mcg_lua_check_text(L, 3, "download: the host path");
  struct call c;
  if (!begin(L, &c)) return mcg_lua_canceled(L, c.task);
  return go(L, &c,
            mcg_file_download(c.session, from, to, mcg_lua_done, c.ticket, &c.ticket->op, &c.err));
}

const luaL_Reg mcg_lua_file_methods[] = {
    {"read", file_read}, {"write", file_write},   {"list", file_list},
    {"stat", file_stat}, {"mkdir", file_mkdir},   {"remove", file_remove},
    {"move", file_move}, {"upload", file_upload}, {"download", file_download},
    {NULL, NULL},
};
