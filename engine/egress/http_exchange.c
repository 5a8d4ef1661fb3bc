/* http_exchange.c: what state a connection is in, and what follows from the next bytes. */
#include "http_exchange.h"
#include <strings.h>

typedef enum request_state {
  REQUEST_HEAD,
  REQUEST_BODY,
  REQUEST_SENT, /* all of it; the response is not complete */
  REQUEST_RAW
} request_state;

typedef enum response_state {
  RESPONSE_NONE, /* none is owed */
  RESPONSE_HEAD,
  RESPONSE_BODY,
  RESPONSE_DONE, /* it came before the request was complete */
  RESPONSE_RAW
} response_state;

struct mcg_exchange {
  const mcg_http_rewrite *rule;
  const mcg_secrets *secrets;
  request_state request;
  response_state response;
  mcg_exchange_state state;
  mcg_http_body out, in; /* of the request, of the response */
  char method[16];       /* of the request: so much of it as tells HEAD */
  bool upgrade;          /* the request asks for one */
  bool last;             /* no request follows this one */
  bool answered;         /* the near side has had a byte of the response */
  mcg_bytes carried;     /* of the response's body: looked into, not yet passed on */
  const char *why;       /* constant, or `failure` */
  char failure[512];
  bool failed; /* there is no server */
  unsigned requests;
};

mcg_exchange *mcg_exchange_new(const mcg_http_rewrite *rule, const mcg_secrets *secrets)
{
  mcg_exchange *exchange = calloc(1, sizeof *exchange);
  if (!exchange) return NULL;
  exchange->rule = rule;
  exchange->secrets = secrets;
  return exchange;
}

void mcg_exchange_free(mcg_exchange *exchange)
{
  if (!exchange) return;
  mcg_bytes_fini(&exchange->carried);
  free(exchange);
}

static void end(mcg_exchange *x, mcg_exchange_state state, const char *why)
{
  if (x->state != MCG_EXCHANGE_OPEN) return;
  x->state = state;
  if (why) x->why = why;
}

/* An answer of ours, unless one from the server has begun. */
static void answer(mcg_exchange *x, int status, const char *why, mcg_bytes *near)
{
  if (x->state != MCG_EXCHANGE_OPEN) return;
  if (x->answered) {
    end(x, MCG_EXCHANGE_BROKEN, why);
    return;
  }
  mcg_http_answer(status, why, near);
  end(x, MCG_EXCHANGE_FINISHED, why);
}

/* ---- the response's bytes ----------------------------------------------------------------- */

/* Passes on what was looked into: all of it at the `end`, else but what may be the start of a secret. */
static void pass(mcg_exchange *x, bool all, mcg_bytes *near)
{
  mcg_bytes *carried = &x->carried;
  if (!carried->len) return;
  char *at = carried->at + carried->start;
  mcg_secrets_mask(x->secrets, at, carried->len);
  size_t kept = all ? 0 : mcg_secrets_tail(x->secrets, at, carried->len);
  mcg_http_body_write(&x->in, at, carried->len - kept, near);
  mcg_bytes_taken(carried, carried->len - kept);
}

/* ---- the end of a message ----------------------------------------------------------------- */

static void next_request(mcg_exchange *x)
{
  x->request = REQUEST_HEAD;
  x->response = RESPONSE_NONE;
  x->answered = false;
  if (x->last) end(x, MCG_EXCHANGE_FINISHED, NULL);
}

static void request_complete(mcg_exchange *x)
{
  x->request = REQUEST_SENT;
  if (x->response == RESPONSE_DONE) next_request(x);
}

static void response_complete(mcg_exchange *x, mcg_bytes *near)
{
  pass(x, true, near);
  mcg_http_body_end(&x->in, near);
  x->response = RESPONSE_DONE;
  if (x->request == REQUEST_SENT)
    next_request(x);
  else if (x->last)
    end(x, MCG_EXCHANGE_FINISHED, NULL);
}

/* ---- from the sandbox --------------------------------------------------------------------- */

static size_t begin_request(mcg_exchange *x, const char *bytes, size_t len, mcg_bytes *far,
                            mcg_bytes *near)
{
  mcg_http_head head;
  mcg_http_refusal refusal;
  ssize_t size = mcg_http_request_read(bytes, len, &head, &refusal);
  if (size == 0) return 0;
  if (size > 0 && x->failed) {
    answer(x, 502, x->failure, near);
    return 0;
  }
  size_t before = far->len;
  if (size < 0 || !mcg_http_request_write(&head, x->rule, far, &refusal)) {
    far->len = before;
    answer(x, refusal.status, refusal.why, near);
    return 0;
  }
  x->requests++;
  size_t method = head.method.len < sizeof x->method ? head.method.len : sizeof x->method - 1;
  memcpy(x->method, head.method.at, method);
  x->method[method] = 0;
  x->upgrade = head.upgrade.len > 0;
  x->last = head.close;
  x->response = RESPONSE_HEAD;
  x->request = REQUEST_BODY;
  mcg_http_body_begin(&x->out, &head);
  if (mcg_http_body_done(&x->out)) request_complete(x);
  return (size_t)size;
}

static size_t pass_body(mcg_exchange *x, const char *bytes, size_t len, mcg_bytes *far)
{
  mcg_bytes carried = {0};
  const char *why = NULL;
  ssize_t took = mcg_http_body_read(&x->out, bytes, len, &carried, &why);
  if (took < 0) {
    mcg_bytes_fini(&carried);
    end(x, MCG_EXCHANGE_BROKEN, why); /* the server must not take it for complete */
    return 0;
  }
  if (carried.len) mcg_http_body_write(&x->out, mcg_bytes_of(&carried), carried.len, far);
  if (carried.failed) end(x, MCG_EXCHANGE_BROKEN, "no memory");
  mcg_bytes_fini(&carried);
  if (mcg_http_body_done(&x->out)) {
    mcg_http_body_end(&x->out, far);
    request_complete(x);
  }
  return (size_t)took;
}

size_t mcg_exchange_near(mcg_exchange *x, const char *bytes, size_t len, mcg_bytes *far,
                         mcg_bytes *near)
{
  size_t used = 0, took = 1;
  while (took && used < len && x->state == MCG_EXCHANGE_OPEN) {
    switch (x->request) {
    case REQUEST_HEAD: took = begin_request(x, bytes + used, len - used, far, near); break;
    case REQUEST_BODY: took = pass_body(x, bytes + used, len - used, far); break;
    case REQUEST_RAW:
      mcg_bytes_put(far, bytes + used, len - used);
      took = len - used;
      break;
    default: took = 0;
    }
    used += took;
  }
  return used;
}

void mcg_exchange_near_ended(mcg_exchange *x)
{
  if (x->request == REQUEST_HEAD)
    end(x, MCG_EXCHANGE_FINISHED, NULL);
  else if (x->request == REQUEST_BODY)
    end(x, MCG_EXCHANGE_BROKEN, "the program broke off its request");
  else
    x->last = true;
}

/* ---- from the server ---------------------------------------------------------------------- */

/* No answer of the upgrade's kind is looked at as HTTP again. */
static void go_raw(mcg_exchange *x)
{
  x->request = REQUEST_RAW;
  x->response = RESPONSE_RAW;
  x->in = (mcg_http_body){.framing = MCG_HTTP_TO_END};
}

/* 1xx but for 101: passed on, and the response is still owed. */
static void begin_response(mcg_exchange *x, const mcg_http_head *head, mcg_bytes *near)
{
  bool interim = head->status < 200 && head->status != 101;
  if (head->status == 101 && (!x->upgrade || x->request != REQUEST_SENT)) {
    answer(x, 502, "the server changed the protocol without being asked", near);
    return;
  }
  size_t before = near->len;
  if (!interim) x->last = x->last || head->close;
  mcg_http_response_write(head, !interim && x->last, near);
  if (!near->failed)
    mcg_secrets_mask(x->secrets, near->at + near->start + before, near->len - before);
  if (interim) return;
  x->answered = true;
  if (head->status == 101) {
    go_raw(x);
    return;
  }
  mcg_http_body_begin(&x->in, head);
  x->response = RESPONSE_BODY;
  if (mcg_http_body_done(&x->in)) response_complete(x, near);
}

static size_t read_response(mcg_exchange *x, const char *bytes, size_t len, mcg_bytes *near)
{
  mcg_http_head head;
  mcg_http_refusal refusal;
  ssize_t size = mcg_http_response_read(bytes, len, x->method, &head, &refusal);
  if (size == 0) return 0;
  if (size < 0) {
    snprintf(x->failure, sizeof x->failure, "the server's answer is no HTTP/1.1: %s", refusal.why);
    answer(x, 502, x->failure, near);
    return 0;
  }
  begin_response(x, &head, near);
  return (size_t)size;
}

static size_t read_body(mcg_exchange *x, const char *bytes, size_t len, mcg_bytes *near)
{
  const char *why = NULL;
  ssize_t took = mcg_http_body_read(&x->in, bytes, len, &x->carried, &why);
  if (took < 0 || x->carried.failed) {
    end(x, MCG_EXCHANGE_BROKEN, why ? why : "no memory");
    return 0;
  }
  if (x->response == RESPONSE_BODY && mcg_http_body_done(&x->in))
    response_complete(x, near);
  else
    pass(x, false, near);
  return (size_t)took;
}

size_t mcg_exchange_far(mcg_exchange *x, const char *bytes, size_t len, mcg_bytes *near)
{
  size_t used = 0, took = 1;
  while (took && used < len && x->state == MCG_EXCHANGE_OPEN) {
    switch (x->response) {
    case RESPONSE_HEAD: took = read_response(x, bytes + used, len - used, near); break;
    case RESPONSE_BODY:
    case RESPONSE_RAW: took = read_body(x, bytes + used, len - used, near); break;
    case RESPONSE_NONE: /* nobody asked: a server that gives up says so, and so do we */
      end(x, MCG_EXCHANGE_FINISHED, "the server spoke without being asked");
      took = 0;
      break;
    default: took = 0; /* the next one's, or more than was owed */
    }
    used += took;
  }
  return used;
}

void mcg_exchange_far_ended(mcg_exchange *x, bool in_form, mcg_bytes *near)
{
  bool to_end = x->in.framing == MCG_HTTP_TO_END;
  if (x->state != MCG_EXCHANGE_OPEN) return;
  switch (x->response) {
  case RESPONSE_NONE: end(x, MCG_EXCHANGE_FINISHED, NULL); break;
  case RESPONSE_HEAD:
    answer(x, 502, "the server closed the connection without an answer", near);
    break;
  case RESPONSE_BODY:
  case RESPONSE_RAW:
    if (to_end) pass(x, true, near);
    end(x, to_end && in_form ? MCG_EXCHANGE_FINISHED : MCG_EXCHANGE_BROKEN,
        to_end && in_form ? NULL : "the server broke off its answer");
    break;
  default: end(x, MCG_EXCHANGE_FINISHED, NULL);
  }
}

/* ---- the rest ----------------------------------------------------------------------------- */

void mcg_exchange_fail(mcg_exchange *x, const char *why)
{
  x->failed = true;
  snprintf(x->failure, sizeof x->failure, "%s", why);
}

void mcg_exchange_late(mcg_exchange *x, mcg_bytes *near)
{
  answer(x, 408, "the request took too long", near);
}

mcg_exchange_state mcg_exchange_state_of(const mcg_exchange *x)
{
  return x->state;
}

const char *mcg_exchange_why(const mcg_exchange *x)
{
  return x->why;
}

bool mcg_exchange_heading(const mcg_exchange *x)
{
  return x->request == REQUEST_HEAD;
}

bool mcg_exchange_raw(const mcg_exchange *x)
{
  return x->request == REQUEST_RAW;
}

unsigned mcg_exchange_requests(const mcg_exchange *x)
{
  return x->requests;
}
