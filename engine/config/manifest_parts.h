/* manifest_parts.h: the manifest taken apart, shared by manifest.c (reads it) and manifest_apply.c. */
#ifndef MCG_MANIFEST_PARTS_H
#define MCG_MANIFEST_PARTS_H

#include "manifest.h"

typedef enum mcg_entry_kind {
  MCG_ENTRY_DIRECTORY,
  MCG_ENTRY_COPY,
  MCG_ENTRY_ARCHIVE,
  MCG_ENTRY_GIT,
  MCG_ENTRY_FILE /* in the order in which they are applied */
} mcg_entry_kind;

typedef struct mcg_manifest_entry {
  mcg_entry_kind kind;
  bool ephemeral;
  unsigned mode;
  char *path;   /* in the workspace */
  char *source; /* of a copy or archive: beneath base; of git: the URL */
  char *ref;    /* of git; NULL: the default branch */
  unsigned depth;
  char *bytes; /* of a file */
  size_t len;
} mcg_manifest_entry;

struct mcg_manifest {
  char *base; /* absolute */
  mcg_manifest_entry *entries;
  size_t count, cap;
  char **environment; /* NULL-terminated */
  size_t environment_count;
  mcg_user *users; /* names and homes are owned */
  size_t user_count;
  struct json_t *canonical; /* what is hashed: the value, secrets by name only */
};

/* manifest_users.c */
struct mcg_where;
int mcg_manifest_read_users(mcg_manifest *manifest, const struct json_t *value,
                            const struct mcg_where *root, mcg_error **err);

#endif
