/* system.c: what the command alone needs of the system: the directory where sessions that stay have
 * their sockets, and the start of a keeper process. The module is "mooncage.cli.system". */
#include "system.h"
#include "bind.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(lua_State *L, const char *what, const char *path)
{
  int number = errno;
  lua_pushnil(L);
  lua_pushfstring(L, "%s %s: %s", what, path, strerror(number));
  return 2;
}

/* A directory of our own that nobody else can reach into. */
static bool is_private(const char *path, struct stat *st)
{
  return lstat(path, st) == 0 && S_ISDIR(st->st_mode) && st->st_uid == geteuid() &&
         (st->st_mode & 077) == 0;
}

/* Pushes the path: below the user's runtime directory, else a fixed place. */
static const char *push_runtime_path(lua_State *L)
{
  const char *base = getenv("XDG_RUNTIME_DIR");
  struct stat st;
  if (base && base[0] == '/' && stat(base, &st) == 0 && S_ISDIR(st.st_mode) &&
      st.st_uid == geteuid())
    return lua_pushfstring(L, "%s/mooncage", base);
  if (geteuid() == 0) return lua_pushfstring(L, "/run/mooncage");
  return lua_pushfstring(L, "/tmp/mooncage-%d", (int)geteuid());
}

/* runtime_dir(create) -> path, or nil and a message. Without `create` a directory that is not there
 * is no error. */
static int runtime_dir(lua_State *L)
{
  bool create = lua_toboolean(L, 1);
  const char *path = push_runtime_path(L);
  struct stat st;
  if (create && mkdir(path, 0700) < 0 && errno != EEXIST) return fail(L, "cannot make", path);
  if (is_private(path, &st)) return 1;
  if (!create && lstat(path, &st) < 0 && errno == ENOENT) return 1;
  lua_pushnil(L);
  lua_pushfstring(L, "%s is not a directory of yours alone (mode 0700): it is not used", path);
  return 2;
}

/* list(directory) -> names; none when it is not there. */
static int list(lua_State *L)
{
  const char *path = luaL_checkstring(L, 1);
  lua_newtable(L);
  DIR **guard = lua_newuserdata(L, sizeof(DIR *)); /* closed below, or with the state's garbage */
  *guard = opendir(path);
  if (!*guard) {
    if (errno != ENOENT) return fail(L, "cannot list", path);
    lua_pop(L, 1);
    return 1;
  }
  int count = 0;
  for (struct dirent *entry; (entry = readdir(*guard));) {
    if (entry->d_name[0] == '.') continue;
    lua_pushstring(L, entry->d_name);
    lua_rawseti(L, -3, ++count);
  }
  closedir(*guard);
  lua_pop(L, 1);
  return 1;
}

static int remove_file(lua_State *L)
{
  const char *path = luaL_checkstring(L, 1);
  if (unlink(path) < 0 && errno != ENOENT) return fail(L, "cannot remove", path);
  lua_pushboolean(L, true);
  return 1;
}

/* Writes a file that only we can read, all of it or nothing. */
static int write_private(lua_State *L)
{
  const char *path = luaL_checkstring(L, 1);
  size_t len;
  const char *text = luaL_checklstring(L, 2, &len);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return fail(L, "cannot write", path);
  ssize_t written = write(fd, text, len);
  int failed = written != (ssize_t)len || close(fd) < 0;
  if (!failed) {
    lua_pushboolean(L, true);
    return 1;
  }
  if (written >= 0 && errno == 0) errno = ENOSPC;
  int number = errno;
  unlink(path);
  errno = number;
  return fail(L, "cannot write", path);
}

static int start_keeper(int theirs, pid_t *pid)
{
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none;
  sigemptyset(&none);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs, 0);
  posix_spawn_file_actions_adddup2(&actions, theirs, 1);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&attributes, &none);
  char *argv[] = {"mooncage", "__keeper", NULL};
  int error = posix_spawn(pid, "/proc/self/exe", &actions, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/* Sends everything, then says that this was all. */
static void send_all(int fd, const char *text, size_t len)
{
  while (len > 0) {
    ssize_t sent = send(fd, text, len, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) break;
    text += sent;
    len -= (size_t)sent;
  }
  shutdown(fd, SHUT_WR);
}

static size_t receive_all(int fd, char *buffer, size_t cap)
{
  size_t have = 0;
  while (have < cap) {
    ssize_t got = recv(fd, buffer + have, cap - have, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += (size_t)got;
  }
  return have;
}

/* spawn_keeper(order) -> reply, or nil and a message. Starts this program anew as `__keeper` in a
 * session of its own; the order, secrets revealed, goes over its stdin as JSON, so that none is in
 * an argument; the reply is what it says before it lets go of us. Blocks: the command has nothing
 * else to do. */
static int spawn_keeper(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TTABLE);
  mcg_lua_encode(L, 1, "config");
  size_t len;
  const char *text = lua_tolstring(L, -1, &len);
  int pair[2];
  pid_t pid;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
    return fail(L, "cannot start the keeper", "(socketpair)");
  errno = start_keeper(pair[1], &pid);
  close(pair[1]);
  if (errno != 0) {
    close(pair[0]);
    return fail(L, "cannot start the keeper", "/proc/self/exe");
  }
  char reply[16384];
  send_all(pair[0], text, len);
  size_t have = receive_all(pair[0], reply, sizeof reply);
  close(pair[0]);
  if (have > 0) {
    lua_pushlstring(L, reply, have);
    return 1;
  }
  int status = 0;
  waitpid(pid, &status, 0);
  lua_pushnil(L);
  lua_pushfstring(L, "the keeper ended without a word (wait status %d)", status);
  return 2;
}

/* absolute(path): a path that means the same from everywhere. */
static int absolute(lua_State *L)
{
  const char *path = luaL_checkstring(L, 1);
  char here[4096];
  if (path[0] == '/') {
    lua_settop(L, 1);
    return 1;
  }
  if (!getcwd(here, sizeof here)) return fail(L, "cannot find the working directory of", path);
  bool dot = strcmp(path, ".") == 0;
  lua_pushfstring(L, "%s%s%s", here, dot ? "" : "/", dot ? "" : path);
  return 1;
}

static const char *base_directory(const char *variable)
{
  const char *path = getenv(variable);
  return path && path[0] == '/' ? path : NULL;
}

/* state_dir(create) -> where what outlives a run is kept, or nil and a message. */
static int state_dir(lua_State *L)
{
  bool create = lua_toboolean(L, 1);
  const char *state = base_directory("XDG_STATE_HOME"), *home = base_directory("HOME");
  struct stat st;
  if (state)
    lua_pushfstring(L, "%s/mooncage", state);
  else if (geteuid() == 0)
    lua_pushliteral(L, "/var/lib/mooncage");
  else if (home)
    lua_pushfstring(L, "%s/.local/state/mooncage", home);
  else
    return lua_pushnil(L), lua_pushliteral(L, "neither XDG_STATE_HOME nor HOME is set"), 2;
  const char *path = lua_tostring(L, -1);
  for (const char *slash = path; create && (slash = strchr(slash + 1, '/'));) {
    lua_pushlstring(L, path, (size_t)(slash - path)); /* those above it */
    if (mkdir(lua_tostring(L, -1), 0700) < 0 && errno != EEXIST)
      return fail(L, "cannot make", lua_tostring(L, -1));
    lua_pop(L, 1);
  }
  if (create && mkdir(path, 0700) < 0 && errno != EEXIST) return fail(L, "cannot make", path);
  if (create && stat(path, &st) == 0 && st.st_uid != geteuid()) {
    lua_pushnil(L);
    lua_pushfstring(L, "%s is not yours: it is not used", path);
    return 2;
  }
  return 1;
}

/* Somebody else could say what is in it: root and the group that is ours alone do not count. */
static bool is_open_to_others(const struct stat *st)
{
  const char *caller = geteuid() == 0 ? getenv("SUDO_UID") : NULL; /* who became root by it */
  bool callers = caller && *caller && strtoul(caller, NULL, 10) == st->st_uid;
  if (st->st_uid != geteuid() && st->st_uid != 0 && !callers) return true;
  return (st->st_mode & 002) || ((st->st_mode & 020) && st->st_gid != getegid());
}

/* read_file(path, most, trust) -> the bytes of an ordinary file, or nil, why, and whether there is
 * anything. Never waits for a pipe. `trust`: "private": ours, no link, and nobody else may write it;
 * "operator": ours or root's, and no stranger may write it; "policy": that, and no link. */
int mcg_lua_read_file(lua_State *L)
{
  const char *path = luaL_checkstring(L, 1);
  size_t most = (size_t)luaL_checknumber(L, 2);
  const char *trust = luaL_optstring(L, 3, "");
  bool private = strcmp(trust, "private") == 0, policy = strcmp(trust, "policy") == 0;
  bool operator= policy || strcmp(trust, "operator") == 0;
  struct stat st;
  lua_settop(L, 3);
  char *bytes = lua_newuserdata(L, most + 1);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY |
                          (private || policy ? O_NOFOLLOW : 0));
  if (fd < 0 && errno == ELOOP) {
    lua_pushnil(L);
    lua_pushfstring(L, "%s is a symbolic link: it is not followed", path);
    lua_pushboolean(L, true);
    return 3;
  }
  if (fd < 0) {
    lua_pushboolean(L, errno != ENOENT);
    fail(L, "cannot read", path);
    lua_pushvalue(L, 5);
    return 3;
  }
  size_t len = 0;
  const char *why = NULL;
  if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
    why = "is no ordinary file";
  else if (private && (st.st_uid != geteuid() || (st.st_mode & 022)))
    why = "can be written by others: it is not used";
  else if (operator&& is_open_to_others(&st))
    why = "belongs to somebody else, or can be written by others: it is not used";
  for (ssize_t got = 1; !why && got > 0 && len <= most; len += got > 0 ? (size_t)got : 0) {
    got = read(fd, bytes + len, most + 1 - len);
    if (got < 0) why = "cannot be read";
  }
  close(fd);
  if (!why && len > most) why = "is too long";
  if (!why) return lua_pushlstring(L, bytes, len), 1;
  lua_pushnil(L);
  lua_pushfstring(L, "%s %s", path, why);
  lua_pushboolean(L, true);
  return 3;
}

/* real_path(path) -> the one name of a file that is there, or nil and a message. */
static int real_path(lua_State *L)
{
  const char *path = luaL_checkstring(L, 1);
  char real[PATH_MAX];
  if (!realpath(path, real)) return fail(L, "cannot find", path);
  lua_pushstring(L, real);
  return 1;
}

/* is_open_as(path, fd): does the path, such as /dev/stdout, lead to what is open as that? */
static int is_open_as(lua_State *L)
{
  struct stat there, own;
  lua_pushboolean(L, stat(luaL_checkstring(L, 1), &there) == 0 &&
                         fstat(luaL_checkint(L, 2), &own) == 0 && there.st_dev == own.st_dev &&
                         there.st_ino == own.st_ino);
  return 1;
}

/* sha256(bytes) -> 64 digits, or nil and an error table. */
static int sha256(lua_State *L)
{
  size_t len;
  const char *bytes = luaL_checklstring(L, 1, &len);
  char hex[65];
  mcg_error *err = NULL;
  if (mcg_sha256_hex(bytes, len, hex, &err) < 0) return mcg_lua_nil_error(L, err);
  lua_pushstring(L, hex);
  return 1;
}

/* program_directory(): where the command's own file is; nil where /proc does not say. */
static int program_directory(lua_State *L)
{
  char path[PATH_MAX];
  ssize_t len = readlink("/proc/self/exe", path, sizeof path);
  while (len > 0 && path[len - 1] != '/') len--;
  if (len <= 1) return 0;
  lua_pushlstring(L, path, (size_t)len - 1);
  return 1;
}

static int is_directory(lua_State *L)
{
  struct stat st;
  lua_pushboolean(L, stat(luaL_checkstring(L, 1), &st) == 0 && S_ISDIR(st.st_mode));
  return 1;
}

static int is_file(lua_State *L)
{
  struct stat st;
  lua_pushboolean(L, stat(luaL_checkstring(L, 1), &st) == 0 && !S_ISDIR(st.st_mode));
  return 1;
}

/* is_ordinary(path) -> which file it is, as text, or nil: to read from it waits for nobody */
static int is_ordinary(lua_State *L)
{
  struct stat st;
  if (stat(luaL_checkstring(L, 1), &st) < 0 || !S_ISREG(st.st_mode)) return 0;
  char which[40];
  snprintf(which, sizeof which, "%llx:%llx", (unsigned long long)st.st_dev,
           (unsigned long long)st.st_ino);
  lua_pushstring(L, which);
  return 1;
}

/* take_order() -> fd, text: the other end of spawn_keeper. The streams become /dev/null before the
 * engine starts anything that would inherit them: whoever reads what `mooncage create` says, errors
 * too, must see its end. */
static int take_order(lua_State *L)
{
  int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (fd < 0 || null < 0) return fail(L, "cannot open", "/dev/null");
  for (int stream = 0; stream <= 2; stream++) dup2(null, stream);
  close(null);
  lua_pushinteger(L, fd);
  luaL_Buffer text;
  luaL_buffinit(L, &text);
  ssize_t got;
  do {
    got = recv(fd, luaL_prepbuffer(&text), LUAL_BUFFERSIZE, 0);
    if (got > 0) luaL_addsize(&text, (size_t)got);
  } while (got > 0 || (got < 0 && errno == EINTR));
  luaL_pushresult(&text);
  return 2;
}

/* answer(fd, text): says it, and lets go of who started us. */
static int answer(lua_State *L)
{
  int fd = luaL_checkint(L, 1);
  size_t len;
  const char *text = luaL_checklstring(L, 2, &len);
  send_all(fd, text, len);
  close(fd);
  lua_pushboolean(L, chdir("/") == 0);
  return 1;
}

/* raise_open_files(): the soft limit to the hard one: many sandboxes are many descriptors. */
static int raise_open_files(lua_State *L)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  lua_pushboolean(L, true);
  return 1;
}

int luaopen_mooncage_cli_system(lua_State *L)
{
  static const luaL_Reg functions[] = {{"runtime_dir", runtime_dir},
                                       {"list", list},
                                       {"remove", remove_file},
                                       {"write_private", write_private},
                                       {"spawn_keeper", spawn_keeper},
                                       {"absolute", absolute},
                                       {"program_directory", program_directory},
                                       {"state_dir", state_dir},
                                       {"read_file", mcg_lua_read_file},
                                       {"real_path", real_path},
                                       {"sha256", sha256},
                                       {"is_directory", is_directory},
                                       {"is_file", is_file},
                                       {"is_ordinary", is_ordinary},
                                       {"is_open_as", is_open_as},
                                       {"take_order", take_order},
                                       {"answer", answer},
                                       {"raise_open_files", raise_open_files},
                                       {NULL, NULL}};
  lua_newtable(L);
  luaL_register(L, NULL, functions);
  return 1;
}
