/* sinks.h: the sinks of one configuration, and those of an engine. */
#ifndef MCG_SINKS_H
#define MCG_SINKS_H

#include "sink.h"

#define MCG_SINKS_MAX 16

struct mcg_sinks { /* of a configuration */
  struct mcg_audit *audit;
  unsigned count;
  mcg_sink *list[MCG_SINKS_MAX]; /* the engine's */
  bool callback;                 /* the host is told too */
  mcg_chain callback_chain;
};

#define MCG_SKIP_CALLBACK (1u << 31) /* in a set of sinks to be left out */

static inline bool mcg_sinks_any(const struct mcg_sinks *sinks)
{
  return sinks && (sinks->count || sinks->callback);
}

struct mcg_audit { /* of an engine: engine->audit, made when first needed */
  unsigned refs;   /* the engine's, and those of configurations, which may outlive it */
  mcg_sink *sinks; /* those in use, and those that still owe lines */
  mcg_secrets *secrets;
  size_t lost;    /* lines that no sink will ever have */
  char own[27];   /* in the names of files that are this engine's alone; empty: none yet */
  char engine[9]; /* its beginning, in the lines of starts; empty: none yet */
};

/* Closes those that nobody uses and that are at rest; or `all`. */
void mcg_sinks_close(struct mcg_audit *audit, bool all);
void mcg_audit_unref(struct mcg_audit *audit);

/* callback.c */
/* Waits for the host to have it. `audit_failed`, or `canceled`. */
int mcg_callback_tell(mcg_session *session, struct mcg_sinks *sinks, const mcg_line *line,
                      mcg_error **err) MCG_PARKS;
/* From the loop; what goes wrong is logged. */
void mcg_callback_tell_later(mcg_session *session, mcg_line *line);

struct mcg_audit *mcg_audit_of(mcg_engine *engine, mcg_error **err);

#endif
