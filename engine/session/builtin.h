/* builtin.h: one of init's built-ins (init/protocol.h), run to its end from a fiber. Files, archives
 * and the project view are made of these. */
#ifndef MCG_BUILTIN_H
#define MCG_BUILTIN_H

#include "stream/stream.h"

typedef struct mcg_builtin {
  const char *const *argv; /* NULL-terminated, argv[0] the built-in's name */
  bool program;            /* argv is a program instead; its exit code goes to *exit_code */
  const char *user;        /* a program's; NULL: who commands run as without being told */
  int *exit_code;
  /* stdin: `input`, or what `source` gives (as in mcg_workspace_restore), or nothing. */
  const void *input;
  size_t input_len;
  long (*source)(void *data, void *buffer, size_t cap);
  /* stdout: to `sink` (false: stop, `canceled`), or collected here, at most `max_output` bytes. */
  bool (*sink)(void *data, const void *bytes, size_t len);
  /* Asked after each sink: false pauses until mcg_builtin_resume. NULL: it is always ready. */
  bool (*ready)(void *data);
  void *data; /* of source, sink, ready and before_end */
  size_t max_output;
  /* Of `to` in mcg_builtin_pipe: called when `from` has ended well and all of it is passed on, before
   * the end of it is; may park. Failing, it ends both. NULL: nothing to do. */
  int (*before_end)(void *data, mcg_error **err);
  char *output; /* the caller's, also on failure; NUL-terminated; NULL: nothing came */
  size_t output_len;
  struct run *run; /* while it runs */
} mcg_builtin;

/* Its sink takes more again. From the loop; at any time. */
void mcg_builtin_resume(mcg_builtin *builtin);

/* Failure of the built-in: its errno as a code (ENOENT not_found, ESTALE and EEXIST conflict, ENOSPC
 * quota, EXDEV, EINVAL and wrong kinds of file invalid, EACCES unauthorized ...), its text as the
 * message. More output than max_output: `quota`. Canceled: its tree is killed first. */
int mcg_builtin_run(mcg_engine *engine, mcg_stream *stream, mcg_builtin *builtin,
                    mcg_error **err) MCG_PARKS;

/* The stdout of one becomes the stdin of the other, with back-pressure; each has its own stream, which
 * may be the same. `to` meets no end of file unless `from` ended well. Of `from` and `to` only argv,
 * program, exit_code, and of `to` output, max_output, before_end are looked at. */
int mcg_builtin_pipe(mcg_engine *engine, mcg_stream *from_stream, mcg_builtin *from,
                     mcg_stream *to_stream, mcg_builtin *to, mcg_error **err) MCG_PARKS;

#endif
