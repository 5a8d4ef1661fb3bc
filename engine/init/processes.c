/* processes.c: what runs in the sandbox: not init, its stubs and its built-ins; and in a plain sandbox,
 * where /proc shows the whole host, only what descends from this init. */
#include "builtin.h"
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND_MAX 4096

typedef struct seen {
  mcg_process_entry entry;
  char command[COMMAND_MAX];
} seen;

static ssize_t read_file(int dir, const char *name, char *out, size_t size)
{
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t len = read(fd, out, size);
  close(fd);
  return len;
}

static const char *line_of(const char *text, const char *key)
{
  const char *at = strstr(text, key);
  return at ? at + strlen(key) : NULL;
}

static uint64_t number_after(const char *text, const char *key)
{
  const char *at = line_of(text, key);
  return at ? strtoull(at, NULL, 10) : 0;
}

/* Keys are looked for behind a newline, and the name, which the process chooses, has its escaped. */
static bool look_at(int proc, const char *pid, seen *out)
{
  char status[4096];
  int dir = openat(proc, pid, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return false;
  ssize_t len = read_file(dir, "status", status, sizeof status - 1);
  ssize_t command = read_file(dir, "cmdline", out->command, sizeof out->command);
  close(dir);
  if (len <= 0) return false;
  status[len] = 0;
  const char *state = line_of(status, "\nState:\t");
  out->entry = (mcg_process_entry){.pid = (uint32_t)strtoul(pid, NULL, 10),
                                   .ppid = (uint32_t)number_after(status, "\nPPid:\t"),
                                   .uid = (uint32_t)number_after(status, "\nUid:\t"),
                                   .state = state ? (uint8_t)*state : '?',
                                   .rss_kb = number_after(status, "\nVmRSS:\t"),
                                   .command_len = command > 0 ? (uint32_t)command : 0};
  if (command <= 0) {
    const char *name = status + strcspn(status, "\t") + 1;
    int shown =
        snprintf(out->command, sizeof out->command, "[%.*s]", (int)strcspn(name, "\n"), name);
    out->entry.command_len = (uint32_t)shown;
  }
  return true;
}

static bool is_ready(const mcg_slot *slot, uint32_t pid)
{
  return slot && (uint32_t)atomic_load(&slot->ready) == pid;
}

static bool is_ours(const mcg_server *server, uint32_t pid, uint32_t init)
{
  if (pid == init || pid == (uint32_t)getpid()) return true;
  if (server->idle && pid == (uint32_t)server->idle_parent) return true;
  if (is_ready(server->idle, pid)) return true;
  for (const mcg_command *command = server->commands; command; command = command->next) {
    if (command->parent_fd >= 0 && (uint32_t)command->parent == pid) return true;
    if (is_ready(command->slot, pid)) return true;
  }
  return false;
}

typedef struct pair {
  uint32_t pid, ppid;
} pair;

/* The table is in ascending order of pid, as /proc is. */
static uint32_t parent_of(const pair *table, size_t count, uint32_t pid)
{
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (table[middle].pid < pid)
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && table[low].pid == pid ? table[low].ppid : 0;
}

static bool descends(const pair *table, size_t count, uint32_t pid, uint32_t init)
{
  for (int i = 0; i < 1024 && pid > 1; i++) {
    if (pid == init) return true;
    pid = parent_of(table, count, pid);
  }
  return false;
}

static pair *read_table(int proc, size_t *count)
{
  static entries list;
  static seen one;
  const char *name;
  pair *table = NULL;
  size_t cap = 0;
  *count = 0;
  entries_init(&list, proc);
  while ((name = entries_next(&list))) {
    if (*name < '0' || *name > '9' || !look_at(proc, name, &one)) continue;
    if (*count == cap) {
      cap = cap ? cap * 2 : 256;
      table = reallocarray(table, cap, sizeof *table);
      if (!table) builtin_fail(ENOMEM, "out of memory");
    }
    table[(*count)++] = (pair){one.entry.pid, one.entry.ppid};
  }
  return table;
}

void builtin_processes(const mcg_server *server)
{
  static seen one;
  size_t count;
  char name[16];
  uint32_t init = (uint32_t)getppid();
  uint8_t record[MCG_PROCESS_HEADER];
  int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc < 0) builtin_fail(errno, "cannot open /proc: %s", strerror(errno));
  pair *table = read_table(proc, &count);
  for (size_t i = 0; i < count; i++) {
    if (is_ours(server, table[i].pid, init)) continue;
    if (!server->config->is_pid1 && !descends(table, count, table[i].pid, init)) continue;
    snprintf(name, sizeof name, "%u", table[i].pid);
    if (!look_at(proc, name, &one)) continue;
    mcg_process_encode(&one.entry, record);
    builtin_put(record, sizeof record);
    builtin_put(one.command, one.entry.command_len);
  }
  free(table);
}
