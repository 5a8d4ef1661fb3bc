/* crypto.c: libcrypto by dlopen. The handle is kept for the life of the process, as dlopen keeps
 * libraries anyway; nothing else is remembered. */
#include "crypto.h"
#include <dlfcn.h>

typedef unsigned char *(*sha256_fn)(const unsigned char *bytes, size_t len, unsigned char *out);

int mcg_sha256_hex(const void *bytes, size_t len, char out[65], mcg_error **err)
{
  void *library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return mcg_fail(err, MCG_UNAVAILABLE, "install OpenSSL's library (Debian: libssl3)",
                    "cannot load libcrypto: %s", dlerror());
  sha256_fn sha256;
  *(void **)&sha256 = dlsym(library, "SHA256");
  unsigned char digest[32];
  if (!sha256 || !sha256(bytes, len, digest)) {
    dlclose(library);
    return mcg_fail(err, MCG_UNAVAILABLE, NULL, "libcrypto has no SHA256");
  }
  for (size_t i = 0; i < sizeof digest; i++) snprintf(out + 2 * i, 3, "%02x", digest[i]);
  dlclose(library);
  return 0;
}
