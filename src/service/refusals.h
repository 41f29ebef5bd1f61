/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What was refused before it was an execution, and yet has to be on record: misuse apart, each with
 * an id of its own. Of too many in a minute the rest is only counted, and reported in the log.
 */

#include <stdint.h>

struct cay_error;
struct cay_request;
struct cay_result;
struct service;

void refusals_record(struct service *service, const char *tenant, const struct cay_request *req,
                     const struct cay_error *err);

/* Logs how many were not written down, if it is time to. */
void refusals_report(struct service *service, int64_t now_ns);

/* What is recorded of one: its tenant can read it. */
struct cay_result *refusals_result(const struct cay_error *err, const struct cay_request *req);
