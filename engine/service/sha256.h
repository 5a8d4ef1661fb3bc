/* sha256.h: SHA-256 and HMAC of it, for the audit chain: every command writes two short lines, and
 * loading libcrypto for them would cost 3 ms, as much as the whole sandbox. What hashes much, or once,
 * uses crypto.h. No locks, no state but the caller's; may be called on any thread. */
#ifndef MCG_SHA256_H
#define MCG_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mcg_sha256 {
  uint32_t state[8];
  uint64_t len;
  uint8_t block[64];
} mcg_sha256;

void mcg_sha256_init(mcg_sha256 *hash);
void mcg_sha256_update(mcg_sha256 *hash, const void *bytes, size_t len);
void mcg_sha256_final(mcg_sha256 *hash, uint8_t out[32]);

/* The middle of it, for whole blocks of 64 bytes. `plain`: without the processor's own instructions. */
void mcg_sha256_blocks(uint32_t state[8], const uint8_t *blocks, size_t count, bool plain);

/* The two halves of an HMAC, made of the key once; each message starts from copies. */
typedef struct mcg_hmac_key {
  mcg_sha256 inner, outer;
} mcg_hmac_key;

void mcg_hmac_key_init(mcg_hmac_key *key, const void *bytes, size_t len);
void mcg_hmac_start(const mcg_hmac_key *key, mcg_sha256 *hash);
void mcg_hmac_final(const mcg_hmac_key *key, mcg_sha256 *hash, uint8_t out[32]);

void mcg_hex(const uint8_t *bytes, size_t len, char *out); /* 2 * len digits, no NUL */

#endif
