/* intake.c: see intake.h. What it holds for one peer is bounded: one frame, and MCG_PARTS_MAX bytes of
 * messages that have not ended. */
#include "intake.h"

#include <stdlib.h>
#include <string.h>

#define MCG_PARTS_MAX (2 * MCG_WIRE_MAX)
#define BUFFER_BYTES (MCG_FRAME_HEADER + MCG_FRAME_MAX)

void mcg_intake_init(mcg_intake *intake)
{
  *intake = (mcg_intake){0};
}

static void part_free(mcg_part *part)
{
  free(part->bytes);
  free(part);
}

void mcg_intake_fini(mcg_intake *intake)
{
  while (intake->parts) {
    mcg_part *part = intake->parts;
    intake->parts = part->next;
    part_free(part);
  }
  free(intake->buffer);
  *intake = (mcg_intake){0};
}

static mcg_part **find_part(mcg_intake *intake, uint32_t channel)
{
  mcg_part **at = &intake->parts;
  while (*at && (*at)->channel != channel) at = &(*at)->next;
  return at;
}

/* Only these can be longer than a frame; bytes of a command never need to be put together. */
static bool may_continue(uint8_t type)
{
  return type == MCG_F_HELLO || type == MCG_F_EXEC;
}

static bool part_add(mcg_intake *intake, mcg_part *part, const uint8_t *bytes, size_t len)
{
  if (len > MCG_WIRE_MAX - part->len || len > MCG_PARTS_MAX - intake->part_bytes) return false;
  if (part->len + len > part->cap) {
    size_t cap = part->cap ? part->cap : MCG_FRAME_MAX;
    while (cap < part->len + len) cap *= 2;
    uint8_t *grown = realloc(part->bytes, cap);
    if (!grown) return false;
    part->bytes = grown;
    part->cap = cap;
  }
  if (len) memcpy(part->bytes + part->len, bytes, len);
  part->len += len;
  intake->part_bytes += len;
  return true;
}

static bool take_part(mcg_intake *intake, mcg_part **at, const mcg_frame *frame,
                      const uint8_t *payload, mcg_on_message fn, void *data)
{
  if (!may_continue(frame->type) || frame->fds) return false;
  if (!*at) {
    mcg_part *fresh = calloc(1, sizeof *fresh);
    if (!fresh) return false;
    fresh->channel = frame->channel;
    fresh->type = frame->type;
    *at = fresh;
  }
  mcg_part *part = *at;
  if (part->type != frame->type || !part_add(intake, part, payload, frame->length)) return false;
  if (frame->flags & MCG_FRAME_MORE) return frame->length > 0;
  *at = part->next;
  intake->part_bytes -= part->len;
  bool good = fn(data, frame, part->bytes, part->len);
  part_free(part);
  return good;
}

static bool take_frame(mcg_intake *intake, const mcg_frame *frame, const uint8_t *payload,
                       mcg_on_message fn, void *data)
{
  if (frame->sequence != intake->sequence + 1) return false;
  intake->sequence = frame->sequence;
  mcg_part **at = find_part(intake, frame->channel);
  if (*at || (frame->flags & MCG_FRAME_MORE))
    return take_part(intake, at, frame, payload, fn, data);
  return fn(data, frame, payload, frame->length);
}

bool mcg_intake_packet(mcg_intake *intake, const uint8_t *bytes, size_t len, mcg_on_message fn,
                       void *data)
{
  mcg_frame frame;
  if (len < MCG_FRAME_HEADER || !mcg_frame_decode(bytes, &frame)) return false;
  if (len - MCG_FRAME_HEADER != frame.length) return false;
  return take_frame(intake, &frame, bytes + MCG_FRAME_HEADER, fn, data);
}

/* Takes one frame from the front of `bytes` if it is whole: its size; 0: not whole; -1: nonsense. */
static long take_front(mcg_intake *intake, const uint8_t *bytes, size_t len, mcg_on_message fn,
                       void *data)
{
  mcg_frame frame;
  if (len < MCG_FRAME_HEADER) return 0;
  if (!mcg_frame_decode(bytes, &frame) || frame.fds) return -1;
  if (len - MCG_FRAME_HEADER < frame.length) return 0;
  if (!take_frame(intake, &frame, bytes + MCG_FRAME_HEADER, fn, data)) return -1;
  return (long)(MCG_FRAME_HEADER + frame.length);
}

/* Completes the frame whose start is held, byte by piece, and takes it. */
static long feed_held(mcg_intake *intake, const uint8_t *bytes, size_t len, mcg_on_message fn,
                      void *data)
{
  size_t want = MCG_FRAME_HEADER;
  if (intake->held >= MCG_FRAME_HEADER) {
    mcg_frame frame;
    if (!mcg_frame_decode(intake->buffer, &frame)) return -1;
    want += frame.length;
  }
  size_t more = want - intake->held < len ? want - intake->held : len;
  memcpy(intake->buffer + intake->held, bytes, more);
  intake->held += more;
  long taken = take_front(intake, intake->buffer, intake->held, fn, data);
  if (taken < 0) return -1;
  if (taken > 0) intake->held = 0;
  return (long)more;
}

bool mcg_intake_bytes(mcg_intake *intake, const uint8_t *bytes, size_t len, mcg_on_message fn,
                      void *data)
{
  while (len) {
    long taken;
    if (intake->held) {
      taken = feed_held(intake, bytes, len, fn, data);
    } else {
      taken = take_front(intake, bytes, len, fn, data);
      if (taken == 0) {
        if (!intake->buffer && !(intake->buffer = malloc(BUFFER_BYTES))) return false;
        memcpy(intake->buffer, bytes, len);
        intake->held = len;
        return true;
      }
    }
    if (taken < 0) return false;
    bytes += taken;
    len -= (size_t)taken;
  }
  return true;
}
