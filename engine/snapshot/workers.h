/* workers.h: the threads that read, write, hash and sync archives: two an engine at most, started when
 * first used. libuv's own are left to commands: four snapshots must not hold up every one of them. */
#ifndef MCG_WORKERS_H
#define MCG_WORKERS_H

#include "fiber.h"

typedef struct mcg_job {
  struct mcg_job *next;
  void (*run)(struct mcg_job *job);  /* on a thread, with nothing but what is the job's own */
  void (*done)(struct mcg_job *job); /* afterwards, from the loop, no fiber current */
} mcg_job;

/* The job is the caller's, and must last until `done`. */
int mcg_workers_post(mcg_engine *engine, mcg_job *job, mcg_error **err);
/* Runs `fn` on one of them and parks until it is over. Not cancelable: what waits is on this stack. */
int mcg_workers_run(mcg_engine *engine, void (*fn)(void *arg), void *arg,
                    mcg_error **err) MCG_PARKS;
void mcg_workers_end(mcg_engine *engine); /* when no job is left */

#endif
