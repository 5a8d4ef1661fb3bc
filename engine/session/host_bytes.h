/* host_bytes.h: bytes that the host's own functions give and take, asked for by an operation. The
 * functions are called on the main stack. */
#ifndef MCG_HOST_BYTES_H
#define MCG_HOST_BYTES_H

#include "fiber.h"

typedef struct mcg_host_bytes {
  mcg_engine *engine;
  long (*source)(void *data, void *buffer, size_t cap); /* as in mcg_workspace_restore; or NULL */
  bool (*sink)(void *data, const void *bytes,
               size_t len); /* as in mcg_workspace_persist; or NULL */
  void *data;
} mcg_host_bytes;

/* The two from a fiber, in the shape that whatever takes a source or a sink wants. */
long mcg_host_source(void *host_bytes, void *buffer, size_t cap);
bool mcg_host_sink(void *host_bytes, const void *bytes, size_t len);

#endif
