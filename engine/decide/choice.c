/* choice.c: the candidates of one configuration: each read as if it were the only one, judged, and
 * put in order. What a selector of the host's says goes over that order, and never past what was
 * asked for. */
#include "choice.h"
#include <string.h>

#define REASON_MAX 1024  /* bytes of what a selector says */
#define REASONS_MAX 2048 /* and of what is said of all candidates in one message, about */

/* ---- reading ------------------------------------------------------------------------------ */

/* The configuration with this one as its backend: a pool and a keeper know no other. */
static json_t *root_for(json_t *root, json_t *candidate)
{
  json_t *own = json_copy(root);
  if (!own) return NULL;
  json_object_del(own, "candidates");
  json_object_del(own, "selector");
  json_object_del(own, "failover");
  if (json_object_set(own, "backend", candidate) == 0) return own;
  json_decref(own);
  return NULL;
}

static const char *without_prefix(const char *message)
{
  static const char prefix[] = "configuration: ";
  return strncmp(message, prefix, sizeof prefix - 1) == 0 ? message + sizeof prefix - 1 : message;
}

/* One candidate. -1: the configuration is wrong; else it has its config, or why it has none. */
static int read_one(mcg_choice *self, size_t i, json_t *candidate, mcg_error **err)
{
  const mcg_where all = {.key = "candidates"}, where = {.up = &all, .index = i};
  mcg_chance *chance = &self->chances[i];
  json_t *own = self->listed ? root_for(self->root, candidate) : json_incref(self->root);
  const json_t *given = self->listed ? candidate : json_object_get(self->root, "backend");
  const mcg_backend *backend = mcg_engine_backend(self->engine, mcg_candidate_id(given));
  chance->name = strdup(mcg_candidate_name(given));
  chance->backend = backend ? backend->id : NULL; /* then it is refused */
  if (!own || !chance->name) {
    json_decref(own);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the configuration");
  }
  mcg_error *error = NULL;
  mcg_config *config = NULL;
  if (mcg_config_plan(self->engine, own, self->listed ? &where : NULL, &config, &error) == 0) {
    if (!config->refused && !config->backend->create)
      mcg_fail(&config->refused, MCG_UNSUPPORTED, NULL, "backend %s cannot make sandboxes",
               chance->backend);
    *(config->refused ? &chance->unfit : &chance->config) = config;
    if (!config->refused) return 0;
    error = mcg_steal_pointer(&config->refused);
  }
  if (error->code == MCG_INVALID || error->code == MCG_NOMEM) {
    *err = error;
    return -1;
  }
  chance->refused = error;
  chance->reason = strdup(without_prefix(error->message));
  return 0;
}

static int read_all(mcg_choice *self, mcg_error **err)
{
  json_t *list = json_object_get(self->root, "candidates");
  const mcg_where all = {.key = "candidates"}, failing = {.key = "failover"};
  const json_t *failover = json_object_get(self->root, "failover");
  if (mcg_check_object(self->root, NULL, err) < 0) return -1;
  if (list && json_object_get(self->root, "backend"))
    return mcg_check_fail(&all, err, "leave one of the two out", "`backend` is given as well");
  if (list && mcg_check_list(list, &all, err) < 0) return -1;
  self->failover = true;
  if (failover && mcg_check_bool(failover, &failing, &self->failover, err) < 0) return -1;
  self->listed = list != NULL;
  self->count = list ? json_array_size(list) : 1;
  if (!self->count)
    return mcg_fail(err, MCG_NO_CANDIDATE, "give one candidate", "candidates: the list is empty");
  self->chances = calloc(self->count, sizeof *self->chances);
  self->order = calloc(self->count, sizeof *self->order);
  if (!self->chances || !self->order)
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the configuration");
  for (size_t i = 0; i < self->count; i++)
    if (read_one(self, i, json_array_get(list, i), err) < 0) return -1;
  return 0;
}

/* ---- judging ------------------------------------------------------------------------------ */

typedef struct judging { /* those that have a config, in the numbers of their table */
  mcg_facts *facts;
  const char *(*names)[MCG_CAPABILITIES_MAX];
  uint32_t *index; /* among all */
  size_t count;
  mcg_candidates *table;
  mcg_ranking *ranking;
} judging;

static void judging_fini(judging *j)
{
  mcg_ranking_free(j->ranking);
  mcg_candidates_free(j->table);
  free(j->facts);
  free(j->names);
  free(j->index);
}

static int gather(const mcg_choice *self, judging *j, mcg_error **err)
{
  j->facts = calloc(self->count, sizeof *j->facts);
  j->names = calloc(self->count, sizeof *j->names);
  j->index = calloc(self->count, sizeof *j->index);
  if (!j->facts || !j->names || !j->index)
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory to choose");
  for (size_t i = 0; i < self->count; i++) {
    const mcg_config *config = self->chances[i].config;
    if (!config) continue;
    mcg_candidate_facts(config, j->names[j->count], &j->facts[j->count]);
    mcg_facts *facts = &j->facts[j->count];
    facts->sessions = mcg_candidate_sessions(self->engine, config, NULL, &facts->max_sessions);
    j->index[j->count++] = (uint32_t)i;
  }
  return mcg_candidates_new(j->facts, j->count, &j->table, err);
}

/* "in_order": whoever gives the list has chosen already. */
static int read_order(mcg_choice *self, mcg_error **err)
{
  const mcg_where where = {.key = "selector"};
  const json_t *selector = json_object_get(self->root, "selector");
  const char *word = "cheapest_first";
  if (selector && mcg_check_string(selector, &where, &word, err) < 0) return -1;
  self->by_price = strcmp(word, "cheapest_first") == 0;
  if (self->by_price || strcmp(word, "in_order") == 0) return 0;
  return mcg_check_fail(&where, err,
                        "write \"cheapest_first\", \"in_order\" or, in Lua, a function or "
                        "mooncage.policy \"name\" {}",
                        "there is no selector \"%s\"", word);
}

static int judge_all(mcg_choice *self, mcg_error **err)
{
  judging j = {.count = 0};
  int rc = gather(self, &j, err);
  const mcg_requirements *wanted = j.count ? &self->chances[j.index[0]].config->requirements : NULL;
  if (rc == 0) rc = mcg_rank(j.table, wanted, MCG_UNPRICED_LAST, &j.ranking, err);
  for (size_t at = 0; rc == 0 && at < j.count; at++) {
    mcg_chance *chance = &self->chances[j.index[at]];
    chance->fits = j.ranking->verdicts[at] == 0;
    chance->reason = mcg_ranking_reason(j.ranking, j.table, wanted, at);
    if (!chance->reason) rc = mcg_fail(err, MCG_NOMEM, NULL, "no memory to choose");
    if (!self->by_price && chance->fits) self->order[self->order_count++] = j.index[at];
  }
  for (size_t at = 0; rc == 0 && self->by_price && at < j.ranking->count; at++)
    self->order[self->order_count++] = j.index[j.ranking->order[at]];
  judging_fini(&j);
  return rc;
}

/* "a: why; b: why", of all of them, as far as a message goes. */
static char *all_reasons(const mcg_choice *self)
{
  char *text = strdup("");
  for (size_t i = 0; text && i < self->count; i++) {
    if (strlen(text) > REASONS_MAX) {
      char *cut = mcg_format("%s; and %zu more", text, self->count - i);
      free(text);
      return cut;
    }
    const mcg_chance *chance = &self->chances[i];
    const char *reason = chance->refused  ? without_prefix(chance->refused->message)
                         : chance->reason ? chance->reason
                                          : "not tried";
    char *longer = mcg_format("%s%s%s: %s", text, i ? "; " : "", chance->name, reason);
    free(text);
    text = longer;
  }
  return text;
}

static void nobody(const mcg_choice *self, mcg_error **err)
{
  auto_free char *reasons = all_reasons(self);
  mcg_fail(err, MCG_NO_CANDIDATE,
           "ask for less, or add a candidate that can; `mooncage select` tries it without opening "
           "anything",
           "no candidate can be used: %s", reasons ? reasons : "");
  for (size_t i = self->count; i-- > 0 && *err;)
    if (self->chances[i].refused) {
      (*err)->cause = mcg_error_copy(self->chances[i].refused);
      break;
    }
}

/* The only one: its own error says more than a table of reasons. */
static void judge_the_one(mcg_choice *self)
{
  mcg_chance *one = &self->chances[0];
  mcg_error **refusal = &self->refusal;
  if (!one->config) {
    *refusal = mcg_error_copy(one->refused);
  } else if (mcg_candidate_meet(one->config, refusal) < 0) {
    mcg_wrap(refusal, "configuration");
  } else if (mcg_candidate_room(self->engine, one->config, NULL, refusal) == 0) {
    one->fits = true;
    self->order_count = 1;
    return;
  }
  if (!one->reason) one->reason = strdup(without_prefix((*refusal)->message));
}

int mcg_choice_new(mcg_engine *engine, json_t *take_root, bool tell, mcg_choice **out,
                   mcg_error **err)
{
  mcg_choice *self = calloc(1, sizeof *self);
  if (!self) {
    json_decref(take_root);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the configuration");
  }
  *self = (mcg_choice){.engine = engine, .root = take_root};
  int rc = read_all(self, err);
  if (rc == 0) rc = read_order(self, err);
  if (rc < 0 && strncmp((*err)->message, "configuration: ", 15) != 0)
    mcg_wrap(err, "configuration");
  if (rc == 0 && self->count == 1 && !tell)
    judge_the_one(self);
  else if (rc == 0)
    rc = judge_all(self, err);
  if (rc == 0 && !self->order_count && !self->refusal) nobody(self, &self->refusal);
  if (rc < 0)
    mcg_choice_free(self);
  else
    *out = self;
  return rc;
}

int mcg_choice_stand_in(mcg_choice *self, mcg_config **out, mcg_error **err)
{
  *out = NULL;
  for (size_t i = 0; i < self->count && !*out; i++)
    *out = mcg_steal_pointer(self->chances[i].config ? &self->chances[i].config
                                                     : &self->chances[i].unfit);
  if (*out) return 0;
  *err = mcg_steal_pointer(&self->refusal);
  return -1;
}

void mcg_choice_free(mcg_choice *self)
{
  if (!self) return;
  for (size_t i = 0; self->chances && i < self->count; i++) {
    mcg_chance *chance = &self->chances[i];
    mcg_config_free(chance->config);
    mcg_config_free(chance->unfit);
    mcg_error_free(chance->refused);
    json_decref(chance->facts);
    free(chance->name);
    free(chance->reason);
  }
  free(self->chances);
  free(self->order);
  free(self->reason);
  mcg_error_free(self->refusal);
  json_decref(self->root);
  free(self);
}

/* ---- trying ------------------------------------------------------------------------------- */

mcg_config *mcg_choice_take(mcg_choice *self)
{
  if (self->next >= self->order_count) return NULL;
  return mcg_steal_pointer(&self->chances[self->order[self->next++]].config);
}

void mcg_choice_put(mcg_choice *self, mcg_config *config)
{
  self->chances[self->order[--self->next]].config = config;
}

bool mcg_choice_failed(mcg_choice *self, mcg_error **error)
{
  mcg_code code = (*error)->code;
  bool final =
      code == MCG_CANCELED || code == MCG_INVALID || code == MCG_NOMEM || code == MCG_AUDIT_FAILED;
  mcg_chance *tried = &self->chances[self->order[self->next - 1]];
  mcg_error_set_backend(*error, tried->backend);
  mcg_error_free(tried->refused);
  tried->refused = mcg_error_copy(*error);
  if (!final && self->failover && self->next < self->order_count) return true;
  if (final || self->count == 1) return false;
  auto_free char *reasons = all_reasons(self);
  mcg_error *whole = NULL;
  mcg_fail(&whole, code, (*error)->fix, "no candidate could be opened: %s",
           reasons ? reasons : tried->name);
  whole->retryable = (*error)->retryable;
  whole->cause = *error;
  *error = whole;
  return false;
}

/* ---- telling, and asking ------------------------------------------------------------------ */

static const json_t *facts_of(mcg_choice *self, mcg_chance *chance)
{
  if (!chance->facts)
    chance->facts =
        chance->config ? mcg_candidate_describe(self->engine, chance->config)
                       : json_pack("{s:s, s:s?}", "name", chance->name, "backend", chance->backend);
  return chance->facts;
}

static json_t *order_numbers(const mcg_choice *self)
{
  json_t *order = json_array();
  for (size_t i = 0; i < self->order_count; i++)
    json_array_append_new(order, json_integer((json_int_t)self->order[i] + 1));
  return order;
}

json_t *mcg_choice_explain(mcg_choice *self)
{
  json_t *candidates = json_array();
  for (size_t i = 0; i < self->count; i++) {
    mcg_chance *chance = &self->chances[i];
    json_t *entry = json_copy((json_t *)facts_of(self, chance));
    json_object_set_new(entry, "fits", json_boolean(chance->fits));
    json_object_set_new(entry, "reason", json_string(chance->reason ? chance->reason : ""));
    if (json_array_append_new(candidates, entry) < 0) {
      json_decref(candidates);
      return NULL;
    }
  }
  json_t *told = json_pack("{s:o, s:o, s:s*}", "order", order_numbers(self), "candidates",
                           candidates, "reason", self->reason);
  if (told && self->order_count)
    json_object_set_new(told, "chosen", json_integer((json_int_t)self->order[0] + 1));
  return told;
}

json_t *mcg_choice_record(const mcg_choice *self, bool chosen)
{
  json_t *candidates = json_array();
  for (size_t i = 0; i < self->count; i++) {
    const mcg_chance *chance = &self->chances[i];
    json_array_append_new(candidates, json_pack("{s:s, s:s*, s:b, s:s*}", "name", chance->name,
                                                "backend", chance->backend, "fits", chance->fits,
                                                "reason", chance->reason));
  }
  const char *name = chosen && self->order_count ? self->chances[self->order[0]].name : NULL;
  return json_pack("{s:s*, s:o}", "chosen", name, "candidates", candidates);
}

json_t *mcg_choice_question(mcg_choice *self)
{
  json_t *candidates = json_array(), *numbers = json_array();
  for (size_t i = 0; i < self->count; i++) {
    mcg_chance *chance = &self->chances[i];
    if (!chance->config) continue; /* it cannot be a candidate */
    json_array_append(candidates, (json_t *)facts_of(self, chance));
    json_array_append_new(numbers, json_integer((json_int_t)i + 1));
  }
  json_t *requirements = json_object_get(self->root, "requirements");
  bool given = json_is_object(requirements);
  return json_pack("{s:o, s:o, s:o}", "candidates", candidates, "numbers", numbers, "requirements",
                   given ? json_incref(requirements) : json_object());
}

static int bad_answer(mcg_error **err)
{
  return mcg_fail(err, MCG_INVALID, "return a candidate, a list of candidates, or nil and a reason",
                  "the selector's answer is no order of candidates");
}

static int answer_none(const json_t *answer, mcg_error **err)
{
  const char *why = json_string_value(json_object_get(answer, "reason"));
  return mcg_fail(err, MCG_NO_CANDIDATE, "ask for less, or add a candidate that it takes",
                  "the selector chose none: %s", why ? why : "it gave no reason");
}

int mcg_choice_answer(mcg_choice *self, const json_t *answer, mcg_error **err)
{
  const json_t *order = json_object_get(answer, "order");
  if (!json_is_object(answer) || (order && !json_is_array(order))) return bad_answer(err);
  if (!json_array_size(order)) return answer_none(answer, err);
  auto_free bool *seen = calloc(self->count, sizeof *seen);
  if (!seen) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to choose");
  size_t count = 0;
  for (size_t i = 0; i < json_array_size(order); i++) {
    const json_t *number = json_array_get(order, i);
    json_int_t at = json_integer_value(number) - 1;
    if (!json_is_integer(number) || at < 0 || (size_t)at >= self->count) return bad_answer(err);
    const mcg_chance *chance = &self->chances[at];
    if (!chance->fits)
      return mcg_fail(err, MCG_NO_CANDIDATE,
                      "let it choose among those that meet the requirements: "
                      "candidate:satisfies(requirements), or mooncage.rank",
                      "the selector chose %s, which cannot be used: %s", chance->name,
                      chance->reason ? chance->reason : "");
    if (!seen[at]) self->order[count++] = (uint32_t)at;
    seen[at] = true;
  }
  self->order_count = count;
  const char *why = json_string_value(json_object_get(answer, "reason"));
  free(self->reason);
  self->reason = why ? mcg_format("%.*s", REASON_MAX, why) : NULL;
  char *whole = mcg_steal_pointer(&self->reason);
  self->reason = whole ? mcg_one_line(whole) : NULL;
  free(whole);
  return 0;
}
