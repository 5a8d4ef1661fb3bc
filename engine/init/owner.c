/* owner.c: whose a group or a directory is. A number alone would not do: it is taken again, and another
 * pid namespace, as a container has, has the same ones for others. */
#include "owner.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box.h"

#define FIRST_NAMESPACE 0xEFFFFFFCu /* the kernel's number for the pid namespace it starts with */

/* 0: it cannot be known. */
static uint64_t namespace_of(const char *process)
{
  char path[300];
  struct stat st;
  snprintf(path, sizeof path, "/proc/%s/ns/pid", process);
  return stat(path, &st) < 0 ? 0 : st.st_ino;
}

void mcg_owner_self(mcg_owner *out)
{
  snprintf(out->text, sizeof out->text, "%d-%llu-%llu", (int)getpid(),
           (unsigned long long)mcg_start_time(getpid()), (unsigned long long)namespace_of("self"));
}

/* Whether nobody is in it, as far as that can be seen: 1 is not, being the first of ours. */
static bool is_empty(uint64_t namespace)
{
  if (geteuid() != 0 || namespace_of("self") != FIRST_NAMESPACE) return false;
  DIR *dir = opendir("/proc");
  bool empty = dir != NULL;
  for (struct dirent *entry; empty && (entry = readdir(dir));) {
    if (!isdigit((unsigned char)entry->d_name[0]) || strcmp(entry->d_name, "1") == 0) continue;
    errno = 0;
    uint64_t found = namespace_of(entry->d_name);
    empty = found ? found != namespace : errno == ENOENT; /* ended meanwhile */
  }
  if (dir) closedir(dir);
  return empty;
}

static bool take_number(const char **at, unsigned long long *out)
{
  char *end;
  if (!isdigit((unsigned char)**at)) return false;
  *out = strtoull(*at, &end, 10);
  if (*end != '-') return false;
  *at = end + 1;
  return true;
}

bool mcg_owner_dead(const char *text)
{
  unsigned long long pid, start, namespace;
  if (!take_number(&text, &pid) || !take_number(&text, &start) || !take_number(&text, &namespace))
    return false;
  if (!namespace || namespace != namespace_of("self")) return namespace && is_empty(namespace);
  return pid > 0 && pid <= INT32_MAX && mcg_start_time((pid_t)pid) != start;
}
