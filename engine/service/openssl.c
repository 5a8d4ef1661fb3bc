/* openssl.c: libssl and libcrypto by dlopen. */
#include "openssl.h"
#include <dlfcn.h>

#define NO_LOAD_CONFIG 0x80u /* OPENSSL_CONF is not asked */
#define NO_ATEXIT 0x080000u  /* the process is the host's */

static int find(mcg_openssl *self, mcg_error **err)
{
#define FIND(library, result, name, arguments)                                                     \
  if (!(*(void **)&self->name = dlsym(self->library, #name)))                                      \
    return mcg_fail(err, MCG_UNAVAILABLE, "install OpenSSL 3 (Debian: libssl3)",                   \
                    "lib" #library " has no " #name);
  MCG_OPENSSL_FUNCTIONS(FIND)
#undef FIND
  if (self->OPENSSL_init_ssl(NO_LOAD_CONFIG | NO_ATEXIT, NULL) == 1) return 0;
  return mcg_fail(err, MCG_UNAVAILABLE, NULL, "libssl does not start");
}

static int load(mcg_openssl *self, mcg_error **err)
{
  self->crypto = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
  if (self->crypto) self->ssl = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
  if (!self->ssl)
    return mcg_fail(err, MCG_UNAVAILABLE, "install OpenSSL 3 (Debian: libssl3)",
                    "cannot load OpenSSL: %s", dlerror());
  return find(self, err);
}

int mcg_openssl_open(mcg_openssl **out, mcg_error **err)
{
  mcg_openssl *self = calloc(1, sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for OpenSSL");
  if (load(self, err) == 0) {
    *out = self;
    return 0;
  }
  mcg_openssl_close(self);
  return -1;
}

void mcg_openssl_close(mcg_openssl *openssl)
{
  if (!openssl) return;
  if (openssl->ssl) dlclose(openssl->ssl);
  if (openssl->crypto) dlclose(openssl->crypto);
  free(openssl);
}
