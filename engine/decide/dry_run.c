/* dry_run.c: choosing without opening: which candidate a configuration would get, and what is said of
 * each of them. */
#include "ask.h"
#include "choice.h"
#include "tenant.h"
#include <string.h>

typedef struct dry_run {
  mcg_engine *engine;
  mcg_counsel *counsel;
  mcg_choice *choice;
  mcg_text_done done;
  void *data;
  char *text;
} dry_run;

static int ask_selector(dry_run *self, mcg_error **err)
{
  auto_json json_t *answer = NULL;
  auto_json json_t *question = mcg_choice_question(self->choice);
  if (!question) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to choose");
  if (mcg_ask_counsel(self->engine, self->counsel, NULL, MCG_ASK_SELECT, question, -1, &answer,
                      err) < 0)
    return -1;
  return mcg_choice_answer(self->choice, answer, err);
}

/* What the tenant would choose from. */
static int ask_tenant(dry_run *self, mcg_error **err)
{
  json_t *root;
  mcg_quota quota;
  mcg_choice *choice;
  const char *id = json_string_value(json_object_get(self->choice->root, "tenant"));
  if (mcg_tenant_resolve(self->engine, self->counsel, NULL, id, self->choice->root, &root, &quota,
                         err) < 0 ||
      mcg_choice_new(self->engine, root, true, &choice, err) < 0)
    return -1;
  mcg_choice_free(self->choice);
  self->choice = choice;
  return 0;
}

/* What a choice that came to nothing says is part of the answer: there are reasons beside it. */
static int describe(dry_run *self, mcg_error *none, mcg_error **err)
{
  auto_json json_t *told = mcg_choice_explain(self->choice);
  if (told && none) {
    json_object_del(told, "chosen");
    json_object_set_new(told, "order", json_array());
    json_object_set_new(told, "error",
                        json_pack("{s:s, s:s, s:s*}", "code", mcg_code_name(none->code), "message",
                                  none->message, "fix", none->fix));
  }
  self->text = told ? json_dumps(told, JSON_COMPACT) : NULL;
  return self->text ? 0 : mcg_fail(err, MCG_NOMEM, NULL, "no memory to choose");
}

static int dry_run_run(void *arg, mcg_error **err)
{
  dry_run *self = arg;
  auto_error mcg_error *none = NULL;
  int rc = 0;
  if (mcg_counsel_has(self->counsel, MCG_ASK_TENANT) && ask_tenant(self, err) < 0) return -1;
  none = mcg_steal_pointer(&self->choice->refusal);
  if (!none && mcg_counsel_has(self->counsel, MCG_ASK_SELECT)) rc = ask_selector(self, &none);
  if (rc == 0 || (none && none->code == MCG_NO_CANDIDATE)) return describe(self, none, err);
  *err = mcg_steal_pointer(&none);
  return -1;
}

static void dry_run_complete(void *arg, mcg_error *error)
{
  dry_run self = *(dry_run *)arg;
  free(arg);
  mcg_choice_free(self.choice);
  mcg_counsel_unref(self.counsel);
  if (self.done)
    self.done(self.data, error ? NULL : self.text, error);
  else
    mcg_error_free(error);
  free(self.text);
}

int mcg_select(mcg_engine *engine, const char *text, size_t len, const mcg_deciders *deciders,
               mcg_text_done done, void *data, mcg_op **op, mcg_error **err)
{
  mcg_choice *choice;
  if (mcg_engine_check_open(engine, err) < 0) return -1;
  json_t *root = mcg_json_parse(text, len, err);
  if (!root) return mcg_wrap(err, "configuration");
  if (mcg_choice_new(engine, root, true, &choice, err) < 0) return -1;
  mcg_counsel *counsel = NULL;
  dry_run *self = malloc(sizeof *self);
  if (self && mcg_counsel_new(deciders, &counsel, err) == 0) {
    *self = (dry_run){engine, counsel, choice, done, data, NULL};
    if (mcg_op_start(engine, dry_run_run, dry_run_complete, self, op, err) == 0) return 0;
  }
  if (!self) mcg_fail(err, MCG_NOMEM, NULL, "no memory to choose");
  free(counsel); /* refused at once: the host keeps what it gave */
  free(self);
  mcg_choice_free(choice);
  return -1;
}
