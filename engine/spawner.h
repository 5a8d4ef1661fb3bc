/* spawner.h: the engine's side of its spawner process (init/spawn.h): started on first use, asked by
 * fibers, watched. When it dies, every sandbox it held is dead, and the next call starts a new one. */
#ifndef MCG_SPAWNER_H
#define MCG_SPAWNER_H

#include "fiber.h"
#include "init/spawn.h"

typedef struct mcg_spawner mcg_spawner; /* one per engine */

typedef struct mcg_machine { /* READY */
  enum mcg_cgroup_mode cgroup;
  bool can_memory, can_cpu, can_pids, privileged;
  unsigned landlock;
} mcg_machine;

typedef struct mcg_counters {
  uint64_t memory, memory_peak, cpu_us, pids, oom_kills, pids_hits;
} mcg_counters;

typedef struct mcg_jailed mcg_jailed; /* one sandbox as the spawner knows it */

/* Waits for READY the first time. */
int mcg_spawner_machine(mcg_engine *engine, mcg_machine *out, mcg_error **err) MCG_PARKS;
/* On success *stream_fd is the caller's. ENFORCED answers go to mcg_session_enforce
 * (`session` may be NULL: to nobody). Set-up failures
 * become errors with a fix by step (user namespaces forbidden, no such rootfs ...). */
int mcg_spawner_create(mcg_engine *engine, mcg_session *session, const mcg_spawn_spec *spec,
                       mcg_jailed **out, int *stream_fd, mcg_error **err) MCG_PARKS;
int mcg_spawner_stats(mcg_jailed *jailed, mcg_counters *out, mcg_error **err) MCG_PARKS;
/* A gateway's sockets for one that was made without; `of_network` is a socket that its init made. */
int mcg_spawner_gateway(mcg_jailed *jailed, int of_network, bool redirect, mcg_gateway_sockets *out,
                        mcg_error **err) MCG_PARKS;
/* Frees `jailed` whatever happens; `counters` may be NULL. */
int mcg_spawner_destroy(mcg_jailed *jailed, mcg_counters *counters, mcg_error **err) MCG_PARKS;
/* Closes what takes the kernel long to close, without waiting for it: the spawner has it last. */
void mcg_spawner_close(mcg_engine *engine, int fd);
int mcg_spawner_reap(mcg_engine *engine, bool dry_run, struct json_t *removed,
                     mcg_error **err) MCG_PARKS;
/* The last error's text for a failed step, with its fix: one table for CREATE's FAILED and init's. */
int mcg_spawner_setup_error(mcg_error **err, const char *step, int number, const char *text);
void mcg_spawner_stop(mcg_engine *engine); /* engine is closing */

#endif
