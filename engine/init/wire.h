/* wire.h: tagged fields, the one encoding of every message body, on both sides of both protocols
 * (engine <-> init, engine <-> spawner). Compiled into the engine and into mooncage-init.
 *
 * A field is { u16 tag, u16 zero, u32 length, bytes }, little-endian, unaligned. Unknown tags are
 * skipped by readers, so that a newer side can say more. Everything read is hostile. */
#ifndef MCG_WIRE_H
#define MCG_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MCG_WIRE_MAX ((size_t)2 << 20) /* a whole message, all its frames together */

typedef struct mcg_wire {
  uint8_t *data;
  size_t len, cap;
  bool failed;   /* out of memory or past MCG_WIRE_MAX: checked once, at the end */
  bool too_long; /* failed for the latter */
} mcg_wire;

void mcg_wire_init(mcg_wire *wire);
void mcg_wire_fini(mcg_wire *wire);
void mcg_wire_put(mcg_wire *wire, uint16_t tag, const void *bytes, size_t len);
void mcg_wire_put_u64(mcg_wire *wire, uint16_t tag, uint64_t value);
void mcg_wire_put_str(mcg_wire *wire, uint16_t tag, const char *text); /* NULL puts nothing */

typedef struct mcg_field {
  uint16_t tag;
  const uint8_t *bytes; /* borrowed from the message, not NUL-terminated */
  size_t len;
} mcg_field;
typedef struct mcg_reader {
  const uint8_t *at, *end;
  bool bad; /* a field runs past the end */
} mcg_reader;

mcg_reader mcg_reader_of(const void *bytes, size_t len);
bool mcg_reader_next(mcg_reader *reader, mcg_field *out); /* false: the end, or bad */
uint64_t mcg_field_u64(const mcg_field *field);           /* 0 when it is not 1..8 bytes long */
/* A fresh NUL-terminated copy; NULL when it holds a NUL or memory is out. */
char *mcg_field_str(const mcg_field *field);

#endif
