/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The init of a root of another kind (cay-inside): pid 1, the only process that holds the streams
 * that lead out. It makes the files, starts programs, carries their streams, reaps, and reports how
 * each ended; when its stdin ends it does, and everything in there with it.
 *
 *   outside ──engine──▶ init            stdin, stdout: wire.h; not dumpable, so that nobody in
 *                        │ fork         there, who has the same uid, can reach them in /proc
 *                        ▼
 *                      programs         three pipes each, rlimits, landlock, seccomp
 *
 * It is a static program, for it runs on whatever an image has, and runs under everything that the
 * engine put on the container: no capabilities, no_new_privs, seccomp, a read-only root.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/harvest-tell.h"
#include "guest/wire.h"
#include "sys/proc-tree.h"

/* A folder whose mode comes last: things go into it first. */
struct closed {
    struct closed *next;
    mode_t mode;
    uint32_t place;
    char *path;
};

enum exec_state {
    EXEC_FREE,
    EXEC_FILLING, /* its files come */
    EXEC_BROKEN,  /* it has failed, and what still comes for it goes nowhere */
    EXEC_WAITING, /* for another, which is reporting what it left */
    EXEC_RUNNING,
    EXEC_DRAINING, /* its program is dead; what it wrote goes out */
    EXEC_PRODUCTS, /* what it made is sent, and then its end */
    EXEC_HARVEST,  /* its end was sent, and what it left is */
};

struct exec {
    enum exec_state state;
    struct wire_exec spec;
    char *data; /* of the frame that it came in, which the lists point into */
    char **argv, **env, **globs, **version_argv;
    pid_t pid; /* and its session, and its process group */
    int status;
    int64_t started_ns, ended_ns, cpu_ns;
    uint64_t max_rss, unreachable; /* the last: at its start */
    /* Our ends of its streams, by enum wire_stream; -1: closed. And what may be sent of each. */
    int fds[WIRE_STREAM_N];
    uint32_t credit[WIRE_STREAM_N];
    bool has_rest; /* its program is dead, and so much of its output is still to be sent: */
    uint32_t rest[WIRE_STREAM_N];
    char *input; /* what the program has not taken yet; room for WIRE_WINDOW_IN */
    size_t input_len;
    bool has_input_end;
};

struct init {
    struct wire_open open;
    char **folders;
    bool is_open, has_run;
    uint32_t missing; /* layers */
    struct exec execs[WIRE_EXECS];
    struct proc_tree *tree; /* once it is needed */
    /* What is being written, and for which exec. */
    int file_fd;
    uint16_t file_exec;
    uint64_t file_left;
    struct wire_entry file;
    struct closed *closed; /* folders that their owner may not write to */
    /* What the workspace had: struct workspace. */
    char *carried;
    size_t carried_len, carried_size;
    int64_t copied_ns;
};

/* Outwards; without whoever is there, there is no reason to be here. */
void init_send(uint16_t kind, uint16_t exec, const void *data, size_t len);

/* There is no sandbox: says so, and waits for the end. */
void init_fail(uint32_t step, int errnum) __attribute__((noreturn));

/* Its slot's number. */
uint16_t init_number(const struct init *init, const struct exec *exec);

/* Refuses a container without a layer that is required (check.c); returns the others that the
 * engine was asked for and that are missing. */
uint32_t check_engine(uint32_t require);

/* Making what is asked for (files.c). The first two: -errno, and *ret_step is what for. */
int files_entry(struct init *init, uint16_t exec, const char *data, size_t len, uint32_t *ret_step);
int files_data(struct init *init, uint16_t exec, const char *data, size_t len, uint32_t *ret_step);
void files_done(struct init *init);

/* Where the init is root (wire.h), it makes files as the programs' user, and is root again after
 * each, for only the root can't be reached by them. -errno. */
int split_lower(void);
int split_raise(void);

/* For good, by a child: no right is left. -errno. */
int split_become_user(void);

/* What a command of the image's says, before anything of the request has run, and as confined as
 * that: all of it is gone when this returns. How many bytes. */
size_t start_ask(const struct init *init, const struct exec *exec, char *answer, size_t size);

/* Starts its program (start.c); *ret_layers is what is in force. false: *ret says why not. */
bool start_program(struct init *init, struct exec *exec, uint32_t *ret_layers,
                   struct wire_failed *ret);

/* ---- an exec's life (exec.c) ---- */

/* Takes what there is in the frame; the data becomes the exec's. false: it is none. */
bool exec_take(struct exec *exec, char *data, size_t len);

/* All is there: starts it, now or when it may. */
void exec_start(struct init *init, struct exec *exec);

/* Says that it could not be started. */
void exec_failed(struct init *init, struct exec *exec, uint32_t step, int errnum);

void exec_signal(struct init *init, struct exec *exec, int signal);

/* CPU time of what lives of it, and of what was reaped. */
int64_t exec_cpu(struct init *init, struct exec *exec);

/* Its streams: what can be read or written without waiting is. */
void exec_push_input(struct init *init, struct exec *exec);
void exec_pull(struct init *init, struct exec *exec, enum wire_stream stream);

/* Reaps all that is dead; what that leads to, and what waited for it. */
void exec_reap_all(struct init *init);
void exec_advance_all(struct init *init);

/* Ends all that lives but the caller, who is pid 1. */
void exec_end_everybody(struct init *init);
