/* signal.c: signals for the command (never for a host that loads the module and does not ask): a
 * Lua function is called from the loop when one arrives.
 *
 * A script that never comes back to the loop must still end: a terminating signal sets a count hook
 * that throws, and arms an alarm; if neither the loop nor the hook has taken the signal by then
 * (compiled loops see no hooks), or it comes a second time, the process dies of it and the spawner
 * clears up. At the end of a script, when nobody may be there to send one, hooks that do not come back
 * are interrupted the same way. */
#include "bind.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define GRACE_S 2
#define HOOK_EVERY 5000000

static const struct {
  const char *name;
  int number;
  bool ends;
} known[] = {{"INT", SIGINT, true},    {"TERM", SIGTERM, true},    {"HUP", SIGHUP, true},
             {"QUIT", SIGQUIT, true},  {"WINCH", SIGWINCH, false}, {"CONT", SIGCONT, false},
             {"TSTP", SIGTSTP, false}, {"USR1", SIGUSR1, false},   {"USR2", SIGUSR2, false}};
#define KNOWN (sizeof known / sizeof *known)

struct mcg_signal {
  uv_poll_t poll;
};

/* A handler has no argument of ours: the one place for static state. One Lua state per process may
 * ask for signals. */
static volatile sig_atomic_t pending[KNOWN];
static int event_fd = -1;
static lua_State *hooked;
static mcg_signal signals;
static struct sigaction before[KNOWN];
static bool caught[KNOWN];
static volatile sig_atomic_t watched; /* seconds; 0: not */
static volatile sig_atomic_t interrupted;

static void die_of(int number)
{
  signal(number, SIG_DFL);
  raise(number); /* delivered when the handler returns */
}

static void on_hook(lua_State *L, lua_Debug *ar)
{
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  luaL_error(L, "interrupted");
}

/* The spawner sees us go, as when we die of a signal. */
static void leave_stuck(void)
{
  static const char text[] = "mooncage: error: a hook did not return after the script had ended: "
                             "it ends without it, and its "
                             "sessions are removed without more\n  fix: have the hook return, or "
                             "wait with mooncage.sleep\n";
  ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
  (void)ignored;
  _exit(125);
}

static void on_alarm(int number)
{
  (void)number;
  for (size_t i = 0; i < KNOWN; i++)
    if (pending[i] && known[i].ends) die_of(known[i].number);
  if (!watched) return;
  if (interrupted) leave_stuck();
  interrupted = 1;
  lua_sethook(hooked, on_hook, LUA_MASKCOUNT, HOOK_EVERY);
  alarm(GRACE_S);
}

static void on_signal(int number)
{
  int saved = errno;
  uint64_t one = 1;
  for (size_t i = 0; i < KNOWN; i++) {
    if (known[i].number != number) continue;
    if (pending[i] && known[i].ends) die_of(number);
    pending[i] = 1;
    if (known[i].ends) {
      lua_sethook(hooked, on_hook, LUA_MASKCOUNT, HOOK_EVERY); /* as the interpreter itself does */
      alarm(GRACE_S);
    }
  }
  if (write(event_fd, &one, sizeof one) < 0) errno = saved;
  errno = saved;
}

static int call_handler(lua_State *L)
{
  size_t *which = lua_touserdata(L, 1);
  mcg_lua *host = mcg_lua_host(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, host->signals_ref);
  lua_getfield(L, -1, known[*which].name);
  if (!lua_isfunction(L, -1)) return 0;
  lua_pushstring(L, known[*which].name);
  lua_call(L, 1, 0);
  return 0;
}

static void on_event(uv_poll_t *poll, int status, int events)
{
  mcg_lua *host = poll->data;
  uint64_t count;
  (void)status;
  (void)events;
  if (read(event_fd, &count, sizeof count) < 0) return;
  alarm((unsigned)watched);
  lua_sethook(host->L, NULL, 0, 0);
  for (size_t i = 0; i < KNOWN; i++) {
    if (!pending[i]) continue;
    pending[i] = 0;
    if (mcg_lua_call(host, "a signal handler", call_handler, &i) == 0) continue;
    const char *why = lua_tostring(host->L, -1);
    if (!host->exiting) mcg_lua_log(host, MCG_LOG_ERROR, why ? why : "a signal handler failed");
    lua_pop(host->L, 1);
  }
}

static void catch_alarm(mcg_lua *host)
{
  struct sigaction action = {.sa_handler = on_alarm};
  hooked = host->L;
  sigaction(SIGALRM, &action, NULL);
}

void mcg_lua_signals_watch(mcg_lua *host, unsigned seconds)
{
  catch_alarm(host);
  watched = (sig_atomic_t)seconds;
  interrupted = 0;
  alarm(seconds);
  lua_sethook(host->L, NULL, 0, 0);
}

static void start_signals(lua_State *L, mcg_lua *host)
{
  if (event_fd >= 0) luaL_error(L, "mooncage: another Lua state of this process has the signals");
  event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event_fd < 0) luaL_error(L, "mooncage: cannot listen for signals: %s", strerror(errno));
  catch_alarm(host);
  uv_poll_init(&host->loop, &signals.poll, event_fd);
  signals.poll.data = host;
  uv_poll_start(&signals.poll, UV_READABLE, on_event);
  uv_unref((uv_handle_t *)&signals.poll); /* waiting for a signal keeps nothing alive */
  host->signals = &signals;
  lua_newtable(L);
  host->signals_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

/* terminal.on_signal(name, function(name) | nil): "INT", "TERM", "HUP", "QUIT", "WINCH", "CONT",
 * "TSTP", "USR1", "USR2". The function runs from the loop and must not wait. nil: as it was. */
int mcg_lua_on_signal(lua_State *L)
{
  mcg_lua *host = mcg_lua_host(L);
  const char *name = luaL_checkstring(L, 1);
  if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TFUNCTION);
  size_t i = 0;
  while (i < KNOWN && strcmp(known[i].name, name) != 0) i++;
  if (i == KNOWN) return mcg_lua_misuse(L, "on_signal: unknown signal '%s'", name);
  if (!host->signals) start_signals(L, host);
  lua_settop(L, 2);
  lua_rawgeti(L, LUA_REGISTRYINDEX, host->signals_ref);
  lua_pushvalue(L, 2);
  lua_setfield(L, -2, name);
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  if (!lua_isnil(L, 2) && !caught[i]) {
    sigaction(known[i].number, &action, &before[i]);
    caught[i] = true;
  } else if (lua_isnil(L, 2) && caught[i]) {
    sigaction(known[i].number, &before[i], NULL);
    caught[i] = false;
  }
  return 0;
}

void mcg_lua_signals_close(mcg_lua *host)
{
  if (!host->signals) return;
  alarm(0);
  for (size_t i = 0; i < KNOWN; i++) {
    if (caught[i]) sigaction(known[i].number, &before[i], NULL);
    caught[i] = false;
    pending[i] = 0;
  }
  uv_poll_stop(&signals.poll);
  uv_close((uv_handle_t *)&signals.poll, NULL);
  uv_run(&host->loop, UV_RUN_NOWAIT);
  close(event_fd);
  event_fd = -1;
  host->signals = NULL;
}
