/* sha256.c: FIPS 180-4 and RFC 2104, as they stand there; where the processor has instructions for it,
 * with those: every line of the audit log is hashed. */
#include "sha256.h"
#include <string.h>

/* Asking the processor itself would trap in a virtual machine: libc has asked already. */
#if defined(__x86_64__) && __has_include(<sys/platform/x86.h>)
#include <immintrin.h>
#include <sys/platform/x86.h>
#define HAS_INSTRUCTIONS                                                                           \
  (CPU_FEATURE_ACTIVE(SHA) && CPU_FEATURE_ACTIVE(SSSE3) && CPU_FEATURE_ACTIVE(SSE4_1))
#endif

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t word, unsigned by)
{
  return word >> by | word << (32 - by);
}

static uint32_t load(const uint8_t *at)
{
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void store(uint8_t *at, uint32_t word)
{
  for (int i = 0; i < 4; i++) at[i] = (uint8_t)(word >> (24 - 8 * i));
}

static void compress(uint32_t state[8], const uint8_t *block)
{
  uint32_t w[64], v[8];
  for (int i = 0; i < 16; i++) w[i] = load(block + 4 * i);
  for (int i = 16; i < 64; i++) {
    uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
           (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
  }
  memcpy(v, state, sizeof v);
#pragma GCC unroll 64
  for (unsigned i = 0; i < 64; i++) { /* a is v[-i], b v[1-i] ...: nothing is moved */
    uint32_t a = v[-i & 7], e = v[(4 - i) & 7], *d = &v[(3 - i) & 7], *h = &v[(7 - i) & 7];
    uint32_t b = v[(1 - i) & 7], c = v[(2 - i) & 7], f = v[(5 - i) & 7], g = v[(6 - i) & 7];
    uint32_t t = *h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + (g ^ (e & (f ^ g))) +
                 round_constants[i] + w[i];
    *d += t;
    *h = t + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) | (c & (a | b)));
  }
  for (int i = 0; i < 8; i++) state[i] += v[i];
}

#ifdef HAS_INSTRUCTIONS
/* The instructions want the state as ABEF and CDGH, highest word first, and do two rounds each; the
 * words of the block are in four registers, of which each round of four makes the next ones. */
__attribute__((target("sha,ssse3,sse4.1"))) static void
compress_by_instructions(uint32_t state[8], const uint8_t *at, size_t count)
{
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i dcba = _mm_loadu_si128((const __m128i *)state);
  __m128i hgfe = _mm_loadu_si128((const __m128i *)(state + 4));
  __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; count; count--, at += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; i++)
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)at + i), swap);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
      __m128i k = _mm_loadu_si128((const __m128i *)(round_constants + 4 * i));
      __m128i sum = _mm_add_epi32(w[i & 3], k);
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
      if (i >= 12) continue;
      __m128i older = _mm_sha256msg1_epu32(w[i & 3], w[(i + 1) & 3]);
      __m128i middle = _mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4);
      w[i & 3] = _mm_sha256msg2_epu32(_mm_add_epi32(older, middle), w[(i + 3) & 3]);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}
#endif

void mcg_sha256_blocks(uint32_t state[8], const uint8_t *blocks, size_t count, bool plain)
{
#ifdef HAS_INSTRUCTIONS
  if (!plain && HAS_INSTRUCTIONS) {
    compress_by_instructions(state, blocks, count);
    return;
  }
#endif
  (void)plain;
  for (; count; count--, blocks += 64) compress(state, blocks);
}

void mcg_sha256_init(mcg_sha256 *hash)
{
  static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(hash->state, start, sizeof start);
  hash->len = 0;
}

void mcg_sha256_update(mcg_sha256 *hash, const void *bytes, size_t len)
{
  const uint8_t *at = bytes;
  size_t held = hash->len % 64;
  hash->len += len;
  if (held && len >= 64 - held) {
    memcpy(hash->block + held, at, 64 - held);
    mcg_sha256_blocks(hash->state, hash->block, 1, false);
    at += 64 - held;
    len -= 64 - held;
    held = 0;
  }
  if (len >= 64) mcg_sha256_blocks(hash->state, at, len / 64, false);
  at += len / 64 * 64;
  if (len % 64) memcpy(hash->block + held, at, len % 64);
}

void mcg_sha256_final(mcg_sha256 *hash, uint8_t out[32])
{
  uint64_t bits = hash->len * 8;
  size_t held = hash->len % 64;
  hash->block[held++] = 0x80;
  if (held > 56) {
    memset(hash->block + held, 0, 64 - held);
    mcg_sha256_blocks(hash->state, hash->block, 1, false);
    held = 0;
  }
  memset(hash->block + held, 0, 56 - held);
  store(hash->block + 56, (uint32_t)(bits >> 32));
  store(hash->block + 60, (uint32_t)bits);
  mcg_sha256_blocks(hash->state, hash->block, 1, false);
  for (int i = 0; i < 8; i++) store(out + 4 * i, hash->state[i]);
}

void mcg_hmac_key_init(mcg_hmac_key *key, const void *bytes, size_t len)
{
  uint8_t pad[64] = {0};
  if (len > sizeof pad) {
    mcg_sha256_init(&key->inner);
    mcg_sha256_update(&key->inner, bytes, len);
    mcg_sha256_final(&key->inner, pad);
  } else if (len) {
    memcpy(pad, bytes, len);
  }
  for (size_t i = 0; i < sizeof pad; i++) pad[i] ^= 0x36;
  mcg_sha256_init(&key->inner);
  mcg_sha256_update(&key->inner, pad, sizeof pad);
  for (size_t i = 0; i < sizeof pad; i++) pad[i] ^= 0x36 ^ 0x5c;
  mcg_sha256_init(&key->outer);
  mcg_sha256_update(&key->outer, pad, sizeof pad);
}

void mcg_hmac_start(const mcg_hmac_key *key, mcg_sha256 *hash)
{
  *hash = key->inner;
}

void mcg_hmac_final(const mcg_hmac_key *key, mcg_sha256 *hash, uint8_t out[32])
{
  uint8_t inner[32];
  mcg_sha256_final(hash, inner);
  *hash = key->outer;
  mcg_sha256_update(hash, inner, sizeof inner);
  mcg_sha256_final(hash, out);
}

void mcg_hex(const uint8_t *bytes, size_t len, char *out)
{
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < len; i++) {
    out[2 * i] = digits[bytes[i] >> 4];
    out[2 * i + 1] = digits[bytes[i] & 15];
  }
}
