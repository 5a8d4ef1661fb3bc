/* policy.c: judging by a policy, and which ports it wants listened on. How it is read from a
 * configuration is in policy_read.c. */
#include "policy_parts.h"
#include <stdio.h>
#include <string.h>

mcg_policy *mcg_policy_ref(mcg_policy *policy)
{
  policy->refs++;
  return policy;
}

static void free_rules(mcg_rule_list *list)
{
  for (size_t i = 0; i < list->count; i++) mcg_rule_fini(&list->rules[i]);
  free(list->rules);
}

void mcg_policy_unref(mcg_policy *policy)
{
  while (policy && --policy->refs == 0) {
    mcg_policy *within = policy->within;
    free_rules(&policy->allow);
    free_rules(&policy->deny);
    free(policy->ca_file);
    if (policy->proxy) explicit_bzero(policy->proxy, strlen(policy->proxy)); /* a password, maybe */
    free(policy->proxy);
    free(policy);
    policy = within;
  }
}

const mcg_egress_limits *mcg_policy_limits(const mcg_policy *policy)
{
  return &policy->limits;
}

bool mcg_policy_allows_nothing(const mcg_policy *policy)
{
  for (; policy; policy = policy->within)
    if (!policy->by_default && !policy->allow.count) return true;
  return false;
}

bool mcg_policy_by_default(const mcg_policy *policy)
{
  while (policy && policy->by_default) policy = policy->within;
  return !policy;
}

const char *mcg_policy_proxy(const mcg_policy *policy)
{
  while (policy->within) policy = policy->within;
  return policy->proxy;
}

bool mcg_policy_terminates(const mcg_policy *policy)
{
  for (; policy; policy = policy->within)
    for (size_t i = 0; i < policy->allow.count; i++)
      if (policy->allow.rules[i].terminate_tls) return true;
  return false;
}

const char *mcg_policy_ca_file(const mcg_policy *policy)
{
  while (policy->within) policy = policy->within;
  return policy->ca_file;
}

bool mcg_policy_redirects(const mcg_policy *policy)
{
  while (policy && policy->redirects) policy = policy->within;
  return !policy;
}

/* Without those it lies within. */
static bool meets(const mcg_policy *policy, const mcg_rule *rule)
{
  for (size_t i = 0; i < policy->allow.count; i++)
    if (mcg_rules_meet(rule, &policy->allow.rules[i])) return true;
  return policy->by_default;
}

unsigned mcg_policy_rule_apart(const mcg_policy *policy, const mcg_policy *around)
{
  for (size_t i = 0; i < policy->allow.count; i++)
    for (const mcg_policy *one = around; one; one = one->within)
      if (!meets(one, &policy->allow.rules[i])) return (unsigned)i + 1;
  return 0;
}

/* ---- what is listened on ------------------------------------------------------------------ */

/* Is a port of the rule one to listen on, for this name, or (name NULL) for addresses of a family? */
static bool concerns(const mcg_rule *rule, const char *name, bool six)
{
  if (name) return mcg_rule_names(rule, name);
  return rule->kind == MCG_RULE_ANY || (rule->kind == MCG_RULE_NETWORK && rule->network.six == six);
}

/* The least port from `from` that this policy alone may allow; 0: none. */
static uint32_t next_allowed(const mcg_policy *policy, const char *name, bool six, uint32_t from)
{
  uint32_t least = 0;
  if (policy->by_default) return from;
  for (size_t i = 0; i < policy->allow.count; i++) {
    const mcg_rule *rule = &policy->allow.rules[i];
    if (!concerns(rule, name, six)) continue;
    uint32_t port = mcg_ports_after(&rule->ports, (uint16_t)(from - 1));
    if (port && (!least || port < least)) least = port;
  }
  return least;
}

/* The first port behind those that this policy denies from `from`; `from` itself where it does not. */
static uint32_t skip_denied(const mcg_policy *policy, const char *name, uint32_t from)
{
  for (size_t i = 0; i < policy->deny.count; i++) {
    const mcg_rule *rule = &policy->deny.rules[i];
    if (name ? !mcg_rule_names(rule, name) : rule->kind != MCG_RULE_ANY) continue;
    for (size_t k = 0; k < rule->ports.count; k++) {
      const mcg_port_range *range = &rule->ports.list[k];
      if (range->first <= from && from <= range->last) from = range->last + 1u;
    }
  }
  return from;
}

static uint16_t next_port(const mcg_policy *policy, const char *name, bool six, uint16_t after)
{
  for (uint32_t port = after + 1u; port <= UINT16_MAX;) {
    uint32_t wanted = port;
    for (const mcg_policy *one = policy; one; one = one->within) {
      uint32_t next = next_allowed(one, name, six, wanted);
      if (!next) return 0;
      wanted = skip_denied(one, name, next);
      if (wanted > UINT16_MAX) return 0;
    }
    if (wanted == port) return (uint16_t)port;
    port = wanted;
  }
  return 0;
}

uint16_t mcg_policy_name_port(const mcg_policy *policy, const char *name, uint16_t port)
{
  return next_port(policy, name, false, port);
}

bool mcg_policy_names(const mcg_policy *policy, const char *name)
{
  return mcg_policy_name_port(policy, name, 0) != 0;
}

uint16_t mcg_policy_address_port(const mcg_policy *policy, bool six, uint16_t port)
{
  return next_port(policy, NULL, six, port);
}

/* ---- judging ------------------------------------------------------------------------------ */

/* "api.example.com", or the address: what a reason is about. */
static const char *target_text(const mcg_target *target, char room[MCG_NAME_ROOM])
{
  if (target->name) return target->name;
  room[0] = '\0';
  if (target->address) mcg_address_text(target->address, room);
  return room;
}

static bool refuse(mcg_verdict *out, const char *by, unsigned index, const char *rule)
{
  out->allowed = false;
  out->by = by;
  out->index = index;
  out->rule = rule;
  out->sni = out->terminate_tls = false;
  out->rule_count = 0;
  return false;
}

/* Also by an IPv4 address that one of IPv6 stands for. */
static bool denies_address(const mcg_rule *rule, const mcg_address *address)
{
  mcg_address inside[2];
  if (mcg_rule_holds(rule, address)) return true;
  for (size_t i = mcg_address_inside(address, inside); i > 0; i--)
    if (mcg_rule_holds(rule, &inside[i - 1])) return true;
  return false;
}

static bool judge_deny(const mcg_policy *policy, const mcg_target *target, mcg_verdict *out)
{
  char room[MCG_NAME_ROOM];
  for (size_t i = 0; i < policy->deny.count; i++) {
    const mcg_rule *rule = &policy->deny.rules[i];
    if (!mcg_ports_have(&rule->ports, target->port)) continue;
    bool named = target->name && mcg_rule_names(rule, target->name);
    if (!named && !(target->address && denies_address(rule, target->address))) continue;
    const char *what = target_text(target, room);
    char address[MCG_ADDRESS_TEXT] = "";
    if (!named && target->name) mcg_address_text(target->address, address);
    snprintf(out->reason, sizeof out->reason, "%.100s%s%s is denied by the rule %.80s", what,
             *address ? " is at " : "", address, rule->text);
    return refuse(out, "deny", (unsigned)i + 1, rule->text);
  }
  return true;
}

/* How much of a target a rule says; 0: nothing of it. */
static unsigned weight(const mcg_rule *rule, const mcg_target *target)
{
  if (rule->kind == MCG_RULE_ANY) return 1;
  if (!target->name)
    return target->address && mcg_rule_holds(rule, target->address) ? 2 + rule->bits : 0;
  if (!mcg_rule_names(rule, target->name)) return 0;
  return rule->kind == MCG_RULE_HOST ? 1000 : 2 + (unsigned)strlen(rule->name);
}

static bool refuse_unnamed(const mcg_target *target, bool other_ports, mcg_verdict *out)
{
  char room[MCG_NAME_ROOM];
  const char *what = target_text(target, room);
  if (other_ports)
    snprintf(out->reason, sizeof out->reason, "%.150s is allowed on other ports, not on %u", what,
             target->port);
  else
    snprintf(out->reason, sizeof out->reason, "no rule allows %.150s", what);
  return refuse(out, "default", 0, "default");
}

/* The rule that says most of the target; of equals the first. */
static bool judge_allow(const mcg_policy *policy, const mcg_target *target, mcg_verdict *out)
{
  const mcg_rule *best = NULL;
  unsigned most = 0;
  bool other_ports = false;
  char room[MCG_NAME_ROOM];
  for (size_t i = 0; i < policy->allow.count; i++) {
    const mcg_rule *rule = &policy->allow.rules[i];
    unsigned says = weight(rule, target);
    if (says && !mcg_ports_have(&rule->ports, target->port)) {
      other_ports = true;
      says = 0;
    }
    if (says <= most) continue;
    best = rule;
    most = says;
  }
  if (!best && !policy->by_default) return refuse_unnamed(target, other_ports, out);
  if (best) {
    out->rules[out->rule_count++] = best;
    out->sni |= best->sni;
    out->terminate_tls |= best->terminate_tls;
  }
  if (out->by) return true; /* an inner policy has said it already */
  const char *what = target_text(target, room);
  out->by = best ? "allow" : "default";
  out->index = best ? (unsigned)(best - policy->allow.rules) + 1 : 0;
  out->rule = best ? best->text : "default";
  if (best)
    snprintf(out->reason, sizeof out->reason, "%.100s is allowed by the rule %.100s", what,
             best->text);
  else
    snprintf(out->reason, sizeof out->reason, "%.150s is allowed by default", what);
  return true;
}

/* A rule opens a special range when it was written for it, not when it happens to be so wide. */
static bool opens(const mcg_rule *rule, const mcg_target *target, bool metadata)
{
  unsigned whole = rule->network.six ? 128 : 32;
  return rule->kind == MCG_RULE_NETWORK && mcg_ports_have(&rule->ports, target->port) &&
         mcg_rule_holds(rule, target->address) && (!metadata || rule->bits == whole) &&
         mcg_address_network_special(&rule->network, rule->bits);
}

static bool judge_range(const mcg_policy *policy, const mcg_target *target, mcg_verdict *out)
{
  char text[MCG_ADDRESS_TEXT];
  const char *range = target->address ? mcg_address_special(target->address) : NULL;
  if (!range) return true;
  bool metadata = mcg_address_is_metadata(target->address);
  for (size_t i = 0; i < policy->allow.count; i++)
    if (opens(&policy->allow.rules[i], target, metadata)) return true;
  mcg_address_text(target->address, text);
  snprintf(out->reason, sizeof out->reason,
           "%.100s%s%s%s a %s address, and no rule of such addresses allows it on port %u",
           target->name ? target->name : "", target->name ? " is at " : "", text,
           target->name ? "," : " is", range, target->port);
  return refuse(out, "range", 0, range);
}

bool mcg_policy_judge(const mcg_policy *policy, const mcg_target *target, mcg_verdict *out)
{
  *out = (mcg_verdict){.allowed = false};
  if (target->port == 0 || (!target->name && !target->address)) {
    snprintf(out->reason, sizeof out->reason, "there is no such target");
    return refuse(out, "default", 0, "default");
  }
  for (const mcg_policy *one = policy; one; one = one->within)
    if (!judge_deny(one, target, out)) return false;
  for (const mcg_policy *one = policy; one; one = one->within)
    if (!judge_allow(one, target, out) || !judge_range(one, target, out)) return false;
  return out->allowed = true;
}
