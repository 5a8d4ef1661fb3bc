/* session.c: the life of a sandbox: open and end. Commands are in exec.c, its end for others who wait
 * in closing.c.
 *
 * A session is in the engine's list from open until it is closed, and holds itself alive there. */
#include "session.h"
#include "decide/choice.h"
#include "audit/audit.h"
#include "decide/hooks.h"
#include "expose.h"
#include "keeper.h"
#include "pool.h"
#include "decide/quota.h"
#include "decide/spend.h"
#include "decide/tenant.h"
#include "egress/gateway.h"
#include "egress/netlog.h"
#include "snapshot/snapshot.h"
#include <string.h>

/* ---- services for backends ---------------------------------------------------------------- */

mcg_engine *mcg_session_engine(const mcg_session *session)
{
  return session->engine;
}

void mcg_session_enforce(mcg_session *session, const char *mechanism, const char *value)
{
  auto_free char *safe = mcg_one_line(value);
  if (safe) json_object_set_new(session->enforcement, mechanism, json_string(safe));
}

void mcg_session_warn(mcg_session *session, const char *format, ...)
{
  va_list list;
  va_start(list, format);
  auto_free char *text = mcg_format_line(format, list);
  va_end(list);
  if (!text) return;
  json_array_append_new(session->warnings, json_string(text));
  mcg_log(session->engine, MCG_LOG_WARNING, "session %.8s: %s", session->id, text);
}

void mcg_session_used(mcg_session *session, uint64_t cpu_us, uint64_t peak_bytes)
{
  session->place_cpu_us = cpu_us;
  session->place_peak = peak_bytes;
}

/* ---- references --------------------------------------------------------------------------- */

static void lose_counsel(mcg_session *session)
{
  mcg_counsel *counsel = mcg_steal_pointer(&session->counsel);
  mcg_counsel_unref(counsel);
}

static void session_free(mcg_session *session)
{
  mcg_quota_leave(session); /* it never stood */
  lose_counsel(session);
  if (session->stream) mcg_stream_unref(session->stream);
  mcg_config_free(session->config);
  mcg_error_free(session->ended);
  mcg_error_free(session->close_error);
  json_decref(session->enforcement);
  json_decref(session->warnings);
  mcg_netring_free(session->net_ring);
  free(session->directory);
  json_decref(session->given);
  free(session->parent);
  free(session);
}

mcg_session *mcg_session_ref(mcg_session *session)
{
  session->refs++;
  return session;
}

static void drop(mcg_session *session)
{
  if (--session->refs == 0) session_free(session);
}

void mcg_session_hold(mcg_session *session)
{
  session->refs++;
  session->inner_refs++;
}

void mcg_session_let_go(mcg_session *session)
{
  session->inner_refs--;
  drop(session);
}

void mcg_session_unref(mcg_session *session)
{
  if (!session) return;
  /* The engine's own reference, and those of running commands, keep nobody interested. */
  bool last = session->refs - session->inner_refs == 1;
  if (last && session->state == MCG_SESSION_RUNNING) {
    mcg_log(session->engine, MCG_LOG_ERROR, "session %.8s was let go of without close",
            session->id);
    auto_error mcg_error *ignored = NULL;
    if (mcg_session_close(session, NULL, NULL, &ignored) < 0)
      mcg_log(session->engine, MCG_LOG_ERROR, "session %.8s: %s", session->id, ignored->message);
  }
  drop(session);
}

void mcg_session_enlist(mcg_session *session)
{
  mcg_engine *engine = session->engine;
  session->after = engine->sessions;
  if (session->after) session->after->before = session;
  engine->sessions = session;
  engine->session_count++;
  mcg_session_hold(session);
}

static void session_unlink(mcg_session *session)
{
  mcg_engine *engine = session->engine;
  if (session->before)
    session->before->after = session->after;
  else
    engine->sessions = session->after;
  if (session->after) session->after->before = session->before;
  engine->session_count--;
  mcg_session_let_go(session);
}

/* It never stood: nobody but the caller knows of it. */
void mcg_session_discard(mcg_session *session)
{
  session->state = MCG_SESSION_CLOSED;
  session_unlink(session);
  drop(session);
}

/* ---- state -------------------------------------------------------------------------------- */

int mcg_session_alive(const mcg_session *session, mcg_error **err)
{
  if (session->state == MCG_SESSION_RUNNING && !session->ended) return 0;
  if (session->ended) {
    if (err) *err = mcg_error_copy(session->ended);
    return -1;
  }
  return mcg_fail(err, MCG_UNAVAILABLE, "open a new session", "the session is closed");
}

const char *mcg_session_directory(const mcg_session *session)
{
  return session->place.working_directory ? session->place.working_directory : session->directory;
}

void mcg_session_end(mcg_session *session, mcg_error *reason)
{
  if (session->state != MCG_SESSION_RUNNING || session->ended || session->stopping) {
    mcg_error_free(reason);
    return;
  }
  mcg_error_set_backend(reason, session->config->backend->id);
  session->ended = reason;
  mcg_log(session->engine, MCG_LOG_INFO, "session %.8s: %s", session->id, reason->message);
  mcg_execs_abort(session, reason);
  auto_error mcg_error *ignored = NULL;
  if (mcg_session_close(session, NULL, NULL, &ignored) < 0)
    mcg_log(session->engine, MCG_LOG_ERROR, "session %.8s: %s", session->id, ignored->message);
}

void mcg_session_stream_lost(void *data, const mcg_error *error)
{
  mcg_session *session = data;
  mcg_session_end(session, mcg_error_copy(error));
}

/* ---- open --------------------------------------------------------------------------------- */

typedef struct opening {
  mcg_session *session;
  mcg_choice *choice; /* where there is something to choose, or somebody to ask; else NULL */
  json_t *question;   /* for the selector, or NULL */
  json_t *root; /* the configuration as it was given, where a tenant may change it; else NULL */
  mcg_session *origin; /* the workspace is to be a copy of that one's; or NULL */
  bool pooled;         /* a parked sandbox will do */
  bool settled;        /* for whom it is, and so with which configuration */
  bool
      untold; /* what was decided of the candidates is to be logged, once it is known of which session */
  mcg_session_done done;
  void *data;
} opening;

void mcg_session_mechanism(void *data, const char *name, const char *value)
{
  mcg_session *session = data;
  if (strcmp(name, "working_directory") != 0) {
    mcg_session_enforce(session, name, value);
    return;
  }
  free(session->directory);
  session->directory = strdup(value);
}

static int place_destroy(mcg_session *session, mcg_error **err)
{
  if (session->remote) mcg_remote_close(session); /* the sandbox stays with its keeper */
  if (!session->placed) return 0;
  session->placed = false;
  const mcg_backend *backend = session->config->backend;
  return backend->destroy ? backend->destroy(session, &session->place, err) : 0;
}

/* A parked session takes the place of the one that was to be made, and its configuration. */
static void take_parked(opening *self)
{
  mcg_session *session = self->session, *parked = mcg_pool_take(session->engine, session->config);
  if (!parked) return;
  parked->created_at = session->created_at;
  parked->since = session->since;
  parked->counsel = mcg_steal_pointer(&session->counsel);
  parked->seat = mcg_steal_pointer(&session->seat);
  parked->unaudited = false;
  session->config = NULL;
  mcg_session_discard(session);
  self->session = parked;
}

/* It was made in part, or nobody is left to have it. */
static void open_undo(mcg_session *session)
{
  auto_error mcg_error *second = NULL;
  mcg_fiber_shield(session->engine, true);
  mcg_egress_end(session);
  mcg_stream_cut(session->stream);
  if (place_destroy(session, &second) < 0)
    mcg_log(session->engine, MCG_LOG_ERROR, "session %.8s: %s", session->id, second->message);
  mcg_fiber_shield(session->engine, false);
}

static void tell_stopped(mcg_session *session)
{
  if (!mcg_session_hooked(session, MCG_HOOK_SANDBOX_STOP)) return;
  auto_free char *text = mcg_session_usage(session);
  json_t *usage = text ? json_loads(text, 0, NULL) : NULL;
  auto_error mcg_error *ignored = NULL;
  mcg_fiber_shield(session->engine, true);
  if (mcg_hook_fire(session, MCG_HOOK_SANDBOX_STOP, json_pack("{s:o?}", "usage", usage), &ignored) <
      0)
    mcg_log(session->engine, MCG_LOG_ERROR, "session %.8s: %s", session->id, ignored->message);
  mcg_fiber_shield(session->engine, false);
}

/* The place, and the stream to the init in it. What it took is remembered of the candidate. */
static int open_place(mcg_session *session, mcg_error **err)
{
  const mcg_config *config = session->config;
  uint64_t began = uv_hrtime();
  if (session->placed) return 0; /* taken from a pool */
  if (session->stream) mcg_stream_unref(mcg_steal_pointer(&session->stream)); /* it was undone */
  session->place = (mcg_place){.stream_fd = -1};
  int rc = mcg_egress_prepare(session, err);
  if (rc == 0) rc = config->backend->create(session, &config->plan, &session->place, err);
  session->placed = rc == 0;
  if (rc == 0)
    rc = mcg_stream_open(session->engine, mcg_steal_fd(&session->place.stream_fd),
                         session->place.carrier, mcg_session_mechanism, mcg_session_stream_lost,
                         session, &session->stream, err);
  if (rc == 0 || !err || (*err)->code != MCG_CANCELED)
    mcg_health_note(session->engine, config, rc == 0, (double)(uv_hrtime() - began) / 1e9);
  return rc;
}

static int open_furnish(const opening *self, mcg_error **err)
{
  if (self->origin) return mcg_snapshot_copy(self->origin, self->session, err);
  return mcg_snapshot_furnish(self->session, err);
}

/* `placed`: it was not the place that failed. */
static int open_all(opening *self, bool *placed, mcg_error **err)
{
  mcg_session *session = self->session;
  *placed = open_place(session, err) == 0;
  if (!*placed || mcg_egress_start(session, err) < 0 || open_furnish(self, err) < 0 ||
      mcg_quota_start(session, err) < 0 || mcg_session_deadline(session, err) < 0) {
    open_undo(session);
    return -1;
  }
  session->began_ns = uv_hrtime();
  session->state = MCG_SESSION_RUNNING;
  return 0;
}

static void tell_close(mcg_session *session, const mcg_error *error)
{
  auto_json json_t *usage = mcg_session_usage_json(session);
  mcg_audit_point(session, &(mcg_event){.op = "close", .usage = usage, .error = error});
}

/* It stands; -1 when nobody is left to have it. */
static int open_tell(mcg_session *session, mcg_error **err)
{
  if (mcg_hook_fire(session, MCG_HOOK_SANDBOX_START, json_object(), err) == 0) return 0;
  if (session->state == MCG_SESSION_RUNNING) { /* else the hook closed it, and has it */
    session->state = MCG_SESSION_STARTING;
    mcg_session_no_deadline(session);
    open_undo(session);
    session->ended_ns = uv_hrtime();
    tell_close(session, *err);
    tell_stopped(session);
  }
  return -1;
}

/* The candidates of a configuration, and the first that fits; when nobody does, one to tell that with.
 * Where there is nothing to choose, and nobody to ask, *choice is NULL. Takes the root. */
static int plan_choice(mcg_engine *engine, json_t *take_root, bool asked, mcg_choice **choice,
                       json_t **question, mcg_config **config, mcg_error **err)
{
  mcg_choice *made;
  *choice = NULL;
  *question = NULL;
  if (mcg_choice_new(engine, take_root, false, &made, err) < 0) return -1;
  int rc = 0;
  if (asked && !(*question = mcg_choice_question(made)))
    rc = mcg_fail(err, MCG_NOMEM, NULL, "no memory to choose");
  else if (made->refusal)
    rc = mcg_choice_stand_in(made, config, err);
  else
    *config = mcg_choice_take(made);
  if (rc < 0) {
    json_decref(mcg_steal_pointer(question));
    mcg_choice_free(made);
    return -1;
  }
  if (asked || made->count > 1 || made->refusal)
    *choice = made;
  else
    mcg_choice_free(made);
  return 0;
}

/* Another candidate's configuration in the place of the one there was. */
static void take_config(mcg_session *session, mcg_config *take_config)
{
  if (session->config != take_config) mcg_config_free(session->config);
  session->config = take_config;
  take_config->plan.session_id = session->id;
}

/* What was said of the candidates, before anything is opened. */
static int tell_choice(opening *self, const mcg_error *none, mcg_error **err)
{
  const mcg_choice *choice = self->choice;
  auto_json json_t *detail = mcg_choice_record(choice, !none);
  mcg_event event = {.op = "select",
                     .decision = {.by = self->question     ? "selector"
                                        : choice->by_price ? "cheapest_first"
                                                           : "in_order",
                                  .reason = choice->reason},
                     .error = none,
                     .detail = detail};
  if (!none) return mcg_audit_told(self->session, &event, err);
  mcg_audit_point(self->session, &event);
  return -1;
}

/* Asks the selector where there is one. The session has the configuration of the first that fits
 * meanwhile, and keeps it when the answer is no good. */
static int ask_selector(opening *self, mcg_error **err)
{
  mcg_session *session = self->session;
  auto_json json_t *answer = NULL;
  if (mcg_ask(session, MCG_ASK_SELECT, self->question, &answer, err) < 0) return -1;
  mcg_choice_put(self->choice, session->config);
  session->config = NULL;
  int rc = mcg_choice_answer(self->choice, answer, err);
  take_config(session, mcg_choice_take(self->choice));
  return rc;
}

static int open_choose(opening *self, mcg_error **err)
{
  mcg_choice *choice = self->choice;
  if (!choice) return 0;
  self->settled = !choice->refusal;
  self->untold = choice->listed || self->question;
  if (choice->refusal)
    *err = mcg_steal_pointer(&choice->refusal);
  else if (!self->question || ask_selector(self, err) == 0)
    return 0;
  return tell_choice(self, *err, err);
}

/* The next candidate instead of the one that could not be made. False: there is none. */
static bool open_next(opening *self, mcg_error **err)
{
  mcg_session *session = self->session;
  if (!self->choice || !mcg_choice_failed(self->choice, err)) return false;
  mcg_error *failed = mcg_steal_pointer(err);
  auto_free char *name = strdup(session->config->name);
  take_config(session, mcg_choice_take(self->choice));
  json_object_clear(session->enforcement);
  json_array_clear(session->warnings);
  mcg_session_warn(session, "%s could not be opened (%s): %s is tried instead", name ? name : "one",
                   failed->message, session->config->name);
  mcg_error_free(failed);
  return true;
}

static int open_once(opening *self, bool *placed, mcg_error **err)
{
  *placed = false;
  if (self->choice &&
      mcg_candidate_room(self->session->engine, self->session->config, self->session, err) < 0)
    return -1;
  if (self->pooled) take_parked(self);
  mcg_session *session = self->session;
  mcg_audit_op *op;
  if ((self->untold && tell_choice(self, NULL, err) < 0) ||
      mcg_audit_start(session, &(mcg_event){.op = "open"}, &op, err) < 0) {
    if (session->placed) open_undo(session);
    return -1;
  }
  self->untold = false;
  int rc = open_all(self, placed, err);
  mcg_audit_finish(
      op, &(mcg_event){.error = rc < 0 ? *err : NULL, .enforcement = session->enforcement});
  return rc;
}

/* Nobody opens it, and that stands in the log. */
static void tell_denied(mcg_session *session, const mcg_error *error)
{
  mcg_audit_op *op;
  auto_error mcg_error *unwritten = NULL;
  mcg_event event = {.op = "open", .decision = {.by = "tenants"}};
  if (mcg_audit_start(session, &event, &op, &unwritten) == 0)
    mcg_audit_finish(op, &(mcg_event){.error = error});
  else
    mcg_log(session->engine, MCG_LOG_ERROR, "session %.8s: %s", session->id, unwritten->message);
}

/* Begins anew with the configuration that is the tenant's. */
static int open_tenant(opening *self, mcg_error **err)
{
  mcg_session *session = self->session;
  json_t *root;
  mcg_quota quota;
  mcg_config *config;
  mcg_choice *choice;
  json_t *question;
  if (mcg_tenant_resolve(session->engine, session->counsel, session, session->config->tenant,
                         self->root, &root, &quota, err) < 0 ||
      plan_choice(session->engine, root, mcg_session_asks(session, MCG_ASK_SELECT), &choice,
                  &question, &config, err) < 0) {
    tell_denied(session, *err);
    return -1;
  }
  mcg_choice_free(self->choice);
  json_decref(self->question);
  self->choice = choice;
  self->question = question;
  take_config(session, config);
  session->undecided = false;
  if (mcg_quota_enter(session, &quota, err) == 0) return 0;
  tell_denied(session, *err);
  return -1;
}

static int open_run(void *arg, mcg_error **err)
{
  opening *self = arg;
  bool placed;
  if (self->root && open_tenant(self, err) < 0) return -1;
  self->settled = true;
  if (open_choose(self, err) < 0) return -1;
  while (open_once(self, &placed, err) < 0)
    if (placed || !open_next(self, err)) return -1;
  return open_tell(self->session, err);
}

/* The session, where it stands; what its opening took is let go of. */
static mcg_session *open_over(opening *self, mcg_error *error)
{
  mcg_session *session = self->session;
  bool several = self->choice && self->choice->listed;
  mcg_choice_free(self->choice);
  json_decref(self->question);
  if (!error) {
    session->given = self->root;
    return session;
  }
  json_decref(self->root);
  if (self->settled && !several) mcg_error_set_backend(error, session->config->backend->id);
  if (session->state == MCG_SESSION_STARTING)
    mcg_session_discard(session);
  else
    mcg_session_unref(session); /* it is closed, or being closed, by a hook that saw it */
  return NULL;
}

static void open_complete(void *arg, mcg_error *error)
{
  opening self = *(opening *)arg;
  free(arg);
  self.done(self.data, open_over(&self, error), error);
}

/* `take_config` is the session's, also on failure. */
mcg_session *mcg_session_make(mcg_engine *engine, mcg_config *take_config, mcg_error **err)
{
  mcg_session *session = calloc(1, sizeof *session);
  if (!session) {
    mcg_config_free(take_config);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session"), NULL;
  }
  session->engine = engine;
  session->config = take_config;
  session->refs = 1;
  session->enforcement = json_object();
  session->warnings = json_array();
  mcg_wait_init(&session->execs_gone);
  struct timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &session->since);
  clock_gettime(CLOCK_REALTIME, &now);
  session->created_at = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
  if (mcg_random_id(session->id, err) < 0) {
    session_free(session);
    return NULL;
  }
  take_config->plan.session_id = session->id;
  if (session->enforcement && session->warnings) return session;
  session_free(session);
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session"), NULL;
}

/* A session that nobody has opened yet, or NULL: what can be refused at once is refused here. Its
 * candidate is the first that fits. `asks`: what the host answers. */
static mcg_session *session_plan(mcg_engine *engine, const char *text, size_t len, unsigned asks,
                                 opening *out, mcg_error **err)
{
  mcg_config *config;
  *out = (opening){.session = NULL};
  if (mcg_engine_check_open(engine, err) < 0) return NULL;
  json_t *root = mcg_json_parse(text, len, err);
  if (!root) return mcg_wrap(err, "configuration"), NULL;
  if (asks & MCG_ASK_TENANT) out->root = json_incref(root);
  if (plan_choice(engine, root, asks & MCG_ASK_SELECT, &out->choice, &out->question, &config,
                  err) == 0) {
    out->session = mcg_session_make(engine, config, err);
    if (out->session) {
      out->session->undecided = out->root != NULL;
      return out->session;
    }
    mcg_choice_free(out->choice);
    json_decref(out->question);
  }
  json_decref(out->root);
  return NULL;
}

int mcg_session_open(mcg_engine *engine, const char *text, size_t len, mcg_session_done done,
                     void *data, mcg_op **op, mcg_error **err)
{
  return mcg_session_open_with(engine, text, len, NULL, done, data, op, err);
}

int mcg_session_open_with(mcg_engine *engine, const char *text, size_t len,
                          const mcg_deciders *deciders, mcg_session_done done, void *data,
                          mcg_op **op, mcg_error **err)
{
  mcg_counsel *counsel;
  if (mcg_counsel_new(deciders, &counsel, err) < 0) return -1;
  opening plan;
  unsigned asks = counsel ? counsel->deciders.asks : 0;
  mcg_session *session = session_plan(engine, text, len, asks, &plan, err);
  if (!session) {
    free(counsel);
    return -1;
  }
  plan.pooled = true;
  plan.done = done;
  plan.data = data;
  opening *self = malloc(sizeof *self);
  if (self) *self = plan;
  if (!self || mcg_op_start(engine, open_run, open_complete, self, op, err) < 0) {
    if (!self) mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session");
    mcg_choice_free(plan.choice);
    json_decref(plan.question);
    json_decref(plan.root);
    free(self);
    free(counsel);
    session_free(session);
    return -1;
  }
  session->counsel = counsel;
  mcg_session_enlist(session);
  return 0;
}

int mcg_session_open_here(mcg_engine *engine, const char *config, mcg_session **out,
                          mcg_error **err)
{
  opening self;
  mcg_session *session = session_plan(engine, config, strlen(config), 0, &self, err);
  if (!session) return -1;
  mcg_session_enlist(session);
  session->unaudited = true;
  int rc = open_run(&self, err);
  mcg_choice_free(self.choice);
  if (rc == 0) {
    *out = session;
    return 0;
  }
  session->state = MCG_SESSION_CLOSED;
  session_unlink(session);
  drop(session);
  return -1;
}

int mcg_session_open_copy(mcg_session *origin, mcg_session **out, mcg_error **err)
{
  unsigned asks = origin->counsel ? origin->counsel->deciders.asks : 0;
  auto_free char *text =
      json_dumps(origin->given ? origin->given : origin->config->root, JSON_COMPACT);
  opening self;
  if (!text) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session");
  mcg_session *session = session_plan(origin->engine, text, strlen(text), asks, &self, err);
  if (!session) return -1;
  self.pooled = true;
  self.origin = origin;
  session->counsel = mcg_counsel_ref(origin->counsel);
  mcg_session_enlist(session);
  int rc = open_run(&self, err);
  *out = open_over(&self, rc < 0 ? *err : NULL);
  return rc;
}

/* ---- close -------------------------------------------------------------------------------- */

static int close_run(void *arg, mcg_error **err)
{
  mcg_session *session = arg;
  bool ours = !session->remote && session->began_ns; /* a keeper tells of its own */
  mcg_error *why = session->ended ? mcg_error_copy(session->ended) : NULL;
  if (!why) mcg_fail(&why, MCG_CANCELED, NULL, "the session was closed");
  mcg_execs_abort(session, why);
  mcg_error_free(why);
  mcg_keeper_deaf(session);
  mcg_exposures_end(session);
  mcg_session_no_deadline(session);
  int saved = ours ? mcg_snapshot_leave(session, err) : 0;
  auto_error mcg_error *second = NULL; /* the first is the one to be told */
  mcg_egress_end(session);
  int held =
      mcg_stream_hold(session->stream); /* else init sets about ending by itself, which is slower */
  mcg_stream_cut(session->stream);
  int rc = place_destroy(session, saved < 0 ? &second : err);
  if (saved < 0) rc = -1;
  if (held >= 0) close(held);
  mcg_execs_end(session);
  while (session->execs) { /* their completions come from the loop */
    auto_error mcg_error *ignored = NULL;
    if (mcg_wait_park(session->engine, &session->execs_gone, -1, &ignored) < 0) break;
  }
  session->ended_ns = uv_hrtime();
  mcg_spend_keep(session);
  mcg_quota_leave(session);
  if (ours) tell_close(session, rc < 0 ? *err : session->ended);
  if (ours && !session->pool) tell_stopped(session);
  return rc;
}

static void close_complete(void *arg, mcg_error *error)
{
  mcg_session *session = arg;
  session->state = MCG_SESSION_CLOSED;
  mcg_error_set_backend(error, session->config->backend->id);
  session->close_error = error;
  mcg_close_waiter *waiter = session->waiters;
  session->waiters = NULL;
  while (waiter) {
    mcg_close_waiter *next = waiter->next;
    if (waiter->done) waiter->done(waiter->data, error ? mcg_error_copy(error) : NULL);
    free(waiter);
    waiter = next;
  }
  if (session->pool) drop(session); /* its one reference was the pool's */
  session->pool = NULL;
  mcg_keeper_end(session);
  lose_counsel(session);
  session_unlink(session);
}

static int close_again_run(void *arg, mcg_error **err)
{
  (void)arg;
  (void)err;
  return 0;
}

static void close_again_complete(void *arg, mcg_error *error)
{
  mcg_close_waiter waiter = *(mcg_close_waiter *)arg;
  free(arg);
  if (waiter.done)
    waiter.done(waiter.data, error);
  else
    mcg_error_free(error);
}

int mcg_session_close(mcg_session *session, mcg_done done, void *data, mcg_error **err)
{
  mcg_close_waiter *waiter = malloc(sizeof *waiter);
  if (!waiter) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to close a session");
  *waiter = (mcg_close_waiter){.done = done, .data = data};
  int rc = 0;
  if (session->state == MCG_SESSION_CLOSED)
    rc = mcg_op_start_teardown(session->engine, close_again_run, close_again_complete, waiter, NULL,
                               err);
  else if (session->state != MCG_SESSION_STOPPING)
    rc = mcg_op_start_teardown(session->engine, close_run, close_complete, session, NULL, err);
  if (rc < 0) {
    free(waiter);
    return -1;
  }
  if (session->state == MCG_SESSION_CLOSED) return 0;
  session->state = MCG_SESSION_STOPPING;
  waiter->next = session->waiters;
  session->waiters = waiter;
  return 0;
}
