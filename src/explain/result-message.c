/* SPDX-License-Identifier: Apache-2.0 */
#include "explain/result-message.h"

#include <stdio.h>
#include <string.h>

#include <cay/run.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/signals.h"
#include "core/language.h"
#include "core/verdict.h"
#include "explain/errors-data.h"

enum { QUOTE_BYTES = 2000 };

/* The rest of the line behind the first of the language's marks, or NULL. */
static const char *syntax_details(struct arena *arena, const struct cay_stream *stream,
                                  const struct language *language)
{
    for (const char *const *mark = language->syntax_error; *mark; mark++) {
        const char *found = memmem(stream->data, stream->len, *mark, strlen(*mark));
        if (!found)
            continue;
        /* A mark that names a kind of error, with a colon or in brackets, is not repeated. */
        const char *kind = strpbrk(*mark, ":]");
        const char *text = kind ? found + (kind + 1 - *mark) : found;
        size_t left = (size_t)(stream->data + stream->len - text);
        for (; left > 0 && *text == ' '; left--)
            text++;
        const char *end = memchr(text, '\n', left);
        return arena_dup(arena, text, end ? (size_t)(end - text) : left);
    }
    return NULL;
}

static const char *failed_with(struct arena *arena, const struct cay_result *result)
{
    const char *text = result->err.data;
    size_t len = result->err.len;

    while (len > 0 && strchr(" \t\r\n", text[len - 1]))
        len--;
    if (len > QUOTE_BYTES) {
        text += len - QUOTE_BYTES;
        len = QUOTE_BYTES;
        for (; len > 0 && ((unsigned char)*text & 0xc0) == 0x80; len--) /* within a character */
            text++;
        const char *line = memchr(text, '\n', len / 2); /* a whole line, if it is not long */
        if (line) {
            len -= (size_t)(line + 1 - text);
            text = line + 1;
        }
    }
    char *quote = arena_dup(arena, text, len);
    for (size_t i = 0; i < len; i++)
        if (quote[i] == '\0') /* nothing behind it is lost */
            quote[i] = ' ';
    if (len > 0)
        return arena_printf(arena, "Execution failed: %s", quote);
    if (result->signal)
        return arena_printf(arena, "Execution failed: killed by signal %d (%s)", result->signal,
                            signal_text(result->signal, (char[SIGNAL_TEXT_MAX]){ 0 }));
    return arena_printf(arena, "Execution failed: exit code %d", result->exit_code);
}

static const char *timed_out(struct arena *arena, const struct verdict_facts *facts, bool is_cpu)
{
    char text[32];
    format_seconds(text, is_cpu ? facts->limits.cpu_time_ns : facts->limits.timeout_ns);
    return arena_printf(arena, "Code execution timed out after %ss%s", text,
                        is_cpu ? " of CPU time" : "");
}

static const char *limit_reached(struct arena *arena, const struct cay_result *result,
                                 const struct verdict_facts *facts)
{
    const struct cay_verdict *verdict = &result->verdict;
    char text[32];

    if (strcmp(verdict->unit, "bytes") == 0)
        format_bytes(text, (uint64_t)verdict->limit);
    else
        snprintf(text, sizeof text, "%.0f", verdict->limit);
    return arena_printf(arena, "Execution failed: the limit %s (%s) was reached%s",
                        verdict->limit_name, text,
                        verdict->cause == CAY_CAUSE_DISK ? verdict_full_place(arena, facts) : "");
}

static const char *syntax_error_prefix(struct arena *arena, const struct language *language)
{
    return arena_printf(arena, "%s syntax error: ", language->title);
}

const char *message_of(struct arena *arena, const struct cay_result *result,
                       const struct language *language, const struct verdict_facts *facts)
{
    const char *details;

    switch (result->verdict.cause) {
    case CAY_CAUSE_OK:
        return NULL;
    case CAY_CAUSE_WALL_TIMEOUT:
        return timed_out(arena, facts, false);
    case CAY_CAUSE_CPU_TIMEOUT:
        return timed_out(arena, facts, true);
    case CAY_CAUSE_MEMORY:
    case CAY_CAUSE_OUTPUT:
    case CAY_CAUSE_PIDS:
    case CAY_CAUSE_DISK:
        return limit_reached(arena, result, facts);
    case CAY_CAUSE_CANCELLED:
        return "Execution cancelled";
    case CAY_CAUSE_EXIT:
    case CAY_CAUSE_COMPILE:
        if (result->verdict.limit_name &&
            strcmp(result->verdict.limit_name, "compile_timeout") == 0)
            return timed_out(arena, facts, false);
        if (result->verdict.limit_name)
            return limit_reached(arena, result, facts);
        /* What was compiled has no syntax error left, whatever it calls an error itself. */
        details = language && (result->verdict.cause == CAY_CAUSE_COMPILE || !language->compile[0])
                      ? syntax_details(arena, &result->err, language)
                      : NULL;
        if (details)
            return arena_printf(arena, "%s%s", syntax_error_prefix(arena, language), details);
        break;
    case CAY_CAUSE_SIGNAL:
    case CAY_CAUSE_SYSCALL:
    case CAY_CAUSE_NETWORK: /* what the program says of it is more use than that it was */
    case CAY_CAUSE_POLICY:
    case CAY_CAUSE_INFRASTRUCTURE:
        break;
    }
    return failed_with(arena, result);
}

/* Whether it is the text that was malformed. A compiler refuses for other reasons too: what it
 * calls so has the type for it. */
static bool is_syntax(const struct cay_result *result)
{
    static const char *const types[] = { "SyntaxError", "ParseError", "IndentationError",
                                         "TabError" };
    const struct cay_failure *failure = result->failure;
    bool has_type = false;

    for (size_t i = 0; failure->type && i < ARRAY_LEN(types); i++)
        has_type = has_type || strcmp(failure->type, types[i]) == 0;
    if (result->verdict.cause == CAY_CAUSE_COMPILE)
        return has_type;
    if (strcmp(failure->category, "syntax") == 0)
        return true;
    /* A name that is declared twice; but not data that JSON.parse can't make sense of. */
    return has_type && strcmp(failure->category, "name") == 0;
}

/* " (main.rs, line 3)", where it is known and the text does not have it. */
static const char *place_of(struct arena *arena, const struct cay_failure *failure,
                            const char *details)
{
    if (!failure->file || failure->line == 0)
        return "";
    const char *line = arena_printf(arena, "line %u", failure->line);
    const char *found = strstr(details, line);
    if (found && (found[strlen(line)] < '0' || found[strlen(line)] > '9'))
        return "";
    return arena_printf(arena, " (%s, %s)", failure->file, line);
}

const char *message_explained(struct arena *arena, const struct cay_result *result,
                              const struct language *language)
{
    const struct cay_failure *failure = result->failure;
    const struct cay_verdict *verdict = &result->verdict;
    const char *message = result->error_message;

    if (!message || !language || !failure)
        return message;
    if (!errors_data_has(language->name)) /* then the language's marks are all that is known */
        return message;
    bool is_compiler = verdict->cause == CAY_CAUSE_COMPILE;
    bool is_its_code = is_compiler || (verdict->cause == CAY_CAUSE_EXIT && !language->compile[0]);
    bool is_known = failure->type && failure->message && !verdict->limit_name;
    /* An interpreter compiles too, and refuses a name that it can't find: SQL, Perl. */
    bool is_refused = is_compiler || (failure->type && strcmp(failure->type, "CompileError") == 0);
    if (is_its_code && is_known && (is_refused || is_syntax(result))) {
        const char *details = failure->message;
        details = arena_dup(arena, details, strcspn(details, "\n"));
        return arena_printf(arena, "%s %s error: %s%s", language->title,
                            is_syntax(result) ? "syntax" : "compile", details,
                            place_of(arena, failure, details));
    }
    /* The marks found something that was not the error, or nobody knows what the compiler means. */
    const char *prefix = syntax_error_prefix(arena, language);
    return strncmp(message, prefix, strlen(prefix)) == 0 ? failed_with(arena, result) : message;
}
