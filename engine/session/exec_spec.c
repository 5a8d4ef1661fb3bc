/* exec_spec.c: judges what was asked for and puts it into the message that starts a command. */
#include "exec.h"
#include <string.h>

#define TEXT_MAX ((size_t)1 << 20)     /* arguments and environment together */
#define STRING_MAX ((size_t)128 << 10) /* one of them: the kernel's own limit, its NUL included */

int mcg_exec_spec_read(const mcg_exec_spec *given, mcg_exec_spec *out, mcg_error **err)
{
  *out = (mcg_exec_spec){.size = sizeof *out};
  if (given->size < sizeof given->size)
    return mcg_fail(err, MCG_INVALID, "set .size = sizeof(mcg_exec_spec)",
                    "the command's spec has no size");
  const unsigned char *bytes = (const unsigned char *)given;
  for (size_t i = sizeof *out; i < given->size; i++)
    if (bytes[i])
      return mcg_fail(err, MCG_UNSUPPORTED, "install a newer libmooncage, or leave new fields zero",
                      "the command's spec holds something this version (" MCG_VERSION
                      ") does not know");
  memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
  if (!out->shell == !out->argv)
    return mcg_fail(err, MCG_INVALID, "leave one of the two out",
                    "give either a shell text or a list of arguments");
  if (out->argv && (!out->argv[0] || !*out->argv[0]))
    return mcg_fail(err, MCG_INVALID, "name the program to run", "the command is empty");
  if (out->timeout_ms < 0)
    return mcg_fail(err, MCG_INVALID, "write 0 for none", "the time-out is negative");
  if (out->stdin_mode > MCG_STDIN_PIPE)
    return mcg_fail(err, MCG_INVALID, "use one of mcg_stdin", "unknown stdin mode");
  if (out->detach && (out->pty || out->stdin_mode != MCG_STDIN_EMPTY))
    return mcg_fail(err, MCG_INVALID, "leave pty and stdin out",
                    "a detached command has no streams");
  return 0;
}

typedef struct allowance {
  size_t used;
  mcg_error **err;
} allowance;

static int put_text(mcg_wire *out, uint16_t tag, const char *text, allowance *budget)
{
  size_t len = strlen(text);
  if (len >= STRING_MAX)
    return mcg_fail(budget->err, MCG_INVALID, "give it on standard input, or write it to a file",
                    "%s of %zu bytes is longer than the kernel takes (128 KiB)",
                    tag == MCG_TAG_ENV ? "a variable" : "an argument", len);
  budget->used += len + 1;
  if (budget->used > TEXT_MAX)
    return mcg_fail(budget->err, MCG_INVALID,
                    "give the data on standard input, or write it to a file",
                    "arguments and environment are more than 1 MiB together");
  mcg_wire_put(out, tag, text, len);
  return 0;
}

static int put_arguments(const mcg_exec_spec *spec, mcg_wire *out, allowance *budget)
{
  const char *const shell[] = {"/bin/sh", "-c", spec->shell, NULL};
  for (const char *const *arg = spec->shell ? shell : spec->argv; *arg; arg++)
    if (put_text(out, MCG_TAG_ARG, *arg, budget) < 0) return -1;
  return 0;
}

static size_t name_length(const char *text)
{
  return strcspn(text, "=");
}

static bool overridden(const char *text, const char *const *by)
{
  size_t len = name_length(text);
  for (; by && *by; by++)
    if (name_length(*by) == len && memcmp(*by, text, len) == 0) return true;
  return false;
}

static int put_environment(const mcg_session *session, const mcg_exec_spec *spec, mcg_wire *out,
                           allowance *budget)
{
  for (char **at = session->config->environment; at && *at; at++)
    if (!overridden(*at, spec->env) && put_text(out, MCG_TAG_ENV, *at, budget) < 0) return -1;
  for (const char *const *at = spec->env; at && *at; at++) {
    size_t name = name_length(*at);
    if ((*at)[name] != '=' || !mcg_environment_name_ok(*at, name))
      return mcg_fail(budget->err, MCG_INVALID, "write NAME=value, the name without blanks",
                      "\"%.40s\" in env is no variable", *at);
    if (put_text(out, MCG_TAG_ENV, *at, budget) < 0) return -1;
  }
  return 0;
}

static int put_directory(const mcg_session *session, const mcg_exec_spec *spec, mcg_wire *out,
                         allowance *budget)
{
  const char *base = mcg_session_directory(session);
  if (!spec->cwd && !base) return 0;
  if (!spec->cwd) return put_text(out, MCG_TAG_CWD, base, budget);
  if (*spec->cwd == '/') return put_text(out, MCG_TAG_CWD, spec->cwd, budget);
  if (!*spec->cwd)
    return mcg_fail(budget->err, MCG_INVALID, "name a directory, or leave it out", "cwd is empty");
  auto_free char *path = mcg_format("%s/%s", base ? base : ".", spec->cwd);
  if (!path) return mcg_fail(budget->err, MCG_NOMEM, NULL, "no memory for a command");
  return put_text(out, MCG_TAG_CWD, path, budget);
}

int mcg_exec_encode(const mcg_session *session, const mcg_exec_spec *spec, mcg_wire *out,
                    mcg_error **err)
{
  allowance budget = {.err = err};
  const char *user = spec->user ? spec->user : session->config->user;
  if (put_arguments(spec, out, &budget) < 0 || put_environment(session, spec, out, &budget) < 0 ||
      put_directory(session, spec, out, &budget) < 0)
    return -1;
  if (user) mcg_wire_put_str(out, MCG_TAG_USER, user);
  if (spec->pty) {
    mcg_wire_put_u64(out, MCG_TAG_COLS, spec->cols ? spec->cols : 80);
    mcg_wire_put_u64(out, MCG_TAG_ROWS, spec->rows ? spec->rows : 24);
  }
  return out->failed ? mcg_fail(err, MCG_NOMEM, NULL, "no memory for a command") : 0;
}
