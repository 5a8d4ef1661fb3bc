/* measure.c: clocks, turns and medians. Rows are tab-separated for tests/bench/table.lua. */
#include "bench.h"
#include <stdarg.h>
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

void bench_interleave(const char *section, const char *program, const bench_variant *variants,
                      size_t count, unsigned rounds, unsigned pause_ms, void (*wait)(unsigned ms))
{
  double *times = calloc(count * rounds, sizeof *times);
  if (!times) bench_die("out of memory");
  for (unsigned round = 0; round < rounds + 2; round++) { /* the first two warm caches */
    for (size_t v = 0; v < count; v++) {
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
  free(times);
}

void bench_figure(const char *section, const char *name, const char *program, double value,
                  const char *unit)
{
  printf("figure\t%s\t%s\t%s\t%.4f\t%s\n", section, name, program, value, unit);
  fflush(stdout);
}
