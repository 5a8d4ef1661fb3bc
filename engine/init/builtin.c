/* builtin.c: the child that runs a built-in, and what all of them need. */
#include "builtin.h"
#include "command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static mcg_slot *report; /* of this child; shared with init */

void builtin_fail(int number, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  vsnprintf(report->text, sizeof report->text, format, args);
  va_end(args);
  report->error = number ? number : EIO;
  _exit(1);
}

static void take_streams(const mcg_command *command)
{
  for (int i = 0; i < 3; i++)
    if (dup2(command->theirs[i], i) < 0) _exit(1);
  syscall(SYS_close_range, 3, ~0U, 0);
}

_Noreturn void mcg_builtin_main(mcg_server *server, mcg_command *command, const mcg_exec *exec)
{
  (void)server;
  report = command->slot;
  take_streams(command);
  builtin_fail(ENOSYS, "there is no built-in \"%s\"", exec->argv[0]);
}
