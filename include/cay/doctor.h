/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_DOCTOR_H
#define CAY_DOCTOR_H

/* What this host gives to this user, and what to do about what it does not give. */

#include <cay/error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cay;

/*
 * Looks at the host, tries each facility of the kernel in a process of its own, and runs an empty
 * program in a sandbox with the default request. The report is JSON, as in cay-doctor(1); its
 * "works" says whether that last run went well. The caller is forked for each try, so it should be
 * small and have one thread. It frees *ret.
 */
CAY_API int cay_doctor_json(struct cay *cay, char **ret, struct cay_error *err);

/* What follows looks at this backend, as if it was the one that is set. */
CAY_API int cay_doctor_backend(struct cay *cay, const char *name, struct cay_error *err);

#ifdef __cplusplus
}
#endif
#endif
