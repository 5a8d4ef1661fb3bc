/* store_part.h: one part of a file store: a directory. Everything here blocks: it is called on a worker's
 * thread, with its own copies of everything.
 *
 *   DIR/PART/ID.json             metadata, sealed; it names the data
 *   DIR/PART/data/ID.RANDOM      data, never written again once it has this name
 *   DIR/PART/data/ID.RANDOM.new  data that is being written; whoever writes it holds its flock
 *   DIR/PART/.ID.RANDOM          metadata that is being written
 *   DIR/PART/.lock               held by flock while a metadata file is replaced or removed
 *
 * The rename of ID.json is the moment at which a save has happened. */
#ifndef MCG_STORE_PART_H
#define MCG_STORE_PART_H

#include "store.h"

#define MCG_DATA_NAME_MAX 192

typedef struct mcg_part {
  const char *directory; /* borrowed: of the store */
  const char *name;
  const mcg_hmac_key *key; /* what metadata is sealed with; NULL: anybody could */
  int fd, data_fd;         /* -1: not open */
} mcg_part;

/* `make`: it is made where it is missing. `not_found` else. */
int mcg_part_open(mcg_part *part, bool make, mcg_error **err);
void mcg_part_close(mcg_part *part);

/* A new data file, locked; its name without ".new" into `name`. */
int mcg_part_create(const mcg_part *part, const char *id, char name[MCG_DATA_NAME_MAX], int *fd,
                    mcg_error **err);
/* It is whole and its bytes are written: syncs it, and makes it the data of `id`. */
int mcg_part_commit(const mcg_part *part, const char *id, const char *name, int fd,
                    json_t *metadata, mcg_error **err);
void mcg_part_discard(const mcg_part *part, const char *name); /* what was not committed */

/* Verified but for the data. `metadata` has "data" yet. */
int mcg_part_read(const mcg_part *part, const char *id, json_t **metadata, mcg_error **err);
/* The same, and its data, open for reading. */
int mcg_part_open_data(const mcg_part *part, const char *id, json_t **metadata, int *fd,
                       mcg_error **err);
int mcg_part_remove(const mcg_part *part, const char *id, mcg_error **err);
int mcg_part_list(const mcg_part *part, const char *prefix, json_t **out, mcg_error **err);
/* Adds the names of what it removes (`dry_run`: would remove) to the list. */
int mcg_part_sweep(const mcg_part *part, bool dry_run, json_t *out, mcg_error **err);

/* Takes what is the store's own out of metadata. */
void mcg_part_strip(json_t *metadata);

#endif
