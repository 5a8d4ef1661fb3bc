/* wire.c: fields of messages. The writer remembers a failure instead of reporting each one; the
 * reader checks every length against what is left. */
#include "wire.h"

#include <stdlib.h>
#include <string.h>

#define FIELD_HEADER 8

void mcg_wire_init(mcg_wire *wire)
{
  *wire = (mcg_wire){0};
}

void mcg_wire_fini(mcg_wire *wire)
{
  free(wire->data);
  *wire = (mcg_wire){0};
}

static void put_le(uint8_t *out, uint64_t value, size_t bytes)
{
  for (size_t i = 0; i < bytes; i++) out[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_le(const uint8_t *in, size_t bytes)
{
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; i++) value |= (uint64_t)in[i] << (8 * i);
  return value;
}

static bool wire_room(mcg_wire *wire, size_t more)
{
  if (wire->failed) return false;
  wire->too_long = more > MCG_WIRE_MAX - wire->len;
  if (wire->too_long) return false;
  size_t need = wire->len + more;
  if (need <= wire->cap) return true;
  size_t cap = wire->cap ? wire->cap : 256;
  while (cap < need) cap *= 2;
  uint8_t *data = realloc(wire->data, cap);
  if (!data) return false;
  wire->data = data;
  wire->cap = cap;
  return true;
}

void mcg_wire_put(mcg_wire *wire, uint16_t tag, const void *bytes, size_t len)
{
  if (!wire_room(wire, len > MCG_WIRE_MAX ? len : FIELD_HEADER + len)) {
    wire->failed = true;
    return;
  }
  uint8_t *at = wire->data + wire->len;
  put_le(at, tag, 2);
  put_le(at + 2, 0, 2);
  put_le(at + 4, len, 4);
  if (len) memcpy(at + FIELD_HEADER, bytes, len);
  wire->len += FIELD_HEADER + len;
}

void mcg_wire_put_u64(mcg_wire *wire, uint16_t tag, uint64_t value)
{
  uint8_t bytes[8];
  put_le(bytes, value, sizeof bytes);
  mcg_wire_put(wire, tag, bytes, sizeof bytes);
}

void mcg_wire_put_str(mcg_wire *wire, uint16_t tag, const char *text)
{
  if (text) mcg_wire_put(wire, tag, text, strlen(text));
}

mcg_reader mcg_reader_of(const void *bytes, size_t len)
{
  const uint8_t *at = bytes;
  return (mcg_reader){.at = at, .end = len ? at + len : at};
}

bool mcg_reader_next(mcg_reader *reader, mcg_field *out)
{
  if (reader->bad || reader->at == reader->end) return false;
  size_t left = (size_t)(reader->end - reader->at);
  if (left < FIELD_HEADER || get_le(reader->at + 2, 2) != 0 ||
      get_le(reader->at + 4, 4) > left - FIELD_HEADER) {
    reader->bad = true;
    return false;
  }
  out->tag = (uint16_t)get_le(reader->at, 2);
  out->len = (size_t)get_le(reader->at + 4, 4);
  out->bytes = reader->at + FIELD_HEADER;
  reader->at += FIELD_HEADER + out->len;
  return true;
}

uint64_t mcg_field_u64(const mcg_field *field)
{
  if (field->len < 1 || field->len > 8) return 0;
  return get_le(field->bytes, field->len);
}

char *mcg_field_str(const mcg_field *field)
{
  if (field->len && memchr(field->bytes, 0, field->len)) return NULL;
  char *text = malloc(field->len + 1);
  if (!text) return NULL;
  if (field->len) memcpy(text, field->bytes, field->len);
  text[field->len] = 0;
  return text;
}
