/* config_show.c: what a configuration comes to, for those who ask before they open anything. Values
 * that may be secret (options, environment) are not repeated. */
#include "decide/choice.h"
#include <string.h>

static const char *network_name(mcg_network network)
{
  static const char *const names[] = {"none", "host", "open", "rules"};
  return names[network];
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
  auto_json json_t *shown =
      json_pack("{s:o, s:s, s:s}", "limits", mcg_limits_json(&config->plan.limits), "network",
                network_name(config->plan.network), "enforcement",
                config->plan.best_effort ? "best_effort" : "required");
  mcg_config_free(config);
  char *out = shown ? json_dumps(shown, JSON_COMPACT) : NULL;
  if (!out) mcg_fail(err, MCG_NOMEM, NULL, "no memory for the configuration");
  return out;
}
