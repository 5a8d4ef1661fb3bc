/* signals.c: names of signals, as people write them and as results tell them. */
#include "signals.h"
#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
  const char *name;
  int number;
} names[] = {
    {"SIGHUP", SIGHUP},   {"SIGINT", SIGINT},       {"SIGQUIT", SIGQUIT}, {"SIGILL", SIGILL},
    {"SIGTRAP", SIGTRAP}, {"SIGABRT", SIGABRT},     {"SIGBUS", SIGBUS},   {"SIGFPE", SIGFPE},
    {"SIGKILL", SIGKILL}, {"SIGUSR1", SIGUSR1},     {"SIGSEGV", SIGSEGV}, {"SIGUSR2", SIGUSR2},
    {"SIGPIPE", SIGPIPE}, {"SIGALRM", SIGALRM},     {"SIGTERM", SIGTERM}, {"SIGSTKFLT", SIGSTKFLT},
    {"SIGCHLD", SIGCHLD}, {"SIGCONT", SIGCONT},     {"SIGSTOP", SIGSTOP}, {"SIGTSTP", SIGTSTP},
    {"SIGTTIN", SIGTTIN}, {"SIGTTOU", SIGTTOU},     {"SIGURG", SIGURG},   {"SIGXCPU", SIGXCPU},
    {"SIGXFSZ", SIGXFSZ}, {"SIGVTALRM", SIGVTALRM}, {"SIGPROF", SIGPROF}, {"SIGWINCH", SIGWINCH},
    {"SIGIO", SIGIO},     {"SIGPWR", SIGPWR},       {"SIGSYS", SIGSYS},
};
#define COUNT (sizeof names / sizeof *names)

const char *mcg_signal_name(int number, char room[16])
{
  for (size_t i = 0; i < COUNT; i++)
    if (names[i].number == number) return names[i].name;
  snprintf(room, 16, "SIG%d", number);
  return room;
}

int mcg_signal_number(const char *name)
{
  if (isdigit((unsigned char)*name)) {
    char *end;
    long number = strtol(name, &end, 10);
    return !*end && number >= 1 && number <= 64 ? (int)number : 0;
  }
  if (strncasecmp(name, "SIG", 3) == 0) name += 3;
  for (size_t i = 0; i < COUNT; i++)
    if (strcasecmp(names[i].name + 3, name) == 0) return names[i].number;
  return 0;
}

const char *const *mcg_signal_list(void)
{
  static const char *const list[] = {"SIGHUP",  "SIGINT",  "SIGQUIT",  "SIGKILL", "SIGUSR1",
                                     "SIGUSR2", "SIGPIPE", "SIGALRM",  "SIGTERM", "SIGCONT",
                                     "SIGSTOP", "SIGTSTP", "SIGWINCH", NULL};
  return list;
}
