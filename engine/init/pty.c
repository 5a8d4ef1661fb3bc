/* pty.c: terminals, from the sandbox's own devpts. */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif

int mcg_pty_resize(int master, unsigned cols, unsigned rows)
{
  struct winsize size = {.ws_col = (unsigned short)cols, .ws_row = (unsigned short)rows};
  return ioctl(master, TIOCSWINSZ, &size) < 0 ? errno : 0;
}

int mcg_pty_open(unsigned cols, unsigned rows, int *master, int *slave)
{
  int lock = 0, number;
  int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return errno;
  int peer = -1;
  if (ioctl(fd, TIOCSPTLCK, &lock) == 0)
    peer = ioctl(fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (peer < 0) {
    number = errno;
    close(fd);
    return number;
  }
  number = mcg_pty_resize(fd, cols ? cols : 80, rows ? rows : 24);
  if (number) {
    close(peer);
    close(fd);
    return number;
  }
  *master = fd;
  *slave = peer;
  return 0;
}

bool mcg_pty_signal(int master, int signo)
{
  pid_t group = 0;
  if (ioctl(master, TIOCGPGRP, &group) < 0 || group <= 1) return false;
  return kill(-group, signo) == 0;
}
