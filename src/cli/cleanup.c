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
#include "cli/print.h"

static const char about[] =
    "Removes what this user's killed runs and servers left on this host: cgroups, containers,\n"
    "work folders, unfinished images, sockets, and journals (their runs are recorded first);\n"
    "also executions and artifacts past keep_executions, keep_days and keep_bytes. Nothing that\n"
    "a live cay uses is touched. Most of this happens by itself at the next run, too.";

static const char examples[] = "  cay cleanup --dry-run\n"
                               "  cay cleanup\n";

struct removal {
    struct strbuf out;
    bool dry_run;
    size_t n;
};

static void on_removed(void *arg, const char *what, const char *name)
{
    struct removal *removal = arg;

    removal->n++;
    strbuf_puts(&removal->out, removal->dry_run ? "would remove " : "removed ");
    strbuf_printf(&removal->out, "%s ", what);
    sanitize_text(&removal->out, name);
    strbuf_putc(&removal->out, '\n');
}

int cmd_cleanup(int argc, char **argv)
{
    const struct cay_options options = { .no_project = true };
    struct removal removal = { 0 };
    bool help = false;
    const struct opt opts[] = {
        { OPT_BOOL, 'n', "dry-run", NULL, "only say what would be removed", &removal.dry_run },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &help },
        { OPT_END },
    };
    struct cay_error err;
    struct cay *cay;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (help)
        return print_help("cay cleanup [--dry-run]", about, opts, examples);
    if (first < argc)
        return print_unexpected_argument("cleanup", argv[first]);
    if (cay_open(&options, &cay, &err) < 0)
        return print_error(&err);
    const struct cay_cleanup cleanup = { removal.dry_run, on_removed, &removal };
    int rc = cay_cleanup(cay, &cleanup, &err);
    cay_close(cay);
    if (removal.n == 0 && rc == 0)
        strbuf_puts(&removal.out, "nothing to remove\n");
    int status = print_text(strbuf_str(&removal.out));
    strbuf_done(&removal.out);
    return rc < 0 ? print_error(&err) : status;
}
