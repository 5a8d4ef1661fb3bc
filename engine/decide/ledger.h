/* ledger.h: what one tenant has spent and which sessions it has, over all engines of this user: a
 * directory of small files in the state directory. An engine that was killed leaves a record behind,
 * which the next one to look charges. */
#ifndef MCG_LEDGER_H
#define MCG_LEDGER_H

#include "tenant.h"

typedef struct mcg_ledger_total {
  double usd, minutes; /* in the quota's period, with what runs now */
  unsigned sessions;   /* that are live */
} mcg_ledger_total;

/* The directory of a tenant, made if need be; fresh. */
char *mcg_ledger_open(const char *tenant, mcg_error **err);
/* One engine at a time: the descriptor, or -1: somebody has it (EWOULDBLOCK), or errno. */
int mcg_ledger_lock(const char *directory);
/* The record of a session, held as long as the descriptor is open. -1: errno. */
int mcg_ledger_enter(const char *directory, const char *session);
/* Says when the session began and what a minute of it costs. -1: errno. */
int mcg_ledger_write(int record, double usd_per_minute);
/* It is still there: what a record that nobody holds is charged up to. */
void mcg_ledger_touch(int record);
/* Charges it and removes the record; the lock is held. -1: errno, and the record stays. */
int mcg_ledger_leave(const char *directory, const char *session, double usd, double minutes);
/* Says what it is to be charged, for whoever has the lock next. */
void mcg_ledger_bequeath(int record, double usd, double minutes);
/* Sums up. `mend`: charges what nobody holds any more; the lock is held. -1: errno. */
int mcg_ledger_sum(const char *directory, const mcg_quota *quota, bool mend, mcg_ledger_total *out);

#endif
