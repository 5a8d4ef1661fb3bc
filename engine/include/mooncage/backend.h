/* backend.h: for authors of backends: the vtable, and the services a backend may call.
 *
 * A backend makes the place, gives the stream to the mooncage-init in it, and takes the place down.
 * Commands, signals, PTYs, files, kills and reaping are init's and written once. A slot runs in a
 * fiber: it reads like blocking code and may call whatever is marked MCG_PARKS. A NULL slot means
 * "cannot", and the engine answers `unsupported`. */
#ifndef MOONCAGE_BACKEND_H
#define MOONCAGE_BACKEND_H

#include <mooncage/mooncage.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* This function may wait: call it on a fiber only. */
#define MCG_PARKS __attribute__((warn_unused_result))

/* How bytes reach init: descriptors passed over SOCK_SEQPACKET, or frames on one byte stream. */
typedef enum mcg_carrier { MCG_CARRIER_DIRECT, MCG_CARRIER_FRAMED } mcg_carrier;

typedef enum mcg_network {
  MCG_NETWORK_NONE,
  MCG_NETWORK_HOST,
  MCG_NETWORK_OPEN,
  MCG_NETWORK_RULES
} mcg_network;

/* A resource limit: 0 is "no limit". `written` ones must be enforced or the open is refused. */
typedef struct mcg_limit {
  uint64_t value;
  bool written;
} mcg_limit;

typedef struct mcg_limits {
  mcg_limit memory_bytes, disk_bytes, cpu_milli, pids, open_files;
  mcg_limit wall_ms, exec_ms, output_bytes; /* the engine's own to enforce */
} mcg_limits;

typedef struct mcg_bind {
  const char *source; /* absolute, on the host */
  const char *target; /* absolute, inside */
  bool writable;
} mcg_bind;

/* A user that is to be there, besides those of the system inside. */
typedef struct mcg_user {
  const char *name, *home; /* home: absolute, inside */
  unsigned uid, gid;       /* 0: one that is free; of the gid: the uid's number */
} mcg_user;

/* One option a backend takes in its candidate, for validation and `--option` help. */
typedef enum mcg_type {
  MCG_T_BOOL,
  MCG_T_INT,
  MCG_T_NUMBER,
  MCG_T_STRING,
  MCG_T_LIST,
  MCG_T_MAP
} mcg_type;
/* What of it a tenant may set. */
typedef enum mcg_grant {
  MCG_GRANT_NONE,    /* nothing: of a list a selection, of a map all or nothing */
  MCG_GRANT_TIGHTER, /* a word that is no looser, see mcg_option_words */
  MCG_GRANT_FREE     /* anything: it is no part of the wall, as whose account it is */
} mcg_grant;
typedef struct mcg_option {
  const char *name; /* NULL ends the list */
  mcg_type type;
  const char *help;
  mcg_grant grant;
} mcg_option;

/* What a string option may be. */
typedef struct mcg_option_words {
  const char *option;       /* NULL ends the list */
  const char *const *words; /* NULL-terminated, at most 32; the first is the default */
  /* For each word those that are no looser, itself too: bit i for words[i]. Of MCG_GRANT_TIGHTER only. */
  const uint32_t *no_looser;
} mcg_option_words;

struct json_t;

/* What a backend charges, and the day that this was read from its price list. */
typedef struct mcg_rate {
  double usd_per_minute; /* of the usual size; 0 is free */
  const char *as_of;     /* "2026-11-01" */
} mcg_rate;

/* What a candidate is with its options, where that is more or other than its backend says. It comes
 * filled with that; see .traits of mcg_backend. */
typedef struct mcg_traits {
  mcg_isolation isolation;
  bool persistent; /* the workspace outlives the session without a store */
  const char *const
      *capabilities;           /* static, NULL-terminated; "pty" and those of the network are the
                                      engine's to add */
  unsigned networks;           /* MCG_GIVES(which) of each that a plan may ask for */
  const char *region;          /* of the options, or static; NULL: none is named */
  double memory_mb, cpu_count; /* the most it gives; 0: no bound is known */
} mcg_traits;
#define MCG_GIVES(network) (1u << (network))

/* What a session is to be, resolved and validated: built-in defaults, config and candidate merged. */
typedef struct mcg_plan {
  const char *session_id;       /* random, printable, safe in a path */
  const struct json_t *options; /* the candidate's own, checked against .options */
  mcg_limits limits;
  mcg_network network;   /* OPEN and RULES: init hands over the sockets of the gateway */
  bool redirect;         /* of these two: connections on any port must come to it */
  const char *authority; /* a certificate in PEM that programs inside are to believe in, or NULL */
  uint32_t authority_hash;       /* of its subject, as OpenSSL names files */
  bool best_effort;              /* relax what cannot be enforced, and record it */
  const char *working_directory; /* NULL: the backend's own */
  const char *project; /* host directory whose copy-on-write view is the workspace, or NULL */
  const mcg_bind *binds;
  size_t bind_count;
  mcg_carrier carrier;   /* forced to frames by tests; a backend with one carrier ignores it */
  const char *user;      /* who commands run as by default, or NULL */
  const mcg_user *users; /* none but where the traits name the capability "users" */
  size_t user_count;
} mcg_plan;

/* A place that was made. The session owns it until destroy. */
typedef struct mcg_place {
  int stream_fd; /* to init; the engine takes it */
  mcg_carrier carrier;
  const char *working_directory; /* owned by the place's state; as seen from inside */
  void *state;                   /* the backend's own */
} mcg_place;

/* The sockets of a gateway in a sandbox's network, non-blocking; -1 where there is none. `stub_tcp` and
 * `redirected` listen; with a redirect every TCP connection to another address than loopback's comes
 * there, names' included. `refused` sees what the kernel refuses. */
typedef struct mcg_gateway_sockets {
  int stub_udp, stub_tcp, refused, redirected[2]; /* IPv4, IPv6 */
} mcg_gateway_sockets;

struct mcg_backend {
  const char *id; /* "jail": the error tag, the log tag and the Lua name */
  mcg_family family;
  mcg_isolation isolation;
  const mcg_option *options;
  const mcg_option_words *words; /* of those options that are one of a few; or NULL */
  int (*create)(mcg_session *session, const mcg_plan *plan, mcg_place *out,
                mcg_error **err) MCG_PARKS;
  /* Kills whatever lives there, waits, frees. Called exactly once for a place that was made. */
  int (*destroy)(mcg_session *session, mcg_place *place, mcg_error **err) MCG_PARKS;
  /* Fills an object with the figures of mcg_session_stats. */
  int (*stats)(mcg_session *session, mcg_place *place, struct json_t *out,
               mcg_error **err) MCG_PARKS;

  /* ---- for selection */
  const mcg_rate *rate; /* NULL: unpriced */
  /* Says more of a candidate from its options, which were checked. NULL: networks are none and the
   * host's, nothing else is special. */
  void (*traits)(const struct json_t *options, mcg_traits *traits);

  /* A gateway for a place that was made with MCG_NETWORK_NONE and the direct carrier: its sockets, the
   * caller's. `of_network` is a socket in the place's network, and stays the caller's. */
  int (*gateway)(mcg_session *session, mcg_place *place, int of_network, bool redirect,
                 mcg_gateway_sockets *out, mcg_error **err) MCG_PARKS;
};

/* ---- services ----------------------------------------------------------------------------- */

mcg_engine *mcg_session_engine(const mcg_session *session);
/* Records in session.enforcement what is in force for a mechanism, e.g. ("memory", "cgroup v1"). */
void mcg_session_enforce(mcg_session *session, const char *mechanism, const char *value);
/* Stands on the session and goes to the log at level warning. */
void mcg_session_warn(mcg_session *session, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* What the place as a whole has used, at its end: escaped and killed processes included. */
void mcg_session_used(mcg_session *session, uint64_t cpu_us, uint64_t peak_bytes);
void mcg_log(mcg_engine *engine, mcg_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Sets *err once and returns -1. `fix` may be NULL. */
int mcg_fail(mcg_error **err, mcg_code code, const char *fix, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Puts context before the message of an error that is there; keeps its code. Returns -1. */
int mcg_wrap(mcg_error **err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* From errno: ENOENT not_found, EACCES/EPERM unauthorized, EMFILE/ENFILE/EAGAIN/ENOSPC quota,
 * ENOMEM nomem, others internal. Message ends with strerror's text. Returns -1. */
int mcg_fail_errno(mcg_error **err, int number, const char *fix, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Release on leaving scope; steal to keep. */
#define auto_free __attribute__((cleanup(mcg_cleanup_free)))
#define auto_fd __attribute__((cleanup(mcg_cleanup_fd)))
#define auto_file __attribute__((cleanup(mcg_cleanup_file)))
#define auto_error __attribute__((cleanup(mcg_cleanup_error)))
#define auto_json __attribute__((cleanup(mcg_cleanup_json)))
static inline void mcg_cleanup_free(void *p)
{
  free(*(void **)p);
}
static inline void mcg_cleanup_fd(int *fd)
{
  if (*fd >= 0) close(*fd);
}
static inline void mcg_cleanup_file(FILE **file)
{
  if (*file) fclose(*file);
}
static inline void mcg_cleanup_error(mcg_error **error)
{
  mcg_error_free(*error);
}
void mcg_cleanup_json(struct json_t **json);
static inline void *mcg_steal_pointer(void *p)
{
  void *taken = *(void **)p;
  *(void **)p = NULL;
  return taken;
}
static inline int mcg_steal_fd(int *fd)
{
  int taken = *fd;
  *fd = -1;
  return taken;
}
/* printf into fresh memory; NULL when there is none. */
char *mcg_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The fix for a word that is none of the NULL-terminated `names`: the nearest, else all of them. Fresh. */
char *mcg_names_fix(const char *word, const char *const *names);

/* Options of a candidate; NULL or 0 when absent (types were checked before). */
const char *mcg_option_string(const mcg_plan *plan, const char *name);
bool mcg_option_bool(const mcg_plan *plan, const char *name);

#endif
