/* probe.h: `mooncage-init probe`: tries what sandboxes are made with, each in a process of its own, and
 * says how it went on its standard output, one line each:
 *
 *   NAME TAB ok|no|off TAB ERRNO TAB DETAIL
 *
 * `off`: not for this user or this machine, and nothing is wrong. */
#ifndef MCG_INIT_PROBE_H
#define MCG_INIT_PROBE_H

#include <stddef.h>

#define MCG_PROBE_OFF (-1)
#define MCG_PROBE_DETAIL 200

/* 0: it works; an errno: it does not; MCG_PROBE_OFF. Says in `detail` what was tried, or why not. Runs in
 * a process that is thrown away afterwards, with all it has changed. */
typedef struct mcg_trial {
  const char *name;
  int (*run)(char detail[MCG_PROBE_DETAIL]);
} mcg_trial;

extern const mcg_trial mcg_trials[]; /* ended by a name of NULL */

/* detail = text; returns errno as it is. */
int mcg_trial_failed(char detail[MCG_PROBE_DETAIL], const char *what);
int mcg_probe_main(void);

#endif
