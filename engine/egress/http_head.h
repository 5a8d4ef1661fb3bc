/* http_head.h: heads of HTTP/1.1 messages (RFC 9112): read strictly, and written anew, so that whoever
 * reads them next reads the same. Pure.
 *
 * What two readers could take for two things is refused: Content-Length beside Transfer-Encoding, two of
 * either, two Hosts, folded lines, a bare CR or LF, NUL, blanks around a name, a coding other than
 * chunked. The length of a head is bounded by the caller's buffer, MCG_HTTP_HEAD_MAX. */
#ifndef MCG_EGRESS_HTTP_HEAD_H
#define MCG_EGRESS_HTTP_HEAD_H

#include "bytes.h"
#include <stdint.h>
#include <sys/types.h>

#define MCG_HTTP_HEAD_MAX ((size_t)16 << 10)
#define MCG_HTTP_FIELDS_MAX 128

typedef struct mcg_http_text { /* borrowed from what was read */
  const char *at;
  size_t len;
} mcg_http_text;

typedef struct mcg_http_field {
  mcg_http_text name, value; /* the value without blanks around it */
} mcg_http_field;

typedef enum mcg_http_framing {
  MCG_HTTP_NOTHING,
  MCG_HTTP_LENGTH, /* `length` bytes, which may be 0 */
  MCG_HTTP_CHUNKED,
  MCG_HTTP_TO_END /* of the connection; responses only */
} mcg_http_framing;

typedef struct mcg_http_head {
  mcg_http_text method, target; /* of a request */
  int status;                   /* of a response */
  mcg_http_text phrase;
  int minor; /* HTTP/1.x: 0 or 1 */
  mcg_http_field fields[MCG_HTTP_FIELDS_MAX];
  size_t count;
  mcg_http_framing framing;
  uint64_t length;
  bool close;            /* no other message follows */
  mcg_http_text upgrade; /* to what, where Connection says so too; len 0: nothing */
  mcg_http_text host;    /* of a request: the field's value */
} mcg_http_head;

typedef struct mcg_http_refusal {
  int status; /* what a refused request is answered with */
  const char *why;
} mcg_http_refusal;

/* How many bytes the head takes, its empty line included; 0: more are needed; -1: *refusal. */
ssize_t mcg_http_request_read(const char *bytes, size_t len, mcg_http_head *out,
                              mcg_http_refusal *refusal);
/* `method`: of the request, for its answer to HEAD has no body. The refusal's status is 502. */
ssize_t mcg_http_response_read(const char *bytes, size_t len, const char *method,
                               mcg_http_head *out, mcg_http_refusal *refusal);

bool mcg_http_text_is(mcg_http_text text, const char *word); /* letters' case aside */
const mcg_http_field *mcg_http_find(const mcg_http_head *head, const char *name); /* the first */
/* A name of a field: letters, digits and !#$%&'*+-.^_`|~. A value: no control bytes. */
bool mcg_http_name_ok(const char *name, size_t len);
bool mcg_http_value_ok(const char *value, size_t len);

/* ---- written anew (http_write.c) */

typedef struct mcg_http_set {
  const char *name, *value;
} mcg_http_set;

typedef struct mcg_http_rewrite {
  const char *host;        /* "api.example.com", "192.0.2.1", "2001:db8::1": the judged one */
  uint16_t port;           /* judged, too */
  const mcg_http_set *set; /* what the message says of these is replaced */
  size_t count;
  bool plain; /* ask for an answer that is not compressed, so that it can be looked into */
} mcg_http_rewrite;

/* The request as it goes on. False: it is not for the judged host, and *refusal says so. */
bool mcg_http_request_write(const mcg_http_head *head, const mcg_http_rewrite *rule, mcg_bytes *out,
                            mcg_http_refusal *refusal);
/* `close`: the connection ends after it. */
void mcg_http_response_write(const mcg_http_head *head, bool close, mcg_bytes *out);
/* A whole response of ours: one line of text, then the end of the connection. */
void mcg_http_answer(int status, const char *text, mcg_bytes *out);

#endif
