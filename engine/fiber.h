/* fiber.h: small C stacks that park when they wait and are resumed by the loop.
 *
 * Every engine operation runs on one. A fiber is started from the main stack or from another fiber,
 * first runs on a later turn of the loop, and ends when its function returns. Waking never switches
 * stacks on the spot: it queues the fiber, and the loop resumes it. */
#ifndef MCG_FIBER_H
#define MCG_FIBER_H

#include <mooncage/backend.h>

typedef struct mcg_fiber mcg_fiber;
typedef void (*mcg_fiber_fn)(void *arg);

/* `quota` past max_waits. `out` may be NULL; the pointer is valid until fn has returned. */
int mcg_fiber_start(mcg_engine *engine, mcg_fiber_fn fn, void *arg, mcg_fiber **out,
                    mcg_error **err);
mcg_fiber *mcg_fiber_current(const mcg_engine *engine); /* NULL on the main stack */
/* The wait that it is in, or the next one it enters, fails with `canceled`. Each later wait too,
 * unless inside mcg_fiber_shield. */
void mcg_fiber_cancel(mcg_fiber *fiber);
bool mcg_fiber_canceled(const mcg_fiber *fiber);
/* The current one was canceled and is not shielded: its waits fail from now on. */
bool mcg_fiber_stopped(const mcg_engine *engine);
/* While shielded, waits ignore cancel: for taking down what must be taken down. Nests. */
void mcg_fiber_shield(mcg_engine *engine, bool on);

/* One point to wait at: put it on the stack or in an object, arm something that will wake it, park.
 * A wake that comes before the park is kept; one that comes after the wait is over is dropped. */
typedef struct mcg_wait {
  mcg_fiber *fiber; /* parked here, or NULL */
  bool woken;
} mcg_wait;

void mcg_wait_init(mcg_wait *wait);
/* 0 when woken. -1: `timeout` after `timeout_ms` (< 0: none), or `canceled`. Then the caller must
 * disarm what it armed. One fiber at a time may park at a wait. */
int mcg_wait_park(mcg_engine *engine, mcg_wait *wait, int64_t timeout_ms,
                  mcg_error **err) MCG_PARKS;
void mcg_wait_wake(mcg_engine *engine, mcg_wait *wait); /* from the loop or another fiber */

/* Runs `fn` on the main stack while the fiber stands still: for the host's code, which may need more
 * stack than a fiber has. Not from the main stack. */
void mcg_fiber_leave(mcg_engine *engine, void (*fn)(void *arg), void *arg);

int mcg_fiber_sleep(mcg_engine *engine, int64_t ms, mcg_error **err) MCG_PARKS;
/* Runs `fn` on a thread of its own copies, parks until it is done. Not cancelable: short work. */
int mcg_fiber_work(mcg_engine *engine, void (*fn)(void *arg), void *arg, mcg_error **err) MCG_PARKS;

uint64_t mcg_now_ms(const mcg_engine *engine); /* monotonic, of this turn of the loop */

#endif
