/* A clone that cannot bring the sandbox into its control group makes none: on version 2 that is how its
 * limits come to hold. clone3's flags lie behind a pointer, where no filter of system calls sees them: a
 * descriptor that is no control group makes the kernel refuse that one flag, and a watcher who is asked
 * by the kernel about each clone3 reads them, as a security module might. */
#include "cmocka_all.h"
#include "init/jail.h"
#include "init/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#ifndef __WALL
#define __WALL 0x40000000
#endif

static bool has_no_child(void)
{
  siginfo_t info;
  return waitid(P_ALL, 0, &info, WEXITED | __WALL) < 0 && errno == ECHILD;
}

/* The same flags without that one, and a child that leaves at once. */
static void the_rest_of_it_is_possible(void)
{
  mcg_clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                                  CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP,
                         .exit_signal = SIGCHLD};
  siginfo_t info;
  pid_t pid = mcg_sys_clone3(&args);
  if (pid == 0) _exit(0);
  if (pid < 0) skip(); /* no namespaces here */
  assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED), 0);
}

static void one_that_cannot_be_born_in_its_group_is_not_born(void **state)
{
  (void)state;
  const pid_t self = getpid();
  int pidfd = -1, go[2];
  the_rest_of_it_is_possible();
  assert_int_equal(pipe(go), 0);
  mcg_jail_order order;
  mcg_jail_order_init(&order);
  order.control = go[1]; /* a child that did come to be would have nothing to serve, and leave */
  order.cgroup = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_true(order.cgroup >= 0);
  assert_int_equal(mcg_jail_clone(&order, &pidfd), -1);
  assert_int_equal(errno, EBADF);
  assert_int_equal(getpid(), self);
  assert_int_equal(pidfd, -1);
  assert_true(has_no_child());
  mcg_jail_order_fini(&order);
  close(go[0]);
}

/* ---- who refuses? ------------------------------------------------------------------------- */

typedef struct refusal {
  uint64_t flags; /* a clone3 with one of these fails; 0: every one */
  int error;
} refusal;

/* From here on each clone3 of this process and its children asks whoever has the descriptor. */
static int ask_about_clone3(void)
{
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MCG_NR_CLONE3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog filter = {sizeof code / sizeof *code, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return -1;
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                      &filter);
}

/* Answers until nobody is left who could ask. */
static void watch(int listener, const refusal *refused)
{
  struct seccomp_notif asked = {0};
  struct pollfd poll_of = {.fd = listener, .events = POLLIN};
  for (;;) {
    if (poll(&poll_of, 1, -1) < 0 || !(poll_of.revents & POLLIN)) return;
    memset(&asked, 0, sizeof asked);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0) continue;
    uint64_t flags = 0;
    struct iovec here = {&flags, sizeof flags};
    struct iovec there = {(void *)(uintptr_t)asked.data.args[0], sizeof flags};
    bool read = process_vm_readv((pid_t)asked.pid, &here, 1, &there, 1, 0) == sizeof flags;
    bool refuse = !read || !refused->flags || (flags & refused->flags);
    struct seccomp_notif_resp answer = {.id = asked.id};
    if (refuse)
      answer.error = read ? -refused->error : -EIO;
    else
      answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
}

/* The watched: 0 when the clone failed so, and the group is, or is not, who is named for it. */
static int judge(int group, int error, bool named)
{
  int pidfd = -1, go[2];
  mcg_jail_order order;
  mcg_jail_order_init(&order);
  order.cgroup = group;
  if (pipe(go) < 0) return 2;
  order.control = go[1];
  if (mcg_jail_clone(&order, &pidfd) >= 0) return 3;
  if (errno != error) return 100 + errno;
  return mcg_jail_group_refuses(&order) != named;
}

static int send_fd(int over, int fd)
{
  char space[CMSG_SPACE(sizeof fd)] = {0};
  struct iovec byte = {"", 1};
  struct msghdr message = {
      .msg_iov = &byte, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  *header = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
  memcpy(CMSG_DATA(header), &fd, sizeof fd);
  return sendmsg(over, &message, 0) == 1 ? 0 : -1;
}

static int take_fd(int over)
{
  int fd = -1;
  char byte, space[CMSG_SPACE(sizeof fd)];
  struct iovec into = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &into, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
  if (recvmsg(over, &message, 0) != 1 || !CMSG_FIRSTHDR(&message)) return -1;
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  return fd;
}

static int judged_under(const refusal *refused, int group, bool named)
{
  int pair[2], status;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  pid_t pid = fork();
  if (pid == 0) {
    close(pair[0]);
    int listener = ask_about_clone3();
    if (listener < 0 || send_fd(pair[1], listener) < 0) _exit(77);
    close(listener);
    _exit(judge(group, refused->error, named));
  }
  close(pair[1]);
  int listener = take_fd(pair[0]);
  close(pair[0]);
  if (listener >= 0) {
    watch(listener, refused);
    close(listener);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) skip(); /* no such filters here */
  return WEXITSTATUS(status);
}

static int a_group_of_version_2(void)
{
  static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    struct statfs about;
    int fd = open(places[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && fstatfs(fd, &about) == 0 && about.f_type == CGROUP2_SUPER_MAGIC &&
        faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) == 0)
      return fd;
    if (fd >= 0) close(fd);
  }
  return -1;
}

static void the_group_is_named_where_it_alone_refuses(void **state)
{
  (void)state;
  static const int errors[] = {ENOSYS, EPERM, EACCES, EBUSY};
  the_rest_of_it_is_possible();
  int none = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_int_equal(judged_under(&(refusal){CLONE_NEWTIME, EBADF}, none, true), 0);
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    assert_int_equal(judged_under(&(refusal){MCG_CLONE_INTO_CGROUP, errors[i]}, none, true), 0);
    assert_int_equal(judged_under(&(refusal){0, errors[i]}, none, false), 0);
  }
  close(none);
}

static void and_is_not_where_namespaces_are_refused(void **state)
{
  (void)state;
  the_rest_of_it_is_possible();
  int group = a_group_of_version_2();
  if (group < 0) skip(); /* none that this user may put a process into */
  assert_int_equal(judged_under(&(refusal){CLONE_NEWUSER, EPERM}, group, false), 0);
  assert_int_equal(judged_under(&(refusal){MCG_CLONE_INTO_CGROUP, EPERM}, group, true), 0);
  close(group);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_that_cannot_be_born_in_its_group_is_not_born),
      cmocka_unit_test(the_group_is_named_where_it_alone_refuses),
      cmocka_unit_test(and_is_not_where_namespaces_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
