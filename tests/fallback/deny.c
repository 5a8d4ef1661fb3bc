/* deny.c: runs a command whose system calls, and those of all it starts, fail as they would on a kernel
 * or in a container that lacks them.
 *
 *   deny [--user] CALL[(ARGUMENT=VALUE,...)]=ERRNO... -- COMMAND [ARGUMENT...]
 *
 *   deny openat2=ENOSYS -- mooncage run -- true
 *   deny 'socket(0=17)=EAFNOSUPPORT' -- ...        where argument 0 is 17: AF_PACKET
 *
 * --user: gives up root first, by setting no_new_privs and uid and gid 12345, with no capability left. */
#include <errno.h>
#include <grp.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
  const char *name;
  int number;
} errors[] = {{"ENOSYS", ENOSYS},
              {"EPERM", EPERM},
              {"EACCES", EACCES},
              {"EINVAL", EINVAL},
              {"EOPNOTSUPP", EOPNOTSUPP},
              {"EAFNOSUPPORT", EAFNOSUPPORT},
              {"EPROTONOSUPPORT", EPROTONOSUPPORT}};

__attribute__((noreturn)) static void die(const char *what, const char *of)
{
  fprintf(stderr, "deny: %s: %s\n", what, of);
  exit(99);
}

static int number_of(const char *name)
{
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (strcmp(errors[i].name, name) == 0) return errors[i].number;
  die("no such error", name);
  return 0;
}

#define CONDITIONS 4

/* "0=17,2=12": the low 32 bits, as the kernel reads an int. */
static unsigned read_conditions(char *text, struct scmp_arg_cmp *out)
{
  unsigned count = 0;
  for (char *save, *one = strtok_r(text, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
    unsigned argument;
    unsigned long value;
    if (count == CONDITIONS || sscanf(one, "%u=%lu", &argument, &value) != 2)
      die("no ARGUMENT=VALUE", one);
    out[count++] = SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, 0xffffffffu, value);
  }
  return count;
}

static void add(scmp_filter_ctx filter, char *rule)
{
  struct scmp_arg_cmp conditions[CONDITIONS];
  unsigned count = 0;
  char *error = strrchr(rule, '='), *open = strchr(rule, '(');
  if (!error) die("no CALL=ERRNO", rule);
  *error++ = '\0';
  if (open) {
    char *end = strchr(open, ')');
    if (!end) die("no end of", open);
    *open++ = *end = '\0';
    count = read_conditions(open, conditions);
  }
  int call = seccomp_syscall_resolve_name(rule);
  if (call == __NR_SCMP_ERROR) die("no such system call", rule);
  int rc = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO((uint32_t)number_of(error)), call, count,
                                  conditions);
  if (rc < 0) die("cannot deny it", strerror(-rc));
}

int main(int argc, char **argv)
{
  int at = 1;
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  if (!filter) die("no memory", "for a filter");
  if (at < argc && strcmp(argv[at], "--user") == 0) {
    at++;
    if (setgroups(0, NULL) < 0 || setresgid(12345, 12345, 12345) < 0 ||
        setresuid(12345, 12345, 12345) < 0)
      die("cannot give up root", strerror(errno));
  }
  for (; at < argc && strcmp(argv[at], "--") != 0; at++) add(filter, argv[at]);
  if (at + 1 >= argc) die("usage", "deny [--user] CALL=ERRNO... -- COMMAND [ARGUMENT...]");
  /* Root keeps the right to run set-id programs. */
  if (geteuid() == 0) seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 0);
  int rc = seccomp_load(filter);
  if (rc < 0) die("cannot load the filter", strerror(-rc));
  seccomp_release(filter);
  execvp(argv[at + 1], argv + at + 1);
  die(argv[at + 1], strerror(errno));
}
