/* probe.c: one process a trial, which is killed when it takes too long. */
#include "probe.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <sys/prctl.h>

#include "kernel.h"

#define PATIENCE_MS 10000

typedef struct outcome {
  int number;
  char detail[MCG_PROBE_DETAIL];
} outcome;

int mcg_trial_failed(char detail[MCG_PROBE_DETAIL], const char *what)
{
  int error = errno ? errno : EPROTO;
  snprintf(detail, MCG_PROBE_DETAIL, "%s: %s", what, strerror(error));
  return error;
}

static void child(const mcg_trial *trial, int out) __attribute__((noreturn));
static void child(const mcg_trial *trial, int out)
{
  outcome mine = {0};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  mine.number = trial->run(mine.detail);
  _exit(write(out, &mine, sizeof mine) == (ssize_t)sizeof mine ? 0 : 1);
}

/* A trial that says nothing was ended by the kernel, or hangs. */
static void read_outcome(int from, pid_t pid, outcome *out)
{
  struct pollfd said = {.fd = from, .events = POLLIN};
  int status = 0, ready = poll(&said, 1, PATIENCE_MS);
  bool whole = ready > 0 && read(from, out, sizeof *out) == (ssize_t)sizeof *out;
  if (!whole) kill(pid, SIGKILL);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (whole) return;
  out->number = ready == 0 ? ETIMEDOUT : EPROTO;
  if (ready != 0 && WIFSIGNALED(status))
    snprintf(out->detail, sizeof out->detail, "the process that tried it was ended by signal %d",
             WTERMSIG(status));
  else
    snprintf(out->detail, sizeof out->detail, "no answer");
}

static void try_one(const mcg_trial *trial)
{
  outcome result = {0};
  int ends[2];
  pid_t pid = -1;
  if (pipe2(ends, O_CLOEXEC) == 0) pid = fork();
  if (pid == 0) child(trial, ends[1]);
  if (pid > 0) {
    close(ends[1]);
    read_outcome(ends[0], pid, &result);
    close(ends[0]);
  } else {
    result.number = mcg_trial_failed(result.detail, "start a process");
  }
  result.detail[sizeof result.detail - 1] = 0;
  printf("%s\t%s\t%d\t%s\n", trial->name,
         result.number == 0               ? "ok"
         : result.number == MCG_PROBE_OFF ? "off"
                                          : "no",
         result.number > 0 ? result.number : 0, result.detail);
}

int mcg_probe_main(void)
{
  setvbuf(stdout, NULL, _IONBF, 0);
  for (const mcg_trial *trial = mcg_trials; trial->name; trial++) try_one(trial);
  return 0;
}
