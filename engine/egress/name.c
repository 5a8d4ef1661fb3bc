/* name.c: see name.h. What a resolver or a browser could read in another way than we do is bad. */
#include "name.h"
#include <string.h>

#define LABEL_MAX 63

static bool is_digit(char c)
{
  return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
  return is_digit(c) || (c >= 'a' && c <= 'f');
}

/* One that a URL parser takes for a part of an IPv4 address: digits, or 0x and hexadecimal ones. */
static bool is_number(const char *label)
{
  bool hex = label[0] == '0' && label[1] == 'x';
  if (hex) label += 2;
  while (hex ? is_hex(*label) : is_digit(*label)) label++;
  return *label == '\0';
}

static const char *label_fault(const char *label, size_t len)
{
  if (len == 0) return "it has an empty label";
  if (len > LABEL_MAX) return "a label of it is longer than 63 characters";
  if (label[0] == '-' || label[len - 1] == '-') return "a label of it starts or ends with '-'";
  return NULL;
}

/* Copies it in lower case. */
static const char *copy_name(const char *text, size_t len, char *out)
{
  for (size_t i = 0; i < len; i++) {
    char c = text[i];
    if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
    if ((unsigned char)c >= 0x80) return "it holds a character that is not ASCII";
    if (!is_digit(c) && !(c >= 'a' && c <= 'z') && c != '-' && c != '.')
      return "it holds a character that no host name has";
    out[i] = c;
  }
  out[len] = '\0';
  return NULL;
}

static const char *name_fault(const char *name)
{
  const char *label = name;
  for (;;) {
    size_t len = strcspn(label, ".");
    const char *fault = label_fault(label, len);
    if (fault) return fault;
    if (label[len] == '\0') break;
    label += len + 1;
  }
  return is_number(label) ? "it ends in a number and is no address" : NULL;
}

mcg_name_kind mcg_name_normalise(const char *text, size_t len, char out[MCG_NAME_ROOM],
                                 mcg_address *address, const char **why)
{
  bool bracketed = len >= 2 && text[0] == '[' && text[len - 1] == ']';
  if (bracketed) {
    if (mcg_address_parse(text + 1, len - 2, address) && memchr(text, ':', len))
      return MCG_NAME_ADDRESS;
    *why = "there is no IPv6 address in the brackets";
    return MCG_NAME_BAD;
  }
  if (len > 0 && text[len - 1] == '.') len--;
  *why = len == 0 ? "it is empty" : len > MCG_NAME_MAX ? "it is longer than 253 characters" : NULL;
  if (*why) return MCG_NAME_BAD;
  if (mcg_address_parse(text, len, address)) return MCG_NAME_ADDRESS;
  *why = copy_name(text, len, out);
  if (!*why) *why = name_fault(out);
  return *why ? MCG_NAME_BAD : MCG_NAME_HOST;
}

bool mcg_name_beneath(const char *name, const char *suffix)
{
  size_t len = strlen(name), tail = strlen(suffix);
  return len > tail + 1 && name[len - tail - 1] == '.' && strcmp(name + len - tail, suffix) == 0;
}
