/* SPDX-License-Identifier: Apache-2.0 */
#include "store/artifact.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "store/audit.h"
#include "store/record.h"
#include "sys/dir.h"
#include "sys/file.h"

#define FOLDER "artifacts/executions"

#define TENANT_KEY "\"tenant\":\""

enum { HASH_SHOWN = 16 };

/* "2026-11-15T19:13:02.123Z" without what no file name should have. */
static void make_name(const struct audit_entry *entry, bool with_id, char out[static 128])
{
    char time[32];
    size_t n = 0;

    for (const char *c = entry->time; *c && n < sizeof time - 1; c++)
        if (strchr("0123456789TZ.", *c))
            time[n++] = *c;
    time[n] = '\0';
    snprintf(out, 128, FOLDER "/%s-%.*s%s%s.json", time, HASH_SHOWN,
             entry->code.bytes > 0 ? entry->code.sha256 : "0000000000000000", with_id ? "-" : "",
             with_id ? entry->id : "");
}

static int make_file(int state_fd, const struct audit_entry *entry, char name[static 128])
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;

    make_name(entry, false, name);
    int fd = openat(state_fd, name, flags, 0600);
    if (fd < 0 && errno == ENOENT) {
        if ((mkdirat(state_fd, "artifacts", 0700) < 0 && errno != EEXIST) ||
            (mkdirat(state_fd, FOLDER, 0700) < 0 && errno != EEXIST))
            return -errno;
        fd = openat(state_fd, name, flags, 0600);
    }
    if (fd < 0 && errno == EEXIST) { /* the same code in the same millisecond */
        make_name(entry, true, name);
        fd = openat(state_fd, name, flags, 0600);
    }
    return fd < 0 ? -errno : fd;
}

int artifact_store(int state_fd, const struct record_text *text)
{
    const struct audit_entry *entry = text->entry;
    auto_strbuf struct strbuf out = { 0 };
    char name[128];

    auto_close int fd = make_file(state_fd, entry, name);
    if (fd < 0)
        return fd == -EEXIST ? 0 : fd; /* taken in once more after a crash */
    strbuf_printf(&out, "{\"id\":\"%s\",\"timestamp\":\"%s\",", entry->id, entry->time);
    if (record_is_tenant(entry->tenant))
        strbuf_printf(&out, TENANT_KEY "%s\",", entry->tenant);
    strbuf_add(&out, text->extra + 1, text->extra_len - 2); /* its members */
    strbuf_puts(&out, ",\"result\":");
    for (size_t i = 0; i < RECORD_PIECES; i++)
        strbuf_add(&out, text->result[i].data, text->result[i].len);
    strbuf_puts(&out, "}\n");
    int rc = write_all(fd, out.data, out.len);
    if (rc < 0)
        unlinkat(state_fd, name, 0);
    return rc;
}

/* ---- pruning ---- */

struct artifact {
    char name[96];
    char tenant[RECORD_TENANT_MAX + 1]; /* "": the user's own */
    int64_t time_s;
    uint64_t bytes;
};

/* Those that share a limit stand together, the newest first. */
static int by_share(const void *a, const void *b)
{
    const struct artifact *left = a, *right = b;
    int order = strcmp(left->tenant, right->tenant);

    if (order != 0)
        return order;
    return left->time_s == right->time_s ? strcmp(right->name, left->name)
                                         : (left->time_s < right->time_s ? 1 : -1);
}

/* It stands behind id and timestamp, whose lengths are known to be less than this. */
static void read_tenant(int dir_fd, struct artifact *artifact)
{
    char head[256];

    auto_close int fd =
        openat(dir_fd, artifact->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t len = fd < 0 ? -1 : read(fd, head, sizeof head - 1);
    head[MAX(len, (ssize_t)0)] = '\0';
    const char *at = strstr(head, ",\"timestamp\":\"");
    at = at ? strchr(at + strlen(",\"timestamp\":\""), '"') : NULL;
    if (!at || strncmp(at, "\"," TENANT_KEY, strlen("\"," TENANT_KEY)) != 0)
        return;
    at += strlen("\"," TENANT_KEY);
    size_t n = strcspn(at, "\"");
    if (n <= RECORD_TENANT_MAX)
        memcpy(artifact->tenant, at, n);
}

size_t artifact_prune(int state_fd, const struct record_keep *keep, int64_t now_s, int dry_run,
                      artifact_fn *fn, void *arg)
{
    DIR *dir = dir_open_at(state_fd, FOLDER);
    struct artifact *list = NULL;
    size_t n = 0, removed = 0;
    uint64_t count = 0, bytes = 0;
    const struct dirent *entry;
    struct stat st;

    if (!dir)
        return 0;
    int fd = dirfd(dir);
    while ((entry = readdir(dir))) {
        size_t len = strlen(entry->d_name);
        if (len < 10 || len >= sizeof list->name || strcmp(entry->d_name + len - 5, ".json") != 0 ||
            fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        list = mem_resize(list, (n + 1) * sizeof *list);
        list[n] = (struct artifact){ .time_s = st.st_mtime, .bytes = (uint64_t)st.st_blocks * 512 };
        memcpy(list[n].name, entry->d_name, len + 1);
        read_tenant(fd, &list[n++]);
    }
    if (n > 0)
        qsort(list, n, sizeof *list, by_share);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && strcmp(list[i].tenant, list[i - 1].tenant) != 0)
            count = bytes = 0;
        bytes += list[i].bytes;
        if (count++ < keep->count && bytes <= keep->bytes && now_s - list[i].time_s <= keep->age_s)
            continue;
        if (!dry_run && unlinkat(fd, list[i].name, 0) < 0)
            continue;
        removed++;
        if (fn)
            fn(arg, "artifact", list[i].name);
    }
    free(list);
    closedir(dir);
    return removed;
}
