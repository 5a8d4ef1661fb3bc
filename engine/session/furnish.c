/* furnish.c: puts a session's manifest into its workspace, and opens what that takes: a host directory
 * for copies and archives, a throw-away sandbox with a network for git. */
#include "host.h"
#include "config/manifest.h"
#include "session.h"
#include <string.h>

typedef struct furnishing {
  mcg_session *session;
  mcg_host *host;
  mcg_session *fetcher;
} furnishing;

static int open_host(void *data, const char *directory, mcg_stream **out, mcg_error **err)
{
  furnishing *self = data;
  if (mcg_host_open(self->session->engine, directory, &self->host, err) < 0) return -1;
  *out = mcg_host_stream(self->host);
  return 0;
}

/* What fetches is confined, whatever the session itself is. */
static const mcg_backend *confining(const mcg_engine *engine, const mcg_backend *own)
{
  if (own->isolation >= MCG_ISOLATION_NAMESPACE && own->family == MCG_LOCAL) return own;
  for (size_t i = 0; i < engine->backends.count; i++) {
    const mcg_backend *backend = engine->backends.list[i];
    if (backend->family == MCG_LOCAL && backend->isolation >= MCG_ISOLATION_NAMESPACE)
      return backend;
  }
  return NULL;
}

static int open_fetcher(void *data, mcg_stream **out, mcg_error **err)
{
  furnishing *self = data;
  mcg_engine *engine = self->session->engine;
  const mcg_backend *backend = confining(engine, self->session->config->backend);
  if (!backend)
    return mcg_fail(err, MCG_UNSUPPORTED, "check it out yourself and use manifest.copies",
                    "there is no backend here that git could be confined with");
  auto_free char *config = mcg_format("{\"backend\":{\"id\":\"%s\"},\"network\":\"host\","
                                      "\"limits\":{\"wall_s\":1800}}",
                                      backend->id);
  if (!config) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to fetch");
  if (mcg_session_open_here(engine, config, &self->fetcher, err) < 0) return -1;
  *out = self->fetcher->stream;
  return 0;
}

static void close_fetcher(furnishing *self)
{
  auto_error mcg_error *failed = NULL;
  if (mcg_session_close_here(self->fetcher, &failed) < 0)
    mcg_log(self->session->engine, MCG_LOG_WARNING, "let go of what fetched: %s", failed->message);
  mcg_session_unref(self->fetcher);
  self->fetcher = NULL;
}

static void done(void *data, mcg_stream *stream)
{
  furnishing *self = data;
  if (self->host && mcg_host_stream(self->host) == stream) {
    mcg_host_close(self->host);
    self->host = NULL;
  } else {
    close_fetcher(self);
  }
}

int mcg_session_furnish(mcg_session *session, bool ephemeral_only, mcg_error **err)
{
  const mcg_manifest *manifest = session->config->manifest;
  if (!manifest) return 0;
  furnishing self = {.session = session};
  const mcg_manifest_sources sources = {
      .host = open_host, .fetcher = open_fetcher, .done = done, .data = &self};
  return mcg_manifest_apply(session->engine, manifest, ephemeral_only, session->stream, &sources,
                            err);
}
