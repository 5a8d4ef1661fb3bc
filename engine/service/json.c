/* json.c: foreign JSON in, and the words of a config that were mistyped.
 *
 * jansson recurses on nesting, and fibers have small stacks: depth is counted before it sees the
 * text. Its messages quote the text, which may hold a secret: only place and reason are kept. */
#include "engine.h"
#include <jansson.h>
#include <string.h>

#define DEPTH_MAX 128
#define SIZE_MAX_JSON ((size_t)256 << 20)
#define WORD_MAX 64 /* longer words have no neighbours */
#define NEAR 3

void mcg_cleanup_json(struct json_t **json)
{
  json_decref(*json);
}

/* Deepest nesting of arrays and objects, strings left out. Wrong text is left to the parser. */
static size_t depth_of(const char *text, size_t len)
{
  size_t depth = 0, deepest = 0;
  bool quoted = false;
  for (size_t i = 0; i < len; i++) {
    char c = text[i];
    if (quoted) {
      if (c == '\\')
        i++;
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > deepest) deepest = depth;
    } else if ((c == '}' || c == ']') && depth > 0) {
      depth--;
    }
  }
  return deepest;
}

struct json_t *mcg_json_parse(const char *text, size_t len, mcg_error **err)
{
  if (len > SIZE_MAX_JSON) {
    mcg_fail(err, MCG_INVALID, "send less than 256 MiB", "JSON text of %zu bytes is too long", len);
    return NULL;
  }
  if (depth_of(text, len) > DEPTH_MAX) {
    mcg_fail(err, MCG_INVALID, "nest less", "JSON text is nested deeper than %d", DEPTH_MAX);
    return NULL;
  }
  json_error_t reason = {.text = ""};
  json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &reason);
  if (json) return json;
  /* Without memory jansson may also leave the reason as it was. */
  if (!*reason.text || json_error_code(&reason) == json_error_out_of_memory) {
    mcg_fail(err, MCG_NOMEM, NULL, "no memory for JSON text of %zu bytes", len);
    return NULL;
  }
  char *quote = strstr(reason.text, " near '");
  if (quote) *quote = '\0';
  mcg_fail(err, MCG_INVALID, "correct it there", "not JSON: line %d, column %d: %s", reason.line,
           reason.column, reason.text);
  return NULL;
}

static size_t least(size_t a, size_t b)
{
  return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn one word into the other. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
  size_t rows[3][WORD_MAX + 1];
  size_t *before = rows[0], *last = rows[1], *row = rows[2];
  for (size_t j = 0; j <= b_len; j++) last[j] = j;
  for (size_t i = 1; i <= a_len; i++) {
    row[0] = i;
    for (size_t j = 1; j <= b_len; j++) {
      row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = least(row[j], before[j - 2] + 1);
    }
    size_t *spare = before;
    before = last;
    last = row;
    row = spare;
  }
  return last[b_len];
}

const char *mcg_nearest(const char *word, const char *const *names)
{
  const char *nearest = NULL;
  size_t best = NEAR + 1, len = strlen(word);
  if (len > WORD_MAX) return NULL;
  for (; *names; names++) {
    size_t name_len = strlen(*names);
    if (name_len > WORD_MAX) continue;
    size_t far = distance(word, len, *names, name_len);
    if (far < best && 2 * far <= least(len, name_len)) { /* more than half changed: another word */
      best = far;
      nearest = *names;
    }
  }
  return nearest;
}

char *mcg_names_fix(const char *word, const char *const *names)
{
  const char *near = mcg_nearest(word, names);
  if (near) return mcg_format("did you mean `%s`?", near);
  char *fix = strdup("there is only");
  for (const char *const *name = names; fix && *name; name++) {
    char *longer = mcg_format("%s%s `%s`", fix, name == names ? "" : ",", *name);
    free(fix);
    fix = longer;
  }
  return fix;
}
