/* tar_stage.h: where an archive is unpacked before it is judged whole. */
#ifndef MCG_TAR_STAGE_H
#define MCG_TAR_STAGE_H

#include "mounted.h"

/* A fresh directory in `target`, on its disk and so within its limit, which goes again should the built-in
 * fail or be ended before the merge. What a killed built-in left there goes too, or comes back where it was
 * put aside. */
int tar_stage_begin(int target);

/* Moves all of it up into the target, see tar_move. `replaces`: what the target held goes, but for what is
 * mounted there, with which the archive must have nothing to do. Failing, it leaves the target as it was;
 * merging, only what was looked for before the first move can be relied on. */
void tar_stage_merge(bool replaces);

/* Whether an entry of a directory is such a place: packing leaves it out, unpacking refuses it. */
bool tar_stage_is(const char *name);
/* Whether something is mounted there, which the merge has left alone. */
bool tar_stage_kept(const char *path);
int tar_stage_open(int dir, const char *name); /* a directory, through no link */

/* ---- tar_move.c */

/* Fails where a directory meets something else in `to`, or cannot be written to. */
void tar_move_judge(int from, int to);
void tar_move(int from, int to);

/* ---- tar_aside.c */

/* All of `from` goes to `to`, but places of the stage, what is mounted and the directories that lead there.
 * Names that `to` has stay where they are. False: errno, and some have not. */
bool tar_aside_shift(int from, int to, const mounted *kept);
/* Fails where the archive would reach into what is mounted. */
void tar_aside_judge(int stage, const mounted *kept);

#endif
