/* The relay between two sockets: bytes, half-close, back-pressure, resets, limits. The peers are the
 * test's own ends of loopback connections. */
#include "turning.h"
#include "egress/relay.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

typedef struct bridge {
  mcg_engine *engine;
  mcg_relay *relay;
  int near, far; /* the test's ends */
  bool over;
  int ends;
  mcg_relay_end end;
  mcg_traffic traffic;
  bool traffic_closed;
} bridge;

static void on_end(void *data, const mcg_relay_end *end)
{
  bridge *self = data;
  self->ends++;
  self->over = true;
  self->end = *end;
}

/* A connection of TCP over loopback: what resets mean is only so there. */
static void tcp_pair(int pair[2])
{
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof at;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(listener, 1), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
  pair[0] = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(connect(pair[0], (struct sockaddr *)&at, sizeof at), 0);
  pair[1] = accept(listener, NULL, NULL);
  assert_true(pair[1] >= 0);
  close(listener);
}

/* A test that waits for what never comes fails, and does not hang. */
static void nothing_waits(int fd)
{
  struct timeval limit = {.tv_sec = 10};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* The two connections, before there is a relay between them. */
static void bridge_ends(bridge *self, int near[2], int far[2])
{
  *self = (bridge){.engine = engine_with(NULL)};
  tcp_pair(near);
  tcp_pair(far);
  self->near = near[0];
  self->far = far[0];
  nothing_waits(self->near);
  nothing_waits(self->far);
}

static void bridge_start(bridge *self, int near, int far, uint64_t idle_ms, uint64_t rate,
                         uint64_t total)
{
  mcg_error *err = NULL;
  mcg_traffic_init(&self->traffic, self->engine->loop, rate, total);
  const mcg_relay_options options = {.near = near,
                                     .far = far,
                                     .idle_ms = idle_ms,
                                     .traffic = &self->traffic,
                                     .ended = on_end,
                                     .data = self};
  assert_int_equal(mcg_relay_start(self->engine->loop, &options, &self->relay, &err), 0);
}

static void bridge_up(bridge *self, uint64_t idle_ms, uint64_t rate, uint64_t total)
{
  int near[2], far[2];
  bridge_ends(self, near, far);
  bridge_start(self, near[1], far[1], idle_ms, rate, total);
}

static void note(void *data)
{
  *(bool *)data = true;
}

static void bridge_down(bridge *self)
{
  if (!self->over) mcg_relay_cut(self->relay);
  assert_int_equal(self->ends, 1);
  if (self->near >= 0) close(self->near);
  if (self->far >= 0) close(self->far);
  mcg_traffic_close(&self->traffic, note, &self->traffic_closed);
  turn_until(self->engine, &self->traffic_closed);
  engine_end(self->engine);
}

/* Not UV_RUN_ONCE: the relay may have nothing left to wait for while the kernel still carries what it
 * sent to the test's end. */
static void turn(bridge *self)
{
  struct pollfd ready = {.fd = uv_backend_fd(self->engine->loop), .events = POLLIN};
  assert_true(poll(&ready, 1, 1) >= 0 || errno == EINTR);
  uv_run(self->engine->loop, UV_RUN_NOWAIT);
}

/* How much a socket's buffers take is the kernel's to say: the relay is turned when they are full. */
static void say(bridge *self, int fd, const char *bytes, size_t len)
{
  while (len) {
    ssize_t n = send(fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) {
      bytes += n;
      len -= (size_t)n;
    } else if (n < 0 && errno == EAGAIN)
      turn(self);
    else
      fail_msg("%zd, errno %d", n, errno);
  }
}

/* Reads what has come, turning until it is `len` bytes. */
static void expect(bridge *self, int fd, const char *text)
{
  char got[256] = "";
  size_t len = 0, want = strlen(text);
  while (len < want) {
    ssize_t n = recv(fd, got + len, want - len, MSG_DONTWAIT);
    if (n > 0)
      len += (size_t)n;
    else if (n < 0 && errno == EAGAIN)
      turn(self);
    else
      fail_msg("%zd, errno %d", n, errno);
  }
  assert_memory_equal(got, text, want);
}

static ssize_t next(bridge *self, int fd, void *bytes, size_t len)
{
  for (;;) {
    ssize_t n = recv(fd, bytes, len, MSG_DONTWAIT);
    if (n >= 0 || errno != EAGAIN) return n;
    turn(self);
  }
}

static void carries_both_ways_and_passes_on_each_end(void **state)
{
  (void)state;
  bridge self;
  char byte;
  bridge_up(&self, 0, 0, 0);
  assert_int_equal(send(self.near, "question", 8, 0), 8);
  expect(&self, self.far, "question");
  shutdown(self.near, SHUT_WR);
  assert_int_equal(next(&self, self.far, &byte, 1), 0); /* the end came through */
  assert_int_equal(send(self.far, "answer", 6, 0), 6);  /* and the other way is open */
  expect(&self, self.near, "answer");
  assert_false(self.over);
  close(self.far);
  self.far = -1;
  assert_int_equal(next(&self, self.near, &byte, 1), 0);
  turn_until(self.engine, &self.over);
  assert_int_equal(self.end.reason, MCG_RELAY_FINISHED);
  assert_int_equal(self.end.out, 8);
  assert_int_equal(self.end.in, 6);
  assert_int_equal(self.traffic.out, 8);
  assert_int_equal(self.traffic.in, 6);
  bridge_down(&self);
}

/* All of it is there at once, so that the end comes in each round that one turn of the relay has. */
static void an_end_is_passed_on_in_whatever_round(void **state)
{
  (void)state;
  static char block[65536];
  for (unsigned blocks = 0; blocks < 12; blocks++) {
    int near[2], far[2], room = 16 << 20;
    bridge self = {.engine = engine_with(NULL)};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, near), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, far), 0);
    setsockopt(far[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    setsockopt(near[1], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    size_t wrote = 0;
    for (unsigned i = 0; i < blocks; i++) {
      ssize_t put = send(far[0], block, sizeof block, MSG_DONTWAIT); /* less without root */
      if (put > 0) wrote += (size_t)put;
    }
    shutdown(far[0], SHUT_WR);
    shutdown(near[0], SHUT_WR);
    self.near = near[0];
    self.far = far[0];
    bridge_start(&self, near[1], far[1], 0, 0, 0);
    size_t read = 0;
    for (int i = 0; i < 5000 && !self.over; i++) {
      ssize_t got;
      turn(&self);
      while ((got = recv(self.near, block, sizeof block, MSG_DONTWAIT)) > 0) read += (size_t)got;
    }
    assert_true(self.over);
    assert_int_equal(self.end.reason, MCG_RELAY_FINISHED);
    for (ssize_t got; (got = recv(self.near, block, sizeof block, MSG_DONTWAIT)) > 0;)
      read += (size_t)got;
    assert_int_equal(read, wrote);
    bridge_down(&self);
  }
}

static void what_came_before_a_reset_is_delivered(void **state)
{
  (void)state;
  bridge self;
  char byte;
  bridge_up(&self, 0, 0, 0);
  assert_int_equal(send(self.far, "last words", 10, 0), 10);
  mcg_socket_reset(self.far);
  self.far = -1;
  turn_until(self.engine, &self.over);
  assert_int_equal(self.end.reason, MCG_RELAY_RESET);
  assert_int_equal(self.end.number, ECONNRESET);
  assert_false(self.end.near);
  assert_int_equal(self.end.in, 10);
  expect(&self, self.near, "last words");
  assert_int_equal(next(&self, self.near, &byte, 1), -1);
  assert_int_equal(errno, ECONNRESET);
  bridge_down(&self);
}

static void a_reader_that_stops_stops_the_writer(void **state)
{
  (void)state;
  bridge self;
  static char block[1 << 16];
  bridge_up(&self, 0, 0, 0);
  size_t written = 0;
  unsigned quiet = 0;
  while (quiet < 50) { /* nothing more can be written though the loop turned */
    ssize_t n = send(self.near, block, sizeof block, MSG_DONTWAIT);
    if (n > 0) {
      written += (size_t)n;
      quiet = 0;
    } else {
      assert_int_equal(errno, EAGAIN);
      quiet++;
    }
    uv_run(self.engine->loop, UV_RUN_NOWAIT);
  }
  assert_true(written < (size_t)64 << 20); /* the kernel's own buffers, and one of 64 KiB */
  assert_false(self.over);
  shutdown(self.near, SHUT_WR);
  size_t got = 0;
  ssize_t n;
  while ((n = next(&self, self.far, block, sizeof block)) > 0) got += (size_t)n;
  assert_int_equal(got, written); /* and nothing is lost */
  bridge_down(&self);
}

/* Whoever made the listener may have told its connections to wait when they are closed: an hour here,
 * for a program that never reads what was sent to it. */
static void the_sandbox_cannot_make_a_close_wait(void **state)
{
  (void)state;
  static char block[1 << 16];
  const struct linger hour = {.l_onoff = 1, .l_linger = 3600};
  const int little = 4096, room = 128 << 10; /* doubled by the kernel: what is sent fits */
  int near[2], far[2];
  bridge self;
  bridge_ends(&self, near, far);
  setsockopt(near[0], SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
  setsockopt(near[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  setsockopt(near[1], SOL_SOCKET, SO_LINGER, &hour, sizeof hour);
  bridge_start(&self, near[1], far[1], 0, 0, 0);
  say(&self, self.far, block, sizeof block);
  shutdown(self.far, SHUT_WR);
  shutdown(self.near, SHUT_WR);
  turn_until(self.engine, &self.over);
  assert_int_equal(self.end.reason, MCG_RELAY_FINISHED);
  size_t got = 0;
  for (ssize_t n; (n = recv(self.near, block, sizeof block, 0)) > 0;) got += (size_t)n;
  assert_int_equal(got, sizeof block); /* what was sent is not lost by that */
  bridge_down(&self);
}

/* Without a turn of the loop: who waits for an answer waits for nothing else. */
static void what_was_said_before_it_began_is_passed_on_at_once(void **state)
{
  (void)state;
  int near[2], far[2];
  char got[16];
  bridge self;
  bridge_ends(&self, near, far);
  assert_int_equal(send(self.near, "question", 8, 0), 8);
  bridge_start(&self, near[1], far[1], 0, 0, 0);
  assert_int_equal(recv(self.far, got, sizeof got, MSG_DONTWAIT), 8);
  say(&self, self.far, "answer", 6);
  expect(&self, self.near, "answer");
  bridge_down(&self);
}

/* The relay is over before its start returns. */
static void one_that_is_broken_already_ends_within_its_start(void **state)
{
  (void)state;
  int near[2], far[2];
  mcg_error *err = NULL;
  bridge self = {.engine = engine_with(NULL), .near = -1};
  tcp_pair(near);
  tcp_pair(far);
  self.far = far[0];
  mcg_socket_reset(near[0]);
  mcg_traffic_init(&self.traffic, self.engine->loop, 0, 0);
  const mcg_relay_options options = {
      .near = near[1], .far = far[1], .traffic = &self.traffic, .ended = on_end, .data = &self};
  assert_int_equal(mcg_relay_start(self.engine->loop, &options, &self.relay, &err), 0);
  assert_true(self.over);
  assert_int_equal(self.end.reason, MCG_RELAY_RESET);
  assert_true(self.end.near);
  bridge_down(&self);
}

static void silence_ends_it(void **state)
{
  (void)state;
  bridge self;
  int near[2], far[2];
  char byte;
  bridge_ends(&self, near, far);
  /* It moves as the relay starts: on a busy machine the time may be over before the first turn. */
  assert_int_equal(send(self.near, "x", 1, 0), 1);
  bridge_start(&self, near[1], far[1], 30, 0, 0);
  turn_until(self.engine, &self.over);
  assert_int_equal(self.end.reason, MCG_RELAY_IDLE);
  assert_int_equal(self.end.out, 1);
  assert_int_equal(next(&self, self.near, &byte, 1), -1);
  assert_int_equal(errno, ECONNRESET);
  bridge_down(&self);
}

static void a_total_ends_it_once_it_is_spent(void **state)
{
  (void)state;
  bridge self;
  bridge_up(&self, 0, 0, 100);
  char block[150] = {0};
  assert_int_equal(send(self.near, block, sizeof block, 0), sizeof block);
  turn_until(self.engine, &self.over);
  assert_int_equal(self.end.reason, MCG_RELAY_SPENT);
  assert_int_equal(self.end.out, 100);
  bridge_down(&self);
}

static void a_total_that_is_just_enough_does_not_end_it(void **state)
{
  (void)state;
  bridge self;
  char byte;
  bridge_up(&self, 0, 0, 8);
  assert_int_equal(send(self.near, "question", 8, 0), 8);
  expect(&self, self.far, "question");
  shutdown(self.near, SHUT_WR);
  assert_int_equal(next(&self, self.far, &byte, 1), 0);
  shutdown(self.far, SHUT_WR);
  turn_until(self.engine, &self.over);
  assert_int_equal(self.end.reason, MCG_RELAY_FINISHED);
  bridge_down(&self);
}

/* 64 KiB at 64 KiB a second, from a bucket of a tenth: it cannot be done in less than 0.7 s. */
static void a_rate_is_kept(void **state)
{
  (void)state;
  bridge self;
  static char block[1 << 16];
  bridge_up(&self, 0, 1 << 16, 0);
  uint64_t began = uv_hrtime();
  assert_int_equal(send(self.near, block, sizeof block, 0), sizeof block);
  shutdown(self.near, SHUT_WR);
  size_t got = 0;
  ssize_t n;
  while ((n = next(&self, self.far, block, sizeof block)) > 0) got += (size_t)n;
  assert_int_equal(got, sizeof block);
  assert_true(uv_hrtime() - began > 700000000);
  bridge_down(&self);
}

static void cutting_it_resets_both(void **state)
{
  (void)state;
  bridge self;
  char byte;
  bridge_up(&self, 0, 0, 0);
  mcg_relay_cut(self.relay);
  assert_int_equal(self.ends, 1);
  assert_int_equal(self.end.reason, MCG_RELAY_CUT);
  assert_int_equal(recv(self.near, &byte, 1, 0), -1);
  assert_int_equal(errno, ECONNRESET);
  assert_int_equal(recv(self.far, &byte, 1, 0), -1);
  assert_int_equal(errno, ECONNRESET);
  bridge_down(&self);
}

static void one_that_cannot_be_watched_is_refused(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  mcg_error *err = NULL;
  mcg_relay *relay;
  int pair[2];
  tcp_pair(pair);
  int closed = dup(pair[1]);
  close(closed);
  const mcg_relay_options options = {.near = pair[1], .far = closed};
  assert_int_equal(mcg_relay_start(engine->loop, &options, &relay, &err), -1);
  mcg_error_free(err);
  char byte;
  assert_int_equal(recv(pair[0], &byte, 1, 0), -1); /* what it took is closed */
  close(pair[0]);
  engine_end(engine);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(carries_both_ways_and_passes_on_each_end),
      cmocka_unit_test(an_end_is_passed_on_in_whatever_round),
      cmocka_unit_test(what_came_before_a_reset_is_delivered),
      cmocka_unit_test(a_reader_that_stops_stops_the_writer),
      cmocka_unit_test(the_sandbox_cannot_make_a_close_wait),
      cmocka_unit_test(what_was_said_before_it_began_is_passed_on_at_once),
      cmocka_unit_test(one_that_is_broken_already_ends_within_its_start),
      cmocka_unit_test(silence_ends_it),
      cmocka_unit_test(a_total_ends_it_once_it_is_spent),
      cmocka_unit_test(a_total_that_is_just_enough_does_not_end_it),
      cmocka_unit_test(a_rate_is_kept),
      cmocka_unit_test(cutting_it_resets_both),
      cmocka_unit_test(one_that_cannot_be_watched_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
