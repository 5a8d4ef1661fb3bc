/* intake.h: from received bytes to whole messages. It checks everything that can be checked without
 * knowing commands: headers, the sequence, lengths, how long messages are put together. */
#ifndef MCG_INTAKE_H
#define MCG_INTAKE_H

#include "protocol.h"
#include "wire.h"

typedef struct mcg_part {
  struct mcg_part *next;
  uint32_t channel;
  uint8_t type;
  size_t len, cap;
  uint8_t *bytes;
} mcg_part;

/* A whole message; `body` is borrowed. False: it makes no sense, the connection is over. */
typedef bool (*mcg_on_message)(void *data, const mcg_frame *frame, const uint8_t *body, size_t len);

typedef struct mcg_intake {
  uint64_t sequence; /* of the last frame */
  mcg_part *parts;   /* messages that have not ended yet */
  size_t part_bytes; /* of all of them */
  uint8_t *buffer;   /* byte stream: the start of a frame that is not here yet */
  size_t held;
} mcg_intake;

void mcg_intake_init(mcg_intake *intake);
void mcg_intake_fini(mcg_intake *intake);
/* A packet: exactly one frame. False: the peer is not to be listened to any more. */
bool mcg_intake_packet(mcg_intake *intake, const uint8_t *bytes, size_t len, mcg_on_message fn,
                       void *data);
/* Any piece of a byte stream of frames without descriptors. */
bool mcg_intake_bytes(mcg_intake *intake, const uint8_t *bytes, size_t len, mcg_on_message fn,
                      void *data);

#endif
