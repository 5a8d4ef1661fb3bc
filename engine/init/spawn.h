/* spawn.h: what the engine and its spawner say to each other, over one SOCK_SEQPACKET pair.
 *
 * The spawner is mooncage-init in its first mode. The engine starts it before anything else, as
 *   mooncage-init spawner      (descriptor 3: the socket; descriptor 4: a pidfd of the engine)
 * and never forks itself. One packet is one message: u32 op, u32 id, then fields (wire.h); the id of
 * an answer is the id of what it answers. Engine's ends of sockets are made, sent and closed at once,
 * so that neither the spawner nor a sibling ever holds one.
 *
 *   READY    S  FACTS      once, unasked: what this machine and user can do
 *   CREATE   E  a spec [+ fds named by FD fields]
 *   CREATED  S  [+ 2 fds: the engine's end of the control socket, a pidfd of the sandbox's init]
 *               ENFORCED* ("mechanism=value") of what the spawner itself did (cgroup ...)
 *   FAILED   S  STEP, ERRNO, TEXT: nothing is left
 *   DESTROY  E  kill, wait, free; also after EXITED
 *   GONE     S  COUNTERS: no process lives, all is freed (answer to DESTROY)
 *   STATS    E  and its answer  STATS  S  COUNTERS
 *   EXITED   S  unasked: the sandbox's init is dead; CODE or SIGNO. The id stays until DESTROY
 *   GATEWAY  E  REDIRECT [+ fd: a socket in the sandbox's network, from its init, which is asked where that
 *               is if this user may not look] for one that was made without a gateway
 *   WAYS     S  SOCKET* [+ as many fds], fields and kinds of HELLO (protocol.h); or FAILED
 *   CLOSE    E  [+ fds] to be closed behind everything else: the kernel takes milliseconds over a packet
 *               socket, and the engine has none to spare
 *   REAP     E  FLAG dry run; answered by REAPED S TEXT* ("kind name") of what dead engines left
 *
 * What the sandbox itself has in force comes from its init, with HELLO on the control socket. */
#ifndef MCG_SPAWN_H
#define MCG_SPAWN_H

#include "wire.h"

enum mcg_spawn_op {
  MCG_S_READY = 1,
  MCG_S_CREATE,
  MCG_S_CREATED,
  MCG_S_FAILED,
  MCG_S_DESTROY,
  MCG_S_GONE,
  MCG_S_STATS,
  MCG_S_EXITED,
  MCG_S_REAP,
  MCG_S_REAPED,
  MCG_S_CLOSE,
  MCG_S_GATEWAY,
  MCG_S_WAYS
};

enum mcg_spawn_tag {
  /* shared numbers with protocol.h are not implied: this is its own space */
  MCG_ST_KIND = 1, /* u32 mcg_spawn_kind */
  MCG_ST_ID,       /* text, for names of cgroups; [A-Za-z0-9-] */
  MCG_ST_PROFILE,  /* u32 mcg_spawn_profile */
  MCG_ST_NETWORK,  /* u32 mcg_spawn_network */
  MCG_ST_CARRIER,  /* u32: 0 SOCK_SEQPACKET, 1 SOCK_STREAM */
  MCG_ST_UID,      /* u32 inside; 1000 unless given */
  MCG_ST_GID,
  MCG_ST_ROOTFS,     /* text: host directory; absent: the host's /usr, read-only */
  MCG_ST_ROOTFS_RW,  /* u32 1: an overlay makes the rootfs writable, on the sandbox's own disk */
  MCG_ST_WORKDIR,    /* text, inside; /workspace unless given. kind PLAIN: host directory */
  MCG_ST_PROJECT,    /* text: host directory whose copy-on-write view becomes WORKDIR. The project
                        itself is mounted read-only at /mooncage/a, and /mooncage/b is a link to
                        WORKDIR: what changed is found by comparing the two, inside (project.h) */
  MCG_ST_MOUNT,      /* nested fields MCG_SM_* */
  MCG_ST_MEMORY,     /* u64 bytes, of memory and disk together; 0 or absent: none */
  MCG_ST_DISK,       /* u64 bytes of the one sized tmpfs */
  MCG_ST_DISK_IMAGE, /* u32 1: an ext4 image instead of the tmpfs (root only) */
  MCG_ST_CPU_MILLI,  /* u32, 1000 = one processor */
  MCG_ST_PIDS,       /* u32 processes and threads of commands; init and stubs come on top */
  MCG_ST_NOFILE,     /* u32 */
  MCG_ST_HOSTNAME,
  MCG_ST_USER, /* nested fields MCG_SU_*; profile packages */
  /* answers */
  MCG_ST_STEP,
  MCG_ST_ERRNO,
  MCG_ST_TEXT,
  MCG_ST_ENFORCED,
  MCG_ST_CODE,
  MCG_ST_SIGNO,
  MCG_ST_ARG,
  /* facts of READY, u32 each unless said */
  MCG_ST_CGROUP,     /* mcg_cgroup_mode */
  MCG_ST_CGROUP_CAN, /* bits 1 memory, 2 cpu, 4 pids */
  MCG_ST_PRIVILEGED, /* 1: it is root here and can give uids and mounts away */
  MCG_ST_LANDLOCK,   /* ABI, 0: none */
  MCG_ST_VERSION,
  /* counters */
  MCG_ST_MEMORY_NOW,
  MCG_ST_MEMORY_PEAK,
  MCG_ST_CPU_US,
  MCG_ST_PIDS_NOW,
  MCG_ST_OOM_KILLS,
  MCG_ST_PIDS_HITS,
  /* sub-fields of MCG_ST_MOUNT */
  MCG_SM_SOURCE,
  MCG_SM_TARGET,
  MCG_SM_WRITABLE,
  /* sub-fields of MCG_ST_USER */
  MCG_SU_NAME,
  MCG_SU_HOME, /* absolute, inside */
  MCG_SU_UID,  /* u32; absent: one that is free */
  MCG_SU_GID,  /* u32; absent: the uid's number */
  /* of CREATE, too */
  MCG_ST_REDIRECT, /* u32 1, with MCG_NET_GATEWAY or in GATEWAY: TCP connections are redirected (gateway.h) */
  MCG_ST_AUTHORITY,     /* text: a certificate in PEM that the sandbox is to believe in */
  MCG_ST_AUTHORITY_HASH /* u32: of its subject, as OpenSSL names files */
};

enum mcg_spawn_network {
  MCG_NET_OWN,    /* loopback and nothing else */
  MCG_NET_HOST,   /* the host's */
  MCG_NET_GATEWAY /* its own, with sockets for the engine's gateway (gateway.h); carrier 0 only */
};
enum mcg_spawn_kind { MCG_KIND_JAIL, MCG_KIND_PLAIN };
enum mcg_spawn_profile {
  MCG_PROFILE_DEFAULT,
  MCG_PROFILE_STRICT,
  MCG_PROFILE_PACKAGES,
  MCG_PROFILE_DEBUG
};
enum mcg_cgroup_mode { MCG_CGROUP_NONE, MCG_CGROUP_V1, MCG_CGROUP_V2 };

typedef struct mcg_spawn_mount {
  char *source, *target;
  bool writable;
} mcg_spawn_mount;

typedef struct mcg_spawn_user {
  char *name, *home;
  uint32_t uid, gid; /* 0: to be chosen */
} mcg_spawn_user;

/* The fields of CREATE, decoded. Strings are owned; NULL or 0 where absent. */
typedef struct mcg_spawn_spec {
  uint32_t kind, profile, network, carrier, uid, gid, rootfs_rw, disk_image, cpu_milli, pids,
      nofile, redirect, authority_hash;
  uint64_t memory, disk;
  char *id, *rootfs, *workdir, *project, *hostname, *authority;
  mcg_spawn_mount *mounts;
  size_t mount_count;
  mcg_spawn_user *users;
  size_t user_count;
} mcg_spawn_spec;

void mcg_spawn_spec_encode(const mcg_spawn_spec *spec, mcg_wire *out);
bool mcg_spawn_spec_decode(const void *bytes, size_t len,
                           mcg_spawn_spec *out); /* fini either way */
void mcg_spawn_spec_fini(mcg_spawn_spec *spec);

#endif
