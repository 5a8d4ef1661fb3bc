/* tenant_open.c: the first step of opening a session: who is it for, and what does that one get? */
#include "tenant.h"
#include "ask.h"

static int denied(const char *id, const json_t *answer, mcg_error **err)
{
  const char *reason = json_string_value(json_object_get(answer, "denied"));
  auto_free char *who = id ? mcg_format("tenant \"%s\"", id) : mcg_format("a session of no tenant");
  return mcg_fail(err, MCG_NO_CANDIDATE, "ask whoever configures tenants here", "%s is denied%s%s",
                  who ? who : "it", reason && *reason ? ": " : "", reason ? reason : "");
}

int mcg_tenant_resolve(mcg_engine *engine, mcg_counsel *counsel, mcg_session *session,
                       const char *tenant, const json_t *base, json_t **root, mcg_quota *quota,
                       mcg_error **err)
{
  auto_json json_t *answer = NULL;
  char key[MCG_TENANT_KEY] = "";
  if (tenant) mcg_tenant_key(tenant, key);
  auto_json json_t *question =
      json_pack("{s:s?, s:s?}", "tenant", tenant, "key", tenant ? key : NULL);
  if (!question) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session");
  if (mcg_ask_counsel(engine, counsel, session, MCG_ASK_TENANT, question, -1, &answer, err) < 0)
    return -1;
  const json_t *overrides = json_object_get(answer, "overrides");
  if (!overrides) return denied(tenant, answer, err);
  return mcg_tenant_apply(engine, base, tenant, overrides, root, quota, err);
}
