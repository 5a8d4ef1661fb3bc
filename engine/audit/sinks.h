/* sinks.h: the sinks of one configuration, and those of an engine. */
#ifndef MCG_SINKS_H
#define MCG_SINKS_H

#include "sink.h"

#define MCG_SINKS_MAX 16

struct mcg_sinks { /* of a configuration */
  unsigned count;
  mcg_sink *list[MCG_SINKS_MAX]; /* the engine's */
};

struct mcg_audit { /* of an engine: engine->audit, made when first needed */
  mcg_sink *sinks;
  mcg_secrets *secrets;
};

struct mcg_audit *mcg_audit_of(mcg_engine *engine, mcg_error **err);

#endif
