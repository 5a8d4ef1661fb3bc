/* candidate.c: one candidate of a configuration: its keys and options, what it is, and whether it can
 * be what was asked for. Which of several is taken is choice.c's. */
#include "candidate.h"
#include "session/session.h"
#include <limits.h>
#include <string.h>

/* ---- reading ------------------------------------------------------------------------------ */

const char *mcg_candidate_id(const json_t *candidate)
{
  const char *id = json_string_value(candidate);
  if (!id) id = json_string_value(json_object_get(candidate, "id"));
  return id ? id : "jail";
}

const char *mcg_candidate_name(const json_t *candidate)
{
  const char *name = json_string_value(json_object_get(candidate, "name"));
  return name ? name : mcg_candidate_id(candidate);
}

static bool type_fits(const json_t *value, mcg_type type)
{
  switch (type) {
  case MCG_T_BOOL: return json_is_boolean(value);
  case MCG_T_INT: return json_is_integer(value);
  case MCG_T_NUMBER: return json_is_number(value);
  case MCG_T_STRING:
    return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value);
  case MCG_T_LIST: return mcg_is_list(value);
  case MCG_T_MAP: return mcg_is_table(value);
  }
  return false;
}

static const char *type_words(mcg_type type)
{
  static const char *const words[] = {"true or false",        "a whole number", "a number",
                                      "a string without NUL", "a list",         "a table"};
  return words[type];
}

static int check_word(const mcg_config *config, const char *option, const json_t *value,
                      const mcg_where *where, mcg_error **err)
{
  const mcg_option_words *of = config->backend->words;
  while (of && of->option && strcmp(of->option, option) != 0) of++;
  if (!of || !of->option) return 0;
  const char *word = json_string_value(value);
  for (const char *const *known = of->words; *known; known++)
    if (strcmp(*known, word) == 0) return 0;
  auto_free char *fix = mcg_names_fix(word, of->words);
  return mcg_check_fail(where, err, fix, "there is no %s \"%.60s\"", option, word);
}

static int read_options(mcg_config *config, const json_t *options, const mcg_where *up,
                        mcg_error **err)
{
  mcg_where where = {.up = up, .key = "options"};
  const mcg_option *known = config->backend->options;
  const char *names[64] = {NULL};
  for (size_t i = 0; known && known[i].name && i < 63; i++) names[i] = known[i].name;
  if (!options) options = config->no_options = json_object();
  if (!options) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the configuration");
  if (mcg_check_keys(options, names, &where, err) < 0) return -1;
  for (size_t i = 0; known && known[i].name; i++) {
    const json_t *value = json_object_get(options, known[i].name);
    mcg_where at = {.up = &where, .key = known[i].name};
    if (!value) continue;
    if (type_fits(value, known[i].type)) {
      if (check_word(config, known[i].name, value, &at, err) < 0) return -1;
      continue;
    }
    auto_free char *fix = mcg_format("write %s there", type_words(known[i].type));
    return mcg_check_fail(&at, err, fix, "expected %s", type_words(known[i].type));
  }
  config->plan.options = options;
  return 0;
}

static int find_backend(mcg_engine *engine, mcg_config *config, const char *id, const mcg_where *up,
                        mcg_error **err)
{
  config->backend = mcg_engine_backend(engine, id);
  if (config->backend) return 0;
  const char *names[64] = {NULL};
  for (size_t i = 0; i < engine->backends.count && i < 63; i++)
    names[i] = engine->backends.list[i]->id;
  auto_free char *fix = mcg_names_fix(id, names);
  return mcg_check_fail(up, err, fix, "there is no backend \"%s\"", id);
}

/* Its own price goes over the backend's. */
static int read_cost(mcg_config *config, const json_t *cost, const mcg_where *up, mcg_error **err)
{
  static const char *const cost_keys[] = {"usd_per_minute", NULL};
  const mcg_where where = {.up = up, .key = "cost"}, at = {.up = &where, .key = "usd_per_minute"};
  const mcg_rate *rate = config->backend->rate;
  config->priced = rate != NULL;
  config->usd_per_minute = rate ? rate->usd_per_minute : 0;
  config->cost_source = "backend";
  if (!cost) return 0;
  if (mcg_check_keys(cost, cost_keys, &where, err) < 0) return -1;
  const json_t *usd = json_object_get(cost, "usd_per_minute");
  if (!usd) return 0;
  if (mcg_check_number(usd, &at, 0, 1e6, false, &config->usd_per_minute, err) < 0) return -1;
  config->priced = true;
  config->cost_source = "candidate";
  return 0;
}

static int read_tags(mcg_config *config, const json_t *tags, const mcg_where *up, mcg_error **err)
{
  const mcg_where where = {.up = up, .key = "tags"};
  const char *tag;
  config->tags = tags;
  if (!tags) return 0;
  if (mcg_check_list(tags, &where, err) < 0) return -1;
  for (size_t i = 0; i < json_array_size(tags); i++) {
    const mcg_where at = {.up = &where, .index = i};
    if (mcg_check_string(json_array_get(tags, i), &at, &tag, err) < 0) return -1;
  }
  return 0;
}

/* {"name", "max_sessions"}, see tenant_candidates.c. */
static int read_within(mcg_config *config, const json_t *within, const mcg_where *up,
                       mcg_error **err)
{
  static const char *const within_keys[] = {"name", "max_sessions", NULL};
  const mcg_where where = {.up = up, .key = "within"};
  double most = 0;
  if (!within) return 0;
  if (mcg_check_keys(within, within_keys, &where, err) < 0 ||
      mcg_optional_string(within, "name", &where, &config->within, err) < 0 ||
      mcg_optional_number(within, "max_sessions", &where, 1, 1e6, true, &most, err) < 0)
    return -1;
  if (!config->within)
    return mcg_check_fail(&where, err, "name the candidate", "it needs a `name`");
  config->within_max = (unsigned)most;
  return 0;
}

int mcg_candidate_read(mcg_engine *engine, mcg_config *config, const json_t *candidate,
                       const mcg_where *where, mcg_error **err)
{
  static const char *const candidate_keys[] = {"id",           "options", "name",   "cost", "tags",
                                               "max_sessions", "pool",    "within", NULL};
  const char *id = "jail";
  double most = 0;
  if (json_is_string(candidate)) {
    if (mcg_check_string(candidate, where, &id, err) < 0) return -1;
    candidate = NULL;
  } else if (candidate && mcg_check_keys(candidate, candidate_keys, where, err) < 0) {
    return -1;
  }
  if (mcg_optional_string(candidate, "id", where, &id, err) < 0 ||
      find_backend(engine, config, id, where, err) < 0)
    return -1;
  config->name = id;
  if (mcg_optional_string(candidate, "name", where, &config->name, err) < 0 ||
      mcg_optional_number(candidate, "max_sessions", where, 1, 1e6, true, &most, err) < 0 ||
      read_cost(config, json_object_get(candidate, "cost"), where, err) < 0 ||
      read_tags(config, json_object_get(candidate, "tags"), where, err) < 0 ||
      read_within(config, json_object_get(candidate, "within"), where, err) < 0 ||
      mcg_pool_size_read(json_object_get(candidate, "pool"), where, &config->pool_size, err) < 0 ||
      read_options(config, json_object_get(candidate, "options"), where, err) < 0)
    return -1;
  config->max_sessions = (unsigned)most;
  config->traits =
      (mcg_traits){.isolation = config->backend->isolation,
                   .networks = MCG_GIVES(MCG_NETWORK_NONE) | MCG_GIVES(MCG_NETWORK_HOST)};
  if (config->backend->traits) config->backend->traits(config->plan.options, &config->traits);
  return 0;
}

/* ---- its network -------------------------------------------------------------------------- */

/* A backend that isolates nothing has the host's network, whatever was wanted. */
static int host_network(mcg_config *config, bool written, mcg_error **err)
{
  mcg_plan *plan = &config->plan;
  if (written && plan->network == MCG_NETWORK_NONE && !plan->best_effort)
    return mcg_fail(err, MCG_UNENFORCEABLE, "use the jail backend, or network = \"host\"",
                    "network: %s cannot keep its commands from the network", config->name);
  if (plan->network > MCG_NETWORK_HOST && !plan->best_effort)
    return mcg_network_refuse(json_object_get(config->root, "network"), plan->network,
                              config->backend, config->name, err);
  plan->network = MCG_NETWORK_HOST;
  return 0;
}

int mcg_candidate_network(mcg_config *config, bool written, mcg_error **err)
{
  mcg_plan *plan = &config->plan;
  if (config->traits.isolation == MCG_ISOLATION_NONE) return host_network(config, written, err);
  /* Nothing was written, and the network is asked for: the denial that holds by default does not. */
  if (!written && config->requirements.network == 1 &&
      config->traits.networks & MCG_GIVES(MCG_NETWORK_OPEN)) {
    plan->network = MCG_NETWORK_OPEN;
    if (!config->policy && mcg_network_open(&config->policy, err) < 0) return -1;
  }
  if (config->traits.networks & MCG_GIVES(plan->network)) return 0;
  return mcg_network_refuse(json_object_get(config->root, "network"), plan->network,
                            config->backend, config->name, err);
}

/* ---- what it is --------------------------------------------------------------------------- */

/* One that is refused for its network is told of by what it has. */
static bool is_denied(const mcg_config *config)
{
  unsigned networks = config->traits.networks;
  if (config->plan.network != MCG_NETWORK_NONE || networks & MCG_GIVES(MCG_NETWORK_NONE))
    return config->plan.network == MCG_NETWORK_NONE;
  return networks == 0;
}

void mcg_candidate_facts(const mcg_config *config, const char *names[MCG_CAPABILITIES_MAX],
                         mcg_facts *out)
{
  const mcg_traits *traits = &config->traits;
  const mcg_limits *limits = &config->plan.limits;
  size_t count = 0;
  names[count++] = is_denied(config) ? "network_denied" : "network";
  names[count++] = "pty"; /* mooncage-init's, wherever it runs */
  for (const char *const *name = traits->capabilities; name && *name; name++)
    if (count < MCG_CAPABILITIES_MAX - 1) names[count++] = *name;
  names[count] = NULL;
  *out = (mcg_facts){.size = sizeof *out,
                     .name = config->name,
                     .backend = config->backend->id,
                     .family = config->backend->family,
                     .isolation = traits->isolation,
                     .priced = config->priced,
                     .usd_per_minute = config->usd_per_minute,
                     .persistent = traits->persistent,
                     .capabilities = names,
                     .region = traits->region,
                     .memory_mb = traits->memory_mb,
                     .cpu_count = traits->cpu_count,
                     .max_sessions = config->max_sessions};
  double memory = (double)limits->memory_bytes.value / (1 << 20);
  double cpu = (double)limits->cpu_milli.value / 1000;
  if (limits->memory_bytes.written && (!out->memory_mb || memory < out->memory_mb))
    out->memory_mb = memory;
  if (limits->cpu_milli.written && (!out->cpu_count || cpu < out->cpu_count)) out->cpu_count = cpu;
}

static void set_number(json_t *out, const char *key, double value)
{
  if (value > 0) json_object_set_new(out, key, json_real(value));
}

json_t *mcg_candidate_describe(mcg_engine *engine, const mcg_config *config)
{
  const char *names[MCG_CAPABILITIES_MAX];
  mcg_facts facts;
  double latency = 0;
  mcg_candidate_facts(config, names, &facts);
  facts.sessions = mcg_candidate_sessions(engine, config, NULL, &facts.max_sessions);
  const char *health = mcg_health_of(engine, config, &latency);
  json_t *capabilities = json_object();
  for (size_t i = 0; names[i]; i++) json_object_set_new(capabilities, names[i], json_true());
  json_t *out = json_pack("{s:s, s:s, s:s, s:s, s:b, s:o, s:I, s:s}", "name", facts.name, "backend",
                          facts.backend, "family", mcg_family_names[facts.family], "isolation",
                          mcg_isolation_names[facts.isolation], "persistent", facts.persistent,
                          "capabilities", capabilities, "sessions", (json_int_t)facts.sessions,
                          "health", health);
  if (!out) return NULL;
  json_t *cost = json_object();
  if (facts.priced) json_object_set_new(cost, "usd_per_minute", json_real(facts.usd_per_minute));
  json_object_set_new(out, "cost",
                      cost); /* a table in any case, so that nobody has to look first */
  bool tagged = json_is_array(config->tags);
  json_object_set_new(out, "tags", tagged ? json_incref((json_t *)config->tags) : json_array());
  if (facts.region) json_object_set_new(out, "region", json_string(facts.region));
  if (facts.max_sessions)
    json_object_set_new(out, "max_sessions", json_integer(facts.max_sessions));
  set_number(out, "memory_mb", facts.memory_mb);
  set_number(out, "cpu_count", facts.cpu_count);
  set_number(out, "latency_s", latency);
  return out;
}

/* ---- what was asked for ------------------------------------------------------------------- */

/* What would help. */
static const char *fix_for(const mcg_config *config, const char *key)
{
  static const char *const rows[][2] = {
      {"min_isolation", "ask for less, or use another backend"},
      {"persistent", "use a backend that keeps workspaces, or a snapshot store"},
      {"memory_mb", "raise limits.memory_mb, or ask for less"},
      {"cpu_count", "raise limits.cpu_count, or ask for less"},
      {"capabilities", "use another backend, or correct the name"},
      {"region", "use a candidate of that region"},
      {"max_usd_per_minute", "allow more, give it a price, or use another backend"},
  };
  if (strcmp(key, "network") == 0) {
    if (config->backend->family == MCG_HOSTED) return "turn its network on or off in its options";
    return config->requirements.network == 1 ? "set network = \"open\", or give it rules"
                                             : "leave `network` out";
  }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i][0], key) == 0) return rows[i][1];
  return "use another backend";
}

static int refuse(const mcg_config *config, const char *key, const char *reason, mcg_error **err)
{
  if (config->traits.isolation == MCG_ISOLATION_NONE && strcmp(key, "min_isolation") == 0)
    return mcg_fail(err, MCG_UNENFORCEABLE, "use the jail backend",
                    "requirements.min_isolation: %s isolates nothing", config->name);
  return mcg_fail(err, MCG_NO_CANDIDATE, fix_for(config, key),
                  "%s does not meet requirements.%s: %s", config->name, key, reason);
}

/* Room (max_sessions) is looked at when it is opened. */
static int judge(const mcg_config *config, mcg_error **err)
{
  const char *names[MCG_CAPABILITIES_MAX];
  const mcg_requirements *wanted = &config->requirements;
  mcg_facts facts;
  mcg_candidates *one = NULL;
  mcg_ranking *ranking = NULL;
  mcg_candidate_facts(config, names, &facts);
  facts.max_sessions = 0;
  int rc = mcg_candidates_new(&facts, 1, &one, err);
  if (rc == 0) rc = mcg_rank(one, wanted, MCG_UNPRICED_LAST, &ranking, err);
  const char *key = rc == 0 ? mcg_ranking_key(ranking, one, wanted, 0) : NULL;
  if (key) {
    auto_free char *reason = mcg_ranking_reason(ranking, one, wanted, 0);
    rc = refuse(config, key, reason ? reason : "", err);
  }
  mcg_ranking_free(ranking);
  mcg_candidates_free(one);
  return rc;
}

int mcg_candidate_meet(const mcg_config *config, mcg_error **err)
{
  return config->requirements.root ? judge(config, err) : 0;
}

static void raise_to(mcg_limit *limit, double amount)
{
  uint64_t least = (uint64_t)(amount + 0.5);
  if (!limit->written && limit->value < least) limit->value = least;
}

void mcg_candidate_raise(mcg_config *config)
{
  raise_to(&config->plan.limits.memory_bytes, config->requirements.memory_mb * (1 << 20));
  raise_to(&config->plan.limits.cpu_milli, config->requirements.cpu_count * 1000);
}

/* ---- how many there are ------------------------------------------------------------------- */

/* Whose max_sessions they all count against: a tenant may call its own as it likes. */
static const char *counted_as(const mcg_config *config)
{
  return config->within ? config->within : config->name;
}

static unsigned room_for(unsigned most, unsigned live)
{
  return !most ? UINT_MAX : live < most ? most - live : 0;
}

unsigned mcg_candidate_sessions(const mcg_engine *engine, const mcg_config *config,
                                const mcg_session *apart, unsigned *most)
{
  unsigned all = 0, own = 0;
  for (const mcg_session *s = engine->sessions; s; s = s->after) {
    const mcg_config *its = s->config;
    if (s == apart || s->pool || s->undecided || !its || its->backend != config->backend ||
        strcmp(counted_as(its), counted_as(config)) != 0)
      continue;
    all++;
    own += its->within && strcmp(its->name, config->name) == 0;
  }
  bool by_own =
      config->within && room_for(config->max_sessions, own) < room_for(config->within_max, all);
  *most = config->within && !by_own ? config->within_max : config->max_sessions;
  return by_own ? own : all;
}

int mcg_candidate_room(const mcg_engine *engine, const mcg_config *config, const mcg_session *apart,
                       mcg_error **err)
{
  unsigned most, live = mcg_candidate_sessions(engine, config, apart, &most);
  if (!most || live < most) return 0;
  return mcg_fail(err, MCG_QUOTA, "close one of them, or raise max_sessions",
                  "%s has its %u sessions already", config->name, most);
}
