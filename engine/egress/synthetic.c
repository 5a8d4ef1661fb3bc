/* synthetic.c: 198.18.0.0/15 (RFC 2544: for tests of devices, routed nowhere) and fd00::/64. The first
 * address of both is the sandbox's own; names follow in the order in which they were asked for. */
#include "synthetic.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define V4_NET 0xc6120000u /* 198.18.0.0 */
#define V4_MASK 0xfffe0000u
#define FIRST 2      /* .0 is the net, .1 the sandbox's */
#define BUCKETS 1024 /* a power of two */

struct mcg_synthetic {
  char *names[MCG_SYNTHETIC_MAX];
  int16_t next[MCG_SYNTHETIC_MAX]; /* in its bucket; -1 ends it */
  int16_t buckets[BUCKETS];
  int count;
};

mcg_synthetic *mcg_synthetic_new(void)
{
  mcg_synthetic *names = calloc(1, sizeof *names);
  if (names) memset(names->buckets, -1, sizeof names->buckets);
  return names;
}

void mcg_synthetic_free(mcg_synthetic *names)
{
  if (!names) return;
  for (int i = 0; i < names->count; i++) free(names->names[i]);
  free(names);
}

static size_t bucket_of(const char *name)
{
  uint32_t hash = 2166136261u; /* FNV-1a */
  for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
  return (hash ^ hash >> 16) & (BUCKETS - 1);
}

int mcg_synthetic_number(mcg_synthetic *names, const char *name)
{
  int16_t *bucket = &names->buckets[bucket_of(name)];
  for (int i = *bucket; i >= 0; i = names->next[i])
    if (strcmp(names->names[i], name) == 0) return i;
  if (names->count == MCG_SYNTHETIC_MAX) return -1;
  char *copy = strdup(name);
  if (!copy) return -2;
  int number = names->count++;
  names->names[number] = copy;
  names->next[number] = *bucket;
  *bucket = (int16_t)number;
  return number;
}

void mcg_synthetic_address(int number, bool six, mcg_address *out)
{
  uint32_t low = FIRST + (uint32_t)number + (six ? 0 : V4_NET);
  memset(out, 0, sizeof *out);
  out->six = six;
  if (six) out->bytes[0] = 0xfd;
  for (int i = 0; i < 4; i++) out->bytes[(six ? 12 : 0) + i] = (uint8_t)(low >> (24 - 8 * i));
}

int mcg_synthetic_count(const mcg_synthetic *names)
{
  return names->count;
}

const char *mcg_synthetic_at(const mcg_synthetic *names, int number)
{
  return names->names[number];
}

static uint64_t number_of(const uint8_t *bytes, size_t len)
{
  uint64_t number = 0;
  for (size_t i = 0; i < len; i++) number = number << 8 | bytes[i];
  return number;
}

const char *mcg_synthetic_name(const mcg_synthetic *names, const mcg_address *address, bool *ours)
{
  uint64_t place;
  if (address->six) {
    *ours = number_of(address->bytes, 8) == 0xfd00000000000000u;
    place = number_of(address->bytes + 8, 8);
  } else {
    place = number_of(address->bytes, 4);
    *ours = (place & V4_MASK) == V4_NET;
    place -= V4_NET;
  }
  if (!*ours || place < FIRST || place - FIRST >= (uint64_t)names->count) return NULL;
  return names->names[place - FIRST];
}
