/* pool.h: parked sandboxes: made ahead, never used before, never used twice. */
#ifndef MCG_POOL_H
#define MCG_POOL_H

#include "session.h"

/* A sandbox of exactly this configuration's kind, or NULL; has more made behind. Where one is given,
 * the configuration is its own from now on, and so is the one reference to it. */
mcg_session *mcg_pool_take(mcg_engine *engine, mcg_config *take_config);
void mcg_pools_end(mcg_engine *engine); /* no session is left */

#endif
