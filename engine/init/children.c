/* children.c: see children.h. A pid that was read is only a number: where nobody of ours holds it by not
 * having waited for it, it is turned into a pidfd and looked at again before anything is done to it. */
#include "children.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

bool mcg_children_own(void (*fn)(pid_t pid, void *data), void *data)
{
  char buffer[4096];
  int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t len;
  pid_t pid = 0;
  while ((len = read(fd, buffer, sizeof buffer)) > 0)
    for (ssize_t i = 0; i < len; i++) {
      if (buffer[i] >= '0' && buffer[i] <= '9') {
        pid = pid * 10 + (buffer[i] - '0');
        continue;
      }
      if (pid > 1) fn(pid, data);
      pid = 0;
    }
  close(fd);
  return true;
}

/* "pid (name) state ppid ...", where the name is the process's choice: what counts is its last ')'. */
static pid_t parent_of(pid_t pid)
{
  char path[32], text[512];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t len = read(fd, text, sizeof text - 1);
  close(fd);
  if (len <= 0) return -1;
  text[len] = 0;
  const char *end = strrchr(text, ')');
  return end && strlen(end) > 4 ? (pid_t)strtol(end + 4, NULL, 10) : -1;
}

void mcg_children_search(pid_t parent, void (*fn)(pid_t pid, void *data), void *data)
{
  DIR *proc = opendir("/proc");
  if (!proc) return;
  for (struct dirent *entry; (entry = readdir(proc));) {
    pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
    if (pid > 1 && parent_of(pid) == parent) fn(pid, data);
  }
  closedir(proc);
}

void mcg_children_kill(pid_t pid, pid_t parent)
{
  int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) return;
  if (parent_of(pid) == parent) syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
  close(fd);
}
