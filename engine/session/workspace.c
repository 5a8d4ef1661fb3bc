/* workspace.c: many files at once: the workspace as a tar stream, copies from and to the host.
 *
 * Tar is packed and unpacked inside the sandbox. A copy is two built-ins joined: one in the sandbox,
 * one in a place without walls at the host's directory. */
#include "audit/audit.h"
#include "builtin.h"
#include "host.h"
#include "host_bytes.h"
#include "service/quiet.h"
#include "session.h"
#include "snapshot/snapshot.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>

typedef struct transfer {
  mcg_session *session;
  bool (*sink)(void *data, const void *bytes, size_t len);
  long (*source)(void *data, void *buffer, size_t cap);
  char *from, *to;
  mcg_done done;
  void *data;
  const char *call; /* its name in the audit log */
  bool writes;
  int (*run)(void *arg, mcg_error **err);
} transfer;

static void transfer_complete(void *arg, mcg_error *error)
{
  transfer *self = arg;
  mcg_error_set_backend(error, self->session->config->backend->id);
  if (self->done)
    self->done(self->data, error);
  else
    mcg_error_free(error);
  mcg_session_let_go(self->session);
  free(self->from);
  free(self->to);
  free(self);
}

static int transfer_run(void *arg, mcg_error **err)
{
  transfer *self = arg;
  if (mcg_session_alive(self->session, err) < 0) return -1;
  auto_json json_t *detail = json_pack("{s:s}", "call", self->call);
  const char *host = self->writes ? self->from : self->to;
  const char *inside = self->writes ? self->to : self->from;
  if (detail && host) json_object_set_new(detail, "host", mcg_json_bytes(host));
  return mcg_audit_around(self->session,
                          &(mcg_event){.op = self->writes ? "write" : "read",
                                       .path = inside ? inside : ".",
                                       .detail = detail},
                          self->run, self, err);
}

static int transfer_start(const transfer *given, mcg_op **op, mcg_error **err)
{
  transfer *self = mcg_session_alive(given->session, err) < 0 ? NULL : malloc(sizeof *self);
  if (!self) {
    if (err && !*err) mcg_fail(err, MCG_NOMEM, NULL, "no memory for an operation");
    free(given->from);
    free(given->to);
    return -1;
  }
  *self = *given;
  mcg_session_hold(self->session);
  if (mcg_op_start(self->session->engine, transfer_run, transfer_complete, self, op, err) == 0)
    return 0;
  mcg_session_let_go(self->session);
  free(self->from);
  free(self->to);
  free(self);
  return -1;
}

/* ---- the workspace ------------------------------------------------------------------------ */

static int persist_run(void *arg, mcg_error **err)
{
  transfer *self = arg;
  const char *const argv[] = {"pack", ".", NULL};
  mcg_builtin pack = {.argv = argv, .sink = self->sink, .data = self->data};
  if (mcg_snapshot_await(self->session, err) < 0 || mcg_session_alive(self->session, err) < 0)
    return -1;
  return mcg_builtin_run(self->session->engine, self->session->stream, &pack, err);
}

static int restore_run(void *arg, mcg_error **err)
{
  transfer *self = arg;
  const char *const argv[] = {"unpack", ".", NULL};
  mcg_host_bytes bytes = {
      .engine = self->session->engine, .source = self->source, .data = self->data};
  mcg_builtin unpack = {
      .argv = argv, .source = mcg_host_source, .data = &bytes, .max_output = 4096};
  if (mcg_session_alive(self->session, err) < 0) return -1;
  int rc = mcg_builtin_run(self->session->engine, self->session->stream, &unpack, err);
  free(unpack.output);
  return rc;
}

int mcg_workspace_persist(mcg_session *session,
                          bool (*sink)(void *data, const void *bytes, size_t len), mcg_done done,
                          void *data, mcg_op **op, mcg_error **err)
{
  return transfer_start(&(transfer){.session = session,
                                    .sink = sink,
                                    .done = done,
                                    .data = data,
                                    .call = "persist_workspace",
                                    .run = persist_run},
                        op, err);
}

int mcg_workspace_restore(mcg_session *session,
                          long (*source)(void *data, void *buffer, size_t cap), mcg_done done,
                          void *data, mcg_op **op, mcg_error **err)
{
  return transfer_start(&(transfer){.session = session,
                                    .source = source,
                                    .done = done,
                                    .data = data,
                                    .call = "restore_workspace",
                                    .writes = true,
                                    .run = restore_run},
                        op, err);
}

/* ---- copies ------------------------------------------------------------------------------- */

/* Both names of one copy end in something: "dir/" takes the source's own last name. */
static char *complete_target(const char *from, const char *to)
{
  size_t len = strlen(to);
  if (len && to[len - 1] != '/') return strdup(to);
  auto_free char *copy = strdup(from);
  return copy ? mcg_format("%s%s", to, basename(copy)) : NULL;
}

static int pipe_file(mcg_engine *engine, mcg_stream *from, const char *path, mcg_stream *to,
                     const char *target, unsigned mode, mcg_error **err)
{
  char octal[8];
  snprintf(octal, sizeof octal, "%o", mode & 0777);
  const char *const read[] = {"read", path, NULL}, *const write[] = {"write", target, octal, NULL};
  mcg_builtin reads = {.argv = read}, writes = {.argv = write, .max_output = 4096};
  int rc = mcg_builtin_pipe(engine, from, &reads, to, &writes, err);
  free(writes.output);
  return rc;
}

/* Neither end is believed alone: the one packs no links, the other unpacks none. */
static int pipe_tree(mcg_engine *engine, mcg_stream *from, const char *path, mcg_stream *to,
                     const char *target, mcg_error **err)
{
  const char *const make[] = {"mkdir", target, "755", NULL};
  const char *const pack[] = {"pack-strict", path, NULL}, *const unpack[] = {"unpack-strict",
                                                                             target, NULL};
  mcg_builtin makes = {.argv = make, .max_output = 4096};
  mcg_builtin packs = {.argv = pack}, unpacks = {.argv = unpack, .max_output = 4096};
  int rc = mcg_builtin_run(engine, to, &makes, err);
  if (!rc) rc = mcg_builtin_pipe(engine, from, &packs, to, &unpacks, err);
  free(makes.output);
  free(unpacks.output);
  return rc;
}

/* The directory and the last name of a host path. */
static int split(const char *path, char **directory, char **name, mcg_error **err)
{
  auto_free char *first = strdup(path), *second = strdup(path);
  *directory = first ? strdup(dirname(first)) : NULL;
  *name = second ? strdup(basename(second)) : NULL;
  return *directory && *name ? 0 : mcg_fail(err, MCG_NOMEM, NULL, "no memory for a path");
}

static int upload_run(void *arg, mcg_error **err)
{
  transfer *self = arg;
  mcg_session *session = self->session;
  struct stat about;
  auto_free char *directory = NULL, *name = NULL;
  if (lstat(self->from, &about) < 0)
    return mcg_fail_errno(err, errno, "name a file or directory that you can read", "host file %s",
                          self->from);
  if (S_ISLNK(about.st_mode))
    return mcg_fail(err, MCG_INVALID, "name what it points to", "host file %s is a symbolic link",
                    self->from);
  bool tree = S_ISDIR(about.st_mode);
  if (!tree && !S_ISREG(about.st_mode))
    return mcg_fail(err, MCG_INVALID, "name a file or a directory", "host file %s is neither",
                    self->from);
  if (tree)
    directory = strdup(self->from);
  else if (split(self->from, &directory, &name, err) < 0)
    return -1;
  mcg_host *host;
  if (mcg_host_open(session->engine, directory, &host, err) < 0) return -1;
  int rc = mcg_session_alive(session, err);
  if (!rc)
    rc = tree ? pipe_tree(session->engine, mcg_host_stream(host), ".", session->stream, self->to,
                          err)
              : pipe_file(session->engine, mcg_host_stream(host), name, session->stream, self->to,
                          about.st_mode, err);
  mcg_host_close(host);
  return rc < 0 ? mcg_wrap(err, "upload %s", self->from) : 0;
}

int mcg_file_upload(mcg_session *session, const char *host_from, const char *to, mcg_done done,
                    void *data, mcg_op **op, mcg_error **err)
{
  if (!host_from || !*host_from)
    return mcg_fail(err, MCG_INVALID, "write . for the current directory",
                    "the host path is empty");
  if (mcg_file_path_check(session, to, err) < 0) return -1;
  transfer given = {.session = session,
                    .from = strdup(host_from),
                    .to = complete_target(host_from, to),
                    .done = done,
                    .data = data,
                    .call = "upload",
                    .writes = true,
                    .run = upload_run};
  return transfer_start(&given, op, err);
}

static int stat_inside(mcg_session *session, const char *path, mcg_entry *out, mcg_error **err)
{
  const char *const argv[] = {"stat", path, NULL};
  mcg_builtin ran = {.argv = argv, .max_output = 65536};
  int rc = mcg_builtin_run(session->engine, session->stream, &ran, err);
  if (!rc && ran.output_len < MCG_ENTRY_HEADER)
    rc = mcg_fail(err, MCG_PROTOCOL, NULL, "stat: cut off");
  if (!rc) mcg_entry_decode((const uint8_t *)ran.output, out);
  free(ran.output);
  return rc;
}

/* ---- to the host -------------------------------------------------------------------------- */

typedef struct outlet {
  int fd;
  int number; /* of the write that failed */
} outlet;

/* Our own stdout or stderr, a device or a fifo, by its name; -1: it is an ordinary file, a directory, or
 * nothing that could be opened, as `*special` says. */
static int open_outlet(const char *path, bool *special)
{
  struct stat there, own;
  *special = false;
  if (stat(path, &there) < 0) return -1;
  for (int fd = 1; fd <= 2; fd++)
    if (fstat(fd, &own) == 0 && own.st_dev == there.st_dev && own.st_ino == there.st_ino)
      return fcntl(fd, F_DUPFD_CLOEXEC, 3);
  *special = !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
  return *special ? open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC) : -1;
}

static bool pour(void *data, const void *bytes, size_t len)
{
  outlet *self = data;
  const char *at = bytes;
  mcg_quiet quiet;
  while (len > 0) {
    mcg_quiet_begin(&quiet);
    ssize_t n = write(self->fd, at, len);
    mcg_quiet_end(&quiet, n < 0 && errno == EPIPE);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      self->number = errno;
      return false;
    }
    at += n;
    len -= (size_t)n;
  }
  return true;
}

static int unwritten(const transfer *self, int number, mcg_error **err)
{
  return mcg_fail_errno(err, number, "name a file that this user can write", "host file %s",
                        self->to);
}

/* To what is there and stays what it is; for who reads a fifo this waits. */
static int download_into(const transfer *self, int take_fd, mcg_error **err)
{
  const char *const argv[] = {"read", self->from, NULL};
  outlet out = {.fd = take_fd};
  mcg_builtin reads = {.argv = argv, .sink = pour, .data = &out};
  int rc = mcg_builtin_run(self->session->engine, self->session->stream, &reads, err);
  if (close(out.fd) < 0 && !rc) rc = unwritten(self, errno, err);
  if (!out.number) return rc;
  mcg_error_free(mcg_steal_pointer(err));
  return unwritten(self, out.number, err);
}

/* A file takes the place of the one that a link leads to, not of the link. */
static char *place_of(const transfer *self, bool tree, mcg_error **err)
{
  struct stat about;
  bool link = !tree && lstat(self->to, &about) == 0 && S_ISLNK(about.st_mode);
  char *place = link ? realpath(self->to, NULL) : strdup(self->to);
  if (!place)
    mcg_fail_errno(err, errno, "name a file, and no link to nowhere", "host file %s", self->to);
  return place;
}

/* A file or directory, made in the host's directory by one that is opened there. */
static int download_to(const transfer *self, const mcg_entry *about, mcg_error **err)
{
  mcg_session *session = self->session;
  bool tree = S_ISDIR(about->mode);
  auto_free char *place = place_of(self, tree, err), *directory = NULL, *name = NULL;
  if (!place || split(place, &directory, &name, err) < 0) return -1;
  mcg_host *host;
  if (mcg_host_open(session->engine, directory, &host, err) < 0) return -1;
  int rc = mcg_session_alive(session, err);
  if (!rc)
    rc = tree ? pipe_tree(session->engine, session->stream, self->from, mcg_host_stream(host), name,
                          err)
              : pipe_file(session->engine, session->stream, self->from, mcg_host_stream(host), name,
                          about->mode, err);
  mcg_host_close(host);
  return rc;
}

static int download_run(void *arg, mcg_error **err)
{
  transfer *self = arg;
  mcg_session *session = self->session;
  mcg_entry about;
  bool special = false;
  if (mcg_session_alive(session, err) < 0 || stat_inside(session, self->from, &about, err) < 0)
    return mcg_wrap(err, "download %s", self->from);
  if (!S_ISDIR(about.mode) && !S_ISREG(about.mode))
    return mcg_fail(err, MCG_INVALID, "name a file or a directory", "download %s: it is neither",
                    self->from);
  int fd = S_ISREG(about.mode) ? open_outlet(self->to, &special) : -1;
  int rc = fd >= 0   ? download_into(self, fd, err)
           : special ? unwritten(self, errno, err)
                     : download_to(self, &about, err);
  return rc < 0 ? mcg_wrap(err, "download %s", self->from) : 0;
}

int mcg_file_download(mcg_session *session, const char *from, const char *host_to, mcg_done done,
                      void *data, mcg_op **op, mcg_error **err)
{
  if (!host_to || !*host_to)
    return mcg_fail(err, MCG_INVALID, "write . for the current directory",
                    "the host path is empty");
  if (mcg_file_path_check(session, from, err) < 0) return -1;
  transfer given = {.session = session,
                    .from = strdup(from),
                    .to = complete_target(from, host_to),
                    .done = done,
                    .data = data,
                    .call = "download",
                    .run = download_run};
  return transfer_start(&given, op, err);
}
