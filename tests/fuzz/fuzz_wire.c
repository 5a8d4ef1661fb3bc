/* Fields, headers, records and the specification of a sandbox, as they come from the other side. */
#include "fuzz.h"
#include "init/protocol.h"
#include "init/spawn.h"

#include <string.h>

static void read_fields(const uint8_t *data, size_t size)
{
  mcg_reader reader = mcg_reader_of(data, size);
  mcg_field field;
  const uint8_t *end = data;
  while (mcg_reader_next(&reader, &field)) {
    FUZZ_NEED(field.bytes >= end && field.bytes + field.len <= data + size);
    end = field.bytes + field.len;
    mcg_field_u64(&field);
    char *text = mcg_field_str(&field);
    if (text) FUZZ_NEED(strlen(text) == field.len);
    free(text);
  }
  FUZZ_NEED(reader.bad || end == data + size || size == 0);
}

/* What was understood is said again in the same words, whatever order it came in. */
static void read_spec(const uint8_t *data, size_t size)
{
  mcg_spawn_spec spec, again;
  mcg_wire one, other;
  bool good = mcg_spawn_spec_decode(data, size, &spec);
  if (good) {
    mcg_wire_init(&one);
    mcg_wire_init(&other);
    mcg_spawn_spec_encode(&spec, &one);
    FUZZ_NEED(!one.failed);
    FUZZ_NEED(mcg_spawn_spec_decode(one.data, one.len, &again));
    mcg_spawn_spec_encode(&again, &other);
    FUZZ_NEED(one.len == other.len && (one.len == 0 || memcmp(one.data, other.data, one.len) == 0));
    mcg_spawn_spec_fini(&again);
    mcg_wire_fini(&one);
    mcg_wire_fini(&other);
  }
  mcg_spawn_spec_fini(&spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  mcg_frame frame;
  uint8_t header[MCG_FRAME_HEADER];
  if (size >= MCG_FRAME_HEADER && mcg_frame_decode(data, &frame)) {
    mcg_frame_encode(&frame, header);
    FUZZ_NEED(memcmp(header, data, MCG_FRAME_HEADER) == 0); /* one header, one meaning */
  }
  read_fields(data, size);
  read_spec(data, size);
  return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
  mcg_spawn_mount mounts[] = {{"/a", "/b", true}, {"/usr/share", "/data", false}};
  const mcg_spawn_spec spec = {.kind = MCG_KIND_JAIL,
                               .profile = MCG_PROFILE_STRICT,
                               .uid = 1000,
                               .pids = 64,
                               .memory = 1 << 30,
                               .id = "seed",
                               .rootfs = "/srv/r",
                               .workdir = "/workspace",
                               .mounts = mounts,
                               .mount_count = 2};
  const mcg_frame frame = {.length = 16, .type = MCG_F_EXEC, .channel = 9, .sequence = 1};
  mcg_wire wire;
  mcg_wire_init(&wire);
  if (index == 0) mcg_spawn_spec_encode(&spec, &wire);
  if (index == 1) {
    mcg_wire_put_u64(&wire, MCG_TAG_FLAGS, 3);
    mcg_wire_put_str(&wire, MCG_TAG_ARG, "echo");
  }
  size_t len = wire.len < room ? wire.len : room;
  if (len) memcpy(out, wire.data, len);
  mcg_wire_fini(&wire);
  if (index == 2) {
    mcg_frame_encode(&frame, out);
    memset(out + MCG_FRAME_HEADER, 0, 16);
    len = MCG_FRAME_HEADER + 16;
  }
  return len;
}
