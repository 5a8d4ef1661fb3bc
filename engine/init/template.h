/* template.h: the part of a file system that is the same for every ordinary sandbox, built once.
 *
 * A privileged spawner keeps a mount namespace in which the root of a sandbox stands: the host's /usr,
 * /etc, the nodes of /dev, all read-only, pivoted into and the host's tree detached. A sandbox that is
 * cloned there has a copy of it, locked, for it comes from a namespace of more privilege, and adds only
 * what is its own. Under its /proc lies that of a pid namespace in which nobody lives: the kernel lets
 * a user namespace mount a /proc only where it sees one. Whoever asks for something of its own is
 * built from nothing, as an ordinary user's sandboxes are. The spawner itself stays at home: what the
 * host mounts later must be seen by whoever binds it. */
#ifndef MCG_INIT_TEMPLATE_H
#define MCG_INIT_TEMPLATE_H

#include <stdbool.h>
#include <time.h>

#include "jail.h"

typedef struct mcg_template {
  unsigned asked;      /* the first sandbox of an engine may be its only one: not worth it */
  bool made;           /* tried at least; then these are valid: */
  int home;            /* the spawner's mount namespace */
  int space;           /* the template's; -1: the kernel would not */
  struct timespec etc; /* the host's /etc as of then */
} mcg_template;

/* Whether this sandbox is to be cloned in the template's namespace. */
bool mcg_template_serves(mcg_template *template, const mcg_jail_order *order);
/* Round the clone of such a sandbox. -1 with errno; the way back ends the process where it is barred. */
int mcg_template_enter(const mcg_template *template);
void mcg_template_leave(const mcg_template *template);

#endif
