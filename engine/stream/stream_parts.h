/* stream_parts.h: the insides of mcg_stream, shared by stream.c and its two carriers. */
#ifndef MCG_STREAM_PARTS_H
#define MCG_STREAM_PARTS_H

#include "engine.h"
#include "stream.h"

#define MCG_IO_BUFFER ((size_t)256 << 10)
#define MCG_CHANNEL_BUCKETS 32

/* Work for the next turn of the loop: how completions are kept out of the calls that caused them. */
typedef struct mcg_later {
  struct mcg_later *next;
  void (*run)(struct mcg_later *later);
} mcg_later;

/* What all streams of an engine share: one read buffer, the queue of later work, a count. */
struct mcg_streams {
  uv_idle_t idle;   /* active while something is queued: the loop does not sleep */
  uv_check_t check; /* runs it, after the loop has looked at descriptors */
  unsigned handles;
  mcg_later *first, **last;
  size_t queued;                                    /* of them */
  bool no_nowait;                                   /* the kernel has no RWF_NOWAIT for pipes */
  size_t descriptors;                               /* held or promised to commands that start */
  uint8_t packet[MCG_FRAME_HEADER + MCG_FRAME_MAX]; /* control */
  uint8_t buffer[MCG_IO_BUFFER];                    /* bytes of commands */
};

void mcg_streams_later(struct mcg_streams *shared, mcg_later *later);

typedef struct mcg_packet { /* one frame that could not be sent yet */
  struct mcg_packet *next;
  size_t len, at;
  int fd;
  uint8_t bytes[];
} mcg_packet;

typedef struct mcg_chunk { /* bytes for stdin; then, as later work, its completion */
  mcg_later later;
  struct mcg_chunk *next;
  mcg_channel *channel;
  size_t len, at;
  mcg_done done;
  void *data;
  mcg_error *error;
  uint8_t bytes[];
} mcg_chunk;

typedef struct mcg_held { /* framed: bytes that arrived while the receiver had paused */
  struct mcg_held *next;
  size_t len;
  uint8_t bytes[];
} mcg_held;

typedef struct mcg_flow { /* stdout or stderr */
  mcg_channel *channel;
  int stream;
  bool eof;
  bool paused;   /* the receiver asked for a pause */
  bool dropping; /* nobody wants it any more */
  bool draining; /* until `left` is 0 (direct) or EOF came (framed) */
  /* direct */
  int fd;
  bool has_poll, reading, widened;
  uv_poll_t poll;
  size_t left;
  /* framed */
  size_t window, consumed, held_bytes;
  mcg_held *held, **held_last;
  bool ending, scheduled; /* EOF waits behind what is held; `later` is queued */
  mcg_later later;
} mcg_flow;

struct mcg_channel {
  mcg_channel *next;       /* in its bucket */
  mcg_channel *next_fresh; /* direct: it started in this turn, and nothing is polled yet */
  mcg_stream *stream;
  uint32_t number, flags;
  mcg_channel_events events;
  void *data;
  unsigned refs;   /* the map, the owner, each open handle, each call under way */
  size_t promised; /* descriptors that are counted for it */
  bool mapped, started, exited, gone, released;
  int *socket; /* LISTEN, CONNECT: where the descriptor of STARTED goes; else NULL */
  mcg_flow flows[2];
  void (*drained)(void *data);
  void *drained_data;
  mcg_wire partial; /* a message that comes in several frames */
  uint8_t partial_type;
  /* stdin */
  mcg_chunk *chunks, **chunks_last;
  bool in_ready, in_closing, in_closed, in_broken;
  int in_fd;
  bool in_has_poll, in_writing;
  uv_poll_t in_poll;
  size_t in_credit;
};

typedef struct mcg_carrier_ops {
  void (*readable)(mcg_stream *stream);
  bool (*put)(mcg_stream *stream, mcg_packet *packet); /* false: not now */
  /* The channel's part: take the descriptors of STARTED (false: they are wrong) ... */
  bool (*started)(mcg_channel *channel, int *fds, size_t count);
  void (*data)(mcg_channel *channel, const mcg_frame *frame, const uint8_t *body); /* or NULL */
  void (*feed)(mcg_channel *channel); /* move what waits for stdin */
  /* Resize a terminal whose master is here; false: init has it. Or NULL. */
  bool (*resize)(mcg_channel *channel, uint16_t cols, uint16_t rows);
  void (*resume)(mcg_flow *flow);
  void (*drain)(mcg_flow *flow);
  void (*drop)(mcg_flow *flow);      /* the receiver has gone */
  void (*end)(mcg_channel *channel); /* let go of everything */
} mcg_carrier_ops;

extern const mcg_carrier_ops mcg_carrier_direct, mcg_carrier_framed;

struct mcg_stream {
  mcg_engine *engine;
  struct mcg_streams *shared;
  const mcg_carrier_ops *ops;
  mcg_carrier carrier;
  int fd;
  unsigned refs;
  bool has_poll, closed, lost, greeted;
  int events; /* what poll watches for */
  uv_poll_t poll;
  uint64_t sent, received; /* sequence numbers */
  uint32_t last_channel;
  mcg_channel *buckets[MCG_CHANNEL_BUCKETS], *fresh;
  mcg_packet *packets, **packets_last;
  mcg_later lie; /* queued where `lied`: a fiber found out that the sandbox is not to be trusted */
  bool lied;
  int sockets[MCG_SOCKETS]; /* of HELLO, until somebody takes them; -1 */
  mcg_wire partial;         /* of channel 0 */
  uint8_t partial_type;
  /* opening */
  mcg_wait hello;
  mcg_wait killed; /* mcg_stream_kill_all */
  bool killing;
  bool opening;
  mcg_error *failure;
  void (*mechanism)(void *data, const char *name, const char *value);
  void (*on_lost)(void *data, const mcg_error *error);
  void *data;
  /* framed */
  uint8_t *stash; /* the beginning of a frame whose rest has not come */
  size_t stash_len;
  bool has_timer;
  uv_timer_t heartbeat;
  unsigned quiet; /* heartbeats since anything came */
};

/* stream_sockets.c: keeps those of HELLO, what they are being told in its body; false: they are wrong. */
bool mcg_stream_take_sockets(mcg_stream *stream, const uint8_t *body, size_t len, int *fds,
                             size_t count);
void mcg_stream_drop_sockets(mcg_stream *stream);

/* channel.c: one with a number of its own. `flags` are of EXEC. NULL: no memory. */
mcg_channel *mcg_channel_new(mcg_stream *stream, uint32_t flags, const mcg_channel_events *events,
                             void *data);
void mcg_channel_unref(mcg_channel *channel);
mcg_channel *mcg_stream_find(mcg_stream *stream, uint32_t number);
mcg_channel **mcg_stream_bucket(mcg_stream *stream, uint32_t number);
int mcg_stream_alive(mcg_stream *stream, mcg_error **err);
/* Takes the channel out of the map, lets go of what it holds: no frame reaches it any more. */
void mcg_channel_unmap(mcg_channel *channel);
void mcg_channel_settle(
    mcg_channel *channel); /* after GONE, EOF, release: unmaps when it is over */

/* The peer misbehaved or left: every channel hears of it, then the owner. From the loop only. */
void mcg_stream_lose(mcg_stream *stream, mcg_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* One frame that came, its body and its descriptors (the carrier's, which sets those it keeps to -1).
 * `fds` NULL with a count: they were there, and this process had no room for them. */
void mcg_stream_frame(mcg_stream *stream, const mcg_frame *frame, const uint8_t *body, int *fds,
                      size_t count);
/* One message, split into frames; takes `fd` (-1: none). False: out of memory. */
bool mcg_stream_send(mcg_stream *stream, mcg_frame_type type, uint32_t channel, uint8_t which,
                     const void *body, size_t len, int fd);
void mcg_stream_watch(mcg_stream *stream); /* sets the poll to what is wanted now */

/* Hands bytes on; false when nothing more is wanted now. */
bool mcg_flow_give(mcg_flow *flow, const void *bytes, size_t len);
void mcg_flow_eof(mcg_flow *flow);
void mcg_flow_drained(mcg_flow *flow); /* it came to the end of its drain */
/* Takes the first chunk off the queue and completes it on the next turn. */
void mcg_chunk_finish(mcg_channel *channel, mcg_error *error);
/* Writes that are done and have only not been told complete now. From the loop. */
void mcg_channel_tell_writes(mcg_channel *channel);
void mcg_channel_break_stdin(mcg_channel *channel, mcg_code code, const char *message);

#endif
