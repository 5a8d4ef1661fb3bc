/* check.c: one function a type, one wording for all of them. */
#include "check.h"
#include "service/base64.h"
#include "engine.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

char *mcg_where_text(const mcg_where *where)
{
  if (!where) return strdup("config");
  auto_free char *up = where->up ? mcg_where_text(where->up) : strdup("");
  if (!up) return NULL;
  if (!where->key) return mcg_format("%s[%zu]", up, where->index + 1);
  return *up ? mcg_format("%s.%s", up, where->key) : strdup(where->key);
}

int mcg_check_fail(const mcg_where *where, mcg_error **err, const char *fix, const char *format,
                   ...)
{
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  auto_free char *path = mcg_where_text(where);
  return mcg_fail(err, MCG_INVALID, fix, "%s: %s", path ? path : "config", text);
}

static const char *type_name(const json_t *value)
{
  switch (json_typeof(value)) {
  case JSON_OBJECT: return "a table";
  case JSON_ARRAY: return "a list";
  case JSON_STRING: return "a string";
  case JSON_INTEGER:
  case JSON_REAL: return "a number";
  case JSON_TRUE:
  case JSON_FALSE: return "a boolean";
  default: return "nothing";
  }
}

static int wrong(const json_t *value, const char *wanted, const mcg_where *where, mcg_error **err)
{
  auto_free char *fix = mcg_format("write %s there", wanted);
  return mcg_check_fail(where, err, fix, "expected %s, found %s", wanted,
                        value ? type_name(value) : "nothing");
}

bool mcg_is_table(const json_t *value)
{
  return json_is_object(value) || (json_is_array(value) && json_array_size(value) == 0);
}

bool mcg_is_list(const json_t *value)
{
  return json_is_array(value) || (json_is_object(value) && json_object_size(value) == 0);
}

int mcg_check_object(const json_t *value, const mcg_where *where, mcg_error **err)
{
  return mcg_is_table(value) ? 0 : wrong(value, "a table", where, err);
}

int mcg_check_list(const json_t *value, const mcg_where *where, mcg_error **err)
{
  return mcg_is_list(value) ? 0 : wrong(value, "a list", where, err);
}

int mcg_check_keys(const json_t *value, const char *const *known, const mcg_where *where,
                   mcg_error **err)
{
  if (mcg_check_object(value, where, err) < 0) return -1;
  const char *key;
  json_t *ignored;
  json_object_foreach((json_t *)value, key, ignored)
  {
    const char *const *name = known;
    while (*name && strcmp(*name, key) != 0) name++;
    if (*name) continue;
    auto_free char *fix = mcg_names_fix(key, known);
    mcg_where at = {.up = where, .key = key};
    return mcg_check_fail(&at, err, fix, "unknown key");
  }
  return 0;
}

int mcg_check_string(const json_t *value, const mcg_where *where, const char **out, mcg_error **err)
{
  if (json_is_object(value) && json_is_string(json_object_get(value, "base64")))
    return mcg_check_fail(where, err, "write text in UTF-8", "it holds bytes that are no text");
  if (!json_is_string(value)) return wrong(value, "a string", where, err);
  *out = json_string_value(value);
  if (strlen(*out) != json_string_length(value))
    return mcg_check_fail(where, err, "leave the NUL byte out", "it holds a NUL byte");
  return 0;
}

int mcg_check_bool(const json_t *value, const mcg_where *where, bool *out, mcg_error **err)
{
  if (!json_is_boolean(value)) return wrong(value, "true or false", where, err);
  *out = json_is_true(value);
  return 0;
}

int mcg_check_number(const json_t *value, const mcg_where *where, double low, double high,
                     bool whole, double *out, mcg_error **err)
{
  if (!json_is_number(value)) return wrong(value, "a number", where, err);
  *out = json_number_value(value);
  if (!isfinite(*out) || *out < low || *out > high) {
    auto_free char *fix = mcg_format("write a number from %.15g to %.15g", low, high);
    return mcg_check_fail(where, err, fix, "%.15g is not between %.15g and %.15g", *out, low, high);
  }
  if (whole && *out != floor(*out))
    return mcg_check_fail(where, err, "leave the fraction out", "%.15g is not a whole number",
                          *out);
  return 0;
}

int mcg_check_bytes(const json_t *value, const mcg_where *where, char **out, size_t *len,
                    mcg_error **err)
{
  const json_t *coded = json_object_size(value) == 1 ? json_object_get(value, "base64") : NULL;
  if (coded) {
    *out = json_is_string(coded)
               ? mcg_base64_decode(json_string_value(coded), json_string_length(coded), len)
               : NULL;
    return *out ? 0 : mcg_check_fail(where, err, "encode it anew", "it is not base64");
  }
  if (!json_is_string(value)) return wrong(value, "a string", where, err);
  *len = json_string_length(value);
  *out = malloc(*len + 1);
  if (!*out) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the configuration");
  memcpy(*out, json_string_value(value), *len + 1);
  return 0;
}

int mcg_check_mode(const json_t *value, const mcg_where *where, unsigned *out, mcg_error **err)
{
  if (json_is_integer(value)) {
    double number;
    if (mcg_check_number(value, where, 0, 0777, true, &number, err) < 0) return -1;
    *out = (unsigned)number;
    return 0;
  }
  const char *text;
  if (mcg_check_string(value, where, &text, err) < 0) return -1;
  char *end;
  unsigned long mode = strtoul(text, &end, 8);
  if (!*text || *end || strspn(text, "01234567") != strlen(text) || mode > 0777)
    return mcg_check_fail(where, err, "write it as \"0644\"", "\"%s\" is not an octal mode", text);
  *out = (unsigned)mode;
  return 0;
}

void mcg_path_clean(char *path)
{
  char *out = path;
  const char *at = path;
  if (*at == '/') *out++ = '/';
  char *first = out;
  while (*at) {
    size_t len = strcspn(at, "/");
    if (len > 1 || (len == 1 && *at != '.')) {
      if (out > first) *out++ = '/';
      memmove(out, at, len);
      out += len;
    }
    at += len + (at[len] == '/');
  }
  if (out == path && *path) *out++ = '.';
  *out = '\0';
}

bool mcg_path_climbs(const char *path)
{
  for (const char *at = path; *at;) {
    size_t len = strcspn(at, "/");
    if (len == 2 && memcmp(at, "..", 2) == 0) return true;
    at += len + (at[len] == '/');
  }
  return false;
}
