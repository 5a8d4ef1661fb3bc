/* tenant_open.c: the first step of opening a session: who is it for, and what does that one get? */
#include "session.h"
#include "tenant.h"

static int ask(mcg_session *session, json_t **answer, mcg_error **err)
{
  const char *id = session->config->tenant;
  char key[MCG_TENANT_KEY] = "";
  if (id && mcg_tenant_key(id, key, err) < 0) return -1;
  auto_json json_t *question = json_pack("{s:s?, s:s?}", "tenant", id, "key", id ? key : NULL);
  if (!question) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session");
  return mcg_ask(session, MCG_ASK_TENANT, question, answer, err);
}

static int denied(const char *id, const json_t *answer, mcg_error **err)
{
  const char *reason = json_string_value(json_object_get(answer, "denied"));
  auto_free char *who = id ? mcg_format("tenant \"%s\"", id) : mcg_format("a session of no tenant");
  return mcg_fail(err, MCG_NO_CANDIDATE, "ask whoever configures tenants here", "%s is denied%s%s",
                  who ? who : "it", reason && *reason ? ": " : "", reason ? reason : "");
}

int mcg_tenant_resolve(mcg_session *session, const json_t *base, json_t **root, mcg_quota *quota,
                       mcg_error **err)
{
  auto_json json_t *answer = NULL;
  const char *id = session->config->tenant;
  if (ask(session, &answer, err) < 0) return -1;
  const json_t *overrides = json_object_get(answer, "overrides");
  if (!overrides) return denied(id, answer, err);
  return mcg_tenant_apply(session->engine, base, id, overrides, root, quota, err);
}
