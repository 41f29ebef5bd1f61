/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/link-server.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cay/version.h>

#include "base/auto.h"
#include "warden/message.h"

enum { BACKLOG = 64 };

/* FNV-1a: a name, not a proof. */
static uint64_t mix(uint64_t hash, const void *data, size_t len)
{
    for (const unsigned char *at = data; len > 0; len--, at++)
        hash = (hash ^ *at) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_of(const struct link_terms *terms)
{
    const uint64_t sizes[] = { sizeof(struct warden_request), sizeof(struct warden_reply),
                               sizeof(struct warden_pool) };
    struct stat st = { 0 };
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    fstat(terms->state_fd, &st);
    hash = mix(hash, CAY_VERSION, sizeof CAY_VERSION);
    hash = mix(hash, sizes, sizeof sizes);
    hash = mix(hash, terms->caps, sizeof *terms->caps);
    hash = mix(hash, terms->compile_caps, sizeof *terms->compile_caps);
    hash = mix(hash, &st.st_dev, sizeof st.st_dev);
    return mix(hash, &st.st_ino, sizeof st.st_ino);
}

/* Beside the server's own socket (serve/listen.c). */
static int name_of(const struct link_terms *terms, struct sockaddr_un *ret)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char dir[64];
    unsigned uid = geteuid();

    if (uid == 0)
        snprintf(dir, sizeof dir, "/run/cay");
    else if (runtime && *runtime == '/' && strlen(runtime) < sizeof dir - 5)
        snprintf(dir, sizeof dir, "%s/cay", runtime);
    else
        snprintf(dir, sizeof dir, "/tmp/cay-%u", uid);
    *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
    int len = snprintf(ret->sun_path, sizeof ret->sun_path, "%s/warden-%016llx", dir,
                       (unsigned long long)hash_of(terms));
    return len < (int)sizeof ret->sun_path ? 0 : -ENAMETOOLONG;
}

/* Anybody may have made the folder in /tmp, and the socket in it. */
static bool is_own(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.uid == geteuid();
}

int link_connect(const struct link_terms *terms)
{
    struct sockaddr_un name;

    int rc = name_of(terms, &name);
    if (rc < 0)
        return rc;
    auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&name, sizeof name) < 0)
        return -errno;
    return is_own(fd) ? take_fd(&fd) : -EPERM;
}

/* The folder, which the server makes too; it must be ours alone. */
static int make_folder(const struct sockaddr_un *name)
{
    char dir[sizeof name->sun_path];
    struct stat st;

    snprintf(dir, sizeof dir, "%s", name->sun_path);
    *strrchr(dir, '/') = '\0';
    if (mkdir(dir, geteuid() == 0 ? 0755 : 0700) < 0 && errno != EEXIST)
        return -errno;
    if (lstat(dir, &st) < 0)
        return -errno;
    return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 0022) ? 0 : -EPERM;
}

int link_listen(const struct link_terms *terms)
{
    struct sockaddr_un name;

    int rc = name_of(terms, &name);
    if (rc == 0)
        rc = make_folder(&name);
    if (rc < 0)
        return rc;
    auto_close int other = link_connect(terms);
    if (other >= 0)
        return -EADDRINUSE; /* another server of the same kind: one is enough */
    auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    unlink(name.sun_path);
    mode_t mask = umask(0177);
    rc = bind(fd, (const struct sockaddr *)&name, sizeof name) < 0 ? -errno : 0;
    umask(mask);
    if (rc < 0 || listen(fd, BACKLOG) < 0)
        return rc < 0 ? rc : -errno;
    return take_fd(&fd);
}

void link_unlisten(const struct link_terms *terms)
{
    struct sockaddr_un name;

    if (name_of(terms, &name) == 0)
        unlink(name.sun_path);
}
