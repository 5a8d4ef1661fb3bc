/* project.c: asks the sandbox what changed, lets diff(1) inside it write the text, and carries the
 * changes to the project. Everything that comes from inside is hostile: it is decoded, never obeyed. */
#include "project.h"
#include "service/base64.h"
#include "builtin.h"
#include "init/project.h"
#include <jansson.h>
#include <string.h>

#define OLD "/mooncage/a"
#define NEW "/mooncage/b/."
#define LIST_MAX ((size_t)64 << 20)
#define DIFF_MAX ((size_t)16 << 20)

static int no_memory(mcg_error **err)
{
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the changes");
}

/* Text where it is UTF-8, else {"base64":...}; NULL when memory is out. */
static json_t *bytes_json(const char *bytes, size_t len)
{
  json_t *text = json_stringn(bytes, len);
  if (text) return text;
  auto_free char *coded = mcg_base64_encode(bytes, len);
  return coded ? json_pack("{s:s}", "base64", coded) : NULL;
}

/* The next record of `bytes`, or false at the end; *bad where it is none. */
static bool next_change(const uint8_t **at, const uint8_t *end, mcg_change *out, const char **path,
                        bool *bad)
{
  if (*at == end) return false;
  size_t left = (size_t)(end - *at);
  *bad = left < MCG_CHANGE_HEADER || !mcg_change_decode(*at, out) ||
         left - MCG_CHANGE_HEADER < (size_t)out->path_len + out->target_len;
  if (*bad) return false;
  *path = (const char *)*at + MCG_CHANGE_HEADER;
  *at += MCG_CHANGE_HEADER + out->path_len + out->target_len;
  return true;
}

static const char *kind_name(uint8_t kind)
{
  return kind == 'f' ? "file" : kind == 'd' ? "directory" : kind == 'l' ? "symlink" : "other";
}

static json_t *change_json(const mcg_change *change, const char *path)
{
  json_t *name = bytes_json(path, change->path_len);
  const char op[2] = {(char)change->op, 0};
  if (!name) return NULL;
  return json_pack("{s:s, s:o, s:s, s:I, s:I}", "op", op, "path", name, "kind",
                   kind_name(change->kind), "old_size", (json_int_t)change->old_size, "new_size",
                   (json_int_t)change->size);
}

static json_t *changes_json(const char *bytes, size_t len, mcg_error **err)
{
  auto_json json_t *list = json_array();
  const uint8_t *at = (const uint8_t *)bytes, *end = at + len;
  mcg_change change;
  const char *path;
  bool bad = false;
  while (len > 0 && next_change(&at, end, &change, &path, &bad))
    if (json_array_append_new(list, change_json(&change, path)) < 0) {
      no_memory(err);
      return NULL;
    }
  if (bad) {
    mcg_fail(err, MCG_PROTOCOL, NULL, "the sandbox sent a malformed list of changes");
    return NULL;
  }
  return mcg_steal_pointer(&list);
}

/* NUL-terminated paths of the files with one op: what xargs -0 takes. */
static int paths_with(const char *bytes, size_t len, uint8_t op, char **out, size_t *out_len,
                      mcg_error **err)
{
  const uint8_t *at = (const uint8_t *)bytes, *end = at + len;
  mcg_change change;
  const char *path;
  bool bad = false;
  *out = malloc(len + 1); /* a path with its NUL is shorter than its record */
  *out_len = 0;
  if (!*out) return no_memory(err);
  while (len > 0 && next_change(&at, end, &change, &path, &bad)) {
    if (change.op != op || change.kind != 'f') continue;
    memcpy(*out + *out_len, path, change.path_len);
    *out_len += change.path_len;
    (*out)[(*out_len)++] = 0;
  }
  return 0;
}

typedef struct text {
  char *bytes;
  size_t len;
  bool truncated;
} text;

static int append(text *t, const char *bytes, size_t len, mcg_error **err)
{
  char *grown = realloc(t->bytes, t->len + len + 1);
  if (!grown) return no_memory(err);
  t->bytes = grown;
  memcpy(t->bytes + t->len, bytes, len);
  t->len += len;
  return 0;
}

/* diff(1) over the files with one op. An added file has no old side, a deleted one no new side. */
static int diff_op(mcg_engine *engine, mcg_stream *stream, const char *changes, size_t len,
                   uint8_t op, text *out, mcg_error **err)
{
  auto_free char *paths = NULL;
  size_t paths_len;
  if (paths_with(changes, len, op, &paths, &paths_len, err) < 0) return -1;
  if (paths_len == 0 || out->truncated) return 0;
  const char *old_label = op == 'A' ? "/dev/null" : "a/{}",
             *new_label = op == 'D' ? "/dev/null" : "b/{}";
  int status = 0;
  mcg_builtin diff = {
      .argv = (const char *const[]){"/usr/bin/env", "-C", "/mooncage", "xargs", "-0", "-r", "-I{}",
                                    "diff", "-uaN", "--no-dereference", "--label", old_label,
                                    "--label", new_label, "--", "a/{}", "b/{}", NULL},
      .program = true,
      .exit_code = &status,
      .input = paths,
      .input_len = paths_len,
      .max_output = DIFF_MAX - out->len};
  auto_error mcg_error *trouble = NULL;
  int rc = mcg_builtin_run(engine, stream, &diff, &trouble);
  auto_free char *said = diff.output;
  if (rc < 0 && trouble->code != MCG_QUOTA) {
    *err = mcg_steal_pointer(&trouble);
    return -1;
  }
  out->truncated = rc < 0;
  if (rc == 0 && status != 0 && status != 123) /* 123: diff found what we knew, it differs */
    return mcg_fail(err, MCG_UNSUPPORTED,
                    "use a rootfs that has diff and xargs (diffutils, findutils)",
                    "diff in the sandbox ended with %d", status);
  return append(out, said ? said : "", diff.output_len, err);
}

static int diff_text(mcg_engine *engine, mcg_stream *stream, const char *changes, size_t len,
                     text *out, mcg_error **err)
{
  static const char ops[] = "MAD";
  for (const char *op = ops; *op; op++)
    if (diff_op(engine, stream, changes, len, (uint8_t)*op, out, err) < 0) return -1;
  return 0;
}

int mcg_project_changes(mcg_engine *engine, mcg_stream *stream, json_t **out, mcg_error **err)
{
  mcg_builtin scan = {.argv = (const char *const[]){"changes", OLD, NEW, NULL},
                      .max_output = LIST_MAX};
  int rc = mcg_builtin_run(engine, stream, &scan, err);
  auto_free char *bytes = scan.output;
  if (rc < 0) return mcg_wrap(err, "find what changed in the project");
  json_t *list = changes_json(bytes, scan.output_len, err);
  if (!list) return -1;
  text diff = {0};
  rc = diff_text(engine, stream, bytes, scan.output_len, &diff, err);
  json_t *shown = rc == 0 ? bytes_json(diff.bytes ? diff.bytes : "", diff.len) : NULL;
  *out = shown ? json_pack("{s:o, s:o, s:b}", "changes", list, "diff", shown, "diff_truncated",
                           diff.truncated)
               : NULL;
  free(diff.bytes);
  if (rc == 0 && !*out) rc = no_memory(err);
  if (!shown) json_decref(list);
  return rc;
}

/* What init's errno means here differs from files in general: see init/project.h. */
static int apply_error(mcg_error **err, bool git)
{
  if (*err && (*err)->code == MCG_UNAUTHORIZED) {
    (*err)->code = MCG_ARCHIVE_UNSAFE;
    if (!(*err)->fix)
      (*err)->fix = strdup(git || !strstr((*err)->message, ".git")
                               ? "undo it in the sandbox; nothing was written"
                               : "--apply-git lets it through; nothing was written");
  } else if (*err && (*err)->code == MCG_CONFLICT && !(*err)->fix) {
    (*err)->fix =
        strdup("look at --diff and run again on the tree as it is now; nothing was written");
  }
  return mcg_wrap(err, "apply the changes");
}

int mcg_project_carry(mcg_engine *engine, const mcg_project_write *write, json_t **out,
                      mcg_error **err)
{
  char seconds[24], nanoseconds[24], how[4];
  snprintf(how, sizeof how, "%d", (write->git ? 1 : 0) | (write->judge ? 2 : 0));
  snprintf(seconds, sizeof seconds, "%lld", (long long)write->since.tv_sec);
  snprintf(nanoseconds, sizeof nanoseconds, "%ld", write->since.tv_nsec);
  mcg_builtin take = {.argv = (const char *const[]){"changeset", OLD, NEW, NULL}};
  mcg_builtin apply = {.argv = (const char *const[]){"apply", ".", seconds, nanoseconds, how, NULL},
                       .max_output = LIST_MAX,
                       .before_end = write->judge ? NULL : write->unmount,
                       .data = write->data};
  int rc = mcg_builtin_pipe(engine, write->view, &take, write->project, &apply, err);
  auto_free char *bytes = apply.output;
  if (rc < 0) return apply_error(err, write->git);
  json_t *list = changes_json(bytes, apply.output_len, err);
  if (!list) return -1;
  *out = json_pack("{s:o}", "applied", list);
  return *out ? 0 : no_memory(err);
}
