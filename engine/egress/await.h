/* await.h: a fiber that waits for a descriptor. */
#ifndef MCG_EGRESS_AWAIT_H
#define MCG_EGRESS_AWAIT_H

#include "engine.h"

/* Until it can be read (or written): 0. -1: `timeout` after `timeout_ms` (< 0: none), `canceled`, or it
 * cannot be watched. Nobody else may watch it meanwhile. */
int mcg_await_readable(mcg_engine *engine, int fd, int64_t timeout_ms, mcg_error **err) MCG_PARKS;
int mcg_await_writable(mcg_engine *engine, int fd, int64_t timeout_ms, mcg_error **err) MCG_PARKS;

/* How much time is left until then, for the next wait: who is slow gets no more by being slow often. */
int64_t mcg_await_left(const mcg_engine *engine, uint64_t until_ms);

/* All of `len` bytes, to and from a socket, in `timeout_ms` altogether. The end of the file before that,
 * and a reset: `unavailable`. */
int mcg_await_send(mcg_engine *engine, int fd, const void *bytes, size_t len, int64_t timeout_ms,
                   mcg_error **err) MCG_PARKS;
int mcg_await_recv(mcg_engine *engine, int fd, void *bytes, size_t len, int64_t timeout_ms,
                   mcg_error **err) MCG_PARKS;

#endif
