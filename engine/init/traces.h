/* traces.h: what the users of a network namespace have left in it, as the kernel tells: whether one that a
 * sandbox had is still as it was made. */
#ifndef MCG_INIT_TRACES_H
#define MCG_INIT_TRACES_H

#include <stdbool.h>
#include <stddef.h>

#define MCG_TRACES_MAX 16384

typedef struct mcg_traces {
  size_t len; /* 0: nothing was read */
  char text[MCG_TRACES_MAX];
} mcg_traces;

/* Of the network that the calling thread is in, through `proc`, a /proc that shows the thread. False: it
 * cannot be told. Allocates nothing. */
bool mcg_traces_read(int proc, mcg_traces *out);
bool mcg_traces_same(const mcg_traces *one, const mcg_traces *other);

#endif
