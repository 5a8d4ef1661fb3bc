/* builtin.h: functions of init that run in a forked child, confined like a command: its input and output
 * are the command's. They end by returning, or by builtin_fail, whose number and text EXIT carries. */
#ifndef MCG_BUILTIN_H
#define MCG_BUILTIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct mcg_server;

_Noreturn void builtin_fail(int number, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same, with what to do about it: short, for both share 255 bytes. */
_Noreturn void builtin_fail_fix(int number, const char *fix, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void *builtin_alloc(size_t size); /* zeroed; never NULL */
/* Called once by builtin_fail; from then on being told to end (SIGTERM) is a failure too, at the next read
 * of the input. NULL: no more. */
void builtin_on_failure(void (*undo)(void));
/* In a sandbox of several users what is made belongs to whom the directory `dir` belongs to. Call it
 * before the mode is set. The second opens what mkdirat has just made. */
void builtin_give(int dir, int made);
void builtin_give_directory(int dir, const char *name);

/* Among this sandbox's built-ins, until it ends: some may pack a tree at a time, or one change it. Waits for
 * the others, but not for ever. */
void builtin_lock(bool alone);

/* All of it to stdout, gathered; or the end of the built-in. */
void builtin_put(const void *bytes, size_t len);
void builtin_flush(void);
/* Up to len bytes from stdin; fewer only at its end. */
size_t builtin_get(void *bytes, size_t len);

/* paths.c. Paths of requests: relative to the working directory, or absolute; none leaves the working
 * directory by "..". Where paths are confined (plain sandboxes) links are followed only beneath it. */
void paths_init(const char *workdir, bool confined);
int paths_open(const char *path, int flags, mode_t mode); /* -1: errno */
int paths_need(const char *path, int flags);              /* or the end */
/* The directory a path is in, and its last name, never "", "." or "..". */
int paths_parent(const char *path, char name[256]);
/* Makes directory and parents, and opens it. */
int paths_make(const char *path, mode_t mode);

/* tree walks that hold two descriptors however deep the tree is, and follow no link: walk.c */
typedef struct walk_level {
  dev_t dev;
  ino_t ino;
  size_t path_len;
} walk_level;
typedef struct tree_walk {
  int fd; /* the directory one is in */
  walk_level *levels;
  size_t depth, cap;
  char *path; /* relative to where the walk began, without a leading "./"; "" there */
  size_t path_len, path_cap;
} tree_walk;
void walk_init(tree_walk *walk, int fd);           /* takes fd */
void walk_path(tree_walk *walk, const char *name); /* path of an entry in the current directory */
bool walk_down(tree_walk *walk, const char *name); /* false: errno */
bool walk_up(tree_walk *walk, char name[256]); /* false: at the top. The name of what was left */
void walk_fini(tree_walk *walk);

/* remove.c: what is called `name` in `dir`, with all that is below it. */
void tree_remove(int dir, const char *name);  /* or the end */
bool tree_discard(int dir, const char *name); /* false: some of it stays */
/* A directory that keeps its owner out is opened to it; `was` is its mode before. False: errno. */
bool builtin_let_in(int dir, const char *name, mode_t *was);
bool builtin_set_mode(int dir, const char *name, mode_t mode); /* of a directory */

/* One directory's entries, without "." and "..". */
typedef struct entries {
  int fd;
  size_t at, len;
  char bytes[32768];
} entries;
void entries_init(entries *list, int fd); /* borrows fd, starts from its beginning */
const char *entries_next(entries *list);  /* NULL: the end */

/* The built-ins themselves; argv[0] is the name, argc is right. */
void builtin_read(int argc, char **argv);
void builtin_write(int argc, char **argv);
void builtin_list(int argc, char **argv);
void builtin_stat(int argc, char **argv);
void builtin_mkdir(int argc, char **argv);
void builtin_remove(int argc, char **argv);
void builtin_move(int argc, char **argv);
void builtin_disk(int argc, char **argv);
void builtin_pack(int argc, char **argv);    /* pack-strict too */
void builtin_unpack(int argc, char **argv);  /* unpack-strict and replace too */
void builtin_changes(int argc, char **argv); /* changeset too: builtin_project.c */
void builtin_apply(int argc, char **argv);
void builtin_processes(const struct mcg_server *server);

/* tar_unpack.c, also for the fuzzer: an archive from builtin_get into a directory, whole or not at all. */
void tar_unpack(int target, bool strict, bool replaces);

#endif
