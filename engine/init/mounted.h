/* mounted.h: what is mounted beneath a directory. It belongs to somebody else: to the host, as a rule. */
#ifndef MCG_MOUNTED_H
#define MCG_MOUNTED_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mounted {
  char **paths; /* relative to the directory */
  size_t count;
} mounted;

/* Or the end of the built-in: what is not known cannot be kept. */
void mounted_read(int dir, mounted *out);
bool mounted_at(const mounted *self, const char *path);     /* there is something */
bool mounted_within(const mounted *self, const char *path); /* there, or further down */

#endif
