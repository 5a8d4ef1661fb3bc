/* doctor.c: what works on this machine, found by trying it: each mechanism by itself, a throw-away
 * sandbox of each backend, a command in it, the limits of the machine. And the removal of what dead
 * engines left.
 *
 * Nothing is concluded from version numbers. The report is `ok` when no check that is `needed` says no:
 * then the default sandbox works. */
#include "doctor.h"
#include "audit/audit.h"
#include "session/session.h"
#include "spawner.h"
#include <string.h>
#include <sys/resource.h>

typedef struct doctor {
  mcg_engine *engine;
  mcg_text_done done;
  void *data;
  bool dry_run, walled; /* walled: a backend that isolates could be used */
  json_t *checks, *backends, *out;
} doctor;

void mcg_doctor_add(json_t *checks, const mcg_check *check)
{
  static const char *const states[] = {"ok", "no", "off"};
  bool no = check->state == MCG_CHECK_NO;
  json_t *out = json_pack("{s:s, s:b, s:s, s:b, s:s}", "name", check->name, "ok", !no, "state",
                          states[check->state], "needed", check->needed, "detail",
                          check->detail ? check->detail : "");
  if (!out) return;
  if (no && check->costs) json_object_set_new(out, "costs", json_string(check->costs));
  if (no && check->fix) json_object_set_new(out, "fix", json_string(check->fix));
  json_array_append_new(checks, out);
}

static void add(doctor *self, const char *name, bool ok, bool needed, const char *detail,
                const char *fix)
{
  mcg_doctor_add(self->checks, &(mcg_check){.name = name,
                                            .state = ok ? MCG_CHECK_OK : MCG_CHECK_NO,
                                            .needed = needed,
                                            .detail = detail,
                                            .fix = fix});
}

/* ---- one backend, tried ------------------------------------------------------------------- */

static void try_command(doctor *self, const mcg_backend *backend, mcg_session *session)
{
  auto_error mcg_error *error = NULL;
  auto_free char *name = mcg_format("%s: a command", backend->id);
  int code = mcg_doctor_run(session, "exit 42", NULL, &error);
  add(self, name ? name : backend->id, code == 42, backend->isolation != MCG_ISOLATION_NONE,
      code == 42 ? "runs, and its exit code arrives"
      : error    ? error->message
                 : "did not run",
      error ? error->fix : NULL);
}

static bool in_force(const char *value)
{
  return strncmp(value, "absent", 6) != 0 && strncmp(value, "off", 3) != 0;
}

static void list_mechanisms(doctor *self, const char *id, const mcg_session *session)
{
  const char *mechanism;
  json_t *value;
  json_object_foreach(session->enforcement, mechanism, value)
  {
    const char *text = json_string_value(value);
    auto_free char *name = mcg_format("%s: %s", id, mechanism);
    /* The machine's limits have lines of their own; elsewhere "none" is the good news. */
    bool limit = strcmp(mechanism, "memory") == 0 || strcmp(mechanism, "cpu") == 0 ||
                 strcmp(mechanism, "pids") == 0;
    if (name && text && !(limit && strncmp(text, "none", 4) == 0))
      add(self, name, in_force(text), false, text, NULL);
  }
}

static void try_backend(doctor *self, const mcg_backend *backend)
{
  static const char *const isolations[] = {"none", "namespace", "container", "gvisor", "vm"};
  auto_error mcg_error *error = NULL;
  auto_free char *config = mcg_format("{\"backend\":{\"id\":\"%s\"}}", backend->id);
  mcg_session *session = config ? mcg_doctor_open(self->engine, config, &error) : NULL;
  bool ok = session != NULL;
  json_t *entry = json_pack("{s:s, s:s, s:s, s:b}", "id", backend->id, "family",
                            backend->family == MCG_LOCAL ? "local" : "hosted", "isolation",
                            isolations[backend->isolation], "usable", ok);
  if (error) json_object_set_new(entry, "why", json_string(error->message));
  json_array_append_new(self->backends, entry);
  auto_free char *name = mcg_format("%s: a sandbox", backend->id);
  add(self, name ? name : backend->id, ok, backend->isolation != MCG_ISOLATION_NONE,
      ok      ? "was made"
      : error ? error->message
              : "was not made",
      error ? error->fix : NULL);
  if (!ok) return;
  if (backend->isolation != MCG_ISOLATION_NONE) self->walled = true;
  if (backend->isolation != MCG_ISOLATION_NONE) list_mechanisms(self, backend->id, session);
  try_command(self, backend, session);
  mcg_doctor_close(session);
}

/* ---- the machine -------------------------------------------------------------------------- */

static void check_limits(doctor *self, const mcg_machine *machine)
{
  static const char *const modes[] = {"no cgroup that this user may use", "cgroup v1", "cgroup v2"};
  const char *mode = machine->cgroup <= MCG_CGROUP_V2 ? modes[machine->cgroup] : "unknown";
  /* The shell that it is run in moves into cgroups of its user's own; `$$` is that shell. */
  auto_free char *v1 = mcg_format(
      "sudo sh -c 'for c in memory cpu pids; do d=/sys/fs/cgroup/$c/mooncage-%d; mkdir -p $d; "
      "chown %d $d $d/tasks $d/cgroup.procs; echo '$$' > $d/cgroup.procs; done'",
      (int)geteuid(), (int)geteuid());
  const char *v2 = "start it with: systemd-run --user --scope -p Delegate=yes mooncage ... (and "
                   "loginctl enable-linger)";
  const char *fix = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0 ? v2 : v1;
  const bool can[] = {machine->can_memory, machine->can_cpu, machine->can_pids};
  static const char *const names[] = {"limit: memory", "limit: cpu", "limit: processes"};
  for (size_t i = 0; i < 3; i++)
    mcg_doctor_add(self->checks,
                   &(mcg_check){.name = names[i],
                                .state = can[i] ? MCG_CHECK_OK : MCG_CHECK_NO,
                                .detail = mode,
                                .costs = "a written limit is refused; the built-in one is not kept",
                                .fix = fix});
}

static void check_descriptors(doctor *self)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0) return;
  auto_free char *detail = mcg_format("%llu (hard limit %llu)", (unsigned long long)limit.rlim_cur,
                                      (unsigned long long)limit.rlim_max);
  mcg_doctor_add(self->checks,
                 &(mcg_check){.name = "open files",
                              .state = limit.rlim_cur >= 1024 ? MCG_CHECK_OK : MCG_CHECK_NO,
                              .detail = detail,
                              .costs = "only few sessions at once",
                              .fix = "ulimit -n 4096"});
}

static bool nothing_needed_is_missing(const json_t *checks)
{
  size_t i;
  json_t *check;
  json_array_foreach((json_t *)checks, i, check)
  {
    if (json_is_true(json_object_get(check, "needed")) &&
        !json_is_true(json_object_get(check, "ok")))
      return false;
  }
  return true;
}

static int doctor_run(void *arg, mcg_error **err)
{
  doctor *self = arg;
  mcg_machine machine;
  auto_error mcg_error *why = NULL;
  json_object_set_new(self->out, "machine", mcg_doctor_machine());
  check_descriptors(self);
  mcg_doctor_surroundings(self->checks);
  if (mcg_doctor_probe(self->engine, self->checks, err) < 0) return -1;
  if (mcg_spawner_machine(self->engine, &machine, &why) < 0) {
    add(self, "spawner", false, true, why->message, why->fix);
  } else {
    add(self, "spawner", true, true,
        machine.privileged ? "runs as root" : "runs as an ordinary user", NULL);
    check_limits(self, &machine);
  }
  for (size_t i = 0; i < self->engine->backends.count; i++)
    if (self->engine->backends.list[i]->family == MCG_LOCAL &&
        self->engine->backends.list[i]->create)
      try_backend(self, self->engine->backends.list[i]);
  if (self->walled) mcg_doctor_egress(self->engine, self->checks);
  json_object_set_new(self->out, "ok",
                      json_boolean(self->walled && nothing_needed_is_missing(self->checks)));
  return 0;
}

static int reap_run(void *arg, mcg_error **err)
{
  doctor *self = arg;
  json_t *removed = json_object_get(self->out, "removed");
  int rc = mcg_spawner_reap(self->engine, self->dry_run, removed, err);
  if (!self->dry_run && json_array_size(removed))
    mcg_audit_engine_point(self->engine, &(mcg_event){.op = "reap", .detail = self->out});
  return rc;
}

/* ---- start and end ------------------------------------------------------------------------ */

static void doctor_complete(void *arg, mcg_error *error)
{
  doctor *self = arg;
  auto_free char *text = error ? NULL : json_dumps(self->out, JSON_COMPACT);
  if (!error && !text) mcg_fail(&error, MCG_NOMEM, NULL, "no memory for the answer");
  if (self->done)
    self->done(self->data, text, error);
  else
    mcg_error_free(error);
  json_decref(self->out);
  free(self);
}

static int doctor_start(mcg_engine *engine, json_t *out, bool dry_run,
                        int (*run)(void *, mcg_error **), mcg_text_done done, void *data,
                        mcg_error **err)
{
  doctor *self = out ? calloc(1, sizeof *self) : NULL;
  if (!self) {
    json_decref(out);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for an operation");
  }
  *self = (doctor){.engine = engine,
                   .done = done,
                   .data = data,
                   .dry_run = dry_run,
                   .out = out,
                   .checks = json_object_get(out, "checks"),
                   .backends = json_object_get(out, "backends")};
  if (mcg_op_start(engine, run, doctor_complete, self, NULL, err) == 0) return 0;
  json_decref(out);
  free(self);
  return -1;
}

int mcg_doctor(mcg_engine *engine, mcg_text_done done, void *data, mcg_error **err)
{
  return doctor_start(engine, json_pack("{s:i, s:[], s:[]}", "version", 1, "checks", "backends"),
                      false, doctor_run, done, data, err);
}

int mcg_reap(mcg_engine *engine, bool dry_run, mcg_text_done done, void *data, mcg_error **err)
{
  return doctor_start(engine, json_pack("{s:[]}", "removed"), dry_run, reap_run, done, data, err);
}
