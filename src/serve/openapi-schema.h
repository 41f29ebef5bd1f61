/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The schemas of the OpenAPI document: what goes in and comes out, as rows. Internal to openapi. */

struct json_writer;

/* Writes all of them, a field each, into the object that is open. */
void openapi_put_schemas(struct json_writer *w);
