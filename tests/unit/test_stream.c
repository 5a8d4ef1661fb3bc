/* Streams against an init that lies: whatever it sends, the session ends with `protocol`, every channel
 * hears of it once, no descriptor stays open, and the engine goes on. */
#include "fake_init.h"
#include <errno.h>
#include <sys/resource.h>

static const mcg_carrier carriers[] = {MCG_CARRIER_DIRECT, MCG_CARRIER_FRAMED};
#define EACH_CARRIER(c)                                                                            \
  for (size_t c##_i = 0, c = 0; c##_i < 2 && ((c = carriers[c##_i]), 1); c##_i++)

static void expect_lost(fake *self, mcg_code code)
{
  for (int turns = 0; turns < 500 && !self->losses; turns++) turn_for(1);
  assert_int_equal(self->losses, 1);
  if (self->lost->code != code)
    fail_msg("%s: %s", mcg_code_name(self->lost->code), self->lost->message);
}

/* ---- opening ------------------------------------------------------------------------------ */

static void greets(void **state)
{
  (void)state;
  EACH_CARRIER(carrier)
  {
    fake self;
    fake_up(&self, (mcg_carrier)carrier);
    assert_int_equal(self.mechanisms, 1);
    assert_int_equal(self.losses, 0);
    fake_down(&self);
  }
}

static void refuses_other_versions(void **state)
{
  (void)state;
  EACH_CARRIER(carrier)
  {
    fake self;
    fake_begin(&self, (mcg_carrier)carrier);
    fake_hello(&self, MCG_PROTOCOL_VERSION + 1);
    until(&self.opening);
    assert_int_equal(self.opening.error->code, MCG_PROTOCOL);
    fake_down(&self);
  }
}

static void tells_why_setup_failed(void **state)
{
  (void)state;
  EACH_CARRIER(carrier)
  {
    fake self;
    mcg_wire body;
    fake_begin(&self, (mcg_carrier)carrier);
    mcg_wire_init(&body);
    mcg_wire_put_str(&body, MCG_TAG_STEP, "userns");
    mcg_wire_put_u64(&body, MCG_TAG_ERRNO, EPERM);
    fake_say(&self, MCG_F_FAILED, 0, &body, NULL, 0);
    mcg_wire_fini(&body);
    until(&self.opening);
    assert_int_equal(self.opening.error->code, MCG_UNENFORCEABLE);
    assert_non_null(strstr(self.opening.error->fix, "AppArmor"));
    fake_down(&self);
  }
}

static void notices_the_end(void **state)
{
  (void)state;
  EACH_CARRIER(carrier)
  {
    fake self;
    fake_begin(&self, (mcg_carrier)carrier);
    shutdown(self.fd, SHUT_RDWR);
    until(&self.opening);
    assert_int_equal(self.opening.error->code, MCG_UNAVAILABLE);
    fake_down(&self);
    told data;
    fake_up(&self, (mcg_carrier)carrier);
    mcg_channel *channel = fake_exec(&self, 0, &data);
    shutdown(self.fd, SHUT_RDWR);
    expect_lost(&self, MCG_UNAVAILABLE);
    assert_int_equal(data.lost, 1);
    mcg_error *err = NULL;
    assert_int_equal(mcg_channel_write(channel, "x", 1, NULL, NULL, &err), -1);
    mcg_error_free(err);
    mcg_channel_release(channel);
    fake_down(&self);
  }
}

/* ---- lies --------------------------------------------------------------------------------- */

typedef struct lie {
  const char *name;
  void (*tell)(fake *self);
  int carrier; /* -1: both */
} lie;

static void say_plain(fake *self, mcg_frame_type type, uint32_t channel)
{
  fake_say(self, type, channel, NULL, NULL, 0);
}

static void start_with(fake *self, const int *fds, size_t count)
{
  fake_say(self, MCG_F_STARTED, 1, NULL, fds, count);
}

static void start_well(fake *self)
{
  int pipes[3][2], ends[3];
  if (self->carrier == MCG_CARRIER_FRAMED) {
    say_plain(self, MCG_F_STARTED, 1);
    return;
  }
  for (int i = 0; i < 3; i++) {
    assert_int_equal(pipe2(pipes[i], O_CLOEXEC), 0);
    ends[i] = pipes[i][i == 0];
  }
  start_with(self, ends, 3);
  for (int i = 0; i < 3; i++) {
    close(pipes[i][0]);
    close(pipes[i][1]);
  }
}

static void noise(fake *self)
{
  uint8_t bytes[200];
  memset(bytes, 0xa5, sizeof bytes);
  fake_raw(self, bytes, sizeof bytes, NULL, 0);
}
static void short_packet(fake *self)
{
  fake_raw(self, "abc", 3, NULL, 0);
}
static void long_length(fake *self)
{
  mcg_frame frame = {.length = MCG_FRAME_MAX + 1, .type = MCG_F_PING, .sequence = ++self->sent};
  uint8_t bytes[MCG_FRAME_HEADER];
  mcg_frame_encode(&frame, bytes);
  fake_raw(self, bytes, sizeof bytes, NULL, 0);
}
static void wrong_length(fake *self)
{
  mcg_frame frame = {.length = 5, .type = MCG_F_PING, .sequence = ++self->sent};
  uint8_t bytes[MCG_FRAME_HEADER + 3] = {0};
  mcg_frame_encode(&frame, bytes);
  fake_raw(self, bytes, sizeof bytes, NULL, 0);
}
static void repeated_sequence(fake *self)
{
  say_plain(self, MCG_F_PING, 0);
  self->sent--;
  say_plain(self, MCG_F_PING, 0);
}
static void skipped_sequence(fake *self)
{
  self->sent++;
  say_plain(self, MCG_F_PING, 0);
}
static void second_hello(fake *self)
{
  fake_hello(self, MCG_PROTOCOL_VERSION);
}
static void unknown_command(fake *self)
{
  say_plain(self, MCG_F_EXIT, 77);
}
static void engines_own_words(fake *self)
{
  say_plain(self, MCG_F_EXEC, 1);
}
static void exit_before_start(fake *self)
{
  say_plain(self, MCG_F_EXIT, 1);
}
static void gone_before_exit(fake *self)
{
  start_well(self);
  say_plain(self, MCG_F_GONE, 1);
}
static void two_starts(fake *self)
{
  start_well(self);
  start_well(self);
}
static void two_exits(fake *self)
{
  start_well(self);
  say_plain(self, MCG_F_EXIT, 1);
  say_plain(self, MCG_F_EXIT, 1);
}
static void error_after_start(fake *self)
{
  start_well(self);
  say_plain(self, MCG_F_ERROR, 1);
}
static void broken_fields(fake *self)
{
  uint8_t body[12] = {1, 0, 0, 0, 255, 255, 255, 255, 1, 2, 3, 4};
  fake_frame(self, (mcg_frame){.length = sizeof body, .type = MCG_F_ERROR, .channel = 1}, body,
             NULL);
}
static void endless_message(fake *self)
{
  uint8_t *body = calloc(1, MCG_FRAME_MAX);
  for (int i = 0; i < 40; i++) {
    fake_frame(
        self,
        (mcg_frame){
            .length = MCG_FRAME_MAX, .type = MCG_F_ERROR, .channel = 1, .flags = MCG_FRAME_MORE},
        body, NULL);
    turn_for(1);
  }
  free(body);
}
static void mixed_messages(fake *self)
{
  fake_frame(self,
             (mcg_frame){.length = 1, .type = MCG_F_ERROR, .channel = 1, .flags = MCG_FRAME_MORE},
             "x", NULL);
  fake_frame(self, (mcg_frame){.length = 1, .type = MCG_F_EXIT, .channel = 1}, "x", NULL);
}
static void no_descriptors(fake *self)
{
  start_with(self, NULL, 0);
}
static void many_descriptors(fake *self)
{
  int fds[8] = {0};
  uint8_t bytes[MCG_FRAME_HEADER];
  mcg_frame frame = {.type = MCG_F_STARTED, .channel = 1, .fds = 3, .sequence = ++self->sent};
  mcg_frame_encode(&frame, bytes);
  fake_raw(self, bytes, sizeof bytes, fds, 8);
}
static void fewer_than_said(fake *self)
{
  int fds[2] = {0, 0};
  uint8_t bytes[MCG_FRAME_HEADER];
  mcg_frame frame = {.type = MCG_F_STARTED, .channel = 1, .fds = 3, .sequence = ++self->sent};
  mcg_frame_encode(&frame, bytes);
  fake_raw(self, bytes, sizeof bytes, fds, 2);
}
static void a_device(fake *self)
{
  int fd = open("/dev/zero", O_RDWR | O_CLOEXEC), fds[3] = {fd, fd, fd};
  start_with(self, fds, 3);
  close(fd);
}
static void a_socket(fake *self)
{
  int fds[3] = {self->fd, self->fd, self->fd};
  start_with(self, fds, 3);
}
static void descriptors_with_ping(fake *self)
{
  int fds[1] = {0};
  fake_say(self, MCG_F_PING, 0, NULL, fds, 1);
}
static void data_beside_pipes(fake *self)
{
  start_well(self);
  fake_frame(self, (mcg_frame){.length = 1, .type = MCG_F_DATA, .stream = 1, .channel = 1}, "x",
             NULL);
}
static void more_than_the_window(fake *self)
{
  uint8_t *body = calloc(1, MCG_FRAME_MAX);
  start_well(self);
  for (int i = 0; i < 5; i++) { /* one frame more than 256 KiB, into a receiver that pauses */
    fake_frame(self,
               (mcg_frame){.length = MCG_FRAME_MAX, .type = MCG_F_DATA, .stream = 1, .channel = 1},
               body, NULL);
    turn_for(1);
  }
  free(body);
}
static void data_after_its_end(fake *self)
{
  start_well(self);
  fake_frame(self, (mcg_frame){.type = MCG_F_EOF, .stream = 1, .channel = 1}, NULL, NULL);
  fake_frame(self, (mcg_frame){.length = 1, .type = MCG_F_DATA, .stream = 1, .channel = 1}, "x",
             NULL);
}
static void data_before_start(fake *self)
{
  fake_frame(self, (mcg_frame){.length = 1, .type = MCG_F_DATA, .stream = 1, .channel = 1}, "x",
             NULL);
}
static void input_for_the_engine(fake *self)
{
  start_well(self);
  fake_frame(self, (mcg_frame){.length = 1, .type = MCG_F_DATA, .stream = 0, .channel = 1}, "x",
             NULL);
}
static void credit_for_nothing(fake *self)
{
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_u64(&body, MCG_TAG_BYTES, 1);
  start_well(self);
  fake_say(self, MCG_F_CREDIT, 1, &body, NULL, 0);
  mcg_wire_fini(&body);
}

static const lie lies[] = {
    {"noise", noise, -1},
    {"a short packet", short_packet, MCG_CARRIER_DIRECT},
    {"a length past the limit", long_length, -1},
    {"a length that is not the packet's", wrong_length, MCG_CARRIER_DIRECT},
    {"a sequence number twice", repeated_sequence, -1},
    {"a sequence number skipped", skipped_sequence, -1},
    {"a second hello", second_hello, -1},
    {"a command that is not there", unknown_command, -1},
    {"a word of the engine's", engines_own_words, -1},
    {"exit before start", exit_before_start, -1},
    {"gone before exit", gone_before_exit, -1},
    {"two starts", two_starts, -1},
    {"two exits", two_exits, -1},
    {"error after start", error_after_start, -1},
    {"broken fields", broken_fields, -1},
    {"a message without end", endless_message, -1},
    {"two messages mixed", mixed_messages, -1},
    {"no descriptors", no_descriptors, MCG_CARRIER_DIRECT},
    {"too many descriptors", many_descriptors, MCG_CARRIER_DIRECT},
    {"fewer descriptors than it says", fewer_than_said, MCG_CARRIER_DIRECT},
    {"a device for a pipe", a_device, MCG_CARRIER_DIRECT},
    {"a socket for a pipe", a_socket, MCG_CARRIER_DIRECT},
    {"descriptors with a ping", descriptors_with_ping, MCG_CARRIER_DIRECT},
    {"data beside pipes", data_beside_pipes, MCG_CARRIER_DIRECT},
    {"more data than the window", more_than_the_window, MCG_CARRIER_FRAMED},
    {"data after its end", data_after_its_end, MCG_CARRIER_FRAMED},
    {"data before start", data_before_start, MCG_CARRIER_FRAMED},
    {"input for the engine", input_for_the_engine, MCG_CARRIER_FRAMED},
    {"credit for nothing", credit_for_nothing, MCG_CARRIER_FRAMED},
};

static void ends_with_protocol(void **state)
{
  (void)state;
  EACH_CARRIER(carrier)
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    if (lies[i].carrier >= 0 && (size_t)lies[i].carrier != carrier) continue;
    fake self;
    told data;
    int before = open_descriptors();
    fake_up(&self, (mcg_carrier)carrier);
    mcg_channel *channel = fake_exec(&self, 0, &data);
    data.pause = true;
    lies[i].tell(&self);
    for (int turns = 0; turns < 500 && !self.losses; turns++) turn_for(1);
    if (self.losses != 1 || self.lost->code != MCG_PROTOCOL)
      fail_msg("%s: %d losses, %s", lies[i].name, self.losses,
               self.lost ? self.lost->message : "none");
    if (data.lost + data.refused != 1)
      fail_msg("%s: the command heard %d times", lies[i].name, data.lost + data.refused);
    mcg_channel_release(channel);
    fake_down(&self);
    if (open_descriptors() != before) fail_msg("%s: descriptors stay open", lies[i].name);
  }
}

/* ---- what is no lie ----------------------------------------------------------------------- */

static void takes_a_message_in_pieces(void **state)
{
  (void)state;
  EACH_CARRIER(carrier)
  {
    fake self;
    told data;
    mcg_wire body;
    fake_up(&self, (mcg_carrier)carrier);
    mcg_channel *channel = fake_exec(&self, 0, &data);
    mcg_wire_init(&body);
    mcg_wire_put_u64(&body, MCG_TAG_ERRNO, EAGAIN);
    for (size_t i = 0; i < body.len; i++)
      fake_frame(&self,
                 (mcg_frame){.length = 1,
                             .type = MCG_F_ERROR,
                             .channel = 1,
                             .flags = i + 1 < body.len ? MCG_FRAME_MORE : 0},
                 body.data + i, NULL);
    mcg_wire_fini(&body);
    for (int turns = 0; turns < 500 && !data.refused; turns++) turn_for(1);
    assert_int_equal(data.refused, 1);
    assert_int_equal(data.number, EAGAIN);
    assert_int_equal(self.losses, 0);
    mcg_channel_release(channel);
    fake_down(&self);
  }
}

/* Our own limit on descriptors is met in the middle of a message: that command fails, nothing else. */
static void survives_a_lack_of_descriptors(void **state)
{
  (void)state;
  fake self;
  told data, again;
  struct rlimit before, low;
  int filler[256], count = 0;
  if (getenv("MOONCAGE_VALGRIND")) {
    print_message("skip: valgrind keeps the limit of descriptors from the kernel\n");
    skip();
  }
  fake_up(&self, MCG_CARRIER_DIRECT);
  mcg_channel *channel = fake_exec(&self, 0, &data);
  start_well(&self);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  low = (struct rlimit){.rlim_cur = 128, .rlim_max = before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
  while (count < 256 && (filler[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) count++;
  close(filler[--count]);
  for (int turns = 0; turns < 500 && !data.refused && !self.losses; turns++)
    uv_run(mcg_engine_loop(engine), UV_RUN_NOWAIT);
  while (count) close(filler[--count]);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  assert_int_equal(self.losses, 0);
  assert_int_equal(data.refused, 1);
  assert_int_equal(data.number, EMFILE);
  mcg_channel_release(channel);
  channel = fake_exec(&self, MCG_EXEC_DETACH | MCG_EXEC_NO_STDIN, &again);
  say_plain(&self, MCG_F_STARTED, 2);
  for (int turns = 0; turns < 500 && !again.started; turns++) turn_for(1);
  assert_int_equal(again.started, 1);
  mcg_channel_release(channel);
  fake_down(&self);
}

static void refuses_a_command_too_many(void **state)
{
  (void)state;
  fake self;
  told data;
  struct rlimit before, low;
  mcg_error *err = NULL;
  mcg_channel *channels[256];
  int count = 0;
  fake_up(&self, MCG_CARRIER_DIRECT);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  low = (struct rlimit){.rlim_cur = 128, .rlim_max = before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_str(&body, MCG_TAG_ARG, "true");
  while (count < 256 &&
         mcg_channel_open(self.stream, &body, 0, &telling, &data, &channels[count], &err) == 0)
    count++;
  mcg_wire_fini(&body);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  assert_true(count > 8 && count < 128 / 3);
  assert_int_equal(err->code, MCG_QUOTA);
  assert_non_null(strstr(err->fix, "ulimit -n"));
  mcg_error_free(err);
  while (count) mcg_channel_release(channels[--count]);
  fake_down(&self);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(greets),
      cmocka_unit_test(refuses_other_versions),
      cmocka_unit_test(tells_why_setup_failed),
      cmocka_unit_test(notices_the_end),
      cmocka_unit_test(ends_with_protocol),
      cmocka_unit_test(takes_a_message_in_pieces),
      cmocka_unit_test(survives_a_lack_of_descriptors),
      cmocka_unit_test(refuses_a_command_too_many),
  };
  return cmocka_run_group_tests(tests, engine_up, engine_down);
}
