/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The init of a container (cay-inside): pid 1, the only process that holds the streams that the
 * keeper is attached to. It makes the files, starts the stages, carries their streams, reaps, and
 * tells how each ended; when its stdin ends it does, and everything in the container with it.
 *
 *   keeper ──engine──▶ init            stdin, stdout: wire.h; not dumpable, so that nobody in the
 *                       │ fork         container, who has the same uid, can reach them in /proc
 *                       ▼
 *                     program          three pipes, rlimits, landlock, seccomp
 *
 * It is a static program, for it runs on whatever an image has, and runs under everything that the
 * engine put on the container: no capabilities, no_new_privs, seccomp, a read-only root.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backends/docker/wire.h"
#include "core/harvest-tell.h"

/* A folder whose mode comes last: things go into it first. */
struct closed {
    struct closed *next;
    mode_t mode;
    uint32_t place;
    char *path;
};

struct inside {
    struct wire_job job;
    char **argv[JOB_STAGES];
    char **env, **globs, **folders;
    char **version_argv;
    unsigned stage;
    uint32_t missing; /* layers */
    pid_t program;    /* -1: none runs */
    int64_t started_ns, reaped_cpu_ns;
    uint64_t unreachable; /* up to the last stage's end (sys/netstat.h) */
    /* Our ends of the program's streams; -1: closed. */
    int in_fd, out_fd, err_fd;
    char input[WIRE_WINDOW]; /* what the program has not taken yet */
    size_t input_len;
    bool has_input_end;
    /* What is being written. */
    int file_fd;
    uint64_t file_left;
    struct wire_entry file;
    struct closed *closed; /* folders that their owner may not write to */
    /* What the workspace had: struct workspace. */
    char *carried;
    size_t carried_len, carried_size;
    int64_t copied_ns;
};

/* To the keeper; without it there is no reason to be here. */
void inside_send(uint32_t kind, const void *data, size_t len);
void inside_fail(uint32_t step, int errnum) __attribute__((noreturn));

/* Refuses a container without a layer that is required (check.c); returns the others that the
 * engine was asked for and that are missing. */
uint32_t check_engine(uint32_t require);

/* Making what is asked for (files.c). */
void files_entry(struct inside *inside, const char *data, size_t len);
void files_data(struct inside *inside, const char *data, size_t len);
void files_done(struct inside *inside);

/* Where the init is root (wire.h): it makes files as the program's user, and is root again before
 * there is a program, who then can't reach it. -errno. */
int split_lower(void);
int split_raise(void);

/* For good, by a child: no right is left. -errno. */
int split_become_user(void);

/* What a command of the image's says, before anything of the request has run, and as confined as
 * that: all of it is gone when this returns. How many bytes. */
size_t start_ask(const struct inside *inside, char **argv, char *answer, size_t size);

/* Ends all that lives in the container but the caller, who is pid 1. */
void inside_end_all(void);

/* Starts the stage's program (start.c); *ret_layers is what is in force. */
void start_program(struct inside *inside, uint32_t *ret_layers);
