/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * TLS 1.2 and 1.3 to others, by OpenSSL, which is loaded when a client is opened and not before.
 * The other side's certificate is always verified, against the name (or address) that was asked
 * for; there is no way to turn that off.
 *
 *     struct tls_client *client;
 *     if (tls_client_open(NULL, &client, &err) < 0) ...          loads libraries and certificates:
 *                                                                before a filter is on
 *     struct tls_link *link = tls_link_new(client, fd, "a.example");
 *     n = tls_link_recv(link, buf, size);         as recv: 0 at the end, or -errno; never waits
 *     if (n == -EAGAIN && tls_link_wants_write(link)) ...
 *
 * The handshake happens within the first calls. A stream that ends without saying so (it may have
 * been cut) is an error, not an end. The process has to ignore SIGPIPE: OpenSSL writes with
 * write().
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct cay_error;
struct tls_client;
struct tls_link;

/* ca_file: PEM file of those whose word is taken; NULL: the system's. */
int tls_client_open(const char *ca_file, struct tls_client **ret, struct cay_error *err);
void tls_client_close(struct tls_client *client); /* after its links; NULL is nothing */

/* The fd stays the caller's, and outlives the link. host as in a URL, without brackets or port.
 * NULL: OpenSSL could not. */
struct tls_link *tls_link_new(struct tls_client *client, int fd, const char *host);
void tls_link_free(struct tls_link *link); /* says goodbye if it can at once; NULL is nothing */

ssize_t tls_link_recv(struct tls_link *link, void *data, size_t len);
ssize_t tls_link_send(struct tls_link *link, const void *data, size_t len);

/* After -EAGAIN: what it waits for is that it can write, whichever call it was. */
bool tls_link_wants_write(const struct tls_link *link);

/* After -EPROTO: "certificate verify failed: self-signed certificate". */
const char *tls_link_why(const struct tls_link *link);
