/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Limits and usage as members of a JSON object, alike in plans, results and events. */

struct cay_limits;
struct cay_usage;
struct json_writer;

void limits_put(struct json_writer *w, const struct cay_limits *limits);
void usage_put(struct json_writer *w, const struct cay_usage *usage);

/* The same of an event, with what is in use at its time. */
void usage_put_now(struct json_writer *w, const struct cay_usage *usage);
