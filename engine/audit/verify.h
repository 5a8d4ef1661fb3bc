/* verify.h: is a log what was written? Reads one file, or all that were put aside of it, and says where
 * it is not. */
#ifndef MCG_VERIFY_H
#define MCG_VERIFY_H

#include "sink.h"

typedef struct mcg_log_file {
  const char *path;
  uint64_t ends; /* of one that was put aside: the seq of its last line; 0: it was not */
  size_t stem;   /* so much of the path those have in common that are one log */
  bool whole;    /* all that is one log with it was looked for */
} mcg_log_file;

/* Where one file of a log ends, and the next has to begin. */
typedef struct mcg_link {
  const char *before; /* NULL: nothing is before it */
  uint64_t seq;
  char head[MCG_HASH_LEN]; /* '?': not known */
} mcg_link;

/* {file, ok, lines, first_seq, last_seq, anchor ("ok", "none", "behind", "wrong"), problems: [{line, seq,
 * kind, message}], notes: [{line, message}]}. May run on any thread. `key` NULL: plain hashes. NULL: no
 * memory. With a link the file has to go on from there; it is moved on. */
json_t *mcg_verify_linked(const mcg_log_file *file, mcg_link *link, const char *key,
                          size_t key_len);
json_t *mcg_verify_file(const char *path, const char *key, size_t key_len); /* by itself */

/* ---- verify_files.c ------------------------------------------------------------------------ */

typedef struct mcg_log_files {
  mcg_log_file *list;
  size_t count;
  bool failed; /* no memory */
} mcg_log_files;

/* Of a directory: its .jsonl files, and those that anchors say were in it. Of a log: it and what was put
 * aside of it, found in the same way. Of a file that was put aside: that one. */
void mcg_log_files_add(mcg_log_files *files, const char *path);
bool mcg_log_file_same(const mcg_log_file *a, const mcg_log_file *b); /* are they one log? */
/* Into the order of their chains: what was put aside, then the log itself. */
void mcg_log_files_sort(mcg_log_files *files);
void mcg_log_files_fini(mcg_log_files *files);

#endif
