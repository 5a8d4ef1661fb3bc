/* health.c: what an engine saw of its candidates: whether the last sandbox could be made, and how
 * long that takes. It is for selectors; nothing is asked of a backend for it. */
#include "candidate.h"
#include <string.h>

#define REMEMBERED_NS (60 * 1000000000ull) /* a verdict older than this says nothing any more */
#define WEIGHT 0.3                         /* of the latest time among all */

struct mcg_health {
  struct mcg_health *next;
  const mcg_backend *backend;
  char *name;
  bool ok;
  uint64_t when;    /* uv_hrtime of the last attempt */
  double latency_s; /* 0: none succeeded yet */
};

static struct mcg_health *find(const mcg_engine *engine, const mcg_config *config)
{
  struct mcg_health *each = engine->healths;
  while (each && (each->backend != config->backend || strcmp(each->name, config->name) != 0))
    each = each->next;
  return each;
}

/* Without memory for it the candidate just stays unknown. */
void mcg_health_note(mcg_engine *engine, const mcg_config *config, bool ok, double seconds)
{
  struct mcg_health *known = find(engine, config);
  if (!known) {
    known = calloc(1, sizeof *known);
    char *name = known ? strdup(config->name) : NULL;
    if (!name) {
      free(known);
      return;
    }
    *known = (struct mcg_health){.next = engine->healths, .backend = config->backend, .name = name};
    engine->healths = known;
  }
  known->ok = ok;
  known->when = uv_hrtime();
  if (ok)
    known->latency_s =
        known->latency_s > 0 ? known->latency_s + WEIGHT * (seconds - known->latency_s) : seconds;
}

const char *mcg_health_of(mcg_engine *engine, const mcg_config *config, double *latency_s)
{
  const struct mcg_health *known = find(engine, config);
  *latency_s = known ? known->latency_s : 0;
  if (!known || uv_hrtime() - known->when > REMEMBERED_NS) return "unknown";
  return known->ok ? "ok" : "failing";
}

void mcg_healths_free(mcg_engine *engine)
{
  while (engine->healths) {
    struct mcg_health *gone = engine->healths;
    engine->healths = gone->next;
    free(gone->name);
    free(gone);
  }
}
