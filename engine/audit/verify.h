/* verify.h: is a log what was written? Reads one file and says where it is not. */
#ifndef MCG_VERIFY_H
#define MCG_VERIFY_H

#include "sink.h"

/* {file, ok, lines, first_seq, last_seq, anchor ("ok", "none", "behind", "wrong"), problems: [{line, seq,
 * kind, message}], notes: [{line, message}]}. May run on any thread. `key` NULL: plain hashes. NULL: no
 * memory. */
json_t *mcg_verify_file(const char *path, const char *key, size_t key_len);

/* The .jsonl files of a directory, and those that anchors say were in it; sorted, fresh, ended by
 * NULL. A path that is no directory: itself. NULL: no memory. */
char **mcg_verify_files(const char *path);
void mcg_verify_files_free(char **files);

#endif
