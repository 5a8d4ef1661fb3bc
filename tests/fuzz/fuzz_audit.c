/* A log as anybody may have left it, before its verifier; its first line may be the anchor ("v1 base
 * ..."). It is judged without a fault in us, and where it is found to be what was written, it is not so
 * any more after one bit of a whole line was turned. */
#include "fuzz.h"
#include "engine.h"
#include "audit/anchor.h"
#include "audit/verify.h"

#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANCHOR "v1 base "

static char place[64], *log_path, *anchor_path;

static void leave(void)
{
  char path[128];
  unlink(log_path);
  unlink(anchor_path);
  static const char *const made[] = {"/mooncage/anchors", "/mooncage", ""};
  for (size_t i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s%s", place, made[i]);
    rmdir(path);
  }
  free(log_path);
  free(anchor_path);
}

static void enter(void)
{
  char path[128];
  if (*place) return;
  strcpy(place, "/tmp/mooncage-fuzz-XXXXXX");
  FUZZ_NEED(mkdtemp(place) && setenv("XDG_STATE_HOME", place, 1) == 0);
  snprintf(path, sizeof path, "%s/mooncage/anchors", place);
  FUZZ_NEED(mcg_make_directories(path) == 0);
  log_path = mcg_format("%s/log.jsonl", place);
  anchor_path = log_path ? mcg_anchor_path(log_path) : NULL;
  FUZZ_NEED(anchor_path);
  atexit(leave);
}

static void write_file(const char *path, const uint8_t *bytes, size_t len)
{
  FILE *file = fopen(path, "wb");
  FUZZ_NEED(file && fwrite(bytes, 1, len, file) == len && fclose(file) == 0);
}

static bool judge(size_t *lines)
{
  json_t *report = mcg_verify_file(log_path, NULL, 0);
  FUZZ_NEED(json_is_object(report));
  bool ok = json_is_true(json_object_get(report, "ok"));
  FUZZ_NEED(ok == (json_array_size(json_object_get(report, "problems")) == 0));
  FUZZ_NEED(json_is_string(json_object_get(report, "anchor")));
  *lines = (size_t)json_integer_value(json_object_get(report, "lines"));
  char *text = json_dumps(report, JSON_COMPACT); /* what the command prints */
  FUZZ_NEED(text);
  free(text);
  json_decref(report);
  return ok;
}

/* Another place for each input, the same for the same. */
static size_t sum_of(const uint8_t *data, size_t size)
{
  size_t sum = 0;
  for (size_t i = 0; i < size; i++) sum = sum * 31 + data[i];
  return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  size_t lines, unused;
  enter();
  unlink(anchor_path);
  const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
  if (end && size > sizeof ANCHOR && memcmp(data, ANCHOR, sizeof ANCHOR - 1) == 0) {
    write_file(anchor_path, data, (size_t)(end - data));
    size -= (size_t)(end + 1 - data);
    data = end + 1;
  }
  write_file(log_path, data, size);
  bool ok = judge(&lines);
  const uint8_t *last = ok && lines ? memrchr(data, '\n', size) : NULL;
  if (!last || last == data) return 0;
  uint8_t *copy = malloc(size);
  FUZZ_NEED(copy);
  memcpy(copy, data, size);
  size_t at = sum_of(data, size) % (size_t)(last - data);
  copy[at] ^= (uint8_t)(1u << (at % 8));
  write_file(log_path, copy, size);
  free(copy);
  FUZZ_NEED(!judge(&unused));
  return 0;
}
