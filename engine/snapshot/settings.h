/* settings.h: what a configuration says of snapshots: the keys `snapshot_store`, `snapshot`, and
 * `store_prefix`, which a tenant may be given. */
#ifndef MCG_SNAPSHOT_SETTINGS_H
#define MCG_SNAPSHOT_SETTINGS_H

#include "store.h"

struct mcg_config;

typedef enum mcg_restore_when {
  MCG_RESTORE_IF_EXISTS,
  MCG_RESTORE_REQUIRED,
  MCG_RESTORE_NEVER
} mcg_restore_when;
typedef enum mcg_save_when { MCG_SAVE_ON_SUCCESS, MCG_SAVE_ALWAYS, MCG_SAVE_NEVER } mcg_save_when;
typedef enum mcg_on_mismatch {
  MCG_MISMATCH_ERROR,
  MCG_MISMATCH_WARN,
  MCG_MISMATCH_IGNORE
} mcg_on_mismatch;

typedef struct mcg_snapshots {
  const json_t *options; /* of the store, borrowed; NULL: the default one */
  mcg_store *store;      /* owned, once it was needed */
  char part[MCG_STORE_PART_MAX];
  const char *id; /* that the session begins with, and leaves; NULL: none */
  mcg_restore_when restore;
  mcg_save_when save;
  mcg_on_mismatch on_mismatch;
  const json_t *exclude; /* a list of patterns; NULL: none */
  uint64_t max_bytes;
} mcg_snapshots;

/* All of it is judged; opens nothing on the disk. config->tenant and its binds are known. */
int mcg_snapshots_read(mcg_engine *engine, struct mcg_config *config, mcg_error **err);
void mcg_snapshots_fini(mcg_snapshots *snapshots);
/* The store of a configuration, made when first asked for, apart from its sandbox. */
int mcg_snapshots_store(mcg_engine *engine, struct mcg_config *config, mcg_store **out,
                        mcg_error **err);
/* No bind, project or working directory lets the sandbox change what is in the store. */
int mcg_snapshots_apart(const struct mcg_config *config, const mcg_store *store,
                        const mcg_where *where, mcg_error **err);
/* "error", "warn", "ignore", and a list of patterns: also of a single call. */
int mcg_mismatch_read(const json_t *value, const mcg_where *where, mcg_on_mismatch *out,
                      mcg_error **err);
int mcg_exclude_check(const json_t *list, const mcg_where *where, mcg_error **err);

#endif
