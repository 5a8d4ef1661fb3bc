/* http_head.c: reads heads. */
#include "http_head.h"
#include <strings.h>

#define LENGTH_DIGITS 18 /* more than any file is long */

static const char TOKEN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                            "!#$%&'*+-.^_`|~";

static bool is_token(char c)
{
  return c && strchr(TOKEN, c);
}

static ssize_t refuse(mcg_http_refusal *refusal, int status, const char *why)
{
  *refusal = (mcg_http_refusal){.status = status, .why = why};
  return -1;
}

bool mcg_http_text_is(mcg_http_text text, const char *word)
{
  return text.len == strlen(word) && strncasecmp(text.at, word, text.len) == 0;
}

const mcg_http_field *mcg_http_find(const mcg_http_head *head, const char *name)
{
  for (size_t i = 0; i < head->count; i++)
    if (mcg_http_text_is(head->fields[i].name, name)) return &head->fields[i];
  return NULL;
}

bool mcg_http_name_ok(const char *name, size_t len)
{
  for (size_t i = 0; i < len; i++)
    if (!is_token(name[i])) return false;
  return len > 0;
}

bool mcg_http_value_ok(const char *value, size_t len)
{
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)value[i];
    if ((c < ' ' && c != '\t') || c == 127) return false;
  }
  return true;
}

/* ---- lines -------------------------------------------------------------------------------- */

/* Where the head ends; 0: not yet. Every line ends with CR LF, and there is no CR, LF or NUL else. */
static ssize_t find_end(const char *bytes, size_t len, mcg_http_refusal *refusal)
{
  for (size_t i = 0; i < len && i < MCG_HTTP_HEAD_MAX; i++) {
    if (bytes[i] == 0) return refuse(refusal, 400, "a NUL in the head");
    if (bytes[i] == '\n' && (i == 0 || bytes[i - 1] != '\r'))
      return refuse(refusal, 400, "a line that ends with LF alone");
    if (i > 0 && bytes[i - 1] == '\r' && bytes[i] != '\n')
      return refuse(refusal, 400, "a CR within a line");
    if (bytes[i] == '\n' && i >= 3 && bytes[i - 2] == '\n') return (ssize_t)i + 1;
    if (bytes[i] == '\n' && i == 1) return refuse(refusal, 400, "an empty line before the message");
  }
  if (len < MCG_HTTP_HEAD_MAX) return 0;
  return refuse(refusal, 431, "the head is longer than 16 KiB");
}

static bool read_field(const char *line, size_t len, mcg_http_field *out)
{
  size_t name = 0;
  while (name < len && is_token(line[name])) name++;
  if (!name || name == len || line[name] != ':') return false;
  size_t from = name + 1, end = len;
  while (from < end && (line[from] == ' ' || line[from] == '\t')) from++;
  while (end > from && (line[end - 1] == ' ' || line[end - 1] == '\t')) end--;
  *out = (mcg_http_field){{line, name}, {line + from, end - from}};
  return mcg_http_value_ok(line + from, end - from);
}

/* The lines between the first and the empty one. */
static ssize_t read_fields(const char *at, const char *end, mcg_http_head *out,
                           mcg_http_refusal *refusal)
{
  while (at < end) {
    const char *stop = memchr(at, '\r', (size_t)(end - at));
    if (!stop) break; /* never: find_end looked */
    if (*at == ' ' || *at == '\t') return refuse(refusal, 400, "a folded line");
    if (out->count == MCG_HTTP_FIELDS_MAX) return refuse(refusal, 431, "more than 128 fields");
    if (!read_field(at, (size_t)(stop - at), &out->fields[out->count++]))
      return refuse(refusal, 400, "a line that is no field");
    at = stop + 2;
  }
  return 0;
}

/* ---- what the fields say ------------------------------------------------------------------ */

/* The one field of this name; *many: there are several. A name written with _ for - is the same one to
 * servers of the CGI family. */
static const mcg_http_field *only(const mcg_http_head *head, const char *name, bool *many)
{
  const mcg_http_field *found = NULL;
  for (size_t i = 0; i < head->count; i++) {
    const mcg_http_field *field = &head->fields[i];
    bool same = field->name.len == strlen(name);
    bool bent = false;
    for (size_t k = 0; same && k < field->name.len; k++) {
      char c = field->name.at[k];
      bent |= c == '_';
      same = strncasecmp(c == '_' ? "-" : &c, &name[k], 1) == 0;
    }
    if (same && (found || bent)) *many = true;
    if (same) found = field;
  }
  return found;
}

static bool read_length(mcg_http_text value, uint64_t *out)
{
  uint64_t length = 0;
  if (!value.len || value.len > LENGTH_DIGITS) return false;
  for (size_t i = 0; i < value.len; i++) {
    if (value.at[i] < '0' || value.at[i] > '9') return false;
    length = length * 10 + (uint64_t)(value.at[i] - '0');
  }
  *out = length;
  return true;
}

/* Where the body ends, as far as the fields tell. */
static ssize_t read_framing(mcg_http_head *head, int otherwise, mcg_http_refusal *refusal)
{
  bool many = false;
  const mcg_http_field *length = only(head, "content-length", &many);
  const mcg_http_field *coding = only(head, "transfer-encoding", &many);
  if (many || (length && coding))
    return refuse(refusal, 400, "its length is said twice: Content-Length, Transfer-Encoding");
  if (coding && head->minor == 0)
    return refuse(refusal, 400, "Transfer-Encoding in a message of HTTP/1.0");
  if (coding && !mcg_http_text_is(coding->value, "chunked"))
    return refuse(refusal, otherwise, "a Transfer-Encoding other than chunked");
  if (length && !read_length(length->value, &head->length))
    return refuse(refusal, 400, "a Content-Length that is no number");
  head->framing = length ? MCG_HTTP_LENGTH : coding ? MCG_HTTP_CHUNKED : MCG_HTTP_NOTHING;
  return 0;
}

/* Is `word` one of the items of a field that is a list? */
static bool lists(const mcg_http_head *head, const char *name, const char *word)
{
  for (size_t i = 0; i < head->count; i++) {
    if (!mcg_http_text_is(head->fields[i].name, name)) continue;
    mcg_http_text rest = head->fields[i].value;
    while (rest.len) {
      const char *comma = memchr(rest.at, ',', rest.len);
      mcg_http_text item = {rest.at, comma ? (size_t)(comma - rest.at) : rest.len};
      size_t used = item.len + (comma != NULL);
      while (item.len && strchr(" \t", item.at[0])) item.at++, item.len--;
      while (item.len && strchr(" \t", item.at[item.len - 1])) item.len--;
      if (mcg_http_text_is(item, word)) return true;
      rest.at += used;
      rest.len -= used;
    }
  }
  return false;
}

static ssize_t read_connection(mcg_http_head *head, mcg_http_refusal *refusal)
{
  bool many = false;
  const mcg_http_field *upgrade = only(head, "upgrade", &many);
  head->close = head->minor == 0 || lists(head, "connection", "close");
  if (many) return refuse(refusal, 400, "two Upgrade fields");
  if (upgrade && head->minor == 1 && lists(head, "connection", "upgrade"))
    head->upgrade = upgrade->value;
  return 0;
}

/* ---- requests ----------------------------------------------------------------------------- */

static bool read_version(const char *at, size_t len, int *minor)
{
  if (len != 8 || memcmp(at, "HTTP/1.", 7) != 0 || (at[7] != '0' && at[7] != '1')) return false;
  *minor = at[7] - '0';
  return true;
}

/* "METHOD SP TARGET SP HTTP/1.1", one blank each. */
static ssize_t read_request_line(const char *line, size_t len, mcg_http_head *out,
                                 mcg_http_refusal *refusal)
{
  const char *end = line + len, *first = memchr(line, ' ', len);
  const char *second = first ? memchr(first + 1, ' ', (size_t)(end - first - 1)) : NULL;
  if (!second || !mcg_http_name_ok(line, (size_t)(first - line)) || second == first + 1)
    return refuse(refusal, 400, "a first line that is no request");
  out->method = (mcg_http_text){line, (size_t)(first - line)};
  out->target = (mcg_http_text){first + 1, (size_t)(second - first - 1)};
  if (!read_version(second + 1, (size_t)(end - second - 1), &out->minor))
    return refuse(refusal, 505, "only HTTP/1.1 is spoken here");
  return 0;
}

static ssize_t judge_request_line(const mcg_http_head *head, mcg_http_refusal *refusal)
{
  mcg_http_text method = head->method, target = head->target;
  if (mcg_http_text_is(method, "CONNECT") || mcg_http_text_is(method, "TRACE") ||
      mcg_http_text_is(method, "TRACK"))
    return refuse(refusal, 405, "this method is not let through");
  bool star = target.len == 1 && *target.at == '*' && mcg_http_text_is(method, "OPTIONS");
  if (*target.at != '/' && !star)
    return refuse(refusal, 400, "a target that is no path: it would name another server");
  for (size_t i = 0; i < target.len; i++)
    if (target.at[i] <= ' ' || target.at[i] >= 127 || target.at[i] == '#')
      return refuse(refusal, 400, "a byte in the target that must be percent-encoded");
  return 0;
}

ssize_t mcg_http_request_read(const char *bytes, size_t len, mcg_http_head *out,
                              mcg_http_refusal *refusal)
{
  ssize_t end = find_end(bytes, len, refusal);
  if (end <= 0) return end;
  *out = (mcg_http_head){0};
  const char *stop = memchr(bytes, '\r', (size_t)end);
  bool many = false;
  if (read_request_line(bytes, (size_t)(stop - bytes), out, refusal) < 0 ||
      judge_request_line(out, refusal) < 0 ||
      read_fields(stop + 2, bytes + end - 2, out, refusal) < 0 ||
      read_framing(out, 501, refusal) < 0 || read_connection(out, refusal) < 0)
    return -1;
  const mcg_http_field *host = only(out, "host", &many);
  if (!host || many) return refuse(refusal, 400, host ? "two Hosts" : "no Host");
  out->host = host->value;
  return end;
}

/* ---- responses ---------------------------------------------------------------------------- */

/* "HTTP/1.1 SP 200 SP phrase"; the phrase, and the blank before none, may be missing. */
static bool read_status_line(const char *line, size_t len, mcg_http_head *out)
{
  if (len < 12 || !read_version(line, 8, &out->minor) || line[8] != ' ') return false;
  for (size_t i = 9; i < 12; i++)
    if (line[i] < '0' || line[i] > '9') return false;
  out->status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
  if (out->status < 100 || (len > 12 && line[12] != ' ')) return false;
  if (len > 13) out->phrase = (mcg_http_text){line + 13, len - 13};
  return mcg_http_value_ok(out->phrase.at, out->phrase.len);
}

static bool is_bodiless(const mcg_http_head *head, const char *method)
{
  return head->status < 200 || head->status == 204 || head->status == 304 ||
         strcasecmp(method, "HEAD") == 0;
}

static ssize_t bad(mcg_http_refusal *refusal)
{
  refusal->status = 502;
  return -1;
}

ssize_t mcg_http_response_read(const char *bytes, size_t len, const char *method,
                               mcg_http_head *out, mcg_http_refusal *refusal)
{
  ssize_t end = find_end(bytes, len, refusal);
  if (end <= 0) return end < 0 ? bad(refusal) : 0;
  *out = (mcg_http_head){0};
  const char *stop = memchr(bytes, '\r', (size_t)end);
  if (!read_status_line(bytes, (size_t)(stop - bytes), out))
    return refuse(refusal, 502, "a first line that is no status");
  if (read_fields(stop + 2, bytes + end - 2, out, refusal) < 0 ||
      read_framing(out, 502, refusal) < 0 || read_connection(out, refusal) < 0)
    return bad(refusal);
  if (is_bodiless(out, method))
    out->framing = MCG_HTTP_NOTHING;
  else if (out->framing == MCG_HTTP_NOTHING)
    out->framing = MCG_HTTP_TO_END;
  if (out->framing == MCG_HTTP_TO_END) out->close = true;
  return end;
}
