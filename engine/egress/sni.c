/* sni.c: reads a ClientHello byte by byte across the records that it is cut into. RFC 8446 and 5246 for
 * the message, 6066 for the name, 9849 for ECH. */
#include "sni.h"
#include <string.h>

#define HANDSHAKE 22
#define CLIENT_HELLO 1
#define RECORD_MAX 16384
#define EXT_SERVER_NAME 0
#define EXT_ECH 0xfe0d

typedef struct cursor {
  const uint8_t *bytes;
  size_t len, at;
  size_t record;   /* bytes left of this one */
  size_t left;     /* bytes left of the message, or of what is being read in it */
  bool more;       /* ran out of bytes */
  const char *why; /* malformed */
} cursor;

static uint8_t bad(cursor *c, const char *why)
{
  if (!c->why && !c->more) c->why = why;
  return 0;
}

static void enter_record(cursor *c)
{
  const uint8_t *head = c->bytes + c->at;
  size_t have = c->len - c->at;
  if (have > 0 && head[0] != HANDSHAKE) {
    bad(c, "it is not TLS");
    return;
  }
  if (have > 1 && head[1] != 3) {
    bad(c, "it is not TLS");
    return;
  }
  if (have < 5) {
    c->more = true;
    return;
  }
  c->record = (size_t)(head[3] << 8 | head[4]);
  c->at += 5;
  if (c->record == 0 || c->record > RECORD_MAX) bad(c, "a TLS record has no sensible length");
}

static uint8_t next(cursor *c)
{
  if (c->why || c->more) return 0;
  if (c->left == 0) return bad(c, "the ClientHello is malformed");
  if (c->record == 0) enter_record(c);
  if (c->why || c->more) return 0;
  if (c->at == c->len) {
    c->more = true;
    return 0;
  }
  c->record--;
  c->left--;
  return c->bytes[c->at++];
}

static size_t number(cursor *c, unsigned bytes)
{
  size_t value = 0;
  while (bytes-- > 0) value = value << 8 | next(c);
  return value;
}

static void skip(cursor *c, size_t count)
{
  while (count-- > 0 && !c->why && !c->more) next(c);
}

/* What `count` leaves of the message, to be given back to `left` once those are read. */
static size_t narrow(cursor *c, size_t count)
{
  if (count > c->left) bad(c, "the ClientHello is malformed");
  if (c->why || c->more) return 0;
  size_t rest = c->left - count;
  c->left = count;
  return rest;
}

/* One name of type host_name: more, or others, nobody sends and servers read differently. */
static void read_server_name(cursor *c, mcg_sni *out)
{
  char text[MCG_NAME_ROOM];
  mcg_address ignored;
  size_t list = number(c, 2);
  if (list != c->left) bad(c, "the ClientHello is malformed");
  if (number(c, 1) != 0) bad(c, "the ClientHello names the server in an unknown way");
  size_t len = number(c, 2);
  if (len != c->left || len > MCG_NAME_MAX) bad(c, "the ClientHello does not hold one name");
  for (size_t i = 0; i < len && !c->why && !c->more; i++) text[i] = (char)next(c);
  if (c->why || c->more) return;
  const char *why;
  if (mcg_name_normalise(text, len, out->name, &ignored, &why) != MCG_NAME_HOST)
    bad(c, "the name in the ClientHello is no host's");
}

static mcg_sni_kind read_extensions(cursor *c, mcg_sni *out)
{
  bool named = false;
  if (number(c, 2) != c->left) bad(c, "the ClientHello is malformed");
  while (c->left > 0 && !c->why && !c->more) {
    size_t type = number(c, 2), len = number(c, 2), rest = narrow(c, len);
    if (c->why || c->more) break;
    if (type == EXT_SERVER_NAME && named) bad(c, "the ClientHello names the server twice");
    if (type == EXT_ECH) out->ech = true;
    if (type == EXT_SERVER_NAME)
      read_server_name(c, out);
    else
      skip(c, len);
    named |= type == EXT_SERVER_NAME;
    if (!c->why && !c->more) c->left = rest;
  }
  return named ? MCG_SNI_NAME : MCG_SNI_NONE;
}

/* Up to the extensions; false: there are none. */
static bool read_hello(cursor *c)
{
  c->left = 4;
  if (next(c) != CLIENT_HELLO) bad(c, "it is TLS, but starts with no ClientHello");
  size_t len = number(c, 3);
  if (len > MCG_SNI_BYTES) bad(c, "the ClientHello is too long");
  c->left = len;
  if (number(c, 2) >> 8 != 3) bad(c, "the ClientHello is malformed");
  skip(c, 32);           /* random */
  skip(c, number(c, 1)); /* session */
  skip(c, number(c, 2)); /* ciphers */
  skip(c, number(c, 1)); /* compression */
  return c->left > 0;
}

mcg_sni_kind mcg_sni_read(const uint8_t *bytes, size_t len, mcg_sni *out)
{
  cursor c = {.bytes = bytes, .len = len};
  memset(out, 0, sizeof *out);
  mcg_sni_kind kind = read_hello(&c) ? read_extensions(&c, out) : MCG_SNI_NONE;
  if (c.more && len >= MCG_SNI_BYTES) {
    c.more = false;
    bad(&c, "the ClientHello is too long");
  }
  out->length = c.at;
  if (kind == MCG_SNI_NAME && c.record > 0) bad(&c, "more than a ClientHello is in its record");
  if (!c.more && !c.why) return kind;
  out->name[0] = '\0';
  out->ech = false;
  out->why = c.why;
  return c.why ? MCG_SNI_BAD : MCG_SNI_MORE;
}
