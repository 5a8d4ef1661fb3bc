/* stranger.c: a policy of a stranger: its processes, each in a jail of its own, and what is asked of
 * them. What such a process may do is its own executable's to give up (lua/stranger/); here it is
 * started, given a line, and must say a line in time. Whatever else it does ends it. */
#include "session/exec.h"
#include <mooncage/stranger.h>
#include <string.h>

#define PROGRAM "/mooncage-policy"
#define ANSWER_MAX ((size_t)256 << 10)
#define QUESTION_MAX ((size_t)4 << 20)
#define MARK 26        /* bytes before each line, and a blank: its answer begins with the same */
#define APART_MAX 32   /* processes of one policy; then who rested longest goes, or one waits */
#define DECIDE_MS 1000 /* by the clock, however busy the machine is; by its processor 100 ms */
#define SPEAKS_FIX "do not use this policy: its process says what no policy says"
#define BEGIN_MS 10000 /* until it has read the policy */

typedef struct process {
  bool dropped; /* nobody wants it: freed with the command's completion */
  mcg_session *session;
  mcg_exec *exec; /* NULL once it is over */
  char *line;     /* what it has said since it was asked */
  size_t len, cap;
  bool whole, excess;
  char signal[16]; /* that ended it, or "" */
  mcg_wait said;
} process;

typedef struct turn {
  struct turn *next;
  mcg_wait wait;
} turn;

typedef struct worker { /* one for each that is kept apart */
  struct worker *next;
  char *apart;
  process *process; /* NULL: to be started */
  bool placed;      /* it may have one */
  bool busy;
  turn *turns; /* that wait for it, in order */
  uint64_t asked_ns;
} worker;

struct mcg_stranger {
  mcg_engine *engine;
  unsigned refs; /* its owner, and each question */
  char *name, *setup;
  worker *workers;
  unsigned placed; /* of these */
  turn *turns;     /* of workers that wait for a place, in order */
};

/* ---- the process -------------------------------------------------------------------------- */

static void process_free(process *self)
{
  free(self->line);
  free(self);
}

static bool on_output(void *data, int stream, const void *bytes, size_t len)
{
  process *self = data;
  if (stream != 1 || self->dropped || self->excess) return true;
  self->excess = self->whole || len > ANSWER_MAX - self->len;
  if (!self->excess && len > self->cap - self->len) {
    size_t cap = self->len + len < 4096 ? 4096 : self->len + len;
    char *longer = realloc(self->line, cap);
    self->excess = !longer;
    if (longer) {
      self->line = longer;
      self->cap = cap;
    }
  }
  if (!self->excess) {
    const char *end = memchr(bytes, '\n', len);
    memcpy(self->line + self->len, bytes, len);
    self->len += len;
    self->whole = end != NULL;
    self->excess = end && end != (const char *)bytes + len - 1;
  }
  if (self->whole || self->excess) mcg_wait_wake(self->session->engine, &self->said);
  return true;
}

static void on_done(void *data, const mcg_result *result, mcg_error *error)
{
  process *self = data;
  mcg_error_free(error);
  self->exec = NULL;
  if (self->dropped) {
    process_free(self);
    return;
  }
  if (result && result->signal) snprintf(self->signal, sizeof self->signal, "%s", result->signal);
  mcg_wait_wake(self->session->engine, &self->said);
}

/* The sandbox goes in its own time; whoever asks next has another. */
static void process_drop(process *self)
{
  auto_error mcg_error *ignored = NULL;
  mcg_session *session = self->session;
  self->dropped = true;
  if (session->state != MCG_SESSION_CLOSED && mcg_session_close(session, NULL, NULL, &ignored) < 0)
    mcg_log(session->engine, MCG_LOG_ERROR, "the jail of a policy: %s", ignored->message);
  if (!self->exec) process_free(self);
  mcg_session_unref(session);
}

static char *root_of(const mcg_engine *engine)
{
  const char *slash = strrchr(engine->init_path, '/');
  return slash ? mcg_format("%.*s/stranger", (int)(slash - engine->init_path), engine->init_path)
               : NULL;
}

/* Whatever keeps a jail from being made: then the policy is not run at all. */
static int no_jail(mcg_error *take_error, mcg_error **err)
{
  auto_error mcg_error *why = take_error;
  if (why->code == MCG_CANCELED || why->code == MCG_NOMEM) {
    *err = mcg_steal_pointer(&why);
    return -1;
  }
  return mcg_fail(
      err, MCG_UNENFORCEABLE,
      why->fix ? why->fix : "see `mooncage doctor`, or use only policies that you trust",
      "an untrusted policy runs in a jail of its own, and there is none: %s", why->message);
}

static int open_jail(mcg_engine *engine, mcg_session **out, mcg_error **err)
{
  auto_free char *root = root_of(engine);
  auto_free char *program = root ? mcg_format("%s" PROGRAM, root) : NULL;
  mcg_error *why = NULL;
  if (!program || access(program, X_OK) < 0) {
    mcg_fail(&why, MCG_NOT_FOUND, "install all of Mooncage, or use only policies that you trust",
             "%s is not installed", program ? program : PROGRAM);
    return no_jail(why, err);
  }
  auto_json json_t *config = json_pack("{s:{s:s, s:{s:s, s:s}}, s:s, s:{s:i, s:i}}", "backend",
                                       "id", "jail", "options", "profile", "strict", "rootfs", root,
                                       "network", "none", "limits", "disk_mb", 1, "open_files", 64);
  auto_free char *text = config ? json_dumps(config, JSON_COMPACT) : NULL;
  if (!text) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a policy's jail");
  if (mcg_session_open_here(engine, text, out, &why) < 0) return no_jail(why, err);
  return 0;
}

static int process_start(mcg_engine *engine, process **out, mcg_error **err)
{
  static const char *const argv[] = {PROGRAM, NULL};
  const mcg_exec_spec spec = {.size = sizeof spec,
                              .argv = argv,
                              .cwd = "/",
                              .stdin_mode = MCG_STDIN_PIPE,
                              .max_output = MCG_CAPTURE_NONE,
                              .quiet = true};
  const mcg_exec_events events = {.on_output = on_output, .on_done = on_done};
  process *self = calloc(1, sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a policy's process");
  mcg_wait_init(&self->said);
  if (open_jail(engine, &self->session, err) < 0) {
    free(self);
    return -1;
  }
  if (mcg_exec_start(self->session, &spec, &events, self, &self->exec, err) < 0) {
    process_drop(self);
    return -1;
  }
  *out = self;
  return 0;
}

static int ended(const process *self, mcg_error **err)
{
  if (strcmp(self->signal, "SIGPROF") == 0)
    return mcg_fail(err, MCG_TIMEOUT, "make it decide sooner",
                    "it used more than 100 ms of processor time, and was ended");
  if (strcmp(self->signal, "SIGSYS") == 0)
    return mcg_fail(err, MCG_INVALID, "do not use this policy",
                    "it reached for the system, and was ended");
  return mcg_fail(err, MCG_INVALID, "see whether it needs more than 64 MiB",
                  "its process ended before it had decided%s%s", *self->signal ? ": " : "",
                  self->signal);
}

static int unasked(mcg_error **err)
{
  return mcg_fail(err, MCG_PROTOCOL, SPEAKS_FIX, "it speaks without being asked");
}

static int say(process *self, const char mark[MARK + 1], const char *line, size_t len,
               mcg_error **err)
{
  auto_free char *text = malloc(MARK + 1 + len);
  if (!text) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to ask a policy");
  memcpy(text, mark, MARK);
  text[MARK] = ' ';
  memcpy(text + MARK + 1, line, len);
  return mcg_exec_write(self->exec, text, MARK + 1 + len, NULL, NULL, err);
}

/* Says a line, hears one. Nobody can answer a question that he has not heard: its mark is random. */
static int converse(mcg_engine *engine, process *self, const char *line, size_t len, int64_t ms,
                    json_t **answer, mcg_error **err)
{
  uint64_t until = mcg_now_ms(engine) + (uint64_t)ms;
  char mark[MARK + 1];
  if (!self->exec) return ended(self, err);
  if (self->len) return unasked(err);
  if (mcg_random_id(mark, err) < 0 || say(self, mark, line, len, err) < 0) return -1;
  while (!self->whole && !self->excess) {
    uint64_t now = mcg_now_ms(engine);
    if (!self->exec) return ended(self, err);
    auto_error mcg_error *over = NULL;
    int64_t left = now < until ? (int64_t)(until - now) : 0;
    if (mcg_wait_park(engine, &self->said, left, &over) == 0) continue;
    if (over->code == MCG_TIMEOUT)
      return mcg_fail(err, MCG_TIMEOUT, "make it decide sooner",
                      "it took more than %.15g s, and was ended", (double)ms / 1000);
    *err = mcg_steal_pointer(&over);
    return -1;
  }
  if (self->excess)
    return mcg_fail(err, MCG_PROTOCOL, "make it say less", "it says more than one line of %zu KiB",
                    ANSWER_MAX >> 10);
  if (self->len <= MARK || memcmp(self->line, mark, MARK) != 0) return unasked(err);
  *answer = mcg_json_parse(self->line + MARK, self->len - MARK, err);
  self->len = 0;
  self->whole = false;
  if (!*answer) return -1;
  if (json_is_object(*answer)) return 0;
  json_decref(mcg_steal_pointer(answer));
  return mcg_fail(err, MCG_PROTOCOL, SPEAKS_FIX, "its answer is no object");
}

/* ---- who is asked ------------------------------------------------------------------------- */

/* Parks at the end of a line. *called: the turn has come, also where -1 says that it is not wanted. */
static int stand_in(mcg_engine *engine, turn **line, bool *called, mcg_error **err)
{
  turn mine = {.next = NULL};
  turn **at = line;
  mcg_wait_init(&mine.wait);
  while (*at) at = &(*at)->next;
  *at = &mine;
  int rc = mcg_wait_park(engine, &mine.wait, -1, err);
  *called = mine.next == &mine;
  if (*called) return rc;
  for (at = line; *at != &mine;) at = &(*at)->next;
  *at = mine.next;
  return rc;
}

/* False: nobody stands there. */
static bool call_next(mcg_engine *engine, turn **line)
{
  turn *next = *line;
  if (!next) return false;
  *line = next->next;
  next->next = next; /* it has been called */
  mcg_wait_wake(engine, &next->wait);
  return true;
}

static void worker_rest(worker *self)
{
  process *old = mcg_steal_pointer(&self->process);
  if (old) process_drop(old);
}

static void worker_remove(mcg_stranger *stranger, worker *self)
{
  worker **at = &stranger->workers;
  while (*at != self) at = &(*at)->next;
  *at = self->next;
  stranger->placed -= self->placed;
  worker_rest(self);
  free(self->apart);
  free(self);
}

static worker *longest_rested(mcg_stranger *stranger)
{
  worker *found = NULL;
  for (worker *each = stranger->workers; each; each = each->next)
    if (!each->busy && (!found || each->asked_ns < found->asked_ns)) found = each;
  return found;
}

static worker *worker_for(mcg_stranger *stranger, const char *apart, mcg_error **err)
{
  for (worker *each = stranger->workers; each; each = each->next)
    if (strcmp(each->apart, apart) == 0) return each;
  worker *self = calloc(1, sizeof *self);
  if (self) self->apart = strdup(apart);
  if (!self || !self->apart) {
    free(self);
    mcg_fail(err, MCG_NOMEM, NULL, "no memory for a policy's process");
    return NULL;
  }
  self->next = stranger->workers;
  stranger->workers = self;
  return self;
}

/* A process may be had by so many at once; by the others when their turn has come. */
static int take_place(mcg_stranger *stranger, worker *self, mcg_error **err)
{
  if (self->placed) return 0;
  worker *old = stranger->placed < APART_MAX ? NULL : longest_rested(stranger);
  if (old) worker_remove(stranger, old);
  if (stranger->placed < APART_MAX)
    stranger->placed++;
  else if (stand_in(stranger->engine, &stranger->turns, &self->placed, err) < 0)
    return -1;
  self->placed = true;
  return 0;
}

/* After each question, so that those who ask much keep nobody waiting for longer than one. */
static void leave_place(mcg_stranger *stranger, worker *self)
{
  if (!self->placed || (self->process && !stranger->turns)) return;
  worker_rest(self);
  self->placed = false;
  if (!call_next(stranger->engine, &stranger->turns)) stranger->placed--; /* else it is theirs */
}

static void leave(mcg_stranger *stranger, worker *self)
{
  self->asked_ns = uv_hrtime();
  leave_place(stranger, self);
  self->busy = call_next(stranger->engine, &self->turns);
  if (!self->busy && !self->placed) worker_remove(stranger, self);
}

static int enter(mcg_stranger *stranger, worker *self, mcg_error **err)
{
  bool called = !self->busy;
  int rc = 0;
  self->busy = true;
  if (!called) rc = stand_in(stranger->engine, &self->turns, &called, err);
  if (rc == 0) rc = take_place(stranger, self, err);
  if (rc < 0 && called) leave(stranger, self);
  return rc;
}

/* ---- one question ------------------------------------------------------------------------- */

typedef struct asking {
  mcg_stranger *stranger;
  char *apart, *line; /* with its newline */
  size_t len;
  json_t *answer;
  mcg_text_done done;
  void *data;
} asking;

static void asking_free(asking *self)
{
  mcg_stranger_free(self->stranger);
  json_decref(self->answer);
  free(self->apart);
  free(self->line);
  free(self);
}

/* {"answer", "log"}, or {"error": what it threw}. */
static int read_answer(asking *self, const json_t *said, mcg_error **err)
{
  const mcg_stranger *stranger = self->stranger;
  const char *log = json_string_value(json_object_get(said, "log"));
  const char *error = json_string_value(json_object_get(said, "error"));
  if (log && *log)
    mcg_log(stranger->engine, MCG_LOG_INFO, "policy %s says: %s", stranger->name, log);
  if (error) return mcg_fail(err, MCG_INVALID, "correct the policy", "%s", error);
  self->answer = json_incref(json_object_get(said, "answer"));
  if (json_is_object(self->answer)) return 0;
  return mcg_fail(err, MCG_PROTOCOL, SPEAKS_FIX, "its answer is none");
}

static int begin(mcg_stranger *stranger, worker *self, mcg_error **err)
{
  auto_json json_t *said = NULL;
  if (process_start(stranger->engine, &self->process, err) < 0) return -1;
  if (converse(stranger->engine, self->process, stranger->setup, strlen(stranger->setup), BEGIN_MS,
               &said, err) < 0)
    return -1;
  const char *error = json_string_value(json_object_get(said, "error"));
  return error ? mcg_fail(err, MCG_INVALID, "correct the policy, or its options", "%s", error) : 0;
}

static int ask_run(void *arg, mcg_error **err)
{
  asking *self = arg;
  mcg_stranger *stranger = self->stranger;
  mcg_engine *engine = stranger->engine;
  auto_json json_t *said = NULL;
  worker *asked = worker_for(stranger, self->apart, err);
  if (!asked || enter(stranger, asked, err) < 0) return -1;
  if (asked->process && !asked->process->exec) worker_rest(asked); /* it ended meanwhile */
  int rc = asked->process ? 0 : begin(stranger, asked, err);
  if (rc == 0) rc = converse(engine, asked->process, self->line, self->len, DECIDE_MS, &said, err);
  if (rc < 0) worker_rest(asked);
  leave(stranger, asked);
  if (rc == 0) rc = read_answer(self, said, err);
  if (rc < 0 && (*err)->code != MCG_CANCELED && (*err)->code != MCG_UNENFORCEABLE)
    mcg_wrap(err, "the untrusted policy %s", stranger->name);
  return rc;
}

static void ask_complete(void *arg, mcg_error *error)
{
  asking *self = arg;
  auto_free char *text = error ? NULL : json_dumps(self->answer, JSON_COMPACT);
  if (!error && !text) mcg_fail(&error, MCG_NOMEM, NULL, "no memory for a policy's answer");
  self->done(self->data, text, error);
  asking_free(self);
}

/* ---- for hosts ---------------------------------------------------------------------------- */

static char *setup_line(const json_t *policy)
{
  auto_json json_t *setup = json_copy((json_t *)policy);
  json_object_set_new(setup, "kind", json_string("begin"));
  auto_free char *text = setup ? json_dumps(setup, JSON_COMPACT) : NULL;
  return text ? mcg_format("%s\n", text) : NULL;
}

int mcg_stranger_new(mcg_engine *engine, const char *policy, size_t len, mcg_stranger **out,
                     mcg_error **err)
{
  auto_json json_t *given = mcg_json_parse(policy, len, err);
  if (!given) return -1;
  const char *name = json_string_value(json_object_get(given, "name"));
  const json_t *source = json_object_get(given, "source");
  if (!name) return mcg_fail(err, MCG_INVALID, "give its name", "a policy has no name");
  if (!json_is_string(source))
    return mcg_fail(err, MCG_INVALID, "give its Lua text in UTF-8", "%s: is no text", name);
  if (json_string_length(source) > ANSWER_MAX)
    return mcg_fail(err, MCG_INVALID, "make it shorter", "%s: is longer than 256 KiB", name);
  mcg_stranger *self = calloc(1, sizeof *self);
  if (self) {
    *self = (mcg_stranger){.engine = engine, .refs = 1};
    self->name = strdup(name);
    self->setup = setup_line(given);
  }
  if (self && self->name && self->setup) {
    *out = self;
    return 0;
  }
  mcg_stranger_free(self);
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a policy");
}

int mcg_stranger_ask(mcg_stranger *stranger, const char *apart, const char *question, size_t len,
                     mcg_text_done done, void *data, mcg_op **op, mcg_error **err)
{
  if (len > QUESTION_MAX)
    return mcg_fail(err, MCG_INVALID, "run a shorter command, or offer fewer candidates",
                    "a question of more than %zu MiB to the policy %s", QUESTION_MAX >> 20,
                    stranger->name);
  asking *self = calloc(1, sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to ask a policy");
  *self = (asking){.stranger = stranger, .len = len + 1, .done = done, .data = data};
  stranger->refs++;
  self->apart = strdup(apart ? apart : "");
  self->line = malloc(len + 1);
  if (self->line) {
    memcpy(self->line, question, len);
    self->line[len] = '\n';
  }
  int rc = self->apart && self->line
               ? mcg_op_start(stranger->engine, ask_run, ask_complete, self, op, err)
               : mcg_fail(err, MCG_NOMEM, NULL, "no memory to ask a policy");
  if (rc < 0) asking_free(self);
  return rc;
}

void mcg_stranger_rest(mcg_stranger *stranger)
{
  for (worker *each = stranger->workers, *next; each; each = next) {
    next = each->next;
    if (!each->busy) worker_remove(stranger, each);
  }
}

void mcg_stranger_free(mcg_stranger *stranger)
{
  if (!stranger || --stranger->refs) return;
  while (stranger->workers) worker_remove(stranger, stranger->workers);
  free(stranger->name);
  free(stranger->setup);
  free(stranger);
}
