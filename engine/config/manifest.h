/* manifest.h: what is to be in a workspace, as the config key "manifest" says it.
 *
 * { "files":       { PATH: TEXT | { "content": TEXT, "mode": "0644", "ephemeral": true } },
 *   "directories": [ PATH | { "path": PATH, "mode": "0755", "ephemeral": true } ],
 *   "base":        HOST DIRECTORY that copies and archives must lie in; default: the engine's cwd
 *   "copies":      [ { "from": PATH IN base, "to": PATH, "ephemeral": true } ],
 *   "archives":    [ { "from": PATH IN base, "to": PATH, "ephemeral": true } ],
 *   "git":         [ { "url": URL, "to": PATH, "ref": NAME, "depth": 1, "ephemeral": true } ],
 *   "environment": { NAME: VALUE | { "secret": VALUE } },
 *   "users":       [ { "name": NAME, "uid": N, "gid": N, "home": ABSOLUTE PATH } ] }
 *
 * Applied in the order directories, copies, archives, git, files: what is written out in the manifest
 * has the last word. What is ephemeral is not kept with a snapshot, and is applied again after one was
 * restored. Secrets are not part of the hash. Users are made with the sandbox, by its backend. */
#ifndef MCG_MANIFEST_H
#define MCG_MANIFEST_H

#include "stream/stream.h"

typedef struct mcg_manifest mcg_manifest;

/* NULL on error: `invalid` naming the key. */
mcg_manifest *mcg_manifest_parse(const struct json_t *value, mcg_error **err);
void mcg_manifest_free(mcg_manifest *manifest);
/* SHA-256 over the canonical manifest: keys sorted, secrets by name only; 64 hex digits. */
int mcg_manifest_hash(const mcg_manifest *manifest, char out[65], mcg_error **err);
/* "NAME=value" pairs, NULL-terminated, borrowed. */
const char *const *mcg_manifest_environment(const mcg_manifest *manifest);
/* Users that commands may run as, borrowed; count 0 where none are asked for. */
const mcg_user *mcg_manifest_users(const mcg_manifest *manifest, size_t *count);

/* Another place to take from: what the manifest needs beyond its own sandbox. A host directory, opened
 * unconfined by a plain init beneath it, or a throw-away jail on the host's network. */
typedef struct mcg_manifest_sources {
  int (*host)(void *data, const char *directory, mcg_stream **out, mcg_error **err);
  int (*fetcher)(void *data, mcg_stream **out, mcg_error **err);
  void (*done)(void *data, mcg_stream *stream); /* of either */
  void *data;
} mcg_manifest_sources;

int mcg_manifest_apply(mcg_engine *engine, const mcg_manifest *manifest, bool ephemeral_only,
                       mcg_stream *stream, const mcg_manifest_sources *sources,
                       mcg_error **err) MCG_PARKS;

#endif
