/* template.h: the part of a root file system that is the same for every ordinary sandbox, built once.
 *
 * A privileged spawner keeps it mounted in a mount namespace of its own. A sandbox's namespace is a
 * copy of that, and one recursive bind of the template is its root: read-only already, and locked so,
 * for it comes from a namespace of more privilege. Some hundred system calls and sixty files less for
 * each sandbox. Whoever asks for something of its own is built from nothing, as an ordinary user's are. */
#ifndef MCG_INIT_TEMPLATE_H
#define MCG_INIT_TEMPLATE_H

#include <stdbool.h>
#include <time.h>

#include "spawn.h"

typedef struct mcg_template {
  unsigned asked; /* the first sandbox of an engine may be its only one: not worth it */
  bool failed;
  const char *place;   /* where it is mounted; NULL: nowhere */
  struct timespec etc; /* the host's /etc as of then */
} mcg_template;

/* Where the root for this sandbox is, or NULL: to be built. */
const char *mcg_template_for(mcg_template *template, const mcg_spawn_spec *spec);

#endif
