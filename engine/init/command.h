/* command.h: one command of one client, from EXEC to GONE, and the server's inside that everything
 * about commands shares. */
#ifndef MCG_COMMAND_H
#define MCG_COMMAND_H

#include "connection.h"
#include "server.h"
#include "stub.h"

struct mcg_command;

typedef struct mcg_server {
  const mcg_server_config *config;
  mcg_conn *conns;
  struct mcg_command *commands;
  mcg_slot *slots; /* free ones */
  mcg_slot *idle;  /* the one with a stub that waits for the next command, NULL: none */
  pid_t idle_parent;
  int idle_fd;                       /* its pidfd */
  int trees;                         /* what built-ins lock; -1: none was begun */
  int wake;                          /* eventfd of all stubs */
  int null_fd;                       /* /dev/null, -1: there is none */
  uint64_t nofile_soft, nofile_hard; /* as init found them */
  bool orphans;                      /* something may live that no stub is the parent of */
  bool reaped;                       /* a child was waited for since the commands were looked at */
  bool stop;
} mcg_server;

/* The framed carrier's side of one stream of a command. Unused with the direct one. */
typedef struct mcg_relay {
  int fd;          /* init's end; -1: closed */
  uint32_t credit; /* out: bytes the engine takes. In: bytes it may still send */
  uint32_t owed;   /* in: consumed and not granted again */
  bool drop;       /* out: read and forget */
  bool ended;      /* EOF was sent (out) or came (in) */
  bool counted;    /* out: the command has exited, `left` is what its EOF waits for */
  uint64_t left;
  uint8_t *bytes; /* in: what the pipe did not take yet */
  size_t at, len, cap;
} mcg_relay;

typedef struct mcg_command {
  struct mcg_command *next;
  mcg_server *server;
  mcg_conn *conn; /* NULL: it has none any more */
  uint32_t channel, flags;
  mcg_launch launch;
  void *arena; /* what launch points into; freed once it has started */
  mcg_slot *slot;
  pid_t parent;          /* the stub; or the built-in itself */
  int parent_fd;         /* its pidfd, -1: it is dead and waited for */
  bool builtin, leaving; /* leaving: the stub was told to */
  bool hushed; /* its start need not be told at once: most are over in a moment, and told whole */
  uint64_t hushed_ms;         /* since when */
  bool started, exited, gone; /* has been told */
  bool orphaned;              /* the stub was killed: init is the parent now */
  uint64_t early;             /* signals that came before the process did, a bit each */
  unsigned insisted;          /* how often its stub was roused in vain after its end */
  bool settled; /* has run for a while: its main process is watched, should the stub be stopped */
  bool killing, stopped_all;
  uint64_t kill_ms; /* since when */
  int status;       /* built-in: of waitid, valid once parent_fd is -1 */
  int theirs[3];    /* the command's ends, until it has started */
  int ours[3];      /* ends to hand over with STARTED (direct) */
  unsigned our_count;
  int master; /* PTY: init's own descriptor of it, until the exit */
  mcg_relay relay[3];
} mcg_command;

/* EXEC. Answers ERROR itself. False: the message makes no sense. */
bool mcg_command_start(mcg_server *server, mcg_conn *conn, uint32_t channel, const uint8_t *body,
                       size_t len);
mcg_command *mcg_command_find(mcg_server *server, mcg_conn *conn, uint32_t channel);
void mcg_command_step(mcg_command *command); /* looks at its slot and tells what is new */
void mcg_command_signal(mcg_command *command, int signo);
void mcg_command_rouse(mcg_command *command); /* its stub, should that have been stopped */
/* Nobody has been told of its start yet, and its stub has not been asked for it. */
bool mcg_command_is_hushed(const mcg_command *command);
void mcg_command_unhush(mcg_command *command); /* asks the stub, once a millisecond has passed */
/* The same for one whose command has ended. A sandbox that stops it time and again loses it, and with it
 * the knowledge of whose its processes are: then they are the whole sandbox's. */
void mcg_command_insist(mcg_command *command);
void mcg_command_resize(mcg_command *command, unsigned cols, unsigned rows);
void mcg_command_kill(mcg_command *command);
void mcg_command_leave(mcg_command *command); /* its client is gone */
void mcg_command_free(mcg_command *command);  /* after it is gone; not linked any more */
void mcg_refuse(mcg_conn *conn, uint32_t channel, int number, const char *step, const char *text);

bool mcg_command_over(mcg_command *command); /* nothing is to come: it can be freed */
/* Makes the first one, while nothing is asked for; without it the first command makes its own. */
void mcg_idle_start(mcg_server *server);
void mcg_idle_lost(mcg_server *server); /* the idle stub is dead and waited for */

/* sockets.c: LISTEN and CONNECT. False: the message makes no sense. */
bool mcg_socket_answer(mcg_server *server, mcg_conn *conn, const mcg_frame *frame,
                       const uint8_t *body, size_t len);

/* tree.c: dead and living children */
void mcg_tree_reap(mcg_server *server); /* waits for whoever has died */
void mcg_tree_kill_orphans(mcg_server *server);
bool mcg_tree_has_orphans(mcg_server *server);
void mcg_tree_tick(mcg_server *server);     /* kills that are under way: once in a while */
void mcg_tree_kill_all(mcg_server *server); /* returns when nothing lives */
uint64_t mcg_now_ms(void);

/* launch.c: the fields of EXEC into a launch */
typedef struct mcg_exec {
  mcg_launch launch;
  char **argv; /* NULL-terminated */
  unsigned argc;
  uint32_t flags;
  uint16_t cols, rows;
  void *arena;
} mcg_exec;
/* 0; or errno with *step and *text set. -1: malformed. */
int mcg_launch_read(mcg_server *server, const uint8_t *body, size_t len, mcg_exec *out,
                    const char **step, const char **text);

/* user.c: "name", "uid" or "uid:gid". The settings are empty where /etc/passwd has no (short) line. */
#define MCG_USER_SETTING 512
typedef struct mcg_user_entry {
  uid_t uid;
  gid_t gid;
  char name[MCG_USER_SETTING], home[MCG_USER_SETTING]; /* "USER=name", "HOME=/home/name" */
} mcg_user_entry;
int mcg_user_find(const char *text, mcg_user_entry *out);

/* pty.c */
int mcg_pty_open(unsigned cols, unsigned rows, int *master, int *slave); /* 0 or errno */
int mcg_pty_resize(int master, unsigned cols, unsigned rows);
bool mcg_pty_signal(int master, int signo); /* to the foreground group; false: there is none */

/* relay.c */
void mcg_relay_init(mcg_relay *relay);
void mcg_relay_fini(mcg_relay *relay);
bool mcg_relay_wants(const mcg_command *command, int stream); /* poll its fd? */
void mcg_relay_ready(mcg_command *command, int stream);
bool mcg_relay_data(mcg_command *command, const uint8_t *bytes, size_t len); /* DATA for stdin */
void mcg_relay_eof(mcg_command *command);                                    /* EOF for stdin */
bool mcg_relay_credit(mcg_command *command, int stream, uint64_t bytes);
void mcg_relay_close(mcg_command *command, int stream);
void mcg_relay_exited(mcg_command *command);
/* Whether GONE may be said: all was sent. Of a killed command, all that credit allows. */
bool mcg_relay_done(const mcg_command *command);

/* builtin.c: runs in the forked child and never returns */
_Noreturn void mcg_builtin_main(mcg_server *server, mcg_command *command, const mcg_exec *exec);

#endif
