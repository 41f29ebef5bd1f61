/* SPDX-License-Identifier: Apache-2.0 */
#include "images/library.h"

#include <dlfcn.h>

#include "base/error.h"

#define LIBRARY "libarchive.so.13"

int archive_load(struct archive_calls *ret, struct cay_error *err)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        cay_fail(err, CAY_E_NOTFOUND, "image: " LIBRARY " is not there");
        return cay_hint(err, "apt-get install libarchive13");
    }
#define ARCHIVE_FIND(name)                          \
    *(void **)(&ret->name) = dlsym(library, #name); \
    if (!ret->name)                                 \
        return cay_fail(err, CAY_E_NOTFOUND, "image: " LIBRARY " lacks " #name);
    ARCHIVE_CALLS(ARCHIVE_FIND)
#undef ARCHIVE_FIND
    return 0;
}
