/* resolve.h: names to addresses as the host knows them, for one session: getaddrinfo on threads of its
 * own, so that a name server that never answers holds up this session's look-ups and nothing else. */
#ifndef MCG_EGRESS_RESOLVE_H
#define MCG_EGRESS_RESOLVE_H

#include "address.h"
#include "engine.h"

#define MCG_RESOLVE_KEEP_MS 1000 /* so old may an answer be */
#define MCG_RESOLVE_ADDRESSES 64 /* a name with more is refused: every one has to be judged */

typedef struct mcg_resolver mcg_resolver;

typedef enum mcg_resolve_status {
  MCG_RESOLVED,
  MCG_RESOLVE_NO_NAME, /* there is no such name */
  MCG_RESOLVE_NO_DATA, /* the name has no address */
  MCG_RESOLVE_FAILED   /* no name server answered, or it could not */
} mcg_resolve_status;

typedef struct mcg_resolved {
  mcg_resolve_status status;
  char reason[96]; /* of one that is not MCG_RESOLVED */
  size_t count;
  mcg_address list[MCG_RESOLVE_ADDRESSES];
} mcg_resolved;

int mcg_resolver_new(mcg_engine *engine, mcg_resolver **out, mcg_error **err);
/* Nobody waits in it any more. Look-ups under way end by themselves, in memory of their own. */
void mcg_resolver_free(mcg_resolver *resolver);
/* `name` without its final dot; search domains play no part. -1 is only for what is ours: no memory, too
 * many look-ups at once (`quota`), canceled. A time-out is MCG_RESOLVE_FAILED. */
int mcg_resolve(mcg_resolver *resolver, const char *name, mcg_resolved *out,
                mcg_error **err) MCG_PARKS;
/* For tests: another way to ask. Runs on a thread; fills `out`. NULL: getaddrinfo. */
void mcg_resolver_ask_by(mcg_resolver *resolver, void (*ask)(const char *name, mcg_resolved *out));

#endif
