/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/history-args.h"

#include <stdio.h>
#include <string.h>

#include <cay/record.h>
#include <cay/run.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/suggest.h"
#include "base/when.h"
#include "cli/print.h"
#include "store/history.h"

static int copy(char *out, size_t size, const char *value, struct cay_error *err)
{
    if (!*value || strlen(value) >= size)
        return cay_fail(err, CAY_E_USAGE, "'%.40s' is not a name of 1 to %zu bytes", value,
                        size - 1);
    snprintf(out, size, "%s", value);
    return 0;
}

int history_arg_language(void *target, const struct opt *opt, const char *value,
                         struct cay_error *err)
{
    struct history_query *query = target;

    (void)opt;
    if (cay_language_name(value, query->language, sizeof query->language, err) == 0)
        return 0;
    err->kind = CAY_E_USAGE; /* nothing was to be run in it */
    return -1;
}

int history_arg_tenant(void *target, const struct opt *opt, const char *value,
                       struct cay_error *err)
{
    struct history_query *query = target;

    (void)opt;
    return copy(query->tenant, sizeof query->tenant, value, err);
}

int history_arg_cause(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    static const char *const causes[] = {
#define CAUSE_WORD(name, word) word,
        CAY_CAUSES(CAUSE_WORD)
#undef CAUSE_WORD
    };
    struct history_query *query = target;

    (void)opt;
    for (size_t i = 0; i < ARRAY_LEN(causes); i++)
        if (strcmp(causes[i], value) == 0)
            return copy(query->cause, sizeof query->cause, value, err);
    const char *near = suggest(value, causes, ARRAY_LEN(causes));
    cay_fail(err, CAY_E_USAGE, "unknown cause '%.40s'", value);
    if (near)
        return cay_hint(err, "did you mean %s?", near), -1;
    return cay_hint(err, "ok exit signal wall_timeout cpu_timeout memory pids disk output …"), -1;
}

static int parse(const char *value, int64_t *ret_ms, struct cay_error *err)
{
    if (when_parse(value, when_now_ms(), ret_ms) == 0)
        return 0;
    cay_fail(err, CAY_E_USAGE, "'%.40s' is neither a span (15m, 2h, 7d) nor a date", value);
    return cay_hint(err, "dates are 2026-11-15 or 2026-11-15T19:13, in UTC"), -1;
}

int history_arg_since(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    struct history_query *query = target;

    (void)opt;
    return parse(value, &query->since_ms, err);
}

int history_arg_until(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    struct history_query *query = target;

    (void)opt;
    return parse(value, &query->until_ms, err);
}

int history_open_current(struct history **ret, struct cay_error *err)
{
    struct cay_error warning;

    if (cay_journal_import(NULL, NULL, &warning) < 0)
        print_message("warning: a server's last runs are missing: %s", warning.msg);
    if (history_open(ret, err) < 0)
        return -1;
    /* A full disk does not keep what is there already from being shown. */
    if (history_fill(*ret, NULL, &warning) < 0)
        print_message("warning: the newest runs are missing: %s", warning.msg);
    return 0;
}

int history_query_text(struct history *history, const struct history_query *query,
                       struct strbuf *out, struct cay_error *err)
{
    struct cay_error warning;
    int rc = history_answer(history, query, out, err);

    if (history_was_damaged(history, &warning))
        print_message("warning: %s (%s)", warning.msg, warning.hint);
    return rc;
}
