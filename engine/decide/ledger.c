/* ledger.c: the files of a ledger. "spent" is {"2026-11-29":{"usd":1.5,"minutes":30}}, with whole months
 * for those that are over; every other file is the record of a session, on which its engine holds a lock: {"usd_per_minute":0.1,
 * "since":seconds of the boot clock} while it runs, {"usd":1,"minutes":2} once it has ended.
 *
 * Live sessions are of this boot, so that clock measures them, whatever is done to the other one. */
#include "ledger.h"
#include "audit/anchor.h"
#include "engine.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define SPENT "spent"
#define LOCK "lock"
#define DAY_LEN 11 /* "2026-11-29" with its NUL */
#define MONTH_LEN 7

static double boot_seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void today(char out[DAY_LEN])
{
  time_t now = time(NULL);
  struct tm utc;
  gmtime_r(&now, &utc);
  strftime(out, DAY_LEN, "%Y-%m-%d", &utc);
}

char *mcg_ledger_open(const char *tenant, mcg_error **err)
{
  static const char fix[] = "set XDG_STATE_HOME to a directory of yours, or leave the quota out";
  char key[MCG_TENANT_KEY];
  mcg_tenant_key(tenant ? tenant : "", key);
  auto_free char *state = mcg_state_directory();
  if (!state)
    return mcg_fail(err, MCG_UNAVAILABLE, fix, "there is no place to keep a quota in"), NULL;
  auto_free char *path = mcg_format("%s/tenants/%s", state, key);
  int rc = path ? mcg_make_directories(path) : -ENOMEM;
  if (rc == 0) return mcg_steal_pointer(&path);
  mcg_fail(err, MCG_UNAVAILABLE, fix, "cannot keep a quota in %s: %s", path ? path : state,
           strerror(-rc));
  return NULL;
}

static char *path_in(const char *directory, const char *name)
{
  char *path = mcg_format("%s/%s", directory, name);
  if (!path) errno = ENOMEM;
  return path;
}

static int open_in(const char *directory, const char *name, int flags)
{
  auto_free char *path = path_in(directory, name);
  return path ? open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
}

int mcg_ledger_lock(const char *directory)
{
  auto_fd int fd = open_in(directory, LOCK, O_RDWR | O_CREAT);
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) return -1;
  return mcg_steal_fd(&fd);
}

int mcg_ledger_enter(const char *directory, const char *session)
{
  auto_fd int fd = open_in(directory, session, O_RDWR | O_CREAT | O_EXCL);
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) return -1;
  return mcg_steal_fd(&fd);
}

static int write_json(int fd, const json_t *json)
{
  auto_free char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
  if (!text) return errno = ENOMEM, -1;
  size_t len = strlen(text);
  ssize_t put = pwrite(fd, text, len, 0);
  if (put == (ssize_t)len && ftruncate(fd, (off_t)len) == 0) return 0;
  if (put >= 0) errno = ENOSPC;
  return -1;
}

int mcg_ledger_write(int record, double usd_per_minute)
{
  auto_json json_t *json = json_pack("{s:f, s:f, s:f}", "usd_per_minute", usd_per_minute, "since",
                                     boot_seconds(), "began", (double)time(NULL));
  return write_json(record, json);
}

void mcg_ledger_touch(int record)
{
  if (futimens(record, NULL) < 0) return; /* it is charged less, should we be killed */
}

void mcg_ledger_bequeath(int record, double usd, double minutes)
{
  auto_json json_t *json = json_pack("{s:f, s:f}", "usd", usd, "minutes", minutes);
  if (write_json(record, json) < 0) return; /* then by its last touch */
}

/* NULL: it is no ledger's, or not there: errno. An empty file is {}. */
static json_t *read_json(int fd)
{
  char text[65536];
  ssize_t len = fd < 0 ? -1 : pread(fd, text, sizeof text, 0);
  if (len < 0) return NULL;
  if (len == 0) return json_object();
  json_t *json = json_loadb(text, (size_t)len, 0, NULL);
  if (!json_is_object(json)) {
    json_decref(json);
    errno = EBADMSG;
    return NULL;
  }
  return json;
}

static json_t *read_spent(const char *directory)
{
  auto_fd int fd = open_in(directory, SPENT, O_RDONLY);
  return fd < 0 && errno == ENOENT ? json_object() : read_json(fd);
}

/* All of it or nothing: a new file in the place of the old. */
static int write_spent(const char *directory, const json_t *spent)
{
  auto_free char *from = path_in(directory, SPENT ".new"), *to = path_in(directory, SPENT);
  auto_fd int fd = open_in(directory, SPENT ".new", O_RDWR | O_CREAT | O_TRUNC);
  if (!from || !to || fd < 0 || write_json(fd, spent) < 0) return -1;
  return rename(from, to);
}

static void add_to(json_t *day, const char *key, double more)
{
  json_object_set_new(day, key, json_real(json_number_value(json_object_get(day, key)) + more));
}

/* Days of other months become their month, so that the file stays small. */
static void fold(json_t *spent, const char *date)
{
  const char *day;
  json_t *then;
  void *next;
  json_object_foreach_safe(spent, next, day, then)
  {
    if (strlen(day) < DAY_LEN - 1 || strncmp(day, date, MONTH_LEN) == 0) continue;
    char month[MONTH_LEN + 1] = {0};
    memcpy(month, day, MONTH_LEN);
    json_t *whole = json_object_get(spent, month);
    if (!whole && json_object_set_new(spent, month, whole = json_object()) < 0) return;
    add_to(whole, "usd", json_number_value(json_object_get(then, "usd")));
    add_to(whole, "minutes", json_number_value(json_object_get(then, "minutes")));
    json_object_del(spent, day);
  }
}

static int charge(const char *directory, double usd, double minutes)
{
  char date[DAY_LEN];
  auto_json json_t *spent = read_spent(directory);
  if (!spent) return -1;
  today(date);
  fold(spent, date);
  json_t *day = json_object_get(spent, date);
  if (!day && json_object_set_new(spent, date, day = json_object()) < 0) return errno = ENOMEM, -1;
  add_to(day, "usd", usd);
  add_to(day, "minutes", minutes);
  return write_spent(directory, spent);
}

static int remove_record(const char *directory, const char *session)
{
  auto_free char *path = path_in(directory, session);
  return path ? unlink(path) : -1;
}

int mcg_ledger_leave(const char *directory, const char *session, double usd, double minutes)
{
  if (minutes > 0 && charge(directory, usd, minutes) < 0) return -1;
  return remove_record(directory, session);
}

/* What is left of a session whose engine is gone: what it said, else up to its last touch. */
static int bury(const char *directory, const char *name, int fd)
{
  struct stat st;
  auto_json json_t *record = read_json(fd);
  if (!record) return remove_record(directory, name); /* it never ran, or says nothing */
  double usd = json_number_value(json_object_get(record, "usd"));
  double minutes = json_number_value(json_object_get(record, "minutes"));
  const json_t *began = json_object_get(record, "began");
  if (began && fstat(fd, &st) == 0) {
    minutes = ((double)st.st_mtim.tv_sec - json_number_value(began)) / 60;
    if (minutes < 0) minutes = 0;
    usd = minutes * json_number_value(json_object_get(record, "usd_per_minute"));
  }
  return mcg_ledger_leave(directory, name, usd, minutes);
}

static int look_at(const char *directory, const char *name, bool mend, mcg_ledger_total *out)
{
  auto_fd int fd = open_in(directory, name, O_RDWR);
  if (fd < 0) return errno == ENOENT ? 0 : -1; /* it has just left */
  if (flock(fd, LOCK_SH | LOCK_NB) == 0) return mend ? bury(directory, name, fd) : 0;
  if (errno != EWOULDBLOCK) return -1;
  auto_json json_t *record = read_json(fd);
  const json_t *since = json_object_get(record, "since");
  double minutes = since ? (boot_seconds() - json_number_value(since)) / 60 : 0;
  out->sessions++;
  if (minutes < 0) minutes = 0;
  out->minutes += minutes;
  out->usd += minutes * json_number_value(json_object_get(record, "usd_per_minute"));
  return 0;
}

static bool is_record(const char *name)
{
  return *name != '.' && strcmp(name, LOCK) != 0 && strncmp(name, SPENT, strlen(SPENT)) != 0;
}

static int look_at_all(const char *directory, bool mend, mcg_ledger_total *out)
{
  DIR *files = opendir(directory);
  int rc = files ? 0 : -1;
  for (struct dirent *entry; rc == 0 && (entry = readdir(files));)
    if (is_record(entry->d_name)) rc = look_at(directory, entry->d_name, mend, out);
  int number = errno;
  if (files) closedir(files);
  errno = number;
  return rc;
}

int mcg_ledger_sum(const char *directory, const mcg_quota *quota, bool mend, mcg_ledger_total *out)
{
  static const size_t compared[] = {
      [MCG_PER_EVER] = 0, [MCG_PER_MONTH] = MONTH_LEN, [MCG_PER_DAY] = DAY_LEN - 1};
  char date[DAY_LEN];
  const char *day;
  json_t *spent_then;
  memset(out, 0, sizeof *out);
  if (look_at_all(directory, mend, out) < 0) return -1;
  auto_json json_t *spent = read_spent(directory); /* with what was mended */
  if (!spent) return -1;
  today(date);
  json_object_foreach(spent, day, spent_then)
  {
    if (strncmp(day, date, compared[quota->per]) != 0) continue;
    out->usd += json_number_value(json_object_get(spent_then, "usd"));
    out->minutes += json_number_value(json_object_get(spent_then, "minutes"));
  }
  return 0;
}
