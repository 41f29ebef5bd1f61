/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls-client.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"

/* Loaded at once; OpenSSL's own default is a folder that is looked into at each handshake, when the
 * process may not open files any more. */
#define SYSTEM_CA_FILE "/etc/ssl/certs/ca-certificates.crt"

/* What is used of it, a row each: library, result, name, parameters. */
#define TLS_CALLS(X)                                                                    \
    X(crypto, unsigned long, ERR_peek_last_error, (void))                               \
    X(crypto, void, ERR_clear_error, (void))                                            \
    X(crypto, const char *, ERR_reason_error_string, (unsigned long))                   \
    X(crypto, const char *, X509_verify_cert_error_string, (long))                      \
    X(crypto, int, X509_VERIFY_PARAM_set1_ip_asc, (X509_VERIFY_PARAM *, const char *))  \
    X(ssl, const SSL_METHOD *, TLS_client_method, (void))                               \
    X(ssl, SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *))                                \
    X(ssl, void, SSL_CTX_free, (SSL_CTX *))                                             \
    X(ssl, long, SSL_CTX_ctrl, (SSL_CTX *, int, long, void *))                          \
    X(ssl, uint64_t, SSL_CTX_set_options, (SSL_CTX *, uint64_t))                        \
    X(ssl, void, SSL_CTX_set_verify, (SSL_CTX *, int, SSL_verify_cb))                   \
    X(ssl, int, SSL_CTX_load_verify_locations, (SSL_CTX *, const char *, const char *)) \
    X(ssl, int, SSL_CTX_set_default_verify_paths, (SSL_CTX *))                          \
    X(ssl, SSL *, SSL_new, (SSL_CTX *))                                                 \
    X(ssl, void, SSL_free, (SSL *))                                                     \
    X(ssl, int, SSL_set_fd, (SSL *, int))                                               \
    X(ssl, long, SSL_ctrl, (SSL *, int, long, void *))                                  \
    X(ssl, int, SSL_set1_host, (SSL *, const char *))                                   \
    X(ssl, X509_VERIFY_PARAM *, SSL_get0_param, (SSL *))                                \
    X(ssl, void, SSL_set_connect_state, (SSL *))                                        \
    X(ssl, int, SSL_read, (SSL *, void *, int))                                         \
    X(ssl, int, SSL_write, (SSL *, const void *, int))                                  \
    X(ssl, int, SSL_shutdown, (SSL *))                                                  \
    X(ssl, int, SSL_is_init_finished, (const SSL *))                                    \
    X(ssl, long, SSL_get_verify_result, (const SSL *))                                  \
    X(ssl, int, SSL_get_error, (const SSL *, int))

struct calls {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration can't be in parentheses */
#define TLS_MEMBER(library, type, name, params) type(*name) params;
    TLS_CALLS(TLS_MEMBER)
#undef TLS_MEMBER
};

struct tls_client {
    void *crypto, *ssl;
    struct calls call;
    SSL_CTX *context;
};

struct tls_link {
    const struct calls *call;
    SSL *ssl;
    bool wants_write;
    bool is_broken;
    char why[160];
};

static int load(struct tls_client *client, struct cay_error *err)
{
    client->crypto = dlopen("libcrypto.so.3", RTLD_NOW);
    client->ssl = client->crypto ? dlopen("libssl.so.3", RTLD_NOW) : NULL;
    if (!client->ssl) {
        cay_fail(err, CAY_E_UNSUPPORTED, "tls: OpenSSL can't be loaded: %.200s", dlerror());
        return cay_hint(err, "apt-get install libssl3");
    }
#define TLS_LOAD(library, type, name, params)                       \
    *(void **)(&client->call.name) = dlsym(client->library, #name); \
    if (!client->call.name)                                         \
        return cay_fail(err, CAY_E_UNSUPPORTED, "tls: this OpenSSL does not have " #name);
    TLS_CALLS(TLS_LOAD)
#undef TLS_LOAD
    return 0;
}

/* OpenSSL's words for what went wrong last, for this call only. */
static const char *take_reason(const struct calls *call)
{
    const char *reason = call->ERR_reason_error_string(call->ERR_peek_last_error());

    call->ERR_clear_error();
    return reason ? reason : "unknown error";
}

static int load_authorities(const struct tls_client *client, const char *ca_file,
                            struct cay_error *err)
{
    const struct calls *call = &client->call;
    const char *file = ca_file ? ca_file : SYSTEM_CA_FILE;
    int rc = ca_file || access(file, R_OK) == 0
                 ? call->SSL_CTX_load_verify_locations(client->context, file, NULL)
                 : call->SSL_CTX_set_default_verify_paths(client->context);

    if (rc == 1)
        return 0;
    cay_fail(err, CAY_E_USAGE, "tls: %s: %s", file, take_reason(call));
    return cay_hint(err, "a PEM file of certificates; apt-get install ca-certificates");
}

int tls_client_open(const char *ca_file, struct tls_client **ret, struct cay_error *err)
{
    struct tls_client *client = mem_alloc(sizeof(*client));

    if (load(client, err) < 0) {
        free(client);
        return -1;
    }
    const struct calls *call = &client->call;
    client->context = call->SSL_CTX_new(call->TLS_client_method());
    if (!client->context) {
        cay_fail(err, CAY_E_UNSUPPORTED, "tls: %s", take_reason(call));
        free(client);
        return -1;
    }
    call->SSL_CTX_ctrl(client->context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
    call->SSL_CTX_ctrl(client->context, SSL_CTRL_MODE,
                       SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, NULL);
    call->SSL_CTX_set_options(client->context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    call->SSL_CTX_set_verify(client->context, SSL_VERIFY_PEER, NULL);
    if (load_authorities(client, ca_file, err) < 0) {
        tls_client_close(client);
        return -1;
    }
    *ret = client;
    return 0;
}

void tls_client_close(struct tls_client *client)
{
    if (!client)
        return;
    client->call.SSL_CTX_free(client->context);
    free(client); /* the libraries stay: they can't be unloaded in safety */
}

/* The name that the certificate has to be for; a name is also sent to the server (SNI), an address
 * is not (RFC 6066). */
static bool set_host(const struct calls *call, SSL *ssl, const char *host)
{
    uint8_t address[16];

    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return call->X509_VERIFY_PARAM_set1_ip_asc(call->SSL_get0_param(ssl), host) == 1;
    auto_free char *name = str_dup(host);
    return call->SSL_set1_host(ssl, host) == 1 &&
           call->SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name) == 1;
}

struct tls_link *tls_link_new(struct tls_client *client, int fd, const char *host)
{
    const struct calls *call = &client->call;
    SSL *ssl = call->SSL_new(client->context);

    if (!ssl)
        return NULL;
    if (!*host || !set_host(call, ssl, host) || call->SSL_set_fd(ssl, fd) != 1) {
        call->SSL_free(ssl);
        call->ERR_clear_error();
        return NULL;
    }
    call->SSL_set_connect_state(ssl);
    struct tls_link *link = mem_alloc(sizeof(*link));
    link->call = call;
    link->ssl = ssl;
    return link;
}

void tls_link_free(struct tls_link *link)
{
    if (!link)
        return;
    if (!link->is_broken && link->call->SSL_is_init_finished(link->ssl))
        link->call->SSL_shutdown(link->ssl);
    link->call->ERR_clear_error();
    link->call->SSL_free(link->ssl);
    free(link);
}

/* What a call that gave n <= 0 means. */
static ssize_t judge(struct tls_link *link, int n)
{
    int error = link->call->SSL_get_error(link->ssl, n);
    int saved = errno;

    link->wants_write = error == SSL_ERROR_WANT_WRITE;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return -EAGAIN;
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    link->is_broken = true;
    if (error == SSL_ERROR_SYSCALL && saved != 0) {
        link->call->ERR_clear_error();
        snprintf(link->why, sizeof link->why, "the connection broke");
        return -saved;
    }
    long verified = link->call->SSL_get_verify_result(link->ssl);
    snprintf(link->why, sizeof link->why, "%s%s%s", take_reason(link->call),
             verified == X509_V_OK ? "" : ": ",
             verified == X509_V_OK ? "" : link->call->X509_verify_cert_error_string(verified));
    return -EPROTO;
}

ssize_t tls_link_recv(struct tls_link *link, void *data, size_t len)
{
    if (link->is_broken)
        return -EPROTO;
    errno = 0;
    int n = link->call->SSL_read(link->ssl, data, (int)MIN(len, INT_MAX));
    return n > 0 ? n : judge(link, n);
}

ssize_t tls_link_send(struct tls_link *link, const void *data, size_t len)
{
    if (link->is_broken)
        return -EPROTO;
    errno = 0;
    int n = link->call->SSL_write(link->ssl, data, (int)MIN(len, INT_MAX));
    return n > 0 ? n : judge(link, n);
}

bool tls_link_wants_write(const struct tls_link *link)
{
    return link->wants_write;
}

const char *tls_link_why(const struct tls_link *link)
{
    return link->why;
}
