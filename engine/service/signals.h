/* signals.h: names of signals. */
#ifndef MCG_SIGNALS_H
#define MCG_SIGNALS_H

#include <stdio.h>

/* "SIGTERM"; "SIG35" into `room` for those that have no name. */
const char *mcg_signal_name(int number, char room[16]);
int mcg_signal_number(const char *name);  /* "SIGTERM", "term", "15"; 0: there is none such */
const char *const *mcg_signal_list(void); /* the usual ones, NULL-terminated */

#endif
