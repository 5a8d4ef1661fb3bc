/* words.h: shell text that is one simple command, as the words the shell would make of it. */
#ifndef MCG_WORDS_H
#define MCG_WORDS_H

#include "engine.h"
#include <jansson.h>

/* A list of texts; or NULL with `invalid`, which says what makes it more than one simple command. */
json_t *mcg_words(const char *text, size_t len, mcg_error **err);

#endif
