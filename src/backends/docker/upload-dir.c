/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of the host's on its way into a container. It takes the time and the room of the whole
 * folder; sockets and fifos are left out: they lead out of the sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/docker/docker.h"
#include "base/auto.h"
#include "base/clock.h"
#include "guest/wire.h"
#include "sys/walk.h"

enum { LINK_MAX_BYTES = 4096 };

struct upload {
    uint32_t place;
    int (*send)(void *arg, uint16_t kind, const void *data, size_t len);
    void *arg;
    int errnum;
};

static int send_entry(const struct walk *walk, const char *name, struct wire_entry entry,
                      const char *target, size_t target_len)
{
    const struct upload *upload = walk->arg;
    char frame[sizeof entry + WALK_PATH_MAX + 256 + LINK_MAX_BYTES], *at = frame + sizeof entry;
    size_t len = strlen(name);

    if (walk->len + len + 1 > WALK_PATH_MAX)
        return -ENAMETOOLONG;
    if (walk->len > 0) {
        at = mempcpy(at, walk->path, walk->len);
        *at++ = '/';
    }
    at = mempcpy(at, name, len);
    entry.place = upload->place;
    entry.path_len = (uint32_t)(at - frame - sizeof entry);
    at = mempcpy(at, target, target_len);
    memcpy(frame, &entry, sizeof entry);
    return upload->send(upload->arg, WIRE_ENTRY, frame, (size_t)(at - frame));
}

/* The entry has promised this much; a file that became shorter meanwhile can't be uploaded. */
static int send_data(const struct upload *upload, int fd, uint64_t size)
{
    char data[WIRE_PIECE];
    int rc = 0;

    while (size > 0 && rc == 0) {
        ssize_t n = read(fd, data, (size_t)MIN(size, sizeof data));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -ESTALE;
        size -= (uint64_t)n;
        rc = upload->send(upload->arg, WIRE_DATA, data, (size_t)n);
    }
    return rc;
}

static struct wire_entry entry_of(uint32_t kind, const struct stat *st)
{
    return (struct wire_entry){
        .kind = kind,
        .mode = st->st_mode & 0777,
        .mtime_ns = st->st_mtim.tv_sec * NS_PER_SEC + st->st_mtim.tv_nsec,
    };
}

/* Mode and size are those of the file that was opened, which need not be the one that was seen. */
static int upload_file(const struct walk *walk, int dir_fd, const char *name,
                       const struct stat *seen)
{
    auto_close int fd = walk_open(walk, dir_fd, name, seen, 0);
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -ESTALE;
    struct wire_entry entry = entry_of(WIRE_FILE, &st);
    entry.size = (uint64_t)st.st_size;
    int rc = send_entry(walk, name, entry, "", 0);
    return rc < 0 ? rc : send_data(walk->arg, fd, entry.size);
}

static int upload_entry(const struct walk *walk, int dir_fd, const char *name,
                        const struct stat *st)
{
    char target[LINK_MAX_BYTES];

    if (S_ISDIR(st->st_mode)) {
        int rc = send_entry(walk, name, entry_of(WIRE_FOLDER, st), "", 0);
        return rc < 0 ? rc : 1;
    }
    if (S_ISLNK(st->st_mode)) {
        ssize_t len = readlinkat(dir_fd, name, target, sizeof target);
        return len < 0 ? -errno
                       : send_entry(walk, name, entry_of(WIRE_LINK, st), target, (size_t)len);
    }
    return S_ISREG(st->st_mode) ? upload_file(walk, dir_fd, name, st) : 0;
}

/* Half a copy is none. */
static int visit(struct walk *walk, int dir_fd, const char *name, const struct stat *st)
{
    struct upload *upload = walk->arg;
    int rc = upload_entry(walk, dir_fd, name, st);

    if (rc >= 0)
        return rc;
    upload->errnum = -rc;
    return -EIO;
}

int upload_dir(int folder_fd, uint32_t place,
               int (*send)(void *arg, uint16_t kind, const void *data, size_t len), void *arg)
{
    struct upload upload = { .place = place, .send = send, .arg = arg };
    struct walk walk = { .visit = visit, .arg = &upload };
    int rc = walk_tree(&walk, folder_fd);

    if (rc < 0)
        return upload.errnum ? -upload.errnum : rc;
    return walk.errnum ? -walk.errnum : 0;
}
