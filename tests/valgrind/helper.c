/* helper.c: outside of valgrind, makes the calls that shim.c asks for on descriptor 3. */
#define _GNU_SOURCE
#include "pidfd.h"
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
  pidfd_question question;
  int fd = -1;
  if (fork() != 0) return 0; /* nobody's child: tests count theirs */
  while (pidfd_receive(3, &question, &fd) > 0) {
    pidfd_question answer = {.what = question.what};
    int made = -1;
    if (question.what == PIDFD_OPEN)
      answer.value = made = (int)syscall(SYS_pidfd_open, question.value, 0);
    else
      answer.value = (int)syscall(SYS_pidfd_send_signal, fd, question.value, NULL, 0);
    if (answer.value < 0) answer.number = errno;
    if (pidfd_send(3, &answer, made) < 0) return 1;
    if (made >= 0) close(made);
    if (fd >= 0) close(fd);
    fd = -1;
  }
  return 0;
}
