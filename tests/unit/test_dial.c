/* Names to addresses, and addresses to a connection: dial.c and resolve.c on fibers. */
#include "turning.h"
#include "egress/dial.h"
#include "egress/resolve.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdatomic.h>

static mcg_engine *engine;

static int up(void **state)
{
  (void)state;
  engine = engine_with(NULL);
  return 0;
}

static int down(void **state)
{
  (void)state;
  engine_end(engine);
  return 0;
}

static mcg_address address(const char *text)
{
  mcg_address out;
  assert_true(mcg_address_parse(text, strlen(text), &out));
  return out;
}

static int listen_on_loopback(uint16_t *port, int backlog)
{
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
  if (backlog >= 0) assert_int_equal(listen(fd, backlog), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
  *port = ntohs(at.sin_port);
  return fd;
}

typedef struct call {
  const mcg_address *list;
  size_t count, which;
  uint16_t port;
  int64_t timeout_ms;
  int fd, rc;
  mcg_error *error;
  bool done;
} call;

static void dials(void *arg)
{
  call *self = arg;
  self->fd = -1;
  self->rc = mcg_dial(engine, self->list, self->count, self->port, self->timeout_ms, &self->fd,
                      &self->which, &self->error);
  self->done = true;
}

static void dial(call *self)
{
  assert_int_equal(mcg_fiber_start(engine, dials, self, NULL, NULL), 0);
  turn_until(engine, &self->done);
}

static void the_first_that_answers_is_taken(void **state)
{
  (void)state;
  uint16_t port;
  int listener = listen_on_loopback(&port, 8);
  /* Nobody listens on the second address of loopback, nor (there) on IPv6. */
  const mcg_address list[] = {address("127.0.0.2"), address("::1"), address("127.0.0.1")};
  call self = {.list = list, .count = 3, .port = port, .timeout_ms = 10000};
  dial(&self);
  assert_int_equal(self.rc, 0);
  assert_int_equal(self.which, 2);
  struct sockaddr_in peer;
  socklen_t len = sizeof peer;
  assert_int_equal(getpeername(self.fd, (struct sockaddr *)&peer, &len), 0);
  assert_int_equal(ntohs(peer.sin_port), port);
  close(self.fd);
  close(listener);
}

/* The kernel knows the answer when it is asked. A fiber that is canceled may not wait: this one need not. */
static void who_is_on_this_machine_is_reached_at_once(void **state)
{
  (void)state;
  uint16_t port;
  int listener = listen_on_loopback(&port, 8);
  const mcg_address list[] = {address("127.0.0.1")};
  call self = {.list = list, .count = 1, .port = port, .timeout_ms = 10000};
  mcg_fiber *fiber;
  assert_int_equal(mcg_fiber_start(engine, dials, &self, &fiber, NULL), 0);
  mcg_fiber_cancel(fiber);
  turn_until(engine, &self.done);
  assert_int_equal(self.rc, 0);
  close(self.fd);
  close(listener);
}

static void none_that_answers_says_what_the_first_said(void **state)
{
  (void)state;
  uint16_t port;
  int bound = listen_on_loopback(&port, -1);
  const mcg_address list[] = {address("127.0.0.1"), address("::1")};
  call self = {.list = list, .count = 2, .port = port, .timeout_ms = 10000};
  dial(&self);
  assert_int_equal(self.rc, -1);
  char want[128];
  snprintf(want, sizeof want, "connect to 127.0.0.1:%u: Connection refused", port);
  assert_string_equal(self.error->message, want);
  assert_int_equal(code_of(&self.error), MCG_UNAVAILABLE);
  close(bound);
}

/* A listener whose queue is full answers no more. */
static int one_that_hangs(uint16_t *port, int fillers[8])
{
  int listener = listen_on_loopback(port, 0);
  for (size_t i = 0; i < 8; i++) {
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(*port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    (void)!connect(fillers[i], (struct sockaddr *)&to, sizeof to);
  }
  return listener;
}

static void one_that_hangs_ends_in_time(void **state)
{
  (void)state;
  uint16_t port;
  int fillers[8], listener = one_that_hangs(&port, fillers);
  const mcg_address list[] = {address("127.0.0.1")};
  call self = {.list = list, .count = 1, .port = port, .timeout_ms = 100};
  dial(&self);
  assert_int_equal(self.rc, -1);
  assert_non_null(strstr(self.error->message, "timed out"));
  mcg_error_free(self.error);
  for (size_t i = 0; i < 8; i++) close(fillers[i]);
  close(listener);
}

static void one_that_is_canceled_leaves_nothing(void **state)
{
  (void)state;
  uint16_t port;
  int fillers[8], listener = one_that_hangs(&port, fillers);
  const mcg_address list[] = {address("127.0.0.1")};
  call self = {.list = list, .count = 1, .port = port, .timeout_ms = 60000};
  mcg_fiber *fiber;
  assert_int_equal(mcg_fiber_start(engine, dials, &self, &fiber, NULL), 0);
  for (int i = 0; i < 3; i++) mcg_engine_turn(engine);
  mcg_fiber_cancel(fiber);
  turn_until(engine, &self.done);
  assert_int_equal(self.rc, -1);
  assert_int_equal(code_of(&self.error), MCG_CANCELED);
  for (size_t i = 0; i < 8; i++) close(fillers[i]);
  close(listener);
}

/* ---- names -------------------------------------------------------------------------------- */

static atomic_int asked;
static atomic_bool go;

static void answers(const char *name, mcg_resolved *out)
{
  atomic_fetch_add(&asked, 1);
  if (strcmp(name, "slow.test") == 0)
    while (!atomic_load(&go)) usleep(1000);
  if (strcmp(name, "none.test") == 0) {
    out->status = MCG_RESOLVE_NO_NAME;
    return;
  }
  out->count = 1;
  out->list[0] = address("11.0.0.1");
}

typedef struct question {
  mcg_resolver *resolver;
  const char *name;
  mcg_resolved got;
  int rc;
  mcg_error *error;
  bool done;
} question;

static void resolves(void *arg)
{
  question *self = arg;
  self->rc = mcg_resolve(self->resolver, self->name, &self->got, &self->error);
  self->done = true;
}

static void start(question *self)
{
  assert_int_equal(mcg_fiber_start(engine, resolves, self, NULL, NULL), 0);
}

static void those_who_want_the_same_name_wait_for_one_look_up(void **state)
{
  (void)state;
  mcg_resolver *resolver;
  assert_int_equal(mcg_resolver_new(engine, &resolver, NULL), 0);
  mcg_resolver_ask_by(resolver, answers);
  atomic_store(&asked, 0);
  atomic_store(&go, false);
  static question all[8];
  for (size_t i = 0; i < 8; i++) {
    all[i] = (question){.resolver = resolver, .name = "slow.test"};
    start(&all[i]);
  }
  for (int i = 0; i < 3; i++) mcg_engine_turn(engine);
  atomic_store(&go, true);
  for (size_t i = 0; i < 8; i++) turn_until(engine, &all[i].done);
  assert_int_equal(atomic_load(&asked), 1);
  for (size_t i = 0; i < 8; i++) {
    assert_int_equal(all[i].rc, 0);
    assert_int_equal(all[i].got.count, 1);
  }
  static question none;
  none = (question){.resolver = resolver, .name = "none.test"};
  start(&none);
  turn_until(engine, &none.done);
  assert_int_equal(none.got.status, MCG_RESOLVE_NO_NAME);
  mcg_resolver_free(resolver);
}

/* The resolver goes while a thread still asks: neither waits for the other. */
static void a_resolver_that_goes_leaves_its_threads_alone(void **state)
{
  (void)state;
  mcg_resolver *resolver;
  assert_int_equal(mcg_resolver_new(engine, &resolver, NULL), 0);
  mcg_resolver_ask_by(resolver, answers);
  atomic_store(&go, false);
  static question one;
  one = (question){.resolver = resolver, .name = "slow.test"};
  mcg_fiber *fiber;
  assert_int_equal(mcg_fiber_start(engine, resolves, &one, &fiber, NULL), 0);
  for (int i = 0; i < 3; i++) mcg_engine_turn(engine);
  mcg_fiber_cancel(fiber);
  turn_until(engine, &one.done);
  assert_int_equal(code_of(&one.error), MCG_CANCELED);
  mcg_resolver_free(resolver);
  atomic_store(&go, true);
}

static void more_look_ups_than_that_are_refused(void **state)
{
  (void)state;
  mcg_resolver *resolver;
  assert_int_equal(mcg_resolver_new(engine, &resolver, NULL), 0);
  atomic_store(&go, false);
  mcg_resolver_ask_by(resolver, answers);
  static question all[34];
  static char names[34][16];
  size_t refused = 0;
  for (size_t i = 0; i < 34; i++) {
    snprintf(names[i], sizeof names[i], "slow.test");
    if (i) snprintf(names[i], sizeof names[i], "n%zu.test", i);
    all[i] = (question){.resolver = resolver, .name = names[i]};
  }
  for (size_t i = 0; i < 34; i++) start(&all[i]);
  atomic_store(&go, true);
  for (size_t i = 0; i < 34; i++) {
    turn_until(engine, &all[i].done);
    if (all[i].rc == 0) continue;
    assert_int_equal(code_of(&all[i].error), MCG_QUOTA);
    refused++;
  }
  assert_int_equal(refused, 2);
  mcg_resolver_free(resolver);
}

static size_t open_descriptors(void)
{
  size_t count = 0;
  DIR *dir = opendir("/proc/self/fd");
  assert_non_null(dir);
  while (readdir(dir)) count++;
  closedir(dir);
  return count;
}

/* A sandbox may ask for as many names as there are, each of them another. */
static void answers_that_are_kept_hold_no_descriptor(void **state)
{
  (void)state;
  mcg_resolver *resolver;
  assert_int_equal(mcg_resolver_new(engine, &resolver, NULL), 0);
  mcg_resolver_ask_by(resolver, answers);
  static question one;
  char name[24];
  size_t before = 0, after = 0;
  for (int i = 0; i < 300; i++) {
    snprintf(name, sizeof name, "n%d.test", i);
    one = (question){.resolver = resolver, .name = name};
    start(&one);
    turn_until(engine, &one.done);
    assert_int_equal(one.got.status, MCG_RESOLVED);
    if (i == 0) before = open_descriptors();
  }
  for (int i = 0; i < 5000 && (after = open_descriptors()) > before; i++) { /* threads that end */
    usleep(1000);
    uv_run(engine->loop, UV_RUN_NOWAIT);
  }
  assert_true(after <= before);
  mcg_resolver_free(resolver);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_first_that_answers_is_taken, up, down),
      cmocka_unit_test_setup_teardown(who_is_on_this_machine_is_reached_at_once, up, down),
      cmocka_unit_test_setup_teardown(none_that_answers_says_what_the_first_said, up, down),
      cmocka_unit_test_setup_teardown(one_that_hangs_ends_in_time, up, down),
      cmocka_unit_test_setup_teardown(one_that_is_canceled_leaves_nothing, up, down),
      cmocka_unit_test_setup_teardown(those_who_want_the_same_name_wait_for_one_look_up, up, down),
      cmocka_unit_test_setup_teardown(a_resolver_that_goes_leaves_its_threads_alone, up, down),
      cmocka_unit_test_setup_teardown(more_look_ups_than_that_are_refused, up, down),
      cmocka_unit_test_setup_teardown(answers_that_are_kept_hold_no_descriptor, up, down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
