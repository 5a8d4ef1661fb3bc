/* mooncage.h: what a C host sees of Mooncage. Lua's binding is the first client of this contract.
 *
 * Every waiting operation is started by a call that returns at once: 0 when it was started, -1 with
 * `*err` set when it was refused. A started operation completes exactly once, through its callback,
 * from the loop and never from inside the call that started it. Callbacks may start further
 * operations. One thread owns an engine and everything that hangs off it; there are no locks.
 *
 * The library never exits, prints, forks, or changes signals, cwd, locale, umask or rlimits.
 * Nothing here is global: two engines in one process do not know of each other. */
#ifndef MOONCAGE_H
#define MOONCAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MCG_VERSION "0.1.0"

#if defined(__GNUC__)
#define MCG_API __attribute__((visibility("default")))
#else
#define MCG_API
#endif

/* ---- errors ------------------------------------------------------------------------------- */

/* Every code there is, with its name in Lua, JSON and messages. Codes are a contract. */
#define MCG_CODES(X)                                                                               \
  X(INVALID, "invalid")                                                                            \
  X(UNSUPPORTED, "unsupported")                                                                    \
  X(UNENFORCEABLE, "unenforceable")                                                                \
  X(TOOL_NOT_ALLOWED, "tool_not_allowed")                                                          \
  X(COMMAND_DENIED, "command_denied")                                                              \
  X(NO_CANDIDATE, "no_candidate")                                                                  \
  X(NOT_FOUND, "not_found")                                                                        \
  X(CONFLICT, "conflict")                                                                          \
  X(QUOTA, "quota")                                                                                \
  X(TIMEOUT, "timeout")                                                                            \
  X(CANCELED, "canceled")                                                                          \
  X(UNAVAILABLE, "unavailable")                                                                    \
  X(PROTOCOL, "protocol")                                                                          \
  X(UNAUTHORIZED, "unauthorized")                                                                  \
  X(SNAPSHOT_UNSUPPORTED, "snapshot_unsupported")                                                  \
  X(SNAPSHOT_MISMATCH, "snapshot_mismatch")                                                        \
  X(ARCHIVE_UNSAFE, "archive_unsafe")                                                              \
  X(AUDIT_FAILED, "audit_failed")                                                                  \
  X(NOMEM, "nomem")                                                                                \
  X(INTERNAL, "internal")

typedef enum mcg_code {
#define MCG_CODE_ENUM(name, text) MCG_##name,
  MCG_CODES(MCG_CODE_ENUM)
#undef MCG_CODE_ENUM
} mcg_code;

typedef struct mcg_error mcg_error;
struct mcg_error {
  mcg_code code;       /* stable: switch on this, never on the message */
  bool retryable;      /* the same call, repeated as is, may succeed */
  const char *backend; /* static name; NULL when the engine itself failed */
  char *message;       /* owned; one line, lower case, no full stop, never a secret */
  char *fix;           /* owned; what to do about it; may be NULL */
  mcg_error *cause;    /* owned; NULL at the root */
};

MCG_API const char *mcg_code_name(mcg_code code);
/* For a host that has to report one. Control bytes are escaped; `fix` may be NULL. Never NULL. */
MCG_API mcg_error *mcg_error_new(mcg_code code, const char *message, const char *fix);
MCG_API void mcg_error_free(mcg_error *error); /* and its causes; NULL is fine */

/* ---- engine ------------------------------------------------------------------------------- */

typedef struct mcg_engine mcg_engine;
typedef struct mcg_session mcg_session;
typedef struct mcg_exec mcg_exec;
typedef struct mcg_backend mcg_backend; /* <mooncage/backend.h> */
struct uv_loop_s;

/* A started operation. Valid until its completion has run, and not a moment longer. */
typedef struct mcg_op mcg_op;

typedef enum mcg_log_level {
  MCG_LOG_DEBUG,
  MCG_LOG_INFO,
  MCG_LOG_WARNING,
  MCG_LOG_ERROR
} mcg_log_level;

typedef struct mcg_engine_options {
  size_t size;            /* sizeof(mcg_engine_options) */
  struct uv_loop_s *loop; /* borrowed, must outlive the engine; NULL: the engine has its own */
  const char *init_path; /* the mooncage-init executable; NULL: $MOONCAGE_INIT, else as installed */
  unsigned max_waits;    /* operations under way at once; beyond: `quota`; 0: 16000 */
  void (*on_log)(void *data, mcg_log_level level, const char *message); /* NULL: nothing is said */
  void *data;                                                           /* handed to on_log */
  bool
      no_stderr; /* standard error was closed, and something else is in its place: no audit log there */
} mcg_engine_options;

/* Completion callbacks. `error` is NULL on success; else the receiver owns it (mcg_error_free). */
typedef void (*mcg_done)(void *data, mcg_error *error);
typedef void (*mcg_text_done)(void *data, const char *json, mcg_error *error);
typedef void (*mcg_bytes_done)(void *data, const void *bytes, size_t len, mcg_error *error);

/* `options` may be NULL. The backends built into the library are there from the start. */
MCG_API int mcg_engine_new(const mcg_engine_options *options, mcg_engine **out, mcg_error **err);
/* Adds a backend of the host's own; it must outlive the engine. An id that is taken: `conflict`. */
MCG_API int mcg_engine_add_backend(mcg_engine *engine, const mcg_backend *backend, mcg_error **err);
/* Starts what the first sandbox will need while the host does other things. Never necessary: a
 * failure is met again, and told, by the first session. */
MCG_API void mcg_engine_warm(mcg_engine *engine);
/* Cancels what runs, closes every session, then completes; after that only mcg_engine_free. With
 * `audit_failed` where lines of an audit log could not be written to the last. */
MCG_API int mcg_engine_close(mcg_engine *engine, mcg_done done, void *data, mcg_error **err);
/* Are there lines of an audit log that are not written, or were lost? A host that leaves without
 * mcg_engine_close loses them, and nobody says so. */
MCG_API bool mcg_engine_owes(const mcg_engine *engine);
/* Only after the completion of mcg_engine_close, or in it; in it an engine with a loop of its own only
 * where mcg_engine_turn turns that. A host that must leave at once may skip both: the spawner process
 * notices and cleans up within two seconds. NULL is fine. */
MCG_API void mcg_engine_free(mcg_engine *engine);

/* What backends there are, as a JSON object: {"jail":{"family":"local","isolation":"namespace",
 * "persistent":false,"capabilities":{"pty":true},"options":[{"name","type","help",
 * "tenant":"nothing"|"tighter"|"anything"}]}}; with a price also "cost":{"usd_per_minute","as_of"}. The
 * caller frees the text with free(). NULL: no memory. */
MCG_API char *mcg_engine_backends(const mcg_engine *engine);
/* A value that must not be shown: the audit log, log lines and errors have *** in its place, wherever it
 * occurs, and where it occurs in hexadecimal, base64, percent-encoded, in JSON, or in small or large
 * letters. It is copied, and wiped with the engine. */
MCG_API int mcg_engine_secret(mcg_engine *engine, const void *bytes, size_t len, mcg_error **err);
/* The text with *** in their place, for what a host says itself. Free with free(). NULL: no memory. */
MCG_API char *mcg_engine_redact(const mcg_engine *engine, const char *text);
/* The nearest of the NULL-terminated names within edit distance 3, or NULL: for "did you mean". */
MCG_API const char *mcg_nearest(const char *word, const char *const *names);

/* The configuration as a session would have it, or what is wrong with it; nothing is opened. A JSON
 * object of what is in force where nothing was written, too: limits, network, enforcement. It holds
 * none of the configuration's values. Free with free(). */
MCG_API char *mcg_config_resolve(mcg_engine *engine, const char *config, size_t len,
                                 mcg_error **err);
/* What the network of a configuration would do with one connection; nothing is opened or looked up.
 * The request: {"config":{"network":...},"target":"HOST:PORT"}, with "address" as if the name were at
 * that one, with "tenant" and "overrides" as what a tenant makes of the configuration. The answer:
 * {"allowed","by","rule","index","reason","target":{"name","address","port"}}, and "sni",
 * "terminate_tls" and "headers" (names) where the rule has them. Free with free(). */
MCG_API char *mcg_network_explain(mcg_engine *engine, const char *request, size_t len,
                                  mcg_error **err);
/* SHA-256 of the bytes as 64 lower-case hexadecimal digits. Without libcrypto: `unavailable`. */
MCG_API int mcg_sha256_hex(const void *bytes, size_t len, char out[65], mcg_error **err);

/* A foreign loop polls the descriptor for reading for at most the timeout (ms, -1: for ever), then
 * turns. Ask for the timeout again after every call into the engine. */
MCG_API int mcg_engine_fd(const mcg_engine *engine);
MCG_API int mcg_engine_timeout(const mcg_engine *engine);
/* > 0: more to do at once or later. -1: called from a callback, and nothing was done. */
MCG_API int mcg_engine_turn(mcg_engine *engine);
MCG_API struct uv_loop_s *mcg_engine_loop(mcg_engine *engine);

/* Ends an operation early. Its completion still comes exactly once, with `canceled` unless it had
 * already finished. */
MCG_API void mcg_op_cancel(mcg_op *op);

/* Completes after `ms` milliseconds. `op` may be NULL here and everywhere. */
MCG_API int mcg_sleep(mcg_engine *engine, int64_t ms, mcg_done done, void *data, mcg_op **op,
                      mcg_error **err);

/* ---- choosing among candidates ------------------------------------------------------------ */

typedef enum mcg_family { MCG_LOCAL, MCG_HOSTED } mcg_family;

/* In order of strength; a requirement is met by itself and all after it. */
typedef enum mcg_isolation {
  MCG_ISOLATION_NONE,
  MCG_ISOLATION_NAMESPACE,
  MCG_ISOLATION_CONTAINER,
  MCG_ISOLATION_GVISOR,
  MCG_ISOLATION_VM
} mcg_isolation;

/* What is known of one candidate. What is NULL or 0 is not known, and not there. */
typedef struct mcg_facts {
  size_t size; /* sizeof(mcg_facts) */
  const char *name, *backend;
  mcg_family family;
  mcg_isolation isolation;
  bool priced;           /* usd_per_minute is known; 0 is free */
  double usd_per_minute; /* not negative */
  bool persistent;       /* the workspace outlives the session without a store */
  /* Names, NULL-terminated. Three of them answer requirements of their own: "network" (commands
   * reach the network), "network_denied" (they run without), "pty". */
  const char *const *capabilities;
  const char *region;
  double memory_mb, cpu_count;     /* the most it gives; 0: no bound is known */
  unsigned sessions, max_sessions; /* that run, that may run; 0: no bound */
} mcg_facts;

/* Facts of many candidates, copied and laid out for matching; to be used any number of times. */
typedef struct mcg_candidates mcg_candidates;
MCG_API int mcg_candidates_new(const mcg_facts *facts, size_t count, mcg_candidates **out,
                               mcg_error **err);
MCG_API void mcg_candidates_free(mcg_candidates *candidates); /* NULL is fine */

/* What a sandbox must be, from the JSON object of docs/config.md: network, persistent, capabilities,
 * min_isolation, memory_mb, cpu_count, pty, region, max_usd_per_minute, backends, not_backends. */
typedef struct mcg_requirements mcg_requirements;
MCG_API int mcg_requirements_new(const char *json, size_t len, mcg_requirements **out,
                                 mcg_error **err);
MCG_API void mcg_requirements_free(mcg_requirements *requirements); /* NULL is fine */

/* Where candidates without a price stand: after the priced ones, before them, nowhere. */
typedef enum mcg_unpriced {
  MCG_UNPRICED_LAST,
  MCG_UNPRICED_FIRST,
  MCG_UNPRICED_REJECT
} mcg_unpriced;

typedef struct mcg_ranking {
  size_t count;            /* of those that fit */
  const uint32_t *order;   /* their indexes: by price, the given order where that is the same */
  const uint8_t *verdicts; /* one for each candidate; 0: it fits */
} mcg_ranking;

/* Judges every candidate and orders those that fit. Does not wait; `requirements` may be NULL. */
MCG_API int mcg_rank(const mcg_candidates *candidates, const mcg_requirements *requirements,
                     mcg_unpriced unpriced, mcg_ranking **out, mcg_error **err);
MCG_API void mcg_ranking_free(mcg_ranking *ranking); /* NULL is fine */
/* Why the candidate at `index` fits or does not, in a few words. Free with free(); NULL: no memory. */
MCG_API char *mcg_ranking_reason(const mcg_ranking *ranking, const mcg_candidates *candidates,
                                 const mcg_requirements *requirements, size_t index);

/* ---- sessions ----------------------------------------------------------------------------- */

/* `session` is NULL on error. The receiver owns one reference. */
typedef void (*mcg_session_done)(void *data, mcg_session *session, mcg_error *error);

/* Opens a sandbox. `config` is one JSON object with the keys of docs/config.md that hold data
 * (functions stay with the host), for instance
 *   {"backend":{"id":"jail","options":{"profile":"default"}},"limits":{"memory_mb":256}}
 * Bytes that are not UTF-8 are written {"base64":"..."}. It is copied. Unknown keys, wrong types:
 * `invalid`, refused at once. */
MCG_API int mcg_session_open(mcg_engine *engine, const char *config, size_t len,
                             mcg_session_done done, void *data, mcg_op **op, mcg_error **err);

/* What the engine asks its host while it opens and uses a session: the policies of the host. Question
 * and answer are JSON objects; whatever is no good answer denies.
 *   SELECT     {"candidates":[facts],"numbers":[1,2],"requirements":{}}
 *              {"order":[2,1],"reason"}; an empty order, or none: nobody, and why
 *   TENANT     {"tenant":id or null,"key":what may name it in a path, or null}
 *              {"overrides":{as docs/tenants.md says}}, or {"denied":why}
 *   GUARDRAIL  {"command":{"argv" or "shell","words","tool","cwd","env_names","has_stdin","pty"},
 *              "spend":{"session","run","tenant": {"minutes","usd","unpriced"}}}
 *              {"allow":bool,"reason","rule","warn"}, {"ask":true,"reason","rule"} or
 *              {"rewrite":[argv],"reason","rule"}
 *   CONFIRM    {"command","reason","rule"}; {"allow":bool,"reason"}
 *   HOOK       {"hook":its name, and what that one tells: "command","exec","result","usage"}; nothing
 *   EVENT      {"line":one event of the audit log}; nothing, when it is kept */
typedef enum mcg_ask_kind {
  MCG_ASK_SELECT = 1 << 0,    /* which candidate? */
  MCG_ASK_TENANT = 1 << 1,    /* what does this tenant get? */
  MCG_ASK_GUARDRAIL = 1 << 2, /* may this command run? */
  MCG_ASK_CONFIRM = 1 << 3,   /* the guardrail said "ask": yes or no? */
  MCG_ASK_HOOK = 1 << 4,      /* something happened; the json has its "hook" */
  MCG_ASK_EVENT = 1 << 5      /* an audit event for a sink of the host's own */
} mcg_ask_kind;
typedef struct mcg_question mcg_question;
typedef struct mcg_deciders {
  size_t size;   /* sizeof(mcg_deciders) */
  unsigned asks; /* the kinds that the host answers; of the others nothing is asked */
  void *data;    /* handed to the functions below */
  /* From the loop. `json` is borrowed. The host answers exactly once, in it or at any later time. */
  void (*on_question)(void *data, unsigned kind, const char *json, mcg_question *question);
  /* Nobody waits for the answer any more (the command was canceled, a hook took too long): the host
   * may stop finding it, and must still answer. May be NULL. */
  void (*on_abandoned)(void *data, mcg_question *question);
  /* The session is closed and every question answered: nothing of this is used again. May be NULL. */
  void (*on_release)(void *data);
  bool parsed; /* on_question is given no text: it reads mcg_question_json */
} mcg_deciders;

/* mcg_session_open with a host that answers; `deciders` is copied, and may be NULL. When it is refused
 * at once (-1) on_release is not called. */
MCG_API int mcg_session_open_with(mcg_engine *engine, const char *config, size_t len,
                                  const mcg_deciders *deciders, mcg_session_done done, void *data,
                                  mcg_op **op, mcg_error **err);
/* The session that it is about, borrowed while the question is open; NULL when there is none (any
 * more). A hook that closes its own session answers first: the close waits for the command. */
MCG_API mcg_session *mcg_question_session(const mcg_question *question);
/* What is asked, for hosts that use jansson: a json_t, borrowed until it is answered. NULL: no memory. */
struct json_t;
MCG_API const struct json_t *mcg_question_json(const mcg_question *question);
/* The same of a command, for hosts that make a value of their own of it: borrowed until on_question
 * returns, and NULL from then on, and for a question of no command. */
typedef struct mcg_told mcg_told;
MCG_API const mcg_told *mcg_question_told(const mcg_question *question);
/* `json` is one object, or NULL where there is nothing to say. It is copied. */
MCG_API void mcg_answer(mcg_question *question, const char *json);
/* The same for hosts that use jansson: takes the object, which nobody else may have; or NULL. */
MCG_API void mcg_answer_json(mcg_question *question, struct json_t *take_answer);
MCG_API void mcg_answer_error(mcg_question *question, mcg_error *take_error);

/* Chooses as mcg_session_open_with would, and opens nothing. Completes with one JSON object:
 * {"chosen": 2, "order": [2, 1], "candidates": [{"name", "backend", "fits", "reason", ...}],
 *  "reason"}; numbers from 1. Where nobody can be chosen there is no "chosen", but an "error". */
MCG_API int mcg_select(mcg_engine *engine, const char *config, size_t len,
                       const mcg_deciders *deciders, mcg_text_done done, void *data, mcg_op **op,
                       mcg_error **err);
/* Takes up a session that a keeper holds, from the text of mcg_session_state. */
MCG_API int mcg_session_resume(mcg_engine *engine, const char *state, size_t len,
                               mcg_session_done done, void *data, mcg_op **op, mcg_error **err);
/* The same with a host that answers; `config` is one JSON object of "hooks", "hook_timeout_s", "tools",
 * "allowed_tools" and "guardrail", or NULL. What the session was made with still holds: one that has a
 * guardrail runs nothing for a host without. */
MCG_API int mcg_session_resume_with(mcg_engine *engine, const char *state, size_t len,
                                    const char *config, const mcg_deciders *deciders,
                                    mcg_session_done done, void *data, mcg_op **op,
                                    mcg_error **err);
/* Completes when no process of the sandbox lives; idempotent: every call gets a completion. A
 * resumed session is let go of, its sandbox stays with the keeper; mcg_session_stop ends it there. */
MCG_API int mcg_session_close(mcg_session *session, mcg_done done, void *data, mcg_error **err);
/* Ends the sandbox itself, also through a keeper. */
MCG_API int mcg_session_stop(mcg_session *session, mcg_done done, void *data, mcg_error **err);
/* Serve this session to other engines of the same user on `path`, a unix socket (0700 directory,
 * peer uid checked) until it is closed. */
MCG_API int mcg_session_keep(mcg_session *session, const char *path, mcg_error **err);
MCG_API mcg_session *mcg_session_ref(mcg_session *session);
/* The last reference to a session that was not closed logs a leak and queues its end. */
MCG_API void mcg_session_unref(mcg_session *session);

/* Facts, as a JSON object: id, backend, name, labels, tenant, created_at, enforcement (mechanism ->
 * what is in force), warnings, working_directory, state. The caller frees the text with free(). */
MCG_API char *mcg_session_info(const mcg_session *session);
/* What mcg_session_resume needs, as JSON without secrets; NULL and `unsupported` where the session
 * has no keeper. Free with free(). */
MCG_API char *mcg_session_state(const mcg_session *session, mcg_error **err);
/* started_at, wall_clock_s, exec_count, exec_s, cpu_s, max_rss_mb ... as JSON. Free with free(). */
MCG_API char *mcg_session_usage(const mcg_session *session);
/* Live figures: memory_bytes, memory_peak_bytes, pids, cpu_s, oom_kills, disk_used_bytes ... */
MCG_API int mcg_session_stats(mcg_session *session, mcg_text_done done, void *data,
                              mcg_error **err);
/* [{pid, ppid, uid, state, command, rss_bytes}] as seen from inside. */
MCG_API int mcg_session_processes(mcg_session *session, mcg_text_done done, void *data,
                                  mcg_error **err);

/* Another network policy: the value of the key `network` as JSON ("none", "open" or a table; "host":
 * `invalid`). New connections are judged by it at once, and those that it does not allow are cut.
 * Completes when what it listens on is there. A session that was opened with "none" is given its way out
 * then. The host's network, or a backend without networks: `unsupported`; more ports than the gateway was
 * made for, or TLS that ends there in a session that was opened without: `unenforceable`; a program inside
 * listens on port 53, or another change is under way: `conflict`. A tenant's session never reaches what it
 * could not when it was opened: the policy lies within that one. */
MCG_API int mcg_session_set_network(mcg_session *session, const char *network, size_t len,
                                    mcg_done done, void *data, mcg_error **err);
/* The last thousand connections and refusals as a JSON list, oldest first: [{"at","protocol","name",
 * "address","port","allowed","rule","reason","bytes_in","bytes_out","duration_s","ended",
 * "open"}]; what does not apply
 * is left out. Also of a session that is closed. */
MCG_API int mcg_session_network_log(mcg_session *session, mcg_text_done done, void *data,
                                    mcg_error **err);

/* A port of the sandbox for the host: connections to the returned URL go on to `port` inside, on its
 * loopback, until the session is closed. Where nobody listens inside, the client's connection is reset.
 * Any user of the host can reach a port of its loopback; a unix socket only this one. */
typedef struct mcg_expose_spec {
  size_t size;        /* sizeof(mcg_expose_spec) */
  uint16_t port;      /* inside */
  uint16_t host_port; /* of 127.0.0.1; 0: one that is free. One that is taken: `conflict` */
  const char
      *path; /* instead: a unix socket, absolute, in a directory of mode 0700 of this user's */
  uint32_t connections; /* at once; 0: 64. One more is reset */
  uint64_t idle_ms;     /* a connection on which nothing moves for so long is cut; 0: 60000 */
} mcg_expose_spec;
/* The text is the URL, "http://127.0.0.1:PORT" or "unix:PATH". A session on the host's own network, or
 * with the framed carrier: `unsupported`. */
MCG_API int mcg_session_expose(mcg_session *session, const mcg_expose_spec *spec,
                               mcg_text_done done, void *data, mcg_op **op, mcg_error **err);

/* ---- commands ----------------------------------------------------------------------------- */

typedef enum mcg_stdin {
  MCG_STDIN_EMPTY, /* end of file at once */
  MCG_STDIN_DATA,  /* stdin_data, then end of file */
  MCG_STDIN_PIPE   /* mcg_exec_write, until mcg_exec_close_stdin */
} mcg_stdin;

#define MCG_CAPTURE_DEFAULT ((size_t)1 << 20)
#define MCG_CAPTURE_NONE SIZE_MAX

typedef struct mcg_exec_spec {
  size_t size;             /* sizeof(mcg_exec_spec) */
  const char *const *argv; /* NULL-terminated; or */
  const char *shell;       /* text for /bin/sh -c: exactly one of the two */
  const char *cwd;         /* NULL: the session's; relative paths start there */
  const char *const *env;  /* NULL-terminated "NAME=value", over the session's; may be NULL */
  const char *user;        /* NULL: the session's */
  int64_t timeout_ms;      /* 0: none. Then the whole tree of this command is killed */
  size_t max_output; /* bytes kept of each stream, head and tail; 0: 1 MiB; MCG_CAPTURE_NONE */
  mcg_stdin stdin_mode;
  const void *stdin_data; /* copied */
  size_t stdin_len;
  bool pty;            /* stdout carries the terminal, stderr is empty */
  uint16_t cols, rows; /* of the PTY; 0: 80 x 24 */
  bool detach;         /* completes once started; the command lives on with the session */
  const char *tool;    /* what it counts as for allowed_tools; NULL: "shell" */
  bool quiet;          /* no hook is told: for commands of hooks */
} mcg_exec_spec;

/* Everything in it is borrowed and gone when on_done returns. */
typedef struct mcg_result {
  int exit_code;           /* -1 when a signal ended it; 127 with not_found */
  const char *signal;      /* "SIGTERM", or NULL */
  const char *start_error; /* why the program could not be started ("Permission denied"), where it
                            * could not: exit_code is 126 then, or 127; else NULL */
  const char *stdout_data;
  size_t stdout_len;     /* kept */
  uint64_t stdout_bytes; /* written by the command */
  bool stdout_truncated;
  const char *stderr_data;
  size_t stderr_len;
  uint64_t stderr_bytes;
  bool stderr_truncated;
  bool timed_out, oom_killed, not_found;
  bool detached; /* it was started with detach: exit_code is -1 and pid tells it */
  int pid;       /* as seen from inside */
  double duration_s, cpu_s, max_rss_mb;
} mcg_result;

/* What GUARDRAIL, CONFIRM and HOOK questions tell of a command: what mcg_question_json has, as C has it. */
typedef struct mcg_spent {
  double minutes, usd;
  bool unpriced; /* some of it has no price */
} mcg_spent;
struct mcg_told {
  const char *hook; /* its name, or NULL: what is asked is no hook */
  const char *id;   /* of the command, for a hook */
  const mcg_exec_spec *spec;
  const struct json_t *words;    /* lists: of spec->shell, NULL where they cannot be told; */
  const struct json_t *commands; /* NULL: argv is the only one, or the text is */
  const char *unclear;           /* for this reason; or NULL */
  const mcg_result *result;      /* for the hook at its end: one of the two */
  const mcg_error *error;
  const mcg_spent *session, *run, *tenant; /* for no hook; NULL: it is of no run, for no tenant */
  const char *reason, *rule;               /* for CONFIRM; or NULL */
};

typedef struct mcg_exec_events {
  /* Once the program runs; `pid` as seen from inside. May be NULL. */
  void (*on_started)(void *data, int pid);
  /* Bytes of stream 1 or 2 in order, borrowed. False pauses that stream until mcg_exec_resume. */
  bool (*on_output)(void *data, int stream, const void *bytes, size_t len);
  /* Exactly once. Exactly one of result and error is set; the receiver owns the error. */
  void (*on_done)(void *data, const mcg_result *result, mcg_error *error);
} mcg_exec_events;

/* NUL cannot be said in argv or env of C strings; '=' must be in env. A program that is missing or
 * cannot run, a time-out, a signal are results. `out` may be NULL, is valid until on_done returns. */
MCG_API int mcg_exec_start(mcg_session *session, const mcg_exec_spec *spec,
                           const mcg_exec_events *events, void *data, mcg_exec **out,
                           mcg_error **err);
/* Copies; completes when the sandbox has taken the bytes (back-pressure). After the command closed
 * its stdin: `unavailable`. */
MCG_API int mcg_exec_write(mcg_exec *exec, const void *bytes, size_t len, mcg_done done, void *data,
                           mcg_error **err);
/* What has to come before it (guardrail, hook) is not over: the sandbox has not got it yet. */
MCG_API bool mcg_exec_waits(const mcg_exec *exec);
MCG_API void mcg_exec_close_stdin(mcg_exec *exec); /* after what was written */
MCG_API void mcg_exec_resume(mcg_exec *exec, int stream);
/* "SIGTERM", "TERM" or "15", to the command's process (its process group under a PTY). */
MCG_API int mcg_exec_signal(mcg_exec *exec, const char *name, mcg_error **err);
MCG_API int mcg_exec_resize(mcg_exec *exec, uint16_t cols, uint16_t rows, mcg_error **err);
/* Kills the command's whole tree; on_done then gets `canceled`. */
MCG_API void mcg_exec_cancel(mcg_exec *exec);

/* A tool that the host itself carries out: session:call_tool of Lua. Completes when it may begin:
 * `tool_not_allowed` else. `path` is for the log, or NULL; `on_host`: it leaves the sandbox, which is in
 * the log too. The receiver ends it with mcg_tool_finish, once. */
typedef struct mcg_tool mcg_tool;
typedef void (*mcg_tool_done)(void *data, mcg_tool *tool, mcg_error *error);
MCG_API int mcg_tool_start(mcg_session *session, const char *name, const char *path, bool on_host,
                           mcg_tool_done done, void *data, mcg_op **op, mcg_error **err);
MCG_API void mcg_tool_finish(mcg_tool *tool, mcg_error *take_error); /* NULL: it went well */

/* The words that /bin/sh would make of a text that is one simple command of plain words, as a JSON list
 * (free with free()); NULL and `invalid` for every other text, with what makes it one. */
MCG_API char *mcg_shell_words(const char *text, size_t len, mcg_error **err);
/* Every simple command in a text for the shell, or that a list of arguments runs, as a JSON list (free
 * with free()); NULL and `invalid` for a text that is not understood, with why. docs/guard.md has the
 * fields. `lens` may be NULL. */
MCG_API char *mcg_shell_commands(const char *text, size_t len, mcg_error **err);
MCG_API char *mcg_argv_commands(const char *const *argv, const size_t *lens, size_t count,
                                mcg_error **err);

/* ---- files, as seen from inside ----------------------------------------------------------- */

typedef struct mcg_file_info {
  const char *name;   /* bytes, no '/'; for stat: as asked */
  const char *type;   /* "file", "directory", "symlink", "fifo", "socket", "char", "block" */
  const char *target; /* of a symlink, else NULL */
  uint64_t size;
  uint32_t mode; /* permission bits */
  uint32_t uid, gid;
  double mtime; /* seconds since 1970 */
} mcg_file_info;
typedef void (*mcg_files_done)(void *data, const mcg_file_info *files, size_t count,
                               mcg_error *error);

/* Paths are relative to the working directory, or absolute; one that leaves the workspace by "..":
 * `invalid`. A missing file: `not_found`. What is no regular file cannot be read: `invalid`. A file
 * of more than max_bytes (0: 1 GiB): `quota`. A mode of 0 is 0644, of a directory 0755. */
MCG_API int mcg_file_read(mcg_session *session, const char *path, uint64_t max_bytes,
                          mcg_bytes_done done, void *data, mcg_error **err);
MCG_API int mcg_file_write(mcg_session *session, const char *path, const void *bytes, size_t len,
                           uint32_t mode, mcg_done done, void *data, mcg_error **err);
MCG_API int mcg_file_list(mcg_session *session, const char *path, mcg_files_done done, void *data,
                          mcg_error **err);
MCG_API int mcg_file_stat(mcg_session *session, const char *path, mcg_files_done done, void *data,
                          mcg_error **err);
/* Parents are made too; a directory that is there is fine. */
MCG_API int mcg_file_mkdir(mcg_session *session, const char *path, uint32_t mode, mcg_done done,
                           void *data, mcg_error **err);
/* Recursive; never follows a link. */
MCG_API int mcg_file_remove(mcg_session *session, const char *path, mcg_done done, void *data,
                            mcg_error **err);
MCG_API int mcg_file_move(mcg_session *session, const char *from, const char *to, mcg_done done,
                          void *data, mcg_error **err);
/* Host files and directories. Host links are not followed; a link in the tree is refused. A target
 * that ends in '/' is the directory to put it in, under its own name. */
MCG_API int mcg_file_upload(mcg_session *session, const char *host_from, const char *to,
                            mcg_done done, void *data, mcg_op **op, mcg_error **err);
MCG_API int mcg_file_download(mcg_session *session, const char *from, const char *host_to,
                              mcg_done done, void *data, mcg_op **op, mcg_error **err);

/* The workspace as a tar stream, packed and unpacked inside the sandbox. `sink` takes bytes and
 * returns false to stop; `source` fills at most `cap` bytes, returns how many, 0 at the end, -1 to
 * stop. Both are called from the loop. An archive is restored whole, over what is there, or not at all:
 * `archive_unsafe` names the entry that is refused. */
MCG_API int mcg_workspace_persist(mcg_session *session,
                                  bool (*sink)(void *data, const void *bytes, size_t len),
                                  mcg_done done, void *data, mcg_op **op, mcg_error **err);
MCG_API int mcg_workspace_restore(mcg_session *session,
                                  long (*source)(void *data, void *buffer, size_t cap),
                                  mcg_done done, void *data, mcg_op **op, mcg_error **err);

/* ---- snapshots ---------------------------------------------------------------------------- */

/* A snapshot is the workspace of a session, kept in a store under an id: letters, digits, '.', '_' and
 * '-', 1 to 128 of them, the first a letter or digit. Its metadata is a JSON object: {"snapshot_id",
 * "version": counts up with each save of the id, "created_at": seconds since 1970, "size_bytes",
 * "sha256": of its data, "manifest_hash", "backend", "format": "tar", "file_count", "labels", "tenant",
 * "parent": "ID@VERSION" that the session had been restored from or saved as}; what does not apply is
 * null or absent. A session sees its tenant's part of a store and no other. docs/snapshots.md has more.
 *
 * Requests are JSON objects. "store" in them is the value of the key `snapshot_store`, such as
 * {"type":"file","dir":"/srv/snapshots"}; without it the session's, or the default one, is meant. What was
 * changed in a store since it was saved: `protocol`. Another's, or none of this id: `not_found`. */

/* {"id"?, "store"?, "exclude"?: [patterns], "quiet"?: no hook is told}. Packs the workspace, while commands
 * may run, and saves it: all of it, or what the id had before stays. Completes with the metadata, after
 * the hook on_sandbox_snapshot. A full disk, more than snapshot.max_mb: `quota`. */
MCG_API int mcg_session_snapshot(mcg_session *session, const char *request, size_t len,
                                 mcg_text_done done, void *data, mcg_op **op, mcg_error **err);
/* {"id"?, "store"?, "on_mismatch"?}. Verifies all of the snapshot; ends every command of the session, those of
 * others too; then replaces the workspace with it, all of it or nothing, and puts what is ephemeral of the
 * manifest in place. Until it is there the disk has to have room for the old and the new: else `quota`.
 * Completes with the metadata. Another manifest: `snapshot_mismatch`. A workspace that is the host's:
 * `snapshot_unsupported`. */
MCG_API int mcg_session_restore(mcg_session *session, const char *request, size_t len,
                                mcg_text_done done, void *data, mcg_op **op, mcg_error **err);
/* Another session of the same configuration, whose workspace is a copy of this one's as it is now, what is
 * ephemeral included. No store is needed. It is opened like any other (candidates are chosen, its tenant is
 * asked about, quotas hold, hooks are told), begins with no snapshot and leaves none. A workspace that is the host's:
 * `snapshot_unsupported`; a session that was taken up from a keeper: `unsupported`. */
MCG_API int mcg_session_fork(mcg_session *session, mcg_session_done done, void *data, mcg_op **op,
                             mcg_error **err);
/* What the session was for has failed: snapshot.save = "on_success" saves nothing when it closes. Without
 * this a session succeeds that is closed by its host, and did not end by itself. */
MCG_API void mcg_session_unsuccessful(mcg_session *session);

/* Without a session; "tenant" or "store_prefix" say whose part of the store, else that of sessions without
 * a tenant. {"call":"list","prefix"?}: a list of metadata by id; one that is damaged has "damaged": why.
 * {"call":"show","id"}: metadata. {"call":"exists","id"}: true or false. {"call":"delete","id"}: true.
 * {"call":"gc","dry_run"?}: {"removed":[names]} of what was left by saves that were cut short. */
MCG_API int mcg_store_ask(mcg_engine *engine, const char *request, size_t len, mcg_text_done done,
                          void *data, mcg_op **op, mcg_error **err);
/* {"id", "manifest_hash"?, "labels"?, and as above}: saves what `source` gives, as for
 * mcg_workspace_restore. Completes with the metadata. */
MCG_API int mcg_store_save(mcg_engine *engine, const char *request, size_t len,
                           long (*source)(void *data, void *buffer, size_t cap), mcg_text_done done,
                           void *data, mcg_op **op, mcg_error **err);
/* {"id", and as above}: verifies all of it, then gives it to `sink`, which returns false to stop. Completes
 * with the metadata. */
MCG_API int mcg_store_load(mcg_engine *engine, const char *request, size_t len,
                           bool (*sink)(void *data, const void *bytes, size_t len),
                           mcg_text_done done, void *data, mcg_op **op, mcg_error **err);

/* ---- the project view --------------------------------------------------------------------- */

/* What a session opened with "project" has changed: {"changes":[{"op":"A|M|D","path":...,"kind":...,
 * "old_size":n,"new_size":n}],"diff":"unified text"}. Unmounts nothing. */
MCG_API int mcg_project_diff(mcg_session *session, mcg_text_done done, void *data, mcg_error **err);
/* Ends every process of the session, then writes the changes beneath the project directory and
 * nowhere else. A file that changed on the host meanwhile: `conflict`, and nothing is written.
 * `options` is JSON: {"git":true} lets it write under .git. The session is closed afterwards; one that
 * was resumed ends with its keeper, unless the changes were refused: then it stays as it is. */
MCG_API int mcg_project_apply(mcg_session *session, const char *options, mcg_text_done done,
                              void *data, mcg_error **err);

/* ---- the machine -------------------------------------------------------------------------- */

/* Tries each mechanism: {"version":1,"ok","machine":{...},"checks":[{"name","state","ok","needed","detail",
 * "costs","fix"}],"backends":[...]}; `ok`: all is there that the default sandbox needs. Waits for
 * processes that it starts. */
MCG_API int mcg_doctor(mcg_engine *engine, mcg_text_done done, void *data, mcg_error **err);
/* Removes what engines that no longer live have left: {"removed":[{"kind","name"}]}. */
MCG_API int mcg_reap(mcg_engine *engine, bool dry_run, mcg_text_done done, void *data,
                     mcg_error **err);

/* ---- the audit log ------------------------------------------------------------------------ */

/* Are logs what was written? `request` is {"paths":[files or directories],"hmac_key":...}. Completes with
 * {"ok":bool,"files":[{file, ok, lines, first_seq, last_seq, anchor, problems:[{line, seq, kind,
 * message}], notes:[{line, message}]}]}. */
MCG_API int mcg_audit_verify(mcg_engine *engine, const char *request, size_t len,
                             mcg_text_done done, void *data, mcg_error **err);

#ifdef __cplusplus
}
#endif
#endif
