/* What the spawner makes ahead: whole, handed out once, gone in the end. Networks need root. */
#include "cmocka_all.h"
#include "init/kernel.h"
#include "init/stash.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/in6.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define PATIENCE_MS 10000

static mcg_cgroups cgroups;
static mcg_stash stash;
static const mcg_cgroup_limits small = {.memory = 64u << 20, .pids = 32},
                               large = {.memory = 128u << 20, .pids = 64};

static int set_up(void **state)
{
  (void)state;
  static mcg_owner owner;
  mcg_owner_self(&owner);
  mcg_cgroups_open(&cgroups, &owner);
  mcg_stash_init(&stash, &cgroups, getuid() == 0);
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  mcg_stash_fini(&stash);
  return 0;
}

static void need_root(void)
{
  if (getuid() == 0) return;
  print_message("skipped: making a network namespace for somebody else needs root\n");
  skip();
}

static void need_groups(void)
{
  if (cgroups.mode != MCG_CGROUP_NONE) return;
  print_message("skipped: there is no control group here that this user may divide\n");
  skip();
}

static void until(atomic_int *part, int state)
{
  for (int waited = 0; atomic_load(part) != state; waited += 5) {
    assert_true(waited < PATIENCE_MS);
    poll(NULL, 0, 5);
  }
}

static ino_t network_of(int fd)
{
  struct stat about;
  assert_int_equal(fstat(fd, &about), 0);
  return about.st_ino;
}

static ino_t own_network(void)
{
  struct stat about;
  assert_int_equal(stat("/proc/thread-self/ns/net", &about), 0);
  return about.st_ino;
}

/* In it: interfaces, and the flags of lo. */
static void look_around(unsigned *count, short *flags)
{
  struct ifreq request = {.ifr_name = "lo"};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(ioctl(fd, SIOCGIFFLAGS, &request), 0);
  *flags = request.ifr_flags;
  close(fd);
  struct if_nameindex *all = if_nameindex();
  assert_non_null(all);
  for (*count = 0; all[*count].if_index; ++*count) {
  }
  if_freenameindex(all);
}

static int first_free_port(void)
{
  int port = -1;
  FILE *file = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%d", &port), 1);
  fclose(file);
  return port;
}

static void test_network_is_new_and_has_loopback(void **state)
{
  (void)state;
  need_root();
  ino_t home = own_network();
  mcg_net one, two, other;
  assert_false(mcg_stash_net(&stash, false, false, &one)); /* nothing was asked for */
  mcg_stash_refill(&stash);
  until(&stash.net_state[0], MCG_PART_READY);
  until(&stash.net_state[1], MCG_PART_READY);
  assert_true(own_network() == home); /* the thread's own business */
  assert_true(mcg_stash_net(&stash, false, false, &one));
  assert_true(mcg_stash_net(&stash, false, false, &two));
  assert_false(mcg_stash_net(&stash, false, false, &other)); /* each is given once */
  assert_true(network_of(one.fd) != network_of(two.fd));
  assert_true(network_of(one.fd) != home && network_of(two.fd) != home);
  assert_int_equal(mcg_stash_enter_net(one.fd), 0);
  assert_true(own_network() == network_of(one.fd));
  unsigned count;
  short flags;
  look_around(&count, &flags);
  int port = first_free_port();
  mcg_stash_leave_net(&stash);
  assert_true(own_network() == home);
  assert_int_equal(count, 1);
  assert_true(flags & IFF_UP);
  assert_int_equal(port, 0);
  assert_int_not_equal(first_free_port(), 0); /* the host's own is as it was */
  mcg_net_close(&one);
  mcg_net_close(&two);
}

/* The kind that was asked for last is made ahead; one of another kind is nobody's. */
static void test_network_with_a_gateway(void **state)
{
  (void)state;
  need_root();
  mcg_net net;
  mcg_stash_refill(&stash);
  until(&stash.net_state[0], MCG_PART_READY);
  until(&stash.net_state[1], MCG_PART_READY);
  assert_false(mcg_stash_net(&stash, true, false, &net));
  mcg_stash_refill(&stash);
  until(&stash.net_state[1], MCG_PART_READY);
  assert_true(mcg_stash_net(&stash, true, false, &net));
  assert_true(net.ways.sockets[MCG_SOCKET_STUB_UDP] >= 0);
  assert_true(net.ways.sockets[MCG_SOCKET_STUB_TCP] >= 0);
  assert_true(net.ways.sockets[MCG_SOCKET_REFUSED] >= 0);
  assert_int_equal(net.ways.sockets[MCG_SOCKET_REDIRECT_4], -1);
  mcg_net_close(&net);
  assert_int_equal(net.ways.sockets[MCG_SOCKET_STUB_UDP], -1);
}

/* ---- what comes back ---------------------------------------------------------------------------- */

/* Uses a network as whoever has no capability over it can. What is returned stays open meanwhile; -1. */
static int leave_nothing(void)
{
  return -1;
}

static int open_and_close(void)
{
  for (unsigned i = 0; i < 3; i++) {
    static const int families[] = {AF_INET, AF_INET6, AF_UNIX};
    int fd = socket(families[i], SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    close(fd);
  }
  return -1;
}

static int send_to_itself(void)
{
  struct sockaddr_in to = {
      .sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  assert_int_equal(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof to), 1);
  close(fd);
  return -1;
}

static int connect_elsewhere(void)
{
  struct sockaddr_in to = {
      .sin_family = AF_INET, .sin_port = htons(443), .sin_addr = {htonl(0x0b000001)}};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), -1);
  assert_int_equal(errno, ENETUNREACH);
  close(fd);
  return -1;
}

static int connect_elsewhere_by_six(void)
{
  struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(443)};
  to.sin6_addr.s6_addr[0] = 0x20;
  int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), -1);
  assert_int_equal(errno, ENETUNREACH);
  close(fd);
  return -1;
}

static int keep_a_name(void)
{
  struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0left behind"};
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
  return fd;
}

/* Its only holder is its own unread message. The other end keeps that from being collected. */
static int keep_a_name_in_flight(void)
{
  int pair[2], named = keep_a_name();
  assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof named)];
  } control = {.header = {.cmsg_len = CMSG_LEN(sizeof named),
                          .cmsg_level = SOL_SOCKET,
                          .cmsg_type = SCM_RIGHTS}};
  memcpy(CMSG_DATA(&control.header), &named, sizeof named);
  char byte = 'x';
  struct iovec text = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  assert_int_equal(sendmsg(pair[0], &message, 0), 1);
  close(named);
  close(pair[0]);
  return pair[1];
}

/* A lease outlives its socket. */
static int lease_a_flow_label(void)
{
  struct in6_flowlabel_req request = {.flr_label = htonl(0x12345),
                                      .flr_action = IPV6_FL_A_GET,
                                      .flr_share = IPV6_FL_S_EXCL,
                                      .flr_flags = IPV6_FL_F_CREATE,
                                      .flr_linger = 6};
  request.flr_dst.s6_addr[15] = 1;
  int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, &request, sizeof request), 0);
  close(fd);
  return -1;
}

static int talk_over_tcp(void)
{
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t len = sizeof at;
  int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
      client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(server, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(server, 1), 0);
  assert_int_equal(getsockname(server, (struct sockaddr *)&at, &len), 0);
  assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof at), 0);
  close(client);
  close(server);
  return -1;
}

/* Gives a network back that `use` was made of, and says what the thread found. */
static int found_after(int (*use)(void))
{
  mcg_stash_refill(&stash);
  until(&stash.net_state[0], MCG_PART_READY);
  until(&stash.net_state[1], MCG_PART_READY);
  mcg_net taken;
  assert_true(mcg_stash_net(&stash, false, false, &taken));
  int net = taken.fd;
  ino_t which = network_of(net);
  assert_int_equal(mcg_stash_enter_net(net), 0);
  int held = use();
  mcg_stash_leave_net(&stash);
  mcg_stash_return_net(&stash, net);
  for (int waited = 0; atomic_load(&stash.net_state[0]) == MCG_PART_MAKING; waited += 5) {
    assert_true(waited < PATIENCE_MS);
    poll(NULL, 0, 5);
  }
  int found = atomic_load(&stash.net_state[0]);
  if (found == MCG_PART_READY) assert_true(network_of(stash.nets[0].fd) == which);
  if (held >= 0) close(held);
  mcg_stash_refill(&stash); /* lets go of what was used */
  return found;
}

static void test_network_comes_back_unused_only(void **state)
{
  (void)state;
  need_root();
  assert_int_equal(found_after(leave_nothing), MCG_PART_READY);
  assert_int_equal(found_after(open_and_close), MCG_PART_READY);
  assert_int_equal(found_after(send_to_itself), MCG_PART_USED);
  assert_int_equal(found_after(connect_elsewhere), MCG_PART_USED);
  assert_int_equal(found_after(connect_elsewhere_by_six), MCG_PART_USED);
  assert_int_equal(found_after(keep_a_name), MCG_PART_USED);
  assert_int_equal(found_after(keep_a_name_in_flight), MCG_PART_USED);
  assert_int_equal(found_after(lease_a_flow_label), MCG_PART_USED);
  assert_int_equal(found_after(talk_over_tcp), MCG_PART_USED);
}

/* Should the host's ever be taken for one: it has been used. */
static void test_host_network_is_no_sandbox_network(void **state)
{
  (void)state;
  need_root();
  mcg_stash_refill(&stash);
  until(&stash.net_state[0], MCG_PART_READY);
  until(&stash.net_state[1], MCG_PART_READY);
  send_to_itself(); /* it has at least this packet */
  mcg_net other;
  assert_true(mcg_stash_net(&stash, false, false, &other));
  int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  mcg_stash_return_net(&stash, home);
  until(&stash.net_state[0], MCG_PART_USED);
  mcg_net_close(&other);
}

/* The spawner changes its mount namespace, which the kernel refuses to a thread that shares its root. */
static void test_spawner_may_still_change_its_mounts(void **state)
{
  (void)state;
  need_root();
  mcg_stash_refill(&stash);
  int home = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  assert_true(home >= 0);
  assert_int_equal(setns(home, CLONE_NEWNS), 0);
  close(home);
}

static bool is_limited(const mcg_spare *spare, const mcg_cgroup_limits *limits)
{
  const char *file = cgroups.mode == MCG_CGROUP_V2 ? "memory.max" : "memory.limit_in_bytes";
  return mcg_cgroup_get(cgroups.base[0], spare->group.name, file, NULL) == limits->memory;
}

static void give_up(mcg_spare *spare)
{
  if (spare->dir >= 0) close(spare->dir);
  for (size_t i = 0; i < MCG_CONTROLLERS; i++)
    if (spare->doors[i] >= 0) close(spare->doors[i]);
  assert_int_equal(mcg_cgroup_remove(&cgroups, &spare->group), 0);
}

static void test_group_has_the_limits_that_are_asked_for(void **state)
{
  (void)state;
  need_groups();
  mcg_spare first, same, other;
  const char *what;
  assert_int_equal(mcg_stash_group(&stash, &small, &first, &what), 0); /* made now */
  mcg_stash_refill(&stash);
  until(&stash.group_state[0], MCG_PART_READY);
  until(&stash.group_state[1], MCG_PART_READY);
  assert_int_equal(mcg_stash_group(&stash, &small, &same, &what), 0);
  assert_int_equal(mcg_stash_group(&stash, &large, &other, &what), 0);
  if (cgroups.can & MCG_CAN_MEMORY) {
    assert_true(is_limited(&first, &small));
    assert_true(is_limited(&same, &small));
    assert_true(is_limited(&other, &large));
  }
  assert_string_not_equal(first.group.name, same.group.name);
  assert_string_not_equal(same.group.name, other.group.name);
  give_up(&first);
  give_up(&same);
  give_up(&other);
}

/* Those with other limits are replaced, and in the end none is left. */
static void test_groups_are_removed(void **state)
{
  (void)state;
  need_groups();
  mcg_spare one;
  const char *what;
  assert_int_equal(mcg_stash_group(&stash, &small, &one, &what), 0);
  mcg_stash_refill(&stash);
  until(&stash.group_state[0], MCG_PART_READY);
  until(&stash.group_state[1], MCG_PART_READY);
  mcg_cgroup stale = stash.groups[0].group;
  give_up(&one);
  assert_int_equal(mcg_stash_group(&stash, &large, &one, &what), 0);
  mcg_stash_refill(&stash);
  until(&stash.group_state[0], MCG_PART_READY);
  until(&stash.group_state[1], MCG_PART_READY);
  mcg_cgroup kept = stash.groups[1].group;
  give_up(&one);
  mcg_stash_fini(&stash);
  assert_true(faccessat(cgroups.base[0], stale.name, F_OK, 0) < 0);
  assert_true(faccessat(cgroups.base[0], kept.name, F_OK, 0) < 0);
  mcg_stash_init(&stash, &cgroups, false); /* for the tear-down */
}

/* ---- groups that come back -------------------------------------------------------------------- */

#define MIB (1u << 20)

/* What its child does in the group that it has entered. */
static void use_nothing(int out)
{
  (void)out;
}

static void use_memory(int out)
{
  char *bytes = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (bytes != MAP_FAILED) memset(bytes, 1, 8 * MIB);
  (void)out;
}

/* `out` is a file in memory that stays: so does what was charged. */
static void leave_memory(int out)
{
  static char bytes[4 * MIB];
  memset(bytes, 1, sizeof bytes);
  if (write(out, bytes, sizeof bytes) != sizeof bytes) _exit(1);
}

/* There is room for one more than itself. */
static void fork_too_often(int out)
{
  (void)out;
  pid_t pid = fork();
  if (pid == 0) pause();
  if (pid < 0 || fork() >= 0) _exit(1);
  kill(pid, SIGTERM);
}

/* Until somebody ends it. */
static void stay(int out)
{
  (void)out;
  for (;;) pause();
}

static pid_t use_group(const mcg_spare *spare, void (*use)(int out), int out)
{
  int pair[2];
  char byte;
  assert_int_equal(pipe(pair), 0);
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < MCG_CONTROLLERS; i++)
      if (spare->doors[i] >= 0 && write(spare->doors[i], "0", 1) != 1) _exit(1);
    if (write(pair[1], "x", 1) != 1) _exit(1);
    use(out);
    while (wait(NULL) > 0) {
    }
    _exit(0);
  }
  assert_int_equal(read(pair[0], &byte, 1), 1);
  close(pair[0]);
  close(pair[1]);
  return pid;
}

static void wait_well(pid_t pid)
{
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void take(mcg_spare *out)
{
  const char *what;
  assert_int_equal(mcg_stash_group(&stash, &small, out, &what), 0);
  mcg_stash_refill(&stash);
  until(&stash.group_state[0], MCG_PART_READY);
  until(&stash.group_state[1], MCG_PART_READY);
}

/* To the third place: the first two are taken. */
static int give_back(mcg_spare *spare)
{
  mcg_cgroup group = spare->group;
  if (spare->dir >= 0) close(spare->dir);
  for (size_t i = 0; i < MCG_CONTROLLERS; i++)
    if (spare->doors[i] >= 0) close(spare->doors[i]);
  assert_true(mcg_stash_return_group(&stash, &group, &small));
  assert_true(group.name[0] == 0);
  for (int waited = 0; atomic_load(&stash.group_state[2]) == MCG_PART_MAKING; waited += 5) {
    assert_true(waited < PATIENCE_MS);
    poll(NULL, 0, 5);
  }
  return atomic_load(&stash.group_state[2]);
}

static bool is_there(const mcg_cgroup *group)
{
  return faccessat(cgroups.base[0], group->name, F_OK, 0) == 0;
}

static void need_version_1(void)
{
  need_groups();
  if (cgroups.mode == MCG_CGROUP_V1 && cgroups.can == (MCG_CAN_MEMORY | MCG_CAN_CPU | MCG_CAN_PIDS))
    return;
  print_message("skipped: groups are used again on version 1 only\n");
  skip();
}

static void test_group_comes_back_as_it_was(void **state)
{
  (void)state;
  need_version_1();
  static void (*const uses[])(int) = {use_nothing, use_memory};
  for (size_t i = 0; i < 2; i++) {
    mcg_spare spare;
    take(&spare);
    wait_well(use_group(&spare, uses[i], -1));
    int memory = cgroups.base[MCG_C_MEMORY];
    if (i == 1)
      assert_true(mcg_cgroup_get(memory, spare.group.name, "memory.max_usage_in_bytes", NULL) >
                  8 * MIB);
    assert_true(mcg_cgroup_put_number(memory, spare.group.name, "memory.limit_in_bytes", 32 * MIB));
    assert_int_equal(give_back(&spare), MCG_PART_READY);
    mcg_cgroup_use use;
    mcg_cgroup_read(&cgroups, &spare.group, true, &use);
    assert_true(use.memory_peak < 2 * MIB);
    assert_true(is_limited(&spare, &small));
    assert_string_equal(stash.groups[2].group.name, spare.group.name);
    wait_well(use_group(&stash.groups[2], use_nothing, -1)); /* its doors are open */
    tear_down(NULL);
    assert_false(is_there(&spare.group));
    set_up(NULL);
  }
}

static void test_group_that_shows_its_use_goes(void **state)
{
  (void)state;
  need_groups();
  mcg_spare spare;
  take(&spare);
  int left = memfd_create("left", MFD_CLOEXEC);
  if (cgroups.mode == MCG_CGROUP_V1) wait_well(use_group(&spare, leave_memory, left));
  assert_int_equal(give_back(&spare), MCG_PART_MISSING);
  assert_false(is_there(&spare.group));
  close(left);
  need_version_1();
  take(&spare);
  assert_true(mcg_cgroup_put_number(cgroups.base[MCG_C_PIDS], spare.group.name, "pids.max", 2));
  wait_well(use_group(&spare, fork_too_often, -1));
  assert_int_equal(give_back(&spare), MCG_PART_MISSING);
  assert_false(is_there(&spare.group));
}

static void test_group_with_somebody_in_it_waits(void **state)
{
  (void)state;
  need_version_1();
  mcg_spare spare;
  take(&spare);
  pid_t pid = use_group(&spare, stay, -1);
  assert_int_equal(give_back(&spare), MCG_PART_USED);
  mcg_spare other;
  take(&other); /* is not that one, nor made in its place */
  assert_string_not_equal(other.group.name, spare.group.name);
  assert_true(is_there(&spare.group));
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  for (int waited = 0; atomic_load(&stash.group_state[2]) != MCG_PART_READY; waited += 5) {
    assert_true(waited < PATIENCE_MS);
    mcg_stash_refill(&stash); /* asks again */
    poll(NULL, 0, 5);
  }
  assert_string_equal(stash.groups[2].group.name, spare.group.name);
  give_up(&other);
}

static void test_map_is_for_its_slot(void **state)
{
  (void)state;
  need_root();
  if (getenv("MOONCAGE_VALGRIND")) {
    print_message("skip: valgrind makes no process that shares our memory\n");
    skip();
  }
  mcg_idmap seen = {.fd = 0, .owner_uid = 1234, .owner_gid = 1235}, given;
  mcg_stash_refill(&stash);
  assert_false(mcg_stash_map_missing(&stash)); /* nothing was ever bound */
  mcg_stash_saw(&stash, &seen);
  assert_true(mcg_stash_map_missing(&stash));
  assert_true(mcg_stash_refill_map(&stash, 7, 0x70000007u));
  until(&stash.map_state, MCG_PART_READY);
  assert_int_equal(mcg_stash_map(&stash, &given), 7);
  assert_int_equal(mcg_stash_map(&stash, &given), -1);
  assert_int_equal(given.owner_uid, 1234);
  assert_int_equal(given.owner_gid, 1235);
  mcg_idmap_close(&given);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_network_is_new_and_has_loopback, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_network_with_a_gateway, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_network_comes_back_unused_only, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_host_network_is_no_sandbox_network, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_spawner_may_still_change_its_mounts, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_group_has_the_limits_that_are_asked_for, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(test_groups_are_removed, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_group_comes_back_as_it_was, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_group_that_shows_its_use_goes, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_group_with_somebody_in_it_waits, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_map_is_for_its_slot, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
