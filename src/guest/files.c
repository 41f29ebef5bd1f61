/* SPDX-License-Identifier: Apache-2.0 */
/* Files that an exec brings along, and copies of folders of the host's that a sandbox does. Programs
 * may run meanwhile, and put links and fifos in the way: no step follows one, and none waits. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "core/harvest.h"
#include "guest/init.h"
#include "sys/file.h"

static uint32_t step_of(uint32_t place)
{
    return place == 0 ? WIRE_STEP_FILES : place == 1 ? WIRE_STEP_WORKSPACE : WIRE_STEP_FOLDERS;
}

static const char *root_of(const struct init *init, uint32_t place)
{
    if (place == 0)
        return "/sandbox";
    if (place == 1)
        return "/workspace";
    return place - 2 < init->open.n_folders ? init->folders[place - 2] : NULL;
}

/* The kernel's coarse clock, by which files get their times, has to be past this moment before the
 * program runs: else a change of its own would look as old as the copy. */
static void pass_a_tick(struct init *init)
{
    struct timespec now, since;

    clock_gettime(CLOCK_REALTIME_COARSE, &since);
    init->copied_ns = since.tv_sec * NS_PER_SEC + since.tv_nsec;
    do {
        nanosleep(&(struct timespec){ .tv_nsec = NS_PER_MSEC }, NULL);
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
    } while (now.tv_sec == since.tv_sec && now.tv_nsec == since.tv_nsec);
}

static void note_carried(struct init *init, const char *path, size_t len)
{
    if (init->carried_len + len + 1 > init->carried_size) {
        init->carried_size = 2 * (init->carried_size + len + 1);
        init->carried = mem_resize(init->carried, init->carried_size);
    }
    memcpy(init->carried + init->carried_len, path, len);
    init->carried[init->carried_len + len] = '\0';
    init->carried_len += len + 1;
}

static int finish_file(struct init *init)
{
    const struct wire_entry *file = &init->file;
    const struct timespec when = { file->mtime_ns / NS_PER_SEC, file->mtime_ns % NS_PER_SEC };
    const struct timespec times[2] = { when, when };
    int rc = 0;

    if (fchmod(init->file_fd, file->mode & 0777) < 0 ||
        (file->mtime_ns > 0 && futimens(init->file_fd, times) < 0))
        rc = -errno;
    close_fd(&init->file_fd);
    return rc;
}

static void close_later(struct init *init, const struct wire_entry *entry, const char *path)
{
    struct closed *closed = mem_alloc(sizeof *closed);

    *closed = (struct closed){ init->closed, entry->mode & 0777, entry->place, str_dup(path) };
    init->closed = closed;
}

/* The last one first, for it may be in one that came before. */
static void close_folders(struct init *init)
{
    for (const struct closed *closed = init->closed; closed; closed = closed->next) {
        auto_close int root_fd =
            open(root_of(init, closed->place), O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fchmodat(root_fd, closed->path, closed->mode, 0) < 0)
            init_fail(step_of(closed->place), errno);
    }
}

/* The folder that the last part of the path is in, and that part, which is cut off. Files of a
 * payload may be in folders that nobody named; those of a copied folder never are. */
static int open_parent(const char *root, char *path, bool makes, const char **ret_name)
{
    const int how = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = open(root, how);

    *ret_name = path;
    for (char *slash; fd >= 0 && (slash = strchr(*ret_name, '/')); *ret_name = slash + 1) {
        *slash = '\0';
        if (makes && mkdirat(fd, *ret_name, 0755) < 0 && errno != EEXIST) {
            int rc = -errno;
            close(fd);
            return rc;
        }
        int next = openat(fd, *ret_name, how);
        int errnum = errno;
        close(fd);
        errno = errnum;
        fd = next;
    }
    return fd < 0 ? -errno : fd;
}

/* A fifo in its place would be waited for. */
static int open_file(int dir_fd, const char *name)
{
    auto_close int fd = openat(
        dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? take_fd(&fd) : -EEXIST;
}

static int make_entry(struct init *init, int dir_fd, const struct wire_entry *entry,
                      const char *path, const char *name, const char *target)
{
    if (entry->kind == WIRE_FOLDER) {
        if ((entry->mode & 0700) != 0700)
            close_later(init, entry, path);
        return mkdirat(dir_fd, name, (entry->mode & 0777) | 0700) < 0 ? -errno : 0;
    }
    if (entry->kind == WIRE_LINK)
        return symlinkat(target, dir_fd, name) < 0 ? -errno : 0;
    init->file_fd = open_file(dir_fd, name);
    if (init->file_fd < 0) {
        int rc = init->file_fd;
        init->file_fd = -1;
        return rc;
    }
    init->file = *entry;
    init->file_left = entry->size;
    return init->file_left == 0 ? finish_file(init) : 0;
}

int files_entry(struct init *init, uint16_t exec, const char *data, size_t len, uint32_t *ret_step)
{
    struct wire_entry entry;
    const char *name;

    if (len < sizeof entry)
        return -EPROTO;
    memcpy(&entry, data, sizeof entry);
    data += sizeof entry;
    len -= sizeof entry;
    const char *root = root_of(init, entry.place);
    if (!root || (entry.place == 0) != (exec != WIRE_NO_EXEC) || entry.path_len > len ||
        init->file_fd >= 0 || !harvest_path_ok(data, entry.path_len))
        return -EPROTO;
    *ret_step = step_of(entry.place);
    auto_free char *path = mem_dup(data, entry.path_len);
    auto_free char *cut = mem_dup(data, entry.path_len);
    auto_free char *target = mem_dup(data + entry.path_len, len - entry.path_len);
    auto_close int dir_fd = open_parent(root, cut, entry.place == 0, &name);
    if (dir_fd < 0)
        return dir_fd;
    init->file_exec = exec;
    int rc = make_entry(init, dir_fd, &entry, path, name, target);
    if (rc == 0 && entry.place == 1)
        note_carried(init, path, entry.path_len);
    return rc;
}

int files_data(struct init *init, uint16_t exec, const char *data, size_t len, uint32_t *ret_step)
{
    if (init->file_fd < 0 || exec != init->file_exec || len > init->file_left)
        return -EPROTO;
    *ret_step = step_of(init->file.place);
    int rc = write_all(init->file_fd, data, len);
    if (rc < 0)
        return rc;
    init->file_left -= len;
    return init->file_left == 0 ? finish_file(init) : 0;
}

void files_done(struct init *init)
{
    if (init->file_fd >= 0)
        init_fail(WIRE_STEP_BEGIN, EPROTO);
    close_folders(init);
    if (init->open.has_workspace)
        pass_a_tick(init);
    if (!init->carried)
        init->carried = mem_alloc(1);
}
