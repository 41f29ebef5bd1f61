/* SPDX-License-Identifier: Apache-2.0 */
/* What a job brings along: files, and copies of folders of the host's. Nothing of the request has
 * run yet, so nobody changes anything underneath. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backends/docker/inside/inside.h"
#include "base/auto.h"
#include "base/clock.h"
#include "core/harvest.h"
#include "sys/file.h"

static uint32_t step_of(uint32_t place)
{
    return place == 0 ? WIRE_STEP_FILES : place == 1 ? WIRE_STEP_WORKSPACE : WIRE_STEP_FOLDERS;
}

static const char *root_of(const struct inside *inside, uint32_t place)
{
    if (place == 0)
        return "/sandbox";
    if (place == 1)
        return "/workspace";
    return place - 2 < inside->job.n_folders ? inside->folders[place - 2] : NULL;
}

/* The kernel's coarse clock, by which files get their times, has to be past this moment before the
 * program runs: else a change of its own would look as old as the copy. */
static void pass_a_tick(struct inside *inside)
{
    struct timespec now, since;

    clock_gettime(CLOCK_REALTIME_COARSE, &since);
    inside->copied_ns = since.tv_sec * NS_PER_SEC + since.tv_nsec;
    do {
        nanosleep(&(struct timespec){ .tv_nsec = NS_PER_MSEC }, NULL);
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
    } while (now.tv_sec == since.tv_sec && now.tv_nsec == since.tv_nsec);
}

static void note_carried(struct inside *inside, const char *path, size_t len)
{
    if (inside->carried_len + len + 1 > inside->carried_size) {
        inside->carried_size = 2 * (inside->carried_size + len + 1);
        inside->carried = mem_resize(inside->carried, inside->carried_size);
    }
    memcpy(inside->carried + inside->carried_len, path, len);
    inside->carried[inside->carried_len + len] = '\0';
    inside->carried_len += len + 1;
}

static void finish_file(struct inside *inside)
{
    const struct wire_entry *file = &inside->file;
    const struct timespec when = { file->mtime_ns / NS_PER_SEC, file->mtime_ns % NS_PER_SEC };
    const struct timespec times[2] = { when, when };

    if (fchmod(inside->file_fd, file->mode & 0777) < 0 ||
        (file->mtime_ns > 0 && futimens(inside->file_fd, times) < 0))
        inside_fail(step_of(file->place), errno);
    close_fd(&inside->file_fd);
}

static void close_later(struct inside *inside, const struct wire_entry *entry, const char *path)
{
    struct closed *closed = mem_alloc(sizeof *closed);

    *closed = (struct closed){ inside->closed, entry->mode & 0777, entry->place, str_dup(path) };
    inside->closed = closed;
}

/* The last one first, for it may be in one that came before. */
static void close_folders(struct inside *inside)
{
    for (const struct closed *closed = inside->closed; closed; closed = closed->next) {
        auto_close int root_fd =
            open(root_of(inside, closed->place), O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fchmodat(root_fd, closed->path, closed->mode, 0) < 0)
            inside_fail(step_of(closed->place), errno);
    }
}

/* Files of the payload may be in folders that nobody named; those of a copied folder never are. */
static int make_entry(struct inside *inside, int root, const struct wire_entry *entry,
                      const char *path, const char *target)
{
    int rc = entry->place == 0 ? file_make_parents_at(root, path) : 0;

    if (rc < 0)
        return rc;
    if (entry->kind == WIRE_FOLDER) {
        if ((entry->mode & 0700) != 0700)
            close_later(inside, entry, path);
        return mkdirat(root, path, (entry->mode & 0777) | 0700) < 0 ? -errno : 0;
    }
    if (entry->kind == WIRE_LINK)
        return symlinkat(target, root, path) < 0 ? -errno : 0;
    inside->file_fd =
        openat(root, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (inside->file_fd < 0)
        return -errno;
    inside->file = *entry;
    inside->file_left = entry->size;
    if (inside->file_left == 0)
        finish_file(inside);
    return 0;
}

void files_entry(struct inside *inside, const char *data, size_t len)
{
    struct wire_entry entry;

    if (len < sizeof entry)
        inside_fail(WIRE_STEP_BEGIN, EPROTO);
    memcpy(&entry, data, sizeof entry);
    data += sizeof entry;
    len -= sizeof entry;
    const char *root = root_of(inside, entry.place);
    if (!root || entry.path_len > len || inside->file_fd >= 0 ||
        !harvest_path_ok(data, entry.path_len))
        inside_fail(WIRE_STEP_BEGIN, EPROTO);
    auto_free char *path = mem_dup(data, entry.path_len);
    auto_free char *target = mem_dup(data + entry.path_len, len - entry.path_len);
    auto_close int root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int rc = root_fd < 0 ? -errno : make_entry(inside, root_fd, &entry, path, target);
    if (rc < 0)
        inside_fail(step_of(entry.place), -rc);
    if (entry.place == 1)
        note_carried(inside, path, entry.path_len);
}

void files_data(struct inside *inside, const char *data, size_t len)
{
    if (inside->file_fd < 0 || len > inside->file_left)
        inside_fail(WIRE_STEP_BEGIN, EPROTO);
    int rc = write_all(inside->file_fd, data, len);
    if (rc < 0)
        inside_fail(step_of(inside->file.place), -rc);
    inside->file_left -= len;
    if (inside->file_left == 0)
        finish_file(inside);
}

void files_done(struct inside *inside)
{
    if (inside->file_fd >= 0)
        inside_fail(WIRE_STEP_BEGIN, EPROTO);
    close_folders(inside);
    if (inside->job.has_workspace)
        pass_a_tick(inside);
    if (!inside->carried)
        inside->carried = mem_alloc(1);
}
