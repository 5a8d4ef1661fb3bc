/* authority.c: one key, one certificate that signs with it, and a certificate for each name. All leaves
 * share a key of their own: they are shown by one process to one sandbox. */
#include "authority.h"
#include <arpa/inet.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { /* numbers that OpenSSL gives to what stands in a certificate */
       NID_SUBJECT_KEY = 82,
       NID_KEY_USAGE = 83,
       NID_SUBJECT_NAME = 85,
       NID_CONSTRAINTS = 87,
       NID_AUTHORITY_KEY = 90,
       NID_EXTENDED_USAGE = 126,
       MBSTRING_ASC = 0x1001
};
#define HOUR 3600L
#define AUTHORITY_DAYS 30
#define LEAF_HOURS 48
#define RENEW_HOURS 24
#define LEAVES_MAX 1024 /* names a session may resolve */

typedef struct leaf {
  struct leaf *next;
  char *name;
  time_t made;
  mcg_tls_identity *identity;
} leaf;

struct mcg_authority {
  mcg_openssl *o;
  mcg_tls_trust *trust;
  EVP_PKEY *key, *leaf_key;
  X509 *certificate;
  char *pem;
  leaf *leaves; /* a renewed one stands before the one it replaces, whose connections may go on */
  unsigned count;
};

static int broken(mcg_error **err)
{
  return mcg_fail(err, MCG_INTERNAL, NULL, "cannot make a certificate for the sandbox");
}

/* ---- certificates ------------------------------------------------------------------------- */

static bool extend(const mcg_openssl *o, X509 *certificate, X509 *issuer, int nid,
                   const char *value)
{
  /* struct v3_ext_ctx, whose size only OpenSSL's headers know: 9 words. */
  void *context[32] = {NULL};
  o->X509V3_set_ctx(context, issuer, certificate, NULL, NULL, 0);
  X509_EXTENSION *extension = o->X509V3_EXT_conf_nid(NULL, context, nid, value);
  if (!extension) return false;
  bool added = o->X509_add_ext(certificate, extension, -1) == 1;
  o->X509_EXTENSION_free(extension);
  return added;
}

/* A certificate without extensions or signature. */
static X509 *blank(const mcg_openssl *o, const char *name, EVP_PKEY *key, X509 *issuer, long hours)
{
  X509 *made = o->X509_new();
  X509_NAME *subject = made ? o->X509_get_subject_name(made) : NULL;
  uint64_t serial;
  if (!made) return NULL;
  bool good =
      getrandom(&serial, sizeof serial, 0) == sizeof serial && o->X509_set_version(made, 2) == 1 &&
      o->ASN1_INTEGER_set_uint64(o->X509_get_serialNumber(made), serial >> 1) == 1 &&
      o->X509_gmtime_adj(o->X509_getm_notBefore(made), -HOUR) &&
      o->X509_gmtime_adj(o->X509_getm_notAfter(made), hours * HOUR) &&
      o->X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1,
                                    -1, 0) == 1 &&
      o->X509_set_issuer_name(made, issuer ? o->X509_get_subject_name(issuer) : subject) == 1 &&
      o->X509_set_pubkey(made, key) == 1;
  if (good) return made;
  o->X509_free(made);
  return NULL;
}

static bool make_self(mcg_authority *self, const char *session_id)
{
  const mcg_openssl *o = self->o;
  char name[64];
  snprintf(name, sizeof name, "mooncage sandbox %.26s", session_id);
  self->key = o->EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
  self->leaf_key = o->EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
  if (!self->key || !self->leaf_key) return false;
  X509 *own = self->certificate = blank(o, name, self->key, NULL, 24L * AUTHORITY_DAYS);
  return own && extend(o, own, own, NID_CONSTRAINTS, "critical,CA:TRUE,pathlen:0") &&
         extend(o, own, own, NID_KEY_USAGE, "critical,keyCertSign,cRLSign") &&
         extend(o, own, own, NID_SUBJECT_KEY, "hash") &&
         o->X509_sign(own, self->key, o->EVP_sha256()) > 0;
}

static bool write_pem(mcg_authority *self)
{
  const mcg_openssl *o = self->o;
  BIO *bio = o->BIO_new(o->BIO_s_mem());
  char text[4096];
  int len = bio && o->PEM_write_bio_X509(bio, self->certificate) == 1
                ? o->BIO_read(bio, text, sizeof text - 1)
                : -1;
  o->BIO_free(bio);
  if (len <= 0) return false;
  text[len] = 0;
  return (self->pem = strdup(text)) != NULL;
}

static X509 *make_leaf(const mcg_authority *self, const char *name)
{
  const mcg_openssl *o = self->o;
  unsigned char address[16];
  char names[300];
  bool ip = inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
  snprintf(names, sizeof names, "%s:%s", ip ? "IP" : "DNS", name);
  X509 *made = blank(o, "mooncage", self->leaf_key, self->certificate, LEAF_HOURS);
  if (!made) return NULL;
  if (extend(o, made, self->certificate, NID_CONSTRAINTS, "critical,CA:FALSE") &&
      extend(o, made, self->certificate, NID_KEY_USAGE, "critical,digitalSignature") &&
      extend(o, made, self->certificate, NID_EXTENDED_USAGE, "serverAuth") &&
      extend(o, made, self->certificate, NID_SUBJECT_KEY, "hash") &&
      extend(o, made, self->certificate, NID_AUTHORITY_KEY, "keyid") &&
      extend(o, made, self->certificate, NID_SUBJECT_NAME, names) &&
      o->X509_sign(made, self->key, o->EVP_sha256()) > 0)
    return made;
  o->X509_free(made);
  return NULL;
}

/* ---- life --------------------------------------------------------------------------------- */

typedef struct making {
  mcg_authority *self;
  const char *session_id, *ca_file;
  mcg_error *error;
} making;

static void make(void *arg)
{
  making *m = arg;
  mcg_authority *self = m->self;
  if (mcg_openssl_open(&self->o, &m->error) < 0 ||
      mcg_tls_trust_new(self->o, m->ca_file, &self->trust, &m->error) < 0)
    return;
  if (!make_self(self, m->session_id) || !write_pem(self)) broken(&m->error);
}

int mcg_authority_new(mcg_engine *engine, const char *session_id, const char *ca_file,
                      mcg_authority **out, mcg_error **err)
{
  making m = {.self = calloc(1, sizeof *m.self), .session_id = session_id, .ca_file = ca_file};
  if (!m.self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for TLS");
  if (mcg_fiber_work(engine, make, &m, err) == 0 && !m.error) {
    *out = m.self;
    return 0;
  }
  if (m.error) *err = m.error;
  mcg_authority_free(m.self);
  return -1;
}

void mcg_authority_free(mcg_authority *authority)
{
  if (!authority) return;
  const mcg_openssl *o = authority->o;
  for (leaf *at = authority->leaves, *next; at; at = next) {
    next = at->next;
    mcg_tls_identity_free(at->identity);
    free(at->name);
    free(at);
  }
  if (o) {
    o->X509_free(authority->certificate);
    o->EVP_PKEY_free(authority->leaf_key); /* wipes */
    o->EVP_PKEY_free(authority->key);
  }
  mcg_tls_trust_free(authority->trust);
  mcg_openssl_close(authority->o);
  free(authority->pem);
  free(authority);
}

const char *mcg_authority_pem(const mcg_authority *authority)
{
  return authority->pem;
}

unsigned long mcg_authority_hash(const mcg_authority *authority)
{
  return authority->o->X509_subject_name_hash(authority->certificate);
}

const mcg_tls_trust *mcg_authority_trust(const mcg_authority *authority)
{
  return authority->trust;
}

/* ---- leaves ------------------------------------------------------------------------------- */

static int grow(mcg_authority *self, const char *name, const mcg_tls_identity **out,
                mcg_error **err)
{
  leaf *made = calloc(1, sizeof *made);
  X509 *certificate = made ? make_leaf(self, name) : NULL;
  if (made) made->name = strdup(name);
  int rc = certificate && made->name ? mcg_tls_identity_new(self->o, name, certificate,
                                                            self->leaf_key, &made->identity, err)
                                     : broken(err);
  self->o->X509_free(certificate); /* the identity holds what it needs */
  if (rc < 0) {
    if (made) free(made->name);
    free(made);
    return -1;
  }
  made->made = time(NULL);
  made->next = self->leaves;
  self->leaves = made;
  self->count++;
  *out = made->identity;
  return 0;
}

int mcg_authority_identity(mcg_authority *authority, const char *name, const mcg_tls_identity **out,
                           mcg_error **err)
{
  time_t now = time(NULL);
  for (leaf *at = authority->leaves; at; at = at->next) {
    if (strcmp(at->name, name) != 0) continue;
    if (now - at->made >= RENEW_HOURS * HOUR) break;
    *out = at->identity;
    return 0;
  }
  if (authority->count >= LEAVES_MAX * 2)
    return mcg_fail(err, MCG_QUOTA, NULL, "too many names in one session");
  return grow(authority, name, out, err);
}
