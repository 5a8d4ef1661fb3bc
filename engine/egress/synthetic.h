/* synthetic.h: the addresses that stand for names inside one sandbox: one of each family for a name,
 * never given to another name while the session lives. Nothing outside is at them. */
#ifndef MCG_EGRESS_SYNTHETIC_H
#define MCG_EGRESS_SYNTHETIC_H

#include "address.h"

#define MCG_SYNTHETIC_MAX 1024 /* names a session */

typedef struct mcg_synthetic mcg_synthetic;

mcg_synthetic *mcg_synthetic_new(void); /* NULL: no memory */
void mcg_synthetic_free(mcg_synthetic *names);
/* The number of a name, which is given one; -1: all are given, -2: no memory. */
int mcg_synthetic_number(mcg_synthetic *names, const char *name);
void mcg_synthetic_address(int number, bool six, mcg_address *out);
/* How many have been given. */
int mcg_synthetic_count(const mcg_synthetic *names);
const char *mcg_synthetic_at(const mcg_synthetic *names, int number);
/* The name that an address stands for. NULL: none; *ours says that it lies in the ranges anyway. */
const char *mcg_synthetic_name(const mcg_synthetic *names, const mcg_address *address, bool *ours);

#endif
