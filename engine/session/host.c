/* host.c: opens a host directory as a place without walls. */
#include "host.h"
#include "spawner.h"
#include <errno.h>
#include <string.h>

struct mcg_host {
  mcg_engine *engine;
  mcg_jailed *jailed;
  mcg_stream *stream;
};

int mcg_host_open(mcg_engine *engine, const char *directory, mcg_host **out, mcg_error **err)
{
  auto_free char *absolute = realpath(directory, NULL);
  char id[27];
  if (!absolute)
    return mcg_fail_errno(err, errno, "make it first, or name one that you may enter",
                          "host directory %s", directory);
  if (mcg_random_id(id, err) < 0) return -1;
  mcg_host *host = calloc(1, sizeof *host);
  if (!host) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to open %s", directory);
  host->engine = engine;
  mcg_spawn_spec spec = {.kind = MCG_KIND_PLAIN, .id = id, .workdir = absolute};
  int fd = -1;
  int rc = mcg_spawner_create(engine, NULL, &spec, &host->jailed, &fd, err);
  if (!rc)
    rc = mcg_stream_open(engine, fd, MCG_CARRIER_DIRECT, NULL, NULL, NULL, &host->stream, err);
  if (rc < 0) {
    mcg_wrap(err, "host directory %s", directory);
    mcg_host_close(host);
    return -1;
  }
  *out = host;
  return 0;
}

mcg_stream *mcg_host_stream(mcg_host *host)
{
  return host->stream;
}

void mcg_host_close(mcg_host *host)
{
  if (!host) return;
  auto_error mcg_error *failed = NULL;
  mcg_fiber_shield(host->engine, true);
  mcg_stream_close(host->stream);
  if (host->jailed && mcg_spawner_destroy(host->jailed, NULL, &failed) < 0)
    mcg_log(host->engine, MCG_LOG_WARNING, "let go of a host directory: %s", failed->message);
  mcg_fiber_shield(host->engine, false);
  free(host);
}
