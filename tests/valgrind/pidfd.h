/* pidfd.h: what shim.c and helper.c say to each other. */
#ifndef MCG_TEST_PIDFD_H
#define MCG_TEST_PIDFD_H

#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

enum { PIDFD_OPEN, PIDFD_SIGNAL };

typedef struct pidfd_question {
  int what, value; /* a process id or a signal; in an answer, what the call returned */
  int number;      /* errno of it */
} pidfd_question;

typedef union pidfd_control {
  char bytes[CMSG_SPACE(sizeof(int))];
  struct cmsghdr align;
} pidfd_control;

static inline ssize_t pidfd_send(int socket, const pidfd_question *question, int fd)
{
  pidfd_control control = {{0}};
  struct iovec iov = {(void *)question, sizeof *question};
  struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
  if (fd >= 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL);
}

static inline ssize_t pidfd_receive(int socket, pidfd_question *question, int *fd)
{
  pidfd_control control = {{0}};
  struct iovec iov = {question, sizeof *question};
  struct msghdr message = {.msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  ssize_t len = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (len > 0 && header && header->cmsg_type == SCM_RIGHTS)
    memcpy(fd, CMSG_DATA(header), sizeof *fd);
  return len;
}

#endif
