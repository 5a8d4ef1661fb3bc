/* select.h: requirements and candidates, for the engine's own files. The matching is in select.c. */
#ifndef MCG_SELECT_H
#define MCG_SELECT_H

#include "config/check.h"

struct mcg_requirements {
  json_t *root; /* owned; the strings and lists below are borrowed from it */
  int network;  /* -1: either; 0: must run with it denied; 1: must reach it */
  bool persistent, pty;
  mcg_isolation min_isolation;
  double memory_mb, cpu_count; /* 0: no matter */
  bool capped;
  double max_usd_per_minute;                            /* if capped */
  const char *region;                                   /* or NULL */
  const json_t *capabilities, *backends, *not_backends; /* lists of names, or NULL */
};

/* requirements.c. `value` may be NULL: nothing is required. */
int mcg_requirements_read(const json_t *value, const mcg_where *where, mcg_requirements *out,
                          mcg_error **err);
void mcg_requirements_fini(mcg_requirements *requirements);

/* The key of the requirement that the candidate at `index` does not meet; NULL: it fits. */
const char *mcg_ranking_key(const mcg_ranking *ranking, const mcg_candidates *candidates,
                            const mcg_requirements *requirements, size_t index);

extern const char *const mcg_isolation_names[]; /* NULL-terminated, in order of strength */
extern const char *const mcg_family_names[];    /* NULL-terminated */

#endif
