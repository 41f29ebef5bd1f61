/* SPDX-License-Identifier: Apache-2.0 */
/* The syntax worker and its grammars: each language's is asked for, as a check of code would. And
 * the interpreters that can be started ahead: which are there depends on what cay was built with.
 */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "core/libexec.h"
#include "doctor/doctor.h"
#include "policy/syntax-client.h"

enum { WAIT_MS = 5000 };

/* Those that have a grammar (src/syntax/grammar.c). */
static const char *const languages[] = {
    "bash", "c",      "cpp", "go",   "java", "javascript", "lua",
    "php",  "python", "r",   "ruby", "rust", "sql",        "typescript",
};

/* Returns 1 where it can be read, 0 where there is no grammar, -1 where there is no worker. */
static int ask(struct syntax_pool *pool, const char *language, struct cay_error *err)
{
    const struct syntax_question question = { .verb = SYNTAX_CHECK, .timeout_ms = 1000 };
    struct syntax_ticket *ticket;
    struct syntax_reply reply;

    if (syntax_ask(pool, NULL, language, &question, &ticket, err) < 0)
        return -1;
    int rc = syntax_wait(ticket, WAIT_MS, &reply, err) < 0 ? -1
             : reply.status == SYNTAX_NO_GRAMMAR           ? 0
                                                           : 1;
    syntax_drop(ticket);
    return rc;
}

void facts_try_syntax(struct facts *f)
{
    struct syntax_pool pool = SYNTAX_POOL_INIT;
    auto_strbuf struct strbuf missing = { 0 };
    struct cay_error err = { 0 };
    int rc = 1;

    for (size_t i = 0; i < ARRAY_LEN(languages) && rc >= 0; i++) {
        rc = ask(&pool, languages[i], &err);
        if (rc == 0)
            strbuf_printf(&missing, "%s%s", missing.len ? ", " : "", languages[i]);
    }
    syntax_pool_close(&pool);
    f->syntax_error = rc < 0 ? arena_str(f->arena, err.msg) : NULL;
    f->grammars_missing = arena_str(f->arena, strbuf_str(&missing));
}

void judge_syntax_worker(const struct facts *f, struct finding *out)
{
    if (!f->grammars_missing) {
        finding_say(f, out, FINDING_SKIP, "not tried");
    } else if (f->syntax_error) {
        finding_say(f, out, FINDING_WARN, "%s", f->syntax_error);
        finding_fix(f, out, "install it beside cay, in cay's sources", "make install");
    } else {
        finding_say(f, out, FINDING_OK, "it answers");
    }
}

void judge_grammars(const struct facts *f, struct finding *out)
{
    if (!f->grammars_missing || f->syntax_error) {
        finding_say(f, out, FINDING_SKIP, "not tried");
    } else if (f->grammars_missing[0]) {
        finding_say(f, out, FINDING_WARN, "missing for %s: such code is never safe",
                    f->grammars_missing);
        finding_fix(f, out, "fetch and compile them, in cay's sources",
                    "%stools/install-grammars.sh", facts_sudo(f));
    } else {
        finding_say(f, out, FINDING_OK, "there for %zu languages", ARRAY_LEN(languages));
    }
}

void facts_find_prewarm(struct facts *f)
{
    static const char *const forked[] = { "php", "python", "ruby" };
    auto_strbuf struct strbuf missing = { 0 };

    for (size_t i = 0; i < ARRAY_LEN(forked); i++) {
        char name[64], path[4200];

        snprintf(name, sizeof name, "cay-zygote-%s", forked[i]);
        if (libexec_find(name, path, sizeof path) < 0)
            strbuf_printf(&missing, "%s%s", missing.len ? ", " : "", forked[i]);
    }
    f->prewarm_missing = arena_str(f->arena, strbuf_str(&missing));
}

void judge_prewarm(const struct facts *f, struct finding *out)
{
    if (!f->prewarm_missing) {
        finding_say(f, out, FINDING_SKIP, "not tried");
    } else if (f->prewarm_missing[0]) {
        finding_say(f, out, FINDING_WARN, "cay was built without %s: these start cold",
                    f->prewarm_missing);
        finding_fix(f, out, "install their headers and build again, in cay's sources",
                    "%stools/install-packages.sh build && make", facts_sudo(f));
    } else {
        finding_say(f, out, FINDING_OK, "PHP, Python and Ruby");
    }
}
