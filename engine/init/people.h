/* people.h: the users that a sandbox with a range of uids is given. */
#ifndef MCG_INIT_PEOPLE_H
#define MCG_INIT_PEOPLE_H

#include "jail.h"

/* A file of names, as text that ends in NUL. As much as init reads of one (user.c). */
#define MCG_NAMES_MAX 65536
typedef struct mcg_names {
  size_t len;
  char text[MCG_NAMES_MAX];
} mcg_names;

/* Adds the users of the spec to what /etc/passwd and /etc/group hold, and chooses the ids that were left
 * to us: jail.people. */
int mcg_jail_people(mcg_jail *jail, mcg_names *passwd, mcg_names *group);
/* Where homes are mounted, while the root can be written to. */
int mcg_jail_home_places(mcg_jail *jail);
/* The homes, once the writable directories are in place. */
int mcg_jail_homes(mcg_jail *jail);

#endif
