/* hooks.c: which hooks a host has, and telling it. A hook has a time limit, so that one that never
 * returns holds up nothing for ever. */
#include "hooks.h"
#include "audit/audit.h"
#include <string.h>

#define DEFAULT_MS 30000

static const char *const names[] = {"on_sandbox_start",      "on_sandbox_stop",
                                    "on_sandbox_exec_start", "on_sandbox_exec_end",
                                    "on_sandbox_snapshot",   NULL};

static const char *name_of(mcg_hook hook)
{
  return names[__builtin_ctz((unsigned)hook)];
}

static int read_name(mcg_config *config, const json_t *item, const mcg_where *where,
                     mcg_error **err)
{
  const char *word;
  if (mcg_check_string(item, where, &word, err) < 0) return -1;
  for (unsigned i = 0; names[i]; i++)
    if (strcmp(names[i], word) == 0) {
      config->hooks |= 1u << i;
      return 0;
    }
  const char *near = mcg_nearest(word, names);
  auto_free char *fix = near ? mcg_format("did you mean `%s`?", near) : NULL;
  return mcg_check_fail(where, err, fix, "there is no hook \"%s\"", word);
}

int mcg_hooks_read(mcg_config *config, mcg_error **err)
{
  const mcg_where where = {.key = "hooks"}, time = {.key = "hook_timeout_s"};
  const json_t *list = json_object_get(config->root, "hooks");
  const json_t *limit = json_object_get(config->root, "hook_timeout_s");
  double seconds = DEFAULT_MS / 1000.0;
  if (list && mcg_check_list(list, &where, err) < 0) return -1;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const mcg_where at = {.up = &where, .index = i};
    if (read_name(config, json_array_get(list, i), &at, err) < 0) return -1;
  }
  if (limit && mcg_check_number(limit, &time, 0.001, 1e6, false, &seconds, err) < 0) return -1;
  config->hook_ms = (int64_t)(seconds * 1000 + 0.5);
  return 0;
}

/* The one place that knows of a hook that failed. */
static void hook_failed(mcg_session *session, mcg_hook hook, const mcg_error *error)
{
  mcg_log(session->engine, MCG_LOG_ERROR, "session %.8s: hook %s: %s", session->id, name_of(hook),
          error->message);
  auto_json json_t *detail = json_pack("{s:s}", "hook", name_of(hook));
  mcg_audit_point(session, &(mcg_event){.op = "hook_error", .error = error, .detail = detail});
}

/* The host has been told, or not: `error` is why. */
static int ended(mcg_session *session, mcg_hook hook, int rc, mcg_error *take_error,
                 mcg_error **err)
{
  auto_error mcg_error *error = take_error;
  if (rc == 0) return 0;
  if (error->code == MCG_CANCELED && mcg_fiber_stopped(session->engine)) {
    *err = mcg_steal_pointer(&error);
    return -1;
  }
  if (error->code == MCG_TIMEOUT) {
    auto_error mcg_error *slow = NULL;
    mcg_fail(&slow, MCG_TIMEOUT, "have it return sooner, or raise hook_timeout_s",
             "did not return within %.3g s (hook_timeout_s)",
             (double)session->config->hook_ms / 1000);
    hook_failed(session, hook, slow);
  } else {
    hook_failed(session, hook, error);
  }
  return 0;
}

int mcg_hook_fire(mcg_session *session, mcg_hook hook, json_t *take_facts, mcg_error **err)
{
  auto_json json_t *facts = take_facts;
  auto_json json_t *answer = NULL;
  mcg_error *error = NULL;
  int rc = -1;
  if (!mcg_session_hooked(session, hook)) return 0;
  if (!facts || json_object_set_new(facts, "hook", json_string(name_of(hook))) < 0)
    mcg_fail(&error, MCG_NOMEM, NULL, "no memory for a hook");
  else
    rc = mcg_ask_counsel(session->engine, session->counsel, session, MCG_ASK_HOOK, facts,
                         session->config->hook_ms, &answer, &error);
  return ended(session, hook, rc, error, err);
}

int mcg_hook_tell(mcg_session *session, mcg_hook hook, mcg_told *facts, bool *heard,
                  mcg_error **err)
{
  auto_json json_t *answer = NULL;
  mcg_error *error = NULL;
  int rc = -1;
  if (!mcg_session_hooked(session, hook)) return 0;
  if (!facts) {
    mcg_fail(&error, MCG_NOMEM, NULL, "no memory for a hook");
  } else {
    facts->hook = name_of(hook);
    rc = mcg_ask_told(session, MCG_ASK_HOOK, facts, session->config->hook_ms, heard, &answer,
                      &error);
  }
  return ended(session, hook, rc, error, err);
}
