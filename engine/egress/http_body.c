/* http_body.c: bodies by length, in chunks (RFC 9112, 7.1), or to the end of the connection. */
#include "http_body.h"
#include <stdio.h>

#define LINE_MAX_LEN 1024 /* of a chunk's size with its extensions */
#define TRAILER_MAX_LEN MCG_HTTP_HEAD_MAX

void mcg_http_body_begin(mcg_http_body *body, const mcg_http_head *head)
{
  *body = (mcg_http_body){.framing = head->framing};
  if (head->framing == MCG_HTTP_LENGTH) body->left = head->length;
}

bool mcg_http_body_done(const mcg_http_body *body)
{
  switch (body->framing) {
  case MCG_HTTP_NOTHING: return true;
  case MCG_HTTP_LENGTH: return body->left == 0;
  case MCG_HTTP_CHUNKED: return body->step == MCG_HTTP_DONE;
  default: return false;
  }
}

static ssize_t bad(const char **why, const char *text)
{
  *why = text;
  return -1;
}

/* A line with its CR LF: its length; 0: not all of it is there; -1. */
static ssize_t whole_line(const char *bytes, size_t len, const char **why)
{
  size_t most = len < LINE_MAX_LEN ? len : LINE_MAX_LEN;
  const char *end = memchr(bytes, '\n', most);
  if (!end) return most == LINE_MAX_LEN ? bad(why, "a line in a body that does not end") : 0;
  size_t size = (size_t)(end - bytes) + 1;
  if (size < 2 || bytes[size - 2] != '\r' || memchr(bytes, '\r', size - 2))
    return bad(why, "a line in a chunked body that does not end with CR LF");
  return (ssize_t)size;
}

static int digit(char c)
{
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Digits, then the end of the line or an extension. */
static ssize_t read_size(mcg_http_body *body, const char *bytes, size_t len, const char **why)
{
  ssize_t line = whole_line(bytes, len, why);
  if (line <= 0) return line;
  size_t end = (size_t)line - 2, at = 0;
  uint64_t size = 0;
  for (; at < end && digit(bytes[at]) >= 0; at++) size = size * 16 + (uint64_t)digit(bytes[at]);
  if (at == 0 || at > 15) return bad(why, "a chunk without a size");
  size_t extension = at;
  while (extension < end && (bytes[extension] == ' ' || bytes[extension] == '\t')) extension++;
  if (at < end && (extension == end || bytes[extension] != ';'))
    return bad(why, "a chunk whose size is no number");
  if (!mcg_http_value_ok(bytes + at, end - at)) return bad(why, "control bytes in a chunk's size");
  body->left = size;
  body->step = size ? MCG_HTTP_DATA : MCG_HTTP_TRAILER;
  return line;
}

static ssize_t read_trailer(mcg_http_body *body, const char *bytes, size_t len, const char **why)
{
  ssize_t line = whole_line(bytes, len, why);
  if (line <= 0) return line;
  body->trailer += (size_t)line;
  if (body->trailer > TRAILER_MAX_LEN) return bad(why, "a trailer longer than 16 KiB");
  if (line == 2) body->step = MCG_HTTP_DONE;
  return line;
}

static ssize_t read_data(mcg_http_body *body, const char *bytes, size_t len, mcg_bytes *out)
{
  size_t take = len < body->left ? len : (size_t)body->left;
  mcg_bytes_put(out, bytes, take);
  body->left -= take;
  if (body->left == 0) body->step = MCG_HTTP_DATA_END;
  return (ssize_t)take;
}

static ssize_t read_chunked(mcg_http_body *body, const char *bytes, size_t len, mcg_bytes *out,
                            const char **why)
{
  switch (body->step) {
  case MCG_HTTP_SIZE: return read_size(body, bytes, len, why);
  case MCG_HTTP_DATA: return read_data(body, bytes, len, out);
  case MCG_HTTP_TRAILER: return read_trailer(body, bytes, len, why);
  case MCG_HTTP_DATA_END:
    if (*bytes != '\r' || (len > 1 && bytes[1] != '\n'))
      return bad(why, "a chunk longer than it says");
    if (len < 2) return 0;
    body->step = MCG_HTTP_SIZE;
    return 2;
  default: return 0;
  }
}

ssize_t mcg_http_body_read(mcg_http_body *body, const char *bytes, size_t len, mcg_bytes *out,
                           const char **why)
{
  if (body->framing == MCG_HTTP_TO_END) {
    mcg_bytes_put(out, bytes, len);
    return (ssize_t)len;
  }
  if (body->framing == MCG_HTTP_LENGTH) return read_data(body, bytes, len, out);
  size_t used = 0;
  while (used < len && !mcg_http_body_done(body)) {
    ssize_t took = read_chunked(body, bytes + used, len - used, out, why);
    if (took < 0) return -1;
    if (took == 0) break;
    used += (size_t)took;
  }
  return (ssize_t)used;
}

void mcg_http_body_write(const mcg_http_body *body, const char *bytes, size_t len, mcg_bytes *out)
{
  char size[24];
  if (!len) return;
  if (body->framing == MCG_HTTP_CHUNKED) {
    snprintf(size, sizeof size, "%zx\r\n", len);
    mcg_bytes_text(out, size);
  }
  mcg_bytes_put(out, bytes, len);
  if (body->framing == MCG_HTTP_CHUNKED) mcg_bytes_text(out, "\r\n");
}

void mcg_http_body_end(const mcg_http_body *body, mcg_bytes *out)
{
  if (body->framing == MCG_HTTP_CHUNKED) mcg_bytes_text(out, "0\r\n\r\n");
}
