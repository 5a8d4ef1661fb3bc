/* builtin.h: functions of init that run in a forked child, confined like a command: its input and output
 * are the command's. They end by returning 0, or by builtin_fail. */
#ifndef MCG_BUILTIN_H
#define MCG_BUILTIN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Ends the built-in: EXIT carries `number` and the text. */
_Noreturn void builtin_fail(int number, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* All of it to stdout, or the end of the built-in. */
void builtin_put(const void *bytes, size_t len);
void builtin_flush(void);

/* An absolute or relative path of a request, opened as openat(2) would, but beneath the working directory
 * where paths are confined. -1: errno. */
int builtin_open(const char *path, int flags, mode_t mode);
/* The directory a path is in, and its last name (never "", ".", ".."). Fails by itself. */
int builtin_open_parent(const char *path, char name[256]);

#endif
