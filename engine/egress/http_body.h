/* http_body.h: where the body of a message ends, and what is in it. A chunked one is read strictly and
 * cut into chunks anew: extensions and trailers, which nobody needs, are dropped. Pure. */
#ifndef MCG_EGRESS_HTTP_BODY_H
#define MCG_EGRESS_HTTP_BODY_H

#include "http_head.h"

typedef enum mcg_http_step { /* within a chunked body */
                             MCG_HTTP_SIZE,
                             MCG_HTTP_DATA,
                             MCG_HTTP_DATA_END,
                             MCG_HTTP_TRAILER,
                             MCG_HTTP_DONE
} mcg_http_step;

typedef struct mcg_http_body {
  mcg_http_framing framing;
  mcg_http_step step;
  uint64_t left;  /* of the body, or of the chunk */
  size_t trailer; /* bytes of it so far */
} mcg_http_body;

void mcg_http_body_begin(mcg_http_body *body, const mcg_http_head *head);
bool mcg_http_body_done(const mcg_http_body *body);
/* Takes what it can of `bytes`: how many; what they carry is appended to `out`. Fewer than all: it is
 * done, or needs more to go on. -1: this is no body, *why says why not. */
ssize_t mcg_http_body_read(mcg_http_body *body, const char *bytes, size_t len, mcg_bytes *out,
                           const char **why);
/* What came out of it, on its way on: as a chunk where the body is chunked. */
void mcg_http_body_write(const mcg_http_body *body, const char *bytes, size_t len, mcg_bytes *out);
void mcg_http_body_end(const mcg_http_body *body, mcg_bytes *out);

#endif
