/* store.h: a place for snapshots: what every kind of it can do. One file a kind, and its table here.
 *
 * A store has parts, each with a name that is one safe component (mcg_store_part_*). A part never shows
 * what is in another: what belongs to one tenant is in that one's. In a part a snapshot has an id, its
 * data (bytes, whatever they are) and its metadata. Saving replaces what the id had, all of it or
 * nothing of it, also for those who save at the same time.
 *
 * Functions that park run on a fiber. `metadata` is a json_t object; what the kind itself keeps in it
 * (where the data is, the seal) is not in what it gives out. */
#ifndef MCG_STORE_H
#define MCG_STORE_H

#include "config/check.h"
#include "fiber.h"
#include "service/sha256.h"

#define MCG_SNAPSHOT_ID_MAX 128
#define MCG_STORE_PART_MAX 80

typedef struct mcg_store mcg_store;
typedef struct mcg_put mcg_put;
typedef struct mcg_get mcg_get;

typedef struct mcg_store_type {
  const char *name;
  void (*close)(mcg_store *store);
  /* Saving, in this order; put_end exactly once, whatever came before: it frees. */
  int (*put_begin)(mcg_store *store, const char *part, const char *id, mcg_put **out,
                   mcg_error **err) MCG_PARKS;
  bool (*put)(mcg_put *put, const void *bytes, size_t len); /* from the loop; false: put->failure */
  bool (*put_ready)(const mcg_put *put);                    /* false: wait for on_ready */
  /* All of it is there: now, and only now, it takes the place of what was there. Adds version,
   * size_bytes and sha256 to the metadata. */
  int (*put_commit)(mcg_put *put, json_t *metadata, mcg_error **err) MCG_PARKS;
  void (*put_end)(mcg_put *put); /* parks */
  /* Opens it for reading. Everything was verified: data and metadata are what was saved. */
  int (*get_begin)(mcg_store *store, const char *part, const char *id, json_t **metadata,
                   mcg_get **out, mcg_error **err) MCG_PARKS;
  long (*get)(mcg_get *get, void *buffer, size_t cap, mcg_error **err) MCG_PARKS; /* 0: the end */
  void (*get_end)(mcg_get *get);
  /* `not_found` where there is none. */
  int (*show)(mcg_store *store, const char *part, const char *id, json_t **metadata,
              mcg_error **err) MCG_PARKS;
  int (*remove)(mcg_store *store, const char *part, const char *id, mcg_error **err) MCG_PARKS;
  /* In order of ids; those that begin with the prefix. */
  int (*list)(mcg_store *store, const char *part, const char *prefix, json_t **out,
              mcg_error **err) MCG_PARKS;
  /* Removes what saves that were cut short have left; *out: a list of names. */
  int (*sweep)(mcg_store *store, const char *part, bool dry_run, json_t **out,
               mcg_error **err) MCG_PARKS;
} mcg_store_type;

struct mcg_store {
  const mcg_store_type *type;
  mcg_engine *engine;
};

struct mcg_put {
  mcg_store *store;
  uint64_t size, max; /* bytes so far; and that it may have: beyond, put fails with `quota` */
  void (*on_ready)(void *data); /* from the loop, when put_ready has become true; or NULL */
  void *data;
  mcg_error *failure; /* owned: why put() said false; or NULL */
};

struct mcg_get {
  mcg_store *store;
};

/* Letters, digits, '.', '_' and '-', 1 to 128 of them, the first a letter or digit; else `invalid`. */
int mcg_snapshot_id_check(const char *id, size_t len, mcg_error **err);
/* The part of a tenant (NULL: of nobody's sessions); or, where there is a prefix, that one's. */
void mcg_store_part(const char *tenant, const char *prefix, char out[MCG_STORE_PART_MAX]);
/* Letters, digits, '.', '_' and '-', 1 to 64, as above. */
int mcg_store_prefix_check(const json_t *prefix, const mcg_where *where, mcg_error **err);

/* The store that the key `snapshot_store` means (NULL: the default one). Nothing is opened yet. */
int mcg_store_open(mcg_engine *engine, const json_t *options, const mcg_where *where,
                   mcg_store **out, mcg_error **err);
void mcg_store_close(mcg_store *store); /* NULL is fine */
/* Where it is on this host's disk, borrowed; NULL: elsewhere. */
const char *mcg_store_directory(const mcg_store *store);

/* Puts all that `source` gives (as in mcg_workspace_restore); parks while the store is busy. */
int mcg_put_all(mcg_put *put, long (*source)(void *data, void *buffer, size_t cap), void *data,
                mcg_error **err) MCG_PARKS;
int mcg_put_failed(mcg_put *put, mcg_error **err); /* moves put->failure there; -1 */

/* store_file.c */
int mcg_store_file_open(mcg_engine *engine, const json_t *options, const mcg_where *where,
                        mcg_store **out, mcg_error **err);
const char *mcg_store_file_directory(const mcg_store *store);

#endif
