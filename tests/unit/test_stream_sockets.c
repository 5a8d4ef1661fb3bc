/* The sockets that a sandbox hands to the engine: those of its gateway, LISTEN and CONNECT; and what a
 * sandbox with a gateway can and cannot do in its network. As root everything runs twice: as root, and
 * as uid 65534. What is expected of the kernel is what it does to a host without the address. */
#include "turning.h"

#include "egress/refusal.h"
#include "spawner.h"
#include "stream/stream.h"

#include <arpa/inet.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

typedef struct world {
  mcg_engine *engine;
  mcg_jailed *jailed;
  mcg_stream *stream;
  mcg_gateway_sockets sockets;
  char mechanism[128]; /* network= */
  bool over;
  void (*test)(struct world *world);
} world;

/* ---- a sandbox ---------------------------------------------------------------------------------- */

static void mechanism(void *data, const char *name, const char *value)
{
  world *w = data;
  if (strcmp(name, "network") == 0) snprintf(w->mechanism, sizeof w->mechanism, "%s", value);
}

static void open_world(world *w, const mcg_spawn_spec *spec, mcg_carrier carrier)
{
  mcg_error *err = NULL;
  int fd;
  if (mcg_spawner_create(w->engine, NULL, spec, &w->jailed, &fd, &err) < 0 ||
      mcg_stream_open(w->engine, fd, carrier, mechanism, NULL, w, &w->stream, &err) < 0)
    fail_msg("no sandbox: %s", err->message);
  mcg_stream_gateway_sockets(w->stream, &w->sockets);
}

static void close_world(world *w)
{
  const int all[] = {w->sockets.stub_udp, w->sockets.stub_tcp, w->sockets.redirected[0],
                     w->sockets.redirected[1]};
  mcg_error *err = NULL;
  for (size_t i = 0; i < 4; i++)
    if (all[i] >= 0) close(all[i]);
  if (w->sockets.refused >= 0) mcg_spawner_close(w->engine, w->sockets.refused);
  mcg_stream_close(w->stream);
  assert_int_equal(mcg_spawner_destroy(w->jailed, NULL, &err), 0);
}

static void fiber(void *data)
{
  world *w = data;
  w->test(w);
  w->over = true;
}

static void on_fiber(void (*test)(world *w))
{
  world w = {.engine = engine_with(NULL), .test = test};
  mcg_error *err = NULL;
  assert_int_equal(mcg_fiber_start(w.engine, fiber, &w, NULL, &err), 0);
  turn_until(w.engine, &w.over);
  engine_end(w.engine);
}

static void open_gateway(world *w, bool redirect)
{
  const mcg_spawn_spec spec = {
      .kind = MCG_KIND_JAIL, .disk = 16 << 20, .network = MCG_NET_GATEWAY, .redirect = redirect};
  open_world(w, &spec, MCG_CARRIER_DIRECT);
}

/* ---- commands in it ------------------------------------------------------------------------------ */

typedef struct command {
  mcg_engine *engine;
  mcg_channel *channel;
  mcg_wait wait;
  char out[4096];
  size_t len;
  bool eof[3], exited;
  int code;
} command;

static bool on_data(void *data, int stream, const void *bytes, size_t len)
{
  command *c = data;
  (void)stream;
  size_t take = len < sizeof c->out - 1 - c->len ? len : sizeof c->out - 1 - c->len;
  memcpy(c->out + c->len, bytes, take);
  c->out[c->len += take] = 0;
  mcg_wait_wake(c->engine, &c->wait);
  return true;
}

static void on_eof(void *data, int stream)
{
  command *c = data;
  c->eof[stream] = true;
  mcg_wait_wake(c->engine, &c->wait);
}

static void on_exit_(void *data, const mcg_exit *what)
{
  command *c = data;
  c->exited = true;
  c->code = what->code;
  mcg_wait_wake(c->engine, &c->wait);
}

static void on_refused(void *data, int number, const char *step, const char *text)
{
  (void)data;
  fail_msg("refused: %s: %s (%d)", step, text, number);
}

static void start(world *w, command *c, const char *program)
{
  static const mcg_channel_events events = {
      .on_data = on_data, .on_eof = on_eof, .on_exit = on_exit_, .on_refused = on_refused};
  const char *const words[] = {"/usr/bin/python3", "-c", program};
  mcg_wire body;
  mcg_error *err = NULL;
  *c = (command){.engine = w->engine};
  mcg_wait_init(&c->wait);
  mcg_wire_init(&body);
  for (size_t i = 0; i < 3; i++) mcg_wire_put_str(&body, MCG_TAG_ARG, words[i]);
  mcg_wire_put_str(&body, MCG_TAG_ENV, "PATH=/usr/bin:/bin");
  assert_int_equal(
      mcg_channel_open(w->stream, &body, MCG_EXEC_NO_STDIN, &events, c, &c->channel, &err), 0);
  mcg_wire_fini(&body);
}

static void await(command *c, const char *text)
{
  mcg_error *err = NULL;
  while (text ? !strstr(c->out, text) : !c->exited || !c->eof[1] || !c->eof[2]) {
    if (text && c->exited && c->eof[1] && c->eof[2]) fail_msg("\"%s\" lacks \"%s\"", c->out, text);
    if (mcg_wait_park(c->engine, &c->wait, 60000, &err) < 0)
      fail_msg("%s: so far \"%s\"", err->message, c->out);
  }
}

/* What the program printed, until the next one runs. */
static const char *run(world *w, const char *program)
{
  static command c;
  start(w, &c, program);
  await(&c, NULL);
  mcg_channel_release(c.channel);
  return c.out;
}

static void assert_says(world *w, const char *program, const char *expected)
{
  const char *said = run(w, program);
  if (strcmp(said, expected) != 0) fail_msg("%s\nsaid \"%s\", not \"%s\"", program, said, expected);
}

#define SOCKET "import socket, errno, os\n"
/* try(f) prints "ok" or the name of the error. */
#define TRY                                                                                        \
  SOCKET "def attempt(f):\n"                                                                       \
         "  try:\n    f(); print('ok')\n"                                                          \
         "  except OSError as e: print(errno.errorcode[e.errno])\n"

static struct sockaddr_in four(const char *address, uint16_t port)
{
  struct sockaddr_in out = {.sin_family = AF_INET, .sin_port = htons(port)};
  assert_int_equal(inet_pton(AF_INET, address, &out.sin_addr), 1);
  return out;
}

static struct sockaddr_in6 six(const char *address, uint16_t port)
{
  struct sockaddr_in6 out = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  assert_int_equal(inet_pton(AF_INET6, address, &out.sin6_addr), 1);
  return out;
}

/* ---- the gateway's ---------------------------------------------------------------------------- */

static void gateway_sockets(world *w)
{
  open_gateway(w, false);
  assert_true(w->sockets.stub_udp >= 0 && w->sockets.stub_tcp >= 0 && w->sockets.refused >= 0);
  assert_int_equal(w->sockets.redirected[0], -1);
  assert_non_null(strstr(w->mechanism, "through the gateway"));
  mcg_gateway_sockets again;
  mcg_stream_gateway_sockets(w->stream, &again);
  assert_int_equal(again.stub_udp, -1);
  /* Nothing that is not allowed is waited for. */
  assert_says(w,
              TRY "attempt(lambda: socket.create_connection(('1.2.3.4', 443)))\n"
                  "attempt(lambda: socket.create_connection(('2001:db8::1', 443)))\n"
                  "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                  "u.connect(('8.8.8.8', 53)); u.send(b'x'); attempt(lambda: u.recv(1))\n",
              "ECONNREFUSED\nECONNREFUSED\nECONNREFUSED\n");
  /* The stub's socket is asked. */
  command c;
  start(w, &c,
        SOCKET "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
               "u.connect(('127.0.0.1', 53)); u.send(b'who?'); print(u.recv(9).decode())\n");
  mcg_error *err = NULL;
  struct sockaddr_in from;
  socklen_t size = sizeof from;
  char question[16];
  ssize_t len;
  while ((len = recvfrom(w->sockets.stub_udp, question, sizeof question, 0, (void *)&from, &size)) <
         0)
    assert_int_equal(mcg_fiber_sleep(w->engine, 5, &err), 0);
  assert_int_equal(len, 4);
  assert_int_equal(sendto(w->sockets.stub_udp, "you", 3, 0, (void *)&from, size), 3);
  await(&c, NULL);
  assert_string_equal(c.out, "you\n");
  mcg_channel_release(c.channel);
  close_world(w);
}

static void test_gateway_sockets(void **state)
{
  (void)state;
  on_fiber(gateway_sockets);
}

static void none_without(world *w)
{
  const mcg_spawn_spec spec = {.kind = MCG_KIND_JAIL, .disk = 16 << 20};
  open_world(w, &spec, MCG_CARRIER_DIRECT);
  assert_int_equal(w->sockets.stub_udp, -1);
  assert_int_equal(w->sockets.refused, -1);
  assert_says(w, TRY "attempt(lambda: socket.create_connection(('1.2.3.4', 443)))\n",
              "ENETUNREACH\n");
  close_world(w);
}

static void test_none_without_a_gateway(void **state)
{
  (void)state;
  on_fiber(none_without);
}

/* ---- what was refused ---------------------------------------------------------------------------- */

static void assert_refusal(world *w, const char *address, uint16_t port, bool udp)
{
  uint8_t packet[MCG_REFUSAL_PACKET];
  mcg_refusal got;
  mcg_error *err = NULL;
  char text[MCG_ADDRESS_TEXT];
  ssize_t len;
  while ((len = recv(w->sockets.refused, packet, sizeof packet, 0)) < 0)
    assert_int_equal(mcg_fiber_sleep(w->engine, 5, &err), 0);
  assert_true(mcg_refusal_parse(packet, (size_t)len, &got));
  mcg_address_text(&got.address, text);
  assert_string_equal(text, address);
  assert_int_equal(got.port, port);
  assert_int_equal(got.udp, udp);
}

/* In its order, each once; neither what was let in nor what happens on loopback. */
static void refusals(world *w)
{
  open_gateway(w, false);
  run(w, SOCKET
      "def go(f):\n"
      "  try: f()\n"
      "  except OSError: pass\n"
      "def send(to, port):\n"
      "  u = socket.socket(socket.AF_INET6 if ':' in to else socket.AF_INET, socket.SOCK_DGRAM)\n"
      "  u.connect((to, port)); go(lambda: u.send(b'x'))\n"
      "go(lambda: socket.create_connection(('127.0.0.1', 1)))\n"
      "go(lambda: socket.create_connection(('::1', 1)))\n"
      "send('127.0.0.1', 1); send('::1', 1)\n"
      "s = socket.create_server(('0.0.0.0', 8080))\n"
      "c = socket.create_connection(('192.0.2.1', 8080)); d, _ = s.accept(); d.close(); c.close()\n"
      "s.close()\n"
      "go(lambda: socket.create_connection(('93.184.216.34', 8443)))\n"
      "go(lambda: socket.create_connection(('2001:db8::7', 443)))\n"
      "send('198.51.100.7', 123); send('2001:db8::7', 500)\n");
  assert_refusal(w, "93.184.216.34", 8443, false);
  assert_refusal(w, "2001:db8::7", 443, false);
  assert_refusal(w, "198.51.100.7", 123, true);
  assert_refusal(w, "2001:db8::7", 500, true);
  char more[64];
  assert_int_equal(recv(w->sockets.refused, more, sizeof more, 0), -1);
  close_world(w);
}

static void test_refusals(void **state)
{
  (void)state;
  on_fiber(refusals);
}

/* A program that tries all ports of its own never meets itself: it comes from another address. */
static void meets_nobody(world *w)
{
  open_gateway(w, false);
  assert_says(w,
              SOCKET "met = 0\n"
                     "for i in range(60000):\n"
                     "  s = socket.socket()\n"
                     "  if s.connect_ex(('9.9.9.9', 40000)) == 0: met += 1\n"
                     "  s.close()\n"
                     "print(met)\n",
              "0\n");
  close_world(w);
}

static void test_meets_nobody(void **state)
{
  (void)state;
  on_fiber(meets_nobody);
}

/* ---- LISTEN ------------------------------------------------------------------------------------ */

static int accepted(world *w, int listener)
{
  mcg_error *err = NULL;
  int fd;
  while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
    assert_int_equal(mcg_fiber_sleep(w->engine, 5, &err), 0);
  return fd;
}

static void is_reached(world *w, const struct sockaddr *at, const char *program)
{
  mcg_error *err = NULL;
  int listener;
  if (mcg_stream_listen(w->stream, at, &listener, &err) < 0) fail_msg("%s", err->message);
  command c;
  start(w, &c, program);
  int fd = accepted(w, listener);
  assert_int_equal(write(fd, "hello", 5), 5);
  close(fd);
  await(&c, NULL);
  if (strcmp(c.out, "hello\n") != 0) fail_msg("said \"%s\"", c.out);
  mcg_channel_release(c.channel);
  close(listener);
}

static void listens(world *w)
{
  open_gateway(w, false);
  struct sockaddr_in at = four("198.18.0.5", 443);
  is_reached(w, (void *)&at,
             SOCKET "print(socket.create_connection(('198.18.0.5', 443)).recv(9).decode())\n");
  struct sockaddr_in6 at6 = six("fd00::5", 443);
  is_reached(w, (void *)&at6,
             SOCKET "print(socket.create_connection(('fd00::5', 443)).recv(9).decode())\n");
  at = four("0.0.0.0", 8443);
  is_reached(w, (void *)&at,
             SOCKET "print(socket.create_connection(('93.184.216.34', 8443)).recv(9).decode())\n");
  at6 = six("::", 8443);
  is_reached(w, (void *)&at6,
             SOCKET "print(socket.create_connection(('2001:db8::7', 8443)).recv(9).decode())\n");
  close_world(w);
}

static void test_listens(void **state)
{
  (void)state;
  on_fiber(listens);
}

static void port_is_taken(world *w)
{
  mcg_error *err = NULL;
  int listener, other;
  open_gateway(w, false);
  command c;
  start(w, &c,
        SOCKET "import time\ns = socket.create_server(('0.0.0.0', 443))\n"
               "print('stands', flush=True)\ntime.sleep(600)\n");
  await(&c, "stands");
  struct sockaddr_in at = four("198.18.0.5", 443);
  assert_int_equal(mcg_stream_listen(w->stream, (void *)&at, &listener, &err), -1);
  assert_non_null(strstr(err->message, "198.18.0.5:443"));
  assert_int_equal(code_of(&err), MCG_CONFLICT);
  mcg_channel_kill(c.channel);
  mcg_channel_release(c.channel);
  /* What listens cannot be joined by a program of the same uid, whatever it sets. */
  at = four("0.0.0.0", 444);
  assert_int_equal(mcg_stream_listen(w->stream, (void *)&at, &listener, &err), 0);
  assert_says(w,
              TRY "def serve(*options):\n"
                  "  s = socket.socket()\n"
                  "  for o in options: s.setsockopt(socket.SOL_SOCKET, o, 1)\n"
                  "  s.bind(('0.0.0.0', 444)); s.listen()\n"
                  "attempt(lambda: serve())\n"
                  "attempt(lambda: serve(socket.SO_REUSEPORT))\n"
                  "attempt(lambda: serve(socket.SO_REUSEADDR))\n"
                  "attempt(lambda: serve(socket.SO_REUSEADDR, socket.SO_REUSEPORT))\n",
              "EADDRINUSE\nEADDRINUSE\nEADDRINUSE\nEADDRINUSE\n");
  assert_int_equal(mcg_stream_listen(w->stream, (void *)&at, &other, &err), -1);
  assert_int_equal(code_of(&err), MCG_CONFLICT);
  close(listener);
  close_world(w);
}

static void test_port_is_taken(void **state)
{
  (void)state;
  on_fiber(port_is_taken);
}

/* ---- what a program may not ----------------------------------------------------------------------- */

/* Who could would get round the gateway, or see and answer in its place. */
static void attacks(world *w)
{
  open_gateway(w, false);
  assert_says(w,
              TRY
              "import struct, fcntl\n"
              "S = socket\n"
              "attempt(lambda: S.socket(S.AF_PACKET, S.SOCK_DGRAM, 8))\n"
              "attempt(lambda: S.socket(S.AF_INET, S.SOCK_RAW, 6))\n"
              "attempt(lambda: S.socket(S.AF_NETLINK, S.SOCK_RAW, 12))\n"
              "def route(kind, body):\n"
              "  n = S.socket(S.AF_NETLINK, S.SOCK_RAW, 0)\n"
              "  n.send(struct.pack('IHHII', 16 + len(body), kind, 5, 1, 0) + body)\n"
              "  number = -struct.unpack('i', n.recv(4096)[16:20])[0]\n"
              "  if number: raise OSError(number, '')\n"
              "deleted = struct.pack('BBBBBBBBI', 2, 0, 0, 0, 255, 0, 254, 2, 0)\n"
              "attempt(lambda: route(25, deleted))\n"                                 /* DELROUTE */
              "attempt(lambda: route(24, deleted))\n"                                 /* NEWROUTE */
              "attempt(lambda: route(21, struct.pack('BBBBI', 2, 32, 0, 0, 1)))\n"    /* DELADDR */
              "attempt(lambda: route(16, struct.pack('BBHiII', 0, 0, 0, 1, 0, 1)))\n" /* NEWLINK */
              "attempt(lambda: fcntl.ioctl(S.socket(), 0x8914, struct.pack('16sh14x', b'lo', 0)))\n"
              "attempt(lambda: S.socket().setsockopt(S.IPPROTO_IP, 19, 1))\n" /* IP_TRANSPARENT */
              "attempt(lambda: open('/proc/sys/net/ipv4/ip_forward', 'w'))\n"
              "def stub(kind):\n"
              "  s = S.socket(S.AF_INET, kind)\n"
              "  for o in (S.SO_REUSEADDR, S.SO_REUSEPORT): s.setsockopt(S.SOL_SOCKET, o, 1)\n"
              "  s.bind(('127.0.0.1', 53))\n"
              "  if kind == S.SOCK_STREAM: s.listen()\n"
              "attempt(lambda: stub(S.SOCK_DGRAM))\n"
              "attempt(lambda: stub(S.SOCK_STREAM))\n"
              "attempt(lambda: os.listdir('/proc/1/fd'))\n",
              "EPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEROFS\nEADDRINUSE\n"
              "EADDRINUSE\nENOENT\n");
  close_world(w);
}

static void test_attacks(void **state)
{
  (void)state;
  on_fiber(attacks);
}

/* ---- CONNECT ------------------------------------------------------------------------------------ */

static void connects(world *w)
{
  const mcg_spawn_spec spec = {.kind = MCG_KIND_JAIL, .disk = 16 << 20}; /* no gateway is needed */
  mcg_error *err = NULL;
  int fd;
  open_world(w, &spec, MCG_CARRIER_DIRECT);
  struct sockaddr_in at = four("127.0.0.1", 8080);
  assert_int_equal(mcg_stream_connect(w->stream, (void *)&at, &fd, &err), -1);
  assert_non_null(strstr(err->message, "127.0.0.1:8080"));
  assert_non_null(err->fix);
  assert_int_equal(code_of(&err), MCG_UNAVAILABLE);
  command c;
  start(w, &c,
        SOCKET "s = socket.create_server(('127.0.0.1', 8080))\nprint('stands', flush=True)\n"
               "c, _ = s.accept(); print(c.recv(9).decode())\n");
  await(&c, "stands");
  if (mcg_stream_connect(w->stream, (void *)&at, &fd, &err) < 0) fail_msg("%s", err->message);
  assert_int_equal(write(fd, "hello", 5), 5);
  await(&c, NULL);
  assert_string_equal(c.out, "stands\nhello\n");
  mcg_channel_release(c.channel);
  close(fd);
  close_world(w);
}

static void test_connects(void **state)
{
  (void)state;
  on_fiber(connects);
}

static void framed(world *w)
{
  const mcg_spawn_spec spec = {.kind = MCG_KIND_JAIL, .disk = 16 << 20, .carrier = 1};
  mcg_error *err = NULL;
  int fd;
  open_world(w, &spec, MCG_CARRIER_FRAMED);
  struct sockaddr_in at = four("127.0.0.1", 8080);
  assert_int_equal(mcg_stream_connect(w->stream, (void *)&at, &fd, &err), -1);
  assert_int_equal(code_of(&err), MCG_UNSUPPORTED);
  assert_int_equal(mcg_stream_listen(w->stream, (void *)&at, &fd, &err), -1);
  assert_int_equal(code_of(&err), MCG_UNSUPPORTED);
  close_world(w);
}

static void test_not_over_a_framed_stream(void **state)
{
  (void)state;
  on_fiber(framed);
}

static void framed_gateway(world *w)
{
  const mcg_spawn_spec spec = {
      .kind = MCG_KIND_JAIL, .disk = 16 << 20, .network = MCG_NET_GATEWAY, .carrier = 1};
  mcg_error *err = NULL;
  int fd;
  assert_int_equal(mcg_spawner_create(w->engine, NULL, &spec, &w->jailed, &fd, &err), 0);
  assert_int_equal(
      mcg_stream_open(w->engine, fd, MCG_CARRIER_FRAMED, NULL, NULL, NULL, &w->stream, &err), -1);
  assert_non_null(strstr(err->message, "framed"));
  assert_int_equal(code_of(&err), MCG_UNENFORCEABLE);
  assert_int_equal(mcg_spawner_destroy(w->jailed, NULL, &err), 0);
}

static void test_no_gateway_over_a_framed_stream(void **state)
{
  (void)state;
  on_fiber(framed_gateway);
}

/* ---- redirected ---------------------------------------------------------------------------------- */

static void redirected(world *w)
{
  mcg_error *err = NULL;
  struct sockaddr_storage to;
  open_gateway(w, true);
  assert_true(w->sockets.redirected[0] >= 0 && w->sockets.redirected[1] >= 0);
  command c;
  start(w, &c,
        SOCKET "a = socket.create_connection(('93.184.216.34', 40000))\n"
               "b = socket.create_connection(('2001:db8::7', 5000))\n"
               "print(a.getpeername()[:2], a.recv(9), b.getpeername()[:2], b.recv(9))\n");
  int a = accepted(w, w->sockets.redirected[0]), b = accepted(w, w->sockets.redirected[1]);
  struct sockaddr_in at = four("93.184.216.34", 40000);
  struct sockaddr_in6 at6 = six("2001:db8::7", 5000);
  assert_int_equal(mcg_redirected_destination(a, &to, &err), 0);
  assert_memory_equal(&to, &at, 8);
  assert_int_equal(mcg_redirected_destination(b, &to, &err), 0);
  assert_memory_equal(&((struct sockaddr_in6 *)(void *)&to)->sin6_addr, &at6.sin6_addr, 16);
  assert_int_equal(((struct sockaddr_in6 *)(void *)&to)->sin6_port, at6.sin6_port);
  assert_int_equal(write(a, "A", 1), 1);
  assert_int_equal(write(b, "B", 1), 1);
  close(a);
  close(b);
  await(&c, NULL);
  assert_string_equal(c.out, "('93.184.216.34', 40000) b'A' ('2001:db8::7', 5000) b'B'\n");
  mcg_channel_release(c.channel);
  /* Loopback is the sandbox's own; UDP is refused as ever. */
  assert_says(w,
              TRY "attempt(lambda: socket.create_connection(('127.0.0.1', 443)))\n"
                  "attempt(lambda: socket.create_connection(('127.9.9.9', 443)))\n"
                  "attempt(lambda: socket.create_connection(('::1', 443)))\n"
                  "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                  "u.connect(('8.8.8.8', 53)); u.send(b'x'); attempt(lambda: u.recv(1))\n",
              "ECONNREFUSED\nECONNREFUSED\nECONNREFUSED\nECONNREFUSED\n");
  close_world(w);
}

static void test_redirected(void **state)
{
  (void)state;
  on_fiber(redirected);
}

/* A connection that nobody redirected has no other destination to tell. */
static void test_not_redirected(void **state)
{
  (void)state;
  mcg_error *err = NULL;
  struct sockaddr_storage to;
  auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(mcg_redirected_destination(fd, &to, &err), -1);
  mcg_error_free(err);
}

/* ---- a kernel that lacks something ------------------------------------------------------------------ */

static int lacking_family, lacking_protocol; /* of socket(2) */

/* For this process and those it starts, the sandbox's builder among them. */
static void take_away(void)
{
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)lacking_family, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)lacking_protocol, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
  assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void assert_refused(world *w, bool redirect, const char *message, const char *fix)
{
  const mcg_spawn_spec spec = {
      .kind = MCG_KIND_JAIL, .disk = 16 << 20, .network = MCG_NET_GATEWAY, .redirect = redirect};
  mcg_error *err = NULL;
  int fd;
  assert_int_equal(mcg_spawner_create(w->engine, NULL, &spec, &w->jailed, &fd, &err), 0);
  assert_int_equal(
      mcg_stream_open(w->engine, fd, MCG_CARRIER_DIRECT, NULL, NULL, NULL, &w->stream, &err), -1);
  if (!strstr(err->message, message) || !strstr(err->fix, fix))
    fail_msg("\"%s\" (%s)", err->message, err->fix);
  assert_int_equal(code_of(&err), MCG_UNENFORCEABLE);
  assert_int_equal(mcg_spawner_destroy(w->jailed, NULL, &err), 0);
}

/* Twice: where networks are made ahead the first was made otherwise. */
static void no_nftables(world *w)
{
  for (int i = 0; i < 4; i++) assert_refused(w, true, "nftables", "modprobe nf_tables");
  open_gateway(w, false); /* which needs none */
  close_world(w);
}

static void no_packets(world *w)
{
  for (int i = 0; i < 4; i++)
    assert_refused(w, false, "watch for refused connections", "modprobe af_packet");
}

static void in_a_lesser_kernel(int family, int protocol, void (*test)(world *w))
{
  int status;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    lacking_family = family;
    lacking_protocol = protocol;
    take_away();
    on_fiber(test);
    _exit(0);
  }
  waitpid(pid, &status, 0);
  assert_int_equal(status, 0);
}

static void test_no_nftables(void **state)
{
  (void)state;
  in_a_lesser_kernel(AF_NETLINK, NETLINK_NETFILTER, no_nftables);
}

static void test_no_packet_sockets(void **state)
{
  (void)state;
  in_a_lesser_kernel(AF_PACKET, 0, no_packets);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_attacks),
      cmocka_unit_test(test_no_nftables),
      cmocka_unit_test(test_no_packet_sockets),
      cmocka_unit_test(test_gateway_sockets),
      cmocka_unit_test(test_none_without_a_gateway),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_meets_nobody),
      cmocka_unit_test(test_listens),
      cmocka_unit_test(test_port_is_taken),
      cmocka_unit_test(test_connects),
      cmocka_unit_test(test_not_over_a_framed_stream),
      cmocka_unit_test(test_no_gateway_over_a_framed_stream),
      cmocka_unit_test(test_redirected),
      cmocka_unit_test(test_not_redirected),
  };
  int failed = cmocka_run_group_tests_name("as this user", tests, NULL, NULL), status = 0;
  if (getuid() != 0) return failed;
  pid_t pid = fork();
  if (pid == 0) {
    if (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0) _exit(97);
    exit(cmocka_run_group_tests_name("as uid 65534", tests, NULL, NULL));
  }
  waitpid(pid, &status, 0);
  return failed ? failed : status;
}
