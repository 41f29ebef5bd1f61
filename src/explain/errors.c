/* SPDX-License-Identifier: Apache-2.0 */
#include "explain/errors.h"

#include <signal.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/signals.h"
#include "base/strbuf.h"
#include "core/fence.h"
#include "explain/errors-case.h"
#include "explain/errors-scan.h"

enum { TYPE_MAX = 200, MESSAGE_MAX = 4000, PATH_TEXT_MAX = 400, FUNCTION_MAX = 200 };

struct analysis {
    struct arena *arena;
    const struct errors_facts *facts;
    const struct errors_data *own, *common;
    struct errors_sources sources;
    struct errors_report *report;
    struct cay_failure *failure;
};

/* ---- the place ---- */

static const char *path_text(struct analysis *a, struct slice path)
{
    return path.data ? source_copy(a->arena, source_path(path), PATH_TEXT_MAX) : NULL;
}

static unsigned frame_column(struct analysis *a, const struct errors_frame *frame)
{
    const struct errors_source *source = source_find(&a->sources, frame->file);

    if (frame->column > 0 || !source)
        return frame->column;
    return source_column(source, frame->line, frame->echo, frame->mark);
}

static void make_frames(struct analysis *a)
{
    const struct errors_report *report = a->report;
    struct cay_frame *frames = arena_alloc(a->arena, (report->n_frames + 1) * sizeof *frames);

    for (size_t i = 0; i < report->n_frames; i++) {
        const struct errors_frame *frame = &report->frames[i];
        frames[i] = (struct cay_frame){
            .file = path_text(a, frame->file),
            .line = frame->line,
            .column = frame_column(a, frame),
            .function =
                frame->function.data ? source_copy(a->arena, frame->function, FUNCTION_MAX) : NULL,
            .is_user = !frame->is_library && source_is_user(&a->sources, frame->file),
        };
    }
    a->failure->frames = frames;
    a->failure->n_frames = report->n_frames;
}

/* The innermost call that is the user's own. */
static const struct cay_frame *own_frame(struct analysis *a)
{
    const struct cay_failure *failure = a->failure;

    for (size_t i = 0; i < failure->n_frames; i++) {
        size_t at = a->own->is_deepest_first ? i : failure->n_frames - 1 - i;
        if (failure->frames[at].is_user)
            return &failure->frames[at];
    }
    return NULL;
}

/* The line of a statement is where it begins; what is wrong may stand further down. */
static void look_into_statement(struct analysis *a, const struct errors_source *source)
{
    struct slice word = a->report->name;
    unsigned column;
    unsigned line =
        source_shown_line(source, a->failure->line, a->report->echo, a->report->mark, &column);

    if (line == 0 && a->report->mark > 0 && a->report->mark <= a->report->echo.len) {
        const char *start = a->report->echo.data + a->report->mark - 1;
        const char *end = a->report->echo.data + a->report->echo.len;
        word = (struct slice){ start, 0 };
        while (start + word.len < end && !strchr(" \t(),;=<>+*/", start[word.len]))
            word.len++;
    }
    if (line == 0 && word.data)
        line = source_word_from(source, a->failure->line, word, &column);
    if (line > 0) {
        a->failure->line = line;
        a->failure->column = column;
    }
}

/* "main.zsh:cd", "f:cd": which builtin it was is no part of where. */
static struct slice without_builtin(struct slice file)
{
    const char *colon = file.data ? memrchr(file.data, ':', file.len) : NULL;
    return colon && colon > file.data ? (struct slice){ file.data, (size_t)(colon - file.data) }
                                      : file;
}

/* A line without a file is the program's; but of statements it may be that of a file which the
 * program reads (.read of sqlite3): the first one that has what was shown, or else a statement. */
static const struct errors_source *unnamed_source(struct analysis *a)
{
    const struct errors_report *report = a->report;
    unsigned column;

    for (size_t i = 0; report->row->is_statement && i < a->sources.n; i++) {
        const struct errors_source *source = &a->sources.list[i];
        struct slice line = source_line(source, report->line);
        if (source->is_other || !line.data || line.len == 0 || line.data[0] == '.')
            continue;
        if (report->echo.len == 0 ||
            source_shown_line(source, report->line, report->echo, report->mark, &column) > 0)
            return source;
    }
    return a->sources.n > 0 ? &a->sources.list[0] : NULL;
}

static void place_by_report(struct analysis *a)
{
    struct errors_report *report = a->report;

    if (report->row->in_function)
        report->file = without_builtin(report->file);
    const struct errors_source *source = source_find(&a->sources, report->file);

    a->failure->line = report->line;
    a->failure->column = report->column;
    for (size_t i = 0; !source && report->row->in_function && i < a->sources.n; i++) {
        unsigned start = source_function_line(&a->sources.list[i], report->file);
        if (start > 0) {
            source = &a->sources.list[i];
            a->failure->line = start + report->line;
        }
    }
    /* So is one of a file that the program could not read. */
    bool is_unread = report->row->in_function && report->name.len == report->file.len &&
                     report->name.data &&
                     memcmp(report->name.data, report->file.data, report->file.len) == 0;
    if (!source && (!report->file.data || is_unread))
        source = unnamed_source(a);
    a->failure->file = source ? arena_str(a->arena, source->name) : path_text(a, report->file);
    if (source && a->failure->column == 0)
        a->failure->column = source_column(source, a->failure->line, report->echo, report->mark);
    if (source && report->row->is_statement)
        look_into_statement(a, source);
    unsigned better = 0;
    if (source && report->row->is_command)
        better = source_command_line(source, a->failure->line, report->name);
    else if (source && report->row->is_redirect)
        better = source_redirect_line(source, a->failure->line);
    if (better > 0)
        a->failure->line = better;
}

/* An error that was passed on has its own place in its message: "main.lua:7: main.lua:3: no". */
static void place_by_message(struct analysis *a)
{
    const struct errors_source *source;
    unsigned line;
    const char *rest;

    while ((rest = source_place(&a->sources, a->failure->message, &source, &line))) {
        a->failure->message = rest;
        a->failure->file = arena_str(a->arena, source->name);
        a->failure->line = line;
        a->failure->column = 0;
    }
}

static void make_place(struct analysis *a)
{
    const struct errors_report *report = a->report;
    const struct cay_frame *frame = own_frame(a);
    bool is_own =
        report->line > 0 && (!report->file.data || source_is_user(&a->sources, report->file) ||
                             report->row->in_function);

    if (is_own) {
        place_by_report(a);
    } else if (frame) {
        a->failure->file = frame->file;
        a->failure->line = frame->line;
        a->failure->column = frame->column;
    }
    if (a->own->has_inner_place)
        place_by_message(a);
}

/* One text of `find`: "{end}", "{quoted}", "says WORD", or a text with holes. */
static unsigned find_in(struct analysis *a, const struct errors_source *source, const char *text,
                        const struct errors_known *known, bool may_repeat)
{
    static const char says[] = "says ";

    if (strcmp(text, "{end}") == 0)
        return source_end_line(source);
    if (strcmp(text, "{quoted}") == 0)
        return source_lines_quoted(source, known->message);
    if (strncmp(text, says, strlen(says)) == 0)
        return source_line_saying(source, text + strlen(says), known->message);
    const char *wanted = case_fill(a->arena, text, known);
    return wanted ? source_line_with(source, wanted, may_repeat) : 0;
}

/* Where nothing named a line, a text of the source may show it. One that is there once is better
 * than one that comes first in the list. */
static bool find_place(struct analysis *a, const char *const *texts,
                       const struct errors_known *known)
{
    for (int may_repeat = 0; may_repeat < 2; may_repeat++)
        for (const char *const *text = texts; text && *text; text++)
            for (size_t i = 0; i < a->sources.n; i++) {
                const struct errors_source *source = &a->sources.list[i];
                unsigned line = source->is_other ? 0 : find_in(a, source, *text, known, may_repeat);
                if (line == 0)
                    continue;
                a->failure->file = arena_str(a->arena, source->name);
                a->failure->line = line;
                return true;
            }
    return false;
}

/* "f -> g -> h": the innermost call that stands in the source. */
static void find_by_calls(struct analysis *a)
{
    static const char arrow[] = " -> ";
    struct slice calls = a->report->calls;

    while (calls.data && calls.len > 0 && a->failure->line == 0 && a->sources.n > 0) {
        size_t start = calls.len;
        while (start > 0 && (start < strlen(arrow) ||
                             memcmp(calls.data + start - strlen(arrow), arrow, strlen(arrow)) != 0))
            start--;
        struct slice last = { calls.data + start, calls.len - start };
        const char *wanted =
            arena_printf(a->arena, "%s(", source_copy(a->arena, last, FUNCTION_MAX));
        a->failure->line = source_line_with(&a->sources.list[0], wanted, true);
        calls.len = start > 0 ? start - strlen(arrow) : 0;
    }
    if (a->failure->line > 0 && !a->failure->file)
        a->failure->file = arena_str(a->arena, a->sources.list[0].name);
}

static void make_context(struct analysis *a)
{
    struct cay_failure *failure = a->failure;

    if (!failure->file || failure->line == 0)
        return;
    const struct errors_source *source =
        source_find(&a->sources, (struct slice){ failure->file, strlen(failure->file) });
    if (source)
        failure->context = source_context(a->arena, source, failure->line, &failure->n_context);
}

/* ---- type and meaning ---- */

/* "java.lang.ArithmeticException", "Main$Refused", "json.decoder.JSONDecodeError": the last part is
 * what people call it. "std::out_of_range" and "Errno::ENOENT" are called so. */
static const char *short_type(const char *type)
{
    const char *last = type;

    for (const char *pos = type; *pos; pos++)
        if ((*pos == '.' || *pos == '$') && pos[1] != '\0')
            last = pos + 1;
    return last;
}

static const char *replace(struct arena *arena, const char *form, const char *hole,
                           const char *text)
{
    const char *at = strstr(form, hole);
    return at ? arena_printf(arena, "%.*s%s%s", (int)(at - form), form, text, at + strlen(hole))
              : form;
}

/* "java.lang.String" and "Errno::ENOENT" as a path. */
static const char *type_path(struct arena *arena, const char *type)
{
    char *path = arena_str(arena, type);
    size_t n = 0;

    for (const char *pos = type; *pos; pos++) {
        if (*pos == ':' && pos[1] == ':')
            pos++;
        path[n++] = (char)(*pos == '.' || *pos == ':' ? '/' : *pos);
    }
    path[n] = '\0';
    return path;
}

static const char *type_doc(struct analysis *a)
{
    const struct cay_failure *failure = a->failure;
    const char *doc = a->own->type_doc;

    if (!doc || !failure->type || !errors_data_word(a->own->types, failure->type))
        return a->own->doc;
    char *lower = arena_str(a->arena, failure->type);
    for (char *c = lower; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    doc = replace(a->arena, doc, "{type}", failure->type);
    doc = replace(a->arena, doc, "{path}", type_path(a->arena, failure->full_type));
    return replace(a->arena, doc, "{lower}", lower);
}

static void make_meaning(struct analysis *a)
{
    struct cay_failure *failure = a->failure;
    const struct errors_report *report = a->report;
    const struct errors_line *row = report->row;
    struct errors_meaning meaning;
    const struct errors_known known = {
        .is_remote = a->facts->is_remote,
        .type = failure->type,
        .message = failure->message,
        .name = report->name,
        .call = report->call,
        .hint = report->hint.data ? source_copy(a->arena, report->hint, FUNCTION_MAX) : NULL,
    };

    case_decide(a->arena, a->own, a->common, &a->sources, &known, &meaning);
    if (meaning.as)
        failure->type = failure->full_type = meaning.as;
    const char *by_type = failure->type ? errors_data_word(a->own->types, failure->type) : NULL;
    failure->category = meaning.category  ? meaning.category
                        : row->category   ? row->category
                        : by_type         ? by_type
                        : row->is_compile ? "syntax"
                                          : "runtime";
    failure->suggestion = meaning.suggestion;
    failure->doc = meaning.doc ? meaning.doc : type_doc(a);
    if (failure->line == 0 && !find_place(a, meaning.find, &known))
        find_place(a, row->find, &known);
    find_by_calls(a);
}

static bool make_from_text(struct analysis *a)
{
    struct cay_failure *failure = a->failure;
    const struct errors_report *report = a->report;

    if (!a->own)
        return false;
    errors_scan(a->own, a->facts->stage, a->facts->text, a->facts->len, a->report);
    if (!report->row)
        return false;
    if (report->type.data) {
        failure->full_type = source_copy(a->arena, report->type, TYPE_MAX);
        failure->type = short_type(failure->full_type);
    } else {
        failure->full_type = failure->type = report->row->type;
    }
    failure->message = source_copy(a->arena, report->message, MESSAGE_MAX);
    if (report->message.data == report->type.data && report->message.len == report->type.len)
        failure->message = ""; /* an exception without a word */
    if (report->symbol.data) {
        const char *whole = arena_printf(a->arena, "%s: %s", failure->message,
                                         source_copy(a->arena, report->symbol, FUNCTION_MAX));
        failure->message =
            source_copy(a->arena, (struct slice){ whole, strlen(whole) }, MESSAGE_MAX);
    }
    make_frames(a);
    make_place(a);
    make_meaning(a);
    make_context(a);
    return true;
}

/* ---- the verdict ---- */

static const struct {
    enum cay_cause cause;
    const char *type, *category;
    bool is_whole; /* what the program wrote is not why it failed */
} causes[] = {
    { CAY_CAUSE_WALL_TIMEOUT, "Timeout", "timeout", true },
    { CAY_CAUSE_CPU_TIMEOUT, "Timeout", "timeout", true },
    { CAY_CAUSE_MEMORY, "OutOfMemory", "memory", true },
    { CAY_CAUSE_OUTPUT, "OutputLimit", "output", true },
    { CAY_CAUSE_CANCELLED, "Cancelled", "cancelled", true },
    { CAY_CAUSE_SYSCALL, "SIGSYS", "syscall", true },
    { CAY_CAUSE_POLICY, "PolicyViolation", "policy", true },
    { CAY_CAUSE_INFRASTRUCTURE, NULL, "infrastructure", true },
    { CAY_CAUSE_PIDS, "ProcessLimit", "processes", false },
    { CAY_CAUSE_DISK, "DiskFull", "disk", false },
    { CAY_CAUSE_NETWORK, "NetworkBlocked", "network", false },
};

static const struct {
    int number;
    const char *category, *suggestion;
} signals[] = {
    { SIGSEGV, "memory",
      "the program used memory that is not its own: look for a null or dangling pointer, an index "
      "out of range, or endless recursion; -fsanitize=address names the line" },
    { SIGBUS, "memory", "the program used memory behind which there is no file or device" },
    { SIGFPE, "arithmetic",
      "an integer was divided by zero, or a quotient does not fit: check the divisor first" },
    { SIGABRT, "runtime",
      "the program gave up by itself: abort(), a failed check, or an exception "
      "that nobody caught" },
    { SIGILL, "runtime",
      "the program ran into an instruction that it must not reach: "
      "undefined behaviour, or a function without a return value" },
    { SIGTRAP, "runtime", NULL },
    { SIGPIPE, "io", "the program wrote to a pipe or socket that nobody reads any more" },
    { SIGXCPU, "timeout", "the program used up its CPU time" },
    { SIGXFSZ, "disk", "the program wrote a file that is too large" },
    { SIGKILL, "runtime", NULL },
    { SIGTERM, "runtime", NULL },
};

static void make_from_signal(struct analysis *a, int number)
{
    struct cay_failure *failure = a->failure;
    const char *name = signal_name(number);
    char text[SIGNAL_TEXT_MAX];

    failure->type = failure->full_type =
        name ? arena_printf(a->arena, "SIG%s", name) : arena_printf(a->arena, "signal %d", number);
    failure->message =
        arena_printf(a->arena, "ended by signal %d (%s)", number, signal_text(number, text));
    failure->category = "runtime";
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        if (signals[i].number == number) {
            failure->category = signals[i].category;
            failure->suggestion = signals[i].suggestion;
        }
}

static void make_from_exit(struct analysis *a)
{
    struct cay_failure *failure = a->failure;
    struct errors_meaning meaning;
    /* What was written last may still be known. */
    size_t len = a->facts->len, start;

    while (len > 0 && strchr("\r\n \t", a->facts->text[len - 1]))
        len--;
    for (start = len; start > 0 && a->facts->text[start - 1] != '\n'; start--)
        continue;
    struct slice last = { a->facts->text + start, len - start };
    failure->message = source_copy(a->arena, last, MESSAGE_MAX);
    failure->category = a->facts->stage == ERRORS_COMPILE ? "syntax" : "exit";
    if (failure->message[0] == '\0') {
        failure->message = arena_printf(a->arena, "exit code %d", a->facts->result->exit_code);
        return;
    }
    /* A program that says why it leaves says it somewhere. */
    for (size_t i = 0; i < a->sources.n && failure->line == 0; i++) {
        if (!a->sources.list[i].is_other)
            failure->line = source_line_saying(&a->sources.list[i], "", failure->message);
        if (failure->line > 0)
            failure->file = arena_str(a->arena, a->sources.list[i].name);
    }
    make_context(a);
    const struct errors_known known = { .message = failure->message,
                                        .is_remote = a->facts->is_remote };
    case_decide(a->arena, NULL, a->common, &a->sources, &known, &meaning);
    if (meaning.category)
        failure->category = meaning.category;
    failure->suggestion = meaning.suggestion;
}

/* What the verdict knows goes before what the program wrote. */
static void make_from_verdict(struct analysis *a, bool has_text)
{
    const struct cay_result *result = a->facts->result;
    const struct cay_verdict *verdict = &result->verdict;
    struct cay_failure *failure = a->failure;
    const char *limit = verdict->limit_name ? verdict->limit_name : "";
    enum cay_cause cause = verdict->cause;

    if (cause == CAY_CAUSE_COMPILE && strcmp(limit, "compile_timeout") == 0)
        cause = CAY_CAUSE_WALL_TIMEOUT;
    else if (cause == CAY_CAUSE_COMPILE && strcmp(limit, "compile_memory") == 0)
        cause = CAY_CAUSE_MEMORY;
    for (size_t i = 0; i < ARRAY_LEN(causes); i++) {
        if (causes[i].cause != cause)
            continue;
        bool is_same = has_text && strcmp(failure->category, causes[i].category) == 0;
        if (causes[i].is_whole && !is_same)
            *failure = (struct cay_failure){ .doc = NULL };
        if (!failure->type)
            failure->type = failure->full_type = causes[i].type;
        if (!failure->message || !failure->message[0])
            failure->message =
                arena_str(a->arena, result->error_message ? result->error_message : "");
        failure->category = causes[i].category;
        failure->suggestion = arena_str(a->arena, verdict->remedy);
        return;
    }
    /* With a signal too: a failed assertion, an exception that nobody caught. */
    if (has_text && (result->signal == 0 || failure->type))
        return;
    if (result->signal)
        make_from_signal(a, result->signal);
    else
        make_from_exit(a);
}

/* ---- what to do, for whom ---- */

/* A package manager that can't work inside tells of a certificate or a name server; what called it,
 * of an exit code. */
static void explain_installer(struct analysis *a)
{
    const struct errors_facts *facts = a->facts;
    const struct errors_data *data = errors_data_cached(facts->cache, a->arena, ERRORS_INSTALLERS);
    static const char *const vague[] = { "exit", "runtime", "network", "timeout", "io" };
    struct errors_meaning meaning;
    bool is_vague = !a->failure->suggestion;

    for (size_t i = 0; i < ARRAY_LEN(vague); i++)
        is_vague = is_vague || strcmp(a->failure->category, vague[i]) == 0;
    if (!data || !is_vague)
        return;
    errors_scan(data, facts->stage, facts->text, facts->len, a->report);
    if (!a->report->row)
        return;
    const struct errors_known known = { .type = a->report->row->type,
                                        .message = "",
                                        .is_remote = facts->is_remote };
    case_decide(a->arena, data, NULL, &a->sources, &known, &meaning);
    if (meaning.suggestion)
        a->failure->suggestion = meaning.suggestion;
}

/* A fence around the code is the cause of what comes of it, whatever the language makes of it. */
static void explain_fence(struct analysis *a)
{
    const struct errors_source *source = a->sources.n > 0 ? &a->sources.list[0] : NULL;
    const struct cay_result *result = a->facts->result;

    if (!source || !source->data ||
        (result && result->verdict.cause != CAY_CAUSE_EXIT &&
         result->verdict.cause != CAY_CAUSE_COMPILE))
        return;
    if (fence_find((struct bytes){ source->data, source->len }).is_there)
        a->failure->suggestion =
            "the code is wrapped in a Markdown fence, which ran as part of it: "
            "take it off, or pass --strip-fence";
}

/* "raise pids (--pids)" and "pass it with --file" for a reader who sends fields. */
static const char *with_fields(struct arena *arena, const char *text)
{
    auto_strbuf struct strbuf out = { 0 };

    for (const char *flag; (flag = strstr(text, "--"));) {
        size_t len = strspn(flag + 2, "abcdefghijklmnopqrstuvwxyz-");
        bool is_aside = flag > text + 1 && memcmp(flag - 2, " (", 2) == 0 && flag[2 + len] == ')';
        strbuf_add(&out, text, (size_t)(flag - text) - (is_aside ? 2 : 0));
        size_t start = out.len;
        if (len == strlen("file") && memcmp(flag + 2, "file", len) == 0)
            strbuf_puts(&out, "`files`");
        else if (!is_aside)
            strbuf_add(&out, flag + 2, len);
        for (; start < out.len; start++)
            if (out.data[start] == '-')
                out.data[start] = '_';
        text = flag + 2 + len + is_aside;
    }
    strbuf_puts(&out, text);
    return arena_str(arena, strbuf_str(&out));
}

/* What was needed on the way, the language's data above all, is not kept with the result. */
static const struct cay_failure *keep(struct arena *arena, const struct cay_failure *from)
{
    struct cay_failure *to = arena_alloc(arena, sizeof *to);
    struct cay_frame *frames = arena_alloc(arena, (from->n_frames + 1) * sizeof *frames);
    struct cay_context_line *context = arena_alloc(arena, (from->n_context + 1) * sizeof *context);

    *to = *from;
    to->type = arena_str(arena, from->type);
    to->full_type = arena_str(arena, from->full_type);
    to->category = arena_str(arena, from->category);
    to->message = arena_str(arena, from->message);
    to->file = arena_str(arena, from->file);
    to->suggestion = arena_str(arena, from->suggestion);
    to->doc = arena_str(arena, from->doc);
    for (size_t i = 0; i < from->n_frames; i++) {
        frames[i] = from->frames[i];
        frames[i].file = arena_str(arena, from->frames[i].file);
        frames[i].function = arena_str(arena, from->frames[i].function);
    }
    for (size_t i = 0; i < from->n_context; i++) {
        context[i] = from->context[i];
        context[i].text = arena_str(arena, from->context[i].text);
    }
    to->frames = frames;
    to->context = context;
    return to;
}

const struct cay_failure *errors_analyse(struct arena *arena, const struct errors_facts *facts)
{
    struct arena scratch = { 0 };
    const struct cay_failure *failure = NULL;
    const struct errors_data *common = errors_data_cached(facts->cache, &scratch, NULL);
    struct analysis a = {
        .arena = &scratch,
        .facts = facts,
        .own =
            facts->language ? errors_data_cached(facts->cache, &scratch, facts->language) : common,
        .common = common,
        .sources = { facts->sources, facts->n_sources, .by_last_part = !facts->result,
                     .beside = facts->beside },
        .report = arena_alloc(&scratch, sizeof *a.report),
        .failure = arena_alloc(&scratch, sizeof *a.failure),
    };

    a.sources.is_relative_own = a.own && a.own->is_relative_own;
    bool has_text = make_from_text(&a);
    if (facts->result)
        make_from_verdict(&a, has_text);
    if (facts->result)
        explain_installer(&a);
    explain_fence(&a);
    if (facts->is_remote && a.failure->suggestion)
        a.failure->suggestion = with_fields(&scratch, a.failure->suggestion);
    if (facts->result || has_text)
        failure = keep(arena, a.failure);
    arena_done(&scratch);
    return failure;
}
