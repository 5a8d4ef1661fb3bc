/* jail.c: sandboxes of Linux's own namespaces, made by the spawner. */
#include <mooncage/backend.h>

const mcg_backend mcg_backend_jail = {
    .id = "jail",
    .family = MCG_LOCAL,
    .isolation = MCG_ISOLATION_NAMESPACE,
};
