/* wire.c: the ends of connections that tests/bench/network.lua measures.
 *   serve ADDRESS PORT          sends each who connects as many bytes as its first line says
 *   fetch ADDRESS PORT BYTES    prints MB/s
 *   reach ADDRESS PORT N        prints the median of milliseconds until the first byte of N connections,
 *                               one after the other
 *   crowd ADDRESS PORT N        prints connections a second of N, eight at once */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK (256 << 10)
#define CROWD 8

static char block[BLOCK];

static double now_s(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void die(const char *what)
{
  perror(what);
  exit(1);
}

static struct sockaddr_in address_of(char **argv)
{
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[3]))};
  if (inet_pton(AF_INET, argv[2], &at.sin_addr) != 1) die("address");
  return at;
}

static void answer(int fd)
{
  char line[32] = "";
  size_t len = 0;
  while (len < sizeof line - 1 && !strchr(line, '\n')) {
    ssize_t got = read(fd, line + len, sizeof line - 1 - len);
    if (got <= 0) return;
    len += (size_t)got;
  }
  long long left = atoll(line);
  while (left > 0) {
    ssize_t put = write(fd, block, left < BLOCK ? (size_t)left : BLOCK);
    if (put <= 0) return;
    left -= put;
  }
}

_Noreturn static void serve(char **argv)
{
  struct sockaddr_in at = address_of(argv);
  int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 1024) < 0) die("listen");
  signal(SIGPIPE, SIG_IGN);
  for (int i = 0; i < CROWD; i++)
    if (fork() == 0)
      for (prctl(PR_SET_PDEATHSIG, SIGKILL);;) {
        int one = accept(fd, NULL, NULL);
        if (one < 0) die("accept");
        answer(one);
        close(one);
      }
  puts("up");
  fflush(stdout);
  for (;;) pause();
}

/* Until the end of what was asked for; returns when the first byte came. */
static double ask(const struct sockaddr_in *to, long long bytes)
{
  char line[32];
  int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(fd, (const struct sockaddr *)to, sizeof *to) < 0) die("connect");
  int len = snprintf(line, sizeof line, "%lld\n", bytes);
  if (write(fd, line, (size_t)len) != len) die("write");
  double first = 0;
  ssize_t got;
  while ((got = read(fd, block, BLOCK)) > 0) {
    if (!first) first = now_s();
    bytes -= got;
  }
  if (bytes) die("read");
  close(fd);
  return first;
}

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
  if (argc == 4 && strcmp(argv[1], "serve") == 0) serve(argv);
  if (argc != 5) return 2;
  struct sockaddr_in to = address_of(argv);
  long long count = atoll(argv[4]);
  double began = now_s();
  if (strcmp(argv[1], "fetch") == 0) {
    ask(&to, count);
    printf("%.1f\n", (double)count / 1e6 / (now_s() - began));
  } else if (strcmp(argv[1], "reach") == 0) {
    double *times = calloc((size_t)count, sizeof *times);
    for (long long i = 0; i < count; i++) {
      double start = now_s();
      times[i] = (ask(&to, 1) - start) * 1e3;
    }
    qsort(times, (size_t)count, sizeof *times, by_size);
    printf("%.4f\n", times[count / 2]);
  } else {
    for (int i = 0; i < CROWD; i++)
      if (fork() == 0) {
        for (long long k = 0; k < count / CROWD; k++) ask(&to, 1);
        _exit(0);
      }
    int status, bad = 0;
    while (wait(&status) > 0) bad |= status;
    if (bad) return 1;
    printf("%.0f\n", (double)(count / CROWD * CROWD) / (now_s() - began));
  }
  return 0;
}
