/* sbx-probe: one static program that tries one attack. `sbx-probe ATTEMPT [ARGS]`, `sbx-probe --list`.
 * It runs twice, without a sandbox (the control: the attack works) and inside of one. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const attempt *const areas[] = {attempts_fs, attempts_proc, attempts_kernel,
                                       attempts_resources, attempts_net};

static const struct {
  int number;
  const char *name;
} errno_names[] = {
#define N(e)                                                                                       \
  {                                                                                                \
    e, #e                                                                                          \
  }
    N(EPERM),         N(ENOENT),      N(ESRCH),        N(EINTR),           N(EIO),
    N(ENXIO),         N(E2BIG),       N(ENOEXEC),      N(EBADF),           N(ECHILD),
    N(EAGAIN),        N(ENOMEM),      N(EACCES),       N(EFAULT),          N(ENOTBLK),
    N(EBUSY),         N(EEXIST),      N(EXDEV),        N(ENODEV),          N(ENOTDIR),
    N(EISDIR),        N(EINVAL),      N(ENFILE),       N(EMFILE),          N(ENOTTY),
    N(ETXTBSY),       N(EFBIG),       N(ENOSPC),       N(ESPIPE),          N(EROFS),
    N(EMLINK),        N(EPIPE),       N(EDOM),         N(ERANGE),          N(EDEADLK),
    N(ENAMETOOLONG),  N(ENOLCK),      N(ENOSYS),       N(ENOTEMPTY),       N(ELOOP),
    N(EOVERFLOW),     N(EUSERS),      N(ENOPKG),       N(EDQUOT),          N(ENOTSOCK),
    N(EDESTADDRREQ),  N(EMSGSIZE),    N(EPROTOTYPE),   N(ENOKEY),          N(ENODATA),
    N(ENETDOWN),      N(ENETUNREACH), N(EAFNOSUPPORT), N(EPROTONOSUPPORT), N(EISCONN),
    N(ENOTCONN),      N(ETIMEDOUT),   N(ECONNREFUSED), N(EHOSTUNREACH),    N(ESOCKTNOSUPPORT),
    N(ESTALE),        N(EALREADY),    N(EOPNOTSUPP),   N(ECONNRESET),      N(ENOBUFS),
    N(EADDRNOTAVAIL), N(EKEYEXPIRED), N(EPROTO),       N(ECANCELED),       N(EBADFD),
    N(EADDRINUSE),    N(EINPROGRESS),
#undef N
};

const char *errno_name(int number)
{
  static char other[24];
  for (size_t i = 0; i < sizeof errno_names / sizeof *errno_names; i++)
    if (errno_names[i].number == number) return errno_names[i].name;
  snprintf(other, sizeof other, "errno%d", number);
  return other;
}

void say(const char *verdict, const char *what, const char *format, ...)
{
  char line[1024];
  int used = snprintf(line, sizeof line, "%s\t%s\t", what, verdict);
  if (used < 0 || (size_t)used >= sizeof line) return;
  va_list args;
  va_start(args, format);
  vsnprintf(line + used, sizeof line - (size_t)used, format, args);
  va_end(args);
  size_t length = strlen(line);
  if (length == sizeof line - 1) length--;
  line[length++] = '\n';
  /* One write: lines of children do not mix, and a child that dies loses none. */
  if (write(1, line, length) < 0) _exit(3);
}

long judge(const char *what, long result)
{
  if (result < 0)
    say("DENIED", what, "%s", errno_name(errno));
  else
    say("ALLOWED", what, "%ld", result);
  return result;
}

static void say_signal(const char *what, int number)
{
  const char *name = number == SIGSYS    ? "SIGSYS"
                     : number == SIGKILL ? "SIGKILL"
                     : number == SIGSEGV ? "SIGSEGV"
                     : number == SIGXFSZ ? "SIGXFSZ"
                                         : NULL;
  if (name)
    say("KILLED", what, "%s", name);
  else
    say("KILLED", what, "signal %d", number);
}

void judge_in_child(const char *what, long (*try)(void *data), void *data)
{
  pid_t child = fork();
  if (child < 0) {
    say("DENIED", what, "fork: %s", errno_name(errno));
    return;
  }
  if (child == 0) {
    judge(what, try(data));
    _exit(0);
  }
  int status;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFSIGNALED(status)) say_signal(what, WTERMSIG(status));
}

long read_some(const char *path, char *out, size_t size)
{
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return -1;
  size_t have = 0;
  long got = 0;
  while (have < size - 1 && (got = read(fd, out + have, size - 1 - have)) > 0) have += (size_t)got;
  int saved = errno;
  close(fd);
  errno = saved;
  out[have] = '\0';
  return got < 0 && have == 0 ? -1 : (long)have;
}

const char *printable(const char *text, long length)
{
  static char out[61];
  size_t n = length < 0 ? 0 : length > 60 ? 60 : (size_t)length;
  for (size_t i = 0; i < n; i++) out[i] = (text[i] >= ' ' && text[i] <= '~') ? text[i] : '.';
  out[n] = '\0';
  return out;
}

long number_of(const char *text)
{
  char *end;
  errno = 0;
  long value = strtol(text, &end, 0);
  if (errno || end == text || *end) {
    fprintf(stderr, "sbx-probe: not a number: %s\n", text);
    exit(2);
  }
  return value;
}

int main(int argc, char **argv)
{
  signal(SIGPIPE, SIG_IGN);
  for (size_t area = 0; area < sizeof areas / sizeof *areas; area++) {
    for (const attempt *a = areas[area]; a->name; a++) {
      if (argc == 2 && strcmp(argv[1], "--list") == 0) printf("%s %s\n", a->name, a->usage);
      if (argc < 2 || strcmp(argv[1], a->name) != 0) continue;
      int code = a->run(argc - 2, argv + 2);
      if (code == 2) fprintf(stderr, "usage: sbx-probe %s %s\n", a->name, a->usage);
      return code;
    }
  }
  if (argc == 2 && strcmp(argv[1], "--list") == 0) return 0;
  fprintf(stderr, "sbx-probe: %s; sbx-probe --list names the attempts\n",
          argc < 2 ? "no attempt given" : "unknown attempt");
  return 2;
}
