/* sink.h: one place that events go to. A sink takes batches of lines; each line has three holes (seq,
 * prev, hash) that only the sink can fill, since the chain is its file's. writer.c brings the lines
 * there, jsonl.c and its neighbours are the places. */
#ifndef MCG_SINK_H
#define MCG_SINK_H

#include "audit.h"
#include "canonical.h"
#include "service/sha256.h"
#include <pthread.h>
#include <stdatomic.h>

#define MCG_HASH_LEN 64
#define MCG_LINE_MAX ((size_t)1 << 20) /* no event is longer: its parts are cut */

/* One line on its way to one sink. */
typedef struct mcg_delivery {
  struct mcg_delivery *next;
  struct mcg_line *line;
  struct mcg_posting *posting; /* who waits for it, or NULL: nobody */
  unsigned index;              /* of the sink, in the posting's `failed` */
  mcg_error *error;            /* of one that somebody waits for */
} mcg_delivery;

/* One event without its holes. Shared by the sinks; the text is never changed. */
typedef struct mcg_line {
  atomic_uint refs;
  bool sent;          /* the first delivery is taken: by the loop, which posts */
  mcg_delivery first; /* most lines go to one sink: theirs needs no memory of its own */
  size_t len, hash_at, prev_at, seq_at;
  char text[];
} mcg_line;

/* Where a chain is. */
typedef struct mcg_chain {
  uint64_t seq; /* of the last line; 0: none */
  char head[MCG_HASH_LEN];
  bool keyed;
  mcg_hmac_key key;
} mcg_chain;

void mcg_chain_init(mcg_chain *chain, const char *key, size_t key_len);
/* Appends the whole line, newline too; the chain moves on. False: no memory. */
bool mcg_chain_append(mcg_chain *chain, mcg_text *out, const mcg_line *line);
/* hash = sha256(prev || event without hash), or HMAC of it. */
void mcg_chain_hash(const mcg_chain *chain, const char *const *parts, const size_t *lens,
                    size_t count, char out[MCG_HASH_LEN]);

typedef struct mcg_sink mcg_sink;

typedef struct mcg_sink_type {
  /* All of them or none. `may_wait` false: returns 1 when it would have to wait for anything; true:
   * when it waits for another process and the sink's patience is over. Nothing is changed then. On
   * the writer's thread, or (quick) on the loop's: never both at once. */
  int (*write)(mcg_sink *sink, const mcg_delivery *batch, bool may_wait, mcg_error **err);
  void (*free)(mcg_sink *sink);
} mcg_sink_type;

/* The head of every sink. One for each place, shared by the sessions of an engine. */
struct mcg_sink {
  const mcg_sink_type *type;
  mcg_engine *engine;
  mcg_sink *next;            /* of the engine */
  char *place;               /* the file or the directory it writes to; NULL: neither */
  char *key;                 /* what it was made from: the same makes no second one */
  unsigned refs;             /* configurations that name it */
  _Atomic(char *) warning;   /* to be logged by the loop, which takes it */
  bool quick;                /* a write may be tried on the loop's thread */
  _Atomic uint64_t patience; /* until when (uv_hrtime) another process is waited for; 0: for ever */
  struct mcg_writer *writer;
};

/* ---- writer.c ------------------------------------------------------------------------------ */

/* One event on its way to all sinks of a session. Lives on the stack of the fiber that waits. */
typedef struct mcg_posting {
  mcg_engine *engine;
  unsigned left;        /* sinks that have not answered */
  unsigned failed;      /* bit set of those that could not write it */
  bool keeps;           /* what cannot be written is kept: its failure ends the wait only */
  atomic_bool given_up; /* who waits does so no longer than it takes to say so */
  mcg_error *error;
  mcg_wait wait;
} mcg_posting;

int mcg_writer_new(mcg_sink *sink, mcg_error **err);
/* Takes a reference to the line. With a posting: counts it there, and its failure fails the posting;
 * without: the line is kept until it can be written. */
void mcg_writer_post(mcg_sink *sink, mcg_line *line, unsigned index, mcg_posting *posting);
/* Its lines are answered soon, with a failure where another process holds the place. */
void mcg_writer_give_up(struct mcg_writer *writer, mcg_posting *posting);
bool mcg_writer_is_stuck(
    const struct mcg_writer *writer);               /* somebody gave up, nothing went since */
bool mcg_writer_at_rest(struct mcg_writer *writer); /* nothing is under way, nothing owed */
/* What is not in its place, or never will be. */
bool mcg_writer_owes(struct mcg_writer *writer);
/* What was posted is written first. How many lines are lost: that is said. */
size_t mcg_writer_free(struct mcg_writer *writer);
void mcg_line_unref(mcg_line *line);

/* ---- event.c ------------------------------------------------------------------------------- */

typedef struct mcg_stamp { /* what the engine adds to an event */
  const char *op, *phase, *id;
  const char *engine; /* of a start: who is to finish it; NULL: left out */
  const char *session, *backend, *tenant, *run_id; /* NULL: left out */
  double duration_s;                               /* < 0: none */
} mcg_stamp;

/* NULL: no memory. One reference. */
mcg_line *mcg_event_line(const mcg_event *event, const mcg_stamp *stamp,
                         const mcg_secrets *secrets);

/* ---- the places ---------------------------------------------------------------------------- */

typedef struct mcg_jsonl_options {
  const char *path, *dir; /* one of them: a file, or a directory with a file a user and month */
  const char *hmac_key;
  size_t hmac_key_len;
  bool durable;
  const char *engine;    /* its name in the lines that it starts; NULL: nothing is recovered */
  const char *own;       /* in the directory: a file of this engine alone, with this in its name */
  uint64_t rotate_bytes; /* 0: never */
} mcg_jsonl_options;

mcg_sink *mcg_jsonl_new(mcg_engine *engine, const mcg_jsonl_options *options, mcg_error **err);
mcg_sink *mcg_stderr_new(mcg_engine *engine, mcg_error **err);

#endif
