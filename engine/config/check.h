/* check.h: judging configuration that came as JSON: types, ranges, unknown keys, each with the path of
 * what is wrong and, where a key is misspelt, the nearest one. All return 0, or -1 with `invalid`. */
#ifndef MCG_CHECK_H
#define MCG_CHECK_H

#include <mooncage/backend.h>
#include <jansson.h>

/* Where a value stands, linked upwards: {&limits, "memory_mb"} reads "limits.memory_mb"; a key of
 * NULL is element `index` of a list. The root is NULL. */
typedef struct mcg_where {
  const struct mcg_where *up;
  const char *key;
  size_t index;
} mcg_where;

char *mcg_where_text(const mcg_where *where); /* fresh; NULL when memory is out */
/* Fails with "PATH: " before the text. */
int mcg_check_fail(const mcg_where *where, mcg_error **err, const char *fix, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));

/* Lua's {} is both. */
bool mcg_is_table(const json_t *value);
bool mcg_is_list(const json_t *value);

int mcg_check_object(const json_t *value, const mcg_where *where, mcg_error **err);
int mcg_check_list(const json_t *value, const mcg_where *where, mcg_error **err);
/* An object whose keys are all among the NULL-terminated `known`. */
int mcg_check_keys(const json_t *value, const char *const *known, const mcg_where *where,
                   mcg_error **err);
/* Text without NUL; *out is borrowed from the value. */
int mcg_check_string(const json_t *value, const mcg_where *where, const char **out,
                     mcg_error **err);
int mcg_check_bool(const json_t *value, const mcg_where *where, bool *out, mcg_error **err);
/* A finite number within [low, high]; `whole`: no fraction. */
int mcg_check_number(const json_t *value, const mcg_where *where, double low, double high,
                     bool whole, double *out, mcg_error **err);
/* A string, or {"base64":"..."}; *out is the caller's, a NUL follows it. */
int mcg_check_bytes(const json_t *value, const mcg_where *where, char **out, size_t *len,
                    mcg_error **err);
/* Permission bits: a number, or text in octal ("0644"). */
int mcg_check_mode(const json_t *value, const mcg_where *where, unsigned *out, mcg_error **err);

/* Paths are compared as text: each has one spelling. In place, "/a//b/./c/" becomes "/a/b/c". */
void mcg_path_clean(char *path);
/* Has it a component ".."? Of such the text says little of where it leads. */
bool mcg_path_climbs(const char *path);

#endif
