/* runner.c: runs a fuzz target without libFuzzer.
 *
 *   fuzz_NAME [ROUNDS [SEED]]      seeds first, then mutations of them; the same SEED, the same inputs
 *   fuzz_NAME --file FILE...       inputs of earlier findings */
#include "fuzz.h"

#include <dirent.h>
#include <string.h>

#define ROOM ((size_t)1 << 18)
#define ROUNDS 20000u

static uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return limit ? (uint32_t)(random_state >> 11) % limit : 0;
}

static const uint8_t telling[] = {0,   1,   2,   7,   8,   0x7f, 0x80, 0xff,
                                  '/', '.', '0', '7', ' ', '\n', '='};

static size_t mutate(uint8_t *bytes, size_t len)
{
  uint32_t at = random_below((uint32_t)len), many = 1 + random_below(16);
  if (at + many > len) many = (uint32_t)len - at;
  switch (random_below(7)) {
  case 0: bytes[at] ^= (uint8_t)(1 << random_below(8)); return len;
  case 1: bytes[at] = telling[random_below(sizeof telling)]; return len;
  case 2: bytes[at] = (uint8_t)random_below(256); return len;
  case 3: memset(bytes + at, telling[random_below(sizeof telling)], many); return len;
  case 4: return len > 1 ? at + 1 : len; /* cut */
  case 5:                                /* take out */
    memmove(bytes + at, bytes + at + many, len - at - many);
    return len > many ? len - many : len;
  default: /* double a piece */
    if (len + many > ROOM) return len;
    memmove(bytes + at + many, bytes + at, len - at);
    return len + many;
  }
}

/* Exactly as long as it is, so that a sanitizer sees a read past its end. */
static void run(const uint8_t *bytes, size_t len)
{
  uint8_t *copy = malloc(len ? len : 1);
  FUZZ_NEED(copy);
  memcpy(copy, bytes, len);
  LLVMFuzzerTestOneInput(copy, len);
  free(copy);
}

typedef struct seed {
  uint8_t *bytes;
  size_t len;
} seed;

static seed *seeds;
static unsigned seed_count;

static void keep_seed(const uint8_t *bytes, size_t len)
{
  seed *longer = len ? realloc(seeds, (seed_count + 1) * sizeof *seeds) : NULL;
  if (!longer) return;
  seeds = longer;
  seeds[seed_count] = (seed){.bytes = malloc(len), .len = len};
  FUZZ_NEED(seeds[seed_count].bytes);
  memcpy(seeds[seed_count++].bytes, bytes, len);
}

static int read_file(const char *path, uint8_t *bytes, size_t *len)
{
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    return -1;
  }
  *len = fread(bytes, 1, ROOM, file);
  fclose(file);
  return 0;
}

static void gather_seeds(uint8_t *bytes)
{
  struct dirent **list = NULL;
  size_t len;
  for (unsigned i = 0; fuzz_seed && (len = fuzz_seed(i, bytes, ROOM)) > 0; i++)
    keep_seed(bytes, len);
  int count = scandir(FUZZ_CORPUS, &list, NULL, alphasort); /* none is fine */
  for (int i = 0; i < count; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", FUZZ_CORPUS, list[i]->d_name);
    if (*list[i]->d_name != '.' && read_file(path, bytes, &len) == 0) keep_seed(bytes, len);
    free(list[i]);
  }
  free(list);
}

int main(int argc, char **argv)
{
  static uint8_t bytes[ROOM];
  size_t len;
  if (argc > 2 && strcmp(argv[1], "--file") == 0) {
    for (int i = 2; i < argc; i++) {
      if (read_file(argv[i], bytes, &len) < 0) return 1;
      run(bytes, len);
    }
    return 0;
  }
  unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : ROUNDS;
  random_state = 0x9e3779b97f4a7c15ULL ^ (argc > 2 ? strtoull(argv[2], NULL, 10) : 0);
  gather_seeds(bytes);
  FUZZ_NEED(seed_count > 0);
  run(bytes, 0);
  for (unsigned i = 0; i < seed_count; i++) run(seeds[i].bytes, seeds[i].len);
  for (unsigned i = 0; i < rounds; i++) {
    const seed *from = &seeds[random_below(seed_count)];
    len = from->len;
    memcpy(bytes, from->bytes, len);
    for (uint32_t steps = 1 + random_below(6); steps > 0; steps--) len = mutate(bytes, len);
    run(bytes, len);
  }
  printf("%u seeds, %u mutations: nothing found\n", seed_count, rounds);
  for (unsigned i = 0; i < seed_count; i++) free(seeds[i].bytes);
  free(seeds);
  return 0;
}
