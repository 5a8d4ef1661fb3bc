/* hooks.h: the host's hooks: told what happens, able to wait, unable to change it. */
#ifndef MCG_HOOKS_H
#define MCG_HOOKS_H

#include "session/session.h"

typedef enum mcg_hook {
  MCG_HOOK_SANDBOX_START = 1 << 0,
  MCG_HOOK_SANDBOX_STOP = 1 << 1,
  MCG_HOOK_EXEC_START = 1 << 2,
  MCG_HOOK_EXEC_END = 1 << 3,
  MCG_HOOK_SANDBOX_SNAPSHOT = 1 << 4
} mcg_hook;

/* The keys "hooks" (a list of names: which the host has) and "hook_timeout_s". */
int mcg_hooks_read(mcg_config *config, mcg_error **err);

static inline bool mcg_session_hooked(const mcg_session *session, unsigned hooks)
{
  return session->counsel && (session->config->hooks & hooks);
}

/* Tells the host, when it has that hook, and waits until it is done with it. What goes wrong there is
 * logged, and recorded as hook_error. `take_facts` is the question but for "hook". -1 only when the
 * fiber was canceled meanwhile. */
int mcg_hook_fire(mcg_session *session, mcg_hook hook, json_t *take_facts,
                  mcg_error **err) MCG_PARKS;
/* The same of a command: "hook" is put into `facts`. NULL: there was no memory for them. `heard` as in
 * ask.h. */
int mcg_hook_tell(mcg_session *session, mcg_hook hook, mcg_told *facts, bool *heard,
                  mcg_error **err) MCG_PARKS;

#endif
