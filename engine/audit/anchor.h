/* anchor.h: the count and the head of each log, kept in the state directory, away from the log: so a
 * tail that was cut, or a file that was written anew, is noticed by whoever reads or goes on writing.
 * An anchor may be behind its log (its writer was killed in between), never ahead of it. */
#ifndef MCG_ANCHOR_H
#define MCG_ANCHOR_H

#include "sink.h"

#define MCG_SEQ_MAX ((1ULL << 53) - 1) /* what JSON's numbers hold: no log has more lines */

typedef struct mcg_anchor {
  uint64_t base, seq;      /* of the line before the file's first; of its last */
  char head[MCG_HASH_LEN]; /* hash of its last */
} mcg_anchor;

/* $XDG_STATE_HOME/mooncage, else ~/.local/state/mooncage, for root /var/lib/mooncage; fresh. NULL:
 * there is none to be had (HOME is not set), or no memory. */
char *mcg_state_directory(void);
/* Makes what is missing of it, 0700. 0 or -errno. */
int mcg_make_directories(const char *path);

/* Where the anchor of a log is; fresh, NULL: no place or memory. `log` is an absolute path. */
char *mcg_anchor_path(const char *log);
/* 1 there is one, 0 there is none, -errno. */
int mcg_anchor_read(const char *path, mcg_anchor *out);
/* Can one be written there? Makes an empty one, which counts as none, where nothing is. */
bool mcg_anchor_claim(const char *path);
/* The log that an anchor is of; fresh; NULL: it does not say, or no memory. */
char *mcg_anchor_log(const char *path);
/* *fd is -1 or what an earlier call left there: the caller closes it. 0 or -errno. */
int mcg_anchor_write(int *fd, const char *path, const char *log, const mcg_anchor *anchor);

#endif
