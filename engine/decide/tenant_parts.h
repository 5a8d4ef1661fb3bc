/* tenant_parts.h: what the files of tenant.h share. */
#ifndef MCG_TENANT_PARTS_H
#define MCG_TENANT_PARTS_H

#include "tenant.h"

typedef struct mcg_merge {
  mcg_engine *engine;
  json_t *root; /* the result */
  mcg_quota *quota;
} mcg_merge;

/* `invalid`, of the key of this path. Returns -1. */
int mcg_tenant_looser(const char *key, mcg_error **err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Takes the value, also on failure: `nomem`. NULL is one. */
int mcg_tenant_set(json_t *object, const char *key, json_t *take_value, mcg_error **err);
bool mcg_tenant_in_list(const json_t *list, const json_t *value);

/* The rules of three keys, in this order: what is chosen is given options after. tenant_candidates.c */
int mcg_tenant_candidates(mcg_merge *m, const json_t *given, const mcg_where *where,
                          mcg_error **err);
int mcg_tenant_credentials(mcg_merge *m, const json_t *given, const mcg_where *where,
                           mcg_error **err);
int mcg_tenant_namespace(mcg_merge *m, const json_t *given, const mcg_where *where,
                         mcg_error **err);

#endif
