/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/rlimit.h"

#include <sys/resource.h>

void rlimit_raise_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= files.rlim_max)
        return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}
