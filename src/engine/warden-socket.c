/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/warden-socket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
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

static uint64_t hash_of(const struct warden_terms *terms)
{
    const uint64_t sizes[] = { WARDEN_PROTOCOL, sizeof(struct warden_request),
                               sizeof(struct warden_reply), sizeof(struct warden_pool) };
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

enum { FOLDER_SIZE = 64 };

/* That of the server's own socket (doors/http/listen.c). */
static void folder_name(char out[static FOLDER_SIZE])
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    unsigned uid = geteuid();

    if (uid == 0)
        snprintf(out, FOLDER_SIZE, "/run/cay");
    else if (runtime && *runtime == '/' && strlen(runtime) < FOLDER_SIZE - 5)
        snprintf(out, FOLDER_SIZE, "%s/cay", runtime);
    else
        snprintf(out, FOLDER_SIZE, "/tmp/cay-%u", uid);
}

static int name_of(const struct warden_terms *terms, struct sockaddr_un *ret)
{
    char dir[FOLDER_SIZE];

    folder_name(dir);
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

int warden_connect(const struct warden_terms *terms)
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

int warden_listen(const struct warden_terms *terms)
{
    struct sockaddr_un name;

    int rc = name_of(terms, &name);
    if (rc == 0)
        rc = make_folder(&name);
    if (rc < 0)
        return rc;
    auto_close int other = warden_connect(terms);
    if (other >= 0)
        return -EADDRINUSE; /* another server of the same kind: one is enough */
    warden_sweep(false, NULL, NULL);
    auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    /* It has its name once it listens: who sweeps takes it for a dead one's before. */
    struct sockaddr_un beside = { .sun_family = AF_UNIX };
    const char *last = strrchr(name.sun_path, '/') + 1;
    snprintf(beside.sun_path, sizeof beside.sun_path, "%.*s.%s", (int)(last - name.sun_path),
             name.sun_path, last);
    unlink(beside.sun_path);
    mode_t mask = umask(0177);
    rc = bind(fd, (const struct sockaddr *)&beside, sizeof beside) < 0 ? -errno : 0;
    umask(mask);
    if (rc < 0)
        return rc;
    if (listen(fd, BACKLOG) < 0 || rename(beside.sun_path, name.sun_path) < 0) {
        rc = -errno;
        unlink(beside.sun_path);
        return rc;
    }
    return take_fd(&fd);
}

/* ---- what a killed server left ---- */

enum { MAKING_AGE_S = 60 };

static bool is_ours(int dir_fd, const char *name)
{
    bool is_made = strncmp(name, ".warden-", 8) == 0; /* its maker was killed, if it is old */
    struct stat st;

    if (strcmp(name, "cay.sock") != 0 && strncmp(name, "warden-", 7) != 0 && !is_made)
        return false;
    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode) &&
           st.st_uid == geteuid() && (!is_made || st.st_mtime + MAKING_AGE_S < time(NULL));
}

/* Nobody answers there any more. */
static bool is_dead(const char *dir, const char *name, struct sockaddr_un *ret)
{
    int type = strcmp(name, "cay.sock") == 0 ? SOCK_STREAM : SOCK_SEQPACKET;
    auto_close int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (snprintf(ret->sun_path, sizeof ret->sun_path, "%s/%s", dir, name) >=
        (int)sizeof ret->sun_path)
        return false;
    return fd >= 0 && connect(fd, (struct sockaddr *)ret, sizeof *ret) < 0 && errno == ECONNREFUSED;
}

void warden_sweep(bool dry_run, void (*told)(void *arg, const char *what, const char *name),
                  void *arg)
{
    struct sockaddr_un address;
    struct dirent *entry;
    char path[FOLDER_SIZE];

    folder_name(path);
    int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = dir_fd < 0 ? NULL : fdopendir(dir_fd);
    if (!dir) {
        close_fd(&dir_fd);
        return;
    }
    while ((entry = readdir(dir)) != NULL)
        if (is_ours(dir_fd, entry->d_name) && is_dead(path, entry->d_name, &address) &&
            (dry_run || unlinkat(dir_fd, entry->d_name, 0) == 0) && told)
            told(arg, "socket", address.sun_path);
    closedir(dir);
}

void warden_unlisten(const struct warden_terms *terms)
{
    struct sockaddr_un name;

    if (name_of(terms, &name) < 0)
        return;
    auto_close int next = warden_connect(terms); /* a server that began while this one was ending */
    if (next < 0)
        unlink(name.sun_path);
}
