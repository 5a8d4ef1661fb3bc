/* pool.c: one pool for each kind of sandbox that was opened with `pool = { size = N }`.
 *
 * A parked sandbox is a session that nobody has: it stands, its init has said hello, no command ever
 * ran in it. One with rules of the network has its gateway already, and is a kind of its own. Taking one and making the next are apart: making waits for a pause in what commands do. */
#include "pool.h"
#include "exec.h"
#include <string.h>

#define PAUSE_MS 25   /* nothing was begun for so long */
#define LONG_MS 1000  /* a command of that age is at work and not what somebody waits for */
#define PAUSES_MAX 40 /* where there is never a pause one is made each second nevertheless */

struct mcg_pool {
  struct mcg_pool *next;
  mcg_engine *engine;
  char *kind; /* of the sandboxes in it: the configuration that makes one */
  unsigned size;
  bool filling;
};

/* What the sandbox is made of; what only commands and people see of a session is left out. */
static char *kind_of(const mcg_config *config)
{
  /* clang-format off */
  static const char *const of_no_matter[] = {
    "labels",
    "tenant",
    "run_id",
    "ttl_s",
    "pool",
    "user",
    "manifest",
    "environment",
    "hooks",
    "hook_timeout_s",
    "audit",
    "selector",
    "failover",
    "tools",
    "allowed_tools",
    "guardrail",
    "snapshot_store",
    "snapshot",
    "store_prefix",
  };
  /* clang-format on */
  json_t *copy = json_copy(config->root);
  for (size_t i = 0; copy && i < sizeof of_no_matter / sizeof *of_no_matter; i++)
    json_object_del(copy, of_no_matter[i]);
  char *text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS);
  json_decref(copy);
  return text;
}

static struct mcg_pool *pool_of(mcg_engine *engine, const char *kind)
{
  struct mcg_pool *pool = engine->pools;
  while (pool && strcmp(pool->kind, kind) != 0) pool = pool->next;
  if (pool) return pool;
  pool = calloc(1, sizeof *pool);
  char *copy = pool ? strdup(kind) : NULL;
  if (!copy) {
    free(pool);
    return NULL;
  }
  *pool = (struct mcg_pool){.next = engine->pools, .engine = engine, .kind = copy};
  return engine->pools = pool;
}

static unsigned parked_in(const struct mcg_pool *pool, mcg_session **one)
{
  unsigned count = 0;
  for (mcg_session *s = pool->engine->sessions; s; s = s->after) {
    if (s->pool != pool || s->state != MCG_SESSION_RUNNING || s->ended) continue;
    count++;
    if (one) *one = s;
  }
  return count;
}

/* ---- making them -------------------------------------------------------------------------- */

/* How much was begun so far, in all pools and sessions there are. */
static uint64_t begun(const mcg_engine *engine)
{
  uint64_t count = engine->pool_takes;
  for (const mcg_session *s = engine->sessions; s; s = s->after) count += s->exec_count;
  return count;
}

/* Whether a command runs that was begun not long ago, or is about to begin. */
static bool at_work(const mcg_engine *engine)
{
  uint64_t now = uv_hrtime();
  for (const mcg_session *s = engine->sessions; s; s = s->after)
    for (const mcg_exec *exec = s->execs; exec; exec = exec->after)
      if (!exec->began_ns || now - exec->began_ns < (uint64_t)LONG_MS * 1000000) return true;
  return false;
}

/* Making one takes a processor from who was just given one, or works in any other. */
static int wait_for_pause(mcg_engine *engine, mcg_error **err)
{
  for (unsigned i = 0; i < PAUSES_MAX; i++) {
    uint64_t before = begun(engine);
    if (mcg_fiber_sleep(engine, PAUSE_MS, err) < 0) return -1;
    if (begun(engine) == before && !at_work(engine)) return 0;
  }
  return 0;
}

static int fill_run(void *arg, mcg_error **err)
{
  struct mcg_pool *pool = arg;
  mcg_engine *engine = pool->engine;
  while (parked_in(pool, NULL) < pool->size) {
    if (wait_for_pause(engine, err) < 0) return -1;
    uint64_t before = begun(engine);
    do {
      mcg_session *session;
      if (mcg_session_open_here(engine, pool->kind, &session, err) < 0) return -1;
      session->pool = pool;             /* our reference is the pool's */
      mcg_session_no_deadline(session); /* it starts when someone opens it */
    } while (begun(engine) == before && !at_work(engine) && parked_in(pool, NULL) < pool->size);
  }
  return 0;
}

static void fill_complete(void *arg, mcg_error *error)
{
  struct mcg_pool *pool = arg;
  pool->filling = false;
  if (error && error->code != MCG_CANCELED)
    mcg_log(pool->engine, MCG_LOG_WARNING, "a pool is not filled: %s", error->message);
  mcg_error_free(error);
}

static void fill(struct mcg_pool *pool)
{
  auto_error mcg_error *refused = NULL;
  if (pool->filling || parked_in(pool, NULL) >= pool->size) return;
  pool->filling = mcg_op_start(pool->engine, fill_run, fill_complete, pool, NULL, &refused) == 0;
}

/* ---- taking one --------------------------------------------------------------------------- */

mcg_session *mcg_pool_take(mcg_engine *engine, mcg_config *take_config)
{
  /* A project is seen as it is when the session opens, so its view is never made ahead; and users are
   * made with a sandbox. */
  if (!take_config->pool_size || take_config->plan.project || take_config->plan.user_count)
    return NULL;
  auto_free char *kind = kind_of(take_config);
  struct mcg_pool *pool = kind ? pool_of(engine, kind) : NULL;
  if (!pool) return NULL;
  pool->size = take_config->pool_size;
  engine->pool_takes++;
  mcg_session *session = NULL;
  parked_in(pool, &session);
  if (session) {
    session->pool = NULL;
    mcg_config_free(session->config);
    session->config = take_config;
    take_config->plan.session_id = session->id;
    session->state = MCG_SESSION_STARTING;
  }
  fill(pool);
  return session;
}

void mcg_pools_end(mcg_engine *engine)
{
  while (engine->pools) {
    struct mcg_pool *pool = engine->pools;
    engine->pools = pool->next;
    free(pool->kind);
    free(pool);
  }
}
