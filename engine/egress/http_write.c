/* http_write.c: writes heads anew: what belongs to the connection is ours, the rest is as it came. */
#include "http_head.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <strings.h>

static void put_text(mcg_bytes *out, mcg_http_text text)
{
  mcg_bytes_put(out, text.at, text.len);
}

static void put_field(mcg_bytes *out, mcg_http_text name, mcg_http_text value)
{
  put_text(out, name);
  mcg_bytes_text(out, ": ");
  put_text(out, value);
  mcg_bytes_text(out, "\r\n");
}

/* The same name, letters' case and _ for - aside. */
static bool names(mcg_http_text text, const char *name)
{
  if (text.len != strlen(name)) return false;
  for (size_t i = 0; i < text.len; i++) {
    char one = text.at[i] == '_' ? '-' : text.at[i], other = name[i] == '_' ? '-' : name[i];
    if (strncasecmp(&one, &other, 1) != 0) return false;
  }
  return true;
}

/* Of the connection, and so written by us where it is needed; Expect is passed on. */
static bool is_ours(mcg_http_text name)
{
  static const char *const ours[] = {
      "host",    "transfer-encoding", "connection",       "keep-alive",         "te",
      "trailer", "upgrade",           "proxy-connection", "proxy-authorization"};
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
    if (names(name, ours[i])) return true;
  return false;
}

/* What would keep the answer from being looked into. */
static bool hides(mcg_http_text name)
{
  return names(name, "accept-encoding") || names(name, "sec-websocket-extensions");
}

static void put_framing(const mcg_http_head *head, mcg_bytes *out)
{
  if (head->framing == MCG_HTTP_CHUNKED) mcg_bytes_text(out, "Transfer-Encoding: chunked\r\n");
}

/* HTTP/2 by way of an upgrade is not HTTP/1.1 any more, and packs what it carries. */
static bool may_upgrade(mcg_http_text to)
{
  return to.len && !(to.len >= 2 && strncasecmp(to.at, "h2", 2) == 0) &&
         !(to.len >= 6 && strncasecmp(to.at, "HTTP/2", 6) == 0) && !memchr(to.at, ',', to.len);
}

static void put_connection(mcg_http_text upgrade, bool close, int minor, mcg_bytes *out)
{
  if (upgrade.len) {
    mcg_bytes_text(out, "Connection: Upgrade\r\nUpgrade: ");
    put_text(out, upgrade);
    mcg_bytes_text(out, "\r\n");
  } else if (close && minor == 1) {
    mcg_bytes_text(out, "Connection: close\r\n");
  }
}

/* The judged host as it stands in Host: an IPv6 address in brackets. */
static void host_text(const char *host, char out[280])
{
  struct in6_addr address;
  snprintf(out, 280, inet_pton(AF_INET6, host, &address) == 1 ? "[%s]" : "%s", host);
}

static bool put_host(const mcg_http_head *head, const mcg_http_rewrite *rule, mcg_bytes *out)
{
  char host[280], port[8];
  host_text(rule->host, host);
  int port_len = snprintf(port, sizeof port, ":%u", rule->port);
  mcg_http_text said = head->host;
  size_t len = strlen(host);
  if (said.len < len || strncasecmp(said.at, host, len) != 0) return false;
  said.at += len;
  said.len -= len;
  if (said.len && *said.at == '.') said.at++, said.len--; /* the final dot of a name */
  bool with_port = said.len == (size_t)port_len && memcmp(said.at, port, said.len) == 0;
  if (said.len && !with_port) return false;
  mcg_bytes_text(out, "Host: ");
  mcg_bytes_text(out, host);
  if (with_port) mcg_bytes_text(out, port);
  mcg_bytes_text(out, "\r\n");
  return true;
}

static bool is_set(const mcg_http_rewrite *rule, mcg_http_text name)
{
  for (size_t i = 0; i < rule->count; i++)
    if (names(name, rule->set[i].name)) return true;
  return false;
}

bool mcg_http_request_write(const mcg_http_head *head, const mcg_http_rewrite *rule, mcg_bytes *out,
                            mcg_http_refusal *refusal)
{
  put_text(out, head->method);
  mcg_bytes_text(out, " ");
  put_text(out, head->target);
  mcg_bytes_text(out, head->minor ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n");
  if (!put_host(head, rule, out)) {
    *refusal = (mcg_http_refusal){400, "Host is not the server that this connection is to"};
    return false;
  }
  for (size_t i = 0; i < head->count; i++) {
    mcg_http_text name = head->fields[i].name;
    if (!is_ours(name) && !is_set(rule, name) && !(rule->plain && hides(name)))
      put_field(out, name, head->fields[i].value);
  }
  for (size_t i = 0; i < rule->count; i++)
    put_field(out, (mcg_http_text){rule->set[i].name, strlen(rule->set[i].name)},
              (mcg_http_text){rule->set[i].value, strlen(rule->set[i].value)});
  if (rule->plain && !is_set(rule, (mcg_http_text){"accept-encoding", 15}))
    mcg_bytes_text(out, "Accept-Encoding: identity\r\n");
  put_framing(head, out);
  put_connection(may_upgrade(head->upgrade) ? head->upgrade : (mcg_http_text){0}, head->close,
                 head->minor, out);
  mcg_bytes_text(out, "\r\n");
  return true;
}

void mcg_http_response_write(const mcg_http_head *head, bool close, mcg_bytes *out)
{
  char line[32];
  snprintf(line, sizeof line, "HTTP/1.%d %03d ", head->minor, head->status);
  mcg_bytes_text(out, line);
  put_text(out, head->phrase);
  mcg_bytes_text(out, "\r\n");
  for (size_t i = 0; i < head->count; i++)
    if (!is_ours(head->fields[i].name)) put_field(out, head->fields[i].name, head->fields[i].value);
  put_framing(head, out);
  put_connection(head->status == 101 ? head->upgrade : (mcg_http_text){0}, close, 1, out);
  mcg_bytes_text(out, "\r\n");
}

static const char *phrase(int status)
{
  switch (status) {
  case 400: return "Bad Request";
  case 405: return "Method Not Allowed";
  case 408: return "Request Timeout";
  case 431: return "Request Header Fields Too Large";
  case 501: return "Not Implemented";
  case 502: return "Bad Gateway";
  case 505: return "HTTP Version Not Supported";
  default: return "Refused";
  }
}

void mcg_http_answer(int status, const char *text, mcg_bytes *out)
{
  char head[256];
  snprintf(head, sizeof head,
           "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
           "Connection: close\r\n\r\nmooncage: ",
           status, phrase(status), strlen(text) + 11);
  mcg_bytes_text(out, head);
  mcg_bytes_text(out, text);
  mcg_bytes_text(out, "\n");
}
