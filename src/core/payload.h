/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The payload: what a program gets, or where a sandbox shows folders, in a sealed memfd that the
 * front makes. Only the sandbox's own child reads it; the warden passes it on unread. The reader
 * trusts nothing: it checks the seals, every length, every count and every name, allocates nothing,
 * and is fuzzed.
 *
 *     of an exec      header | argv | environment | globs | files
 *     of a sandbox    header | folders
 */

#include <stddef.h>
#include <stdint.h>

struct cay_error;

enum {
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
    const char *const *argv;    /* NULL-terminated, or NULL: it is a sandbox's */
    const char *const *env;     /* NULL-terminated "NAME=value" */
    const char *const *globs;   /* of files to collect; NULL-terminated, or NULL */
    const char *const *folders; /* of a sandbox: where the read-only folders go, likewise; one more
                                 * than those is a link to the workspace */
    const struct payload_file *files;
    size_t n_files;
};

/* As a sealed memfd. */
int payload_write(const struct payload_source *source, int *ret_fd, struct cay_error *err);

/* ---- reading, in the child ---- */

/* Which of the two it has to be: nothing is in one that belongs to the other. */
enum payload_kind { PAYLOAD_SANDBOX, PAYLOAD_EXEC };

struct payload {
    const char *data;
    size_t len;
    uint32_t argc, envc;
    uint32_t n_globs, n_folders;
    uint32_t n_files;
    size_t strings_at; /* where the strings begin */
    size_t files_at;   /* where the files begin */
};

/* Checks all of it. Async-signal-safe, like the rest. Returns -EINVAL when anything is off. */
int payload_check(const void *data, size_t len, enum payload_kind kind, struct payload *ret);

/* Maps and checks a memfd that must be sealed against every change. Returns -errno, and maps
 * nothing then. */
int payload_map(int fd, enum payload_kind kind, struct payload *ret);
void payload_unmap(struct payload *payload);

/* Fills vec, with room for argc + 1 (envc + 1, …) entries, and ends it with NULL. Each folder is
 * one that payload_folder_ok allows. */
void payload_argv(const struct payload *payload, char **vec);
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
