/* fd.h: descriptors that were given to us (stdin, stdout, a terminal), read and written without ever
 * blocking the loop and without changing their flags, which others share. */
#ifndef MCG_LUA_FD_H
#define MCG_LUA_FD_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

typedef struct mcg_fd mcg_fd;
typedef void (*mcg_fd_ready)(void *data);

/* NULL with errno set. `ready` is called from the loop once for each mcg_fd_arm. */
mcg_fd *mcg_fd_open(uv_loop_t *loop, int fd, bool writes, mcg_fd_ready ready, void *data);
/* As read(2) and write(2) on a non-blocking descriptor: EAGAIN means arm and come back. A write may
 * take less than it was given. */
ssize_t mcg_fd_read(mcg_fd *f, void *buffer, size_t cap);
ssize_t mcg_fd_write(mcg_fd *f, const void *bytes, size_t len);
int mcg_fd_arm(mcg_fd *f); /* -1 with errno: it cannot be polled (no descriptors left) */
void mcg_fd_disarm(mcg_fd *f);
void mcg_fd_close(mcg_fd *f); /* frees later; NULL is fine; the descriptor itself stays open */

#endif
