/* SPDX-License-Identifier: Apache-2.0 */
/* The static check and its kin, for callers: <cay/check.h>. */
#include <cay/check.h>

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "check/static-check.h"
#include "core/fence.h"
#include "core/language.h"
#include "core/plan.h"
#include "engine/engine.h"
#include "policy/policy.h"
#include "policy/syntax-client.h"

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
    json_field_bool(&w, "ordinary", false);
    json_end_object(&w);
    json_end_array(&w);
    json_field_array(&w, "blocked_imports");
    json_end_array(&w);
    json_end_object(&w);
    return strbuf_take(&out);
}

int static_check_prepare(struct arena *arena, struct cay_check_request *req,
                         const struct language **ret, struct cay_error *err)
{
    const struct language *language = NULL;
    const char *version;

    if (req->flags & CAY_CHECK_STRIP_FENCE) {
        struct fence fence = fence_find((struct bytes){ req->code, req->len });
        req->flags &= ~(unsigned)CAY_CHECK_STRIP_FENCE;
        req->code = fence.code.data;
        req->len = fence.code.len;
        if (!req->language && fence.language.len > 0)
            req->language = arena_dup(arena, fence.language.data, fence.language.len);
    }
    int rc = req->language
                 ? language_find(arena, req->language, &language, &version, err)
                 : language_guess(arena, req->file_name, req->code, req->len, &language, err);
    if (rc < 0)
        return -1;
    if (!language) {
        cay_fail(err, CAY_E_USAGE, "language: not clear from a file name or #! line");
        return cay_hint(err, "pass -l LANGUAGE; `cay languages` lists them");
    }
    *ret = language;
    return 0;
}

/* A check that goes on. */
struct cay_checking {
    struct cay *cay;
    struct arena arena;
    const char *language;
    struct syntax_ticket *ticket; /* NULL: it could not be asked for, and err says why */
    struct cay_error err;
    int64_t deadline_ns;
};

/* wait_ms: 0: as long as it may take; the caller waits for it. */
static void begin(struct cay *cay, const struct cay_check_request *req, const char *language,
                  int wait_ms, struct cay_checking *ret)
{
    struct bytes lists = plan_import_lists(&ret->arena, &cay->config);
    const struct syntax_question question = {
        .verb = SYNTAX_CHECK,
        .flags = (req->flags & CAY_CHECK_STRICT ? SYNTAX_STRICT : 0U) |
                 (req->flags & CAY_CHECK_NETWORK ? 0U : SYNTAX_NO_NETWORK),
        .timeout_ms = req->timeout_ms ? req->timeout_ms : POLICY_TIMEOUT_MS,
        .may_be_slow = wait_ms > 0,
        .tenant = req->tenant,
        .lists = lists.data,
        .lists_len = lists.len,
        .code = req->code,
        .len = req->len,
    };

    ret->cay = cay;
    ret->language = language;
    ret->deadline_ns =
        clock_now_ns() + (wait_ms ? wait_ms : (int64_t)question.timeout_ms * 2) * NS_PER_MSEC;
    if (syntax_ask(&cay->syntax, cay->options.helper, ret->language, &question, &ret->ticket,
                   &ret->err) < 0)
        ret->ticket = NULL;
}

/* Waits until its time is over. */
static int end(struct cay_checking *checking, char **ret_report, bool *ret_safe,
               struct cay_error *err)
{
    const char *fix = "review it yourself: code that the check cannot read may do anything";
    int64_t left_ms = (checking->deadline_ns - clock_now_ns()) / NS_PER_MSEC;
    struct syntax_reply reply;
    struct cay_error *why = &checking->err;

    *ret_safe = false;
    if (!checking->ticket ||
        syntax_wait(checking->ticket, (int)MAX(left_ms, (int64_t)0), &reply, why) < 0) {
        *ret_report = unknown_report(checking->language, why->msg, why->hint[0] ? why->hint : fix);
    } else if (reply.status == SYNTAX_BROKEN_RULES) {
        return cay_fail(err, CAY_E_USAGE, "%.380s", reply.text);
    } else if (reply.status == SYNTAX_NO_GRAMMAR) {
        *ret_report = unknown_report(checking->language, reply.text,
                                     "tools/install-grammars.sh installs the grammars");
    } else if (reply.status != SYNTAX_DONE) {
        *ret_report =
            unknown_report(checking->language, "the syntax worker refused to read it", fix);
    } else {
        *ret_report = mem_dup(reply.text, reply.len);
        *ret_safe = reply.is_safe;
    }
    return 0;
}

static void done(struct cay_checking *checking)
{
    syntax_drop(checking->ticket);
    arena_done(&checking->arena);
}

int static_check_run(struct cay *cay, const struct cay_check_request *req,
                     const struct language *language, char **ret_report, bool *ret_safe,
                     struct cay_error *err)
{
    struct cay_checking checking = { 0 };
    bool is_safe;

    begin(cay, req, language->name, 0, &checking);
    int rc = end(&checking, ret_report, &is_safe, err);
    if (rc == 0)
        *ret_safe = is_safe;
    done(&checking);
    return rc;
}

int cay_check(struct cay *cay, const struct cay_check_request *req, char **ret_report,
              bool *ret_safe, struct cay_error *err)
{
    struct arena arena = { 0 };
    struct cay_check_request bare = *req;
    const struct language *language;

    int rc = static_check_prepare(&arena, &bare, &language, err);
    if (rc == 0)
        rc = static_check_run(cay, &bare, language, ret_report, ret_safe, err);
    arena_done(&arena);
    return rc;
}

int cay_check_begin(struct cay *cay, const struct cay_check_request *req, struct cay_checking **ret,
                    struct cay_error *err)
{
    struct cay_checking *checking = mem_alloc(sizeof *checking);
    struct cay_check_request bare = *req;
    const struct language *language;

    if (loop_open_epoll(cay, err) < 0 ||
        static_check_prepare(&checking->arena, &bare, &language, err) < 0) {
        cay_check_drop(checking);
        return -1;
    }
    begin(cay, &bare, language->name, POLICY_WAIT_MS, checking);
    if (checking->err.kind == CAY_E_BUSY) {
        *err = checking->err;
        cay_check_drop(checking);
        return -1;
    }
    loop_watch_checks(cay);
    *ret = checking;
    return 0;
}

int cay_check_end(struct cay_checking *checking, char **ret_report, bool *ret_safe,
                  struct cay_error *err)
{
    bool is_over = clock_now_ns() >= checking->deadline_ns;

    if (checking->ticket && !syntax_is_done(checking->ticket) && !is_over)
        return 0;
    if (checking->ticket && !syntax_is_done(checking->ticket)) {
        syntax_give_up(checking->ticket);
        loop_watch_checks(checking->cay); /* another worker for those who wait */
        syntax_drop(checking->ticket);
        checking->ticket = NULL;
        cay_fail(&checking->err, CAY_E_LIMIT, "the check took too long");
    }
    return end(checking, ret_report, ret_safe, err) < 0 ? -1 : 1;
}

void cay_check_drop(struct cay_checking *checking)
{
    if (!checking)
        return;
    done(checking);
    free(checking);
}

/* Asks, and waits for the answer. The reply lives as long as the ticket. */
static bool ask_now(struct cay *cay, enum syntax_verb verb, const char *language, const char *code,
                    size_t len, struct syntax_ticket **ticket, struct syntax_reply *ret)
{
    const struct syntax_question question = {
        .verb = verb, .timeout_ms = 500, .code = code, .len = len
    };
    struct cay_error err;

    return syntax_ask(&cay->syntax, cay->options.helper, language, &question, ticket, &err) == 0 &&
           syntax_wait(*ticket, POLICY_WAIT_MS, ret, &err) == 0 && ret->status == SYNTAX_DONE;
}

char *cay_highlight(struct cay *cay, const char *language, const char *code, size_t len)
{
    struct syntax_ticket *ticket = NULL;
    struct syntax_reply reply;
    char *text = ask_now(cay, SYNTAX_HIGHLIGHT, language, code, len, &ticket, &reply)
                     ? mem_dup(reply.text, reply.len)
                     : mem_dup(code, len);

    syntax_drop(ticket);
    return text;
}

enum cay_completeness cay_complete(struct cay *cay, const char *language, const char *code,
                                   size_t len)
{
    struct syntax_ticket *ticket = NULL;
    struct syntax_reply reply;
    enum cay_completeness found = CAY_COMPLETE;

    if (ask_now(cay, SYNTAX_COMPLETE, language, code, len, &ticket, &reply))
        found = strcmp(reply.text, "incomplete") == 0 ? CAY_INCOMPLETE
                : strcmp(reply.text, "invalid") == 0  ? CAY_INVALID
                                                      : CAY_COMPLETE;
    syntax_drop(ticket);
    return found;
}

int cay_syntax_supervise(struct cay *cay, unsigned *ret_restarts, struct cay_error *err)
{
    int rc = syntax_pool_supervise(&cay->syntax, err);

    *ret_restarts = cay->syntax.n_restarts;
    return rc;
}
