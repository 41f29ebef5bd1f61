/* SPDX-License-Identifier: Apache-2.0 */
#include "explain/errors-scan.h"

#include <string.h>

#include "base/auto.h"

struct scan {
    const struct errors_data *data;
    enum errors_stage stage;
    struct errors_report *report;
    struct errors_frame at; /* a place that was printed before its error */
    struct slice function;  /* of the frame that comes */
    struct slice before;    /* the line before this one */
    const char *end;        /* of the text, blanks at its end apart */
    bool is_awaited;        /* a trace has begun, its error has not come */
    bool has_more;          /* the message may go on */
    bool has_ended;         /* what follows belongs to something else */
    bool is_locked;         /* no other error counts */
    bool has_echo;          /* the next line is the source's */
    bool is_adjacent;       /* the line before was a frame or an error */
};

static unsigned number(struct slice digits)
{
    unsigned n = 0;
    for (size_t i = 0; i < digits.len; i++)
        n = n * 10 + (unsigned)(digits.data[i] - '0'); /* nine digits at most */
    return n;
}

/* Of a trace that is too long the first half stays, and of the rest what came last. */
static struct errors_frame *new_frame(struct errors_report *report)
{
    enum { KEEP = ERRORS_FRAMES_MAX / 2 };

    if (report->n_frames == ERRORS_FRAMES_MAX) {
        memmove(&report->frames[KEEP], &report->frames[KEEP + 1],
                (ERRORS_FRAMES_MAX - KEEP - 1) * sizeof report->frames[0]);
        report->n_frames--;
    }
    struct errors_frame *frame = &report->frames[report->n_frames++];
    *frame = (struct errors_frame){ 0 };
    return frame;
}

static struct errors_frame frame_of(const struct template_match *match)
{
    return (struct errors_frame){
        .file = match->holes[HOLE_FILE],
        .function = match->holes[HOLE_FUNCTION],
        .line = number(match->holes[HOLE_LINE]),
        .column = number(match->holes[HOLE_COLUMN]),
    };
}

static void forget_error(struct errors_report *report)
{
    struct slice none = { 0 };

    report->row = NULL;
    report->type = report->message = report->file = report->name = report->call = none;
    report->echo = report->hint = report->symbol = report->calls = none;
    report->line = report->column = 0;
    report->mark = 0;
    report->n_frames = 0;
}

static void on_trace(struct scan *scan)
{
    if (scan->is_locked)
        return;
    if (!scan->report->row || !scan->data->is_deepest_first)
        scan->report->n_frames = 0;
    scan->is_awaited = true;
    scan->has_ended = false;
}

static void on_frame(struct scan *scan, const struct errors_line *row,
                     const struct template_match *match)
{
    struct errors_report *report = scan->report;

    if (scan->has_ended || (scan->is_locked && !scan->data->is_deepest_first))
        return;
    if (!scan->data->is_deepest_first) {
        if (!scan->is_awaited)
            report->n_frames = 0; /* a trace without a head */
        scan->is_awaited = true;
    }
    struct errors_frame *frame = new_frame(report);
    *frame = frame_of(match);
    frame->is_library = row->is_library;
    if (!frame->function.data)
        frame->function = scan->function;
    scan->function = (struct slice){ 0 };
}

/* The message of a pattern that names none: from the type on, or behind the place. */
static struct slice rest_of_line(const struct template_match *match, const char *line, size_t len)
{
    const struct slice *holes = match->holes;
    const char *from = line, *end = line + len;

    for (enum template_hole hole = HOLE_LINE; hole <= HOLE_COLUMN; hole++)
        if (holes[hole].data && holes[hole].data >= from)
            from = holes[hole].data + holes[hole].len;
    while (from > line && from < end && (*from == ':' || *from == ' '))
        from++;
    if (holes[HOLE_TYPE].data)
        from = holes[HOLE_TYPE].data;
    return (struct slice){ from, (size_t)(end - from) };
}

static void on_error(struct scan *scan, const struct errors_line *row,
                     const struct template_match *match, const char *line, size_t len)
{
    struct errors_report *report = scan->report;
    const struct slice *holes = match->holes;

    if (scan->is_locked && !row->is_final)
        return;
    if (row->has_causes && report->row && report->row->has_causes && scan->is_adjacent) {
        scan->has_ended = true;
        return;
    }
    size_t n_frames = scan->data->is_deepest_first ? 0 : report->n_frames;
    forget_error(report);
    report->n_frames = n_frames;
    report->row = row;
    report->type = holes[HOLE_TYPE];
    report->message = holes[HOLE_MESSAGE];
    report->name = holes[HOLE_NAME];
    report->call = holes[HOLE_CALL];
    if (row->is_whole)
        report->message = (struct slice){ line, len };
    else if (!report->message.data)
        report->message = rest_of_line(match, line, len);
    struct errors_frame place =
        holes[HOLE_FILE].data || holes[HOLE_LINE].data ? frame_of(match) : scan->at;
    report->file = place.file;
    report->line = place.line;
    report->column = place.column;
    report->echo = place.echo;
    report->mark = place.mark;
    if (holes[HOLE_FUNCTION].data && place.line > 0)
        *new_frame(report) = place;
    scan->at = (struct errors_frame){ 0 };
    scan->is_awaited = false;
    scan->has_ended = false;
    scan->has_more = row->has_more;
    scan->is_locked = row->is_first;
}

/* A place by itself: of the error before it where that has none, else of the one to come. A rest of
 * the message may come with it. */
static void on_at(struct scan *scan, const struct errors_line *row,
                  const struct template_match *match, bool had_more)
{
    struct errors_report *report = scan->report;
    struct slice rest = match->holes[HOLE_MESSAGE];

    if (report->row && report->line == 0 && !scan->has_ended) {
        struct errors_frame place = frame_of(match);
        report->file = place.file;
        report->line = place.line;
        report->column = place.column;
        if (rest.data && had_more)
            report->message.len = (size_t)(rest.data + rest.len - report->message.data);
    } else if (!scan->is_locked && !row->is_behind) {
        scan->at = frame_of(match);
        scan->is_awaited = true;
    }
}

static void on_caret(struct scan *scan, const struct template_match *match, const char *line)
{
    struct errors_report *report = scan->report;
    size_t mark = (size_t)(match->holes[HOLE_CARET].data - line) + 1;

    if (scan->has_ended)
        return;
    if (scan->at.line > 0) {
        scan->at.echo = scan->before;
        scan->at.mark = mark;
    } else if (report->row && report->mark == 0 && report->line > 0) {
        report->echo = scan->before;
        report->mark = mark;
    } else if (report->n_frames > 0 && (!report->row || scan->is_awaited)) {
        report->frames[report->n_frames - 1].echo = scan->before;
        report->frames[report->n_frames - 1].mark = mark;
    }
}

/* "  symbol:   variable count": what the error is about, some lines below it. */
static void on_symbol(struct errors_report *report, const struct template_match *match,
                      const char *line, size_t len)
{
    const char *colon = memchr(line, ':', len);
    const char *from = colon ? colon + 1 : line;

    while (from < line + len && *from == ' ')
        from++;
    report->symbol = (struct slice){ from, (size_t)(line + len - from) };
    report->name = match->holes[HOLE_NAME];
}

static bool is_of_type(const struct errors_report *report, const char *type)
{
    return report->row && report->row->type && type && strcmp(report->row->type, type) == 0;
}

static bool fits(const struct scan *scan, const struct errors_line *row, const char *line_end)
{
    if (row->is_last && line_end < scan->end)
        return false;
    if ((row->is_compile && scan->stage == ERRORS_RUN) ||
        (row->is_run && scan->stage == ERRORS_COMPILE))
        return false;
    if (row->is_awaited && !scan->is_awaited)
        return false;
    if (row->kind == ERRORS_DROP && !is_of_type(scan->report, row->type))
        return false;
    return !row->is_blank || (scan->is_awaited && scan->before.data && scan->before.len == 0);
}

static void take(struct scan *scan, const struct errors_line *row,
                 const struct template_match *match, const char *line, size_t len)
{
    bool had_more = scan->has_more;

    scan->has_more = false;
    scan->has_echo = row->has_echo;
    switch (row->kind) {
    case ERRORS_TRACE:
        on_trace(scan);
        break;
    case ERRORS_FRAME:
        on_frame(scan, row, match);
        break;
    case ERRORS_FUNCTION:
        scan->function = match->holes[HOLE_FUNCTION];
        break;
    case ERRORS_ERROR:
        on_error(scan, row, match, line, len);
        break;
    case ERRORS_AT:
        on_at(scan, row, match, had_more);
        break;
    case ERRORS_CARET:
        on_caret(scan, match, line);
        break;
    case ERRORS_MESSAGE:
        if (scan->report->row && !scan->has_ended) {
            scan->report->message = match->holes[HOLE_MESSAGE];
            scan->has_more = row->has_more;
        }
        break;
    case ERRORS_HINT:
        if (scan->report->row && !scan->report->hint.data && !scan->has_ended)
            scan->report->hint = match->holes[HOLE_NAME];
        break;
    case ERRORS_SYMBOL:
        if (scan->report->row && !scan->report->symbol.data && !scan->has_ended)
            on_symbol(scan->report, match, line, len);
        break;
    case ERRORS_CALLS:
        if (scan->report->row && !scan->has_ended)
            scan->report->calls = match->holes[HOLE_CALL];
        scan->has_ended = scan->report->row != NULL;
        break;
    case ERRORS_DROP:
        forget_error(scan->report);
        scan->is_locked = false;
        break;
    case ERRORS_SKIP:
        break;
    case ERRORS_END:
        scan->has_ended = scan->report->n_frames > 0 || scan->report->row;
        break;
    }
}

static size_t prefix_len(const struct scan *scan, const char *line, size_t len)
{
    for (const char *const *prefix = scan->data->strip; *prefix; prefix++)
        if (strlen(*prefix) <= len && memcmp(line, *prefix, strlen(*prefix)) == 0)
            return strlen(*prefix);
    return 0;
}

static bool is_blank(const char *text, size_t len)
{
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        len--;
    return len == 0;
}

static void scan_line(struct scan *scan, const char *line, size_t len)
{
    struct template_match match;
    size_t skip = prefix_len(scan, line, len);
    const char *line_end = line + len;

    if (len > 0 && line[len - 1] == '\r')
        len--;
    line += MIN(skip, len);
    len -= MIN(skip, len);
    len = MIN(len, (size_t)ERRORS_LINE_MAX);
    bool is_empty = is_blank(line, len);
    const struct slice whole = { line, is_empty ? 0 : len };
    bool is_echo = scan->has_echo;
    scan->has_echo = false;
    for (size_t i = 0; i < scan->data->n_lines && !is_empty && !is_echo; i++) {
        const struct errors_line *row = &scan->data->lines[i];
        if (!fits(scan, row, line_end) || !template_match(&row->match, line, len, &match))
            continue;
        take(scan, row, &match, line, len);
        scan->before = whole;
        scan->is_adjacent = row->kind == ERRORS_FRAME || row->kind == ERRORS_ERROR;
        return;
    }
    scan->is_adjacent = false;
    if (scan->has_more && scan->report->message.data)
        scan->report->message.len = (size_t)(line + len - scan->report->message.data);
    scan->before = whole;
}

static void scan_part(struct scan *scan, const char *text, size_t len)
{
    for (const char *end = text + len; text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        scan_line(scan, text, (size_t)((newline ? newline : end) - text));
        text = newline ? newline + 1 : end;
    }
}

void errors_scan(const struct errors_data *data, enum errors_stage stage, const char *text,
                 size_t len, struct errors_report *ret)
{
    struct scan scan = { .data = data, .stage = stage, .report = ret };

    memset(ret, 0, sizeof *ret);
    scan.end = text + len;
    while (scan.end > text && strchr(" \t\r\n", scan.end[-1]))
        scan.end--;
    if (len <= ERRORS_HEAD_BYTES + ERRORS_TAIL_BYTES) {
        scan_part(&scan, text, len);
        return;
    }
    scan_part(&scan, text, ERRORS_HEAD_BYTES);
    scan.has_more = false; /* a message does not reach over the gap */
    scan_part(&scan, text + len - ERRORS_TAIL_BYTES, ERRORS_TAIL_BYTES);
}
