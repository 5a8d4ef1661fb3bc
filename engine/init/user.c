/* user.c: who a command is to be. Names are looked up in the sandbox's own /etc/passwd, which the
 * sandbox may have written: it decides between the ids of this sandbox only. */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PASSWD_MAX 65536

static bool parse_id(const char *text, char end, unsigned *out)
{
  char *stop;
  if (*text < '0' || *text > '9') return false;
  errno = 0;
  unsigned long value = strtoul(text, &stop, 10);
  if (errno || *stop != end || value >= 0xffffffffUL) return false;
  *out = (unsigned)value;
  return true;
}

static void put_setting(char *out, const char *name, const char *value)
{
  int len = snprintf(out, MCG_USER_SETTING, "%s=%s", name, value);
  if (len < 0 || len >= MCG_USER_SETTING || !*value) *out = 0;
}

/* name:password:uid:gid:comment:home:... ; `line` ends in NUL. */
static bool parse_line(char *line, const char *name, unsigned uid, mcg_user_entry *out)
{
  char *field[6] = {NULL}, *rest = line;
  for (int i = 0; i < 6; i++) field[i] = strsep(&rest, ":");
  if (!field[3]) return false;
  unsigned found_uid, found_gid;
  if (!parse_id(field[2], 0, &found_uid) || !parse_id(field[3], 0, &found_gid)) return false;
  if (name ? strcmp(field[0], name) != 0 : found_uid != uid) return false;
  out->uid = found_uid;
  out->gid = found_gid;
  put_setting(out->name, "USER", field[0]);
  put_setting(out->home, "HOME", field[5] ? field[5] : "");
  return true;
}

static int search_passwd(const char *name, unsigned uid, mcg_user_entry *out)
{
  int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errno;
  char *text = malloc(PASSWD_MAX + 1);
  ssize_t len = text ? read(fd, text, PASSWD_MAX) : -1;
  close(fd);
  int result = text ? ENOENT : ENOMEM;
  if (len > 0) {
    text[len] = 0;
    char *rest = text;
    for (char *line; result && (line = strsep(&rest, "\n"));)
      if (parse_line(line, name, uid, out)) result = 0;
  }
  free(text);
  return result;
}

int mcg_user_find(const char *text, mcg_user_entry *out)
{
  unsigned number, group;
  const char *colon = strchr(text, ':');
  *out->name = *out->home = 0;
  if (colon) {
    if (!parse_id(text, ':', &number) || !parse_id(colon + 1, 0, &group)) return EINVAL;
    search_passwd(NULL, number, out);
    out->uid = number;
    out->gid = group;
    return 0;
  }
  if (!parse_id(text, 0, &number)) return search_passwd(text, 0, out);
  out->gid = number;
  search_passwd(NULL, number, out);
  out->uid = number;
  return 0;
}
