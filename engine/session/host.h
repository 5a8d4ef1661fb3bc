/* host.h: a directory of the host, served by an init of its own, so that copying to and from a sandbox
 * is the same built-ins at both ends and nothing of it blocks the loop. */
#ifndef MCG_HOST_H
#define MCG_HOST_H

#include "engine.h"
#include "stream/stream.h"

typedef struct mcg_host mcg_host;

/* `directory` is absolute or relative to the engine's own. Nothing beside it is reached: paths that
 * lead out of it are refused by its init. */
int mcg_host_open(mcg_engine *engine, const char *directory, mcg_host **out,
                  mcg_error **err) MCG_PARKS;
mcg_stream *mcg_host_stream(mcg_host *host);
void mcg_host_close(mcg_host *host); /* parks, shielded; NULL is fine */

#endif
