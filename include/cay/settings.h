/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_SETTINGS_H
#define CAY_SETTINGS_H

/* The configuration apart from runs: settings by name, and tenants. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cay/error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cay;

/* Opens the state folder, where cay keeps what it keeps (it is made where it is not there): an fd
 * for the caller to close. */
CAY_API int cay_state_open(int *ret_fd, struct cay_error *err);

/* From here on, this process can reach no file but those of the state folder (landlock; what is
 * open stays open). Needs no_new_privs. CAY_E_UNSUPPORTED: the kernel can't, and all is as it was.
 */
CAY_API int cay_state_confine(struct cay_error *err);

/* The same for a server's process that serves strangers, with a cay that has a journal: it can
 * still reach that journal and the cache of compiled programs, and can read images and the system's
 * libraries and certificates. */
CAY_API int cay_front_confine(const struct cay *cay, struct cay_error *err);

/* A setting as text in its own form ("512m", "30", "json"), or NULL where it has no value or there
 * is none of that name. Owned by cay. */
CAY_API const char *cay_setting(struct cay *cay, const char *name);

/* The same as a number: bytes, nanoseconds, thousandths or a count, by the setting's kind; 0 where
 * it has no value or is no number. A flag is 0 or 1. */
CAY_API uint64_t cay_setting_number(const struct cay *cay, const char *name);

/* What a request gets that says nothing of a field: the setting, or what the profile in force has
 * in its place. As cay_setting gives it. */
CAY_API const char *cay_default(struct cay *cay, const char *name);

/* The maximum that a request can ask for; 0: only the field's own bound. */
CAY_API uint64_t cay_max(const struct cay *cay, const char *name);

/* Sets the maximum that a request can ask for, where the configuration ([max]) sets none: for a
 * server. It is never less than the default. */
CAY_API void cay_set_max(struct cay *cay, const char *name, uint64_t max);

/* The layers that every run must have, for a server: a list as in `require`, which takes precedence
 * over the configuration. NULL: the configuration's, and without that all layers that the backend
 * can have, cgroup included. A request can only add to them. CAY_E_USAGE: a word of the list or of
 * the configuration names no layer. */
CAY_API int cay_require(struct cay *cay, const char *list, struct cay_error *err);

struct cay_request;

/* The name of the language that a request asks for, whatever alias it has there; as it has it where
 * there is none of that name. NULL: a command, or one that only its code shows. */
CAY_API const char *cay_request_language(const struct cay *cay, const struct cay_request *req);

/* The memory limit that a request would run with, that of its compiler included: what admission
 * counts; and whether it is the compiler's. Nothing of the request is checked. */
CAY_API uint64_t cay_request_memory(struct cay *cay, const struct cay_request *req,
                                    bool *ret_is_compilers);

/* max_output that a request would run with, of each stream. */
CAY_API uint64_t cay_request_output(const struct cay *cay, const struct cay_request *req);

/* One table [tenant.NAME] of the system's or the user's file. 0 is: no such quota. */
struct cay_tenant {
    const char *name;
    uint32_t concurrency;       /* runs at once, those that wait in the queue included */
    uint32_t runs_per_minute;   /* on average; as many may come in one burst */
    int64_t cpu_ns_per_day;     /* CPU time of the last 24 hours */
    uint64_t memory_bytes;      /* sum of the memory limits of its runs at once */
    const char *webhook_secret; /* what webhooks are signed with, or NULL */
};

/* The i-th tenant of the configuration, or NULL past the last one. Owned by cay, until they are
 * read again. */
CAY_API const struct cay_tenant *cay_tenant_at(const struct cay *cay, size_t i);

/* The table [prices] of the system's or the user's file. 0 is: no such price. */
struct cay_prices {
    bool is_set;             /* there is at least one of these: */
    double cpu_second;       /* of a second of CPU time */
    double memory_gb_second; /* of 1 GB (1024^3 bytes) for a second */
    double run;              /* of each run that was started */
    const char *currency;    /* or NULL */
};

/* Owned by cay. */
CAY_API const struct cay_prices *cay_prices(const struct cay *cay);

/* Reads these tables again, from the two files of cay_config_files, opened by a process that is
 * allowed to; -1: there is none. On failure the old tables stay. */
CAY_API int cay_tenants_reload(struct cay *cay, int system_fd, int user_fd, struct cay_error *err);

/* Where the system's configuration file is, and this user's ("": nobody knows). */
CAY_API void cay_config_files(char system_file[4096], char user_file[4096]);

#ifdef __cplusplus
}
#endif
#endif
