/* netlog.h: what is told of a session's connections: audit events `net`, and the last thousand of them as
 * tables for session:network_log(). The tables are the session's: those of the way out and of its exposed
 * ports stand in one ring, which outlives both. */
#ifndef MCG_EGRESS_NETLOG_H
#define MCG_EGRESS_NETLOG_H

#include "audit/audit.h"
#include "relay.h"

#define MCG_NETLOG_KEPT 1000
#define MCG_NETLOG_DENIALS 100 /* a second; what is over is counted */

typedef struct mcg_net_event { /* strings are borrowed; NULL: not known */
  const char *direction;       /* "in": to a port that is exposed; NULL: out */
  const char *name, *address;
  unsigned port;        /* 0: none */
  const char *protocol; /* "tcp", "udp", "dns" */
  const char *proxy;    /* that it leaves through */
  const char *rule, *reason;
} mcg_net_event;

typedef struct mcg_netring mcg_netring;
typedef struct mcg_netlog mcg_netlog;
/* One connection that was let through. */
typedef struct mcg_net_entry mcg_net_entry;

int mcg_netlog_new(mcg_session *session, mcg_netlog **out, mcg_error **err);
/* Says how many were left out, where that was not said yet. */
void mcg_netlog_free(mcg_netlog *log);
/* A refusal: a point in the audit log, unless there are too many. From the loop or a fiber. */
void mcg_netlog_denied(mcg_netlog *log, const mcg_net_event *event);
/* A thing that holds for the session as a whole, such as a change of its rules. */
void mcg_netlog_point(mcg_netlog *log, const char *what, const char *reason);
/* What is let through: in the audit log when 0 is returned, and only then may it be dialled. */
int mcg_netlog_start(mcg_netlog *log, const mcg_net_event *event, mcg_net_entry **out,
                     mcg_error **err) MCG_PARKS;
/* Exactly once for each start. `dialled`: the address that was connected to; `error`: it never was;
 * `end`: how the relay ended. Each may be NULL. */
void mcg_netlog_finish(mcg_net_entry *entry, const char *dialled, const mcg_error *error,
                       const mcg_relay_end *end);
/* All that the ring holds, oldest first; empty where there is none. NULL: no memory. */
json_t *mcg_netlog_json(const mcg_session *session);
void mcg_netring_free(mcg_netring *ring); /* the session's, with it; or NULL */

#endif
