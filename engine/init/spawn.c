/* spawn.c: the specification of a sandbox as fields of CREATE. The message's u32 op and u32 id are the
 * caller's; this is what follows them. */
#include "spawn.h"

#include <stdlib.h>
#include <string.h>

static void put_number(mcg_wire *out, uint16_t tag, uint64_t value)
{
  if (value) mcg_wire_put_u64(out, tag, value);
}

static void put_mount(mcg_wire *out, const mcg_spawn_mount *mount)
{
  mcg_wire inner;
  mcg_wire_init(&inner);
  mcg_wire_put_str(&inner, MCG_SM_SOURCE, mount->source);
  mcg_wire_put_str(&inner, MCG_SM_TARGET, mount->target);
  put_number(&inner, MCG_SM_WRITABLE, mount->writable);
  if (inner.failed)
    out->failed = true;
  else
    mcg_wire_put(out, MCG_ST_MOUNT, inner.data, inner.len);
  mcg_wire_fini(&inner);
}

static void put_user(mcg_wire *out, const mcg_spawn_user *user)
{
  mcg_wire inner;
  mcg_wire_init(&inner);
  mcg_wire_put_str(&inner, MCG_SU_NAME, user->name);
  mcg_wire_put_str(&inner, MCG_SU_HOME, user->home);
  put_number(&inner, MCG_SU_UID, user->uid);
  put_number(&inner, MCG_SU_GID, user->gid);
  if (inner.failed)
    out->failed = true;
  else
    mcg_wire_put(out, MCG_ST_USER, inner.data, inner.len);
  mcg_wire_fini(&inner);
}

void mcg_spawn_spec_encode(const mcg_spawn_spec *spec, mcg_wire *out)
{
  put_number(out, MCG_ST_KIND, spec->kind);
  put_number(out, MCG_ST_PROFILE, spec->profile);
  put_number(out, MCG_ST_NETWORK, spec->network);
  put_number(out, MCG_ST_CARRIER, spec->carrier);
  put_number(out, MCG_ST_UID, spec->uid);
  put_number(out, MCG_ST_GID, spec->gid);
  put_number(out, MCG_ST_ROOTFS_RW, spec->rootfs_rw);
  put_number(out, MCG_ST_DISK_IMAGE, spec->disk_image);
  put_number(out, MCG_ST_CPU_MILLI, spec->cpu_milli);
  put_number(out, MCG_ST_PIDS, spec->pids);
  put_number(out, MCG_ST_NOFILE, spec->nofile);
  put_number(out, MCG_ST_REDIRECT, spec->redirect);
  put_number(out, MCG_ST_AUTHORITY_HASH, spec->authority_hash);
  put_number(out, MCG_ST_MEMORY, spec->memory);
  put_number(out, MCG_ST_DISK, spec->disk);
  mcg_wire_put_str(out, MCG_ST_ID, spec->id);
  mcg_wire_put_str(out, MCG_ST_ROOTFS, spec->rootfs);
  mcg_wire_put_str(out, MCG_ST_WORKDIR, spec->workdir);
  mcg_wire_put_str(out, MCG_ST_PROJECT, spec->project);
  mcg_wire_put_str(out, MCG_ST_HOSTNAME, spec->hostname);
  mcg_wire_put_str(out, MCG_ST_AUTHORITY, spec->authority);
  for (size_t i = 0; i < spec->mount_count; i++) put_mount(out, &spec->mounts[i]);
  for (size_t i = 0; i < spec->user_count; i++) put_user(out, &spec->users[i]);
}

static bool take_number(const mcg_field *field, uint32_t *out)
{
  uint64_t value = mcg_field_u64(field);
  if (value > UINT32_MAX || field->len == 0 || field->len > 8) return false;
  *out = (uint32_t)value;
  return true;
}

static bool take_text(const mcg_field *field, char **out)
{
  free(*out);
  *out = mcg_field_str(field);
  return *out != NULL;
}

static bool take_mount(const mcg_field *field, mcg_spawn_spec *out)
{
  mcg_spawn_mount *grown = reallocarray(out->mounts, out->mount_count + 1, sizeof *grown);
  if (!grown) return false;
  out->mounts = grown;
  mcg_spawn_mount *mount = &grown[out->mount_count++];
  *mount = (mcg_spawn_mount){0};
  mcg_reader reader = mcg_reader_of(field->bytes, field->len);
  mcg_field inner;
  while (mcg_reader_next(&reader, &inner)) {
    bool good = true;
    if (inner.tag == MCG_SM_SOURCE) good = take_text(&inner, &mount->source);
    if (inner.tag == MCG_SM_TARGET) good = take_text(&inner, &mount->target);
    if (inner.tag == MCG_SM_WRITABLE) mount->writable = mcg_field_u64(&inner) != 0;
    if (!good) return false;
  }
  return !reader.bad && mount->source && mount->target;
}

static bool take_user(const mcg_field *field, mcg_spawn_spec *out)
{
  mcg_spawn_user *grown = reallocarray(out->users, out->user_count + 1, sizeof *grown);
  if (!grown) return false;
  out->users = grown;
  mcg_spawn_user *user = &grown[out->user_count++];
  *user = (mcg_spawn_user){0};
  mcg_reader reader = mcg_reader_of(field->bytes, field->len);
  mcg_field inner;
  while (mcg_reader_next(&reader, &inner)) {
    bool good = true;
    if (inner.tag == MCG_SU_NAME) good = take_text(&inner, &user->name);
    if (inner.tag == MCG_SU_HOME) good = take_text(&inner, &user->home);
    if (inner.tag == MCG_SU_UID) good = take_number(&inner, &user->uid);
    if (inner.tag == MCG_SU_GID) good = take_number(&inner, &user->gid);
    if (!good) return false;
  }
  return !reader.bad && user->name && user->home;
}

static bool take_field(const mcg_field *field, mcg_spawn_spec *out)
{
  switch (field->tag) {
  case MCG_ST_KIND: return take_number(field, &out->kind);
  case MCG_ST_PROFILE: return take_number(field, &out->profile);
  case MCG_ST_NETWORK: return take_number(field, &out->network);
  case MCG_ST_CARRIER: return take_number(field, &out->carrier);
  case MCG_ST_UID: return take_number(field, &out->uid);
  case MCG_ST_GID: return take_number(field, &out->gid);
  case MCG_ST_ROOTFS_RW: return take_number(field, &out->rootfs_rw);
  case MCG_ST_DISK_IMAGE: return take_number(field, &out->disk_image);
  case MCG_ST_CPU_MILLI: return take_number(field, &out->cpu_milli);
  case MCG_ST_PIDS: return take_number(field, &out->pids);
  case MCG_ST_NOFILE: return take_number(field, &out->nofile);
  case MCG_ST_REDIRECT: return take_number(field, &out->redirect);
  case MCG_ST_AUTHORITY_HASH: return take_number(field, &out->authority_hash);
  case MCG_ST_MEMORY: out->memory = mcg_field_u64(field); return field->len >= 1 && field->len <= 8;
  case MCG_ST_DISK: out->disk = mcg_field_u64(field); return field->len >= 1 && field->len <= 8;
  case MCG_ST_ID: return take_text(field, &out->id);
  case MCG_ST_ROOTFS: return take_text(field, &out->rootfs);
  case MCG_ST_WORKDIR: return take_text(field, &out->workdir);
  case MCG_ST_PROJECT: return take_text(field, &out->project);
  case MCG_ST_HOSTNAME: return take_text(field, &out->hostname);
  case MCG_ST_AUTHORITY: return take_text(field, &out->authority);
  case MCG_ST_MOUNT: return take_mount(field, out);
  case MCG_ST_USER: return take_user(field, out);
  default: return true;
  }
}

bool mcg_spawn_spec_decode(const void *bytes, size_t len, mcg_spawn_spec *out)
{
  *out = (mcg_spawn_spec){0};
  mcg_reader reader = mcg_reader_of(bytes, len);
  mcg_field field;
  while (mcg_reader_next(&reader, &field))
    if (!take_field(&field, out)) return false;
  return !reader.bad;
}

void mcg_spawn_spec_fini(mcg_spawn_spec *spec)
{
  free(spec->id);
  free(spec->rootfs);
  free(spec->workdir);
  free(spec->project);
  free(spec->hostname);
  free(spec->authority);
  for (size_t i = 0; i < spec->mount_count; i++) {
    free(spec->mounts[i].source);
    free(spec->mounts[i].target);
  }
  free(spec->mounts);
  for (size_t i = 0; i < spec->user_count; i++) {
    free(spec->users[i].name);
    free(spec->users[i].home);
  }
  free(spec->users);
  *spec = (mcg_spawn_spec){0};
}
