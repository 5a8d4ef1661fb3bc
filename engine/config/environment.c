/* environment.c: names and values for commands. */
#include "config.h"
#include <string.h>

void mcg_environment_free(char **list)
{
  for (char **at = list; at && *at; at++) free(*at);
  free(list);
}

/* What a shell can name, and a little more: no '=', no control byte, no blank. */
bool mcg_environment_name_ok(const char *text, size_t len)
{
  if (!len) return false;
  for (size_t i = 0; i < len; i++)
    if ((unsigned char)text[i] <= ' ' || text[i] == '=' || text[i] == 127) return false;
  return true;
}

static size_t name_length(const char *text)
{
  return strcspn(text, "=");
}

int mcg_environment_set(char ***list, const char *text, size_t len, mcg_error **err)
{
  size_t count = 0, name = name_length(text);
  char *copy = strndup(text, len);
  if (!copy) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the environment");
  for (char **at = *list; at && *at; at++, count++) {
    if (name_length(*at) != name || memcmp(*at, text, name) != 0) continue;
    free(*at);
    *at = copy;
    return 0;
  }
  char **longer = realloc(*list, (count + 2) * sizeof *longer);
  if (!longer) {
    free(copy);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the environment");
  }
  longer[count] = copy;
  longer[count + 1] = NULL;
  *list = longer;
  return 0;
}

static bool is_set(char *const *list, const char *text)
{
  size_t name = name_length(text) + 1;
  for (; list && *list; list++)
    if (strncmp(*list, text, name) == 0) return true;
  return false;
}

int mcg_environment_trust(char ***list, mcg_error **err)
{
#define BUNDLE "/etc/ssl/certs/ca-certificates.crt"
  static const char *const texts[] = {
      "SSL_CERT_FILE=" BUNDLE,  "REQUESTS_CA_BUNDLE=" BUNDLE,
      "CURL_CA_BUNDLE=" BUNDLE, "GIT_SSL_CAINFO=" BUNDLE,
      "AWS_CA_BUNDLE=" BUNDLE,  "NODE_EXTRA_CA_CERTS=/etc/ssl/certs/mooncage.pem"};
#undef BUNDLE
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (!is_set(*list, texts[i]) && mcg_environment_set(list, texts[i], strlen(texts[i]), err) < 0)
      return -1;
  return 0;
}

static int set_value(char ***list, const char *name, const json_t *value, const mcg_where *where,
                     mcg_error **err)
{
  if (!mcg_environment_name_ok(name, strlen(name)))
    return mcg_check_fail(where, err, "use letters, digits and _", "this is no name of a variable");
  auto_free char *bytes = NULL;
  size_t len;
  if (mcg_check_bytes(value, where, &bytes, &len, err) < 0) return -1;
  if (memchr(bytes, 0, len))
    return mcg_check_fail(where, err, "leave the NUL byte out", "its value holds a NUL byte");
  auto_free char *text = mcg_format("%s=%s", name, bytes);
  if (!text) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the environment");
  return mcg_environment_set(list, text, strlen(text), err);
}

int mcg_environment_read(const json_t *environment, const mcg_where *where, char ***list,
                         mcg_error **err)
{
  if (!environment) return 0;
  if (mcg_check_object(environment, where, err) < 0) return -1;
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)environment, name, value)
  {
    mcg_where at = {.up = where, .key = name};
    if (set_value(list, name, value, &at, err) < 0) return -1;
  }
  return 0;
}
