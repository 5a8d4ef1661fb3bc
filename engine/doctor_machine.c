/* doctor_machine.c: where this runs (container, CI runner, WSL), what restricts user namespaces, and
 * what is needed besides sandboxes: a place for the audit log, OpenSSL's libraries. */
#include "doctor.h"
#include "audit/anchor.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define APPARMOR "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
#define PROFILE "/share/mooncage/apparmor/mooncage"

/* What a small file holds, or "". */
static const char *read_text(const char *path, char text[512])
{
  auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t len = fd < 0 ? 0 : read(fd, text, 511);
  text[len > 0 ? len : 0] = '\0';
  return text;
}

static bool is_number(const char *path, const char *number)
{
  char text[512];
  read_text(path, text);
  text[strcspn(text, "\n")] = '\0';
  return strcmp(text, number) == 0;
}

/* ---- where -------------------------------------------------------------------------------- */

/* The runtimes say so themselves, each in its way. */
static const char *container(void)
{
  static const char *const marks[][2] = {{"docker", "docker"},
                                         {"kubepods", "kubernetes"},
                                         {"libpod", "podman"},
                                         {"containerd", "containerd"},
                                         {"lxc", "lxc"}};
  static char said[32];
  char text[512];
  if (access("/.dockerenv", F_OK) == 0) return "docker";
  if (access("/run/.containerenv", F_OK) == 0) return "podman";
  if (getenv("KUBERNETES_SERVICE_HOST")) return "kubernetes";
  read_text("/run/systemd/container", text);
  text[strcspn(text, "\n")] = '\0';
  if (*text) {
    snprintf(said, sizeof said, "%.31s", text);
    return said;
  }
  read_text("/proc/1/cgroup", text);
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
    if (strstr(text, marks[i][0])) return marks[i][1];
  return NULL;
}

static const char *runner(void)
{
  static const char *const names[][2] = {{"GITHUB_ACTIONS", "GitHub Actions"},
                                         {"GITLAB_CI", "GitLab CI"},
                                         {"CIRCLECI", "CircleCI"},
                                         {"BUILDKITE", "Buildkite"},
                                         {"JENKINS_URL", "Jenkins"},
                                         {"TF_BUILD", "Azure Pipelines"},
                                         {"CI", "a CI runner"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *value = getenv(names[i][0]);
    if (value && *value && strcmp(value, "false") != 0) return names[i][1];
  }
  return NULL;
}

json_t *mcg_doctor_machine(void)
{
  struct utsname about = {0};
  char text[512];
  uname(&about);
  auto_free char *kernel = mcg_format("%s %s %s", about.sysname, about.release, about.machine);
  bool wsl = strstr(about.release, "icrosoft") != NULL ||
             strstr(read_text("/proc/version", text), "icrosoft") != NULL;
  json_t *where = json_pack("{s:s, s:b, s:i, s:b}", "kernel", kernel ? kernel : about.release,
                            "wsl", wsl, "uid", (int)geteuid(), "root", geteuid() == 0);
  const char *in = container(), *ci = runner();
  if (in) json_object_set_new(where, "container", json_string(in));
  if (ci) json_object_set_new(where, "ci", json_string(ci));
  return where;
}

/* ---- what forbids user namespaces ----------------------------------------------------------- */

static const char *apparmor_fix(void)
{
  static char text[256];
  static const char *const places[] = {"/usr/local", "/usr"};
  for (size_t i = 0; i < 2; i++) {
    snprintf(text, sizeof text, "%s" PROFILE, places[i]);
    if (access(text, R_OK) < 0) continue;
    snprintf(text, sizeof text,
             "sudo cp %s" PROFILE " /etc/apparmor.d/mooncage && sudo apparmor_parser -r "
             "/etc/apparmor.d/mooncage",
             places[i]);
    return text;
  }
  return "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (or install the profile "
         "deploy/apparmor/mooncage, which allows them for mooncage-init alone)";
}

const char *mcg_doctor_userns_fix(void)
{
  if (is_number("/proc/sys/user/max_user_namespaces", "0"))
    return "sudo sysctl -w user.max_user_namespaces=10000";
  if (geteuid() != 0 && is_number("/proc/sys/kernel/unprivileged_userns_clone", "0"))
    return "sudo sysctl -w kernel.unprivileged_userns_clone=1";
  if (geteuid() != 0 && is_number(APPARMOR, "1")) return apparmor_fix();
  if (container())
    return "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
           "--security-opt systempaths=unconfined ...; or run mooncage outside of the container";
  return "use a kernel with all seven kinds of namespaces, and a seccomp filter around this that "
         "allows them";
}

static void check_apparmor(json_t *checks)
{
  bool restricted = is_number(APPARMOR, "1");
  if (access(APPARMOR, F_OK) < 0 || geteuid() == 0) return;
  /* With the profile loaded the trials below succeed all the same. */
  mcg_doctor_add(checks,
                 &(mcg_check){.name = "AppArmor",
                              .state = restricted ? MCG_CHECK_OFF : MCG_CHECK_OK,
                              .detail = restricted ? "allows user namespaces to programs with a "
                                                     "profile only (see user namespace)"
                                                   : "does not restrict user namespaces"});
}

/* ---- besides sandboxes ---------------------------------------------------------------------- */

static int try_directory(const char *path)
{
  int rc = mcg_make_directories(path);
  if (rc < 0) return rc;
  auto_free char *name = mcg_format("%s/.doctor-XXXXXX", path);
  int fd = name ? mkostemp(name, O_CLOEXEC) : -1;
  if (fd < 0) return name ? -errno : -ENOMEM;
  rc = write(fd, "x", 1) == 1 ? 0 : -errno;
  close(fd);
  unlink(name);
  return rc;
}

static void check_audit(json_t *checks)
{
  auto_free char *state = mcg_state_directory();
  auto_free char *path = state ? mcg_format("%s/audit", state) : NULL;
  int rc = path ? try_directory(path) : -ENOENT;
  auto_free char *detail = !path    ? mcg_format("there is no HOME or XDG_STATE_HOME to put it in")
                           : rc < 0 ? mcg_format("%s: %s", path, strerror(-rc))
                                    : mcg_format("%s can be written to", path);
  auto_free char *fix =
      path ? mcg_format("sudo install -d -m 700 -o \"$(id -un)\" %s (or set audit = { type = "
                        "\"jsonl\", dir = ... } to another place)",
                        path)
           : mcg_format("export HOME=DIRECTORY, or set audit = { type = \"jsonl\", dir = ... }");
  mcg_doctor_add(checks, &(mcg_check){.name = "audit log",
                                      .state = rc < 0 ? MCG_CHECK_NO : MCG_CHECK_OK,
                                      .needed = true,
                                      .detail = detail,
                                      .costs = "no session opens without a log, unless audit = "
                                               "false",
                                      .fix = fix});
}

static void check_library(json_t *checks, const char *name, const char *symbol, const char *costs)
{
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  const char *why = library ? NULL : dlerror();
  bool there = library && dlsym(library, symbol);
  auto_free char *detail =
      library ? mcg_format(there ? "%s loads" : "%s has no %s", name, symbol) : NULL;
  mcg_doctor_add(checks, &(mcg_check){.name = "TLS library",
                                      .state = there ? MCG_CHECK_OK : MCG_CHECK_NO,
                                      .detail = detail ? detail : why,
                                      .costs = costs,
                                      .fix = "sudo apt-get install libssl3 (OpenSSL 3)"});
  if (library) dlclose(library);
}

void mcg_doctor_surroundings(json_t *checks)
{
  check_apparmor(checks);
  check_audit(checks);
  check_library(checks, "libssl.so.3", "TLS_client_method",
                "no rules with terminate_tls, and no secrets put into requests");
}
