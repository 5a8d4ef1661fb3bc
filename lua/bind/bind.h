/* bind.h: what the files of the Lua binding share: the host of one Lua state, tasks, waiting.
 *
 * One host per Lua state holds the loop, the engine and the tasks. Lua is entered from the loop in
 * two ways only: mcg_lua_call (a callback, which must not wait) and the ready queue (a task goes on).
 * A waiting method is always: check the arguments, mcg_lua_enter, start, mcg_lua_wait. */
#ifndef MCG_LUA_BIND_H
#define MCG_LUA_BIND_H

#include <lauxlib.h>
#include <lua.h>
#include <mooncage/mooncage.h>
#include <uv.h>

#define MCG_LUA_SESSION "mooncage.session"
#define MCG_LUA_PROCESS "mooncage.process"
#define MCG_LUA_TASK "mooncage.task"
#define MCG_LUA_SECRET "mooncage.secret"
#define MCG_LUA_ERROR "mooncage.error"
#define MCG_LUA_ARRAY "mooncage.array"
#define MCG_LUA_EXPLANATION "mooncage.explanation"
#define MCG_LUA_TOOL "mooncage.tool"
#define MCG_LUA_STRANGER "mooncage.stranger"

typedef struct mcg_lua mcg_lua;
typedef struct mcg_task mcg_task;

typedef enum mcg_task_state {
  MCG_TASK_READY, /* in the ready queue, or not yet begun */
  MCG_TASK_RUNNING,
  MCG_TASK_WAITING, /* some operation owns the wake-up */
  MCG_TASK_DONE,    /* its values are on its stack */
  MCG_TASK_FAILED   /* it threw: one error table is on its stack */
} mcg_task_state;

/* A coroutine that the loop resumes. The block of a userdata; live ones are anchored by the host. */
struct mcg_task {
  mcg_lua *host;
  lua_State *L;            /* of the one outside all tasks: a thread that only holds results */
  mcg_task *next;          /* in the ready queue */
  mcg_task *older, *newer; /* among the live ones */
  mcg_task_state state;
  int nargs;        /* values on L that the next resume takes */
  bool outside;     /* stands for the code outside any task: waits by turning the loop */
  bool woken;       /* outside only: the wait is over */
  bool canceled;    /* each wait ends with `canceled` from now on */
  bool shielded;    /* but this one does not */
  bool begun;       /* has run */
  bool told;        /* the next resume says `canceled` */
  bool observed;    /* somebody asked how it ended */
  const char *tool; /* of call_tool, which runs in it; or NULL */
  const mcg_session *tool_session; /* only compared */
  mcg_question *question;          /* that what it returns answers; NULL: none, or it is answered */
  unsigned asked;                  /* the kind of that */
  bool owed;  /* somebody needs its answer: it runs also when it was canceled before it began */
  bool shown; /* Lua has the object */
  bool waited;
  bool
      inside; /* it answers the engine, or was spawned by one that does: its commands fire no hooks */
  bool dropped; /* it was the script's, which is over: it is not resumed any more */
  void (*cancel)(mcg_task *task, void *what); /* ends the wait it is in */
  void *what;
  struct mcg_join *join;      /* the tasks it waits for, or NULL */
  struct mcg_joiner *joiners; /* the tasks that wait for it */
};

typedef struct mcg_signal mcg_signal;

struct mcg_lua {
  lua_State *L; /* the state that turns the loop: callbacks run on it */
  uv_loop_t loop;
  uv_idle_t idle;     /* runs while tasks are ready */
  mcg_engine *engine; /* made when first needed */
  mcg_task *outside, *current;
  mcg_task *ready, **ready_end;
  mcg_task *live;
  mcg_task *spare;      /* one that answered, and nobody has seen: for the next question */
  const char *callback; /* what runs now, such as "on_stdout", or NULL */
  bool decides;         /* and that decides: it is not to have it done elsewhere either */
  unsigned turning;     /* uv_run is on the C stack */
  bool closing;         /* Lua is not entered any more */
  bool let_go;          /* of a session that was not closed: it may still be closing */
  bool exiting;         /* os.exit was called: no task is resumed */
  bool leaving;         /* the script is over: what answers the engine goes on for a while */
  int exit_status;
  unsigned deciders; /* sessions that have functions, and choices */
  unsigned
      waited_for; /* those among them whose functions have answered all that was asked, in time */
  unsigned unclosed;   /* sessions that are being closed because the script is over */
  uv_timer_t patience; /* with that */
  unsigned lost;       /* tasks that threw and were collected unasked */
  bool unrecorded;     /* lines of an audit log were lost when the engine was closed */
  int live_ref, log_ref, pump_ref, signals_ref, decide_ref;
  struct mcg_lua_stranger *strangers; /* every userdata that holds one */
  lua_State *decision;                /* of one that was made; NULL: none, or it is being used */
  int decision_ref;                   /* holds it */
  int withheld_ref;                   /* what is taken from a decision, once it was looked up */
  int result_ref, told_ref;           /* what makes their tables, once one was needed */
  uint64_t budget_end;                /* of the decision that is being made; 0: not looked at yet */
  const char *budget_stack;           /* where its C stack began */
  bool overspent, too_deep;
  int log_level;                    /* least that is said on stderr; above MCG_LOG_ERROR: nothing */
  bool no_stderr;                   /* it was closed when the command began */
  char *init_path;                  /* beside the command; NULL: the engine's own idea */
  struct mcg_lua_session *sessions; /* every userdata that holds one */
  struct mcg_log_line *log_lines, **log_end;
  struct mcg_raw *raw; /* terminals in raw mode, to be put back */
  mcg_signal *signals;
};

/* ---- host.c */
mcg_lua *mcg_lua_host(lua_State *L);
mcg_lua *mcg_lua_host_new(lua_State *L); /* once per state; leaves nothing on the stack */
mcg_engine *mcg_lua_engine(mcg_lua *host, mcg_error **err); /* NULL: it could not be made */
/* The ready queue and the log are looked at on the next turn of the loop. */
void mcg_lua_wake(mcg_lua *host);
void mcg_lua_rest(mcg_lua *host); /* what woke it was done at once: unless there is more */
/* Turns the loop once. False: nothing is left that could ever happen. */
bool mcg_lua_turn(mcg_lua *host);
/* The script is over: its tasks are dropped, and what it left open is closed, as far as that goes in a
 * few seconds, while hooks and other functions of a configuration can still be called. Where there
 * are none it does nothing; mcg_lua_host_close ends what is left. */
void mcg_lua_host_leave(mcg_lua *host);
/* Ends everything: cancels, closes sessions, frees. Lua is not entered. Idempotent. */
void mcg_lua_host_close(mcg_lua *host);
/* Runs `fn` with `ctx` as light userdata, protected, on the state that turns the loop. 0, or the
 * error value is left on host->L for the caller to pop. */
int mcg_lua_call(mcg_lua *host, const char *what, lua_CFunction fn, void *ctx);
/* Pushes the function that the chunk `text` returns, which is kept at `ref` of the registry. */
void mcg_lua_push_maker(lua_State *L, int ref, const char *text);
/* Registers a metatable with methods; `gc` may be NULL. Fields that are no methods: mcg_lua_class
 * leaves the metatable on the stack for more. */
void mcg_lua_class(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction gc);

/* ---- task.c */
/* Who would wait here. Raises where waiting is impossible; nothing may be armed before it. */
mcg_task *mcg_lua_enter(lua_State *L);
/* True when the task was canceled: then return mcg_lua_canceled(L, task) and arm nothing. */
bool mcg_lua_is_canceled(const mcg_task *task);
int mcg_lua_canceled(lua_State *L, mcg_task *task);
/* The last thing a waiting method does: `return mcg_lua_wait(L, task)`. */
int mcg_lua_wait(lua_State *L, mcg_task *task);
/* The wait can be ended early by `cancel`, which makes its completion come, now or soon. Say it
 * before mcg_lua_wait. */
void mcg_lua_cancelable(mcg_task *task, void (*cancel)(mcg_task *task, void *what), void *what);
/* Ends a wait at once with nil and `canceled`: for cancel functions that leave the rest behind. */
void mcg_lua_complete_canceled(mcg_task *task);
/* Ends a task's wait with the values `push` leaves; called from the loop. `push` runs protected,
 * returns how many values; `ctx` stays the caller's. */
void mcg_lua_complete(mcg_task *task, int (*push)(lua_State *L, void *ctx), void *ctx);
int mcg_lua_task_spawn(lua_State *L); /* mooncage.spawn */
/* One that answers the engine: of the function below the `nargs` values on top, which it takes. The
 * caller says what it answers; Lua has no object of it unless it asks. */
mcg_task *mcg_lua_task_asked(lua_State *L, int nargs);
int mcg_lua_task_join(lua_State *L);
int mcg_lua_task_run(lua_State *L);
int mcg_lua_task_sleep(lua_State *L);
int mcg_lua_task_current(lua_State *L);
int mcg_lua_tasks(lua_State *L);
void mcg_lua_task_cancel(mcg_task *task);
void mcg_lua_tasks_drop(mcg_lua *host); /* those that answer the engine go on */
void mcg_lua_run_ready(mcg_lua *host);
/* From the loop: begins it at once when it is the only one that is ready; else it has its turn. */
void mcg_lua_task_now(mcg_task *task);
void mcg_lua_task_setup(lua_State *L);

/* ---- wait.c: completions whose data is a ticket: the wait of one task for one operation. A
 * canceled task goes on at once; the operation's late completion finds nobody and frees the ticket.
 * One that has an mcg_op is canceled instead, and its completion awaited. */
typedef struct mcg_ticket {
  mcg_task *task; /* NULL: it left */
  mcg_op *op;
  void *extra; /* the operation's own; it frees it */
} mcg_ticket;
mcg_ticket *mcg_lua_ticket(lua_State *L, mcg_task *task); /* raises when memory is out */
mcg_task *mcg_lua_take_ticket(void *data);                /* frees it; the task, or NULL */
/* `return mcg_lua_started(L, task, ticket, rc, err)`: waits, or pushes the refusal. rc is had before:
 * arguments are evaluated in any order, and err with them. */
int mcg_lua_started(lua_State *L, mcg_task *task, mcg_ticket *ticket, int rc, mcg_error *err);
void mcg_lua_done(void *data, mcg_error *error);                        /* true */
void mcg_lua_text_done(void *data, const char *json, mcg_error *error); /* the decoded value */
void mcg_lua_bytes_done(void *data, const void *bytes, size_t len, mcg_error *error);
void mcg_lua_failed(mcg_task *task, mcg_error *error); /* nil, the error table; frees error */

/* ---- error.c */
/* A text for others' eyes: without secrets, where there is an engine that knows any. */
void mcg_lua_push_struck(lua_State *L, const char *text);
/* What strikes them; NULL in a process that knows none (mooncage-policy). To be freed; NULL: no memory. */
extern char *(*mcg_lua_strike)(lua_State *L, const char *text);
void mcg_lua_push_error(lua_State *L, const mcg_error *error); /* the table */
int mcg_lua_nil_error(lua_State *L, mcg_error *error); /* nil, table; frees error; returns 2 */
/* nil, table for a failure that the binding itself noticed; returns 2. */
int mcg_lua_fail(lua_State *L, mcg_code code, const char *fix, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Makes an error table of whatever was thrown, at the top of the stack; with a traceback of `from`
 * (may be NULL). */
void mcg_lua_caught(lua_State *L, lua_State *from);
void mcg_lua_error_setup(lua_State *L);

/* ---- options.c: arguments; all of these raise on misuse, blaming the caller's line */
void mcg_lua_check_keys(lua_State *L, int index, const char *const *names, const char *what);
/* Leaves the raw field on the stack (nil when the table is absent); returns its type. */
int mcg_lua_field(lua_State *L, int index, const char *key);
/* Text without NUL; the pointer lives as long as the table does. NULL when absent. */
const char *mcg_lua_text_field(lua_State *L, int index, const char *key, const char *what);
bool mcg_lua_bool_field(lua_State *L, int index, const char *key, const char *what);
/* `otherwise` when absent; raises unless it is a number from `least` to `most`. */
double mcg_lua_number_field(lua_State *L, int index, const char *key, const char *what,
                            double otherwise, double least, double most);
/* How long the list at `index`, a table, is; -1: it has holes, or other keys. */
int mcg_lua_list_length(lua_State *L, int index);
const char *mcg_lua_check_text(lua_State *L, int index, const char *what); /* string without NUL */
int64_t mcg_lua_ms(lua_State *L, double seconds, const char *what);
int mcg_lua_mode(lua_State *L, int index, int otherwise, const char *what); /* 493, "755" */
int mcg_lua_misuse(lua_State *L, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- json.c */
/* The JSON text of the value at `index`, pushed as a string. `what` begins the path in messages. */
void mcg_lua_encode(lua_State *L, int index, const char *what);
/* Pushes what the text says; 0, or -1 with nil and an error table pushed. */
int mcg_lua_decode(lua_State *L, const char *text, size_t len);
int mcg_lua_decode_bytes(lua_State *L, const char *text, size_t len); /* {"base64"} are bytes */
void mcg_lua_push_json(lua_State *L, const struct json_t *value);     /* pushes it; may raise */
void mcg_lua_push_bytes_json(lua_State *L, const struct json_t *value);
/* The same for a question of the engine's: in its command and result {"base64"} are bytes again. */
void mcg_lua_push_question(lua_State *L, const struct json_t *question);
/* A table of names with texts and booleans, as the engine has it, without a text between. NULL: it is
 * another one (or memory is out): mcg_lua_encode says what is to be said. Does not raise. */
struct json_t *mcg_lua_simple_object(lua_State *L, int index);
/* The same for text that get() allocates: it is freed whatever is raised. NULL from get(): raises. */
int mcg_lua_decode_from(lua_State *L, char *(*get)(const void *from), const void *from);
/* Pushes the text that get() allocates as a string. False: NULL, nothing was pushed. */
bool mcg_lua_text_from(lua_State *L, char *(*get)(void *from), void *from);
int mcg_lua_json_encode(lua_State *L);
int mcg_lua_json_decode(lua_State *L);
int mcg_lua_json_question(lua_State *L);
int mcg_lua_json_array(lua_State *L);

/* ---- secret.c */
int mcg_lua_secret(lua_State *L);
void mcg_lua_secret_setup(lua_State *L);

/* ---- session.c */
typedef struct mcg_lua_session {
  mcg_lua *host;
  mcg_session *session; /* NULL once the engine is gone */
  bool closed;          /* close or stop was asked for */
  struct mcg_lua_session *older, *newer;
} mcg_lua_session;
mcg_lua_session *mcg_lua_check_session(lua_State *L,
                                       int index); /* raises when the engine is gone */
int mcg_lua_session_open(lua_State *L);
int mcg_lua_session_resume(lua_State *L);
int mcg_lua_session_fork(lua_State *L); /* core.fork(session) */
int mcg_lua_select(lua_State *L);
int mcg_lua_live(lua_State *L);
int mcg_lua_session_methods(lua_State *L);   /* core.session_methods() -> the table, for more */
int mcg_lua_session_functions(lua_State *L); /* core.functions_of(session, functions | nil) */
void mcg_lua_session_setup(lua_State *L);
extern const luaL_Reg mcg_lua_file_methods[]; /* file.c */
int mcg_lua_workspace_persist(lua_State *L);  /* workspace.c */
int mcg_lua_workspace_restore(lua_State *L);
int mcg_lua_store_save(lua_State *L);
int mcg_lua_store_load(lua_State *L);
int mcg_lua_session_expose(lua_State *L); /* expose.c */

/* ---- snapshot.c */
int mcg_lua_session_snapshot(lua_State *L);
int mcg_lua_session_restore(lua_State *L);
int mcg_lua_session_unsuccessful(lua_State *L);
void mcg_lua_unsuccessful(mcg_lua *host); /* every session that is open */
int mcg_lua_store_ask(lua_State *L);

/* ---- select.c */
int mcg_lua_rank(lua_State *L);
int mcg_lua_satisfies(lua_State *L);
int mcg_lua_explanation(lua_State *L);
int mcg_lua_is_explanation(lua_State *L);
void mcg_lua_select_setup(lua_State *L);
/* Pushes the object of a session, which holds a reference of its own. One session has one object. */
void mcg_lua_push_session(lua_State *L, mcg_lua *host, mcg_session *session);

/* ---- decide.c: what the engine asks of Lua */
/* False: nobody is asked: the value at `functions` is no table, or its `asks` is empty. Raises when memory is out. */
bool mcg_lua_deciders(lua_State *L, int functions, mcg_deciders *out);
void mcg_lua_deciders_drop(const mcg_deciders *deciders); /* the engine did not take them */
/* A task that answers the engine closes the session: nobody shall wait for the one, and the other for
 * the first. Answers what is open about it. */
void mcg_lua_questions_settle(mcg_lua *host, const mcg_session *session);
void mcg_lua_question_end(mcg_task *task);  /* its task is over: what it returned is the answer */
void mcg_lua_question_drop(mcg_task *task); /* its task is not resumed any more: `canceled` */
void mcg_lua_questions_end(mcg_lua *host);  /* all of them, the same way */
int mcg_lua_decide(lua_State *L);           /* core.decide */
/* What the task that starts a command adds to it: whose tool it is, that no hook is told. */
void mcg_lua_spec_by_task(const mcg_lua *host, const mcg_session *session, mcg_exec_spec *spec);
/* Of whatever was thrown: an error table keeps its code. Its metamethods are not asked. */
mcg_error *mcg_lua_error_at(lua_State *L, int index);
int mcg_lua_set_decider(lua_State *L);

/* ---- told.c */
void mcg_lua_push_told(lua_State *L, const mcg_told *told); /* the table of the question */

/* ---- words.c */
int mcg_lua_words(lua_State *L);    /* core.words */
int mcg_lua_commands(lua_State *L); /* core.commands */

/* ---- stranger.c */
int mcg_lua_stranger(lua_State *L);
int mcg_lua_stranger_ask(lua_State *L);
int mcg_lua_stranger_rest(lua_State *L);
/* A session begins to ask, or has stopped asking, those in `strangers` of its functions. */
void mcg_lua_strangers_use(lua_State *L, int functions, bool on);
void mcg_lua_strangers_end(mcg_lua *host); /* before the engine is freed */
void mcg_lua_stranger_setup(lua_State *L);

/* ---- tool.c */
int mcg_lua_tool_start(lua_State *L);
int mcg_lua_tool_scope(lua_State *L);
void mcg_lua_tool_setup(lua_State *L);

/* ---- spec.c: a command and its options, from Lua */
typedef struct mcg_lua_spec {
  mcg_exec_spec spec;
  bool stdin_function; /* then it is on top of the stack when parsing is done */
} mcg_lua_spec;
/* Reads `cmd` and `options` at the two indexes. Strings are anchored by values it leaves on the
 * stack. `extra` are further keys that are allowed. */
void mcg_lua_parse_spec(lua_State *L, int cmd, int options, const char *const *extra,
                        const char *what, mcg_lua_spec *out);
void mcg_lua_push_result(lua_State *L, const mcg_result *result);

/* ---- process.c */
typedef struct mcg_lua_process mcg_lua_process;
int mcg_lua_session_exec(lua_State *L);
int mcg_lua_session_start(lua_State *L);
int mcg_lua_session_attach(lua_State *L);
void mcg_lua_process_setup(lua_State *L);

/* ---- pump.c: a command's streams joined to descriptors of ours, without Lua in between */
typedef struct mcg_pump mcg_pump;
/* `fds`: stdin, stdout, stderr; -1: not that one. *lost becomes the errno of a write that failed. */
mcg_pump *mcg_pump_new(mcg_lua *host, const int fds[3], int *lost);
void mcg_pump_bind(mcg_pump *pump, mcg_exec *exec);
bool mcg_pump_output(mcg_pump *pump, int stream, const void *bytes, size_t len);
/* The command is over: stop reading, write out what is left, call `drained`, free. `drained` is
 * called once everything that was taken has been written (also when nothing had been taken). */
void mcg_pump_finish(mcg_pump *pump, void (*drained)(void *data), void *data);

/* ---- terminal.c, signal.c, log.c */
int mcg_lua_terminal_open(lua_State *L); /* pushes the table `terminal` */
void mcg_lua_terminal_restore(mcg_lua *host);
int mcg_lua_on_signal(lua_State *L);
void mcg_lua_signals_close(mcg_lua *host);
/* From now on Lua that does not come back to the loop for this long is interrupted, and where that does
 * not help the process ends. 0: not any more. */
void mcg_lua_signals_watch(mcg_lua *host, unsigned seconds);
void mcg_lua_log(void *host, mcg_log_level level, const char *message);
void mcg_lua_log_deliver(mcg_lua *host);
void mcg_lua_log_free(mcg_lua *host);
int mcg_lua_on_log(lua_State *L);
int mcg_lua_log_write(lua_State *L);
int mcg_lua_log_level(lua_State *L);

int luaopen_mooncage_core(lua_State *L);

#endif
