/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The server's webhooks (webhook.h does the posting): which hosts the operator allows, whose secret
 * signs, and what is counted and logged. TLS is set up when the first one is asked for: a server
 * that nobody wants one of does not pay for it.
 */

#include <stdbool.h>
#include <stddef.h>

#include "service/webhook.h"

struct cay_error;
struct execution;
struct service;

enum { HOOKS_ALLOW_MAX = 64 };

struct hooks {
    struct webhooks *webhooks;
    bool has_tried_tls;
    struct webhook_options options;
    struct tls_client *tls;
    char *allow_text;
    const char *allow[HOOKS_ALLOW_MAX];
    size_t n_allow;
};

/* Reads which hosts the operator allows. */
int hooks_setup(struct service *service, struct cay_error *err);

/* While files may still be opened: where names are resolved is read. */
int hooks_open(struct service *service, struct cay_error *err);

/* Whether a result may be posted there; when the request comes in. */
int hooks_check(struct service *service, const char *url, struct cay_error *err);

/* Posts the result of a finished run to its webhook. */
void hooks_post(struct service *service, const struct execution *run);

size_t hooks_pending(const struct service *service);
void hooks_close(struct service *service);
