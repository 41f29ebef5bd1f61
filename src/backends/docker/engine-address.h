/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the container engine is, and what to say where it can't be had:
 *
 *     struct engine_places places = ENGINE_PLACES_HERE(docker_host);
 *     struct engine_address address;
 *     int fd;
 *     if (engine_connect(&places, &address, &fd, err) < 0)
 *         return -1;                    "Error: Docker not found: …" and a remedy
 *
 * DOCKER_HOST decides where it is set: unix://PATH, tcp://HOST:PORT, a plain path, or the word
 * podman for that's usual ones. Else the sockets of Docker, Docker without root, podman of this
 * user and podman of root are tried in that order, and the first that takes a connection is taken.
 * Where none does, what is told is the first that is there: a socket that refuses us says more than
 * three that are missing.
 *
 * Whoever may talk to an engine of root's is as good as root: only the warden's side connects, and
 * the doctor, as the caller, to say whether he could.
 *
 * It does not speak HTTP, nor TLS (an engine on another machine belongs behind ssh or a proxy), and
 * looks names up in /etc/hosts only, for the command has no resolver.
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

struct cay_error;

enum engine_kind { ENGINE_UNIX, ENGINE_TCP };

enum { ENGINE_TEXT_MAX = 288 };

struct engine_address {
    enum engine_kind kind;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* of ENGINE_UNIX */
    char host[256]; /* of ENGINE_TCP: a name or an address, without brackets */
    unsigned port;
    char text[ENGINE_TEXT_MAX]; /* as people and DOCKER_HOST have it: "unix:///run/docker.sock" */
};

/* What decides where it is. */
struct engine_places {
    const char *docker_host; /* the setting, or NULL */
    const char *runtime_dir; /* $XDG_RUNTIME_DIR, or NULL */
    const char *root;        /* "" but for tests: before each path of this machine's */
};

#define ENGINE_PLACES_HERE(docker_host)              \
    {                                                \
        (docker_host), getenv("XDG_RUNTIME_DIR"), "" \
    }

/* The sockets that are tried without DOCKER_HOST; the first is the one of old. */
enum { ENGINE_USUAL = 4 };

/* Reads an address as DOCKER_HOST has it. CAY_E_USAGE names what is wrong with it. */
int engine_address_parse(const char *text, struct engine_address *ret, struct cay_error *err);

/* The addresses to try, in order; returns how many there are, at least one. A folder that is not
 * this user's own is left out: root's XDG_RUNTIME_DIR may be another's, as under sudo -E. */
int engine_address_list(const struct engine_places *places,
                        struct engine_address ret[static ENGINE_USUAL], struct cay_error *err);

/* The same as a socket address; a name that /etc/hosts does not have is CAY_E_UNSUPPORTED. */
int engine_address_socket(const struct engine_address *address, const char *root,
                          struct sockaddr_storage *ret, socklen_t *ret_len, struct cay_error *err);

/* Connects to the first that can be had, within two seconds each. *ret_fd is the caller's to close,
 * and blocks or not as the caller sets it: it comes blocking. */
int engine_connect(const struct engine_places *places, struct engine_address *ret, int *ret_fd,
                   struct cay_error *err);

/* The same, with the errno beside the words; 0 where it never came to a connection. */
int engine_try(const struct engine_places *places, struct engine_address *ret, int *ret_fd,
               int *ret_errnum, struct cay_error *err);

/* ---- what to say ------------------------------------------------------------------------------
 */

#define ENGINE_NOT_FOUND      "Error: Docker not found"
#define ENGINE_CANNOT_CONNECT "Error: Cannot connect to Docker daemon"

/* Which programs of an engine this machine has, in the folders that systems have them in. */
struct engine_programs {
    bool has_docker; /* the client or the daemon */
    bool has_dockerd;
    bool has_podman;
};

void engine_programs_find(const char *root, struct engine_programs *ret);

/* Fills the error from what connecting gave (an errno): CAY_E_UNSUPPORTED, one of the two texts
 * above with the address and the reason, and the remedy as its hint. Returns -1. */
int engine_unreachable(const struct engine_address *address, int errnum,
                       const struct engine_programs *programs, struct cay_error *err);

/* The same for an engine that took the connection and then gave no sense: `why` in words. */
int engine_no_sense(const struct engine_address *address, const char *why, struct cay_error *err);
