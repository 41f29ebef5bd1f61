/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the server can be reached: TCP addresses and a unix socket, opened while it still may.
 *
 *     struct listener l;
 *     if (listen_tcp("127.0.0.1:7300", &l, &err) < 0) ...
 *     listen_unix_path(path, sizeof path, &err);          the usual place
 *     if (listen_unix(path, &l, &err) < 0) ...
 *
 * The unix socket is made beside its place and moved there: it is never there with the wrong mode,
 * and what was left by a server that is gone is replaced in one step. One that somebody answers on
 * is left alone, with an error.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct cay_error;

enum { LISTEN_TEXT_SIZE = 128 };

struct listener {
    int fd; /* does not block */
    bool is_unix;
    bool is_loopback;            /* of TCP */
    char text[LISTEN_TEXT_SIZE]; /* "127.0.0.1:7300", or the path */
    dev_t dev;                   /* of a unix socket: which file it is */
    ino_t ino;
};

/* ADDR:PORT, [ADDR]:PORT for IPv6, or PORT alone for 127.0.0.1. ADDR is a number or "localhost";
 * port 0 takes a free one, which text then names. */
int listen_tcp(const char *where, struct listener *ret, struct cay_error *err);

/* /run/cay/cay.sock for root, $XDG_RUNTIME_DIR/cay/cay.sock for others, else /tmp/cay-UID/cay.sock;
 * the folder is made where it is not there, and refused where it is not ours alone. */
int listen_unix_path(char *out, size_t size, struct cay_error *err);

/* A socket that only its owner can connect to. */
int listen_unix(const char *path, struct listener *ret, struct cay_error *err);

/* Removes the socket's file, where it is still this one. */
void listen_unlink(const struct listener *listener);
