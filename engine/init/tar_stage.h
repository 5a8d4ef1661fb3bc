/* tar_stage.h: where an archive is unpacked before it is judged whole. */
#ifndef MCG_TAR_STAGE_H
#define MCG_TAR_STAGE_H

#include <stdbool.h>

/* A fresh directory in `target`, on its disk and so within its limit, which goes again should the built-in
 * fail or be ended before the merge. One that a killed built-in left goes too. */
int tar_stage_begin(int target);

/* `replaces`: what the target held goes first, but for what is mounted there.
 *
 * Moves all of it up into the target: directories are merged, whatever else has a name is replaced, but a
 * directory only by a directory. What could be in the way is looked for before the first move. */
void tar_stage_merge(bool replaces);

/* Whether an entry of a directory is such a place: packing leaves it out. */
bool tar_stage_is(const char *name);

#endif
