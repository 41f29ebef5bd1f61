/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifying the audit log. One pass over the lines, in order; a line that is no intact entry is
 * judged when the next one comes: where that one follows from the last, the line was put in, else
 * it is an entry that was changed. Numbers that were passed over are missing until they turn up
 * later, which makes them reordered; at the end, they were cut out.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cay/record.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/error.h"
#include "core/state.h"
#include "store/audit-read.h"
#include "store/audit.h"

enum { GAPS_MAX = 4096 };

struct gap {
    uint64_t first, last, line;
    char file[32];
};

struct verifier {
    cay_audit_finding_fn *fn;
    void *arg;
    struct cay_audit_summary *sum;
    const struct audit_files *files;

    char file[32]; /* what is read, and its line */
    uint64_t number, line;

    uint64_t seq; /* the highest so far */
    char hash[DIGEST_HEX + 1];
    uint64_t bad, bad_line; /* lines since then that are no intact entries */
    char bad_file[32];
    struct gap *gaps;
    size_t n_gaps;

    uint64_t start;                         /* the first entry's number */
    char start_prev[DIGEST_HEX + 1];        /* and what it follows from */
    bool has_pruned;                        /* a note accounts for what was before it */
    bool is_anchor_seen, is_anchor_matched; /* the anchor's entry */
    uint64_t unanchored;                    /* entries behind it */
    uint64_t torn;                          /* bytes of a last line that is not whole */
};

static const struct {
    const char *word;
    bool is_damage;
} finding_rows[] = {
#define FINDING_ROW(name, word, is_damage) [CAY_AUDIT_##name] = { word, is_damage },
    CAY_AUDIT_FINDINGS(FINDING_ROW)
#undef FINDING_ROW
};

__attribute__((format(printf, 7, 8))) static void report(struct verifier *v,
                                                         enum cay_audit_kind kind, uint64_t first,
                                                         uint64_t last, const char *file,
                                                         uint64_t line, const char *fmt, ...)
{
    char text[320];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    v->sum->damages += finding_rows[kind].is_damage;
    if (!v->fn)
        return;
    v->fn(v->arg, &(struct cay_audit_finding){
                      .kind = kind,
                      .word = finding_rows[kind].word,
                      .is_damage = finding_rows[kind].is_damage,
                      .first = first,
                      .last = last,
                      .file = file,
                      .line = line,
                      .text = text,
                  });
}

#define ULL(n) ((unsigned long long)(n))

/* ---- missing numbers ---- */

static void add_gap(struct verifier *v, uint64_t first, uint64_t last)
{
    if (v->n_gaps == GAPS_MAX) {
        v->gaps[GAPS_MAX - 1].last = last; /* too many to list: reported as one */
        return;
    }
    v->gaps = mem_resize(v->gaps, (v->n_gaps + 2) * sizeof *v->gaps);
    struct gap *gap = &v->gaps[v->n_gaps++];
    *gap = (struct gap){ .first = first, .last = last, .line = v->line };
    memcpy(gap->file, v->file, sizeof gap->file);
}

/* Takes a number out of the gaps; false when it is in none. */
static bool fill_gap(struct verifier *v, uint64_t seq)
{
    for (size_t i = 0; i < v->n_gaps; i++) {
        struct gap *gap = &v->gaps[i];
        if (seq < gap->first || seq > gap->last)
            continue;
        uint64_t last = gap->last;
        gap->last = seq - 1;
        if (last > seq && v->n_gaps < GAPS_MAX) {
            v->gaps = mem_resize(v->gaps, (v->n_gaps + 2) * sizeof *v->gaps);
            v->gaps[v->n_gaps] = v->gaps[i];
            v->gaps[v->n_gaps].first = seq + 1;
            v->gaps[v->n_gaps++].last = last;
        }
        return true;
    }
    return false;
}

/* ---- lines ---- */

static void judge_bad(struct verifier *v, const struct audit_line *next)
{
    if (v->bad == 0)
        return;
    if (v->start == 0) { /* what they stand for is told by what comes first */
        v->seq = next && next->seq > v->bad ? next->seq - 1 - v->bad : 0;
        v->start = v->seq + 1;
    }
    bool is_behind = !next && v->files->head_rc == 0 && v->seq >= v->files->head.seq;
    uint64_t room = next ? next->seq - v->seq - 1 : is_behind ? 0 : UINT64_MAX;
    if (room == 0)
        report(v, CAY_AUDIT_INSERTED, v->seq + 1, v->seq + 1, v->bad_file, v->bad_line,
               "%llu line%s before entry %llu %s never written by cay", ULL(v->bad),
               v->bad == 1 ? "" : "s", ULL(v->seq + 1), v->bad == 1 ? "was" : "were");
    else if (v->bad == 1)
        report(v, CAY_AUDIT_CHANGED, v->seq + 1, v->seq + 1, v->bad_file, v->bad_line,
               "entry %llu was changed: its text is not what its hash was made of",
               ULL(v->seq + 1));
    else
        report(v, CAY_AUDIT_CHANGED, v->seq + 1, v->seq + MIN(v->bad, room), v->bad_file,
               v->bad_line, "entries %llu to %llu were changed", ULL(v->seq + 1),
               ULL(v->seq + MIN(v->bad, room)));
    if (room > 0) { /* they stand for as many entries */
        v->seq += MIN(v->bad, room);
        v->hash[0] = '\0'; /* what the next one should follow from is not known */
    }
    v->bad = 0;
}

static void look_at_note(struct verifier *v, const char *line, size_t len, uint64_t seq)
{
    struct arena arena = { 0 };
    struct audit_entry entry;

    if (audit_parse(&arena, line, len, &entry) == 0 && strcmp(entry.kind, "run") != 0 &&
        !audit_is_of_execution(entry.kind)) {
        if (strcmp(entry.kind, "pruned") == 0 && entry.upto_hash && entry.upto + 1 >= v->start)
            v->has_pruned |= entry.upto + 1 > v->start || !v->start_prev[0] ||
                             strcmp(entry.upto_hash, v->start_prev) == 0;
        report(v, CAY_AUDIT_NOTE, seq, seq, v->file, v->line, "%s: %s", entry.kind,
               entry.text ? entry.text : "");
    }
    arena_done(&arena);
}

static void look_at_anchor(struct verifier *v, const struct audit_line *line)
{
    if (v->files->head_rc < 0)
        return;
    if (line->seq == v->files->head.seq) {
        v->is_anchor_seen = true;
        v->is_anchor_matched = strcmp(line->hash, v->files->head.hash) == 0;
    }
    v->unanchored += line->seq > v->files->head.seq;
}

static void take_entry(struct verifier *v, const char *text, size_t len,
                       const struct audit_line *line)
{
    if (v->start == 0 || line->seq > v->seq)
        judge_bad(v, line);
    if (v->start == 0) {
        v->start = line->seq;
        v->seq = line->seq - 1;
        memcpy(v->start_prev, line->prev, sizeof v->start_prev);
        if (line->seq == 1)
            memset(v->hash, '0', DIGEST_HEX); /* the first of all follows from nothing */
    }
    look_at_anchor(v, line);
    if (line->seq < v->start) {
        report(v, CAY_AUDIT_REORDERED, line->seq, line->seq, v->file, v->line,
               "entry %llu stands behind entry %llu", ULL(line->seq), ULL(v->seq));
        if (line->seq + 1 == v->start) {
            v->start = line->seq;
            memcpy(v->start_prev, line->prev, sizeof v->start_prev);
        }
        return;
    }
    if (line->seq <= v->seq) {
        if (fill_gap(v, line->seq))
            report(v, CAY_AUDIT_REORDERED, line->seq, line->seq, v->file, v->line,
                   "entry %llu stands behind entry %llu", ULL(line->seq), ULL(v->seq));
        else
            report(v, CAY_AUDIT_INSERTED, line->seq, line->seq, v->file, v->line,
                   "entry %llu appears a second time", ULL(line->seq));
        return;
    }
    if (line->seq > v->seq + 1)
        add_gap(v, v->seq + 1, line->seq - 1);
    else if (v->hash[0] && strcmp(line->prev, v->hash) != 0)
        report(v, CAY_AUDIT_CHANGED, line->seq - 1, line->seq, v->file, v->line,
               "entry %llu does not follow from entry %llu: one of them was written anew",
               ULL(line->seq), ULL(line->seq - 1));
    v->seq = line->seq;
    memcpy(v->hash, line->hash, sizeof v->hash);
    v->sum->entries++;
    v->sum->last = line->seq;
    memcpy(v->sum->hash, line->hash, sizeof line->hash);
    if (memmem(text, len, "\"kind\":\"run\"", 12) == NULL)
        look_at_note(v, text, len, line->seq);
}

static int look_at(void *arg, const char *text, size_t len, uint64_t end, bool is_whole)
{
    struct verifier *v = arg;
    struct audit_line line;

    (void)end;
    v->line++;
    if (!is_whole && v->number == v->files->last) {
        v->torn = MAX(len, (size_t)1); /* the anchor shows what it means */
        return 0;
    }
    if (is_whole && audit_check_line(text, len, &line) == 0) {
        take_entry(v, text, len, &line);
        return 0;
    }
    if (v->bad++ == 0) {
        v->bad_line = v->line;
        memcpy(v->bad_file, v->file, sizeof v->bad_file);
    }
    return 0;
}

/* ---- the end ---- */

static void judge_gaps(struct verifier *v)
{
    for (size_t i = 0; i < v->n_gaps; i++) {
        const struct gap *gap = &v->gaps[i];
        if (gap->first > gap->last)
            continue;
        if (gap->first == gap->last)
            report(v, CAY_AUDIT_CUT, gap->first, gap->last, gap->file, gap->line,
                   "entry %llu is missing", ULL(gap->first));
        else
            report(v, CAY_AUDIT_CUT, gap->first, gap->last, gap->file, gap->line,
                   "entries %llu to %llu are missing", ULL(gap->first), ULL(gap->last));
    }
}

static void judge_anchor(struct verifier *v)
{
    const struct audit_head *head = &v->files->head;

    if (v->files->head_rc < 0) {
        if (v->start > 0 || v->files->head_rc != -ENOENT || v->files->log_size > 0)
            report(v, CAY_AUDIT_ANCHOR, 0, 0, "audit.head", 0,
                   v->files->head_rc == -ENOENT
                       ? "the anchor is missing: whether the end was cut off is unknown"
                       : "the anchor is damaged: whether the end was cut off is unknown");
        return;
    }
    if (head->seq > v->seq)
        report(v, CAY_AUDIT_TAIL_CUT, v->seq + 1, head->seq, "audit.jsonl", v->line,
               "the end was cut off: the anchor knows of entry %llu, the last one here is %llu",
               ULL(head->seq), ULL(v->seq));
    else if (v->is_anchor_seen && !v->is_anchor_matched)
        report(v, CAY_AUDIT_ANCHOR, head->seq, head->seq, "audit.head", 0,
               "entry %llu is not the one that was anchored", ULL(head->seq));
    if (v->unanchored > 0)
        report(v, CAY_AUDIT_UNFINISHED, head->seq + 1, v->seq, "audit.jsonl", v->line,
               "%llu entr%s not anchored yet: a writer was killed, or is still writing",
               ULL(v->unanchored), v->unanchored == 1 ? "y is" : "ies are");
    if (v->torn > 0 && head->seq <= v->seq)
        report(v, CAY_AUDIT_UNFINISHED, v->seq + 1, v->seq + 1, "audit.jsonl", v->line,
               "%llu bytes of an unfinished entry: a writer was killed, or is still writing; the "
               "next one will cut them off",
               ULL(v->torn));
}

int cay_audit_verify(cay_audit_finding_fn *fn, void *arg, struct cay_audit_summary *ret,
                     struct cay_error *err)
{
    auto_close int state_fd = state_open();

    if (state_fd < 0)
        return cay_fail_errno(err, -state_fd, "open the state folder");
    return audit_verify_at(state_fd, fn, arg, ret, err);
}

int audit_verify_at(int state_fd, cay_audit_finding_fn *fn, void *arg,
                    struct cay_audit_summary *ret, struct cay_error *err)
{
    struct audit_files files;
    struct verifier v = { .fn = fn, .arg = arg, .sum = ret, .files = &files };

    *ret = (struct cay_audit_summary){ 0 };
    int rc = audit_files_open(state_fd, &files);
    if (rc < 0)
        return cay_fail_errno(err, -rc, "open the audit log");
    for (v.number = files.first; rc >= 0 && v.number <= files.last; v.number++) {
        if (v.number == files.last)
            snprintf(v.file, sizeof v.file, "audit.jsonl");
        else
            audit_file_name(v.number, v.file);
        v.line = 0;
        rc = audit_files_read(state_fd, &files, v.number, 0, look_at, &v);
    }
    if (rc >= 0) {
        judge_bad(&v, NULL);
        judge_gaps(&v);
        judge_anchor(&v);
        if (v.start > 1 && !v.has_pruned)
            report(&v, CAY_AUDIT_CUT, 1, v.start - 1, "audit.jsonl", 1,
                   "entries 1 to %llu are missing, and no entry says that they were pruned",
                   ULL(v.start - 1));
    }
    ret->first = v.start;
    free(v.gaps);
    audit_files_close(&files);
    return rc < 0 ? cay_fail_errno(err, -rc, "read the audit log") : 0;
}
