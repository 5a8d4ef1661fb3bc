/* An init that says things at random to the engine, over both carriers.
 *
 * The input is a row of choices. A round is a stream with a few commands, to which frames are sent that
 * are right, nearly right or noise, in an order that often makes sense, while the engine's side writes,
 * drains, kills, pauses and releases. Nothing may crash, leak a descriptor, or tell a command more than
 * one end. */
#include "fuzz.h"
#include "fake_init.h"

#define COMMANDS 4
#define STEPS 60

static const uint8_t *choices;
static size_t choices_left;

/* When there are no more choices, it is the first of what there is. */
static uint32_t pick(uint32_t below)
{
  uint32_t choice = 0;
  if (choices_left > 0) {
    choice = *choices++;
    choices_left--;
  }
  return choice % below;
}

typedef struct round {
  fake peer;
  told heard[COMMANDS];
  mcg_channel *channels[COMMANDS];
  uint32_t flags[COMMANDS];
} round_state;

static void random_fields(mcg_wire *body)
{
  static const uint16_t tags[] = {
      MCG_TAG_PID,       MCG_TAG_ERRNO, MCG_TAG_CODE, MCG_TAG_SIGNO, MCG_TAG_CPU_US,
      MCG_TAG_MAXRSS_KB, MCG_TAG_BYTES, MCG_TAG_STEP, MCG_TAG_TEXT,  999};
  mcg_wire_init(body);
  for (uint32_t i = pick(4); i; i--) {
    uint8_t bytes[16];
    for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = (uint8_t)pick(256);
    mcg_wire_put(body, tags[pick(10)], bytes, pick(17));
  }
  if (body->len && !pick(6)) body->data[pick((uint32_t)body->len)] ^= (uint8_t)(1u << pick(8));
}

/* The right number of pipes for the command, now and then something else. */
static size_t some_descriptors(const round_state *r, uint32_t command, int fds[6])
{
  uint32_t flags = r->flags[command];
  size_t count = flags & MCG_EXEC_DETACH     ? 0
                 : flags & MCG_EXEC_PTY      ? 1
                 : flags & MCG_EXEC_NO_STDIN ? 2
                                             : 3;
  if (r->peer.carrier == MCG_CARRIER_FRAMED) count = 0;
  if (!pick(12)) count = pick(6);
  for (size_t i = 0; i < count; i++) {
    int ends[2];
    if (!pick(20) || (flags & MCG_EXEC_PTY && pick(8))) {
      fds[i] =
          open(flags & MCG_EXEC_PTY ? "/dev/ptmx" : "/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);
    } else {
      if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) abort();
      bool input = i == 0 && !(flags & MCG_EXEC_NO_STDIN);
      if (!input && pick(2)) (void)!write(ends[1], "some output", pick(12));
      fds[i] = ends[input];
      close(ends[!input]);
    }
  }
  return count;
}

static void say_something(round_state *r)
{
  static const uint8_t likely[] = {MCG_F_STARTED, MCG_F_STARTED, MCG_F_DATA, MCG_F_DATA,
                                   MCG_F_EOF,     MCG_F_EXIT,    MCG_F_GONE, MCG_F_ERROR,
                                   MCG_F_CREDIT,  MCG_F_PING,    MCG_F_PONG};
  uint32_t command = pick(COMMANDS);
  uint8_t type = pick(25) ? likely[pick(sizeof likely)] : (uint8_t)pick(24);
  int fds[6];
  size_t count = type == MCG_F_STARTED ? some_descriptors(r, command, fds) : 0;
  mcg_wire body;
  random_fields(&body);
  mcg_frame frame = {
      .length = (uint32_t)body.len, .type = type, .fds = (uint8_t)count, .channel = command + 1};
  if (type == MCG_F_DATA || type == MCG_F_EOF) frame.stream = (uint8_t)(pick(10) ? 1 + pick(2) : 0);
  if (type == MCG_F_PING || type == MCG_F_PONG) frame.channel = 0;
  if (!pick(30)) frame.flags = MCG_FRAME_MORE;
  if (!pick(40)) frame.channel = pick(10);
  if (!pick(60)) r->peer.sent += pick(3);
  if (!pick(60))
    fake_raw(&r->peer, body.data ? body.data : (const uint8_t *)"x", body.len ? body.len : 1, NULL,
             0);
  else
    fake_frame(&r->peer, frame, body.data, fds);
  for (size_t i = 0; i < count; i++) close(fds[i]);
  mcg_wire_fini(&body);
}

static void drained(void *data)
{
  (void)data;
}

static void do_something(round_state *r)
{
  uint32_t command = pick(COMMANDS);
  mcg_channel *channel = r->channels[command];
  mcg_error *err = NULL;
  if (!channel) return;
  switch (pick(9)) {
  case 0: mcg_channel_write(channel, "input", pick(6), NULL, NULL, &err); break;
  case 1: mcg_channel_close_stdin(channel); break;
  case 2: mcg_channel_kill(channel); break;
  case 3: mcg_channel_signal(channel, 15, &err); break;
  case 4: r->heard[command].pause = !r->heard[command].pause; break;
  case 5: mcg_channel_resume(channel, 1 + (int)pick(2)); break;
  case 6:
    if (r->heard[command].exited == 1) mcg_channel_drain(channel, drained, NULL);
    break;
  case 7: mcg_channel_resize(channel, 80, 24, &err); break;
  default:
    if (pick(4)) break;
    r->channels[command] = NULL;
    mcg_channel_release(channel);
  }
  mcg_error_free(err);
}

static void turn(void)
{
  uv_run(mcg_engine_loop(engine), UV_RUN_NOWAIT);
}

static void check(const round_state *r)
{
  for (int i = 0; i < COMMANDS; i++) {
    const told *heard = &r->heard[i];
    if (heard->started > 1 || heard->exited > 1 || heard->gone > 1 ||
        heard->refused + heard->lost > 1 || (heard->refused && heard->exited))
      abort();
  }
}

static void one_round(mcg_carrier carrier)
{
  static const uint32_t kinds[] = {0, MCG_EXEC_NO_STDIN, MCG_EXEC_PTY,
                                   MCG_EXEC_DETACH | MCG_EXEC_NO_STDIN};
  round_state r = {0};
  fake_up(&r.peer, carrier);
  for (int i = 0; i < COMMANDS; i++) {
    r.flags[i] = kinds[pick(4)];
    r.channels[i] = fake_exec(&r.peer, r.flags[i], &r.heard[i]);
  }
  for (int i = 0; i < STEPS && choices_left && !r.peer.losses; i++) {
    if (pick(3))
      say_something(&r);
    else
      do_something(&r);
    if (pick(2)) turn();
    check(&r);
  }
  for (int i = 0; i < 5; i++) turn();
  check(&r);
  bool early = pick(2);
  for (int i = 0; i < COMMANDS && early; i++) mcg_channel_release(r.channels[i]);
  fake_down(&r.peer);
  for (int i = 0; i < COMMANDS && !early; i++) mcg_channel_release(r.channels[i]);
  turn_for(0);
}

static void leave(void)
{
  void *state = NULL;
  engine_down(&state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  void *state = NULL;
  if (!engine) {
    engine_up(&state);
    turn_for(1);
    atexit(leave);
  }
  int before = open_descriptors();
  choices = data;
  choices_left = size;
  one_round(pick(2) ? MCG_CARRIER_FRAMED : MCG_CARRIER_DIRECT);
  turn_for(0);
  FUZZ_NEED(open_descriptors() == before);
  return 0;
}

/* Choices as good as any, a good many of them. */
size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
  uint64_t state = (index + 1) * 0x9e3779b97f4a7c15u;
  size_t len = 1200 < room ? 1200 : room;
  if (index >= 12) return 0;
  for (size_t i = 0; i < len; i++) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    out[i] = (uint8_t)(state >> 11);
  }
  out[0] = (uint8_t)index;
  return len;
}
