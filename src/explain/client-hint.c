/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hints are written for a user at the command line of this host. A client of a server has
 * fields and routes: what can be said in those is, by these rows, and what is its operator's affair
 * is left to the log.
 */
#include <stdio.h>
#include <string.h>

#include <cay/run.h>

#include "base/auto.h"

#define ASK_LESS   "ask for less: the operator of this server sets the maximum"
#define IMAGE_HOST "leave `image` out to run with what the server's host has"

static const struct {
    const char *words; /* in the hint; the first row that fits holds */
    const char *instead;
} rows[] = {
    { "pass -l LANGUAGE", "say it in `language`; GET /v1/languages lists them" },
    { "`cay languages` shows", "GET /v1/languages shows the version that is installed" },
    { "`cay languages`", "GET /v1/languages lists all" },
    { "SECURITY_MAX_EXECUTION_TIME", ASK_LESS },
    { "[max]", ASK_LESS },
    { "max_running", "wait for some to end" },
    { "a-z, 0-9 and", "a-z, 0-9 and . _ - within" },
    { "`cay image list` shows", IMAGE_HOST },
    { "`cay image build", IMAGE_HOST },
    { "lists the packages of", "use a language that the image has; " IMAGE_HOST },
    { "--image names another", "`image` names another" },
    { "--file puts a program", "use a program that is installed; `files` puts one into /sandbox" },
    { "leave out -t", "use backend native, or leave out `tty`" },
    { "or one of cay.toml", "use default, hardened, light or restricted" },
    { "--no-server", "run it again" },
    { "apt-get install", "ask the operator of this server to install it" },
    { "SECURITY_ENABLE_SANDBOX", "leave it out: nothing runs without isolation here" },
    /* Whatever else is of the command line, the environment or the host's files. */
    { "--", CAY_ASK_OPERATOR },
    { "`cay ", CAY_ASK_OPERATOR },
    { "sudo ", CAY_ASK_OPERATOR },
    { "CAY_", CAY_ASK_OPERATOR },
    { "DOCKER_", CAY_ASK_OPERATOR },
    { "SECURITY_", CAY_ASK_OPERATOR },
    { "/etc/", CAY_ASK_OPERATOR },
    { "cay.toml", CAY_ASK_OPERATOR },
    { "chmod ", CAY_ASK_OPERATOR },
};

static const char *hint_for(const struct cay_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strstr(err->hint, rows[i].words))
            return rows[i].instead;
    return err->kind == CAY_E_SYSTEM || err->kind == CAY_E_UNSUPPORTED ? CAY_ASK_OPERATOR
                                                                       : err->hint;
}

void cay_client_error(const struct cay_error *err, struct cay_error *ret)
{
    *ret = *err;
    if (err->hint[0])
        snprintf(ret->hint, sizeof ret->hint, "%s", hint_for(err));
}
