/* The files behind a quota: what is live, what is over, what an engine that was killed has left. */
#include "host.h"
#include "decide/ledger.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char state[] = "/tmp/mooncage-ledger-XXXXXX";
static char *directory;
static const mcg_quota ever = {.per = MCG_PER_EVER};

static int up(void **unused)
{
  static int number;
  char tenant[16];
  (void)unused;
  snprintf(tenant, sizeof tenant, "t%d", ++number);
  directory = mcg_ledger_open(tenant, NULL);
  assert_non_null(directory);
  return 0;
}

static int down(void **unused)
{
  (void)unused;
  free(directory);
  return 0;
}

static char *in(const char *name)
{
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return path;
}

static void put(const char *name, const char *text)
{
  FILE *file = fopen(in(name), "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static mcg_ledger_total sum(bool mend)
{
  mcg_ledger_total total;
  if (mcg_ledger_sum(directory, &ever, mend, &total) < 0) fail_msg("%s", strerror(errno));
  return total;
}

static bool close_to(double a, double b)
{
  return fabs(a - b) < 0.01;
}

static void one_at_a_time(void **unused)
{
  (void)unused;
  int first = mcg_ledger_lock(directory);
  assert_true(first >= 0);
  assert_int_equal(mcg_ledger_lock(directory), -1);
  assert_int_equal(errno, EWOULDBLOCK);
  close(first);
  int second = mcg_ledger_lock(directory);
  assert_true(second >= 0);
  close(second);
}

static void counts_what_is_live(void **unused)
{
  (void)unused;
  int a = mcg_ledger_enter(directory, "a"), b = mcg_ledger_enter(directory, "b");
  assert_true(a >= 0 && b >= 0);
  assert_int_equal(mcg_ledger_enter(directory, "a"), -1);
  assert_int_equal(mcg_ledger_write(a, 60), 0);
  assert_int_equal(sum(false).sessions, 2);
  assert_int_equal(mcg_ledger_leave(directory, "a", 3, 1.5), 0);
  close(a);
  mcg_ledger_total total = sum(true);
  assert_int_equal(total.sessions, 1);
  assert_true(close_to(total.usd, 3) && close_to(total.minutes, 1.5));
  assert_int_equal(mcg_ledger_leave(directory, "b", 0, 0), 0); /* it never ran */
  close(b);
  assert_true(close_to(sum(true).minutes, 1.5));
}

/* Whoever could not wait for the lock has said what it is to be charged. */
static void charges_what_was_left(void **unused)
{
  (void)unused;
  int record = mcg_ledger_enter(directory, "a");
  assert_int_equal(mcg_ledger_write(record, 60), 0);
  mcg_ledger_bequeath(record, 2, 4);
  assert_true(close_to(sum(true).usd, 0)); /* it is still held */
  close(record);
  assert_true(close_to(sum(false).usd, 0)); /* only with the lock is it charged */
  mcg_ledger_total total = sum(true);
  assert_true(close_to(total.usd, 2) && close_to(total.minutes, 4));
  assert_int_equal(total.sessions, 0);
  assert_int_equal(access(in("a"), F_OK), -1);
  assert_true(close_to(sum(true).usd, 2)); /* once */
}

/* Of one that was killed: from its beginning to its last touch. */
static void charges_who_was_killed(void **unused)
{
  (void)unused;
  int record = mcg_ledger_enter(directory, "a");
  assert_int_equal(mcg_ledger_write(record, 10), 0);
  close(record);
  const struct timespec touched[2] = {{.tv_sec = time(NULL) + 120}, {.tv_sec = time(NULL) + 120}};
  assert_int_equal(utimensat(AT_FDCWD, in("a"), touched, 0), 0);
  mcg_ledger_total total = sum(true);
  assert_true(fabs(total.minutes - 2) < 0.1 && fabs(total.usd - 20) < 1);
}

static void a_clock_that_went_back_costs_nothing(void **unused)
{
  (void)unused;
  int record = mcg_ledger_enter(directory, "a");
  assert_int_equal(mcg_ledger_write(record, 10), 0);
  close(record);
  const struct timespec before[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
  assert_int_equal(utimensat(AT_FDCWD, in("a"), before, 0), 0);
  assert_true(close_to(sum(true).minutes, 0));
}

static void rubbish(void **unused)
{
  (void)unused;
  mcg_ledger_total total;
  put("half", "{\"usd_per_min"); /* killed while it wrote */
  put("empty", "");
  assert_true(close_to(sum(true).minutes, 0));
  assert_int_equal(access(in("half"), F_OK), -1);
  assert_int_equal(access(in("empty"), F_OK), -1);
  put("spent", "[1]");
  assert_int_equal(mcg_ledger_sum(directory, &ever, true, &total), -1);
  put("spent", "{\"2020-01-01\":{\"usd\":\"much\",\"minutes\":2},\"x\":7}");
  assert_true(close_to(sum(true).minutes, 2));
}

static void periods(void **unused)
{
  (void)unused;
  char text[256], day[11];
  time_t now = time(NULL);
  strftime(day, sizeof day, "%Y-%m-%d", gmtime(&now));
  snprintf(text, sizeof text,
           "{\"%s\":{\"minutes\":1},\"%.7s-77\":{\"minutes\":2},\"1999-12\":{\"minutes\":4}}", day,
           day);
  put("spent", text);
  static const double wanted[] = {[MCG_PER_EVER] = 7, [MCG_PER_MONTH] = 3, [MCG_PER_DAY] = 1};
  for (unsigned per = 0; per < 3; per++) {
    mcg_quota quota = {.per = per};
    mcg_ledger_total total;
    assert_int_equal(mcg_ledger_sum(directory, &quota, true, &total), 0);
    assert_true(close_to(total.minutes, wanted[per]));
  }
}

int main(void)
{
  if (!mkdtemp(state)) return 1;
  setenv("XDG_STATE_HOME", state, 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(one_at_a_time, up, down),
      cmocka_unit_test_setup_teardown(counts_what_is_live, up, down),
      cmocka_unit_test_setup_teardown(charges_what_was_left, up, down),
      cmocka_unit_test_setup_teardown(charges_who_was_killed, up, down),
      cmocka_unit_test_setup_teardown(a_clock_that_went_back_costs_nothing, up, down),
      cmocka_unit_test_setup_teardown(rubbish, up, down),
      cmocka_unit_test_setup_teardown(periods, up, down),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", state);
  return system(command) == 0 ? failed : 1;
}
