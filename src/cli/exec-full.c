/* SPDX-License-Identifier: Apache-2.0 */
/* From `cay` to cay-full, which has the commands that need more libraries: beside it in a build
 * folder, else where it is installed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cay/error.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/print.h"

#define FULL_NAME "cay-full"

int full_exec(int argc, char **argv)
{
    char beside[4096] = "";
    ssize_t len = readlink("/proc/self/exe", beside, sizeof beside - sizeof FULL_NAME);
    char *slash = len > 0 ? strrchr(beside, '/') : NULL;
    char **args = calloc(argc + 2, sizeof *args);
    struct cay_error err;

    if (!args)
        return print_message("out of memory"), 125;
    args[0] = program_invocation_name;
    memcpy(args + 1, argv, argc * sizeof *argv);
    if (slash) {
        memcpy(slash + 1, FULL_NAME, sizeof FULL_NAME);
        execv(beside, args);
    }
    execv(CAY_LIBEXEC "/" FULL_NAME, args);
    cay_fail_errno(&err, errno, "start %s", CAY_LIBEXEC "/" FULL_NAME);
    cay_hint(&err, "install it beside cay (`make install` does)");
    free(args);
    return print_error(&err);
}
