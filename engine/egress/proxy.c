/* proxy.c: CONNECT to a proxy (RFC 9110, 9.3.6), and which connections go without. */
#include "proxy.h"
#include "await.h"
#include "dial.h"
#include "name.h"
#include "service/base64.h"
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#define DIAL_MS 15000
#define ANSWER_MS 15000 /* until its answer is there, all of it */
#define HEAD_MAX 16384
#define PORT_DEFAULT 3128

struct mcg_proxy {
  char host[MCG_NAME_ROOM];
  mcg_address address;
  bool literal; /* `address` holds */
  uint16_t port;
  char *authorization; /* of its header; or NULL */
  char *text, *without;
};

/* ---- what it is --------------------------------------------------------------------------- */

static int wrong(mcg_error **err, const char *what)
{
  return mcg_fail(err, MCG_INVALID, "write http://HOST:PORT, or http://USER:PASSWORD@HOST:PORT",
                  "%s", what);
}

/* "%41" and what stands for itself. */
static char *unescaped(const char *text, size_t len)
{
  char *out = malloc(len + 1), *at = out;
  for (size_t i = 0; out && i < len; i++) {
    unsigned byte;
    if (text[i] == '%' && i + 2 < len && sscanf(text + i + 1, "%2x", &byte) == 1) {
      *at++ = (char)byte;
      i += 2;
    } else {
      *at++ = text[i];
    }
  }
  if (out) *at = '\0';
  return out;
}

static int read_user(mcg_proxy *self, const char *text, size_t len, mcg_error **err)
{
  char *plain = unescaped(text, len);
  char *word = plain ? mcg_base64_encode(plain, strlen(plain)) : NULL;
  self->authorization = word ? mcg_format("Proxy-Authorization: Basic %s\r\n", word) : NULL;
  if (plain) explicit_bzero(plain, strlen(plain));
  if (word) explicit_bzero(word, strlen(word));
  free(plain);
  free(word);
  return self->authorization ? 0 : mcg_fail(err, MCG_NOMEM, NULL, "no memory for a proxy");
}

static int read_host(mcg_proxy *self, const char *text, mcg_error **err)
{
  const char *why = NULL, *end = text + strcspn(text, "/");
  const char *colon = memrchr(text, ':', (size_t)(end - text));
  const char *close = memrchr(text, ']', (size_t)(end - text));
  char *after = NULL;
  unsigned long port = PORT_DEFAULT;
  if (*end && end[1]) return wrong(err, "it has a path");
  if (colon && (!close || colon > close)) {
    port = strtoul(colon + 1, &after, 10);
    if (after != end || after == colon + 1 || !port || port > UINT16_MAX)
      return wrong(err, "its port is no number from 1 to 65535");
  } else {
    colon = end;
  }
  self->port = (uint16_t)port;
  switch (mcg_name_normalise(text, (size_t)(colon - text), self->host, &self->address, &why)) {
  case MCG_NAME_BAD: return wrong(err, why);
  case MCG_NAME_HOST: break;
  case MCG_NAME_ADDRESS: self->literal = true; mcg_address_text(&self->address, self->host);
  }
  bool brackets = strchr(self->host, ':') != NULL;
  self->text = mcg_format(brackets ? "[%s]:%u" : "%s:%u", self->host, self->port);
  return self->text ? 0 : mcg_fail(err, MCG_NOMEM, NULL, "no memory for a proxy");
}

int mcg_proxy_new(const char *url, const char *without, mcg_proxy **out, mcg_error **err)
{
  static const char scheme[] = "http://";
  if (strstr(url, "://") && strncasecmp(url, scheme, sizeof scheme - 1) != 0)
    return wrong(err, "only proxies of http:// are spoken to");
  if (strstr(url, "://")) url += sizeof scheme - 1;
  mcg_proxy *self = calloc(1, sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a proxy");
  size_t len = strcspn(url, "/");
  const char *at = memrchr(url, '@', len);
  int rc = at ? read_user(self, url, (size_t)(at - url), err) : 0;
  if (rc == 0) rc = read_host(self, at ? at + 1 : url, err);
  if (rc == 0 && without && !(self->without = strdup(without)))
    rc = mcg_fail(err, MCG_NOMEM, NULL, "no memory for a proxy");
  if (rc == 0)
    *out = self;
  else
    mcg_proxy_free(self);
  return rc;
}

static const char *either(const char *name, const char *other)
{
  const char *value = getenv(name);
  if (!value || !*value) value = getenv(other);
  return value && *value ? value : NULL;
}

int mcg_proxy_of_environment(mcg_proxy **out, mcg_error **err)
{
  const char *url = either("https_proxy", "HTTPS_PROXY");
  *out = NULL;
  if (!url) return 0;
  if (mcg_proxy_new(url, either("no_proxy", "NO_PROXY"), out, err) == 0) return 0;
  return mcg_wrap(err, "https_proxy of the environment");
}

void mcg_proxy_free(mcg_proxy *proxy)
{
  if (!proxy) return;
  if (proxy->authorization) explicit_bzero(proxy->authorization, strlen(proxy->authorization));
  free(proxy->authorization);
  free(proxy->text);
  free(proxy->without);
  free(proxy);
}

const char *mcg_proxy_text(const mcg_proxy *proxy)
{
  return proxy->text;
}

/* ---- who goes through it ------------------------------------------------------------------ */

/* A name, itself and what lies beneath it, with or without a dot before; an address; a network. */
static bool word_matches(const char *word, size_t len, const char *name, const mcg_address *address)
{
  if (len == 1 && *word == '*') return true;
  if (len > 1 && *word == '*' && word[1] == '.') word++, len--;
  if (name) {
    if (len && *word == '.') word++, len--;
    size_t name_len = strlen(name);
    if (!len || name_len < len || strncasecmp(name + name_len - len, word, len) != 0) return false;
    return name_len == len || name[name_len - len - 1] == '.';
  }
  const char *slash = memchr(word, '/', len);
  mcg_address network;
  if (!mcg_address_parse(word, slash ? (size_t)(slash - word) : len, &network)) return false;
  if (!slash) return mcg_address_equal(address, &network);
  return mcg_address_within(address, &network, (unsigned)strtoul(slash + 1, NULL, 10));
}

bool mcg_proxy_covers(const mcg_proxy *proxy, const char *name, const mcg_address *address)
{
  if (!proxy) return false;
  for (const char *at = proxy->without; at && *at;) {
    size_t len = strcspn(at, ", \t");
    if (len && word_matches(at, len, name, address)) return false;
    at += len + strspn(at + len, ", \t");
  }
  return true;
}

/* ---- through it --------------------------------------------------------------------------- */

/* The first line, without what a terminal would obey. */
static void first_line(const char *head, char out[80])
{
  size_t len = 0;
  for (; len < 79 && isprint((unsigned char)head[len]); len++) out[len] = head[len];
  out[len] = '\0';
}

/* Up to the empty line, and not a byte more: what follows is the other side's. */
static int read_answer(mcg_engine *engine, int fd, const char *who, uint64_t until_ms,
                       mcg_error **err)
{
  auto_free char *head = malloc(HEAD_MAX + 1);
  size_t len = 0;
  if (!head) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a proxy's answer");
  while (len < HEAD_MAX) {
    if (mcg_await_readable(engine, fd, mcg_await_left(engine, until_ms), err) < 0) {
      if ((*err)->code != MCG_TIMEOUT) return mcg_wrap(err, "the proxy %s", who);
      mcg_error_free(mcg_steal_pointer(err));
      return mcg_fail(err, MCG_TIMEOUT, NULL, "the proxy %s does not answer within %d s", who,
                      ANSWER_MS / 1000);
    }
    ssize_t got = recv(fd, head + len, HEAD_MAX - len, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0)
      return mcg_fail(err, MCG_UNAVAILABLE, NULL, "the proxy %s ended the connection", who);
    head[len + (size_t)got] = '\0';
    const char *end = strstr(head, "\r\n\r\n");
    size_t take = end ? (size_t)(end + 4 - head) - len : (size_t)got;
    if (recv(fd, head + len, take, MSG_DONTWAIT) != (ssize_t)take)
      return mcg_fail(err, MCG_UNAVAILABLE, NULL, "the proxy %s ended the connection", who);
    len += take;
    if (!end) continue;
    char line[80];
    first_line(head, line);
    if (strncmp(head, "HTTP/1.", 7) == 0 && strncmp(head + 8, " 2", 2) == 0) return 0;
    return mcg_fail(err, MCG_UNAVAILABLE, NULL, "the proxy %s answered \"%s\"", who, line);
  }
  return mcg_fail(err, MCG_PROTOCOL, NULL, "the proxy %s does not end its answer", who);
}

static int ask(mcg_engine *engine, const mcg_proxy *proxy, int fd, const char *to, mcg_error **err)
{
  char *text = mcg_format("CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", to, to,
                          proxy->authorization ? proxy->authorization : "");
  const uint64_t until = mcg_now_ms(engine) + ANSWER_MS;
  if (!text) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a proxy");
  int rc = mcg_await_send(engine, fd, text, strlen(text), ANSWER_MS, err);
  explicit_bzero(text, strlen(text));
  free(text);
  if (rc < 0) return mcg_wrap(err, "the proxy %s", proxy->text);
  return read_answer(engine, fd, proxy->text, until, err);
}

static int find(mcg_resolver *resolver, const mcg_proxy *proxy, mcg_resolved *out, mcg_error **err)
{
  if (proxy->literal) {
    *out = (mcg_resolved){.count = 1, .list = {proxy->address}};
    return 0;
  }
  if (mcg_resolve(resolver, proxy->host, out, err) < 0) return -1;
  if (out->status == MCG_RESOLVED && out->count) return 0;
  return mcg_fail(err, MCG_UNAVAILABLE, NULL, "the proxy %s has no address", proxy->text);
}

int mcg_proxy_dial(mcg_engine *engine, mcg_resolver *resolver, const mcg_proxy *proxy,
                   const char *name, const mcg_address *address, uint16_t port, int *fd,
                   mcg_error **err)
{
  char to[MCG_NAME_ROOM + 16];
  mcg_resolved resolved;
  size_t which;
  if (name)
    snprintf(to, sizeof to, "%s:%u", name, port);
  else
    mcg_endpoint_text(address, port, to);
  if (find(resolver, proxy, &resolved, err) < 0) return -1;
  if (mcg_dial(engine, resolved.list, resolved.count, proxy->port, DIAL_MS, fd, &which, err) < 0)
    return mcg_wrap(err, "the proxy %s", proxy->text);
  if (ask(engine, proxy, *fd, to, err) == 0) return 0;
  close(*fd);
  *fd = -1;
  return -1;
}
