/* SPDX-License-Identifier: Apache-2.0 */
#include "service/token.h"

#include <errno.h>
#include <fcntl.h>
#include <sha2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/suggest.h"

struct entry {
    uint8_t digest[SHA256_DIGEST_LENGTH];
    struct token_owner owner;
};

struct tokens {
    size_t n, room, n_weak;
    struct entry *entries;
};

static const struct {
    const char *name;
    unsigned bit;
} scopes[] = {
#define SCOPE_ROW(id, name, is_default, meaning) { name, SCOPE_##id },
    SCOPES(SCOPE_ROW)
#undef SCOPE_ROW
};

void scopes_text(unsigned bits, char out[static 64])
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(scopes); i++)
        if (bits & scopes[i].bit)
            used +=
                (size_t)snprintf(out + used, 64 - used, "%s%s", used ? "," : "", scopes[i].name);
}

static void digest_of(const char *token, size_t len, uint8_t out[static SHA256_DIGEST_LENGTH])
{
    SHA2_CTX ctx;

    SHA256Init(&ctx);
    SHA256Update(&ctx, (const uint8_t *)token, len);
    SHA256Final(out, &ctx);
    explicit_bzero(&ctx, sizeof ctx);
}

/* The same steps whatever the bytes are: 0 when equal. */
static unsigned difference(const uint8_t *a, const uint8_t *b)
{
    volatile unsigned sum = 0;

    for (size_t i = 0; i < SHA256_DIGEST_LENGTH; i++)
        sum |= (unsigned)(a[i] ^ b[i]);
    return sum;
}

bool tokens_check(const struct tokens *tokens, const char *token, size_t len,
                  struct token_owner *ret)
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    size_t found = SIZE_MAX;

    if (len > TOKEN_LEN_MAX)
        return false;
    digest_of(token, len, digest);
    for (size_t i = 0; i < tokens->n; i++) {
        /* All ones where they are equal, without a branch. */
        size_t is_equal = (size_t)0 - (size_t)(difference(digest, tokens->entries[i].digest) == 0);
        found = (found & ~is_equal) | (i & is_equal);
    }
    if (found == SIZE_MAX)
        return false;
    *ret = tokens->entries[found].owner;
    return true;
}

const char *token_of_header(const char *value, size_t len, size_t *ret_len)
{
    static const char scheme[] = "Bearer";
    const size_t n = sizeof scheme - 1;

    if (len <= n || strncasecmp(value, scheme, n) != 0 || value[n] != ' ')
        return NULL;
    const char *token = value + n, *end = value + len;
    while (token < end && *token == ' ')
        token++;
    for (const char *pos = token; pos < end; pos++)
        if (*pos <= 0x20 || *pos >= 0x7f)
            return NULL;
    *ret_len = (size_t)(end - token);
    return *ret_len > 0 && *ret_len <= TOKEN_LEN_MAX ? token : NULL;
}

/* ---- the file ---- */

struct line {
    const char *file;
    unsigned number;
};

static int fail_line(const struct line *line, struct cay_error *err, const char *what)
{
    return cay_fail(err, CAY_E_USAGE, "%s:%u: %s", line->file, line->number, what);
}

static int parse_scope(const struct line *line, const char *word, unsigned *bits,
                       struct cay_error *err)
{
    const char *names[ARRAY_LEN(scopes)];

    for (size_t i = 0; i < ARRAY_LEN(scopes); i++) {
        names[i] = scopes[i].name;
        if (strcmp(word, scopes[i].name) == 0) {
            *bits |= scopes[i].bit == SCOPE_ADMIN ? SCOPES_ALL : scopes[i].bit;
            return 0;
        }
    }
    /* A word that is near to no scope may be anything, a token in the wrong place too. */
    const char *near = suggest(word, names, ARRAY_LEN(scopes));
    fail_line(line, err, "unknown scope");
    if (near)
        return cay_hint(err, "did you mean %s?", near);
    return cay_hint(err, "execute, read, cancel, bypass, metrics, admin; commas, no spaces");
}

static int parse_scopes(const struct line *line, char *text, unsigned *ret, struct cay_error *err)
{
    unsigned bits = 0;

    if (*text == ',' || text[strlen(text) - 1] == ',' || strstr(text, ",,"))
        return fail_line(line, err, "empty scope between commas");
    for (char *rest = NULL, *word = strtok_r(text, ",", &rest); word;
         word = strtok_r(NULL, ",", &rest))
        if (parse_scope(line, word, &bits, err) < 0)
            return -1;
    *ret = bits;
    return 0;
}

bool token_is_tenant(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t len = strlen(name);

    return len > 0 && len <= TENANT_NAME_MAX && strspn(name, allowed) == len;
}

static int parse_tenant(const struct line *line, const char *text, char *ret, struct cay_error *err)
{
    if (!token_is_tenant(text))
        return fail_line(line, err, TENANT_RULE);
    memcpy(ret, text, strlen(text) + 1);
    return 0;
}

static struct entry *add_entry(struct tokens *tokens)
{
    if (tokens->n == tokens->room) {
        tokens->room = tokens->room ? tokens->room * 2 : 8;
        tokens->entries = mem_resize(tokens->entries, tokens->room * sizeof *tokens->entries);
    }
    struct entry *entry = &tokens->entries[tokens->n++];
    *entry = (struct entry){ .owner = { TENANT_DEFAULT, SCOPES_DEFAULT } };
    return entry;
}

static int parse_token(const struct line *line, const char *text, struct tokens *tokens,
                       struct entry *entry, struct cay_error *err)
{
    size_t len = strlen(text);

    for (const char *pos = text; *pos; pos++)
        if (*pos <= 0x20 || *pos >= 0x7f)
            return fail_line(line, err, "a token is printable ASCII");
    if (len > TOKEN_LEN_MAX)
        return fail_line(line, err, "a token has at most 512 characters");
    tokens->n_weak += len < TOKEN_LEN_GOOD;
    digest_of(text, len, entry->digest);
    for (const struct entry *other = tokens->entries; other < entry; other++)
        if (memcmp(other->digest, entry->digest, sizeof entry->digest) == 0)
            return fail_line(line, err, "duplicate token");
    return 0;
}

static int parse_line(const struct line *line, char *text, struct tokens *tokens,
                      struct cay_error *err)
{
    static const char blanks[] = " \t\r";
    char *words[3] = { NULL };
    size_t n = 0;

    /* A token can hold a "#"; a comment begins a line or follows a blank. */
    for (char *rest = NULL, *word = strtok_r(text, blanks, &rest); word && *word != '#';
         word = strtok_r(NULL, blanks, &rest)) {
        if (n == ARRAY_LEN(words))
            return fail_line(line, err, "more than a token, a tenant and a list of scopes");
        words[n++] = word;
    }
    if (n == 0)
        return 0;
    if (tokens->n == TOKENS_MAX)
        return fail_line(line, err, "more than 4096 tokens");
    struct entry *entry = add_entry(tokens);
    if (parse_token(line, words[0], tokens, entry, err) < 0 ||
        (words[1] && parse_tenant(line, words[1], entry->owner.tenant, err) < 0) ||
        (words[2] && parse_scopes(line, words[2], &entry->owner.scopes, err) < 0))
        return -1;
    return 0;
}

static int parse_text(const char *path, char *text, size_t len, struct tokens *tokens,
                      struct cay_error *err)
{
    struct line line = { path, 1 };

    for (char *pos = text, *end = text + len; pos < end; line.number++) {
        char *stop = memchr(pos, '\n', (size_t)(end - pos));
        if (!stop)
            stop = end; /* there is a NUL */
        *stop = '\0';
        if (memchr(pos, '\0', (size_t)(stop - pos)))
            return fail_line(&line, err, "holds a NUL");
        if (parse_line(&line, pos, tokens, err) < 0)
            return -1;
        pos = stop + 1;
    }
    if (tokens->n == 0) {
        cay_fail(err, CAY_E_USAGE, "%s: holds no token", path);
        return cay_hint(err, "a line each: TOKEN [TENANT [SCOPE,…]]");
    }
    return 0;
}

static int check_file(int fd, const char *path, struct cay_error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return cay_fail_errno(err, errno, "stat %s", path);
    if (!S_ISREG(st.st_mode))
        return cay_fail(err, CAY_E_USAGE, "%s: is not a file", path);
    if (st.st_mode & 0022) {
        cay_fail(err, CAY_E_POLICY, "%s: others can write to it (mode %04o)", path,
                 st.st_mode & 07777);
        return cay_hint(err, "chmod 600 %s", path);
    }
    if (st.st_uid != 0 && st.st_uid != geteuid()) {
        cay_fail(err, CAY_E_POLICY, "%s: belongs to uid %u, which is neither root nor this user",
                 path, st.st_uid);
        return cay_hint(err, "chown %u %s", geteuid(), path);
    }
    return 0;
}

int tokens_load_fd(int fd, const char *path, struct tokens **ret, struct cay_error *err)
{
    size_t len = 0;

    if (check_file(fd, path, err) < 0)
        return -1;
    auto_free char *text = mem_alloc(TOKENS_FILE_MAX + 2);
    for (ssize_t n; (n = pread(fd, text + len, TOKENS_FILE_MAX + 1 - len, (off_t)len)) != 0;
         len += (size_t)n) {
        if (n < 0)
            return cay_fail_errno(err, errno, "read %s", path);
        if (len + (size_t)n > TOKENS_FILE_MAX)
            return cay_fail(err, CAY_E_LIMIT, "%s: larger than %d bytes", path, TOKENS_FILE_MAX);
    }
    struct tokens *tokens = mem_alloc(sizeof *tokens);
    int rc = parse_text(path, text, len, tokens, err);
    explicit_bzero(text, len);
    if (rc < 0)
        tokens_free(tokens);
    else
        *ret = tokens;
    return rc;
}

int tokens_load(const char *path, struct tokens **ret, struct cay_error *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return cay_fail_errno(err, errno, "open %s", path);
    return tokens_load_fd(fd, path, ret, err);
}

int tokens_reload(struct tokens **tokens, const char *path, struct cay_error *err)
{
    struct tokens *fresh;

    if (tokens_load(path, &fresh, err) < 0)
        return -1;
    tokens_free(*tokens);
    *tokens = fresh;
    return 0;
}

struct tokens *tokens_single(const char *token)
{
    struct tokens *tokens = mem_alloc(sizeof *tokens);
    struct entry *entry = add_entry(tokens);

    digest_of(token, strlen(token), entry->digest);
    entry->owner.scopes = SCOPES_ALL;
    return tokens;
}

void tokens_free(struct tokens *tokens)
{
    if (!tokens)
        return;
    free(tokens->entries);
    free(tokens);
}

size_t tokens_count(const struct tokens *tokens)
{
    return tokens->n;
}

size_t tokens_weak(const struct tokens *tokens)
{
    return tokens->n_weak;
}

const char *tokens_tenant_at(const struct tokens *tokens, size_t i)
{
    return i < tokens->n ? tokens->entries[i].owner.tenant : NULL;
}

/* ---- making one ---- */

enum { SECRET_BYTES = 32, SECRET_CHARS = (SECRET_BYTES * 4 + 2) / 3 };

/* RFC 4648 section 5, without padding: fits a header, a link and a shell's word. */
static void make_text(char ret[static TOKEN_TEXT_SIZE], const uint8_t *secret, size_t len)
{
    auto_strbuf struct strbuf text = { 0 };

    base64_encode(&text, secret, len);
    size_t n = strcspn(strbuf_str(&text), "=");
    memcpy(ret, text.data, n);
    ret[n] = '\0';
    for (char *pos = ret; *pos; pos++)
        *pos = *pos == '+' ? '-' : *pos == '/' ? '_' : *pos;
    explicit_bzero(text.data, text.len);
}

static int write_file(int dir_fd, const char *temp, const char *name, const char *token,
                      struct cay_error *err)
{
    char line[TOKEN_TEXT_SIZE + 1];
    int len = snprintf(line, sizeof line, "%s\n", token);

    /* What an interrupted call left; O_EXCL follows no link that somebody else put there. */
    unlinkat(dir_fd, temp, 0);
    auto_close int fd = openat(dir_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return cay_fail_errno(err, errno, "make %s", temp);
    ssize_t n = write(fd, line, (size_t)len);
    explicit_bzero(line, sizeof line);
    if (n != len)
        return cay_fail_errno(err, n < 0 ? errno : ENOSPC, "write %s", temp);
    if (fchmod(fd, 0600) < 0 || fsync(fd) < 0 || renameat(dir_fd, temp, dir_fd, name) < 0)
        return cay_fail_errno(err, errno, "write %s", name);
    return 0;
}

int token_random(char ret[static TOKEN_TEXT_SIZE], struct cay_error *err)
{
    uint8_t secret[SECRET_BYTES];

    if (getrandom(secret, sizeof secret, 0) != sizeof secret)
        return cay_fail_errno(err, errno, "getrandom");
    make_text(ret, secret, sizeof secret);
    explicit_bzero(secret, sizeof secret);
    return 0;
}

int token_make(int dir_fd, const char *name, char ret[static TOKEN_TEXT_SIZE],
               struct cay_error *err)
{
    char temp[256], token[TOKEN_TEXT_SIZE];

    if (snprintf(temp, sizeof temp, "%s.new", name) >= (int)sizeof temp)
        return cay_fail(err, CAY_E_USAGE, "%.80s…: the name is too long", name);
    if (token_random(token, err) < 0)
        return -1;
    if (write_file(dir_fd, temp, name, token, err) < 0) {
        unlinkat(dir_fd, temp, 0);
        return -1;
    }
    memcpy(ret, token, sizeof token);
    return 0;
}

/* Whether it was read. Who could have looked at it may have put it there, too. */
static bool read_own(int dir_fd, const char *name, char ret[static TOKEN_TEXT_SIZE])
{
    static const char chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char line[SECRET_CHARS + 2] = { 0 };
    struct stat st;

    auto_close int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
        st.st_uid != geteuid() || (st.st_mode & 07777) != 0600 || st.st_size != SECRET_CHARS + 1)
        return false;
    bool is_whole = read(fd, line, SECRET_CHARS + 1) == SECRET_CHARS + 1 &&
                    strspn(line, chars) == SECRET_CHARS && line[SECRET_CHARS] == '\n';
    if (is_whole) {
        memcpy(ret, line, SECRET_CHARS);
        ret[SECRET_CHARS] = '\0';
    }
    explicit_bzero(line, sizeof line);
    return is_whole;
}

int token_keep(int dir_fd, const char *name, char ret[static TOKEN_TEXT_SIZE],
               struct cay_error *err)
{
    if (read_own(dir_fd, name, ret))
        return 0;
    return token_make(dir_fd, name, ret, err) < 0 ? -1 : 1;
}
