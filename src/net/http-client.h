/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One HTTP request to one address, over a loop of libevent's:
 *
 *     struct http_call_options options = {
 *         .base = base,
 *         .address = address, .address_len = len,       a resolved one, or unix_address(path)
 *         .request = out.data, .request_len = out.len,  made with http_write_request
 *         .on_head = ..., .on_body = ..., .on_end = ..., .arg = job,
 *     };
 *     struct http_call *call;
 *     if (http_call_start(&options, &call, &err) < 0) ...
 *
 * The callbacks come from the loop, never from within http_call_start: the head once, the body in
 * pieces, and on_end exactly once, as the last; http_call_cancel, which can be called from them
 * too, ends a call without it. The connection is for this request alone and closed behind it, so
 * "Connection: close" belongs into the request.
 *
 * It does not resolve names, follow redirects, or try again.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "net/http.h"

struct cay_error;
struct event_base;
struct http_call;
struct tls_client;

struct http_call_options {
    struct event_base *base;
    const struct sockaddr *address;
    socklen_t address_len;
    struct tls_client *tls; /* NULL: without TLS */
    const char *tls_host;   /* the name that its certificate must have */

    const void *request; /* copied */
    size_t request_len;
    bool is_head; /* its method is HEAD */

    const struct http_limits *limits; /* of the answer; NULL: http_default_limits */
    int64_t connect_ns;               /* to the connection and its handshake; 0: 10 s */
    int64_t idle_ns;                  /* without a byte either way; 0: 30 s */
    int64_t total_ns;                 /* of all; 0: no limit */

    void (*on_head)(void *arg, const struct http_head *head); /* may be NULL */
    void (*on_body)(void *arg, const void *data, size_t len); /* may be NULL */
    void (*on_end)(void *arg, const struct cay_error *err);   /* NULL err: it was whole */
    void *arg;
};

/* Copies what it needs of the options. -1: nothing was begun, on_end will not come. */
int http_call_start(const struct http_call_options *options, struct http_call **ret,
                    struct cay_error *err);

/* Ends it without on_end. */
void http_call_cancel(struct http_call *call);

/* -ENAMETOOLONG: longer than such an address can be. */
int unix_address(const char *path, struct sockaddr_un *ret);
