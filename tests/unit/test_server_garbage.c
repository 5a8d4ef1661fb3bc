/* Clients that do not follow the protocol: their connection ends, and with the first one init ends, with
 * everything it held. An attached one takes only its own commands along. */
#include "init_client.h"

typedef void (*sender)(client *c);

static void send_frame(client *c, mcg_frame frame, const void *payload, size_t len)
{
  uint8_t bytes[MCG_FRAME_HEADER + 256];
  mcg_frame_encode(&frame, bytes);
  if (len) memcpy(bytes + MCG_FRAME_HEADER, payload, len);
  client_send_raw(c, bytes, MCG_FRAME_HEADER + len, -1);
}

static mcg_frame plain(client *c, uint8_t type)
{
  return (mcg_frame){.type = type, .channel = 900, .sequence = ++c->sent};
}

static void noise(client *c)
{
  uint8_t bytes[200];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 37 + 5);
  client_send_raw(c, bytes, sizeof bytes, -1);
}
static void bad_sequence(client *c)
{
  mcg_frame frame = plain(c, MCG_F_PING);
  frame.sequence += 5;
  send_frame(c, frame, NULL, 0);
}
static void repeated_sequence(client *c)
{
  mcg_frame frame = plain(c, MCG_F_PING);
  frame.sequence--;
  send_frame(c, frame, NULL, 0);
}
static void unknown_type(client *c)
{
  send_frame(c, plain(c, MCG_F_LAST + 1), NULL, 0);
}
static void type_of_init(client *c)
{
  send_frame(c, plain(c, MCG_F_STARTED), NULL, 0);
}
static void second_hello(client *c)
{
  client_send_number(c, MCG_F_HELLO, 0, 0, MCG_TAG_VERSION, 1);
}
static void bad_stream(client *c)
{
  mcg_frame frame = plain(c, MCG_F_CLOSE);
  frame.stream = 3;
  send_frame(c, frame, NULL, 0);
}
static void unknown_flag(client *c)
{
  mcg_frame frame = plain(c, MCG_F_PING);
  frame.flags = 2;
  send_frame(c, frame, NULL, 0);
}
static void promised_descriptor(client *c)
{
  mcg_frame frame = plain(c, MCG_F_ATTACH);
  frame.fds = 1;
  send_frame(c, frame, NULL, 0);
}
static void too_long(client *c)
{
  mcg_frame frame = plain(c, MCG_F_PING);
  frame.length = MCG_FRAME_MAX + 1;
  send_frame(c, frame, NULL, 0);
}
static void ping_in_pieces(client *c)
{
  mcg_frame frame = plain(c, MCG_F_PING);
  frame.flags = MCG_FRAME_MORE;
  frame.length = 1;
  send_frame(c, frame, "x", 1);
}
static void broken_fields(client *c)
{
  mcg_frame frame = plain(c, MCG_F_EXEC);
  frame.length = 12;
  send_frame(c, frame,
             "\x07\0\0\0\xff\xff\xff\x7f"
             "abcd",
             12);
}
static void exec_on_channel_zero(client *c)
{
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_str(&body, MCG_TAG_ARG, "true");
  client_send(c, MCG_F_EXEC, 0, 0, &body);
  mcg_wire_fini(&body);
}
static void too_much_message(client *c)
{
  mcg_frame frame = plain(c, MCG_F_EXEC);
  static uint8_t bytes[MCG_FRAME_HEADER + MCG_FRAME_MAX];
  for (size_t i = 0; i < MCG_WIRE_MAX / MCG_FRAME_MAX + 2 && !c->ended; i++) {
    frame.flags = MCG_FRAME_MORE;
    frame.length = MCG_FRAME_MAX;
    if (i) frame.sequence = ++c->sent;
    mcg_frame_encode(&frame, bytes);
    client_send_raw(c, bytes, sizeof bytes, -1);
    client_turn(c, 0);
  }
}
static void endless_parts(client *c)
{
  static uint8_t bytes[MCG_FRAME_HEADER + MCG_FRAME_MAX];
  for (uint32_t i = 1; i < 200 && !c->ended; i++) {
    mcg_frame frame = {.type = MCG_F_EXEC,
                       .flags = MCG_FRAME_MORE,
                       .length = MCG_FRAME_MAX,
                       .channel = i + 1000,
                       .sequence = ++c->sent};
    mcg_frame_encode(&frame, bytes);
    client_send_raw(c, bytes, sizeof bytes, -1);
    client_turn(c, 0);
  }
}
static void bad_signal(client *c)
{
  client_send_number(c, MCG_F_SIGNAL, c->jobs[0].channel, 0, MCG_TAG_SIGNO, 99);
}
static void used_channel(client *c)
{
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_str(&body, MCG_TAG_ARG, "true");
  client_send(c, MCG_F_EXEC, c->jobs[0].channel, 0, &body);
  mcg_wire_fini(&body);
}
static void data_on_direct(client *c)
{
  client_send_fd(c, MCG_F_DATA, c->jobs[0].channel, 0, "x", 1, -1);
}
static void data_without_credit(client *c)
{
  char *bytes = calloc(1, MCG_FRAME_MAX);
  for (int i = 0; i < 10; i++)
    client_send_fd(c, MCG_F_DATA, c->jobs[0].channel, 0, bytes, MCG_FRAME_MAX, -1);
  free(bytes);
}
static void data_after_eof(client *c)
{
  client_send(c, MCG_F_EOF, c->jobs[0].channel, 0, NULL);
  client_send_fd(c, MCG_F_DATA, c->jobs[0].channel, 0, "x", 1, -1);
}
static void credit_overflow(client *c)
{
  client_send_number(c, MCG_F_CREDIT, c->jobs[0].channel, 1, MCG_TAG_BYTES, UINT64_MAX);
}

typedef struct attack {
  const char *name;
  sender send;
  int carriers; /* bits: 1 direct, 2 framed */
} attack;

static const attack attacks[] = {
    {"noise", noise, 3},
    {"bad sequence", bad_sequence, 3},
    {"repeated sequence", repeated_sequence, 3},
    {"unknown type", unknown_type, 3},
    {"type of init", type_of_init, 3},
    {"second hello", second_hello, 3},
    {"bad stream", bad_stream, 3},
    {"unknown flag", unknown_flag, 3},
    {"promised descriptor", promised_descriptor, 3},
    {"too long", too_long, 3},
    {"ping in pieces", ping_in_pieces, 3},
    {"broken fields", broken_fields, 3},
    {"exec on channel 0", exec_on_channel_zero, 3},
    {"too much message", too_much_message, 3},
    {"endless parts", endless_parts, 3},
    {"bad signal", bad_signal, 3},
    {"used channel", used_channel, 3},
    {"data on direct", data_on_direct, 1},
    {"data without credit", data_without_credit, 2},
    {"data after eof", data_after_eof, 2},
    {"credit overflow", credit_overflow, 2},
};

/* Every attack, with a command running: init ends by itself, and the command with it. */
static void attack_all(int carrier)
{
  for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
    if (!(attacks[i].carriers & (1 << carrier))) continue;
    client *c = client_start_with(carrier, "/tmp");
    job *j = job_start(c, 0, "sleep", "600", NULL);
    client_until(c, j->started);
    int pid = j->pid;
    attacks[i].send(c);
    uint64_t end = now_ms() + WAIT_MS;
    while (!c->ended) {
      if (now_ms() > end) fail_msg("%s was taken for sense", attacks[i].name);
      client_turn(c, 100);
    }
    assert_int_equal(client_stop(c), 0);
    assert_int_equal(kill(pid, 0), -1);
  }
}

static void test_direct(void **state)
{
  (void)state;
  attack_all(0);
}
static void test_framed(void **state)
{
  (void)state;
  attack_all(1);
}

static void test_nothing_before_hello(void **state)
{
  (void)state;
  for (int carrier = 0; carrier < 2; carrier++) {
    client *c = client_start_with(carrier, "/tmp");
    client other = {.carrier = 0, .fd = -1};
    int pair[2];
    if (carrier == 0) {
      assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
      client_send_fd(c, MCG_F_ATTACH, 0, 0, NULL, 0, pair[1]);
      close(pair[1]);
      other.fd = pair[0];
      client_send_fd(&other, MCG_F_PING, 0, 0, "x", 1, -1);
      client_until(&other, other.ended);
      assert_int_equal(other.pongs, 0);
      close(pair[0]);
    }
    job *j = job_start(c, 0, "echo", "fine", NULL); /* the first connection does not mind */
    job_finish(c, j);
    assert_string_equal(j->data[1], "fine\n");
    assert_int_equal(client_stop(c), 0);
  }
}

static void test_other_version(void **state)
{
  (void)state;
  client *c = client_start_with(0, "/tmp");
  client other = {.carrier = 0};
  int pair[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  client_send_fd(c, MCG_F_ATTACH, 0, 0, NULL, 0, pair[1]);
  close(pair[1]);
  other.fd = pair[0];
  client_send_number(&other, MCG_F_HELLO, 0, 0, MCG_TAG_VERSION, 2);
  client_until(&other, other.ended);
  assert_string_equal(other.failed, "version");
  close(pair[0]);
  assert_int_equal(client_stop(c), 0);
}

static void test_attach_what_is_no_packet_socket(void **state)
{
  (void)state;
  client *c = client_start_with(0, "/tmp");
  int pair[2];
  assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
  client_send_fd(c, MCG_F_ATTACH, 0, 0, NULL, 0, pair[0]);
  client_until(c, c->ended);
  close(pair[0]);
  close(pair[1]);
  assert_int_equal(client_stop(c), 0);
}

static void test_silent_peer(void **state)
{
  (void)state;
  client *c = client_start_with(0, "/tmp");
  for (int i = 0; i < 100000 && !c->ended; i++) { /* asks and never listens: is not listened to */
    mcg_frame frame = {.type = MCG_F_PING, .length = 100, .sequence = c->sent + 1};
    uint8_t bytes[MCG_FRAME_HEADER + 100] = {0};
    mcg_frame_encode(&frame, bytes);
    if (send(c->fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) break;
    c->sent++;
  }
  uint64_t asked = c->sent - 1; /* HELLO */
  assert_true(asked < 100000);
  client_until(c, c->pongs == asked);
  assert_int_equal(client_stop(c), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_direct),
      cmocka_unit_test(test_framed),
      cmocka_unit_test(test_nothing_before_hello),
      cmocka_unit_test(test_other_version),
      cmocka_unit_test(test_attach_what_is_no_packet_socket),
      cmocka_unit_test(test_silent_peer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
