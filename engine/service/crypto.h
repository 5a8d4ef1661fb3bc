/* crypto.h: what the engine needs of libcrypto, which is opened when first used: loading it costs a
 * millisecond, and most runs never hash anything. mcg_sha256_hex is public. */
#ifndef MCG_CRYPTO_H
#define MCG_CRYPTO_H

#include <mooncage/backend.h>

#endif
