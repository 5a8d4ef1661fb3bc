/* backends.h: the vtables of the backends in this folder. Each is the only symbol of its file. */
#ifndef MCG_BACKENDS_H
#define MCG_BACKENDS_H

#include <mooncage/backend.h>

extern const mcg_backend mcg_backend_jail;
extern const mcg_backend mcg_backend_subprocess;

#endif
