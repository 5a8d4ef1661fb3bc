/* template.h: the part of a root file system that is the same for every ordinary sandbox, built once.
 *
 * A privileged spawner keeps it mounted in a mount namespace apart from its own: what the host mounts
 * later must still be seen by whoever binds it. A sandbox's namespace is a copy of that one, and one
 * recursive bind of the template is its root: read-only already, and locked so, for it comes from a
 * namespace of more privilege. Some hundred system calls and sixty files less for each sandbox. Whoever
 * asks for something of its own is built from nothing, as an ordinary user's are. */
#ifndef MCG_INIT_TEMPLATE_H
#define MCG_INIT_TEMPLATE_H

#include <stdbool.h>
#include <time.h>

#include "spawn.h"

typedef struct mcg_template {
  unsigned asked; /* the first sandbox of an engine may be its only one: not worth it */
  bool failed;
  const char *place;   /* where it is mounted; NULL: nowhere */
  int home, space;     /* the spawner's mount namespace, and the template's; valid with place */
  struct timespec etc; /* the host's /etc as of then */
} mcg_template;

/* Where the root for this sandbox is, or NULL: to be built. */
const char *mcg_template_for(mcg_template *template, const mcg_spawn_spec *spec);
/* Round the clone of such a sandbox. -1 with errno; the way back ends the process where it is barred. */
int mcg_template_enter(const mcg_template *template);
void mcg_template_leave(const mcg_template *template);

#endif
