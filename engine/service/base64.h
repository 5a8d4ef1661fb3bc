/* base64.h: RFC 4648, the standard alphabet with padding: how JSON carries bytes that are no text. */
#ifndef MCG_BASE64_H
#define MCG_BASE64_H

#include <stddef.h>

/* Fresh NUL-terminated text; NULL when memory is out. */
char *mcg_base64_encode(const void *bytes, size_t len);
/* Fresh bytes (a NUL follows them), *len set; NULL when `text` is not base64 or memory is out. */
char *mcg_base64_decode(const char *text, size_t text_len, size_t *len);

#endif
