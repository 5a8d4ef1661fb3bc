/* owner.h: the name of a spawner, as groups and directories carry it, by which others judge whether it
 * lives: "PID-START-NAMESPACE", the last being the inode number of the pid namespace that PID is of. */
#ifndef MCG_OWNER_H
#define MCG_OWNER_H

#include <stdbool.h>

typedef struct mcg_owner {
  char text[48];
} mcg_owner;

void mcg_owner_self(mcg_owner *out);
/* Whether `text` begins with an owner and "-", and this owner is known to be dead. One of another pid
 * namespace is, when no process is in there: only root of the machine's first namespace sees that. */
bool mcg_owner_dead(const char *text);

#endif
