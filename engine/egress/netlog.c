/* netlog.c: connections and refusals, to the audit log and to a ring of tables. */
#include "netlog.h"
#include <string.h>
#include <time.h>

struct mcg_netring {
  json_t *tables[MCG_NETLOG_KEPT];
  size_t next;
};

struct mcg_netlog {
  mcg_session *session;
  uint64_t second; /* of the loop's clock: the one that `said` counts in */
  unsigned said;
  uint64_t left_out;
};

struct mcg_net_entry {
  mcg_netlog *log;
  mcg_audit_op *op;
  json_t *table;
  uint64_t began_ns;
};

int mcg_netlog_new(mcg_session *session, mcg_netlog **out, mcg_error **err)
{
  mcg_netlog *log = calloc(1, sizeof *log);
  if (log && !session->net_ring) session->net_ring = calloc(1, sizeof *session->net_ring);
  if (!log || !session->net_ring) {
    free(log);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the network log");
  }
  log->session = session;
  *out = log;
  return 0;
}

static void set_text(json_t *table, const char *key, const char *value)
{
  if (value) json_object_set_new(table, key, json_string(value));
}

/* name, address, port, protocol, as both logs have them. NULL: no memory. */
static json_t *table_of(const mcg_net_event *event)
{
  json_t *table = json_object();
  if (!table) return NULL;
  set_text(table, "direction", event->direction);
  set_text(table, "name", event->name);
  set_text(table, "address", event->address);
  if (event->port) json_object_set_new(table, "port", json_integer(event->port));
  set_text(table, "protocol", event->protocol);
  set_text(table, "proxy", event->proxy);
  return table;
}

/* Takes the table. */
static void keep(mcg_netlog *log, json_t *take_table)
{
  struct timespec now;
  if (!take_table) return;
  clock_gettime(CLOCK_REALTIME, &now);
  json_object_set_new(take_table, "at",
                      json_real((double)now.tv_sec + (double)(now.tv_nsec / 1000) / 1e6));
  mcg_netring *ring = log->session->net_ring;
  json_decref(ring->tables[ring->next]);
  ring->tables[ring->next] = take_table;
  ring->next = (ring->next + 1) % MCG_NETLOG_KEPT;
}

/* ---- refusals ----------------------------------------------------------------------------- */

void mcg_netlog_point(mcg_netlog *log, const char *what, const char *reason)
{
  auto_json json_t *detail = json_pack("{s:s}", "what", what);
  mcg_audit_point(
      log->session,
      &(mcg_event){.op = "net", .decision = {.by = "network", .reason = reason}, .detail = detail});
}

static void tell_left_out(mcg_netlog *log)
{
  if (!log->left_out) return;
  auto_json json_t *detail =
      json_pack("{s:s, s:I}", "what", "left_out", "count", (json_int_t)log->left_out);
  log->left_out = 0;
  mcg_audit_point(log->session,
                  &(mcg_event){.op = "net",
                               .decision = {.by = "network",
                                            .reason = "refusals beyond 100 a second are counted, "
                                                      "and not told one by one"},
                               .detail = detail});
}

static bool too_many(mcg_netlog *log)
{
  uint64_t second = mcg_now_ms(log->session->engine) / 1000;
  if (second != log->second) {
    tell_left_out(log);
    log->second = second;
    log->said = 0;
  }
  if (log->said < MCG_NETLOG_DENIALS) {
    log->said++;
    return false;
  }
  log->left_out++;
  return true;
}

void mcg_netlog_denied(mcg_netlog *log, const mcg_net_event *event)
{
  if (too_many(log)) return;
  auto_error mcg_error *error = NULL;
  auto_json json_t *detail = table_of(event);
  mcg_fail(&error, MCG_UNAUTHORIZED, NULL, "refused");
  mcg_audit_point(
      log->session,
      &(mcg_event){.op = "net",
                   .decision = {.by = "network", .rule = event->rule, .reason = event->reason},
                   .error = error,
                   .detail = detail});
  json_t *table = table_of(event);
  if (!table) return;
  json_object_set_new(table, "allowed", json_false());
  set_text(table, "rule", event->rule);
  set_text(table, "reason", event->reason);
  keep(log, table);
  mcg_log(log->session->engine, MCG_LOG_DEBUG, "session %.8s: network: %s%s%s:%u refused: %s",
          log->session->id, event->name ? event->name : "", event->name ? " " : "",
          event->address ? event->address : "", event->port, event->reason ? event->reason : "");
}

void mcg_netlog_free(mcg_netlog *log)
{
  if (!log) return;
  tell_left_out(log);
  free(log);
}

void mcg_netring_free(mcg_netring *ring)
{
  for (size_t i = 0; ring && i < MCG_NETLOG_KEPT; i++) json_decref(ring->tables[i]);
  free(ring);
}

/* ---- what is let through ------------------------------------------------------------------ */

int mcg_netlog_start(mcg_netlog *log, const mcg_net_event *event, mcg_net_entry **out,
                     mcg_error **err)
{
  mcg_net_entry *entry = calloc(1, sizeof *entry);
  auto_json json_t *detail = table_of(event);
  json_t *table = entry && detail ? json_copy(detail) : NULL;
  if (!table) {
    free(entry);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the network log");
  }
  const mcg_event start = {
      .op = "net",
      .decision = {.by = "network", .rule = event->rule, .reason = event->reason},
      .detail = detail};
  if (mcg_audit_start(log->session, &start, &entry->op, err) < 0) {
    json_decref(table);
    free(entry);
    return -1;
  }
  entry->log = log;
  entry->table = table;
  entry->began_ns = uv_hrtime();
  json_object_set_new(table, "allowed", json_true());
  json_object_set_new(table, "open", json_true());
  set_text(table, "rule", event->rule);
  keep(log, json_incref(table));
  *out = entry;
  return 0;
}

static const char *end_word(const mcg_relay_end *end)
{
  static const char *const words[] = {"finished", "reset", "idle", "spent", "cut"};
  return words[end->reason];
}

void mcg_netlog_finish(mcg_net_entry *entry, const char *dialled, const mcg_error *error,
                       const mcg_relay_end *end)
{
  json_t *table = entry->table;
  auto_json json_t *detail = json_object();
  mcg_event event = {.error = error, .detail = detail};
  json_object_del(table, "open");
  json_object_set_new(table, "duration_s",
                      json_real((double)((uv_hrtime() - entry->began_ns) / 1000) / 1e6));
  if (dialled) {
    set_text(detail, "address", dialled);
    set_text(table, "address", dialled);
  }
  if (end) {
    json_object_set_new(detail, "bytes_in", json_integer((json_int_t)end->in));
    json_object_set_new(detail, "bytes_out", json_integer((json_int_t)end->out));
    set_text(detail, "ended", end_word(end));
    json_object_update(table, detail);
    event.counted = true;
    event.bytes = end->in + end->out;
  }
  if (error) set_text(table, "error", error->message);
  mcg_audit_finish(entry->op, &event);
  json_decref(table);
  free(entry);
}

json_t *mcg_netlog_json(const mcg_session *session)
{
  const mcg_netring *ring = session->net_ring;
  json_t *list = json_array();
  for (size_t i = 0; list && ring && i < MCG_NETLOG_KEPT; i++) {
    json_t *table = ring->tables[(ring->next + i) % MCG_NETLOG_KEPT];
    if (table && json_array_append(list, table) < 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}
