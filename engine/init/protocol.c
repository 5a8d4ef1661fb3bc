/* protocol.c: the fixed-size parts of the engine's protocol with init: frame headers, and the records
 * of `list`, `stat` and `processes`. All little-endian, all without padding. */
#include "protocol.h"

static uint8_t *put_le(uint8_t *out, uint64_t value, unsigned bytes)
{
  for (unsigned i = 0; i < bytes; i++) *out++ = (uint8_t)(value >> (8 * i));
  return out;
}

static uint64_t get_le(const uint8_t **in, unsigned bytes)
{
  uint64_t value = 0;
  for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)(*in)[i] << (8 * i);
  *in += bytes;
  return value;
}

void mcg_frame_encode(const mcg_frame *frame, uint8_t out[MCG_FRAME_HEADER])
{
  out = put_le(out, frame->length, 4);
  out = put_le(out, frame->type, 1);
  out = put_le(out, frame->flags, 1);
  out = put_le(out, frame->stream, 1);
  out = put_le(out, frame->fds, 1);
  out = put_le(out, frame->channel, 4);
  out = put_le(out, 0, 4);
  put_le(out, frame->sequence, 8);
}

bool mcg_frame_decode(const uint8_t in[MCG_FRAME_HEADER], mcg_frame *out)
{
  const uint8_t *at = in;
  mcg_frame frame = {0};
  frame.length = (uint32_t)get_le(&at, 4);
  frame.type = (uint8_t)get_le(&at, 1);
  frame.flags = (uint8_t)get_le(&at, 1);
  frame.stream = (uint8_t)get_le(&at, 1);
  frame.fds = (uint8_t)get_le(&at, 1);
  frame.channel = (uint32_t)get_le(&at, 4);
  uint64_t zero = get_le(&at, 4);
  frame.sequence = get_le(&at, 8);
  if (frame.length > MCG_FRAME_MAX || frame.type < MCG_F_HELLO || frame.type > MCG_F_LAST)
    return false;
  if ((frame.flags & ~MCG_FRAME_MORE) || frame.stream > 2 || frame.fds > MCG_FDS_MAX) return false;
  if (zero || frame.sequence == 0) return false;
  *out = frame;
  return true;
}

void mcg_entry_encode(const mcg_entry *entry, uint8_t out[MCG_ENTRY_HEADER])
{
  out = put_le(out, entry->mode, 4);
  out = put_le(out, entry->uid, 4);
  out = put_le(out, entry->gid, 4);
  out = put_le(out, entry->nlink, 4);
  out = put_le(out, entry->size, 8);
  out = put_le(out, entry->inode, 8);
  out = put_le(out, (uint64_t)entry->mtime_s, 8);
  out = put_le(out, entry->mtime_ns, 4);
  out = put_le(out, entry->name_len, 2);
  put_le(out, entry->target_len, 2);
}

void mcg_entry_decode(const uint8_t in[MCG_ENTRY_HEADER], mcg_entry *out)
{
  const uint8_t *at = in;
  out->mode = (uint32_t)get_le(&at, 4);
  out->uid = (uint32_t)get_le(&at, 4);
  out->gid = (uint32_t)get_le(&at, 4);
  out->nlink = (uint32_t)get_le(&at, 4);
  out->size = get_le(&at, 8);
  out->inode = get_le(&at, 8);
  out->mtime_s = (int64_t)get_le(&at, 8);
  out->mtime_ns = (uint32_t)get_le(&at, 4);
  out->name_len = (uint16_t)get_le(&at, 2);
  out->target_len = (uint16_t)get_le(&at, 2);
}

void mcg_process_encode(const mcg_process_entry *entry, uint8_t out[MCG_PROCESS_HEADER])
{
  out = put_le(out, entry->pid, 4);
  out = put_le(out, entry->ppid, 4);
  out = put_le(out, entry->uid, 4);
  out = put_le(out, entry->state, 4);
  out = put_le(out, entry->rss_kb, 8);
  out = put_le(out, entry->command_len, 4);
  put_le(out, 0, 4);
}

void mcg_process_decode(const uint8_t in[MCG_PROCESS_HEADER], mcg_process_entry *out)
{
  const uint8_t *at = in;
  out->pid = (uint32_t)get_le(&at, 4);
  out->ppid = (uint32_t)get_le(&at, 4);
  out->uid = (uint32_t)get_le(&at, 4);
  out->state = (uint32_t)get_le(&at, 4);
  out->rss_kb = get_le(&at, 8);
  out->command_len = (uint32_t)get_le(&at, 4);
}
