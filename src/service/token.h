/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who may do what: bearer tokens, their tenants and scopes, from a file with a line each
 *
 *     TOKEN [TENANT [SCOPE,…]]        # a comment
 *
 *     struct tokens *tokens;
 *     if (tokens_load("/etc/cay/tokens", &tokens, &err) < 0) ...
 *     struct token_owner owner;
 *     if (!tokens_check(tokens, text, len, &owner)) ... 401
 *     if ((owner.scopes & route->scope) != route->scope) ... 403
 *
 * Without a tenant, a token is of the tenant "default"; without scopes, it has SCOPES_DEFAULT. The
 * file must be its owner's alone. A line that can't be read is an error with its number: a token
 * that was meant to be narrow must not come out wide. No error and no log holds a token.
 *
 * Tokens are kept as SHA-256 digests only. A check hashes what was given and compares that with
 * every entry to its last byte, so that its time tells neither which one was near nor how far.
 */

#include <stdbool.h>
#include <stddef.h>

struct cay_error;

/* id, name, in the default set, meaning */
#define SCOPES(X)                                                                       \
    X(EXECUTE, "execute", true, "run programs")                                         \
    X(READ, "read", true, "see languages, and results and events of the tenant's own")  \
    X(CANCEL, "cancel", true, "stop runs of the tenant's own")                          \
    X(BYPASS, "bypass", false, "run in spite of a finding that blocks (policy_bypass)") \
    X(METRICS, "metrics", false, "read /metrics")                                       \
    X(ADMIN, "admin", false, "all of these, and executions of every tenant")

enum scope_bit {
#define SCOPE_BIT(id, ...) SCOPE_BIT_##id,
    SCOPES(SCOPE_BIT)
#undef SCOPE_BIT
        SCOPE_BITS
};

enum scope {
    SCOPE_NONE = 0,
#define SCOPE_ENUM(id, ...) SCOPE_##id = 1 << SCOPE_BIT_##id,
    SCOPES(SCOPE_ENUM)
#undef SCOPE_ENUM
        SCOPES_ALL = (1 << SCOPE_BITS) - 1,
#define SCOPE_DEFAULT(id, name, is_default, meaning) | (is_default ? 1 << SCOPE_BIT_##id : 0)
    SCOPES_DEFAULT = 0 SCOPES(SCOPE_DEFAULT),
#undef SCOPE_DEFAULT
};

enum {
    TOKEN_LEN_GOOD = 16, /* shorter ones can be guessed: tokens_weak counts them */
    TOKEN_LEN_MAX = 512,
    TOKEN_TEXT_SIZE = 64, /* room for a token that token_make made, NUL included */
    TENANT_NAME_MAX = 64, /* letters, digits, "-", "_", "."; NUL not included */
    TOKENS_MAX = 4096,
    TOKENS_FILE_MAX = 1 << 20,
};

#define TENANT_RULE "a tenant's name is at most 64 letters, digits, '-', '_' or '.'"

#define TENANT_DEFAULT "default" /* also who comes by the unix socket */

struct tokens;

struct token_owner {
    char tenant[TENANT_NAME_MAX + 1];
    unsigned scopes; /* ADMIN has all bits set */
};

/* Reads the file. Nothing of it stays in memory but digests, names and scopes. */
int tokens_load(const char *path, struct tokens **ret, struct cay_error *err);

/* The same from an open file, whatever its offset: it may have been opened with more privileges. */
int tokens_load_fd(int fd, const char *path, struct tokens **ret, struct cay_error *err);

/* Reads the file again; where that fails, the old set stays in force. */
int tokens_reload(struct tokens **tokens, const char *path, struct cay_error *err);

/* A set with this token alone, of the default tenant with all scopes. */
struct tokens *tokens_single(const char *token);

void tokens_free(struct tokens *tokens);
size_t tokens_count(const struct tokens *tokens);
size_t
tokens_weak(const struct tokens *tokens); /* so many are so short that the log should say so */

/* The tenant of the i-th token, or NULL past the last one. */
const char *tokens_tenant_at(const struct tokens *tokens, size_t i);

/* Whether this is one of them, and whose. */
bool tokens_check(const struct tokens *tokens, const char *token, size_t len,
                  struct token_owner *ret);

/* The token of the value of a header "Authorization: Bearer TOKEN", within it; NULL: it is none. */
const char *token_of_header(const char *value, size_t len, size_t *ret_len);

/* Whether it may be a tenant's name: TENANT_RULE. */
bool token_is_tenant(const char *name);

/* A random token: 256 bits, base64url. */
int token_random(char ret[static TOKEN_TEXT_SIZE], struct cay_error *err);

/* Makes one and writes it with a line end to dir_fd/name, 0600,
 * by a rename: a reader sees the old one or the new one, never half of one. */
int token_make(int dir_fd, const char *name, char ret[static TOKEN_TEXT_SIZE],
               struct cay_error *err);

/* The token that token_make wrote there before, where the file is our own, nobody else may look at
 * it, and it is whole; else makes one. So clients need no new one after a restart, and two servers
 * of one user have the same. Returns 1 where it was made, 0 where it was there. */
int token_keep(int dir_fd, const char *name, char ret[static TOKEN_TEXT_SIZE],
               struct cay_error *err);

/* Names of the scopes, with commas between them. */
void scopes_text(unsigned scopes, char out[static 64]);
