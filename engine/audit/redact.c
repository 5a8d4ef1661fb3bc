/* redact.c: values that must not be written anywhere, and their removal from what is. As they are
 * known they are also known in hexadecimal, in base64 (with either alphabet), percent-encoded, as JSON
 * has them, and in small and in large letters, where they are long enough for that to mean something; and
 * as our own messages show what is no printable text. What a program does to a secret beyond that cannot be
 * caught. */
#include "service/base64.h"
#include "canonical.h"
#include "engine.h"
#include "service/sha256.h"
#include <stdlib.h>
#include <string.h>

#define CODED_MIN 8 /* shorter ones are looked for as they are only */
#define PART_MAX 16 /* bytes of the start of one that tell it: half of it, */
#define PART_MIN 10 /* and no fewer than these, which are no word */

typedef struct secret {
  char *bytes;
  size_t len;
  bool given; /* else it is another spelling of one that was */
} secret;

struct mcg_secrets {
  secret *list; /* longest first, so that a part of one does not hide it */
  size_t count;
};

mcg_secrets *mcg_secrets_new(void)
{
  return calloc(1, sizeof(mcg_secrets));
}

void mcg_secrets_free(mcg_secrets *secrets)
{
  if (!secrets) return;
  for (size_t i = 0; i < secrets->count; i++) {
    explicit_bzero(secrets->list[i].bytes, secrets->list[i].len);
    free(secrets->list[i].bytes);
  }
  free(secrets->list);
  free(secrets);
}

/* Takes the bytes. */
static bool add(mcg_secrets *secrets, char *bytes, size_t len, bool given)
{
  if (!bytes) return false;
  size_t at = 0;
  for (; at < secrets->count && secrets->list[at].len >= len; at++) {
    if (secrets->list[at].len != len || memcmp(secrets->list[at].bytes, bytes, len) != 0) continue;
    secrets->list[at].given |= given;
    explicit_bzero(bytes, len);
    free(bytes);
    return true;
  }
  secret *longer = realloc(secrets->list, (secrets->count + 1) * sizeof *longer);
  if (!longer) {
    free(bytes);
    return false;
  }
  secrets->list = longer;
  memmove(longer + at + 1, longer + at, (secrets->count - at) * sizeof *longer);
  longer[at] = (secret){.bytes = bytes, .len = len, .given = given};
  secrets->count++;
  return true;
}

static bool add_hex(mcg_secrets *secrets, const void *bytes, size_t len, bool upper)
{
  char *hex = malloc(2 * len);
  if (hex) mcg_hex(bytes, len, hex);
  for (size_t i = 0; hex && upper && i < 2 * len; i++)
    if (hex[i] >= 'a') hex[i] = (char)(hex[i] - 'a' + 'A');
  return add(secrets, hex, 2 * len, false);
}

/* As it is in the base64 of a longer text, `before` bytes into a group of three: without the digits
 * that depend on what is before and behind it too. */
static bool add_base64(mcg_secrets *secrets, const char *bytes, size_t len, size_t before, bool url)
{
  static const size_t shared[] = {0, 2, 3}; /* digits at the start */
  size_t total = before + len; /* the last group has as many digits of its own as bytes */
  size_t digits = total / 3 * 4 + total % 3 - shared[before];
  char *padded = calloc(1, total + 2), *coded = NULL;
  if (padded) {
    memcpy(padded + before, bytes, len);
    coded = mcg_base64_encode(padded, total + 2);
    explicit_bzero(padded, total);
  }
  free(padded);
  if (coded) memmove(coded, coded + shared[before], digits);
  for (size_t i = 0; coded && url && i < digits; i++)
    coded[i] = (char)(coded[i] == '+' ? '-' : coded[i] == '/' ? '_' : coded[i]);
  return add(secrets, coded, digits, false);
}

static bool add_percent(mcg_secrets *secrets, const char *bytes, size_t len, bool upper)
{
  const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  char *coded = malloc(3 * len);
  size_t at = 0;
  for (size_t i = 0; coded && i < len; i++) {
    unsigned char c = (unsigned char)bytes[i];
    bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                 (c && strchr("-._~", c));
    if (plain) {
      coded[at++] = (char)c;
    } else {
      coded[at++] = '%';
      coded[at++] = digits[c >> 4];
      coded[at++] = digits[c & 15];
    }
  }
  return add(secrets, coded, at, false);
}

/* Within a string of JSON; some writers escape the slash, too, or write their digits large. */
static bool add_json(mcg_secrets *secrets, const char *bytes, size_t len, bool second)
{
  static const char letters[] = "btn\0fr"; /* 8 to 13 */
  const char *digits = second ? "0123456789ABCDEF" : "0123456789abcdef";
  char *coded = malloc(6 * len);
  size_t at = 0;
  for (size_t i = 0; coded && i < len; i++) {
    unsigned char c = (unsigned char)bytes[i];
    char letter = c >= 8 && c <= 13 ? letters[c - 8] : '\0';
    if (c < ' ' && !letter) {
      memcpy(coded + at, (char[]){'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]}, 6);
      at += 6;
      continue;
    }
    if (letter || c == '"' || c == '\\' || (second && c == '/')) coded[at++] = '\\';
    coded[at++] = letter ? letter : (char)c;
  }
  return add(secrets, coded, at, false);
}

/* As our own messages have it, which are one line whatever is in them. */
static bool add_one_line(mcg_secrets *secrets, const char *bytes, size_t len)
{
  if (memchr(bytes, '\0', len)) return true; /* no message holds it */
  char *text = strndup(bytes, len);
  char *line = text ? mcg_one_line(text) : NULL;
  if (text) explicit_bzero(text, len);
  free(text);
  return add(secrets, line, line ? strlen(line) : 0, false);
}

/* As names of hosts and of variables have it. */
static bool add_case(mcg_secrets *secrets, const char *bytes, size_t len, bool upper)
{
  char *copy = malloc(len);
  for (size_t i = 0; copy && i < len; i++) {
    char c = bytes[i];
    if (upper)
      copy[i] = (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    else
      copy[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return add(secrets, copy, len, false);
}

static bool add_codings(mcg_secrets *secrets, const void *bytes, size_t len)
{
  for (int second = 0; second < 2; second++) {
    for (size_t before = 0; before < 3; before++)
      if (!add_base64(secrets, bytes, len, before, second)) return false;
    if (!add_hex(secrets, bytes, len, second) || !add_percent(secrets, bytes, len, second) ||
        !add_json(secrets, bytes, len, second) || !add_case(secrets, bytes, len, second))
      return false;
  }
  return true;
}

bool mcg_secrets_add(mcg_secrets *secrets, const void *bytes, size_t len)
{
  if (!len) return true;
  char *copy = malloc(len);
  if (copy) memcpy(copy, bytes, len);
  if (!add(secrets, copy, len, true) || !add_one_line(secrets, bytes, len)) return false;
  return len < CODED_MIN || add_codings(secrets, bytes, len);
}

json_t *mcg_secrets_json(const mcg_secrets *secrets)
{
  json_t *list = json_array();
  for (size_t i = 0; list && i < secrets->count; i++) {
    const secret *one = &secrets->list[i];
    if (!one->given) continue;
    char *coded = mcg_base64_encode(one->bytes, one->len);
    if (!coded || json_array_append_new(list, json_string(coded)) < 0) {
      json_decref(list);
      list = NULL;
    }
    free(coded);
  }
  return list;
}

const char *mcg_redact(const mcg_secrets *secrets, const char *bytes, size_t len, size_t *out_len,
                       char **fresh)
{
  *fresh = NULL;
  *out_len = len;
  for (size_t i = 0; secrets && i < secrets->count; i++) {
    const secret *one = &secrets->list[i];
    const char *found = memmem(bytes, *out_len, one->bytes, one->len);
    if (!found) continue;
    /* "***" may be longer than what it stands for. */
    char *clean = malloc(*out_len * 3 + 1);
    size_t at = 0;
    const char *from = bytes, *end = bytes + *out_len;
    for (; clean && found; found = memmem(from, (size_t)(end - from), one->bytes, one->len)) {
      memcpy(clean + at, from, (size_t)(found - from));
      at += (size_t)(found - from);
      memcpy(clean + at, "***", 3);
      at += 3;
      from = found + one->len;
    }
    if (clean) memcpy(clean + at, from, (size_t)(end - from));
    if (clean) *out_len = at + (size_t)(end - from);
    free(*fresh);
    *fresh = clean;
    if (!clean) return NULL;
    bytes = clean;
  }
  return bytes;
}

/* How many bytes here are the start of a secret, in whichever spelling goes on for longest; 0: too few. */
static size_t part_here(const mcg_secrets *secrets, const char *bytes, size_t len)
{
  size_t longest = 0;
  for (size_t i = 0; secrets && i < secrets->count; i++) {
    const secret *one = &secrets->list[i];
    size_t n = 0, least = one->len / 2 < PART_MAX ? one->len / 2 : PART_MAX;
    while (n < len && n < one->len && bytes[n] == one->bytes[n]) n++;
    if (least >= PART_MIN && n >= least && n > longest) longest = n;
  }
  return longest;
}

char *mcg_redact_parts(const mcg_secrets *secrets, const char *bytes, size_t len)
{
  char *clean = malloc(len + 1); /* a part is longer than what stands for it */
  size_t out = 0;
  for (size_t i = 0; clean && i < len;) {
    size_t part = part_here(secrets, bytes + i, len - i);
    if (part) {
      memcpy(clean + out, "***", 3);
      out += 3;
      i += part;
    } else {
      clean[out++] = bytes[i++];
    }
  }
  if (clean) clean[out] = '\0';
  return clean;
}

void mcg_secrets_mask(const mcg_secrets *secrets, char *bytes, size_t len)
{
  for (size_t i = 0; secrets && i < secrets->count; i++) {
    const secret *one = &secrets->list[i];
    char *at = bytes, *end = bytes + len;
    while ((at = memmem(at, (size_t)(end - at), one->bytes, one->len)))
      at = (char *)memset(at, '*', one->len) + one->len;
  }
}

size_t mcg_secrets_tail(const mcg_secrets *secrets, const char *bytes, size_t len)
{
  size_t longest = 0;
  for (size_t i = 0; secrets && i < secrets->count; i++) {
    const secret *one = &secrets->list[i];
    for (size_t n = one->len - 1 < len ? one->len - 1 : len; n > longest; n--)
      if (memcmp(bytes + len - n, one->bytes, n) == 0) longest = n;
  }
  return longest;
}
