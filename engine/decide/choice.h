/* choice.h: the candidates of one configuration: who of them can be what was asked for, and in which
 * order they are tried. */
#ifndef MCG_CHOICE_H
#define MCG_CHOICE_H

#include "candidate.h"

typedef struct mcg_chance { /* one candidate */
  mcg_config *config;       /* owned; NULL: refused, or taken */
  mcg_config *unfit;        /* owned; of one that cannot keep what was written: to tell of it */
  mcg_error *refused;       /* owned; why it cannot be, or that opening it failed */
  json_t *facts;            /* owned; NULL until somebody has to be told */
  char *name;               /* owned */
  const char *backend;
  bool fits;    /* it meets the requirements */
  char *reason; /* owned; in a few words, or NULL */
} mcg_chance;

typedef struct mcg_choice {
  mcg_engine *engine;
  json_t *root; /* owned: the configuration */
  size_t count;
  mcg_chance *chances;
  uint32_t *order; /* of those that are to be tried */
  size_t order_count, next;
  bool listed; /* they were given as a list, so that messages speak of several */
  bool failover;
  bool by_price;      /* else in the order that was given */
  char *reason;       /* owned; why the selector chose so, or NULL */
  mcg_error *refusal; /* owned; nobody may be tried, and this is why; or NULL */
} mcg_choice;

/* Reads the configuration for every candidate and orders those that fit by price. What is wrong with
 * it fails at once. `take_root` is taken, also on failure. When nobody fits there is a refusal: the
 * one's own error where there is one, `no_candidate` with all reasons where there are several or `tell`
 * is set. */
int mcg_choice_new(mcg_engine *engine, json_t *take_root, bool tell, mcg_choice **out,
                   mcg_error **err);
void mcg_choice_free(mcg_choice *choice); /* NULL is fine */
/* The configuration of the next one to be tried, which is the caller's; NULL: there is none. */
mcg_config *mcg_choice_take(mcg_choice *choice);
/* After a refusal: any configuration, for telling of it; the caller's. -1: there is not even one, and
 * *err is the refusal. */
int mcg_choice_stand_in(mcg_choice *choice, mcg_config **out, mcg_error **err);
/* Undoes the last take: that one was not tried. */
void mcg_choice_put(mcg_choice *choice, mcg_config *config);
/* Opening the one that was taken last failed: the error is kept as its reason. False: there is no
 * other to be tried, and *take_error says all there is to say. */
bool mcg_choice_failed(mcg_choice *choice, mcg_error **take_error);
/* {"chosen", "order", "candidates": [{facts..., "fits", "reason"}], "reason"}; numbers from 1. */
json_t *mcg_choice_explain(mcg_choice *choice);
/* The same without facts, for the audit log: {"chosen", "candidates": [{"name", "backend", "fits",
 * "reason"}]}; "chosen" is a name, and only there when `chosen` is. */
json_t *mcg_choice_record(const mcg_choice *choice, bool chosen);
/* What a selector is asked: {"candidates", "requirements", "context"}. */
json_t *mcg_choice_question(mcg_choice *choice);
/* Its answer: {"order": [numbers], "reason"}. Refuses what is no order of those that fit. */
int mcg_choice_answer(mcg_choice *choice, const json_t *answer, mcg_error **err);

#endif
