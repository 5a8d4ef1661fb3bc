/* subprocess.c: commands of a session as plain processes of the host, for development. */
#include <mooncage/backend.h>

const mcg_backend mcg_backend_subprocess = {
    .id = "subprocess",
    .family = MCG_LOCAL,
    .isolation = MCG_ISOLATION_NONE,
};
