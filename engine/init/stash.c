/* stash.c: the parts, and the thread that makes them. */
#include "stash.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "kernel.h"
#include "net.h"

#define MCG_CLOSING_MAX 8
#define PROC_USES 16 /* of one instance of /proc */

enum { JOB_GROUP, JOB_RENEW, JOB_NET, JOB_CHECK, JOB_MAP, JOB_CLOSE, JOB_LEAVE };

typedef struct job {
  uint32_t kind, index;   /* of the part */
  bool gateway, redirect; /* of a network */
  uint64_t serial;
  mcg_cgroup_limits limits;
  uint32_t host;
  int fd;
} job;

static void clear(mcg_spare *spare)
{
  *spare = (mcg_spare){.dir = -1, .doors = {-1, -1, -1}};
}

/* -1: somebody is still in it. */
static int drop_group(const mcg_cgroups *cgroups, mcg_spare *spare)
{
  mcg_cgroup group = spare->group;
  if (spare->dir >= 0) close(spare->dir);
  for (size_t i = 0; i < MCG_CONTROLLERS; i++)
    if (spare->doors[i] >= 0) close(spare->doors[i]);
  mcg_cgroup_limits limits = spare->limits;
  clear(spare);
  if (mcg_cgroup_remove(cgroups, &group) == 0) return 0;
  spare->group = group;
  spare->limits = limits;
  return -1;
}

/* ---- making ----------------------------------------------------------------------------------- */

static int open_group(const mcg_cgroups *cgroups, mcg_spare *out)
{
  if (cgroups->mode == MCG_CGROUP_V1) return mcg_cgroup_doors(cgroups, &out->group, out->doors);
  out->dir = mcg_cgroup_open(cgroups, &out->group);
  return out->dir < 0 ? -1 : 0;
}

static int make_group(const mcg_cgroups *cgroups, uint64_t serial, const mcg_cgroup_limits *limits,
                      mcg_spare *out, const char **what)
{
  clear(out);
  *what = NULL;
  mcg_cgroup_name(cgroups, serial, &out->group);
  if (mcg_cgroup_make(cgroups, &out->group) < 0) return -1;
  if (mcg_cgroup_limit(cgroups, &out->group, limits, what) < 0) return -1;
  *what = NULL;
  out->limits = *limits;
  return open_group(cgroups, out);
}

/* Where it does not serve and cannot go yet, it is asked again. */
static int renew_group(mcg_stash *stash, mcg_spare *spare)
{
  bool good = mcg_cgroup_renew(stash->cgroups, &spare->group, &spare->limits) &&
              open_group(stash->cgroups, spare) == 0;
  atomic_store(&stash->renewing, good);
  if (good) return MCG_PART_READY;
  return drop_group(stash->cgroups, spare) < 0 ? MCG_PART_USED : MCG_PART_MISSING;
}

int mcg_stash_enter_net(int net)
{
  return setns(net, CLONE_NEWNET);
}

/* Nobody goes on in a network that is to be a sandbox's. */
void mcg_stash_leave_net(const mcg_stash *stash)
{
  if (setns(stash->home, CLONE_NEWNET) < 0) _exit(1);
}

static int fresh_proc(void)
{
  int fs = mcg_sys_fsopen("proc"), proc = -1;
  if (fs < 0) return -1;
  if (mcg_sys_fsconfig(fs, MCG_FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
    proc = mcg_sys_fsmount(fs, MCG_ATTR_NOSUID | MCG_ATTR_NODEV | MCG_ATTR_NOEXEC);
  close(fs);
  return proc;
}

/* Not the host's, which would find each entry of /proc/sys/net more slowly with every network (tune.c);
 * in a container that may have no other, all the same. */
static int some_proc(mcg_stash *stash)
{
  if (stash->proc >= 0 && stash->proc_uses++ < PROC_USES) return stash->proc;
  if (stash->proc >= 0) close(stash->proc);
  stash->proc_uses = 0;
  stash->proc = fresh_proc();
  if (stash->proc < 0) stash->proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
  return stash->proc;
}

/* It belongs to the host's root: nobody in a sandbox has a right over it, not even while that is built. */
static bool make_net(mcg_stash *stash, const job *what, mcg_net *net)
{
  mcg_net_close(net); /* one of another kind */
  if (unshare(CLONE_NEWNET) < 0) return false;
  bool made = mcg_net_loopback() == 0 &&
              (!what->gateway || mcg_gateway_make(&net->ways, what->redirect) == 0);
  if (made) net->fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  int proc = some_proc(stash);
  if (net->fd >= 0) mcg_net_free_ports(proc);
  if (net->fd >= 0 && !what->gateway && !stash->fresh.len) mcg_traces_read(proc, &stash->fresh);
  net->gateway = what->gateway;
  net->redirect = what->redirect;
  mcg_stash_leave_net(stash);
  if (net->fd < 0) mcg_net_close(net);
  return net->fd >= 0;
}

/* Nothing but the thread is in it any more. */
static bool is_unused(mcg_stash *stash, int net)
{
  if (mcg_stash_enter_net(net) < 0) return false;
  mcg_traces_read(some_proc(stash), &stash->seen);
  mcg_stash_leave_net(stash);
  return mcg_traces_same(&stash->seen, &stash->fresh);
}

static bool make(mcg_stash *stash, const job *what)
{
  const char *limit;
  switch (what->kind) {
  case JOB_GROUP: {
    mcg_spare *spare = &stash->groups[what->index];
    drop_group(stash->cgroups, spare);
    if (make_group(stash->cgroups, what->serial, &what->limits, spare, &limit) == 0) return true;
    drop_group(stash->cgroups, spare); /* whoever needs one hears why */
    return false;
  }
  case JOB_NET: return make_net(stash, what, &stash->nets[what->index]);
  case JOB_MAP: {
    mcg_idmap *map = &stash->map;
    return mcg_idmap_wide(map, map->owner_uid, map->owner_gid, what->host, what->host) >= 0;
  }
  default: return false;
  }
}

/* ---- the thread -------------------------------------------------------------------------------- */

static atomic_int *state_of(mcg_stash *stash, const job *what)
{
  switch (what->kind) {
  case JOB_GROUP:
  case JOB_RENEW: return &stash->group_state[what->index];
  case JOB_NET:
  case JOB_CHECK: return &stash->net_state[what->index];
  default: return &stash->map_state;
  }
}

/* With a root and a working directory of its own: the spawner changes its mount namespace, which it may
 * only while nobody shares those. Not SCHED_IDLE: whoever wakes up is put on a processor that such a
 * thread runs on as if it were idle, and then waits there, being in another group of the scheduler's. */
static void *work(void *data)
{
  mcg_stash *stash = data;
  job what;
  stash->begun_well = unshare(CLONE_FS) == 0;
  sem_post(&stash->begun);
  while (stash->begun_well && read(stash->jobs[0], &what, sizeof what) == (ssize_t)sizeof what) {
    if (what.kind == JOB_LEAVE) break;
    if (what.kind == JOB_CLOSE) {
      close(what.fd);
      atomic_fetch_sub(&stash->closing, 1);
      continue;
    }
    if (what.kind == JOB_CHECK) {
      bool unused = is_unused(stash, stash->nets[what.index].fd);
      atomic_store(&stash->reusing, unused);
      atomic_store(state_of(stash, &what), unused ? MCG_PART_READY : MCG_PART_USED);
      continue;
    }
    if (what.kind == JOB_RENEW) {
      atomic_store(state_of(stash, &what), renew_group(stash, &stash->groups[what.index]));
      continue;
    }
    bool made = make(stash, &what);
    atomic_store(state_of(stash, &what), made ? MCG_PART_READY : MCG_PART_MISSING);
  }
  return NULL;
}

static bool start(mcg_stash *stash)
{
  if (stash->jobs[0] >= 0) return true;
  if (pipe2(stash->jobs, O_CLOEXEC) < 0) return false;
  fcntl(stash->jobs[1], F_SETFL, O_NONBLOCK);
  bool runs = pthread_create(&stash->thread, NULL, work, stash) == 0;
  while (runs && sem_wait(&stash->begun) < 0 && errno == EINTR) {
  }
  if (runs && stash->begun_well) return true;
  if (runs) pthread_join(stash->thread, NULL);
  close(stash->jobs[0]);
  close(stash->jobs[1]);
  stash->jobs[0] = stash->jobs[1] = -1;
  return false;
}

static bool ask(mcg_stash *stash, const job *what)
{
  return write(stash->jobs[1], what, sizeof *what) == (ssize_t)sizeof *what;
}

static bool ask_part(mcg_stash *stash, const job *what)
{
  atomic_int *state = state_of(stash, what);
  atomic_store(state, MCG_PART_MAKING);
  if (ask(stash, what)) return true;
  atomic_store(state, MCG_PART_MISSING);
  return false;
}

/* It may be in the middle of something. */
static void stop(mcg_stash *stash)
{
  if (stash->jobs[0] < 0) return;
  fcntl(stash->jobs[1], F_SETFL, 0);
  if (ask(stash, &(job){.kind = JOB_LEAVE})) pthread_join(stash->thread, NULL);
}

/* ---- for the spawner ---------------------------------------------------------------------------- */

void mcg_stash_init(mcg_stash *stash, const mcg_cgroups *cgroups, bool privileged)
{
  *stash = (mcg_stash){.cgroups = cgroups,
                       .map = {.fd = -1},
                       .map_slot = -1,
                       .home = -1,
                       .proc = -1,
                       .jobs = {-1, -1}};
  if (privileged) stash->home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  sem_init(&stash->begun, 0, 0);
  for (size_t i = 0; i < MCG_STASHED; i++) clear(&stash->groups[i]);
  for (size_t i = 0; i < MCG_NETS; i++) mcg_net_init(&stash->nets[i]);
}

void mcg_stash_fini(mcg_stash *stash)
{
  stop(stash);
  for (size_t i = 0; i < MCG_STASHED; i++) drop_group(stash->cgroups, &stash->groups[i]);
  for (size_t i = 0; i < MCG_NETS; i++) mcg_net_close(&stash->nets[i]);
  mcg_idmap_close(&stash->map);
  if (stash->proc >= 0) close(stash->proc);
}

static bool same(const mcg_cgroup_limits *one, const mcg_cgroup_limits *other)
{
  return one->memory == other->memory && one->cpu_milli == other->cpu_milli &&
         one->pids == other->pids;
}

static bool ready(atomic_int *state)
{
  return atomic_load(state) == MCG_PART_READY;
}

int mcg_stash_group(mcg_stash *stash, const mcg_cgroup_limits *limits, mcg_spare *out,
                    const char **what)
{
  stash->last = *limits;
  for (size_t i = 0; i < MCG_STASHED; i++) {
    if (!ready(&stash->group_state[i]) || !same(&stash->groups[i].limits, limits)) continue;
    *out = stash->groups[i];
    clear(&stash->groups[i]);
    atomic_store(&stash->group_state[i], MCG_PART_MISSING);
    return 0;
  }
  return make_group(stash->cgroups, ++stash->serial, limits, out, what);
}

static bool wanted(const mcg_stash *stash, const mcg_net *net)
{
  return net->gateway == stash->gateway && net->redirect == stash->redirect;
}

bool mcg_stash_net(mcg_stash *stash, bool gateway, bool redirect, mcg_net *out)
{
  stash->gateway = gateway;
  stash->redirect = redirect;
  for (size_t i = 0; i < MCG_NETS; i++) {
    if (!ready(&stash->net_state[i]) || !wanted(stash, &stash->nets[i])) continue;
    *out = stash->nets[i];
    mcg_net_init(&stash->nets[i]);
    atomic_store(&stash->net_state[i], MCG_PART_MISSING);
    return true;
  }
  return false;
}

int mcg_stash_map(mcg_stash *stash, mcg_idmap *out)
{
  if (!ready(&stash->map_state)) return -1;
  int slot = stash->map_slot;
  *out = stash->map;
  stash->map.fd = stash->map_slot = -1;
  atomic_store(&stash->map_state, MCG_PART_MISSING);
  return slot;
}

/* Those that were used are let go. Where they come back unused one ahead is enough. */
static void refill_nets(mcg_stash *stash)
{
  unsigned here = 0, aim = atomic_load(&stash->reusing) ? 1 : MCG_NETS / 2;
  bool free[MCG_NETS];
  for (uint32_t i = 0; i < MCG_NETS; i++) {
    int state = atomic_load(&stash->net_state[i]);
    bool useful = state == MCG_PART_READY && wanted(stash, &stash->nets[i]);
    here += state == MCG_PART_MAKING || useful;
    free[i] = state != MCG_PART_MAKING && !useful;
    if (state != MCG_PART_USED) continue;
    mcg_stash_bury(stash, stash->nets[i].fd);
    mcg_net_init(&stash->nets[i]);
    atomic_store(&stash->net_state[i], MCG_PART_MISSING);
  }
  for (uint32_t i = 0; i < MCG_NETS && here < aim; i++)
    if (free[i])
      here += ask_part(stash, &(job){.kind = JOB_NET,
                                     .index = i,
                                     .gateway = stash->gateway,
                                     .redirect = stash->redirect});
}

/* As with networks: one ahead is enough where they come back good. */
static void refill_groups(mcg_stash *stash)
{
  unsigned here = 0, aim = atomic_load(&stash->renewing) ? 1 : MCG_STASHED / 2;
  bool free[MCG_STASHED];
  for (uint32_t i = 0; i < MCG_STASHED; i++) {
    int state = atomic_load(&stash->group_state[i]);
    bool useful = state == MCG_PART_READY && same(&stash->groups[i].limits, &stash->last);
    here += state == MCG_PART_MAKING || useful;
    free[i] = (state == MCG_PART_READY && !useful) || state == MCG_PART_MISSING;
    if (state == MCG_PART_USED && !ask_part(stash, &(job){.kind = JOB_RENEW, .index = i}))
      atomic_store(&stash->group_state[i], MCG_PART_USED);
  }
  for (uint32_t i = 0; i < MCG_STASHED && here < aim; i++)
    if (free[i])
      here += ask_part(
          stash,
          &(job){.kind = JOB_GROUP, .index = i, .serial = ++stash->serial, .limits = stash->last});
}

void mcg_stash_refill(mcg_stash *stash)
{
  if (!start(stash)) return;
  if (stash->home >= 0) refill_nets(stash);
  if (stash->cgroups->mode != MCG_CGROUP_NONE) refill_groups(stash);
}

bool mcg_stash_return_group(mcg_stash *stash, mcg_cgroup *group, const mcg_cgroup_limits *limits)
{
  for (uint32_t i = 0; i < MCG_STASHED && stash->jobs[0] >= 0; i++) {
    if (atomic_load(&stash->group_state[i]) != MCG_PART_MISSING) continue;
    stash->groups[i].group = *group;
    stash->groups[i].limits = *limits;
    if (ask_part(stash, &(job){.kind = JOB_RENEW, .index = i})) {
      group->name[0] = 0;
      return true;
    }
    clear(&stash->groups[i]);
    return false;
  }
  return false;
}

/* While one is being made its owner is the thread's to read. */
void mcg_stash_saw(mcg_stash *stash, const mcg_idmap *map)
{
  if (map->fd < 0 || atomic_load(&stash->map_state) != MCG_PART_MISSING) return;
  stash->map.owner_uid = map->owner_uid;
  stash->map.owner_gid = map->owner_gid;
  stash->mapping = true;
}

bool mcg_stash_map_missing(mcg_stash *stash)
{
  return stash->mapping && stash->jobs[0] >= 0 &&
         atomic_load(&stash->map_state) == MCG_PART_MISSING;
}

bool mcg_stash_refill_map(mcg_stash *stash, int slot, uint32_t host)
{
  stash->map_slot = slot;
  return ask_part(stash, &(job){.kind = JOB_MAP, .host = host});
}

void mcg_stash_return_net(mcg_stash *stash, int net)
{
  for (uint32_t i = 0; i < MCG_NETS && stash->jobs[0] >= 0; i++) {
    if (atomic_load(&stash->net_state[i]) != MCG_PART_MISSING) continue;
    mcg_net_init(&stash->nets[i]);
    stash->nets[i].fd = net;
    if (ask_part(stash, &(job){.kind = JOB_CHECK, .index = i})) return;
    stash->nets[i].fd = -1;
    break;
  }
  mcg_stash_bury(stash, net);
}

void mcg_stash_bury(mcg_stash *stash, int net)
{
  stash->dead[stash->dead_count++] = net;
  if (stash->dead_count == MCG_BURIED) mcg_stash_bury_all(stash);
}

void mcg_stash_bury_all(mcg_stash *stash)
{
  while (stash->dead_count) close(stash->dead[--stash->dead_count]);
}

void mcg_stash_close(mcg_stash *stash, int fd)
{
  bool crowded = stash->jobs[0] < 0 || atomic_load(&stash->closing) >= MCG_CLOSING_MAX;
  if (!crowded) {
    atomic_fetch_add(&stash->closing, 1);
    if (ask(stash, &(job){.kind = JOB_CLOSE, .fd = fd})) return;
    atomic_fetch_sub(&stash->closing, 1);
  }
  close(fd);
}
