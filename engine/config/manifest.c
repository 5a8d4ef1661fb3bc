/* manifest.c: reads the manifest, judges it, hashes it. Nothing is touched here. */
#include "manifest_parts.h"
#include "check.h"
#include "service/crypto.h"
#include <limits.h>
#include <string.h>

static int no_memory(mcg_error **err)
{
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the manifest");
}

/* Workspace and base paths are relative, and stay where they start by their own text. */
static int check_path(const char *path, const mcg_where *where, mcg_error **err)
{
  if (!*path || *path == '/' || strlen(path) >= PATH_MAX)
    return mcg_check_fail(where, err, "write a relative path", "\"%s\" is not a path beneath it",
                          path);
  if (!mcg_path_climbs(path)) return 0;
  return mcg_check_fail(where, err, "leave \"..\" out", "\"%s\" could leave the workspace", path);
}

static mcg_manifest_entry *add(mcg_manifest *m, mcg_entry_kind kind, mcg_error **err)
{
  if (m->count == m->cap) {
    size_t cap = m->cap ? m->cap * 2 : 16;
    mcg_manifest_entry *grown = reallocarray(m->entries, cap, sizeof *grown);
    if (!grown) {
      no_memory(err);
      return NULL;
    }
    m->entries = grown;
    m->cap = cap;
  }
  mcg_manifest_entry *e = &m->entries[m->count++];
  *e = (mcg_manifest_entry){.kind = kind, .mode = kind == MCG_ENTRY_DIRECTORY ? 0755 : 0644};
  return e;
}

/* A string member into *out; a missing one is an error where it is required. */
static int take_string(const json_t *object, const char *key, bool required, bool path,
                       const mcg_where *where, char **out, mcg_error **err)
{
  const json_t *value = json_object_get(object, key);
  if (!value && !required) return 0;
  mcg_where at = {.up = where, .key = key};
  const char *text;
  if (mcg_check_string(value, &at, &text, err) < 0) return -1;
  if (path && check_path(text, &at, err) < 0) return -1;
  *out = strdup(text);
  return *out ? 0 : no_memory(err);
}

static int take_common(const json_t *object, const mcg_where *where, mcg_manifest_entry *e,
                       mcg_error **err)
{
  const json_t *value = json_object_get(object, "ephemeral");
  mcg_where at = {.up = where, .key = "ephemeral"};
  if (value && mcg_check_bool(value, &at, &e->ephemeral, err) < 0) return -1;
  value = json_object_get(object, "mode");
  at.key = "mode";
  return value ? mcg_check_mode(value, &at, &e->mode, err) : 0;
}

static int read_file_entry(mcg_manifest *m, const char *path, const json_t *value,
                           const mcg_where *where, mcg_error **err)
{
  static const char *const keys[] = {"content", "mode", "ephemeral", NULL};
  if (check_path(path, where, err) < 0) return -1;
  mcg_manifest_entry *e = add(m, MCG_ENTRY_FILE, err);
  if (!e) return -1;
  if (!(e->path = strdup(path))) return no_memory(err);
  bool plain = json_is_string(value) || json_object_get(value, "base64");
  if (plain) return mcg_check_bytes(value, where, &e->bytes, &e->len, err);
  mcg_where at = {.up = where, .key = "content"};
  if (mcg_check_keys(value, keys, where, err) < 0 || take_common(value, where, e, err) < 0)
    return -1;
  return mcg_check_bytes(json_object_get(value, "content"), &at, &e->bytes, &e->len, err);
}

static int read_directory(mcg_manifest *m, const json_t *value, const mcg_where *where,
                          mcg_error **err)
{
  static const char *const keys[] = {"path", "mode", "ephemeral", NULL};
  mcg_manifest_entry *e = add(m, MCG_ENTRY_DIRECTORY, err);
  if (!e) return -1;
  if (json_is_string(value)) {
    if (check_path(json_string_value(value), where, err) < 0) return -1;
    return (e->path = strdup(json_string_value(value))) ? 0 : no_memory(err);
  }
  if (mcg_check_keys(value, keys, where, err) < 0 || take_common(value, where, e, err) < 0)
    return -1;
  return take_string(value, "path", true, true, where, &e->path, err);
}

static int read_copy(mcg_manifest *m, const json_t *value, const mcg_where *where, mcg_error **err)
{
  static const char *const keys[] = {"from", "to", "ephemeral", NULL};
  bool archive = strcmp(where->up->key, "archives") == 0;
  mcg_manifest_entry *e = add(m, archive ? MCG_ENTRY_ARCHIVE : MCG_ENTRY_COPY, err);
  if (!e || mcg_check_keys(value, keys, where, err) < 0 || take_common(value, where, e, err) < 0)
    return -1;
  if (take_string(value, "from", true, true, where, &e->source, err) < 0) return -1;
  return take_string(value, "to", true, true, where, &e->path, err);
}

/* Only what git fetches over a network, anonymously: no ssh (there are no keys), no local paths (the
 * fetching jail has none of the host's files), nothing that git would take for an option. */
static int check_url(const char *url, const mcg_where *where, mcg_error **err)
{
  static const char *const schemes[] = {"https://", "http://", "git://"};
  for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
    if (strncmp(url, schemes[i], strlen(schemes[i])) == 0) return 0;
  return mcg_check_fail(where, err, "use an https://, http:// or git:// address",
                        "\"%s\" is not an address that can be fetched", url);
}

static int read_git(mcg_manifest *m, const json_t *value, const mcg_where *where, mcg_error **err)
{
  static const char *const keys[] = {"url", "to", "ref", "depth", "ephemeral", NULL};
  mcg_manifest_entry *e = add(m, MCG_ENTRY_GIT, err);
  if (!e || mcg_check_keys(value, keys, where, err) < 0 || take_common(value, where, e, err) < 0 ||
      take_string(value, "url", true, false, where, &e->source, err) < 0 ||
      take_string(value, "to", true, true, where, &e->path, err) < 0 ||
      take_string(value, "ref", false, false, where, &e->ref, err) < 0)
    return -1;
  mcg_where at = {.up = where, .key = "url"};
  if (check_url(e->source, &at, err) < 0) return -1;
  at.key = "ref";
  if (e->ref && (*e->ref == '-' || !*e->ref))
    return mcg_check_fail(&at, err, "name a branch, a tag or a commit",
                          "\"%s\" is not a name git knows", e->ref);
  at.key = "depth";
  const json_t *depth = json_object_get(value, "depth");
  double number = 0;
  if (depth && mcg_check_number(depth, &at, 1, 1e6, true, &number, err) < 0) return -1;
  e->depth = (unsigned)number;
  return 0;
}

typedef int (*read_fn)(mcg_manifest *m, const json_t *value, const mcg_where *where,
                       mcg_error **err);

static int read_list(mcg_manifest *m, const json_t *manifest, const char *key, read_fn read,
                     const mcg_where *root, mcg_error **err)
{
  const json_t *list = json_object_get(manifest, key), *item;
  mcg_where where = {.up = root, .key = key};
  if (!list) return 0;
  if (mcg_check_list(list, &where, err) < 0) return -1;
  size_t i;
  json_array_foreach(list, i, item)
  {
    mcg_where at = {.up = &where, .index = i};
    if (read(m, item, &at, err) < 0) return -1;
  }
  return 0;
}

static int read_files(mcg_manifest *m, const json_t *manifest, const mcg_where *root,
                      mcg_error **err)
{
  json_t *files = json_object_get(manifest, "files"), *value;
  mcg_where where = {.up = root, .key = "files"};
  const char *path;
  if (!files) return 0;
  if (mcg_check_object(files, &where, err) < 0) return -1;
  json_object_foreach(files, path, value)
  {
    mcg_where at = {.up = &where, .key = path};
    if (read_file_entry(m, path, value, &at, err) < 0) return -1;
  }
  return 0;
}

/* One variable, into the environment; a secret's value is struck from what is hashed. */
static int read_variable(mcg_manifest *m, const char *name, const json_t *value,
                         const mcg_where *where, mcg_error **err)
{
  static const char *const keys[] = {"secret", NULL};
  const json_t *secret = json_object_get(value, "secret");
  const char *text;
  if (!*name || strpbrk(name, "=\n"))
    return mcg_check_fail(where, err, "use letters, digits and _", "this is no name of a variable");
  if (json_is_object(value) && mcg_check_keys(value, keys, where, err) < 0) return -1;
  if (mcg_check_string(secret ? secret : value, where, &text, err) < 0) return -1;
  if (secret)
    json_object_set_new(json_object_get(json_object_get(m->canonical, "environment"), name),
                        "secret", json_true());
  char *pair = mcg_format("%s=%s", name, text);
  if (!pair) return no_memory(err);
  m->environment[m->environment_count++] = pair;
  return 0;
}

static int read_environment(mcg_manifest *m, const json_t *manifest, const mcg_where *root,
                            mcg_error **err)
{
  json_t *environment = json_object_get(manifest, "environment"), *value;
  mcg_where where = {.up = root, .key = "environment"};
  const char *name;
  m->environment = calloc(json_object_size(environment) + 1, sizeof *m->environment);
  if (!m->environment) return no_memory(err);
  if (!environment) return 0;
  if (mcg_check_object(environment, &where, err) < 0) return -1;
  json_object_foreach(environment, name, value)
  {
    mcg_where at = {.up = &where, .key = name};
    if (read_variable(m, name, value, &at, err) < 0) return -1;
  }
  return 0;
}

static int read_base(mcg_manifest *m, const json_t *manifest, const mcg_where *root,
                     mcg_error **err)
{
  if (take_string(manifest, "base", false, false, root, &m->base, err) < 0) return -1;
  char *absolute = realpath(m->base ? m->base : ".", NULL);
  mcg_where at = {.up = root, .key = "base"};
  if (!absolute && m->base)
    return mcg_check_fail(&at, err, "name a directory of this machine", "%s: no such directory",
                          m->base);
  free(m->base);
  m->base = absolute;
  return 0;
}

mcg_manifest *mcg_manifest_parse(const json_t *value, mcg_error **err)
{
  static const char *const keys[] = {"files", "directories", "base",  "copies", "archives",
                                     "git",   "environment", "users", NULL};
  const mcg_where root = {.key = "manifest"};
  if (mcg_check_keys(value, keys, &root, err) < 0) return NULL;
  mcg_manifest *m = calloc(1, sizeof *m);
  if (m) m->canonical = json_deep_copy(value);
  if (!m || !m->canonical)
    no_memory(err);
  else if (read_base(m, value, &root, err) == 0 &&
           read_list(m, value, "directories", read_directory, &root, err) == 0 &&
           read_list(m, value, "copies", read_copy, &root, err) == 0 &&
           read_list(m, value, "archives", read_copy, &root, err) == 0 &&
           read_list(m, value, "git", read_git, &root, err) == 0 &&
           read_files(m, value, &root, err) == 0 && read_environment(m, value, &root, err) == 0 &&
           mcg_manifest_read_users(m, value, &root, err) == 0) {
    /* What is ephemeral is kept out of snapshots by its path. */
    for (size_t i = 0; i < m->count; i++) mcg_path_clean(m->entries[i].path);
    return m;
  }
  mcg_manifest_free(m);
  return NULL;
}

void mcg_manifest_free(mcg_manifest *m)
{
  if (!m) return;
  for (size_t i = 0; i < m->count; i++) {
    free(m->entries[i].path);
    free(m->entries[i].source);
    free(m->entries[i].ref);
    free(m->entries[i].bytes);
  }
  for (size_t i = 0; i < m->environment_count; i++) free(m->environment[i]);
  free(m->environment);
  for (size_t i = 0; i < m->user_count; i++) {
    free((void *)(uintptr_t)m->users[i].name);
    free((void *)(uintptr_t)m->users[i].home);
  }
  free(m->users);
  free(m->entries);
  free(m->base);
  json_decref(m->canonical);
  free(m);
}

int mcg_manifest_hash(const mcg_manifest *m, char out[65], mcg_error **err)
{
  auto_free char *text = json_dumps(m->canonical, JSON_SORT_KEYS | JSON_COMPACT);
  return text ? mcg_sha256_hex(text, strlen(text), out, err) : no_memory(err);
}

const char *const *mcg_manifest_environment(const mcg_manifest *m)
{
  return (const char *const *)m->environment;
}

const mcg_user *mcg_manifest_users(const mcg_manifest *m, size_t *count)
{
  *count = m->user_count;
  return m->users;
}
