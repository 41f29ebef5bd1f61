/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last of making an image: what every sandbox needs is put into it, and what it is, is written
 * beside it. The image's files are still somebody else's: they are opened without following links,
 * and read up to a size.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cay/image.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "core/op.h"
#include "images/image-make.h"
#include "sys/beneath.h"
#include "sys/file.h"
#include "sys/userns.h"

enum { SMALL_MAX = 1 << 20, STATUS_MAX = 32 << 20, PACKAGES_MAX = 4000, PACKAGE_MAX = 120 };

/* The text of a file of the image; "" where there is none. */
static char *read_inside(const struct cay_image_maker *maker, const char *path, size_t max)
{
    auto_close int fd = beneath_open(maker->root_fd, path, O_RDONLY);
    struct stat st;
    size_t len = 0;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > max)
        return mem_alloc(1);
    char *text = mem_alloc((size_t)st.st_size + 1);
    while (len < (size_t)st.st_size) {
        ssize_t n = read(fd, text + len, (size_t)st.st_size - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    text[len] = '\0';
    return text;
}

/* ---- what every sandbox needs ---- */

static int put_text(struct cay_image_maker *maker, const char *path, const char *text,
                    struct cay_error *err)
{
    const struct cay_image_entry entry = { CAY_IMAGE_FILE, path, NULL, 0644, 0 };

    return cay_image_add(maker, &entry, err) < 0 ||
                   cay_image_write(maker, text, strlen(text), err) < 0
               ? -1
               : 0;
}

static bool has_line(const char *text, const char *start)
{
    size_t len = strlen(start);

    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, start, len) == 0)
            return true;
    }
    return false;
}

/* Before the others: an image may have given the number to somebody else already. */
static int put_user(struct cay_image_maker *maker, const char *path, const char *line,
                    const char *usual, struct cay_error *err)
{
    auto_free char *old = read_inside(maker, path, SMALL_MAX);
    auto_strbuf struct strbuf text = { 0 };

    if (has_line(old, "sandbox:"))
        return 0;
    strbuf_puts(&text, line);
    strbuf_puts(&text, *old ? old : usual);
    return put_text(maker, path, strbuf_str(&text), err);
}

static int put_link(struct cay_image_maker *maker, const char *path, const char *target,
                    struct cay_error *err)
{
    const struct cay_image_entry entry = { CAY_IMAGE_SYMLINK, path, target, 0777, 0 };
    return cay_image_add(maker, &entry, err);
}

static int put_own(struct cay_image_maker *maker, struct cay_error *err)
{
    static const struct {
        const char *path, *text;
        bool is_optional; /* the image's own is as good */
    } files[] = {
        { "etc/hosts", OP_HOSTS, false },
        { "etc/hostname", OP_HOSTNAME, false },
        { "etc/resolv.conf", OP_RESOLV_CONF, false },
        { "etc/nsswitch.conf", OP_NSSWITCH, true },
    };

    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if ((!files[i].is_optional || !image_record_find(maker, files[i].path)) &&
            put_text(maker, files[i].path, files[i].text, err) < 0)
            return -1;
    if (put_user(maker, "etc/passwd", op_passwd_line(&maker->arena, SANDBOX_UID, SANDBOX_GID),
                 "root:x:0:0:root:/:/usr/sbin/nologin\n", err) < 0 ||
        put_user(maker, "etc/group", op_group_line(&maker->arena, SANDBOX_GID), "root:x:0:\n",
                 err) < 0)
        return -1;
    return put_link(maker, "etc/mtab", "/proc/self/mounts", err);
}

/* A folder in its place is empty, or what is in it is nothing that a sandbox should see. */
static int put_var_tmp(struct cay_image_maker *maker, struct cay_error *err)
{
    struct stat st;

    if (beneath_stat(maker->root_fd, "var/tmp", &st) == 0 && S_ISDIR(st.st_mode)) {
        auto_close int var_fd = beneath_open(maker->root_fd, "var", O_RDONLY | O_DIRECTORY);
        if (var_fd < 0 || unlinkat(var_fd, "tmp", AT_REMOVEDIR) < 0)
            return 0; /* it stays as it is: a folder that can't be written */
    }
    return put_link(maker, "var/tmp", "/tmp", err);
}

/* For engines that mount what the sandbox has of its own over a root that can only be read. They
 * are not part of the digest: each image has them. */
static void put_places(const struct cay_image_maker *maker)
{
    static const char *const places[] = {
        "proc", "sys", "dev", "run", "tmp", "sandbox", "workspace"
    };

    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        mkdirat(maker->root_fd, places[i], 0755);
}

/* ---- what it is ---- */

static void put_toml(struct strbuf *out, const char *text, size_t max)
{
    strbuf_putc(out, '"');
    for (size_t i = 0; i < max && text[i]; i++) {
        unsigned char c = (unsigned char)text[i];
        bool is_plain = c >= ' ' && c < 0x7f && c != '"' && c != '\\';
        strbuf_putc(out, is_plain ? (char)c : '?');
    }
    strbuf_putc(out, '"');
}

static size_t value_of(const char *stanza, const char *end, const char *key, const char **ret)
{
    size_t len = strlen(key);

    for (const char *line = stanza; line && line < end; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) != 0)
            continue;
        *ret = line + len;
        return strcspn(*ret, "\n");
    }
    return 0;
}

/* Of Debian and its kin, which list what is installed; other images have none. */
static void put_packages(const struct cay_image_maker *maker, struct strbuf *out)
{
    auto_free char *status = read_inside(maker, "var/lib/dpkg/status", STATUS_MAX);
    size_t n = 0;

    strbuf_puts(out, "packages = [");
    for (const char *stanza = status; *stanza && n < PACKAGES_MAX;) {
        const char *end = strstr(stanza, "\n\n"), *name = "", *version = "", *state = "";
        end = end ? end : stanza + strlen(stanza);
        size_t name_len = value_of(stanza, end, "Package: ", &name);
        size_t version_len = value_of(stanza, end, "Version: ", &version);
        size_t state_len = value_of(stanza, end, "Status: ", &state);
        bool is_installed =
            state_len >= 10 && memcmp(state + state_len - 10, " installed", 10) == 0;
        if (is_installed && name_len > 0) {
            char text[PACKAGE_MAX];
            snprintf(text, sizeof text, "%.*s %.*s", (int)MIN(name_len, 60U), name,
                     (int)MIN(version_len, 50U), version);
            strbuf_puts(out, n++ ? ",\n    " : "\n    ");
            put_toml(out, text, PACKAGE_MAX);
        }
        stanza = end + strspn(end, "\n");
    }
    strbuf_puts(out, n ? ",\n]\n" : "]\n");
}

int cay_image_seal(struct cay_image_maker *maker, const char *from, struct cay_error *err)
{
    const struct cay_image_entry none = { CAY_IMAGE_DIR, "/", NULL, 0755, 0 };
    auto_strbuf struct strbuf out = { 0 };
    char digest[72], now[32];
    uint64_t files = 0;

    if (put_own(maker, err) < 0 || put_var_tmp(maker, err) < 0 ||
        cay_image_add(maker, &none, err) < 0)
        return -1;
    put_places(maker);
    for (size_t i = 0; i < maker->n; i++)
        files += maker->records[i].type == 'f';
    image_record_digest(maker, digest);
    clock_timestamp(now);
    strbuf_printf(&out, "name = \"%s\"\ndigest = \"%s\"\ncreated = \"%s\"\nfrom = ", maker->name,
                  digest, now);
    put_toml(&out, from, 200);
    strbuf_printf(&out, "\nbytes = %llu\nfiles = %llu\n", (unsigned long long)maker->bytes,
                  (unsigned long long)files);
    put_packages(maker, &out);
    auto_close int fd =
        openat(maker->fd, "image.toml", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    int rc = fd < 0 || fchmod(fd, 0644) < 0 ? -errno : write_all(fd, strbuf_str(&out), out.len);
    return rc < 0 ? cay_fail_errno(err, -rc, "image: write image.toml") : 0;
}
