/* Requests and responses by RFC 9110 and RFC 9112: what is read, what is refused, what goes on. */
#include "cmocka_all.h"
#include "egress/http_exchange.h"
#include <stdio.h>

#define TOKEN "tok-0123456789abcdef"
#define SECRET "Bearer " TOKEN

static const mcg_http_set set[] = {{"Authorization", SECRET}};
static const mcg_http_rewrite rule = {
    .host = "api.test", .port = 8443, .set = set, .count = 1, .plain = true};

static char room[65536];

static const char *text_of(const mcg_bytes *bytes)
{
  assert_false(bytes->failed);
  assert_true(bytes->len < sizeof room);
  if (bytes->len) memcpy(room, mcg_bytes_of(bytes), bytes->len);
  room[bytes->len] = 0;
  return room;
}

/* ---- heads -------------------------------------------------------------------------------- */

static int refused(const char *text, size_t len)
{
  mcg_http_head head;
  mcg_http_refusal refusal = {0};
  ssize_t rc = mcg_http_request_read(text, len, &head, &refusal);
  if (rc >= 0) return rc > 0 ? 200 : 0;
  assert_non_null(refusal.why);
  return refusal.status;
}

#define REQUEST(lines) "GET / HTTP/1.1\r\nHost: api.test:8443\r\n" lines "\r\n"
#define LITERAL(text) text, sizeof(text) - 1

static void reads_a_request(void **state)
{
  (void)state;
  mcg_http_head head;
  mcg_http_refusal refusal;
  const char text[] = "POST /a?b=c HTTP/1.1\r\nHost: api.test\r\nContent-Length:  5 \r\n"
                      "X-Empty:\r\nconnection: Close\r\n\r\nhello";
  assert_int_equal(mcg_http_request_read(LITERAL(text), &head, &refusal), sizeof text - 1 - 5);
  assert_true(mcg_http_text_is(head.method, "POST"));
  assert_int_equal(head.target.len, 6);
  assert_int_equal(head.framing, MCG_HTTP_LENGTH);
  assert_int_equal(head.length, 5);
  assert_true(head.close);
  assert_int_equal(mcg_http_find(&head, "x-empty")->value.len, 0);
  for (size_t i = 0; i < sizeof text - 1 - 5; i++)
    assert_int_equal(mcg_http_request_read(text, i, &head, &refusal), 0);
}

static void refuses_what_can_be_read_twice(void **state)
{
  (void)state;
  static const struct {
    int status;
    const char *text;
    size_t len;
  } cases[] = {
      {200, LITERAL(REQUEST(""))},
      {400, LITERAL(REQUEST("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"))},
      {400, LITERAL(REQUEST("Content-Length: 3\r\nContent-Length: 3\r\n"))},
      {400, LITERAL(REQUEST("Content-Length: 3, 3\r\n"))},
      {400, LITERAL(REQUEST("Content-Length: +3\r\n"))},
      {400, LITERAL(REQUEST("Content-Length: 0x3\r\n"))},
      {400, LITERAL(REQUEST("Content-Length: \r\n"))},
      {400, LITERAL(REQUEST("Content-Length: 99999999999999999999\r\n"))},
      {400, LITERAL(REQUEST("Content_Length: 3\r\n"))},
      {400, LITERAL(REQUEST("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"))},
      {400, LITERAL(REQUEST("Transfer-Encoding: chunked\r\nTransfer_Encoding: x\r\n"))},
      {501, LITERAL(REQUEST("Transfer-Encoding: gzip, chunked\r\n"))},
      {501, LITERAL(REQUEST("Transfer-Encoding: xchunked\r\n"))},
      {501, LITERAL(REQUEST("Transfer-Encoding: identity\r\n"))},
      {400, LITERAL(REQUEST("Transfer-Encoding : chunked\r\n"))},
      {400, LITERAL(REQUEST("X: a\r\n b\r\n"))},
      {400, LITERAL(REQUEST("X: a\r\n\tb\r\n"))},
      {400, LITERAL(REQUEST("X: a\nY: b\r\n"))},
      {400, LITERAL(REQUEST("X: a\rY: b\r\n"))},
      {400, LITERAL(REQUEST("X: a\0b\r\n"))},
      {400, LITERAL(REQUEST("X: a\x01\r\n"))},
      {400, LITERAL(REQUEST("X: a\x7f\r\n"))},
      {400, LITERAL(REQUEST("X Y: a\r\n"))},
      {400, LITERAL(REQUEST(" X: a\r\n"))},
      {400, LITERAL(REQUEST(": a\r\n"))},
      {400, LITERAL(REQUEST("X\r\n"))},
      {400, LITERAL(REQUEST("X\xc3\xa4: a\r\n"))},
      {400, LITERAL(REQUEST("Host: api.test:8443\r\n"))},
      {400, LITERAL("GET / HTTP/1.1\r\n\r\n")},
      {400, LITERAL("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")},
      {400, LITERAL("GET / HTTP/1.1\nHost: a\n\n")},
      {400, LITERAL("GET  / HTTP/1.1\r\nHost: a\r\n\r\n")},
      {505, LITERAL("GET / x HTTP/1.1\r\nHost: a\r\n\r\n")},
      {400, LITERAL("GET http://evil.test/ HTTP/1.1\r\nHost: api.test:8443\r\n\r\n")},
      {400, LITERAL("GET api.test HTTP/1.1\r\nHost: a\r\n\r\n")},
      {400, LITERAL("GET * HTTP/1.1\r\nHost: a\r\n\r\n")},
      {200, LITERAL("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")},
      {400, LITERAL("GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n")},
      {400, LITERAL("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n")},
      {405, LITERAL("CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n")},
      {405, LITERAL("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n")},
      {405, LITERAL("trace / HTTP/1.1\r\nHost: a\r\n\r\n")},
      {505, LITERAL("GET / HTTP/2.0\r\nHost: a\r\n\r\n")},
      {505, LITERAL("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")},
      {505, LITERAL("GET / http/1.1\r\nHost: a\r\n\r\n")},
      {400, LITERAL("G\x01T / HTTP/1.1\r\nHost: a\r\n\r\n")},
      {400, LITERAL("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int status = refused(cases[i].text, cases[i].len);
    if (status != cases[i].status) print_error("case %zu: %s\n", i, cases[i].text);
    assert_int_equal(status, cases[i].status);
  }
}

static void bounds_a_head(void **state)
{
  (void)state;
  static char text[MCG_HTTP_HEAD_MAX + 8];
  memset(text, 'a', sizeof text);
  const char first[] = "GET / HTTP/1.1\r\nX: ";
  memcpy(text, first, sizeof first - 1);
  assert_int_equal(refused(text, MCG_HTTP_HEAD_MAX - 1), 0);
  assert_int_equal(refused(text, sizeof text), 431);
  static char many[4096];
  size_t at = (size_t)sprintf(many, "GET / HTTP/1.1\r\nHost: a\r\n");
  for (int i = 0; i < 128; i++) at += (size_t)sprintf(many + at, "a: b\r\n");
  at += (size_t)sprintf(many + at, "\r\n");
  assert_int_equal(refused(many, at), 431);
}

/* ---- requests as they go on --------------------------------------------------------------- */

typedef struct line {
  mcg_exchange *exchange;
  mcg_secrets *secrets;
  mcg_bytes far, near;
} line;

static void open_line(line *l)
{
  *l = (line){.secrets = mcg_secrets_new()};
  assert_true(mcg_secrets_add(l->secrets, SECRET, strlen(SECRET)));
  assert_true(mcg_secrets_add(l->secrets, TOKEN, strlen(TOKEN)));
  l->exchange = mcg_exchange_new(&rule, l->secrets);
  assert_non_null(l->exchange);
}

static void close_line(line *l)
{
  mcg_exchange_free(l->exchange);
  mcg_secrets_free(l->secrets);
  mcg_bytes_fini(&l->far);
  mcg_bytes_fini(&l->near);
}

/* In pieces of `piece` bytes, as a connection may bring them. */
static void say(line *l, bool near, const char *text, size_t piece)
{
  size_t len = strlen(text), from = 0;
  for (size_t to = piece < len ? piece : len;; to = to + piece < len ? to + piece : len) {
    from += near ? mcg_exchange_near(l->exchange, text + from, to - from, &l->far, &l->near)
                 : mcg_exchange_far(l->exchange, text + from, to - from, &l->near);
    if (to == len) break;
  }
}

static void heard(mcg_bytes *bytes, const char *text)
{
  assert_string_equal(text_of(bytes), text);
  bytes->len = bytes->start = 0;
}

#define OUR_HEAD(first)                                                                            \
  first "\r\nHost: api.test:8443\r\nAccept: */*\r\nAuthorization: " SECRET                         \
        "\r\nAccept-Encoding: identity\r\n"

static void sets_the_header_in_each_request(void **state)
{
  (void)state;
  for (size_t piece = 1; piece < 200; piece = piece * 3 + 1) {
    line l;
    open_line(&l);
    for (int i = 0; i < 3; i++) {
      say(&l, true,
          "GET /a HTTP/1.1\r\nHost: API.test:8443\r\nAccept: */*\r\nauthorization: placeholder\r\n"
          "Authorization: another\r\nAuthori_zation: kept?\r\nAccept-Encoding: gzip, br\r\n"
          "Proxy-Authorization: x\r\nConnection: keep-alive, authorization\r\nKeep-Alive: 5\r\n"
          "TE: trailers\r\n\r\n",
          piece);
      heard(&l.far, "GET /a HTTP/1.1\r\nHost: api.test:8443\r\nAccept: */*\r\nAuthori_zation: "
                    "kept?\r\nAuthorization: " SECRET "\r\nAccept-Encoding: identity\r\n\r\n");
      say(&l, false, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", piece);
      heard(&l.near, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    }
    assert_int_equal(mcg_exchange_state_of(l.exchange), MCG_EXCHANGE_OPEN);
    assert_int_equal(mcg_exchange_requests(l.exchange), 3);
    close_line(&l);
  }
}

static void an_underscore_is_the_same_name(void **state)
{
  (void)state;
  static const mcg_http_set key[] = {{"X-Api-Key", "0123456789"}};
  const mcg_http_rewrite own = {.host = "api.test", .port = 443, .set = key, .count = 1};
  line l;
  open_line(&l);
  mcg_exchange *exchange = mcg_exchange_new(&own, NULL);
  const char text[] = "GET / HTTP/1.1\r\nHost: api.test.\r\nX_Api-Key: mine\r\n\r\n";
  mcg_exchange_near(exchange, LITERAL(text), &l.far, &l.near);
  heard(&l.far, "GET / HTTP/1.1\r\nHost: api.test\r\nX-Api-Key: 0123456789\r\n\r\n");
  mcg_exchange_free(exchange);
  close_line(&l);
}

static void bodies_go_on_as_they_are(void **state)
{
  (void)state;
  for (size_t piece = 1; piece < 200; piece = piece * 3 + 1) {
    line l;
    open_line(&l);
    say(&l, true,
        "POST / HTTP/1.1\r\nHost: api.test:8443\r\nAccept: */*\r\nTransfer-Encoding: "
        "Chunked\r\n\r\n"
        "5;x=\"y\"\r\nhello\r\nA\r\n, world...\r\n0\r\nAuthorization: mine\r\n\r\n",
        piece);
    const char *went = text_of(&l.far);
    const char head[] = OUR_HEAD("POST / HTTP/1.1") "Transfer-Encoding: chunked\r\n\r\n";
    assert_memory_equal(went, head, sizeof head - 1);
    char body[64] = "";
    for (const char *at = went + sizeof head - 1; *at != '0';) {
      char *end;
      unsigned long size = strtoul(at, &end, 16);
      strncat(body, end + 2, size);
      at = end + 2 + size + 2;
    }
    assert_string_equal(body, "hello, world...");
    assert_string_equal(went + strlen(went) - 7, "\r\n0\r\n\r\n");
    close_line(&l);
  }
}

static void asks_of_another_host_do_not_go_on(void **state)
{
  (void)state;
  static const char *const hosts[] = {"evil.test",        "api.test:443",  "api.test.evil.test",
                                      "api.test:8443:1",  "api.test:",     "",
                                      "api.test:8443, x", "u@api.test",    "api.test..",
                                      "xapi.test:8443",   "api.test:08443"};
  for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
    line l;
    char text[256];
    open_line(&l);
    sprintf(text, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", hosts[i]);
    say(&l, true, text, 4096);
    assert_int_equal(l.far.len, 0);
    assert_memory_equal(text_of(&l.near), "HTTP/1.1 400 Bad Request\r\n", 26);
    assert_int_equal(mcg_exchange_state_of(l.exchange), MCG_EXCHANGE_FINISHED);
    assert_non_null(strstr(mcg_exchange_why(l.exchange), "Host"));
    close_line(&l);
  }
}

/* A second request is judged like the first, and waits for the answer to it. */
static void judges_each_of_a_pipeline(void **state)
{
  (void)state;
  line l;
  open_line(&l);
  const char both[] = "GET /1 HTTP/1.1\r\nHost: api.test:8443\r\nAccept: */*\r\n\r\n"
                      "GET /2 HTTP/1.1\r\nHost: evil.test\r\n\r\n";
  size_t took = mcg_exchange_near(l.exchange, LITERAL(both), &l.far, &l.near);
  heard(&l.far, OUR_HEAD("GET /1 HTTP/1.1") "\r\n");
  say(&l, false, "HTTP/1.1 204 No Content\r\n\r\n", 4096);
  heard(&l.near, "HTTP/1.1 204 No Content\r\n\r\n");
  mcg_exchange_near(l.exchange, both + took, sizeof both - 1 - took, &l.far, &l.near);
  assert_int_equal(l.far.len, 0);
  assert_memory_equal(text_of(&l.near), "HTTP/1.1 400 ", 13);
  close_line(&l);
}

static void a_broken_body_is_not_completed(void **state)
{
  (void)state;
  static const char *const bodies[] = {"x\r\n",
                                       "5\nhello",
                                       "5\r\nhelloX",
                                       "5 x\r\nhello",
                                       "-1\r\n",
                                       "0x5\r\nhello",
                                       "5\r\nhello\n0",
                                       "1000000000000000000\r\n",
                                       "0\r\nX: \ry\r\n\r\n"};
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    line l;
    char text[256];
    open_line(&l);
    sprintf(text, "POST / HTTP/1.1\r\nHost: api.test:8443\r\nTransfer-Encoding: chunked\r\n\r\n%s",
            bodies[i]);
    say(&l, true, text, 4096);
    assert_int_equal(mcg_exchange_state_of(l.exchange), MCG_EXCHANGE_BROKEN);
    assert_null(strstr(text_of(&l.far), "\r\n0\r\n\r\n"));
    close_line(&l);
  }
}

/* ---- responses ---------------------------------------------------------------------------- */

static void ask(line *l, const char *method, const char *more)
{
  char text[256];
  open_line(l);
  sprintf(text, "%s / HTTP/1.1\r\nHost: api.test:8443\r\n%s\r\n", method, more);
  say(l, true, text, 4096);
  l->far.len = l->far.start = 0;
}

static void strikes_the_secret_out(void **state)
{
  (void)state;
  for (size_t piece = 1; piece < 300; piece = piece * 3 + 1) {
    line l;
    ask(&l, "GET", "");
    say(&l, false,
        "HTTP/1.1 200 tok-0123456789abcdef\r\nX-Echo: " SECRET "\r\nContent-Length: 97\r\n\r\n"
        "<" SECRET ">"
        "dG9rLTAxMjM0NTY3ODlhYmNkZWY="              /* base64 of it */
        "746f6b2d30313233343536373839616263646566", /* hex */
        piece);
    const char *got = text_of(&l.near);
    assert_null(strstr(got, "tok-0123456789abcdef"));
    assert_null(strstr(got, "dG9rLTAxMjM0NTY3ODlhYmNkZW"));
    assert_null(strstr(got, "746f6b2d3031"));
    assert_non_null(strstr(got, "\r\n\r\n<***************************>"));
    assert_int_equal(strlen(strstr(got, "\r\n\r\n")), 4 + 97);
    close_line(&l);
  }
}

static void strikes_it_out_across_chunks(void **state)
{
  (void)state;
  for (size_t piece = 1; piece < 300; piece = piece * 3 + 1) {
    line l;
    ask(&l, "GET", "");
    say(&l, false,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n<tok-01\r\n1\r\n2\r\n"
        "13\r\n3456789abcdef> tok-\r\n0\r\nX: tok-0123456789abcdef\r\n\r\n",
        piece);
    const char *got = text_of(&l.near);
    char body[128] = "";
    for (const char *at = strstr(got, "\r\n\r\n") + 4; *at != '0';) {
      char *end;
      unsigned long size = strtoul(at, &end, 16);
      strncat(body, end + 2, size);
      at = end + 2 + size + 2;
    }
    assert_string_equal(body, "<********************> tok-");
    assert_null(strstr(got, "X:"));
    assert_int_equal(mcg_exchange_state_of(l.exchange), MCG_EXCHANGE_OPEN);
    close_line(&l);
  }
}

/* What is no part of a secret does not wait for what follows it. */
static void streams_are_not_held_back(void **state)
{
  (void)state;
  line l;
  ask(&l, "GET", "");
  say(&l, false, "HTTP/1.1 200 OK\r\n\r\ndata: one\n\n", 4096);
  assert_non_null(strstr(text_of(&l.near), "data: one\n\n"));
  mcg_exchange_far_ended(l.exchange, true, &l.near);
  assert_int_equal(mcg_exchange_state_of(l.exchange), MCG_EXCHANGE_FINISHED);
  close_line(&l);
}

static void a_response_that_breaks_off_does_not_look_whole(void **state)
{
  (void)state;
  static const char *const cut[] = {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
                                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc",
                                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"};
  for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
    line l;
    ask(&l, "GET", "");
    say(&l, false, cut[i], 4096);
    mcg_exchange_far_ended(l.exchange, true, &l.near);
    assert_int_equal(mcg_exchange_state_of(l.exchange), MCG_EXCHANGE_BROKEN);
    close_line(&l);
  }
  line l;
  ask(&l, "GET", "");
  say(&l, false, "HTTP/1.1 200 OK\r\n\r\nabc", 4096);
  mcg_exchange_far_ended(l.exchange, false, &l.near); /* the end was not signed by TLS */
  assert_int_equal(mcg_exchange_state_of(l.exchange), MCG_EXCHANGE_BROKEN);
  close_line(&l);
}

static void bad_answers_are_502(void **state)
{
  (void)state;
  static const char *const bad[] = {
      "HTTP/2 200 OK\r\n\r\n",
      "200 OK\r\n\r\n",
      "HTTP/1.1 20 OK\r\n\r\n",
      "HTTP/1.1 200 OK\nX: y\n\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
      "\x15\x03\x01 no\r\n\r\n",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    line l;
    ask(&l, "GET", "");
    say(&l, false, bad[i], 4096);
    assert_memory_equal(text_of(&l.near), "HTTP/1.1 502 Bad Gateway\r\n", 26);
    assert_int_equal(mcg_exchange_state_of(l.exchange), MCG_EXCHANGE_FINISHED);
    close_line(&l);
  }
}

static void what_has_no_body_has_none(void **state)
{
  (void)state;
  line l;
  ask(&l, "HEAD", "");
  say(&l, false, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 4096);
  heard(&l.near, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
  assert_true(mcg_exchange_heading(l.exchange));
  say(&l, true, "GET / HTTP/1.1\r\nHost: api.test:8443\r\n\r\n", 4096);
  say(&l, false, "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 4096);
  assert_true(mcg_exchange_heading(l.exchange));
  close_line(&l);
}

static void continues_when_told(void **state)
{
  (void)state;
  line l;
  ask(&l, "PUT", "Expect: 100-continue\r\nContent-Length: 3\r\n");
  say(&l, false, "HTTP/1.1 100 Continue\r\n\r\n", 1);
  heard(&l.near, "HTTP/1.1 100 Continue\r\n\r\n");
  say(&l, true, "abc", 1);
  heard(&l.far, "abc");
  say(&l, false,
      "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n"
      "Content-Length: 0\r\nConnection: close\r\n\r\n",
      4096);
  heard(&l.near, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n"
                 "Content-Length: 0\r\nConnection: close\r\n\r\n");
  assert_int_equal(mcg_exchange_state_of(l.exchange), MCG_EXCHANGE_FINISHED);
  close_line(&l);
}

/* The answer may come before the request is complete; the rest of it is still its body. */
static void early_answers_do_not_shift_the_next_request(void **state)
{
  (void)state;
  line l;
  ask(&l, "POST", "Content-Length: 60\r\n");
  say(&l, false, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 4096);
  assert_false(mcg_exchange_heading(l.exchange));
  say(&l, true, "GET /smuggled HTTP/1.1\r\nHost: api.test:8443\r\n\r\n123456789012345", 7);
  assert_null(strstr(text_of(&l.far), "Authorization"));
  assert_int_equal(mcg_exchange_requests(l.exchange), 1);
  close_line(&l);
}

static void upgrades_where_the_server_does(void **state)
{
  (void)state;
  line l;
  open_line(&l);
  say(&l, true,
      "GET / HTTP/1.1\r\nHost: api.test:8443\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
      "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
      4096);
  heard(&l.far,
        "GET / HTTP/1.1\r\nHost: api.test:8443\r\nAuthorization: " SECRET
        "\r\nAccept-Encoding: identity\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  say(&l, false,
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
      "Connection: Upgrade\r\n\r\n\x81\x02hi",
      4096);
  heard(&l.near, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                 "Upgrade: websocket\r\n\r\n\x81\x02hi");
  say(&l, true, "\x81\x82mask", 4096);
  heard(&l.far, "\x81\x82mask");
  say(&l, false, "tok-01234567", 4096);
  assert_int_equal(l.near.len, 0);
  say(&l, false, "89abcdef", 4096);
  heard(&l.near, "********************");
  close_line(&l);
  open_line(&l);
  say(&l, true,
      "GET / HTTP/1.1\r\nHost: api.test:8443\r\nUpgrade: h2c\r\n"
      "Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: x\r\n\r\n",
      4096);
  assert_null(strstr(text_of(&l.far), "Upgrade"));
  close_line(&l);
}

static void without_a_server_it_says_why(void **state)
{
  (void)state;
  line l;
  open_line(&l);
  mcg_exchange_fail(l.exchange, "the certificate of api.test is not accepted: expired");
  say(&l, true, "GET / HTTP/1.1\r\nHost: api.test:8443\r\n\r\n", 4096);
  assert_int_equal(l.far.len, 0);
  const char *got = text_of(&l.near);
  assert_memory_equal(got, "HTTP/1.1 502 ", 13);
  assert_non_null(
      strstr(got, "\r\n\r\nmooncage: the certificate of api.test is not accepted: expired\n"));
  unsigned long length = strtoul(strstr(got, "Content-Length: ") + 16, NULL, 10);
  assert_int_equal(strlen(strstr(got, "\r\n\r\n") + 4), length);
  close_line(&l);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_a_request),
      cmocka_unit_test(refuses_what_can_be_read_twice),
      cmocka_unit_test(bounds_a_head),
      cmocka_unit_test(sets_the_header_in_each_request),
      cmocka_unit_test(an_underscore_is_the_same_name),
      cmocka_unit_test(bodies_go_on_as_they_are),
      cmocka_unit_test(asks_of_another_host_do_not_go_on),
      cmocka_unit_test(judges_each_of_a_pipeline),
      cmocka_unit_test(a_broken_body_is_not_completed),
      cmocka_unit_test(strikes_the_secret_out),
      cmocka_unit_test(strikes_it_out_across_chunks),
      cmocka_unit_test(streams_are_not_held_back),
      cmocka_unit_test(a_response_that_breaks_off_does_not_look_whole),
      cmocka_unit_test(bad_answers_are_502),
      cmocka_unit_test(what_has_no_body_has_none),
      cmocka_unit_test(continues_when_told),
      cmocka_unit_test(early_answers_do_not_shift_the_next_request),
      cmocka_unit_test(upgrades_where_the_server_does),
      cmocka_unit_test(without_a_server_it_says_why),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
