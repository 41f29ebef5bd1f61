/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The OpenAPI 3.1 document, made from the rows that the server itself works by: routes (route.h),
 * fields of a request (cay_field_at), causes, events, error kinds, scopes. What has no row, the
 * shape of a result, is checked against a real one by a test, and so are the examples.
 *
 *     char *text = openapi_json(&facts);     once, at the start; the caller frees it
 */

#include <stddef.h>

struct cay;

/* What is so on this server. */
struct openapi_facts {
    struct cay *cay;         /* whose defaults and caps are in force; NULL: the built-in ones */
    const char *const *urls; /* where it can be reached, beside where the document came from */
    size_t n_urls;
};

char *openapi_json(const struct openapi_facts *facts);
