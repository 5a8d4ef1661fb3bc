/* What a snapshot store reads: the headers of an archive that goes by, in pieces of any size, have one count;
 * and metadata that somebody has been at is refused, or is of the snapshot that it is under. */
#include "fuzz.h"
#include "snapshot/count.h"
#include "snapshot/store_part.h"
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

static void count(const uint8_t *data, size_t size)
{
  mcg_tar_count whole = {0};
  mcg_tar_count_add(&whole, data, size);
  for (size_t piece = 1; piece < 1200; piece = piece * 3 + 1) {
    mcg_tar_count parts = {0};
    for (size_t at = 0; at < size; at += piece)
      mcg_tar_count_add(&parts, data + at, size - at < piece ? size - at : piece);
    FUZZ_NEED(parts.files == whole.files && parts.lost == whole.lost && parts.over == whole.over);
  }
  FUZZ_NEED(whole.files <= size / 512);
}

static char directory[] = "/tmp/mooncage-fuzz-XXXXXX";

static void clean(void)
{
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", directory);
  if (system(command) != 0) perror(directory);
}

static mcg_part *part(void)
{
  static mcg_part made = {.name = "common"};
  mcg_error *err = NULL;
  if (made.directory) return &made;
  FUZZ_NEED(mkdtemp(directory) != NULL && atexit(clean) == 0);
  made.directory = directory;
  FUZZ_NEED(mcg_part_open(&made, true, &err) == 0);
  return &made;
}

static void metadata(const uint8_t *data, size_t size)
{
  mcg_part *store = part();
  json_t *read = NULL;
  mcg_error *err = NULL;
  int fd = openat(store->fd, "one.json", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  FUZZ_NEED(fd >= 0 && write(fd, data, size) == (ssize_t)size);
  close(fd);
  if (mcg_part_read(store, "one", &read, &err) == 0)
    FUZZ_NEED(strcmp(json_string_value(json_object_get(read, "snapshot_id")), "one") == 0 &&
              !strchr(json_string_value(json_object_get(read, "data")), '/'));
  else
    FUZZ_NEED(err->code == MCG_PROTOCOL);
  json_decref(read);
  mcg_error_free(err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (!size) return 0;
  if (*data == '{')
    metadata(data, size);
  else
    count(data, size);
  return 0;
}

/* One that is sealed, as a save leaves it; and two files in an archive, the second with a pax size. */
static size_t sealed(uint8_t *out, size_t room)
{
  char name[MCG_DATA_NAME_MAX];
  mcg_part *store = part();
  mcg_error *err = NULL;
  int fd;
  json_t *given = json_pack("{s:s, s:s, s:i}", "snapshot_id", "one", "sha256",
                            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                            "size_bytes", 0);
  FUZZ_NEED(mcg_part_create(store, "one", name, &fd, &err) == 0 &&
            mcg_part_commit(store, "one", name, fd, given, &err) == 0);
  close(fd);
  json_decref(given);
  fd = openat(store->fd, "one.json", O_RDONLY | O_CLOEXEC);
  ssize_t len = read(fd, out, room);
  close(fd);
  return len > 0 ? (size_t)len : 0;
}

static void header(uint8_t *block, char type, unsigned size)
{
  unsigned sum = 8 * ' ';
  memset(block, 0, 512);
  block[0] = 'f';
  snprintf((char *)block + 124, 12, "%011o", size);
  block[156] = (uint8_t)type;
  memcpy(block + 257, "ustar", 6);
  for (int i = 0; i < 512; i++) sum += i < 148 || i >= 156 ? block[i] : 0;
  snprintf((char *)block + 148, 8, "%06o", sum);
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
  if (index == 0) return sealed(out, room);
  if (index > 1 || room < 512 * 6) return 0;
  memset(out, 0, 512 * 6);
  header(out, '0', 5);
  header(out + 1024, 'x', 12);
  memcpy(out + 1536, "12 size=600\n", 12);
  header(out + 2048, '0', 0);
  return 512 * 6;
}
