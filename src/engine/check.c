/* SPDX-License-Identifier: Apache-2.0 */
/* The static check and its kin, for callers: <cay/check.h>. */
#include <cay/check.h>

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "core/language.h"
#include "core/plan.h"
#include "engine/engine.h"
#include "engine/policy.h"
#include "engine/syntax-client.h"

/* What nobody could read is unknown. */
static char *unknown_report(const char *language, const char *message, const char *remedy)
{
    struct strbuf out = { 0 };
    struct json_writer w = { .out = &out };

    json_begin_object(&w);
    json_field_bool(&w, "safe", false);
    json_field_string(&w, "language", language);
    json_field_array(&w, "findings");
    json_begin_object(&w);
    json_field_string(&w, "rule", "unchecked");
    json_field_string(&w, "severity", "warn");
    json_field_uint(&w, "line", 1);
    json_field_uint(&w, "column", 1);
    json_field_string(&w, "code", "");
    json_field_string(&w, "message", message);
    json_field_string(&w, "remedy", remedy);
    json_end_object(&w);
    json_end_array(&w);
    json_field_array(&w, "blocked_imports");
    json_end_array(&w);
    json_end_object(&w);
    return strbuf_take(&out);
}

static int find_language(struct arena *arena, const struct cay_check_request *req, const char **ret,
                         struct cay_error *err)
{
    const struct language *language = NULL;
    const char *version;

    if (req->language) {
        if (language_find(arena, req->language, &language, &version, err) < 0)
            return -1;
    } else if (language_guess(arena, req->file_name, req->code, req->len, &language, err) < 0) {
        return -1;
    }
    if (!language) {
        cay_fail(err, CAY_E_USAGE, "language: neither a file name nor a #! line tells which");
        return cay_hint(err, "say it with -l; `cay languages` lists them");
    }
    *ret = language->name;
    return 0;
}

/* Returns 1 with a reply, 0 with a report of what is unknown, -1 with an error. */
static int ask(struct cay *cay, const char *language, const struct syntax_question *question,
               struct syntax_ticket **ticket, struct syntax_reply *reply, char **ret_report,
               struct cay_error *err)
{
    const char *fix = "have a look at it yourself: what the check can't read may do anything";

    *ticket = NULL;
    if (syntax_ask(&cay->syntax, cay->options.helper, language, question, ticket, err) < 0 ||
        syntax_wait(*ticket, (int)question->timeout_ms * 2, reply, err) < 0) {
        *ret_report = unknown_report(language, err->msg, err->hint[0] ? err->hint : fix);
        return 0;
    }
    if (reply->status == SYNTAX_BROKEN_RULES) {
        cay_fail(err, CAY_E_USAGE, "%.380s", reply->text);
        return -1;
    }
    if (reply->status == SYNTAX_NO_GRAMMAR) {
        *ret_report = unknown_report(language, reply->text,
                                     "tools/install-grammars.sh installs the grammars");
        return 0;
    }
    if (reply->status != SYNTAX_DONE) {
        *ret_report = unknown_report(language, "the syntax worker refused to read it", fix);
        return 0;
    }
    return 1;
}

int cay_check(struct cay *cay, const struct cay_check_request *req, char **ret_report,
              bool *ret_safe, struct cay_error *err)
{
    struct arena arena = { 0 };
    struct syntax_ticket *ticket = NULL;
    struct syntax_reply reply = { 0 };
    const char *language = NULL;
    char *report = NULL;
    struct bytes lists = plan_import_lists(&arena, &cay->config);
    const struct syntax_question question = {
        .verb = SYNTAX_CHECK,
        .flags = (req->flags & CAY_CHECK_STRICT ? SYNTAX_STRICT : 0U) |
                 (req->flags & CAY_CHECK_NETWORK ? 0U : SYNTAX_NO_NETWORK),
        .timeout_ms = req->timeout_ms ? req->timeout_ms : POLICY_TIMEOUT_MS,
        .lists = lists.data,
        .lists_len = lists.len,
        .code = req->code,
        .len = req->len,
    };

    int rc = find_language(&arena, req, &language, err);
    if (rc == 0)
        rc = ask(cay, language, &question, &ticket, &reply, &report, err);
    if (rc == 1)
        report = mem_dup(reply.text, reply.len);
    if (rc >= 0) {
        *ret_report = report;
        *ret_safe = rc == 1 && reply.is_safe;
    }
    syntax_drop(ticket);
    arena_done(&arena);
    return rc < 0 ? -1 : 0;
}

char *cay_highlight(struct cay *cay, const char *language, const char *code, size_t len)
{
    const struct syntax_question question = {
        .verb = SYNTAX_HIGHLIGHT, .timeout_ms = 500, .code = code, .len = len
    };
    struct syntax_ticket *ticket = NULL;
    struct syntax_reply reply;
    struct cay_error err;
    char *text;

    if (syntax_ask(&cay->syntax, cay->options.helper, language, &question, &ticket, &err) < 0 ||
        syntax_wait(ticket, POLICY_WAIT_MS, &reply, &err) < 0 || reply.status != SYNTAX_DONE)
        text = mem_dup(code, len);
    else
        text = mem_dup(reply.text, reply.len);
    syntax_drop(ticket);
    return text;
}

enum cay_completeness cay_complete(struct cay *cay, const char *language, const char *code,
                                   size_t len)
{
    const struct syntax_question question = {
        .verb = SYNTAX_COMPLETE, .timeout_ms = 500, .code = code, .len = len
    };
    struct syntax_ticket *ticket = NULL;
    struct syntax_reply reply;
    struct cay_error err;
    enum cay_completeness found = CAY_COMPLETE;

    if (syntax_ask(&cay->syntax, cay->options.helper, language, &question, &ticket, &err) == 0 &&
        syntax_wait(ticket, POLICY_WAIT_MS, &reply, &err) == 0 && reply.status == SYNTAX_DONE)
        found = strcmp(reply.text, "incomplete") == 0 ? CAY_INCOMPLETE
                : strcmp(reply.text, "invalid") == 0  ? CAY_INVALID
                                                      : CAY_COMPLETE;
    syntax_drop(ticket);
    return found;
}
