/* Sockets from an init that lies: with HELLO, and in answer to LISTEN and CONNECT. Whatever it sends that is
 * not what it says, the stream ends with `protocol`, and no descriptor stays open. */
#include "fake_init.h"

#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

/* ---- sockets of all kinds ----------------------------------------------------------------------- */

static int inet(int type, uint16_t port, bool listens)
{
  struct sockaddr_in name = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (void *)&name, sizeof name), 0);
  if (listens) assert_int_equal(listen(fd, 1), 0);
  return fd;
}

static uint16_t port_of(int fd)
{
  struct sockaddr_in name;
  socklen_t size = sizeof name;
  assert_int_equal(getsockname(fd, (void *)&name, &size), 0);
  return ntohs(name.sin_port);
}

static int a_pipe(void)
{
  int ends[2];
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  close(ends[1]);
  return ends[0];
}

static int a_datagram_socket(void)
{
  return inet(SOCK_DGRAM, 0, false);
}
static int a_connection(void)
{
  return inet(SOCK_STREAM, 0, false);
}
static int a_listener(void)
{
  return inet(SOCK_STREAM, 0, true);
}
/* Full of what nobody reads, and told to wait an hour for that when it is closed. Its other end stays. */
static int other_end = -1;
static int one_that_lingers(void)
{
  const struct linger hour = {.l_onoff = 1, .l_linger = 3600};
  int listener = a_listener(), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), little = 4096;
  struct sockaddr_in name;
  socklen_t size = sizeof name;
  char block[4096] = {0};
  setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
  assert_int_equal(getsockname(listener, (void *)&name, &size), 0);
  assert_int_equal(connect(fd, (void *)&name, size), 0);
  if (other_end >= 0) close(other_end);
  other_end = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  close(listener);
  while (send(fd, block, sizeof block, MSG_DONTWAIT) > 0) continue;
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hour, sizeof hour), 0);
  return fd;
}
static int a_unix_socket(void)
{
  return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/* ---- HELLO ------------------------------------------------------------------------------------- */

static void hello_with(fake *self, const uint64_t *kinds, size_t kind_count, const int *fds,
                       size_t fd_count)
{
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_u64(&body, MCG_TAG_VERSION, MCG_PROTOCOL_VERSION);
  for (size_t i = 0; i < kind_count; i++) mcg_wire_put_u64(&body, MCG_TAG_SOCKET, kinds[i]);
  fake_say(self, MCG_F_HELLO, 0, &body, fds, fd_count);
  mcg_wire_fini(&body);
}

static void refuses_hello(const uint64_t *kinds, size_t kind_count, int (*make)(void),
                          size_t fd_count)
{
  fake self;
  int before = open_descriptors(), fds[MCG_FDS_MAX];
  fake_begin(&self, MCG_CARRIER_DIRECT);
  for (size_t i = 0; i < fd_count; i++) fds[i] = make();
  hello_with(&self, kinds, kind_count, fds, fd_count);
  for (size_t i = 0; i < fd_count; i++) close(fds[i]);
  until(&self.opening);
  assert_int_equal(self.opening.error->code, MCG_PROTOCOL);
  fake_down(&self);
  assert_int_equal(open_descriptors(), before);
}

static void sockets_that_are_none_of_a_gateway(void **state)
{
  (void)state;
  static int (*const all[])(void) = {a_pipe, a_datagram_socket, a_connection, a_listener,
                                     a_unix_socket};
  for (uint64_t kind = 0; kind < MCG_SOCKETS; kind++)
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
      if (kind != MCG_SOCKET_REDIRECT_4 || all[i] != a_listener)
        refuses_hello(&kind, 1, all[i], 1); /* the stub is on port 53, which these are not */
}

static void more_and_fewer_than_said(void **state)
{
  (void)state;
  const uint64_t four[] = {MCG_SOCKET_REDIRECT_4, MCG_SOCKET_REDIRECT_4}, unknown = MCG_SOCKETS;
  refuses_hello(four, 1, a_listener, 2);
  refuses_hello(four, 1, a_listener, 0);
  refuses_hello(four, 2, a_listener, 2); /* the same one twice */
  refuses_hello(four, 0, a_listener, 1);
  refuses_hello(&unknown, 1, a_listener, 1);
}

/* Nobody asked for it, and with the stream it is closed. */
static void one_that_nobody_takes(void **state)
{
  (void)state;
  fake self;
  const uint64_t kind = MCG_SOCKET_REDIRECT_4;
  int before = open_descriptors(), fd = a_listener();
  fake_begin(&self, MCG_CARRIER_DIRECT);
  hello_with(&self, &kind, 1, &fd, 1);
  close(fd);
  until(&self.opening);
  assert_null(self.opening.error);
  fake_down(&self);
  assert_int_equal(open_descriptors(), before);
}

/* ---- LISTEN and CONNECT ---------------------------------------------------------------------------- */

typedef struct asking {
  mcg_stream *stream;
  uint16_t port;
  bool connects;
  int fd;
  outcome done;
} asking;

static int ask_run(void *arg, mcg_error **err)
{
  asking *self = arg;
  const struct sockaddr_in at = {.sin_family = AF_INET,
                                 .sin_port = htons(self->port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  return (self->connects ? mcg_stream_connect : mcg_stream_listen)(self->stream, (const void *)&at,
                                                                   &self->fd, err);
}

static void ask_done(void *arg, mcg_error *error)
{
  take_done(&((asking *)arg)->done, error);
}

static mcg_op *ask(asking *self, fake *from, uint16_t port, bool connects)
{
  mcg_op *op;
  *self = (asking){.stream = from->stream, .port = port, .connects = connects, .fd = -1};
  assert_int_equal(mcg_op_start(engine, ask_run, ask_done, self, &op, NULL), 0);
  turn_for(1);
  return op;
}

static void refuses_answer(bool connects, int (*make)(void), size_t count)
{
  fake self;
  asking asked;
  int before = open_descriptors(), fds[2];
  fake_up(&self, MCG_CARRIER_DIRECT);
  ask(&asked, &self, 7, connects);
  for (size_t i = 0; i < count; i++) fds[i] = make();
  fake_say(&self, MCG_F_STARTED, 1, NULL, fds, count);
  for (size_t i = 0; i < count; i++) close(fds[i]);
  until(&asked.done);
  assert_int_equal(asked.done.error->code, MCG_PROTOCOL);
  assert_int_equal(asked.fd, -1);
  for (int turns = 0; turns < 500 && !self.losses; turns++) turn_for(1);
  assert_int_equal(self.losses, 1);
  assert_int_equal(self.lost->code, MCG_PROTOCOL);
  outcome_fini(&asked.done);
  fake_down(&self);
  assert_int_equal(open_descriptors(), before);
}

static void another_than_was_asked_for(void **state)
{
  (void)state;
  static int (*const all[])(void) = {a_pipe, a_datagram_socket, a_listener, a_unix_socket};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    refuses_answer(false, all[i], 1); /* a listener of another port among them */
    refuses_answer(true, all[i], 1);
  }
  refuses_answer(false, a_connection, 1);
  for (size_t count = 0; count < 3; count += 2) {
    refuses_answer(false, a_listener, count);
    refuses_answer(true, a_connection, count);
  }
}

/* Who closes it must not wait. */
static void one_that_makes_a_close_wait(void **state)
{
  (void)state;
  const uint64_t stub = MCG_SOCKET_STUB_TCP;
  other_end = inet(SOCK_STREAM, 0, false);
  refuses_hello(&stub, 1, one_that_lingers, 1);
  refuses_hello(&stub, 0, one_that_lingers, 1); /* nobody said that it comes */
  refuses_answer(false, one_that_lingers, 1);
  refuses_answer(true, one_that_lingers, 2);
  close(other_end);
}

/* To another place than was asked for. */
static void a_connection_elsewhere(void **state)
{
  (void)state;
  fake self;
  asking asked;
  fake_up(&self, MCG_CARRIER_DIRECT);
  int listener = a_listener(), fd = a_connection();
  struct sockaddr_in name = {.sin_family = AF_INET,
                             .sin_port = htons(port_of(listener)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  assert_int_equal(connect(fd, (void *)&name, sizeof name), 0);
  ask(&asked, &self, 7, true);
  fake_say(&self, MCG_F_STARTED, 1, NULL, &fd, 1);
  until(&asked.done);
  assert_int_equal(asked.done.error->code, MCG_PROTOCOL);
  outcome_fini(&asked.done);
  close(fd);
  close(listener);
  fake_down(&self);
}

static void what_was_asked_for(void **state)
{
  (void)state;
  fake self;
  asking asked;
  fake_up(&self, MCG_CARRIER_DIRECT);
  int listener = a_listener();
  ask(&asked, &self, port_of(listener), false);
  fake_say(&self, MCG_F_STARTED, 1, NULL, &listener, 1);
  until(&asked.done);
  assert_null(asked.done.error);
  assert_int_equal(port_of(asked.fd), port_of(listener));
  assert_true(fcntl(asked.fd, F_GETFL) & O_NONBLOCK);
  close(asked.fd);
  close(listener);
  assert_int_equal(self.losses, 0);
  fake_down(&self);
}

/* Its descriptor comes for nobody. */
static void an_answer_that_is_late(void **state)
{
  (void)state;
  fake self;
  asking asked;
  int before = open_descriptors();
  fake_up(&self, MCG_CARRIER_DIRECT);
  mcg_op_cancel(ask(&asked, &self, 7, false));
  until(&asked.done);
  assert_int_equal(asked.done.error->code, MCG_CANCELED);
  outcome_fini(&asked.done);
  int listener = a_listener();
  fake_say(&self, MCG_F_STARTED, 1, NULL, &listener, 1);
  close(listener);
  turn_for(5);
  assert_int_equal(self.losses, 0);
  fake_down(&self);
  assert_int_equal(open_descriptors(), before);
}

/* While somebody waits for an answer. */
static void the_end_of_the_stream(void **state)
{
  (void)state;
  fake self;
  asking asked;
  fake_up(&self, MCG_CARRIER_DIRECT);
  ask(&asked, &self, 7, true);
  shutdown(self.fd, SHUT_RDWR);
  until(&asked.done);
  assert_int_equal(asked.done.error->code, MCG_UNAVAILABLE);
  outcome_fini(&asked.done);
  fake_down(&self);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, engine_up, engine_down)
  const struct CMUnitTest tests[] = {
      CASE(sockets_that_are_none_of_a_gateway),
      CASE(more_and_fewer_than_said),
      CASE(one_that_nobody_takes),
      CASE(another_than_was_asked_for),
      CASE(one_that_makes_a_close_wait),
      CASE(a_connection_elsewhere),
      CASE(what_was_asked_for),
      CASE(an_answer_that_is_late),
      CASE(the_end_of_the_stream),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
