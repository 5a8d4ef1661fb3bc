/* canonical.c: strings, numbers and values in the one spelling of RFC 8785. */
#include "canonical.h"
#include "audit.h"
#include "service/base64.h"
#include "service/sha256.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN ((size_t)1 << 10)         /* of a text that is cut */
#define WORDS_BUDGET ((size_t)32 << 10) /* bytes of all words that are written whole */
#define WORD_SHOWN ((size_t)256)        /* else each at most so long */
#define WORDS_SHOWN 64                  /* and so many */
#define DEPTH_MAX 32

/* ---- the buffer --------------------------------------------------------------------------- */

void mcg_text_fini(mcg_text *text)
{
  free(text->data);
  *text = (mcg_text){0};
}

bool mcg_text_grow(mcg_text *text, size_t more)
{
  size_t cap = text->cap ? text->cap : 512;
  while (cap - text->len < more && cap <= SIZE_MAX / 4) cap *= 2;
  char *longer = cap - text->len < more ? NULL : realloc(text->data, cap);
  if (!longer) {
    text->failed = true;
    return false;
  }
  text->data = longer;
  text->cap = cap;
  return true;
}

/* ---- strings ------------------------------------------------------------------------------ */

/* The character at `s`, its bytes to *n; -1: no UTF-8 (RFC 3629: no surrogates, no overlongs). */
static int32_t character(const unsigned char *s, size_t left, size_t *n)
{
  static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (s[0] < 0x80) {
    *n = 1;
    return s[0];
  }
  *n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
  if (s[0] < 0xc2 || s[0] > 0xf4 || *n > left) return -1;
  int32_t c = s[0] & (0xff >> (*n + 1));
  for (size_t i = 1; i < *n; i++) {
    if ((s[i] & 0xc0) != 0x80) return -1;
    c = c << 6 | (s[i] & 0x3f);
  }
  return c < least[*n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) ? -1 : c;
}

/* What RFC 8785 writes as it is, but a terminal or a reader of lines would obey: C1 controls, line
 * separators, directions. */
static bool obeyed(int32_t c)
{
  return (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || (c >= 0x202a && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

/* Bytes at the start that are clean text. */
static size_t clean_length(const char *bytes, size_t len)
{
  size_t n;
  for (size_t i = 0; i < len; i += n) {
    unsigned char byte = (unsigned char)bytes[i];
    n = 1;
    if (byte < 0x7f) continue;
    int32_t c = character((const unsigned char *)bytes + i, len - i, &n);
    if (c < 0 || obeyed(c)) return i;
  }
  return len;
}

static void escape(mcg_text *text, unsigned char byte)
{
  static const char digits[] = "0123456789abcdef";
  static const char letters[] = "btn\0fr"; /* 8 to 13 */
  char six[6] = {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
  char two[2] = {'\\', (char)byte};
  if (byte == '"' || byte == '\\') {
    mcg_text_put(text, two, 2);
  } else if (byte >= 8 && byte <= 13 && letters[byte - 8]) {
    two[1] = letters[byte - 8];
    mcg_text_put(text, two, 2);
  } else {
    mcg_text_put(text, six, 6);
  }
}

static void put_string(mcg_text *text, const char *bytes, size_t len)
{
  size_t from = 0;
  if (!mcg_text_room(text, len + 2)) return;
  text->data[text->len++] = '"';
  for (size_t i = 0; i < len; i++) {
    unsigned char byte = (unsigned char)bytes[i];
    if (byte >= ' ' && byte != '"' && byte != '\\') continue;
    mcg_text_put(text, bytes + from, i - from);
    escape(text, byte);
    from = i + 1;
  }
  mcg_text_put(text, bytes + from, len - from);
  mcg_text_literal(text, "\"");
}

static void put_bytes(mcg_text *text, const char *bytes, size_t len)
{
  char *coded = mcg_base64_encode(bytes, len);
  if (!coded) {
    text->failed = true;
    return;
  }
  mcg_text_literal(text, "{\"base64\":\"");
  mcg_text_put(text, coded, strlen(coded));
  mcg_text_literal(text, "\"}");
  free(coded);
}

/* Printable ASCII without quote and backslash: what nearly everything is. */
static bool is_plain(const char *bytes, size_t len)
{
  unsigned odd = 0;
  for (size_t i = 0; i < len; i++) {
    unsigned char byte = (unsigned char)bytes[i];
    odd |= (unsigned)(byte < ' ') | (byte > 0x7e) | (byte == '"') | (byte == '\\');
  }
  return !odd;
}

static void put_any(mcg_text *text, const char *bytes, size_t len)
{
  if (is_plain(bytes, len) && mcg_text_room(text, len + 2)) {
    char *at = text->data + text->len;
    *at = '"';
    memcpy(at + 1, bytes, len);
    at[len + 1] = '"';
    text->len += len + 2;
    return;
  }
  if (clean_length(bytes, len) == len)
    put_string(text, bytes, len);
  else
    put_bytes(text, bytes, len);
}

static void put_sha256(mcg_text *text, mcg_sha256 *hash)
{
  uint8_t digest[32];
  char hex[64];
  mcg_sha256_final(hash, digest);
  mcg_hex(digest, sizeof digest, hex);
  mcg_text_literal(text, "\"sha256\":\"");
  mcg_text_put(text, hex, sizeof hex);
  mcg_text_literal(text, "\"");
}

static void put_cut(mcg_text *text, const char *bytes, size_t len, size_t shown)
{
  mcg_sha256 hash;
  mcg_sha256_init(&hash);
  mcg_sha256_update(&hash, bytes, len);
  /* A character that the cut goes through is left out. */
  size_t n = shown;
  for (size_t back = 0; back < 4 && n > 0 && ((unsigned char)bytes[n] & 0xc0) == 0x80; back++) n--;
  mcg_text_literal(text, "{\"len\":");
  mcg_text_whole(text, len);
  mcg_text_literal(text, ",");
  put_sha256(text, &hash);
  mcg_text_literal(text, ",\"text\":");
  put_any(text, bytes, n);
  mcg_text_literal(text, "}");
}

void mcg_text_foreign(mcg_text *text, const mcg_secrets *secrets, const char *bytes, size_t len,
                      size_t most)
{
  char *fresh = NULL;
  if (secrets) bytes = mcg_redact(secrets, bytes, len, &len, &fresh);
  if (!bytes)
    text->failed = true;
  else if (len > most)
    put_cut(text, bytes, len, most < SHOWN ? most : SHOWN);
  else
    put_any(text, bytes, len);
  free(fresh);
}

/* The words from here on, that are too many to be written. */
static void put_rest(mcg_text *text, const char *const *words)
{
  mcg_sha256 hash;
  uint64_t len = 0, count = 0;
  mcg_sha256_init(&hash);
  for (; words[count]; count++) {
    size_t one = strlen(words[count]) + 1;
    mcg_sha256_update(&hash, words[count], one);
    len += one;
  }
  mcg_text_literal(text, "{\"len\":");
  mcg_text_whole(text, len);
  mcg_text_literal(text, ",");
  put_sha256(text, &hash);
  mcg_text_literal(text, ",\"words\":");
  mcg_text_whole(text, count);
  mcg_text_literal(text, "}");
}

void mcg_text_words(mcg_text *text, const mcg_secrets *secrets, const char *const *words)
{
  size_t total = 0;
  for (size_t i = 0; words[i] && total <= WORDS_BUDGET; i++) total += strlen(words[i]) + 3;
  bool cut = total > WORDS_BUDGET;
  mcg_text_literal(text, "[");
  for (size_t i = 0; words[i]; i++) {
    if (i) mcg_text_literal(text, ",");
    if (cut && i == WORDS_SHOWN) {
      put_rest(text, words + i);
      break;
    }
    mcg_text_foreign(text, secrets, words[i], strlen(words[i]), cut ? WORD_SHOWN : MCG_TEXT_MAX);
  }
  mcg_text_literal(text, "]");
}

/* ---- numbers ------------------------------------------------------------------------------ */

void mcg_text_whole(mcg_text *text, uint64_t number)
{
  char digits[20];
  size_t at = sizeof digits;
  do {
    digits[--at] = (char)('0' + number % 10);
    number /= 10;
  } while (number);
  mcg_text_put(text, digits + at, sizeof digits - at);
}

/* The digits of a positive number, as few as give it back, and where its point is. */
static int shortest(double number, char digits[20], int *point)
{
  char spelled[40];
  /* 15 digits are never too many, but where the number is so small that it has fewer bits. */
  for (int precision = number < 1e-300 ? 0 : 14; precision < 17; precision++) {
    snprintf(spelled, sizeof spelled, "%.*e", precision, number);
    if (strtod(spelled, NULL) == number) break;
  }
  int count = 0;
  const char *at = spelled;
  for (; *at && *at != 'e'; at++)
    if (*at >= '0' && *at <= '9') digits[count++] = *at; /* whatever the locale's point is */
  *point = atoi(at + 1) + 1;
  while (count > 1 && digits[count - 1] == '0') count--;
  return count;
}

static void put_zeros(mcg_text *text, int count)
{
  while (count-- > 0) mcg_text_literal(text, "0");
}

/* Number::toString of ECMAScript: 6.1.6.1.20. */
static void put_real(mcg_text *text, double number)
{
  char digits[20];
  int n, k = shortest(number, digits, &n);
  size_t count = (size_t)k;
  if (k <= n && n <= 21) {
    mcg_text_put(text, digits, count);
    put_zeros(text, n - k);
  } else if (0 < n && n <= 21) {
    mcg_text_put(text, digits, (size_t)n);
    mcg_text_literal(text, ".");
    mcg_text_put(text, digits + n, count - (size_t)n);
  } else if (-6 < n && n <= 0) {
    mcg_text_literal(text, "0.");
    put_zeros(text, -n);
    mcg_text_put(text, digits, count);
  } else {
    mcg_text_put(text, digits, 1);
    if (k > 1) mcg_text_literal(text, ".");
    mcg_text_put(text, digits + 1, count - 1);
    if (n > 0)
      mcg_text_literal(text, "e+");
    else
      mcg_text_literal(text, "e-");
    mcg_text_whole(text, (uint64_t)(n > 0 ? n - 1 : 1 - n));
  }
}

void mcg_text_number(mcg_text *text, double number)
{
  if (!isfinite(number)) {
    mcg_text_literal(text, "null");
    return;
  }
  if (number < 0) {
    mcg_text_literal(text, "-");
    number = -number;
  }
  if (number == floor(number) && number < 9007199254740992.0)
    mcg_text_whole(text, (uint64_t)number);
  else
    put_real(text, number);
}

/* ---- values ------------------------------------------------------------------------------- */

/* Where UTF-8 and UTF-16 order differ: characters past U+FFFF come before those from U+E000 on. */
static int key_rank(unsigned char byte)
{
  return byte >= 0xf0 ? 8 * 0xed + 1 + (byte - 0xf0) : 8 * byte;
}

static int compare_keys(const void *a, const void *b)
{
  const unsigned char *x = *(const unsigned char *const *)a, *y = *(const unsigned char *const *)b;
  while (*x && *x == *y) {
    x++;
    y++;
  }
  return key_rank(*x) - key_rank(*y);
}

static void put_value(mcg_text *text, const mcg_secrets *secrets, const json_t *value, int depth);

static void put_object(mcg_text *text, const mcg_secrets *secrets, const json_t *object, int depth)
{
  size_t count = json_object_size(object), i = 0;
  const char **keys = calloc(count + 1, sizeof *keys);
  if (!keys) {
    text->failed = true;
    return;
  }
  for (void *it = json_object_iter((json_t *)object); it;
       it = json_object_iter_next((json_t *)object, it))
    keys[i++] = json_object_iter_key(it);
  qsort(keys, count, sizeof *keys, compare_keys);
  mcg_text_literal(text, "{");
  for (i = 0; i < count; i++) {
    if (i) mcg_text_literal(text, ",");
    put_string(text, keys[i], strlen(keys[i]));
    mcg_text_literal(text, ":");
    put_value(text, secrets, json_object_get(object, keys[i]), depth + 1);
  }
  mcg_text_literal(text, "}");
  free(keys);
}

static void put_list(mcg_text *text, const mcg_secrets *secrets, const json_t *list, int depth)
{
  mcg_text_literal(text, "[");
  for (size_t i = 0; i < json_array_size(list); i++) {
    if (i) mcg_text_literal(text, ",");
    put_value(text, secrets, json_array_get(list, i), depth + 1);
  }
  mcg_text_literal(text, "]");
}

static void put_value(mcg_text *text, const mcg_secrets *secrets, const json_t *value, int depth)
{
  if (depth > DEPTH_MAX) {
    mcg_text_literal(text, "null");
    return;
  }
  switch (value ? json_typeof(value) : JSON_NULL) {
  case JSON_OBJECT: put_object(text, secrets, value, depth); return;
  case JSON_ARRAY: put_list(text, secrets, value, depth); return;
  case JSON_STRING:
    if (secrets)
      mcg_text_foreign(text, secrets, json_string_value(value), json_string_length(value),
                       MCG_TEXT_MAX);
    else
      put_string(text, json_string_value(value), json_string_length(value));
    return;
  case JSON_INTEGER:
  case JSON_REAL: mcg_text_number(text, json_number_value(value)); return;
  case JSON_TRUE: mcg_text_literal(text, "true"); return;
  case JSON_FALSE: mcg_text_literal(text, "false"); return;
  case JSON_NULL: mcg_text_literal(text, "null"); return;
  }
}

void mcg_text_json(mcg_text *text, const mcg_secrets *secrets, const json_t *value)
{
  put_value(text, secrets, value, 0);
}

json_t *mcg_json_bytes(const char *text)
{
  json_t *plain = json_string(text);
  if (plain) return plain;
  auto_free char *coded = mcg_base64_encode(text, strlen(text));
  return coded ? json_pack("{s:s}", "base64", coded) : NULL;
}
