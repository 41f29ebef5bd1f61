/* SPDX-License-Identifier: Apache-2.0 */
/* `cay apply`: from a change set to the folder itself, after a look at it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cay/executions.h>

#include "base/auto.h"
#include "base/error.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "cli/changes-view.h"
#include "cli/commands.h"
#include "cli/print.h"

enum { LIST_MAX = 40, OBSTACLES_MAX = 20, ONLY_MAX = 64 };

static const char about[] = "Writes what a run changed in its workspace to the folder itself, "
                            "after showing it: all of it,\n"
                            "or nothing where the folder was changed meanwhile. Each file is "
                            "replaced in one step, what is\n"
                            "deleted goes last, no symlink is followed. ID as in `cay show`.";

static const char examples[] = "  cay apply last\n"
                               "  cay apply 3f2a --dry-run\n"
                               "  cay apply last --only 'src/**' --yes\n";

struct apply_args {
    bool yes, dry_run, no_color, help;
    const char *only[ONLY_MAX + 1];
    size_t n_only;
    size_t obstacles;
};

static int add_only(void *target, const struct opt *opt, const char *value, struct cay_error *err)
{
    struct apply_args *args = target;

    (void)opt;
    if (args->n_only == ONLY_MAX)
        return cay_fail(err, CAY_E_USAGE, "more than %d globs", ONLY_MAX);
    args->only[args->n_only++] = value;
    return 0;
}

static void on_obstacle(void *arg, const char *path, const char *why)
{
    struct apply_args *args = arg;
    auto_strbuf struct strbuf name = { 0 };

    if (args->obstacles++ >= OBSTACLES_MAX)
        return;
    changes_put_path(&name, path);
    print_message("%s: %s", strbuf_str(&name), why);
}

static int try_apply(struct cay_execution *run, struct apply_args *args, bool dry_run)
{
    const struct cay_apply_options options = {
        .only = args->n_only ? args->only : NULL,
        .dry_run = dry_run,
        .on_obstacle = dry_run ? on_obstacle : NULL,
        .arg = args,
    };
    struct cay_error err;

    if (cay_execution_apply(run, &options, &err) == 0)
        return 0;
    if (args->obstacles > OBSTACLES_MAX)
        print_message("and %zu more", args->obstacles - OBSTACLES_MAX);
    return changes_print_error(run, &err);
}

/* Only a yes is one. */
static bool is_agreed(const char *folder)
{
    auto_strbuf struct strbuf line = { 0 };
    char answer[16] = "";

    strbuf_printf(&line, "%swrite this to ", print_prefix());
    changes_put_path(&line, folder);
    strbuf_puts(&line, "? [y/N] ");
    if (write(STDERR_FILENO, line.data, line.len) < 0 || !fgets(answer, sizeof answer, stdin))
        return false;
    answer[strcspn(answer, "\n")] = '\0';
    return strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0;
}

static int apply_run(struct cay_execution *run, struct apply_args *args)
{
    auto_strbuf struct strbuf out = { 0 };
    struct cay_error err;

    /* All that can be wrong is found before anything is asked or written. */
    int status = try_apply(run, args, true);
    if (status != 0)
        return status;
    size_t more = changes_put_list(&out, run, args->n_only ? args->only : NULL, LIST_MAX,
                                   use_color(STDOUT_FILENO, args->no_color));
    if (more > 0)
        strbuf_printf(&out, "  and %zu more\n", more);
    status = print_text(strbuf_str(&out));
    if (status != 0 || args->dry_run)
        return status;
    if (!args->yes && !isatty(STDIN_FILENO)) {
        cay_fail(&err, CAY_E_USAGE, "apply: cannot ask for confirmation: stdin is not a terminal");
        cay_hint(&err, "--yes writes without asking, --dry-run only checks");
        return print_error(&err);
    }
    if (!args->yes && !is_agreed(cay_execution_workspace(run))) {
        print_message("nothing was written");
        return 1;
    }
    status = try_apply(run, args, false);
    if (status == 0)
        print_message("written to %s", cay_execution_workspace(run));
    return status;
}

int cmd_apply(int argc, char **argv)
{
    struct apply_args args = { 0 };
    const struct opt opts[] = {
        { OPT_BOOL, 'y', "yes", NULL, "do not ask for confirmation", &args.yes },
        { OPT_CALL, 0, "only", "GLOB",
          "only paths (or folders) that match, as `cay show` lists them (repeatable)", &args,
          add_only },
        { OPT_BOOL, 0, "dry-run", NULL, "check and show everything, write nothing", &args.dry_run },
        { OPT_BOOL, 0, "no-color", NULL, "no colours", &args.no_color },
        { OPT_BOOL, 'h', "help", NULL, "show this help", &args.help },
        { OPT_END },
    };
    struct cay_error err;
    struct cay_execution *run;
    int first;

    if (opt_parse(opts, argc, argv, 0, &first, NULL, &err) < 0)
        return print_error(&err);
    if (args.help)
        return print_help("cay apply [options] ID", about, opts, examples);
    if (first == argc) {
        cay_fail(&err, CAY_E_USAGE, "apply: which execution?");
        cay_hint(&err, "cay apply ID, or `cay apply last`");
        return print_error(&err);
    }
    if (first + 1 < argc)
        return print_unexpected_argument("apply", argv[first + 1]);
    if (cay_execution_open(argv[first], &run, &err) < 0)
        return print_error(&err);
    int status = apply_run(run, &args);
    cay_execution_close(run);
    return status;
}
