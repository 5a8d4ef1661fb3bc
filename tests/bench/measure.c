/* measure.c: clocks, turns and medians. Rows are tab-separated for tests/bench/table.lua. */
#include "bench.h"
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

double bench_now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

void bench_die(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  fputs("bench: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(1);
}

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double quantile(const double *sorted, unsigned n, double q)
{
  double at = q * (n - 1);
  unsigned below = (unsigned)at;
  if (below + 1 >= n) return sorted[n - 1];
  return sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]);
}

/* Another order each round: what one variant leaves the kernel to clean up falls on all the others alike,
 * and not always on the one that comes next. The same orders in every run. */
static void shuffle(size_t *order, size_t count, uint32_t *seed)
{
  for (size_t i = count; i > 1; i--) {
    *seed = *seed * 1664525u + 1013904223u;
    size_t other = (*seed >> 8) % i, was = order[i - 1];
    order[i - 1] = order[other];
    order[other] = was;
  }
}

void bench_interleave(const char *section, const char *program, const bench_variant *variants,
                      size_t count, unsigned rounds, unsigned pause_ms, void (*wait)(unsigned ms))
{
  double *times = calloc(count * rounds, sizeof *times);
  size_t *order = calloc(count, sizeof *order);
  uint32_t seed = 1;
  if (!times || !order) bench_die("out of memory");
  for (size_t v = 0; v < count; v++) order[v] = v;
  for (unsigned round = 0; round < rounds + 2; round++) { /* the first two warm caches */
    shuffle(order, count, &seed);
    for (size_t i = 0; i < count; i++) {
      size_t v = order[i];
      if (pause_ms) wait(pause_ms);
      double took = variants[v].once(variants[v].data);
      if (round >= 2) times[v * rounds + round - 2] = took;
    }
  }
  for (size_t v = 0; v < count; v++) {
    double *own = times + v * rounds;
    qsort(own, rounds, sizeof *own, by_size);
    printf("time\t%s\t%s\t%s\t%u\t%u\t%.4f\t%.4f\t%.4f\n", section, variants[v].name, program,
           pause_ms, rounds, quantile(own, rounds, 0.5), quantile(own, rounds, 0.95), own[0]);
  }
  fflush(stdout);
  free(order);
  free(times);
}

void bench_figure(const char *section, const char *name, const char *program, double value,
                  const char *unit)
{
  printf("figure\t%s\t%s\t%s\t%.4f\t%s\n", section, name, program, value, unit);
  fflush(stdout);
}
