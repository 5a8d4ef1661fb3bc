/* project.h: what changed between a project and the copy-on-write view of it, and writing that back.
 *
 * The scan compares two directory trees by walking them: it knows nothing of overlays, whiteouts or
 * redirects, and runs confined in the sandbox, as a built-in. Applying runs outside, unconfined, on
 * records that a hostile sandbox wrote: it judges every record before it writes anything, and writes
 * beneath the project directory only.
 *
 * A change is a record: the header below, the path, the link's target, and where the stream carries
 * data the bytes of a file that was added or modified. Deletions come children first, additions
 * parents first; a path that changed its kind is a deletion and then an addition. */
#ifndef MCG_PROJECT_H
#define MCG_PROJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MCG_CHANGE_HEADER 32
typedef struct mcg_change {
  uint8_t op;   /* 'A', 'M', 'D' */
  uint8_t kind; /* of the path now ('D': as it was): 'f' file, 'd' directory, 'l' link, 'o' other */
  uint16_t path_len, target_len;
  uint32_t mode; /* permission bits, set-id bits included */
  uint64_t size; /* of a file now, and of the data where the stream carries it; else 0 */
  uint64_t old_size;
} mcg_change;
void mcg_change_encode(const mcg_change *change, uint8_t out[MCG_CHANGE_HEADER]);
/* False: not a record that a scan writes. */
bool mcg_change_decode(const uint8_t in[MCG_CHANGE_HEADER], mcg_change *out);

/* Where it went wrong: an errno, and one line about it. */
typedef struct mcg_trouble {
  int number;
  char text[4352];
} mcg_trouble;
int mcg_trouble_set(mcg_trouble *trouble, int number, const char *format, ...)
    __attribute__((format(printf, 3, 4))); /* returns -1 */

/* Writes the changes from `old_dir` to `new_dir` (directory descriptors) to `out`. 0 or -1. */
int mcg_project_scan(int old_dir, int new_dir, bool with_data, int out, mcg_trouble *trouble);

typedef struct mcg_apply_options {
  int64_t since_s; /* realtime at which the view was made: a file changed after it is a conflict */
  uint32_t since_ns;
  bool git;        /* may write under .git */
  bool judge_only; /* says whether it would be written, and writes nothing */
} mcg_apply_options;
/* Reads a stream with data from `in` to its end, judges it, then writes. Each applied change is
 * written to `out` as its record without data. Trouble: ESTALE conflict, EPERM refused, else errno. */
int mcg_project_write_back(int dir, const mcg_apply_options *options, int in, int out,
                           mcg_trouble *trouble);

#endif
