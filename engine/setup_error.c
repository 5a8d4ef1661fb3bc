/* setup_error.c: what a failed step of making a sandbox means to a user, and what mends it. One table
 * for what the spawner says and what a sandbox's init says. */
#include "spawner.h"
#include "engine.h"
#include <errno.h>
#include <string.h>

#define ANY (-1)

#define USERNS_FIX                                                                                 \
  "allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1 "                           \
  "user.max_user_namespaces=10000; on "                                                            \
  "Ubuntu 24.04 install the AppArmor profile mooncage-init that comes with mooncage (or sysctl "   \
  "-w "                                                                                            \
  "kernel.apparmor_restrict_unprivileged_userns=0); in a container run it with user namespaces "   \
  "allowed; or run as root"

#define GATEWAY_FIX                                                                                \
  "in a container give it CAP_NET_RAW and CAP_NET_ADMIN, or let it make user namespaces; or set "  \
  "network = \"none\""

#define CALLS_FIX                                                                                  \
  "use Linux 5.13 or newer; in a container, let its seccomp profile allow clone3, unshare, "       \
  "openat2, open_tree, move_mount, mount_setattr, close_range and the landlock calls"

typedef struct setup_row {
  const char *step;
  int number; /* errno, or ANY */
  mcg_code code;
  const char *what, *fix;
} setup_row;

static const setup_row rows[] = {
    /* First, since they can befall any step. */
    {NULL, EMFILE, MCG_QUOTA, "no descriptors left for another sandbox",
     "close sessions, or raise the limit on open files (ulimit -n)"},
    {NULL, ENFILE, MCG_QUOTA, "the host has no descriptors left", "close sessions"},
    {NULL, ENOMEM, MCG_NOMEM, "no memory for another sandbox", "close sessions"},
    {"userns", EPERM, MCG_UNENFORCEABLE, "user namespaces are forbidden here", USERNS_FIX},
    {"userns", EACCES, MCG_UNENFORCEABLE, "user namespaces are forbidden here", USERNS_FIX},
    {"userns", EINVAL, MCG_UNENFORCEABLE, "this kernel lacks a namespace",
     "use a kernel with all seven kinds of namespaces"},
    {"userns", ENOSYS, MCG_UNENFORCEABLE, "a system call is missing that namespaces are made with",
     CALLS_FIX},
    {"group", ANY, MCG_UNENFORCEABLE, "the sandbox's control group does not take it",
     "let clone3 with CLONE_INTO_CGROUP through, which a container's filter or a security module "
     "may "
     "forbid (Linux 5.7 has it), and see that the group is one that may hold processes; `mooncage "
     "doctor` tries it"},
    {NULL, ENOSYS, MCG_UNENFORCEABLE, "a system call is missing that the wall is made with",
     CALLS_FIX},
    {"userns", ENOSPC, MCG_QUOTA, "no namespaces left",
     "close sessions, or raise sysctl user.max_user_namespaces and user.max_*_namespaces"},
    {"userns", EUSERS, MCG_QUOTA, "no namespaces left",
     "close sessions, or raise sysctl user.max_user_namespaces"},
    {"userns", EAGAIN, MCG_QUOTA, "no room for another sandbox", "close sessions"},
    {"clone", ANY, MCG_QUOTA, "no process or memory for another sandbox",
     "close sessions, or raise the host's limit on processes (ulimit -u)"},
    {"maps", EPERM, MCG_UNENFORCEABLE, "uids cannot be mapped", USERNS_FIX},
    {"maps", EACCES, MCG_UNENFORCEABLE, "uids cannot be mapped", USERNS_FIX},
    {"maps", ENOENT, MCG_UNENFORCEABLE, "this user has no range of subordinate uids",
     "install uidmap, then: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER; "
     "or run as root"},
    {"gateway", EPERM, MCG_UNENFORCEABLE, "a network policy cannot be put in force", GATEWAY_FIX},
    {"gateway", EACCES, MCG_UNENFORCEABLE, "a network policy cannot be put in force", GATEWAY_FIX},
    {"gateway", EADDRINUSE, MCG_CONFLICT, "a network policy cannot be put in force",
     "end the program in the sandbox that listens on port 53"},
    {"gateway", EAFNOSUPPORT, MCG_UNENFORCEABLE, "a network policy cannot be put in force",
     "use a kernel with CONFIG_INET and CONFIG_PACKET (modprobe af_packet), or network = \"none\""},
    {"gateway", EOPNOTSUPP, MCG_UNENFORCEABLE, "a network policy cannot be put in force",
     "leave carrier = \"framed\" out"},
    {"gateway", ANY, MCG_UNENFORCEABLE, "a network policy cannot be put in force",
     "run `mooncage doctor`, or set network = \"none\""},
    {"redirect", ANY, MCG_UNENFORCEABLE, "an open network, and ranges of many ports, need nftables",
     "use a kernel with nf_tables and nat (modprobe nf_tables nft_redir nft_chain_nat), or allow "
     "single ports and ranges of at most 64"},
    {"users", EEXIST, MCG_CONFLICT, "a user of the manifest cannot be added",
     "give it another name, uid, gid or home, or leave it out and name the one there is by `user`"},
    {"users", ANY, MCG_INVALID, "a user of the manifest cannot be added",
     "give it a home that can be made: /home/NAME is where it is unless you say otherwise"},
    {"rootfs", ENOENT, MCG_NOT_FOUND, "the rootfs is not there", "name a directory that exists"},
    {"rootfs", ENOTDIR, MCG_INVALID, "the rootfs is no directory", "name a directory"},
    {"rootfs", EACCES, MCG_UNAUTHORIZED, "the rootfs cannot be entered",
     "give this user access to it"},
    {"rootfs", ANY, MCG_INVALID, "the rootfs cannot be used",
     "name a directory with a /usr, /bin and /lib"},
    {"workdir", EPERM, MCG_UNENFORCEABLE, "a system call is refused that the wall is made with",
     CALLS_FIX},
    {"workdir", ANY, MCG_INVALID, "the working directory cannot be",
     "name an absolute directory that is not one of the system's"},
    {"bind", ENOENT, MCG_NOT_FOUND, "what is to be bound is not there", "name a path that exists"},
    {"bind", EACCES, MCG_UNAUTHORIZED, "what is to be bound cannot be reached",
     "give this user access to it"},
    {"bind", EPERM, MCG_UNENFORCEABLE, "the kernel refuses to bind it", CALLS_FIX},
    {"bind", ANY, MCG_INVALID, "it cannot be bound",
     "bind a file, directory or socket to an absolute path below /"},
    {"project", ENOENT, MCG_NOT_FOUND, "the project is not there", "name a directory that exists"},
    {"project", ANY, MCG_UNSUPPORTED, "the project cannot be shown copy-on-write",
     "copy it in with upload (--copy-in) instead"},
    {"directory", ENOENT, MCG_NOT_FOUND, "the working directory is not there",
     "name a directory that exists"},
    {"directory", ANY, MCG_INVALID, "the working directory cannot be used",
     "name a directory that this user may enter"},
    {"cgroup", EBUSY, MCG_CONFLICT, "its cgroup is taken", "run `mooncage reap`, and try again"},
    {"cgroup", ANY, MCG_UNENFORCEABLE, "the limits cannot be put in force",
     "run `mooncage doctor`, or set enforcement = \"best_effort\""},
    {"disk", ENOSPC, MCG_QUOTA, "no memory for the sandbox's disk", "lower limits.disk_mb"},
    {"disk", ANY, MCG_UNENFORCEABLE, "the sandbox's disk cannot be made",
     "lower limits.disk_mb below limits.memory_mb"},
    {"seccomp", ANY, MCG_UNENFORCEABLE, "system calls cannot be filtered",
     "use a kernel with CONFIG_SECCOMP_FILTER"},
    {"caps", ANY, MCG_UNENFORCEABLE, "privileges cannot be dropped", CALLS_FIX},
    {"landlock", ANY, MCG_UNENFORCEABLE, "Landlock cannot be put in force", CALLS_FIX},
    {"proc", ANY, MCG_UNENFORCEABLE, "/proc cannot be masked",
     "outside of a container it can; or set profile = \"strict\""},
    {"mounts", ANY, MCG_UNENFORCEABLE, "its file systems cannot be mounted",
     CALLS_FIX "; or run outside of a container"},
    {"rlimits", ANY, MCG_UNENFORCEABLE, "the limits cannot be put in force",
     "raise the hard limits of this process (ulimit -Ha)"},
    {"version", ANY, MCG_PROTOCOL, "mooncage-init is of another version",
     "install the library and mooncage-init together"},
};

/* Where no system call has failed, and the text says it all. */
static bool only_finds_the_row(const char *step, int number)
{
  return (number == EEXIST && strcmp(step, "users") == 0) ||
         (number == ENOENT && strcmp(step, "maps") == 0);
}

int mcg_spawner_setup_error(mcg_error **err, const char *step, int number, const char *text)
{
  const char *reason = *text ? text : strerror(number);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const setup_row *row = &rows[i];
    if ((row->step && strcmp(row->step, step) != 0) ||
        (row->number != ANY && row->number != number))
      continue;
    bool told = number && *text && !only_finds_the_row(step, number);
    return mcg_fail(err, row->code, row->fix, "%s: %s%s%s", row->what, reason, told ? ": " : "",
                    told ? strerror(number) : "");
  }
  return mcg_fail_errno(err, number, NULL, "make the sandbox: %s: %s", step, reason);
}
