/* process.c: commands from Lua: session:exec, session:start and the process object, session:attach
 * (what `mooncage run` uses: streams joined to our own descriptors in C).
 *
 * One userdata a command, anchored while it runs. Its environment table holds what is Lua's: the
 * session, the callbacks, at last the result. Output of a started process is queued for read() with
 * back-pressure; a stream nobody has read by the time of wait() is only captured. */
#include "bind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_MAX ((size_t)256 << 10)
#define READ_MAX ((size_t)64 << 10)

struct queue {
  char *data;
  size_t start, len, cap;
  bool on;   /* bytes are kept for read() */
  bool used; /* read() was called: nothing may be lost */
  bool paused;
  mcg_task *reader; /* in read(), waiting for bytes or the end */
};

struct mcg_lua_process {
  mcg_lua *host;
  mcg_exec *exec; /* NULL once it is over */
  int pid;
  bool over; /* the outcome stands in the environment */
  bool has_callback[3], raised;
  bool inside;            /* started by what answers the engine */
  struct queue queues[3]; /* 1 and 2 are used */
  mcg_pump *pump;
  bool bound; /* the pump may read: before, our terminal is for questions */
  int lost;   /* errno of a write to one of our descriptors */
  mcg_task **waiters;
  size_t waiter_count;
};

static mcg_lua_process *check_process(lua_State *L)
{
  return luaL_checkudata(L, 1, MCG_LUA_PROCESS);
}

/* ---- the queue of one stream -------------------------------------------------------------- */

static bool queue_put(struct queue *q, const void *bytes, size_t len)
{
  if (q->start > 0 && q->start + q->len + len > q->cap) {
    memmove(q->data, q->data + q->start, q->len);
    q->start = 0;
  }
  if (len > q->cap - q->len - q->start) {
    size_t cap = q->cap ? q->cap : 4096;
    while (cap < q->len + len) cap *= 2;
    char *data = realloc(q->data, cap);
    if (!data) return false;
    q->data = data;
    q->cap = cap;
  }
  memcpy(q->data + q->start + q->len, bytes, len);
  q->len += len;
  return true;
}

static void queue_free(struct queue *q)
{
  free(q->data);
  q->data = NULL;
  q->start = q->len = q->cap = 0;
}

/* Pushes at most READ_MAX bytes, and lets the stream go on when there is room again. */
static int push_queued(lua_State *L, mcg_lua_process *p, int stream)
{
  struct queue *q = &p->queues[stream];
  size_t n = q->len < READ_MAX ? q->len : READ_MAX;
  lua_pushlstring(L, q->data + q->start, n);
  q->start += n;
  q->len -= n;
  if (q->len == 0) q->start = 0;
  if (q->paused && q->len < QUEUE_MAX && p->exec) {
    q->paused = false;
    mcg_exec_resume(p->exec, stream);
  }
  return 1;
}

struct reading {
  mcg_lua_process *p;
  int stream;
};

static int push_read(lua_State *L, void *ctx)
{
  struct reading *r = ctx;
  if (r->p->queues[r->stream].len > 0) return push_queued(L, r->p, r->stream);
  lua_pushnil(L);
  return 1;
}

static void wake_reader(mcg_lua_process *p, int stream)
{
  mcg_task *reader = p->queues[stream].reader;
  if (!reader) return;
  p->queues[stream].reader = NULL;
  mcg_lua_complete(reader, push_read, &(struct reading){p, stream});
}

/* ---- events from the engine --------------------------------------------------------------- */

static void push_env(lua_State *L, mcg_lua_process *p)
{
  lua_rawgeti(L, LUA_REGISTRYINDEX, p->host->live_ref);
  lua_pushlightuserdata(L, p);
  lua_rawget(L, -2);
  lua_getfenv(L, -1);
  lua_replace(L, -3);
  lua_pop(L, 1);
}

struct chunk {
  mcg_lua_process *p;
  int stream;
  const void *bytes;
  size_t len;
};

static const char *const callback_names[] = {NULL, "on_stdout", "on_stderr"};

static int call_output(lua_State *L)
{
  struct chunk *c = lua_touserdata(L, 1);
  push_env(L, c->p);
  lua_getfield(L, -1, callback_names[c->stream]);
  lua_pushlstring(L, c->bytes, c->len);
  lua_call(L, 1, 0);
  return 0;
}

struct raised {
  mcg_lua_process *p;
  const char *name;
};

/* The thrown value is on top of the caller's stack; it becomes the command's outcome. */
static int keep_raised(lua_State *L)
{
  struct raised *r = lua_touserdata(L, 1);
  mcg_lua_caught(L, NULL);
  int cause = lua_gettop(L);
  lua_getfield(L, cause, "message");
  const char *message = lua_isstring(L, -1) ? lua_tostring(L, -1) : "unknown error";
  mcg_lua_fail(L, MCG_CANCELED, NULL, "%s raised: %s", r->name, message);
  lua_pushvalue(L, cause);
  lua_setfield(L, -2, "cause");
  push_env(L, r->p);
  lua_insert(L, -2);
  lua_setfield(L, -2, "error");
  return 0;
}

static void callback_raised(mcg_lua_process *p, int stream)
{
  lua_State *L = p->host->L;
  p->raised = true;
  lua_pushcfunction(L, keep_raised);
  lua_pushlightuserdata(L, &(struct raised){p, callback_names[stream]});
  lua_pushvalue(L, -3);
  if (lua_pcall(L, 2, 0, 0) != 0) lua_pop(L, 1);
  lua_pop(L, 1);
  if (p->exec) mcg_exec_cancel(p->exec);
}

static void on_started(void *data, int pid)
{
  mcg_lua_process *p = data;
  p->pid = pid;
  if (p->pump && p->exec && !p->bound) mcg_pump_bind(p->pump, p->exec);
  p->bound = true;
}

static bool on_output(void *data, int stream, const void *bytes, size_t len)
{
  mcg_lua_process *p = data;
  if (p->host->closing || (p->host->leaving && !p->inside) || p->raised) return true;
  if (p->pump) return mcg_pump_output(p->pump, stream, bytes, len);
  if (p->has_callback[stream]) {
    struct chunk c = {p, stream, bytes, len};
    if (mcg_lua_call(p->host, callback_names[stream], call_output, &c) != 0)
      callback_raised(p, stream);
  }
  struct queue *q = &p->queues[stream];
  if (!q->on) return true;
  if (!queue_put(q, bytes, len)) {
    mcg_exec_cancel(p->exec);
    return true;
  }
  wake_reader(p, stream);
  q->paused = q->len >= QUEUE_MAX;
  return !q->paused;
}

struct outcome {
  mcg_lua_process *p;
  const mcg_result *result;
  const mcg_error *error;
};

static int keep_outcome(lua_State *L)
{
  struct outcome *o = lua_touserdata(L, 1);
  push_env(L, o->p);
  if (o->result && !o->p->raised) {
    mcg_lua_push_result(L, o->result);
    lua_setfield(L, -2, "result");
  } else if (o->error && !o->p->raised) {
    mcg_lua_push_error(L, o->error);
    lua_setfield(L, -2, "error");
  }
  return 0;
}

static int push_outcome(lua_State *L, void *ctx)
{
  push_env(L, ctx);
  lua_getfield(L, -1, "result");
  if (!lua_isnil(L, -1)) return 1;
  lua_pushnil(L);
  lua_getfield(L, -3, "error");
  if (lua_isnil(L, -1)) {
    lua_pop(L, 2);
    return mcg_lua_fail(L, MCG_NOMEM, NULL, "not enough memory for the result");
  }
  return 2;
}

static int forget_process(lua_State *L)
{
  mcg_lua_process *p = lua_touserdata(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, p->host->live_ref);
  lua_pushlightuserdata(L, p);
  lua_rawget(L, -2);
  if (lua_isuserdata(L, -1)) {
    lua_getfenv(L, -1);
    lua_getfield(L, -1, "feeder");
    mcg_task *feeder = luaL_testudata(L, -1, MCG_LUA_TASK);
    if (feeder) mcg_lua_task_cancel(feeder); /* nobody reads what its source may still say */
  }
  lua_settop(L, 2);
  lua_pushlightuserdata(L, p);
  lua_pushnil(L);
  lua_rawset(L, 2);
  return 0;
}

static void process_over(void *data)
{
  mcg_lua_process *p = data;
  p->pump = NULL;
  p->over = true;
  if (p->host->closing) return;
  for (int stream = 1; stream <= 2; stream++) wake_reader(p, stream);
  mcg_task **waiters = p->waiters;
  size_t count = p->waiter_count;
  p->waiters = NULL;
  p->waiter_count = 0;
  for (size_t i = 0; i < count; i++) mcg_lua_complete(waiters[i], push_outcome, p);
  free(waiters);
  if (lua_cpcall(p->host->L, forget_process, p) != 0) lua_pop(p->host->L, 1);
}

static void on_done(void *data, const mcg_result *result, mcg_error *error)
{
  mcg_lua_process *p = data;
  p->exec = NULL;
  if (!p->host->closing) {
    struct outcome o = {p, result, error};
    if (lua_cpcall(p->host->L, keep_outcome, &o) != 0) lua_pop(p->host->L, 1);
  }
  mcg_error_free(error);
  if (p->pump)
    mcg_pump_finish(p->pump, process_over, p);
  else
    process_over(p);
}

static const mcg_exec_events process_events = {on_started, on_output, on_done};

/* ---- starting ----------------------------------------------------------------------------- */

static int process_gc(lua_State *L)
{
  mcg_lua_process *p = lua_touserdata(L, 1);
  for (int stream = 1; stream <= 2; stream++) queue_free(&p->queues[stream]);
  free(p->waiters);
  p->waiters = NULL;
  return 0;
}

static void read_callback(lua_State *L, int options, int env, mcg_lua_process *p, int stream,
                          const char *what)
{
  const char *name = callback_names[stream];
  int type = mcg_lua_field(L, options, name);
  if (type != LUA_TNIL && type != LUA_TFUNCTION)
    mcg_lua_misuse(L, "%s: %s must be a function, not a %s", what, name, luaL_typename(L, -1));
  p->has_callback[stream] = type == LUA_TFUNCTION;
  lua_setfield(L, env, name);
}

/* Pushes the userdata, with the session (argument 1) and the callbacks (of argument 3) kept. */
static mcg_lua_process *new_process(lua_State *L, const char *what)
{
  mcg_lua_process *p = lua_newuserdata(L, sizeof *p);
  memset(p, 0, sizeof *p);
  p->host = mcg_lua_host(L);
  luaL_setmetatable(L, MCG_LUA_PROCESS);
  int self = lua_gettop(L);
  lua_newtable(L);
  lua_pushvalue(L, 1);
  lua_setfield(L, -2, "session");
  read_callback(L, 3, self + 1, p, 1, what);
  read_callback(L, 3, self + 1, p, 2, what);
  lua_setfenv(L, self);
  return p;
}

static void anchor_process(lua_State *L, int self)
{
  mcg_lua_process *p = lua_touserdata(L, self);
  lua_rawgeti(L, LUA_REGISTRYINDEX, p->host->live_ref);
  lua_pushlightuserdata(L, p);
  lua_pushvalue(L, self);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

/* A task that feeds the function on top of the stack to the process: core.set_pump's function. */
static void spawn_feeder(lua_State *L, mcg_lua_process *p, int self)
{
  int source = lua_gettop(L);
  lua_pushcfunction(L, mcg_lua_task_spawn);
  lua_rawgeti(L, LUA_REGISTRYINDEX, p->host->pump_ref);
  lua_pushvalue(L, self);
  lua_pushvalue(L, source);
  lua_call(L, 3, 1);
  lua_getfenv(L, self);
  lua_insert(L, -2);
  lua_setfield(L, -2, "feeder");
  lua_pop(L, 1);
}

/* Starts the command of arguments 2 and 3. True: `p` runs, its userdata is at *self. False: nil and
 * the error are on top. */
static bool start(lua_State *L, const char *const *extra, const char *what, bool keep_open,
                  const int *fds, mcg_lua_process **out, int *self)
{
  mcg_lua_session *session = mcg_lua_check_session(L, 1);
  mcg_lua_spec parsed;
  mcg_lua_parse_spec(L, 2, 3, extra, what, &parsed);
  int source = lua_gettop(L);
  mcg_lua_process *p = new_process(L, what);
  *self = lua_gettop(L);
  *out = p;
  for (int stream = 1; keep_open && stream <= 2; stream++)
    p->queues[stream].on = !p->has_callback[stream];
  if (keep_open && parsed.spec.stdin_mode == MCG_STDIN_EMPTY)
    parsed.spec.stdin_mode = MCG_STDIN_PIPE;
  if (fds && fds[0] >= 0) parsed.spec.stdin_mode = MCG_STDIN_PIPE;
  anchor_process(L, *self);
  if (fds && !(p->pump = mcg_pump_new(p->host, fds, &p->lost))) {
    mcg_lua_fail(L, MCG_NOMEM, NULL, "not enough memory");
    return false;
  }
  mcg_error *err = NULL;
  mcg_lua_spec_by_task(p->host, session->session, &parsed.spec);
  p->inside = parsed.spec.quiet;
  if (mcg_exec_start(session->session, &parsed.spec, &process_events, p, &p->exec, &err) < 0) {
    p->over = true;
    if (p->pump) mcg_pump_finish(p->pump, NULL, NULL);
    p->pump = NULL;
    if (lua_cpcall(L, forget_process, p) != 0) lua_pop(L, 1);
    mcg_lua_nil_error(L, err);
    return false;
  }
  p->bound = !mcg_exec_waits(p->exec);
  if (p->pump && p->bound) mcg_pump_bind(p->pump, p->exec);
  if (parsed.stdin_function) {
    lua_pushvalue(L, source);
    spawn_feeder(L, p, *self);
  }
  return true;
}

/* Canceling the task that is in exec() ends the command; its outcome comes. */
static void cancel_exec(mcg_task *task, void *what)
{
  mcg_lua_process *p = what;
  (void)task;
  if (p->exec) mcg_exec_cancel(p->exec);
}

/* Canceling one that is in wait() only ends the wait. */
static void cancel_wait(mcg_task *task, void *what)
{
  mcg_lua_process *p = what;
  for (size_t i = 0; i < p->waiter_count; i++)
    if (p->waiters[i] == task) {
      p->waiters[i] = p->waiters[--p->waiter_count];
      break;
    }
  mcg_lua_complete_canceled(task);
}

static void cancel_read(mcg_task *task, void *what)
{
  ((struct queue *)what)->reader = NULL;
  mcg_lua_complete_canceled(task);
}

/* Waits for the outcome; `owns`: it is exec(). */
static int wait_process(lua_State *L, mcg_task *task, mcg_lua_process *p, bool owns)
{
  size_t bytes = (p->waiter_count + 1) * sizeof(mcg_task *);
  mcg_task **waiters = realloc(p->waiters, bytes);
  if (!waiters) return mcg_lua_fail(L, MCG_NOMEM, NULL, "not enough memory");
  p->waiters = waiters;
  waiters[p->waiter_count++] = task;
  mcg_lua_cancelable(task, owns ? cancel_exec : cancel_wait, p);
  return mcg_lua_wait(L, task);
}

/* session:exec(cmd, options) -> result | nil, err */
int mcg_lua_session_exec(lua_State *L)
{
  lua_settop(L, 3);
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  mcg_lua_process *p;
  int self;
  if (!start(L, NULL, "exec", false, NULL, &p, &self)) return 2;
  return wait_process(L, task, p, true);
}

/* session:start(cmd, options) -> process | nil, err */
int mcg_lua_session_start(lua_State *L)
{
  lua_settop(L, 3);
  mcg_lua_process *p;
  int self;
  if (!start(L, NULL, "start", true, NULL, &p, &self)) return 2;
  lua_pushvalue(L, self);
  return 1;
}

/* session:attach(cmd, options) -> process | nil, err: like start, with stdin_fd, stdout_fd and
 * stderr_fd: descriptors of ours that the command's streams are joined to. */
int mcg_lua_session_attach(lua_State *L)
{
  static const char *const extra[] = {"stdin_fd", "stdout_fd", "stderr_fd", NULL};
  lua_settop(L, 3);
  int fds[3];
  for (int i = 0; i < 3; i++)
    fds[i] = (int)mcg_lua_number_field(L, 3, extra[i], "attach", -1, -1, 1 << 20);
  mcg_lua_process *p;
  int self;
  if (!start(L, extra, "attach", false, fds, &p, &self)) return 2;
  lua_pushvalue(L, self);
  return 1;
}

/* ---- methods ------------------------------------------------------------------------------ */

static int ended(lua_State *L)
{
  return mcg_lua_fail(L, MCG_UNAVAILABLE, NULL, "the command has ended");
}

static int process_write(lua_State *L)
{
  mcg_lua_process *p = check_process(L);
  size_t len;
  const char *bytes = luaL_checklstring(L, 2, &len);
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  mcg_error *err = NULL;
  if (!p->exec) return ended(L);
  mcg_ticket *ticket = mcg_lua_ticket(L, task);
  int rc = mcg_exec_write(p->exec, bytes, len, mcg_lua_done, ticket, &err);
  return mcg_lua_started(L, task, ticket, rc, err);
}

static int process_close_stdin(lua_State *L)
{
  mcg_lua_process *p = check_process(L);
  if (p->exec) mcg_exec_close_stdin(p->exec);
  lua_pushboolean(L, 1);
  return 1;
}

/* process:_waits() -> is it still asked whether it may run? */
static int process_waits(lua_State *L)
{
  const mcg_lua_process *p = check_process(L);
  lua_pushboolean(L, p->exec && mcg_exec_waits(p->exec));
  return 1;
}

/* process:read(["stdout" | "stderr"]) -> bytes | nil at the end */
static int process_read(lua_State *L)
{
  static const char *const names[] = {"stdout", "stderr", NULL};
  mcg_lua_process *p = check_process(L);
  int stream = luaL_checkoption(L, 2, "stdout", names) + 1;
  struct queue *q = &p->queues[stream];
  mcg_task *task = mcg_lua_enter(L);
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  if (p->has_callback[stream])
    return mcg_lua_misuse(L, "read: %s goes to its callback", names[stream - 1]);
  q->used = true;
  if (q->len > 0) return push_queued(L, p, stream);
  if (p->over || !q->on) {
    lua_pushnil(L);
    return 1;
  }
  if (q->reader) return mcg_lua_misuse(L, "read: another task is reading this stream");
  q->reader = task;
  mcg_lua_cancelable(task, cancel_read, q);
  return mcg_lua_wait(L, task);
}

static int process_signal(lua_State *L)
{
  mcg_lua_process *p = check_process(L);
  if (lua_type(L, 2) == LUA_TNUMBER) lua_tostring(L, 2);
  const char *name = mcg_lua_check_text(L, 2, "signal: the name");
  mcg_error *err = NULL;
  if (!p->exec) return ended(L);
  if (mcg_exec_signal(p->exec, name, &err) < 0) return mcg_lua_nil_error(L, err);
  lua_pushboolean(L, 1);
  return 1;
}

static int process_resize(lua_State *L)
{
  mcg_lua_process *p = check_process(L);
  int cols = luaL_checkint(L, 2), rows = luaL_checkint(L, 3);
  luaL_argcheck(L, cols > 0 && cols <= 65535, 2, "columns must be from 1 to 65535");
  luaL_argcheck(L, rows > 0 && rows <= 65535, 3, "rows must be from 1 to 65535");
  mcg_error *err = NULL;
  if (!p->exec) return ended(L);
  if (mcg_exec_resize(p->exec, (uint16_t)cols, (uint16_t)rows, &err) < 0)
    return mcg_lua_nil_error(L, err);
  lua_pushboolean(L, 1);
  return 1;
}

/* process:cancel(): kills its whole tree; wait() then gives nil and `canceled`. */
static int process_cancel(lua_State *L)
{
  cancel_exec(NULL, check_process(L));
  return 0;
}

static int process_wait(lua_State *L)
{
  mcg_lua_process *p = check_process(L);
  mcg_task *task = mcg_lua_enter(L);
  if (p->over) {
    lua_getfenv(L, 1);
    lua_getfield(L, -1, "result");
    if (!lua_isnil(L, -1)) return 1;
    lua_getfield(L, -2, "error");
    return 2;
  }
  if (mcg_lua_is_canceled(task)) return mcg_lua_canceled(L, task);
  for (int stream = 1; stream <= 2; stream++) {
    struct queue *q = &p->queues[stream];
    if (q->used || !q->on) continue;
    q->on = false; /* nobody reads it: only the capture keeps it */
    queue_free(q);
    if (q->paused && p->exec) mcg_exec_resume(p->exec, stream);
    q->paused = false;
  }
  return wait_process(L, task, p, false);
}

/* process:_abort(what, err): for the task that feeds stdin: its source threw. */
static int process_abort(lua_State *L)
{
  mcg_lua_process *p = check_process(L);
  const char *name = luaL_checkstring(L, 2);
  lua_settop(L, 3);
  if (!p->exec || p->raised) return 0;
  p->raised = true;
  lua_pushcfunction(L, keep_raised);
  lua_pushlightuserdata(L, &(struct raised){p, name});
  lua_pushvalue(L, 3);
  lua_call(L, 2, 0);
  mcg_exec_cancel(p->exec);
  return 0;
}

static int process_index(lua_State *L)
{
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(1));
  if (!lua_isnil(L, -1) || lua_type(L, 2) != LUA_TSTRING) return 1;
  mcg_lua_process *p = check_process(L);
  if (strcmp(lua_tostring(L, 2), "pid") == 0 && p->pid > 0) {
    lua_pushnumber(L, p->pid);
    return 1;
  }
  if (strcmp(lua_tostring(L, 2), "_lost") == 0 && p->lost) {
    lua_pushstring(L, p->lost == EPIPE ? "EPIPE" : strerror(p->lost));
    return 1;
  }
  return 1;
}

static const luaL_Reg process_methods[] = {
    {"write", process_write},   {"close_stdin", process_close_stdin},
    {"_waits", process_waits},  {"read", process_read},
    {"signal", process_signal}, {"resize", process_resize},
    {"cancel", process_cancel}, {"wait", process_wait},
    {"_abort", process_abort},  {NULL, NULL},
};

void mcg_lua_process_setup(lua_State *L)
{
  mcg_lua_class(L, MCG_LUA_PROCESS, process_methods, process_gc);
  lua_getfield(L, -1, "__index");
  lua_pushcclosure(L, process_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
