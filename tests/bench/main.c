/* bench: measures libmooncage's jail beside other ways to run a program, in turns (A B A B ...), back to
 * back and with pauses. tests/bench/run starts it with all it needs and makes docs/bench.md of its rows.
 *
 *   bench PROGRAMS COMMAND BUNDLE [quick|warm|cold|stdout|crowd|rank|audit]
 *
 * PROGRAMS holds the static programs, COMMAND is the built `mooncage`, BUNDLE an OCI bundle for each of
 * crun and runc (BUNDLE/musl, BUNDLE/glibc). A peer that is not installed has no row. `warm`, `cold`,
 * `stdout` and `crowd` run that alone, many times beside its peer: for strace, perf and for changing one thing;
 * `rank` runs what needs no sandbox, `audit` what is measured of the log. */
#include "bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM_PATHS 512
static const char *programs, *command, *bundle;
static unsigned rounds_tight = 60, rounds_spaced = 30;
static const unsigned pause_ms = 100;

/* One flavour of `true`: its names outside and inside, and the ways to run it. */
typedef struct flavour {
  const char *name;
  char host_path[PROGRAM_PATHS], bundle_path[PROGRAM_PATHS], crun_id[32], runc_id[32];
} flavour;

static const char *find(const char *const *candidates)
{
  for (; *candidates; candidates++)
    if (access(*candidates, X_OK) == 0) return *candidates;
  return NULL;
}

static void flavour_init(flavour *f, const char *name)
{
  f->name = name;
  snprintf(f->host_path, sizeof f->host_path, "%s/true-%s", programs, name);
  snprintf(f->bundle_path, sizeof f->bundle_path, "%s/%s", bundle, name);
  snprintf(f->crun_id, sizeof f->crun_id, "bench-crun-%d", (int)getpid());
  snprintf(f->runc_id, sizeof f->runc_id, "bench-runc-%d", (int)getpid());
}

/* The default jail, with the directory of the programs put in read-only. Limits are written, so that
 * an open that could not enforce them would fail. */
static const char *jail_config(const char *more)
{
  static char text[2048];
  snprintf(text, sizeof text,
           "{\"backend\":{\"id\":\"jail\",\"options\":{\"binds\":[{\"source\":\"%s\","
           "\"target\":\"/mnt\"}]}},"
           "\"audit\":false,\"limits\":{\"memory_mb\":512,\"pid_limit\":128,\"cpu_count\":2,\"disk_"
           "mb\":128}%s}",
           programs, more);
  return text;
}

static void inside(const flavour *f, char out[PROGRAM_PATHS])
{
  snprintf(out, PROGRAM_PATHS, "/mnt/true-%s", f->name);
}

static void compare(const flavour *f, unsigned rounds, unsigned pause)
{
  char in_jail[PROGRAM_PATHS];
  inside(f, in_jail);
  char *spawn[] = {(char *)f->host_path, NULL};
  char *bwrap[] = {(char *)find((const char *[]){"/usr/bin/bwrap", NULL}),
                   "--unshare-all",
                   "--die-with-parent",
                   "--new-session",
                   "--ro-bind",
                   "/usr",
                   "/usr",
                   "--symlink",
                   "usr/bin",
                   "/bin",
                   "--symlink",
                   "usr/lib",
                   "/lib",
                   "--symlink",
                   "usr/lib64",
                   "/lib64",
                   "--proc",
                   "/proc",
                   "--dev",
                   "/dev",
                   "--tmpfs",
                   "/tmp",
                   "--ro-bind",
                   (char *)programs,
                   "/mnt",
                   "--",
                   in_jail,
                   NULL};
  char *crun[] = {(char *)find((const char *[]){"/usr/bin/crun", NULL}),
                  "run",
                  "--bundle",
                  (char *)f->bundle_path,
                  (char *)f->crun_id,
                  NULL};
  char *runc[] = {(char *)find((const char *[]){"/usr/sbin/runc", "/usr/bin/runc", NULL}),
                  "run",
                  "--bundle",
                  (char *)f->bundle_path,
                  (char *)f->runc_id,
                  NULL};
  char *whole[] = {(char *)command, "run", "--bind", NULL, "--", in_jail, NULL};
  char bind[PROGRAM_PATHS + 16];
  snprintf(bind, sizeof bind, "%s:/mnt", programs);
  whole[3] = bind;

  sandbox_job job = {strdup(jail_config("")), (const char *const[]){in_jail, NULL}};
  mcg_session *live = sandbox_open(job.config);
  sandbox_warm_job warm = {live, job.argv};

  bench_variant warmed[] = {{"posix_spawn", peer_spawn, spawn},
                            {"mooncage warm", sandbox_warm, &warm}};
  bench_interleave("warm", f->name, warmed, 2, 2 * rounds, pause, sandbox_wait);
  sandbox_close(live);

  bench_variant variants[9];
  size_t count = 0;
  variants[count++] = (bench_variant){"mooncage cold", sandbox_cold, &job};
  variants[count++] = (bench_variant){"mooncage cold, to reply", sandbox_cold_reply, &job};
  if (bwrap[0]) variants[count++] = (bench_variant){"bwrap", peer_spawn, bwrap};
  variants[count++] = (bench_variant){"mooncage run", peer_spawn, whole};
  if (crun[0]) variants[count++] = (bench_variant){"crun", peer_spawn, crun};
  if (runc[0]) variants[count++] = (bench_variant){"runc", peer_spawn, runc};
  bench_interleave("one", f->name, variants, count, rounds, pause, sandbox_wait);
  free((void *)job.config);
}

/* Sandboxes that were parked ahead, as many as are taken: an empty pool would be a cold start. Apart from
 * the others, because it fills itself again in the background, which is nobody else's cost. */
static void pooled(const flavour *f, unsigned rounds, unsigned pause)
{
  char in_jail[PROGRAM_PATHS];
  inside(f, in_jail);
  char *spawn[] = {(char *)f->host_path, NULL};
  char pool[64];
  snprintf(pool, sizeof pool, ",\"pool\":{\"size\":%u}", 2 * rounds + 8);
  sandbox_job job = {strdup(jail_config(pool)), (const char *const[]){in_jail, NULL}};
  sandbox_cold(&job);
  sandbox_wait(20 * rounds + 500); /* until it is full */
  bench_variant variants[] = {{"posix_spawn", peer_spawn, spawn},
                              {"mooncage pool, to reply", sandbox_cold_reply, &job},
                              {"mooncage pool", sandbox_cold, &job}};
  bench_interleave("pool", f->name, variants, 3, rounds, pause, sandbox_wait);
  free((void *)job.config);
}

static void alone(const flavour *f, bool warm_only, unsigned rounds)
{
  char in_jail[PROGRAM_PATHS];
  inside(f, in_jail);
  char *spawn[] = {(char *)f->host_path, NULL};
  sandbox_job job = {strdup(jail_config("")), (const char *const[]){in_jail, NULL}};
  sandbox_warm_job warm = {sandbox_open(job.config), job.argv};
  bench_variant variants[] = {{"posix_spawn", peer_spawn, spawn},
                              {warm_only ? "mooncage warm" : "mooncage cold",
                               warm_only ? sandbox_warm : sandbox_cold,
                               warm_only ? (void *)&warm : (void *)&job}};
  bench_interleave("one", f->name, variants, 2, rounds, 0, sandbox_wait);
  sandbox_close(warm.session);
  free((void *)job.config);
}

static double available_kib(void)
{
  double kib = 0;
  char line[256];
  FILE *file = fopen("/proc/meminfo", "re");
  if (!file) bench_die("cannot read /proc/meminfo");
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "MemAvailable: %lf", &kib) == 1) break;
  fclose(file);
  return kib;
}

/* Many live sandboxes: what each takes, and how much slower one more is than the first. */
static void crowd(unsigned many)
{
  mcg_session **sessions = calloc(many, sizeof *sessions);
  if (!sessions) bench_die("out of memory");
  sandbox_job job = {strdup(jail_config("")), (const char *const[]){"/mnt/true-musl", NULL}};
  bench_variant cold = {"mooncage cold, empty engine", sandbox_cold, &job};
  bench_interleave("crowd", "musl", &cold, 1, rounds_tight, 0, sandbox_wait);
  sandbox_wait(2000);
  double before = available_kib(), start = bench_now_ms();
  for (unsigned i = 0; i < many; i++) sessions[i] = sandbox_open(job.config);
  bench_figure("crowd", "open, each", "", (bench_now_ms() - start) / many, "ms");
  sandbox_wait(2000);
  bench_figure("crowd", "memory, each", "", (before - available_kib()) / many, "KiB");
  cold.name = "mooncage cold, crowded engine";
  bench_interleave("crowd", "musl", &cold, 1, rounds_tight, 0, sandbox_wait);
  for (unsigned i = 0; i < many; i++) sandbox_close(sessions[i]);
  bench_figure("crowd", "live sandboxes", "", many, "");
  free(sessions);
  free((void *)job.config);
}

static double resident_kib(void)
{
  double pages = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (!file || fscanf(file, "%*s %lf", &pages) != 1) bench_die("cannot read /proc/self/statm");
  fclose(file);
  return pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

typedef struct stream_job {
  mcg_session *session;
  const char *const *inside;
  char **outside;
  uint64_t bytes;
} stream_job;

/* In turns, a plain pipe of the size the engine's pipes have. MB/s, medians by table.lua. */
static void stream(unsigned rounds, unsigned mebibytes)
{
  char amount[16], path[PROGRAM_PATHS];
  snprintf(amount, sizeof amount, "%u", mebibytes);
  snprintf(path, sizeof path, "%s/spew-musl", programs);
  char *outside[] = {path, amount, NULL};
  const char *const in_jail[] = {"/mnt/spew-musl", amount, NULL};
  mcg_session *session = sandbox_open(jail_config(""));
  sandbox_stream(session, in_jail, (uint64_t)mebibytes << 20);
  double before = resident_kib(), worst = 0;
  for (unsigned i = 0; i < rounds; i++) {
    bench_figure("stdout", "plain pipe, 64 KiB", "musl", peer_pipe(outside, 64 << 10), "MB/s");
    bench_figure("stdout", "plain pipe, 1 MiB", "musl", peer_pipe(outside, 1 << 20), "MB/s");
    bench_figure("stdout", "mooncage", "musl",
                 sandbox_stream(session, in_jail, (uint64_t)mebibytes << 20), "MB/s");
    double now = resident_kib() - before;
    if (now > worst) worst = now;
  }
  bench_figure("stdout", "memory grown", "", worst, "KiB");
  sandbox_close(session);
}

int main(int argc, char **argv)
{
  if (argc < 4)
    bench_die("usage: bench PROGRAMS COMMAND BUNDLE [quick|warm|cold|stdout|crowd|rank|audit]");
  programs = argv[1];
  command = argv[2];
  bundle = argv[3];
  bool quick = argc > 4 && strcmp(argv[4], "quick") == 0;
  bool warm = argc > 4 && strcmp(argv[4], "warm") == 0;
  bool cold = argc > 4 && strcmp(argv[4], "cold") == 0;
  bool crowded = argc > 4 && strcmp(argv[4], "crowd") == 0;
  bool flood = argc > 4 && strcmp(argv[4], "stdout") == 0;
  if (quick) rounds_tight = 10, rounds_spaced = 5;

  if (argc > 4 && strcmp(argv[4], "rank") == 0) {
    bench_rank(1000);
    return 0;
  }

  flavour musl, glibc;
  flavour_init(&musl, "musl");
  flavour_init(&glibc, "glibc");
  sandbox_engine_open();
  mcg_session *session = sandbox_open(jail_config(""));
  sandbox_check_enforcement(session);
  sandbox_close(session);

  if (argc > 4 && strcmp(argv[4], "audit") == 0) {
    bench_audit(20);
    sandbox_engine_close();
    return 0;
  }
  if (flood || crowded) {
    if (flood) stream(11, 256);
    if (crowded) crowd(1000);
    sandbox_engine_close();
    return 0;
  }
  const flavour *both[] = {&musl, &glibc};
  if (warm || cold) {
    for (size_t i = 0; i < 2; i++) alone(both[i], warm, 500);
    sandbox_engine_close();
    return 0;
  }
  for (size_t i = 0; i < 2; i++) {
    compare(both[i], rounds_tight, 0);
    compare(both[i], rounds_spaced, pause_ms);
    pooled(both[i], rounds_tight, 0);
    pooled(both[i], rounds_spaced, pause_ms);
  }
  bench_rank(quick ? 100 : 1000);
  bench_audit(quick ? 2 : 10);
  stream(quick ? 3 : 11, quick ? 64 : 512);
  crowd(quick ? 50 : 1000);
  sandbox_engine_close();
  return 0;
}
