/* doctor.h: what the parts of the doctor add to one list of checks. */
#ifndef MCG_DOCTOR_H
#define MCG_DOCTOR_H

#include "engine.h"
#include "fiber.h"

typedef enum mcg_check_state {
  MCG_CHECK_OK,
  MCG_CHECK_NO,
  MCG_CHECK_OFF /* not for this user or machine, and nothing is wrong */
} mcg_check_state;

typedef struct mcg_check {
  const char *name;
  mcg_check_state state;
  bool needed;        /* by the default sandbox: without it the doctor fails */
  const char *detail; /* what was tried, or why it did not work */
  const char *costs;  /* what cannot be had without it; NULL: the detail says so */
  const char *fix;    /* a command, where there is one; or NULL */
} mcg_check;

void mcg_doctor_add(struct json_t *checks, const mcg_check *check);
/* doctor_probe.c: what sandboxes are made with, tried by `mooncage-init probe`. */
int mcg_doctor_probe(mcg_engine *engine, struct json_t *checks, mcg_error **err) MCG_PARKS;
/* doctor_machine.c: where this runs, and what it needs besides sandboxes. */
struct json_t *mcg_doctor_machine(void);
void mcg_doctor_surroundings(struct json_t *checks);
/* doctor_egress.c: a network policy, used by a sandbox against listeners of the doctor's own. */
void mcg_doctor_egress(mcg_engine *engine, struct json_t *checks);
/* doctor_trial.c: sessions as a host has them, but on a fiber, and not to be canceled half-way. */
mcg_session *mcg_doctor_open(mcg_engine *engine, const char *config, mcg_error **err);
/* A command of the shell: its exit status, or -1. `out`, if given: its standard output, to be freed. */
int mcg_doctor_run(mcg_session *session, const char *shell, char **out, mcg_error **err);
void mcg_doctor_close(mcg_session *session);
/* What mends user namespaces here, by what forbids them; ends with what is to be tried otherwise. */
const char *mcg_doctor_userns_fix(void);

#endif
