/* linger.h: closing what others may have made. SO_LINGER makes close() wait, for hours if it says so and
 * whether or not the socket is non-blocking, until the peer has taken all: a socket has it from its
 * listener, or from whoever sent it here. */
#ifndef MCG_LINGER_H
#define MCG_LINGER_H

#include <sys/socket.h>
#include <unistd.h>

/* Of any kind: what is no socket is closed as it is. What was sent still goes out. */
static inline void mcg_close_now(int fd)
{
  const struct linger none = {.l_onoff = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
  close(fd);
}

#endif
