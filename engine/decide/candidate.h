/* candidate.h: one candidate of a configuration: a backend with its options, what it is, and whether
 * it can be what was asked for. */
#ifndef MCG_CANDIDATE_H
#define MCG_CANDIDATE_H

#include "config/config.h"

/* Of one as it is written, which may be wrong yet. Borrowed. */
const char *mcg_candidate_id(const json_t *candidate);
const char *mcg_candidate_name(const json_t *candidate);
/* Reads {id, options, name, cost, tags, max_sessions, pool, within}, an id, or NULL (the jail) into
 * the config. `where` is the place it stands at. `within` is written by tenant_candidates.c. */
int mcg_candidate_read(mcg_engine *engine, mcg_config *config, const json_t *candidate,
                       const mcg_where *where, mcg_error **err);
/* Once limits and requirements are read: decides which network it gets, and refuses what was written
 * and it cannot keep. */
int mcg_candidate_network(mcg_config *config, bool written, mcg_error **err);
/* Refuses where it does not meet the requirements. */
int mcg_candidate_meet(const mcg_config *config, mcg_error **err);
/* Limits that nobody wrote, up to what is required. */
void mcg_candidate_raise(mcg_config *config);
/* Borrowed from the config, which must be whole. `names` takes the capabilities. */
#define MCG_CAPABILITIES_MAX 64
void mcg_candidate_facts(const mcg_config *config, const char *names[MCG_CAPABILITIES_MAX],
                         mcg_facts *out);
/* The same, with what the engine saw of it, as a selector is told. NULL: no memory. */
json_t *mcg_candidate_describe(mcg_engine *engine, const mcg_config *config);

/* What opening one took, or that it failed: health.c. */
void mcg_health_note(mcg_engine *engine, const mcg_config *config, bool ok, double seconds);
const char *mcg_health_of(mcg_engine *engine, const mcg_config *config, double *latency_s);
/* Sessions of this candidate that are open or being opened, beside `apart` (may be NULL), and how
 * many there may be (0: no bound): with another candidate's where it counts with that and its bound is
 * nearer. */
unsigned mcg_candidate_sessions(const mcg_engine *engine, const mcg_config *config,
                                const mcg_session *apart, unsigned *most);
/* `quota` when it has its max_sessions. */
int mcg_candidate_room(const mcg_engine *engine, const mcg_config *config, const mcg_session *apart,
                       mcg_error **err);

#endif
