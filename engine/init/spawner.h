/* spawner.h: mooncage-init in its first mode: one per engine, makes and ends sandboxes, and is the
 * janitor when the engine dies. What it is told and answers is spawn.h. */
#ifndef MCG_INIT_SPAWNER_H
#define MCG_INIT_SPAWNER_H

/* Serves the engine on descriptor 3 (descriptor 4 is a pidfd of it) until either ends; then nothing
 * of any sandbox is left. Returns the exit status of the process. */
int mcg_spawner_main(void);

#endif
