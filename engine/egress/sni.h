/* sni.h: the server's name in the first bytes of a TLS connection. Pure, without allocation. */
#ifndef MCG_SNI_H
#define MCG_SNI_H

#include "name.h"

#define MCG_SNI_BYTES (32 * 1024) /* a ClientHello that does not end within so many is bad */

typedef enum mcg_sni_kind {
  MCG_SNI_MORE, /* the ClientHello has not ended */
  MCG_SNI_NAME,
  MCG_SNI_NONE, /* a ClientHello without a name */
  MCG_SNI_BAD,  /* no ClientHello, or a malformed one, or one with a name that no host has */
} mcg_sni_kind;

typedef struct mcg_sni {
  char name[MCG_NAME_ROOM]; /* normalised */
  size_t length;            /* of the records that hold the ClientHello, which ends with the last */
  bool ech;        /* encrypted_client_hello is there: the name may be another's in truth */
  const char *why; /* static: if BAD */
} mcg_sni;

/* `bytes` are all that has come so far. */
mcg_sni_kind mcg_sni_read(const uint8_t *bytes, size_t len, mcg_sni *out);

#endif
