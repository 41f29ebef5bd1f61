/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/http/tls.h"

#include <dlfcn.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"

/* What is used of it, a row each: library, result, name, parameters. */
#define TLS_CALLS(X)                                                                  \
    X(crypto, BIO *, BIO_new_mem_buf, (const void *, int))                            \
    X(crypto, int, BIO_free, (BIO *))                                                 \
    X(crypto, X509 *, PEM_read_bio_X509, (BIO *, X509 **, pem_password_cb *, void *)) \
    X(crypto, EVP_PKEY *, PEM_read_bio_PrivateKey,                                    \
      (BIO *, EVP_PKEY **, pem_password_cb *, void *))                                \
    X(crypto, void, X509_free, (X509 *))                                              \
    X(crypto, void, EVP_PKEY_free, (EVP_PKEY *))                                      \
    X(crypto, unsigned long, ERR_get_error, (void))                                   \
    X(crypto, void, ERR_clear_error, (void))                                          \
    X(crypto, void, ERR_error_string_n, (unsigned long, char *, size_t))              \
    X(ssl, const SSL_METHOD *, TLS_server_method, (void))                             \
    X(ssl, SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *))                              \
    X(ssl, void, SSL_CTX_free, (SSL_CTX *))                                           \
    X(ssl, long, SSL_CTX_ctrl, (SSL_CTX *, int, long, void *))                        \
    X(ssl, uint64_t, SSL_CTX_set_options, (SSL_CTX *, uint64_t))                      \
    X(ssl, int, SSL_CTX_use_certificate, (SSL_CTX *, X509 *))                         \
    X(ssl, int, SSL_CTX_use_PrivateKey, (SSL_CTX *, EVP_PKEY *))                      \
    X(ssl, int, SSL_CTX_check_private_key, (const SSL_CTX *))                         \
    X(ssl, SSL *, SSL_new, (SSL_CTX *))                                               \
    X(ssl, void, SSL_free, (SSL *))                                                   \
    X(ssl, int, SSL_set_fd, (SSL *, int))                                             \
    X(ssl, void, SSL_set_accept_state, (SSL *))                                       \
    X(ssl, int, SSL_read, (SSL *, void *, int))                                       \
    X(ssl, int, SSL_write, (SSL *, const void *, int))                                \
    X(ssl, int, SSL_shutdown, (SSL *))                                                \
    X(ssl, int, SSL_pending, (const SSL *))                                           \
    X(ssl, int, SSL_get_error, (const SSL *, int))

enum { PEM_BYTES_MAX = 256 * 1024, CHAIN_MAX = 16 };

struct calls {
#define TLS_MEMBER(library, type, name, params) type(*name) params;
    TLS_CALLS(TLS_MEMBER)
#undef TLS_MEMBER
};

struct tls {
    void *crypto, *ssl;
    struct calls call;
    SSL_CTX *context;
};

struct tls_conn {
    const struct calls *call;
    SSL *ssl;
    bool wants_write;
};

static int load(struct tls *tls, struct cay_error *err)
{
    tls->crypto = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_GLOBAL);
    tls->ssl = dlopen("libssl.so.3", RTLD_NOW);
    if (!tls->crypto || !tls->ssl) {
        cay_fail(err, CAY_E_UNSUPPORTED, "tls: OpenSSL can't be loaded: %.200s", dlerror());
        return cay_hint(err, "apt-get install libssl3");
    }
#define TLS_LOAD(library, type, name, params)                 \
    *(void **)(&tls->call.name) = dlsym(tls->library, #name); \
    if (!tls->call.name)                                      \
        return cay_fail(err, CAY_E_UNSUPPORTED, "tls: this OpenSSL does not have " #name);
    TLS_CALLS(TLS_LOAD)
#undef TLS_LOAD
    return 0;
}

static int fail(const struct tls *tls, const char *what, struct cay_error *err)
{
    char why[160];

    tls->call.ERR_error_string_n(tls->call.ERR_get_error(), why, sizeof why);
    tls->call.ERR_clear_error();
    cay_fail(err, CAY_E_USAGE, "tls: %s: %s", what, why);
    return cay_hint(err, "PEM files: the certificate with its chain, and its key without password");
}

static BIO *read_pem(const struct tls *tls, int fd, char **ret_text)
{
    char *text = mem_alloc(PEM_BYTES_MAX);
    size_t len = 0;
    ssize_t n;

    while (len < PEM_BYTES_MAX && (n = read(fd, text + len, PEM_BYTES_MAX - len)) > 0)
        len += (size_t)n;
    *ret_text = text;
    return tls->call.BIO_new_mem_buf(text, (int)len);
}

static int use_chain(const struct tls *tls, SSL_CTX *context, BIO *bio, struct cay_error *err)
{
    X509 *cert = tls->call.PEM_read_bio_X509(bio, NULL, NULL, NULL);
    int rc = cert ? tls->call.SSL_CTX_use_certificate(context, cert) : 0;

    if (cert)
        tls->call.X509_free(cert);
    if (rc != 1)
        return fail(tls, "the certificate", err);
    for (int i = 0; i < CHAIN_MAX && (cert = tls->call.PEM_read_bio_X509(bio, NULL, NULL, NULL));
         i++)
        tls->call.SSL_CTX_ctrl(context, SSL_CTRL_CHAIN_CERT, 0, cert); /* takes it */
    tls->call.ERR_clear_error(); /* that there is no further one */
    return 0;
}

/* Without a callback OpenSSL would ask for a password on the terminal. */
static int no_password(char *out, int size, int is_writing, void *arg)
{
    (void)out, (void)size, (void)is_writing, (void)arg;
    return 0;
}

static int use_key(const struct tls *tls, SSL_CTX *context, BIO *bio, struct cay_error *err)
{
    EVP_PKEY *key = tls->call.PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
    int rc = key ? tls->call.SSL_CTX_use_PrivateKey(context, key) : 0;

    if (key)
        tls->call.EVP_PKEY_free(key);
    if (rc != 1)
        return fail(tls, "the key", err);
    if (tls->call.SSL_CTX_check_private_key(context) != 1)
        return fail(tls, "the key is not the certificate's", err);
    return 0;
}

static int fill_context(const struct tls *tls, SSL_CTX *context, int cert_fd, int key_fd,
                        struct cay_error *err)
{
    char *cert_text, *key_text;
    BIO *cert = read_pem(tls, cert_fd, &cert_text), *key = read_pem(tls, key_fd, &key_text);
    int rc = use_chain(tls, context, cert, err);

    if (rc == 0)
        rc = use_key(tls, context, key, err);
    tls->call.BIO_free(cert);
    tls->call.BIO_free(key);
    explicit_bzero(key_text, PEM_BYTES_MAX);
    free(cert_text);
    free(key_text);
    return rc;
}

int tls_reload(struct tls *tls, int cert_fd, int key_fd, struct cay_error *err)
{
    SSL_CTX *context = tls->call.SSL_CTX_new(tls->call.TLS_server_method());

    if (!context)
        return fail(tls, "set up", err);
    tls->call.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
    /* An answer goes out as far as the socket takes it, and goes on from another buffer. */
    tls->call.SSL_CTX_ctrl(context, SSL_CTRL_MODE,
                           SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                               SSL_MODE_RELEASE_BUFFERS,
                           NULL);
    tls->call.SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                               SSL_OP_CIPHER_SERVER_PREFERENCE |
                                               SSL_OP_IGNORE_UNEXPECTED_EOF);
    if (fill_context(tls, context, cert_fd, key_fd, err) < 0) {
        tls->call.SSL_CTX_free(context);
        return -1;
    }
    if (tls->context)
        tls->call.SSL_CTX_free(tls->context); /* connections hold it as long as they need it */
    tls->context = context;
    return 0;
}

int tls_open(int cert_fd, int key_fd, struct tls **ret, struct cay_error *err)
{
    struct tls *tls = mem_alloc(sizeof *tls);

    if (load(tls, err) < 0 || tls_reload(tls, cert_fd, key_fd, err) < 0) {
        free(tls); /* the libraries stay: they can't be unloaded in safety */
        return -1;
    }
    *ret = tls;
    return 0;
}

void tls_close(struct tls *tls)
{
    if (!tls)
        return;
    tls->call.SSL_CTX_free(tls->context);
    free(tls);
}

struct tls_conn *tls_accept(struct tls *tls, int fd)
{
    SSL *ssl = tls->call.SSL_new(tls->context);

    if (!ssl || tls->call.SSL_set_fd(ssl, fd) != 1) {
        if (ssl)
            tls->call.SSL_free(ssl);
        return NULL;
    }
    tls->call.SSL_set_accept_state(ssl);
    struct tls_conn *conn = mem_alloc(sizeof *conn);
    conn->call = &tls->call;
    conn->ssl = ssl;
    return conn;
}

void tls_free(struct tls_conn *conn)
{
    conn->call->SSL_free(conn->ssl);
    free(conn);
}

static ssize_t outcome(struct tls_conn *conn, int n)
{
    conn->wants_write = false;
    if (n > 0)
        return n;
    int why = conn->call->SSL_get_error(conn->ssl, n);
    bool is_plain =
        why == SSL_ERROR_SSL && ERR_GET_REASON(conn->call->ERR_get_error()) == SSL_R_HTTP_REQUEST;
    conn->call->ERR_clear_error();
    if (is_plain)
        return -EPROTO;
    conn->wants_write = why == SSL_ERROR_WANT_WRITE;
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        return -EAGAIN;
    return why == SSL_ERROR_ZERO_RETURN ? 0 : -ECONNRESET;
}

ssize_t tls_recv(struct tls_conn *conn, void *data, size_t len)
{
    return outcome(conn, conn->call->SSL_read(conn->ssl, data, (int)len));
}

ssize_t tls_send(struct tls_conn *conn, const void *data, size_t len)
{
    ssize_t n = outcome(conn, conn->call->SSL_write(conn->ssl, data, (int)MIN(len, 1U << 30)));
    return n == 0 ? -EPIPE : n;
}

void tls_end(struct tls_conn *conn)
{
    conn->call->SSL_shutdown(conn->ssl); /* half of it: the answer is not waited for */
    conn->call->ERR_clear_error();
}

bool tls_wants_write(const struct tls_conn *conn)
{
    return conn->wants_write;
}

bool tls_has_more(const struct tls_conn *conn)
{
    return conn->call->SSL_pending(conn->ssl) > 0;
}
