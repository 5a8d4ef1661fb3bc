/* jail.h: one isolated sandbox, from the clone to its init serving commands.
 *
 * mcg_jail_clone is called by the spawner; everything after the clone happens in the child, which builds its world, confines itself and becomes init. What fails there is told to the
 * engine by a FAILED frame on the control socket; nothing is left, for the child is its own namespace.
 * The child's steps are one function a file (maps.c, mounts.c, rootfs.c, dev.c, etc.c, proc.c, net.c,
 * lockdown.c, landlock.c); each returns 0, or -1 after mcg_jail_fail. */
#ifndef MCG_INIT_JAIL_H
#define MCG_INIT_JAIL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cgroup.h"
#include "idmap.h"
#include "net.h"
#include "spawn.h"

#define MCG_JAIL_MOUNTS_MAX 64
#define MCG_PEOPLE_MAX 64

/* Everything the child must know. Descriptors are -1 where there is none. */
typedef struct mcg_jail_order {
  mcg_spawn_spec spec;
  int control;                 /* init's end of the control socket */
  int spawner_pidfd;           /* the child leaves when this is readable */
  int cgroup;                  /* v2: the directory to be born in */
  int doors[MCG_CONTROLLERS];  /* v1: the files to enter by */
  bool take_uid;               /* the caller is root and gives the sandbox host_uid and host_gid */
  uint32_t host_uid, host_gid; /* who the sandbox is on the host */
  mcg_net net;                 /* to be cloned in, made ahead (stash.h); none: it makes its own */
  mcg_idmap idmap;             /* of what is bound */
  bool standing;               /* cloned where the root stands already (template.h) */
  int proc;                    /* the host's /proc, borrowed: its id maps are written through it */
  uint32_t range;              /* length of the id map; 1 but for profile packages */
  int go[2];    /* range > 1: a pipe; a byte comes when the spawner has written the maps */
  int rootfs;   /* detached mounts made by a privileged spawner */
  int project;  /* the copy-on-write view */
  int original; /* what it is a view of, read-only */
  int disk;
  int mounts[MCG_JAIL_MOUNTS_MAX]; /* one for each of spec.mounts */
} mcg_jail_order;

void mcg_jail_order_init(mcg_jail_order *order);
void mcg_jail_order_fini(mcg_jail_order *order); /* closes its descriptors, frees its spec */

/* Returns the child's pid and its pidfd, or -1 with errno. Never returns in the child. */
pid_t mcg_jail_clone(const mcg_jail_order *order, int *pidfd);
/* After it failed: is it the control group that refuses, and not the namespaces? */
bool mcg_jail_group_refuses(const mcg_jail_order *order);

/* ---- inside the child ----------------------------------------------------------------------- */

#define MCG_JAIL_MECHANISMS 24

/* Who a user of the spec has become. */
typedef struct mcg_person {
  uint32_t uid, gid;
} mcg_person;

/* While it builds, the working directory is the stage: a sized tmpfs of its own with
 *   r   the new root        d   what commands write to (and where a disk image is mounted)
 *   x   what is laid over a rootfs: dev, proc, etc
 * `fresh` is where dev, proc and etc are built: in r itself, or in x for a foreign rootfs. Where the root
 * stands already `fresh` is "", and the stage holds only d. */
typedef struct mcg_jail {
  const mcg_jail_order *order;
  const mcg_spawn_spec *spec;
  const char *workdir;
  uint32_t uid, gid;
  int control; /* where it is now: close_the_rest moves it */
  int root;    /* the new root while it is built, O_PATH */
  int rootfs, original,
      mounts[MCG_JAIL_MOUNTS_MAX];   /* detached: the spawner's, else taken by the child */
  mcg_person people[MCG_PEOPLE_MAX]; /* one for each of spec.users */
  bool foreign;                      /* the root is somebody's rootfs */
  const char *fresh;                 /* "r", "x" or "" */
  mcg_gateway gateway;               /* its sockets, the engine's with HELLO */
  const char *mechanisms[MCG_JAIL_MECHANISMS + 1];
  unsigned mechanism_count, text_len;
  char text[2048];  /* the mechanisms' bytes */
  const char *step; /* of the failure */
  int error;
  char why[512];
} mcg_jail;

/* Records the failure (the first one stays); returns -1. */
int mcg_jail_fail(mcg_jail *jail, const char *step, int number, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* FAILED to the engine, and the time for it to take that. */
void mcg_tell_failed(int fd, uint32_t carrier, const char *step, int number, const char *text);
/* "name=value" for HELLO. */
void mcg_jail_note(mcg_jail *jail, const char *format, ...) __attribute__((format(printf, 2, 3)));

int mcg_jail_maps(mcg_jail *jail);     /* who it is: uid and gid maps */
int mcg_jail_mounts(mcg_jail *jail);   /* the whole file system, pivot_root included */
int mcg_jail_standing(mcg_jail *jail); /* what is the same of it for all, for template.c */
int mcg_jail_rootfs(mcg_jail *jail);   /* r from spec.rootfs */
int mcg_jail_rootfs_cover(mcg_jail *jail);
int mcg_jail_dev_places(mcg_jail *jail); /* fresh/dev: what is mounted on, while it can be made */
int mcg_jail_dev(mcg_jail *jail);        /* fresh/dev: the nodes */
int mcg_jail_pts(mcg_jail *jail);        /* fresh/dev/pts: terminals of its own */
int mcg_jail_host_root(
    mcg_jail *jail);              /* r from the host's /usr: all that is read-only, and devices */
int mcg_jail_etc(mcg_jail *jail); /* fresh/etc */
/* r/etc/ssl/certs with the spec's authority; `lend` takes the rest from the host's /etc. */
int mcg_jail_trust(mcg_jail *jail, int (*lend)(mcg_jail *jail, const char *name));
int mcg_jail_trust_cover(mcg_jail *jail); /* the same over a rootfs, where the spec has one */
int mcg_jail_proc(mcg_jail *jail);        /* fresh/proc */
void mcg_jail_tune(mcg_jail *jail,
                   int proc); /* counts and ports, by a /proc whose sys can be written */
/* /mooncage/a: the project as it was; /mooncage/b: a link to the view of it that is the workdir. */
int mcg_jail_project_places(mcg_jail *jail, const char *base);
int mcg_jail_project(mcg_jail *jail);
int mcg_jail_net(mcg_jail *jail); /* loopback, gateway, host name */
int mcg_jail_rlimits(mcg_jail *jail);
int mcg_jail_caps(mcg_jail *jail); /* capabilities, securebits, no_new_privs */
int mcg_jail_landlock(mcg_jail *jail);
int mcg_jail_seccomp(mcg_jail *jail);

/* Directories that commands write to. The workdir is the last. */
typedef struct mcg_jail_writable {
  const char *inside, *on_disk; /* "/tmp", "d/tmp" */
  mode_t mode;
} mcg_jail_writable;
#define MCG_JAIL_WRITABLES 6
void mcg_jail_writables(const mcg_jail *jail, mcg_jail_writable out[MCG_JAIL_WRITABLES]);

/* A place in the new root to mount on: made where it is missing and can be made, never through a
 * symbolic link. Returns an O_PATH descriptor, or -1 after mcg_jail_fail. */
int mcg_jail_target(mcg_jail *jail, const char *step, const char *path, bool directory);
/* mount(2) of `source` with everything mounted below it, on a descriptor. */
int mcg_jail_bind(mcg_jail *jail, const char *step, const char *source, int target);
/* A new file with these bytes; -1 with errno. */
int mcg_jail_write(const char *path, mode_t mode, const char *text, size_t len);

/* ABI of Landlock here, 0: none. */
int mcg_landlock_abi(void);

#endif
