/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * TLS 1.2 and 1.3 on the server's connections, by OpenSSL, which is loaded when a certificate is
 * given and not before: a server without one does not pay for it.
 *
 *     struct tls *tls;
 *     if (tls_open(cert_fd, key_fd, &tls, &err) < 0) ...       before the filter is on: it loads
 *     struct tls_conn *c = tls_accept(tls, fd);
 *     n = tls_recv(c, buf, size);                              as recv: 0 at the end, or -errno
 *     if (tls_wants_write(c)) ...                              of -EAGAIN: what it waits for
 *
 * The handshake happens within the first calls; nothing here waits.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct cay_error;
struct tls;
struct tls_conn;

/* PEM files: the certificate with its chain, and its key. The fds stay the caller's. */
int tls_open(int cert_fd, int key_fd, struct tls **ret, struct cay_error *err);

/* Another certificate for connections from here on; where that fails the old one stays. */
int tls_reload(struct tls *tls, int cert_fd, int key_fd, struct cay_error *err);
void tls_close(struct tls *tls);

/* NULL: no memory for it. */
struct tls_conn *tls_accept(struct tls *tls, int fd);
void tls_free(struct tls_conn *conn);

/* recv: -EPROTO where plain HTTP is spoken. */
ssize_t tls_recv(struct tls_conn *conn, void *data, size_t len);
ssize_t tls_send(struct tls_conn *conn, const void *data, size_t len);
/* Tells the other side that nothing more comes, so that it is no cut. */
void tls_end(struct tls_conn *conn);
bool tls_wants_write(const struct tls_conn *conn);

/* Bytes that were taken from the socket and not handed out: no event will tell of them. */
bool tls_has_more(const struct tls_conn *conn);
