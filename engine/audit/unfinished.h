/* unfinished.h: starts that have no finish, because their engine died in between. Each engine that
 * writes a log leaves a mark while it lives: a locked file, away from the log, that says from where on
 * its lines are. Whoever finds a mark that nobody holds looks there for what was left open. */
#ifndef MCG_UNFINISHED_H
#define MCG_UNFINISHED_H

#include "sink.h"
#include <sys/stat.h>

typedef struct mcg_unfinished mcg_unfinished;

#define MCG_WRITER_LEN 8 /* of the name that an engine has in the lines it starts */

/* `log` is a file, or the directory of those of all months. NULL: there is no place for marks. */
mcg_unfinished *mcg_unfinished_new(const char *log, const char *engine);
void mcg_unfinished_free(mcg_unfinished *self); /* its mark goes; NULL is fine */
/* This engine writes to this file, from there on. Best effort: what cannot be marked is not found. */
void mcg_unfinished_mark(mcg_unfinished *self, const char *path, const struct stat *file,
                         off_t from);
/* The starts that others have left open, as a list of events; the log is locked meanwhile. */
json_t *mcg_unfinished_find(mcg_unfinished *self);
void mcg_unfinished_forget(mcg_unfinished *self); /* their finishes are written */

#endif
