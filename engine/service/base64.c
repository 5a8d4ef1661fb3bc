/* base64.c: encoding and strict decoding: no line breaks, padding as written, no stray bits. */
#include "base64.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *mcg_base64_encode(const void *bytes, size_t len)
{
  const uint8_t *from = bytes;
  char *text = len > (SIZE_MAX / 4 - 1) * 3 ? NULL : malloc((len + 2) / 3 * 4 + 1);
  if (!text) return NULL;
  char *to = text;
  for (size_t i = 0; i < len; i += 3) {
    size_t left = len - i;
    uint32_t word = (uint32_t)from[i] << 16 | (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) |
                    (left > 2 ? from[i + 2] : 0);
    *to++ = alphabet[word >> 18];
    *to++ = alphabet[word >> 12 & 63];
    *to++ = left > 1 ? alphabet[word >> 6 & 63] : '=';
    *to++ = left > 2 ? alphabet[word & 63] : '=';
  }
  *to = 0;
  return text;
}

static int value_of(char c)
{
  const char *at = c ? strchr(alphabet, c) : NULL;
  return at ? (int)(at - alphabet) : -1;
}

char *mcg_base64_decode(const char *text, size_t text_len, size_t *len)
{
  if (text_len % 4 != 0) return NULL;
  size_t padding = text_len ? (text[text_len - 1] == '=') + (text[text_len - 2] == '=') : 0;
  char *bytes = malloc(text_len / 4 * 3 + 1), *to = bytes;
  for (size_t i = 0; bytes && i < text_len; i += 4) {
    size_t given = i + 4 == text_len ? 4 - padding : 4;
    uint32_t word = 0;
    for (size_t j = 0; j < 4; j++) {
      int value = j < given ? value_of(text[i + j]) : 0;
      if (value < 0) goto bad;
      word = word << 6 | (uint32_t)value;
    }
    if ((given == 2 && word & 0xffff) || (given == 3 && word & 0xff)) goto bad;
    *to++ = (char)(word >> 16);
    if (given > 2) *to++ = (char)(word >> 8);
    if (given > 3) *to++ = (char)word;
  }
  if (!bytes) return NULL;
  *len = (size_t)(to - bytes);
  *to = 0;
  return bytes;
bad:
  free(bytes);
  return NULL;
}
