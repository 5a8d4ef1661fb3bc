/* stranger.h: policies that nobody vouches for. Such a policy is Lua text that runs in a small process
 * of its own inside a jail: it sees no file of the host and no network, has 64 MiB and 100 ms of
 * processor time for a decision, and speaks JSON. One that takes more is killed, and what was asked is
 * answered with an error, which denies; the next question is put to a new process.
 *
 * Where no jail can be made every question is answered `unenforceable`: it never runs in here. */
#ifndef MOONCAGE_STRANGER_H
#define MOONCAGE_STRANGER_H

#include <mooncage/mooncage.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mcg_stranger mcg_stranger;

/* `policy` is {"name": for messages, "source": the Lua text, "options": {...}}. Starts nothing.
 * With "check": true and the question {"kind":"check"} it is only said whether it is a policy: {}, or
 * {"says": what it threw for lack of options}. */
MCG_API int mcg_stranger_new(mcg_engine *engine, const char *policy, size_t len, mcg_stranger **out,
                             mcg_error **err);
/* `question` is one line of JSON: {"kind":"selector","candidates","numbers","requirements","context"},
 * {"kind":"guardrail","command","context"} or {"kind":"tenant","tenant","config","context"}. Completes
 * with the answer that mcg_answer takes for it. Each `apart` (a tenant's id; NULL is one too) has a
 * process of its own, which is asked one thing at a time. */
MCG_API int mcg_stranger_ask(mcg_stranger *stranger, const char *apart, const char *question,
                             size_t len, mcg_text_done done, void *data, mcg_op **op,
                             mcg_error **err);
/* Ends its processes; the next question starts one again. */
MCG_API void mcg_stranger_rest(mcg_stranger *stranger);
/* Before its engine is freed. What was asked is still answered. NULL is fine. */
MCG_API void mcg_stranger_free(mcg_stranger *stranger);

#ifdef __cplusplus
}
#endif
#endif
