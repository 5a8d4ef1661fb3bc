/* A manifest, as JSON: what is taken has a hash, the same after the text was written in another order and
 * spacing; its users and its environment are what they must be. */
#include "fuzz.h"
#include "engine.h"
#include "config/manifest.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>

static void check_parts(const mcg_manifest *manifest)
{
  size_t count = 0;
  const mcg_user *users = mcg_manifest_users(manifest, &count);
  for (size_t i = 0; i < count; i++) FUZZ_NEED(users[i].name && *users[i].name);
  for (const char *const *at = mcg_manifest_environment(manifest); at && *at; at++) {
    const char *sign = strchr(*at, '=');
    FUZZ_NEED(sign && sign > *at);
  }
}

static bool is_hash(const char hash[65])
{
  size_t digits = 0;
  while (isxdigit((unsigned char)hash[digits])) digits++;
  return digits == 64 && hash[64] == '\0';
}

static void check_hash(const mcg_manifest *manifest, json_t *value)
{
  char one[65], two[65];
  mcg_error *err = NULL;
  FUZZ_NEED(mcg_manifest_hash(manifest, one, &err) == 0 && is_hash(one));
  char *sorted = json_dumps(value, JSON_SORT_KEYS | JSON_INDENT(3));
  FUZZ_NEED(sorted);
  json_t *again = json_loads(sorted, 0, NULL);
  mcg_manifest *other = again ? mcg_manifest_parse(again, &err) : NULL;
  FUZZ_NEED(other && mcg_manifest_hash(other, two, &err) == 0 && strcmp(one, two) == 0);
  mcg_manifest_free(other);
  json_decref(again);
  free(sorted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  mcg_error *err = NULL;
  json_t *value = mcg_json_parse(size ? (const char *)data : "", size, &err);
  mcg_manifest *manifest = value ? mcg_manifest_parse(value, &err) : NULL;
  FUZZ_NEED(!manifest == !!err);
  if (manifest) {
    check_parts(manifest);
    check_hash(manifest, value);
  } else {
    FUZZ_NEED(err->message && *err->message);
  }
  mcg_manifest_free(manifest);
  mcg_error_free(err);
  json_decref(value);
  return 0;
}
