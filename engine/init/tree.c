/* tree.c: init as the last parent. Stubs, built-ins and orphans are its children; nobody else waits for
 * them, so their pids stay theirs until mcg_tree_reap. */
#include "children.h"
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OUTRUN_MS 100 /* a stub that has not emptied its tree by then is being outrun */
#define FROZEN_MS 1000
#define UNDO_MS 4000 /* for a built-in to remove what is half done; the engine waits for 5 s */

uint64_t mcg_now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static mcg_command *command_of_parent(mcg_server *server, pid_t pid)
{
  mcg_command *command = server->commands;
  while (command && (command->parent != pid || command->parent_fd < 0)) command = command->next;
  return command;
}

static bool is_orphan(const mcg_command *command)
{
  return command->parent_fd < 0 && !command->builtin && !command->exited && !command->gone &&
         !(atomic_load(&command->slot->flags) & (MCG_SLOT_EXITED | MCG_SLOT_GONE)) &&
         command->slot->pidfd >= 0;
}

static void note(mcg_slot *slot, bool exited, int value, const struct rusage *usage)
{
  if (exited)
    slot->code = value;
  else
    slot->signo = value;
  slot->cpu_us = (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000 +
                 (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
  slot->maxrss_kb = (uint64_t)usage->ru_maxrss;
  atomic_fetch_or(&slot->flags, MCG_SLOT_EXITED);
}

/* The main process of a command whose stub is dead: nobody else can note how it ended. Its number may
 * not be known, its pidfd is. ECHILD: it was waited for below, under that unknown number. */
static void note_orphan(mcg_command *command)
{
  mcg_slot *slot = command->slot;
  siginfo_t info = {0};
  struct rusage usage = {0};
  long rc = syscall(SYS_waitid, P_PIDFD, slot->pidfd, &info, WEXITED | WNOHANG | __WALL, &usage);
  if (rc == 0 && info.si_pid)
    note(slot, info.si_code == CLD_EXITED, info.si_status, &usage);
  else if (rc < 0 && errno == ECHILD)
    note(slot, false, SIGKILL, &usage);
}

static mcg_command *command_of_orphan(mcg_server *server, pid_t pid)
{
  mcg_command *command = server->commands;
  while (command && (!is_orphan(command) || command->slot->pid != pid)) command = command->next;
  return command;
}

void mcg_tree_reap(mcg_server *server)
{
  int status;
  for (mcg_command *command = server->commands; command; command = command->next)
    if (is_orphan(command)) note_orphan(command);
  pid_t pid;
  struct rusage usage;
  while ((pid = wait4(-1, &status, WNOHANG | __WALL, &usage)) > 0) {
    mcg_command *command = command_of_parent(server, pid);
    server->reaped = true;
    if (server->idle && pid == server->idle_parent) {
      mcg_idle_lost(server);
    } else if (command) {
      command->status = status;
      if (command->builtin) {
        command->slot->maxrss_kb = (uint64_t)usage.ru_maxrss;
        command->slot->cpu_us = (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) +
                                (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000;
      }
      close(command->parent_fd);
      command->parent_fd = -1;
      if (is_orphan(command)) note_orphan(command);
    } else if ((command = command_of_orphan(server, pid))) {
      bool exited = WIFEXITED(status);
      note(command->slot, exited, exited ? WEXITSTATUS(status) : WTERMSIG(status), &usage);
    }
  }
  if (pid < 0 && errno == ECHILD) server->orphans = false;
}

typedef struct orphans {
  mcg_server *server;
  unsigned count;
  bool kill;
} orphans;

/* A child of init that is no stub and no built-in. Nobody but init waits for it, so its pid stays its. */
static void take_orphan(pid_t pid, void *data)
{
  orphans *all = data;
  if (all->server->idle && pid == all->server->idle_parent) return;
  if (command_of_parent(all->server, pid)) return;
  all->count++;
  if (all->kill) kill(pid, SIGKILL);
}

static unsigned each_orphan(mcg_server *server, bool killing)
{
  orphans all = {server, 0, killing};
  if (!mcg_children_own(take_orphan, &all)) mcg_children_search(getpid(), take_orphan, &all);
  return all.count;
}

void mcg_tree_kill_orphans(mcg_server *server)
{
  each_orphan(server, true);
}

bool mcg_tree_has_orphans(mcg_server *server)
{
  mcg_tree_reap(server);
  return server->orphans && each_orphan(server, false) > 0;
}

static void kill_child(pid_t pid, void *data)
{
  mcg_children_kill(pid, *(pid_t *)data);
}

/* Where the kernel does not list children a stub cannot kill: init looks for them. */
static void kill_for_stub(mcg_command *command)
{
  if (command->parent_fd >= 0 && access("/proc/thread-self/children", F_OK) < 0)
    mcg_children_search(command->parent, kill_child, &command->parent);
}

/* Waits for one stub while everything else stands still. */
static void finish_frozen(mcg_command *command)
{
  uint64_t end = mcg_now_ms() + FROZEN_MS;
  kill(-1, SIGSTOP);
  while (mcg_now_ms() < end) {
    mcg_command_rouse(command);
    if (atomic_load_explicit(&command->slot->flags, memory_order_acquire) & MCG_SLOT_GONE) break;
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  kill(-1, SIGCONT);
}

static bool is_alone(const mcg_server *server)
{
  unsigned living = 0;
  for (const mcg_command *command = server->commands; command; command = command->next)
    living += !command->gone;
  return living == 1;
}

/* The command makes processes faster than its stub kills them, or stops its stub. */
static void outrun(mcg_command *command)
{
  mcg_server *server = command->server;
  if (is_alone(server)) {
    kill(-1, SIGKILL); /* reaches all at once: no fork completes beside it */
    server->orphans = true;
    if (server->idle && waitpid(server->idle_parent, NULL, __WALL) > 0) mcg_idle_lost(server);
    return;
  }
  if (command->parent_fd >= 0) finish_frozen(command);
}

void mcg_tree_tick(mcg_server *server)
{
  bool killing = false;
  for (mcg_command *command = server->commands; command; command = command->next) {
    if (!command->killing || command->gone) continue;
    killing = true;
    if (!command->builtin) kill_for_stub(command);
    if (mcg_now_ms() - command->kill_ms < (command->builtin ? UNDO_MS : OUTRUN_MS)) continue;
    command->kill_ms = mcg_now_ms();
    if (server->config->is_pid1 && !command->builtin) outrun(command);
    if (!command->gone) mcg_command_kill(command);
  }
  if (killing && server->orphans) mcg_tree_kill_orphans(server);
  if (server->orphans) mcg_tree_reap(server);
}

void mcg_tree_kill_all(mcg_server *server)
{
  while (server->commands) { /* from here on every child counts as an orphan */
    mcg_command *command = server->commands;
    server->commands = command->next;
    close(command->parent_fd);
    command->parent_fd = -1;
  }
  server->idle = NULL;
  if (server->config->is_pid1) { /* whatever that leaves, the kernel ends with us */
    kill(-1, SIGKILL);
    return;
  }
  for (;;) {
    each_orphan(server, true);
    pid_t pid;
    while ((pid = wait4(-1, NULL, WNOHANG | __WALL, NULL)) > 0) continue;
    if (pid < 0 && errno == ECHILD) return;
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
}
