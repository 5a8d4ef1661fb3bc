/* tls.c: TLS over memory buffers. */
#include "tls.h"
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

/* Of OpenSSL's headers, where these are macros. */
enum {
  SSL_ERROR_WANT_READ = 2,
  SSL_ERROR_ZERO_RETURN = 6,
  SSL_VERIFY_PEER = 1,
  CTRL_SET_SESS_CACHE_MODE = 44,
  CTRL_SET_SERVERNAME_CB = 53,
  CTRL_SET_SERVERNAME_ARG = 54,
  CTRL_SET_HOSTNAME = 55,
  CTRL_SET_MIN_PROTO_VERSION = 123,
  TLS1_2 = 0x0303,
  EXT_OK = 0,
  EXT_FATAL = 2,
  ALERT_UNRECOGNIZED_NAME = 112,
  NO_PARTIAL_WILDCARDS = 4,
  BIO_SET_EOF_RETURN = 130
};
#define OP_NO_TICKET (UINT64_C(1) << 14)
#define OP_NO_COMPRESSION (UINT64_C(1) << 17)
#define OP_NO_RENEGOTIATION (UINT64_C(1) << 30)

static const unsigned char PROTOCOL[] = "\x08http/1.1";

struct mcg_tls_trust {
  const mcg_openssl *o;
  SSL_CTX *context;
};

struct mcg_tls_identity {
  const mcg_openssl *o;
  SSL_CTX *context;
  char name[256];
};

struct mcg_tls {
  const mcg_openssl *o;
  SSL *ssl;
  BIO *in, *out; /* the SSL's */
  bool client;
  char name[256];
};

static const char *reason(const mcg_openssl *o)
{
  unsigned long code = o->ERR_peek_last_error();
  const char *text = code ? o->ERR_reason_error_string(code) : NULL;
  return text ? text : "unknown";
}

static SSL_CTX *new_context(const mcg_openssl *o, const SSL_METHOD *method)
{
  SSL_CTX *context = o->SSL_CTX_new(method);
  if (!context) return NULL;
  o->SSL_CTX_set_options(context, OP_NO_TICKET | OP_NO_COMPRESSION | OP_NO_RENEGOTIATION);
  o->SSL_CTX_ctrl(context, CTRL_SET_SESS_CACHE_MODE, 0, NULL);
  if (o->SSL_CTX_ctrl(context, CTRL_SET_MIN_PROTO_VERSION, TLS1_2, NULL) == 1) return context;
  o->SSL_CTX_free(context);
  return NULL;
}

/* ---- trust -------------------------------------------------------------------------------- */

/* Where systems keep what they trust. OpenSSL's own idea of it can be bent by SSL_CERT_FILE. */
static bool load_system(const mcg_openssl *o, X509_STORE *store)
{
  static const char *const files[] = {"/etc/ssl/certs/ca-certificates.crt",
                                      "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                                      "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                                      "/etc/ssl/cert.pem"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (access(files[i], R_OK) == 0) return o->X509_STORE_load_file(store, files[i]) == 1;
  return access("/etc/ssl/certs", R_OK) == 0 &&
         o->X509_STORE_load_path(store, "/etc/ssl/certs") == 1;
}

static int load(const mcg_openssl *o, X509_STORE *store, const char *ca_file, mcg_error **err)
{
  o->ERR_clear_error();
  bool system = load_system(o, store);
  if (!system && !ca_file)
    return mcg_fail(err, MCG_UNAVAILABLE,
                    "install the authorities (Debian: ca-certificates), or name a file of them: "
                    "network.ca_file",
                    "this system has no certificate authorities to verify a server by");
  if (!ca_file || o->X509_STORE_load_file(store, ca_file) == 1) return 0;
  if (access(ca_file, R_OK) < 0) return mcg_fail_errno(err, errno, NULL, "ca_file %s", ca_file);
  return mcg_fail(err, MCG_INVALID, "write a file of certificates in PEM", "ca_file %s: %s",
                  ca_file, reason(o));
}

int mcg_tls_trust_new(const mcg_openssl *openssl, const char *ca_file, mcg_tls_trust **out,
                      mcg_error **err)
{
  mcg_tls_trust *trust = calloc(1, sizeof *trust);
  X509_STORE *store = trust ? openssl->X509_STORE_new() : NULL;
  if (store) trust->context = new_context(openssl, openssl->TLS_client_method());
  if (!store || !trust->context) {
    openssl->X509_STORE_free(store);
    free(trust);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for TLS");
  }
  trust->o = openssl;
  openssl->SSL_CTX_set_cert_store(trust->context, store); /* takes it */
  openssl->SSL_CTX_set_verify(trust->context, SSL_VERIFY_PEER, NULL);
  openssl->SSL_CTX_set_alpn_protos(trust->context, PROTOCOL, sizeof PROTOCOL - 1);
  if (load(openssl, store, ca_file, err) == 0) {
    *out = trust;
    return 0;
  }
  mcg_tls_trust_free(trust);
  return -1;
}

void mcg_tls_trust_free(mcg_tls_trust *trust)
{
  if (!trust) return;
  trust->o->SSL_CTX_free(trust->context);
  free(trust);
}

/* ---- identity ----------------------------------------------------------------------------- */

/* HTTP/1.1 where the client offers it; one that offers only others is told so. */
static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *arg)
{
  (void)ssl;
  (void)arg;
  for (unsigned at = 0; at < in_len && at + 1 + in[at] <= in_len; at += 1u + in[at])
    if (in[at] == PROTOCOL[0] && memcmp(in + at + 1, PROTOCOL + 1, PROTOCOL[0]) == 0) {
      *out = in + at + 1;
      *out_len = in[at];
      return EXT_OK;
    }
  return EXT_FATAL;
}

/* Whether the client asked for `name`, or for none. */
static bool asks_for(const mcg_openssl *o, const SSL *ssl, const char *name)
{
  const char *asked = o->SSL_get_servername(ssl, 0);
  size_t len = strlen(name);
  return !asked ||
         (strncasecmp(asked, name, len) == 0 && (!asked[len] || !strcmp(asked + len, ".")));
}

static int check_name(SSL *ssl, int *alert, void *arg)
{
  const mcg_tls_identity *identity = arg;
  if (asks_for(identity->o, ssl, identity->name)) return EXT_OK;
  *alert = ALERT_UNRECOGNIZED_NAME;
  return EXT_FATAL;
}

static bool dress(const mcg_openssl *o, mcg_tls_identity *identity, X509 *certificate,
                  EVP_PKEY *key)
{
  SSL_CTX *context = identity->context = new_context(o, o->TLS_server_method());
  if (!context || o->SSL_CTX_use_certificate(context, certificate) != 1 ||
      o->SSL_CTX_use_PrivateKey(context, key) != 1)
    return false;
  o->SSL_CTX_set_num_tickets(context, 0);
  o->SSL_CTX_set_alpn_select_cb(context, select_protocol, NULL);
  /* The callback's type is another; OpenSSL casts it back. */
  o->SSL_CTX_callback_ctrl(context, CTRL_SET_SERVERNAME_CB, (void (*)(void))(void *)check_name);
  o->SSL_CTX_ctrl(context, CTRL_SET_SERVERNAME_ARG, 0, identity);
  return true;
}

int mcg_tls_identity_new(const mcg_openssl *openssl, const char *name, X509 *certificate,
                         EVP_PKEY *key, mcg_tls_identity **out, mcg_error **err)
{
  mcg_tls_identity *identity = calloc(1, sizeof *identity);
  if (!identity) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for TLS");
  identity->o = openssl;
  snprintf(identity->name, sizeof identity->name, "%s", name);
  openssl->ERR_clear_error();
  if (dress(openssl, identity, certificate, key)) {
    *out = identity;
    return 0;
  }
  mcg_fail(err, MCG_INTERNAL, NULL, "cannot be %s: %s", name, reason(openssl));
  mcg_tls_identity_free(identity);
  return -1;
}

void mcg_tls_identity_free(mcg_tls_identity *identity)
{
  if (!identity) return;
  identity->o->SSL_CTX_free(identity->context);
  free(identity);
}

/* ---- the machine -------------------------------------------------------------------------- */

static int begin(const mcg_openssl *o, SSL_CTX *context, bool client, const char *name,
                 mcg_tls **out, mcg_error **err)
{
  mcg_tls *tls = calloc(1, sizeof *tls);
  if (!tls) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for TLS");
  tls->o = o;
  tls->client = client;
  snprintf(tls->name, sizeof tls->name, "%s", name);
  tls->ssl = o->SSL_new(context);
  tls->in = o->BIO_new(o->BIO_s_mem());
  tls->out = o->BIO_new(o->BIO_s_mem());
  if (!tls->ssl || !tls->in || !tls->out) {
    o->BIO_free(tls->in);
    o->BIO_free(tls->out);
    tls->in = tls->out = NULL;
    mcg_tls_free(tls);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for TLS");
  }
  o->BIO_ctrl(tls->in, BIO_SET_EOF_RETURN, -1, NULL); /* empty is not the end */
  o->SSL_set_bio(tls->ssl, tls->in, tls->out);
  *out = tls;
  return 0;
}

static bool is_address(const char *name)
{
  unsigned char address[16];
  return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

int mcg_tls_connect(const mcg_tls_trust *trust, const char *name, mcg_tls **out, mcg_error **err)
{
  const mcg_openssl *o = trust->o;
  mcg_tls *tls;
  if (!*name || strlen(name) >= sizeof tls->name)
    return mcg_fail(err, MCG_INVALID, NULL, "\"%.40s\" is no name to verify a server by", name);
  if (begin(o, trust->context, true, name, &tls, err) < 0) return -1;
  o->SSL_set_connect_state(tls->ssl);
  o->SSL_set_hostflags(tls->ssl, NO_PARTIAL_WILDCARDS);
  bool good = is_address(name)
                  ? o->X509_VERIFY_PARAM_set1_ip_asc(o->SSL_get0_param(tls->ssl), name) == 1
                  : o->SSL_set1_host(tls->ssl, name) == 1 &&
                        o->SSL_ctrl(tls->ssl, CTRL_SET_HOSTNAME, 0, tls->name) == 1;
  if (good) {
    *out = tls;
    return 0;
  }
  mcg_tls_free(tls);
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory for TLS");
}

int mcg_tls_accept(const mcg_tls_identity *identity, mcg_tls **out, mcg_error **err)
{
  if (begin(identity->o, identity->context, false, identity->name, out, err) < 0) return -1;
  identity->o->SSL_set_accept_state((*out)->ssl);
  return 0;
}

void mcg_tls_free(mcg_tls *tls)
{
  if (!tls) return;
  tls->o->SSL_free(tls->ssl); /* its buffers too */
  free(tls);
}

bool mcg_tls_take(mcg_tls *tls, const void *bytes, size_t len)
{
  return len <= INT_MAX && tls->o->BIO_write(tls->in, bytes, (int)len) == (int)len;
}

size_t mcg_tls_give(mcg_tls *tls, void *bytes, size_t room)
{
  int got = tls->o->BIO_read(tls->out, bytes, room > INT_MAX ? INT_MAX : (int)room);
  return got > 0 ? (size_t)got : 0;
}

int mcg_tls_handshake(mcg_tls *tls, mcg_error **err)
{
  const mcg_openssl *o = tls->o;
  o->ERR_clear_error();
  int rc = o->SSL_do_handshake(tls->ssl);
  if (rc == 1) return 1;
  if (o->SSL_get_error(tls->ssl, rc) == SSL_ERROR_WANT_READ) return 0;
  long verdict = tls->client ? o->SSL_get_verify_result(tls->ssl) : 0;
  if (verdict)
    return mcg_fail(err, MCG_UNAUTHORIZED, NULL, "the certificate of %s is not accepted: %s",
                    tls->name, o->X509_verify_cert_error_string(verdict));
  if (tls->client)
    return mcg_fail(err, MCG_UNAVAILABLE, NULL, "no TLS with %s: %s", tls->name, reason(o));
  bool asked = asks_for(o, tls->ssl, tls->name);
  return mcg_fail(err, MCG_UNAVAILABLE, NULL, "no TLS with the program in the sandbox: %s",
                  asked ? reason(o) : "it asked for another name than it was resolved by (SNI)");
}

long mcg_tls_read(mcg_tls *tls, void *bytes, size_t room)
{
  tls->o->ERR_clear_error();
  int got = tls->o->SSL_read(tls->ssl, bytes, room > INT_MAX ? INT_MAX : (int)room);
  if (got > 0) return got;
  int what = tls->o->SSL_get_error(tls->ssl, got);
  return what == SSL_ERROR_WANT_READ     ? MCG_TLS_MORE
         : what == SSL_ERROR_ZERO_RETURN ? MCG_TLS_CLOSED
                                         : MCG_TLS_BROKEN;
}

bool mcg_tls_write(mcg_tls *tls, const void *bytes, size_t len)
{
  tls->o->ERR_clear_error();
  return len == 0 || (len <= INT_MAX && tls->o->SSL_write(tls->ssl, bytes, (int)len) == (int)len);
}

void mcg_tls_close(mcg_tls *tls)
{
  tls->o->ERR_clear_error();
  tls->o->SSL_shutdown(tls->ssl);
}
