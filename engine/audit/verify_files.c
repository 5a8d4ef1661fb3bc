/* verify_files.c: which files are one log: NAME.jsonl, and each NAME.SEQ.jsonl that was put aside when
 * it was full. Looked for where they lie, and in the anchors, which know of those that are gone. */
#include "verify.h"
#include "anchor.h"
#include "engine.h"
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SEQ_DIGITS 12 /* at least: as jsonl.c writes them */
#define ENDING ".jsonl"
#define ENDING_LEN (sizeof ENDING - 1)

static bool is_digit(char byte)
{
  return byte >= '0' && byte <= '9';
}

/* Sets `stem` and `ends` from the path. */
static void read_name(mcg_log_file *file)
{
  const char *path = file->path;
  size_t len = strlen(path), digits = 0;
  file->stem = len;
  if (len <= ENDING_LEN || strcmp(path + len - ENDING_LEN, ENDING) != 0) return;
  file->stem = len -= ENDING_LEN;
  while (digits < len && is_digit(path[len - 1 - digits])) digits++;
  if (digits < SEQ_DIGITS || digits + 2 > len || path[len - 1 - digits] != '.') return;
  if (path[len - 2 - digits] == '/') return;
  unsigned long long seq = strtoull(path + len - digits, NULL, 10);
  if (seq > MCG_SEQ_MAX) return;
  file->ends = seq;
  if (seq) file->stem = len - digits - 1;
}

bool mcg_log_file_same(const mcg_log_file *a, const mcg_log_file *b)
{
  return a->stem == b->stem && strncmp(a->path, b->path, a->stem) == 0;
}

/* `of`: only what was put aside of that log; NULL: all. */
static void add(mcg_log_files *files, char *take_path, bool whole, const mcg_log_file *of)
{
  mcg_log_file file = {.path = take_path, .whole = whole};
  if (take_path) read_name(&file);
  bool wanted = take_path && (!of || (file.ends && mcg_log_file_same(&file, of)));
  for (size_t i = 0; wanted && i < files->count; i++) {
    if (strcmp(files->list[i].path, take_path) != 0) continue;
    files->list[i].whole |= whole;
    wanted = false;
  }
  mcg_log_file *longer =
      wanted ? realloc(files->list, (files->count + 1) * sizeof *longer) : files->list;
  if (wanted && longer) {
    files->list = longer;
    longer[files->count++] = file;
    return;
  }
  if (wanted || !take_path) files->failed = true;
  free(take_path);
}

/* `prefix` is the directory with its slash, or empty. */
static DIR *open_directory(const char *prefix)
{
  return opendir(*prefix ? prefix : ".");
}

static void add_present(mcg_log_files *files, const char *prefix, const mcg_log_file *of)
{
  DIR *dir = open_directory(prefix);
  struct dirent *each;
  while (dir && (each = readdir(dir))) {
    size_t len = strlen(each->d_name);
    if (len > ENDING_LEN && strcmp(each->d_name + len - ENDING_LEN, ENDING) == 0)
      add(files, mcg_format("%s%s", prefix, each->d_name), true, of);
  }
  if (dir) closedir(dir);
}

/* The name of a log in the directory `where`, which an anchor is of; within `log`, or NULL. */
static const char *name_in(char *log, const char *where)
{
  char there[PATH_MAX];
  char *slash = log ? strrchr(log, '/') : NULL;
  if (!slash) return NULL;
  *slash = '\0';
  bool here = strcmp(realpath(log, there) ? there : log, where) == 0;
  *slash = '/';
  return here ? slash + 1 : NULL;
}

/* A log that is gone has left its anchor, which names it. */
static void add_anchored(mcg_log_files *files, const char *prefix, const mcg_log_file *of)
{
  auto_free char *state = mcg_state_directory();
  auto_free char *place = state ? mcg_format("%s/anchors", state) : NULL;
  auto_free char *plain = strdup(*prefix ? prefix : ".");
  char real[PATH_MAX];
  if (!plain) return;
  for (size_t len = strlen(plain); len > 1 && plain[len - 1] == '/'; len--) plain[len - 1] = '\0';
  const char *where = realpath(plain, real) ? real : plain;
  DIR *dir = place ? opendir(place) : NULL;
  struct dirent *each;
  while (dir && (each = readdir(dir))) {
    auto_free char *path = mcg_format("%s/%s", place, each->d_name);
    auto_free char *log = path && *each->d_name != '.' ? mcg_anchor_log(path) : NULL;
    const char *name = name_in(log, where);
    if (name) add(files, mcg_format("%s%s", prefix, name), true, of);
  }
  if (dir) closedir(dir);
}

/* The log at `path`, and what was put aside of it. */
static void add_log(mcg_log_files *files, const char *path)
{
  mcg_log_file log = {.path = path};
  read_name(&log);
  add(files, strdup(path), !log.ends, NULL);
  if (log.ends) return;
  const char *slash = strrchr(path, '/');
  auto_free char *prefix = strndup(path, slash ? (size_t)(slash - path) + 1 : 0);
  if (!prefix) {
    files->failed = true;
    return;
  }
  add_present(files, prefix, &log);
  add_anchored(files, prefix, &log);
}

void mcg_log_files_add(mcg_log_files *files, const char *path)
{
  struct stat about;
  size_t before = files->count, len = strlen(path);
  while (len > 1 && path[len - 1] == '/') len--;
  auto_free char *plain = strndup(path, len);
  auto_free char *prefix = plain ? mcg_format("%s/", plain) : NULL;
  if (!prefix) {
    files->failed = true;
    return;
  }
  bool there = stat(plain, &about) == 0, directory = there && S_ISDIR(about.st_mode);
  if (directory) add_present(files, prefix, NULL);
  if (directory || !there) add_anchored(files, prefix, NULL); /* all of it may have been removed */
  if (!directory && files->count == before) add_log(files, plain);
}

static int compare(const void *a, const void *b)
{
  const mcg_log_file *one = a, *other = b;
  size_t len = one->stem < other->stem ? one->stem : other->stem;
  int order = strncmp(one->path, other->path, len);
  if (order == 0 && one->stem != other->stem) order = one->stem < other->stem ? -1 : 1;
  if (order != 0) return order;
  if (one->ends != other->ends) return one->ends - 1 < other->ends - 1 ? -1 : 1; /* 0 is the last */
  return strcmp(one->path, other->path);
}

void mcg_log_files_sort(mcg_log_files *files)
{
  qsort(files->list, files->count, sizeof *files->list, compare);
  for (size_t i = 0; i < files->count; i++) /* all of a log as soon as one is */
    for (size_t k = 0; k < files->count && files->list[i].whole; k++)
      if (mcg_log_file_same(&files->list[i], &files->list[k])) files->list[k].whole = true;
}

void mcg_log_files_fini(mcg_log_files *files)
{
  for (size_t i = 0; i < files->count; i++) free((char *)files->list[i].path);
  free(files->list);
}
