/* config_show.c: what a configuration comes to, for those who ask before they open anything. Values
 * that may be secret (options, environment) are not repeated. */
#include "decide/choice.h"
#include <string.h>

/* Rules as they are understood; of the values of headers only that they are there. */
static json_t *network_json(const mcg_config *config)
{
  static const char *const names[] = {"none", "host", "open"};
  mcg_network network = config->plan.network;
  return network == MCG_NETWORK_RULES ? mcg_policy_json(config->policy)
                                      : json_string(names[network]);
}

char *mcg_config_resolve(mcg_engine *engine, const char *text, size_t len, mcg_error **err)
{
  mcg_choice *choice;
  json_t *root = mcg_json_parse(text, len, err);
  if (!root || mcg_choice_new(engine, root, false, &choice, err) < 0) return NULL;
  mcg_config *config = mcg_choice_take(choice); /* what the one that is tried first would be */
  if (!config && err) *err = mcg_steal_pointer(&choice->refusal);
  mcg_choice_free(choice);
  if (!config) return NULL;
  auto_json json_t *shown = json_pack(
      "{s:o, s:o, s:s}", "limits", mcg_limits_json(&config->plan.limits), "network",
      network_json(config), "enforcement", config->plan.best_effort ? "best_effort" : "required");
  mcg_config_free(config);
  char *out = shown ? json_dumps(shown, JSON_COMPACT) : NULL;
  if (!out) mcg_fail(err, MCG_NOMEM, NULL, "no memory for the configuration");
  return out;
}
