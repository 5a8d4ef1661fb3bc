/* wait.c: the completions most operations share: their data is the task that waits. */
#include "bind.h"

#include <stdlib.h>

static int push_true(lua_State *L, void *ctx)
{
  (void)ctx;
  lua_pushboolean(L, 1);
  return 1;
}

static int push_failure(lua_State *L, void *ctx)
{
  lua_pushnil(L);
  mcg_lua_push_error(L, ctx);
  return 2;
}

mcg_ticket *mcg_lua_ticket(lua_State *L, mcg_task *task)
{
  mcg_ticket *ticket = calloc(1, sizeof *ticket);
  if (!ticket) luaL_error(L, "mooncage: not enough memory");
  ticket->task = task;
  return ticket;
}

mcg_task *mcg_lua_take_ticket(void *data)
{
  mcg_ticket *ticket = data;
  mcg_task *task = ticket->task;
  free(ticket);
  return task;
}

static void leave(mcg_task *task, void *what)
{
  mcg_ticket *ticket = what;
  if (ticket->op) {
    mcg_op_cancel(ticket->op);
    return;
  }
  ticket->task = NULL;
  mcg_lua_complete_canceled(task);
}

int mcg_lua_started(lua_State *L, mcg_task *task, mcg_ticket *ticket, int rc, mcg_error *err)
{
  if (rc < 0) {
    free(ticket);
    return mcg_lua_nil_error(L, err);
  }
  mcg_lua_cancelable(task, leave, ticket);
  return mcg_lua_wait(L, task);
}

void mcg_lua_failed(mcg_task *task, mcg_error *error)
{
  mcg_lua_complete(task, push_failure, error);
  mcg_error_free(error);
}

static void finish(void *data, mcg_error *error, int (*push)(lua_State *L, void *ctx), void *ctx)
{
  mcg_task *task = mcg_lua_take_ticket(data);
  if (!task)
    mcg_error_free(error);
  else if (error)
    mcg_lua_failed(task, error);
  else
    mcg_lua_complete(task, push, ctx);
}

void mcg_lua_done(void *data, mcg_error *error)
{
  finish(data, error, push_true, NULL);
}

struct bytes {
  const char *data;
  size_t len;
};

static int push_bytes(lua_State *L, void *ctx)
{
  struct bytes *b = ctx;
  lua_pushlstring(L, b->data, b->len);
  return 1;
}

static int push_decoded(lua_State *L, void *ctx)
{
  struct bytes *b = ctx;
  return mcg_lua_decode(L, b->data, b->len) < 0 ? 2 : 1;
}

void mcg_lua_bytes_done(void *data, const void *bytes, size_t len, mcg_error *error)
{
  finish(data, error, push_bytes, &(struct bytes){bytes ? bytes : "", len});
}

void mcg_lua_text_done(void *data, const char *json, mcg_error *error)
{
  struct bytes b = {json ? json : "null", 0};
  while (b.data[b.len]) b.len++;
  finish(data, error, push_decoded, &b);
}
