/* manifest_apply.c: puts a manifest into a workspace, with init's built-ins on both ends. The engine
 * itself opens no file of the host and unpacks nothing. */
#include "builtin.h"
#include "config/manifest_parts.h"
#include <string.h>
#include <sys/stat.h>

typedef struct placing {
  mcg_engine *engine;
  const mcg_manifest *manifest;
  mcg_stream *stream; /* of the sandbox */
  const mcg_manifest_sources *sources;
  mcg_stream *host; /* opened with the first copy or archive */
} placing;

static int run(placing *p, const char *const *argv, const void *input, size_t len, mcg_error **err)
{
  mcg_builtin builtin = {.argv = argv, .input = input, .input_len = len};
  int rc = mcg_builtin_run(p->engine, p->stream, &builtin, err);
  free(builtin.output);
  return rc;
}

static int make_directory(placing *p, const char *path, unsigned mode, mcg_error **err)
{
  char octal[8];
  snprintf(octal, sizeof octal, "%o", mode);
  return run(p, (const char *const[]){"mkdir", path, octal, NULL}, NULL, 0, err);
}

static int make_parent(placing *p, const char *path, mcg_error **err)
{
  const char *slash = strrchr(path, '/');
  if (!slash) return 0;
  auto_free char *parent = mcg_format("%.*s", (int)(slash - path), path);
  if (!parent) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the manifest");
  return make_directory(p, parent, 0755, err);
}

static int place_file(placing *p, const mcg_manifest_entry *e, mcg_error **err)
{
  char octal[8];
  snprintf(octal, sizeof octal, "%o", e->mode);
  if (make_parent(p, e->path, err) < 0) return -1;
  return run(p, (const char *const[]){"write", e->path, octal, NULL}, e->bytes, e->len, err);
}

static int open_host(placing *p, mcg_error **err)
{
  if (p->host) return 0;
  if (!p->manifest->base)
    return mcg_fail(err, MCG_NOT_FOUND, "set manifest.base", "the working directory is gone");
  return p->sources->host(p->sources->data, p->manifest->base, &p->host, err);
}

/* What lies at a path of the host's base, or of the sandbox. */
static int look(placing *p, mcg_stream *where, const char *path, mcg_entry *out, mcg_error **err)
{
  mcg_builtin stat = {.argv = (const char *const[]){"stat", path, NULL}, .max_output = 65536};
  int rc = mcg_builtin_run(p->engine, where, &stat, err);
  if (rc == 0 && stat.output_len < MCG_ENTRY_HEADER)
    rc = mcg_fail(err, MCG_PROTOCOL, NULL, "stat of %s answered nothing", path);
  if (rc == 0) mcg_entry_decode((const uint8_t *)stat.output, out);
  free(stat.output);
  return rc;
}

static int place_copy(placing *p, const mcg_manifest_entry *e, mcg_error **err)
{
  mcg_entry about;
  if (open_host(p, err) < 0 || look(p, p->host, e->source, &about, err) < 0) return -1;
  uint32_t mode = about.mode;
  bool directory = S_ISDIR(mode);
  char octal[8];
  snprintf(octal, sizeof octal, "%o", mode & 0777u);
  int rc = directory ? make_directory(p, e->path, mode & 0777, err) : make_parent(p, e->path, err);
  if (rc < 0) return -1;
  mcg_builtin from = {
      .argv = (const char *const[]){directory ? "pack-strict" : "read", e->source, NULL}};
  mcg_builtin to = {.argv = directory ? (const char *const[]){"unpack", e->path, NULL}
                                      : (const char *const[]){"write", e->path, octal, NULL}};
  return mcg_builtin_pipe(p->engine, p->host, &from, p->stream, &to, err);
}

static bool ends_in(const char *text, const char *tail)
{
  size_t n = strlen(text), m = strlen(tail);
  return n >= m && strcmp(text + n - m, tail) == 0;
}

/* The program that reads a compressed archive, by the end of its name; "": it is plain tar. */
static const char *reader_of(const char *source, mcg_error **err)
{
  static const struct {
    const char *end, *program;
  } known[] = {{".tar", ""},   {".gz", "gzip"},  {".tgz", "gzip"}, {".xz", "xz"},
               {".txz", "xz"}, {".zst", "zstd"}, {".bz2", "bzip2"}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (ends_in(source, known[i].end)) return known[i].program;
  mcg_fail(err, MCG_INVALID, "use .tar, .tar.gz, .tar.xz, .tar.zst or .tar.bz2",
           "%s: not an archive that is known by its name", source);
  return NULL;
}

/* Who reads it must be somebody to whom the place is open: its owner. */
static int owner_of(placing *p, const char *path, char user[32], mcg_error **err)
{
  mcg_entry about;
  *user = 0;
  if (!p->manifest->user_count) return 0;
  if (look(p, p->stream, path, &about, err) < 0) return -1;
  snprintf(user, 32, "%u:%u", about.uid, about.gid);
  return 0;
}

/* The sandbox's own program makes plain tar of the file `packed`, which init unpacks: so nothing that
 * is hostile is read outside, and no archive gets past the judge. */
static int unpack_with(placing *p, const mcg_manifest_entry *e, const char *program,
                       const char *packed, const mcg_builtin *unpack, mcg_error **err)
{
  int status = 0;
  char user[32];
  if (owner_of(p, e->path, user, err) < 0) return -1;
  mcg_builtin reader = {.argv = (const char *const[]){program, "-dc", "--", packed, NULL},
                        .program = true,
                        .user = *user ? user : NULL,
                        .exit_code = &status};
  mcg_builtin taker = *unpack;
  int rc = mcg_builtin_pipe(p->engine, p->stream, &reader, p->stream, &taker, err);
  if (status == 0) return rc;
  mcg_error_free(*err); /* the taker's, who was ended for it */
  *err = NULL;
  if (status == 127)
    return mcg_fail(err, MCG_UNSUPPORTED, "use a plain .tar, or a rootfs that has the program",
                    "%s needs %s, which is not in the sandbox", e->source, program);
  return mcg_fail(err, MCG_ARCHIVE_UNSAFE, "fetch or make the archive again",
                  "%s: %s in the sandbox ended with %d; nothing was unpacked", e->source, program,
                  status);
}

/* In the place itself, for room and for whose it is. */
static int place_compressed(placing *p, const mcg_manifest_entry *e, const char *program,
                            const mcg_builtin *read, const mcg_builtin *unpack, mcg_error **err)
{
  auto_free char *packed = mcg_format("%s/.mooncage-packed", e->path);
  if (!packed) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the manifest");
  mcg_builtin from = *read;
  mcg_builtin to = {.argv = (const char *const[]){"write", packed, "600", NULL}};
  if (mcg_builtin_pipe(p->engine, p->host, &from, p->stream, &to, err) < 0) return -1;
  int rc = unpack_with(p, e, program, packed, unpack, err);
  auto_error mcg_error *late = NULL;
  int gone = run(p, (const char *const[]){"remove", packed, NULL}, NULL, 0, rc < 0 ? &late : err);
  return rc < 0 ? rc : gone;
}

static int place_archive(placing *p, const mcg_manifest_entry *e, mcg_error **err)
{
  const char *program = reader_of(e->source, err);
  if (!program || open_host(p, err) < 0 || make_directory(p, e->path, 0755, err) < 0) return -1;
  mcg_builtin read = {.argv = (const char *const[]){"read", e->source, NULL}};
  mcg_builtin unpack = {.argv = (const char *const[]){"unpack", e->path, NULL}};
  return *program ? place_compressed(p, e, program, &read, &unpack, err)
                  : mcg_builtin_pipe(p->engine, p->host, &read, p->stream, &unpack, err);
}

/* git runs in a jail of its own that has a network and nothing else: no configuration of the host, no
 * hooks, no credentials, no prompt. Only the checked-out tree, .git with it, comes over. */
static int place_git(placing *p, const mcg_manifest_entry *e, mcg_error **err)
{
  mcg_stream *fetcher = NULL;
  if (p->sources->fetcher(p->sources->data, &fetcher, err) < 0)
    return mcg_wrap(err, "open a jail to fetch in");
  static const char script[] =
      "set -e; exec 2>&1\n"
      "export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0 "
      "GIT_ASKPASS=true\n"
      "export GIT_ALLOW_PROTOCOL=https:http:git\n"
      "command -v git >/dev/null || exit 127\n"
      "run() { git -c core.hooksPath=/dev/null \"$@\"; }\n"
      "if [ \"$3\" = 0 ]; then\n"
      "  run clone --quiet --template= -- \"$1\" tree\n"
      "  [ -z \"$2\" ] || { cd tree; run checkout --quiet \"$2\" --; }\n"
      "else\n"
      "  run clone --quiet --template= --depth \"$3\" ${2:+--branch \"$2\"} -- \"$1\" tree\n"
      "fi\n";
  char depth[16];
  snprintf(depth, sizeof depth, "%u", e->depth);
  int status = 0;
  mcg_builtin clone = {.argv = (const char *const[]){"/bin/sh", "-c", script, "git", e->source,
                                                     e->ref ? e->ref : "", depth, NULL},
                       .program = true,
                       .exit_code = &status,
                       .max_output = 65536};
  int rc = mcg_builtin_run(p->engine, fetcher, &clone, err);
  if (rc == 0 && status != 0) {
    size_t len = clone.output ? strcspn(clone.output, "\n") : 0;
    rc = mcg_fail(err, status == 127 ? MCG_UNSUPPORTED : MCG_UNAVAILABLE,
                  status == 127 ? "install git on this machine" : "check the address and the ref",
                  "git ended with %d: %.*s", status, (int)len, clone.output ? clone.output : "");
  }
  free(clone.output);
  mcg_builtin pack = {.argv = (const char *const[]){"pack", "tree", NULL}};
  mcg_builtin unpack = {.argv = (const char *const[]){"unpack", e->path, NULL}};
  if (rc == 0) rc = make_directory(p, e->path, 0755, err);
  if (rc == 0) rc = mcg_builtin_pipe(p->engine, fetcher, &pack, p->stream, &unpack, err);
  p->sources->done(p->sources->data, fetcher);
  return rc;
}

static int place(placing *p, const mcg_manifest_entry *e, mcg_error **err)
{
  switch (e->kind) {
  case MCG_ENTRY_DIRECTORY: return make_directory(p, e->path, e->mode, err);
  case MCG_ENTRY_COPY: return place_copy(p, e, err);
  case MCG_ENTRY_ARCHIVE: return place_archive(p, e, err);
  case MCG_ENTRY_GIT: return place_git(p, e, err);
  case MCG_ENTRY_FILE: return place_file(p, e, err);
  }
  return 0;
}

int mcg_manifest_apply(mcg_engine *engine, const mcg_manifest *manifest, bool ephemeral_only,
                       mcg_stream *stream, const mcg_manifest_sources *sources, mcg_error **err)
{
  placing p = {.engine = engine, .manifest = manifest, .stream = stream, .sources = sources};
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < manifest->count; i++) {
    const mcg_manifest_entry *e = &manifest->entries[i];
    if (ephemeral_only && !e->ephemeral) continue;
    rc = place(&p, e, err);
    if (rc < 0) mcg_wrap(err, "manifest: put %s in place", e->path);
  }
  if (p.host) p.sources->done(p.sources->data, p.host);
  return rc;
}
