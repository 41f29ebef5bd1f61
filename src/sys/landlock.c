/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"

/* Newer than Debian 12's headers (Linux 6.1). */
#define ACCESS_REFER     (1ULL << 13) /* ABI 2 */
#define ACCESS_TRUNCATE  (1ULL << 14) /* ABI 3 */
#define ACCESS_IOCTL_DEV (1ULL << 15) /* ABI 5 */
#define SCOPE_ABSTRACT   (1ULL << 0)  /* ABI 6: abstract unix sockets */
#define SCOPE_SIGNAL     (1ULL << 1)

struct ruleset_attr {
    uint64_t handled_access_fs;
    uint64_t handled_access_net; /* ABI 4 */
    uint64_t scoped;             /* ABI 6 */
};

#define ABI1_ACCESS ((1ULL << 13) - 1)

static const uint64_t access_bits[] = {
    [LANDLOCK_READ] =
        LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
    [LANDLOCK_USE] = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                     LANDLOCK_ACCESS_FS_READ_DIR | ACCESS_TRUNCATE,
    [LANDLOCK_TTY] = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                     LANDLOCK_ACCESS_FS_READ_DIR | ACCESS_TRUNCATE | ACCESS_IOCTL_DEV,
    [LANDLOCK_WRITE] = UINT64_MAX,
};

/* What makes sense on something that is not a folder. */
#define FILE_ACCESS                                                                              \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | \
     ACCESS_TRUNCATE | ACCESS_IOCTL_DEV)

int landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi < 0 ? -errno : (int)abi;
}

static uint64_t handled(int abi)
{
    return ABI1_ACCESS | (abi >= 2 ? ACCESS_REFER : 0) | (abi >= 3 ? ACCESS_TRUNCATE : 0) |
           (abi >= 5 ? ACCESS_IOCTL_DEV : 0);
}

static int add_rule(int ruleset, const struct landlock_rule *rule, uint64_t known)
{
    auto_close int fd = open(rule->path, O_PATH | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    struct landlock_path_beneath_attr attr = {
        .allowed_access = access_bits[rule->access] & known,
        .parent_fd = fd,
    };
    if (!S_ISDIR(st.st_mode))
        attr.allowed_access &= FILE_ACCESS;
    if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr, 0) < 0)
        return -errno;
    return 0;
}

int landlock_restrict(const struct landlock_rule *rules, unsigned n)
{
    int abi = landlock_abi();
    if (abi < 0)
        return abi;

    struct ruleset_attr attr = { .handled_access_fs = handled(abi) };
    if (abi >= 6)
        attr.scoped = SCOPE_ABSTRACT | SCOPE_SIGNAL;
    size_t size = abi >= 6 ? sizeof attr : sizeof attr.handled_access_fs;
    auto_close int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
    if (ruleset < 0)
        return -errno;

    for (unsigned i = 0; i < n; i++) {
        int rc = add_rule(ruleset, &rules[i], attr.handled_access_fs);
        if (rc < 0)
            return rc;
    }
    return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? -errno : 0;
}
