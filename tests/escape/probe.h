/* probe.h: what the files of sbx-probe share. An attempt tries something that a sandbox should stop
 * and says what came of it, one line a try: WHAT <tab> VERDICT <tab> DETAIL, where the verdict is
 * ALLOWED, DENIED (the detail is the errno's name) or KILLED (the detail is the signal's name). It
 * never decides whether that is right: the runner does. */
#ifndef SBX_PROBE_H
#define SBX_PROBE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct attempt {
  const char *name, *usage;
  int (*run)(int argc, char **argv); /* argv[0] is the first argument; 0, or 2 for wrong usage */
} attempt;

extern const attempt attempts_fs[], attempts_proc[], attempts_kernel[], attempts_resources[],
    attempts_net[];

void say(const char *verdict, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A result of a system call: below 0, errno tells why. Returns it. */
long judge(const char *what, long result);
/* The same, tried in a child, so that what it breaks or what kills it ends with it. */
void judge_in_child(const char *what, long (*try)(void *data), void *data);

const char *errno_name(int number);
/* At most `size - 1` bytes of a file, NUL-terminated; -1 and errno. */
long read_some(const char *path, char *out, size_t size);
/* For details: what is not printable becomes '.'; at most 60 bytes. */
const char *printable(const char *text, long length);
long number_of(const char *text); /* exits with 2 when it is none */

#endif
