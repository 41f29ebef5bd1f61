/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run-options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/parse.h"
#include "cli/repeat.h"

int read_input(const char *path, size_t max, char **ret, size_t *ret_len, struct cay_error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    auto_close int opened = is_stdin ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    int fd = is_stdin ? STDIN_FILENO : opened;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return cay_fail(err, CAY_E_USAGE, "%s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return cay_fail(err, CAY_E_USAGE, "%s: is a folder", path);
    size_t size = S_ISREG(st.st_mode) && st.st_size > 0 ? (size_t)st.st_size + 1 : 65536, len = 0;
    size = MIN(size, max + 1);
    auto_free char *text = mem_alloc(size);
    for (;;) {
        if (len == size) {
            size *= 2;
            text = mem_resize(text, size);
        }
        ssize_t n = read(fd, text + len, size - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cay_fail(err, CAY_E_USAGE, "%s: %s", path, strerror(errno));
        if (n == 0)
            break;
        len += (size_t)n;
        if (len > max)
            return cay_fail(err, CAY_E_USAGE, "%s: larger than %zu bytes", path, max);
    }
    *ret_len = len;
    *ret = take_ptr(&text);
    return 0;
}

/* opt_parse puts the option's name before the message, so the field's own goes. */
static int set_field(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    struct run_args *args = target;
    char field[32];
    size_t len = strlen(opt->name);

    for (size_t i = 0; i <= len; i++)
        field[i] = opt->name[i] == '-' ? '_' : opt->name[i];
    if (cay_request_set(args->req, field, value ? value : "true", err) == 0)
        return 0;
    if (strncmp(err->msg, field, len) == 0 && strncmp(err->msg + len, ": ", 2) == 0)
        memmove(err->msg, err->msg + len + 2, strlen(err->msg + len + 2) + 1);
    return -1;
}

static int set_stdin(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    struct run_args *args = target;

    (void)opt;
    return cay_request_set(args->req, "stdin", value, err);
}

void watch_path(struct run_args *args, const char *path)
{
    if (args->watch.n < WATCH_FILES_MAX)
        args->watch.paths[args->watch.n++] = path;
}

static int add_watch(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    struct run_args *args = target;

    (void)opt;
    if (args->watch.n == WATCH_FILES_MAX)
        return cay_fail(err, CAY_E_USAGE, "more than %d files", WATCH_FILES_MAX);
    if (access(value, R_OK) < 0)
        return cay_fail(err, CAY_E_USAGE, "%s: %s", value, strerror(errno));
    args->is_watched = true;
    /* The first one is what is run where nothing else is named: it goes to the front. */
    memmove(args->watch.paths + 1, args->watch.paths, args->watch.n * sizeof *args->watch.paths);
    args->watch.paths[0] = value;
    args->watch.n++;
    return 0;
}

static int set_repeat(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    struct run_args *args = target;
    uint64_t n;

    (void)opt;
    if (parse_uint(value, REPEAT_MAX, &n) < 0 || n == 0)
        return cay_fail(err, CAY_E_USAGE, "'%.40s' is not a number from 1 to %d", value,
                        REPEAT_MAX);
    args->repeat = (unsigned)n;
    return 0;
}

/* NAME=PATH, or PATH alone, which is then the name too, but for the "./" that shells complete it
 * with. The executable bit is kept. */
static int add_file(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    struct run_args *args = target;
    const char *equals = strchr(value, '=');
    const char *path = equals ? equals + 1 : value;
    const char *bare = value;

    (void)opt;
    while (!equals && strncmp(bare, "./", 2) == 0)
        bare += 2;
    auto_free char *name = equals ? mem_dup(value, (size_t)(equals - value)) : str_dup(bare);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return cay_fail(err, CAY_E_USAGE, "%s: %s", path, strerror(errno));
    watch_path(args, path);
    if (cay_request_add_file_fd(args->req, name, fd, 0, err) == 0)
        return 0;
    if (!equals && (*value == '/' || strstr(value, "..")))
        cay_hint(err, "--file NAME=PATH says where it is put");
    return -1;
}

/* NAME=VALUE, or NAME alone for the caller's own value of it. */
static int add_env(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    struct run_args *args = target;
    const char *equals = strchr(value, '=');
    auto_free char *name = equals ? mem_dup(value, (size_t)(equals - value)) : str_dup(value);
    const char *text = equals ? equals + 1 : getenv(name);

    (void)opt;
    if (!text)
        return cay_fail(err, CAY_E_USAGE, "%s: not set in the environment", name);
    return cay_request_add_env(args->req, name, text, err);
}

/* NAME=VALUE a line, which ends as on this or that system; blank lines and those that start with #
 * are passed over. A line that is refused may be a piece of a secret: it is counted, not quoted. */
static int add_env_file(void *target, const struct opt *opt, const char *value,
                        struct cay_error *err)
{
    struct run_args *args = target;
    auto_free char *text = NULL;
    size_t len;
    unsigned number = 0;

    (void)opt;
    if (read_input(value, 1 << 20, &text, &len, err) < 0)
        return -1;
    text = mem_resize(text, len + 1);
    text[len] = '\0';
    if (strlen(text) != len)
        return cay_fail(err, CAY_E_USAGE, "%s: holds a NUL", value);
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n"))) {
        number++;
        line += strspn(line, " \t");
        len = strlen(line);
        if (len > 0 && line[len - 1] == '\r')
            line[len - 1] = '\0';
        if (*line == '#' || *line == '\0')
            continue;
        char *equals = strchr(line, '=');
        if (!equals)
            return cay_fail(err, CAY_E_USAGE, "%s:%u: '=' is missing", value, number);
        *equals = '\0';
        if (cay_request_add_env(args->req, line, equals + 1, err) < 0)
            return cay_fail(err, CAY_E_USAGE, "%s:%u: not a variable name before '='", value,
                            number);
    }
    return 0;
}

/* What is refused here is not in the help: sessions are not built yet, the others are for requests
 * to a server. */
static bool is_shown(const char *field)
{
    static const char *const hidden[] = { "session", "detach", "webhook" };

    for (size_t i = 0; i < ARRAY_LEN(hidden); i++)
        if (strcmp(hidden[i], field) == 0)
            return false;
    return true;
}

/* With the default behind it, where the text has none of its own. */
static const char *help_of(const struct cay_field *field, char *out, size_t size)
{
    bool has_default = field->initial && *field->initial && !field->is_flag;

    if (!is_shown(field->name))
        return NULL;
    snprintf(out, size, has_default && !strchr(field->help, '(') ? "%s (%s)" : "%s", field->help,
             has_default ? field->initial : "");
    return out;
}

static void make_field_rows(struct run_args *args)
{
    const struct cay_field *field;
    size_t n = 0;

    for (size_t i = 0; (field = cay_field_at(i)) && n < RUN_FIELD_ROWS - 1; i++) {
        if (strcmp(field->name, "language") == 0)
            continue; /* it stands with the code */
        for (size_t c = 0; c < sizeof args->names[n] && (c == 0 || field->name[c - 1]); c++)
            args->names[n][c] = field->name[c] == '_' ? '-' : field->name[c];
        args->fields[n] = (struct opt){
            .kind = OPT_CALL,
            .letter = strcmp(field->name, "tty") == 0 ? 't' : 0,
            .name = args->names[n],
            .arg = field->is_flag ? NULL : field->arg,
            .help = help_of(field, args->helps[n], sizeof args->helps[n]),
            .target = args,
            .call = set_field,
        };
        n++;
    }
    args->fields[n] = (struct opt){ .kind = OPT_END };
}

void run_options(struct run_args *args, bool is_exec, struct opt rows[static RUN_OPTION_ROWS])
{
    make_field_rows(args);
    const struct opt all[] = {
        { OPT_HEADING, .help = "What to run" },
        { OPT_STR, 'e', "eval", "CODE", "the code itself instead of a file", &args->code },
        { OPT_CALL, 'l', "language", "NAME",
          "language of the code, or NAME:VERSION (by file name or #! line)", args, set_field },
        { OPT_STR, 'c', NULL, "CODE", NULL, &args->code },       /* as of python3 and sh */
        { OPT_BOOL, 'i', NULL, NULL, NULL, &args->interactive }, /* as of docker: it always is */
        { OPT_CALL, 0, "file", "NAME[=PATH]", "put a file at /sandbox/NAME (repeatable)", args,
          add_file },
        { OPT_CALL, 0, "env", "NAME[=VALUE]",
          "set a variable, or pass on the caller's (repeatable)", args, add_env },
        { OPT_CALL, 0, "env-file", "FILE", "set variables from a file of NAME=VALUE lines", args,
          add_env_file },
        { OPT_CALL, 0, "stdin", "TEXT", "use this text as input instead of cay's own stdin", args,
          set_stdin },
        { OPT_STR, 0, "request", "FILE", "read a JSON request first (-: from stdin)",
          &args->request_file },
        { OPT_CALL, 0, "watch", "FILE",
          is_exec ? "run again whenever it changes (repeatable)"
                  : "run it again whenever it, or a --file, changes (repeatable)",
          args, add_watch },
        { OPT_CALL, 0, "repeat", "N", "run N times, and report how the times are spread", args,
          set_repeat },
        { OPT_HEADING, .help = "Where to run it" },
        { OPT_STR, 0, "server", "URL",
          "run on this server: http://HOST:PORT, https://…, or the path of its socket",
          &args->server },
        { OPT_STR, 0, "token-file", "FILE", "the token for --server (the variable CAY_TOKEN)",
          &args->token_file },
        { OPT_STR, 0, "ca-file", "FILE", "CA certificates for --server (the system's)",
          &args->ca_file },
        { OPT_BOOL, 0, "no-server", NULL, "run here, even if a server of this user is up",
          &args->no_server },
        { OPT_HEADING, .help = "What to show" },
        { OPT_BOOL, 0, "json", NULL, "print the result as one JSON object", &args->json },
        { OPT_BOOL, 0, "events", NULL, "print events as they happen, one JSON object per line",
          &args->events },
        { OPT_BOOL, 0, "diff", NULL, "after the run, show what it changed in its workspace",
          &args->diff },
        { OPT_BOOL, 0, "plan", NULL, "print what would be done, without running it", &args->plan },
        { OPT_BOOL, 0, "raw", NULL, "on a terminal, pass control sequences on unchanged",
          &args->raw },
        { OPT_BOOL, 0, "pretty", NULL,
          "on a terminal, show JSON with line breaks and rows of CSV as a table, at the end; "
          "with --json, indent the result",
          &args->pretty },
        { OPT_BOOL, 'q', "quiet", NULL,
          "no warnings, hints or progress from cay; why a run was stopped is still shown",
          &args->quiet },
        { OPT_BOOL, 0, "no-color", NULL, "no colours of cay's own", &args->no_color },
        { OPT_BOOL, 0, "yes", NULL, "build an image that is missing without asking", &args->yes },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &args->help },
        { OPT_HEADING, .help = "Limits and isolation" },
        { OPT_INCLUDE, .rows = args->fields },
        { OPT_END },
    };
    _Static_assert(ARRAY_LEN(all) <= RUN_OPTION_ROWS, "rows");
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        /* A command has no code. */
        if (!is_exec || (all[i].target != &args->code && all[i].letter != 'l'))
            rows[n++] = all[i];
}
