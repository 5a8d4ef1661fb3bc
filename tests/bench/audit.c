/* audit.c: the audit log: making one event, the durable log with many commands in flight beside a sync
 * for each line, and what a log costs a warm command. Of the engine's inside: its own event and start. */
#include "bench.h"
#include "audit/audit.h"
#include "audit/sink.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#define IN_FLIGHT 1000
#define EACH 20
#define LINE "{\"op\":\"exec\",\"phase\":\"start\",\"argv\":[\"python3\",\"main.py\",\"--fast\"]}\n"

/* ---- one event ---------------------------------------------------------------------------- */

/* The event of event.lua, which lua-cjson encodes. */
static double serialise(void *data)
{
  static const char *const argv[] = {"python3", "main.py", "--input", "data/input.csv", NULL};
  static const mcg_stamp stamp = {.op = "exec",
                                  .phase = "finish",
                                  .id = "rtzkdcgh4zscmnj77pfy5mefx4",
                                  .session = "qkyxfniqoxm4o6z6l2cruon3pq",
                                  .backend = "jail",
                                  .tenant = "acme",
                                  .run_id = "run-17",
                                  .duration_s = 0.123456};
  const mcg_event event = {.argv = argv,
                           .cwd = "/workspace",
                           .tool = "shell",
                           .ended = true,
                           .counted = true,
                           .bytes = 4711};
  unsigned many = *(unsigned *)data;
  double start = bench_now_ms();
  for (unsigned i = 0; i < many; i++) {
    mcg_line *line = mcg_event_line(&event, &stamp, NULL);
    if (!line) bench_die("audit: no memory");
    mcg_line_unref(line);
  }
  return (bench_now_ms() - start) * 1000 / many;
}

/* ---- durable ------------------------------------------------------------------------------ */

typedef struct flight {
  mcg_session *session;
  unsigned left;
} flight;

static void command(void *arg)
{
  static const char *const argv[] = {"python3", "main.py", "--fast", NULL};
  flight *self = arg;
  mcg_error *err = NULL;
  for (unsigned i = 0; i < EACH; i++) {
    mcg_audit_op *op;
    const mcg_event event = {.op = "exec", .argv = argv};
    if (mcg_audit_start(self->session, &event, &op, &err) < 0) bench_die("audit: %s", err->message);
    mcg_audit_finish(op, &(mcg_event){.ended = true});
  }
  self->left--;
}

/* Lines a second, each on the disk before its command goes on. */
static double durable(mcg_session *session)
{
  flight all = {.session = session, .left = IN_FLIGHT};
  mcg_error *err = NULL;
  double start = bench_now_ms();
  for (unsigned i = 0; i < IN_FLIGHT; i++)
    if (mcg_fiber_start(session->engine, command, &all, NULL, &err) < 0)
      bench_die("audit: %s", err->message);
  while (all.left) uv_run(mcg_engine_loop(session->engine), UV_RUN_ONCE);
  return 2.0 * IN_FLIGHT * EACH / (bench_now_ms() - start) * 1000;
}

static double sync_each(const char *path)
{
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) bench_die("audit: cannot open %s", path);
  double start = bench_now_ms(), took = 0;
  unsigned lines = 0;
  for (; lines < 400 && took < 1000; lines++) {
    if (write(fd, LINE, sizeof LINE - 1) < 0 || fdatasync(fd) < 0) bench_die("audit: cannot write");
    took = bench_now_ms() - start;
  }
  close(fd);
  unlink(path);
  return lines / took * 1000;
}

/* ---- all of it ---------------------------------------------------------------------------- */

void bench_audit(unsigned rounds)
{
  unsigned many = 10000;
  char directory[] = "bench-audit-XXXXXX", path[512], text[1024], here[256];
  if (!mkdtemp(directory) || !getcwd(here, sizeof here)) bench_die("audit: no directory");
  bench_variant one = {"1000 events serialised", serialise, &many};
  bench_interleave("audit", "", &one, 1, 5 * rounds, 0, sandbox_wait);
  snprintf(path, sizeof path, "%s/%s/a.jsonl", here, directory);
  snprintf(text, sizeof text, "{\"audit\":{\"type\":\"jsonl\",\"path\":\"%s\",\"durable\":true}}",
           path);
  mcg_session *session = sandbox_open(text);
  for (unsigned i = 0; i < rounds; i++) {
    char other[600];
    snprintf(other, sizeof other, "%s.plain", path);
    bench_figure("audit", "a sync for each line", "", sync_each(other), "lines/s");
    bench_figure("audit", "durable, 1000 in flight", "", durable(session), "lines/s");
  }
  sandbox_close(session);
  unlink(path);
  rmdir(directory);
}
