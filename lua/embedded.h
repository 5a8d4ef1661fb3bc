/* embedded.h: the Lua modules that are built into the command, as bytecode; made by embed.c. */
#ifndef MCG_LUA_EMBEDDED_H
#define MCG_LUA_EMBEDDED_H

#include <stddef.h>

typedef struct mcg_embedded {
  const char *name; /* NULL ends the list */
  const unsigned char *data;
  size_t size;
} mcg_embedded;

extern const mcg_embedded mcg_embedded_modules[];

#endif
