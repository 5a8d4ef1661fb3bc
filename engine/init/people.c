/* people.c: the users that a sandbox with a range of uids is given: their lines in /etc/passwd and
 * /etc/group, and a home for each. Nothing here touches what the rootfs says of its own users. */
#include "people.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernel.h"

#define FIRST_ID 1000u
#define NOBODY 65534u

static int fail(mcg_jail *jail, int number, const mcg_spawn_user *user, const char *why)
{
  return mcg_jail_fail(jail, "users", number, "%s: %s", user->name, why);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Whether a line is of this name (NULL: of any) and this number (negative: of any). */
static bool line_is(const char *line, const char *name, long number)
{
  size_t len = strcspn(line, ":\n");
  if (name && (strlen(name) != len || memcmp(line, name, len) != 0)) return false;
  if (number < 0) return true;
  const char *field = line + len;
  for (int colons = 0; colons < 2; colons++) {
    if (*field != ':') return false;
    field++;
    if (colons == 0) field += strcspn(field, ":\n");
  }
  char *stop;
  return *field >= '0' && *field <= '9' && strtol(field, &stop, 10) == number &&
         (*stop == ':' || *stop == '\n' || *stop == 0);
}

static bool has(const char *text, const char *name, long number)
{
  for (; *text; text += *text == '\n') {
    if (line_is(text, name, number)) return true;
    text += strcspn(text, "\n");
  }
  return false;
}

static int append(mcg_jail *jail, mcg_names *names, const mcg_spawn_user *user, const char *line)
{
  size_t more = strlen(line);
  bool open_line = names->len && names->text[names->len - 1] != '\n';
  if (names->len + open_line + more >= sizeof names->text)
    return fail(jail, ENOSPC, user, "there is no room for it in /etc/passwd or /etc/group");
  if (open_line) names->text[names->len++] = '\n';
  memcpy(names->text + names->len, line, more + 1);
  names->len += more;
  return 0;
}

/* A group of one's own, unless there is one of that number already. */
static int add_group(mcg_jail *jail, const mcg_spawn_user *user, const mcg_person *person,
                     mcg_names *group)
{
  char line[64];
  bool there = has(group->text, NULL, person->gid);
  if (there && !user->gid)
    return fail(jail, EEXIST, user, "a group of its number is there: give it a gid");
  if (there) return 0;
  if (has(group->text, user->name, -1))
    return fail(jail, EEXIST, user, "a group of that name is there: give it that group's gid");
  snprintf(line, sizeof line, "%.32s:x:%u:\n", user->name, person->gid);
  return append(jail, group, user, line);
}

static int add_person(mcg_jail *jail, const mcg_spawn_user *user, mcg_person *person,
                      mcg_names *passwd, mcg_names *group)
{
  char line[512];
  if (has(passwd->text, user->name, -1))
    return fail(jail, EEXIST, user, "a user of that name is there");
  if (has(passwd->text, NULL, person->uid))
    return fail(jail, EEXIST, user, "a user of that uid is there");
  person->gid = user->gid ? user->gid : person->uid;
  if (add_group(jail, user, person, group) < 0) return -1;
  snprintf(line, sizeof line, "%.32s:x:%u:%u::%.300s:/bin/sh\n", user->name, person->uid,
           person->gid, user->home);
  return append(jail, passwd, user, line);
}

int mcg_jail_people(mcg_jail *jail, mcg_names *passwd, mcg_names *group)
{
  const mcg_spawn_spec *spec = jail->spec;
  unsigned next = FIRST_ID;
  if (spec->user_count > MCG_PEOPLE_MAX)
    return mcg_jail_fail(jail, "users", E2BIG, "more than %d", MCG_PEOPLE_MAX);
  for (int chosen = 0; chosen < 2; chosen++) /* those with a uid of their own go first */
    for (size_t i = 0; i < spec->user_count; i++) {
      const mcg_spawn_user *user = &spec->users[i];
      if ((user->uid == 0) != (chosen == 1)) continue;
      mcg_person *person = &jail->people[i];
      while (chosen && next < NOBODY &&
             (has(passwd->text, NULL, next) || has(group->text, NULL, next)))
        next++;
      person->uid = chosen ? next : user->uid;
      if (person->uid >= NOBODY) return fail(jail, EINVAL, user, "there is no uid for it");
      if (add_person(jail, user, person, passwd, group) < 0) return -1;
    }
  return 0;
}

/* ---- homes ---------------------------------------------------------------------------------- */

static bool beneath(const char *path, const char *directory)
{
  size_t len = strlen(directory);
  return strncmp(path, directory, len) == 0 && (path[len] == '/' || path[len] == 0);
}

/* On a directory that is written to, or on a root that is: it needs no mount of its own. */
static bool on_disk(const mcg_jail *jail, const char *home)
{
  mcg_jail_writable dirs[MCG_JAIL_WRITABLES];
  mcg_jail_writables(jail, dirs);
  if (jail->foreign) return true;
  for (size_t i = 0; i < MCG_JAIL_WRITABLES; i++)
    if (beneath(home, dirs[i].inside)) return true;
  return false;
}

static bool of_the_host(const char *home)
{
  static const char *const trees[] = {"/usr",   "/bin",   "/sbin",   "/lib",
                                      "/lib32", "/lib64", "/libx32", "/etc"};
  for (size_t i = 0; i < sizeof trees / sizeof *trees; i++)
    if (beneath(home, trees[i])) return true;
  return false;
}

static bool is_there(const mcg_jail *jail, const char *path)
{
  int fd = mcg_sys_openat2(jail->root, path + strspn(path, "/"), O_PATH | O_NOFOLLOW,
                           MCG_RESOLVE_IN_ROOT | MCG_RESOLVE_NO_SYMLINKS);
  bool missing = fd < 0 && errno == ENOENT;
  if (fd >= 0) close(fd);
  return !missing;
}

int mcg_jail_home_places(mcg_jail *jail)
{
  for (size_t i = 0; i < jail->spec->user_count; i++) {
    const mcg_spawn_user *user = &jail->spec->users[i];
    if (on_disk(jail, user->home)) continue;
    if (of_the_host(user->home))
      return fail(jail, EROFS, user, "its home would lie in what is the host's");
    if (is_there(jail, user->home)) return fail(jail, EEXIST, user, "its home is there already");
    int fd = mcg_jail_target(jail, "users", user->home, true);
    if (fd < 0) return -1;
    close(fd);
  }
  return 0;
}

static int own(mcg_jail *jail, size_t i, int home)
{
  const mcg_person *person = &jail->people[i];
  if (fchownat(home, "", person->uid, person->gid, AT_EMPTY_PATH) < 0)
    return fail(jail, errno, &jail->spec->users[i], "make its home its own");
  return 0;
}

/* A fresh one is private. */
static int make_own(mcg_jail *jail, size_t i, int home)
{
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", home);
  if (chmod(path, 0700) < 0)
    return fail(jail, errno, &jail->spec->users[i], "make its home private");
  return own(jail, i, home);
}

/* What is there already stays as it is, the workdir excepted: naming it gives it away. */
static int home_on_disk(mcg_jail *jail, size_t i)
{
  const mcg_spawn_user *user = &jail->spec->users[i];
  bool is_new = !is_there(jail, user->home);
  int home = mcg_jail_target(jail, "users", user->home, true);
  if (home < 0) return -1;
  bool given = strcmp(user->home, jail->workdir) == 0 && !jail->spec->project;
  int rc = is_new ? make_own(jail, i, home) : given ? own(jail, i, home) : 0;
  close(home);
  return rc;
}

static int home_mounted(mcg_jail *jail, size_t i)
{
  const mcg_spawn_user *user = &jail->spec->users[i];
  char source[32];
  snprintf(source, sizeof source, "d/people%zu", i);
  if (mkdir(source, 0700) < 0) return fail(jail, errno, user, "make its home");
  int home = open(source, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (home < 0) return fail(jail, errno, user, "make its home");
  int rc = own(jail, i, home); /* made private above */
  close(home);
  if (rc < 0) return -1;
  int target = mcg_jail_target(jail, "users", user->home, true);
  if (target < 0) return -1;
  rc = mcg_jail_bind(jail, "users", source, target);
  close(target);
  return rc;
}

int mcg_jail_homes(mcg_jail *jail)
{
  size_t count = jail->spec->user_count;
  for (size_t i = 0; i < count; i++) {
    bool disk = on_disk(jail, jail->spec->users[i].home);
    if ((disk ? home_on_disk(jail, i) : home_mounted(jail, i)) < 0) return -1;
  }
  if (count) mcg_jail_note(jail, "users=%zu of the manifest", count);
  return 0;
}
