/* gateway_parts.h: what the gateway's files share: gateway.c (its life and its listeners), connection.c
 * (one connection), stub.c (names), refused.c (what the kernel refused). */
#ifndef MCG_EGRESS_GATEWAY_PARTS_H
#define MCG_EGRESS_GATEWAY_PARTS_H

#include "gateway.h"
#include "netlog.h"
#include "proxy.h"
#include "relay.h"
#include "resolve.h"
#include "synthetic.h"
#include "tls_bridge.h"
#include "traffic.h"

typedef struct mcg_egress mcg_egress;
typedef struct mcg_connection mcg_connection;

/* A descriptor that is watched; freed behind its handle. */
typedef struct mcg_watch {
  struct mcg_watch *next;
  mcg_egress *egress;
  int fd;
  uv_poll_t poll;
  void (*ready)(struct mcg_watch *watch);
  bool packets;  /* a packet socket, which takes the kernel milliseconds to close */
  bool six;      /* of IPv6 */
  bool listens;  /* for connections: the rest holds */
  bool redirect; /* every destination comes here: it is asked of the kernel */
  bool held;     /* nobody is taken for a moment */
  int number;    /* of the name that it is for; -1: of none */
  uint16_t port;
} mcg_watch;

/* A fiber of the gateway. */
typedef struct mcg_egress_task {
  struct mcg_egress_task *before, *after;
  mcg_egress *egress;
  mcg_fiber *fiber;
  mcg_fiber_fn fn;
  void *arg;
} mcg_egress_task;

struct mcg_egress {
  mcg_session *session;
  mcg_engine *engine;
  mcg_policy *policy;
  mcg_resolver *resolver;
  mcg_netlog *log;
  mcg_proxy *proxy; /* that what leaves goes through, of the first policy; or NULL */
  mcg_synthetic *names;
  mcg_traffic traffic;
  mcg_watch *watches;
  mcg_connection *connections; /* doubly linked */
  mcg_egress_task *tasks;      /* doubly linked: connections, questions to the stub */
  unsigned connection_count;
  unsigned questions; /* the stub's, under way */
  unsigned handles;   /* to be closed before it is freed */
  unsigned listeners; /* what a sandbox makes the engine hold, by asking for names */
  bool six;           /* the sandbox has IPv6 */
  bool redirected;    /* the sandbox, or its late gateway, was made so that all are redirected */
  bool ending;
  mcg_wait ended;   /* mcg_egress_end waits here for tasks and handles */
  uv_timer_t pause; /* descriptors ran out: listeners are held until then */
  char denied[MCG_NAME_ROOM +
              128]; /* the stub's last refusal, and when: IPv4 and IPv6 are asked apart */
  uint64_t denied_ms;
};

/* One connection of the sandbox. */
struct mcg_connection {
  mcg_connection *before, *after;
  mcg_egress *egress;
  int fd;             /* to the sandbox; -1 once it is given away */
  mcg_address wanted; /* as the program has it */
  uint16_t port;
  const char *name;    /* that `wanted` stands for, the gateway's; NULL: none */
  mcg_address dialled; /* judged, and connected to */
  bool connected;      /* `dialled` holds */
  bool greeted;        /* its ClientHello was looked at: `sni` is kept */
  bool proxied;        /* it leaves through the proxy, by name: nothing was looked up */
  mcg_fiber *fiber;
  mcg_relay *relay; /* while it runs; or */
  mcg_tls_bridge *bridge;
  mcg_error *failed; /* by the bridge; or NULL */
  mcg_wait wait;     /* for its end */
  mcg_relay_end end;
  bool relayed;                 /* `end` holds */
  uint64_t early_in, early_out; /* moved before the relay */
  const char *cut;              /* why it was ended from outside; static */
  mcg_policy *policy;           /* that it was judged by last: its verdict is borrowed from there */
};

/* ---- gateway.c ---------------------------------------------------------------------------- */

/* Takes the descriptor, also on failure. It is watched for reading. */
int mcg_egress_watch(mcg_egress *egress, int take_fd, void (*ready)(mcg_watch *watch),
                     mcg_watch **out, mcg_error **err);
void mcg_egress_unwatch(mcg_watch *watch);
/* One more fiber, which mcg_egress_end cancels and waits for. */
int mcg_egress_start_task(mcg_egress *egress, mcg_fiber_fn fn, void *arg, mcg_fiber **out,
                          mcg_error **err);
/* Listeners for a name that is about to be answered: one for each of its ports and families. */
int mcg_egress_listen_for(mcg_egress *egress, int number, mcg_error **err) MCG_PARKS;
/* One connection, or -1. Init has the same open file and could have it wait, which would hold the loop
 * and with it every session: that it does not is said anew for each. */
int mcg_egress_accept(const mcg_watch *listener);
/* It failed with this: where descriptors have run out, listeners rest for a moment. */
void mcg_egress_accept_failed(mcg_watch *listener, int number);

/* ---- connection.c ------------------------------------------------------------------------- */

void mcg_connections_accept(mcg_watch *listener);
/* By the policy there is now; one that it does not allow is cut. */
void mcg_connection_judge_again(mcg_connection *connection);
void mcg_connection_cut(mcg_connection *connection, const char *why);

/* hello.c: for a rule with `sni`, before anything is dialled. */
int mcg_hello_check(mcg_connection *connection, mcg_error **err) MCG_PARKS;
/* The same, once the server is there: passes the ClientHello on, and if the server wants another one looks
 * at that, too. What comes then is the relay's. */
int mcg_hello_pass(mcg_connection *connection, int far, mcg_error **err) MCG_PARKS;

/* ---- stub.c, refused.c: for sockets that came with the sandbox, which they take ------------- */

int mcg_stub_start(mcg_egress *egress, int take_udp, int take_tcp, mcg_error **err);
int mcg_refused_start(mcg_egress *egress, int take_packets, mcg_error **err);

#endif
