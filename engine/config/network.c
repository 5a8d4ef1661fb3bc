/* network.c: which of the four kinds of network a configuration asks for, and how one that cannot be
 * given is refused. The rules are egress/policy_read.c's. */
#include "config.h"
#include <string.h>

/* The rest of a table that is not its default. */
static bool is_plain(const json_t *table)
{
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)table, key, value)
  {
    bool list = strcmp(key, "allow") == 0 || strcmp(key, "deny") == 0;
    if (strcmp(key, "default") != 0 && !(list && !json_array_size(value))) return false;
  }
  return true;
}

static mcg_network kind_of(const json_t *network, const mcg_policy *policy)
{
  if (mcg_policy_allows_nothing(policy)) return MCG_NETWORK_NONE;
  /* What is allowed by default needs no rule that allows it. */
  bool open = mcg_policy_by_default(policy) && (json_is_string(network) || is_plain(network));
  return open ? MCG_NETWORK_OPEN : MCG_NETWORK_RULES;
}

int mcg_network_read(const json_t *network, const mcg_where *where, mcg_network *out,
                     mcg_policy **policy, mcg_error **err)
{
  *out = MCG_NETWORK_NONE;
  *policy = NULL;
  if (!network) return 0;
  if (json_is_string(network) && strcmp(json_string_value(network), "host") == 0) {
    *out = MCG_NETWORK_HOST;
    return 0;
  }
  if (mcg_policy_read(network, where, policy, err) < 0) return -1;
  *out = kind_of(network, *policy);
  return 0;
}

int mcg_network_open(mcg_policy **policy, mcg_error **err)
{
  const mcg_where where = {.key = "network"};
  auto_json json_t *open = json_string("open");
  return mcg_policy_read(open, &where, policy, err);
}

int mcg_network_refuse(const json_t *network, mcg_network which, const mcg_backend *backend,
                       const char *name, mcg_error **err)
{
  const char *by_default = json_string_value(json_object_get(network, "default"));
  const char *path = by_default && strcmp(by_default, "allow") == 0 ? "network.default" : "network";
  if (which == MCG_NETWORK_NONE)
    return mcg_fail(err, MCG_UNENFORCEABLE,
                    "set network = { default = \"allow\" } (--network open), say "
                    "requirements.network = true, or use a backend that can",
                    "network: %s cannot keep its commands from the network", name);
  if (which == MCG_NETWORK_HOST)
    return mcg_fail(err, MCG_UNENFORCEABLE, "leave network = \"host\" out, or use the jail backend",
                    "network: %s is elsewhere, and cannot share this host's network", name);
  if (backend->family == MCG_HOSTED)
    return mcg_fail(
        err, MCG_UNENFORCEABLE,
        which == MCG_NETWORK_OPEN ? "turn its network on in its options" : "use a backend that can",
        which == MCG_NETWORK_OPEN ? "%s: %s has its network off" : "%s: %s cannot keep rules", path,
        name);
  if (backend->isolation == MCG_ISOLATION_NONE)
    return mcg_fail(err, MCG_UNENFORCEABLE, "use the jail backend, or network = \"host\"",
                    "%s: %s cannot keep its commands to rules of the network", path, name);
  return mcg_fail(err, MCG_UNENFORCEABLE, "leave the option `carrier` out",
                  "%s: the way out needs the direct carrier, and %s has the framed one", path,
                  name);
}
