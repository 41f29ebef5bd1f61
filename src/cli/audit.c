/* SPDX-License-Identifier: Apache-2.0 */
/* `cay audit`: the log of all executions. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cay/record.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/json.h"
#include "base/opt.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "cli/commands.h"
#include "cli/json-get.h"
#include "cli/print.h"

static const char about[] =
    "The audit log holds an entry for every execution: who, when, how it ended, and hashes and\n"
    "sizes of code and streams; never their contents. Each entry is chained to the one before.\n"
    "\n"
    "  verify   read all of it; exit status 1, with the findings, if anything is wrong\n"
    "  list     the newest entries, newest last (also `cay audit` alone)\n"
    "  export   all entries as stored, one JSON object per line";

static const char examples[] = "  cay audit verify\n"
                               "  cay audit list --limit 50\n"
                               "  cay audit export > audit.jsonl\n";

enum { LIST_MAX = 20, FLUSH_BYTES = 64 * 1024 };

/* ---- verify ---- */

struct verifying {
    struct strbuf out;
    struct json_writer *w; /* NULL: as text */
};

static void put_finding(struct verifying *v, const struct cay_audit_finding *finding)
{
    strbuf_printf(&v->out, "%s: ", finding->word);
    sanitize_text(&v->out, finding->text);
    if (finding->line > 0)
        strbuf_printf(&v->out, " (%s, line %llu)", finding->file,
                      (unsigned long long)finding->line);
    strbuf_putc(&v->out, '\n');
}

static void on_finding(void *arg, const struct cay_audit_finding *finding)
{
    struct verifying *v = arg;

    if (!v->w) {
        put_finding(v, finding);
        return;
    }
    json_begin_object(v->w);
    json_field_string(v->w, "kind", finding->word);
    json_field_bool(v->w, "damage", finding->is_damage);
    json_field_uint(v->w, "first", finding->first);
    json_field_uint(v->w, "last", finding->last);
    json_field_string(v->w, "file", finding->file);
    json_field_uint(v->w, "line", finding->line);
    json_field_string(v->w, "text", finding->text);
    json_end_object(v->w);
}

static int verify(bool as_json)
{
    struct verifying v = { 0 };
    struct json_writer w = { .out = &v.out, .pretty = true };
    struct cay_audit_summary sum;
    struct cay_error err;

    if (as_json) {
        v.w = &w;
        json_begin_object(&w);
        json_field_array(&w, "findings");
    }
    int rc = cay_audit_verify(on_finding, &v, &sum, &err);
    if (rc == 0 && as_json) {
        json_end_array(&w);
        json_field_bool(&w, "intact", sum.damages == 0);
        json_field_uint(&w, "entries", sum.entries);
        json_field_uint(&w, "first", sum.first);
        json_field_uint(&w, "last", sum.last);
        json_field_string(&w, "hash", sum.hash[0] ? sum.hash : NULL);
        json_end_object(&w);
        strbuf_putc(&v.out, '\n');
    } else if (rc == 0 && sum.entries == 0 && sum.damages == 0) {
        strbuf_puts(&v.out, "the audit log is empty\n");
    } else if (rc == 0) {
        strbuf_printf(&v.out, "%s: %llu entries, %llu to %llu, the last one's hash is %s\n",
                      sum.damages == 0 ? "intact" : "DAMAGED", (unsigned long long)sum.entries,
                      (unsigned long long)sum.first, (unsigned long long)sum.last, sum.hash);
    }
    int status = rc < 0 ? print_error(&err) : print_text(strbuf_str(&v.out));
    strbuf_done(&v.out);
    return status ? status : sum.damages > 0;
}

/* ---- list and export ---- */

struct printing {
    struct strbuf out;
    char **ring; /* the last ones; NULL: all, at once */
    size_t size, n;
    int status;
};

static int take_line(void *arg, uint64_t seq, const char *line, size_t len)
{
    struct printing *p = arg;

    (void)seq;
    if (p->ring) {
        char **place = &p->ring[p->n++ % p->size];
        free(*place);
        *place = mem_dup(line, len);
        return 0;
    }
    strbuf_add(&p->out, line, len);
    strbuf_putc(&p->out, '\n');
    if (p->out.len >= FLUSH_BYTES) {
        p->status = print_text(strbuf_str(&p->out));
        p->out.len = 0;
    }
    return p->status ? -1 : 0;
}

static void put_row(struct strbuf *out, const char *line)
{
    json_t *row = json_loads(line, 0, NULL);

    strbuf_printf(out, "%7lld  %-24s ", (long long)json_integer_value(json_object_get(row, "seq")),
                  text_or(row, "time", "-"));
    if (strcmp(text_or(row, "kind", "-"), "run") == 0) {
        strbuf_printf(out, "%-10.8s ", text_or(row, "id", "-"));
        sanitize_text_padded(out, text_or(row, "language", "-"), 11);
        strbuf_printf(out, " %4lld  %-14s %-8s ",
                      (long long)json_integer_value(json_object_get(row, "exit_code")),
                      text_or(row, "cause", "-"), text_or(row, "backend", "-"));
        sanitize_text(out, text_or(row, "tenant", "-"));
    } else {
        strbuf_printf(out, "(%s: ", text_or(row, "kind", "-"));
        sanitize_text(out, text_or(row, "text", "-"));
        strbuf_putc(out, ')');
    }
    strbuf_putc(out, '\n');
    json_decref(row);
}

static int print(bool is_list, bool as_json, size_t limit)
{
    struct cay_audit_place place = { 0 };
    struct printing p = { .size = limit };
    struct cay_error err;

    if (is_list)
        p.ring = mem_alloc(limit * sizeof *p.ring);
    int rc = cay_audit_read(&place, take_line, &p, &err);
    if (is_list && !as_json && p.n > 0)
        strbuf_printf(&p.out, "%7s  %-24s %-10s %-11s %4s  %-14s %-8s %s\n", "SEQ", "WHEN", "ID",
                      "LANGUAGE", "EXIT", "CAUSE", "BACKEND", "TENANT");
    for (size_t i = p.n > limit ? p.n - limit : 0; is_list && i < p.n; i++) {
        const char *line = p.ring[i % limit];
        if (as_json)
            strbuf_printf(&p.out, "%s\n", line);
        else
            put_row(&p.out, line);
    }
    for (size_t i = 0; is_list && i < limit; i++)
        free(p.ring[i]);
    free(p.ring);
    if (rc == 0 && p.status == 0)
        p.status = print_text(strbuf_str(&p.out));
    strbuf_done(&p.out);
    return rc < 0 ? print_error(&err) : p.status;
}

/* ---- the command ---- */

static int set_limit(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    enum { LIMIT_MAX = 100000 };
    uint64_t limit;

    (void)opt;
    if (parse_uint(value, LIMIT_MAX, &limit) < 0 || limit == 0)
        return cay_fail(err, CAY_E_USAGE, "'%.40s' is not a number from 1 to %d", value, LIMIT_MAX);
    *(size_t *)target = (size_t)limit;
    return 0;
}

int cmd_audit(int argc, char **argv)
{
    static const char *const words[] = { "verify", "list", "export" };
    enum { VERIFY, LIST, EXPORT };
    bool as_json = false, help = false;
    size_t limit = LIST_MAX, which = 0;
    const struct opt opts[] = {
        { OPT_CALL, 'n', "limit", "N", "with list: show at most N (20)", &limit, set_limit },
        { OPT_BOOL, 0, "json", NULL, "print JSON; with list, one object per line", &as_json },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    struct cay_error err;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (help)
        return print_help("cay audit [list|verify|export] [options]", about, opts, examples);
    const char *word = first < argc ? argv[first] : words[LIST];
    while (which < ARRAY_LEN(words) && strcmp(words[which], word) != 0)
        which++;
    if (which == ARRAY_LEN(words)) {
        const char *near = suggest(word, words, ARRAY_LEN(words));
        cay_fail(&err, CAY_E_USAGE, "audit: unknown command '%.40s'", word);
        if (near)
            cay_hint(&err, "did you mean `cay audit %s`?", near);
        else
            cay_hint(&err, "cay audit verify, cay audit list or cay audit export");
        return print_error(&err);
    }
    if (first + 1 < argc)
        return print_unexpected_argument("audit", argv[first + 1]);
    if (cay_journal_import(NULL, NULL, &err) < 0)
        print_message("warning: a server's last runs are missing: %s", err.msg);
    return which == VERIFY ? verify(as_json) : print(which == LIST, as_json, limit);
}
