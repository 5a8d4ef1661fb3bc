/* network.c: a session's network while it runs: another policy for it, and what its connections did.
 * Of one that a keeper holds the keeper is asked: the gateway is in that process. */
#include "audit/audit.h"
#include "decide/tenant.h"
#include "egress/gateway.h"
#include "egress/netlog.h"
#include "keeper.h"
#include <string.h>

/* ---- another policy ----------------------------------------------------------------------- */

/* A tenant's session never reaches what it could not reach when it was opened. */
static int confine(const mcg_session *session, const json_t *network, const mcg_where *where,
                   json_t **out, mcg_error **err)
{
  const mcg_config *config = session->config;
  if (config->tenant)
    return mcg_tenant_network(json_object_get(config->root, "network"), network, where, out, err);
  *out = json_incref((json_t *)network);
  return 0;
}

int mcg_session_change_network(mcg_session *session, const json_t *network, mcg_error **err)
{
  const mcg_where where = {.key = "network"};
  auto_json json_t *confined = NULL;
  mcg_policy *policy;
  if (mcg_session_alive(session, err) < 0) return -1;
  if (session->remote) return mcg_remote_set_network(session, network, err);
  if (mcg_audit_learn_network(session->engine, network, err) < 0 ||
      confine(session, network, &where, &confined, err) < 0 ||
      mcg_policy_read(confined, &where, &policy, err) < 0)
    return -1;
  int rc = mcg_egress_set(session, policy, err);
  mcg_policy_unref(policy);
  return rc;
}

typedef struct change {
  mcg_session *session;
  json_t *network;
  mcg_done done;
  void *data;
} change;

static int change_run(void *arg, mcg_error **err)
{
  change *self = arg;
  return mcg_session_change_network(self->session, self->network, err);
}

static void change_free(change *self)
{
  json_decref(self->network);
  mcg_session_let_go(self->session);
  free(self);
}

static void change_complete(void *arg, mcg_error *error)
{
  change *self = arg;
  mcg_error_set_backend(error, self->session->config->backend->id);
  if (self->done)
    self->done(self->data, error);
  else
    mcg_error_free(error);
  change_free(self);
}

/* One JSON value of any kind, where a document has to be an object or a list. NULL: *err is set. */
static json_t *parse_value(const char *text, size_t len, mcg_error **err)
{
  auto_free char *listed = malloc(len + 2);
  if (!listed) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a network policy"), NULL;
  listed[0] = '[';
  memcpy(listed + 1, text, len);
  listed[len + 1] = ']';
  auto_json json_t *list = mcg_json_parse(listed, len + 2, err);
  if (!list) return mcg_wrap(err, "network"), NULL;
  if (json_array_size(list) == 1) return json_incref(json_array_get(list, 0));
  return mcg_fail(err, MCG_INVALID, "give \"none\", \"open\" or a table of rules",
                  "network: give one policy"),
         NULL;
}

int mcg_session_set_network(mcg_session *session, const char *network, size_t len, mcg_done done,
                            void *data, mcg_error **err)
{
  if (mcg_session_alive(session, err) < 0) return -1;
  json_t *value = parse_value(network, len, err);
  if (!value) return -1;
  change *self = malloc(sizeof *self);
  if (!self) {
    json_decref(value);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a network policy");
  }
  *self = (change){.session = session, .network = value, .done = done, .data = data};
  mcg_session_hold(session);
  if (mcg_op_start(session->engine, change_run, change_complete, self, NULL, err) == 0) return 0;
  change_free(self);
  return -1;
}

/* ---- what its connections did ------------------------------------------------------------- */

typedef struct events {
  mcg_session *session;
  json_t *list;
  mcg_text_done done;
  void *data;
} events;

static double when(const json_t *list, size_t index)
{
  return json_real_value(json_object_get(json_array_get(list, index), "at"));
}

/* Both are in order. */
static int merge(json_t *into, const json_t *list)
{
  size_t at = 0;
  for (size_t i = 0; i < json_array_size(list); i++) {
    while (at < json_array_size(into) && when(into, at) <= when(list, i)) at++;
    if (json_array_insert(into, at, json_array_get(list, i)) < 0) return -1;
  }
  return 0;
}

/* Ports of a session that another engine holds are exposed by this one. */
static int events_run(void *arg, mcg_error **err)
{
  events *self = arg;
  if (self->session->remote && mcg_remote_network_log(self->session, self->list, err) < 0)
    return -1;
  auto_json json_t *own = mcg_netlog_json(self->session);
  if (own && merge(self->list, own) == 0) return 0;
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the network log");
}

static void events_complete(void *arg, mcg_error *error)
{
  events *self = arg;
  auto_free char *text = error ? NULL : json_dumps(self->list, JSON_COMPACT);
  if (!error && !text) mcg_fail(&error, MCG_NOMEM, NULL, "no memory for the network log");
  mcg_error_set_backend(error, self->session->config->backend->id);
  if (self->done)
    self->done(self->data, text, error);
  else
    mcg_error_free(error);
  json_decref(self->list);
  mcg_session_let_go(self->session);
  free(self);
}

int mcg_session_network_log(mcg_session *session, mcg_text_done done, void *data, mcg_error **err)
{
  events *self = malloc(sizeof *self);
  json_t *list = self ? json_array() : NULL;
  if (!list) {
    free(self);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the network log");
  }
  *self = (events){.session = session, .list = list, .done = done, .data = data};
  mcg_session_hold(session);
  if (mcg_op_start(session->engine, events_run, events_complete, self, NULL, err) == 0) return 0;
  mcg_session_let_go(session);
  json_decref(list);
  free(self);
  return -1;
}
