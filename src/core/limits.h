/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which field decides which limit, and what a compiler has beyond its program: a plan's limits, the
 * warden's caps and what a server makes ahead all come from here.
 */

#include <cay/limits.h>

#include "core/field.h"

struct config;

/* The number of a field, or 0. */
typedef uint64_t limits_number_fn(const void *arg, enum field_id id);

struct cay_limits limits_from_fields(limits_number_fn *number, const void *arg);

/* A compiler has time and memory of its own, and a few more processes. */
struct cay_limits limits_for_compiler(const struct cay_limits *run, int64_t timeout_ns,
                                      uint64_t memory_bytes);

/* What a request gets that says nothing. */
struct cay_limits limits_usual(const struct config *config);

/* The most that any program gets, and any compiler; 0: there is no cap. */
struct cay_limits limits_max(const struct config *config);
struct cay_limits limits_compile_max(const struct config *config);
