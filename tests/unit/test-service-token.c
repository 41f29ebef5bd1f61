/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "../lib/tmp-folder.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "service/token-file.h"

#define TOKEN_A "alpha-0123456789abcdef"
#define TOKEN_B "bravo-0123456789abcdef"
#define TOKEN_C "charl#-0123456789abcde"

struct folder {
    struct tmp_folder top;
    char file[96];
};

static int make_folder(void **state)
{
    struct folder *folder = mem_alloc(sizeof *folder);

    tmp_folder_make(&folder->top);
    snprintf(folder->file, sizeof folder->file, "%s/tokens", folder->top.path);
    *state = folder;
    return 0;
}

static int remove_folder(void **state)
{
    struct folder *folder = *state;

    tmp_folder_remove(&folder->top);
    free(folder);
    return 0;
}

static void write_file(const struct folder *folder, const char *text, size_t len, mode_t mode)
{
    auto_close int fd = open(folder->file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    assert_int_equal(fchmod(fd, mode), 0);
}

static void check_owner(const struct tokens *tokens, const char *token, const char *tenant,
                        unsigned scopes)
{
    struct token_owner owner = { 0 };

    assert_true(tokens_check(tokens, token, strlen(token), &owner));
    assert_string_equal(owner.tenant, tenant);
    assert_int_equal(owner.scopes, scopes);
}

static void test_load(void **state)
{
    static const char text[] = "# who may do what\n"
                               "\n"
                               "  \t\r\n" TOKEN_A "\n" TOKEN_B "\tacme   # theirs\r\n"
                               "  " TOKEN_C " acme.eu read,metrics\n"
                               "administrator-0123456789 ops admin";
    struct tokens *tokens;
    struct cay_error err = { 0 };
    struct token_owner owner = { .scopes = 77 };

    write_file(*state, text, strlen(text), 0600);
    if (tokens_load(((struct folder *)*state)->file, &tokens, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(tokens_count(tokens), 4);
    assert_int_equal(tokens_weak(tokens), 0);
    check_owner(tokens, TOKEN_A, TENANT_DEFAULT, SCOPE_EXECUTE | SCOPE_READ | SCOPE_CANCEL);
    check_owner(tokens, TOKEN_B, "acme", SCOPES_DEFAULT);
    check_owner(tokens, TOKEN_C, "acme.eu", SCOPE_READ | SCOPE_METRICS);
    check_owner(tokens, "administrator-0123456789", "ops", SCOPES_ALL);
    assert_string_equal(tokens_tenant_at(tokens, 1), "acme");
    assert_null(tokens_tenant_at(tokens, 4));

    static const char *const wrong[] = {
        "", "a", "alpha-0123456789abcde", TOKEN_A "0", "Alpha-0123456789abcdef", TOKEN_A " ", "#"
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        assert_false(tokens_check(tokens, wrong[i], strlen(wrong[i]), &owner));
    assert_false(tokens_check(tokens, TOKEN_A "\0", sizeof TOKEN_A, &owner));
    assert_int_equal(owner.scopes, 77);
    tokens_free(tokens);
}

/* Each with the line, none with the token. */
static void test_errors(void **state)
{
    static const struct {
        const char *text, *part, *hint;
    } rows[] = {
        { "", "holds no token", "TOKEN [TENANT" },
        { "# nothing\n", "holds no token", "" },
        { TOKEN_A " a b\n", "tokens:1: unknown scope", "execute" },
        { "\n\n" TOKEN_A " a exekute\n", "tokens:3: unknown scope", "execute?" },
        { TOKEN_A " a read,,cancel\n", "tokens:1: empty scope", "" },
        { TOKEN_A " a read,\n", "tokens:1: empty scope", "" },
        { TOKEN_A " a ,\n", "tokens:1: empty scope", "" },
        { TOKEN_A " a read cancel\n", "tokens:1: more than a token", "" },
        { TOKEN_A " a/b\n", "tokens:1: a tenant's name", "" },
        { TOKEN_A "\n" TOKEN_A " other\n", "tokens:2: duplicate token", "" },
        { TOKEN_A "\xc3\xa4\n", "tokens:1: a token is printable ASCII", "" },
    };
    const struct folder *folder = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct tokens *tokens = NULL;
        struct cay_error err = { 0 };
        write_file(folder, rows[i].text, strlen(rows[i].text), 0600);
        if (tokens_load(folder->file, &tokens, &err) >= 0)
            fail_msg("accepted: %s", rows[i].part);
        assert_int_equal(err.kind, CAY_E_USAGE);
        if (!strstr(err.msg, rows[i].part) || !strstr(err.hint, rows[i].hint))
            fail_msg("%s: \"%s\" \"%s\"", rows[i].part, err.msg, err.hint);
        assert_null(strstr(err.msg, "alpha"));
        assert_null(tokens);
    }
    struct tokens *tokens;
    struct cay_error err = { 0 };
    write_file(folder, TOKEN_A "\0x\n", sizeof TOKEN_A + 2, 0600);
    assert_true(tokens_load(folder->file, &tokens, &err) < 0);
    assert_non_null(strstr(err.msg, "tokens:1: holds a NUL"));
}

static void test_bounds(void **state)
{
    const struct folder *folder = *state;
    auto_strbuf struct strbuf text = { 0 };
    struct tokens *tokens;
    struct cay_error err = { 0 };

    for (int i = 0; i < TOKENS_MAX; i++)
        strbuf_printf(&text, "token-number-%08d\n", i);
    write_file(folder, text.data, text.len, 0600);
    assert_int_equal(tokens_load(folder->file, &tokens, &err), 0);
    check_owner(tokens, "token-number-00004095", TENANT_DEFAULT, SCOPES_DEFAULT);
    tokens_free(tokens);

    strbuf_printf(&text, "one-too-many-0123456789\n");
    write_file(folder, text.data, text.len, 0600);
    assert_true(tokens_load(folder->file, &tokens, &err) < 0);
    assert_non_null(strstr(err.msg, "tokens:4097: more than 4096"));

    auto_free char *large = mem_alloc(TOKENS_FILE_MAX + 1);
    memset(large, '#', TOKENS_FILE_MAX + 1);
    write_file(folder, large, TOKENS_FILE_MAX + 1, 0600);
    assert_true(tokens_load(folder->file, &tokens, &err) < 0);
    assert_int_equal(err.kind, CAY_E_LIMIT);

    write_file(folder, "short\n", 6, 0600);
    assert_int_equal(tokens_load(folder->file, &tokens, &err), 0);
    assert_int_equal(tokens_weak(tokens), 1);
    tokens_free(tokens);
}

static void test_mode(void **state)
{
    static const mode_t modes[] = { 0620, 0602, 0664, 0666 };
    const struct folder *folder = *state;
    struct tokens *tokens;
    char hint[128];

    snprintf(hint, sizeof hint, "chmod 600 %s", folder->file);
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct cay_error err = { 0 };
        write_file(folder, TOKEN_A "\n", strlen(TOKEN_A) + 1, modes[i]);
        assert_true(tokens_load(folder->file, &tokens, &err) < 0);
        assert_int_equal(err.kind, CAY_E_POLICY);
        assert_non_null(strstr(err.hint, hint));
    }
    struct cay_error err = { 0 };
    assert_true(tokens_load(folder->top.path, &tokens, &err) < 0);
    assert_true(tokens_load("/nonexistent/tokens", &tokens, &err) < 0);
    assert_int_equal(err.errnum, ENOENT);
    write_file(folder, TOKEN_A "\n", strlen(TOKEN_A) + 1, 0400);
    assert_int_equal(tokens_load(folder->file, &tokens, &err), 0);
    tokens_free(tokens);
}

static void test_reload(void **state)
{
    const struct folder *folder = *state;
    struct tokens *tokens;
    struct cay_error err = { 0 };
    struct token_owner owner;

    write_file(folder, TOKEN_A "\n", strlen(TOKEN_A) + 1, 0600);
    assert_int_equal(tokens_load(folder->file, &tokens, &err), 0);
    write_file(folder, TOKEN_B " a nonsense\n", strlen(TOKEN_B) + 12, 0600);
    assert_true(tokens_reload(&tokens, folder->file, &err) < 0);
    check_owner(tokens, TOKEN_A, TENANT_DEFAULT, SCOPES_DEFAULT);
    assert_false(tokens_check(tokens, TOKEN_B, strlen(TOKEN_B), &owner));
    write_file(folder, TOKEN_B " a\n", strlen(TOKEN_B) + 3, 0600);
    assert_int_equal(tokens_reload(&tokens, folder->file, &err), 0);
    check_owner(tokens, TOKEN_B, "a", SCOPES_DEFAULT);
    assert_false(tokens_check(tokens, TOKEN_A, strlen(TOKEN_A), &owner));
    tokens_free(tokens);
}

static void test_make(void **state)
{
    const struct folder *folder = *state;
    char first[TOKEN_TEXT_SIZE], second[TOKEN_TEXT_SIZE];
    struct cay_error err = { 0 };
    struct tokens *tokens;
    struct stat st;

    unlink(folder->file);
    /* A link in the way is replaced, not followed. */
    assert_int_equal(symlinkat("elsewhere", folder->top.fd, "tokens.new"), 0);
    assert_int_equal(token_make(folder->top.fd, "tokens", first, &err), 0);
    assert_int_equal(strlen(first), 43);
    assert_int_equal(strspn(first, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   "0123456789-_"),
                     43);
    assert_int_equal(lstat(folder->file, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(faccessat(folder->top.fd, "tokens.new", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    assert_int_equal(faccessat(folder->top.fd, "elsewhere", F_OK, 0), -1);
    assert_int_equal(tokens_load(folder->file, &tokens, &err), 0);
    check_owner(tokens, first, TENANT_DEFAULT, SCOPES_DEFAULT);
    tokens_free(tokens);

    assert_int_equal(token_make(folder->top.fd, "tokens", second, &err), 0);
    assert_string_not_equal(first, second);
    tokens = tokens_single(second);
    check_owner(tokens, second, TENANT_DEFAULT, SCOPES_ALL);
    tokens_free(tokens);
    assert_true(token_make(folder->top.fd, "no/where", second, &err) < 0);
    assert_int_equal(err.errnum, ENOENT);
}

/* One that token_make wrote stays; what anybody else may have seen or written does not. */
static void test_keeping(void **state)
{
    const struct folder *folder = *state;
    char first[TOKEN_TEXT_SIZE], again[TOKEN_TEXT_SIZE];
    struct cay_error err = { 0 };
    struct stat st;

    unlink(folder->file);
    assert_int_equal(token_keep(folder->top.fd, "tokens", first, &err), 1);
    assert_int_equal(strlen(first), 43);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(token_keep(folder->top.fd, "tokens", again, &err), 0);
        assert_string_equal(again, first);
    }
    static const mode_t modes[] = { 0640, 0604, 0660, 0700, 04600 };
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        assert_int_equal(chmod(folder->file, modes[i]), 0);
        assert_int_equal(token_keep(folder->top.fd, "tokens", again, &err), 1);
        assert_string_not_equal(again, first);
        assert_int_equal(stat(folder->file, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        memcpy(first, again, sizeof first);
    }
    if (geteuid() == 0) {
        assert_int_equal(chown(folder->file, 65534, 65534), 0);
        assert_int_equal(token_keep(folder->top.fd, "tokens", again, &err), 1);
        assert_string_not_equal(again, first);
        memcpy(first, again, sizeof first);
    }
    assert_int_equal(linkat(folder->top.fd, "tokens", folder->top.fd, "second", 0), 0);
    assert_int_equal(token_keep(folder->top.fd, "tokens", again, &err), 1);
    assert_string_not_equal(again, first);
    assert_int_equal(unlinkat(folder->top.fd, "tokens", 0), 0);
    assert_int_equal(symlinkat("second", folder->top.fd, "tokens"), 0);
    assert_int_equal(token_keep(folder->top.fd, "tokens", again, &err), 1);
    assert_string_not_equal(again, first);
    assert_int_equal(unlinkat(folder->top.fd, "second", 0), 0);
#define HALF "0123456789abcdefghijABCDEFGHIJ-_0123456789"
    static const char *const bad[] = { "",          "short\n",  HALF "\n", HALF "ab",
                                       HALF "ab\n", HALF " \n", HALF "+\n" };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        write_file(folder, bad[i], strlen(bad[i]), 0600);
        assert_int_equal(token_keep(folder->top.fd, "tokens", again, &err), 1);
        if (*bad[i] && strncmp(again, bad[i], strlen(bad[i]) - 1) == 0)
            fail_msg("kept: %s", bad[i]);
    }
    write_file(folder, HALF "Z\n", 44, 0600);
    assert_int_equal(token_keep(folder->top.fd, "tokens", again, &err), 0);
    assert_string_equal(again, HALF "Z");
#undef HALF
    assert_int_equal(err.kind, CAY_E_OK);
}

static void test_header(void **state)
{
    static const struct {
        const char *value, *token;
    } rows[] = {
        { "Bearer abc", "abc" },
        { "bearer abc", "abc" },
        { "BEARER   abc", "abc" },
        { "Bearer", NULL },
        { "Bearer ", NULL },
        { "Bearerabc", NULL },
        { "Basic YTpi", NULL },
        { "Bearer a b", NULL },
        { "Bearer a,Bearer b", NULL },
        { "Bearer abc\x7f", NULL },
        { "", NULL },
        { " Bearer abc", NULL },
        { "Bearer\tabc", NULL },
        { "Bearer abc ", NULL },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t len = 0;
        const char *token = token_of_header(rows[i].value, strlen(rows[i].value), &len);
        if (!rows[i].token) {
            if (token)
                fail_msg("taken: %s", rows[i].value);
            continue;
        }
        assert_non_null(token);
        assert_int_equal(len, strlen(rows[i].token));
        assert_memory_equal(token, rows[i].token, len);
    }
    char text[64];
    scopes_text(SCOPES_ALL, text);
    assert_string_equal(text, "execute,read,cancel,bypass,metrics,admin");
    scopes_text(SCOPE_NONE, text);
    assert_string_equal(text, "");
}

/* ---- changing the file ---- */

enum { LISTED_SIZE = 256 };

static void count(void *arg, const char *id, const struct token_owner *owner)
{
    char *out = arg;
    size_t used = strlen(out);

    assert_int_equal(strlen(id), TOKEN_ID_LEN);
    snprintf(out + used, LISTED_SIZE - used, "%s ", owner->tenant);
}

static const char *listed(const struct folder *folder, char out[static LISTED_SIZE])
{
    struct cay_error err;

    out[0] = '\0';
    assert_int_equal(token_file_list(folder->file, count, out, &err), 0);
    return out;
}

static void test_change_file(void **state)
{
    const struct folder *folder = *state;
    char token[TOKEN_TEXT_SIZE], other[TOKEN_TEXT_SIZE], out[LISTED_SIZE];
    struct token_owner owner;
    struct tokens *tokens;
    struct cay_error err = { 0 };
    struct stat st;

    assert_int_equal(token_file_add(folder->file, "alice", NULL, token, &err), 0);
    assert_int_equal(stat(folder->file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(token_file_add(folder->file, "bob", "metrics,read", other, &err), 0);
    assert_string_not_equal(token, other);
    assert_string_equal(listed(folder, out), "alice bob ");
    assert_int_equal(tokens_load(folder->file, &tokens, &err), 0);
    check_owner(tokens, token, "alice", SCOPES_DEFAULT);
    check_owner(tokens, other, "bob", SCOPE_METRICS | SCOPE_READ);
    tokens_free(tokens);

    /* What is refused changes nothing, and holds no token. */
    static const struct {
        const char *tenant, *scopes, *says;
    } bad[] = { { "a b", NULL, "'a b': a tenant's name" },
                { "a#b", NULL, "tenant's name" },
                { "x\ny", NULL, "tenant's name" },
                { "", NULL, "tenant's name" },
                { "carol", "reed", "scope" },
                { "carol", "read cancel", "more than a token" },
                { "carol", "read\nTOKEN eve", "more than one line" } };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(token_file_add(folder->file, bad[i].tenant, bad[i].scopes, token, &err),
                         -1);
        if (!strstr(err.msg, bad[i].says))
            fail_msg("%s %s: %s", bad[i].tenant, bad[i].scopes, err.msg);
    }
    assert_string_equal(listed(folder, out), "alice bob ");

    /* Comments, blank lines and a missing line end stay as they are. */
    static const char text[] = "# ours\n" TOKEN_A " alice # her laptop\n\n" TOKEN_B " bob";
    write_file(folder, text, strlen(text), 0640);
    assert_int_equal(token_file_add(folder->file, "carol", NULL, token, &err), 0);
    assert_string_equal(listed(folder, out), "alice bob carol ");
    assert_int_equal(token_file_remove(folder->file, "nobody", &err), -1);
    assert_int_equal(err.kind, CAY_E_NOTFOUND);
    assert_int_equal(token_file_remove(folder->file, "bob", &err), 1);
    assert_string_equal(listed(folder, out), "alice carol ");
    assert_int_equal(stat(folder->file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(tokens_load(folder->file, &tokens, &err), 0);
    check_owner(tokens, TOKEN_A, "alice", SCOPES_DEFAULT);
    assert_false(tokens_check(tokens, TOKEN_B, strlen(TOKEN_B), &owner));
    tokens_free(tokens);
    assert_int_equal(token_file_remove(folder->file, "alice", &err), 1);
    assert_int_equal(token_file_remove(folder->file, "carol", &err), -1);
    assert_non_null(strstr(err.msg, "without a token"));

    /* What a server would refuse is nothing to add to. */
    assert_int_equal(chmod(folder->file, 0666), 0);
    assert_int_equal(token_file_add(folder->file, "dave", NULL, token, &err), -1);
    assert_int_equal(err.kind, CAY_E_POLICY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_change_file), cmocka_unit_test(test_load),
        cmocka_unit_test(test_errors),      cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_mode),        cmocka_unit_test(test_reload),
        cmocka_unit_test(test_make),        cmocka_unit_test(test_keeping),
        cmocka_unit_test(test_header),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
