/* id.c: names that nobody can guess and that are safe in paths, cgroup names and URLs. */
#include "engine.h"
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#define ID_BYTES ((size_t)16)

/* Random bytes that were drawn ahead, since each command has an id. They lie in a page that is empty
 * after a fork, so that no two processes have the same ones; what was used is wiped. */
typedef struct pool {
  atomic_flag busy;
  size_t left;
  uint8_t bytes[256]; /* the most that is drawn at once */
} pool;

static pool *pool_new(void)
{
  void *page = mmap(NULL, sizeof(pool), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return NULL;
  if (madvise(page, sizeof(pool), MADV_WIPEONFORK) == 0) return page;
  munmap(page, sizeof(pool));
  return NULL;
}

/* False: there is none, somebody else is at it, or it cannot be filled. */
static bool from_pool(uint8_t out[ID_BYTES])
{
  static _Atomic(pool *) shared;
  pool *mine = atomic_load(&shared), *none = NULL;
  if (!mine && (mine = pool_new()) && !atomic_compare_exchange_strong(&shared, &none, mine)) {
    munmap(mine, sizeof *mine);
    mine = none;
  }
  if (!mine || atomic_flag_test_and_set(&mine->busy)) return false;
  if (!mine->left && getentropy(mine->bytes, sizeof mine->bytes) == 0)
    mine->left = sizeof mine->bytes;
  bool good = mine->left > 0;
  if (good) {
    mine->left -= ID_BYTES;
    memcpy(out, mine->bytes + mine->left, ID_BYTES);
    explicit_bzero(mine->bytes + mine->left, ID_BYTES);
  }
  atomic_flag_clear(&mine->busy);
  return good;
}

int mcg_random_id(char out[27], mcg_error **err)
{
  static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
  uint8_t random[ID_BYTES + 1] = {0}; /* 128 bits, and two zero bits for the last digit */
  if (!from_pool(random) && getentropy(random, ID_BYTES) < 0)
    return mcg_fail_errno(err, errno, "this needs Linux 3.17 or newer, and getrandom allowed",
                          "draw a random id");
  for (size_t i = 0; i < 26; i++) {
    size_t bit = i * 5;
    unsigned pair = (unsigned)random[bit / 8] << 8 | random[bit / 8 + 1];
    out[i] = digits[pair >> (11 - bit % 8) & 31];
  }
  out[26] = '\0';
  return 0;
}
