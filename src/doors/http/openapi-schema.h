/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The schemas of the OpenAPI document: what goes in and comes out, as rows. Internal to openapi. */

struct cay;
struct json_writer;

/* Writes all of them, a field each, into the object that is open. Defaults and caps are those of
 * cay; NULL: the built-in ones. */
void openapi_put_schemas(struct json_writer *w, struct cay *cay);
