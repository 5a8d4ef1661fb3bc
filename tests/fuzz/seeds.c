/* seeds.c: beside libFuzzer: writes the inputs that a target makes itself into the directory
 * $FUZZ_SEEDS, before libFuzzer reads it. */
#include "fuzz.h"

#define ROOM ((size_t)1 << 18)

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
  static uint8_t bytes[ROOM];
  const char *dir = getenv("FUZZ_SEEDS");
  size_t len;
  (void)argc, (void)argv;
  for (unsigned i = 0; dir && fuzz_seed && (len = fuzz_seed(i, bytes, ROOM)) > 0; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/seed-%u", dir, i);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, len, file) != len || fclose(file) != 0) {
      perror(path);
      exit(1);
    }
  }
  return 0;
}
