/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the server can run something, found out by running something: /bin/true, in a sandbox
 * like any other, at most once a second however many ask. service_health gives the last answer, or
 * waits for the one that is on its way; but not for long: where something hangs, that is the
 * answer.
 */

#include <stdbool.h>
#include <stdint.h>

#include <cay/error.h>

struct ask;
struct service;

struct health {
    bool is_checking;
    bool is_known;
    bool is_healthy;
    int64_t checked_ns;
    int64_t begun_ns;      /* the check that goes on */
    int64_t after_answers; /* how often the warden had reported before it */
    int64_t took_ns;
    char message[500];            /* what went wrong */
    struct cay_error first_error; /* that the first check met */
    bool is_watched;              /* the first run had a watcher in place of a cgroup */
    struct ask *asks;
    void (*on_first)(struct service *service); /* called once, after the first check */
};

/* Starts a check, unless one goes on. */
void health_check(struct service *service);

/* Answers those who have waited long enough. */
void health_serve(struct service *service, int64_t now_ns);
