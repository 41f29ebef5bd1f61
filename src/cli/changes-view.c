/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/changes-view.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/print.h"
#include "cli/sanitize.h"

enum { NEWEST_MAX = 1000 };

void changes_bytes_text(char out[static 32], uint64_t bytes)
{
    static const char *const units[] = { "kB", "MB", "GB", "TB", "PB" };
    double value = (double)bytes;
    size_t unit = 0;

    if (bytes < 1000) {
        snprintf(out, 32, "%u byte%s", (unsigned)bytes, bytes == 1 ? "" : "s");
        return;
    }
    for (value /= 1000; value >= 999.5 && unit < ARRAY_LEN(units) - 1; unit++)
        value /= 1000;
    snprintf(out, 32, value < 9.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

void changes_put_path(struct strbuf *out, const char *path)
{
    for (; *path; path++) {
        size_t len = strcspn(path, "\n\t");
        auto_free char *part = mem_dup(path, len);
        sanitize_text(out, part);
        path += len;
        if (!*path)
            break;
        strbuf_printf(out, "\\x%02x", (unsigned char)*path);
    }
}

/* ---- the list ---- */

static void put_what(struct strbuf *out, const struct cay_change *change)
{
    bool is_deleted = change->change == CAY_DELETED;
    enum cay_file_type type = is_deleted ? change->old_type : change->type;
    char size[32], old_size[32];

    changes_bytes_text(size, is_deleted ? change->old_size : change->size);
    changes_bytes_text(old_size, change->old_size);
    if (change->change == CAY_CHANGED && change->type != change->old_type)
        strbuf_printf(out, "%s, was a %s", cay_file_type_name(type),
                      cay_file_type_name(change->old_type));
    else if (type != CAY_FILE)
        strbuf_puts(out, cay_file_type_name(type));
    else if (change->change == CAY_CHANGED && change->size != change->old_size)
        strbuf_printf(out, "%s, was %s", size, old_size);
    else
        strbuf_puts(out, size);
    if (change->change == CAY_CHANGED && change->mode != change->old_mode && type != CAY_SYMLINK)
        strbuf_printf(out, ", mode %04o, was %04o", change->mode, change->old_mode);
    if (change->target) {
        strbuf_puts(out, " to ");
        changes_put_path(out, change->target);
    }
    if (change->target && change->old_target) {
        strbuf_puts(out, ", was to ");
        changes_put_path(out, change->old_target);
    }
    if (change->is_conflict)
        strbuf_puts(out, ", CHANGED ON THE HOST MEANWHILE");
    if (type == CAY_FILE && !is_deleted && !change->has_data)
        strbuf_puts(out, ", too large to keep");
    if (change->is_applied)
        strbuf_puts(out, ", applied");
}

static const char *color_of(enum cay_change_kind change)
{
    static const char *const colors[] = {
        [CAY_UNCHANGED] = "",
        [CAY_CREATED] = "\033[32m",
        [CAY_CHANGED] = "\033[33m",
        [CAY_DELETED] = "\033[31m",
    };
    return colors[change];
}

size_t changes_put_list(struct strbuf *out, const struct cay_execution *run,
                        const char *const *only, size_t max, bool color)
{
    const struct cay_change *changes;
    size_t n = cay_execution_changes(run, &changes), shown = 0, left_out = 0;

    for (size_t i = 0; i < n; i++) {
        const struct cay_change *change = &changes[i];
        if (!cay_change_matches(change, only))
            continue;
        if (max && shown == max) {
            left_out++;
            continue;
        }
        shown++;
        strbuf_printf(out, "  %s%s%s  ", color ? color_of(change->change) : "",
                      cay_change_name(change->change), color ? "\033[0m" : "");
        changes_put_path(out, change->path);
        enum cay_file_type type = change->change == CAY_DELETED ? change->old_type : change->type;
        strbuf_puts(out, type == CAY_DIRECTORY ? "/  (" : "  (");
        put_what(out, change);
        strbuf_puts(out, ")\n");
    }
    return left_out;
}

void changes_put_sums(struct strbuf *out, const struct cay_change_sums *sums)
{
    const struct {
        size_t n;
        const char *word;
    } parts[] = {
        { sums->created, "created" },
        { sums->changed, "changed" },
        { sums->deleted, "deleted" },
    };
    const char *between = "";

    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (parts[i].n == 0)
            continue;
        strbuf_printf(out, "%s%zu %s", between, parts[i].n, parts[i].word);
        between = ", ";
    }
    if (!*between)
        strbuf_puts(out, "nothing");
}

void changes_print_summary(const struct cay_execution *run)
{
    auto_strbuf struct strbuf text = { 0 };
    struct cay_change_sums sums;
    char size[32];

    cay_execution_sums(run, &sums);
    if (sums.created + sums.changed + sums.deleted == 0)
        return;
    changes_put_sums(&text, &sums);
    print_message("workspace: %s; the folder itself is untouched", strbuf_str(&text));
    if (sums.deleted_files > 0) {
        changes_bytes_text(size, sums.deleted_bytes);
        print_message("would delete %zu file%s, %s", sums.deleted_files,
                      sums.deleted_files == 1 ? "" : "s", size);
    }
    if (sums.conflicts > 0)
        print_message(
            "%zu of them %s changed on the host while the program ran: they cannot be applied",
            sums.conflicts, sums.conflicts == 1 ? "was" : "were");
    print_message(
        "`cay show --diff %.8s` shows them, `cay apply %.8s` writes them, `cay discard %.8s` "
        "drops them",
        cay_execution_id(run), cay_execution_id(run), cay_execution_id(run));
}

/* ---- the differences ---- */

struct diff_view {
    int fd;
    bool is_terminal, color;
    bool is_broken;
    struct strbuf out;
};

/* Headers, hunk marks, and lines by their first character. */
static const char *line_color(const char *line, bool is_head)
{
    if (is_head)
        return "\033[1m";
    switch (line[0]) {
    case '@':
        return "\033[36m";
    case '+':
        return "\033[32m";
    case '-':
        return "\033[31m";
    default:
        return "";
    }
}

static int put_diff(void *arg, const char *data, size_t len)
{
    struct diff_view *view = arg;
    bool is_head = true; /* up to the first hunk, it is about the file */

    view->out.len = 0;
    for (size_t at = 0; at < len;) {
        const char *end = memchr(data + at, '\n', len - at);
        size_t line_len = end ? (size_t)(end - data) - at : len - at;
        struct sanitizer sanitizer = { 0 };
        is_head = is_head && !(line_len > 1 && memcmp(data + at, "@@", 2) == 0);
        const char *color = view->color ? line_color(data + at, is_head) : "";
        strbuf_puts(&view->out, color);
        if (view->is_terminal)
            sanitize_put(&sanitizer, &view->out, data + at, line_len);
        else
            strbuf_add(&view->out, data + at, line_len);
        sanitize_end(&sanitizer, &view->out);
        strbuf_puts(&view->out, *color ? "\033[0m\n" : "\n");
        at += line_len + 1;
    }
    for (size_t at = 0; at < view->out.len && !view->is_broken;) {
        ssize_t n = write(view->fd, view->out.data + at, view->out.len - at);
        if (n < 0 && errno != EINTR)
            view->is_broken = true;
        at += n > 0 ? (size_t)n : 0;
    }
    return view->is_broken ? -1 : 0;
}

int changes_print_diff(const struct cay_execution *run, const char *const *only, int fd, bool color)
{
    struct diff_view view = { .fd = fd, .is_terminal = isatty(fd), .color = color };
    struct cay_error err;
    int rc = cay_execution_diff(run, only, put_diff, &view, &err);

    strbuf_done(&view.out);
    return rc < 0 ? print_error(&err) : view.is_broken ? 125 : 0;
}

int changes_print_error(const struct cay_execution *run, const struct cay_error *err)
{
    struct cay_error with_hint = *err, unlisted;
    auto_free char *json = NULL;
    json_t *row;
    size_t i;

    if (cay_execution_state(run) || cay_executions_json(NEWEST_MAX, &json, &unlisted) < 0)
        return print_error(err);
    json_t *list = json_loads(json, 0, NULL);
    json_array_foreach (list, i, row) {
        const char *id = json_string_value(json_object_get(row, "id"));
        const char *state = json_string_value(json_object_get(row, "changes"));
        if (!id || !state || strcmp(state, "pending") != 0)
            continue;
        with_hint.hint[0] = '\0';
        cay_hint(&with_hint, "the newest run with changes is %.8s", id);
        break;
    }
    json_decref(list);
    return print_error(&with_hint);
}
