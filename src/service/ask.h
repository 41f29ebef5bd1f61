/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a door asks of the service for one client, and what it is answered. The door has one in what
 * it keeps for each of its clients, and fills in the first part:
 *
 *     struct ask ask = { .service = service, .owner = owner, .taken_ns = now_ns };
 *     ask.on_answer = on_answer;
 *     service_get(&ask, id);             answered now, or when the loop comes round
 *     ...
 *     ask_drop(&ask);                    its client left, or has all that was lent
 *
 * One question at a time: it is answered once, and then the next can be asked. What may come as a
 * stream of events calls on_events as often as there are more (service_next_event).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cay/error.h>

#include "service/bodies.h"
#include "service/token.h"

struct ask;
struct check_job;
struct execution;
struct health_report;
struct list_query;
struct service;

/* What a door has to know of a refusal that the kind of its error does not say. */
enum refused_for {
    REFUSED_REQUEST,  /* nothing more */
    REFUSED_SHORTAGE, /* the request is good, but the server can't do it just now */
    REFUSED_STATE,    /* the execution is not in the state for it */
    REFUSED_GONE,     /* it was there once */
};

struct refusal {
    struct cay_error err; /* as its client may see it */
    enum refused_for why;
    unsigned retry_after_s; /* 0: nobody knows whether that helps */
};

/* What is not there is NULL; fd is -1. Text lives as long as the call, unless it is lent. */
struct answer {
    const struct refusal *refusal; /* then there is nothing else */
    struct execution *run;
    const struct health_report *health;
    const char *text;
    size_t len;
    bool is_lent; /* the text stays until ask_drop */
    int fd;       /* the door's to close */
};

typedef void answer_fn(struct ask *ask, const struct answer *answer);
typedef void events_fn(struct ask *ask);

struct ask {
    struct service *service;
    struct token_owner owner;
    int64_t taken_ns; /* when the request came */
    answer_fn *on_answer;
    events_fn *on_events;
    struct bodies_part held; /* bytes of the request; and of an answer that is read back */

    /* The service's own. */
    void (*forget)(struct ask *ask); /* NULL: nothing is under way */
    struct execution *run;
    struct check_job *check;
    bool is_owner;  /* the run is this client's: stopped when it leaves */
    uint64_t after; /* of a reader of events: the last number it has */
    size_t at;      /* so much it has of the next one */
    char id[33];    /* of the execution that the record is asked for, */
    int stream;     /* and of a whole stream: which */
    struct list_query *list;
    int64_t asked_ns;        /* when the question began to wait */
    int64_t after_answers;   /* how often the warden had reported before it */
    struct ask *prev, *next; /* others that wait for the same */
};

/* The client left, or has all that was lent: nothing more is called. */
void ask_drop(struct ask *ask);

/* ---- for the service ---- */

void ask_answer(struct ask *ask, const struct answer *answer);

/* The error as its client may see it: what the host lacks is its operator's affair, and how to set
 * it up is for the log. */
void ask_refuse(struct ask *ask, const struct cay_error *err);
void ask_refuse_with(struct ask *ask, const struct refusal *refusal);
void refusal_set(struct refusal *ret, const struct ask *ask, const struct cay_error *err);

/* Try again in so many seconds: the server is short of something. hint may be NULL. */
void refusal_shortage(struct refusal *ret, const char *message, const char *hint,
                      unsigned retry_after_s);
void refusal_unread(struct refusal *ret); /* too many bytes of answers wait */

void ask_link(struct ask **list, struct ask *ask);
void ask_unlink(struct ask **list, struct ask *ask);
