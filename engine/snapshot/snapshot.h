/* snapshot.h: the workspace of a session kept in a store, and brought back. What opens and closes a
 * session calls these; the public calls are in snapshot_call.c. */
#ifndef MCG_SNAPSHOT_H
#define MCG_SNAPSHOT_H

#include "session/session.h"

typedef struct mcg_snapshot_spec {
  const char *id;
  mcg_store *store;      /* NULL: the session's */
  const json_t *exclude; /* besides the configuration's; or NULL */
  mcg_on_mismatch on_mismatch;
  bool quiet; /* no hook is told */
} mcg_snapshot_spec;

/* Both with their events in the audit log. *metadata is the caller's. */
int mcg_snapshot_save(mcg_session *session, const mcg_snapshot_spec *spec, json_t **metadata,
                      mcg_error **err) MCG_PARKS;
/* Ends what runs, then replaces the workspace, all of it or nothing; and the manifest's ephemeral part. */
int mcg_snapshot_restore(mcg_session *session, const mcg_snapshot_spec *spec, json_t **metadata,
                         mcg_error **err) MCG_PARKS;

/* Labels as metadata has them, names and values without secrets. NULL: no memory. */
json_t *mcg_snapshot_labels(const mcg_engine *engine, const json_t *given);

/* Until no restore of it is under way: who reads all of the workspace would miss what is replaced. */
int mcg_snapshot_await(mcg_session *session, mcg_error **err) MCG_PARKS;

/* A session that opens: the snapshot of its configuration, or its manifest. */
int mcg_snapshot_furnish(mcg_session *session, mcg_error **err) MCG_PARKS;
/* One that opens as a copy of another: the workspace of that one, as it is. */
int mcg_snapshot_copy(mcg_session *origin, mcg_session *session, mcg_error **err) MCG_PARKS;
/* One that closes, whose sandbox still stands: saves where its configuration says so. */
int mcg_snapshot_leave(mcg_session *session, mcg_error **err) MCG_PARKS;

#endif
