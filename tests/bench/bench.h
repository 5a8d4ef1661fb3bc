/* bench.h: the driver's parts. measure.c runs variants in turn and prints what it saw; peers.c starts
 * other programs; sandbox.c drives libmooncage as any C host would. */
#ifndef BENCH_H
#define BENCH_H

#include <mooncage/mooncage.h>

/* Does the thing once; returns how long it took in milliseconds. Leaves by bench_die when it failed:
 * a figure of something that did not work is worth nothing. */
typedef double (*bench_once)(void *data);

typedef struct bench_variant {
  const char *name;
  bench_once once;
  void *data;
} bench_variant;

double bench_now_ms(void);
void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Runs every variant once a round, `rounds` times, `pause_ms` before each; prints a row for each:
 * section, variant, program, pause, n, median, p95, min. `wait` passes the pauses. */
void bench_interleave(const char *section, const char *program, const bench_variant *variants,
                      size_t count, unsigned rounds, unsigned pause_ms, void (*wait)(unsigned ms));
/* One figure that is no series. */
void bench_figure(const char *section, const char *name, const char *program, double value,
                  const char *unit);

/* peers.c: argv as data, until the program has been waited for. */
double peer_spawn(void *argv);
/* Reads the program's stdout through a pipe of F_SETPIPE_SZ `pipe_size`; returns MB/s. */
double peer_pipe(char **argv, int pipe_size);

void bench_rank(unsigned rounds);  /* rank.c: choosing among a thousand candidates */
void bench_audit(unsigned rounds); /* audit.c: making events, and a durable log */

/* sandbox.c */
typedef struct sandbox sandbox;
typedef struct sandbox_job {
  const char *config; /* JSON for mcg_session_open */
  const char *const *argv;
} sandbox_job;
void sandbox_engine_open(void);
void sandbox_engine_close(void);
void sandbox_wait(unsigned ms);       /* turns the loop meanwhile */
double sandbox_cold(void *job);       /* open + exec + close */
double sandbox_cold_reply(void *job); /* the same until the result is there */
mcg_session *sandbox_open(const char *config);
void sandbox_close(mcg_session *session);
typedef struct sandbox_warm_job {
  mcg_session *session;
  const char *const *argv;
} sandbox_warm_job;
double sandbox_warm(void *job); /* exec in a live session */
/* Dies unless the session's enforcement says that every mechanism is in force; prints it. */
void sandbox_check_enforcement(mcg_session *session);
/* stdout of `argv`, which writes `bytes`, through the engine with default capture; MB/s. */
double sandbox_stream(mcg_session *session, const char *const *argv, uint64_t bytes);

#endif
