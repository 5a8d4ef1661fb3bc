/* explain.c: what the network of a configuration would do with one connection, for those who ask before
 * anything is opened. Nothing is looked up. */
#include "audit/audit.h"
#include "config/config.h"
#include "decide/tenant.h"
#include "policy.h"
#include <string.h>

typedef struct question {
  char name[MCG_NAME_ROOM];
  mcg_address address;
  mcg_target target;
} question;

static int fault_fail(const char *of, const mcg_fault *fault, mcg_error **err)
{
  return mcg_fail(err, MCG_INVALID, *fault->fix ? fault->fix : "write HOST:PORT", "%s: %s", of,
                  fault->text);
}

/* "target", and where "address" is there what its name is at. */
static int read_question(const json_t *request, question *out, mcg_error **err)
{
  const mcg_where at = {.key = "address"}, of = {.key = "target"};
  const json_t *address = json_object_get(request, "address");
  const char *text;
  mcg_fault fault;
  bool literal;
  if (mcg_check_string(json_object_get(request, "target"), &of, &text, err) < 0) return -1;
  if (!mcg_host_port_parse(text, strlen(text), out->name, &out->address, &literal,
                           &out->target.port, &fault))
    return fault_fail("HOST:PORT", &fault, err);
  out->target.name = literal ? NULL : out->name;
  out->target.address = literal ? &out->address : NULL;
  if (!address) return 0;
  if (mcg_check_string(address, &at, &text, err) < 0) return -1;
  if (literal) return mcg_check_fail(&at, err, "leave it out", "the target is an address already");
  if (!mcg_address_parse(text, strlen(text), &out->address))
    return mcg_check_fail(&at, err, "write one as 192.0.2.7 or 2001:db8::1", "\"%s\" is no address",
                          text);
  out->target.address = &out->address;
  return 0;
}

static json_t *target_json(const mcg_target *target)
{
  char text[MCG_ADDRESS_TEXT];
  json_t *out = json_pack("{s:i}", "port", target->port);
  if (target->name) json_object_set_new(out, "name", json_string(target->name));
  if (!target->address) return out;
  mcg_address_text(target->address, text);
  json_object_set_new(out, "address", json_string(text));
  return out;
}

static json_t *headers_json(const mcg_verdict *verdict)
{
  json_t *out = json_array();
  for (size_t i = 0; i < verdict->rule_count; i++)
    for (size_t k = 0; k < verdict->rules[i]->header_count; k++)
      json_array_append_new(out, json_string(verdict->rules[i]->headers[k].name));
  return out;
}

static json_t *verdict_json(const mcg_target *target, const mcg_verdict *verdict)
{
  json_t *out =
      json_pack("{s:b, s:s, s:s, s:s, s:o}", "allowed", verdict->allowed, "by", verdict->by, "rule",
                verdict->rule, "reason", verdict->reason, "target", target_json(target));
  if (verdict->index) json_object_set_new(out, "index", json_integer(verdict->index));
  if (verdict->sni) json_object_set_new(out, "sni", json_true());
  if (verdict->terminate_tls) json_object_set_new(out, "terminate_tls", json_true());
  json_t *headers = headers_json(verdict);
  if (json_array_size(headers)) json_object_set(out, "headers", headers);
  json_decref(headers);
  return out;
}

/* The network of the configuration, or of what a tenant makes of it. Borrowed, or kept by *merged. */
static int read_network(mcg_engine *engine, const json_t *request, json_t **merged,
                        const json_t **out, mcg_error **err)
{
  mcg_quota ignored;
  const json_t *config = json_object_get(request, "config");
  const json_t *overrides = json_object_get(request, "overrides");
  const char *tenant = json_string_value(json_object_get(request, "tenant"));
  if (mcg_check_object(config, NULL, err) < 0) return -1;
  if (overrides && mcg_tenant_apply(engine, config, tenant, overrides, merged, &ignored, err) < 0)
    return -1;
  *out = json_object_get(*merged ? *merged : config, "network");
  return mcg_audit_learn_network(engine, *out, err);
}

static int judge(const json_t *network, const question *asked, json_t **out, mcg_error **err)
{
  const mcg_where where = {.key = "network"};
  const mcg_target *target = &asked->target;
  mcg_policy *policy = NULL;
  mcg_network kind;
  mcg_verdict verdict = {.by = "default", .rule = "default"};
  if (mcg_network_read(network, &where, &kind, &policy, err) < 0) return -1;
  if (policy) {
    mcg_policy_judge(policy, target, &verdict);
  } else {
    verdict.allowed = kind == MCG_NETWORK_HOST;
    snprintf(verdict.reason, sizeof verdict.reason, "%s",
             verdict.allowed ? "the host's network is shared, and nothing of it is judged"
                             : "there is no network");
  }
  *out = verdict_json(target, &verdict);
  mcg_policy_unref(policy);
  return 0;
}

char *mcg_network_explain(mcg_engine *engine, const char *text, size_t len, mcg_error **err)
{
  question asked = {.name = ""};
  const json_t *network;
  auto_json json_t *merged = NULL, *answer = NULL;
  auto_json json_t *request = mcg_json_parse(text, len, err);
  if (!request || read_question(request, &asked, err) < 0 ||
      read_network(engine, request, &merged, &network, err) < 0 ||
      judge(network, &asked, &answer, err) < 0)
    return NULL;
  char *out = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
  if (!out) mcg_fail(err, MCG_NOMEM, NULL, "no memory to explain");
  return out;
}
