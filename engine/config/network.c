/* network.c: what of the network a sandbox may reach. */
#include "config.h"
#include <string.h>

static int read_name(const char *name, const mcg_where *where, mcg_network *out, mcg_error **err)
{
  if (strcmp(name, "none") == 0)
    *out = MCG_NETWORK_NONE;
  else if (strcmp(name, "host") == 0)
    *out = MCG_NETWORK_HOST;
  else if (strcmp(name, "open") == 0)
    *out = MCG_NETWORK_OPEN;
  else
    return mcg_check_fail(where, err, "write \"none\", \"host\" or \"open\"",
                          "\"%s\" is no network", name);
  return 0;
}

static int read_rules(const json_t *list, const char *key, const mcg_where *where, bool *any,
                      mcg_error **err)
{
  mcg_where at = {.up = where, .key = key};
  if (!list) return 0;
  if (mcg_check_list(list, &at, err) < 0) return -1;
  *any = json_array_size(list) > 0;
  return 0;
}

static int read_table(const json_t *table, const mcg_where *where, mcg_network *out,
                      mcg_error **err)
{
  static const char *const keys[] = {"default", "allow", "deny", NULL};
  const char *word = "deny";
  bool allow = false, deny = false;
  if (mcg_check_keys(table, keys, where, err) < 0) return -1;
  const json_t *by_default = json_object_get(table, "default");
  mcg_where at = {.up = where, .key = "default"};
  if (by_default && mcg_check_string(by_default, &at, &word, err) < 0) return -1;
  if (strcmp(word, "deny") != 0 && strcmp(word, "allow") != 0)
    return mcg_check_fail(&at, err, "write \"deny\" or \"allow\"", "\"%s\" is neither", word);
  if (read_rules(json_object_get(table, "allow"), "allow", where, &allow, err) < 0 ||
      read_rules(json_object_get(table, "deny"), "deny", where, &deny, err) < 0)
    return -1;
  bool open = strcmp(word, "allow") == 0; /* denying more than everything is fine */
  *out = allow || (open && deny) ? MCG_NETWORK_RULES : open ? MCG_NETWORK_OPEN : MCG_NETWORK_NONE;
  return 0;
}

int mcg_network_read(const json_t *network, const mcg_where *where, mcg_network *out, bool *written,
                     mcg_error **err)
{
  *out = MCG_NETWORK_NONE;
  *written = network != NULL;
  if (!network) return 0;
  if (!json_is_string(network)) return read_table(network, where, out, err);
  const char *name;
  if (mcg_check_string(network, where, &name, err) < 0) return -1;
  return read_name(name, where, out, err);
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
  return mcg_fail(
      err, MCG_UNENFORCEABLE,
      "use network = \"none\", or network = \"host\" to share the host's network, with all "
      "that listens on it",
      "%s: open networks and rules need the egress gateway, which this version does not have",
      path);
}
