/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The OpenAPI 3.1 document, made from the rows that the server itself works by: routes (route.h),
 * fields of a request (cay_field_at), causes, events, error kinds, scopes. What has no row, the
 * shape of a result, is checked against a real one by a test.
 *
 *     char *text = openapi_json();     once, at the start; the caller frees it
 */

char *openapi_json(void);
