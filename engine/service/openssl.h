/* openssl.h: the functions of libssl and libcrypto that the engine calls, found when first needed: a
 * program that never ends anybody's TLS never loads them. Declared here as OpenSSL 3 has them, whose
 * names and binary interface are stable; its headers are not needed to build. */
#ifndef MCG_OPENSSL_H
#define MCG_OPENSSL_H

#include <mooncage/backend.h>

typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_method_st SSL_METHOD;
typedef struct bio_st BIO;
typedef struct bio_method_st BIO_METHOD;
typedef struct x509_st X509;
typedef struct X509_name_st X509_NAME;
typedef struct X509_extension_st X509_EXTENSION;
typedef struct X509_VERIFY_PARAM_st X509_VERIFY_PARAM;
typedef struct x509_store_st X509_STORE;
typedef struct asn1_string_st ASN1_STRING;
typedef struct evp_pkey_st EVP_PKEY;
typedef struct evp_md_st EVP_MD;

/* X(library, result, name, arguments) */
#define MCG_OPENSSL_FUNCTIONS(X)                                                                   \
  X(ssl, int, OPENSSL_init_ssl, (uint64_t options, const void *settings))                          \
  X(ssl, const SSL_METHOD *, TLS_client_method, (void))                                            \
  X(ssl, const SSL_METHOD *, TLS_server_method, (void))                                            \
  X(ssl, SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *))                                             \
  X(ssl, void, SSL_CTX_free, (SSL_CTX *))                                                          \
  X(ssl, long, SSL_CTX_ctrl, (SSL_CTX *, int, long, void *))                                       \
  X(ssl, long, SSL_CTX_callback_ctrl, (SSL_CTX *, int, void (*)(void)))                            \
  X(ssl, uint64_t, SSL_CTX_set_options, (SSL_CTX *, uint64_t))                                     \
  X(ssl, int, SSL_CTX_set_num_tickets, (SSL_CTX *, size_t))                                        \
  X(ssl, int, SSL_CTX_use_certificate, (SSL_CTX *, X509 *))                                        \
  X(ssl, int, SSL_CTX_use_PrivateKey, (SSL_CTX *, EVP_PKEY *))                                     \
  X(ssl, void, SSL_CTX_set_verify, (SSL_CTX *, int, void *))                                       \
  X(ssl, void, SSL_CTX_set_cert_store, (SSL_CTX *, X509_STORE *))                                  \
  X(ssl, int, SSL_CTX_set_alpn_protos, (SSL_CTX *, const unsigned char *, unsigned))               \
  X(ssl, void, SSL_CTX_set_alpn_select_cb,                                                         \
    (SSL_CTX *,                                                                                    \
     int (*)(SSL *, const unsigned char **, unsigned char *, const unsigned char *, unsigned,      \
             void *),                                                                              \
     void *))                                                                                      \
  X(ssl, SSL *, SSL_new, (SSL_CTX *))                                                              \
  X(ssl, void, SSL_free, (SSL *))                                                                  \
  X(ssl, void, SSL_set_bio, (SSL *, BIO *, BIO *))                                                 \
  X(ssl, void, SSL_set_accept_state, (SSL *))                                                      \
  X(ssl, void, SSL_set_connect_state, (SSL *))                                                     \
  X(ssl, long, SSL_ctrl, (SSL *, int, long, void *))                                               \
  X(ssl, int, SSL_set1_host, (SSL *, const char *))                                                \
  X(ssl, void, SSL_set_hostflags, (SSL *, unsigned))                                               \
  X(ssl, X509_VERIFY_PARAM *, SSL_get0_param, (SSL *))                                             \
  X(ssl, int, SSL_do_handshake, (SSL *))                                                           \
  X(ssl, int, SSL_read, (SSL *, void *, int))                                                      \
  X(ssl, int, SSL_write, (SSL *, const void *, int))                                               \
  X(ssl, int, SSL_shutdown, (SSL *))                                                               \
  X(ssl, int, SSL_get_error, (const SSL *, int))                                                   \
  X(ssl, long, SSL_get_verify_result, (const SSL *))                                               \
  X(ssl, const char *, SSL_get_servername, (const SSL *, int))                                     \
  X(crypto, void, ERR_clear_error, (void))                                                         \
  X(crypto, unsigned long, ERR_peek_last_error, (void))                                            \
  X(crypto, const char *, ERR_reason_error_string, (unsigned long))                                \
  X(crypto, BIO *, BIO_new, (const BIO_METHOD *))                                                  \
  X(crypto, const BIO_METHOD *, BIO_s_mem, (void))                                                 \
  X(crypto, int, BIO_free, (BIO *))                                                                \
  X(crypto, int, BIO_read, (BIO *, void *, int))                                                   \
  X(crypto, int, BIO_write, (BIO *, const void *, int))                                            \
  X(crypto, long, BIO_ctrl, (BIO *, int, long, void *))                                            \
  X(crypto, X509_STORE *, X509_STORE_new, (void))                                                  \
  X(crypto, void, X509_STORE_free, (X509_STORE *))                                                 \
  X(crypto, int, X509_STORE_load_file, (X509_STORE *, const char *))                               \
  X(crypto, int, X509_STORE_load_path, (X509_STORE *, const char *))                               \
  X(crypto, const char *, X509_verify_cert_error_string, (long))                                   \
  X(crypto, int, X509_VERIFY_PARAM_set1_ip_asc, (X509_VERIFY_PARAM *, const char *))               \
  X(crypto, X509 *, X509_new, (void))                                                              \
  X(crypto, void, X509_free, (X509 *))                                                             \
  X(crypto, int, X509_set_version, (X509 *, long))                                                 \
  X(crypto, ASN1_STRING *, X509_get_serialNumber, (X509 *))                                        \
  X(crypto, int, ASN1_INTEGER_set_uint64, (ASN1_STRING *, uint64_t))                               \
  X(crypto, ASN1_STRING *, X509_getm_notBefore, (const X509 *))                                    \
  X(crypto, ASN1_STRING *, X509_getm_notAfter, (const X509 *))                                     \
  X(crypto, ASN1_STRING *, X509_gmtime_adj, (ASN1_STRING *, long))                                 \
  X(crypto, X509_NAME *, X509_get_subject_name, (const X509 *))                                    \
  X(crypto, int, X509_set_issuer_name, (X509 *, const X509_NAME *))                                \
  X(crypto, int, X509_NAME_add_entry_by_txt,                                                       \
    (X509_NAME *, const char *, int, const unsigned char *, int, int, int))                        \
  X(crypto, int, X509_set_pubkey, (X509 *, EVP_PKEY *))                                            \
  X(crypto, void, X509V3_set_ctx, (void *, X509 *, X509 *, void *, void *, int))                   \
  X(crypto, X509_EXTENSION *, X509V3_EXT_conf_nid, (void *, void *, int, const char *))            \
  X(crypto, int, X509_add_ext, (X509 *, X509_EXTENSION *, int))                                    \
  X(crypto, void, X509_EXTENSION_free, (X509_EXTENSION *))                                         \
  X(crypto, int, X509_sign, (X509 *, EVP_PKEY *, const EVP_MD *))                                  \
  X(crypto, const EVP_MD *, EVP_sha256, (void))                                                    \
  X(crypto, unsigned long, X509_subject_name_hash, (X509 *))                                       \
  X(crypto, int, PEM_write_bio_X509, (BIO *, const X509 *))                                        \
  X(crypto, EVP_PKEY *, EVP_PKEY_Q_keygen, (void *, const char *, const char *, ...))              \
  X(crypto, void, EVP_PKEY_free, (EVP_PKEY *))

typedef struct mcg_openssl {
  void *ssl, *crypto; /* handles */
#define MCG_OPENSSL_MEMBER(library, result, name, arguments) result(*name) arguments;
  MCG_OPENSSL_FUNCTIONS(MCG_OPENSSL_MEMBER)
#undef MCG_OPENSSL_MEMBER
} mcg_openssl;

/* `unavailable` where there is no OpenSSL 3. Configuration files and variables of OpenSSL play no part.
 * Takes a millisecond the first time in a process; may be called on any thread. */
int mcg_openssl_open(mcg_openssl **out, mcg_error **err);
void mcg_openssl_close(mcg_openssl *openssl); /* NULL is fine; nothing made with it is left */

#endif
