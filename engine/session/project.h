/* project.h: the engine's half of working on one's own tree without giving it away: what a session's
 * view of a project changed, and writing that back (init/project.h does both kinds of work). */
#ifndef MCG_ENGINE_PROJECT_H
#define MCG_ENGINE_PROJECT_H

#include "stream/stream.h"
#include <time.h>

/* {"changes":[...],"diff":text,"diff_truncated":bool} of the sandbox at the end of `stream`. */
int mcg_project_changes(mcg_engine *engine, mcg_stream *stream, struct json_t **out,
                        mcg_error **err) MCG_PARKS;

typedef struct mcg_project_write {
  mcg_stream *view;      /* of the sandbox that holds the view */
  mcg_stream *project;   /* of a plain init whose directory is the project */
  struct timespec since; /* realtime before the view was made */
  bool git;
  bool judge; /* only says what would be refused: nothing is unmounted, nothing written */
  int (*unmount)(void *data,
                 mcg_error **err); /* ends the sandbox; called before anything is written */
  void *data;
} mcg_project_write;

/* Carries the changes over: {"applied":[...]}. `conflict`: the host moved on; `archive_unsafe`: the
 * sandbox made what is not let out; in both cases nothing was written. */
int mcg_project_carry(mcg_engine *engine, const mcg_project_write *write, struct json_t **out,
                      mcg_error **err) MCG_PARKS;

#endif
