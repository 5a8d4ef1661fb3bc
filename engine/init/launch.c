/* launch.c: from the fields of EXEC to everything the child of vfork needs, in one allocation. */
#include "command.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define ENV_MAX 4096 /* variables of one command */
#define LIMITS_MAX 16
#define PATHS_MAX 1024 /* entries of PATH that are looked at */
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

typedef struct mcg_counts {
  size_t args, envs, text; /* text: bytes of all strings with their NULs */
} mcg_counts;

typedef struct mcg_arena {
  char *at;
} mcg_arena;

static char *keep(mcg_arena *arena, const void *bytes, size_t len)
{
  char *text = arena->at;
  if (len) memcpy(text, bytes, len);
  text[len] = 0;
  arena->at += len + 1;
  return text;
}

/* One walk that checks, and sizes the allocation. */
static int count_fields(const uint8_t *body, size_t len, mcg_counts *out, const char **step,
                        const char **text)
{
  mcg_reader reader = mcg_reader_of(body, len);
  mcg_field field;
  *out = (mcg_counts){0};
  while (mcg_reader_next(&reader, &field)) {
    if (field.tag != MCG_TAG_ARG && field.tag != MCG_TAG_ENV && field.tag != MCG_TAG_CWD &&
        field.tag != MCG_TAG_USER)
      continue;
    if (field.len && memchr(field.bytes, 0, field.len)) {
      *step = field.tag == MCG_TAG_ENV ? "env" : field.tag == MCG_TAG_CWD ? "cwd" : "argv";
      *text = "it holds a NUL byte";
      return EINVAL;
    }
    if (field.tag == MCG_TAG_ARG) out->args++;
    if (field.tag == MCG_TAG_ENV) out->envs++;
    out->text += field.len + 1;
    if (field.tag == MCG_TAG_USER) out->text += (size_t)2 * MCG_USER_SETTING;
  }
  return reader.bad ? -1 : 0;
}

static bool same_name(const char *one, const char *other)
{
  size_t len = strcspn(one, "=");
  return strncmp(one, other, len) == 0 && other[len] == '=';
}

/* The last setting of a name is the one that holds. */
static void put_env(char **envp, size_t *count, char *setting)
{
  for (size_t i = 0; i < *count; i++)
    if (same_name(setting, envp[i])) {
      envp[i] = setting;
      return;
    }
  envp[(*count)++] = setting;
}

static const char *env_of(char *const *envp, const char *name)
{
  for (; *envp; envp++)
    if (same_name(*envp, name)) return *envp + strlen(name);
  return NULL;
}

/* Where a program of this name may be, in the order of PATH; an empty entry is the cwd. A name that is
 * too long is tried as it is, so that the kernel says so. */
static char **find_paths(const char *name, char *const *envp)
{
  size_t entries = 1, name_len = strlen(name);
  const char *path = env_of(envp, "PATH=");
  if (!path) path = DEFAULT_PATH;
  if (strchr(name, '/') || !*name || name_len > NAME_MAX) path = "";
  for (const char *at = path; *at && entries < PATHS_MAX; at++) entries += *at == ':';
  size_t text = strlen(path) + entries * (name_len + 2);
  char **paths = malloc((entries + 1) * sizeof *paths + text);
  if (!paths) return NULL;
  mcg_arena arena = {(char *)(paths + entries + 1)};
  size_t count = 0;
  for (const char *at = path; count < entries; at++) {
    size_t len = strcspn(at, ":");
    char *made = arena.at;
    memcpy(made, at, len);
    if (len) made[len++] = '/';
    memcpy(made + len, name, name_len + 1);
    arena.at += len + name_len + 1;
    paths[count++] = made;
    at += strcspn(at, ":");
  }
  paths[*name ? count : 0] = NULL;
  return paths;
}

static void put_limit(mcg_launch *launch, mcg_rlimit *room, mcg_rlimit limit)
{
  for (size_t i = 0; i < launch->limit_count; i++)
    if (room[i].resource == limit.resource) {
      room[i] = limit;
      return;
    }
  if (launch->limit_count < LIMITS_MAX) room[launch->limit_count++] = limit;
}

static int take_limit(mcg_launch *launch, mcg_rlimit *room, const mcg_field *field)
{
  if (field->len != 16) return EINVAL;
  mcg_field resource = {.bytes = field->bytes, .len = 4};
  mcg_field value = {.bytes = field->bytes + 8, .len = 8};
  if (mcg_field_u64(&resource) >= RLIM_NLIMITS) return EINVAL;
  uint64_t both = mcg_field_u64(&value);
  put_limit(launch, room, (mcg_rlimit){(uint32_t)mcg_field_u64(&resource), both, both});
  return 0;
}

/* Of init's own settings, not of those that came with the command. */
static void put_default(mcg_server *server, mcg_launch *launch, mcg_arena *arena,
                        const char *setting)
{
  const char *const *env = server->config->env;
  if (!*setting) return;
  for (size_t i = 0; env && env[i]; i++)
    if (same_name(setting, env[i]) && launch->envp[i] == env[i])
      launch->envp[i] = keep(arena, setting, strlen(setting));
}

static int take_user(mcg_server *server, mcg_launch *launch, mcg_arena *arena, const char *user,
                     const char **text)
{
  mcg_user_entry entry = {.uid = getuid(), .gid = getgid()};
  int number = mcg_user_find(user, &entry);
  if (number == ENOENT) *text = "no such user in /etc/passwd of the sandbox";
  if (number == EINVAL) *text = "a user is a name, a number, or number:number";
  if (number) return number;
  if (server->config->range_map) {
    launch->change_ids = true;
    launch->uid = entry.uid;
    launch->gid = entry.gid;
    put_default(server, launch, arena, entry.name);
    put_default(server, launch, arena, entry.home);
    return 0;
  }
  if (entry.uid == getuid() && entry.gid == getgid()) return 0;
  *text = "this sandbox has one user only";
  return EOPNOTSUPP;
}

/* The second walk, now that there is room. */
static int take_fields(mcg_server *server, const uint8_t *body, size_t len, mcg_exec *out,
                       mcg_arena *arena, mcg_rlimit *limits, size_t envs, const char **step,
                       const char **text)
{
  mcg_reader reader = mcg_reader_of(body, len);
  mcg_field field;
  int number = 0;
  while (number == 0 && mcg_reader_next(&reader, &field)) {
    char *setting;
    switch (field.tag) {
    case MCG_TAG_ARG: out->argv[out->argc++] = keep(arena, field.bytes, field.len); break;
    case MCG_TAG_ENV:
      *step = "env";
      setting = keep(arena, field.bytes, field.len);
      if (setting[0] == '=' || !strchr(setting, '=')) {
        *text = "a variable is NAME=value";
        return EINVAL;
      }
      put_env(out->launch.envp, &envs, setting);
      break;
    case MCG_TAG_CWD: out->launch.cwd = keep(arena, field.bytes, field.len); break;
    case MCG_TAG_USER:
      *step = "user";
      number = take_user(server, &out->launch, arena, keep(arena, field.bytes, field.len), text);
      break;
    case MCG_TAG_LIMIT:
      *step = "limit";
      *text = "a limit is a resource of getrlimit and a value";
      number = take_limit(&out->launch, limits, &field);
      break;
    case MCG_TAG_FLAGS: out->flags = (uint32_t)mcg_field_u64(&field); break;
    case MCG_TAG_COLS: out->cols = (uint16_t)mcg_field_u64(&field); break;
    case MCG_TAG_ROWS: out->rows = (uint16_t)mcg_field_u64(&field); break;
    default: break;
    }
  }
  out->launch.envp[envs] = NULL;
  return number;
}

static void put_defaults(mcg_server *server, mcg_exec *out, mcg_rlimit *limits)
{
  const mcg_server_config *config = server->config;
  uint64_t soft = config->nofile ? config->nofile : server->nofile_soft;
  uint64_t hard = config->nofile ? config->nofile : server->nofile_hard;
  put_limit(&out->launch, limits, (mcg_rlimit){RLIMIT_NOFILE, soft, hard});
  out->launch.oom_adjust = config->oom_adjust;
  if (config->range_map) {
    out->launch.change_ids = true;
    out->launch.uid = config->uid;
    out->launch.gid = config->gid;
  }
}

int mcg_launch_read(mcg_server *server, const uint8_t *body, size_t len, mcg_exec *out,
                    const char **step, const char **text)
{
  static char shell[] = "/bin/sh";
  mcg_counts counts;
  *out = (mcg_exec){0};
  *step = "argv";
  *text = NULL;
  int number = count_fields(body, len, &counts, step, text);
  if (number) return number;
  if (counts.args == 0) {
    *text = "there is no program to run";
    return EINVAL;
  }
  size_t base = 0;
  while (server->config->env && server->config->env[base]) base++;
  if (counts.envs > ENV_MAX) {
    *step = "env";
    return E2BIG;
  }
  size_t pointers = 1 + counts.args + 1 + base + counts.envs + 1;
  char *room = malloc(LIMITS_MAX * sizeof(mcg_rlimit) + pointers * sizeof(char *) + counts.text);
  if (!room) return ENOMEM;
  out->arena = room;
  mcg_rlimit *limits = (mcg_rlimit *)(void *)room;
  char **at = (char **)(void *)(limits + LIMITS_MAX);
  mcg_arena arena = {(char *)(at + pointers)};
  out->launch.limits = limits;
  out->launch.shell_argv = at;
  at[0] = shell;
  out->argv = at + 1;
  out->launch.envp = at + 1 + counts.args + 1;
  for (size_t i = 0; i < base; i++) out->launch.envp[i] = (char *)(uintptr_t)server->config->env[i];
  put_defaults(server, out, limits);
  number = take_fields(server, body, len, out, &arena, limits, base, step, text);
  out->argv[out->argc] = NULL;
  if (number == 0 && !(out->flags & MCG_EXEC_BUILTIN)) {
    *step = "exec";
    out->launch.paths = find_paths(out->argv[0], out->launch.envp);
    if (!out->launch.paths) number = ENOMEM;
  }
  if (number) free(room);
  return number;
}
