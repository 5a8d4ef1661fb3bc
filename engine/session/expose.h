/* expose.h: ports of a sandbox that the host may reach, until the session is closed. */
#ifndef MCG_EXPOSE_H
#define MCG_EXPOSE_H

#include "session.h"

/* Every listener and connection of the session: its clients see a reset. */
void mcg_exposures_end(mcg_session *session);

#endif
