/* builtin.c: the child that runs a built-in, and what all of them need. */
#include "builtin.h"
#include "command.h"
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static mcg_slot *report; /* of this child; shared with init */
static char gathered[65536];
static size_t gathered_len;
static void (*at_failure)(void);
static int ending = -1; /* a signalfd: readable when told to end */
static int trees = -1;  /* what is locked; never in a test, which has no server */

#define LOCK_MS 10000
#define LOCK_TICK_MS 10
#define TREES_FD 3

/* What to do stands behind the last newline, always: names before it are as they are, so that whoever
 * looks for secrets in them finds them. */
__attribute__((format(printf, 3, 0))) static void put_report(int number, const char *fix,
                                                             const char *format, va_list args)
{
  size_t room = sizeof report->text - strlen(fix) - 1;
  vsnprintf(report->text, room, format, args);
  sprintf(report->text + strlen(report->text), "\n%s", fix);
  report->error = number ? number : EIO;
}

__attribute__((format(printf, 3, 0))) static _Noreturn void fail(int number, const char *fix,
                                                                 const char *format, va_list args)
{
  static bool failing; /* undoing may fail as well: what came first is told */
  void (*undo)(void) = at_failure;
  if (report && !failing) put_report(number, fix, format, args);
  failing = true;
  at_failure = NULL;
  if (undo) undo();
  _exit(1);
}

void builtin_fail(int number, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  fail(number, "", format, args);
}

void builtin_fail_fix(int number, const char *fix, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  fail(number, fix, format, args);
}

void builtin_on_failure(void (*undo)(void))
{
  sigset_t end;
  at_failure = undo;
  if (!undo || ending >= 0) return;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  sigprocmask(SIG_BLOCK, &end, NULL);
  ending = signalfd(-1, &end, SFD_CLOEXEC);
}

void *builtin_alloc(size_t size)
{
  void *room = calloc(1, size);
  if (!room) builtin_fail(ENOMEM, "out of memory");
  return room;
}

static void put_now(const char *bytes, size_t len)
{
  while (len) {
    ssize_t put = write(1, bytes, len);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) builtin_fail(errno, "the receiver of the output is gone");
    bytes += put;
    len -= (size_t)put;
  }
}

void builtin_flush(void)
{
  put_now(gathered, gathered_len);
  gathered_len = 0;
}

void builtin_put(const void *bytes, size_t len)
{
  if (len > sizeof gathered - gathered_len) builtin_flush();
  if (len >= sizeof gathered) {
    put_now(bytes, len);
    return;
  }
  memcpy(gathered + gathered_len, bytes, len);
  gathered_len += len;
}

/* Until there is input, or the end is asked for. A handler could not undo: it may not touch memory. */
static void wait_for_input(void)
{
  struct pollfd both[] = {{.fd = 0, .events = POLLIN}, {.fd = ending, .events = POLLIN}};
  if (poll(both, 2, -1) > 0 && both[1].revents) builtin_fail(EINTR, "it was told to end");
}

/* Record locks belong to a process, so that one description serves all that init forks. */
void builtin_lock(bool alone)
{
  struct flock whole = {.l_type = alone ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET};
  struct pollfd end = {.fd = at_failure ? ending : -1, .events = POLLIN};
  for (int ms = 0; trees >= 0 && fcntl(trees, F_SETLK, &whole) < 0; ms += LOCK_TICK_MS) {
    if (errno != EACCES && errno != EAGAIN)
      builtin_fail(errno, "cannot lock the tree: %s", strerror(errno));
    if (ms >= LOCK_MS)
      builtin_fail_fix(EEXIST, "try again when that has ended",
                       "the tree is being packed or changed by another call");
    if (poll(&end, 1, LOCK_TICK_MS) > 0) builtin_fail(EINTR, "it was told to end");
  }
}

static size_t get_now(void *bytes, size_t len)
{
  for (;;) {
    if (at_failure && ending >= 0) wait_for_input();
    ssize_t got = read(0, bytes, len);
    if (got >= 0) return (size_t)got;
    if (errno != EINTR) builtin_fail(errno, "cannot read the input");
  }
}

size_t builtin_get(void *bytes, size_t len)
{
  static char ahead[65536];
  static size_t at, end;
  size_t have = 0;
  while (have < len) {
    if (at == end && len - have >= sizeof ahead) {
      size_t got = get_now((char *)bytes + have, len - have);
      if (got == 0) break;
      have += got;
      continue;
    }
    if (at == end) {
      at = 0;
      end = get_now(ahead, sizeof ahead);
      if (end == 0) break;
    }
    size_t piece = end - at < len - have ? end - at : len - have;
    memcpy((char *)bytes + have, ahead + at, piece);
    at += piece;
    have += piece;
  }
  return have;
}

typedef struct mcg_builtin {
  const char *name;
  int least, most; /* arguments, the name not counted; most -1: any */
  void (*run)(int argc, char **argv);
} mcg_builtin;

/* clang-format off */
static const mcg_builtin builtins[] = {
    {"read", 1, 3, builtin_read},
    {"write", 2, 3, builtin_write},
    {"list", 1, 1, builtin_list},
    {"stat", 1, 1, builtin_stat},
    {"mkdir", 2, 2, builtin_mkdir},
    {"remove", 1, 1, builtin_remove},
    {"move", 2, 2, builtin_move},
    {"pack", 1, -1, builtin_pack},
    {"pack-own", 1, -1, builtin_pack},
    {"pack-strict", 1, 1, builtin_pack},
    {"unpack", 1, 1, builtin_unpack},
    {"unpack-strict", 1, 1, builtin_unpack},
    {"replace", 1, -1, builtin_unpack},
    {"disk", 1, 1, builtin_disk},
    {"changes", 2, 2, builtin_changes},
    {"changeset", 2, 2, builtin_changes},
    {"apply", 4, 4, builtin_apply},
};
/* clang-format on */

static void run(const mcg_server *server, int argc, char **argv)
{
  if (strcmp(argv[0], "processes") == 0) {
    builtin_processes(server);
    return;
  }
  for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++) {
    const mcg_builtin *builtin = &builtins[i];
    if (strcmp(builtin->name, argv[0]) != 0) continue;
    if (argc - 1 < builtin->least || (builtin->most >= 0 && argc - 1 > builtin->most))
      builtin_fail(EINVAL, "wrong number of arguments for \"%s\"", argv[0]);
    builtin->run(argc, argv);
    return;
  }
  builtin_fail(ENOSYS, "there is no built-in \"%s\"", argv[0]);
}

static bool several_users;

void builtin_give(int dir, int made)
{
  struct stat owner;
  if (!several_users || fstat(dir, &owner) < 0 || (owner.st_uid == 0 && owner.st_gid == 0)) return;
  if (fchown(made, owner.st_uid, owner.st_gid) < 0)
    builtin_fail(errno, "cannot give it to the owner of its directory: %s", strerror(errno));
}

/* By descriptor: a name could be made to mean another's file meanwhile. */
void builtin_give_directory(int dir, const char *name)
{
  int made = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (made < 0) return; /* it was moved away: then it is not ours to give */
  builtin_give(dir, made);
  close(made);
}

/* Where init holds capabilities for `user=`, its child must not keep them, unless it is the sandbox's
 * root, as which a command would have them too. */
static void become_command(const mcg_launch *launch)
{
  if (!launch->change_ids) return;
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
  long gid = (long)launch->gid, uid = (long)launch->uid;
  long result = mcg_sys3(SYS_setgroups, 0, 0, 0);
  if (result == 0) result = mcg_sys3(SYS_setresgid, gid, gid, gid);
  if (result == 0) result = mcg_sys3(SYS_setresuid, uid, uid, uid);
  if (result == 0 && uid != 0) result = mcg_sys3(SYS_capset, (long)&header, (long)none, 0);
  if (result < 0) builtin_fail((int)-result, "cannot become the user of the command");
}

_Noreturn void mcg_builtin_main(mcg_server *server, mcg_command *command, const mcg_exec *exec)
{
  report = command->slot;
  for (int i = 0; i < 3; i++)
    if (dup2(command->theirs[i], i) < 0) _exit(1);
  trees = dup2(server->trees, TREES_FD);
  if (trees < 0) builtin_fail(errno, "cannot keep what is locked: %s", strerror(errno));
  mcg_sys3(SYS_close_range, TREES_FD + 1, ~0U, 0);
  become_command(&exec->launch);
  several_users = exec->launch.change_ids && exec->launch.uid == 0;
  uint64_t end = 1ull << (SIGTERM - 1); /* how init asks a built-in to end, before it kills it */
  mcg_sys(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&end, 0, sizeof end, 0);
  umask(0); /* modes are the request's */
  paths_init(server->config->workdir, server->config->confine_paths);
  run(server, (int)exec->argc, exec->argv);
  builtin_flush();
  _exit(0);
}
