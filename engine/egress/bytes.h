/* bytes.h: bytes that grow at the end and are taken from the front. They may hold what is secret: memory
 * that is let go is wiped. */
#ifndef MCG_EGRESS_BYTES_H
#define MCG_EGRESS_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct mcg_bytes {
  char *at;
  size_t start, len, cap; /* the bytes are at[start] to at[start + len] */
  bool failed;            /* memory ran out: some are missing */
} mcg_bytes;

static inline const char *mcg_bytes_of(const mcg_bytes *bytes)
{
  return bytes->at + bytes->start;
}

static inline void mcg_bytes_fini(mcg_bytes *bytes)
{
  if (bytes->at) explicit_bzero(bytes->at, bytes->cap);
  free(bytes->at);
  *bytes = (mcg_bytes){0};
}

/* Where `room` more bytes can be written, to be counted with mcg_bytes_grown; NULL: no memory. */
static inline char *mcg_bytes_room(mcg_bytes *bytes, size_t room)
{
  if (bytes->cap - bytes->start - bytes->len >= room) return bytes->at + bytes->start + bytes->len;
  size_t cap = bytes->len + room < 4096 ? 4096 : (bytes->len + room) * 2;
  char *grown = malloc(cap);
  if (!grown) {
    bytes->failed = true;
    return NULL;
  }
  if (bytes->len) memcpy(grown, bytes->at + bytes->start, bytes->len);
  if (bytes->at) explicit_bzero(bytes->at, bytes->cap);
  free(bytes->at);
  bytes->at = grown;
  bytes->start = 0;
  bytes->cap = cap;
  return grown + bytes->len;
}

static inline void mcg_bytes_grown(mcg_bytes *bytes, size_t len)
{
  bytes->len += len;
}

static inline void mcg_bytes_put(mcg_bytes *bytes, const void *from, size_t len)
{
  char *room = len ? mcg_bytes_room(bytes, len) : NULL;
  if (!room) return;
  memcpy(room, from, len);
  bytes->len += len;
}

static inline void mcg_bytes_text(mcg_bytes *bytes, const char *text)
{
  mcg_bytes_put(bytes, text, strlen(text));
}

static inline void mcg_bytes_taken(mcg_bytes *bytes, size_t len)
{
  bytes->len -= len;
  bytes->start = bytes->len ? bytes->start + len : 0;
}

#endif
