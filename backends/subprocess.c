/* subprocess.c: commands of a session as plain processes of the host, for development.
 *
 * It isolates nothing: a command can do whatever the host's user can. What it has is a directory, a
 * scrubbed environment, time-outs, and the end of all its processes with the session. */
#include "spawner.h"
#include <mooncage/backend.h>
#include <string.h>
#include <sys/stat.h>

typedef struct subprocess {
  mcg_jailed *jailed;
  char *directory; /* NULL: a temporary one, which the spawner makes and removes */
} subprocess;

static const mcg_option subprocess_options[] = {
    {"working_directory", MCG_T_STRING, "a directory of the host; default: a fresh temporary one",
     MCG_GRANT_NONE},
    {"environment", MCG_T_MAP, "variables of every command", MCG_GRANT_FREE},
    {"inherit_env", MCG_T_LIST, "names of host variables that commands get too", MCG_GRANT_NONE},
    {"carrier", MCG_T_STRING, "direct, or framed: how bytes travel; for tests", MCG_GRANT_FREE},
    {.name = NULL},
};

static const char *const carriers[] = {"direct", "framed", NULL};
static const mcg_option_words subprocess_words[] = {{.option = "carrier", .words = carriers},
                                                    {.option = NULL}};

static int check(const mcg_plan *plan, mcg_error **err)
{
  struct stat about;
  const char *directory = plan->working_directory;
  if (plan->project)
    return mcg_fail(err, MCG_UNSUPPORTED, "use the jail backend",
                    "a project cannot be shown copy-on-write");
  if (plan->user)
    return mcg_fail(err, MCG_UNSUPPORTED,
                    "leave `user` out, or use the jail's profile \"packages\"",
                    "commands run as this user only");
  if (!directory) return 0;
  if (*directory != '/')
    return mcg_fail(err, MCG_INVALID, "write an absolute path",
                    "working_directory \"%s\" is relative", directory);
  if (stat(directory, &about) == 0 && S_ISDIR(about.st_mode)) return 0;
  return mcg_fail(err, MCG_NOT_FOUND, "make it first", "%s is no directory", directory);
}

/* Best effort: what was asked for and is not kept stands on the session. */
static void tell_relaxed(mcg_session *session, const mcg_plan *plan)
{
  const mcg_limits *limits = &plan->limits;
  const struct {
    const char *mechanism;
    const mcg_limit *limit;
  } rows[] = {{"memory", &limits->memory_bytes},
              {"cpu", &limits->cpu_milli},
              {"pids", &limits->pids},
              {"disk", &limits->disk_bytes}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (!rows[i].limit->written) continue;
    mcg_session_enforce(session, rows[i].mechanism, "none: subprocess enforces no limits");
    mcg_session_warn(session, "the limit on %s is not enforced (best effort)", rows[i].mechanism);
  }
  mcg_session_enforce(session, "network", "the host's");
}

static int subprocess_create(mcg_session *session, const mcg_plan *plan, mcg_place *out,
                             mcg_error **err)
{
  const char *carrier = mcg_option_string(plan, "carrier");
  bool framed = plan->carrier == MCG_CARRIER_FRAMED || (carrier && strcmp(carrier, "framed") == 0);
  if (check(plan, err) < 0) return -1;
  subprocess *self = calloc(1, sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session");
  if (plan->working_directory && !(self->directory = strdup(plan->working_directory))) {
    free(self); /* without a name it would be a temporary directory */
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session");
  }
  mcg_spawn_spec spec = {.kind = MCG_KIND_PLAIN,
                         .carrier = framed,
                         .nofile = (uint32_t)plan->limits.open_files.value,
                         .id = (char *)plan->session_id,
                         .workdir = self->directory};
  mcg_session_warn(session,
                   "subprocess isolates nothing: commands can read, change and reach whatever "
                   "this user can");
  tell_relaxed(session, plan);
  if (mcg_spawner_create(mcg_session_engine(session), session, &spec, &self->jailed,
                         &out->stream_fd, err) < 0) {
    free(self->directory);
    free(self);
    return -1;
  }
  out->carrier = framed ? MCG_CARRIER_FRAMED : MCG_CARRIER_DIRECT;
  out->working_directory = self->directory;
  out->state = self;
  return 0;
}

static int subprocess_destroy(mcg_session *session, mcg_place *place, mcg_error **err)
{
  (void)session;
  subprocess *self = place->state;
  int rc = mcg_spawner_destroy(self->jailed, NULL, err);
  free(self->directory);
  free(self);
  *place = (mcg_place){.stream_fd = -1};
  return rc;
}

const mcg_backend mcg_backend_subprocess = {
    .id = "subprocess",
    .family = MCG_LOCAL,
    .isolation = MCG_ISOLATION_NONE,
    .options = subprocess_options,
    .words = subprocess_words,
    .create = subprocess_create,
    .destroy = subprocess_destroy,
};
