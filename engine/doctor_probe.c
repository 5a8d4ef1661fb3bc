/* doctor_probe.c: runs `mooncage-init probe` and says of each of its lines what the mechanism is for,
 * what it costs to be without it, and what mends it. */
#include "doctor.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 60000 /* between two of its lines */
#define NO_SANDBOX "no sandbox can be made"
#define KERNEL_FIX "use Linux 5.13 or newer"
#define FILTER_FIX                                                                                 \
  "use Linux 5.13 or newer; in a container: docker run --security-opt seccomp=unconfined "         \
  "--security-opt apparmor=unconfined --security-opt systempaths=unconfined ..."
#define RANGE_FIX                                                                                  \
  "sudo apt-get install uidmap && sudo usermod --add-subuids 100000-165535 "                       \
  "--add-subgids 100000-165535 \"$(id -un)\""

typedef struct mechanism {
  const char *name;
  bool needed;
  const char *costs, *fix; /* fix NULL: that of user namespaces */
} mechanism;

static const mechanism mechanisms[] = {
    {"clone3", true, NO_SANDBOX, FILTER_FIX},
    {"pidfd", true, NO_SANDBOX, FILTER_FIX},
    {"close_range", true, NO_SANDBOX, FILTER_FIX},
    {"openat2", true, NO_SANDBOX, FILTER_FIX},
    {"user namespace", true, NO_SANDBOX, NULL},
    {"mount namespace", true, NO_SANDBOX, NULL},
    {"pid namespace", true, NO_SANDBOX, NULL},
    {"ipc namespace", true, NO_SANDBOX, NULL},
    {"uts namespace", true, NO_SANDBOX, NULL},
    {"cgroup namespace", true, NO_SANDBOX, NULL},
    {"network namespace", true, NO_SANDBOX, NULL},
    {"proc", false, "sandboxes see processes in /proc and nothing else of it: free, uptime fail",
     "run it outside of a container, or: docker run --security-opt systempaths=unconfined ..."},
    {"mount calls", true, NO_SANDBOX, FILTER_FIX},
    {"capabilities", true, NO_SANDBOX, NULL},
    {"seccomp", true, NO_SANDBOX, "use a kernel with CONFIG_SECCOMP_FILTER"},
    {"landlock", false, "the second wall of the file system is missing; mounts alone hold it",
     "boot with lsm=landlock,... (sudo sed -i "
     "'s/^GRUB_CMDLINE_LINUX=\"/&lsm=landlock,yama,apparmor "
     "/' /etc/default/grub && sudo update-grub), or use a kernel with CONFIG_SECURITY_LANDLOCK"},
    {"cgroup v2", false, "limits are kept by slower means", KERNEL_FIX},
    {"overlay", false, "no copy-on-write view of a project (--project): copy it in instead",
     "sudo modprobe overlay"},
    {"idmapped mounts", false,
     "binds and projects of other owners cannot be shown to a sandbox of root's", KERNEL_FIX},
    {"id range", false, "no profile `packages`: apt-get, and users in a sandbox", RANGE_FIX},
    {"packet sockets", false, "no network policy: what it refuses could not be told",
     "use a kernel with CONFIG_PACKET (sudo modprobe af_packet)"},
    {"network gateway", false, "no network policy: a sandbox has no network, or all of it",
     "in a container: docker run --cap-add NET_RAW --cap-add NET_ADMIN ...; else use a kernel with "
     "CONFIG_PACKET (sudo modprobe af_packet)"},
    {"nf_tables redirect", false,
     "no port ranges of more than 64 ports and no default = \"allow\" in a network policy",
     "sudo modprobe -a nf_tables nft_chain_nat nft_redir"},
};

static const mechanism *find(const char *name)
{
  for (size_t i = 0; i < sizeof mechanisms / sizeof *mechanisms; i++)
    if (strcmp(mechanisms[i].name, name) == 0) return &mechanisms[i];
  return NULL;
}

/* NAME TAB STATE TAB ERRNO TAB DETAIL */
static void take_line(json_t *checks, char *line)
{
  char *rest = line, *name = strsep(&rest, "\t"), *state = strsep(&rest, "\t");
  strsep(&rest, "\t");
  const mechanism *about = find(name);
  if (!rest || !about) return;
  mcg_doctor_add(checks, &(mcg_check){.name = name,
                                      .state = strcmp(state, "ok") == 0    ? MCG_CHECK_OK
                                               : strcmp(state, "off") == 0 ? MCG_CHECK_OFF
                                                                           : MCG_CHECK_NO,
                                      .needed = about->needed,
                                      .detail = rest,
                                      .costs = about->costs,
                                      .fix = about->fix ? about->fix : mcg_doctor_userns_fix()});
}

/* ---- the process -------------------------------------------------------------------------- */

typedef struct running {
  const char *program;
  char text[16384];
  size_t len;
  int error; /* it could not be started, or did not end */
} running;

static void read_all(running *self, int fd)
{
  struct pollfd more = {.fd = fd, .events = POLLIN};
  while (self->len < sizeof self->text - 1) {
    int ready = poll(&more, 1, PATIENCE_MS);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) self->error = ETIMEDOUT;
    ssize_t got =
        ready <= 0 ? 0 : read(fd, self->text + self->len, sizeof self->text - 1 - self->len);
    if (got <= 0) break;
    self->len += (size_t)got;
  }
  self->text[self->len] = '\0';
}

static void work(void *arg)
{
  running *self = arg;
  posix_spawn_file_actions_t actions;
  char *arguments[] = {(char *)self->program, (char *)"probe", NULL};
  char *environment[] = {NULL};
  int ends[2], status;
  pid_t pid;
  if (pipe2(ends, O_CLOEXEC) < 0) {
    self->error = errno;
    return;
  }
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, 0, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  self->error = posix_spawn(&pid, self->program, &actions, NULL, arguments, environment);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (!self->error) {
    read_all(self, ends[0]);
    if (self->error) kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  }
  close(ends[0]);
}

int mcg_doctor_probe(mcg_engine *engine, json_t *checks, mcg_error **err)
{
  auto_free running *self = calloc(1, sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the trials");
  self->program = engine->init_path;
  if (mcg_fiber_work(engine, work, self, err) < 0) return -1;
  char *rest = self->text, *line;
  while ((line = strsep(&rest, "\n")))
    if (*line) take_line(checks, line);
  if (!self->error && self->len) return 0;
  auto_free char *detail =
      mcg_format("%s probe: %s", engine->init_path, strerror(self->error ? self->error : EPROTO));
  mcg_doctor_add(checks, &(mcg_check){.name = "mooncage-init",
                                      .state = MCG_CHECK_NO,
                                      .needed = true,
                                      .detail = detail ? detail : "does not run",
                                      .costs = NO_SANDBOX,
                                      .fix = "install mooncage, or name its helper with "
                                             "MOONCAGE_INIT"});
  return 0;
}
