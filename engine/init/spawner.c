/* spawner.c: the spawner's loop. It hears the engine, makes and ends sandboxes, notices the deaths of
 * their inits, and when the engine is gone, by end of stream or by its pidfd, hands over to the
 * janitor. One thread: death signals of the sandboxes are tied to it. */
#include "spawner.h"

#include <fcntl.h>
#include <linux/securebits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "box.h"
#include "jail.h"
#include "kernel.h"
#include "late.h"
#include "place.h"
#include "range.h"

#define PACKET_MAX 65536
#define FDS_MAX 8 /* with one packet */
#define ENGINE_FD 3
#define ENGINE_PIDFD 4
#define RETRY_MS 20 /* for a group that somebody was still leaving */
#define BURY_MS 30  /* a pause in which the networks of dead sandboxes may go */

enum { EVENT_ENGINE = 1, EVENT_ENGINE_DEATH = 2 }; /* others are pointers to boxes */

int mcg_failure_set(mcg_failure *failure, const char *step, int error, const char *format, ...)
{
  failure->step = step;
  failure->error = error;
  va_list list;
  va_start(list, format);
  vsnprintf(failure->text, sizeof failure->text, format, list);
  va_end(list);
  return -1;
}

/* ---- what it says ---------------------------------------------------------------------------- */

/* The engine's end of stream is noticed where it is read, not here. */
static void say(mcg_spawner_state *state, uint32_t op, uint32_t id, const mcg_wire *body,
                const int *fds, size_t fd_count)
{
  uint32_t head[2] = {op, id};
  struct iovec parts[2] = {{.iov_base = head, .iov_len = sizeof head},
                           {.iov_base = body ? body->data : NULL, .iov_len = body ? body->len : 0}};
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(MCG_SOCKETS * sizeof(int))];
  } control = {0};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  if (fd_count) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
  }
  while (sendmsg(state->engine, &message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

static void say_failed(mcg_spawner_state *state, uint32_t id, const mcg_failure *failure)
{
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_str(&body, MCG_ST_STEP, failure->step);
  mcg_wire_put_u64(&body, MCG_ST_ERRNO, (uint64_t)failure->error);
  mcg_wire_put_str(&body, MCG_ST_TEXT, failure->text);
  say(state, MCG_S_FAILED, id, &body, NULL, 0);
  mcg_wire_fini(&body);
}

static void say_ready(mcg_spawner_state *state)
{
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_u64(&body, MCG_ST_CGROUP, state->cgroups.mode);
  mcg_wire_put_u64(&body, MCG_ST_CGROUP_CAN, state->cgroups.can);
  mcg_wire_put_u64(&body, MCG_ST_PRIVILEGED, state->root);
  mcg_wire_put_u64(&body, MCG_ST_LANDLOCK, (uint64_t)mcg_landlock_abi());
  mcg_wire_put_u64(&body, MCG_ST_VERSION, 1);
  say(state, MCG_S_READY, 0, &body, NULL, 0);
  mcg_wire_fini(&body);
}

static void say_counters(mcg_spawner_state *state, uint32_t op, const mcg_box *box)
{
  mcg_cgroup_use use;
  mcg_cgroup_read(&state->cgroups, &box->cgroup, !box->dead, &use);
  if (!use.cpu_us) use.cpu_us = box->dead ? box->cpu_us : mcg_cpu_time(box->pid);
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_u64(&body, MCG_ST_MEMORY_NOW, use.memory);
  mcg_wire_put_u64(&body, MCG_ST_MEMORY_PEAK, use.memory_peak);
  mcg_wire_put_u64(&body, MCG_ST_CPU_US, use.cpu_us);
  mcg_wire_put_u64(&body, MCG_ST_PIDS_NOW, use.pids);
  mcg_wire_put_u64(&body, MCG_ST_OOM_KILLS, use.oom_kills);
  mcg_wire_put_u64(&body, MCG_ST_PIDS_HITS, use.pids_hits);
  say(state, op, box->id, &body, NULL, 0);
  mcg_wire_fini(&body);
}

/* ---- the life of a box ----------------------------------------------------------------------- */

static mcg_box *find(mcg_spawner_state *state, uint32_t id)
{
  for (mcg_box *box = state->boxes; box; box = box->next)
    if (box->id == id && !box->gone) return box;
  return NULL;
}

static void unlink_box(mcg_spawner_state *state, mcg_box *box)
{
  mcg_box **at = &state->boxes;
  while (*at != box) at = &(*at)->next;
  *at = box->next;
  if (box->slot >= 0) state->used[box->slot] = 0;
  if (box->space >= 0) mcg_stash_close(&state->stash, box->space);
  if (box->net >= 0)
    (box->stashed ? mcg_stash_return_net : mcg_stash_bury)(&state->stash, box->net);
  free(box->directory);
  free(box);
}

/* The stash's thread looks whether it serves again: that, or its end, is nobody's wait. */
static bool free_group(mcg_spawner_state *state, mcg_box *box)
{
  if (!box->cgroup.name[0]) return true;
  if (box->dead && mcg_stash_return_group(&state->stash, &box->cgroup, &box->limits)) return true;
  return mcg_cgroup_remove(&state->cgroups, &box->cgroup) == 0;
}

/* Called again until it works: a group can be removed when its last process has left it whole. */
static bool free_box(mcg_spawner_state *state, mcg_box *box)
{
  if (box->directory && mcg_remove_tree(AT_FDCWD, box->directory) == 0) {
    free(box->directory);
    box->directory = NULL;
  }
  if (!free_group(state, box)) {
    mcg_cgroup_kill(&state->cgroups, &box->cgroup);
    return false;
  }
  unlink_box(state, box);
  return true;
}

/* No process of it lives: the engine may know; what is slow comes after. */
static void finish(mcg_spawner_state *state, mcg_box *box)
{
  if (box->kind == MCG_KIND_PLAIN && box->directory &&
      mcg_remove_tree(AT_FDCWD, box->directory) == 0) {
    free(box->directory);
    box->directory = NULL;
  }
  say_counters(state, MCG_S_GONE, box);
  box->gone = true;
  if (!free_box(state, box)) state->leftovers++;
}

static void retry_leftovers(mcg_spawner_state *state)
{
  for (mcg_box *box = state->boxes, *next; box; box = next) {
    next = box->next;
    if (box->gone && free_box(state, box)) state->leftovers--;
  }
}

void mcg_box_wait(mcg_spawner_state *state, mcg_box *box)
{
  siginfo_t info = {0};
  struct rusage use = {0}; /* its own and of all that it waited for: of everybody */
  while (syscall(SYS_waitid, P_PIDFD, box->pidfd, &info, WEXITED | __WALL, &use) < 0 &&
         errno == EINTR) {
  }
  box->cpu_us = (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000u +
                (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
  if (info.si_code == CLD_EXITED)
    box->code = info.si_status;
  else
    box->signo = info.si_status;
  epoll_ctl(state->epoll, EPOLL_CTL_DEL, box->pidfd, NULL);
  close(box->pidfd);
  box->pidfd = -1;
  if (box->control >= 0) close(box->control);
  if (box->image >= 0) close(box->image);
  box->control = box->image = -1;
  if (box->kill_at) state->ending--;
  box->kill_at = 0;
  box->dead = true;
  if (box->kind == MCG_KIND_PLAIN) mcg_plain_sweep(state);
}

static void box_died(mcg_spawner_state *state, mcg_box *box)
{
  mcg_box_wait(state, box);
  if (box->destroying) {
    finish(state, box);
    return;
  }
  mcg_wire body;
  mcg_wire_init(&body);
  if (box->signo)
    mcg_wire_put_u64(&body, MCG_ST_SIGNO, (uint64_t)box->signo);
  else
    mcg_wire_put_u64(&body, MCG_ST_CODE, (uint64_t)box->code);
  say(state, MCG_S_EXITED, box->id, &body, NULL, 0);
  mcg_wire_fini(&body);
}

static void abandon(mcg_box *box)
{
  if (box->image < 0) return;
  mcg_image_abandon(box->image);
  close(box->image);
  box->image = -1;
}

static int space_of(const mcg_spawner_state *state, const mcg_box *box, const char *kind)
{
  char path[40];
  snprintf(path, sizeof path, "%d/ns/%s", (int)box->pid, kind);
  return openat(state->proc, path, O_RDONLY | O_CLOEXEC);
}

/* The last process of a sandbox would take its mounts down, and wait for a grace period of RCU, before it
 * is gone. Only where all that is mounted is the sandbox's own or a view: no device is kept busy. Taken
 * now and not at the start: a spawner with few descriptors clones faster. */
static void hold_spaces(mcg_spawner_state *state, mcg_box *box)
{
  if (!box->standing || box->space >= 0) return;
  box->space = space_of(state, box, "mnt");
  box->net = space_of(state, box, "net");
}

static void destroy(mcg_spawner_state *state, uint32_t id)
{
  mcg_box *box = find(state, id);
  if (!box) { /* a create that failed or was given up: nothing lives */
    say(state, MCG_S_GONE, id, NULL, NULL, 0);
    return;
  }
  box->destroying = true;
  abandon(box);
  if (box->dead) {
    finish(state, box);
  } else if (box->kind != MCG_KIND_PLAIN) {
    hold_spaces(state, box);
    mcg_sys_pidfd_kill(box->pidfd, SIGKILL);
  } else if (!box->kill_at) {
    mcg_plain_end(box);
    state->ending++;
  }
}

static void kill_the_slow(mcg_spawner_state *state)
{
  int64_t now = mcg_clock_ms();
  for (mcg_box *box = state->boxes; box; box = box->next)
    if (box->kill_at && now >= box->kill_at) mcg_sys_pidfd_kill(box->pidfd, SIGKILL);
}

/* ---- making one ------------------------------------------------------------------------------ */

/* One CREATE on its way. */
typedef struct request {
  mcg_jail_order order;
  mcg_wire enforced;
  mcg_failure failure;
} request;

static int watch(mcg_spawner_state *state, int fd, uint64_t what)
{
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = what};
  return epoll_ctl(state->epoll, EPOLL_CTL_ADD, fd, &event);
}

static int take_slot(mcg_spawner_state *state)
{
  for (unsigned i = 0; i < MCG_SLOTS; i++) {
    unsigned slot = (state->next_slot + i) % MCG_SLOTS;
    if (state->used[slot]) continue;
    state->used[slot] = 1;
    state->next_slot = slot + 1;
    return (int)slot;
  }
  return -1;
}

static int clone_failed(const mcg_jail_order *order, int error, mcg_failure *failure)
{
  if (error == ENOSPC)
    return mcg_failure_set(failure, "userns", error,
                           "too many namespaces (user.max_user_namespaces)");
  if (error == EAGAIN || error == ENOMEM)
    return mcg_failure_set(failure, "clone", error, "no process or memory for another sandbox");
  if (mcg_jail_group_refuses(order))
    return mcg_failure_set(failure, "group", error, "start the sandbox in it");
  return mcg_failure_set(failure, "userns", error, "make the sandbox's namespaces");
}

/* The order takes its descriptors, the box its name. */
static int take_group(mcg_spawner_state *state, mcg_box *box, request *r)
{
  const mcg_spawn_spec *spec = &r->order.spec;
  const mcg_cgroup_limits limits = {spec->memory, spec->cpu_milli, spec->pids};
  mcg_cgroup_tell(&state->cgroups, &limits, &r->enforced);
  if (state->cgroups.mode == MCG_CGROUP_NONE) return 0;
  const char *what;
  mcg_spare entry;
  int rc = mcg_stash_group(&state->stash, &limits, &entry, &what);
  box->cgroup = entry.group;
  box->limits = limits;
  r->order.cgroup = entry.dir;
  memcpy(r->order.doors, entry.doors, sizeof entry.doors);
  if (rc == 0) return 0;
  if (!what) return mcg_failure_set(&r->failure, "cgroup", errno, "make a control group");
  return mcg_failure_set(&r->failure, "cgroup", errno, "set the limit of %s", what);
}

/* For the next sandbox, not for an engine that has made one only: it may want no other. A uid is taken
 * together with the id map of the owner whose tree was bound last. */
static void prepare_ahead(mcg_spawner_state *state)
{
  mcg_stash *stash = &state->stash;
  if (state->jails < 2 || (!state->root && state->cgroups.mode == MCG_CGROUP_NONE)) return;
  mcg_stash_refill(stash);
  if (!state->root || !mcg_stash_map_missing(stash)) return;
  int slot = stash->map_slot >= 0 ? stash->map_slot : take_slot(state); /* one may have failed */
  if (slot >= 0) mcg_stash_refill_map(stash, slot, state->first_uid + (uint32_t)slot);
}

/* Where the root stands already and the network is made, the child starts there. */
static int enter(mcg_spawner_state *state, const mcg_jail_order *order, mcg_failure *failure)
{
  if (order->standing && mcg_template_enter(&state->template) < 0)
    return mcg_failure_set(failure, "mounts", errno, "enter the template's namespace");
  if (order->net.fd < 0 || mcg_stash_enter_net(order->net.fd) == 0) return 0;
  mcg_failure_set(failure, "userns", errno, "enter the sandbox's network namespace");
  if (order->standing) mcg_template_leave(&state->template);
  return -1;
}

static void leave(mcg_spawner_state *state, const mcg_jail_order *order)
{
  if (order->net.fd >= 0) mcg_stash_leave_net(&state->stash);
  if (order->standing) mcg_template_leave(&state->template);
}

static int clone_limited(mcg_spawner_state *state, mcg_box *box, request *r)
{
  state->jails++;
  if (take_group(state, box, r) < 0) return -1;
  mcg_jail_order *order = &r->order;
  order->proc = state->proc;
  order->standing = state->root && mcg_template_serves(&state->template, order);
  /* Root of a range has rights over its network, which it has over none but its own. */
  if (order->spec.network != MCG_NET_HOST && order->range <= 1)
    mcg_stash_net(&state->stash, order->spec.network == MCG_NET_GATEWAY, order->spec.redirect,
                  &order->net);
  if (enter(state, order, &r->failure) < 0) return -1;
  box->pid = mcg_jail_clone(order, &box->pidfd);
  int error = errno;
  leave(state, order);
  box->standing = order->standing;
  box->stashed = order->net.fd >= 0 && !order->net.gateway;
  return box->pid < 0 ? clone_failed(order, error, &r->failure) : 0;
}

/* The one with the id map where there is something to map. */
static void take_uid(mcg_spawner_state *state, mcg_box *box, mcg_jail_order *order)
{
  const mcg_spawn_spec *spec = &order->spec;
  bool maps = spec->mount_count || spec->project || spec->rootfs;
  if (maps && spec->profile != MCG_PROFILE_PACKAGES)
    box->slot = mcg_stash_map(&state->stash, &order->idmap);
  if (box->slot < 0) box->slot = take_slot(state);
}

static int choose_ids(mcg_spawner_state *state, mcg_box *box, request *r)
{
  mcg_jail_order *order = &r->order;
  order->host_uid = state->uid;
  order->host_gid = state->gid;
  if (state->root) {
    take_uid(state, box, order);
    if (box->slot < 0) return mcg_failure_set(&r->failure, "userns", EAGAIN, "too many sandboxes");
    order->take_uid = true;
    order->host_uid = order->host_gid = state->first_uid + (uint32_t)box->slot;
  } else if (state->uid == 0) {
    return mcg_failure_set(&r->failure, "userns", EPERM,
                           "root without CAP_SETUID and CAP_SETGID cannot give a sandbox a uid");
  }
  if (order->spec.profile != MCG_PROFILE_PACKAGES) return 0;
  return mcg_range_choose(state, box, order, &r->failure);
}

static int jail_start(mcg_spawner_state *state, mcg_box *box, request *r)
{
  if (r->order.spec.mount_count > MCG_JAIL_MOUNTS_MAX)
    return mcg_failure_set(&r->failure, "bind", E2BIG, "more than %d binds", MCG_JAIL_MOUNTS_MAX);
  r->order.spawner_pidfd = state->self_pidfd;
  if (choose_ids(state, box, r) < 0 || mcg_place_prepare(state, &r->order, &r->failure) < 0)
    return -1;
  if (r->order.spec.disk_image)
    box->image = openat(r->order.disk, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (r->order.range <= 1) mcg_stash_saw(&state->stash, &r->order.idmap);
  if (clone_limited(state, box, r) < 0) return -1;
  return r->order.range > 1 ? mcg_range_write(state, box, &r->order, &r->failure) : 0;
}

static int start_box(mcg_spawner_state *state, mcg_box *box, request *r)
{
  if (box->kind == MCG_KIND_JAIL) return jail_start(state, box, r);
  if (box->kind == MCG_KIND_PLAIN)
    return mcg_plain_start(state, box, &r->order.spec, r->order.control, &r->failure);
  return mcg_failure_set(&r->failure, "create", EINVAL, "no kind of sandbox has the number %u",
                         box->kind);
}

/* The engine never knew of it. */
static void forget(mcg_spawner_state *state, mcg_box *box)
{
  box->gone = true;
  if (!free_box(state, box)) state->leftovers++;
}

static void end_now(mcg_spawner_state *state, mcg_box *box)
{
  mcg_sys_pidfd_kill(box->pidfd, SIGKILL);
  mcg_box_wait(state, box);
}

/* On success the box is in the list and watched. */
static mcg_box *make(mcg_spawner_state *state, uint32_t id, request *r, int *engine_end)
{
  int pair[2], type = r->order.spec.carrier ? SOCK_STREAM : SOCK_SEQPACKET;
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) < 0) {
    mcg_failure_set(&r->failure, "create", errno, "make the control socket");
    return NULL;
  }
  *engine_end = pair[0];
  r->order.control = pair[1];
  mcg_box *box = calloc(1, sizeof *box);
  if (!box) {
    mcg_failure_set(&r->failure, "create", ENOMEM, "no memory");
    return NULL;
  }
  *box = (mcg_box){.next = state->boxes,
                   .id = id,
                   .kind = r->order.spec.kind,
                   .pidfd = -1,
                   .slot = -1,
                   .control = -1,
                   .space = -1,
                   .net = -1,
                   .image = -1};
  state->boxes = box;
  if (start_box(state, box, r) < 0) {
    if (box->pidfd >= 0) end_now(state, box);
    forget(state, box);
    return NULL;
  }
  if (watch(state, box->pidfd, (uintptr_t)box) == 0) return box;
  mcg_failure_set(&r->failure, "create", errno, "watch the sandbox");
  end_now(state, box);
  forget(state, box);
  return NULL;
}

static void create(mcg_spawner_state *state, uint32_t id, const uint8_t *body, size_t len)
{
  request r = {0};
  int engine_end = -1;
  mcg_box *box = NULL;
  mcg_jail_order_init(&r.order);
  mcg_wire_init(&r.enforced);
  if (find(state, id))
    mcg_failure_set(&r.failure, "create", EEXIST, "sandbox %u is there already", id);
  else if (!mcg_spawn_spec_decode(body, len, &r.order.spec))
    mcg_failure_set(&r.failure, "create", EINVAL, "the description cannot be read");
  else
    box = make(state, id, &r, &engine_end);
  if (box)
    say(state, MCG_S_CREATED, id, &r.enforced, (int[]){engine_end, box->pidfd}, 2);
  else
    say_failed(state, id, &r.failure);
  prepare_ahead(state);
  if (engine_end >= 0) close(engine_end);
  mcg_jail_order_fini(&r.order);
  mcg_wire_fini(&r.enforced);
}

/* ---- what it is told ------------------------------------------------------------------------- */

static void stats(mcg_spawner_state *state, uint32_t id)
{
  mcg_box *box = find(state, id);
  if (box) {
    say_counters(state, MCG_S_STATS, box);
    return;
  }
  mcg_failure failure;
  mcg_failure_set(&failure, "stats", ENOENT, "no sandbox %u", id);
  say_failed(state, id, &failure);
}

/* What is made in its network stays there: nobody else gets that. As root the kernel says which it is;
 * for others it does not, since init lets nobody look at it, and a socket of it does. */
static int gateway_late(mcg_spawner_state *state, mcg_box *box, bool redirect, int socket,
                        mcg_gateway *ways)
{
  box->stashed = false;
  int net = state->root ? space_of(state, box, "net") : mcg_net_of_socket(socket);
  int rc = mcg_gateway_late(net, redirect, ways), error = errno;
  if (net >= 0) close(net);
  errno = error;
  return rc;
}

static void say_ways(mcg_spawner_state *state, uint32_t id, const mcg_gateway *ways)
{
  int fds[MCG_SOCKETS];
  size_t count = 0;
  mcg_wire body;
  mcg_wire_init(&body);
  for (uint64_t kind = 0; kind < MCG_SOCKETS; kind++) {
    if (ways->sockets[kind] < 0) continue;
    mcg_wire_put_u64(&body, MCG_TAG_SOCKET, kind);
    fds[count++] = ways->sockets[kind];
  }
  say(state, MCG_S_WAYS, id, &body, fds, count);
  mcg_wire_fini(&body);
}

static void give_gateway(mcg_spawner_state *state, uint32_t id, const uint8_t *body, size_t len,
                         int socket)
{
  bool redirect = false;
  mcg_reader reader = mcg_reader_of(body, len);
  mcg_field field;
  mcg_gateway ways;
  mcg_failure failure;
  while (mcg_reader_next(&reader, &field))
    if (field.tag == MCG_ST_REDIRECT) redirect = mcg_field_u64(&field) != 0;
  mcg_box *box = find(state, id);
  if (!box || box->dead || box->kind != MCG_KIND_JAIL) {
    mcg_failure_set(&failure, "gateway", ENOENT, "no sandbox %u", id);
    say_failed(state, id, &failure);
    return;
  }
  if (gateway_late(state, box, redirect, socket, &ways) == 0) {
    say_ways(state, id, &ways);
  } else {
    mcg_failure_set(&failure, ways.redirecting ? "redirect" : "gateway", errno, "%s", ways.failed);
    say_failed(state, id, &failure);
  }
  mcg_gateway_close(&ways);
}

static void reap(mcg_spawner_state *state, uint32_t id, const uint8_t *body, size_t len)
{
  bool dry = false;
  mcg_reader reader = mcg_reader_of(body, len);
  mcg_field field;
  while (mcg_reader_next(&reader, &field))
    if (field.tag == MCG_ST_CODE) dry = mcg_field_u64(&field) != 0;
  mcg_wire out;
  mcg_wire_init(&out);
  mcg_reap(state, dry, &out);
  say(state, MCG_S_REAPED, id, &out, NULL, 0);
  mcg_wire_fini(&out);
}

/* `fd`: what came with it first, or -1. */
static void hear(mcg_spawner_state *state, const uint8_t *packet, size_t len, int fd)
{
  uint32_t head[2];
  if (len < sizeof head) return;
  memcpy(head, packet, sizeof head);
  const uint8_t *body = packet + sizeof head;
  len -= sizeof head;
  switch (head[0]) {
  case MCG_S_CREATE: create(state, head[1], body, len); break;
  case MCG_S_DESTROY: destroy(state, head[1]); break;
  case MCG_S_STATS: stats(state, head[1]); break;
  case MCG_S_GATEWAY: give_gateway(state, head[1], body, len, fd); break;
  case MCG_S_REAP: reap(state, head[1], body, len); break;
  default: break; /* a newer engine asks for what is not here */
  }
}

static size_t take_descriptors(struct msghdr *message, int fds[FDS_MAX])
{
  size_t count = 0;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
       header = CMSG_NXTHDR(message, header))
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
      for (size_t i = 0; i < (header->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++)
        memcpy(&fds[count++], CMSG_DATA(header) + i * sizeof *fds, sizeof *fds);
  return count;
}

static void listen_to_engine(mcg_spawner_state *state)
{
  static uint8_t packet[PACKET_MAX];
  char control[CMSG_SPACE(FDS_MAX * sizeof(int))] __attribute__((aligned(sizeof(size_t))));
  struct iovec vector = {.iov_base = packet, .iov_len = sizeof packet};
  struct msghdr message = {.msg_iov = &vector,
                           .msg_iovlen = 1,
                           .msg_control = control,
                           .msg_controllen = sizeof control};
  ssize_t len = recvmsg(state->engine, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (len < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (len <= 0) {
    state->over = true;
    return;
  }
  int fds[FDS_MAX];
  size_t count = take_descriptors(&message, fds);
  if (!(message.msg_flags & MSG_TRUNC)) hear(state, packet, (size_t)len, count ? fds[0] : -1);
  for (size_t i = 0; i < count; i++)
    mcg_stash_close(&state->stash, fds[i]); /* MCG_S_CLOSE needs no more than that */
}

/* How long nothing may happen before there is something to do; -1: for ever. */
static int patience(const mcg_spawner_state *state)
{
  if (state->leftovers || state->ending) return RETRY_MS;
  return state->stash.dead_count ? BURY_MS : -1;
}

static void turn(mcg_spawner_state *state)
{
  struct epoll_event events[64];
  int count = epoll_wait(state->epoll, events, 64, patience(state));
  if (count == 0) mcg_stash_bury_all(&state->stash);
  for (int i = 0; i < count; i++) {
    uint64_t what = events[i].data.u64;
    if (what == EVENT_ENGINE)
      listen_to_engine(state);
    else if (what == EVENT_ENGINE_DEATH)
      state->over = true;
    else
      box_died(state, (mcg_box *)(uintptr_t)what);
  }
  if (state->leftovers) retry_leftovers(state);
  if (state->ending) kill_the_slow(state);
}

/* ---- its start ------------------------------------------------------------------------------- */

static pid_t pid_of(int pidfd)
{
  char path[40], text[512];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  if (len <= 0) return -1;
  text[len] = 0;
  const char *line = strstr(text, "\nPid:");
  return line ? (pid_t)atoi(line + 5) : -1;
}

/* Root gives each sandbox a uid of its own, out of a part of the numbers that nobody uses; in a
 * container with few uids, out of the upper part of those. Capabilities must survive the change. */
static void learn_rights(mcg_spawner_state *state)
{
  state->uid = geteuid();
  state->gid = getegid();
  if (state->uid != 0) return;
  uint32_t own = (uint32_t)state->self; /* not the engine's: a process may have two engines */
  const uint32_t firsts[] = {0x70000000u + (own & 0x1fff) * MCG_SLOTS, 40000};
  if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0) return;
  for (size_t i = 0; i < 2 && !state->root; i++) {
    uint32_t last = firsts[i] + MCG_SLOTS - 1;
    if (syscall(SYS_setresgid, -1, last, -1) < 0 || syscall(SYS_setresuid, -1, last, -1) < 0)
      continue;
    state->root = true;
    state->first_uid = firsts[i];
  }
  if (syscall(SYS_setresuid, -1, 0, -1) < 0 || syscall(SYS_setresgid, -1, 0, -1) < 0) _exit(1);
  if (state->root && syscall(SYS_setgroups, 0, NULL) < 0) state->root = false;
}

static int start(mcg_spawner_state *state)
{
  *state = (mcg_spawner_state){.engine = ENGINE_FD, .engine_pidfd = ENGINE_PIDFD};
  struct rlimit files;
  umask(077);
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  fcntl(ENGINE_FD, F_SETFD, FD_CLOEXEC);
  fcntl(ENGINE_PIDFD, F_SETFD, FD_CLOEXEC);
  state->engine_pid = pid_of(ENGINE_PIDFD);
  state->self = getpid();
  mcg_owner_self(&state->owner);
  state->epoll = epoll_create1(EPOLL_CLOEXEC);
  state->self_pidfd = mcg_sys_pidfd_open(getpid());
  state->proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (state->epoll < 0 || state->self_pidfd < 0) return -1;
  learn_rights(state);
  mcg_cgroups_open(&state->cgroups, &state->owner);
  mcg_stash_init(&state->stash, &state->cgroups, state->root);
  return watch(state, ENGINE_FD, EVENT_ENGINE) < 0 ||
                 watch(state, ENGINE_PIDFD, EVENT_ENGINE_DEATH) < 0
             ? -1
             : 0;
}

int mcg_spawner_main(void)
{
  static mcg_spawner_state state;
  if (start(&state) < 0) {
    fprintf(stderr, "mooncage-init spawner: descriptors 3 and 4 are not an engine's: %s\n",
            strerror(errno));
    return 1;
  }
  say_ready(&state);
  while (!state.over) turn(&state);
  mcg_janitor(&state);
  return 0;
}
