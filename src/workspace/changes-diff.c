/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/changes-diff.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/diff.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "sys/beneath.h"
#include "sys/file.h"
#include "workspace/apply.h"
#include "workspace/changes.h"

/* A name on a line of its own: quoted where it holds what would break the line. */
static void put_name(struct strbuf *out, const char *prefix, const char *path)
{
    bool is_plain = true;

    for (const char *pos = path; *pos; pos++)
        is_plain &= (unsigned char)*pos >= 0x20 && *pos != 0x7f && *pos != '"' && *pos != '\\';
    if (is_plain) {
        strbuf_printf(out, "%s%s", prefix, path);
        return;
    }
    strbuf_printf(out, "\"%s", prefix);
    for (const char *pos = path; *pos; pos++) {
        unsigned char c = (unsigned char)*pos;
        if (c < 0x20 || c == 0x7f || c == '"' || c == '\\')
            strbuf_printf(out, "\\%03o", c);
        else
            strbuf_putc(out, *pos);
    }
    strbuf_putc(out, '"');
}

static int read_fd(int fd, uint64_t at, uint64_t len, char **ret)
{
    auto_free char *data = mem_alloc((size_t)len + 1);

    ssize_t n = pread_all(fd, data, (size_t)len, at);
    if (n < 0 || (uint64_t)n < len)
        return n < 0 ? (int)n : -EIO;
    *ret = take_ptr(&data);
    return 0;
}

/* The host's file as it is now. -ESTALE: it is not the one that the run saw any more. */
static int read_old(int folder_fd, const struct change *change, char **ret)
{
    struct stat st;
    auto_close int fd = beneath_open(folder_fd, change->shown.path, O_RDONLY);

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!change_is_base(change, &st))
        return -ESTALE;
    return read_fd(fd, 0, change->shown.old_size, ret);
}

static void put_text(struct strbuf *out, const struct change *change, int folder_fd, int data_fd)
{
    const struct cay_change *shown = &change->shown;
    auto_free char *old_data = NULL;
    auto_free char *new_data = NULL;
    uint64_t old_len = shown->old_type == CAY_FILE ? shown->old_size : 0;
    uint64_t new_len = shown->type == CAY_FILE ? shown->size : 0;
    int rc = 0;

    if (old_len > DIFF_BYTES_MAX || new_len > DIFF_BYTES_MAX) {
        strbuf_puts(out, "(too large to show)\n");
        return;
    }
    if (old_len > 0)
        rc = read_old(folder_fd, change, &old_data);
    if (rc < 0) {
        strbuf_printf(out,
                      rc == -ESTALE || beneath_is_absent(rc)
                          ? "(the folder's own was changed since the run: not shown)\n"
                          : "(the folder's own cannot be read: %s)\n",
                      strerror(-rc));
        return;
    }
    if (new_len > 0 &&
        (!shown->has_data || read_fd(data_fd, change->data_at, new_len, &new_data))) {
        strbuf_puts(out, "(its data was not kept)\n");
        return;
    }
    const char *old_text = old_data ? old_data : "", *new_text = new_data ? new_data : "";
    if (diff_is_binary(old_text, (size_t)old_len) || diff_is_binary(new_text, (size_t)new_len)) {
        strbuf_printf(out, "(binary: %llu bytes", (unsigned long long)old_len);
        if (shown->type == CAY_FILE)
            strbuf_printf(out, ", now %llu", (unsigned long long)new_len);
        strbuf_puts(out, ")\n");
        return;
    }
    auto_strbuf struct strbuf hunks = { 0 };
    diff_unified(&hunks, old_text, (size_t)old_len, new_text, (size_t)new_len);
    if (hunks.len == 0)
        return;
    strbuf_puts(out, "--- ");
    put_name(out, shown->old_type == CAY_FILE ? "a/" : "",
             shown->old_type == CAY_FILE ? shown->path : "/dev/null");
    strbuf_puts(out, "\n+++ ");
    put_name(out, shown->type == CAY_FILE ? "b/" : "",
             shown->type == CAY_FILE ? shown->path : "/dev/null");
    strbuf_putc(out, '\n');
    strbuf_add(out, hunks.data, hunks.len);
}

static void put_change(struct strbuf *out, const struct change *change, int folder_fd, int data_fd)
{
    const struct cay_change *shown = &change->shown;
    enum cay_file_type type = shown->type ? shown->type : shown->old_type;

    strbuf_printf(out, "%s%s%s ", cay_change_name(shown->change), type == CAY_FILE ? "" : " ",
                  type == CAY_FILE ? "" : cay_file_type_name(type));
    put_name(out, "", shown->path);
    if (shown->target) {
        strbuf_puts(out, " -> ");
        put_name(out, "", shown->target);
    }
    if (shown->change == CAY_CHANGED && shown->type != shown->old_type)
        strbuf_printf(out, " (was a %s)", cay_file_type_name(shown->old_type));
    else if (shown->change == CAY_CHANGED && shown->mode != shown->old_mode && type != CAY_SYMLINK)
        strbuf_printf(out, " (mode %04o, now %04o)", shown->old_mode, shown->mode);
    else if (shown->change == CAY_CREATED && type == CAY_FILE && (shown->mode & 0111))
        strbuf_printf(out, " (mode %04o)", shown->mode);
    strbuf_putc(out, '\n');
    if (shown->type == CAY_FILE || shown->old_type == CAY_FILE)
        put_text(out, change, folder_fd, data_fd);
}

int changes_diff(const struct changes *changes, int data_fd, const char *const *only,
                 cay_data_fn *fn, void *arg, struct cay_error *err)
{
    auto_close int folder_fd = apply_open_folder(changes, err);

    if (folder_fd < 0)
        return -1;
    for (size_t i = 0; i < changes->n; i++) {
        auto_strbuf struct strbuf out = { 0 };
        if (!apply_wants(only, changes->list[i].shown.path))
            continue;
        put_change(&out, &changes->list[i], folder_fd, data_fd);
        if (fn(arg, out.data, out.len) < 0)
            break;
    }
    return 0;
}
