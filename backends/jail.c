/* jail.c: sandboxes of Linux's own namespaces, made by the spawner (engine/init/spawn.h).
 *
 * Options and limits become one description; the walls themselves are the spawner's. What the
 * machine cannot enforce is refused here, before anything is made. Needs Linux 5.13. */
#include "spawner.h"
#include <jansson.h>
#include <mooncage/backend.h>
#include <string.h>

#define WORKDIR "/workspace"

typedef struct jail {
  mcg_jailed *jailed;
  char *workdir;
} jail;

static const mcg_option jail_options[] = {
    {"rootfs", MCG_T_STRING,
     "a directory to be the sandbox's /; default: the host's /usr, read-only", MCG_GRANT_NONE},
    {"path", MCG_T_LIST,
     "host directories to be seen read-only under their own names, first in PATH", MCG_GRANT_NONE},
    {"working_directory", MCG_T_STRING, "where commands start; default: /workspace",
     MCG_GRANT_FREE},
    {"environment", MCG_T_MAP, "variables of every command", MCG_GRANT_FREE},
    {"binds", MCG_T_LIST, "host paths to be seen live: \"SRC:DST\", or \"SRC:DST:rw\"",
     MCG_GRANT_NONE},
    {"user", MCG_T_STRING, "who commands run as; needs the profile packages", MCG_GRANT_NONE},
    {"profile", MCG_T_STRING,
     "default, strict, packages (a range of uids) or debug (ptrace allowed)", MCG_GRANT_TIGHTER},
    {"carrier", MCG_T_STRING, "direct, or framed: how bytes travel; for tests", MCG_GRANT_FREE},
    {.name = NULL},
};

/* ---- what was asked for ------------------------------------------------------------------- */

static const char *const profiles[] = {"default", "strict", "packages", "debug", NULL};
static const char *const carriers[] = {"direct", "framed", NULL};
#define BIT(name) (1U << MCG_PROFILE_##name)
static const uint32_t no_looser[] = {BIT(DEFAULT) | BIT(STRICT), BIT(STRICT),
                                     BIT(PACKAGES) | BIT(DEFAULT) | BIT(STRICT),
                                     BIT(DEBUG) | BIT(DEFAULT) | BIT(STRICT)};
#undef BIT
static const mcg_option_words jail_words[] = {
    {"profile", profiles, no_looser}, {.option = "carrier", .words = carriers}, {.option = NULL}};

/* The number of the option's word, which is one of them. */
static uint32_t pick(const mcg_plan *plan, const char *option, const char *const *words)
{
  const char *word = mcg_option_string(plan, option);
  uint32_t i = 0;
  while (word && words[i] && strcmp(word, words[i]) != 0) i++;
  return i;
}

/* A copy; nothing stays nothing. A text that could not be copied must not be taken for none. */
static int keep(char **out, const char *text, mcg_error **err)
{
  if (!text) return 0;
  *out = strdup(text);
  return *out ? 0 : mcg_fail(err, MCG_NOMEM, NULL, "no memory for a sandbox");
}

static int add_mount(mcg_spawn_spec *spec, const char *source, const char *target, bool writable,
                     mcg_error **err)
{
  mcg_spawn_mount *longer = realloc(spec->mounts, (spec->mount_count + 1) * sizeof *longer);
  if (!longer) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a sandbox");
  spec->mounts = longer;
  mcg_spawn_mount *mount = &longer[spec->mount_count++];
  *mount = (mcg_spawn_mount){.writable = writable};
  if (keep(&mount->source, source, err) < 0) return -1;
  return keep(&mount->target, target, err);
}

static int add_mounts(const mcg_plan *plan, mcg_spawn_spec *spec, mcg_error **err)
{
  const json_t *path = json_object_get(plan->options, "path");
  for (size_t i = 0; i < json_array_size(path); i++) {
    const char *directory = json_string_value(json_array_get(path, i));
    if (!directory || *directory != '/')
      return mcg_fail(err, MCG_INVALID, "write absolute directories",
                      "path[%zu] is no absolute path", i + 1);
    if (access(directory, F_OK) < 0)
      return mcg_fail(err, MCG_NOT_FOUND, "make it first, or name what is there",
                      "path: %s does not exist on the host", directory);
    if (add_mount(spec, directory, directory, false, err) < 0) return -1;
  }
  for (size_t i = 0; i < plan->bind_count; i++)
    if (add_mount(spec, plan->binds[i].source, plan->binds[i].target, plan->binds[i].writable,
                  err) < 0)
      return -1;
  return 0;
}

static int add_users(const mcg_plan *plan, mcg_spawn_spec *spec, mcg_error **err)
{
  if (!plan->user_count) return 0;
  spec->users = calloc(plan->user_count, sizeof *spec->users);
  if (!spec->users) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a sandbox");
  spec->user_count = plan->user_count;
  for (size_t i = 0; i < plan->user_count; i++) {
    spec->users[i] = (mcg_spawn_user){.uid = plan->users[i].uid, .gid = plan->users[i].gid};
    if (keep(&spec->users[i].name, plan->users[i].name, err) < 0 ||
        keep(&spec->users[i].home, plan->users[i].home, err) < 0)
      return -1;
  }
  return 0;
}

/* ---- limits: what the machine can keep ---------------------------------------------------- */

/* The hierarchy that is mounted decides what helps, not the mode: that is "none" without rights. */
static const char *no_cgroup_fix(void)
{
  bool unified = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
  return unified
             ? "run in a delegated cgroup (systemd-run --user --scope -p Delegate=yes), leave the "
               "limit out, or set enforcement = \"best_effort\" (--best-effort)"
             : "run as root, have root give you the cgroup that you are in under "
               "/sys/fs/cgroup/{memory,cpu,pids}, leave the limit out, or set enforcement = "
               "\"best_effort\" (--best-effort)";
}

/* The value to ask for: 0 where it cannot be kept and need not be. */
static int keepable(mcg_session *session, const mcg_plan *plan, const char *name,
                    const char *mechanism, const mcg_limit *limit, bool can, uint64_t *out,
                    mcg_error **err)
{
  *out = can ? limit->value : 0;
  if (can || !limit->value) return 0;
  if (limit->written && !plan->best_effort)
    return mcg_fail(err, MCG_UNENFORCEABLE, no_cgroup_fix(),
                    "limits.%s: there is no cgroup here that this user may limit", name);
  mcg_session_enforce(session, mechanism, "none: there is no cgroup that this user may limit");
  if (limit->written) mcg_session_warn(session, "limits.%s is not enforced (best effort)", name);
  return 0;
}

static int add_limits(mcg_session *session, const mcg_plan *plan, const mcg_machine *machine,
                      mcg_spawn_spec *spec, mcg_error **err)
{
  const mcg_limits *limits = &plan->limits;
  uint64_t memory, cpu, pids;
  if (keepable(session, plan, "memory_mb", "memory", &limits->memory_bytes, machine->can_memory,
               &memory, err) < 0 ||
      keepable(session, plan, "cpu_count", "cpu", &limits->cpu_milli, machine->can_cpu, &cpu, err) <
          0 ||
      keepable(session, plan, "pid_limit", "pids", &limits->pids, machine->can_pids, &pids, err) <
          0)
    return -1;
  spec->cpu_milli = (uint32_t)cpu;
  spec->pids = (uint32_t)pids;
  spec->nofile = (uint32_t)limits->open_files.value;
  spec->disk = limits->disk_bytes.value;
  bool larger = limits->disk_bytes.written && memory && spec->disk > memory;
  spec->disk_image = larger && machine->privileged;
  if (larger && !machine->privileged && !plan->best_effort)
    return mcg_fail(
        err, MCG_UNENFORCEABLE, "keep limits.disk_mb below limits.memory_mb, or run as root",
        "limits.disk_mb: disk is memory here, and %llu MiB is more than the memory limit",
        (unsigned long long)(spec->disk >> 20));
  /* The disk is a tmpfs, and its pages count as memory. A written limit is hard for both together. */
  spec->memory =
      memory && !limits->memory_bytes.written && !spec->disk_image ? memory + spec->disk : memory;
  return 0;
}

/* ---- slots -------------------------------------------------------------------------------- */

static int describe(mcg_session *session, const mcg_plan *plan, mcg_spawn_spec *spec,
                    mcg_error **err)
{
  mcg_machine machine;
  spec->profile = pick(plan, "profile", profiles);
  spec->carrier = pick(plan, "carrier", carriers);
  if (plan->carrier == MCG_CARRIER_FRAMED) spec->carrier = 1;
  if (plan->user && spec->profile != MCG_PROFILE_PACKAGES)
    return mcg_fail(err, MCG_UNSUPPORTED, "set profile = \"packages\"",
                    "`user` needs a range of uids, and this profile has one uid");
  const char *workdir = plan->working_directory ? plan->working_directory : WORKDIR;
  if (*workdir != '/')
    return mcg_fail(err, MCG_INVALID, "write an absolute path",
                    "working_directory \"%s\" is relative", workdir);
  if (mcg_spawner_machine(mcg_session_engine(session), &machine, err) < 0 ||
      add_limits(session, plan, &machine, spec, err) < 0 || add_mounts(plan, spec, err) < 0 ||
      add_users(plan, spec, err) < 0)
    return -1;
  spec->kind = MCG_KIND_JAIL;
  static const uint32_t networks[] = {[MCG_NETWORK_NONE] = MCG_NET_OWN,
                                      [MCG_NETWORK_HOST] = MCG_NET_HOST,
                                      [MCG_NETWORK_OPEN] = MCG_NET_GATEWAY,
                                      [MCG_NETWORK_RULES] = MCG_NET_GATEWAY};
  spec->network = networks[plan->network];
  spec->redirect = plan->redirect;
  spec->uid = spec->gid = 1000;
  if (keep(&spec->id, plan->session_id, err) < 0 ||
      keep(&spec->rootfs, mcg_option_string(plan, "rootfs"), err) < 0 ||
      keep(&spec->workdir, workdir, err) < 0 || keep(&spec->project, plan->project, err) < 0 ||
      keep(&spec->authority, plan->authority, err) < 0)
    return -1;
  spec->authority_hash = plan->authority_hash;
  spec->rootfs_rw = spec->rootfs != NULL;
  return 0;
}

static int jail_create(mcg_session *session, const mcg_plan *plan, mcg_place *out, mcg_error **err)
{
  mcg_spawn_spec spec = {0};
  jail *self = calloc(1, sizeof *self);
  int rc = self ? describe(session, plan, &spec, err)
                : mcg_fail(err, MCG_NOMEM, NULL, "no memory for a sandbox");
  if (!rc)
    rc = mcg_spawner_create(mcg_session_engine(session), session, &spec, &self->jailed,
                            &out->stream_fd, err);
  if (!rc) {
    self->workdir = mcg_steal_pointer(&spec.workdir);
    out->carrier = spec.carrier ? MCG_CARRIER_FRAMED : MCG_CARRIER_DIRECT;
    out->working_directory = self->workdir;
    out->state = self;
    if (plan->network == MCG_NETWORK_HOST)
      mcg_session_warn(
          session, "it shares the host's network: every service that listens there can be reached, "
                   "those on 127.0.0.1 and abstract sockets too");
  } else {
    free(self);
  }
  mcg_spawn_spec_fini(&spec);
  return rc;
}

static int jail_destroy(mcg_session *session, mcg_place *place, mcg_error **err)
{
  jail *self = place->state;
  mcg_counters counters = {0};
  int rc = mcg_spawner_destroy(self->jailed, &counters, err);
  if (!rc) mcg_session_used(session, counters.cpu_us, counters.memory_peak);
  free(self->workdir);
  free(self);
  place->state = NULL;
  place->working_directory = NULL;
  return rc;
}

static int jail_stats(mcg_session *session, mcg_place *place, struct json_t *out, mcg_error **err)
{
  (void)session;
  jail *self = place->state;
  mcg_counters c;
  if (mcg_spawner_stats(self->jailed, &c, err) < 0) return -1;
  json_object_set_new(out, "memory_bytes", json_integer((json_int_t)c.memory));
  json_object_set_new(out, "memory_peak_bytes", json_integer((json_int_t)c.memory_peak));
  json_object_set_new(out, "cpu_s", json_real((double)c.cpu_us / 1e6));
  json_object_set_new(out, "pids", json_integer((json_int_t)c.pids));
  json_object_set_new(out, "oom_kills", json_integer((json_int_t)c.oom_kills));
  json_object_set_new(out, "pids_hits", json_integer((json_int_t)c.pids_hits));
  return 0;
}

static int jail_gateway(mcg_session *session, mcg_place *place, int of_network, bool redirect,
                        mcg_gateway_sockets *out, mcg_error **err)
{
  (void)session;
  const jail *self = place->state;
  return mcg_spawner_gateway(self->jailed, of_network, redirect, out, err);
}

static void jail_traits(const struct json_t *options, mcg_traits *traits)
{
  static const char *const capabilities[] = {"binds", "project", "stats", "users", NULL};
  static const char *const without_users[] = {"binds", "project", "stats", NULL};
  const char *profile = json_string_value(json_object_get(options, "profile"));
  bool range = profile && strcmp(profile, "packages") == 0;
  traits->capabilities = range ? capabilities : without_users;
  const char *carrier = json_string_value(json_object_get(options, "carrier"));
  if (!carrier || strcmp(carrier, "framed") != 0) /* sockets cannot be handed over in frames */
    traits->networks |= MCG_GIVES(MCG_NETWORK_OPEN) | MCG_GIVES(MCG_NETWORK_RULES);
}

const mcg_backend mcg_backend_jail = {
    .id = "jail",
    .family = MCG_LOCAL,
    .isolation = MCG_ISOLATION_NAMESPACE,
    .options = jail_options,
    .words = jail_words,
    .create = jail_create,
    .destroy = jail_destroy,
    .stats = jail_stats,
    .traits = jail_traits,
    .gateway = jail_gateway,
};
