/* probe_net.c: attempts of sbx-probe on the network. A target is HOST:PORT or [ADDRESS]:PORT; it counts
 * as reached when the server there says "here". */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS = 4000 };

/* The address of a target; says why not, and is false then. */
static bool target(const char *text, int type, struct sockaddr_storage *to, socklen_t *len)
{
  char host[300];
  const char *colon = strrchr(text, ':');
  if (!colon || (size_t)(colon - text) >= sizeof host) {
    fprintf(stderr, "sbx-probe: no HOST:PORT: %s\n", text);
    exit(2);
  }
  size_t n = (size_t)(colon - text), skip = text[0] == '[';
  memcpy(host, text + skip, n - 2 * skip);
  host[n - 2 * skip] = '\0';
  struct addrinfo hints = {.ai_socktype = type}, *found = NULL;
  int rc = getaddrinfo(host, colon + 1, &hints, &found);
  if (rc != 0) {
    say("DENIED", text, "%s", gai_strerror(rc));
    return false;
  }
  memcpy(to, found->ai_addr, found->ai_addrlen);
  *len = found->ai_addrlen;
  freeaddrinfo(found);
  return true;
}

static bool within(int fd, short events)
{
  struct pollfd p = {.fd = fd, .events = events};
  return poll(&p, 1, WAIT_MS) == 1;
}

/* Reads what the server says first; true when it is "here". */
static bool greeted(const char *what, int fd)
{
  char line[100];
  ssize_t got = within(fd, POLLIN) ? read(fd, line, sizeof line - 1) : -2;
  if (got > 0 && strncmp(line, "here ", 5) == 0) {
    say("ALLOWED", what, "%s", printable(line, (long)got));
    return true;
  }
  say("DENIED", what, "%s", got == -2 ? "silence" : got < 0 ? errno_name(errno) : "closed");
  return false;
}

static int connected(const char *what, const struct sockaddr_storage *to, socklen_t len)
{
  int fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct timeval limit = {.tv_sec = WAIT_MS / 1000};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (fd >= 0 && connect(fd, (const struct sockaddr *)to, len) == 0) return fd;
  say("DENIED", what, "%s", errno_name(errno));
  if (fd >= 0) close(fd);
  return -1;
}

static int run_tcp(int argc, char **argv)
{
  if (argc < 1) return 2;
  for (int i = 0; i < argc; i++) {
    struct sockaddr_storage to;
    socklen_t len;
    if (!target(argv[i], SOCK_STREAM, &to, &len)) continue;
    int fd = connected(argv[i], &to, len);
    if (fd < 0) continue;
    greeted(argv[i], fd);
    close(fd);
  }
  return 0;
}

static int run_udp(int argc, char **argv)
{
  if (argc < 1) return 2;
  for (int i = 0; i < argc; i++) {
    struct sockaddr_storage to;
    socklen_t len;
    if (!target(argv[i], SOCK_DGRAM, &to, &len)) continue;
    int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char line[100];
    ssize_t got = -2;
    if (connect(fd, (struct sockaddr *)&to, len) < 0 || send(fd, "sbx", 3, 0) < 0)
      got = -1;
    else if (poll(&p, 1, 1000) == 1)
      got = recv(fd, line, sizeof line, 0);
    if (got > 0)
      say("ALLOWED", argv[i], "%s", printable(line, (long)got));
    else
      say("DENIED", argv[i], "%s", got == -1 ? errno_name(errno) : "silence");
    close(fd);
  }
  return 0;
}

static int run_resolve(int argc, char **argv)
{
  if (argc < 1) return 2;
  for (int i = 0; i < argc; i++) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int rc = getaddrinfo(argv[i], NULL, &hints, &found);
    char list[400] = "", one[64];
    for (struct addrinfo *a = found; rc == 0 && a; a = a->ai_next) {
      getnameinfo(a->ai_addr, a->ai_addrlen, one, sizeof one, NULL, 0, NI_NUMERICHOST);
      if (strlen(list) + strlen(one) + 2 > sizeof list) break;
      strcat(strcat(list, one), " ");
    }
    say(rc == 0 ? "ALLOWED" : "DENIED", argv[i], "%s", rc == 0 ? list : gai_strerror(rc));
    if (rc == 0) freeaddrinfo(found);
  }
  return 0;
}

/* The same target by other calls than a plain connect: each says whether the server was reached. */
static int run_otherwise(int argc, char **argv)
{
  if (argc != 1) return 2;
  struct sockaddr_storage to;
  socklen_t len;
  if (!target(argv[0], SOCK_STREAM, &to, &len)) return 0;

  int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (sendto(fd, "sbx", 3, MSG_FASTOPEN, (struct sockaddr *)&to, len) < 0)
    say("DENIED", "fast open", "%s", errno_name(errno));
  else
    greeted("fast open", fd);
  close(fd);

  fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 262); /* MPTCP */
  if (fd < 0 || connect(fd, (struct sockaddr *)&to, len) < 0)
    say("DENIED", "mptcp", "%s", errno_name(errno));
  else
    greeted("mptcp", fd);
  if (fd >= 0) close(fd);

  if (to.ss_family == AF_INET) {
    struct sockaddr_in *four = (struct sockaddr_in *)&to;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = four->sin_port};
    memcpy(six.sin6_addr.s6_addr, "\0\0\0\0\0\0\0\0\0\0\377\377", 12);
    memcpy(six.sin6_addr.s6_addr + 12, &four->sin_addr, 4);
    struct sockaddr_storage mapped = {0};
    memcpy(&mapped, &six, sizeof six);
    fd = connected("mapped", &mapped, sizeof six);
    if (fd >= 0) greeted("mapped", fd), close(fd);
  }

  fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0); /* from a bound address of no-one's */
  struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0b000002)};
  int on = 1;
  setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &on, sizeof on);
  setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof on);
  if (to.ss_family == AF_INET && bind(fd, (struct sockaddr *)&from, sizeof from) == 0 &&
      connect(fd, (struct sockaddr *)&to, len) == 0)
    greeted("other source", fd);
  else
    say("DENIED", "other source", "%s", errno_name(errno));
  close(fd);
  return 0;
}

/* COUNT connections that are held at once; how many of them the server greeted. */
static int run_crowd(int argc, char **argv)
{
  if (argc != 2) return 2;
  long count = number_of(argv[1]), reached = 0, refused = 0;
  struct sockaddr_storage to;
  socklen_t len;
  if (!target(argv[0], SOCK_STREAM, &to, &len)) return 0;
  int *fds = calloc((size_t)count, sizeof *fds);
  for (long i = 0; i < count; i++) {
    fds[i] = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fds[i] >= 0 && connect(fds[i], (struct sockaddr *)&to, len) < 0) close(fds[i]), fds[i] = -1;
  }
  for (long i = 0; i < count; i++) {
    char line[100];
    if (fds[i] < 0 || !within(fds[i], POLLIN) || read(fds[i], line, sizeof line) <= 0)
      refused++;
    else
      reached++;
  }
  say(reached == count ? "ALLOWED" : "DENIED", "crowd", "%ld reached, %ld refused", reached,
      refused);
  return 0;
}

/* COUNT connections that are reset or closed as soon as they are begun. */
static int run_hasty(int argc, char **argv)
{
  if (argc != 2) return 2;
  struct sockaddr_storage to;
  socklen_t len;
  if (!target(argv[0], SOCK_STREAM, &to, &len)) return 0;
  struct linger now = {.l_onoff = 1};
  long begun = 0;
  for (long i = number_of(argv[1]); i > 0; i--) {
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | (i % 3 ? 0 : SOCK_NONBLOCK), 0);
    if (i % 2) setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    if (connect(fd, (struct sockaddr *)&to, len) == 0 || errno == EINPROGRESS) begun++;
    if (i % 5 == 0) shutdown(fd, SHUT_WR);
    close(fd);
  }
  say("ALLOWED", "hasty", "%ld", begun);
  return 0;
}

/* Takes over what the gateway listens on, or a place that it will want: by every way to share a port. */
static int run_steal(int argc, char **argv)
{
  if (argc < 1) return 2;
  for (int i = 0; i < argc; i++) {
    struct sockaddr_storage at;
    socklen_t len;
    if (!target(argv[i], SOCK_STREAM, &at, &len)) continue;
    for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
      int fd = socket(at.ss_family, type | SOCK_CLOEXEC, 0), on = 1;
      char what[330];
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
      setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof on);
      snprintf(what, sizeof what, "%s %s", type == SOCK_STREAM ? "tcp" : "udp", argv[i]);
      judge(what, bind(fd, (struct sockaddr *)&at, len) < 0 ? -1
                  : type == SOCK_STREAM                     ? listen(fd, 1)
                                                            : 0);
      close(fd);
    }
  }
  return 0;
}

/* Sends COUNT packets that are no good questions to the stub, and as many beginnings of such over TCP. */
static int run_dns_junk(int argc, char **argv)
{
  if (argc != 2) return 2;
  srand((unsigned)number_of(argv[1]));
  struct sockaddr_in stub = {
      .sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  static unsigned char packet[65000];
  long sent = 0;
  for (long i = number_of(argv[0]); i > 0; i--) {
    size_t len = i % 50 == 0 ? sizeof packet : (size_t)(rand() % 600);
    for (size_t k = 0; k < len; k++) packet[k] = (unsigned char)rand();
    if (i % 2 && len > 12) memcpy(packet + 2, "\1\0\0\1\0\0\0\0\0\0", 10); /* a query's head */
    if (i % 4 == 1 && len > 40)
      memcpy(packet + 12, "\300\14\0\1\0\1", 6); /* a name that points at itself */
    if (sendto(fd, packet, len, 0, (struct sockaddr *)&stub, sizeof stub) >= 0) sent++;
    if (i % 20) continue;
    int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(tcp, (struct sockaddr *)&stub, sizeof stub) == 0 &&
        send(tcp, packet, len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
      sent++;
    close(tcp);
  }
  say("ALLOWED", "junk", "%ld", sent);
  close(fd);
  return 0;
}

/* Connections to the stub that say one byte and wait; then a proper question has to be answered. */
static int run_dns_hold(int argc, char **argv)
{
  if (argc != 2) return 2;
  struct sockaddr_in stub = {
      .sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  for (long i = number_of(argv[0]); i > 0; i--) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* left open */
    if (fd < 0 || connect(fd, (struct sockaddr *)&stub, sizeof stub) < 0 ||
        send(fd, "", 1, MSG_NOSIGNAL) < 0)
      break;
  }
  return run_resolve(1, argv + 1);
}

/* A server and a client in here, on loopback: programs may talk among themselves. */
static int run_own_server(int argc, char **argv)
{
  if (argc != 1) return 2;
  struct sockaddr_storage at;
  socklen_t len;
  if (!target(argv[0], SOCK_STREAM, &at, &len)) return 0;
  int server = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0),
      client = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  long rc = bind(server, (struct sockaddr *)&at, len) < 0 || listen(server, 1) < 0 ||
            connect(client, (struct sockaddr *)&at, len) < 0;
  judge(argv[0], rc ? -1 : accept(server, NULL, NULL));
  return 0;
}

const attempt attempts_net[] = {
    {"tcp", "HOST:PORT...", run_tcp},
    {"udp", "HOST:PORT...", run_udp},
    {"resolve", "NAME...", run_resolve},
    {"otherwise", "HOST:PORT", run_otherwise},
    {"crowd", "HOST:PORT COUNT", run_crowd},
    {"hasty", "HOST:PORT COUNT", run_hasty},
    {"steal", "ADDRESS:PORT...", run_steal},
    {"dns-junk", "COUNT SEED", run_dns_junk},
    {"dns-hold", "COUNT NAME", run_dns_hold},
    {"own-server", "ADDRESS:PORT", run_own_server},
    {NULL, NULL, NULL},
};
