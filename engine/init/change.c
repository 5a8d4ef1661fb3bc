/* change.c: the record of one change, encoded and decoded; compiled into init and into the engine. */
#include "project.h"
#include <limits.h>
#include <string.h>

static void put_le(uint8_t *at, uint64_t value, unsigned bytes)
{
  for (unsigned i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_le(const uint8_t *at, unsigned bytes)
{
  uint64_t value = 0;
  for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)at[i] << (8 * i);
  return value;
}

void mcg_change_encode(const mcg_change *change, uint8_t out[MCG_CHANGE_HEADER])
{
  memset(out, 0, MCG_CHANGE_HEADER);
  out[0] = change->op;
  out[1] = change->kind;
  put_le(out + 2, change->path_len, 2);
  put_le(out + 4, change->target_len, 2);
  put_le(out + 8, change->mode, 4);
  put_le(out + 12, change->size, 8);
  put_le(out + 20, change->old_size, 8);
}

bool mcg_change_decode(const uint8_t in[MCG_CHANGE_HEADER], mcg_change *out)
{
  *out = (mcg_change){
      .op = in[0],
      .kind = in[1],
      .path_len = (uint16_t)get_le(in + 2, 2),
      .target_len = (uint16_t)get_le(in + 4, 2),
      .mode = (uint32_t)get_le(in + 8, 4),
      .size = get_le(in + 12, 8),
      .old_size = get_le(in + 20, 8),
  };
  bool known = out->op && strchr("AMD", out->op) && out->kind && strchr("fdlo", out->kind);
  bool links = out->kind == 'l' && out->op != 'D' ? out->target_len > 0 : out->target_len == 0;
  return known && links && out->path_len > 0 && out->path_len < PATH_MAX &&
         out->target_len < PATH_MAX && !(out->mode & ~07777u) && (out->kind == 'f' || !out->size) &&
         (out->op != 'D' || !out->size);
}
