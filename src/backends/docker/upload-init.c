/* SPDX-License-Identifier: Apache-2.0 */
/* The init on its way into a container whose engine does not see this machine's files: as the one
 * member of a tar, which the engine unpacks into a volume of that container's own. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/docker/docker.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"

enum { TAR_BLOCK = 512, INSIDE_BYTES_MAX = 64 << 20 };

/* As POSIX has it (pax(1), "ustar Interchange Format"): numbers are octal text. */
struct tar_head {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], chksum[8], type, link[100];
    char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};

_Static_assert(sizeof(struct tar_head) == TAR_BLOCK, "a head is a block");

static void fill_head(struct tar_head *head, const char *name, uint64_t size)
{
    unsigned sum = 0;

    *head = (struct tar_head){ .type = '0', .magic = "ustar", .version = { '0', '0' } };
    snprintf(head->name, sizeof head->name, "%s", name);
    snprintf(head->mode, sizeof head->mode, "%07o", 0555U);
    snprintf(head->uid, sizeof head->uid, "%07o", 0U);
    snprintf(head->gid, sizeof head->gid, "%07o", 0U);
    snprintf(head->size, sizeof head->size, "%011llo", (unsigned long long)size);
    snprintf(head->mtime, sizeof head->mtime, "%011o", 0U);
    memset(head->chksum, ' ', sizeof head->chksum); /* which is how it counts in its own sum */
    for (size_t i = 0; i < sizeof *head; i++)
        sum += ((const unsigned char *)head)[i];
    snprintf(head->chksum, sizeof head->chksum, "%06o", sum);
}

/* -errno. */
static int read_as_tar(const char *path, struct strbuf *ret)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct tar_head head;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size > INSIDE_BYTES_MAX)
        return -EINVAL;
    size_t size = (size_t)st.st_size, room = (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
    fill_head(&head, INSIDE_COPY_NAME, size);
    strbuf_add(ret, (const char *)&head, sizeof head);
    /* Behind the file its last block is filled up, and two empty ones are the end. */
    auto_free char *data = mem_alloc(room + (size_t)2 * TAR_BLOCK);
    for (size_t at = 0; at < size;) {
        ssize_t n = read(fd, data + at, size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -ESTALE;
        at += (size_t)n;
    }
    strbuf_add(ret, data, room + (size_t)2 * TAR_BLOCK);
    return 0;
}

int upload_init(struct api *api, const struct container *container, const char *path,
                struct cay_error *err)
{
    auto_strbuf struct strbuf tar = { 0 };
    json_t *answer = NULL;
    char target[128];

    int rc = read_as_tar(path, &tar);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "docker: read %s", path);
    snprintf(target, sizeof target, "/containers/%s/archive?path=" INSIDE_COPY_FOLDER,
             container->id);
    int status = api_upload(api, target, tar.data, tar.len, &answer, err);
    rc = status < 0 ? -1 : 0;
    if (rc == 0 && status != 200)
        rc = cay_fail(err, CAY_E_UNSUPPORTED,
                      "docker: copy the init into the container: %.300s (%d)", api_message(answer),
                      status);
    json_decref(answer);
    return rc;
}
