/* The frame reader of init, and the reader of EXEC behind it. The first byte says how the rest arrives:
 * as one packet, or as a byte stream in pieces of that many bytes. */
#include "fuzz.h"
#include "command.h"
#include "intake.h"

#include <string.h>

typedef struct seen {
  uint64_t sequence;
  size_t bytes;
} seen;

static void read_exec(const uint8_t *body, size_t len)
{
  static const char *const env[] = {"PATH=/usr/bin:/bin", "HOME=/", NULL};
  static const mcg_server_config config = {.env = env};
  mcg_server server = {.config = &config};
  const char *step = NULL, *text = NULL;
  mcg_exec exec;
  if (mcg_launch_read(&server, body, len, &exec, &step, &text) != 0) return;
  FUZZ_NEED(exec.argc > 0 && exec.argv[exec.argc] == NULL);
  for (unsigned i = 0; i < exec.argc; i++) FUZZ_NEED(strlen(exec.argv[i]) <= len);
  for (char **at = exec.launch.envp; *at; at++) FUZZ_NEED(strchr(*at, '='));
  for (char *const *at = exec.launch.paths; at && *at; at++) FUZZ_NEED(strlen(*at) > 0);
  free((void *)(uintptr_t)exec.launch.paths);
  free(exec.arena);
}

static bool on_message(void *data, const mcg_frame *frame, const uint8_t *body, size_t len)
{
  seen *so_far = data;
  FUZZ_NEED(frame->sequence > so_far->sequence); /* never back, never twice */
  FUZZ_NEED(len <= MCG_WIRE_MAX && !(frame->flags & MCG_FRAME_MORE));
  so_far->sequence = frame->sequence;
  so_far->bytes += len;
  if (frame->type == MCG_F_EXEC) read_exec(body, len);
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  mcg_intake intake;
  seen so_far = {0};
  bool good = true;
  if (size == 0) return 0;
  size_t piece = *data++;
  size--;
  mcg_intake_init(&intake);
  if (piece == 0) mcg_intake_packet(&intake, data, size, on_message, &so_far);
  for (size_t at = 0; piece && good && at < size; at += piece) {
    uint8_t copy[256]; /* a piece of its own, so that a read past it is seen */
    size_t len = size - at < piece ? size - at : piece;
    memcpy(copy, data + at, len);
    good = mcg_intake_bytes(&intake, copy, len, on_message, &so_far);
  }
  FUZZ_NEED(so_far.bytes <= size);
  mcg_intake_fini(&intake);
  return 0;
}

static size_t put_frame(uint8_t *out, uint64_t sequence, uint8_t type, uint8_t flags,
                        const void *body, size_t len)
{
  const mcg_frame frame = {
      .length = (uint32_t)len, .type = type, .flags = flags, .channel = 3, .sequence = sequence};
  mcg_frame_encode(&frame, out);
  if (len) memcpy(out + MCG_FRAME_HEADER, body, len);
  return MCG_FRAME_HEADER + len;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
  static const uint8_t pieces[] = {0, 255, 1, 7, 200};
  mcg_wire exec;
  size_t len = 1;
  if (index >= sizeof pieces || room < 4096) return 0;
  out[0] = pieces[index];
  mcg_wire_init(&exec);
  mcg_wire_put_str(&exec, MCG_TAG_ARG, "tool");
  mcg_wire_put_str(&exec, MCG_TAG_ARG, "-x");
  mcg_wire_put_str(&exec, MCG_TAG_ENV, "PATH=:/a::/b/c");
  mcg_wire_put_str(&exec, MCG_TAG_ENV, "HOME=/root");
  mcg_wire_put_str(&exec, MCG_TAG_CWD, "/tmp");
  mcg_wire_put(&exec, MCG_TAG_LIMIT, "\7\0\0\0\0\0\0\0\100\0\0\0\0\0\0\0", 16);
  mcg_wire_put_u64(&exec, MCG_TAG_FLAGS, 0);
  if (index == 0) {
    len += put_frame(out + len, 1, MCG_F_EXEC, 0, exec.data, exec.len);
  } else {
    len += put_frame(out + len, 1, MCG_F_HELLO, 0, "\1\0\0\0\1\0\0\0\1", 9);
    len += put_frame(out + len, 2, MCG_F_EXEC, MCG_FRAME_MORE, exec.data, 40);
    len += put_frame(out + len, 3, MCG_F_EXEC, 0, exec.data + 40, exec.len - 40);
    len += put_frame(out + len, 4, MCG_F_DATA, 0, "some bytes", 10);
    len += put_frame(out + len, 5, MCG_F_EOF, 0, NULL, 0);
  }
  mcg_wire_fini(&exec);
  return len;
}
