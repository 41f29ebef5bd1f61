/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Changing the file of tokens (token.h says what is in it), for `cay token`. A change is written
 * beside the file and renamed: a reader sees all of it or nothing, and comments stay. Two changes
 * at once wait for each other. A server reads the file again on SIGHUP.
 *
 * A token is named by the first TOKEN_ID_LEN hexadecimal digits of its SHA-256, which tell nothing
 * of it.
 */

#include "service/token.h"

enum { TOKEN_ID_LEN = 8 };

/* Where the file is if nobody says so: root's is /etc/cay/tokens, a user's is beside cay's
 * configuration. Returns whether there is such a place. */
bool token_file_usual(char *out, size_t size);

/* Adds a line with a new random token; makes the file, and its folder, where they are not there.
 * scopes may be NULL. */
int token_file_add(const char *path, const char *tenant, const char *scopes,
                   char ret[static TOKEN_TEXT_SIZE], struct cay_error *err);

/* Calls fn for each token. */
typedef void token_file_fn(void *arg, const char *id, const struct token_owner *owner);
int token_file_list(const char *path, token_file_fn *fn, void *arg, struct cay_error *err);

/* Removes the token of that id, or all of that tenant; returns how many. None is CAY_E_NOTFOUND.
 * The last one stays: a file without any is refused by a server. */
int token_file_remove(const char *path, const char *id_or_tenant, struct cay_error *err);
