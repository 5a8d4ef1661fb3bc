/* manifest_users.c: reads the manifest's users, and judges what can be judged without the sandbox. */
#include "config/check.h"
#include "config/manifest_parts.h"
#include <stdint.h>
#include <string.h>

#define USERS_MAX 64
#define NAME_LEN_MAX 32
#define HOME_LEN_MAX 255
#define LAST_ID 65533 /* of the range: nobody is 65534, and 65535 is init's own */

static int check_name(const char *name, const mcg_where *where, mcg_error **err)
{
  static const char *const there[] = {"root", "sandbox", "nobody"};
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  static const char rest[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789-.";
  size_t len = strlen(name);
  if (!strspn(name, letters) || strspn(name, rest) != len || len > NAME_LEN_MAX)
    return mcg_check_fail(where, err,
                          "begin it with a letter or _, go on with letters, digits, _, - and .",
                          "it is no name for a user, of at most %d bytes", NAME_LEN_MAX);
  for (size_t i = 0; i < sizeof there / sizeof *there; i++)
    if (strcmp(name, there[i]) == 0)
      return mcg_check_fail(where, err, "choose another name", "every sandbox has a user %s", name);
  return 0;
}

/* Absolute, as the kernel would spell it, and not of what the sandbox itself is made of. */
static int check_home(const char *home, const mcg_where *where, mcg_error **err)
{
  static const char *const ours[] = {"proc", "dev", "sys", "mooncage"};
  bool good = *home == '/' && home[1] && strlen(home) <= HOME_LEN_MAX;
  for (const char *c = home; *c; c++) good = good && (unsigned char)*c >= ' ' && *c != 127;
  for (const char *part = home; good && *part;) {
    size_t len = strcspn(++part, "/");
    good = len && !(len == 1 && *part == '.') && !(len == 2 && memcmp(part, "..", 2) == 0) &&
           !memchr(part, ':', len);
    part += len;
  }
  if (!good)
    return mcg_check_fail(where, err, "write an absolute path such as /home/NAME",
                          "it is no place for a home");
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
    size_t len = strlen(ours[i]);
    if (strncmp(home + 1, ours[i], len) == 0 && (home[len + 1] == '/' || !home[len + 1]))
      return mcg_check_fail(where, err, "write another place, such as /home/NAME",
                            "/%s is the sandbox's own", ours[i]);
  }
  return 0;
}

static int read_id(const json_t *value, const char *key, const mcg_where *up, unsigned *out,
                   mcg_error **err)
{
  const json_t *number = json_object_get(value, key);
  mcg_where at = {.up = up, .key = key};
  double id = 0;
  if (!number) return 0;
  if (mcg_check_number(number, &at, 0, UINT32_MAX, true, &id, err) < 0) return -1;
  if (id < 1)
    return mcg_check_fail(&at, err, "leave it out, and one that is free is chosen",
                          "0 is root's: every sandbox has that user");
  if (id > LAST_ID)
    return mcg_check_fail(&at, err, "leave it out, and one that is free is chosen",
                          "it must be 1 to %d: a sandbox has no other ids", LAST_ID);
  *out = (unsigned)id;
  return 0;
}

static int check_twice(const mcg_manifest *m, const mcg_where *up, mcg_error **err)
{
  const mcg_user *user = &m->users[m->user_count - 1];
  for (const mcg_user *other = m->users; other < user; other++) {
    const char *key = strcmp(other->name, user->name) == 0   ? "name"
                      : strcmp(other->home, user->home) == 0 ? "home"
                      : user->uid && other->uid == user->uid ? "uid"
                                                             : NULL;
    mcg_where at = {.up = up, .key = key};
    if (key)
      return mcg_check_fail(&at, err, "give each user its own", "users[%zu] has the same",
                            (size_t)(other - m->users) + 1);
  }
  return 0;
}

static int read_user(mcg_manifest *m, const json_t *value, const mcg_where *where, mcg_error **err)
{
  static const char *const keys[] = {"name", "uid", "gid", "home", NULL};
  mcg_where at_name = {.up = where, .key = "name"}, at_home = {.up = where, .key = "home"};
  const json_t *home = json_object_get(value, "home");
  const char *name, *path = NULL;
  mcg_user user = {0};
  if (mcg_check_keys(value, keys, where, err) < 0 ||
      mcg_check_string(json_object_get(value, "name"), &at_name, &name, err) < 0 ||
      check_name(name, &at_name, err) < 0 ||
      (home && mcg_check_string(home, &at_home, &path, err) < 0) ||
      (path && check_home(path, &at_home, err) < 0) ||
      read_id(value, "uid", where, &user.uid, err) < 0 ||
      read_id(value, "gid", where, &user.gid, err) < 0)
    return -1;
  user.name = strdup(name);
  user.home = path ? strdup(path) : mcg_format("/home/%s", name);
  m->users[m->user_count++] = user;
  if (!user.name || !user.home) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the manifest");
  return check_twice(m, where, err);
}

int mcg_manifest_read_users(mcg_manifest *m, const json_t *manifest, const mcg_where *root,
                            mcg_error **err)
{
  const json_t *list = json_object_get(manifest, "users"), *item;
  mcg_where where = {.up = root, .key = "users"};
  size_t i, count = json_array_size(list);
  if (!list) return 0;
  if (mcg_check_list(list, &where, err) < 0) return -1;
  if (count > USERS_MAX)
    return mcg_check_fail(&where, err, "leave some out", "there are more than %d", USERS_MAX);
  m->users = calloc(count + 1, sizeof *m->users);
  if (!m->users) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the manifest");
  json_array_foreach(list, i, item)
  {
    mcg_where at = {.up = &where, .index = i};
    if (read_user(m, item, &at, err) < 0) return -1;
  }
  return 0;
}
