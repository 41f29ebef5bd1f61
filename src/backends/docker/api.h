/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The container engine's HTTP API, over its unix socket or plain TCP, as a keeper speaks it: one
 * call at a time, each waited for. Docker's from 20.10 on, and podman's service.
 *
 *     struct api api;
 *     if (api_open(&api, docker_host, err) < 0) ...
 *     json_t *answer;
 *     int status = api_call(&api, "POST", "/containers/create", body.data, &answer, err);
 *
 * It does not speak TLS or ssh, follow anything, or pull images.
 */

#include <jansson.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "backends/docker/engine-address.h"
#include "base/strbuf.h"

struct cay_error;

struct api {
    struct sockaddr_storage address;
    socklen_t address_len;
    struct engine_address where;
    int fd; /* a connection that can be used again; -1: none */
};

/* Connects as engine-address.h says. */
int api_open(struct api *api, const char *docker_host, struct cay_error *err);
void api_close(struct api *api);

/* One call. body: JSON, or NULL. Returns the status; *ret is the answer, the first one of a
 * list of lines, or NULL where there is none or it is not JSON (json_decref). -1 where there was no
 * answer. */
int api_call(struct api *api, const char *method, const char *target, const char *body,
             json_t **ret, struct cay_error *err);

/* The same for an archive. */
int api_upload(struct api *api, const char *target, const void *tar, size_t len, json_t **ret,
               struct cay_error *err);

/* A call where only the status matters. */
int api_do(struct api *api, const char *method, const char *target, const char *body,
           struct cay_error *err);

/* A connection of its own that becomes a stream of bytes both ways (attach). Returns its fd; what
 * came with the head already is put into *rest. */
int api_hijack(const struct api *api, const char *target, struct strbuf *rest,
               struct cay_error *err);

/* The engine's own words of an answer that is an error; "" where it has none. */
const char *api_message(const json_t *answer);
