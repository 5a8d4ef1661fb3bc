/* rank.c: mcg_rank over a thousand candidates: where few meet the requirements, and where all do. */
#include "bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 1000

typedef struct rank_job {
  const mcg_candidates *candidates;
  const mcg_requirements *requirements;
  size_t least, most; /* how many have to fit: a figure of something else is worth nothing */
} rank_job;

static double rank_once(void *data)
{
  const rank_job *job = data;
  mcg_ranking *ranking = NULL;
  mcg_error *err = NULL;
  double start = bench_now_ms();
  if (mcg_rank(job->candidates, job->requirements, MCG_UNPRICED_LAST, &ranking, &err) < 0)
    bench_die("rank: %s", err->message);
  double took = bench_now_ms() - start;
  if (ranking->count < job->least || ranking->count > job->most)
    bench_die("rank: %zu fit", ranking->count);
  mcg_ranking_free(ranking);
  return took;
}

/* Eleven backends, prices in no order, one in six unpriced, one in forty with the rare capability. */
static mcg_candidates *make_candidates(void)
{
  static const char *const common[] = {"network", "pty", "snapshot", NULL};
  static const char *const rare[] = {"network", "pty", "snapshot", "gpu", NULL};
  static char names[MANY][8], backends[11][8];
  static mcg_facts facts[MANY];
  unsigned seed = 1;
  for (unsigned i = 0; i < 11; i++) snprintf(backends[i], sizeof backends[i], "b%u", i);
  for (unsigned i = 0; i < MANY; i++) {
    seed = seed * 1103515245u + 12345u;
    snprintf(names[i], sizeof names[i], "c%u", i);
    facts[i] = (mcg_facts){.size = sizeof facts[i],
                           .name = names[i],
                           .backend = backends[(seed >> 20) % 11],
                           .family = MCG_HOSTED,
                           .isolation = MCG_ISOLATION_CONTAINER + (seed >> 8) % 3,
                           .priced = (seed >> 12) % 6 != 0,
                           .usd_per_minute = (double)(seed >> 16) / 65536,
                           .persistent = (seed >> 10) % 2,
                           .capabilities = (seed >> 14) % 40 ? common : rare,
                           .region = (seed >> 18) % 2 ? "eu" : "us",
                           .memory_mb = 1024 << (seed >> 24) % 5};
  }
  mcg_candidates *made = NULL;
  mcg_error *err = NULL;
  if (mcg_candidates_new(facts, MANY, &made, &err) < 0) bench_die("rank: %s", err->message);
  return made;
}

static mcg_requirements *make_requirements(const char *json)
{
  mcg_requirements *made = NULL;
  mcg_error *err = NULL;
  if (mcg_requirements_new(json, strlen(json), &made, &err) < 0)
    bench_die("rank: %s", err->message);
  return made;
}

void bench_rank(unsigned rounds)
{
  mcg_candidates *candidates = make_candidates();
  mcg_requirements *few = make_requirements(
      "{\"network\":true,\"persistent\":true,\"capabilities\":[\"gpu\"],\"region\":\"eu\","
      "\"min_isolation\":\"container\",\"not_backends\":[\"b3\"],\"max_usd_per_minute\":0.9}");
  mcg_requirements *all =
      make_requirements("{\"network\":true,\"min_isolation\":\"container\",\"pty\":true}");
  rank_job few_match = {candidates, few, 1, 50}, all_match = {candidates, all, MANY, MANY};
  bench_variant variants[] = {{"mcg_rank of 1000, few match", rank_once, &few_match},
                              {"mcg_rank of 1000, all match", rank_once, &all_match}};
  bench_interleave("rank", "", variants, 2, rounds, 0, NULL);
  mcg_requirements_free(few);
  mcg_requirements_free(all);
  mcg_candidates_free(candidates);
}
