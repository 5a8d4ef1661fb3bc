/* unfinished.c: the marks of writers, and what dead ones have left open. Everything here is done under
 * the lock of the log, but that a mark is there before it has its name: it is locked by then. */
#include "unfinished.h"
#include "anchor.h"
#include "engine.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define MARK_MAX 65536 /* bytes of a mark: one line a file that was written to */
#define DEAD_MAX 1024  /* marks looked at in one go */

struct mcg_unfinished {
  char *directory; /* of the marks */
  char engine[MCG_WRITER_LEN + 1];
  int fd; /* our mark; -1: none yet */
  bool placed;
  ino_t inode; /* the file that it names last */
  char *dead[DEAD_MAX];
  size_t dead_count;
};

mcg_unfinished *mcg_unfinished_new(const char *log, const char *engine)
{
  auto_free char *state = mcg_state_directory();
  auto_free char *anchor = mcg_anchor_path(log);
  mcg_unfinished *self = state && anchor ? calloc(1, sizeof *self) : NULL;
  if (!self) return NULL;
  self->fd = -1;
  snprintf(self->engine, sizeof self->engine, "%.*s", MCG_WRITER_LEN, engine);
  self->directory = mcg_format("%s/writers%s", state, strrchr(anchor, '/'));
  if (self->directory) return self;
  free(self);
  return NULL;
}

static char *mark_path(const mcg_unfinished *self, const char *name)
{
  return mcg_format("%s/%s", self->directory, name);
}

static void unlink_mark(const mcg_unfinished *self, const char *name)
{
  auto_free char *path = mark_path(self, name);
  if (path) unlink(path);
}

void mcg_unfinished_free(mcg_unfinished *self)
{
  if (!self) return;
  if (self->placed) unlink_mark(self, self->engine);
  if (self->fd >= 0) close(self->fd);
  while (self->dead_count) free(self->dead[--self->dead_count]);
  free(self->directory);
  free(self);
}

/* ---- our own mark ------------------------------------------------------------------------- */

static int make_mark(mcg_unfinished *self)
{
  char name[MCG_WRITER_LEN + 8];
  snprintf(name, sizeof name, ".%s", self->engine); /* not looked at by others */
  auto_free char *path = mark_path(self, name);
  const int flags = O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
  if (!path) return -1;
  int fd = open(path, flags, 0600);
  if (fd < 0 && errno == ENOENT && mcg_make_directories(self->directory) == 0)
    fd = open(path, flags, 0600);
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

static void place_mark(mcg_unfinished *self)
{
  char name[MCG_WRITER_LEN + 8];
  snprintf(name, sizeof name, ".%s", self->engine);
  auto_free char *from = mark_path(self, name);
  auto_free char *to = mark_path(self, self->engine);
  self->placed = from && to && rename(from, to) == 0;
}

void mcg_unfinished_mark(mcg_unfinished *self, const char *path, const struct stat *file,
                         off_t from)
{
  if (!self || (self->placed && self->inode == file->st_ino)) return;
  if (self->fd < 0) self->fd = make_mark(self);
  if (self->fd < 0) return;
  char line[PATH_MAX + 64];
  int len = snprintf(line, sizeof line, "%llu %lld %s\n", (unsigned long long)file->st_ino,
                     (long long)from, path);
  if (len >= (int)sizeof line || write(self->fd, line, (size_t)len) != len) return;
  self->inode = file->st_ino;
  if (!self->placed) place_mark(self);
}

/* ---- what is in a log --------------------------------------------------------------------- */

static bool ours_to_say(const char *text)
{
  return text && *text && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(text);
}

/* A start of that engine: kept until its finish is met. */
static void note_start(json_t *open, const char *engine, const char *line, size_t len)
{
  auto_error mcg_error *ignored = NULL;
  auto_json json_t *event = mcg_json_parse(line, len, &ignored);
  const char *id = json_string_value(json_object_get(event, "id"));
  const char *phase = json_string_value(json_object_get(event, "phase"));
  const char *by = json_string_value(json_object_get(event, "engine"));
  const char *op = json_string_value(json_object_get(event, "op"));
  const char *session = json_string_value(json_object_get(event, "session"));
  if (phase && strcmp(phase, "start") == 0 && by && strcmp(by, engine) == 0 && ours_to_say(id) &&
      ours_to_say(op) && ours_to_say(session))
    json_object_set(open, id, event);
}

/* Its id is one of those: within text a quote has a backslash before it, so this is a key. */
static void note_finish(json_t *open, const char *line, size_t len)
{
  static const char key[] = "\"id\":\"";
  const char *at = line, *end = line + len;
  while ((at = memmem(at, (size_t)(end - at), key, sizeof key - 1))) {
    at += sizeof key - 1;
    const char *quote = memchr(at, '"', (size_t)(end - at));
    if (!quote) return;
    auto_free char *id = strndup(at, (size_t)(quote - at));
    if (id) json_object_del(open, id);
  }
}

static void read_lines(json_t *open, const char *engine, FILE *log)
{
  char mine[MCG_WRITER_LEN + 16];
  char *line = NULL;
  size_t cap = 0;
  ssize_t len;
  snprintf(mine, sizeof mine, "\"engine\":\"%s\"", engine);
  while ((len = getline(&line, &cap, log)) > 0 && (size_t)len <= MCG_LINE_MAX) {
    if (memmem(line, (size_t)len, mine, strlen(mine)))
      note_start(open, engine, line, (size_t)len);
    else if (json_object_size(open) && memmem(line, (size_t)len, "\"phase\":\"finish\"", 16))
      note_finish(open, line, (size_t)len);
  }
  free(line);
}

static int open_inode(const char *path, ino_t inode)
{
  struct stat about;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return -1;
  if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_ino == inode) return fd;
  close(fd);
  return -1;
}

/* The file, also where it was put aside under another name. */
static int open_log(const char *path, ino_t inode)
{
  int fd = open_inode(path, inode);
  const char *slash = strrchr(path, '/');
  if (fd >= 0 || !slash) return fd;
  auto_free char *directory = strndup(path, (size_t)(slash - path));
  DIR *dir = directory ? opendir(*directory ? directory : "/") : NULL;
  for (struct dirent *each; dir && fd < 0 && (each = readdir(dir));) {
    if (each->d_ino != inode) continue;
    auto_free char *aside = mcg_format("%s/%s", directory, each->d_name);
    if (aside) fd = open_inode(aside, inode);
  }
  if (dir) closedir(dir);
  return fd;
}

static void read_log(json_t *open, const char *engine, const char *entry)
{
  unsigned long long inode;
  long long from;
  int path_at = 0;
  if (sscanf(entry, "%llu %lld %n", &inode, &from, &path_at) != 2 || !path_at || from < 0) return;
  int fd = open_log(entry + path_at, (ino_t)inode);
  FILE *log = fd >= 0 ? fdopen(fd, "r") : NULL;
  if (log && fseeko(log, (off_t)from, SEEK_SET) == 0) read_lines(open, engine, log);
  if (log)
    fclose(log);
  else if (fd >= 0)
    close(fd);
}

/* ---- dead ones ---------------------------------------------------------------------------- */

/* Adds what it has left open; true: nobody holds it. */
static bool read_mark(const mcg_unfinished *self, const char *name, json_t *found)
{
  auto_free char *path = mark_path(self, name);
  auto_fd int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) return false;
  auto_free char *text = calloc(1, MARK_MAX + 1);
  auto_json json_t *open = json_object();
  if (!text || !open || read(fd, text, MARK_MAX) < 0) return false;
  char *rest = NULL;
  for (char *entry = strtok_r(text, "\n", &rest); entry; entry = strtok_r(NULL, "\n", &rest))
    read_log(open, name, entry);
  const char *id;
  json_t *event;
  json_object_foreach(open, id, event) json_array_append(found, event);
  return true;
}

static void forget_names(mcg_unfinished *self, bool unlink_too)
{
  while (self && self->dead_count) {
    char *name = self->dead[--self->dead_count];
    if (unlink_too) unlink_mark(self, name);
    free(name);
  }
}

json_t *mcg_unfinished_find(mcg_unfinished *self)
{
  forget_names(self, false); /* of a try that failed */
  json_t *found = json_array();
  DIR *dir = self ? opendir(self->directory) : NULL;
  for (struct dirent *each; dir && self->dead_count < DEAD_MAX && (each = readdir(dir));) {
    const char *name = each->d_name;
    if (strlen(name) != MCG_WRITER_LEN || !ours_to_say(name) || strcmp(name, self->engine) == 0)
      continue;
    if (read_mark(self, name, found) && (self->dead[self->dead_count] = strdup(name)))
      self->dead_count++;
  }
  if (dir) closedir(dir);
  return found;
}

void mcg_unfinished_forget(mcg_unfinished *self)
{
  forget_names(self, true);
}
