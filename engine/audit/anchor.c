/* anchor.c: one small file a log, of one line that is written over in place. */
#include "anchor.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define HEAD_ROOM 192 /* for the figures; what follows is the path, for people */

char *mcg_state_directory(void)
{
  const char *state = secure_getenv("XDG_STATE_HOME");
  if (state && *state == '/') return mcg_format("%s/mooncage", state);
  if (geteuid() == 0) return strdup("/var/lib/mooncage");
  const char *home = secure_getenv("HOME");
  return home && *home == '/' ? mcg_format("%s/.local/state/mooncage", home) : NULL;
}

int mcg_make_directories(const char *path)
{
  if (access(path, X_OK) == 0) return 0;
  char copy[PATH_MAX];
  size_t len = strlen(path);
  if (len >= sizeof copy) return -ENAMETOOLONG;
  memcpy(copy, path, len + 1);
  for (char *at = copy + 1; *at; at++) {
    if (*at != '/') continue;
    *at = '\0';
    if (mkdir(copy, 0700) < 0 && errno != EEXIST) return -errno;
    *at = '/';
  }
  return mkdir(copy, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* By the real directory: the same log has one anchor, whichever way it is named. */
char *mcg_anchor_path(const char *log)
{
  auto_free char *state = mcg_state_directory();
  const char *slash = strrchr(log, '/');
  if (!state || !slash) return NULL;
  auto_free char *directory = strndup(log, slash == log ? 1 : (size_t)(slash - log));
  char real[PATH_MAX];
  if (!directory) return NULL;
  const char *where = realpath(directory, real) ? real : directory;
  mcg_sha256 hash;
  uint8_t digest[32];
  char name[33] = {0};
  mcg_sha256_init(&hash);
  mcg_sha256_update(&hash, where, strlen(where));
  mcg_sha256_update(&hash, slash, strlen(slash));
  mcg_sha256_final(&hash, digest);
  mcg_hex(digest, 16, name);
  return mcg_format("%s/anchors/%s", state, name);
}

/* Nothing in its place is waited for, and nothing but a file is one. -errno. */
static int open_file(const char *path, int flags)
{
  struct stat about;
  int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
  if (fd < 0) return -errno;
  int rc = fstat(fd, &about) < 0    ? -errno
           : S_ISREG(about.st_mode) ? fd
           : S_ISDIR(about.st_mode) ? -EISDIR
                                    : -EBADMSG;
  if (rc < 0) close(fd);
  return rc;
}

int mcg_anchor_read(const char *path, mcg_anchor *out)
{
  char text[HEAD_ROOM + 1];
  unsigned long long base, seq;
  auto_fd int fd = open_file(path, O_RDONLY);
  if (fd < 0) return fd == -ENOENT ? 0 : fd;
  ssize_t len = pread(fd, text, HEAD_ROOM, 0);
  if (len < 0) return -errno;
  text[len] = '\0';
  char head[MCG_HASH_LEN + 1];
  if (sscanf(text, "v1 base %llu seq %llu head %64[0-9a-f]", &base, &seq, head) != 3 ||
      strlen(head) != MCG_HASH_LEN || base > seq || seq > MCG_SEQ_MAX)
    return len == 0 ? 0 : -EBADMSG;
  *out = (mcg_anchor){.base = base, .seq = seq};
  memcpy(out->head, head, MCG_HASH_LEN);
  return 1;
}

char *mcg_anchor_log(const char *path)
{
  char text[PATH_MAX + 1];
  auto_fd int fd = open_file(path, O_RDONLY);
  ssize_t len = fd < 0 ? -1 : pread(fd, text, PATH_MAX, HEAD_ROOM);
  if (len <= 0) return NULL;
  text[len] = '\0';
  text[strcspn(text, "\n")] = '\0';
  return *text == '/' ? strdup(text) : NULL;
}

static int anchor_open(const char *path)
{
  int fd = open_file(path, O_WRONLY | O_CREAT);
  if (fd != -ENOENT) return fd;
  auto_free char *directory = strndup(path, (size_t)(strrchr(path, '/') - path));
  int rc = directory ? mcg_make_directories(directory) : -ENOMEM;
  return rc < 0 ? rc : open_file(path, O_WRONLY | O_CREAT);
}

bool mcg_anchor_claim(const char *path)
{
  auto_fd int fd = anchor_open(path);
  return fd >= 0;
}

int mcg_anchor_write(int *fd, const char *path, const char *log, const mcg_anchor *anchor)
{
  char text[HEAD_ROOM + PATH_MAX];
  size_t total = HEAD_ROOM;
  if (*fd < 0) {
    int made = anchor_open(path);
    if (made < 0) return made;
    *fd = made;
    int more = snprintf(text + HEAD_ROOM, PATH_MAX, "%s\n", log);
    total += (size_t)(more < PATH_MAX ? more : PATH_MAX - 1);
  }
  mcg_text head = {.data = text, .cap = HEAD_ROOM}; /* it has room for all of it */
  mcg_text_literal(&head, "v1 base ");
  mcg_text_whole(&head, anchor->base);
  mcg_text_literal(&head, " seq ");
  mcg_text_whole(&head, anchor->seq);
  mcg_text_literal(&head, " head ");
  mcg_text_put(&head, anchor->head, MCG_HASH_LEN);
  memset(text + head.len, ' ', HEAD_ROOM - head.len);
  ssize_t put = pwrite(*fd, text, total, 0);
  if (put == (ssize_t)total) return 0;
  int rc = put < 0 ? -errno : -ENOSPC;
  close(*fd);
  *fd = -1; /* what was left out is written when it is opened again */
  return rc;
}
