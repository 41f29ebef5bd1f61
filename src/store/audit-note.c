/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that are not a run's: what was done with one afterwards. */
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "core/state.h"
#include "store/audit.h"

enum { WAIT_MS = 1000 };

bool audit_is_of_execution(const char *kind)
{
    static const char *const kinds[] = { "applied", "applied_in_part", "discarded" };

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(kind, kinds[i]) == 0)
            return true;
    return false;
}

int audit_note(const struct audit_limits *limits, const struct audit_entry *entry)
{
    static const struct audit_limits none = { .file_bytes = UINT64_MAX };
    auto_close int state_fd = state_open();
    struct audit_entry timed = *entry;
    struct audit audit;
    char time[32];

    int rc =
        state_fd < 0 ? state_fd : audit_open(&audit, state_fd, limits ? limits : &none, WAIT_MS);
    if (rc < 0)
        return rc;
    clock_timestamp(time);
    timed.time = time;
    audit_add(&audit, &timed);
    rc = audit_write(&audit);
    audit_close(&audit);
    return rc;
}
