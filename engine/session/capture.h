/* capture.h: what is kept of one output stream: the first and the last bytes of it, and true counts. */
#ifndef MCG_CAPTURE_H
#define MCG_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mcg_capture {
  size_t limit;   /* bytes kept; 0: none */
  uint64_t total; /* bytes seen */
  uint8_t *head, *tail;
  size_t head_len, head_cap, head_max;
  size_t tail_len, tail_cap, tail_max, tail_at; /* a ring once tail_len is tail_max */
} mcg_capture;

void mcg_capture_init(mcg_capture *capture, size_t limit);
/* False: out of memory. The count is right even then. */
bool mcg_capture_add(mcg_capture *capture, const void *bytes, size_t len);
/* Head and tail in one piece; borrowed until fini. Ends the capture: add nothing after it. */
bool mcg_capture_finish(mcg_capture *capture, const char **bytes, size_t *len);
bool mcg_capture_truncated(const mcg_capture *capture);
void mcg_capture_fini(mcg_capture *capture);

#endif
