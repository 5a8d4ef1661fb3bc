/* The wall: what a sandbox made by the spawner is, and what it withstands. Every attack has its
 * control: the same code, as the same user, outside, where it works. As root everything runs twice:
 * as root, and as uid 65534. */
#include "attacks.h"
#include "spawner_client.h"

#include <arpa/inet.h>
#include <ftw.h>
#include <linux/limits.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/un.h>

static uid_t as_uid;        /* of the spawner; 0: our own */
static char self[PATH_MAX]; /* this executable: it is its own attacker */
static char base[64];       /* a directory of the same user for what tests make */

/* ---- helpers ---------------------------------------------------------------------------------- */

static void become(uid_t uid)
{
  if (uid && (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0)) _exit(97);
  prctl(PR_SET_DUMPABLE, 1);
}

/* The control: outside, as the sandbox's user would be. True: the attack works there. */
static bool works_outside(const char *name, const char *argument)
{
  int status;
  pid_t pid = fork();
  if (pid == 0) {
    become(as_uid);
    _exit(attack(name, argument));
  }
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static mcg_spawn_mount ourselves; /* the directory of this executable, at /opt */

static mcg_spawn_spec plain_spec(void)
{
  return (mcg_spawn_spec){
      .kind = MCG_KIND_JAIL, .disk = 32 << 20, .mounts = &ourselves, .mount_count = 1};
}

/* A sandbox that serves. */
static void make(spawner *s, const mcg_spawn_spec *spec, box *out)
{
  assert_true(box_create(s, spec, out));
  box_hello(out);
  if (!out->c) fail_msg("no sandbox: %s: %s", out->step, out->why);
}

static const job *run(box *b, const char *shell)
{
  if (b->c->job_count == JOBS_MAX) b->c->job_count = 0;
  job *j = job_start(b->c, MCG_EXEC_NO_STDIN, "/bin/sh", "-c", shell, NULL);
  client_until(b->c, j->refused || (j->exited && j->ended[1] && j->ended[2]));
  return j;
}

static bool works_inside(box *b, const char *name, const char *argument)
{
  char line[PATH_MAX];
  /* The leak check of a sanitized build wants ptrace, which is not there inside, and would end it with 1. */
  snprintf(line, sizeof line, "ASAN_OPTIONS=detect_leaks=0 exec /opt/test_jail attack %s '%s'",
           name, argument);
  const job *j = run(b, line);
  if (j->signo || j->code > 1)
    fail_msg("attack %s: code %d signal %d: %s", name, j->code, j->signo, j->data[2]);
  return j->code == 0;
}

#define assert_output(j, text)                                                                     \
  do {                                                                                             \
    const job *j_ = (j);                                                                           \
    if (j_->code || !strstr(j_->data[1], text))                                                    \
      fail_msg("code %d, \"%s\" lacks \"%s\"; %s", j_->code, j_->data[1], text, j_->data[2]);      \
  } while (0)

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
  (void)st, (void)kind, (void)at;
  return remove(path);
}

static char *place(const char *name)
{
  static char path[128];
  snprintf(path, sizeof path, "%s/%.50s", base, name);
  return path;
}

static void put_file(const char *name, const char *text, mode_t mode)
{
  int fd = open(place(name), O_WRONLY | O_CREAT | O_TRUNC, mode);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), strlen(text));
  fchmod(fd, mode);
  if (as_uid) assert_int_equal(fchown(fd, as_uid, as_uid), 0);
  close(fd);
}

static void put_dir(const char *name)
{
  assert_int_equal(mkdir(place(name), 0755), 0);
  if (as_uid) assert_int_equal(chown(place(name), as_uid, as_uid), 0);
}

static bool same_text(const char *name, const char *text)
{
  char got[256] = "";
  FILE *file = fopen(place(name), "r");
  if (!file) return false;
  size_t len = fread(got, 1, sizeof got - 1, file);
  fclose(file);
  got[len] = 0;
  return strcmp(got, text) == 0;
}

static int each_test(void **state)
{
  (void)state;
  snprintf(base, sizeof base, "/tmp/mcg-test-jail-XXXXXX");
  if (!mkdtemp(base)) return -1;
  return as_uid ? chown(base, as_uid, as_uid) : 0;
}

static int after_test(void **state)
{
  (void)state;
  return nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* ---- what it is ------------------------------------------------------------------------------- */

static void says_what_is_in_force(void **state)
{
  (void)state;
  static const char *const wanted[] = {
      "user_namespace=on",  "pid_namespace=on",   "network=own",
      "mount_namespace=on", "capabilities=none",  "no_new_privs=on",
      "seccomp=default, ",  "disk=tmpfs, 32 MiB", "rlimits=on"};
  spawner s = spawner_start(as_uid);
  mcg_spawn_spec spec = plain_spec();
  box b;
  make(&s, &spec, &b);
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (!strstr(b.c->mechanisms, wanted[i])) fail_msg("no %s in %s", wanted[i], b.c->mechanisms);
  if (s.landlock) assert_non_null(strstr(b.c->mechanisms, "landlock=abi "));
  assert_output(run(&b, "grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status"), "NoNewPrivs:\t1");
  assert_output(run(&b, "grep -c '^Cap.*0000000000000000' /proc/self/status"), "5");
  assert_output(run(&b, "grep Seccomp: /proc/self/status"), "2");
  assert_output(run(&b, "id -u; id -g; pwd; echo $HOME $USER $PATH; env | wc -l"),
                "1000\n1000\n/workspace\n/home/sandbox sandbox /usr");
  assert_output(run(&b, "cat /proc/sys/kernel/hostname"), "sandbox");
  assert_true(box_destroy(&b));
  spawner_stop(&s);
}

static void inherits_no_environment_and_no_descriptor(void **state)
{
  (void)state;
  setenv("MCG_TEST_SECRET", "hunter2", 1);
  int leak = open("/dev/null", O_RDWR);
  spawner s = spawner_start(as_uid);
  unsetenv("MCG_TEST_SECRET");
  close(leak);
  mcg_spawn_spec spec = plain_spec();
  box b;
  make(&s, &spec, &b);
  assert_output(run(&b, "env | grep -c SECRET; true"), "0\n");
  const job *j = run(&b, "ls /proc/self/fd | wc -l"); /* 0, 1, 2, and the one of ls */
  assert_string_equal(j->data[1], "4\n");
  assert_true(box_destroy(&b));
  spawner_stop(&s);
}

static void writes_only_where_it_may(void **state)
{
  (void)state;
  spawner s = spawner_start(as_uid);
  mcg_spawn_spec spec = plain_spec();
  box b;
  make(&s, &spec, &b);
  assert_output(run(&b, "for d in /workspace /tmp /var/tmp /run /home/sandbox /dev/shm; do "
                        "echo x > $d/f && cat $d/f; done | wc -l"),
                "6");
  assert_output(
      run(&b, "for d in / /usr /usr/bin /etc /dev /proc /var /opt /home; do "
              "echo x > $d/f; done 2>/dev/null; ls /f /usr/f /etc/f /opt/f 2>/dev/null | wc -l"),
      "0");
  assert_output(run(&b, "rm -rf /etc/passwd 2>/dev/null; cat /etc/passwd"), "sandbox:x:1000");
  assert_output(run(&b, "ls /dev | tr '\\n' ' '"),
                "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero");
  assert_output(run(&b, "for n in kcore keys kallsyms timer_list interrupts sysrq-trigger; do "
                        "cat /proc/$n 2>/dev/null; done | wc -c"),
                "0\n");
  assert_output(run(&b,
                    "echo 1 > /proc/sys/kernel/core_pattern 2>/dev/null; ls -d /sys/* 2>/dev/null"
                    " | wc -l"),
                "0");
  assert_true(box_destroy(&b));
  spawner_stop(&s);
}

/* From the second sandbox of an engine on, root's are made from a template: it must show the same. */
static void the_second_is_like_the_first(void **state)
{
  (void)state;
  /* Of mounts that lie on each other the last counts; what the stage hides cannot be reached. */
  static const char script[] =
      "for d in / /dev /etc /var /home /run /tmp; do ls $d; done; "
      "awk '$2 != \"/workspace/e\" {m[$2] = $3 \" \" substr($4, 1, 2)} "
      "END {for (p in m) print p, m[p]}' /proc/mounts | sort; "
      "cat /etc/passwd /etc/hosts /etc/resolv.conf; echo x > /etc/x; echo x > /dev/null; "
      "echo x > /workspace/x && cat /workspace/x; ls -A /workspace; echo end";
  spawner s = spawner_start(as_uid);
  mcg_spawn_spec spec = plain_spec();
  char *seen[3];
  for (int i = 0; i < 3; i++) {
    box b;
    make(&s, &spec, &b);
    const job *j = run(&b, script);
    assert_non_null(strstr(j->data[1], "x\nx\nend\n"));
    seen[i] = strdup(j->data[1]);
    assert_true(box_destroy(&b));
  }
  assert_string_equal(seen[0], seen[1]);
  assert_string_equal(seen[0], seen[2]);
  for (int i = 0; i < 3; i++) free(seen[i]);
  spawner_stop(&s);
}

static void fills_its_disk_and_no_more(void **state)
{
  (void)state;
  spawner s = spawner_start(as_uid);
  mcg_spawn_spec spec = plain_spec();
  spec.disk = 8 << 20;
  box b;
  make(&s, &spec, &b);
  const job *j = run(&b, "dd if=/dev/zero of=/tmp/a bs=1M count=6 2>/dev/null && "
                         "dd if=/dev/zero of=/workspace/b bs=1M count=6");
  assert_int_equal(j->code, 1);
  assert_int_equal(j->signo, 0);
  assert_non_null(strstr(j->data[2], "No space left"));
  assert_true(box_destroy(&b));
  spawner_stop(&s);
}

static void strict_shows_pids_only(void **state)
{
  (void)state;
  spawner s = spawner_start(as_uid);
  mcg_spawn_spec spec = plain_spec();
  spec.profile = MCG_PROFILE_STRICT;
  box b;
  make(&s, &spec, &b);
  assert_non_null(strstr(b.c->mechanisms, "proc=pids only"));
  assert_non_null(strstr(b.c->mechanisms, "seccomp=strict"));
  assert_output(run(&b, "ls /proc | grep -v '^[0-9]' | tr '\\n' ' '"), "self thread-self");
  assert_true(box_destroy(&b));
  spawner_stop(&s);
}

/* As a system's administrator does for a user: a group of each controller, given to it. False: this is
 * not version 1, or not root. */
static bool hand_over(char name[64], bool make_it)
{
  static const char *const names[] = {"memory", "cpu", "pids"};
  snprintf(name, 64, "mcg-test-%d", (int)getpid());
  for (size_t i = 0; i < 3; i++) {
    char path[256], file[300];
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s/%s", names[i], name);
    if (!make_it) {
      for (int tries = 0; rmdir(path) < 0 && errno == EBUSY && tries < 100; tries++) usleep(10000);
      continue;
    }
    snprintf(file, sizeof file, "%s/cgroup.procs", path);
    if (mkdir(path, 0755) < 0 || access(file, W_OK) < 0 || chown(path, as_uid, as_uid) < 0)
      return false;
  }
  return true;
}

static void limits_hold(void **state)
{
  (void)state;
  char group[64];
  bool handed = as_uid && hand_over(group, true);
  if (handed) spawner_group = group;
  spawner s = spawner_start(as_uid);
  spawner_group = NULL;
  mcg_spawn_spec spec = plain_spec();
  spec.memory = 64 << 20;
  spec.pids = 20;
  spec.cpu_milli = 500;
  box b;
  make(&s, &spec, &b);
  if (s.can != 7) {
    printf("skipped: uid %d has cgroup controllers %u of 7: %s\n", (int)as_uid, s.can, b.enforced);
  } else {
    assert_non_null(strstr(b.enforced, "memory=cgroup v"));
    const job *j = run(&b, "head -c 200000000 /dev/zero | tail -c 190000000 | wc -c");
    assert_true(strtol(j->data[1], NULL, 10) < 190000000);
    j = run(&b, "i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); done; wait");
    assert_non_null(strstr(j->data[2], "fork"));
    assert_true(box_ask(&b, MCG_S_STATS, MCG_S_STATS));
    assert_true(b.oom_kills >= 1);
    assert_true(b.pids_hits >= 1);
    assert_true(b.memory_peak > 50 << 20 && b.memory_peak <= 64 << 20);
    assert_output(run(&b, "echo lives"), "lives");
  }
  assert_true(box_destroy(&b));
  assert_true(b.cpu_us > 0);
  spawner_stop(&s);
  if (as_uid) hand_over(group, false);
}

/* ---- what it withstands ----------------------------------------------------------------------- */

static pid_t sleeper(void)
{
  pid_t pid = fork();
  if (pid == 0) {
    become(as_uid);
    for (;;) pause();
  }
  return pid;
}

static void init_is_out_of_reach(void **state)
{
  (void)state;
  static const char *const attacks[] = {"prlimit", "affinity", "nice"};
  char victim[16];
  spawner s = spawner_start(as_uid);
  mcg_spawn_spec spec = plain_spec();
  box b;
  make(&s, &spec, &b);
  pid_t pid = sleeper();
  usleep(50000); /* it becomes who it is */
  snprintf(victim, sizeof victim, "%d", (int)pid);
  for (size_t i = 0; i < 3; i++) {
    assert_true(works_outside(attacks[i], victim));
    assert_false(works_inside(&b, attacks[i], "1"));
  }
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  run(&b, "kill -9 1; kill -STOP 1; kill -TERM 1; kill -INT 1");
  assert_output(
      run(&b, "echo lives; ls /proc/1/fd 2>&1 | wc -l; cat /proc/1/environ 2>/dev/null | wc -c"),
      "lives\n1\n0");
  assert_true(box_destroy(&b));
  spawner_stop(&s);
}

static void the_host_is_not_there(void **state)
{
  (void)state;
  put_file("secret", "hunter2", 0600);
  spawner s = spawner_start(as_uid);
  mcg_spawn_spec spec = plain_spec();
  box b;
  make(&s, &spec, &b);
  assert_true(works_outside("read", place("secret")));
  assert_false(works_inside(&b, "read", place("secret")));
  assert_false(works_inside(&b, "read", "/etc/shadow"));
  assert_output(run(&b, "ls /root /mnt /srv /home | tr '\\n' ' '"), "sandbox");
  char escape[256];
  snprintf(escape, sizeof escape, "/proc/1/root%s", place("secret"));
  assert_false(works_inside(&b, "read", escape));
  assert_true(box_destroy(&b));
  spawner_stop(&s);
}

static void namespaces_and_mounts_are_refused(void **state)
{
  (void)state;
  spawner s = spawner_start(as_uid);
  mcg_spawn_spec spec = plain_spec();
  box b;
  make(&s, &spec, &b);
  assert_true(works_outside("unshare", ""));
  assert_true(works_outside("clone", ""));
  assert_true(works_outside("mount", "namespace"));
  assert_false(works_inside(&b, "unshare", ""));
  assert_false(works_inside(&b, "clone", ""));
  assert_false(works_inside(&b, "mount", ""));
  assert_true(box_destroy(&b));
  spawner_stop(&s);
}

static void the_network_is_not_there(void **state)
{
  (void)state;
  char port[16], name[32];
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof at;
  int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(tcp, (struct sockaddr *)&at, len), 0);
  assert_int_equal(listen(tcp, 8), 0);
  assert_int_equal(getsockname(tcp, (struct sockaddr *)&at, &len), 0);
  snprintf(port, sizeof port, "%d", ntohs(at.sin_port));
  struct sockaddr_un local = {.sun_family = AF_UNIX};
  snprintf(name, sizeof name, "mcg-test-%d", (int)getpid());
  memcpy(local.sun_path + 1, name, strlen(name));
  int unix_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(unix_fd, (struct sockaddr *)&local,
                        (socklen_t)(sizeof local.sun_family + 1 + strlen(name))),
                   0);
  assert_int_equal(listen(unix_fd, 8), 0);
  spawner s = spawner_start(as_uid);
  mcg_spawn_spec spec = plain_spec();
  box b;
  make(&s, &spec, &b);
  assert_true(works_outside("connect", port));
  assert_true(works_outside("abstract", name));
  assert_false(works_inside(&b, "connect", port));
  assert_false(works_inside(&b, "abstract", name));
  assert_output(run(&b, "cat /proc/net/dev | grep -c :"), "1"); /* lo */
  assert_true(box_destroy(&b));
  spec.network = 1; /* the host's, asked for */
  make(&s, &spec, &b);
  assert_non_null(strstr(b.c->mechanisms, "network=shared with the host"));
  assert_true(works_inside(&b, "connect", port));
  assert_true(box_destroy(&b));
  spawner_stop(&s);
  close(tcp);
  close(unix_fd);
}

/* ---- what it is given -------------------------------------------------------------------------- */

static void refused(spawner *s, const mcg_spawn_spec *spec, const char *step)
{
  box b;
  assert_true(box_create(s, spec, &b));
  box_hello(&b);
  if (b.c) fail_msg("a sandbox was made where step %s had to fail", step);
  assert_string_equal(b.step, step);
  if (b.pidfd >= 0) assert_true(box_destroy(&b));
}

static void binds_are_as_asked(void **state)
{
  (void)state;
  put_dir("in");
  put_file("in/a", "one", 0600);
  put_dir("out");
  char in[128], out[128];
  snprintf(in, sizeof in, "%s/in", base);
  snprintf(out, sizeof out, "%s/out", base);
  mcg_spawn_mount mounts[] = {{in, (char *)"/data/in", false},
                              {out, (char *)"/workspace/out", true}};
  spawner s = spawner_start(as_uid);
  mcg_spawn_spec spec = plain_spec();
  spec.mounts = mounts;
  spec.mount_count = 2;
  box b;
  make(&s, &spec, &b);
  assert_output(
      run(&b, "cat /data/in/a; echo two > /data/in/b; echo two > /workspace/out/b; ls /data/in"),
      "onea\n");
  assert_true(same_text("out/b", "two\n"));
  assert_true(box_destroy(&b));
  static const char *const bad[] = {"/bin/x", "/etc/../x", "x", "/proc/x", "/dev/x"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mounts[0].target = (char *)(uintptr_t)bad[i];
    refused(&s, &spec, "bind");
  }
  mounts[0] = (mcg_spawn_mount){(char *)"/nowhere/at/all", (char *)"/data", false};
  refused(&s, &spec, "bind");
  spawner_stop(&s);
}

static void a_hostile_rootfs_is_refused(void **state)
{
  (void)state;
  static const char *const places[] = {"dev", "proc", "etc", "tmp", "run", "workspace"};
  char rootfs[128];
  put_dir("root");
  snprintf(rootfs, sizeof rootfs, "%s/root", base);
  spawner s = spawner_start(as_uid);
  mcg_spawn_spec spec = {.rootfs = rootfs, .disk = 32 << 20};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    char link[256];
    snprintf(link, sizeof link, "%s/%s", rootfs, places[i]);
    assert_int_equal(symlink("/tmp", link), 0);
    refused(&s, &spec, "rootfs");
    unlink(link);
  }
  spec.rootfs = (char *)"/nowhere/at/all";
  refused(&s, &spec, "rootfs");
  spawner_stop(&s);
}

/* busybox is static: enough of a root file system for this. */
static void a_rootfs_is_read_only_or_overlaid(void **state)
{
  (void)state;
  if (access("/bin/busybox", X_OK) < 0) {
    puts("skipped: no /bin/busybox to make a rootfs of");
    return;
  }
  char rootfs[128], line[1024];
  put_dir("root");
  put_dir("root/bin");
  snprintf(rootfs, sizeof rootfs, "%s/root", base);
  snprintf(line, sizeof line, "cp /bin/busybox %s/bin/ && ln -s busybox %s/bin/sh", rootfs, rootfs);
  assert_int_equal(system(line), 0);
  put_file("root/here", "original\n", 0666);
  spawner s = spawner_start(as_uid);
  for (uint32_t rw = 0; rw < 2; rw++) {
    mcg_spawn_spec spec = {.rootfs = rootfs, .rootfs_rw = rw, .disk = 32 << 20};
    box b;
    make(&s, &spec, &b);
    const job *j = run(&b, "busybox cat /here; echo changed > /here; busybox cat /here; "
                           "echo x > /workspace/f && busybox cat /workspace/f; "
                           "busybox readlink /proc/self/cwd");
    if (!strstr(j->data[1],
                rw ? "original\nchanged\nx\n/workspace" : "original\noriginal\nx\n/workspace"))
      fail_msg("rw %u: %s %s", rw, j->data[1], j->data[2]);
    assert_true(box_destroy(&b));
    assert_true(same_text("root/here", "original\n"));
  }
  spawner_stop(&s);
}

/* Where it leaves names to a daemon that is not there, and to files that it lacks. */
static void a_rootfs_asks_the_gateway_for_names(void **state)
{
  (void)state;
  if (access("/bin/busybox", X_OK) < 0) {
    puts("skipped: no /bin/busybox to make a rootfs of");
    return;
  }
  char rootfs[128], line[1024];
  put_dir("names");
  snprintf(rootfs, sizeof rootfs, "%s/names", base);
  snprintf(line, sizeof line,
           "mkdir %s/bin %s/etc && cp /bin/busybox %s/bin/ && ln -s busybox %s/bin/sh && "
           "ln -s ../run/systemd/resolve/stub-resolv.conf %s/etc/resolv.conf",
           rootfs, rootfs, rootfs, rootfs, rootfs);
  assert_int_equal(system(line), 0);
  spawner s = spawner_start(as_uid);
  for (uint32_t rw = 0; rw < 2; rw++) {
    mcg_spawn_spec spec = {.rootfs = rootfs, .rootfs_rw = rw, .disk = 32 << 20};
    const uint32_t own[] = {MCG_NET_GATEWAY, MCG_NET_OWN}; /* which may get a gateway later */
    box b;
    for (int i = 0; i < 2; i++) {
      spec.network = own[i];
      make(&s, &spec, &b);
      assert_output(run(&b, "busybox cat /etc/resolv.conf /etc/hosts"),
                    "nameserver 127.0.0.1\n127.0.0.1 localhost\n::1 localhost\n");
      assert_true(box_destroy(&b));
    }
    spec.network = MCG_NET_HOST;
    make(&s, &spec, &b);
    assert_output(run(&b, "busybox readlink /etc/resolv.conf"), "../run/systemd");
    assert_true(box_destroy(&b));
  }
  put_file("names/etc/hosts", "127.0.0.1 mine\n", 0644);
  mcg_spawn_spec spec = {.rootfs = rootfs, .disk = 32 << 20, .network = MCG_NET_GATEWAY};
  box b;
  make(&s, &spec, &b);
  assert_output(run(&b, "busybox cat /etc/hosts"), "127.0.0.1 mine\n");
  assert_true(box_destroy(&b));
  spawner_stop(&s);
}

static void a_project_is_seen_and_not_touched(void **state)
{
  (void)state;
  char project[128];
  put_dir("p");
  put_dir("p/d");
  put_file("p/a", "one\n", 0600);
  put_file("p/d/b", "two\n", 0644);
  snprintf(project, sizeof project, "%s/p", base);
  spawner s = spawner_start(as_uid);
  mcg_spawn_spec spec = plain_spec();
  spec.project = project;
  box b;
  make(&s, &spec, &b);
  assert_output(run(&b, "cat a; echo three >> a; rm -r d; mkdir d; echo n > d/n; cat a d/n; "
                        "cat /mooncage/a/a /mooncage/a/d/b; readlink /mooncage/b"),
                "one\none\nthree\nn\none\ntwo\n/workspace");
  const job *j = run(&b, "echo x > /mooncage/a/x");
  assert_int_not_equal(j->code, 0);
  assert_true(box_destroy(&b));
  assert_true(same_text("p/a", "one\n"));
  assert_true(same_text("p/d/b", "two\n"));
  spec.project = (char *)"/nowhere/at/all";
  refused(&s, &spec, "project");
  spawner_stop(&s);
}

/* Loop devices that are bound to a file without a name. */
static unsigned nameless_loops(void)
{
  unsigned count = 0;
  for (int i = 0; i < 256; i++) {
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/sys/block/loop%d/loop/backing_file", i);
    FILE *file = fopen(path, "r");
    if (file && fgets(text, sizeof text, file) && strstr(text, "(deleted)")) count++;
    if (file) fclose(file);
  }
  return count;
}

static void a_disk_image_is_full_without_a_kill(void **state)
{
  (void)state;
  spawner s = spawner_start(as_uid);
  mcg_spawn_spec spec = plain_spec();
  spec.disk = 128 << 20;
  spec.disk_image = 1;
  spec.memory = 48 << 20;
  if (!s.privileged) {
    refused(&s, &spec, "disk");
  } else if (access("/dev/loop-control", W_OK) < 0) {
    puts("skipped: no loop devices here");
  } else {
    unsigned before = nameless_loops();
    box b;
    make(&s, &spec, &b);
    assert_non_null(strstr(b.c->mechanisms, "disk=ext4 image, 128 MiB"));
    const job *j = run(&b, "dd if=/dev/zero of=/workspace/x bs=1M count=100 2>/dev/null && "
                           "dd if=/dev/zero of=/tmp/y bs=1M count=100");
    assert_int_equal(j->code, 1);
    assert_non_null(strstr(j->data[2], "No space left"));
    assert_true(box_destroy(&b));
    assert_int_equal(b.oom_kills, 0);
    for (int i = 0; i < 200 && nameless_loops() > before; i++) usleep(10000);
    assert_true(nameless_loops() <= before);
  }
  spawner_stop(&s);
}

/* Of us, if we are the one who asks: nobody else that is tried has subordinate ids. */
static bool has_range(void)
{
  static const char *const look = "test -x /usr/bin/newuidmap && for f in /etc/subuid /etc/subgid; "
                                  "do grep -qE \"^($(id -un)|$(id -u)):\" $f || exit 1; done";
  return geteuid() != 0 && system(look) == 0;
}

static void packages_has_a_range_of_uids(void **state)
{
  (void)state;
  spawner s = spawner_start(as_uid);
  mcg_spawn_spec spec = plain_spec();
  spec.profile = MCG_PROFILE_PACKAGES;
  if (!s.privileged && !has_range()) {
    refused(&s, &spec, "maps");
  } else {
    box b;
    make(&s, &spec, &b);
    assert_output(run(&b, "id -u; echo x > /tmp/f; chown 33:44 /tmp/f; stat -c '%u %g' /tmp/f; "
                          "cat /proc/self/uid_map | tr -s ' '; grep CapEff /proc/self/status"),
                  "0\n33 44\n 0 ");
    assert_false(works_inside(&b, "prlimit", "1"));
    assert_false(works_inside(&b, "mount", ""));
    assert_false(works_inside(&b, "unshare", ""));
    run(&b, "kill -9 1; echo 1000 > /proc/1/oom_score_adj");
    mcg_wire body;
    mcg_wire_init(&body);
    mcg_wire_put_str(&body, MCG_TAG_ARG, "/bin/sh");
    mcg_wire_put_str(&body, MCG_TAG_ARG, "-c");
    mcg_wire_put_str(&body, MCG_TAG_ARG, "id -u; grep CapEff /proc/self/status");
    mcg_wire_put_str(&body, MCG_TAG_USER, "33:33");
    job *j = job_open(b.c, MCG_EXEC_NO_STDIN, &body);
    client_until(b.c, j->refused || (j->exited && j->ended[1]));
    assert_string_equal(j->data[1], "33\nCapEff:\t0000000000000000\n");
    assert_true(box_destroy(&b));
  }
  spawner_stop(&s);
}

/* ---- the sandbox that is none -------------------------------------------------------------------- */

static void plain_has_a_directory_that_goes(void **state)
{
  (void)state;
  put_file("outside", "stays", 0644);
  setenv("TMPDIR", base, 1);
  setenv("MCG_TEST_SECRET", "hunter2", 1);
  spawner s = spawner_start(as_uid);
  unsetenv("TMPDIR");
  unsetenv("MCG_TEST_SECRET");
  mcg_spawn_spec spec = {.kind = MCG_KIND_PLAIN};
  char line[1024];
  box b;
  make(&s, &spec, &b);
  snprintf(line, sizeof line,
           "pwd; stat -c %%a .; env | grep -c SECRET; ln -s %s link; mkdir -p a/b; "
           "echo x > a/b/c; chmod 0 a/b; (setsid sleep 4242 >/dev/null 2>&1 &)",
           place("outside"));
  const job *j = run(&b, line);
  assert_non_null(strstr(j->data[1], base));
  assert_non_null(strstr(j->data[1], "\n700\n0\n"));
  char directory[256];
  snprintf(directory, sizeof directory, "%.*s", (int)(strcspn(j->data[1], "\n") % 200), j->data[1]);
  assert_int_equal(access(directory, F_OK), 0);
  assert_true(box_destroy(&b));
  assert_int_equal(access(directory, F_OK), -1);
  assert_true(same_text("outside", "stays"));
  assert_int_not_equal(system("ps ax -o args | grep -q '^sleep 424[2]'"), 0);
  spec.workdir = (char *)"/nowhere/at/all";
  refused(&s, &spec, "directory");
  spawner_stop(&s);
}

/* ---- both users ---------------------------------------------------------------------------------- */

#define CASE(name) cmocka_unit_test_setup_teardown(name, each_test, after_test)

static int all(const char *title)
{
  const struct CMUnitTest tests[] = {
      CASE(says_what_is_in_force),
      CASE(inherits_no_environment_and_no_descriptor),
      CASE(writes_only_where_it_may),
      CASE(the_second_is_like_the_first),
      CASE(fills_its_disk_and_no_more),
      CASE(strict_shows_pids_only),
      CASE(limits_hold),
      CASE(init_is_out_of_reach),
      CASE(the_host_is_not_there),
      CASE(namespaces_and_mounts_are_refused),
      CASE(the_network_is_not_there),
      CASE(binds_are_as_asked),
      CASE(a_hostile_rootfs_is_refused),
      CASE(a_rootfs_is_read_only_or_overlaid),
      CASE(a_rootfs_asks_the_gateway_for_names),
      CASE(a_project_is_seen_and_not_touched),
      CASE(a_disk_image_is_full_without_a_kill),
      CASE(packages_has_a_range_of_uids),
      CASE(plain_has_a_directory_that_goes),
  };
  return cmocka_run_group_tests_name(title, tests, NULL, NULL);
}

int main(int argc, char **argv)
{
  if (argc == 4 && strcmp(argv[1], "attack") == 0) return attack(argv[2], argv[3]);
  static char directory[PATH_MAX];
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  assert_true(len > 0);
  memcpy(directory, self, sizeof directory);
  *strrchr(directory, '/') = 0;
  ourselves = (mcg_spawn_mount){directory, (char *)"/opt", false};
  int failed = all(geteuid() == 0 ? "as root" : "as this user");
  if (geteuid() != 0) {
    puts("skipped: the other user; only root can be both");
    return failed;
  }
  as_uid = 65534;
  return failed + all("as uid 65534");
}
