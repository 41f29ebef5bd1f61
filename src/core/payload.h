/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The payload: argv, environment and files of a run, in a sealed memfd that the front makes, or in
 * the job itself where it is short. Only the sandbox's own child reads it; the warden passes it on
 * unread. The reader trusts nothing: it checks the seals, every length, every count and every name,
 * allocates nothing, and is fuzzed.
 *
 *     header | strings of stage 0 | strings of stage 1 | environment | globs | folders | files
 */

#include <stddef.h>
#include <stdint.h>

struct cay_error;
struct job;

enum {
    PAYLOAD_STAGES = 2,
    PAYLOAD_STRINGS_MAX = 65536,
    PAYLOAD_FILES_MAX = 10000,
    PAYLOAD_GLOBS_MAX = 256,
    PAYLOAD_FOLDERS_MAX = 8,
};

/* Bytes of a payload, in all. */
#define PAYLOAD_BYTES_MAX (UINT64_C(1) << 30)

struct payload_file {
    const char *name;
    const char *data;
    uint64_t len;
    unsigned mode;
};

/* Of the file with the code. */
enum { PAYLOAD_USUAL_MODE = 0644 };

/* ---- writing, in the front ---- */

struct payload_source {
    const char *const *argv[PAYLOAD_STAGES]; /* NULL-terminated, or NULL: no such stage */
    const char *const *env;                  /* NULL-terminated "NAME=value" */
    const char *const *globs;                /* of files to collect; NULL-terminated, or NULL */
    const char *const *folders;              /* where the read-only folders go, likewise; one more
                                              * than those is a link to the workspace */
    const struct payload_file *files;
    size_t n_files;
};

/* Puts it into the job, and -1 into *ret_fd; what is too long for that (all, where there is no job)
 * is returned as a sealed memfd. */
int payload_write(const struct payload_source *source, struct job *job, int *ret_fd,
                  struct cay_error *err);

/* ---- reading, in the child ---- */

struct payload {
    const char *data;
    size_t len;
    uint32_t argc[PAYLOAD_STAGES];
    uint32_t envc;
    uint32_t n_globs, n_folders;
    uint32_t n_files;
    size_t strings_at; /* where the strings begin */
    size_t files_at;   /* where the files begin */
};

/* Checks all of it. Async-signal-safe, like the rest. Returns -EINVAL when anything is off. */
int payload_check(const void *data, size_t len, struct payload *ret);

/* Maps and checks a memfd that must be sealed against every change. */
int payload_map(int fd, struct payload *ret);

/* The job's own, wherever it is; it lasts as long as the job stays where it is. */
int payload_of(const struct job *job, struct payload *ret);

/* Of a process that passed it on, and from which others are forked: what is in it is one run's. */
void payload_forget(struct job *job);

/* Out of the job, into a sealed memfd of its own, for one that has to wait. */
int payload_move_out(struct job *job);

/* Fills vec, with room for argc[stage] + 1 (envc + 1, …) entries, and ends it with NULL. Each
 * folder is one that payload_folder_ok allows. */
void payload_argv(const struct payload *payload, unsigned stage, char **vec);
void payload_env(const struct payload *payload, char **vec);
void payload_globs(const struct payload *payload, char **vec);
void payload_folders(const struct payload *payload, char **vec);

/* Goes through the files: *pos starts at 0. Returns 0 past the last one. */
int payload_next_file(const struct payload *payload, size_t *pos, struct payload_file *ret);

/* Makes the files and the folders above them in the folder dir_fd (AT_FDCWD: the current one). */
int payload_write_files(const struct payload *payload, int dir_fd);

/* Relative, no "..", ".", empty part, control byte; at most 255 bytes a part. */
int payload_name_ok(const char *name);

/* An absolute path at which a folder can be shown inside, without hiding what the sandbox is made
 * of: not /usr, /etc, /proc, /workspace …, nor anything in them; in /tmp and /sandbox, but not they
 * themselves. */
int payload_folder_ok(const char *path);

/* The same name twice, or one that would be a file and a folder at once. */
int payload_names_clash(const char *a, const char *b);
