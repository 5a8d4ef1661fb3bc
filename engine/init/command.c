/* command.c: a command's life: EXEC, STARTED, EXIT, GONE, and what is asked of it in between. */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HUSHED_MS 1
#define INSIST_MAX 5 /* stops of one stub by its sandbox that are suffered */

static void put_failure(mcg_wire *body, int number, const char *step, const char *text)
{
  mcg_wire_put_u64(body, MCG_TAG_ERRNO, (uint64_t)number);
  mcg_wire_put_str(body, MCG_TAG_STEP, step);
  mcg_wire_put_str(body, MCG_TAG_TEXT, text ? text : strerror(number));
}

void mcg_refuse(mcg_conn *conn, uint32_t channel, int number, const char *step, const char *text)
{
  mcg_wire body;
  mcg_wire_init(&body);
  put_failure(&body, number, step, text);
  mcg_conn_send(conn, MCG_F_ERROR, channel, 0, &body, NULL, 0);
  mcg_wire_fini(&body);
}

mcg_command *mcg_command_find(mcg_server *server, mcg_conn *conn, uint32_t channel)
{
  mcg_command *command = server->commands;
  while (command && (command->conn != conn || command->channel != channel)) command = command->next;
  return command;
}

static void close_fd(int *fd)
{
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

/* ---- making one --------------------------------------------------------------------------- */

/* Everything but what an idle stub and its ready child may be looking at: `turn`, `wake`, theirs. */
static void clear_slot(mcg_server *server, mcg_slot *slot)
{
  slot->wake = server->wake;
  atomic_store(&slot->kill, 0);
  atomic_store(&slot->flags, 0);
  atomic_store(&slot->leave, 0);
  slot->launch = NULL;
  slot->next = NULL;
  slot->pid = slot->code = slot->signo = slot->error = slot->step = 0;
  slot->cpu_us = slot->maxrss_kb = 0;
  slot->text[0] = 0;
  slot->pidfd = -1;
}

static mcg_slot *take_slot(mcg_server *server)
{
  mcg_slot *slot = server->slots;
  if (slot)
    server->slots = slot->next;
  else
    slot = mcg_slot_new();
  if (slot) clear_slot(server, slot);
  return slot;
}

static void give_slot(mcg_server *server, mcg_slot *slot)
{
  mcg_stub_end_ready(slot);
  slot->next = server->slots;
  server->slots = slot;
}

static mcg_command *command_new(mcg_server *server, mcg_conn *conn, uint32_t channel)
{
  mcg_command *command = calloc(1, sizeof *command);
  if (!command) return NULL;
  command->server = server;
  command->conn = conn;
  command->channel = channel;
  command->parent_fd = command->master = -1;
  for (int i = 0; i < 3; i++) {
    command->theirs[i] = command->ours[i] = -1;
    mcg_relay_init(&command->relay[i]);
  }
  return command;
}

/* The idle stub's where there is one. A built-in needs no stub. */
static bool find_slot(mcg_command *command, bool builtin)
{
  mcg_server *server = command->server;
  if (builtin || !server->idle) return (command->slot = take_slot(server)) != NULL;
  command->slot = server->idle;
  command->parent = server->idle_parent;
  command->parent_fd = server->idle_fd;
  server->idle = NULL;
  server->idle_fd = -1;
  clear_slot(server, command->slot);
  return true;
}

void mcg_idle_start(mcg_server *server)
{
  mcg_slot *slot = server->idle ? NULL : take_slot(server);
  if (!slot) return;
  int pid = mcg_stub_start(slot, true, &server->idle_fd);
  if (pid < 0) {
    give_slot(server, slot);
    return;
  }
  server->idle = slot;
  server->idle_parent = pid;
}

void mcg_idle_lost(mcg_server *server)
{
  give_slot(server, server->idle);
  close(server->idle_fd);
  server->idle = NULL;
  server->idle_fd = -1;
}

/* /dev/null is everybody's. */
static void close_theirs(mcg_command *command)
{
  for (int i = 0; i < 3; i++)
    if (command->theirs[i] != command->server->null_fd)
      close_fd(&command->theirs[i]);
    else
      command->theirs[i] = -1;
}

void mcg_command_free(mcg_command *command)
{
  mcg_slot *slot = command->slot;
  close_theirs(command);
  for (int i = 0; i < 3; i++) {
    close_fd(&command->ours[i]);
    mcg_relay_fini(&command->relay[i]);
  }
  close_fd(&command->master);
  close_fd(&command->parent_fd);
  if (slot && slot->pidfd >= 0) {
    if (slot->ready_fd == slot->pidfd)
      slot->ready_fd = -1; /* it ended on its way from one to the other */
    close(slot->pidfd);
  }
  if (slot) give_slot(command->server, slot);
  free((void *)(uintptr_t)command->launch.paths);
  free(command->arena);
  free(command);
}

static int open_terminal(mcg_command *command, const mcg_exec *exec)
{
  int slave;
  int number = mcg_pty_open(exec->cols, exec->rows, &command->master, &slave);
  if (number) return number;
  command->theirs[0] = slave;
  for (int i = 1; i < 3; i++)
    if ((command->theirs[i] = fcntl(slave, F_DUPFD_CLOEXEC, 3)) < 0) return errno;
  int copy = fcntl(command->master, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) return errno;
  command->ours[0] = copy;
  command->our_count = 1;
  return 0;
}

static int open_pipes(mcg_command *command)
{
  for (int i = 0; i < 3; i++) {
    int ends[2];
    if ((i == 0 && (command->flags & MCG_EXEC_NO_STDIN)) || (command->flags & MCG_EXEC_DETACH)) {
      if (command->server->null_fd < 0) return ENOENT;
      command->theirs[i] = command->server->null_fd;
      continue;
    }
    if (pipe2(ends, O_CLOEXEC) < 0) return errno;
    command->theirs[i] = ends[i != 0];
    command->ours[command->our_count++] = ends[i == 0];
  }
  return 0;
}

static void non_blocking(int fd)
{
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* Framed: the ends stay here. With a terminal one descriptor is both, held twice. */
static int keep_ends(mcg_command *command)
{
  unsigned at = 0;
  for (int i = 0; i < 3; i++) command->relay[i].credit = MCG_WINDOW;
  if (command->flags & MCG_EXEC_PTY) {
    non_blocking(command->ours[0]);
    int copy = fcntl(command->ours[0], F_DUPFD_CLOEXEC, 3);
    if (copy < 0) return errno;
    command->relay[0].fd = copy;
    command->relay[1].fd = command->ours[0];
    command->ours[0] = -1;
  } else {
    for (int i = command->flags & MCG_EXEC_NO_STDIN ? 1 : 0; i < 3 && at < command->our_count;
         i++) {
      non_blocking(command->ours[at]);
      command->relay[i].fd = command->ours[at];
      command->ours[at++] = -1;
    }
  }
  command->our_count = 0;
  return 0;
}

static int open_streams(mcg_command *command, const mcg_exec *exec)
{
  int number = command->flags & MCG_EXEC_PTY ? open_terminal(command, exec) : open_pipes(command);
  if (number == 0 && command->conn->carrier == MCG_FRAMED) number = keep_ends(command);
  return number;
}

static void signal_process(int pidfd, int signo)
{
  if (pidfd >= 0) syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0);
}

/* A built-in is forked from init, not from a stub: a stub's fork would copy memory that init may be
 * in the middle of changing. It has no children, so it needs no stub. */
static int start_builtin(mcg_command *command, mcg_exec *exec)
{
  mcg_server *server = command->server;
  if (server->trees < 0) server->trees = memfd_create("trees", MFD_CLOEXEC);
  if (server->trees < 0) return errno;
  pid_t pid = fork();
  if (pid < 0) return errno;
  if (pid == 0) mcg_builtin_main(server, command, exec);
  command->parent = pid;
  command->slot->pid = (int)pid;
  command->parent_fd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (command->parent_fd < 0) {
    int number = errno;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return number;
  }
  atomic_store(&command->slot->flags, MCG_SLOT_STARTED);
  return 0;
}

/* The idle stub's: it runs at once. Nobody waits for the start of one that takes no input. */
static void start_by_idle(mcg_command *command)
{
  command->hushed = (command->flags & ~(uint32_t)MCG_EXEC_BUILTIN) == MCG_EXEC_NO_STDIN;
  if (command->hushed) command->hushed_ms = mcg_now_ms();
  mcg_stub_next(command->slot, false);
  if (!command->hushed) signal_process(command->parent_fd, SIGUSR1);
}

static int start_process(mcg_command *command, mcg_exec *exec)
{
  memcpy(command->launch.fds, command->theirs, sizeof command->launch.fds);
  command->launch.terminal = command->flags & MCG_EXEC_PTY;
  command->slot->launch = &command->launch;
  command->builtin = exec->flags & MCG_EXEC_BUILTIN;
  if (command->builtin) return start_builtin(command, exec);
  if (command->parent_fd >= 0) { /* were it stopped, it is roused after a while */
    start_by_idle(command);
    return 0;
  }
  int pid = mcg_stub_start(command->slot, false, &command->parent_fd);
  if (pid < 0) return -pid;
  command->parent = pid;
  return 0;
}

static int start(mcg_server *server, mcg_conn *conn, uint32_t channel, mcg_exec *exec,
                 const char **step, const char **text)
{
  *step = "memory";
  mcg_command *command = command_new(server, conn, channel);
  if (!command) return ENOMEM;
  command->flags = exec->flags;
  command->launch = exec->launch;
  command->arena = exec->arena;
  exec->arena = NULL;
  exec->launch.paths = NULL;
  *step = exec->flags & MCG_EXEC_PTY ? "terminal" : "streams";
  int number = open_streams(command, exec);
  if (number == 0 && !find_slot(command, exec->flags & MCG_EXEC_BUILTIN)) number = ENOMEM;
  if (number == 0) {
    *step = "fork";
    number = start_process(command, exec);
  }
  if (number) {
    if (number == EAGAIN) *text = "the sandbox has as many processes as it may have";
    if (number == EMFILE) *text = "the sandbox's init has as many descriptors as it may have";
    mcg_command_free(command);
    return number;
  }
  command->next = server->commands;
  server->commands = command;
  if (command->builtin) mcg_command_step(command);
  return 0;
}

bool mcg_command_start(mcg_server *server, mcg_conn *conn, uint32_t channel, const uint8_t *body,
                       size_t len)
{
  mcg_exec exec;
  const char *step, *text = NULL;
  const uint32_t known = MCG_EXEC_PTY | MCG_EXEC_DETACH | MCG_EXEC_NO_STDIN | MCG_EXEC_BUILTIN;
  if (channel == 0 || mcg_command_find(server, conn, channel)) return false;
  int number = mcg_launch_read(server, body, len, &exec, &step, &text);
  if (number < 0) return false;
  if (number == 0) {
    bool clash = (exec.flags & MCG_EXEC_PTY) && (exec.flags & ~(uint32_t)MCG_EXEC_PTY);
    if (clash || (exec.flags & ~known)) {
      number = EINVAL;
      step = "flags";
      text = clash ? "a terminal goes with no other flag" : "unknown flag";
    } else {
      number = start(server, conn, channel, &exec, &step, &text);
    }
    free((void *)(uintptr_t)exec.launch.paths);
    free(exec.arena);
  }
  if (number) mcg_refuse(conn, channel, number, step, text);
  return true;
}

/* ---- telling ------------------------------------------------------------------------------ */

static void tell_started(mcg_command *command)
{
  /* A child whose stub was killed may not have executed its program yet: then it needs all of this. */
  if (!command->orphaned) {
    close_theirs(command);
    free((void *)(uintptr_t)command->launch.paths);
    free(command->arena);
    command->launch = (mcg_launch){0};
    command->arena = NULL;
  }
  command->started = true;
  if (command->conn) {
    mcg_wire body;
    mcg_wire_init(&body);
    mcg_wire_put_u64(&body, MCG_TAG_PID, (uint64_t)command->slot->pid);
    mcg_conn_send(command->conn, MCG_F_STARTED, command->channel, 0, &body, command->ours,
                  command->our_count);
    mcg_wire_fini(&body);
    for (uint8_t i = 1; i < 3 && command->conn->carrier == MCG_FRAMED; i++)
      if (command->relay[i].fd < 0) /* of a detached command, and a terminal's stderr */
        mcg_conn_send(command->conn, MCG_F_EOF, command->channel, i, NULL, NULL, 0);
  }
  for (int i = 0; i < 3; i++) close_fd(&command->ours[i]);
  for (int signo = 1; command->early; command->early &= ~(1ull << signo++))
    if (command->early >> signo & 1) mcg_command_signal(command, signo);
}

static void tell_exit(mcg_command *command)
{
  mcg_slot *slot = command->slot;
  command->exited = true;
  close_theirs(command);
  close_fd(&command->master);
  mcg_relay_exited(command);
  if (!command->conn) return;
  mcg_wire body;
  mcg_wire_init(&body);
  if (slot->signo)
    mcg_wire_put_u64(&body, MCG_TAG_SIGNO, (uint64_t)slot->signo);
  else
    mcg_wire_put_u64(&body, MCG_TAG_CODE, (uint64_t)slot->code);
  mcg_wire_put_u64(&body, MCG_TAG_CPU_US, slot->cpu_us);
  mcg_wire_put_u64(&body, MCG_TAG_MAXRSS_KB, slot->maxrss_kb);
  if (slot->error) {
    slot->text[MCG_SLOT_TEXT - 1] = 0;
    const char *step = command->builtin ? "builtin" : mcg_step_name(slot->step);
    put_failure(&body, slot->error, step, slot->text[0] ? slot->text : NULL);
  }
  mcg_conn_send(command->conn, MCG_F_EXIT, command->channel, 0, &body, NULL, 0);
  mcg_wire_fini(&body);
}

static void tell_gone(mcg_command *command)
{
  if (command->conn && !mcg_relay_done(command)) return; /* asked again each turn */
  command->gone = true;
  command->killing = false;
  if (command->conn) mcg_conn_send(command->conn, MCG_F_GONE, command->channel, 0, NULL, NULL, 0);
}

static void tell_refused(mcg_command *command)
{
  int number = command->slot->error;
  if (command->conn)
    mcg_refuse(command->conn, command->channel, number, mcg_step_name(command->slot->step),
               number == EAGAIN ? "the sandbox has as many processes as it may have" : NULL);
  command->started = command->exited = command->gone = true;
}

/* The stub is dead and has not said that its tree is empty: the sandbox killed it, and its children
 * are init's now. The command itself can still be waited for, by its pidfd. A stub that was killed
 * before it had a child is the only one whose command never was. */
static void adopt(mcg_command *command, unsigned flags)
{
  command->orphaned = true;
  command->server->orphans = true;
  if (flags & MCG_SLOT_STARTED) return;
  if (command->slot->pidfd < 0) command->slot->pidfd = command->slot->ready_fd;
  if (command->slot->pidfd < 0) {
    command->slot->error = ECHILD;
    command->slot->step = MCG_STEP_FORK;
    tell_refused(command);
    return;
  }
  /* The child may still stand on the slot's stack, which is the command's until it has ended. */
  tell_started(command);
}

static void step_builtin(mcg_command *command)
{
  if (command->parent_fd >= 0) return;
  mcg_slot *slot = command->slot;
  if (WIFSIGNALED(command->status))
    slot->signo = WTERMSIG(command->status);
  else
    slot->code = WEXITSTATUS(command->status);
  if (!command->exited) tell_exit(command);
  if (!command->gone) tell_gone(command);
}

/* Its stub, if it lives, becomes the idle one, or leaves and is waited for. */
bool mcg_command_over(mcg_command *command)
{
  mcg_server *server = command->server;
  if (!command->gone) return false;
  if (command->parent_fd < 0) return true;
  if (command->builtin || command->leaving) return false;
  if (server->idle) {
    command->leaving = true;
    mcg_stub_next(command->slot, true);
    signal_process(command->parent_fd, SIGUSR1);
    return false;
  }
  if (command->slot->pidfd >= 0) close(command->slot->pidfd);
  server->idle = command->slot;
  server->idle_parent = command->parent;
  server->idle_fd = command->parent_fd;
  command->slot = NULL;
  command->parent_fd = -1;
  return true;
}

void mcg_command_step(mcg_command *command)
{
  const unsigned any = MCG_SLOT_GONE | MCG_SLOT_REFUSED;
  if (command->gone) return;
  unsigned flags = atomic_load_explicit(&command->slot->flags, memory_order_acquire);
  if (!command->builtin && command->parent_fd < 0 && !command->orphaned && !(flags & any)) {
    adopt(command, flags);
    if (command->gone) return;
    flags = atomic_load_explicit(&command->slot->flags, memory_order_acquire);
  }
  if (flags & MCG_SLOT_REFUSED) {
    tell_refused(command);
    return;
  }
  if ((flags & MCG_SLOT_STARTED) && !command->started) tell_started(command);
  if (command->builtin) {
    step_builtin(command);
    return;
  }
  if ((flags & MCG_SLOT_EXITED) && !command->exited) tell_exit(command);
  bool over = command->orphaned ? command->exited && !mcg_tree_has_orphans(command->server)
                                : (flags & MCG_SLOT_GONE) != 0;
  if (over) tell_gone(command);
}

/* ---- asking ------------------------------------------------------------------------------- */

void mcg_command_signal(mcg_command *command, int signo)
{
  if (command->exited || command->gone) return;
  if (!command->started && signo > 0 && signo < 64) { /* there is no process yet to take it */
    command->early |= 1ull << signo;
    return;
  }
  if (command->master >= 0 && mcg_pty_signal(command->master, signo)) return;
  signal_process(command->builtin ? command->parent_fd : command->slot->pidfd, signo);
}

/* Until it has started, the command is what waits for its turn, or is on its way. */
static void signal_starting(mcg_command *command, int signo)
{
  const mcg_slot *slot = command->slot;
  if (!command->started) signal_process(slot->pidfd >= 0 ? slot->pidfd : slot->ready_fd, signo);
}

void mcg_command_rouse(mcg_command *command)
{
  signal_process(command->parent_fd, SIGCONT);
  signal_starting(command, SIGCONT);
}

bool mcg_command_is_hushed(const mcg_command *command)
{
  return command->hushed && !command->started && !command->gone;
}

void mcg_command_unhush(mcg_command *command)
{
  if (!mcg_command_is_hushed(command) || mcg_now_ms() - command->hushed_ms < HUSHED_MS) return;
  command->hushed = false;
  signal_process(command->parent_fd, SIGUSR1);
}

void mcg_command_insist(mcg_command *command)
{
  if (++command->insisted < INSIST_MAX)
    mcg_command_rouse(command);
  else
    signal_process(command->parent_fd, SIGKILL);
}

void mcg_command_resize(mcg_command *command, unsigned cols, unsigned rows)
{
  if (command->master >= 0) mcg_pty_resize(command->master, cols, rows);
}

void mcg_command_kill(mcg_command *command)
{
  mcg_server *server = command->server;
  if (command->gone) return;
  bool again = command->killing;
  if (!again) command->kill_ms = mcg_now_ms();
  command->killing = true;
  if (command->builtin) { /* it may want to remove a temporary file first */
    signal_process(command->parent_fd, again ? SIGKILL : SIGTERM);
    return;
  }
  atomic_store_explicit(&command->slot->kill, 1, memory_order_release);
  signal_starting(command, SIGKILL);
  signal_process(command->parent_fd, SIGCONT);
  signal_process(command->parent_fd, SIGUSR1);
  if (command->orphaned) signal_process(command->slot->pidfd, SIGKILL);
  if (server->orphans) mcg_tree_kill_orphans(server);
}

void mcg_command_leave(mcg_command *command)
{
  bool outlives = command->flags & MCG_EXEC_DETACH;
  command->conn = NULL;
  /* First: a built-in must not take the end of its input, which is cut off, for the end of what it is given. */
  if (!outlives) mcg_command_kill(command);
  for (int i = 0; i < 3; i++) mcg_relay_fini(&command->relay[i]);
}
