/* sbx-shim: runs a program on a kernel that seems to lack something.
 *   sbx-shim ERRNO:SYSCALL[,SYSCALL...]... -- PROGRAM [ARGS]
 * e.g. `sbx-shim ENOSYS:openat2,clone3 EPERM:newuser -- mooncage run -- true`. `newuser` stands for
 * CLONE_NEWUSER in clone and unshare (clone3 is then ENOSYS, since its flags cannot be looked at). */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
  const char *name;
  long number;
} names[] = {{"openat2", 437},
             {"clone3", 435},
             {"close_range", 436},
             {"landlock_create_ruleset", 444},
             {"landlock_add_rule", 445},
             {"landlock_restrict_self", 446},
             {"seccomp", 317},
             {"mount_setattr", 442},
             {"open_tree", 428},
             {"move_mount", 429},
             {"fsopen", 430},
             {"pidfd_open", 434},
             {"memfd_create", 319},
             {"pivot_root", 155},
             {"mount", 165},
             {"unshare", 272},
             {"pidfd_send_signal", 424},
             {"faccessat2", 439},
             {"capset", 126},
             {"sethostname", 170}};
static const struct {
  const char *name;
  int number;
} errnos[] = {{"ENOSYS", ENOSYS},
              {"EPERM", EPERM},
              {"EINVAL", EINVAL},
              {"ENOSPC", ENOSPC},
              {"EACCES", EACCES}};

static struct sock_filter program[256];
static unsigned short length;

static void emit(struct sock_filter instruction)
{
  if (length < sizeof program / sizeof *program) program[length++] = instruction;
}

static void refuse(long number, int error)
{
  emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1));
  emit((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error));
}

static void refuse_newuser(int error)
{
  static const long calls[] = {SYS_clone, SYS_unshare};
  for (size_t i = 0; i < 2; i++) {
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 4));
    emit((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                      offsetof(struct seccomp_data, args)));
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x10000000, 0, 1));
    emit((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error));
    emit((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
  }
  refuse(435, ENOSYS);
}

static void bad(const char *what)
{
  fprintf(stderr, "sbx-shim: unknown: %s\n", what);
  exit(2);
}

static void rule(char *text)
{
  char *list = strchr(text, ':');
  if (!list) bad(text);
  *list++ = '\0';
  int error = 0;
  for (size_t i = 0; i < sizeof errnos / sizeof *errnos; i++)
    if (strcmp(errnos[i].name, text) == 0) error = errnos[i].number;
  if (!error) bad(text);
  for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
    long number = -1;
    if (strcmp(name, "newuser") == 0) {
      refuse_newuser(error);
      continue;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
      if (strcmp(names[i].name, name) == 0) number = names[i].number;
    if (number < 0) bad(name);
    refuse(number, error);
  }
}

int main(int argc, char **argv)
{
  emit((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
  int at = 1;
  for (; at < argc && strcmp(argv[at], "--") != 0; at++) rule(argv[at]);
  if (at + 1 >= argc) bad("no program given");
  emit((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  struct sock_fprog filter = {length, program};
  if (geteuid() != 0) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) < 0) {
    perror("sbx-shim: seccomp");
    return 125;
  }
  execvp(argv[at + 1], argv + at + 1);
  perror(argv[at + 1]);
  return 127;
}
