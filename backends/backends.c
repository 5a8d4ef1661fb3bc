/* backends.c: the backends that this library was built with: the one list of them. */
#include "backends.h"
#include "engine.h"

static const mcg_backend *const built_in[] = {
#ifdef MOONCAGE_BACKEND_JAIL
    &mcg_backend_jail,
#endif
#ifdef MOONCAGE_BACKEND_SUBPROCESS
    &mcg_backend_subprocess,
#endif
    NULL,
};

int mcg_backends_add(mcg_engine *engine, mcg_error **err)
{
  for (const mcg_backend *const *backend = built_in; *backend; backend++)
    if (mcg_engine_add_backend(engine, *backend, err) < 0) return -1;
  return 0;
}
