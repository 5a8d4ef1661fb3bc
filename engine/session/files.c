/* files.c: files of a sandbox, as seen from inside: each call is one of init's built-ins.
 *
 * The engine never touches the sandbox's file system itself. What a path means is decided inside, by
 * a process that is confined as commands are. */
#include "audit/audit.h"
#include "builtin.h"
#include "session.h"
#include <string.h>
#include <sys/stat.h>

#define READ_MAX ((uint64_t)1 << 30)
#define LIST_MAX ((size_t)64 << 20)
#define PATH_LENGTH_MAX 4096

typedef struct file_call {
  mcg_session *session;
  mcg_builtin builtin;
  char *words[4];
  const char *argv[5];
  void *copy; /* of what is written */
  void *data;
  mcg_done done;
  mcg_bytes_done bytes_done;
  mcg_files_done files_done;
} file_call;

/* ---- paths -------------------------------------------------------------------------------- */

/* A relative path that climbs above where it starts. */
static bool climbs_out(const char *path)
{
  int depth = 0;
  if (*path == '/') return false;
  for (const char *at = path; *at;) {
    size_t len = strcspn(at, "/");
    if (len == 2 && at[0] == '.' && at[1] == '.')
      depth--;
    else if (len && !(len == 1 && at[0] == '.'))
      depth++;
    if (depth < 0) return true;
    at += len + (at[len] == '/');
  }
  return false;
}

int mcg_file_path_check(const mcg_session *session, const char *path, mcg_error **err)
{
  if (!path || !*path)
    return mcg_fail(err, MCG_INVALID, "write . for the working directory", "the path is empty");
  if (strlen(path) >= PATH_LENGTH_MAX)
    return mcg_fail(err, MCG_INVALID, "use a shorter one", "the path is longer than 4095 bytes");
  if (!climbs_out(path)) return 0;
  mcg_fail(err, MCG_INVALID, "write the absolute path that you mean",
           "%s leads out of the workspace", path);
  mcg_audit_redact(session->engine, *err);
  return -1;
}

/* ---- one call ----------------------------------------------------------------------------- */

static void call_free(file_call *call)
{
  for (size_t i = 0; i < 4; i++) free(call->words[i]);
  free(call->copy);
  free(call->builtin.output);
  if (call->session) mcg_session_let_go(call->session);
  free(call);
}

static bool changes(const char *name)
{
  static const char *const names[] = {"write", "mkdir", "remove", "move"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

static int call_run(void *arg, mcg_error **err)
{
  file_call *call = arg;
  const char *name = call->words[0];
  bool writes = strcmp(name, "write") == 0, reads = strcmp(name, "read") == 0;
  if (mcg_session_alive(call->session, err) < 0) return -1;
  auto_json json_t *detail = writes || reads ? NULL : json_pack("{s:s}", "call", name);
  if (detail && strcmp(name, "move") == 0)
    json_object_set_new(detail, "to", mcg_json_bytes(call->words[2]));
  mcg_event event = {.op = changes(name) ? "write" : "read",
                     .path = call->words[1],
                     .detail = detail,
                     .counted = writes,
                     .bytes = call->builtin.input_len};
  mcg_audit_op *op;
  if (mcg_audit_start(call->session, &event, &op, err) < 0) return -1;
  int rc = mcg_session_alive(call->session, err); /* again, after a wait */
  if (!rc) rc = mcg_builtin_run(call->session->engine, call->session->stream, &call->builtin, err);
  event = (mcg_event){
      .error = rc < 0 ? *err : NULL, .counted = reads, .bytes = call->builtin.output_len};
  mcg_audit_finish(op, &event);
  return rc;
}

static file_call *call_new(mcg_session *session, const char *name, const char *path, void *data,
                           mcg_error **err)
{
  if (mcg_session_alive(session, err) < 0 || mcg_file_path_check(session, path, err) < 0)
    return NULL;
  file_call *call = calloc(1, sizeof *call);
  if (!call) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for an operation"), NULL;
  call->session = session;
  mcg_session_hold(session);
  call->data = data;
  call->words[0] = strdup(name);
  call->words[1] = strdup(path);
  call->builtin.max_output = 4096;
  if (call->words[0] && call->words[1]) return call;
  call_free(call);
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory for an operation"), NULL;
}

/* Takes the call, also on failure. */
static int call_start(file_call *call, void (*complete)(void *arg, mcg_error *error),
                      mcg_error **err)
{
  for (size_t i = 0; i < 4; i++) call->argv[i] = call->words[i];
  call->builtin.argv = call->argv;
  if (mcg_op_start(call->session->engine, call_run, complete, call, NULL, err) == 0) return 0;
  call_free(call);
  return -1;
}

static void tag(file_call *call, mcg_error *error)
{
  mcg_error_set_backend(error, call->session->config->backend->id);
}

static void simple_complete(void *arg, mcg_error *error)
{
  file_call *call = arg;
  tag(call, error);
  if (call->done)
    call->done(call->data, error);
  else
    mcg_error_free(error);
  call_free(call);
}

/* ---- read and write ----------------------------------------------------------------------- */

static void read_complete(void *arg, mcg_error *error)
{
  file_call *call = arg;
  tag(call, error);
  if (error)
    call->bytes_done(call->data, NULL, 0, error);
  else
    call->bytes_done(call->data, call->builtin.output ? call->builtin.output : "",
                     call->builtin.output_len, NULL);
  call_free(call);
}

int mcg_file_read(mcg_session *session, const char *path, uint64_t max_bytes, mcg_bytes_done done,
                  void *data, mcg_error **err)
{
  file_call *call = call_new(session, "read", path, data, err);
  if (!call) return -1;
  call->bytes_done = done;
  call->builtin.max_output = (size_t)(max_bytes && max_bytes < READ_MAX ? max_bytes : READ_MAX);
  return call_start(call, read_complete, err);
}

int mcg_file_write(mcg_session *session, const char *path, const void *bytes, size_t len,
                   uint32_t mode, mcg_done done, void *data, mcg_error **err)
{
  if (mode > 0777)
    return mcg_fail(err, MCG_INVALID, "give permission bits, at most 0777", "mode 0%o", mode);
  file_call *call = call_new(session, "write", path, data, err);
  if (!call) return -1;
  call->done = done;
  call->words[2] = mcg_format("%o", mode ? mode : 0644);
  call->copy = malloc(len ? len : 1);
  if (!call->copy || !call->words[2]) {
    call_free(call);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory to write %zu bytes", len);
  }
  if (len) memcpy(call->copy, bytes, len);
  call->builtin.input = call->copy;
  call->builtin.input_len = len;
  return call_start(call, simple_complete, err);
}

/* ---- list and stat ------------------------------------------------------------------------ */

static const char *type_name(uint32_t mode)
{
  switch (mode & S_IFMT) {
  case S_IFREG: return "file";
  case S_IFDIR: return "directory";
  case S_IFLNK: return "symlink";
  case S_IFIFO: return "fifo";
  case S_IFSOCK: return "socket";
  case S_IFCHR: return "char";
  default: return "block";
  }
}

typedef struct listing {
  mcg_file_info *files;
  size_t count, cap;
  char *text; /* names and targets, each with its NUL */
} listing;

static bool listing_add(listing *list, const mcg_entry *entry, const char *name, const char *target)
{
  if (list->count == list->cap) {
    size_t cap = list->cap ? list->cap * 2 : 64;
    mcg_file_info *longer = realloc(list->files, cap * sizeof *longer);
    if (!longer) return false;
    list->files = longer;
    list->cap = cap;
  }
  list->files[list->count++] = (mcg_file_info){
      .name = name,
      .type = type_name(entry->mode),
      .target = S_ISLNK(entry->mode) ? target : NULL,
      .size = entry->size,
      .mode = entry->mode & 07777,
      .uid = entry->uid,
      .gid = entry->gid,
      .mtime = (double)entry->mtime_s + (double)entry->mtime_ns / 1e9,
  };
  return true;
}

static int listing_read(listing *list, const mcg_builtin *ran, mcg_error **err)
{
  const uint8_t *at = (const uint8_t *)ran->output, *end = at + ran->output_len;
  /* Every record is longer than the two NULs that its texts get. */
  char *text = list->text = malloc(ran->output_len + 1);
  if (!text) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a list of files");
  while (at && at < end) {
    mcg_entry entry;
    if (end - at < MCG_ENTRY_HEADER) break;
    mcg_entry_decode(at, &entry);
    at += MCG_ENTRY_HEADER;
    if (end - at < entry.name_len + entry.target_len) break;
    char *name = text, *target = text + entry.name_len + 1;
    memcpy(name, at, entry.name_len);
    name[entry.name_len] = '\0';
    memcpy(target, at + entry.name_len, entry.target_len);
    target[entry.target_len] = '\0';
    text = target + entry.target_len + 1;
    at += entry.name_len + entry.target_len;
    if (!listing_add(list, &entry, name, target))
      return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a list of files");
  }
  return at == end ? 0
                   : mcg_fail(err, MCG_PROTOCOL, NULL, "the sandbox's list of files is cut off");
}

static int by_name(const void *left, const void *right)
{
  return strcmp(((const mcg_file_info *)left)->name, ((const mcg_file_info *)right)->name);
}

static void files_complete(void *arg, mcg_error *error)
{
  file_call *call = arg;
  listing list = {0};
  if (!error) listing_read(&list, &call->builtin, &error);
  tag(call, error);
  if (list.count > 1) qsort(list.files, list.count, sizeof *list.files, by_name);
  call->files_done(call->data, error ? NULL : list.files, error ? 0 : list.count, error);
  free(list.files);
  free(list.text);
  call_free(call);
}

static int files_start(mcg_session *session, const char *name, const char *path,
                       mcg_files_done done, void *data, mcg_error **err)
{
  file_call *call = call_new(session, name, path, data, err);
  if (!call) return -1;
  call->files_done = done;
  call->builtin.max_output = LIST_MAX;
  return call_start(call, files_complete, err);
}

int mcg_file_list(mcg_session *session, const char *path, mcg_files_done done, void *data,
                  mcg_error **err)
{
  return files_start(session, "list", path, done, data, err);
}

int mcg_file_stat(mcg_session *session, const char *path, mcg_files_done done, void *data,
                  mcg_error **err)
{
  return files_start(session, "stat", path, done, data, err);
}

/* ---- the others --------------------------------------------------------------------------- */

/* `word` may be NULL. */
static int simple_start(mcg_session *session, const char *name, const char *path, const char *word,
                        mcg_done done, void *data, mcg_error **err)
{
  file_call *call = call_new(session, name, path, data, err);
  if (!call) return -1;
  call->done = done;
  if (word) call->words[2] = strdup(word);
  if (word && !call->words[2]) {
    call_free(call);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for an operation");
  }
  return call_start(call, simple_complete, err);
}

int mcg_file_mkdir(mcg_session *session, const char *path, uint32_t mode, mcg_done done, void *data,
                   mcg_error **err)
{
  if (mode > 0777)
    return mcg_fail(err, MCG_INVALID, "give permission bits, at most 0777", "mode 0%o", mode);
  char octal[8];
  snprintf(octal, sizeof octal, "%o", mode ? mode : 0755);
  return simple_start(session, "mkdir", path, octal, done, data, err);
}

int mcg_file_remove(mcg_session *session, const char *path, mcg_done done, void *data,
                    mcg_error **err)
{
  return simple_start(session, "remove", path, NULL, done, data, err);
}

int mcg_file_move(mcg_session *session, const char *from, const char *to, mcg_done done, void *data,
                  mcg_error **err)
{
  if (mcg_file_path_check(session, to, err) < 0) return -1;
  return simple_start(session, "move", from, to, done, data, err);
}
