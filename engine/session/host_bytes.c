/* host_bytes.c: from the fiber that wants bytes to the host's function, and back. */
#include "host_bytes.h"

typedef struct giving {
  const mcg_host_bytes *host;
  void *buffer;
  size_t cap;
  long len;
} giving;

static void give(void *arg)
{
  giving *self = arg;
  self->len = self->host->source(self->host->data, self->buffer, self->cap);
}

long mcg_host_source(void *host_bytes, void *buffer, size_t cap)
{
  giving self = {.host = host_bytes, .buffer = buffer, .cap = cap};
  mcg_fiber_leave(self.host->engine, give, &self);
  return self.len;
}

typedef struct taking {
  const mcg_host_bytes *host;
  const void *bytes;
  size_t len;
  bool more;
} taking;

static void take(void *arg)
{
  taking *self = arg;
  self->more = self->host->sink(self->host->data, self->bytes, self->len);
}

bool mcg_host_sink(void *host_bytes, const void *bytes, size_t len)
{
  taking self = {.host = host_bytes, .bytes = bytes, .len = len};
  mcg_fiber_leave(self.host->engine, take, &self);
  return self.more;
}
