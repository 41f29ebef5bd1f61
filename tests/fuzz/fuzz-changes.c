/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a kept change set: refused, or its paths stay in the folder, and saving it gives
 * what loads as the same again. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "core/harvest.h"
#include "workspace/changes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct changes changes, again;
    struct cay_error err = { 0 };
    auto_close int fd = memfd_create("changes", MFD_CLOEXEC);
    auto_close int copy_fd = memfd_create("copy", MFD_CLOEXEC);

    must(fd >= 0 && copy_fd >= 0 && write(fd, data, size) == (ssize_t)size);
    if (changes_load(&changes, fd, &err) < 0) {
        must(err.kind == CAY_E_SYSTEM && err.msg[0]);
        return 0;
    }
    must(changes.folder[0] == '/' && !strchr(changes.staging, '/'));
    must(changes_save(&changes, copy_fd, &err) == 0);
    must(changes_update(&changes, copy_fd, &err) == 0);
    must(changes_load(&again, copy_fd, &err) == 0 && again.n == changes.n);
    for (size_t i = 0; i < changes.n; i++) {
        const struct cay_change *shown = &changes.list[i].shown;
        must(harvest_path_ok(shown->path, strlen(shown->path)));
        must(shown->type != CAY_SYMLINK || shown->target[0]);
        must(strcmp(shown->path, again.list[i].shown.path) == 0);
        must(shown->is_applied == again.list[i].shown.is_applied);
        must(memcmp(&changes.list[i].base, &again.list[i].base, sizeof changes.list[i].base) == 0);
    }
    struct cay_change_sums sums;
    changes_sum(&changes, &sums);
    must(sums.created + sums.changed + sums.deleted == changes.n);
    changes_done(&changes);
    changes_done(&again);
    return 0;
}
