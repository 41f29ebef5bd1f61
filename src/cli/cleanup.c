/* SPDX-License-Identifier: Apache-2.0 */
/* `cay cleanup`: what belongs to nobody any more. */
#include <stdio.h>
#include <string.h>

#include <cay/record.h>
#include <cay/run.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/tell.h"

static const char about[] =
    "Removes what this user's killed runs and servers left on this host: cgroups, containers,\n"
    "work folders, unfinished images, sockets, and journals (their runs are recorded first);\n"
    "also executions and artifacts past keep_executions, keep_days and keep_bytes. Nothing that\n"
    "a live cay uses is touched. Most of this happens by itself at the next run, too.";

static const char examples[] = "  cay cleanup --dry-run\n"
                               "  cay cleanup\n";

struct told {
    struct strbuf out;
    bool dry_run;
    size_t n;
};

static void on_removed(void *arg, const char *what, const char *name)
{
    struct told *told = arg;

    told->n++;
    strbuf_puts(&told->out, told->dry_run ? "would remove " : "removed ");
    strbuf_printf(&told->out, "%s ", what);
    tell_visible(&told->out, name);
    strbuf_putc(&told->out, '\n');
}

int cmd_cleanup(int argc, char **argv)
{
    const struct cay_options options = { .no_project = true };
    struct told told = { 0 };
    bool help = false;
    const struct opt opts[] = {
        { OPT_BOOL, 'n', "dry-run", NULL, "only say what would be removed", &told.dry_run },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    struct cay_error err;
    struct cay *cay;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return tell_error(&err);
    if (help)
        return tell_help("cay cleanup [--dry-run]", about, opts, examples);
    if (first < argc)
        return tell_extra("cleanup", argv[first]);
    if (cay_open(&options, &cay, &err) < 0)
        return tell_error(&err);
    const struct cay_cleanup how = { told.dry_run, on_removed, &told };
    int rc = cay_cleanup(cay, &how, &err);
    cay_close(cay);
    if (told.n == 0 && rc == 0)
        strbuf_puts(&told.out, "nothing to remove\n");
    int status = tell_text(strbuf_str(&told.out));
    strbuf_done(&told.out);
    return rc < 0 ? tell_error(&err) : status;
}
