/* config.h: one JSON text, judged and resolved into a plan for one sandbox. */
#ifndef MCG_CONFIG_H
#define MCG_CONFIG_H

#include "engine.h"
#include "decide/select.h"
#include "egress/policy.h"
#include "snapshot/settings.h"

typedef struct mcg_config {
  json_t *root; /* what was given; the strings below and in the plan are borrowed from it */
  const mcg_backend *backend;
  mcg_plan plan; /* session_id is set by whoever opens */
  const char *name, *tenant, *run_id, *user;
  const json_t *labels; /* or NULL */
  char **environment;   /* owned, NULL-terminated "NAME=value" */
  mcg_bind *binds;      /* owned: plan.binds */
  char **bind_texts;    /* owned: what "SRC:DST" was cut into, and targets */
  size_t bind_text_count;
  char *directory;                  /* owned: plan.working_directory */
  json_t *no_options;               /* owned: what plan.options is when none were given */
  unsigned max_sessions, pool_size; /* 0: no limit, no pool */
  const char *within; /* a tenant's own: the candidate that its sessions count with, too; or NULL */
  unsigned within_max;           /* the max_sessions of that one */
  int64_t ttl_ms;                /* 0: none */
  struct mcg_manifest *manifest; /* owned, or NULL */
  unsigned hooks;                /* mcg_hook bits: those the host has */
  int64_t hook_ms;               /* what one may take */
  mcg_policy *policy;            /* owned: of plan.network where that is open or rules; or NULL */
  struct mcg_sinks *audit;       /* owned: where its events go */
  mcg_snapshots snapshots;
  mcg_error *refused; /* owned; it cannot keep what was written; or NULL */
  mcg_traits traits;  /* of the candidate */
  mcg_requirements requirements;
  bool priced;
  const char *cost_source;     /* if priced: "candidate", or "backend" */
  double usd_per_minute;       /* if priced */
  const json_t *tags;          /* or NULL */
  const json_t *allowed_tools; /* a list of names; NULL: all */
  bool guarded;                /* no command runs without the host's word */
} mcg_config;

/* All of it or nothing. Unknown keys, wrong types and ranges: `invalid`; what this candidate cannot
 * give: `no_candidate`, `unenforceable`, `unsupported`. */
int mcg_config_read(mcg_engine *engine, const char *text, size_t len, mcg_config **out,
                    mcg_error **err);
/* The same of what was parsed already, but for the requirements, which are read and not judged; and
 * where the candidate cannot keep what was written, 0 is returned and config->refused is why.
 * `take_root` is taken, also on failure. `where` is the place that its `backend` was written at, where
 * that is another; else NULL. */
int mcg_config_plan(mcg_engine *engine, json_t *take_root, const mcg_where *where, mcg_config **out,
                    mcg_error **err);
void mcg_config_free(mcg_config *config);
/* A key that may be missing: then *out stays. */
int mcg_optional_string(const json_t *object, const char *key, const mcg_where *up,
                        const char **out, mcg_error **err);
int mcg_optional_number(const json_t *object, const char *key, const mcg_where *up, double low,
                        double high, bool whole, double *out, mcg_error **err);
int mcg_pool_size_read(const json_t *pool, const mcg_where *up, unsigned *out, mcg_error **err);

/* limits.c: {"memory_mb":...} over the defaults of the backend. */
int mcg_limits_read(const json_t *limits, const mcg_where *where, mcg_limits *out, mcg_error **err);
void mcg_limits_default(
    mcg_limits *limits); /* what was not written, for a backend that can limit */
/* `unenforceable` with a fix when a limit was written that only a sandbox can keep. */
int mcg_limits_refuse_written(const mcg_limits *limits, const char *backend, mcg_error **err);
json_t *mcg_limits_json(const mcg_limits *limits); /* those that are in force, by their keys */
/* network.c: "none", "host", "open" or a table of rules. NULL: it was not said, and is none. The policy
 * is the caller's; NULL for NULL and for "host". */
int mcg_network_read(const json_t *network, const mcg_where *where, mcg_network *out,
                     mcg_policy **policy, mcg_error **err);
int mcg_network_open(mcg_policy **policy, mcg_error **err); /* that of "open" */
/* `unenforceable`: the network that was written, or holds by default, is none that this backend gives. */
int mcg_network_refuse(const json_t *network, mcg_network which, const mcg_backend *backend,
                       const char *name, mcg_error **err);
/* environment.c: a table of names and values to "NAME=value" strings, later ones over earlier ones. */
int mcg_environment_read(const json_t *environment, const mcg_where *where, char ***list,
                         mcg_error **err);
int mcg_environment_set(char ***list, const char *text, size_t len, mcg_error **err);
/* Where programs find whom to believe, for those that do not look into /etc/ssl; what is set stays. */
int mcg_environment_trust(char ***list, mcg_error **err);
bool mcg_environment_name_ok(const char *text, size_t len);
void mcg_environment_free(char **list);

#endif
