/* capture.c: bounded capture of an output stream.
 *
 * Half of the limit is for the beginning, half for the end. Memory grows with what was written, up
 * to the limit and no further; the middle is counted and dropped. */
#include "capture.h"
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 4096

void mcg_capture_init(mcg_capture *capture, size_t limit)
{
  *capture = (mcg_capture){.limit = limit, .head_max = limit - limit / 2, .tail_max = limit / 2};
}

void mcg_capture_fini(mcg_capture *capture)
{
  free(capture->head);
  free(capture->tail);
  capture->head = capture->tail = NULL;
}

static bool reserve(uint8_t **buffer, size_t *cap, size_t need, size_t max)
{
  if (need <= *cap) return true;
  size_t room = *cap ? *cap : FIRST_ROOM;
  while (room < need) room = room > max / 2 ? max : room * 2;
  if (room > max) room = max;
  uint8_t *grown = realloc(*buffer, room);
  if (!grown) return false;
  *buffer = grown;
  *cap = room;
  return true;
}

static bool add_tail(mcg_capture *capture, const uint8_t *bytes, size_t len)
{
  size_t max = capture->tail_max;
  if (!max) return true;
  if (len > max) { /* only its end can stay */
    bytes += len - max;
    len = max;
  }
  if (capture->tail_len < max) {
    size_t part = len < max - capture->tail_len ? len : max - capture->tail_len;
    if (!reserve(&capture->tail, &capture->tail_cap, capture->tail_len + part, max)) return false;
    memcpy(capture->tail + capture->tail_len, bytes, part);
    capture->tail_len += part;
    bytes += part;
    len -= part;
  }
  while (len) {
    size_t part = max - capture->tail_at < len ? max - capture->tail_at : len;
    memcpy(capture->tail + capture->tail_at, bytes, part);
    capture->tail_at = (capture->tail_at + part) % max;
    bytes += part;
    len -= part;
  }
  return true;
}

bool mcg_capture_add(mcg_capture *capture, const void *data, size_t len)
{
  const uint8_t *bytes = data;
  capture->total += len;
  if (!capture->limit || !len) return true;
  size_t room = capture->head_max - capture->head_len;
  size_t part = len < room ? len : room;
  if (part) {
    if (!reserve(&capture->head, &capture->head_cap, capture->head_len + part, capture->head_max))
      return false;
    memcpy(capture->head + capture->head_len, bytes, part);
    capture->head_len += part;
  }
  return part == len || add_tail(capture, bytes + part, len - part);
}

bool mcg_capture_truncated(const mcg_capture *capture)
{
  return capture->total > capture->limit;
}

bool mcg_capture_finish(mcg_capture *capture, const char **bytes, size_t *len)
{
  if (capture->tail_len) {
    uint8_t *whole = realloc(capture->head, capture->head_len + capture->tail_len);
    if (!whole) return false;
    size_t first = capture->tail_len - capture->tail_at;
    memcpy(whole + capture->head_len, capture->tail + capture->tail_at, first);
    memcpy(whole + capture->head_len + first, capture->tail, capture->tail_at);
    capture->head = whole;
    capture->head_len += capture->tail_len;
    capture->tail_len = 0;
  }
  *bytes = capture->head ? (const char *)capture->head : "";
  *len = capture->head_len;
  return true;
}
