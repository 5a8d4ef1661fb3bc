/* children.h: who the children of a process are, as /proc has it. */
#ifndef MCG_CHILDREN_H
#define MCG_CHILDREN_H

#include <stdbool.h>
#include <sys/types.h>

/* Calls fn with each child of this thread. False: the kernel does not list them (CONFIG_PROC_CHILDREN). */
bool mcg_children_own(void (*fn)(pid_t pid, void *data), void *data);
/* The same by looking at every process: slow, and only for a kernel that does not list them. */
void mcg_children_search(pid_t parent, void (*fn)(pid_t pid, void *data), void *data);
/* SIGKILL, unless by now the pid is somebody else's. */
void mcg_children_kill(pid_t pid, pid_t parent);

#endif
