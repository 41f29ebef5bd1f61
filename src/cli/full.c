/* SPDX-License-Identifier: Apache-2.0 */
/* From `cay` to cay-full, which has the commands that need more libraries: beside it in a build
 * folder, else where it is installed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/tell.h"

#define FULL_NAME "cay-full"

int full_exec(int argc, char **argv)
{
    char beside[4096] = "";
    ssize_t len = readlink("/proc/self/exe", beside, sizeof beside - sizeof FULL_NAME);
    char *slash = len > 0 ? strrchr(beside, '/') : NULL;

    (void)argc;
    /* argv[-1] is the name cay was called by: main() left it there. */
    if (slash) {
        memcpy(slash + 1, FULL_NAME, sizeof FULL_NAME);
        execv(beside, argv - 1);
    }
    execv(CAY_LIBEXEC "/" FULL_NAME, argv - 1);
    tell("%s is not there: %s", CAY_LIBEXEC "/" FULL_NAME, strerror(errno));
    tell("hint: install it beside cay (`make install` does)");
    return 125;
}
