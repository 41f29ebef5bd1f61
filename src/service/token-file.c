/* SPDX-License-Identifier: Apache-2.0 */
#include "service/token-file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"

bool token_file_usual(char *out, size_t size)
{
    const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

    if (geteuid() == 0)
        return snprintf(out, size, "/etc/cay/tokens") < (int)size;
    if (base && *base == '/')
        return snprintf(out, size, "%s/cay/tokens", base) < (int)size;
    return home && *home == '/' && snprintf(out, size, "%s/.config/cay/tokens", home) < (int)size;
}

/* ---- reading it ---- */

/* The file as it is; empty where it is not there yet. Its folder is locked meanwhile. */
struct file {
    const char *path;
    char folder[PATH_MAX];
    int folder_fd;
    struct strbuf text;
    struct tokens *tokens; /* NULL: there is none yet */
};

static void close_file(struct file *file)
{
    close_fd(&file->folder_fd);
    if (file->text.data)
        explicit_bzero(file->text.data, file->text.len);
    strbuf_done(&file->text);
    tokens_free(file->tokens);
}

static int read_text(struct file *file, int fd, struct cay_error *err)
{
    char buf[4096];
    ssize_t n;

    while ((n = read(fd, buf, sizeof buf)) > 0)
        strbuf_add(&file->text, buf, (size_t)n);
    explicit_bzero(buf, sizeof buf);
    return n < 0 ? cay_fail_errno(err, errno, "read %s", file->path) : 0;
}

static int fail_open(const char *path, struct cay_error *err)
{
    if (errno != ENOENT)
        return cay_fail_errno(err, errno, "open %s", path);
    cay_fail(err, CAY_E_NOTFOUND, "%s: there are no tokens yet", path);
    return cay_hint(err, "`cay token add TENANT` makes one");
}

/* ~/.config may be missing, too. */
static int make_folder(const char *path)
{
    char parent[PATH_MAX];

    if (mkdir(path, 0755) == 0 || errno == EEXIST)
        return 0;
    if (errno != ENOENT)
        return -1;
    snprintf(parent, sizeof parent, "%s", path);
    if (mkdir(dirname(parent), 0755) < 0)
        return -1;
    return mkdir(path, 0755);
}

/* Whether it could or not, close_file comes after it. */
static int open_file(struct file *file, const char *path, bool make, struct cay_error *err)
{
    char copy[PATH_MAX];

    *file = (struct file){ .path = path, .folder_fd = -1 };
    if (snprintf(copy, sizeof copy, "%s", path) >= (int)sizeof copy)
        return cay_fail(err, CAY_E_USAGE, "%.80s…: the name is too long", path);
    snprintf(file->folder, sizeof file->folder, "%s", dirname(copy));
    if (make && make_folder(file->folder) < 0)
        return cay_fail_errno(err, errno, "make %s", file->folder);
    file->folder_fd = open(file->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file->folder_fd < 0 && errno == ENOENT)
        return fail_open(path, err);
    if (file->folder_fd < 0 || (make && flock(file->folder_fd, LOCK_EX) < 0))
        return cay_fail_errno(err, errno, "open %s", file->folder);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT && make)
        return 0;
    if (fd < 0)
        return fail_open(path, err);
    /* What a server would refuse is nothing to add to. */
    if (tokens_load_fd(fd, path, &file->tokens, err) < 0)
        return -1;
    return read_text(file, fd, err);
}

/* ---- writing it ---- */

static int write_file(const struct file *file, const struct strbuf *text, struct cay_error *err)
{
    char copy[PATH_MAX], temp[NAME_MAX + 8];
    struct stat st;

    snprintf(copy, sizeof copy, "%s", file->path);
    const char *name = basename(copy);
    snprintf(temp, sizeof temp, ".%.*s.new", NAME_MAX - 8, name);
    bool is_there = fstatat(file->folder_fd, name, &st, 0) == 0;
    unlinkat(file->folder_fd, temp, 0);
    auto_close int fd =
        openat(file->folder_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return cay_fail_errno(err, errno, "write to %s", file->folder);
    ssize_t n = write(fd, strbuf_str(text), text->len);
    if (n != (ssize_t)text->len)
        cay_fail_errno(err, n < 0 ? errno : ENOSPC, "write %s", file->path);
    else if ((is_there &&
              (fchown(fd, st.st_uid, st.st_gid) < 0 || fchmod(fd, st.st_mode & 0777) < 0)) ||
             fsync(fd) < 0 || renameat(file->folder_fd, temp, file->folder_fd, name) < 0 ||
             fsync(file->folder_fd) < 0)
        cay_fail_errno(err, errno, "write %s", file->path);
    else
        return 0;
    unlinkat(file->folder_fd, temp, 0);
    return -1;
}

/* A line that the server would not read must never be in the file: it is read as one first. */
static int check_line(const char *line, struct cay_error *err)
{
    struct tokens *tokens;
    auto_close int fd = memfd_create("tokens", MFD_CLOEXEC);

    if (fd < 0 || fchmod(fd, 0600) < 0 || write(fd, line, strlen(line)) < 0)
        return cay_fail_errno(err, errno, "check the line");
    if (tokens_load_fd(fd, "scopes", &tokens, err) < 0)
        return -1;
    bool is_one = tokens_count(tokens) == 1;
    tokens_free(tokens);
    return is_one ? 0 : cay_fail(err, CAY_E_USAGE, "scopes: more than one line");
}

static int add_line(const char *path, const struct strbuf *line, struct cay_error *err)
{
    struct file file;

    int rc = open_file(&file, path, true, err);
    if (rc == 0) {
        if (file.text.len > 0 && file.text.data[file.text.len - 1] != '\n')
            strbuf_putc(&file.text, '\n');
        strbuf_add(&file.text, line->data, line->len);
        rc = write_file(&file, &file.text, err);
    }
    close_file(&file);
    return rc;
}

int token_file_add(const char *path, const char *tenant, const char *scopes,
                   char ret[static TOKEN_TEXT_SIZE], struct cay_error *err)
{
    struct strbuf line = { 0 };
    char token[TOKEN_TEXT_SIZE];

    if (!token_is_tenant(tenant))
        return cay_fail(err, CAY_E_USAGE, "'%.64s': " TENANT_RULE, tenant);
    int rc = token_random(token, err);
    if (rc == 0) {
        strbuf_printf(&line, "%s %s%s%s\n", token, tenant, scopes ? " " : "", scopes ? scopes : "");
        rc = check_line(strbuf_str(&line), err);
    }
    if (rc == 0)
        rc = add_line(path, &line, err);
    if (rc == 0)
        memcpy(ret, token, sizeof token);
    explicit_bzero(token, sizeof token);
    if (line.data)
        explicit_bzero(line.data, line.len);
    strbuf_done(&line);
    return rc;
}

/* ---- its lines ---- */

static void id_of(const char *token, size_t len, char ret[static TOKEN_ID_LEN + 1])
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA2_CTX ctx;

    SHA256Init(&ctx);
    SHA256Update(&ctx, (const uint8_t *)token, len);
    SHA256Final(digest, &ctx);
    explicit_bzero(&ctx, sizeof ctx);
    for (size_t i = 0; i < TOKEN_ID_LEN / 2; i++)
        snprintf(ret + 2 * i, 3, "%02x", digest[i]);
}

/* The next line of the text, and the token that begins it; false past the last one. */
static bool next_line(const struct file *file, size_t *pos, const char **ret, size_t *ret_len,
                      const char **ret_token, size_t *ret_token_len)
{
    const char *text = strbuf_str(&file->text) + *pos;

    if (*pos >= file->text.len)
        return false;
    *ret = text;
    *ret_len = strcspn(text, "\n");
    *ret_len += text[*ret_len] == '\n';
    *pos += *ret_len;
    *ret_token = text + strspn(text, " \t\r");
    *ret_token_len = **ret_token == '#' ? 0 : strcspn(*ret_token, " \t\r\n");
    return true;
}

int token_file_list(const char *path, token_file_fn *fn, void *arg, struct cay_error *err)
{
    struct file file;
    const char *line, *token;
    size_t pos = 0, len, token_len;
    char id[TOKEN_ID_LEN + 1];
    struct token_owner owner;

    int rc = open_file(&file, path, false, err);
    while (rc == 0 && next_line(&file, &pos, &line, &len, &token, &token_len))
        if (token_len > 0 && tokens_check(file.tokens, token, token_len, &owner)) {
            id_of(token, token_len, id);
            fn(arg, id, &owner);
        }
    close_file(&file);
    return rc;
}

int token_file_remove(const char *path, const char *id_or_tenant, struct cay_error *err)
{
    struct file file;
    struct strbuf kept = { 0 };
    const char *line, *token;
    size_t pos = 0, len, token_len, n_removed = 0;
    char id[TOKEN_ID_LEN + 1];
    struct token_owner owner;

    /* It may not be there; nothing is made then. */
    if (access(path, F_OK) < 0)
        return fail_open(path, err);
    int rc = open_file(&file, path, true, err);
    while (rc == 0 && next_line(&file, &pos, &line, &len, &token, &token_len)) {
        bool is_token = token_len > 0 && tokens_check(file.tokens, token, token_len, &owner);
        if (is_token)
            id_of(token, token_len, id);
        if (is_token && (strcmp(id, id_or_tenant) == 0 || strcmp(owner.tenant, id_or_tenant) == 0))
            n_removed++;
        else
            strbuf_add(&kept, line, len);
    }
    if (rc == 0 && n_removed == 0) {
        rc = cay_fail(err, CAY_E_NOTFOUND, "%s: no token with the id or tenant '%.64s'", path,
                      id_or_tenant);
        cay_hint(err, "`cay token list` shows them");
    } else if (rc == 0 && n_removed == tokens_count(file.tokens)) {
        rc = cay_fail(err, CAY_E_USAGE, "%s: would be left without a token", path);
        cay_hint(err, "add another one first, or remove the file");
    } else if (rc == 0) {
        rc = write_file(&file, &kept, err);
    }
    close_file(&file);
    if (kept.data)
        explicit_bzero(kept.data, kept.len);
    strbuf_done(&kept);
    return rc < 0 ? -1 : (int)n_removed;
}
