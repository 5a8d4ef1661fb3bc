/* crypto.h: what the engine needs of libcrypto, which is opened when first used: loading it costs a
 * millisecond, and most runs never hash anything. */
#ifndef MCG_CRYPTO_H
#define MCG_CRYPTO_H

#include <mooncage/backend.h>

/* SHA-256 of the bytes as 64 lower-case hexadecimal digits. Without libcrypto: `unavailable`. */
int mcg_sha256_hex(const void *bytes, size_t len, char out[65], mcg_error **err);

#endif
