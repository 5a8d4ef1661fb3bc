/* canonical.h: JSON as RFC 8785 wants it (keys in order, one spelling for everything), written straight
 * into a buffer: the audit log is hashed as it stands. Text that is no clean UTF-8 becomes
 * {"base64":...}, too long text {"len","sha256","text"}; what is secret becomes ***. */
#ifndef MCG_CANONICAL_H
#define MCG_CANONICAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct mcg_text {
  char *data; /* no NUL at its end */
  size_t len, cap;
  bool failed; /* memory ran out: what is here is not all */
} mcg_text;

void mcg_text_fini(mcg_text *text);
bool mcg_text_grow(mcg_text *text, size_t more);
/* data[len .. len + more) may be written */
static inline bool mcg_text_room(mcg_text *text, size_t more)
{
  return text->cap - text->len >= more || mcg_text_grow(text, more);
}
static inline void mcg_text_put(mcg_text *text, const void *bytes, size_t len)
{
  if (!len || !mcg_text_room(text, len)) return;
  memcpy(text->data + text->len, bytes, len);
  text->len += len;
}
#define mcg_text_literal(text, literal) mcg_text_put(text, literal, sizeof(literal) - 1)

/* What must never be written. redact.c; all of them on the loop's thread. */
typedef struct mcg_secrets mcg_secrets;
mcg_secrets *mcg_secrets_new(void);
void mcg_secrets_free(mcg_secrets *secrets); /* wipes; NULL is fine */
bool mcg_secrets_add(mcg_secrets *secrets, const void *bytes,
                     size_t len); /* copies; false: nomem */
/* As they were given, a list of base64 texts, for another engine of the same user. NULL: no memory. */
json_t *mcg_secrets_json(const mcg_secrets *secrets);
/* Each secret in `bytes` becomes as many asterisks. NULL is fine. */
void mcg_secrets_mask(const mcg_secrets *secrets, char *bytes, size_t len);
/* How many bytes at the end may be the start of a secret that goes on behind them. */
size_t mcg_secrets_tail(const mcg_secrets *secrets, const char *bytes, size_t len);
/* `bytes` with each secret in it as ***: themselves where there is none (*fresh NULL), else in *fresh,
 * which the caller frees. NULL: no memory. `secrets` may be NULL. */
const char *mcg_redact(const mcg_secrets *secrets, const char *bytes, size_t len, size_t *out_len,
                       char **fresh);
/* For texts that may have been cut: a copy, with NUL, where *** stands for the start of each secret
 * too, as far as it goes. NULL: no memory. */
char *mcg_redact_parts(const mcg_secrets *secrets, const char *bytes, size_t len);

#define MCG_TEXT_MAX ((size_t)8 << 10) /* longer ones are cut */

/* A value that came from outside, of any length. */
void mcg_text_foreign(mcg_text *text, const mcg_secrets *secrets, const char *bytes, size_t len,
                      size_t most);
/* A list of words, within a budget for all of them. NULL-terminated. */
void mcg_text_words(mcg_text *text, const mcg_secrets *secrets, const char *const *words);
void mcg_text_number(mcg_text *text, double number); /* as ECMAScript spells it; not finite: null */
void mcg_text_whole(mcg_text *text, uint64_t number);
/* Keys are sorted as UTF-16, as RFC 8785 says. `secrets` is for strings in it. */
void mcg_text_json(mcg_text *text, const mcg_secrets *secrets, const json_t *value);

#endif
