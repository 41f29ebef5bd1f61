/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The server's webhooks (webhook.h does the posting): which hosts the operator allows, whose secret
 * signs, and what is counted and logged. TLS is set up when the first one is asked for: a server
 * that nobody wants one of does not pay for it.
 */

#include <stddef.h>

struct cay_error;
struct execution;
struct server;

/* Reads which hosts the operator allows. */
int hooks_setup(struct server *server, struct cay_error *err);

/* While files may still be opened: where names are resolved is read. */
int hooks_open(struct server *server, struct cay_error *err);

/* Whether a result may be posted there; when the request comes in. */
int hooks_check(struct server *server, const char *url, struct cay_error *err);

/* Posts the result of a finished run to its webhook. */
void hooks_post(struct server *server, const struct execution *run);

size_t hooks_pending(const struct server *server);
void hooks_close(struct server *server);
