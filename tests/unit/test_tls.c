/* A connection whose TLS ends at the engine: the program's side, the server's side, and who is believed.
 * Both peers are the test's own; the server's authority is one that the engine is told of, or not. */
#include "turning.h"
#include "egress/tls_bridge.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define SECRET "Bearer tok-0123456789abcdef"

typedef struct peer {
  int fd;
  mcg_tls *tls;
  bool stands, closed, gone;
  mcg_error *error;
  char got[65536];
  size_t len;
} peer;

typedef struct scene {
  mcg_engine *engine;
  mcg_authority *public, *own; /* the server's, the session's */
  mcg_tls_trust *believer;     /* the program: it believes in the session's */
  mcg_openssl *openssl;
  char public_file[64], own_file[64];
  mcg_tls_bridge *bridge;
  mcg_traffic traffic;
  peer program, server;
  bool over, made;
  uint64_t idle_ms;
  int little, near; /* near: the bridge's, borrowed */
  mcg_tls_bridge_end end;
  char why[256];
  mcg_rule rule;
  mcg_header header;
} scene;

static void write_file(char path[64], const char *text)
{
  strcpy(path, "/tmp/mooncage-test-XXXXXX");
  int fd = mkstemp(path);
  assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  close(fd);
}

static void make_authorities(void *arg)
{
  scene *self = arg;
  mcg_error *err = NULL;
  assert_int_equal(mcg_authority_new(self->engine, "server", NULL, &self->public, &err), 0);
  write_file(self->public_file, mcg_authority_pem(self->public));
  assert_int_equal(mcg_authority_new(self->engine, "session", self->public_file, &self->own, &err),
                   0);
  write_file(self->own_file, mcg_authority_pem(self->own));
  self->made = true;
}

static void scene_up(scene *self)
{
  mcg_error *err = NULL;
  *self = (scene){.engine = engine_with(NULL), .idle_ms = 60000};
  assert_int_equal(mcg_fiber_start(self->engine, make_authorities, self, NULL, &err), 0);
  turn_until(self->engine, &self->made);
  assert_int_equal(mcg_openssl_open(&self->openssl, &err), 0);
  assert_int_equal(mcg_tls_trust_new(self->openssl, self->own_file, &self->believer, &err), 0);
  self->header = (mcg_header){.name = "Authorization", .value = SECRET};
  self->rule = (mcg_rule){.headers = &self->header, .header_count = 1};
  mcg_traffic_init(&self->traffic, self->engine->loop, 0, 0);
}

static void note(void *data)
{
  *(bool *)data = true;
}

static void peer_fini(peer *p)
{
  mcg_tls_free(p->tls);
  mcg_error_free(p->error);
  if (p->fd > 0) close(p->fd);
  *p = (peer){0};
}

static void scene_down(scene *self)
{
  bool closed = false;
  if (self->bridge && !self->over) mcg_tls_bridge_cut(self->bridge);
  peer_fini(&self->program);
  peer_fini(&self->server);
  mcg_traffic_close(&self->traffic, note, &closed);
  turn_until(self->engine, &closed);
  mcg_tls_trust_free(self->believer);
  mcg_authority_free(self->own);
  mcg_authority_free(self->public);
  mcg_openssl_close(self->openssl);
  unlink(self->public_file);
  unlink(self->own_file);
  engine_end(self->engine);
}

static void tcp_pair(int pair[2])
{
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof at;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(listener, 1), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
  pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(pair[0], (struct sockaddr *)&at, sizeof at), 0);
  pair[1] = accept(listener, NULL, NULL);
  assert_true(pair[1] >= 0);
  close(listener);
}

static void on_end(void *data, const mcg_tls_bridge_end *end)
{
  scene *self = data;
  assert_false(self->over);
  self->over = true;
  self->end = *end;
  snprintf(self->why, sizeof self->why, "%s", end->error ? end->error->message : "");
}

/* How much the kernel holds between the bridge and the program. */
static void hold(scene *self, int program, int bytes)
{
  setsockopt(program, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  setsockopt(self->near, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

/* A connection to `name`, at which the server shows itself as `shown`, signed by `by`. */
static void connect_as(scene *self, const char *name, const char *shown, mcg_authority *by,
                       const mcg_tls_trust *trust)
{
  int near[2], far[2];
  mcg_error *err = NULL;
  const mcg_tls_identity *identity;
  const mcg_rule *rules[] = {&self->rule};
  tcp_pair(near);
  tcp_pair(far);
  self->near = near[1];
  if (self->little) hold(self, near[0], self->little);
  self->program.fd = near[0];
  self->server.fd = far[0];
  assert_int_equal(mcg_authority_identity(by, shown, &identity, &err), 0);
  assert_int_equal(mcg_tls_accept(identity, &self->server.tls, &err), 0);
  assert_int_equal(mcg_tls_connect(trust, name, &self->program.tls, &err), 0);
  const mcg_tls_bridge_options options = {.near = near[1],
                                          .far = far[1],
                                          .idle_ms = self->idle_ms,
                                          .traffic = &self->traffic,
                                          .authority = self->own,
                                          .name = "api.test",
                                          .port = 443,
                                          .rules = rules,
                                          .rule_count = 1,
                                          .ended = on_end,
                                          .data = self};
  assert_int_equal(mcg_tls_bridge_start(self->engine->loop, &options, &self->bridge, &err), 0);
}

static void peer_turn(peer *p)
{
  char piece[16384];
  ssize_t got = p->gone ? 0 : recv(p->fd, piece, sizeof piece, MSG_DONTWAIT);
  if (got > 0) mcg_tls_take(p->tls, piece, (size_t)got);
  p->gone |= got == 0 || (got < 0 && errno != EAGAIN);
  if (!p->stands && !p->error) p->stands = mcg_tls_handshake(p->tls, &p->error) == 1;
  long n = MCG_TLS_MORE;
  while (p->stands && p->len < sizeof p->got - 1 &&
         (n = mcg_tls_read(p->tls, p->got + p->len, sizeof p->got - 1 - p->len)) > 0)
    p->len += (size_t)n;
  p->closed |= n == MCG_TLS_CLOSED;
  for (size_t out; (out = mcg_tls_give(p->tls, piece, sizeof piece)) > 0;)
    if (send(p->fd, piece, out, MSG_NOSIGNAL) < 0) p->gone = true;
}

static void turn(scene *self)
{
  peer_turn(&self->program);
  peer_turn(&self->server);
  uv_run(self->engine->loop, UV_RUN_NOWAIT);
}

static void expect(scene *self, peer *p, const char *text)
{
  for (int i = 0; p->len < strlen(text); i++) {
    if (self->over || i > 2000000) fail_msg("got %s; over: %s", p->got, self->why);
    turn(self);
  }
  assert_string_equal(p->got, text);
  memset(p->got, 0, p->len);
  p->len = 0;
}

static void say(scene *self, peer *p, const char *text)
{
  for (int i = 0; !p->stands; i++) {
    if (p->error) fail_msg("%s", p->error->message);
    if (i > 2000000) fail_msg("no handshake; %s", self->why);
    turn(self);
  }
  assert_true(mcg_tls_write(p->tls, text, strlen(text)));
}

static void until_over(scene *self)
{
  while (!self->over) turn(self);
}

#define ASK "GET /a HTTP/1.1\r\nHost: api.test\r\n\r\n"
#define ASKED                                                                                      \
  "GET /a HTTP/1.1\r\nHost: api.test\r\nAuthorization: " SECRET                                    \
  "\r\nAccept-Encoding: identity\r\n\r\n"

static void the_server_gets_the_secret_and_the_program_does_not(void **state)
{
  (void)state;
  scene s;
  scene_up(&s);
  connect_as(&s, "api.test", "api.test", s.public, s.believer);
  for (int i = 0; i < 3; i++) {
    say(&s, &s.program, ASK);
    expect(&s, &s.server, ASKED);
    say(&s, &s.server, "HTTP/1.1 200 OK\r\nContent-Length: 27\r\n\r\n" SECRET);
    expect(&s, &s.program,
           "HTTP/1.1 200 OK\r\nContent-Length: 27\r\n\r\n***************************");
  }
  mcg_tls_close(s.program.tls);
  until_over(&s);
  assert_int_equal(s.end.relay.reason, MCG_RELAY_FINISHED);
  assert_int_equal(s.end.requests, 3);
  assert_true(s.end.relay.in > 100 && s.end.relay.out > 100);
  assert_int_equal(s.traffic.in, s.end.relay.in);
  assert_int_equal(s.traffic.out, s.end.relay.out);
  scene_down(&s);
}

/* Where it stands in the middle of the value, or there are two, each is masked by itself. */
static void a_secret_within_the_value_is_not_given_back(void **state)
{
  (void)state;
  scene s;
  scene_up(&s);
  s.header = (mcg_header){.name = "Cookie",
                          .value = "id=tok-0123456789; key=k-98765432; v=1",
                          .secrets = "tok-0123456789\0k-98765432\0"};
  connect_as(&s, "api.test", "api.test", s.public, s.believer);
  say(&s, &s.program, ASK);
  expect(&s, &s.server,
         "GET /a HTTP/1.1\r\nHost: api.test\r\nCookie: id=tok-0123456789; key=k-98765432; v=1\r\n"
         "Accept-Encoding: identity\r\n\r\n");
  say(&s, &s.server,
      "HTTP/1.1 200 OK\r\nX-Id: tok-0123456789\r\nContent-Length: 11\r\n\r\nk-98765432.");
  expect(&s, &s.program,
         "HTTP/1.1 200 OK\r\nX-Id: **************\r\nContent-Length: 11\r\n\r\n**********.");
  scene_down(&s);
}

/* Nothing of a request goes to a server that is not who it should be. */
static void refuse_server(const char *shown, bool signed_by_public, const char *why)
{
  scene s;
  scene_up(&s);
  mcg_authority *by = s.public;
  if (!signed_by_public) {
    mcg_tls_trust_free(s.believer);
    by = s.own; /* one that the engine does not believe either */
    mcg_error *err = NULL;
    assert_int_equal(mcg_tls_trust_new(s.openssl, s.own_file, &s.believer, &err), 0);
  }
  connect_as(&s, "api.test", shown, by, s.believer);
  say(&s, &s.program, ASK);
  until_over(&s);
  while (!s.program.gone) peer_turn(&s.program);
  assert_memory_equal(s.program.got, "HTTP/1.1 502 ", 13);
  assert_non_null(strstr(s.program.got, why));
  assert_non_null(strstr(s.why, why));
  assert_true(s.program.closed);
  assert_int_equal(s.server.len, 0);
  assert_int_equal(s.end.requests, 0);
  scene_down(&s);
}

static void verifies_the_server(void **state)
{
  (void)state;
  refuse_server("evil.test", true, "unrecognized name");
  refuse_server("api.test", false, "unable to get local issuer certificate");
}

/* What a program that believes in nothing of ours does is its own loss. */
static void a_program_that_does_not_believe_ends_it(void **state)
{
  (void)state;
  scene s;
  mcg_tls_trust *other;
  mcg_error *err = NULL;
  scene_up(&s);
  assert_int_equal(mcg_tls_trust_new(s.openssl, s.public_file, &other, &err), 0);
  connect_as(&s, "api.test", "api.test", s.public, other);
  until_over(&s);
  while (!s.program.gone) peer_turn(&s.program);
  assert_int_equal(code_of(&s.program.error), MCG_UNAUTHORIZED);
  assert_non_null(strstr(s.why, "unknown ca"));
  assert_int_equal(s.server.len, 0);
  mcg_tls_trust_free(other);
  scene_down(&s);
  scene_up(&s);
  connect_as(&s, "evil.test", "evil.test", s.public, s.believer); /* its SNI is another */
  until_over(&s);
  while (!s.program.gone) peer_turn(&s.program);
  assert_non_null(strstr(s.program.error->message, "unrecognized name"));
  assert_non_null(strstr(s.why, "asked for another name"));
  assert_int_equal(s.end.requests, 0);
  scene_down(&s);
}

/* More than the bridge holds, read slowly. */
static void large_bodies_wait_for_their_reader(void **state)
{
  (void)state;
  enum { TOTAL = 2 << 20, PIECE = 32768 };
  static char piece[PIECE];
  scene s;
  char head[96];
  size_t sent = 0, got = 0;
  unsigned long sum = 0, want = 0;
  scene_up(&s);
  connect_as(&s, "api.test", "api.test", s.public, s.believer);
  say(&s, &s.program, ASK);
  expect(&s, &s.server, ASKED);
  snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", TOTAL);
  say(&s, &s.server, head);
  expect(&s, &s.program, head);
  fcntl(s.server.fd, F_SETFL, O_NONBLOCK);
  size_t waiting = 0, at = 0;
  static char cipher[1 << 17];
  while (got < TOTAL) {
    if (at == waiting && sent < TOTAL) {
      for (size_t i = 0; i < PIECE; i++) want += (unsigned char)(piece[i] = (char)(sent + i * 7));
      assert_true(mcg_tls_write(s.server.tls, piece, PIECE));
      sent += PIECE;
      at = 0;
      waiting = mcg_tls_give(s.server.tls, cipher, sizeof cipher);
    }
    ssize_t put = at < waiting ? send(s.server.fd, cipher + at, waiting - at, MSG_NOSIGNAL) : 0;
    if (put > 0) at += (size_t)put;
    peer_turn(&s.program);
    uv_run(s.engine->loop, UV_RUN_NOWAIT);
    for (size_t i = 0; i < s.program.len; i++) sum += (unsigned char)s.program.got[i];
    got += s.program.len;
    s.program.len = 0;
    if (s.over) fail_msg("over: %s", s.why);
  }
  assert_int_equal(sum, want);
  scene_down(&s);
}

/* What is in the sockets of a connection that is fast at both ends keeps nobody else waiting. */
static void one_connection_is_not_all_that_the_loop_does(void **state)
{
  (void)state;
  enum { TOTAL = 4 << 20, PIECE = 16384, AT_ONCE = 1 << 20 };
  static char piece[PIECE], cipher[PIECE + 1024];
  scene s;
  char head[128];
  size_t sent = 0;
  scene_up(&s);
  connect_as(&s, "api.test", "api.test", s.public, s.believer);
  snprintf(head, sizeof head, "POST /a HTTP/1.1\r\nHost: api.test\r\nContent-Length: %d\r\n\r\n",
           TOTAL);
  say(&s, &s.program, head);
  while (!s.server.len) turn(&s);
  fcntl(s.program.fd, F_SETFL, O_NONBLOCK);
  for (ssize_t put = 1; put > 0 && sent < TOTAL; sent += PIECE) { /* as much as there is room for */
    assert_true(mcg_tls_write(s.program.tls, piece, PIECE));
    size_t len = mcg_tls_give(s.program.tls, cipher, sizeof cipher);
    put = send(s.program.fd, cipher, len, MSG_NOSIGNAL);
  }
  assert_true(sent > AT_ONCE);
  for (uint64_t before = 0, idle = 0; idle < 100; before = s.traffic.out) {
    before = s.traffic.out;
    uv_run(s.engine->loop, UV_RUN_NOWAIT);
    assert_true(s.traffic.out - before < AT_ONCE);
    idle = s.traffic.out == before ? idle + 1 : 0;
  }
  assert_true(s.traffic.out > AT_ONCE); /* all that is there came, with nothing to wake it */
  scene_down(&s);
}

/* A program that reads on after a while has all of an answer whose server is long gone. */
static void wait_for_the_reader(bool half_closed)
{
  enum { BODY = 110000, PAUSE_MS = 2500 };
  static char body[BODY + 1];
  scene s;
  char head[128];
  size_t got = 0, want;
  scene_up(&s);
  s.little = 4096;
  connect_as(&s, "api.test", "api.test", s.public, s.believer);
  say(&s, &s.program, ASK);
  expect(&s, &s.server, ASKED);
  snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
           BODY);
  memset(body, 'b', BODY);
  want = strlen(head) + BODY;
  say(&s, &s.server, head);
  say(&s, &s.server, body);
  mcg_tls_close(s.server.tls);
  peer_turn(&s.server);
  if (half_closed) shutdown(s.program.fd, SHUT_WR);
  for (int i = 0; i < PAUSE_MS; i += 10) {
    uv_run(s.engine->loop, UV_RUN_NOWAIT);
    usleep(10000);
  }
  hold(&s, s.program.fd, 1 << 20);
  while (!s.program.gone) {
    turn(&s);
    got += s.program.len;
    s.program.len = 0;
  }
  assert_int_equal(got, want);
  assert_true(s.program.closed);
  shutdown(s.program.fd, SHUT_WR);
  until_over(&s);
  assert_int_equal(s.end.relay.reason, MCG_RELAY_FINISHED);
  scene_down(&s);
}

static void the_last_bytes_wait_for_their_reader(void **state)
{
  (void)state;
  wait_for_the_reader(false);
  wait_for_the_reader(true);
}

/* One that never does ends as others do on which nothing moves. */
static void a_reader_that_never_comes_is_idle(void **state)
{
  (void)state;
  static char body[110001];
  scene s;
  scene_up(&s);
  s.idle_ms = getenv("MOONCAGE_VALGRIND") ? 30000 : 1000; /* longer than the handshakes */
  s.little = 4096;
  connect_as(&s, "api.test", "api.test", s.public, s.believer);
  say(&s, &s.program, ASK);
  expect(&s, &s.server, ASKED);
  memset(body, 'b', sizeof body - 1);
  say(&s, &s.server, "HTTP/1.1 200 OK\r\nContent-Length: 110000\r\nConnection: close\r\n\r\n");
  say(&s, &s.server, body);
  peer_turn(&s.server);
  say(&s, &s.program, ASK); /* nobody reads this */
  peer_turn(&s.program);
  int turns = 0;
  for (; !s.over; turns++) uv_run(s.engine->loop, UV_RUN_ONCE);
  assert_int_equal(s.end.relay.reason, MCG_RELAY_IDLE);
  assert_true(turns < 100); /* it waits, and does not spin */
  scene_down(&s);
}

static void certificates_are_kept(void **state)
{
  (void)state;
  scene s;
  mcg_error *err = NULL;
  const mcg_tls_identity *one, *same, *other;
  scene_up(&s);
  assert_int_equal(mcg_authority_identity(s.own, "a.test", &one, &err), 0);
  assert_int_equal(mcg_authority_identity(s.own, "b.test", &other, &err), 0);
  assert_int_equal(mcg_authority_identity(s.own, "a.test", &same, &err), 0);
  assert_ptr_equal(one, same);
  assert_ptr_not_equal(one, other);
  assert_string_not_equal(mcg_authority_pem(s.own), mcg_authority_pem(s.public));
  scene_down(&s);
}

static void a_bad_file_of_authorities_is_told(void **state)
{
  (void)state;
  mcg_openssl *openssl;
  mcg_tls_trust *trust;
  mcg_error *err = NULL;
  assert_int_equal(mcg_openssl_open(&openssl, &err), 0);
  assert_int_equal(mcg_tls_trust_new(openssl, "/nonexistent/ca.pem", &trust, &err), -1);
  assert_non_null(strstr(err->message, "/nonexistent/ca.pem"));
  assert_int_equal(code_of(&err), MCG_NOT_FOUND);
  assert_int_equal(mcg_tls_trust_new(openssl, "/etc/passwd", &trust, &err), -1);
  assert_int_equal(code_of(&err), MCG_INVALID);
  mcg_openssl_close(openssl);
}

int main(void)
{
  /* Whoever sets these must not thereby decide whom the engine believes. */
  setenv("SSL_CERT_FILE", "/dev/null", 1);
  setenv("SSL_CERT_DIR", "/nonexistent", 1);
  setenv("OPENSSL_CONF", "/nonexistent", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_server_gets_the_secret_and_the_program_does_not),
      cmocka_unit_test(a_secret_within_the_value_is_not_given_back),
      cmocka_unit_test(verifies_the_server),
      cmocka_unit_test(a_program_that_does_not_believe_ends_it),
      cmocka_unit_test(large_bodies_wait_for_their_reader),
      cmocka_unit_test(one_connection_is_not_all_that_the_loop_does),
      cmocka_unit_test(the_last_bytes_wait_for_their_reader),
      cmocka_unit_test(a_reader_that_never_comes_is_idle),
      cmocka_unit_test(certificates_are_kept),
      cmocka_unit_test(a_bad_file_of_authorities_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
