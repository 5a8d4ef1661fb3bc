/* stream.h: one connection to a mooncage-init, over either carrier, with channels on it.
 *
 * The engine's half of init/protocol.h. Above it nobody knows which carrier it is: bytes of a
 * command come through on_data either way, pausing works either way, writes complete when taken. */
#ifndef MCG_STREAM_H
#define MCG_STREAM_H

#include "fiber.h"
#include "init/protocol.h"
#include "init/wire.h"
#include <sys/socket.h>

typedef struct mcg_stream mcg_stream;
typedef struct mcg_channel mcg_channel;

typedef struct mcg_exit {
  int code, signo; /* signo 0: exited */
  uint64_t cpu_us, maxrss_kb;
  int error;               /* errno of a failed exec or built-in, 0: none */
  const char *step, *text; /* borrowed, may be NULL */
} mcg_exit;

/* Called from the loop, no fiber current. Any may be NULL. */
typedef struct mcg_channel_events {
  void (*on_started)(void *data, int pid);
  bool (*on_data)(void *data, int stream, const void *bytes, size_t len); /* false: pause */
  void (*on_eof)(void *data, int stream);
  void (*on_exit)(void *data, const mcg_exit *exit);
  void (*on_refused)(void *data, int number, const char *step, const char *text); /* ERROR */
  void (*on_gone)(void *data);
  void (*on_lost)(void *data, const mcg_error *error); /* the stream ended: nothing else comes */
} mcg_channel_events;

/* Takes fd. Sends HELLO and waits for init's; FAILED becomes the error of its step. `mechanisms`
 * gets each "name=value". on_lost fires once when the peer ends or misbehaves. */
int mcg_stream_open(mcg_engine *engine, int fd, mcg_carrier carrier,
                    void (*mechanism)(void *data, const char *name, const char *value),
                    void (*on_lost)(void *data, const mcg_error *error), void *data,
                    mcg_stream **out, mcg_error **err) MCG_PARKS;
/* Channels that are still held get on_lost with `canceled`; on_lost of the stream does not fire. */
void mcg_stream_close(mcg_stream *stream);
/* The same, but it stays in memory until mcg_stream_unref: whoever still asks it is told that it is gone. */
void mcg_stream_cut(mcg_stream *stream);
void mcg_stream_unref(mcg_stream *stream);
/* A copy of its descriptor, the caller's: while it is open init does not know that the stream is closed.
 * -1: there is none. */
int mcg_stream_hold(const mcg_stream *stream);
/* ---- sockets of the sandbox's network (direct carrier only) ----------------------------------- */

/* What a sandbox with a gateway handed over with its HELLO, each looked at. The caller's from here on;
 * asked again there are none. With a redirect LISTEN is not needed. `refused`: see egress/refusal.h; close
 * it by mcg_spawner_close. */
void mcg_stream_gateway_sockets(mcg_stream *stream, mcg_gateway_sockets *out);

/* A listening TCP socket in the sandbox's network, non-blocking, at exactly this address and port; IPv6
 * only, where it is IPv6's. `conflict`: the port is taken in there. `unsupported` on a framed stream. */
int mcg_stream_listen(mcg_stream *stream, const struct sockaddr *address, int *fd,
                      mcg_error **err) MCG_PARKS;
/* A TCP connection from within the sandbox's network to there, non-blocking, established. `unavailable`:
 * nobody listens there. */
int mcg_stream_connect(mcg_stream *stream, const struct sockaddr *address, int *fd,
                       mcg_error **err) MCG_PARKS;
/* Where an accepted connection that was redirected wanted to go. */
int mcg_redirected_destination(int fd, struct sockaddr_storage *out, mcg_error **err);

int mcg_stream_attach(mcg_stream *stream, int fd, mcg_error **err); /* ATTACH, takes fd */
int mcg_stream_stop(mcg_stream *stream, mcg_error **err);           /* STOP */
/* Ends every command there is, of other clients too and detached ones, and waits until none lives. */
int mcg_stream_kill_all(mcg_stream *stream, mcg_error **err) MCG_PARKS;

/* `body` holds the fields of EXEC. */
int mcg_channel_open(mcg_stream *stream, const mcg_wire *body, uint32_t flags,
                     const mcg_channel_events *events, void *data, mcg_channel **out,
                     mcg_error **err);
/* Copies; `done` (may be NULL) when the sandbox has taken it. */
int mcg_channel_write(mcg_channel *channel, const void *bytes, size_t len, mcg_done done,
                      void *data, mcg_error **err);
void mcg_channel_close_stdin(mcg_channel *channel);
void mcg_channel_resume(mcg_channel *channel, int stream);
/* Everything that is in the pipe now has come through on_data when `done` runs; what comes later is
 * dropped. For the moment after EXIT: a background child may hold the pipe for ever. */
void mcg_channel_drain(mcg_channel *channel, void (*done)(void *data), void *data);
int mcg_channel_signal(mcg_channel *channel, int signo, mcg_error **err);
int mcg_channel_resize(mcg_channel *channel, uint16_t cols, uint16_t rows, mcg_error **err);
void mcg_channel_kill(mcg_channel *channel);
/* No event comes after it, nor the completion of a write; what the command still writes is dropped. */
void mcg_channel_release(mcg_channel *channel);

#endif
